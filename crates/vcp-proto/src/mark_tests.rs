#[path = "../../shim/tests/it/packet.rs"]
mod around;

use around::packet;
use pathmark_cc::VcpCode;
use pathmark_shim::{FramingError, Kind, ip::Layout};
use proptest::prelude::*;

use super::*;
use crate::Repr;
use crate::header::R_ONE;
use crate::header::tests::{fresh, repr as any_repr};
use crate::support::changed;

fn answer(code: VcpCode, r: Option<u16>, t_rho_ms: u16, load_128: u8) -> VcpAnswer {
    VcpAnswer {
        code,
        r,
        t_rho_ms,
        load_128,
        translated: false,
        corruption_ppm: 0,
    }
}

fn through(repr: Repr, answer: &VcpAnswer, router: u16) -> Repr {
    let mut shim = repr.emit();
    assert_eq!(mark_payload(&mut shim, answer, router), Outcome::Marked);
    Repr::parse(&Packet::parse(&shim).unwrap())
}

/// Three routers, calculated by hand: BISE at low load, BISE at high load with a longer interval,
/// and plain VCP at a load in between. Of equal loads, the later router is named.
#[test]
fn three_routers() {
    use VcpCode::{High, Low};
    let mut repr = fresh();
    for (answer, router, expected) in [
        (
            answer(Low, Some(30_000), 200, 60),
            11,
            (Low, true, 1, 11, 200, 60),
        ),
        (
            answer(High, Some(40_000), 1250, 110),
            22,
            (High, true, 2, 22, 1250, 110),
        ),
        (
            answer(Low, None, 200, 109),
            33,
            (High, false, 3, 22, 1250, 110),
        ),
        (
            answer(Low, None, 200, 110),
            44,
            (High, false, 4, 44, 1250, 110),
        ),
    ] {
        repr = through(repr, &answer, router);
        let (code, bise, hops, by, t_rho_ms, load_128) = expected;
        assert_eq!(
            (repr.code, repr.bise, repr.hops),
            (code, bise, hops),
            "router {router}"
        );
        let named = (repr.router, repr.t_rho_ms, repr.load_128);
        assert_eq!(named, (by, t_rho_ms, load_128), "router {router}");
        // The lowest r, and what is the sender's.
        let kept = (repr.r, repr.carries_r, repr.corruption, repr.rtt_class);
        assert_eq!(
            kept,
            (30_000, true, 0, fresh().rtt_class),
            "router {router}"
        );
    }
}

/// Two ports declare 5 % each; one that declares no corruption leaves the field unchanged.
#[test]
fn declared_corruption_adds_up() {
    let mut repr = fresh();
    for (ppm, class) in [(0, 0), (50_000, 5), (0, 5), (50_000, 6), (u32::MAX, 7)] {
        let low = answer(VcpCode::Low, None, 200, 60);
        let declares = changed(low, |answer| answer.corruption_ppm = ppm);
        repr = through(repr, &declares, 1);
        assert_eq!(repr.corruption, class, "{ppm}");
    }
}

#[test]
fn limits_of_single_fields() {
    let full = changed(fresh(), |repr| repr.hops = 255);
    assert_eq!(through(full, &VcpAnswer::default(), 1).hops, 255);
    let lottery = changed(fresh(), |repr| repr.carries_r = false);
    let marked = through(lottery, &answer(VcpCode::Low, Some(5), 200, 1), 1);
    assert_eq!(marked.r, R_ONE, "it is not carried");
    assert!(marked.bise, "a router that answers with r runs BISE");
}

#[test]
fn code_0_damage_and_others_are_untouched_and_foreign() {
    let over = answer(VcpCode::Over, None, 200, 200);
    let none = changed(fresh(), |repr| repr.code = VcpCode::None);
    let mut xcp = [0; LEN];
    frame::seal(Kind::XCP, &mut xcp);
    assert_eq!(Packet::parse(&xcp), Err(FramingError::Kind));
    let mut others = vec![
        none.emit().to_vec(),
        xcp.to_vec(),
        vec![0x40; 1200],
        Vec::new(),
    ];
    for bit in 0..128 {
        let mut shim = fresh().emit();
        shim[bit / 8] ^= 1 << (bit % 8);
        others.push(shim.to_vec());
    }
    for before in others {
        let mut payload = before.clone();
        assert_eq!(from_payload(&payload), Carried::Foreign, "{before:x?}");
        assert_eq!(mark_payload(&mut payload, &over, 1), Outcome::Untouched);
        assert_eq!(payload, before);
    }
}

#[test]
fn a_shim_is_read() {
    let mut repr = fresh();
    (repr.code, repr.rtt_class) = (VcpCode::High, 5);
    let expected = VcpCarried {
        code: VcpCode::High,
        min_rtt: Some(core::time::Duration::from_micros(200)),
        bise: true,
        carries_r: true,
    };
    assert_eq!(from_payload(&repr.emit()), Carried::Vcp(expected));
}

fn located(bytes: &[u8]) -> (Layout, Datagram) {
    let ip = Layout::walk(bytes).unwrap();
    let udp = Datagram::locate(bytes, &ip).unwrap();
    (ip, udp)
}

prop_compose! {
    fn any_answer()(
        code in 0..4u8, r: Option<u16>, t_rho_ms: u16, load_128: u8, translated: bool,
        corruption_ppm in prop_oneof![Just(0), 0..400_000u32],
    ) -> VcpAnswer {
        VcpAnswer {
            code: VcpCode::from_bits(code),
            r,
            t_rho_ms,
            load_128,
            translated,
            corruption_ppm,
        }
    }
}

proptest! {
    /// The code never decreases along a path, 0 stays 0, and each field only changes in its own
    /// direction.
    #[test]
    fn every_field_is_monotone(
        start in any_repr(),
        answers in proptest::collection::vec((any_answer(), any::<u16>()), 1..6),
    ) {
        let mut shim = start.emit();
        let mut before = start;
        for (answer, router) in &answers {
            let outcome = mark_payload(&mut shim, answer, *router);
            prop_assert_eq!(outcome == Outcome::Untouched, start.code == VcpCode::None);
            let now = Repr::parse(&Packet::parse(&shim).unwrap());
            prop_assert!(now.code >= before.code);
            prop_assert!(now.r <= before.r);
            prop_assert!(now.t_rho_ms >= before.t_rho_ms);
            prop_assert!(now.load_128 >= before.load_128);
            prop_assert!(now.bise <= before.bise);
            prop_assert!(now.hops >= before.hops && now.hops - before.hops <= 1);
            prop_assert_eq!(now.carries_r, before.carries_r);
            prop_assert_eq!(now.rtt_class, before.rtt_class);
            prop_assert!((before.corruption..8).contains(&now.corruption));
            if outcome == Outcome::Marked {
                prop_assert!(now.code >= answer.code);
                prop_assert!(now.hops > 0);
                // The named router is the one with the highest load.
                let named = match answer.load_128 >= before.load_128 {
                    true => (*router, answer.translated),
                    false => (before.router, before.translated),
                };
                prop_assert_eq!((now.router, now.translated), named);
            } else {
                prop_assert_eq!(now, start);
            }
            before = now;
        }
    }

    /// Marking in a row must equal marking individually, in any sequence.
    #[test]
    fn rows_are_marked_as_single_packets(
        shims in proptest::collection::vec((any_repr(), any::<bool>()), 1..3),
        answers in proptest::collection::vec((any_answer(), any::<u16>()), 1..3),
        order in proptest::collection::vec((0..3usize, 0..3usize), 0..20),
    ) {
        let mut row = Row::default();
        for (shim, answer) in order {
            let (repr, damaged) = shims[shim % shims.len()];
            let (answer, router) = answers[answer % answers.len()];
            let mut shim = repr.emit();
            shim[9] ^= u8::from(damaged);
            let mut other = shim;
            let outcome = row.mark_payload(&mut shim, &answer, router);
            prop_assert_eq!(mark_payload(&mut other, &answer, router), outcome);
            prop_assert_eq!(shim, other);
        }
        prop_assert_eq!(row.mark_payload(&mut [0; 15], &answers[0].0, 1), Outcome::Untouched);
    }

    /// Marking a segment of an IP packet must change its shim as in a bare payload, and update a
    /// complete UDP checksum as a full computation would, without other changes, even if it starts
    /// at an odd offset. A checksum that offload completes, and IPv4's 0 for "none", must stay.
    #[test]
    fn segments_are_marked_and_checksums_hold(
        v6: bool, reprs in [any_repr(), any_repr(), any_repr()], answer in any_answer(),
        router: u16, size in 16..60usize, segment in 0..3usize, field: Option<u16>,
    ) {
        let mut payload = vec![0x55; 3 * size];
        for (segment, repr) in payload.chunks_mut(size).zip(&reprs) {
            segment[..LEN].copy_from_slice(&repr.emit());
        }
        let mut bytes = packet(v6, &payload);
        let (ip, udp) = located(&bytes);
        let (at, offset) = (udp.payload_offset(), segment * size);
        let partial = field.is_some_and(|field| field != 0);
        let state = if partial { ChecksumState::Partial } else { ChecksumState::Complete };
        if let Some(field) = field.filter(|field| partial || !v6 && *field == 0) {
            bytes[at - 2..at].copy_from_slice(&field.to_be_bytes());
        }
        let before = bytes.clone();
        let outcome = mark_packet(&mut bytes, &udp, offset, &answer, router, state);
        prop_assert_eq!(mark_payload(&mut payload[offset..], &answer, router), outcome);
        prop_assert_eq!(&bytes[at..], &payload[..]);
        prop_assert_eq!(&bytes[..at - 2], &before[..at - 2]);
        match before[at - 2..at] {
            [0, 0] => prop_assert_eq!(&bytes[at - 2..at], &[0, 0]),
            _ if partial => prop_assert_eq!(&bytes[at - 2..at], &before[at - 2..at]),
            _ => {
                let sum = udp.compute_checksum(&bytes, &ip).to_be_bytes();
                prop_assert_eq!(&bytes[at - 2..at], &sum);
            }
        }
        let past = mark_packet(&mut bytes, &udp, 3 * size, &answer, router, state);
        prop_assert_eq!(past, Outcome::Untouched);
    }

    /// Marking from the stored shim must equal marking in place, whatever the checksum field
    /// contains.
    #[test]
    fn lifted_shims_are_marked_alike(
        v6: bool, repr in any_repr(), answer in any_answer(), router: u16, partial: bool,
        field in proptest::option::of(prop_oneof![Just(0), any::<u16>()]),
        behind in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut payload = repr.emit().to_vec();
        payload.extend(&behind);
        let mut bytes = packet(v6, &payload);
        let (_, udp) = located(&bytes);
        if let Some(field) = field {
            bytes[udp.payload_offset() - 2..][..2].copy_from_slice(&field.to_be_bytes());
        }
        let state = if partial { ChecksumState::Partial } else { ChecksumState::Complete };
        let lifted = Lifted::find(&bytes, &udp).unwrap();
        prop_assert_eq!(Repr::parse(&lifted.packet()), repr);
        let mut other = bytes.clone();
        let outcome = lifted.mark(&mut bytes, &answer, router, state);
        prop_assert_eq!(mark_packet(&mut other, &udp, 0, &answer, router, state), outcome);
        prop_assert_eq!(&bytes, &other);
        // If the packet is shorter, nothing may be written beyond its end.
        let short = lifted.mark(&mut other[..udp.payload_offset() + 15], &answer, router, state);
        prop_assert_eq!(short, Outcome::Untouched);
    }
}
