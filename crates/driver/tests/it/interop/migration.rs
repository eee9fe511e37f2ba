//! Clients whose address changes: NAT rebinding, and moving to another socket (RFC 9000 §9).

use std::net::UdpSocket;

use pathmark_transport::path::EcnState;

use super::support::data;
use super::support::peers::{Client, Connection, Options, PAIRINGS, Pair, Server, Stack, loopback};
use super::support::proxy::{Proxy, Weather};
use super::support::{bounded, until};

const LENGTH: u64 = 4 << 20;

/// Sends from `from` to `to`, and calls `disturb` once a quarter has arrived.
async fn disturbed(from: &Connection, to: &Connection, seed: u64, disturb: impl FnOnce()) {
    let sending = async {
        let mut sender = from.open_uni().await.unwrap();
        let sent = data::send(&mut sender, seed, LENGTH).await.unwrap();
        assert_eq!(sender.stopped().await, Ok(None));
        sent
    };
    let receiving = async {
        let mut receiver = to.accept_uni().await.unwrap();
        let mut disturb = Some(disturb);
        data::receive_and(&mut receiver, |length| {
            if length >= LENGTH / 4
                && let Some(disturb) = disturb.take()
            {
                disturb();
            }
        })
        .await
        .unwrap()
    };
    let (sent, received) = tokio::join!(sending, receiving);
    assert_eq!(sent, received);
}

/// Checks that our side has validated `times` new paths, and uses large datagrams on the last one.
async fn moved(side: &Connection, times: u64) {
    let Some(ours) = side.ours() else {
        return;
    };
    // The transfer may end before a lost response is requested again.
    until(|| ours.stats().migrations == times).await;
    ours.ping();
    until(|| ours.path_report().mtu > 1400).await;
    let report = ours.path_report();
    assert!(report.validated, "{report:?}");
}

/// The client doesn't notice that its NAT assigns another port, once during an upload and once
/// during a download.
#[tokio::test]
async fn a_nat_that_rebinds_does_not_end_the_connection() {
    bounded(async {
        for stacks in PAIRINGS {
            let options = Options::default();
            let server = Server::start(stacks.1, &options);
            let proxy = Proxy::start(server.address(), Weather::FAIR, 1).await;
            let pair = Pair::to(stacks.0, server, proxy.address(), &options).await;
            let before = pair.server.remote_address();
            disturbed(&pair.client, &pair.server, 1, || proxy.rebind()).await;
            let between = pair.server.remote_address();
            assert_ne!(before, between, "{stacks:?}");

            // While the server sends, only the client's acknowledgements show the new port.
            disturbed(&pair.server, &pair.client, 2, || proxy.rebind()).await;
            let after = pair.server.remote_address();
            assert_ne!(between, after, "{stacks:?}");
            moved(&pair.server, 2).await;
        }
    })
    .await;
}

#[tokio::test]
async fn their_client_may_move_to_another_socket() {
    bounded(async {
        let pair = Pair::new((Stack::Quinn, Stack::Ours), &Options::default()).await;
        let Client::Quinn(endpoint) = &pair.client_endpoint else {
            unreachable!("it was asked for");
        };
        for seed in 0..3 {
            let before = pair.server.remote_address();
            let (from, to) = if seed % 2 == 0 {
                (&pair.client, &pair.server)
            } else {
                (&pair.server, &pair.client)
            };
            disturbed(from, to, seed, || {
                let socket = UdpSocket::bind(loopback()).unwrap();
                endpoint.rebind(socket).unwrap();
            })
            .await;
            assert_ne!(before, pair.server.remote_address());
        }
        moved(&pair.server, 3).await;
        // Loopback preserves ECN marks, on the last path as on the first.
        let ours = pair.server.ours().unwrap();
        until(|| ours.path_report().ecn == EcnState::Capable).await;
    })
    .await;
}
