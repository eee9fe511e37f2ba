//! Many small files at once, in one process: what the server confirms is a success.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use pathmark::cc::Algorithm;
use pathmark::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark::{ClientConfig, Connection, Endpoint, ServerConfig};
use pathmark_files::client::{self, Progress};
use pathmark_files::incoming::Existing;
use pathmark_files::server::{FileServer, Rules};
use pathmark_files::store::Store;
use tempfile::TempDir;

const FILES: usize = 10_000;
const AT_ONCE: usize = 32;

/// A server of `directory`, and a connection to it.
async fn connected(directory: &TempDir) -> (Endpoint, Connection) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let alpn: &[&[u8]] = &[pathmark_files::ALPN];
    let tls = TlsServerConfig::new(vec![made.cert.der().clone()], key.into(), alpn).unwrap();
    let transport = Arc::new(pathmark::transport_config(&Algorithm::default()));
    let config = ServerConfig::new(Arc::new(tls), Arc::clone(&transport));
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Endpoint::server(config, loopback).unwrap();
    let rules = Rules {
        allow_put: true,
        ..Rules::default()
    };
    let files = FileServer::new(Store::open(directory.path()).unwrap(), rules);
    let serving = server.clone();
    tokio::spawn(async move { Arc::new(files).run(&serving).await });
    let tls = TlsClientConfig::new(Trust::Anyone, alpn).unwrap();
    let endpoint = Endpoint::client(loopback).unwrap();
    let config = ClientConfig::new(Arc::new(tls), transport);
    let connecting = endpoint.connect_with(config, server.local_address(), "localhost");
    (server, connecting.unwrap().await.unwrap())
}

/// The server drops its part of a stream as soon as it has answered. The client may then have the
/// end of its own part unsent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confirmed_file_is_stored_whatever_became_of_the_stream() {
    let (there, here) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let source: PathBuf = here.path().join("small");
    std::fs::write(&source, b"small").unwrap();
    let (_server, connection) = connected(&there).await;
    for turn in 0..3 {
        let (connection, source) = (&connection, &source);
        let puts = (0..FILES / 3).map(|n| async move {
            let name = format!("{turn}/{n}");
            client::put(connection, source, &name, Existing::Keep, |_: Progress| ()).await
        });
        let ended: Vec<_> = stream::iter(puts).buffer_unordered(AT_ONCE).collect().await;
        let failed: Vec<_> = ended.iter().filter_map(|put| put.as_ref().err()).collect();
        assert!(failed.is_empty(), "{} failed: {}", failed.len(), failed[0]);
    }
}
