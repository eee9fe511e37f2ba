//! UDP flows through a proxy to real targets.

use std::time::Duration;

use bytes::Bytes;
use pathmark_proxy::outbound::{Datagrams, Outbound, Refusal};
use pathmark_proxy::server::Times;
use pathmark_proxy::target::Target;
use tokio::net::UdpSocket;

use crate::support::{Served, access, echo_datagrams, loopback, run, target, until};

/// Returns a target that echoes datagrams.
async fn echo() -> Target {
    let socket = UdpSocket::bind(loopback()).await.unwrap();
    let target = target(socket.local_addr().unwrap());
    tokio::spawn(echo_datagrams(socket));
    target
}

/// Sends a datagram over a flow, which must come back.
async fn comes_back(flow: &impl Datagrams, payload: impl Into<Bytes>) {
    let payload = payload.into();
    flow.send(payload.clone()).await.unwrap();
    assert_eq!(flow.receive().await.unwrap(), payload);
}

#[test]
fn datagrams_of_every_size_come_back() {
    run(async {
        let served = Served::new(access(&["a"]));
        let to = echo().await;
        let flow = served.tunnel("a").udp(&to).await.unwrap();
        for length in [0, 1, 1000, 1200, 1500, 9000, 65_507] {
            comes_back(&flow, vec![7; length]).await;
        }
        let counts = served.proxy.counts();
        assert_eq!((counts.udp_flows, counts.datagrams_down), (1, 7));
        // 65,507 bytes fit in no packet; 1,000 fit in each.
        assert!((1..=4).contains(&counts.capsules_down), "{counts:?}");
        let too_long = flow.send(Bytes::from(vec![0; 65_528])).await.unwrap_err();
        assert_eq!(too_long.kind(), std::io::ErrorKind::InvalidInput);
    });
}

/// Sockets that were used once stay open. UDP flows of a user have a separate limit, and a new flow
/// ends the one that has been idle longest.
#[test]
fn idle_flows_keep_nobody_from_new_ones() {
    run(async {
        let mut access = access(&["a", "b"]);
        (access.flows_per_user, access.flows) = (20, 30);
        let served = Served::new(access);
        let (to, tunnel) = (echo().await, served.tunnel("a"));
        let mut idle = Vec::new();
        for _ in 0..50 {
            let flow = tunnel.udp(&to).await.unwrap();
            comes_back(&flow, "query").await;
            idle.push(flow);
        }
        let counts = served.proxy.counts();
        let counted = (counts.udp_flows, counts.udp_evicted, counts.busy);
        assert_eq!(counted, (50, 30, 0));
        // The last flows continue, but the first flows have ended.
        let last = idle.last().unwrap();
        comes_back(last, "again").await;
        assert!(idle[0].receive().await.is_err());
        // A TCP flow of this user, and a UDP flow of another.
        let (listener, target) = crate::support::listener().await;
        let flow = tunnel.tcp(&target).await.unwrap();
        listener.accept().await.unwrap();
        let other = served.tunnel("b").udp(&to).await.unwrap();
        comes_back(&other, "other").await;
        assert_eq!(served.proxy.counts().busy, 0);
        drop(flow);
    });
}

#[test]
fn flows_do_not_mix() {
    run(async {
        let served = Served::new(access(&["a"]));
        let to = echo().await;
        let tunnel = served.tunnel("a");
        let mut flows = tokio::task::JoinSet::new();
        for number in 0..20_u8 {
            let (tunnel, to) = (tunnel.clone(), to.clone());
            flows.spawn(async move {
                let flow = tunnel.udp(&to).await.unwrap();
                for round in 0..50_u8 {
                    comes_back(&flow, vec![number, round]).await;
                }
            });
        }
        flows.join_all().await;
        assert_eq!(served.proxy.counts().datagrams_up, 1000);
    });
}

#[test]
fn datagrams_of_other_senders_do_not_enter_a_flow() {
    run(async {
        let served = Served::new(access(&["a"]));
        let socket = UdpSocket::bind(loopback()).await.unwrap();
        let to = target(socket.local_addr().unwrap());
        let flow = served.tunnel("a").udp(&to).await.unwrap();
        flow.send(Bytes::from_static(b"hello")).await.unwrap();
        let (_, proxy) = socket.recv_from(&mut [0; 10]).await.unwrap();
        let stranger = UdpSocket::bind(loopback()).await.unwrap();
        stranger.send_to(b"stranger", proxy).await.unwrap();
        socket.send_to(b"target", proxy).await.unwrap();
        assert_eq!(flow.receive().await.unwrap(), "target");
    });
}

#[test]
fn a_target_that_is_not_there_ends_no_flow() {
    run(async {
        let served = Served::new(access(&["a"]));
        let socket = UdpSocket::bind(loopback()).await.unwrap();
        let address = socket.local_addr().unwrap();
        drop(socket);
        let flow = served.tunnel("a").udp(&target(address)).await.unwrap();
        // ICMP reports that nobody is listening.
        flow.send(Bytes::from_static(b"1")).await.unwrap();
        flow.send(Bytes::from_static(b"2")).await.unwrap();
        let handled = || {
            let counts = served.proxy.counts();
            counts.datagrams_up + counts.datagrams_dropped
        };
        until(|| handled() >= 2).await;
        let socket = UdpSocket::bind(address).await.unwrap();
        let mut buffer = [0; 10];
        // The error of the previous datagram may be reported instead of this one's.
        let arrived = async {
            loop {
                flow.send(Bytes::from_static(b"3")).await.unwrap();
                let wait = Duration::from_millis(100);
                if let Ok(received) =
                    tokio::time::timeout(wait, socket.recv_from(&mut buffer)).await
                {
                    return received.unwrap();
                }
            }
        };
        let (_, proxy) = arrived.await;
        socket.send_to(b"here", proxy).await.unwrap();
        assert_eq!(flow.receive().await.unwrap(), "here");
    });
}

#[test]
fn an_idle_flow_ends_and_its_place_is_free() {
    run(async {
        let times = Times {
            udp_idle: Duration::from_millis(300),
            ..Times::default()
        };
        let served = Served::with(access(&["a"]), times);
        let to = echo().await;
        let flow = served.tunnel("a").udp(&to).await.unwrap();
        flow.send(Bytes::from_static(b"x")).await.unwrap();
        flow.receive().await.unwrap();
        let ended = flow.receive().await.unwrap_err();
        assert_eq!(ended.kind(), std::io::ErrorKind::UnexpectedEof);
        until(|| served.proxy.flows() == 0).await;
        assert_eq!(served.proxy.counts().udp_idle, 1);
    });
}

/// A flow that is only used in one direction, for several times as long as the idle timeout.
#[test]
fn one_direction_in_use_keeps_the_flow() {
    run(async {
        let times = Times {
            udp_idle: Duration::from_millis(400),
            ..Times::default()
        };
        let served = Served::with(access(&["a"]), times);
        let socket = UdpSocket::bind(loopback()).await.unwrap();
        let to = target(socket.local_addr().unwrap());
        let flow = served.tunnel("a").udp(&to).await.unwrap();
        flow.send(Bytes::from_static(b"begin")).await.unwrap();
        let (_, proxy) = socket.recv_from(&mut [0; 10]).await.unwrap();
        let mut ticks = tokio::time::interval(Duration::from_millis(40));
        for number in 0..25_u8 {
            ticks.tick().await;
            socket.send_to(&[number], proxy).await.unwrap();
            assert_eq!(flow.receive().await.unwrap(), [number][..]);
        }
        for number in 0..25_u8 {
            ticks.tick().await;
            flow.send(Bytes::from(vec![number])).await.unwrap();
            let mut got = [0; 10];
            assert_eq!(socket.recv_from(&mut got).await.unwrap(), (1, proxy));
            assert_eq!(got[0], number);
        }
        assert_eq!(served.proxy.counts().udp_idle, 0);
    });
}

#[test]
fn denied_and_unknown_targets_have_their_reason() {
    run(async {
        let served = Served::new(access(&["a"]));
        let tunnel = served.tunnel("a");
        for (text, expected) in [
            ("10.0.0.1:53", Refusal::Denied),
            ("[fe80::1]:53", Refusal::Denied),
            ("224.0.0.251:5353", Refusal::Denied),
            ("no-such-host.invalid:53", Refusal::Name),
        ] {
            let refused = tunnel.udp(&text.parse().unwrap()).await.map(drop);
            assert_eq!(refused, Err(expected), "{text}");
        }
    });
}
