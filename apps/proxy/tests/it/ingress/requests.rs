//! Messages from SOCKS and HTTP clients.

use std::time::Duration;

use pathmark_proxy::ingress::{Limits, Service};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::bed::{Bed, head, socks_address, target, within};
use super::direct::Direct;

/// Returns everything that an ingress answers to some bytes.
async fn answer(bed: &Bed<Direct>, service: Service, bytes: &[u8]) -> Vec<u8> {
    let mut client = TcpStream::connect(bed.listen(service)).await.unwrap();
    client.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    within(client.read_to_end(&mut answer)).await.unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_bytes_get_an_answer_and_open_no_flow() {
    let direct = Direct::default();
    let bed = Bed::new(direct.clone());
    // What follows a greeting.
    let request = |bytes: &[u8]| [b"\x05\x01\0", bytes].concat();
    for (bytes, expected) in [
        (b"\x04\x01\0\x50\x7f\0\0\x01\0".to_vec(), &b""[..]),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), b""),
        (b"\x05\x01\x02".to_vec(), b"\x05\xff"),
        (
            request(b"\x05\x02\0\x01\x7f\0\0\x01\0\x50"),
            b"\x05\0\x05\x07",
        ),
        (request(b"\x05\x01\0\x02"), b"\x05\0\x05\x08"),
        (
            request(b"\x05\x01\0\x01\x7f\0\0\x01\0\0"),
            b"\x05\0\x05\x01",
        ),
    ] {
        let got = answer(&bed, Service::Socks, &bytes).await;
        assert_eq!(got.get(..expected.len()), Some(expected), "{bytes:?}");
        assert_eq!(got.is_empty(), expected.is_empty(), "{bytes:?}");
    }
    let long = "b".repeat(20_000);
    for (bytes, status, says) in [
        ("GET http://a/ HTTP/1.1\r\n\r\n", "405", "use SOCKS5"),
        ("CONNECT a HTTP/1.1\r\n\r\n", "400", "a port is a number"),
        ("\x05\x01\0", "400", "not HTTP/1.1"),
        (
            &format!("CONNECT a:1 HTTP/1.1\r\nA: {long}"),
            "431",
            "too long",
        ),
    ] {
        let got = answer(&bed, Service::Http, bytes.as_bytes()).await;
        let got = String::from_utf8(got).unwrap();
        assert_eq!(got.split(' ').nth(1), Some(status), "{got}");
        assert!(got.contains(says), "{got}");
    }
    assert_eq!(bed.ingress.counts().bad_requests, 10);
    assert_eq!(direct.asked(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_says_nothing_is_left() {
    let limits = Limits {
        handshake: Duration::from_millis(50),
        ..Limits::default()
    };
    let bed = Bed::with_limits(Direct::default(), limits);
    assert_eq!(answer(&bed, Service::Socks, b"\x05\x02\0").await, b"");
    let got = answer(&bed, Service::Http, b"CONNECT a:1 HTTP/1.1\r\n").await;
    assert!(got.starts_with(b"HTTP/1.1 408 "));
    assert_eq!(bed.ingress.counts().bad_requests, 2);
}

/// Clients can send data for the target without waiting for an answer.
#[tokio::test(flavor = "multi_thread")]
async fn bytes_behind_a_request_reach_the_target() {
    let (listener, target) = target().await;
    let bed = Bed::new(Direct::default());
    let socks = [
        b"\x05\x01\0\x05\x01\0",
        &socks_address(&target)[..],
        b"early",
    ]
    .concat();
    let http = format!("CONNECT {target} HTTP/1.1\r\n\r\nearly").into_bytes();
    for (service, bytes) in [(Service::Socks, socks), (Service::Http, http)] {
        let mut client = TcpStream::connect(bed.listen(service.clone()))
            .await
            .unwrap();
        client.write_all(&bytes).await.unwrap();
        let (mut served, _) = within(listener.accept()).await.unwrap();
        client.write_all(b" late").await.unwrap();
        client.shutdown().await.unwrap();
        let mut got = String::new();
        within(served.read_to_string(&mut got)).await.unwrap();
        assert_eq!(got, "early late", "{service:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_byte_at_a_time_is_a_request_too() {
    let (listener, target) = target().await;
    let bed = Bed::new(Direct::default());
    let mut client = TcpStream::connect(bed.listen(Service::Socks))
        .await
        .unwrap();
    client.set_nodelay(true).unwrap();
    for byte in [b"\x05\x01\0\x05\x01\0", &socks_address(&target)[..]].concat() {
        client.write_all(&[byte]).await.unwrap();
    }
    within(listener.accept()).await.unwrap();
    let mut client = TcpStream::connect(bed.listen(Service::Http)).await.unwrap();
    client.set_nodelay(true).unwrap();
    for byte in format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").bytes() {
        client.write_all(&[byte]).await.unwrap();
    }
    assert!(within(head(&mut client)).await.starts_with("HTTP/1.1 200 "));
    within(listener.accept()).await.unwrap();
}
