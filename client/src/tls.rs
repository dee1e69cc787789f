//! TLS by rustls with ring and the system's roots, chosen here rather than process-wide.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

/// A configuration. Without `https` no roots are loaded: a machine without any still reaches its own loopback, and the
/// command line starts some milliseconds sooner.
pub(crate) fn config(https: bool) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    if https {
        let loaded = rustls_native_certs::load_native_certs();
        for error in &loaded.errors {
            tracing::debug!(%error, "a root certificate can't be loaded");
        }
        roots.add_parsable_certificates(loaded.certs);
    }
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has the suites of TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth()
}
