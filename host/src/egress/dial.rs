//! Connecting: a name is resolved once, each address is judged, and one that passed is dialled.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::client::TlsStream;
use wasmtime_wasi_http::Error;

use super::policy::{Policy, Refused};
use super::tls::Tls;
use crate::host::Inner;

/// Addresses of a name that are tried, one after another.
const MAX_ADDRESSES: usize = 4;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("refused by policy: {0}")]
    Refused(Refused),
    #[error("resolve the name")]
    Resolve(#[source] io::Error),
    #[error("the name has no address")]
    NoAddress,
    #[error("connect")]
    Connect(#[source] io::Error),
    #[error("TLS handshake")]
    Handshake(#[source] io::Error),
    #[error("TLS is not set up: {0}")]
    NoTls(String),
    #[error("no name to connect to")]
    NoHost,
    #[error("too slow")]
    TimedOut,
    #[error("too many connections of the function")]
    TooMany,
}

impl DialError {
    /// As the guest sees it.
    pub(super) fn to_wasi(&self) -> Error {
        match self {
            Self::Refused(_) => Error::DestinationIpProhibited,
            Self::Resolve(_) | Self::NoAddress => {
                Error::DnsError { rcode: Some("address not available".to_owned()), info_code: None }
            }
            Self::Connect(error) if error.kind() == io::ErrorKind::ConnectionRefused => Error::ConnectionRefused,
            Self::Connect(_) => Error::DestinationUnavailable,
            Self::Handshake(error) => {
                let certificate = error
                    .get_ref()
                    .and_then(|source| source.downcast_ref::<rustls::Error>())
                    .is_some_and(|error| matches!(error, rustls::Error::InvalidCertificate(_)));
                if certificate { Error::TlsCertificateError } else { Error::TlsProtocolError }
            }
            Self::NoTls(_) => Error::ConfigurationError,
            Self::NoHost => Error::HttpRequestUriInvalid,
            Self::TimedOut => Error::ConnectionTimeout,
            Self::TooMany => Error::ConnectionLimitReached,
        }
    }
}

/// Makes the connections of one function.
#[derive(Clone)]
pub(super) struct Dialer {
    policy: Arc<Policy>,
    host: Arc<Inner>,
    permits: Arc<Semaphore>,
}

impl Dialer {
    pub(super) fn new(policy: Policy, host: &Arc<Inner>) -> Self {
        let permits = Arc::new(Semaphore::new(host.settings.egress.connections_each as usize));
        Self { policy: Arc::new(policy), host: host.clone(), permits }
    }

    async fn dial(self, uri: Uri) -> Result<Dialed, DialError> {
        let https = uri.scheme() == Some(&http::uri::Scheme::HTTPS);
        let host = uri.host().ok_or(DialError::NoHost)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase();
        let port = uri.port_u16().unwrap_or(if https { 443 } else { 80 });
        let within = self.host.settings.egress.connect_timeout;
        tokio::time::timeout(within, async {
            // Held by the connection for its life, idle time included.
            let permit = self.permits.clone().acquire_owned().await.map_err(|_| DialError::TooMany)?;
            let addresses = choose(&self.policy, &host, port, resolve(&host, port).await?)?;
            let stream = connect(&addresses).await?;
            stream.set_nodelay(true).map_err(DialError::Connect)?;
            let stream = if https { secure(&self.host, &host, stream).await? } else { Stream::Plain(stream) };
            Ok(Dialed { stream: TokioIo::new(stream), _permit: permit })
        })
        .await
        .unwrap_or_else(|_| {
            Err(if self.permits.available_permits() == 0 { DialError::TooMany } else { DialError::TimedOut })
        })
    }
}

async fn resolve(host: &str, port: u16) -> Result<Vec<IpAddr>, DialError> {
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    let found = tokio::net::lookup_host((host, port)).await.map_err(DialError::Resolve)?;
    Ok(found.map(|address| address.ip()).collect())
}

/// The addresses that may be dialled. None of them may: the first refusal.
fn choose(policy: &Policy, host: &str, port: u16, found: Vec<IpAddr>) -> Result<Vec<SocketAddr>, DialError> {
    let mut refused = None;
    let mut allowed = Vec::new();
    for address in found {
        match policy.check(host, address, port) {
            Ok(()) => allowed.push(SocketAddr::new(address, port)),
            Err(refusal) => {
                refused.get_or_insert(refusal);
            }
        }
    }
    match (allowed.is_empty(), refused) {
        (false, _) => Ok(allowed),
        (true, Some(refusal)) => Err(DialError::Refused(refusal)),
        (true, None) => Err(DialError::NoAddress),
    }
}

async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, DialError> {
    let mut last = DialError::NoAddress;
    for address in addresses.iter().take(MAX_ADDRESSES) {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = DialError::Connect(error),
        }
    }
    Err(last)
}

async fn secure(host: &Inner, name: &str, stream: TcpStream) -> Result<Stream, DialError> {
    let tls = host.tls.get_or_init(|| Tls::new(host.settings.egress.roots.as_deref()));
    let tls = tls.as_ref().map_err(|error| DialError::NoTls(error.clone()))?;
    let name = ServerName::try_from(name.to_owned()).map_err(|_| DialError::NoHost)?;
    let stream = tls.0.connect(name, stream).await.map_err(DialError::Handshake)?;
    Ok(Stream::Tls(Box::new(stream)))
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// An outbound connection.
pub(super) struct Dialed {
    stream: TokioIo<Stream>,
    _permit: OwnedSemaphorePermit,
}

impl tower::Service<Uri> for Dialer {
    type Response = Dialed;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<Dialed, DialError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().dial(uri))
    }
}

impl Connection for Dialed {
    fn connected(&self) -> Connected {
        let h2 = match self.stream.inner() {
            Stream::Plain(_) => false,
            Stream::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(b"h2"),
        };
        if h2 { Connected::new().negotiated_h2() } else { Connected::new() }
    }
}

impl hyper::rt::Read for Dialed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl hyper::rt::Write for Dialed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn only_the_addresses_that_passed_are_dialled() {
        let policy = Policy::new(&[]);
        let chosen = choose(&policy, "x", 443, addresses(&["10.0.0.1", "1.1.1.1", "::1", "169.254.169.254"])).unwrap();
        assert_eq!(chosen, ["1.1.1.1:443".parse().unwrap()]);
        for private in [&["127.0.0.1"][..], &["10.0.0.1", "::1"], &["169.254.169.254"]] {
            assert!(matches!(choose(&policy, "x", 80, addresses(private)), Err(DialError::Refused(_))));
        }
        assert!(matches!(choose(&policy, "x", 80, Vec::new()), Err(DialError::NoAddress)));
    }

    #[tokio::test]
    async fn numbers_that_resolvers_read_as_addresses_are_judged_as_addresses() {
        // `getaddrinfo` reads these as 127.0.0.1; some resolvers refuse them, which is as good.
        for odd in ["2130706433", "0x7f.1", "127.1", "0177.0.0.1"] {
            let found = resolve(odd, 80).await.unwrap_or_default();
            assert!(choose(&Policy::new(&[]), odd, 80, found).is_err(), "{odd}");
        }
    }
}
