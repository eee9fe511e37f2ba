//! Streams that end early.

use super::support::peers::{Options, Pair, STRANGERS};
use super::support::{data, each};

/// A stream that is abandoned with megabytes in flight gives its credit back, so that the
/// connection doesn't stall.
#[tokio::test]
async fn abandoned_streams_give_their_credit_back() {
    each(STRANGERS, async |stacks| {
        let pair = Pair::new(stacks, &Options::default()).await;
        for (from, to) in [(&pair.client, &pair.server), (&pair.server, &pair.client)] {
            for n in 0..40 {
                let mut sender = from.open_uni().await.unwrap();
                let writing =
                    tokio::spawn(
                        async move { while sender.write_all(&[7; 60_000]).await.is_ok() {} },
                    );
                let mut receiver = to.accept_uni().await.unwrap();
                receiver.read_chunk().await.unwrap();
                receiver.stop(n).unwrap();
                writing.await.unwrap();
            }
            data::pass(from, to, (1, 8 << 20), |_| ()).await;
        }
    })
    .await;
}
