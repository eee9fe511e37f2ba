use proptest::prelude::*;

use super::*;

const WINDOW: u64 = 64 << 20;

fn pattern(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9) >> 7) as u8
}

fn patterns(offset: u64, len: u64) -> Vec<u8> {
    (offset..offset + len).map(pattern).collect()
}

/// Reads everything, in both ways, and checks the bytes.
fn drain(buffer: &mut Reassembly, mut at: u64) -> u64 {
    let mut out = vec![0; 5000];
    loop {
        let n = buffer.read(&mut out);
        for got in &out[..n] {
            assert_eq!(*got, pattern(at));
            at += 1;
        }
        let Some(chunk) = buffer.read_chunk(70_000) else {
            return at;
        };
        for got in chunk {
            assert_eq!(got, pattern(at));
            at += 1;
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u64, u64),
    Read(usize),
    ReadChunk(usize),
    /// Distance from the read offset, and length.
    Pass(u64, u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let near = (0..150_000u64, 0..3_000u64).prop_map(|(o, l)| Op::Insert(o, l));
    let large = (0..100_000u64, 0..80_000u64).prop_map(|(o, l)| Op::Insert(o, l));
    let tiny = (0..300u64, 0..9u64).prop_map(|(o, l)| Op::Insert(o, l));
    let small = (0..70_000u64, 0..100u64).prop_map(|(o, l)| Op::Insert(o, l));
    let edge = (0..5u64, 0..130u64, 0..200u64)
        .prop_map(|(block, back, l)| Op::Insert((block * BLOCK).saturating_sub(back), l));
    let read = (0..50_000usize).prop_map(Op::Read);
    let chunk = (1..50_000usize).prop_map(Op::ReadChunk);
    let pass = (0..2u64, 0..300u64).prop_map(|(ahead, l)| Op::Pass(ahead, l));
    prop::collection::vec(
        prop_oneof![near, large, tiny, small, edge, read, chunk, pass],
        1..120,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Compared with an array of bytes and a flag for each.
    #[test]
    fn agrees_with_a_byte_array(ops in ops()) {
        // [9000 2.2 ordered-bytes]
        let mut buffer = Reassembly::default();
        let mut there = vec![false; 1 << 18];
        let mut base = 0u64;
        for op in ops {
            match op {
                Op::Insert(offset, len) => {
                    buffer.insert(offset, &patterns(offset, len));
                    there[offset as usize..(offset + len) as usize].fill(true);
                }
                Op::Read(max) => {
                    let mut out = vec![0; max];
                    let n = buffer.read(&mut out);
                    let run = there[base as usize..].iter().take_while(|b| **b).count();
                    prop_assert_eq!(n, run.min(max));
                    prop_assert_eq!(&out[..n], &patterns(base, n as u64)[..]);
                    base += n as u64;
                }
                Op::ReadChunk(max) => {
                    let run = there[base as usize..].iter().take_while(|b| **b).count();
                    match buffer.read_chunk(max) {
                        None => prop_assert_eq!(run, 0),
                        Some(chunk) => {
                            prop_assert!(!chunk.is_empty() && chunk.len() <= run.min(max));
                            prop_assert_eq!(&chunk[..], &patterns(base, chunk.len() as u64)[..]);
                            base += chunk.len() as u64;
                        }
                    }
                }
                Op::Pass(ahead, len) => {
                    let comes_next = ahead == 0 && len > 0;
                    let held = there[base as usize..].contains(&true);
                    let passed = buffer.pass(base + ahead, len as usize);
                    prop_assert_eq!(passed, comes_next && !held);
                    if passed {
                        there[base as usize..(base + len) as usize].fill(true);
                        base += len;
                    }
                }
            }
            let run = there[base as usize..].iter().take_while(|b| **b).count() as u64;
            prop_assert_eq!((buffer.base(), buffer.readable()), (base, run));
            let highest = there.iter().rposition(|b| *b).map_or(0, |i| i as u64 + 1);
            prop_assert_eq!(buffer.highest(), highest);
            // Blocks double while a stream is small, so they take at most twice the bytes
            // charged to flow control. The first and the last block may exist for one byte
            // each.
            let charged = (highest - base) as usize;
            prop_assert!(
                buffer.memory() <= charged * 2 + charged / 8 + (12 << 10) + 2 * BLOCK as usize,
            );
        }
    }

    /// Compared with a buffer that is read: the same offsets at any time, and no more memory.
    #[test]
    fn what_is_skipped_counts_as_what_is_read(
        ops in ops(),
        lazy in prop::collection::vec(any::<bool>(), 120),
    ) {
        let (mut counted, mut read) = (Reassembly::default(), Reassembly::default());
        for (op, lazy) in ops.into_iter().zip(lazy) {
            if let Op::Insert(offset, len) = op {
                counted.insert(offset, &patterns(offset, len));
                read.insert(offset, &patterns(offset, len));
            }
            if !lazy {
                let from = read.base();
                let to = drain(&mut read, from);
                prop_assert_eq!(counted.skip(), to - from);
                prop_assert!(counted.memory() <= read.memory() + 2 * BLOCK as usize);
            }
            prop_assert_eq!(counted.base(), read.base());
            prop_assert_eq!(counted.frontier(), read.frontier());
            prop_assert_eq!(counted.highest(), read.highest());
        }
    }
}

/// Data in order that isn't read takes no memory, however late it is skipped.
#[test]
fn what_is_skipped_is_not_kept() {
    let mut buffer = Reassembly::default();
    buffer.insert(0, &patterns(0, 1000));
    assert_eq!(buffer.skip(), 1000);
    let at_rest = buffer.memory();
    for packet in 0..1000 {
        let offset = 1000 + packet * 1200;
        buffer.insert(offset, &patterns(offset, 1200));
        assert_eq!(buffer.memory(), at_rest);
    }
    assert_eq!(buffer.skip(), 1_200_000);
}

/// Data behind a gap is kept until it is skipped as a whole, from any offset.
#[test]
fn what_was_kept_is_given_back_when_it_is_skipped() {
    let mut buffer = Reassembly::default();
    let end = 40 * BLOCK;
    buffer.insert(end, b"island");
    buffer.insert(0, &patterns(0, 1000));
    assert_eq!(buffer.skip(), 1000);
    buffer.insert(1000, &patterns(1000, 20 * BLOCK));
    assert!(buffer.memory() as u64 >= 20 * BLOCK);
    assert_eq!(buffer.skip(), 20 * BLOCK);
    assert!(buffer.memory() as u64 <= 2 * BLOCK, "{}", buffer.memory());
    let at = 1000 + 20 * BLOCK;
    buffer.insert(at, &patterns(at, end - at));
    assert_eq!(buffer.skip(), end + 6 - at);
    assert!(buffer.memory() < 1024);
}

#[test]
fn holds_a_window_of_gaps() {
    let packet = 1200;
    let mut buffer = Reassembly::default();
    for i in (1..WINDOW / packet).step_by(2) {
        buffer.insert(i * packet, &patterns(i * packet, packet));
    }
    assert_eq!(buffer.readable(), 0);
    let held = buffer.memory() as u64;
    assert!(held <= WINDOW * 9 / 8 + (1 << 20), "{held}");
    // The lost packets are retransmitted, last first.
    for i in (0..WINDOW / packet).rev().filter(|i| i % 2 == 0) {
        buffer.insert(i * packet, &patterns(i * packet, packet));
    }
    assert_eq!(drain(&mut buffer, 0), WINDOW / packet * packet);
    let slots = buffer.blocks.capacity() * size_of::<Option<Box<Block>>>();
    assert_eq!(buffer.memory(), slots);
    assert!(slots < 1024);
}

#[test]
fn single_bytes_and_overlaps_cost_no_more_than_the_window() {
    let window = 1 << 20;
    let mut buffer = Reassembly::default();
    for offset in (1..window).step_by(2) {
        buffer.insert(offset, &[pattern(offset)]);
    }
    let alternate = buffer.memory() as u64;
    assert!(alternate <= window * 9 / 8 + 64 * 1024, "{alternate}");
    for offset in (1..window - 1400).step_by(300) {
        buffer.insert(offset, &patterns(offset, 1400));
    }
    assert!(buffer.memory() as u64 <= alternate);
    for offset in (0..window).step_by(2) {
        buffer.insert(offset, &[pattern(offset)]);
    }
    assert_eq!(drain(&mut buffer, 0), window);
}

/// 393 kB on the wire: 35,000 STREAM frames of one byte, each at the end of a separate block.
#[test]
fn one_byte_pieces_cost_memory_in_proportion() {
    let mut buffer = Reassembly::default();
    for block in 1..=35_000 {
        buffer.insert(block * BLOCK - 1, &[pattern(block * BLOCK - 1)]);
    }
    assert!(buffer.memory() < 16 << 20, "{}", buffer.memory());
    // The same number within a few blocks, every second byte, from the last to the first.
    let mut buffer = Reassembly::default();
    for at in (0..35_000).rev() {
        buffer.insert(2 * at + 1, &[pattern(2 * at + 1)]);
        let held = buffer.memory() as u64;
        assert!(held <= 8 * BLOCK + (35_000 - at) * 16, "{held} at {at}");
    }
    for at in 0..35_000 {
        buffer.insert(2 * at, &[pattern(2 * at)]);
    }
    assert_eq!(drain(&mut buffer, 0), 70_000);
}

#[test]
fn islands_far_apart_cost_their_blocks_only() {
    let mut buffer = Reassembly::default();
    for i in 1..=100u64 {
        buffer.insert(i * (1 << 24), b"island");
    }
    let held = buffer.memory();
    assert!(held < 100 * (8 << 10) + (8 << 20), "{held}");
    buffer.clear();
    assert_eq!(buffer.base(), 100 * (1 << 24) + 6);
    assert!(buffer.memory() < 1024);
}

#[test]
fn what_comes_after_forgetting_all_is_kept_as_on_a_new_stream() {
    let mut buffer = Reassembly::default();
    buffer.insert(100_000, b"island");
    buffer.clear();
    assert_eq!((buffer.base(), buffer.highest()), (100_006, 100_006));
    buffer.insert(100_006, b"more");
    assert!(buffer.memory() <= 1024, "{}", buffer.memory());
    assert_eq!(buffer.read_chunk(10).as_deref(), Some(&b"more"[..]));
    // A stream that was counted is still counted.
    buffer.skip();
    buffer.clear();
    buffer.insert(100_010, &[0; 10_000]);
    assert_eq!((buffer.memory() <= 1024, buffer.skip()), (true, 10_000));
}

/// Flow control uses the memory that a stream reports.
#[test]
fn pieces_count_with_their_places() {
    let mut buffer = Reassembly::default();
    for n in 1..=300 {
        buffer.insert(n * 100, b"x");
        let range = n as usize * 7..=n as usize * 16 + 1024;
        assert!(range.contains(&buffer.memory()), "{n}: {}", buffer.memory());
    }
}

/// Up to 4 KiB, with six bytes for each place.
#[test]
fn a_block_keeps_few_pieces() {
    assert!(Pieces::default().take(4090) && !Pieces::default().take(4091));
    let mut pieces = Pieces::default();
    let mut kept = 0;
    while pieces.take(1) {
        pieces.insert(2 * kept, b"x");
        kept += 1;
    }
    assert_eq!(kept, 4096 / 7);
}

#[test]
fn what_follows_each_other_beyond_a_gap_is_one_piece() {
    let mut buffer = Reassembly::default();
    for at in 100..1100 {
        buffer.insert(at, &patterns(at, 1));
    }
    assert!(buffer.memory() <= 2048, "{}", buffer.memory());
    // Once the gap is closed, the data is only stored in place.
    buffer.insert(0, &patterns(0, 100));
    let pieces = buffer.blocks.iter().flatten().map(|b| b.pieces.memory());
    assert_eq!((buffer.readable(), pieces.sum::<usize>()), (1100, 0));
    assert_eq!(drain(&mut buffer, 0), 1100);
}

#[test]
fn a_block_that_is_full_takes_no_more_than_its_bytes() {
    let end = 8 * BLOCK;
    let mut buffer = Reassembly::default();
    for at in (100..end).step_by(200) {
        buffer.insert(at, &patterns(at, 100.min(end - at)));
    }
    let with_gaps = buffer.memory();
    for at in (0..end).step_by(1024) {
        buffer.insert(at, &patterns(at, 1024));
    }
    assert_eq!(buffer.readable(), end);
    assert!(buffer.memory() + 8 * 4000 <= with_gaps, "{with_gaps}");
    assert_eq!(drain(&mut buffer, 0), end);
}

#[test]
fn a_small_stream_has_a_small_block_and_none_at_rest() {
    let mut buffer = Reassembly::default();
    buffer.insert(0, b"GET /");
    assert!(buffer.memory() <= 512 + 5 * size_of::<Option<Box<Block>>>());
    assert_eq!(buffer.read_chunk(100).as_deref(), Some(&b"GET /"[..]));
    assert!(buffer.memory() <= 8 * size_of::<Option<Box<Block>>>());
    assert_eq!(buffer.read_chunk(100), None);
}

#[test]
fn a_long_stream_of_short_messages_has_small_blocks() {
    let mut buffer = Reassembly::default();
    for at in (0..1_000_000).step_by(100) {
        buffer.insert(at, &patterns(at, 100));
        assert!(buffer.memory() <= 2048, "{} at {at}", buffer.memory());
        assert_eq!(drain(&mut buffer, at), at + 100);
    }
    // The same if the halves of each message are reordered.
    for at in (1_000_000..1_100_000).step_by(100) {
        buffer.insert(at + 50, &patterns(at + 50, 50));
        buffer.insert(at, &patterns(at, 50));
        assert!(buffer.memory() <= 2048, "{} at {at}", buffer.memory());
        assert_eq!(drain(&mut buffer, at), at + 100);
    }
    let mut buffer = Reassembly::default();
    buffer.insert(0, &patterns(0, 1_000_000));
    drain(&mut buffer, 0);
    // A bulk transfer gets full-sized blocks, and small blocks again afterwards.
    buffer.insert(1_000_000, &patterns(1_000_000, 40_000));
    drain(&mut buffer, 1_000_000);
    buffer.insert(1_040_000, &patterns(1_040_000, 1_000));
    // At most the rest of the block.
    assert!((8_000..=10_000).contains(&buffer.memory()));
    drain(&mut buffer, 1_040_000);
    buffer.insert(1_041_000, &patterns(1_041_000, 1_000));
    assert!(buffer.memory() <= 4096);
}

#[test]
fn the_last_offset_does_not_overflow() {
    let mut buffer = Reassembly::default();
    buffer.insert(u64::MAX - 1, b"");
    buffer.insert(5, b"");
    assert_eq!((buffer.highest(), buffer.readable()), (0, 0));
}
