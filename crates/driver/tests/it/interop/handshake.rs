//! Handshakes: application protocol, certificates, and errors in them.

use pathmark_driver::{ClientConfig, Endpoint};
use pathmark_transport::crypto::tls::{Pin, TlsClientConfig, Trust};

use super::support::bounded;
use super::support::peers::{
    ALPN, Client, End, Identity, NAME, Options, Pair, STRANGERS, Server, Stack, loopback,
};

/// CRYPTO_ERROR with this TLS alert (RFC 9001 §4.8).
const fn alert(number: u64) -> u64 {
    0x100 + number
}

const UNKNOWN_CA: u64 = alert(48);
const BAD_CERTIFICATE: u64 = alert(42);
const NO_APPLICATION_PROTOCOL: u64 = alert(120);

#[tokio::test]
async fn both_sides_agree_on_protocol_name_and_certificate() {
    bounded(async {
        for stacks in STRANGERS {
            let pair = Pair::new(stacks, &Options::default()).await;
            assert_eq!(pair.client.agreed().0.as_deref(), Some(ALPN), "{stacks:?}");
            let (protocol, name) = pair.server.agreed();
            assert_eq!(protocol.as_deref(), Some(ALPN), "{stacks:?}");
            assert_eq!(name.as_deref(), Some(NAME), "{stacks:?}");
            let certificates = pair.client.certificates();
            assert_eq!(certificates, [Identity::trusted().chain[0].to_vec()]);
        }
    })
    .await;
}

/// Returns the errors at both ends of a handshake that must fail.
async fn failure(stacks: (Stack, Stack), client: &Options, server: &Options) -> (End, End) {
    let listening = Server::start(stacks.1, server);
    let connecting = Client::start(stacks.0);
    let (ours, theirs) = tokio::join!(
        connecting.connect(listening.address(), client),
        listening.accept()
    );
    (ours.unwrap_err(), theirs.unwrap_err())
}

/// On several threads, connection IDs are used as soon as they are issued.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn hundreds_of_connections_one_after_the_other() {
    bounded(async {
        for stacks in STRANGERS {
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
        }
    })
    .await;
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused() {
    bounded(async {
        let server = Options {
            identity: Identity::foreign(),
            ..Options::default()
        };
        for stacks in STRANGERS {
            let (ours, theirs) = failure(stacks, &Options::default(), &server).await;
            assert_eq!(ours, End::Transport(UNKNOWN_CA), "{stacks:?}");
            assert_eq!(theirs, End::PeerTransport(UNKNOWN_CA), "{stacks:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_certificate_of_another_name_is_refused() {
    bounded(async {
        let client = Options {
            name: "elsewhere.test",
            ..Options::default()
        };
        for stacks in STRANGERS {
            let (ours, theirs) = failure(stacks, &client, &Options::default()).await;
            assert_eq!(ours, End::Transport(BAD_CERTIFICATE), "{stacks:?}");
            assert_eq!(theirs, End::PeerTransport(BAD_CERTIFICATE), "{stacks:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn ends_without_a_common_protocol_say_so() {
    bounded(async {
        let client = Options {
            alpn: b"another",
            ..Options::default()
        };
        for stacks in STRANGERS {
            let (ours, theirs) = failure(stacks, &client, &Options::default()).await;
            assert_eq!(ours, End::PeerTransport(NO_APPLICATION_PROTOCOL));
            assert_eq!(theirs, End::Transport(NO_APPLICATION_PROTOCOL));
        }
    })
    .await;
}

#[tokio::test]
async fn a_pinned_certificate_needs_no_authority() {
    bounded(async {
        let options = Options {
            identity: Identity::foreign(),
            ..Options::default()
        };
        let server = Server::start(Stack::Quinn, &options);
        let endpoint = Endpoint::client(loopback()).unwrap();
        let connect = |pin| {
            let tls = TlsClientConfig::new(Trust::Pin(pin), &[ALPN]).unwrap();
            let config = ClientConfig::new(std::sync::Arc::new(tls), options.transport());
            let connecting = endpoint.connect_with(config, server.address(), "any.test");
            connecting.unwrap()
        };
        let right = Pin::of(&Identity::foreign().chain[0]);
        let (ours, theirs) = tokio::join!(connect(right), server.accept());
        ours.unwrap();
        theirs.unwrap();

        let wrong = Pin::of(&Identity::trusted().chain[0]);
        let (ours, theirs) = tokio::join!(connect(wrong), server.accept());
        ours.unwrap_err();
        theirs.unwrap_err();
    })
    .await;
}
