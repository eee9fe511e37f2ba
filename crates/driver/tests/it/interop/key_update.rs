//! Key updates by either side, while data is being transferred (RFC 9001 §6).

use super::support::peers::{Connection, Options, PAIRINGS, Pair};
use super::support::{data, for_each};

const UPDATES: u64 = 6;

/// Exchanges a few packets in both directions, so that both sides have seen each other's newest
/// keys.
async fn round(pair: &Pair, n: u64) {
    let asking = async {
        let (mut sender, mut receiver) = pair.client.open_bi().await.unwrap();
        let (sent, back) = tokio::join!(
            data::send(&mut sender, n, 30_000),
            data::receive(&mut receiver)
        );
        assert_eq!(sent.unwrap(), back.unwrap());
    };
    let echoing = async {
        let (mut sender, mut receiver) = pair.server.accept_bi().await.unwrap();
        while let Some(chunk) = receiver.read_chunk().await.unwrap() {
            sender.write_all(&chunk).await.unwrap();
        }
        sender.finish().unwrap();
    };
    tokio::join!(asking, echoing);
}

fn updates(side: &Connection) -> Option<u64> {
    side.ours().map(|ours| ours.stats().key_updates)
}

#[test]
fn either_side_may_update_keys_again_and_again() {
    for_each(PAIRINGS, async |stacks| {
        let pair = Pair::new(stacks, &Options::default()).await;
        round(&pair, 0).await;
        let mut rounds = 1;
        for updater in [&pair.client, &pair.server] {
            // Our side counts every update by either side.
            let counting = updates(&pair.client).or(updates(&pair.server)).unwrap_or(0);
            let mut done = 0;
            while done < UPDATES {
                updater.update_keys();
                round(&pair, rounds).await;
                rounds += 1;
                let now = updates(&pair.client).or(updates(&pair.server)).unwrap_or(0);
                done = now - counting;
            }
        }
        for side in [&pair.client, &pair.server] {
            if let Some(ours) = side.ours() {
                let stats = ours.stats();
                assert!(stats.key_updates >= 2 * UPDATES, "{stacks:?} {stats:?}");
                assert_eq!(stats.packets_dropped, 0, "{stacks:?} {stats:?}");
            }
            assert_eq!(side.close_reason(), None, "{stacks:?}");
        }
    });
}
