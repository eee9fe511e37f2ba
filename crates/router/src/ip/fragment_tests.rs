//! Packets that are cut and put together again.

use pathmark_shim::ip::{Fragment, Layout};
use proptest::prelude::*;

use super::*;
use crate::test_packets::ip;

fn packet(options: &[u8], payload: usize, field: u16) -> Vec<u8> {
    let header = 20 + options.len();
    let mut bytes = vec![0x40 | (header / 4) as u8, 0];
    bytes.extend(((header + payload) as u16).to_be_bytes());
    bytes.extend([1, 2]);
    bytes.extend(field.to_be_bytes());
    bytes.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    bytes.extend(options);
    bytes.extend((0..payload).map(|i| (i % 253) as u8));
    bytes
}

proptest! {
    /// Reassembled in any order, the fragments result in the original packet.
    #[test]
    fn fragments_reassemble(
        payload in 1usize..5_000,
        mtu in 68usize..1_500,
        base in 0u16..100,
        more: bool,
    ) {
        let field = base | if more { MORE } else { 0 };
        let bytes = packet(&[0x94, 4, 0, 0, 7, 3, 4, 0], payload, field);
        let mut fragments = Fragments::new(&bytes, mtu).unwrap();
        let mut joined = vec![None; payload];
        let (mut out, mut last) = ([0; 1_500], 0);
        while let Some(len) = fragments.next_into(&mut out) {
            prop_assert!(len <= mtu);
            let layout = Layout::walk(&out[..len]).unwrap();
            prop_assert!(layout.header_checksum_ok(&out[..len]));
            let field = u16::from_be_bytes([out[6], out[7]]);
            let at = usize::from((field & OFFSET) - base) * 8;
            let first = at == 0;
            prop_assert_eq!(&out[20..24], &[0x94, 4, 0, 0], "copied option");
            prop_assert_eq!(out[24..27] == [7, 3, 4], first, "option of the first only");
            for (slot, byte) in joined[at..].iter_mut().zip(&out[28..len]) {
                prop_assert!(slot.replace(*byte).is_none());
            }
            last = field;
        }
        prop_assert_eq!(last & MORE != 0, more);
        let joined: Option<Vec<u8>> = joined.into_iter().collect();
        prop_assert_eq!(joined.as_deref(), Some(&bytes[28..]));
    }
}

#[test]
fn refuses_what_must_not_be() {
    for (packet, mtu, why) in [
        (packet(&[], 100, DONT), 68, BadFragment::DontFragment),
        (packet(&[], 100, 0), 27, BadFragment::Mtu),
        (vec![0x60; 40], 1280, BadFragment::Header),
    ] {
        assert_eq!(Fragments::new(&packet, mtu).err(), Some(why));
    }
    let bytes = packet(&[], 100, 0);
    let mut out = [0; 200];
    let mut fragments = Fragments::new(&bytes, 68).unwrap();
    let len = fragments.next_into(&mut out).unwrap();
    let first = Layout::walk(&out[..len]).unwrap().fragment();
    assert_eq!(first, Fragment::First);
}

fn counted(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

fn v4(len: usize) -> Vec<u8> {
    ip("10.0.0.1", "10.0.0.2", 64, 0, 1, &counted(len))
}

fn v6(len: usize) -> Vec<u8> {
    ip("fd00::1", "fd00::2", 64, 0, 58, &counted(len))
}

fn pieces_v4(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    let mut fragments = Fragments::new(packet, mtu).unwrap();
    let mut out = [0; 2_000];
    std::iter::from_fn(|| fragments.next_into(&mut out).map(|len| out[..len].to_vec())).collect()
}

proptest! {
    /// In any order, and with duplicates, the last new fragment completes the packet.
    #[test]
    fn pieces_make_the_packet(
        len in 1_400usize..20_000,
        mtu in 600usize..1_400,
        sixth: bool,
        order in prop::collection::vec(any::<u32>(), 100),
    ) {
        let packet = if sixth { v6(len) } else { v4(len) };
        let mut pieces = Vec::new();
        if sixth {
            cut_v6(&packet, mtu, 7, |piece| pieces.push(piece.to_vec()));
        } else {
            pieces = pieces_v4(&packet, mtu);
        }
        prop_assert!(pieces.iter().all(|piece| piece.len() <= mtu));
        let mut places: Vec<_> = (0..pieces.len()).collect();
        places.sort_by_key(|place| order[*place % order.len()]);
        let mut reassembly = Reassembly::default();
        let (last, others) = places.split_last().unwrap();
        for place in others.iter().chain(others) {
            prop_assert_eq!(reassembly.insert(Instant::ZERO, &pieces[*place]), None);
        }
        let whole = reassembly.insert(Instant::ZERO, &pieces[*last]).unwrap();
        let from = if sixth { 0 } else { 20 };
        prop_assert_eq!(&whole[from..], &packet[from..]);
        prop_assert_eq!(&whole[..4], &packet[..4]);
        prop_assert_eq!(reassembly.held(), 0);
    }

    /// Whatever arrives, the state stays within its bounds.
    #[test]
    fn any_pieces_are_bounded(
        inputs in prop::collection::vec(
            (any::<u16>(), 0u16..0x2000, any::<bool>(), 0usize..1_480), 0..400,
        ),
    ) {
        let mut reassembly = Reassembly::default();
        for (id, offset, more, len) in inputs {
            let mut packet = v4(len);
            put(&mut packet, 4, id % 40);
            put(&mut packet, 6, offset | if more { 0x2000 } else { 0 });
            let _ = reassembly.insert(Instant::ZERO, &packet);
            prop_assert!(reassembly.held() <= BYTES);
            prop_assert!(reassembly.incomplete.len() <= DATAGRAMS);
            prop_assert!(reassembly.incomplete.iter().all(|d| d.known.len() <= PIECES));
        }
    }
}

#[test]
fn pieces_that_contradict_each_other_make_nothing() {
    let packet = v4(4_000);
    let pieces = pieces_v4(&packet, 1_500);
    let mut reassembly = Reassembly::default();
    for piece in &pieces[..2] {
        assert_eq!(reassembly.insert(Instant::ZERO, piece), None);
    }
    // Overlaps an earlier fragment.
    let mut liar = pieces[1].clone();
    put(&mut liar, 6, 0x2000 | 10);
    assert_eq!(reassembly.insert(Instant::ZERO, &liar), None);
    assert_eq!(reassembly.held(), 0, "all of it is forgotten");
    assert_eq!(reassembly.insert(Instant::ZERO, &pieces[2]), None);
    // Incomplete datagrams expire.
    assert!(reassembly.held() > 0);
    let late = Instant::ZERO + PATIENCE;
    assert_eq!(reassembly.insert(late, &v4(10)), None);
    assert_eq!(reassembly.held(), 0);
}
