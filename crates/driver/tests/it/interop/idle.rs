//! Idle timeouts (RFC 9000 §10.1).

use std::time::Duration;

use tokio::time::Instant;

use super::support::each;
use super::support::peers::{Client, End, Options, STRANGERS, Server};

const SHORT: Duration = Duration::from_millis(400);

fn with(idle: Option<Duration>) -> Options {
    Options {
        idle,
        ..Options::default()
    }
}

/// Both ends notice, after the shorter of the two timeouts, without sending a packet.
#[tokio::test]
async fn silence_ends_the_connection_at_both_ends() {
    each(STRANGERS, async |stacks| {
        let rules = [
            (with(Some(SHORT)), with(None)),
            (Options::default(), with(Some(SHORT))),
        ];
        for (client, server) in rules {
            let began = Instant::now();
            let listening = Server::start(stacks.1, &server);
            let connecting = Client::start(stacks.0);
            let connect = connecting.connect(listening.address(), &client);
            let (ours, theirs) = tokio::try_join!(connect, listening.accept()).unwrap();
            let ends = tokio::join!(ours.closed(), theirs.closed());
            assert_eq!(ends, (End::TimedOut, End::TimedOut), "{stacks:?}");
            let took = began.elapsed();
            assert!(took >= SHORT, "{took:?} {stacks:?}");
            assert!(took < Duration::from_secs(5), "{took:?} {stacks:?}");
        }
    })
    .await;
}
