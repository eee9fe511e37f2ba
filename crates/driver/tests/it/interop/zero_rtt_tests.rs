//! Early data as tests: in all pairings, refused, over a bad path, and by the driver's own calls.

use std::time::Duration;

use pathmark_driver::{ClientConfig, Endpoint};
use pathmark_transport::connection::EarlyData;
use tokio::task::JoinSet;

use super::resumption::visit;
use super::support::peers::{NAME, Options, PAIRINGS, Returning, Server, Stack, loopback};
use super::support::proxy::{Proxy, Weather};
use super::support::{bounded, in_time};
use super::zero_rtt::{asks_early, fetch, options};

#[tokio::test]
async fn our_client_asks_our_server_early() {
    bounded(asks_early((Stack::Ours, Stack::Ours))).await;
}

#[test]
fn what_another_server_refuses_is_asked_again_after_the_handshake() {
    in_time(async {
        for theirs in [Stack::Quinn, Stack::Ours] {
            let client = Returning::new(Stack::Ours, &options());
            let server = Server::start(theirs, &options());
            visit(&client, &server).await;
            // One server that doesn't know the session, and one that never accepts early data.
            let other = Server::start(theirs, &options());
            assert!(!fetch(&client, &other, other.address()).await, "{theirs:?}");
            let plain = Server::start(theirs, &Options::default());
            visit(&client, &server).await;
            assert!(!fetch(&client, &plain, plain.address()).await, "{theirs:?}");
        }
    });
}

#[test]
fn quinn_hears_that_its_early_data_is_refused() {
    in_time(async {
        let client = Returning::new(Stack::Quinn, &options());
        let server = Server::start(Stack::Ours, &options());
        visit(&client, &server).await;
        let other = Server::start(Stack::Ours, &options());
        let (connection, taken) = client.connect_early(other.address());
        let (taken, accepted) = tokio::join!(taken, other.accept());
        assert!(!taken);
        drop((connection, accepted));
        // Since no server resumed the session, a new one still works.
        visit(&client, &server).await;
        assert!(fetch(&client, &server, server.address()).await);
    });
}

#[tokio::test]
async fn early_questions_get_through_a_path_that_loses_a_tenth() {
    let weather = Weather {
        drop: 100,
        delay: Duration::from_millis(5),
        ..Weather::FAIR
    };
    let mut running = JoinSet::new();
    for (stacks, seed) in PAIRINGS
        .into_iter()
        .flat_map(|pair| (0..5).map(move |n| (pair, n)))
    {
        running.spawn(async move {
            let server = Server::start(stacks.1, &options());
            let client = Returning::new(stacks.0, &options());
            visit(&client, &server).await;
            let proxy = Proxy::start(server.address(), weather, seed).await;
            assert!(fetch(&client, &server, proxy.address()).await, "{stacks:?}");
        });
    }
    bounded(running.join_all()).await;
}

fn client() -> (Endpoint, ClientConfig) {
    let endpoint = Endpoint::client(loopback()).unwrap();
    (endpoint, options().our_client())
}

#[test]
fn a_server_that_asks_for_it_answers_before_the_handshake_is_complete() {
    in_time(async {
        let server = Endpoint::server(options().our_server(), loopback()).unwrap();
        let weather = Weather::with(|weather| weather.delay = Duration::from_millis(100));
        let proxy = Proxy::start(server.local_address(), weather, 1).await;
        let (endpoint, config) = client();
        for visit in 0..3 {
            let connecting = endpoint.connect_with(config.clone(), proxy.address(), NAME);
            let serving = async {
                let connecting = server.accept().await.unwrap().accept().unwrap();
                let (connection, handshake) = match connecting.into_0rtt() {
                    Ok((connection, handshake)) => {
                        assert!(visit > 0);
                        assert_eq!(connection.early_data(), EarlyData::Accepted);
                        (connection, Some(handshake))
                    }
                    Err(connecting) => {
                        assert_eq!(visit, 0);
                        (connecting.await.unwrap(), None)
                    }
                };
                let (mut sender, mut receiver) = connection.accept_bi().await.unwrap();
                let asked = receiver.read_to_end(100).await.unwrap();
                sender.write_all(&asked).await.unwrap();
                sender.finish().unwrap();
                sender.stopped().await.unwrap();
                if let Some(handshake) = handshake {
                    assert!(handshake.await.unwrap());
                }
                connection.closed().await;
            };
            let asking = async {
                let (connection, early) = match connecting.unwrap().into_0rtt() {
                    Ok((connection, early)) => {
                        assert_eq!(connection.early_data(), EarlyData::Offered);
                        (connection, Some(early))
                    }
                    Err(connecting) => (connecting.await.unwrap(), None),
                };
                assert_eq!(early.is_some(), visit > 0);
                let (mut sender, mut receiver) = connection.open_bi().await.unwrap();
                sender.write_all(b"a question").await.unwrap();
                sender.finish().unwrap();
                assert_eq!(receiver.read_to_end(100).await.unwrap(), b"a question");
                if let Some(early) = early {
                    assert!(early.await.unwrap());
                    assert_eq!(connection.early_data(), EarlyData::Accepted);
                    assert!(connection.handshake_data().resumed);
                }
                connection.close(0_u32.into(), b"done");
            };
            tokio::join!(serving, asking);
        }
    });
}

#[test]
fn early_data_to_an_unused_address_ends_like_any_connection() {
    in_time(async {
        let server = Server::start(Stack::Ours, &options());
        let returning = Returning::new(Stack::Ours, &options());
        visit(&returning, &server).await;
        let address = server.address();
        drop(server);
        let (connection, _accepted) = returning.connect_early(address);
        let (mut sender, _receiver) = connection.open_bi().await.unwrap();
        sender.write_all(b"a question").await.unwrap();
        connection.close(3, b"enough");
        assert!(connection.ours().unwrap().close_reason().is_some());
        assert!(sender.write_all(b"more").await.is_err());
    });
}
