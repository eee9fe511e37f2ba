use core::num::NonZeroU8;

use super::*;
use crate::streams::id;

const LIMIT: u64 = 2 * STREAM_FLOOR;

/// Streams 0, 4 and so on, which may send `credit` bytes each.
fn records(count: u64, credit: u64) -> Records {
    let record = || Box::new(Record::new(Some(SendPart::new(credit)), None));
    (0..count).map(|n| (id(4 * n), record())).collect()
}

fn write(account: &mut SendAccount, records: &mut Records, n: u64) -> Result<usize, WriteError> {
    let data = [7; 3 * STREAM_FLOOR as usize];
    let record = records.get_mut(&id(n)).unwrap();
    account.write((id(n), record), data.len(), |send, room| {
        send.write(&data[..room]);
        send.take(room as u64, u64::MAX);
    })
}

fn acked(account: &mut SendAccount, records: &mut Records, range: Range<u64>) -> Events {
    let mut events = Events::default();
    let record = records.get_mut(&id(0)).unwrap();
    assert!(!account.on_acked((id(0), record), range, false, &mut events));
    account.wake_writers(records, &mut events);
    events
}

#[test]
fn each_stream_has_a_floor_and_writers_wait_in_one_place() {
    let mut account = SendAccount::new(LIMIT);
    let mut records = records(2, 1 << 20);
    assert_eq!(write(&mut account, &mut records, 0), Ok(LIMIT as usize));
    let floor = STREAM_FLOOR as usize;
    assert_eq!(write(&mut account, &mut records, 4), Ok(floor));
    assert!(!account.writers_wait() && account.has_more());
    for n in [0, 4, 0, 4] {
        let result = write(&mut account, &mut records, n);
        assert_eq!(result, Err(WriteError::Blocked));
    }
    assert_eq!(account.queued(), 2);
    assert_eq!(account.unacked(), LIMIT + STREAM_FLOOR);
    // No bytes are wanted, so this succeeds.
    let record = records.get_mut(&id(0)).unwrap();
    let written = account.write((id(0), record), 0, |_, room| assert_eq!(room, 0));
    assert_eq!(written, Ok(0));
}

#[test]
fn an_eighth_of_the_buffer_wakes_the_writers_in_turn() {
    let mut account = SendAccount::new(LIMIT);
    let mut records = records(3, 1 << 20);
    for n in [0, 4, 0, 4] {
        let _ = write(&mut account, &mut records, n);
    }
    let few = STREAM_FLOOR + LIMIT / 8 - 1;
    assert_eq!(acked(&mut account, &mut records, 0..few).pop(), None);
    let mut events = acked(&mut account, &mut records, few..few + 1);
    assert_eq!(events.pop(), Some(StreamEvent::Writable(id(0))));
    assert_eq!(events.pop(), Some(StreamEvent::Writable(id(4))));
    assert_eq!((events.pop(), account.queued()), (None, 0));
}

#[test]
fn writers_that_are_woken_take_parts_by_weight() {
    let mut account = SendAccount::new(64 * STREAM_FLOOR);
    account.on_congestion_window(1 << 30);
    let limit = account.limit();
    let mut records = records(3, 1 << 30);
    let heavy = NonZeroU8::new(3).unwrap();
    let record = records.get_mut(&id(4)).unwrap();
    record.send.as_mut().unwrap().set_weight(heavy);
    // The first one fills the buffer, and the others get their minimum.
    while write(&mut account, &mut records, 0).is_ok() {}
    for n in [4, 8] {
        while write(&mut account, &mut records, n).is_ok() {}
    }
    // All but a quarter of the limit is acknowledged.
    let some = account.unacked() - limit / 4;
    acked(&mut account, &mut records, 0..some);
    let mut all = |n| {
        let pieces = core::iter::from_fn(|| write(&mut account, &mut records, n).ok());
        pieces.sum::<usize>() as u64
    };
    let parts = [0, 4, 8].map(&mut all);
    assert_eq!(parts, [1, 3, 1].map(|weight| weight * (3 * limit / 20)));
    assert_eq!(account.queued(), 3);
}

#[test]
fn a_writer_without_the_peers_credit_is_woken_by_credit() {
    let mut account = SendAccount::new(LIMIT);
    let mut records = records(1, 0);
    // The bytes buffered ahead of credit.
    let [first, second] = [(), ()].map(|()| write(&mut account, &mut records, 0));
    assert_eq!(first, Ok(STREAM_FLOOR as usize));
    assert_eq!(second, Err(WriteError::Blocked));
    assert_eq!(account.queued(), 0, "there is room for others");
    let mut events = Events::default();
    account.on_credit((id(0), records.get_mut(&id(0)).unwrap()), 0, &mut events);
    assert_eq!(events.pop(), None);
    account.on_credit((id(0), records.get_mut(&id(0)).unwrap()), 1, &mut events);
    assert_eq!(events.pop(), Some(StreamEvent::Writable(id(0))));
}

#[test]
fn the_limit_follows_the_window_up_to_its_greatest() {
    let mut account = SendAccount::new(1 << 20);
    assert_eq!((account.limit(), account.max()), (AHEAD, 1 << 20));
    account.on_congestion_window(100_000);
    assert_eq!(account.limit(), AHEAD + 200_000);
    account.on_congestion_window(1 << 30);
    assert_eq!(account.limit(), 1 << 20);
    account.set_max(1000);
    assert_eq!((account.limit(), account.max()), (1000, 1000));
}

#[test]
fn the_end_of_a_stream_is_reported_once_all_is_acknowledged() {
    let mut account = SendAccount::new(LIMIT);
    let mut records = records(1, 1 << 20);
    let record = records.get_mut(&id(0)).unwrap();
    let written = account.write((id(0), record), 9, |send, room| {
        send.write(&[1; 9][..room]);
        send.finish().unwrap();
        assert!(send.take(9, 9).unwrap().fin);
    });
    assert_eq!(written, Ok(9));
    let mut events = Events::default();
    assert!(!account.on_acked((id(0), record), 5..9, true, &mut events));
    assert_eq!((events.pop(), account.unacked()), (None, 5));
    assert!(account.on_acked((id(0), record), 0..5, false, &mut events));
    assert_eq!(events.pop(), Some(StreamEvent::Finished(id(0))));
    assert_eq!(account.unacked(), 0);
    // A reset drops the rest, and streams that no longer exist don't wait.
    account.unacked = 3;
    account.on_dropped(7);
    account.waiting = (0..100).map(id).collect();
    account.forget_gone(1, |waiting| *waiting == id(0));
    assert_eq!((account.unacked(), account.queued()), (0, 1));
}
