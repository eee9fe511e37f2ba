//! Idle timeouts, and how to prevent them (RFC 9000 §10.1).

use std::time::Duration;

use tokio::time::Instant;

use super::support::peers::{Client, Connection, End, Options, STRANGERS, Server, Stack};
use super::support::{each, for_each};

const SHORT: Duration = Duration::from_millis(400);

fn with(idle: Option<Duration>, keep_alive: Option<Duration>) -> Options {
    Options {
        idle,
        keep_alive,
        ..Options::default()
    }
}

async fn connect(
    stacks: (Stack, Stack),
    client: &Options,
    server: &Options,
) -> (Connection, Connection) {
    let listening = Server::start(stacks.1, server);
    let connecting = Client::start(stacks.0);
    let connect = connecting.connect(listening.address(), client);
    tokio::try_join!(connect, listening.accept()).unwrap()
}

/// Both ends notice, after the shorter of the two timeouts, without sending a packet.
#[test]
fn silence_ends_the_connection_at_both_ends() {
    for_each(STRANGERS, async |stacks| {
        let rules = [
            (with(Some(SHORT), None), with(None, None)),
            (Options::default(), with(Some(SHORT), None)),
        ];
        for (client, server) in rules {
            let began = Instant::now();
            let (ours, theirs) = connect(stacks, &client, &server).await;
            let ends = tokio::join!(ours.closed(), theirs.closed());
            assert_eq!(ends, (End::TimedOut, End::TimedOut), "{stacks:?}");
            let took = began.elapsed();
            assert!(took >= SHORT, "{took:?} {stacks:?}");
            assert!(took < Duration::from_secs(5), "{took:?} {stacks:?}");
        }
    });
}

/// Either side can keep the connection alive.
#[tokio::test]
async fn keep_alive_outlives_the_timeout() {
    let quiet = with(Some(SHORT), None);
    let awake = with(Some(SHORT), Some(SHORT / 4));
    each(STRANGERS, async |stacks| {
        let outlives = async |client, server| {
            let (ours, theirs) = connect(stacks, client, server).await;
            // Ends if one of the two ends or if this time has passed.
            let ended = async { tokio::join!(ours.closed(), theirs.closed()) };
            let ended = tokio::time::timeout(3 * SHORT, ended).await;
            assert!(ended.is_err(), "{ended:?} {stacks:?}");
            assert_eq!(ours.close_reason(), None, "{stacks:?}");
            assert_eq!(theirs.close_reason(), None, "{stacks:?}");
        };
        tokio::join!(outlives(&awake, &quiet), outlives(&quiet, &awake));
    })
    .await;
}
