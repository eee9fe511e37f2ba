use proptest::prelude::*;

use super::*;

prop_compose! {
    fn body()(
        form in 0..3u8, corruption in 0..8u8, covers: u16, rtt_us: u32, x: u64, delta: i64,
        last: [u8; 16], cwnd: u16, rtt_ms: u16, feedback: u16,
    ) -> Body {
        let full = |last| Body::Full(Full { covers, rtt_us, x, delta, corruption, last });
        let [a, b, c, d, ..] = last;
        match form {
            0 => full(LastRouter::V4(Ipv4Addr::new(a, b, c, d))),
            1 => full(LastRouter::V6(Ipv6Addr::from(last))),
            _ => Body::Compact(Compact { covers: covers % 8 + 1, cwnd, rtt_ms, feedback }),
        }
    }
}

prop_compose! {
    pub(crate) fn repr()(
        format in 1..4u8,
        stamped: bool,
        translated: bool,
        xcp_ttl: u8,
        router: u16,
        body in body(),
    ) -> Repr {
        let format = Format::from_bits(format).unwrap_or(Format::Minimal);
        let translated = translated && format.asks();
        Repr { format, stamped, translated, xcp_ttl, router, body }
    }
}

pub(crate) fn emit(repr: &Repr) -> Vec<u8> {
    let mut out = [0xEE; 64];
    let len = repr.emit(&mut out).unwrap();
    assert!(out[len..].iter().all(|byte| *byte == 0xEE));
    out[..len].to_vec()
}

/// The feedback in the form's units.
pub(crate) fn feedback(repr: &Repr) -> i64 {
    match repr.body {
        Body::Full(full) => full.delta,
        Body::Compact(compact) => compact.feedback_q12(),
    }
}

pub(crate) fn request() -> XcpRequest {
    XcpRequest {
        rtt_us: 100_000,
        x: 1_099_511_627,
        delta: 1_235_000 << 16,
        covers: 1,
        window: 150_000,
        packet: 1500,
    }
}

/// The fields, calculated by hand, except for the check, which has its tests in `frame`.
#[test]
fn known_shims() {
    let v4 = emit(&Repr::initial(Form::V4, Some(&request()), 64));
    assert_eq!(
        v4[..34],
        [
            0x09, 0x19, 0x7A, 0x3D, // kind 1, version 1, 9 words
            0x10, 64, 0, 1, // standard, not stamped; TTL; covers one packet
            0, 0x01, 0x86, 0xA0, // 100 000 µs
            0, 0, 0, 0, 0x41, 0x89, 0x37, 0x4B, // 1 ms in 2⁻⁴⁰ s
            0, 0, 0, 0x12, 0xD8, 0x38, 0, 0, // 1 235 000 B/s in 2⁻¹⁶
            0, 0, 0, 0, 0, 0, // no router yet
        ]
    );
    let v6 = emit(&Repr::initial(Form::V6, Some(&request()), 64));
    assert_eq!((v6.len(), v6[1]), (48, 0x1C));
    assert_eq!(v6[4..28], v4[4..28]);
    assert_eq!(v6[28..46], [0; 18]);

    let compact = emit(&Repr::initial(Form::Compact, Some(&request()), 64));
    assert_eq!(
        compact[..14],
        [
            0x09, 0x14, 0x7A, 0x3D, 0x10, 64, 0, 100, 0, 100, // 100 packets, 100 ms
            0x29, 0x2A, 0, 0, // 82.25 of the 82.33 packets asked for
        ]
    );

    let minimal = Packet::parse(&emit(&Repr::initial(Form::V4, None, 64)))
        .unwrap()
        .format();
    assert_eq!(minimal, Format::Minimal);
}

#[test]
fn what_is_not_one() {
    let sound = emit(&Repr::initial(Form::V4, Some(&request()), 64));
    for bit in 0..sound.len() * 8 {
        let mut damaged = sound.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(Packet::parse(&damaged).is_err(), "{bit}");
    }
    for len in 0..sound.len() {
        assert!(Packet::parse(&sound[..len]).is_err());
    }
    // A future format with a valid check.
    let mut future: [u8; LEN_V4] = sound[..].try_into().unwrap();
    future[4] = 0x40;
    frame::seal(Kind::XCP, &mut future);
    assert_eq!(Packet::parse(&future), Err(FramingError::Version));
    // VCP's shim has the length of a compact one.
    let mut vcp = [0x10; LEN_COMPACT];
    frame::seal(Kind::VCP, &mut vcp);
    assert_eq!(Packet::parse(&vcp), Err(FramingError::Kind));
    // No form has this length.
    let mut other = [0x10; 20];
    frame::seal(Kind::XCP, &mut other);
    assert_eq!(Packet::parse(&other), Err(FramingError::Length));
}

#[test]
fn too_little_room_is_left_alone() {
    for form in [Form::V4, Form::V6, Form::Compact] {
        let mut room = [0xAA; 48];
        let repr = Repr::initial(form, None, 64);
        assert_eq!(repr.emit(&mut room[..form.len() - 1]), None);
        assert_eq!(room, [0xAA; 48]);
        assert_eq!(repr.emit(&mut room), Some(form.len()));
    }
}

proptest! {
    #[test]
    fn round_trip(repr in repr(), behind in proptest::collection::vec(any::<u8>(), 0..40)) {
        let mut datagram = emit(&repr);
        let len = datagram.len();
        datagram.extend(behind);
        let packet = Packet::parse(&datagram).unwrap();
        prop_assert_eq!(packet.repr(), repr);
        prop_assert_eq!(packet.bytes(), &datagram[..len]);
        prop_assert_eq!(packet.form().len(), len);
    }
}
