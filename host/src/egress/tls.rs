//! One TLS configuration for all functions of a host: certificates are checked by name, with the machine's roots.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

/// The configuration.
#[derive(Clone)]
pub(crate) struct Tls(pub(crate) TlsConnector);

impl Tls {
    /// Reads the roots: those given, else the machine's.
    pub(crate) fn new(roots: Option<&[Vec<u8>]>) -> Result<Self, String> {
        let mut store = RootCertStore::empty();
        match roots {
            Some(roots) => {
                for root in roots {
                    store.add(CertificateDer::from(root.clone())).map_err(|error| error.to_string())?;
                }
            }
            None => {
                let native = rustls_native_certs::load_native_certs();
                let (added, _) = store.add_parsable_certificates(native.certs);
                if added == 0 {
                    return Err(format!("the machine has no root certificates: {:?}", native.errors));
                }
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(store)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }
}
