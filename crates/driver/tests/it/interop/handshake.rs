//! Handshakes: application protocol, certificates, and errors in them.

use pathmark_driver::{ClientConfig, Endpoint};
use pathmark_transport::crypto::tls::{Pin, TlsClientConfig, Trust};
use pathmark_transport::wire::Side;

use super::support::peers::{
    ALPN, Client, End, Identity, NAME, Options, Pair, STRANGERS, Server, Stack, loopback,
};
use super::support::{each, for_each, in_time};

/// CRYPTO_ERROR with this TLS alert (RFC 9001 §4.8).
const fn alert(number: u64) -> u64 {
    0x100 + number
}

const UNKNOWN_CA: u64 = alert(48);
const BAD_CERTIFICATE: u64 = alert(42);
const NO_APPLICATION_PROTOCOL: u64 = alert(120);

#[test]
fn both_sides_agree_on_protocol_name_and_certificate() {
    for_each(STRANGERS, async |stacks| {
        let pair = Pair::new(stacks, &Options::default()).await;
        assert_eq!(pair.client.agreed().0.as_deref(), Some(ALPN), "{stacks:?}");
        let (protocol, name) = pair.server.agreed();
        assert_eq!(protocol.as_deref(), Some(ALPN), "{stacks:?}");
        assert_eq!(name.as_deref(), Some(NAME), "{stacks:?}");
        let certificates = pair.client.certificates();
        assert_eq!(certificates, [Identity::trusted().chain[0].to_vec()]);
    });
}

/// On several threads, connection IDs are used as soon as they are issued.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn hundreds_of_connections_one_after_the_other() {
    each(STRANGERS, async |stacks| {
        let options = Options::default();
        let server = Server::start(stacks.1, &options);
        let address = server.address();
        let serving = tokio::spawn(async move {
            for _ in 0..200 {
                let connection = server.accept().await.unwrap();
                tokio::spawn(async move {
                    let (mut sender, mut receiver) = connection.accept_bi().await.unwrap();
                    let asked = receiver.read_to_end().await.unwrap();
                    sender.write_all(&asked).await.unwrap();
                    sender.finish().unwrap();
                    connection.closed().await
                });
            }
            server
        });
        let client = Client::start(stacks.0);
        for n in 0..200u8 {
            let connection = client.connect(address, &options).await.unwrap();
            let (mut sender, mut receiver) = connection.open_bi().await.unwrap();
            sender.write_all(&[n; 100]).await.unwrap();
            sender.finish().unwrap();
            let back = receiver.read_to_end().await;
            assert_eq!(back, Ok(vec![n; 100]), "{stacks:?}");
        }
        serving.await.unwrap();
    })
    .await;
}

/// Either end reports a handshake that must fail with the code of the one that refuses it.
#[tokio::test]
async fn ends_that_do_not_suit_each_other_say_so() {
    let usual = Options::default;
    let foreign = Options {
        identity: Identity::foreign(),
        ..usual()
    };
    let elsewhere = Options {
        name: "elsewhere.test",
        ..usual()
    };
    let another = Options {
        alpn: b"another",
        ..usual()
    };
    for (client, server, code, refuses) in [
        (usual(), foreign, UNKNOWN_CA, Side::Client),
        (elsewhere, usual(), BAD_CERTIFICATE, Side::Client),
        (another, usual(), NO_APPLICATION_PROTOCOL, Side::Server),
    ] {
        each(STRANGERS, async |stacks| {
            let listening = Server::start(stacks.1, &server);
            let connecting = Client::start(stacks.0);
            let connect = connecting.connect(listening.address(), &client);
            let (ours, theirs) = tokio::join!(connect, listening.accept());
            let mut ends = [ours.unwrap_err(), theirs.unwrap_err()];
            if refuses == Side::Server {
                ends.reverse();
            }
            let expected = [End::Transport(code), End::PeerTransport(code)];
            assert_eq!(ends, expected, "{stacks:?}");
        })
        .await;
    }
}

#[test]
fn a_pinned_certificate_needs_no_authority() {
    in_time(async {
        let options = Options::with(|options| options.identity = Identity::foreign());
        let server = Server::start(Stack::Quinn, &options);
        let endpoint = Endpoint::client(loopback()).unwrap();
        let connect = |pin| {
            let tls = TlsClientConfig::new(Trust::Pin(pin), &[ALPN]).unwrap();
            let config =
                ClientConfig::with_transport(std::sync::Arc::new(tls), options.transport());
            let connecting = endpoint.connect_with(config, server.address(), "any.test");
            connecting.unwrap()
        };
        let right = Pin::of(&Identity::foreign().chain[0]);
        let (ours, theirs) = tokio::join!(connect(right), server.accept());
        ours.unwrap();
        theirs.unwrap();

        let wrong = Pin::of(&Identity::trusted().chain[0]);
        let (ours, theirs) = tokio::join!(connect(wrong), server.accept());
        let error = ours.unwrap_err().to_string();
        let is_named = error.contains("SHA-256") || error.contains("pin");
        assert!(is_named, "{error}");
        theirs.unwrap_err();
    });
}
