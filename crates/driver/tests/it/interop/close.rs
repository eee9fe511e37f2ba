//! Closing connections on purpose.

use super::support::for_each;
use super::support::peers::{Client, End, Options, Pair, STRANGERS, Server};
use super::support::streams::Fault;

#[test]
fn applications_close_with_code_and_reason() {
    for_each(STRANGERS, async |stacks| {
        for by_client in [true, false] {
            let pair = Pair::new(stacks, &Options::default()).await;
            let (closing, other) = if by_client {
                (&pair.client, &pair.server)
            } else {
                (&pair.server, &pair.client)
            };
            let mut sender = other.open_uni().await.unwrap();
            closing.close(0x3fff_ffff, b"that is all");
            let said = End::Application {
                code: 0x3fff_ffff,
                reason: b"that is all".to_vec(),
            };
            assert_eq!(other.closed().await, said, "{stacks:?}");
            assert_eq!(closing.closed().await, End::Local, "{stacks:?}");
            let written = sender.write_all(b"too late").await;
            assert_eq!(written, Err(Fault::Lost(said)), "{stacks:?}");
        }
    });
}

/// A reason that is too long is truncated rather than omitted.
#[test]
fn a_long_reason_is_cut() {
    for_each(STRANGERS, async |stacks| {
        let pair = Pair::new(stacks, &Options::default()).await;
        let long = vec![b'x'; 5000];
        let (ours, theirs) = match pair.client.ours() {
            Some(_) => (&pair.client, &pair.server),
            None => (&pair.server, &pair.client),
        };
        ours.close(1, &long);
        let End::Application { code: 1, reason } = theirs.closed().await else {
            panic!("closed otherwise, {stacks:?}");
        };
        assert!(reason.len() >= 256, "{} {stacks:?}", reason.len());
        assert!(long.starts_with(&reason));
    });
}

/// A closed endpoint becomes idle soon, because it waits for its peers no longer than necessary.
#[test]
fn endpoints_close_and_become_idle() {
    for_each(STRANGERS, async |stacks| {
        let pair = Pair::new(stacks, &Options::default()).await;
        match &pair.server_endpoint {
            Server::Ours(endpoint) => endpoint.close(9_u32.into(), b"shutting down"),
            Server::Quinn { endpoint, .. } => endpoint.close(9u32.into(), b"shutting down"),
        }
        let said = End::Application {
            code: 9,
            reason: b"shutting down".to_vec(),
        };
        assert_eq!(pair.client.closed().await, said, "{stacks:?}");
        match (&pair.client_endpoint, &pair.server_endpoint) {
            (Client::Ours(endpoint), _) | (_, Server::Ours(endpoint)) => {
                endpoint.wait_idle().await;
            }
            _ => unreachable!("one of the two is ours"),
        }
    });
}
