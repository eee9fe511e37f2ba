//! Versions that one side doesn't support (RFC 9000 §6, RFC 8999).

use std::net::Ipv4Addr;
use std::time::Duration;

use super::support::bounded;
use super::support::peers::{Client, End, Options, Server, Stack};

/// A version that is reserved to force negotiation (RFC 9000 §15).
const GREASE: u32 = 0x1a2a_3a4a;

/// A draft that quinn supports and this library doesn't: draft-ietf-quic-transport-29.
const DRAFT: u32 = 0xff00_001d;

#[tokio::test]
async fn their_client_of_another_version_hears_of_it() {
    bounded(async {
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
    })
    .await;
}

#[tokio::test]
async fn our_client_hears_that_a_server_does_not_speak_its_version() {
    bounded(async {
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
    })
    .await;
}
