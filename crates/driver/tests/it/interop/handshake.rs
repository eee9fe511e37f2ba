//! Handshakes: application protocol, certificates, and errors in them.

use pathmark_transport::wire::Side;

use super::support::each;
use super::support::peers::{ALPN, Client, End, Identity, NAME, Options, Pair, STRANGERS, Server};

/// CRYPTO_ERROR with this TLS alert (RFC 9001 §4.8).
const fn alert(number: u64) -> u64 {
    0x100 + number
}

const UNKNOWN_CA: u64 = alert(48);
const BAD_CERTIFICATE: u64 = alert(42);
const NO_APPLICATION_PROTOCOL: u64 = alert(120);

#[tokio::test]
async fn both_sides_agree_on_protocol_name_and_certificate() {
    each(STRANGERS, async |stacks| {
        let pair = Pair::new(stacks, &Options::default()).await;
        assert_eq!(pair.client.agreed().0.as_deref(), Some(ALPN), "{stacks:?}");
        let (protocol, name) = pair.server.agreed();
        assert_eq!(protocol.as_deref(), Some(ALPN), "{stacks:?}");
        assert_eq!(name.as_deref(), Some(NAME), "{stacks:?}");
        let certificates = pair.client.certificates();
        assert_eq!(certificates, [Identity::trusted().chain[0].to_vec()]);
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
