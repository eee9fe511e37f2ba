//! Unreliable datagrams (RFC 9221) in both directions, and over a path that loses some.

use std::time::Duration;

use bytes::Bytes;
use pathmark_driver::SendDatagramError;

use super::support::peers::{Connection, Options, PAIRINGS, Pair, STRANGERS};
use super::support::proxy::Weather;
use super::support::{for_each, in_time};

const COUNT: u32 = 120;

impl Connection {
    async fn send_datagram(&self, data: Bytes) {
        match self {
            Self::Ours(connection) => connection.send_datagram_wait(data).await.unwrap(),
            Self::Quinn(connection) => connection.send_datagram_wait(data).await.unwrap(),
        }
    }

    async fn read_datagram(&self) -> Option<Bytes> {
        match self {
            Self::Ours(connection) => connection.read_datagram().await.ok(),
            Self::Quinn(connection) => connection.read_datagram().await.ok(),
        }
    }

    fn max_datagram_size(&self) -> Option<usize> {
        match self {
            Self::Ours(connection) => connection.max_datagram_size(),
            Self::Quinn(connection) => connection.max_datagram_size(),
        }
    }
}

/// Sends numbered datagrams of at most `longest` bytes. Returns how many arrived, and checks that
/// each is unchanged and arrived only once.
async fn pass(from: &Connection, to: &Connection, longest: usize) -> usize {
    let sending = async {
        for n in 0..COUNT {
            let length = from.max_datagram_size().unwrap().min(longest);
            let mut data = vec![n as u8; length];
            data[..4].copy_from_slice(&n.to_be_bytes());
            from.send_datagram(data.into()).await;
            // Sending slowly keeps the sockets' buffers from overflowing.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // The end of the stream shows that no more will arrive, no matter how many were lost,
        // because the stream can overtake only the one or two datagrams that are still queued.
        let mut stream = from.open_uni().await.unwrap();
        stream.write_all(b"all sent").await.unwrap();
        stream.finish().unwrap();
        stream.stopped().await.unwrap();
    };
    let ended = async {
        let mut stream = to.accept_uni().await.unwrap();
        stream.read_to_end().await.unwrap();
    };
    let mut seen = vec![false; COUNT as usize];
    let receiving = async {
        tokio::pin!(ended);
        loop {
            let data = tokio::select! {
                // Unread datagrams may remain when the stream ends.
                biased;
                data = to.read_datagram() => data.unwrap(),
                () = &mut ended => return,
            };
            let n = u32::from_be_bytes(*data.first_chunk().unwrap());
            assert!(data[4..].iter().all(|byte| *byte == n as u8));
            assert!(!std::mem::replace(&mut seen[n as usize], true), "twice");
        }
    };
    tokio::join!(sending, receiving);
    seen.into_iter().filter(|seen| *seen).count()
}

fn options() -> Options {
    Options::with(|options| options.datagrams = true)
}

#[test]
fn they_arrive_both_ways() {
    for_each(PAIRINGS, async |stacks| {
        let pair = Pair::new(stacks, &options()).await;
        for (from, to) in [(&pair.client, &pair.server), (&pair.server, &pair.client)] {
            let arrived = pass(from, to, usize::MAX).await;
            // On a busy machine, sockets may overflow.
            assert!(arrived > COUNT as usize / 2, "{stacks:?} {arrived}");
        }
    });
}

#[test]
fn what_a_path_loses_is_lost() {
    for_each(STRANGERS, async |stacks| {
        let (proxy, pair) = Pair::over(stacks, &options(), Weather::FAIR, 3).await;
        proxy.set_weather(Weather {
            drop: 200,
            duplicate: 100,
            ..Weather::FAIR
        });
        // These also fit if quinn takes bursts of losses for a smaller MTU.
        let arrived = pass(&pair.client, &pair.server, 1000).await;
        // A fifth of them, more or less.
        assert!((40..116).contains(&arrived), "{stacks:?} {arrived}");
    });
}

/// Our side returns an error if the peer doesn't accept datagrams, and each of two readers gets its
/// own.
#[test]
fn two_may_read_and_one_may_give_up() {
    in_time(async {
        let pair = Pair::new(PAIRINGS[2], &Options::default()).await;
        let none = pair.client.ours().unwrap();
        let refused = none.send_datagram(Bytes::new()).unwrap_err();
        assert!(matches!(refused, SendDatagramError::UnsupportedByPeer));

        let pair = Pair::new(PAIRINGS[2], &options()).await;
        let (client, server) = (pair.client.ours().unwrap(), pair.server.ours().unwrap());
        let readers = [(); 3].map(|()| {
            let server = server.clone();
            tokio::spawn(async move { server.read_datagram().await })
        });
        tokio::task::yield_now().await;
        readers[0].abort();
        for n in 0..2 {
            client.send_datagram(Bytes::from(vec![n; 10])).unwrap();
        }
        let mut seen = Vec::new();
        for reader in readers.into_iter().skip(1) {
            seen.push(reader.await.unwrap().unwrap()[0]);
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1]);
        client.close(3_u32.into(), b"enough");
        server.read_datagram().await.unwrap_err();
        client.send_datagram(Bytes::new()).unwrap_err();
    });
}
