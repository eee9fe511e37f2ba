//! Flows whose receivers read nothing, next to other flows.

use std::time::Duration;

use pathmark_proxy::outbound::{Datagrams, Outbound};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout};

use crate::support::{echo, echo_datagrams, listener, loopback, target, with_target};

/// Bytes that each of the other flows carries.
const SOME: usize = 1 << 20;

async fn write_on(mut to: impl AsyncWrite + Unpin) {
    while to.write_all(&[7; 1 << 16]).await.is_ok() {}
}

#[test]
fn receivers_that_read_nothing_hold_up_no_other_flow() {
    with_target(async |served, tunnel, stuck, at_stuck| {
        let (echoing, at_echo) = listener().await;
        tokio::spawn(echo(echoing));
        let udp = UdpSocket::bind(loopback()).await.unwrap();
        let at_udp = target(udp.local_addr().unwrap());
        tokio::spawn(echo_datagrams(udp));
        let mut kept = Vec::new();
        for number in 1..4 {
            // Both ends send without reading.
            let (read, write) = tunnel.tcp(&at_stuck).await.unwrap();
            let (far, _) = stuck.accept().await.unwrap();
            let (far_read, far_write) = far.into_split();
            let writing = [
                tokio::spawn(write_on(write)),
                tokio::spawn(write_on(far_write)),
            ];
            kept.push((read, far_read, writing));
            // No event reports that both directions are full, so this waits until the counters stop
            // or a second has passed.
            let until = Instant::now() + Duration::from_secs(1);
            let mut before = None;
            while Instant::now() < until && before != Some(served.proxy.counts()) {
                before = Some(served.proxy.counts());
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            let other = async {
                let (mut read, mut write) = tunnel.tcp(&at_echo).await.unwrap();
                let sending = async {
                    write.write_all(&vec![3; SOME]).await.unwrap();
                    write.shutdown().await.unwrap();
                };
                let mut got = Vec::new();
                let ((), read) = tokio::join!(sending, read.read_to_end(&mut got));
                assert_eq!((read.unwrap(), got.len()), (SOME, SOME));
                let flow = tunnel.udp(&at_udp).await.unwrap();
                flow.send(b"a"[..].into()).await.unwrap();
                assert_eq!(flow.receive().await.unwrap(), &b"a"[..]);
            };
            let ended = timeout(Duration::from_secs(10), other).await;
            let counts = served.proxy.counts();
            assert!(ended.is_ok(), "{number} flows are not read: {counts:?}");
        }
        for (_, _, writing) in kept {
            writing.iter().for_each(tokio::task::JoinHandle::abort);
        }
    });
}
