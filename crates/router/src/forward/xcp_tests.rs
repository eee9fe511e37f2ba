//! XCP and VCP packets through a router without interfaces.

use std::net::{Ipv4Addr, Ipv6Addr};

use pathmark_cc::{
    Answer, Arrival, Carried, Duration, Instant, LinkAlgorithm, Request, XcpAnswer, XcpRequest,
};
use pathmark_shim::ip::Layout;
use xcp_proto::header::{Body, LastRouter};
use xcp_proto::{Form, Packet, Repr};

use super::super_tests::segments_of;
use super::tests::*;
use super::{Identity, Router};
use crate::offload::Offload;

/// The rate that is granted, in bytes per second.
const GRANT: i64 = 500 << 16;

/// Grants the same to everyone.
fn grant(packet: &Arrival) -> Answer {
    match packet.carried {
        Carried::Xcp(xcp) => Answer::Xcp(XcpAnswer {
            delta: xcp.delta.min(GRANT),
            bounding: GRANT < xcp.delta,
            ..XcpAnswer::default()
        }),
        _ => Answer::None,
    }
}

fn granting() -> (Router, std::sync::mpsc::Receiver<Carried>) {
    let mut router = router(1500, None, false);
    let (heard, heard_by) = std::sync::mpsc::channel();
    let id = Identity {
        id: 77,
        v4: Ipv4Addr::new(10, 9, 0, 1),
        v6: Ipv6Addr::new(0xFD00, 9, 0, 0, 0, 0, 0, 1),
        hops: 1,
    };
    let classifier = super::Classifier {
        shims: true,
        ..super::Classifier::default()
    };
    router.configure(id, classifier, crate::ip::TokenBucket::new(0, 0));
    let port = router.port_mut(OUT).unwrap().link.port_mut();
    let law = Answering {
        answer: grant,
        heard: Some(heard),
    };
    port.set_controller(Instant::ZERO, Some(Box::new(law)));
    (router, heard_by)
}

fn request(delta: i64) -> XcpRequest {
    XcpRequest {
        rtt_us: 40_000,
        x: 1 << 31,
        delta,
        covers: 1,
        window: 28_000,
        packet: 1400,
    }
}

/// A UDP payload of `len` bytes that starts with a header.
fn headed(form: Form, delta: i64, len: usize) -> Vec<u8> {
    let mut payload = vec![0x55; len];
    let shim = Repr::initial(form, Some(&request(delta)), 64).emit(&mut payload);
    assert_eq!(shim, Some(form.len()));
    payload
}

/// A UDP payload of 600 bytes that starts with a fresh VCP shim.
fn with_vcp() -> Vec<u8> {
    let mut payload = vec![0x55; 600];
    let vcp = vcp_proto::Repr::initial(&Request::default(), true).emit();
    payload[..16].copy_from_slice(&vcp);
    payload
}

fn read(packet: &[u8]) -> Repr {
    Packet::parse(payload_of(packet)).unwrap().repr()
}

/// Gives the port `OUT`, of 10 Mbit/s, a law.
fn give_law(router: &mut Router, law: &str) {
    let law: LinkAlgorithm = law.parse().unwrap();
    let law = law.controller(Instant::ZERO, 1_250_000, 1);
    let port = router.port_mut(OUT).unwrap().link.port_mut();
    port.set_controller(Instant::ZERO, Some(law));
}

#[test]
fn headers_of_every_form_are_stamped_over_both_versions_of_ip() {
    let (mut router, heard) = granting();
    for (source, destination) in [(SRC, DST), ("fd00::1", "fd00:1::2")] {
        for form in [Form::V4, Form::V6, Form::Compact] {
            let payload = headed(form, 3000 << 16, 600);
            let sent = udp(source, destination, 64, 0x4000, &payload);
            pass(&mut router, &sent);
            let out = drain(&mut router, OUT);
            let [(packet, _)] = out.as_slice() else {
                panic!("{out:?}")
            };
            assert!(udp_checksum_ok(packet));
            let Carried::Xcp(carried) = heard.recv().unwrap() else {
                panic!("not heard as XCP")
            };
            assert_eq!(carried.rtt_us, 40_000);
            let now = read(packet);
            assert!(now.stamped);
            assert_eq!((now.xcp_ttl, now.router), (63, 77), "{form:?}");
            match now.body {
                Body::Full(full) => {
                    assert_eq!(full.delta, GRANT);
                    let expected = match form {
                        Form::V6 => LastRouter::V6(Ipv6Addr::new(0xFD00, 9, 0, 0, 0, 0, 0, 1)),
                        _ => LastRouter::V4(Ipv4Addr::new(10, 9, 0, 1)),
                    };
                    assert_eq!(full.last, expected);
                }
                Body::Compact(compact) => {
                    let bytes = u32::try_from(packet.len()).unwrap();
                    let delta = compact.delta(bytes);
                    assert!((GRANT - (20 << 16)..=GRANT).contains(&delta), "{delta}");
                }
            }
            // After this router has lowered the feedback, the next one could grant more, so it
            // only stamps the packet.
            pass(&mut router, packet);
            let again = drain(&mut router, OUT);
            let _ = heard.recv();
            assert_eq!(read(&again[0].0).xcp_ttl, 62);
            assert!(udp_checksum_ok(&again[0].0));
        }
    }
}

/// A super-packet with segments of 600 bytes, each with a given front.
fn super_packet(fronts: &[Vec<u8>]) -> (Vec<u8>, Offload) {
    let mut payload = Vec::new();
    for front in fronts {
        let mut segment = vec![0x55; 600];
        segment[..front.len()].copy_from_slice(front);
        payload.extend(segment);
    }
    let sent = udp(SRC, DST, 64, 0x4000, &payload);
    (sent, segments_of(600))
}

#[test]
fn a_super_packet_passes_whole_only_if_its_packets_ask_the_same() {
    let shim = |delta| headed(Form::V4, delta, 36);
    for (fronts, whole) in [
        (vec![shim(3000 << 16); 3], true),
        (vec![shim(3000 << 16), shim(3000 << 16), shim(1)], false),
        (vec![shim(3000 << 16), vec![], shim(3000 << 16)], false),
        (vec![vec![], vec![], shim(3000 << 16)], false),
        (vec![vec![]; 3], true),
    ] {
        let (mut router, heard) = granting();
        let (sent, offload) = super_packet(&fronts);
        send(&mut router, &sent, offload);
        let out = drain(&mut router, OUT);
        assert_eq!(out.len(), if whole { 1 } else { 3 }, "{fronts:?}");
        let heard: Vec<Carried> = heard.try_iter().collect();
        assert_eq!(heard.len(), 3, "the law hears of each");
        for (index, (front, heard)) in fronts.iter().zip(&heard).enumerate() {
            assert_eq!(front.is_empty(), *heard == Carried::Foreign);
            if front.is_empty() {
                continue;
            }
            let before = Packet::parse(front).unwrap().repr();
            let bytes = if whole {
                &out[0].0[28 + 600 * index..]
            } else {
                &out[index].0[28..]
            };
            let now = Packet::parse(bytes).unwrap().repr();
            assert_eq!((now.stamped, now.xcp_ttl), (true, 63));
            let (Body::Full(before), Body::Full(now)) = (before.body, now.body) else {
                panic!("full")
            };
            assert_eq!(now.delta, before.delta.min(GRANT));
        }
    }
}

/// A port of either law must answer packets of the other kind, each with a fitting answer.
#[test]
fn kinds_meet_at_a_port() {
    for law in ["xcp", "vcp", "vcp+bise"] {
        let mut router = router(1500, Some(1_250_000), false);
        give_law(&mut router, law);
        let payloads = [
            headed(Form::V4, 3000 << 16, 600),
            with_vcp(),
            headed(Form::Compact, 3000 << 16, 600),
            vec![0x55; 600],
        ];
        for payload in &payloads {
            let sent = udp(SRC, DST, 64, 0x4000, payload);
            pass(&mut router, &sent);
        }
        let out = drain_some(&mut router, 4);
        assert_eq!(out.len(), 4, "{law}");
        assert!(out.iter().all(|packet| udp_checksum_ok(packet)));
        for index in [0, 2] {
            let now = read(&out[index]);
            assert!(now.stamped, "{law}");
            assert_eq!(now.xcp_ttl, 63);
        }
        let marked = read_vcp(&out[1]);
        assert_eq!((marked.hops(), marked.router()), (1, 77), "{law}");
        assert!(marked.t_rho_ms() > 0, "{law}");
        assert_eq!(out[3][28..], payloads[3][..], "foreign bytes stay");
    }
}

/// After a cloud that a law does not look for, the header must keep naming the router before it,
/// so that a port that does look for clouds finds it.
#[test]
fn a_law_that_looks_for_no_clouds_does_not_hide_where_one_begins() {
    for law in ["xcp", "vcp", "vcp+bise", "xcp-i", "xcp-i[estimate=real]"] {
        for hops in [0, 2] {
            let (mut router, _heard) = granting();
            give_law(&mut router, law);
            for form in [Form::V4, Form::V6] {
                let payload = headed(form, 3000 << 16, 600);
                let sent = udp(SRC, DST, 64 - hops, 0x4000, &payload);
                pass(&mut router, &sent);
                let out = drain_some(&mut router, 1);
                let now = read(&out[0]);
                let sender = Packet::parse(&payload).unwrap().repr();
                let (Body::Full(full), Body::Full(before)) = (now.body, sender.body) else {
                    panic!("full")
                };
                let looks = law.starts_with("xcp-i");
                let named = hops == 0 || looks;
                assert_eq!(full.last != before.last, named, "{law} {hops} {form:?}");
                let hidden = if looks { hops } else { 0 };
                assert_eq!(now.xcp_ttl, 63 - hidden, "{law} {hops} {form:?}");
            }
        }
    }
}

/// A machine subtracts one from the TTL for its router, and one wherever its kernel forwards. No
/// hop may count as silent, and hops before the machine must show as before.
#[test]
fn the_hops_of_the_box_count_as_hops_of_the_router() {
    let own = |before: bool, behind: bool| 1 + u8::from(before) + u8::from(behind);
    for (before, behind) in [(false, false), (true, false), (false, true), (true, true)] {
        let laws = [
            ("vcp", 0),
            ("xcp", 0),
            ("xcp-i", 0),
            ("vcp", 2),
            ("xcp-i", 2),
        ];
        for (law, silent) in laws {
            let mut router = router(1500, Some(1_250_000), false);
            for (port, forwards) in [(BACK, before), (OUT, behind)] {
                router.port_mut(port).unwrap().settings.kernel_forwards = forwards;
            }
            give_law(&mut router, law);
            let ttl = 64 - silent - u8::from(before);
            for payload in [headed(Form::V4, 3000 << 16, 600), with_vcp()] {
                let sent = udp(SRC, DST, ttl, 0x4000, &payload);
                pass(&mut router, &sent);
            }
            let out = drain_some(&mut router, 2);
            let layout = Layout::walk(&out[0]).unwrap();
            let arrives = layout.ttl(&out[0]).unwrap() - u8::from(behind);
            assert_eq!(64 - silent - arrives, own(before, behind));
            let hidden = if law == "xcp-i" { silent } else { 0 };
            let case = format!("{law} {silent} {before} {behind}");
            assert_eq!(read(&out[0]).xcp_ttl - arrives, silent - hidden, "{case}");
            assert_eq!(64 - arrives - read_vcp(&out[1]).hops(), silent, "{case}");
            assert!(udp_checksum_ok(&out[0]) && udp_checksum_ok(&out[1]));
        }
    }
}

/// Returns `count` departing packets within a second, because laws with timers never end. Time
/// advances by at least a millisecond, because the timers of a port that nobody polls stay due.
fn drain_some(router: &mut Router, count: usize) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let mut now = Instant::ZERO;
    while out.len() < count {
        while let Some(frame) = router.poll(now, OUT) {
            out.push(frame.bytes().to_vec());
            router.pool_mut().give(frame);
        }
        match router.deadline() {
            Some(at) if now < Instant::from_millis(1000) => {
                now = at.max(now + Duration::from_millis(1));
            }
            _ => break,
        }
    }
    out
}
