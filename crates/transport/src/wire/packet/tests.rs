use proptest::prelude::*;

use super::*;
use crate::wire::{ConnectionId, Writer};

fn hex(text: &str) -> Vec<u8> {
    let digits = text.bytes().filter_map(|b| char::from(b).to_digit(16));
    let digits: Vec<u8> = digits.map(|digit| digit as u8).collect();
    let pairs = digits.chunks(2);
    pairs.map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn cid(text: &str) -> ConnectionId {
    ConnectionId::new(&hex(text)).unwrap()
}

fn protected(datagram: &[u8], cid_len: usize) -> Protected {
    match PartialDecode::new(datagram, cid_len).unwrap() {
        PartialDecode::Protected(packet) => packet,
        other => panic!("{other:?}"),
    }
}

/// RFC 9001 §5.4.1, with the masks that Appendix A gives.
fn mask(packet: &mut [u8], number_at: usize, number_len: usize, mask: &str) {
    let mask = hex(mask);
    let is_long = packet[0] & LONG_FORM != 0;
    packet[0] ^= mask[0] & if is_long { 0x0f } else { 0x1f };
    for i in 0..number_len {
        packet[number_at + i] ^= mask[1 + i];
    }
}

#[test]
fn client_initial_of_rfc_9001_a_2() {
    let mut buffer = [0; 1500];
    let mut w = Writer::new(&mut buffer);
    let header = Header::Initial {
        dcid: cid("8394c8f03e515708"),
        scid: ConnectionId::EMPTY,
        token: &[],
        number: TruncatedNumber::with_len(2, 4),
    };
    let started = header.encode(&mut w).unwrap();
    w.put_zeros(1162).unwrap();
    assert_eq!(started.finish(&mut w, TAG_LEN), Ok(0..1200));
    let plain = hex("c300000001088394c8f03e5157080000449e00000002");
    assert_eq!(w.written()[started.header()], plain);
    assert_eq!(header.len(), plain.len());

    let mut datagram = w.written().to_vec();
    mask(&mut datagram, started.number_at(), 4, "437b9aec36");
    let sealed = hex("c000000001088394c8f03e5157080000449e7b9aec34");
    assert_eq!(datagram[..22], sealed);
    let packet = protected(&datagram, 0);
    assert_eq!(packet.ty, PacketType::Initial);
    assert_eq!(packet.dcid, cid("8394c8f03e515708"));
    assert_eq!((packet.scid, packet.token.len()), (ConnectionId::EMPTY, 0));
    assert_eq!((packet.number_at, packet.len), (18, 1200));
    assert_eq!(packet.sample(), Some(22..38));
    mask(&mut datagram, packet.number_at, 4, "437b9aec36");
    let header = PlainHeader::decode(&datagram, &packet).unwrap();
    assert_eq!(header.number, TruncatedNumber::with_len(2, 4));
    assert_eq!((header.payload_at, header.reserved_bits_ok), (22, true));
}

/// RFC 9001 A.3, as sent over the wire.
const SERVER_INITIAL: &str = "
    cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a
    5816b6394100f37a1c69797554780bb38cc5a99f5ede4cf73c3ec2493a1839b3
    dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84
    022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc4
    2158407dd074ee";

#[test]
fn server_initial_of_rfc_9001_a_3() {
    let mut datagram = hex(SERVER_INITIAL);
    let packet = protected(&datagram, 0);
    assert_eq!(packet.ty, PacketType::Initial);
    assert_eq!(packet.dcid, ConnectionId::EMPTY);
    assert_eq!((packet.scid, packet.len), (cid("f067a5502a4262b5"), 135));
    let sample = packet.sample().unwrap();
    assert_eq!(datagram[sample], hex("2cd0991cd25b0aac406a5816b6394100"));
    mask(&mut datagram, packet.number_at, 2, "2ec0d8356a");
    let header = PlainHeader::decode(&datagram, &packet).unwrap();
    assert_eq!(header.number, TruncatedNumber::with_len(1, 2));
    let plain = hex("c1000000010008f067a5502a4262b50040750001");
    assert_eq!(datagram[..header.payload_at], plain);
}

#[test]
fn retry_of_rfc_9001_a_4() {
    let datagram = hex("ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba");
    let PartialDecode::Retry(packet) = PartialDecode::new(&datagram, 8).unwrap() else {
        panic!();
    };
    assert_eq!(datagram[packet.token.clone()], *b"token");
    let tag = hex("04a265ba2eff4d829058fb3f0f2496ba");
    assert_eq!(datagram[packet.tag.clone()], tag);
    let mut buffer = [0; 64];
    let mut w = Writer::new(&mut buffer);
    encode_retry(&mut w, &packet.dcid, &packet.scid, b"token", 0x0f).unwrap();
    assert_eq!(w.written(), &datagram[..packet.tag.start]);
}

#[test]
fn short_header_of_rfc_9001_a_5() {
    let mut buffer = [0; 64];
    let mut w = Writer::new(&mut buffer);
    let header = Header::OneRtt {
        dcid: ConnectionId::EMPTY,
        number: TruncatedNumber::with_len(654_360_564, 3),
        key_phase: false,
        spin: false,
    };
    let started = header.encode(&mut w).unwrap();
    assert_eq!(w.written(), hex("4200bff4"));
    w.put_u8(1).unwrap(); // PING
    assert_eq!(started.finish(&mut w, TAG_LEN), Ok(0..21));

    let mut datagram = hex("4cfe4189655e5cd55c41f69080575d7999c25a5bfb");
    let packet = protected(&datagram, 0);
    assert_eq!(packet.ty, PacketType::OneRtt);
    assert_eq!(packet.sample(), Some(5..21));
    mask(&mut datagram, packet.number_at, 3, "aefefe7d03");
    let header = PlainHeader::decode(&datagram, &packet).unwrap();
    assert_eq!(header.payload_at, 4);
    assert_eq!(header.number.expand(654_360_564), 654_360_564);
}

#[test]
fn coalesced_packets_split() {
    let mut buffer = [0; 1500];
    let mut w = Writer::new(&mut buffer);
    let (dcid, scid) = (cid("0102030405060708"), cid("a1a2"));
    let number = TruncatedNumber::new(0, None);
    for header in [
        Header::Initial {
            dcid,
            scid,
            token: b"token",
            number,
        },
        Header::ZeroRtt { dcid, scid, number },
        Header::Handshake { dcid, scid, number },
        Header::OneRtt {
            dcid,
            number,
            key_phase: true,
            spin: true,
        },
    ] {
        let started = header.encode(&mut w).unwrap();
        w.put_u8(1).unwrap();
        started.finish(&mut w, TAG_LEN).unwrap();
    }
    let mut rest = w.written();
    use PacketType::{Handshake, Initial, OneRtt, ZeroRtt};
    for ty in [Initial, ZeroRtt, Handshake, OneRtt] {
        let packet = protected(rest, 8);
        assert_eq!((packet.ty, packet.dcid), (ty, dcid));
        if ty.is_long() {
            assert_eq!(packet.scid, scid);
        }
        if ty == PacketType::Initial {
            assert_eq!(rest[packet.token.clone()], *b"token");
        }
        let header = PlainHeader::decode(rest, &packet).unwrap();
        assert_eq!(header.key_phase, ty == PacketType::OneRtt);
        assert_eq!(header.spin, ty == PacketType::OneRtt);
        // One byte of number and one PING are padded so that a sample exists.
        assert_eq!(packet.len - packet.number_at, 4 + TAG_LEN);
        assert!(packet.sample().is_some());
        rest = &rest[packet.len..];
    }
    assert!(rest.is_empty());
}

#[test]
fn what_is_no_v1_packet() {
    // [9001 5.4.2 short-sample] [9000 17.2 fixed-bit] [9000 17.2 id-length]
    let refused = |datagram: &[u8]| PartialDecode::new(datagram, 8).unwrap_err();
    // A shim's first byte, taken off by the caller or not ours.
    assert_eq!(refused(&[0x08; 64]), DecodeError::FixedBit);
    assert_eq!(refused(&[]), DecodeError::Truncated);
    // A long header without the fixed bit.
    let mut datagram = hex(SERVER_INITIAL);
    datagram[0] &= !FIXED_BIT;
    assert_eq!(refused(&datagram), DecodeError::FixedBit);
    // The length exceeds the datagram.
    let datagram = hex(SERVER_INITIAL);
    for cut in 0..datagram.len() {
        assert_eq!(refused(&datagram[..cut]), DecodeError::Truncated);
    }
    // 21 bytes of connection id.
    let mut datagram = hex("c00000000115");
    datagram.extend([0; 100]);
    assert!(matches!(refused(&datagram), DecodeError::ConnectionId(_)));
    // A Retry that ends inside its tag.
    let datagram = hex("f0000000010000 000102030405060708090a0b0c0d0e");
    assert_eq!(refused(&datagram), DecodeError::Truncated);
    // Too short for a sample, but still routed, because it may be a stateless reset.
    assert_eq!(protected(&[0x40; 28], 8).sample(), None);
    assert_eq!(protected(&[0x40; 29], 8).sample(), Some(13..29));
}

#[test]
fn other_versions_show_their_ids_however_long() {
    let mut datagram = hex("80 6b3343cf ff");
    datagram.extend([0xd1; 255]);
    datagram.extend([2, 0x51, 0x52, 9, 9]);
    let found = PartialDecode::new(&datagram, 8).unwrap();
    assert_eq!(found.dcid(&datagram), [0xd1; 255]);
    let PartialDecode::UnknownVersion(packet) = found else {
        panic!();
    };
    assert_eq!(packet.version, 0x6b33_43cf);
    assert_eq!(datagram[packet.scid.clone()], [0x51, 0x52]);

    let negotiation = hex("80 00000000 02 d1d2 01 51 00000001");
    let found = PartialDecode::new(&negotiation, 8).unwrap();
    assert_eq!(found, PartialDecode::VersionNegotiation);
    assert_eq!(found.dcid(&negotiation), [0xd1, 0xd2]);
}

#[test]
fn reserved_bits_are_reported_not_judged() {
    for (ty, first, bits) in [
        (PacketType::OneRtt, 0x40u8, [0x10, 0x08]),
        (PacketType::Handshake, 0xe0, [0x08, 0x04]),
    ] {
        let found = Protected {
            ty,
            dcid: ConnectionId::EMPTY,
            scid: ConnectionId::EMPTY,
            token: 0..0,
            number_at: 1,
            len: 5,
        };
        for bit in [0, bits[0], bits[1]] {
            let header = PlainHeader::decode(&[first | bit, 0, 0, 0, 0], &found).unwrap();
            assert_eq!(header.reserved_bits_ok, bit == 0);
        }
    }
}

#[test]
fn a_header_that_does_not_fit_leaves_nothing() {
    let header = Header::Initial {
        dcid: cid("0102030405060708"),
        scid: cid("a1a2"),
        token: b"token",
        number: TruncatedNumber::with_len(7, 2),
    };
    let mut buffer = [0; 64];
    for room in 0..header.len() {
        let mut w = Writer::new(&mut buffer[..room]);
        assert!(header.encode(&mut w).is_err());
        assert_eq!(w.position(), 0);
    }
    let mut w = Writer::new(&mut buffer[..header.len() + 17]);
    let started = header.encode(&mut w).unwrap();
    w.put_zeros(2).unwrap();
    assert!(started.finish(&mut w, TAG_LEN).is_err());
    assert_eq!(w.position(), header.len() + 2);
}

proptest! {
    #[test]
    fn headers_round_trip(
        kind in 0..4, dcid in proptest::collection::vec(any::<u8>(), 0..=20),
        scid in proptest::collection::vec(any::<u8>(), 0..=20),
        token in proptest::collection::vec(any::<u8>(), 0..100),
        full in 0..=MAX_NUMBER, number_len in 1u32..=4, key_phase: bool, spin: bool,
        payload in 0usize..1200, before in 0usize..50,
    ) {
        let (dcid, scid) = (ConnectionId::new(&dcid).unwrap(), ConnectionId::new(&scid).unwrap());
        let number = TruncatedNumber::with_len(full, number_len);
        let header = match kind {
            0 => Header::Initial { dcid, scid, token: &token, number },
            1 => Header::ZeroRtt { dcid, scid, number },
            2 => Header::Handshake { dcid, scid, number },
            _ => Header::OneRtt { dcid, number, key_phase, spin },
        };
        let mut buffer = [0; 1600];
        let mut w = Writer::new(&mut buffer);
        w.put_zeros(before).unwrap();
        let started = header.encode(&mut w).unwrap();
        prop_assert_eq!(w.position(), before + header.len());
        w.put_zeros(payload).unwrap();
        let range = started.finish(&mut w, TAG_LEN).unwrap();
        let datagram = &w.written()[range];
        let packet = protected(datagram, dcid.len());
        prop_assert_eq!((packet.ty, packet.dcid), (header.ty(), dcid));
        prop_assert_eq!(packet.len, datagram.len());
        prop_assert_eq!(packet.number_at, started.number_at() - before);
        prop_assert_eq!(packet.sample().unwrap().start, started.sample_at() - before);
        if packet.ty.is_long() {
            prop_assert_eq!(packet.scid, scid);
        }
        if kind == 0 {
            prop_assert_eq!(&datagram[packet.token.clone()], &token[..]);
        }
        let plain = PlainHeader::decode(datagram, &packet).unwrap();
        prop_assert_eq!((plain.number, plain.payload_at), (number, header.len()));
        prop_assert!(plain.reserved_bits_ok);
        prop_assert_eq!(plain.key_phase, kind == 3 && key_phase);
        prop_assert_eq!(plain.spin, kind == 3 && spin);
    }
}

#[test]
fn examples_of_rfc_9000_appendix_a() {
    // [9000 17.1 number-range]
    let n = TruncatedNumber::new(0xac_5c02, Some(0xab_e8b3));
    assert_eq!((n.len(), n.value()), (2, 0x5c02));
    let n = TruncatedNumber::new(0xac_e8fe, Some(0xab_e8b3));
    assert_eq!((n.len(), n.value()), (3, 0xac_e8fe));
    let n = TruncatedNumber::with_len(0x9b32, 2);
    assert_eq!(n.expand(0xa82f_30ea + 1), 0xa82f_9b32);
}

#[test]
fn before_an_acknowledgement_numbers_are_whole() {
    // [9000 17.1 whole-number]
    for full in [0, 1, 127, 128, 255, 256, 65_535, 65_536, (1 << 31) - 2] {
        let number = TruncatedNumber::new(full, None);
        assert_eq!((u64::from(number.value()), number.expand(0)), (full, full));
    }
}

#[test]
fn the_ends_of_the_number_space() {
    let lens = [0, 127, 128, MAX_NUMBER].map(|n| TruncatedNumber::new(n, None).len());
    assert_eq!(lens, [1, 1, 2, 4]);
    let expanded = |value, expected| TruncatedNumber::with_len(value, 1).expand(expected);
    assert_eq!(expanded(0xff, 0), 0xff);
    assert_eq!(expanded(0, MAX_NUMBER), MAX_NUMBER - 0xff);
    assert_eq!(expanded(0, MAX_NUMBER + 1), MAX_NUMBER + 1 - 256);
}

/// The candidate nearest to the expected number, searched instead of computed.
fn nearest(value: u64, len: u32, expected: u64) -> u64 {
    let window = 1i128 << (8 * len);
    let base = i128::from(expected) / window * window + i128::from(value);
    [base - window, base, base + window]
        .into_iter()
        .filter(|c| (0..=i128::from(MAX_NUMBER)).contains(c))
        .min_by_key(|c| {
            let away = c - i128::from(expected);
            // Ties go up: the window is open below and closed above.
            (away.abs(), away < 0)
        })
        .unwrap() as u64
}

proptest! {
    #[test]
    fn expansion_is_the_nearest_number(
        value: u32,
        len in 1u32..=4,
        shift in 0u32..62,
        expected in 0..=MAX_NUMBER,
    ) {
        let expected = expected >> shift;
        let number = TruncatedNumber::with_len(u64::from(value), len);
        let nearest = nearest(u64::from(number.value()), len, expected);
        prop_assert_eq!(number.expand(expected), nearest);
    }

    #[test]
    fn a_receiver_between_acked_and_sent_recovers_the_number(
        acked in 0..MAX_NUMBER, ahead in 1u64..=1 << 31, heard in 0u64..=1 << 31,
    ) {
        // [9000 17.1 number-range]
        let full = (acked + ahead).min(MAX_NUMBER);
        let largest_heard = acked + heard.min(full - acked - 1);
        let number = TruncatedNumber::new(full, Some(acked));
        prop_assert_eq!(number.expand(largest_heard + 1), full);
    }

    #[test]
    fn bytes_round_trip(full in 0..=MAX_NUMBER, len in 1u32..=4) {
        let number = TruncatedNumber::with_len(full, len);
        let mut buffer = [0; 4];
        let mut w = Writer::new(&mut buffer);
        number.encode(&mut w).unwrap();
        prop_assert_eq!(w.position(), number.len());
        let mut r = Reader::new(w.written());
        prop_assert_eq!(TruncatedNumber::decode(&mut r, len as u8), Ok(number));
    }
}
