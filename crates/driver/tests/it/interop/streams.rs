//! Many streams, and streams that end early.

use super::support::peers::{Connection, Options, Pair, STRANGERS};
use super::support::streams::{Receiver, Sender};
use super::support::{data, for_each};

const STREAMS: u64 = 1000;
/// Streams opened at a time. This is more than either side allows, so that limits are reached and
/// raised.
const AT_ONCE: u64 = 250;

async fn echo((mut sender, mut receiver): (Sender, Receiver)) {
    while let Some(chunk) = receiver.read_chunk().await.unwrap() {
        sender.write_all(&chunk).await.unwrap();
    }
    sender.finish().unwrap();
    assert_eq!(sender.stopped().await, Ok(None));
}

/// One side opens all streams, and the other sends everything back. Lengths differ, and some
/// streams are empty.
async fn thousand(opener: &Connection, other: &Connection) {
    let serving = {
        let other = other.clone();
        tokio::spawn(async move {
            let mut echoes = Vec::new();
            for _ in 0..STREAMS {
                echoes.push(tokio::spawn(echo(other.accept_bi().await.unwrap())));
            }
            for echo in echoes {
                echo.await.unwrap();
            }
        })
    };
    for first in (0..STREAMS).step_by(AT_ONCE as usize) {
        let mut asking = Vec::new();
        for n in first..first + AT_ONCE {
            let opener = opener.clone();
            asking.push(tokio::spawn(async move {
                let (mut sender, mut receiver) = opener.open_bi().await.unwrap();
                let length = (n % 50) * (n % 7) * 60;
                let (sent, back) = tokio::join!(
                    data::send(&mut sender, n, length),
                    data::receive(&mut receiver)
                );
                assert_eq!(sent.unwrap(), back.unwrap(), "stream {n}");
            }));
        }
        for asking in asking {
            asking.await.unwrap();
        }
    }
    serving.await.unwrap();
}

#[test]
fn a_thousand_streams_from_either_side() {
    for_each(STRANGERS, async |stacks| {
        let pair = Pair::new(stacks, &Options::default()).await;
        tokio::join!(
            thousand(&pair.client, &pair.server),
            thousand(&pair.server, &pair.client)
        );
    });
}

/// `from` opens a stream and sends until its first bytes have arrived at `to`.
async fn begun(from: &Connection, to: &Connection) -> (Sender, Receiver) {
    let mut sender = from.open_uni().await.unwrap();
    sender.write_all(b"begun").await.unwrap();
    let mut receiver = to.accept_uni().await.unwrap();
    assert_eq!(receiver.read_chunk().await.unwrap().unwrap(), "begun");
    (sender, receiver)
}

/// One direction ends early, and the other continues.
#[test]
fn a_stream_goes_on_in_one_direction() {
    for_each(STRANGERS, async |stacks| {
        let pair = Pair::new(stacks, &Options::default()).await;
        for (from, to) in [(&pair.client, &pair.server), (&pair.server, &pair.client)] {
            let (mut sender, mut receiver) = from.open_bi().await.unwrap();
            sender.write_all(b"ask").await.unwrap();
            let (mut back, mut asked) = to.accept_bi().await.unwrap();
            sender.reset(7).unwrap();
            while let Ok(Some(_)) = asked.read_chunk().await {}
            back.write_all(b"answer").await.unwrap();
            back.finish().unwrap();
            assert_eq!(receiver.read_to_end().await.unwrap(), b"answer");
        }
    });
}

/// A stream that is abandoned with megabytes in flight gives its credit back, so that the
/// connection doesn't stall.
#[test]
fn abandoned_streams_give_their_credit_back() {
    for_each(STRANGERS, async |stacks| {
        let pair = Pair::new(stacks, &Options::default()).await;
        for (from, to) in [(&pair.client, &pair.server), (&pair.server, &pair.client)] {
            for n in 0..40 {
                let (mut sender, mut receiver) = begun(from, to).await;
                let writing =
                    tokio::spawn(
                        async move { while sender.write_all(&[7; 60_000]).await.is_ok() {} },
                    );
                receiver.read_chunk().await.unwrap();
                receiver.stop(n).unwrap();
                writing.await.unwrap();
            }
            data::pass(from, to, (1, 8 << 20), |_| ()).await;
        }
    });
}
