use super::*;

fn id() -> StreamId {
    StreamId::from_u64(2).unwrap()
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(1000 + millis)
}

/// A single stream that receives.
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

    /// Bytes arrive.
    fn arrives(&mut self, now: Instant, offset: u64, len: usize) {
        let data = vec![5; len];
        let frame = Stream {
            id: id(),
            offset,
            fin: false,
            data: &data,
        };
        let (record, events) = (&mut self.record, &mut self.events);
        let taken = self.receiving.on_data(now, record, &frame, events);
        taken.unwrap();
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
        receiver.arrives(at(0), offset, 1);
        assert_eq!(receiver.events.pop(), event);
    }
    assert_eq!(receiver.read(), Ok(Some(2)));
    assert_eq!(receiver.read(), Err(ReadError::Blocked));
    receiver.arrives(at(0), 3, 1);
    assert_eq!(receiver.events.pop(), None, "it lies beyond a gap");
    receiver.arrives(at(0), 2, 1);
    assert_eq!(receiver.events.pop(), Some(readable));
}

#[test]
fn what_was_read_gives_credit_which_is_announced_again_when_lost() {
    let mut receiver = Receiver::new();
    receiver.arrives(at(0), 0, 50_000);
    assert!(!receiver.receiving.has_frame());
    assert!(!receiver.record.due.max_data);
    assert_eq!(receiver.read(), Ok(Some(50_000)));
    assert!(receiver.record.due.max_data && receiver.receiving.has_frame());
    assert!(receiver.max_data(8).is_none(), "no room");
    let lost = receiver.max_data(9).unwrap();
    receiver.receiving.on_lost(ConnectionFrames::DATA_BLOCKED);
    assert!(receiver.max_data(9).is_none());
    receiver.receiving.on_lost(lost.connection());
    assert_eq!(receiver.max_data(9), Some(lost));
    // A peer that waits for credit gets even a little.
    receiver.arrives(at(0), 50_000, 1);
    assert!(receiver.read().is_ok());
    let promised = receiver.receiving.window.promised();
    receiver.receiving.on_data_blocked(promised - 1);
    assert!(!receiver.receiving.has_frame());
    receiver.receiving.on_data_blocked(promised);
    assert!(receiver.max_data(9).is_some());
}

/// An unread stream leaves an eighth of the connection's window to others.
#[test]
fn a_streams_window_is_less_than_the_connections() {
    let mut receiver = Receiver::new();
    receiver.receiving.share(Arc::new(ReceiveMemory::new(0)));
    for round in 0..100 {
        receiver.arrives(at(round), round * 1000, 1000);
        receiver.read().unwrap();
        let recv = receiver.record.recv.as_mut().unwrap();
        recv.window_mut().announce(at(round), None);
        receiver.max_data(9);
    }
    let all = receiver.receiving.window.allowed();
    let recv = receiver.record.recv.as_mut().unwrap();
    let one = recv.window_mut().outstanding();
    assert!(one <= all / 8 * 7 && one > all / 2, "{one} of {all}");
}

#[test]
fn a_part_that_is_done_gives_its_memory_back() {
    let mut receiver = Receiver::new();
    let memory = Arc::new(ReceiveMemory::new(1 << 20));
    receiver.receiving.share(Arc::clone(&memory));
    receiver.arrives(at(0), 0, 5000);
    assert!(memory.held() >= 5000);
    receiver.receiving.forget_if_done(&mut receiver.record);
    assert!(receiver.record.recv.is_some());
    receiver.receiving.on_other_memory(0, 100);
    receiver.receiving.stop(&mut receiver.record, 7).unwrap();
    assert_eq!((receiver.record.due.stop, memory.held()), (true, 100));
    let reset = |final_size| ResetStream {
        id: id(),
        error_code: 1,
        final_size,
    };
    let (record, events) = (&mut receiver.record, &mut receiver.events);
    let receiving = &mut receiver.receiving;
    let smaller = receiving.on_reset(at(0), record, &reset(4000), events);
    assert_eq!(smaller.map_err(|e| e.code), Err(Code::FINAL_SIZE_ERROR));
    let whole = receiving.on_reset(at(0), record, &reset(5000), events);
    whole.unwrap();
    receiver.receiving.forget_if_done(record);
    assert!(receiver.record.recv.is_none());
    assert_eq!(receiver.read(), Err(ReadError::Closed));
}
