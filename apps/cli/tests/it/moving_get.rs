//! Fetching a file while the client's socket changes.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use pathmark::{ClientConfig, Endpoint, tls};
use pathmark_http3::client::{Client, ClientLimits, Get, Progress};
use pathmark_http3::fields::PathName;
use pathmark_http3::http::HeaderMap;
use pathmark_http3::root::Existing;
use pathmark_http3::wire::ALPN;
use tempfile::TempDir;

use crate::common::Server;
use crate::common::offered::Offered;

const BYTES: usize = 20_000_000;

fn content() -> Vec<u8> {
    let byte = |i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8;
    (0..BYTES as u32).map(byte).collect()
}

fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

/// The command serves and the library fetches, using VCP, whose feedback belongs to one path, and
/// CUBIC.
#[tokio::test]
async fn a_get_goes_on_at_other_sockets() {
    let offered = Offered::new();
    std::fs::write(offered.path().join("big"), content()).unwrap();
    let server = Server::offering(&offered, "127.0.0.1:0", &[]);
    let (address, pin) = (server.address.parse().unwrap(), server.pin.parse().unwrap());
    for law in ["vcp+bise+wlte", "cubic"] {
        let endpoint = Endpoint::from_socket(socket(), None).unwrap();
        let trust = tls::Trust::Pin(pin);
        let tls = tls::TlsClientConfig::new(trust, &[ALPN]).unwrap();
        let transport = Arc::new(pathmark::transport_config(&law.parse().unwrap()));
        let config = ClientConfig::with_transport(Arc::new(tls), transport);
        let connecting = endpoint.connect_with(config, address, "any.test").unwrap();
        let connection = connecting.await.unwrap();
        let here = TempDir::new().unwrap();
        let target = here.path().join("big");
        let (mut come, mut moves) = (0, 0);
        let client = Client::new(connection.clone(), "any.test", ClientLimits::default());
        let client = client.await.unwrap();
        let source = PathName::parse(b"/big").unwrap();
        let how = Get {
            existing: Existing::Keep,
            headers: HeaderMap::new(),
        };
        let fetched = client.get_with(&source, &target, how, |progress| {
            if let Progress::Bytes(n) = progress {
                come += n;
                if come > (moves + 1) * BYTES as u64 / 4 {
                    moves += 1;
                    endpoint.rebind(socket()).unwrap();
                }
            }
        });
        let limit = Duration::from_secs(60);
        let fetched = tokio::time::timeout(limit, fetched).await.unwrap().unwrap();
        assert_eq!((fetched.bytes, fetched.resumed), (BYTES as u64, 0));
        assert!(std::fs::read(&target).unwrap() == content());
        assert_eq!(moves, 3);
        assert!(connection.stats().migrations >= 1);
    }
}
