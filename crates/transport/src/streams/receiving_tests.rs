use super::*;

fn id() -> StreamId {
    StreamId::from_u64(2).unwrap()
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(1000 + millis)
}

/// One stream that is received on.
struct Receiver {
    receiving: Receiving,
    record: Record,
    events: Events,
}

impl Receiver {
    fn new() -> Self {
        let config = StreamsConfig {
            initial_connection_window: 100_000,
            ..StreamsConfig::default()
        };
        let window = ReceiveWindow::new(100_000, 100_000);
        Self {
            receiving: Receiving::new(&config),
            record: Record::new(None, Some(RecvPart::new(window))),
            events: Events::default(),
        }
    }

    /// Connections share no memory: each has only its own least part.
    fn without_memory() -> Self {
        let mut receiver = Self::new();
        receiver.receiving.share(Arc::new(ReceiveMemory::new(0)));
        receiver
    }

    /// Bytes arrive; false if they are refused.
    fn arrives(&mut self, now: Instant, offset: u64, len: usize) -> bool {
        let data = vec![5; len];
        let frame = Stream {
            id: id(),
            offset,
            fin: false,
            data: &data,
        };
        if self.receiving.refuses(now, &self.record, &frame, None) {
            return false;
        }
        let result = self
            .receiving
            .on_data(now, &mut self.record, &frame, &mut self.events);
        result.map(|()| true).unwrap()
    }

    fn read(&mut self) -> Result<Option<usize>, ReadError> {
        self.receiving.read(&mut self.record, |recv, window| {
            recv.read(&mut [0; 50_000], window)
        })
    }

    fn max_data(&mut self, room: usize) -> Option<SentFrames> {
        let mut buffer = [0; 9];
        let mut w = Writer::new(&mut buffer[..room]);
        let mut sent = SentFrames::default();
        let fits = self.receiving.write(at(0), &mut w, &mut sent).is_ok();
        assert_eq!(fits, !self.receiving.has_frame());
        (!sent.is_empty()).then_some(sent)
    }
}

#[test]
fn an_event_comes_with_the_first_data_and_after_a_read_that_found_none() {
    let mut receiver = Receiver::new();
    let readable = StreamEvent::Readable(id());
    for (offset, event) in [(0, Some(readable)), (1, None)] {
        assert!(receiver.arrives(at(0), offset, 1));
        assert_eq!(receiver.events.pop(), event);
    }
    assert_eq!(
        (receiver.read(), receiver.read()),
        (Ok(Some(2)), Err(ReadError::Blocked))
    );
    assert!(receiver.arrives(at(0), 3, 1));
    assert_eq!(receiver.events.pop(), None, "it lies beyond a gap");
    assert!(receiver.arrives(at(0), 2, 1));
    assert_eq!(receiver.events.pop(), Some(readable));
}

#[test]
fn what_was_read_gives_credit_which_is_announced_again_when_lost() {
    let mut receiver = Receiver::new();
    assert!(receiver.arrives(at(0), 0, 50_000) && !receiver.receiving.has_frame());
    assert!(!receiver.record.due.max_data);
    assert_eq!(receiver.read(), Ok(Some(50_000)));
    assert!(receiver.record.due.max_data && receiver.receiving.has_frame());
    assert!(receiver.max_data(8).is_none(), "no room");
    let lost = receiver.max_data(9).unwrap();
    receiver.receiving.on_lost(ConnectionFrames::DATA_BLOCKED);
    assert!(receiver.max_data(9).is_none());
    receiver.receiving.on_lost(lost.connection());
    assert_eq!(receiver.max_data(9), Some(lost));
    // A little credit goes to a peer that waits for it.
    assert!(receiver.arrives(at(0), 50_000, 1) && receiver.read().is_ok());
    let promised = receiver.receiving.window.promised();
    receiver.receiving.on_data_blocked(promised - 1);
    assert!(!receiver.receiving.has_frame());
    receiver.receiving.on_data_blocked(promised);
    assert!(receiver.max_data(9).is_some());
}

#[test]
fn without_memory_a_gap_is_closed_and_nothing_beyond_is_taken() {
    let mut receiver = Receiver::without_memory();
    let mut end = 1000;
    while receiver.arrives(at(0), end, 1000) {
        end += 1000;
    }
    assert!(receiver.receiving.holds_all_it_may() && end < 40_000);
    assert!(
        !receiver.receiving.wants_preparation(),
        "the application does not wait"
    );
    assert_eq!(receiver.read(), Err(ReadError::Blocked));
    assert!(receiver.receiving.wants_preparation());
    assert!(receiver.receiving.prepare(at(0)) && !receiver.receiving.prepare(at(0)));
    assert!(receiver.arrives(at(1), 0, 1000));
    assert_eq!(receiver.read(), Ok(Some(end as usize)));
    assert!(receiver.arrives(at(1), end + 1000, 1000));
    assert!(!receiver.receiving.holds_all_it_may());
}

/// What the application accepts next has a place that other streams leave.
#[test]
fn the_next_streams_have_a_place_when_others_have_none() {
    let mut receiver = Receiver::without_memory();
    while receiver.arrives(at(0), receiver.receiving.readable, 1000) {}
    let mut other = Record::new(None, Some(RecvPart::new(ReceiveWindow::new(9, 9))));
    let frame = Stream {
        id: id(),
        offset: 0,
        fin: false,
        data: b"x",
    };
    let mut refuses = |ahead| receiver.receiving.refuses(at(0), &other, &frame, ahead);
    assert_eq!(
        [None, Some(1000), Some(0)].map(&mut refuses),
        [true, true, false]
    );
    other.read_blocked = true;
    assert!(
        !receiver.receiving.refuses(at(0), &other, &frame, None),
        "its reader waits"
    );
}

#[test]
fn a_part_that_is_done_gives_its_memory_back() {
    let mut receiver = Receiver::new();
    let memory = Arc::new(ReceiveMemory::new(1 << 20));
    receiver.receiving.share(Arc::clone(&memory));
    assert!(receiver.arrives(at(0), 0, 5000) && memory.held() >= 5000);
    receiver.receiving.forget_if_done(&mut receiver.record);
    assert!(receiver.record.recv.is_some());
    receiver.receiving.on_other_memory(0, 100);
    receiver.receiving.stop(&mut receiver.record, 7).unwrap();
    assert_eq!((receiver.record.due.stop, memory.held()), (true, 100));
    let reset = ResetStream {
        id: id(),
        error_code: 1,
        final_size: 4000,
    };
    let (record, events) = (&mut receiver.record, &mut receiver.events);
    let smaller = receiver.receiving.on_reset(at(0), record, &reset, events);
    assert_eq!(smaller.map_err(|e| e.code), Err(Code::FINAL_SIZE_ERROR));
    let reset = ResetStream {
        final_size: 5000,
        ..reset
    };
    receiver
        .receiving
        .on_reset(at(0), record, &reset, events)
        .unwrap();
    receiver.receiving.forget_if_done(record);
    assert!(receiver.record.recv.is_none());
    assert_eq!(receiver.read(), Err(ReadError::Closed));
}
