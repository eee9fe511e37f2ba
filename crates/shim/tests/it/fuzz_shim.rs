//! Fuzz targets for the shim's frame and for IP packets.
//!
//! `cargo test` runs each target over its corpus in `__fuzz__` and a bounded number of random
//! inputs. A fuzzer runs the same functions without a time limit:
//! `cargo bolero test -p pathmark-shim packets` (libFuzzer).

use pathmark_shim::{
    Framed, Kind, crc16,
    demux::Datagram as FirstByte,
    frame,
    ip::{Fragment, Layout},
    quick_start,
    udp::{ChecksumState, Datagram},
};

/// Number of random inputs per target in `cargo test`, in addition to the corpus.
const ITERATIONS: usize = 200_000;
/// Length of the longest random input, in bytes.
const MAX_LEN: usize = 256;

/// A datagram: an accepted shim must be complete, and its check correct. The same with a corrected
/// check.
fn datagram(input: &[u8]) {
    let _ = quick_start::Repr::parse(input);
    let declared = frame::declared_len(input);
    match Framed::parse(input) {
        Ok(framed) => {
            assert_eq!(declared, Ok(framed.len()));
            assert_eq!(FirstByte::classify(input), FirstByte::Shim(framed.kind()));
            let (covered, check) = framed.bytes().split_at(framed.len() - 2);
            assert_eq!(crc16(covered).to_be_bytes(), check);
        }
        Err(_) => {
            assert_eq!(frame::expect::<16>(Kind::VCP, input).ok(), None);
        }
    }
    if let Ok(len) = declared {
        let mut sealed = input[..len].to_vec();
        let check = crc16(&sealed[..len - 2]);
        sealed[len - 2..].copy_from_slice(&check.to_be_bytes());
        let framed = Framed::parse(&sealed).expect("its check is right");
        assert_eq!(framed.fields(), &input[4..len - 2]);
    }
    if let Some(&fields) = input.first_chunk::<16>() {
        let mut shim = fields;
        frame::seal(Kind::QUICK_START, &mut shim);
        let repr = quick_start::Repr::parse(&shim).expect("it is sealed");
        assert_eq!(repr.emit(), shim);
    }
}

/// The same bytes as an IP packet that is likely to be UDP: version, lengths and protocol are
/// corrected, because random bytes would hardly ever match. The first byte selects the fields that
/// are not corrected.
fn shaped(input: &[u8]) -> Vec<u8> {
    let Some((&choice, rest)) = input.split_first() else {
        return Vec::new();
    };
    let mut bytes = rest.to_vec();
    bytes.resize(rest.len().max(64), choice);
    let len = u16::try_from(bytes.len()).unwrap();
    let upper = if choice & 1 == 0 {
        let words = 5 + choice % 3;
        bytes[0] = 0x40 | words;
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        if choice & 2 == 0 {
            bytes[6..8].copy_from_slice(&[choice & 0x20, 0]);
        }
        bytes[9] = if choice & 4 == 0 { 17 } else { bytes[9] };
        usize::from(words) * 4
    } else {
        bytes[0] = 0x60;
        bytes[4..6].copy_from_slice(&(len - 40).to_be_bytes());
        if choice & 2 == 0 {
            bytes[6] = 17;
            40
        } else {
            bytes[6] = [0, 43, 44, 60][usize::from(bytes[6] % 4)];
            bytes[40..44].copy_from_slice(&[17, 0, 0, choice >> 7]);
            48
        }
    };
    if choice & 8 == 0 {
        let udp_len = len - u16::try_from(upper).unwrap();
        bytes[upper + 4..upper + 6].copy_from_slice(&udp_len.to_be_bytes());
    }
    bytes
}

/// An IP packet: its parts must be inside it, and rewrites must preserve its length, its checksums
/// and everything else.
fn packet(input: &[u8]) {
    let Ok(ip) = Layout::walk(input) else { return };
    assert!(ip.len() <= input.len());
    assert!(ip.upper_offset() <= ip.len());
    assert!(ip.source(input).is_some() && ip.destination(input).is_some());
    let hash = ip.flow_hash(input, 1);
    let sound = ip.header_checksum_ok(input);

    let mut bytes = input.to_vec();
    if let Some(left) = ip.decrement_ttl(&mut bytes) {
        assert_eq!(Some(left + 1), ip.ttl(input));
    }
    assert!(ip.set_ecn(&mut bytes, 3) && ip.set_dscp(&mut bytes, 46));
    assert_eq!((ip.ecn(&bytes), ip.dscp(&bytes)), (Some(3), Some(46)));
    assert_eq!(Layout::walk(&bytes), Ok(ip));
    assert_eq!(ip.flow_hash(&bytes, 1), hash);
    assert_eq!(ip.header_checksum_ok(&bytes), sound);

    let Some(udp) = Datagram::locate(&bytes, &ip) else {
        return;
    };
    assert_ne!(ip.fragment(), Fragment::Later);
    assert!(udp.ports(&bytes).is_some());
    let whole = ip.fragment() == Fragment::Whole;
    let at = udp.payload_offset();
    if whole {
        let checksum = udp.compute_checksum(&bytes, &ip);
        bytes[at - 2..at].copy_from_slice(&checksum.to_be_bytes());
    }
    let before = bytes.clone();
    for offset in 0..udp.payload(&before).len() {
        let done = udp.rewrite::<7>(&mut bytes, offset, ChecksumState::Complete, |old| {
            Some(old.map(|byte| byte.wrapping_mul(3).wrapping_add(1)))
        });
        assert_eq!(done, offset + 7 <= udp.payload(&before).len());
    }
    assert_eq!(bytes[..at - 2], before[..at - 2]);
    assert_eq!(
        bytes[at + udp.payload(&before).len()..],
        before[at + udp.payload(&before).len()..]
    );
    if whole {
        let field = u16::from_be_bytes([bytes[at - 2], bytes[at - 1]]);
        assert_eq!(field, udp.compute_checksum(&bytes, &ip));
    }
}

#[test]
fn datagrams() {
    bolero::check!()
        .with_iterations(ITERATIONS)
        .with_max_len(MAX_LEN)
        .for_each(datagram);
}

#[test]
fn packets() {
    bolero::check!()
        .with_iterations(ITERATIONS)
        .with_max_len(MAX_LEN)
        .for_each(|input: &[u8]| {
            packet(input);
            packet(&shaped(input));
        });
}
