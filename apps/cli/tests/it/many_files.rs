//! Many small files at once, in one process: if the server confirms a file, this is a success.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use pathmark::cc::Algorithm;
use pathmark::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark::{ClientConfig, Endpoint, ServerConfig};
use pathmark_http3::client::{Client, ClientLimits};
use pathmark_http3::fields::PathName;
use pathmark_http3::origin::{Limits, Origin};
use pathmark_http3::plan::{PutRights, Rules};
use pathmark_http3::root::{Existing, Root};
use pathmark_http3::wire::ALPN;
use tempfile::TempDir;

const FILES: usize = 1_500;
const AT_ONCE: usize = 32;

async fn connected(directory: &TempDir) -> (Endpoint, Client) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let alpn: &[&[u8]] = &[ALPN];
    let tls = TlsServerConfig::new(vec![made.cert.der().clone()], key.into(), alpn).unwrap();
    let transport = Arc::new(pathmark::transport_config(&Algorithm::default()));
    let config = ServerConfig::with_transport(Arc::new(tls), Arc::clone(&transport));
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Endpoint::server(config, loopback).unwrap();
    let rules = Rules {
        put: PutRights::New,
        ..Rules::default()
    };
    let root = Root::open(directory.path()).unwrap();
    let origin = Origin::new(root, rules, Limits::default());
    let serving = server.clone();
    tokio::spawn(async move {
        let incoming = serving.accept().await.unwrap();
        origin.serve(incoming.await.unwrap()).await
    });
    let tls = TlsClientConfig::new(Trust::Anyone, alpn).unwrap();
    let endpoint = Endpoint::client(loopback).unwrap();
    let config = ClientConfig::with_transport(Arc::new(tls), transport);
    let connecting = endpoint.connect_with(config, server.local_address(), "localhost");
    let connection = connecting.unwrap().await.unwrap();
    let client = Client::new(connection, "localhost", ClientLimits::default());
    (server, client.await.unwrap())
}

/// The server drops its part of a stream as soon as it has answered. At this time, the client may
/// not have sent the end of its own part.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confirmed_file_is_stored_whatever_became_of_the_stream() {
    let (there, here) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let source: PathBuf = here.path().join("small");
    std::fs::write(&source, b"small").unwrap();
    let (_server, client) = connected(&there).await;
    for turn in 0..3 {
        let (client, source) = (&client, &source);
        let puts = (0..FILES / 3).map(|n| async move {
            let name = PathName::parse(format!("/{turn}/{n}").as_bytes()).unwrap();
            client.put(source, &name, Existing::Keep).await
        });
        let ended: Vec<_> = stream::iter(puts).buffer_unordered(AT_ONCE).collect().await;
        let failed: Vec<_> = ended.iter().filter_map(|put| put.as_ref().err()).collect();
        assert!(failed.is_empty(), "{} failed: {}", failed.len(), failed[0]);
    }
}
