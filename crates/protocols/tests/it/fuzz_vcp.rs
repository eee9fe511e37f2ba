//! Fuzz targets for the VCP shim, the marking rule and the counters.

use pathmark_cc::{Carried, Feedback, VcpAnswer, VcpCode};
use pathmark_shim::{Kind, frame};
use vcp_proto::{
    LEN, Packet, Repr,
    counters::Totals,
    mark::{self, Outcome},
};

use crate::counters;

/// The input consists of an answer of 8 bytes and a datagram. The datagram is marked if and only if
/// it starts with a valid VCP shim, and the mark can only be raised. The same is tested after
/// correcting prefix and check.
fn shim(input: &[u8]) {
    let Some((answer, datagram)) = input.split_first_chunk::<8>() else {
        return;
    };
    mark_one(answer, datagram);
    let mut sealed = datagram.to_vec();
    if let Some(shim) = sealed.first_chunk_mut::<LEN>() {
        frame::seal(Kind::VCP, shim);
        assert!(Packet::parse(&sealed).is_ok());
        mark_one(answer, &sealed);
    }
}

fn mark_one(&[code, with_r, r0, r1, t0, t1, corruption, load_128]: &[u8; 8], datagram: &[u8]) {
    let r = u16::from_be_bytes([r0, r1]);
    let answer = VcpAnswer {
        code: VcpCode::from_bits(code),
        r: (with_r & 1 == 1).then_some(r),
        t_rho_ms: u16::from_be_bytes([t0, t1]),
        load_128,
        translated: with_r & 2 == 2,
        corruption_ppm: u32::from(corruption) << 11,
    };
    let mut marked = datagram.to_vec();
    let outcome = mark::mark_payload(&mut marked, &answer, 7);
    let vcp = matches!(mark::from_payload(datagram), Carried::Vcp(_));
    assert_eq!(outcome == Outcome::Marked, vcp);
    if !vcp {
        assert_eq!(marked, datagram);
        return;
    }
    assert_eq!(marked[LEN..], datagram[LEN..]);
    let before = Repr::parse(&Packet::parse(datagram).expect("it was marked"));
    let after = Repr::parse(&Packet::parse(&marked).expect("it was sealed"));
    assert!(after.code >= before.code && after.code >= answer.code);
    assert!(after.hops >= 1 && after.hops >= before.hops);
    assert!(after.r <= before.r);
    assert!(after.t_rho_ms >= before.t_rho_ms && after.load_128 >= before.load_128);
    assert!(after.bise <= before.bise);
    if answer.load_128 < before.load_128 {
        assert_eq!(
            (after.router, after.translated),
            (before.router, before.translated)
        );
    }
    assert!((before.corruption..8).contains(&after.corruption));
    assert_eq!(
        (after.carries_r, after.rtt_class),
        (before.carries_r, before.rtt_class)
    );
}

/// If two sets of counters are accepted, their difference is consistent.
fn feedback(input: &[u8]) {
    let Some((sent, older, newer)) = counters::read(input) else {
        return;
    };
    let Ok(newer) = Totals::decode(&newer) else {
        return;
    };
    let older = Totals::decode(&older).unwrap_or_default();
    if let Ok(feedback) = newer.since(&older, &sent, Some(64)) {
        let (counted, their_bytes) = Feedback::Vcp(feedback).counted();
        assert!(counted <= sent.packets && their_bytes <= sent.bytes);
        assert!(their_bytes <= counted.saturating_mul(sent.longest));
        assert!(feedback.sum_r <= feedback.packets[1].saturating_mul(65_536));
        assert!(feedback.corruption_ppm <= 300_000);
        assert_eq!(Totals::decode(&newer.encode()), Ok(newer));
    }
}

target!(shims, shim, 256);

target!(counters, feedback, 256);
