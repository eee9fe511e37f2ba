//! Clients whose address changes: NAT rebinding, and moving to another socket (RFC 9000 §9).

use std::net::UdpSocket;

use pathmark_transport::path::EcnState;

use super::support::peers::{Connection, Options, PAIRINGS, Pair, Stack, loopback};
use super::support::proxy::Weather;
use super::support::{data, for_each, in_time, until};

const LENGTH: u64 = 4 << 20;

/// Sends from `from` to `to`, and calls `disturb` once a quarter has arrived.
async fn disturbed(from: &Connection, to: &Connection, seed: u64, disturb: impl FnOnce()) {
    let mut disturb = Some(disturb);
    let at_quarter = |length| {
        if length >= LENGTH / 4
            && let Some(disturb) = disturb.take()
        {
            disturb();
        }
    };
    data::pass(from, to, (seed, LENGTH), at_quarter).await;
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
#[test]
fn a_nat_that_rebinds_does_not_end_the_connection() {
    for_each(PAIRINGS, async |stacks| {
        let (proxy, pair) = Pair::over(stacks, &Options::default(), Weather::FAIR, 1).await;
        let before = pair.server.remote_address();
        disturbed(&pair.client, &pair.server, 1, || proxy.rebind()).await;
        let between = pair.server.remote_address();
        assert_ne!(before, between, "{stacks:?}");

        // While the server sends, only the client's acknowledgements show the new port.
        disturbed(&pair.server, &pair.client, 2, || proxy.rebind()).await;
        let after = pair.server.remote_address();
        assert_ne!(between, after, "{stacks:?}");
        moved(&pair.server, 2).await;
    });
}

#[test]
fn their_client_may_move_to_another_socket() {
    in_time(async {
        let pair = Pair::new((Stack::Quinn, Stack::Ours), &Options::default()).await;
        for seed in 0..3 {
            let before = pair.server.remote_address();
            let (from, to) = if seed % 2 == 0 {
                (&pair.client, &pair.server)
            } else {
                (&pair.server, &pair.client)
            };
            disturbed(from, to, seed, || {
                pair.client_endpoint
                    .rebind(UdpSocket::bind(loopback()).unwrap());
            })
            .await;
            assert_ne!(before, pair.server.remote_address());
        }
        moved(&pair.server, 3).await;
        // Loopback preserves ECN marks, on the last path as on the first.
        let ours = pair.server.ours().unwrap();
        until(|| ours.path_report().ecn == EcnState::Capable).await;
    });
}
