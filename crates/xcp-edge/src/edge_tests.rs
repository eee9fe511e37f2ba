use super::*;
use crate::message::{CONTROL_LEN, Train, tests::key};
use crate::prober::Limits;
use crate::requester::{Ask, Step};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use pathmark_cc::Duration;

const TRAIN: Train = Train {
    packets: 16,
    bytes: 972,
    gap: 0,
};

fn address(n: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, n))
}

fn edge(n: u8, run: u64) -> Edge {
    edge_of(address(n).into(), n, run)
}

fn edge_of(own: Own, n: u8, run: u64) -> Edge {
    let now = Instant::ZERO;
    let limits = Limits {
        rate: 100_000,
        burst: 200_000,
        packet: 1472,
    };
    let start = Key::new(&[n; 32]).unwrap();
    let prober = Prober::new(now, own, key(), start, limits);
    let requester = Requester::new(now, own, key(), run, TRAIN);
    Edge::new(own, key(), prober, requester)
}

/// Passes all datagrams that are due from `here` to `there`, and records their bytes.
fn pass(now: Instant, here: &mut Edge, there: &mut Edge, seen: &mut Vec<Vec<u8>>) -> Vec<Received> {
    let mut out = [0; 2000];
    let mut got = Vec::new();
    loop {
        let transmit = match here.prober.poll_transmit(now, &mut out) {
            Some(transmit) => transmit,
            None => match here.requester.poll(now, &mut out) {
                Some(Step::Send(transmit)) => transmit,
                Some(Step::Silent(_)) => continue,
                None => return got,
            },
        };
        let bytes = &out[..transmit.len];
        let from = SocketAddr::new(here.own.facing(transmit.to.ip()), 7000);
        seen.push(bytes.to_vec());
        got.extend(there.on_datagram(now, from, bytes));
    }
}

/// Two routers send requests to each other at once, and each must get its train. A host that
/// replays all messages must get no train, and no more bytes than it sends.
#[test]
fn two_routers_and_a_host_that_replays_all() {
    let (mut a, mut b) = (edge(1, 11), edge(2, 22));
    let (to_a, to_b) = (
        SocketAddr::new(address(1), 7000),
        SocketAddr::new(address(2), 7000),
    );
    a.requester.saw(Instant::ZERO, to_b);
    b.requester.saw(Instant::ZERO, to_a);
    let (mut from_a, mut from_b) = (Vec::new(), Vec::new());
    let mut probes = [0, 0];
    for millis in 0..200 {
        let now = Instant::from_millis(millis);
        let at_b = pass(now, &mut a, &mut b, &mut from_a);
        let at_a = pass(now, &mut b, &mut a, &mut from_b);
        for (count, got) in probes.iter_mut().zip([at_a, at_b]) {
            let packets = got
                .iter()
                .filter(|got| matches!(got, Received::Probe { .. }));
            *count += packets.count();
        }
    }
    assert_eq!(probes, [16, 16]);
    let now = Instant::from_millis(300);
    let mut answered = 0;
    for bytes in &from_b {
        assert_eq!(a.on_datagram(now, to_b, bytes), None);
        let mut out = [0; 2000];
        while let Some(transmit) = a.prober.poll_transmit(now, &mut out) {
            assert_eq!(transmit.len, CONTROL_LEN);
            answered += 1;
        }
        // From another address, it must count as forged.
        let forged = a.forged();
        let elsewhere = SocketAddr::new(address(3), 7000);
        assert_eq!(a.on_datagram(now, elsewhere, bytes), None);
        assert_eq!(a.forged(), forged + 1);
    }
    // Only the first request, without a token, may get a token again.
    assert_eq!(answered, 1);
    assert_eq!(a.prober.stats().trains, 1);
}

/// Routers with addresses of both IP versions: each is known by its address of the version that
/// a message uses, and measures clouds of both at once. A router without an IPv6 address must
/// not send requests to an IPv6 address.
#[test]
fn both_versions_of_ip() {
    let own = |n: u8| Own {
        v4: Ipv4Addr::new(192, 0, 2, n),
        v6: Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, n.into()),
    };
    let (mut a, mut b) = (edge_of(own(1), 1, 11), edge_of(own(2), 2, 22));
    let ends = [own(1).v4.into(), own(1).v6.into()].map(|ip| SocketAddr::new(ip, 7000));
    for end in ends {
        assert!(b.requester.saw(Instant::ZERO, end));
    }
    let (mut seen, mut coming) = (Vec::new(), Vec::new());
    for millis in 0..200 {
        let now = Instant::from_millis(millis);
        let _ = pass(now, &mut b, &mut a, &mut seen);
        for got in pass(now, &mut a, &mut b, &mut seen) {
            if let Received::Coming { from, .. } = got {
                coming.push(from);
            }
        }
    }
    coming.sort_unstable();
    assert_eq!(coming, ends);
    assert_eq!((a.forged(), b.forged()), (0, 0));
    let mut alone = edge(3, 33);
    assert!(alone.requester.saw(Instant::ZERO, ends[0]));
    assert!(!alone.requester.saw(Instant::ZERO, ends[1]));
    assert_eq!(alone.requester.stats().upstreams, 1);
}

/// After a restart of the upstream router, its tokens are invalid, and the next request must get
/// a new one.
#[test]
fn a_prober_that_was_restarted() {
    let (mut a, mut b) = (edge(1, 11), edge(2, 22));
    let to_a = SocketAddr::new(address(1), 7000);
    let mut seen = Vec::new();
    let mut coming = 0;
    for millis in 0..2_000 {
        let now = Instant::from_millis(millis);
        if millis == 1_000 {
            // Another key for tokens, and another run.
            a = edge_of(a.own, 99, 12);
        }
        b.requester.saw(now, to_a);
        let _ = pass(now, &mut b, &mut a, &mut seen);
        for got in pass(now, &mut a, &mut b, &mut seen) {
            if let Received::Coming { from, .. } = got {
                coming += 1;
                let ask = Ask {
                    train: TRAIN,
                    at: now + Duration::from_millis(300),
                };
                b.requester.want(from, ask);
            }
        }
    }
    assert!((6..=8).contains(&coming), "{coming}");
    assert_eq!(b.requester.stats().silences, 0);
}
