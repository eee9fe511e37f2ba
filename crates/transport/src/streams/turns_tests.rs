use super::*;
use crate::streams::id;
use crate::wire::Frames;

const PACKET: usize = 1000;

/// Streams 0, 4 and so on, with turns to send.
#[derive(Default)]
struct Sender {
    turns: Turns,
    records: Records,
    control: Control,
}

impl Sender {
    /// `streams` have `bytes` each, and the peer allows `each` on a stream and `all` in total.
    fn new(streams: u64, bytes: usize, each: u64, all: u64) -> Self {
        let mut sender = Self::default();
        sender.raise(all);
        for n in 0..streams {
            let mut send = SendPart::new(each);
            send.write(&vec![7; bytes]);
            let record = Box::new(Record::new(Some(send), None));
            sender.records.insert(id(4 * n), record);
            sender.settle(4 * n);
        }
        sender
    }

    fn raise(&mut self, all: u64) {
        let (records, control) = (&mut self.records, &mut self.control);
        self.turns.raise(all, records, control);
    }

    fn settle(&mut self, n: u64) {
        let record = self.records.get_mut(&id(n)).unwrap();
        self.turns.settle(id(n), record, &mut self.control);
    }

    fn send(&mut self, n: u64) -> &mut SendPart {
        self.records.get_mut(&id(n)).unwrap().send.as_mut().unwrap()
    }

    fn next(&mut self) -> Option<StreamId> {
        self.turns.next(&mut self.records)
    }

    /// Stream and length of each frame in the next packet.
    fn packet(&mut self) -> Vec<(u64, usize)> {
        let mut buffer = [0; PACKET];
        let mut w = Writer::new(&mut buffer);
        let mut sent = SentFrames::default();
        let (records, control) = (&mut self.records, &mut self.control);
        self.turns.write(&mut w, &mut sent, records, control);
        let frames = Frames::new(w.written()).map(|frame| match frame.unwrap() {
            Frame::Stream(frame) => (frame.id.as_u64(), frame.data.len()),
            other => panic!("{other:?}"),
        });
        frames.collect()
    }

    fn streams(&mut self, packets: usize) -> Vec<u64> {
        let packets = (0..packets).flat_map(|_| self.packet());
        packets.map(|(stream, _)| stream).collect()
    }
}

#[test]
fn new_data_waits_for_the_connections_credit_and_lost_data_does_not() {
    let mut sender = Sender::new(2, 800, 1 << 20, 500);
    assert_eq!(sender.packet(), [(0, 500)]);
    assert_eq!((sender.next(), sender.turns.credit()), (None, 0));
    assert!(sender.turns.wait_for_credit(&mut sender.records));
    assert_eq!(sender.turns.queued(), [0, 2]);
    sender.send(0).on_lost(0..500, false);
    sender.settle(0);
    assert_eq!(sender.packet(), [(0, 500)]);
    assert_eq!(sender.turns.retransmitted(), 500);
    sender.raise(501);
    assert_eq!(sender.packet().last(), Some(&(0, 1)));
    assert_eq!((sender.next(), sender.turns.queued()), (None, [0, 2]));
}

#[test]
fn a_sender_without_credit_reports_it_once() {
    let mut sender = Sender::new(1, 800, 1 << 20, 500);
    let write = |turns: &mut Turns, room: usize| {
        let mut buffer = [0; 10];
        let mut w = Writer::new(&mut buffer[..room]);
        let mut sent = SentFrames::default();
        let fits = turns.write_frame(&mut w, &mut sent).is_ok();
        assert_eq!(fits, !turns.has_frame());
        (w.position(), sent.connection())
    };
    sender.packet();
    assert!(sender.next().is_none() && sender.turns.has_frame());
    assert_eq!(write(&mut sender.turns, 1).0, 0);
    let (bytes, lost) = write(&mut sender.turns, 10);
    assert_eq!((bytes, lost), (3, ConnectionFrames::DATA_BLOCKED));
    assert!(sender.next().is_none() && !sender.turns.has_frame());
    sender.turns.on_lost(ConnectionFrames::MAX_DATA);
    assert!(!sender.turns.has_frame());
    sender.turns.on_lost(lost);
    assert_eq!(write(&mut sender.turns, 10), (bytes, lost));
    // The credit grows, so the lost DATA_BLOCKED is outdated.
    sender.turns.on_lost(lost);
    sender.raise(1 << 20);
    let nothing = (0, ConnectionFrames::default());
    assert_eq!(write(&mut sender.turns, 10), nothing);
    sender.turns.on_lost(lost);
    assert!(!sender.turns.has_frame());
}

#[test]
fn a_stream_at_its_limit_leaves_the_turn_to_others_and_asks_for_more() {
    let mut sender = Sender::new(2, 3 * PACKET, 100, 1 << 20);
    let first = [(0, 100), (4, 100)];
    assert_eq!(sender.packet(), first);
    assert_eq!(sender.next(), None);
    assert!(sender.turns.wait_for_credit(&mut sender.records));
    assert_eq!(sender.control.first(&mut sender.records), Some(id(0)));
    for n in [0, 4] {
        assert!(sender.records[&id(n)].due.data_blocked);
        sender.send(n).on_max_stream_data(1 << 20);
        sender.settle(n);
    }
    assert!(!sender.turns.wait_for_credit(&mut sender.records));
    assert_eq!(sender.streams(4), [0, 4, 0, 4]);
}

/// The peer's application waits for the last stream, and the others would use up the credit.
#[test]
fn the_last_of_the_credit_goes_where_the_peer_waits() {
    let mut sender = Sender::new(3, 50 * PACKET, 1 << 20, 2 * PACKET as u64);
    assert_eq!(sender.streams(2), [0, 4]);
    let raise = |sender: &mut Sender, packets: u64| sender.raise(packets * PACKET as u64);
    raise(&mut sender, 5);
    sender.turns.prefer(id(8));
    assert_eq!(sender.streams(3), [8, 8, 8]);
    // Without such a hint, and with much credit, all take turns.
    raise(&mut sender, 8);
    let mut turns = sender.streams(3);
    turns.sort_unstable();
    assert_eq!(turns, [0, 4, 8]);
    raise(&mut sender, 80);
    let next = sender.next();
    sender.turns.prefer(id(8));
    assert_eq!(sender.next(), next);
    sender.turns.prefer(id(12));
}

#[test]
fn what_was_not_acknowledged_is_repeated_from_the_lowest_stream_on() {
    let mut sender = Sender::new(3, 400, 1 << 20, 1 << 20);
    assert_eq!(sender.streams(2), [0, 4, 8, 8]);
    assert_eq!(sender.next(), None);
    let (records, control) = (&mut sender.records, &mut sender.control);
    sender.turns.repeat_first(100, records, control);
    assert_eq!(sender.packet(), [(0, 100), (4, 100), (8, 100)]);
    assert_eq!(sender.turns.retransmitted(), 300);
}

#[test]
fn a_stream_that_the_peer_does_not_allow_has_no_turn() {
    let mut sender = Sender::new(1, 400, 1 << 20, 1 << 20);
    sender.packet();
    sender.turns.start_over(1 << 20);
    assert_eq!(sender.turns.credit(), 1 << 20);
    let record = sender.records.get_mut(&id(0)).unwrap();
    record.turn = Turn::Held;
    record.send.as_mut().unwrap().start_over(1 << 20);
    sender.settle(0);
    assert_eq!(sender.next(), None);
    let (records, control) = (&mut sender.records, &mut sender.control);
    for n in [0, 4] {
        sender.turns.release(id(n), records, control);
    }
    assert_eq!(sender.packet(), vec![(0, 400)]);
    assert_eq!(sender.turns.retransmitted(), 0);
}

#[test]
fn streams_that_are_gone_leave_no_entries() {
    let mut sender = Sender::new(100, 400, 1 << 20, 0);
    let mut scheduled = Sender::new(100, 400, 1 << 20, 1 << 20);
    assert_eq!(sender.next(), None, "all wait for credit");
    for (all, queued) in [(&mut sender, [0, 1]), (&mut scheduled, [1, 0])] {
        all.turns.forget_gone(1, |live| *live == id(8));
        assert_eq!(all.turns.queued(), queued);
    }
}
