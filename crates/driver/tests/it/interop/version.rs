//! Versions that one side doesn't support (RFC 9000 §6, RFC 8999).

use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::net::UdpSocket;

use super::support::in_time;
use super::support::peers::{Client, End, Options, Server, Stack};

/// A version that is reserved to force negotiation (RFC 9000 §15).
const GREASE: u32 = 0x1a2a_3a4a;

/// A draft that quinn supports and this library doesn't: draft-ietf-quic-transport-29.
const DRAFT: u32 = 0xff00_001d;

/// Returns a datagram that begins like a client's first packet with `version`.
fn first_packet(version: u32, length: usize) -> Vec<u8> {
    let mut packet = vec![0xc3];
    packet.extend(version.to_be_bytes());
    packet.extend([8, 1, 2, 3, 4, 5, 6, 7, 8]);
    packet.extend([5, 11, 12, 13, 14, 15]);
    packet.resize(length, 0x55);
    packet
}

#[test]
fn an_unknown_version_is_answered_with_those_spoken() {
    in_time(async {
        let server = Server::start(Stack::Ours, &Options::default());
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        socket.connect(server.address()).await.unwrap();
        // The first packet is too small for an answer, so the answer to the second one arrives
        // first.
        socket.send(&first_packet(GREASE + 1, 1199)).await.unwrap();
        socket.send(&first_packet(GREASE, 1200)).await.unwrap();
        let mut answer = [0; 1500];
        let length = socket.recv(&mut answer).await.unwrap();
        let answer = &answer[..length];
        assert!(answer[0] & 0x80 != 0, "a long header");
        assert_eq!(answer[1..5], [0; 4], "version 0");
        assert_eq!(answer[5..11], [5, 11, 12, 13, 14, 15], "to the client's id");
        let id = [8, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(answer[11..20], id, "from the server's");
        let versions: Vec<_> = answer[20..].chunks(4).collect();
        assert!(versions.contains(&&1u32.to_be_bytes()[..]), "{versions:?}");
        assert!(!versions.contains(&&GREASE.to_be_bytes()[..]));
        let Server::Ours(endpoint) = &server else {
            unreachable!("it was asked for");
        };
        assert_eq!(endpoint.stats().version_negotiations_sent, 1);
    });
}

#[test]
fn their_client_of_another_version_hears_of_it() {
    in_time(async {
        let options = Options::default();
        let server = Server::start(Stack::Ours, &options);
        let mut config = quinn::EndpointConfig::default();
        config.supported_versions(vec![DRAFT, 1]);
        let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let runtime = std::sync::Arc::new(quinn::TokioRuntime);
        let client = quinn::Endpoint::new(config, None, socket, runtime).unwrap();
        let mut config = options.quinn_client();
        config.version(DRAFT);
        let connecting = client.connect_with(config, server.address(), options.name);
        let end = connecting.unwrap().await.unwrap_err();
        assert_eq!(End::from(end), End::VersionMismatch);
    });
}

#[test]
fn our_client_hears_that_a_server_does_not_speak_its_version() {
    in_time(async {
        let options = Options::default();
        let mut config = quinn::EndpointConfig::default();
        config.supported_versions(vec![DRAFT, GREASE]);
        let server = Server::quinn(config, &options);
        let client = Client::start(Stack::Ours);
        let connecting = client.connect(server.address(), &options);
        let Server::Quinn { endpoint, .. } = &server else {
            unreachable!("it was made so");
        };
        let end = tokio::select! {
            end = connecting => end.unwrap_err(),
            _ = endpoint.accept() => panic!("heard without a common version"),
            () = tokio::time::sleep(Duration::from_secs(10)) => panic!("unanswered"),
        };
        assert_eq!(end, End::VersionMismatch);
    });
}
