use super::*;

fn queues(bytes: usize) -> Datagrams {
    Datagrams::new(DatagramsConfig {
        receive_bytes: bytes,
        send_bytes: bytes,
    })
}

#[test]
fn a_full_queue_drops_its_oldest_and_counts_them() {
    let mut datagrams = queues(10 * (100 + OVERHEAD));
    for n in 0..25 {
        datagrams.send(Bytes::from(vec![n; 100]));
        let woken = datagrams.on_datagram(&[n; 100], Ecn::NotEct, false);
        assert_eq!(woken, n == 0);
    }
    assert_eq!(datagrams.memory(), 20 * (100 + OVERHEAD));
    let counts = datagrams.counts();
    assert_eq!((counts.unsent, counts.unread), (15, 15));
    for n in 15..25 {
        assert_eq!(datagrams.read().unwrap().0, vec![n; 100]);
    }
    assert!(datagrams.read().is_none());
    let mut room = [0; 100 + 3];
    for n in 15..25 {
        let mut w = Writer::new(&mut room);
        datagrams.write(Instant::ZERO, &mut w);
        assert_eq!(w.written()[3..], vec![n; 100]);
    }
    assert!(!datagrams.wants_to_send());
    assert_eq!(datagrams.memory(), 0);
}

/// Datagrams without bytes still take memory.
#[test]
fn empty_datagrams_are_bounded_too() {
    let mut datagrams = queues(1000);
    for _ in 0..100_000 {
        datagrams.on_datagram(&[], Ecn::NotEct, false);
        datagrams.send(Bytes::new());
    }
    assert!(datagrams.memory() <= 2000);
    assert_eq!(datagrams.counts().unread, 100_000 - 1000 / OVERHEAD as u64);
}

#[test]
fn one_that_no_queue_can_hold_is_dropped_alone() {
    let mut datagrams = queues(1000);
    assert!(datagrams.on_datagram(b"small", Ecn::NotEct, false));
    assert!(!datagrams.on_datagram(&[0; 2000], Ecn::NotEct, false));
    assert_eq!(datagrams.read().unwrap().0, &b"small"[..]);
    assert_eq!(datagrams.counts().unread, 1);
}

#[test]
fn what_the_path_carries_no_more_is_out_of_the_way() {
    let mut datagrams = queues(10_000);
    for length in [1400, 1300, 100] {
        datagrams.send(Bytes::from(vec![1; length]));
    }
    datagrams.drop_longer_than(1200);
    assert_eq!(datagrams.counts().unsent, 2);
    let mut room = [0; 1200];
    let mut w = Writer::new(&mut room);
    datagrams.write(Instant::ZERO, &mut w);
    assert_eq!(w.position(), datagram_len(100));
}

/// A sender that waits for room is woken once there is some, and newer datagrams don't evict
/// older datagrams.
#[test]
fn what_waits_for_room_drops_nothing() {
    let mut datagrams = queues(1000);
    let data = Bytes::from_static(&[7; 300]);
    assert_eq!(datagrams.send_room(), 1000 - OVERHEAD);
    assert!(datagrams.try_send(&data) && datagrams.try_send(&data));
    let room = 1000 - 2 * (300 + OVERHEAD) - OVERHEAD;
    assert_eq!(datagrams.send_room(), room);
    assert!(!datagrams.try_send(&data) && !datagrams.take_unblocked());
    let mut packet = [0; 350];
    datagrams.write(Instant::ZERO, &mut Writer::new(&mut packet));
    assert!(datagrams.take_unblocked() && !datagrams.take_unblocked());
    assert!(datagrams.try_send(&data));
    // One that never fits doesn't wait forever.
    let large = Bytes::from_static(&[7; 2000]);
    assert!(!datagrams.try_send(&large));
    datagrams.drop_unsent();
    assert!(datagrams.take_unblocked() && datagrams.try_send(&large));
    assert!(!datagrams.wants_to_send());
    // Nothing is kept while memory is scarce.
    assert!(!datagrams.on_datagram(b"scarce", Ecn::NotEct, true));
    assert_eq!(datagrams.unread_bytes(), 0);
}

#[test]
fn totals_add_up() {
    let counters = QueueCounters::default();
    let ms = Duration::from_millis;
    counters.on_sent(ms(7), ms(7), true);
    counters.on_sent(ms(1_000), ms(995), false);
    add(&counters.dropped, 3);
    let mut totals = QueueCounts::default();
    for _ in 0..2 {
        totals += counters.counts();
    }
    let QueueCounts {
        sent,
        marked,
        dropped,
        waits,
        waited,
        busy,
    } = totals;
    assert_eq!((sent, marked, dropped), (4, 2, 6));
    assert_eq!(waits, [0, 0, 0, 2, 0, 0, 0, 0, 0, 2]);
    assert_eq!((waited, busy), (ms(2_014), ms(2_004)));
}
