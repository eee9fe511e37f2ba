#[path = "../../shim/tests/it/packet.rs"]
mod around;

use core::net::IpAddr;

use around::packet;
use pathmark_cc::{Carried, Cloud, Upstream, XcpCarried};
use pathmark_shim::{corruption, ip::Layout};
use proptest::prelude::*;

use super::*;
use crate::header::tests::{emit, feedback, repr, request};
use crate::header::{Body, LastRouter, Repr};
use crate::support::{changed, sent};
use crate::window;

const ROUTER: Identity = Identity {
    id: 0xABCD,
    v4: Ipv4Addr::new(198, 51, 100, 9),
    v6: Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 9),
    hops: 1,
};

fn answer(delta: i64, bounding: bool) -> XcpAnswer {
    changed(XcpAnswer::default(), |answer| {
        (answer.delta, answer.bounding) = (delta, bounding);
    })
}

#[test]
fn a_full_header_is_lowered_and_signed() {
    let request = changed(request(), |request| request.covers = 4);
    for form in [Form::V4, Form::V6] {
        let mut bytes = emit(&Repr::initial(form, Some(&request), 64));
        let lower = answer(-(3 << 16), true);
        let outcome = stamp_payload(&mut bytes, &lower, 1500, &ROUTER);
        assert_eq!(outcome, Outcome::Stamped);
        let first = Packet::parse(&bytes).unwrap().repr();
        assert!(first.stamped);
        assert_eq!((first.xcp_ttl, first.router), (63, 0xABCD));
        let Body::Full(full) = first.body else {
            panic!("full")
        };
        assert_eq!(full.delta, -(3 << 16));
        let kept = (full.rtt_us, full.x, full.covers);
        assert_eq!(kept, (request.rtt_us, request.x, 4));
        let address = match form {
            Form::V4 => LastRouter::V4(ROUTER.v4),
            _ => LastRouter::V6(ROUTER.v6),
        };
        assert_eq!(full.last, address);

        // The next router could grant more, so it must leave the feedback and the bounding
        // router unchanged, but count as a hop.
        let second = Identity::new(7);
        let more = answer(-(3 << 16), false);
        let _ = stamp_payload(&mut bytes, &more, 1500, &second);
        let two = Packet::parse(&bytes).unwrap().repr();
        assert_eq!((two.xcp_ttl, two.router), (62, 0xABCD));
        assert_eq!(feedback(&two), -(3 << 16));
    }
}

#[test]
fn a_compact_header_is_lowered_in_packets() {
    let request = request();
    let mut bytes = emit(&Repr::initial(Form::Compact, Some(&request), 64));
    let Carried::Xcp(read) = from_payload(&bytes, 1500) else {
        panic!("XCP")
    };
    assert_eq!((read.rtt_us, read.x), (100_000, 1_099_511_627));
    assert!(read.delta <= request.delta);
    // 9548 B/s · 0.1 s ÷ 1500 B = 0.6365 packets; in steps of 2⁻¹², the next lower value is
    // 2607.
    let lower = answer(9548 << 16, true);
    let _ = stamp_payload(&mut bytes, &lower, 1500, &ROUTER);
    let stamped = Packet::parse(&bytes).unwrap().repr();
    assert_eq!(feedback(&stamped), 2607);
    assert_eq!((stamped.xcp_ttl, stamped.router), (63, 0xABCD));
    // If the request is only passed on, the word must stay the same.
    let Carried::Xcp(read) = from_payload(&bytes, 1500) else {
        panic!("XCP")
    };
    let pass = answer(read.delta, false);
    let _ = stamp_payload(&mut bytes, &pass, 1500, &Identity::new(5));
    let again = Packet::parse(&bytes).unwrap().repr();
    assert_eq!((again.body, again.router), (stamped.body, 0xABCD));
}

/// The compact form has no room for ports' declarations, and keeps its covers.
#[test]
fn declared_corruption_adds_up_in_the_full_form() {
    let request = changed(request(), |request| request.covers = 3);
    let declares = changed(XcpAnswer::default(), |answer| {
        answer.corruption_ppm = 50_000;
    });
    // 5 %, 10 %, and 15 %, which is closer to 10 % than to 30 %.
    for (form, classes) in [
        (Form::V4, [5, 6, 6]),
        (Form::V6, [5, 6, 6]),
        (Form::Compact, [0, 0, 0]),
    ] {
        let mut bytes = emit(&Repr::initial(form, Some(&request), 64));
        let seen = classes.map(|_| {
            let _ = stamp_payload(&mut bytes, &declares, 1500, &ROUTER);
            let packet = Packet::parse(&bytes).unwrap();
            let carried = from_payload(&bytes, 1500);
            assert!(matches!(carried, Carried::Xcp(read) if read.covers == 3));
            packet.corruption()
        });
        assert_eq!(seen, classes, "{form:?}");
    }
}

#[test]
fn others_are_untouched() {
    let answer = answer(0, true);
    let mut minimal = emit(&Repr::initial(Form::V4, None, 64));
    let before = minimal.clone();
    let outcome = stamp_payload(&mut minimal, &answer, 1500, &ROUTER);
    assert_eq!(outcome, Outcome::Untouched);
    assert_eq!(minimal, before);
    assert_eq!(from_payload(&minimal, 1500), Carried::Foreign);

    let mut vcp = [0; 16];
    frame::seal(pathmark_shim::Kind::VCP, &mut vcp);
    for bytes in [&mut vcp[..], &mut [0x40; 1200][..], &mut []] {
        let before = bytes.to_vec();
        assert_eq!(from_payload(bytes, 1500), Carried::Foreign);
        let outcome = stamp_payload(bytes, &answer, 1500, &ROUTER);
        assert_eq!(outcome, Outcome::Untouched);
        assert_eq!(bytes, before);
    }
}

/// The specification's example: two routers without XCP after the sender, an XCP-i router, and
/// another XCP-i router directly behind it.
#[test]
fn a_cloud_shows_to_the_first_router_behind_it() {
    let request = request();
    let host: IpAddr = [192, 0, 2, 1].into();
    let cloud = |bytes: &[u8], ttl| match from_forwarded(bytes, 1500, ttl, || Some(host)) {
        Carried::Xcp(header) => header.cloud,
        other => panic!("{other:?}"),
    };
    for (form, address) in [
        (Form::V4, IpAddr::V4(ROUTER.v4)),
        (Form::V6, IpAddr::V6(ROUTER.v6)),
    ] {
        let mut bytes = emit(&Repr::initial(form, Some(&request), 64));
        // Packets directly from their sender leave with a TTL of 63.
        assert_eq!(cloud(&bytes, 63), None);
        let found = Cloud {
            upstream: Upstream::of(host).unwrap(),
            hops: 2,
        };
        assert_eq!(cloud(&bytes, 61), Some(found));
        let mut answer = XcpAnswer::default();
        (answer.delta, answer.cloud) = (500 << 16, CloudAnswer::Counted { hops: 2 });
        let outcome = stamp_payload(&mut bytes, &answer, 1500, &ROUTER);
        assert_eq!(outcome, Outcome::Stamped);
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!((packet.xcp_ttl(), packet.format()), (61, Format::Standard));
        assert_eq!(cloud(&bytes, 60), None);
        // The next cloud starts at this router. A TTL that was raised on the way counts as a
        // cloud, too.
        let upstream = Upstream::of(address).unwrap();
        assert_eq!(cloud(&bytes, 57), Some(Cloud { upstream, hops: 3 }));
        let cloud_behind = Some(Cloud {
            upstream,
            hops: 254,
        });
        assert_eq!(cloud(&bytes, 62), cloud_behind);
    }
    let bytes = emit(&Repr::initial(Form::Compact, Some(&request), 64));
    assert_eq!(cloud(&bytes, 61), None);
}

/// A cloud without an estimate at one router must be reported by the packet and by the receiver.
#[test]
fn an_unmeasured_cloud_is_reported() {
    let request = pathmark_cc::XcpRequest::default();
    let mut bytes = emit(&Repr::initial(Form::V4, Some(&request), 64));
    for (cloud, xcp_ttl) in [
        (CloudAnswer::Unknown { hops: 2 }, 61),
        (CloudAnswer::None, 60),
        (CloudAnswer::Counted { hops: 1 }, 58),
    ] {
        let answer = changed(XcpAnswer::default(), |answer| answer.cloud = cloud);
        let outcome = stamp_payload(&mut bytes, &answer, 1500, &ROUTER);
        assert_eq!(outcome, Outcome::Stamped);
        let packet = Packet::parse(&bytes).unwrap();
        let seen = (packet.xcp_ttl(), packet.format());
        assert_eq!(seen, (xcp_ttl, Format::Uncounted));
    }
    let mut totals = crate::counters::Totals::default();
    totals.count(&Packet::parse(&bytes).unwrap(), 1500, Some(58), false);
    let none = crate::counters::Totals::default();
    let feedback = totals.since(&none, &sent(1, 1500), Some(64)).unwrap();
    assert_eq!(feedback.unmarked_hop, Some(true));
}

proptest! {
    /// Along any path, the feedback never increases, the other fields stay the sender's, and
    /// sealed shims can be parsed.
    #[test]
    fn only_ever_lower(
        start in repr(),
        answers in proptest::collection::vec(
            (any::<i64>(), any::<bool>(), 1..u16::MAX, 0..400_000u32), 1..6,
        ),
        bytes in 100..9000u32,
    ) {
        let mut shim = emit(&start);
        let mut before = start;
        for (delta, bounding, id, corruption_ppm) in answers {
            let answer = changed(XcpAnswer::default(), |answer| {
                (answer.delta, answer.bounding) = (delta, bounding);
                answer.corruption_ppm = corruption_ppm;
            });
            let class = Packet::parse(&shim).unwrap().corruption();
            let outcome = stamp_payload(&mut shim, &answer, bytes, &Identity::new(id));
            let now = Packet::parse(&shim).unwrap().repr();
            if start.format == Format::Minimal {
                prop_assert_eq!(outcome, Outcome::Untouched);
                prop_assert_eq!(now, start);
                continue;
            }
            prop_assert_eq!(outcome, Outcome::Stamped);
            prop_assert!(now.stamped);
            prop_assert_eq!(now.xcp_ttl, before.xcp_ttl.wrapping_sub(1));
            prop_assert_eq!(now.router, if bounding { id } else { before.router });
            prop_assert!(feedback(&now) <= feedback(&before));
            match (now.body, start.body) {
                (Body::Full(now), Body::Full(start)) => {
                    prop_assert!(now.delta <= answer.delta);
                    prop_assert_eq!(
                        (now.rtt_us, now.x, now.covers),
                        (start.rtt_us, start.x, start.covers),
                    );
                    prop_assert_eq!(now.corruption, corruption::add(class, corruption_ppm));
                }
                (Body::Compact(now), Body::Compact(start)) => {
                    prop_assert_eq!(
                        (now.rtt_ms, now.cwnd, now.covers),
                        (start.rtt_ms, start.cwnd, start.covers),
                    );
                    let least = window::decode_feedback(0x8007);
                    prop_assert!(!bounding || start.rtt_ms == 0 || now.delta(bytes) <= answer.delta
                        || now.feedback_q12() == least);
                }
                _ => prop_assert!(false, "another form"),
            }
            before = now;
        }
    }

    /// In a packet, at any segment's offset, the checksum must stay correct.
    #[test]
    fn checksums_hold(
        start in repr(), v6: bool, segment in 60..400usize, index in 0..3usize, answer: i64,
        fill: u8,
    ) {
        let front = emit(&start);
        let mut payload = vec![fill; segment * 3];
        for index in 0..3 {
            payload[index * segment..][..front.len()].copy_from_slice(&front);
        }
        let mut bytes = packet(v6, &payload);
        let whole = bytes.clone();
        let ip = Layout::walk(&bytes).unwrap();
        let udp = Datagram::locate(&bytes, &ip).unwrap();
        let answer = self::answer(answer, true);
        let offset = segment * index;
        let outcome = stamp_packet(
            &mut bytes,
            &udp,
            offset,
            &answer,
            1500,
            &ROUTER,
            ChecksumState::Complete,
        );
        let field = |bytes: &[u8]| u16::from_be_bytes(
            [bytes[udp.payload_offset() - 2], bytes[udp.payload_offset() - 1]],
        );
        prop_assert_eq!(field(&bytes), udp.compute_checksum(&bytes, &ip));
        prop_assert_eq!(outcome == Outcome::Stamped, start.format.asks());

        let mut alone = whole.clone();
        let _ = stamp_payload(&mut alone[udp.payload_offset() + offset..], &answer, 1500, &ROUTER);
        prop_assert_eq!(&alone[udp.payload_offset()..], &bytes[udp.payload_offset()..]);
        let mut partial = whole.clone();
        let _ = stamp_packet(
            &mut partial,
            &udp,
            offset,
            &answer,
            1500,
            &ROUTER,
            ChecksumState::Partial,
        );
        prop_assert_eq!(field(&partial), field(&whole));
    }

    /// A router of the rate form must read exactly the written fields.
    #[test]
    fn full_headers_are_carried_as_they_are(start in repr()) {
        let carried = from_payload(&emit(&start), 1500);
        match start.body {
            _ if start.format == Format::Minimal => prop_assert_eq!(carried, Carried::Foreign),
            Body::Full(full) => prop_assert_eq!(carried, Carried::Xcp(XcpCarried {
                rtt_us: full.rtt_us, x: full.x, delta: full.delta, covers: full.covers, cloud: None,
            })),
            Body::Compact(compact) => prop_assert_eq!(carried, Carried::Xcp(compact.carried(1500))),
        }
    }
}
