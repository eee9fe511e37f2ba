use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Write(usize),
    Push(usize),
    Send(u64),
    SendLost(u64),
    /// The outcome of the n-th packet in flight: acknowledged, lost, or lost and acknowledged
    /// later.
    Ack(prop::sample::Index),
    Lose(prop::sample::Index),
    Misjudge(prop::sample::Index),
}

fn op() -> impl Strategy<Value = Op> {
    let index = || any::<prop::sample::Index>();
    prop_oneof![
        (0..3000usize).prop_map(Op::Write),
        (0..5_000usize).prop_map(Op::Push),
        (1..1500u64).prop_map(Op::Send),
        (1..1500u64).prop_map(Op::Send),
        (1..1500u64).prop_map(Op::Send),
        (1..1500u64).prop_map(Op::SendLost),
        index().prop_map(Op::Ack),
        index().prop_map(Op::Ack),
        index().prop_map(Op::Lose),
        index().prop_map(Op::Misjudge),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Byte {
    Unsent,
    InFlight,
    Lost,
    Acked,
}

fn contents(buffer: &mut SendBuffer, range: Range<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    buffer.read(range, |piece| bytes.extend_from_slice(piece));
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Compared with an array with a state for each byte.
    #[test]
    fn agrees_with_a_byte_array(ops in prop::collection::vec(op(), 1..200)) {
        // [9000 2.2 same-data]
        let mut buffer = SendBuffer::default();
        let mut data: Vec<u8> = Vec::new();
        let mut states: Vec<Byte> = Vec::new();
        let mut packets: Vec<Range<u64>> = Vec::new();
        let mut late: Vec<Range<u64>> = Vec::new();
        let mut next = 0u32;
        for op in ops {
            let set = |states: &mut Vec<Byte>, range: &Range<u64>, to: Byte| {
                for state in &mut states[range.start as usize..range.end as usize] {
                    if *state != Byte::Acked {
                        *state = to;
                    }
                }
            };
            match op {
                Op::Write(len) | Op::Push(len) => {
                    let fresh: Vec<u8> = (0..len).map(|_| {
                        next = next.wrapping_mul(1_664_525).wrapping_add(1);
                        (next >> 24) as u8
                    }).collect();
                    data.extend(&fresh);
                    states.resize(data.len(), Byte::Unsent);
                    if matches!(op, Op::Write(_)) {
                        buffer.write(&fresh);
                    } else {
                        buffer.push(Bytes::from(fresh));
                    }
                }
                Op::Send(max) | Op::SendLost(max) => {
                    let fresh = matches!(op, Op::Send(_));
                    let wanted = if fresh { Byte::Unsent } else { Byte::Lost };
                    let first = states.iter().position(|s| *s == wanted);
                    let expected = first.map(|first| {
                        let run = states[first..].iter().take_while(|s| **s == wanted).count();
                        first as u64..(first + run.min(max as usize)) as u64
                    });
                    let taken = if fresh { buffer.take_unsent(max) } else { buffer.take_lost(max) };
                    prop_assert_eq!(&taken, &expected);
                    if let Some(range) = taken {
                        let written = &data[range.start as usize..range.end as usize];
                        prop_assert_eq!(contents(&mut buffer, range.clone()), written);
                        set(&mut states, &range, Byte::InFlight);
                        packets.push(range);
                    }
                }
                Op::Ack(index) => {
                    let all = packets.len() + late.len();
                    if all > 0 {
                        let i = index.index(all);
                        let range = if i < packets.len() {
                            packets.swap_remove(i)
                        } else {
                            late.swap_remove(i - packets.len())
                        };
                        let fresh = states[
                            range.start as usize..range.end as usize
                        ].iter().filter(|s| **s != Byte::Acked).count();
                        prop_assert_eq!(buffer.on_acked(range.clone()), fresh as u64);
                        set(&mut states, &range, Byte::Acked);
                    }
                }
                Op::Lose(index) | Op::Misjudge(index) => {
                    if !packets.is_empty() {
                        let range = packets.swap_remove(index.index(packets.len()));
                        buffer.on_lost(range.clone());
                        set(&mut states, &range, Byte::Lost);
                        if matches!(op, Op::Misjudge(_)) {
                            late.push(range);
                        }
                    }
                }
            }
            let mut counts = [0; 4];
            for state in &states {
                counts[*state as usize] += 1;
            }
            let [unsent, in_flight, lost, _] = counts;
            prop_assert_eq!(buffer.unacked(), unsent + in_flight + lost);
            prop_assert_eq!((buffer.unsent(), buffer.has_lost()), (unsent, lost > 0));
            prop_assert_eq!(buffer.all_acked(), buffer.unacked() == 0);
        }
        // All unacknowledged bytes can still be read.
        for (at, state) in states.iter().enumerate() {
            if *state != Byte::Acked {
                prop_assert_eq!(contents(&mut buffer, at as u64..at as u64 + 1), &data[at..=at]);
            }
        }
    }
}

fn held(buffer: &SendBuffer) -> usize {
    buffer.chunks.iter().map(|c| c.data.len()).sum::<usize>() + buffer.tail.capacity()
}

#[test]
fn bytes_are_kept_not_copied() {
    let mut buffer = SendBuffer::default();
    let data = Bytes::from(vec![7; 5000]);
    buffer.push(data.clone());
    assert_eq!(buffer.chunks[0].data.as_ptr(), data.as_ptr());
    buffer.write(b"tail");
    assert_eq!(buffer.take_unsent(u64::MAX), Some(0..5004));
    assert_eq!(contents(&mut buffer, 4998..5004), b"\x07\x07tail");
}

#[test]
fn a_hole_pins_its_block_only() {
    let mut buffer = SendBuffer::default();
    for _ in 0..1000 {
        buffer.write(&[1; 1000]);
    }
    let packets: Vec<_> = std::iter::from_fn(|| buffer.take_unsent(1200)).collect();
    for range in &packets[1..] {
        buffer.on_acked(range.clone());
    }
    assert_eq!(buffer.unacked(), 1200);
    assert!(held(&buffer) <= 2 * BLOCK, "{}", held(&buffer));
    buffer.on_lost(packets[0].clone());
    assert_eq!(buffer.take_lost(5000), Some(0..1200));
    assert_eq!(contents(&mut buffer, 0..1200), [1; 1200]);
    buffer.on_acked(0..1200);
    assert!(buffer.all_acked());
    assert_eq!(held(&buffer), 0);
}

#[test]
fn small_writes_share_blocks() {
    let mut buffer = SendBuffer::default();
    for _ in 0..10_000 {
        buffer.write(b"0123456789");
    }
    assert!(held(&buffer) <= 100_000 + BLOCK);
    assert!(buffer.chunks.len() <= 20, "{}", buffer.chunks.len());
    let mut one = SendBuffer::default();
    one.write(b"x");
    assert_eq!(held(&one), FIRST_BLOCK);
}

#[test]
fn clearing_keeps_the_final_size() {
    let mut buffer = SendBuffer::default();
    buffer.write(&[0; 100]);
    buffer.take_unsent(40);
    buffer.clear();
    assert_eq!((buffer.sent(), buffer.end(), buffer.unacked()), (40, 40, 0));
    assert_eq!(buffer.on_acked(0..40), 0);
}

#[test]
fn acknowledgements_of_what_was_never_sent_change_nothing() {
    let mut buffer = SendBuffer::default();
    buffer.write(&[0; 100]);
    assert_eq!(buffer.on_acked(0..100), 0);
    buffer.on_lost(20..1 << 62);
    assert_eq!((buffer.unacked(), buffer.has_lost()), (100, false));
}

/// Bytes that count how many of their kind were freed.
struct Watched(Vec<u8>, Arc<AtomicU32>);

impl AsRef<[u8]> for Watched {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

/// Data acknowledged out of order is freed before the rest is acknowledged.
#[test]
fn a_piece_is_freed_once_all_of_it_is_acknowledged() {
    let freed = Arc::new(AtomicU32::new(0));
    let mut buffer = SendBuffer::default();
    for _ in 0..3 {
        let piece = Watched(vec![7; 3000], Arc::clone(&freed));
        buffer.push(Bytes::from_owner(piece));
    }
    assert_eq!(buffer.take_unsent(9000), Some(0..9000));
    let mut acked = |range: core::ops::Range<u64>| {
        let bytes = buffer.on_acked(range);
        (bytes, freed.load(Ordering::Relaxed))
    };
    assert_eq!(acked(2999..5999), (3000, 0));
    assert_eq!(acked(5999..6001), (2, 1));
    assert_eq!(acked(0..1000), (1000, 1));
    assert_eq!(acked(7000..9000), (2000, 1));
    assert_eq!(acked(6001..7000), (999, 2));
    assert_eq!(acked(1000..2999), (1999, 3));
    assert!(buffer.all_acked());
}

/// After rejected early data, everything is sent as if for the first time.
#[test]
fn starting_over_sends_all_of_it_again() {
    let mut buffer = SendBuffer::default();
    buffer.write(&[1; 60]);
    buffer.write(&[2; 40]);
    assert_eq!(buffer.take_unsent(60), Some(0..60));
    buffer.on_lost(0..20);
    buffer.start_over();
    let sizes = (buffer.sent(), buffer.unsent(), buffer.end());
    assert_eq!(sizes, (0, 100, 100));
    assert!(!buffer.has_lost());
    assert_eq!(buffer.take_unsent(1000), Some(0..100));
    let mut read = Vec::new();
    buffer.read(0..100, |piece| read.extend_from_slice(piece));
    assert_eq!(read, [[1; 60].as_slice(), &[2; 40]].concat());
    // A stream that was reset starts with nothing.
    let mut reset = SendBuffer::default();
    reset.write(&[3; 10]);
    reset.take_unsent(10);
    reset.clear();
    assert_eq!((reset.sent(), reset.end()), (10, 10));
    reset.start_over();
    assert_eq!((reset.sent(), reset.end(), reset.unacked()), (0, 0, 0));
}

/// 8000 bytes, sent in eight packets, of which the first was lost `times` times.
fn lost(times: u32) -> SendBuffer {
    let mut buffer = SendBuffer::default();
    buffer.write(&[7; 8000]);
    assert_eq!(buffer.take_unsent(8000), Some(0..8000));
    buffer.on_lost(0..1000);
    for _ in 1..times {
        assert_eq!(buffer.take_lost(1000), Some(0..1000));
        assert!(!buffer.has_lost());
        buffer.on_lost_again(0..1000);
    }
    buffer
}

#[test]
fn what_was_lost_twice_goes_in_two_packets() {
    let mut buffer = lost(2);
    buffer.on_lost(3000..4000);
    assert_eq!(buffer.take_lost(1000), Some(0..1000));
    // Other lost data is sent between the two packets.
    assert_eq!(buffer.take_lost(1000), Some(3000..4000));
    assert_eq!(buffer.first_lost(), Some(0..1000));
    assert_eq!(buffer.take_lost(1000), Some(0..1000));
    assert!(!buffer.has_lost());
    // One of the two packets may be lost.
    buffer.on_lost_again(0..1000);
    assert!(!buffer.has_lost());
    buffer.on_lost_again(0..1000);
    assert_eq!(buffer.first_lost(), Some(0..1000));
}

#[test]
fn what_arrives_is_not_sent_once_more() {
    let mut buffer = lost(2);
    assert_eq!(buffer.take_lost(1000), Some(0..1000));
    assert_eq!(buffer.first_lost(), Some(0..1000));
    assert_eq!(buffer.on_acked(0..600), 600);
    assert_eq!(buffer.take_lost(1000), Some(600..1000));
    assert_eq!(buffer.on_acked(0..1000), 400);
    // The loss of the second packet has no effect.
    buffer.on_lost_again(600..1000);
    assert!(!buffer.has_lost());
}

#[test]
fn beyond_an_eighth_of_what_was_sent_nothing_goes_twice() {
    let mut buffer = lost(2);
    for _ in 0..2 {
        assert_eq!(buffer.take_lost(1000), Some(0..1000));
    }
    for again in [0..1000, 0..1000] {
        buffer.on_lost_again(again);
    }
    assert_eq!(buffer.take_lost(1000), Some(0..1000));
    assert!(!buffer.has_lost());
}

/// Like a probe.
#[test]
fn what_is_repeated_is_lost_whatever_is_on_its_way() {
    let mut buffer = lost(2);
    for _ in 0..2 {
        assert_eq!(buffer.take_lost(1000), Some(0..1000));
    }
    buffer.on_forgotten(0..1000);
    assert_eq!(buffer.first_lost(), Some(0..1000));
}
