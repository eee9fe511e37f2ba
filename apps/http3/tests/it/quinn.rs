//! Interoperability with another QUIC stack: quinn, with the `h3` crate's own adapter, as client
//! and server.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use http::{Request, Response, StatusCode};
use pathmark_http3::fields::sha256_field;
use pathmark_http3::plan::PutRights;
use pathmark_http3::root::Existing;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use sha2::{Digest, Sha256};

use crate::support::{
    Identity, NAME, Served, client, content, loopback, names, path, request, run,
};

const LARGE: usize = 5_000_000;

type Sender = SendRequest<h3_quinn::OpenStreams, Bytes>;

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

async fn quinn_client(identity: &Identity, to: SocketAddr) -> Sender {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(identity.chain[0].clone()).unwrap();
    let tls = rustls::ClientConfig::builder_with_provider(provider());
    let tls = tls
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap();
    let mut tls = tls.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let tls = QuicClientConfig::try_from(tls).unwrap();
    let endpoint = quinn::Endpoint::client(loopback()).unwrap();
    let config = quinn::ClientConfig::new(Arc::new(tls));
    let connection = endpoint
        .connect_with(config, to, NAME)
        .unwrap()
        .await
        .unwrap();
    let connection = h3_quinn::Connection::new(connection);
    let (mut driver, sender) = h3::client::new(connection).await.unwrap();
    tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
    sender
}

async fn ask(sender: &mut Sender, request: Request<()>, body: &[u8]) -> (Response<()>, Vec<u8>) {
    let mut stream = sender.send_request(request).await.unwrap();
    // A server that refuses the request stops the content.
    let sent = stream.send_data(Bytes::copy_from_slice(body)).await;
    if sent.is_ok() {
        let _ = stream.finish().await;
    }
    let head = stream.recv_response().await.unwrap();
    let mut content = Vec::new();
    while let Some(mut data) = stream.recv_data().await.unwrap() {
        content.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    (head, content)
}

#[test]
fn quinn_fetches_and_stores_at_the_origin() {
    run(async {
        let served = Served::new(PutRights::New);
        let large = content(LARGE);
        served.write("large", &large).await;
        let mut sender = quinn_client(&served.identity, served.address).await;
        let (head, got) = ask(&mut sender, request("GET", "/large", &[]), b"").await;
        assert!(head.status() == StatusCode::OK && got == large);
        let tag = head.headers()["etag"].to_str().unwrap().to_owned();
        let range = [("range", "bytes=4000000-"), ("if-range", &tag)];
        let (head, got) = ask(&mut sender, request("GET", "/large", &range), b"").await;
        assert!(head.status() == StatusCode::PARTIAL_CONTENT && got == large[4_000_000..]);
        assert_eq!(
            head.headers()["content-range"],
            "bytes 4000000-4999999/5000000"
        );
        let (head, got) = ask(&mut sender, request("HEAD", "/large", &[]), b"").await;
        assert!(head.status() == StatusCode::OK && got.is_empty());
        let (head, got) = ask(&mut sender, request("GET", "/", &[]), b"").await;
        assert!(head.status() == StatusCode::OK && got.starts_with(b"{\"entries\":["));
        let digest = sha256_field(&Sha256::digest(&large).into());
        let fields = [("repr-digest", digest.as_str()), ("if-none-match", "*")];
        let (head, _) = ask(&mut sender, request("PUT", "/stored", &fields), &large).await;
        assert_eq!(head.status(), StatusCode::CREATED);
        assert!(served.read("stored") == large);
        let (head, _) = ask(&mut sender, request("PUT", "/stored", &fields), &large).await;
        assert_eq!(head.status(), StatusCode::PRECONDITION_FAILED);
        assert_eq!(served.origin.counts().broken_off, 0);
    });
}

/// Starts a server on quinn that serves one content with ranges, and aborts its first response.
fn quinn_server(identity: &Identity, body: Vec<u8>) -> SocketAddr {
    let tls = rustls::ServerConfig::builder_with_provider(provider());
    let tls = tls
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap();
    let tls = tls.with_no_client_auth();
    let mut tls = tls
        .with_single_cert(identity.chain.clone(), identity.key())
        .unwrap();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let tls = QuicServerConfig::try_from(tls).unwrap();
    let config = quinn::ServerConfig::with_crypto(Arc::new(tls));
    let endpoint = quinn::Endpoint::server(config, loopback()).unwrap();
    let address = endpoint.local_addr().unwrap();
    let body = Bytes::from(body);
    tokio::spawn(async move {
        let mut first = true;
        while let Some(incoming) = endpoint.accept().await {
            let connection = h3_quinn::Connection::new(incoming.await.unwrap());
            let mut server = h3::server::Connection::new(connection).await.unwrap();
            while let Ok(Some(resolver)) = server.accept().await {
                let (request, mut stream) = resolver.resolve_request().await.unwrap();
                let range = request.headers().get("range");
                let from: usize = range.map_or(0, |range| {
                    let range = range.to_str().unwrap().strip_prefix("bytes=").unwrap();
                    range.trim_end_matches('-').parse().unwrap()
                });
                let part = body.slice(from..);
                let head = Response::builder()
                    .header("etag", "\"v1\"")
                    .header("content-length", part.len());
                let head = match from {
                    0 => head,
                    _ => head.status(206).header(
                        "content-range",
                        format!("bytes {from}-{}/{}", body.len() - 1, body.len()),
                    ),
                };
                stream.send_response(head.body(()).unwrap()).await.unwrap();
                if request.method() == "HEAD" {
                    stream.finish().await.unwrap();
                } else if std::mem::take(&mut first) {
                    let half = part.slice(..part.len() / 2);
                    stream.send_data(half).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(500)).await;
                    stream.stop_stream(h3::error::Code::H3_INTERNAL_ERROR);
                } else {
                    stream.send_data(part).await.unwrap();
                    stream.finish().await.unwrap();
                }
            }
        }
    });
    address
}

#[test]
fn the_client_fetches_from_quinn_and_goes_on_after_a_break() {
    run(async {
        let identity = Identity::new();
        let large = content(LARGE);
        let address = quinn_server(&identity, large.clone());
        let here = tempfile::tempdir().unwrap();
        let target = here.path().join("target");
        let client = client(&identity, address).await;
        let broken = client.get(&path("/x"), &target, Existing::Keep).await;
        assert!(broken.is_err(), "{broken:?}");
        assert_eq!(names(here.path()).len(), 2);
        let fetched = client.get(&path("/x"), &target, Existing::Keep).await;
        let fetched = fetched.unwrap();
        assert!(fetched.resumed > 0 && fetched.bytes == LARGE as u64);
        assert!(std::fs::read(&target).unwrap() == large);
        assert_eq!(names(here.path()), ["target"]);
    });
}
