//! Tests virtual routers with known answers, without an estimate, and with forged headers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::port::XcpILink;
use super::{INACTIVE, MOST_OF_PREFIX, MOST_UPSTREAMS, PATIENCE};
use crate::base::{Duration, Instant};
use crate::law::LinkController;
use crate::metrics::CloudMetrics;
use crate::signals::{
    Answer, Arrival, Carried, Cloud, CloudAnswer, CloudEstimate, Upstream, XcpAnswer, XcpCarried,
};
use crate::testing::{arrival, at, header, ms};
use crate::xcp::{CloudParams, XcpLink, XcpLinkParams};

/// Capacity of the port's own link, which is never the bottleneck.
pub(super) const CAPACITY: u64 = 100_000_000;
/// More than any router would give.
const EAGER: i64 = 1 << 60;
/// The header of an eager flow.
const BUSY: XcpCarried = XcpCarried {
    covers: 0,
    ..header(50_000, 1 << 32, EAGER)
};
pub(super) fn published() -> XcpLinkParams {
    XcpLinkParams {
        guard: false,
        clouds: Some(CloudParams::default()),
        ..XcpLinkParams::default()
    }
}

pub(super) fn upstream(number: u32) -> Upstream {
    Upstream::of(IpAddr::V4(Ipv4Addr::from_bits(number))).unwrap()
}

pub(super) fn packet(from: Option<u32>, header: XcpCarried) -> Arrival {
    packet_of(from.map(upstream), header)
}

fn packet_of(upstream: Option<Upstream>, header: XcpCarried) -> Arrival {
    let cloud = upstream.map(|upstream| Cloud { upstream, hops: 1 });
    arrival(1000, 7, Carried::Xcp(XcpCarried { cloud, ..header }))
}

/// The port's capacity for packets from router 1.
pub(super) fn capacity_of(port: &XcpILink) -> u64 {
    let link = port.table().link(upstream(1)).unwrap();
    link.metrics().xcp.unwrap().capacity
}

/// Clouds with exact estimates.
fn exact() -> Option<CloudParams> {
    Some(CloudParams {
        exact: Some(crate::xcp::ExactEstimate::default()),
        ..CloudParams::default()
    })
}

/// A port that has received a packet from router 1 in each millisecond of a second.
fn used() -> XcpILink {
    let mut port = XcpILink::new(Instant::ZERO, CAPACITY, published());
    for n in 0..1000 {
        pass(&mut port, at(n), &packet(Some(1), XcpCarried::default()));
    }
    port
}

pub(super) fn estimate(available: i64) -> CloudEstimate {
    CloudEstimate {
        available,
        capacity: 0,
        queue: 0,
        valid_for: Duration::from_secs(5),
    }
}

pub(super) fn pass(port: &mut XcpILink, now: Instant, packet: &Arrival) -> XcpAnswer {
    port.on_arrival(now, packet, 0);
    match port.on_departure(now, packet, 0) {
        Answer::Xcp(answer) => answer,
        other => panic!("{other:?}"),
    }
}

fn clouds(port: &XcpILink) -> CloudMetrics {
    port.metrics().clouds.unwrap()
}

/// A flow with a round trip of 100 ms behind the port, which follows its feedback from one interval
/// to the next. In bytes per second.
fn obeys(port: &mut XcpILink, interval: u64, rate: f64) -> f64 {
    let packets = (rate / 10_000.0) as u64;
    let header = header(100_000, (1u64 << 40) / 10 / packets, EAGER);
    let mut change = 0;
    for n in 0..packets {
        let at = Instant::ZERO + ms(100) * interval as u32 + ms(100) * n as u32 / packets as u32;
        change += pass(port, at, &packet(Some(1), header)).delta;
    }
    rate + change as f64 / 65_536.0
}

/// A cloud of 4.75 MB/s with an estimate in every tenth interval: the remaining capacity is given
/// once, and not ten times. If it were given in each interval, the rate would reach 16 MB/s by the
/// second estimate. (Here, feedback to a flow takes effect two intervals later, which causes some
/// overshoot.)
#[test]
fn an_estimate_is_not_given_again_and_again() {
    let params = XcpLinkParams {
        clouds: exact(),
        ..published()
    };
    let mut port = XcpILink::new(Instant::ZERO, CAPACITY, params);
    let mut rate = 1_000_000.0;
    let mut sent = Vec::new();
    let mut estimated = 0;
    for interval in 0..61 {
        if interval % 10 == 1 {
            let since: &[f64] = &sent[estimated..];
            let mean = since.iter().sum::<f64>() / since.len() as f64;
            estimated = sent.len();
            let now = Instant::ZERO + ms(100) * interval as u32;
            port.on_estimate(now, upstream(1), &estimate((4_750_000.0 - mean) as i64));
        }
        sent.push(rate);
        rate = obeys(&mut port, interval, rate);
    }
    let most = sent.iter().fold(0.0f64, |most, rate| most.max(*rate));
    assert!(most <= 1.2 * 4_750_000.0, "{sent:?}");
    assert!((rate - 4_750_000.0).abs() <= 0.02 * 4_750_000.0, "{sent:?}");
}

/// C_v = BW + y_v(t_e), also if more arrives at the cloud's link than it can carry.
#[test]
fn capacity_is_what_is_left_and_what_is_used() {
    for (available, capacity) in [(3_750_000, 4_750_000), (-250_000, 750_000), (-1 << 60, 1)] {
        let mut port = used();
        port.on_estimate(at(1000), upstream(1), &estimate(available));
        assert_eq!(capacity_of(&port), capacity);
    }
}

/// An estimate over a short time may count several packets more or fewer than the port does, so
/// capacity is averaged over a round trip, here of ten estimates. The exponential average of a
/// value that alternates by ± A is within A/19 of its mean.
#[test]
fn capacity_is_averaged_over_a_round_trip() {
    let mut port = XcpILink::new(Instant::ZERO, CAPACITY, published());
    let header = XcpCarried {
        rtt_us: 500_000,
        x: 1 << 30,
        ..XcpCarried::default()
    };
    let mut estimates = 0;
    for n in 1..8000u64 {
        pass(&mut port, at(n), &packet(Some(1), header));
        if n % 50 == 0 {
            estimates += 1;
            let error = [760_000, -760_000][estimates % 2];
            port.on_estimate(at(n), upstream(1), &estimate(1_000_000 + error));
            let capacity = capacity_of(&port);
            let off = capacity.abs_diff(2_000_000);
            assert!(n < 5000 || off <= 45_000, "{n}: {capacity}");
        }
    }
}

/// If the link's rate is known, a virtual router leaves a part of its flows' rate, and takes a
/// similar part of the link's rate.
#[test]
fn shared_clouds_become_even() {
    let mut port = used();
    let shared = CloudEstimate {
        capacity: 5_000_000,
        ..estimate(3_000_000)
    };
    port.on_estimate(at(1000), upstream(1), &shared);
    // 1 + 3 MB/s, and (0.019 · 5 − 0.02 · 1)/0.4.
    assert_eq!(capacity_of(&port), 4_187_500);
}

/// Without an estimate, and once it is too old, the port answers as XCP does, and marks the cloud
/// as unknown.
#[test]
fn without_an_estimate_it_is_xcp_and_says_so() {
    let mut port = XcpILink::new(Instant::ZERO, CAPACITY, published());
    let mut plain = XcpLink::new(Instant::ZERO, CAPACITY, published());
    for n in 0..1000u64 {
        let now = at(n);
        if n == 300 {
            let short = CloudEstimate {
                valid_for: ms(200),
                ..estimate(10_000)
            };
            port.on_estimate(now, upstream(1), &short);
        }
        let one = packet(Some(1), BUSY);
        let answer = pass(&mut port, now, &one);
        plain.on_arrival(now, &one, 0);
        let Answer::Xcp(expected) = plain.on_departure(now, &one, 0) else {
            panic!("XCP")
        };
        let known = (300..=500).contains(&n);
        let expected_cloud = if known {
            CloudAnswer::Counted { hops: 1 }
        } else {
            CloudAnswer::Unknown { hops: 1 }
        };
        assert_eq!(answer.cloud, expected_cloud);
        if n < 300 {
            assert_eq!(answer.delta, expected.delta);
        }
        assert!(answer.delta <= EAGER);
    }
    assert_eq!((clouds(&port).counted, clouds(&port).unknown), (201, 799));
    // Packets directly from an XCP router do not belong to a cloud.
    let direct = pass(&mut port, at(1001), &packet(None, BUSY));
    assert_eq!(direct.cloud, CloudAnswer::None);
}

/// If clouds are estimated, packets through a cloud get nothing before its first estimate, for up
/// to a second.
#[test]
fn the_first_estimate_is_awaited() {
    let params = XcpLinkParams {
        clouds: exact(),
        ..XcpLinkParams::default()
    };
    for estimated in [false, true] {
        let mut port = XcpILink::new(Instant::ZERO, CAPACITY, params.clone());
        let mut given = [0, 0];
        for n in 0..2000u64 {
            let now = at(n);
            if estimated && n == 500 {
                port.on_estimate(now, upstream(1), &estimate(10_000_000));
            }
            let answer = pass(&mut port, now, &packet(Some(1), BUSY));
            let awaited = n < if estimated { 500 } else { 1000 };
            given[usize::from(!awaited)] += answer.delta.max(0);
            let unknown = answer.cloud == CloudAnswer::Unknown { hops: 1 };
            assert_eq!(unknown, !estimated && !awaited, "{n}");
        }
        assert_eq!(given[0], 0);
        assert!(given[1] > 0);
    }
}

/// With invented addresses, memory is bounded, a known cloud remains known, and another router
/// finds a place.
#[test]
fn made_up_addresses_push_out_nothing_that_works() {
    let mut port = XcpILink::new(Instant::ZERO, CAPACITY, published());
    let header = XcpCarried::default();
    pass(&mut port, Instant::ZERO, &packet(Some(1), header));
    port.on_estimate(at(1), upstream(1), &estimate(1_000_000));
    let mut second = None;
    for n in 1..200_000u64 {
        let now = Instant::from_nanos(n * 50_000);
        pass(&mut port, now, &packet(Some(1000 + n as u32), header));
        if n % 20 == 0 {
            let answer = pass(&mut port, now, &packet(Some(1), header));
            assert_eq!(answer.cloud, CloudAnswer::Counted { hops: 1 });
            pass(&mut port, now, &packet(Some(2), header));
        }
        // Both are measured all the time.
        if n % 1000 == 0 {
            for known in [1, 2] {
                port.on_estimate(now, upstream(known), &estimate(1_000_000));
            }
            if port.table().link(upstream(2)).is_some() {
                second.get_or_insert(now);
            }
        }
        assert!(clouds(&port).upstreams as usize <= MOST_UPSTREAMS);
    }
    assert!(second.is_some(), "{:?}", clouds(&port));
    assert_eq!(clouds(&port).known, 2);
    assert!(clouds(&port).refused > 0 && clouds(&port).forgotten > 0);
}

/// A host sends from many addresses of its IPv6 prefix. Places remain for routers of other
/// prefixes, even for a router that arrives during the flood, and a router of the same prefix with
/// an earlier estimate keeps its place.
#[test]
fn one_prefix_does_not_fill_the_table() {
    const FLOOD: u64 = 0x2001_0DB8_0000_0001;
    const HONEST: u64 = 0x2001_0DB8_0000_0002;
    let router = |prefix: u64, host: u64| {
        let bits = u128::from(prefix) << 64 | u128::from(host);
        Upstream::of(IpAddr::V6(Ipv6Addr::from_bits(bits))).unwrap()
    };
    let mut port = XcpILink::new(Instant::ZERO, CAPACITY, published());
    let header = XcpCarried::default();
    let from = |upstream| packet_of(Some(upstream), header);
    pass(&mut port, Instant::ZERO, &from(router(FLOOD, 1)));
    for n in 1..100_000u64 {
        let now = Instant::from_nanos(n * 50_000);
        if n.is_multiple_of(20) {
            pass(&mut port, now, &from(router(FLOOD, 1)));
            port.on_estimate(now, router(FLOOD, 1), &estimate(1_000_000));
        }
        pass(&mut port, now, &from(router(FLOOD, 1000 + n)));
        assert!(clouds(&port).upstreams as usize <= MOST_OF_PREFIX + 2);
        if n == 40_000 {
            let refused = clouds(&port).refused;
            pass(&mut port, now, &from(router(HONEST, 1)));
            assert_eq!(clouds(&port).refused, refused, "there is a place for it");
        }
        if n > 40_000 && n.is_multiple_of(20) {
            port.on_estimate(now, router(HONEST, 1), &estimate(1_000_000));
            let answer = pass(&mut port, now, &from(router(HONEST, 1)));
            assert_eq!(answer.cloud, CloudAnswer::Counted { hops: 1 });
        }
    }
    assert_eq!(clouds(&port).known, 2);
    assert!(clouds(&port).refused > 0 && clouds(&port).forgotten > 0);
}

/// Upstream routers that disappear are removed, whether known or not.
#[test]
fn upstream_routers_that_vanish_are_forgotten() {
    let mut port = XcpILink::new(Instant::ZERO, CAPACITY, published());
    let header = XcpCarried::default();
    let long = CloudEstimate {
        valid_for: 100 * INACTIVE,
        ..estimate(1_000_000)
    };
    for number in 0..MOST_UPSTREAMS as u32 {
        pass(&mut port, Instant::ZERO, &packet(Some(1 + number), header));
        port.on_estimate(Instant::ZERO, upstream(1 + number), &long);
    }
    let full = |port: &mut XcpILink, now| {
        pass(port, now, &packet(Some(99), header));
        clouds(port).refused
    };
    assert_eq!(full(&mut port, Instant::ZERO + PATIENCE), 1);
    assert_eq!(full(&mut port, Instant::ZERO + INACTIVE), 1);
    assert_eq!(clouds(&port).forgotten as usize, MOST_UPSTREAMS);
    assert_eq!(clouds(&port).upstreams, 1);
    // An estimate without a request is ignored.
    port.on_estimate(Instant::ZERO + INACTIVE, upstream(77), &long);
    assert!(port.table().link(upstream(77)).is_none());
}

/// They are removed even if no other router needs their places, because otherwise they would be
/// named, and estimates requested, forever.
#[test]
fn a_flood_of_upstream_routers_is_forgotten_once_it_ends() {
    let mut port = XcpILink::new(Instant::ZERO, CAPACITY, published());
    let header = XcpCarried::default();
    for number in 0..MOST_UPSTREAMS as u32 {
        pass(&mut port, Instant::ZERO, &packet(Some(1 + number), header));
    }
    assert_eq!(clouds(&port).upstreams as usize, MOST_UPSTREAMS);
    // One router continues.
    for second in 1..=25 {
        let now = Instant::ZERO + Duration::from_secs(second);
        pass(&mut port, now, &packet(Some(7), header));
    }
    let mut named = Vec::new();
    port.table().visit(&mut |router, _| named.push(router));
    assert_eq!(named, [upstream(7)]);
    assert_eq!(clouds(&port).forgotten as usize, MOST_UPSTREAMS - 1);
}

/// A header on every n-th packet stands for the others, as far as packets without a header arrive.
#[test]
fn headers_stand_for_packets_without_one() {
    for (bare, covers, believed) in [(7, 8, 8), (0, 1, 1), (0, 60_000, 1)] {
        let mut port = XcpILink::new(Instant::ZERO, CAPACITY, published());
        let foreign = Arrival {
            carried: Carried::Foreign,
            ..packet(None, XcpCarried::default())
        };
        let header = XcpCarried {
            covers,
            ..XcpCarried::default()
        };
        for n in 0..2000u64 {
            let now = at(2 * n);
            if n == 1000 {
                port.on_estimate(now, upstream(1), &estimate(0));
            }
            for _ in 0..bare {
                port.on_arrival(now, &foreign, 0);
            }
            pass(&mut port, now, &packet(Some(1), header));
        }
        port.on_estimate(at(4000), upstream(1), &estimate(0));
        assert_eq!(capacity_of(&port), believed * 500_000);
    }
}

proptest! {
    /// Whatever arrives, no request is raised, nothing overflows, and the table is bounded.
    #[test]
    fn nothing_is_raised(
        guard: bool,
        packets in prop::collection::vec(
            (
                any::<u32>(), any::<u64>(), any::<i64>(), any::<u16>(),
                1..60u32, any::<u8>(), 0..2000u64,
            ),
            1..300,
        ),
        estimates in prop::collection::vec((any::<i64>(), any::<u64>(), 0..10_000u64), 1..20),
    ) {
        let params = XcpLinkParams { guard, ..published() };
        let mut port = XcpILink::new(Instant::ZERO, CAPACITY, params);
        let mut now = Instant::ZERO;
        let mut estimates = estimates.iter().cycle();
        for (rtt_us, x, delta, covers, from, hops, wait) in packets {
            now += ms(wait);
            let cloud = Cloud { upstream: upstream(from), hops };
            let header = XcpCarried {
                rtt_us,
                x,
                delta,
                covers,
                cloud: (hops > 0).then_some(cloud),
            };
            let arrival = Arrival { carried: Carried::Xcp(header), ..packet(None, header) };
            let answer = pass(&mut port, now, &arrival);
            prop_assert!(answer.delta <= delta);
            prop_assert_eq!(answer.cloud == CloudAnswer::None, hops == 0);
            if let Some((available, queue, valid)) = estimates.next() {
                let estimate = CloudEstimate {
                    available: *available,
                    capacity: *queue,
                    queue: *queue,
                    valid_for: ms(*valid),
                };
                port.on_estimate(now, upstream(from), &estimate);
            }
        }
        prop_assert!(clouds(&port).upstreams as usize <= MOST_UPSTREAMS);
    }
}
