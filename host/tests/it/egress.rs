//! Outbound requests: refused by policy, logged, unless allowed.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use http_body_util::Full;
use hyper_util::rt::TokioIo;
use sless_core::ports::logs::Stream;
use tokio::net::TcpListener;

use crate::world::{World, settings};

/// A server on loopback that says which host it was asked for, and counts connections.
async fn server() -> (SocketAddr, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicU32::new(0));
    let count = connections.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(
                TokioIo::new(stream),
                hyper::service::service_fn(|request: http::Request<hyper::body::Incoming>| async move {
                    let host = request.headers()["host"].to_str().unwrap_or_default().to_owned();
                    let answer = format!("{host} {}", request.uri());
                    Ok::<_, Infallible>(http::Response::new(Full::new(bytes::Bytes::from(answer))))
                }),
            ));
        }
    });
    (address, connections)
}

#[tokio::test]
async fn addresses_that_are_not_public_are_refused_and_logged() {
    let world = World::new();
    let kitchen = world.kitchen(|_| {});
    let (address, connections) = server().await;
    let port = address.port();
    let refused = [
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        format!("http://127.0.0.1:{port}/"),
        format!("http://localhost:{port}/"),
        format!("http://LOCALHOST.:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://[::1]:{port}/"),
        format!("http://0.0.0.0:{port}/"),
        "http://10.0.0.1/".to_owned(),
        "https://100.64.0.1/".to_owned(),
        "http://[64:ff9b::a9fe:a9fe]/".to_owned(),
    ];
    for url in &refused {
        let answer = kitchen.text(&format!("/fetch?{url}")).await;
        assert!(answer.contains("DestinationIpProhibited"), "{url}: {answer}");
        let row = world.row().await;
        assert!(row.log_tail.contains("refused"), "{url}: {:?}", row.log_tail);
    }
    assert_eq!(world.logs.texts(Stream::Platform).len(), refused.len());
    assert!(world.logs.texts(Stream::Platform)[0].contains("169.254.169.254"), "the address is named");
    assert_eq!(world.host.stats().egress_refused_total, refused.len() as u64);
    assert_eq!(connections.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn what_is_allowed_is_reached_under_its_own_name_over_one_connection() {
    let world = World::new();
    let (address, connections) = server().await;
    let port = address.port();
    let kitchen = world.kitchen(|spec| spec.egress.allow = vec![format!("127.0.0.1:{port}")]);
    for _ in 0..3 {
        let answer = kitchen.text(&format!("/fetch?http://localhost:{port}/a%2Fb")).await;
        assert_eq!(answer, format!("200 localhost:{port} /a%2Fb"));
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1, "kept and used again");
    let (other, _) = server().await;
    let answer = kitchen.text(&format!("/fetch?http://127.0.0.1:{}/", other.port())).await;
    assert!(answer.contains("DestinationIpProhibited"), "another port: {answer}");

    let stranger = world.kitchen(|_| {});
    let answer = stranger.text(&format!("/fetch?http://127.0.0.1:{port}/")).await;
    assert!(answer.contains("DestinationIpProhibited"), "another function's connections are not used: {answer}");
}

#[tokio::test]
async fn failures_to_connect_have_their_names() {
    let world = World::new();
    let kitchen = world.kitchen(|spec| spec.egress.allow = vec!["127.0.0.1".into()]);
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let answer = kitchen.text(&format!("/fetch?http://127.0.0.1:{unused}/")).await;
    assert!(answer.contains("ConnectionRefused"), "{answer}");
    let answer = kitchen.text("/fetch?http://no-such-host.invalid/").await;
    assert!(answer.contains("DnsError"), "{answer}");
    // A plain server where TLS is spoken to.
    let (address, _) = server().await;
    let answer = kitchen.text(&format!("/fetch?https://127.0.0.1:{}/", address.port())).await;
    assert!(answer.contains("Tls"), "{answer}");
}

/// A server that speaks TLS on loopback with a certificate for `localhost`: its root, and the names that clients asked for
/// (SNI) with the version of HTTP that was agreed on.
async fn tls_server() -> (SocketAddr, Vec<u8>, Arc<Mutex<Vec<String>>>) {
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let root = issued.cert.der().to_vec();
    let key = rustls::pki_types::PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, seen) = (acceptor.clone(), seen.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let name = stream.get_ref().1.server_name().unwrap_or("none").to_owned();
                let version =
                    String::from_utf8_lossy(stream.get_ref().1.alpn_protocol().unwrap_or_default()).into_owned();
                seen.lock().unwrap().push(format!("{name} {version}"));
                let answer = hyper::service::service_fn(|request: http::Request<hyper::body::Incoming>| async move {
                    Ok::<_, Infallible>(http::Response::new(Full::new(bytes::Bytes::from(request.uri().to_string()))))
                });
                let _ = hyper::server::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), answer)
                    .await;
            });
        }
    });
    (address, root, asked)
}

#[tokio::test]
async fn https_is_spoken_with_the_name_and_only_to_whom_the_roots_vouch_for() {
    let (address, root, asked) = tls_server().await;
    let port = address.port();
    let allow = |spec: &mut sless_core::function::FunctionSpec| {
        spec.egress.allow = vec![format!("127.0.0.1:{port}")];
    };
    let mut trusting = settings();
    trusting.egress.roots = Some(vec![root]);
    let world = World::with(trusting);
    let kitchen = world.kitchen(allow);
    for _ in 0..2 {
        let answer = kitchen.text(&format!("/fetch?https://localhost:{port}/a%2Fb?c=%20")).await;
        assert_eq!(answer, format!("200 https://localhost:{port}/a%2Fb?c=%20"));
    }
    assert_eq!(*asked.lock().unwrap(), ["localhost h2"], "one connection, used again");
    let answer = kitchen.text(&format!("/fetch?https://127.0.0.1:{port}/")).await;
    assert!(answer.contains("TlsCertificateError"), "the certificate is for another name: {answer}");

    // With the machine's roots, among which this one is not.
    let world = World::new();
    let answer = world.kitchen(allow).text(&format!("/fetch?https://localhost:{port}/")).await;
    assert!(answer.contains("TlsCertificateError"), "{answer}");
    assert_eq!(asked.lock().unwrap().len(), 1, "no request reached the server");
}
