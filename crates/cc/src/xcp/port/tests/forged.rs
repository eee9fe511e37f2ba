//! Effect of one forged packet per interval on the feedback of other flows.

use super::{CAPACITY, EAGER, eager, metrics, packet, stamp};
use crate::base::Instant;
use crate::law::LinkController;
use crate::signals::{Answer, Arrival, Carried, XcpCarried};
use crate::testing::{header, ms};
use crate::xcp::params::{XcpLinkParams, x_of};
use crate::xcp::port::XcpLink;

const RTT_US: u32 = 100_000;

/// Returns how much a port with 1.2 times its capacity takes from its honest flows in a second, in
/// 2^-16 bytes per second, if a forged packet of 84 bytes arrives early in each interval. One in
/// `covers` packets of the honest flows has a header.
fn taken(forged: Option<XcpCarried>, covers: u16) -> i64 {
    let mut link = XcpLink::new(Instant::ZERO, CAPACITY, XcpLinkParams::default());
    // Ten flows with 1000 packets per second each, or 100 per round trip.
    let header = XcpCarried {
        covers,
        ..eager(RTT_US, u64::from(covers) * x_of(ms(1)))
    };
    let (mut sum, mut interval) = (0, 0);
    for n in 0..20_000u64 {
        let now = Instant::from_micros(100 * n);
        let carried = match (n / 10) % u64::from(covers) {
            0 => Carried::Xcp(header),
            _ => Carried::Foreign,
        };
        let honest = Arrival {
            carried,
            ..packet((n % 10) as u32, 1500, header)
        };
        link.on_arrival(now, &honest, 0);
        if let Answer::Xcp(answer) = link.on_departure(now, &honest, 0)
            && n >= 10_000
        {
            sum += answer.delta;
        }
        let intervals = metrics(&link).intervals;
        if let Some(header) = forged.filter(|_| intervals != interval) {
            let arrival = packet(99, 84, header);
            link.on_arrival(now, &arrival, 0);
            stamp(link.on_departure(now, &arrival, 0));
        }
        interval = intervals;
    }
    assert!(interval >= 15, "{interval}");
    -sum
}

#[test]
fn a_forged_packet_in_each_interval_takes_no_reduction_from_others() {
    let forged = |rtt_us, delta, covers| XcpCarried {
        covers,
        ..header(rtt_us, x_of(ms(1)), delta)
    };
    let cases = [
        forged(RTT_US, EAGER, u16::MAX),
        XcpCarried {
            x: 1,
            ..forged(RTT_US, EAGER, u16::MAX)
        },
        forged(1, EAGER, u16::MAX),
        // It gives back, for many packets or with a very short RTT.
        forged(RTT_US, -EAGER, u16::MAX),
        forged(RTT_US, -EAGER, 1),
        forged(1, -EAGER, 1),
    ];
    for covers in [1, 3, 8] {
        let expected = taken(None, covers);
        assert!(expected > 0, "{covers}: {expected}");
        for forged in cases {
            let left = taken(Some(forged), covers);
            let kept = left >= expected / 100 * 98;
            assert!(kept, "{covers}, {forged:?}: {left} of {expected}");
        }
    }
}

/// Flows whose headers stand for eight packets share the port with flows that have a header on each
/// packet: all lose according to their bytes.
#[test]
fn few_headers_that_stand_for_many_packets_pay_for_all_of_them() {
    let mut link = XcpLink::new(Instant::ZERO, CAPACITY, XcpLinkParams::default());
    let often = eager(RTT_US, x_of(ms(1)));
    let seldom = XcpCarried {
        covers: 8,
        ..eager(RTT_US, 8 * x_of(ms(1)))
    };
    let mut taken = [0i64; 2];
    for n in 0..20_000u64 {
        let now = Instant::from_micros(100 * n);
        // Two of ten flows.
        let few = n % 10 < 2;
        let carried = match (few, (n / 10) % 8) {
            (true, 0) => Carried::Xcp(seldom),
            (true, _) => Carried::Foreign,
            (false, _) => Carried::Xcp(often),
        };
        let arrival = Arrival {
            carried,
            ..packet((n % 10) as u32, 1500, often)
        };
        link.on_arrival(now, &arrival, 0);
        if let Answer::Xcp(answer) = link.on_departure(now, &arrival, 0)
            && n >= 10_000
        {
            taken[usize::from(few)] -= answer.delta;
        }
    }
    // Per flow.
    let (many, few) = (taken[0] / 8, taken[1] / 2);
    assert!(many > 0, "{taken:?}");
    let range = many * 9 / 10..=many * 11 / 10;
    assert!(range.contains(&few), "{few} {many}");
}
