use proptest::prelude::*;

use super::*;

#[test]
fn never_holds_more_than_its_limit() {
    let mut pool = Pool::new(3 * 2_048);
    let taken: Vec<_> = std::iter::from_fn(|| pool.take(1500)).collect();
    assert_eq!(taken.len(), 3);
    for buffer in taken {
        pool.give_buffer(buffer);
    }
    // Spare buffers make room for other sizes.
    assert_eq!(std::iter::from_fn(|| pool.take(100)).count(), 24);
    assert_eq!(pool.allocated(), 24 * 256);
    assert!(pool.take(LARGE + 1).is_none());
}

#[test]
fn a_packet_stays_in_a_buffer_of_its_size() {
    let mut pool = Pool::new(2 * USUAL + 256);
    let mut buffer = vec![7; USUAL].into_boxed_slice();
    let kept = pool.keep(&mut buffer, 1_300, Offload::default()).unwrap();
    assert_eq!(kept.bytes(), &[7; 1_300]);
    assert!(buffer[..] == [0; USUAL]);
    buffer.fill(8);
    let copied = pool.keep(&mut buffer, 200, Offload::default()).unwrap();
    assert_eq!(copied.bytes(), &[8; 200]);
    assert!(buffer[..] == [8; USUAL]);
    assert_eq!(pool.allocated(), USUAL + 256);
    pool.give(kept);
    let again = pool.keep(&mut buffer, 1_400, Offload::default()).unwrap();
    assert_eq!(again.bytes(), &[8; 1_400]);
    // At the limit, the packet is lost, but the buffer stays.
    let mut pool = Pool::new(0);
    buffer.fill(9);
    assert!(pool.keep(&mut buffer, 1_400, Offload::default()).is_none());
    assert!(buffer[..] == [9; USUAL]);
}

#[test]
fn buffers_are_used_again() {
    let mut pool = Pool::new(LARGE);
    let frame = pool.copy(&[7; 1_300], Offload::default()).unwrap();
    assert_eq!(frame.bytes(), &[7; 1_300]);
    pool.give(frame);
    for _ in 0..100 {
        let frame = pool.copy(&[8; 2_000], Offload::default()).unwrap();
        pool.give(frame);
    }
    assert_eq!(pool.allocated(), 2_048);
}

#[test]
fn a_packet_takes_the_smallest_buffer_that_holds_it() {
    for len in 0..=LARGE {
        let smallest = CLASSES.iter().copied().find(|size| *size >= len);
        assert_eq!(cost(len), smallest, "{len}");
    }
    assert_eq!(cost(257), Some(512));
    assert_eq!(cost(LARGE + 1), None);
}

fn frame(pool: &mut Pool, len: usize) -> Frame {
    pool.copy(&vec![0; len], Offload::default()).unwrap()
}

/// One account takes its reserve and the whole shared part; another's reserve must still be
/// available.
#[test]
fn a_reserve_is_kept_whatever_others_hold() {
    let mut pool = Pool::new(WORKING + 100 * USUAL);
    let (greedy, modest) = (pool.open(10 * USUAL), pool.open(20 * USUAL));
    /// Charges a packet to an account, if there is room.
    fn charged(pool: &mut Pool, account: Account) -> Option<Frame> {
        let mut frame = frame(pool, 1500);
        if pool.charge(&mut frame, account) {
            return Some(frame);
        }
        pool.give(frame);
        None
    }
    let mut held: Vec<_> = std::iter::from_fn(|| charged(&mut pool, greedy)).collect();
    assert_eq!(held.len(), 80);
    for count in 0..30 {
        let frame = charged(&mut pool, modest);
        assert_eq!(frame.is_some(), count < 20);
        held.extend(frame);
    }
    // Bytes that one account returns to the shared part are available to the other, but not
    // those of its reserve.
    pool.give(held.remove(0));
    let late = charged(&mut pool, modest).unwrap();
    pool.give(late);
    pool.set_reserve(greedy, 80 * USUAL);
    assert!(charged(&mut pool, modest).is_none());
    for frame in held {
        pool.give(frame);
    }
    let left = [pool.shared, pool.held(greedy), pool.held(modest)];
    assert_eq!(left, [0; 3]);
    pool.close(greedy);
    assert_eq!((pool.reserved, pool.open(5)), (20 * USUAL, greedy));
}

proptest! {
    /// Whatever happens, exactly the bytes beyond the accounts' reserves come from the shared
    /// part.
    #[test]
    fn what_exceeds_reserves_is_shared(
        steps in prop::collection::vec((0usize..3, 0usize..4, 1usize..5_000), 1..200),
    ) {
        let mut pool = Pool::new(WORKING + 64 * USUAL);
        let accounts = [0, 1, 2].map(|number| pool.open(number * 8 * USUAL));
        let mut frames: [Vec<Frame>; 3] = Default::default();
        for (who, what, size) in steps {
            match what {
                0 => _ = frames[who].pop().map(|frame| pool.give(frame)),
                1 => pool.set_reserve(accounts[who], size),
                _ => {
                    let mut frame = frame(&mut pool, size);
                    if pool.charge(&mut frame, accounts[who]) {
                        frames[who].push(frame);
                    } else {
                        pool.give(frame);
                    }
                }
            }
            let held = |frames: &Vec<Frame>| frames.iter().map(|f| f.buffer.len()).sum::<usize>();
            let reserves = accounts.map(|account| pool.holdings[account.0 as usize].reserve);
            let beyond = frames.iter().zip(reserves);
            let beyond = beyond.map(|(frames, reserve)| held(frames).saturating_sub(reserve));
            prop_assert_eq!(pool.shared, beyond.sum::<usize>());
            prop_assert_eq!(pool.used(), frames.iter().map(held).sum::<usize>());
            for (account, frames) in accounts.iter().zip(&frames) {
                prop_assert_eq!(pool.held(*account), held(frames));
            }
        }
    }
}

/// After a burst, memory must be released within seconds, in small steps, while buffers in
/// constant use stay.
#[test]
fn memory_comes_back() {
    let mut pool = Pool::new(1 << 30);
    let start = Instant::from_millis(5_000);
    let mut burst: Vec<_> = (0..50_000).map(|_| frame(&mut pool, 1500)).collect();
    assert!(!pool.tidy(start), "nothing to spare");
    let kept = burst.split_off(49_000);
    for frame in burst {
        pool.give(frame);
    }
    let (mut now, mut steps, mut done) = (start, 0, false);
    while let Some(at) = pool.tidy_at() {
        now = now.max(at);
        let before = pool.allocated();
        done |= pool.tidy(now);
        assert!(before - pool.allocated() <= STEP * USUAL);
        steps += 1;
        assert!(steps < 1_000, "it has no end");
    }
    let took = now - start;
    assert!(done && took < Duration::from_secs(4), "{took:?}");
    let left = pool.allocated();
    assert!(left <= kept.len() * USUAL + SPARE, "{left}");
    assert_eq!(pool.used(), kept.len() * USUAL);
    // A queue that empties and fills repeatedly must keep its buffers.
    let mut kept = kept;
    for turn in 0..5_000u64 {
        let now = now + Duration::from_millis(turn);
        match turn % 2 {
            0 => kept.drain(..).for_each(|frame| pool.give(frame)),
            _ => kept.extend((0..1_000).map(|_| frame(&mut pool, 1500))),
        }
        assert!(!pool.tidy(now));
    }
}
