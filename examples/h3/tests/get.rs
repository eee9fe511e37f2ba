//! A single GET and many at once, over real sockets.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use pathmark_cc::Algorithm;
use pathmark_driver::{ClientConfig, Connection, Endpoint, ServerConfig};
use pathmark_h3::{ALPN, get, serve};
use pathmark_transport::TransportConfig;
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};

const LARGE: usize = 3_000_000;

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn configs() -> (ServerConfig, ClientConfig) {
    let algorithm = Algorithm::parse("cubic").unwrap();
    let transport = Arc::new(TransportConfig::new(Arc::new(move |now, mtu| {
        algorithm.controller(now, mtu)
    })));
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let server = TlsServerConfig::new(vec![made.cert.der().clone()], key.into(), &[ALPN]).unwrap();
    let client = TlsClientConfig::new(Trust::Pin(server.pin().unwrap()), &[ALPN]).unwrap();
    (
        ServerConfig::with_transport(Arc::new(server), Arc::clone(&transport)),
        ClientConfig::with_transport(Arc::new(client), transport),
    )
}

fn content(path: &str) -> Option<Bytes> {
    match path {
        "/" => Some(Bytes::from_static(b"hello, path")),
        "/large" => Some(Bytes::from(vec![7; LARGE])),
        "/empty" => Some(Bytes::new()),
        _ => None,
    }
}

/// Starts a server for any number of connections, and returns its address with a client's
/// configuration.
fn server() -> (SocketAddr, ClientConfig) {
    let (server_config, client_config) = configs();
    let server = Endpoint::server(server_config, loopback()).unwrap();
    let address = server.local_address();
    tokio::spawn(async move {
        while let Some(incoming) = server.accept().await {
            let connecting = incoming.accept().unwrap();
            tokio::spawn(async move {
                let connection = connecting.await.unwrap();
                // Connections that clients abandon return an error here.
                let _ = serve(connection, content).await;
            });
        }
    });
    (address, client_config)
}

async fn connect(endpoint: &Endpoint, to: &(SocketAddr, ClientConfig)) -> Connection {
    let connecting = endpoint
        .connect_with(to.1.clone(), to.0, "localhost")
        .unwrap();
    connecting.await.unwrap()
}

async fn bounded<T>(test: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(30);
    tokio::time::timeout(limit, test).await.expect("in time")
}

#[tokio::test]
async fn what_is_asked_for_is_answered() {
    bounded(async {
        let to = server();
        let endpoint = Endpoint::client(loopback()).unwrap();
        for (path, status, body) in [
            ("/", StatusCode::OK, b"hello, path".to_vec()),
            ("/large", StatusCode::OK, vec![7; LARGE]),
            ("/empty", StatusCode::OK, Vec::new()),
            ("/nothing", StatusCode::NOT_FOUND, Vec::new()),
        ] {
            let connection = connect(&endpoint, &to).await;
            assert_eq!(connection.handshake_data().protocol.as_deref(), Some(ALPN));
            let uri = format!("https://localhost{path}").parse().unwrap();
            let answer = get(connection, uri).await.unwrap();
            assert!(answer == (status, body), "{path}: {:?}", answer.0);
        }
        endpoint.wait_idle().await;
    })
    .await;
}

/// Of twenty requests at once, every third is abandoned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_ask_at_once_and_some_give_up() {
    bounded(async {
        let to = server();
        let endpoint = Endpoint::client(loopback()).unwrap();
        let mut tasks = Vec::new();
        for n in 0..20 {
            let connection = connect(&endpoint, &to).await;
            let uri = "https://localhost/large".parse().unwrap();
            let task = tokio::spawn(async move {
                let (status, body) = get(connection, uri).await.unwrap();
                assert_eq!((status, body.len()), (StatusCode::OK, LARGE));
            });
            if n % 3 == 0 {
                tokio::task::yield_now().await;
                task.abort();
            } else {
                tasks.push(task);
            }
        }
        for task in tasks {
            task.await.unwrap();
        }
        endpoint.wait_idle().await;
    })
    .await;
}

/// After a write is abandoned halfway, nothing else can be sent, because the peer would take it for
/// the rest of that piece.
#[tokio::test]
async fn a_piece_that_is_given_up_is_followed_by_none() {
    bounded(async {
        let to = server();
        let endpoint = Endpoint::client(loopback()).unwrap();
        let connection = pathmark_h3::Connection::new(connect(&endpoint, &to).await);
        let (_driver, mut sender) = h3::client::new(connection).await.unwrap();
        let request = Request::post("https://localhost/").body(()).unwrap();
        let mut stream = sender.send_request(request).await.unwrap();
        let long = Bytes::from(vec![7; 20_000_000]);
        {
            // More than fits into the send buffer.
            let mut sending = pin!(stream.send_data(long));
            let polled = poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx).is_pending()));
            assert!(polled.await);
        }
        assert!(stream.send_data(Bytes::from_static(b"next")).await.is_err());
    })
    .await;
}
