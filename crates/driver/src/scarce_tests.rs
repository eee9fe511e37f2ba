//! Memory for received data is short, and applications read slowly or one stream after the other.

use super::testing::*;
use super::*;
use pathmark_transport::{Duration, TransportConfig};

const STREAMS: usize = 128;
const SIZE: usize = 1000;

#[tokio::test]
async fn streams_are_read_one_after_the_other_without_memory() {
    for size in [SIZE, 10 * SIZE] {
        let endpoint = endpoint();
        endpoint.set_receive_memory(0);
        let (ours, theirs) = connected_from(&endpoint, transport()).await;
        let writing = async {
            let mut streams = Vec::new();
            for _ in 0..STREAMS {
                let mut stream = theirs.open_uni().await.unwrap();
                stream.write_all(&vec![7; size]).await.unwrap();
                stream.finish().unwrap();
                streams.push(stream);
            }
            streams
        };
        let reading = async {
            for _ in 0..STREAMS {
                let mut stream = ours.accept_uni().await.unwrap();
                assert_eq!(stream.read_to_end(size).await.unwrap().len(), size);
            }
        };
        // This takes 0.4 s on an idle machine.
        soon("all streams", async { tokio::join!(writing, reading) }).await;
    }
}

/// As much initial credit as for an application whose connections may be granted rates.
fn roomy() -> TransportConfig {
    let mut config = transport();
    config.streams = config.streams.with_room_for_grants();
    config
}

/// Each of many connections to one host has a stream that is read slowly or not at all. Other
/// streams still arrive immediately.
#[tokio::test]
async fn streams_next_to_slow_readers_are_not_held_up() {
    const CONNECTIONS: usize = 100;
    for (reads, most) in [(true, usize::MAX), (false, 1_000_000)] {
        let endpoint = endpoint();
        let mut pairs = Vec::new();
        for _ in 0..CONNECTIONS {
            let (ours, theirs) = connected_from(&endpoint, roomy()).await;
            let mut slow = theirs.open_uni().await.unwrap();
            tokio::spawn(async move {
                let mut left = most;
                while left > 0 && slow.write_all(&[7; 4096]).await.is_ok() {
                    left = left.saturating_sub(4096);
                }
                slow.stopped().await.ok();
            });
            let mut slow = ours.accept_uni().await.unwrap();
            tokio::spawn(async move {
                let mut pause = tokio::time::interval(Duration::from_millis(100));
                loop {
                    pause.tick().await;
                    if reads && slow.read(&mut [0; 4096]).await.is_err() {
                        return;
                    }
                }
            });
            pairs.push((ours, theirs));
        }
        // Wait until each peer has sent as much as it may. Reports have no event, so they are
        // polled.
        for (_, theirs) in &pairs {
            while theirs.stats().bytes_sent < 50_000 || theirs.path_report().in_flight > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        for _ in 0..3 {
            let mut worst = Duration::ZERO;
            for (ours, theirs) in pairs.iter().step_by(CONNECTIONS / 20) {
                let begun = now();
                let writing = async {
                    let mut fresh = theirs.open_uni().await.unwrap();
                    fresh.write_all(b"eight or").await.unwrap();
                    fresh.finish().unwrap();
                    assert_eq!(fresh.stopped().await.unwrap(), None);
                };
                let reading = async {
                    let mut fresh = ours.accept_uni().await.unwrap();
                    assert_eq!(fresh.read_to_end(9).await.unwrap(), b"eight or");
                };
                soon("a stream", async { tokio::join!(writing, reading) }).await;
                worst = worst.max(now() - begun);
            }
            println!("slow readers {reads}: the longest took {worst:?}");
            // This takes 2 ms on an idle machine.
            assert!(worst < Duration::from_secs(1), "{worst:?}");
        }
    }
}
