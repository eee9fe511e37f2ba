use core::net::{IpAddr, Ipv4Addr};

use pathmark_cc::{Duration, Feedback, Request, XcpAnswer, XcpFeedback, XcpRequest};
use pathmark_transport::{Meter, Signal};

use super::*;
use crate::XcpSignal;
use crate::stamp::{self, Identity, Outcome};
use crate::support::{arrived, changed, sent};

const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 11);
/// The change of rate that each header requests, and routers leave unchanged, in 2⁻¹⁶ bytes per
/// second.
const ASKED: i64 = 40_000 << 16;

fn upstream() -> Upstream {
    Upstream::of(IpAddr::V4(ROUTER)).unwrap()
}

/// A shim for `covers` packets, stamped by one router with `address`.
fn shim(signal: &XcpSignal, address: Ipv4Addr, covers: u16) -> Vec<u8> {
    let mut request = Request::default();
    request.xcp = Some(XcpRequest {
        rtt_us: 50_000,
        x: 1 << 32,
        delta: ASKED,
        covers,
        window: 24_000,
        packet: 1200,
    });
    let mut shim = vec![0; signal.shim_len()];
    signal.fill(&request, &mut shim);
    let answer = changed(XcpAnswer::default(), |answer| answer.delta = ASKED);
    let router = changed(Identity::new(11), |router| router.v4 = address);
    let outcome = stamp::stamp_payload(&mut shim, &answer, 1200, &router);
    assert_eq!(outcome, Outcome::Stamped);
    shim
}

/// A receiver, along with its sender's reading of the counters.
struct End {
    signal: XcpSignal,
    meter: Box<dyn Meter>,
    number: u64,
}

impl End {
    fn new(host: &HostClouds) -> Self {
        let signal = XcpSignal::new().with_host_clouds(host.clone());
        Self {
            meter: signal.meter(),
            signal,
            number: 0,
        }
    }

    fn packet(&mut self, now: Instant, ttl: u8, shim: &[u8]) {
        self.meter
            .on_packet(&changed(arrived(Some(shim), ttl), |arrived| {
                (arrived.now, arrived.number) = (now, self.number);
            }));
        self.number += 1;
    }

    fn feedback(&self) -> XcpFeedback {
        let counters = self.meter.counters().unwrap();
        let sent = sent(self.number, 1200);
        match self.signal.difference(None, &counters, &sent).unwrap() {
            Feedback::Xcp(feedback) => feedback,
            other => panic!("not XCP: {other:?}"),
        }
    }
}

fn estimate(available: i64) -> CloudEstimate {
    CloudEstimate {
        available,
        capacity: 0,
        queue: 0,
        valid_for: Duration::from_secs(3600),
    }
}

/// Two hops after the last router: until there is an estimate, nothing is granted. Then the
/// sender learns of an unmeasured hop, or, once there is an estimate, gets no more than the
/// unused capacity.
#[test]
fn what_goes_back_is_what_the_cloud_leaves() {
    for (available, given) in [(None, ASKED), (Some(1 << 40), ASKED), (Some(0), 0)] {
        let host = HostClouds::new();
        let mut end = End::new(&host);
        let stamped = shim(&end.signal, ROUTER, 1);
        end.packet(Instant::from_millis(1), 61, &stamped);
        let first = end.feedback();
        assert_eq!((first.stamped, first.delta), (1, 0));
        let seen = (first.unmarked_hop, first.uncounted);
        assert_eq!(seen, (Some(false), false), "for a second");
        if let Some(available) = available {
            let mut seen = Vec::new();
            host.visit(&mut |upstream, bytes| seen.push((upstream, bytes)));
            assert_eq!(seen, [(upstream(), 1228)]);
            host.tell(Instant::from_millis(1500), upstream(), &estimate(available));
        }
        // Intervals of the virtual router must pass before it grants a rate.
        let mut before = 0;
        for n in 0..400 {
            let now = Instant::from_millis(2000 + 10 * n);
            end.packet(now, 61, &stamped);
            if n == 398 {
                before = end.feedback().delta;
            }
        }
        let last = end.feedback();
        assert_eq!(last.packets, 401);
        assert_eq!(last.uncounted, available.is_none());
        assert_eq!(last.unmarked_hop, Some(available.is_none()));
        let delta = last.delta - before;
        match given {
            0 => assert!(delta <= ASKED / 100, "{available:?}: {delta}"),
            _ => assert_eq!(delta, given, "{available:?}"),
        }
        let metrics = host.metrics();
        let known = available.is_some();
        assert_eq!(metrics.known, u32::from(known));
        assert_eq!(metrics.unknown, if known { 0 } else { 400 });
    }
}

/// A packet directly from a router, a packet from a router without an address, and a packet without
/// a stamp must be handled as without virtual routers.
#[test]
fn others_are_left_alone() {
    let host = HostClouds::new();
    for (ttl, address, hop) in [(63, ROUTER, false), (61, Ipv4Addr::UNSPECIFIED, true)] {
        let mut end = End::new(&host);
        let stamped = shim(&end.signal, address, 1);
        end.packet(Instant::from_millis(1), ttl, &stamped);
        let feedback = end.feedback();
        assert_eq!(feedback.delta, ASKED);
        assert_eq!(feedback.unmarked_hop, Some(hop));
        assert!(!feedback.uncounted);
    }
    let mut end = End::new(&host);
    let mut fresh = vec![0; end.signal.shim_len()];
    end.signal.fill(&Request::default(), &mut fresh);
    end.packet(Instant::from_millis(1), 61, &fresh);
    assert!(end.meter.counters().is_none());
    assert_eq!(host.metrics().upstreams, 0);
}

/// A header must not cover more packets than the packet numbers since the previous header.
#[test]
fn headers_stand_for_packets_that_were_sent() {
    for (skipped, covers, counted) in [(0, 1, 1), (0, 60_000, 1), (7, 8, 8), (99, 60_000, 64)] {
        let host = HostClouds::new();
        let mut end = End::new(&host);
        let stamped = shim(&end.signal, ROUTER, covers);
        end.packet(Instant::from_millis(1), 61, &stamped);
        end.number += skipped;
        end.packet(Instant::from_millis(2), 61, &stamped);
        // A late, older packet.
        end.number -= 1 + skipped;
        end.packet(Instant::from_millis(3), 61, &stamped);
        host.visit(&mut |_, bytes| assert_eq!(bytes, (1 + counted + 1) * 1228, "{covers}"));
    }
}

/// With connections that lie about their routers, memory must be bounded, and an honest
/// connection must continue to work.
#[test]
fn made_up_routers_push_out_nothing_that_works() {
    let host = HostClouds::new();
    let (mut honest, mut liar) = (End::new(&host), End::new(&host));
    let stamped = shim(&honest.signal, ROUTER, 1);
    for n in 0..20_000u32 {
        let now = Instant::from_nanos(u64::from(n) * 1_000_000);
        let made_up = Ipv4Addr::from_bits(0x0A00_0000 + n);
        let lie = shim(&liar.signal, made_up, 1);
        if n % 10 == 0 {
            honest.packet(now, 61, &stamped);
            host.tell(now, upstream(), &estimate(1_000_000));
        }
        liar.packet(now, 61, &lie);
    }
    let feedback = honest.feedback();
    assert!(!feedback.uncounted);
    let metrics = host.metrics();
    assert_eq!((metrics.upstreams, metrics.known), (32, 1));
    assert!(metrics.refused > 0, "{metrics:?}");
}
