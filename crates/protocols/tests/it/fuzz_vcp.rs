//! Fuzz target for the VCP shim and the marking rule.

use pathmark_cc::{Carried, VcpAnswer, VcpCode};
use pathmark_shim::{Kind, frame};
use vcp_proto::{
    LEN, Packet, Repr,
    mark::{self, Outcome},
};

/// The input consists of an answer of 8 bytes and a datagram. The datagram is marked if and only if
/// it starts with a valid VCP shim, and the mark can only be raised; `vcp_proto` tests each field.
/// The same is tested after correcting prefix and check.
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
}

target!(shims, shim, 256);
