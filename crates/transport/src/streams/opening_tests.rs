use super::*;
use crate::streams::id;
use crate::wire::Frames;
use crate::wire::frame::types::STREAM;

const LIMITS: PeerLimits = PeerLimits {
    max_data: 0,
    max_stream_data_bidi_local: 1,
    max_stream_data_bidi_remote: 2,
    max_stream_data_uni: 3,
    max_streams_bidi: 2,
    max_streams_uni: 1,
    active_connection_ids: 2,
    max_datagram_frame_size: 0,
};

/// A client with its peer's limits, which allows the peer 4 streams of each kind.
struct Client {
    opening: Opening,
    records: Records,
    events: Events,
}

impl Client {
    fn new() -> Self {
        let config = StreamsConfig {
            max_bidi_streams: 4,
            max_uni_streams: 4,
            ..StreamsConfig::default()
        };
        let mut client = Self {
            opening: Opening::new(Side::Client, config),
            records: Records::default(),
            events: Events::default(),
        };
        client.opening.set_peer(LIMITS, &mut client.events);
        client
    }

    fn open(&mut self, dir: Dir) -> Option<StreamId> {
        self.opening.open(dir, &mut self.records).ok()
    }

    /// Receives a frame for the receiving part of a stream.
    fn receives(&mut self, n: u64) -> Result<bool, Code> {
        let (records, events) = (&mut self.records, &mut self.events);
        let found = self.opening.receiver(id(n), STREAM, records, events);
        found.map(|record| record.is_some()).map_err(|e| e.code)
    }

    /// The same for the sending part.
    fn sends(&mut self, n: u64) -> Result<bool, Code> {
        let (records, events) = (&mut self.records, &mut self.events);
        let found = self.opening.sender(id(n), STREAM, records, events);
        found.map(|record| record.is_some()).map_err(|e| e.code)
    }

    fn events(&mut self) -> Vec<StreamEvent> {
        core::iter::from_fn(|| self.events.pop()).collect()
    }

    /// Returns the frames due that fit into `room` bytes, and their record.
    fn write(&mut self, room: usize) -> (Vec<Frame<'static>>, SentFrames) {
        let mut buffer = [0; 100];
        let mut w = Writer::new(&mut buffer[..room]);
        let mut sent = SentFrames::default();
        let fits = self.opening.write(&mut w, &mut sent).is_ok();
        assert_eq!(fits, !self.opening.has_frame());
        let frames = Frames::new(w.written()).map(|frame| match frame.unwrap() {
            Frame::MaxStreams(frame) => Frame::MaxStreams(frame),
            Frame::StreamsBlocked(frame) => Frame::StreamsBlocked(frame),
            other => panic!("{other:?}"),
        });
        (frames.collect(), sent)
    }
}

#[test]
fn each_stream_begins_with_the_credit_of_its_kind() {
    let mut client = Client::new();
    assert_eq!(client.open(Dir::Bi), Some(id(0)));
    assert_eq!(client.open(Dir::Uni), Some(id(2)));
    assert_eq!(client.receives(1), Ok(true));
    assert_eq!(client.receives(3), Ok(true));
    let parts = |n| {
        let record = &client.records[&id(n)];
        let allowed = record.send.as_ref().map(SendPart::allowed);
        (allowed, record.recv.is_some())
    };
    assert_eq!([parts(0), parts(1)], [(Some(2), true), (Some(1), true)]);
    assert_eq!([parts(2), parts(3)], [(Some(3), false), (None, true)]);
}

#[test]
fn frames_find_streams_that_are_open_and_no_others() {
    // [9000 19.4 send-only] [9000 19.5 receive-only] [9000 19.5 not-created]
    let mut client = Client::new();
    client.open(Dir::Bi).unwrap();
    client.open(Dir::Uni).unwrap();
    assert_eq!((client.receives(0), client.sends(0)), (Ok(true), Ok(true)));
    assert_eq!(client.receives(2), Err(Code::STREAM_STATE_ERROR));
    assert_eq!(client.sends(2), Ok(true));
    assert_eq!(client.receives(3), Ok(true));
    assert_eq!(client.sends(3), Err(Code::STREAM_STATE_ERROR));
    assert_eq!(client.receives(4), Err(Code::STREAM_STATE_ERROR));
    assert_eq!(client.sends(6), Err(Code::STREAM_STATE_ERROR));
    assert_eq!(client.sends(4 * 4 + 1), Err(Code::STREAM_LIMIT_ERROR));
    // Streams that are forgotten aren't opened again.
    client.records.clear();
    assert_eq!(client.receives(0), Ok(false));
    assert_eq!(client.receives(3), Ok(false));
    assert!(client.records.is_empty());
}

#[test]
fn the_application_hears_once_of_streams_until_it_has_accepted_all() {
    let mut client = Client::new();
    assert_eq!(client.receives(5), Ok(true));
    assert_eq!(client.receives(9), Ok(true));
    assert_eq!(client.events(), [StreamEvent::Opened(Dir::Bi)]);
    let accepted = core::iter::from_fn(|| client.opening.accept(Dir::Bi));
    assert_eq!(accepted.collect::<Vec<_>>(), [1, 5, 9].map(id));
    assert_eq!(client.receives(13), Ok(true));
    assert_eq!(client.events(), [StreamEvent::Opened(Dir::Bi)]);
}

#[test]
fn streams_beyond_lower_limits_wait_lowest_first() {
    let mut client = Client::new();
    let opened = [(); 2].map(|()| client.open(Dir::Bi).unwrap());
    let mut lower = LIMITS;
    lower.max_streams_bidi = 0;
    client.opening.start_over(lower, &mut client.events);
    assert_eq!(opened.map(|id| client.opening.holds(id)), [true; 2]);
    assert!(!client.opening.holds(id(1)), "it is the peer's");
    for (max, next) in [
        (0, None),
        (1, Some(id(0))),
        (1, None),
        (2, Some(id(4))),
        (3, None),
    ] {
        client.opening.raise(Dir::Bi, max, &mut client.events);
        assert_eq!(client.opening.next_allowed(Dir::Bi), next, "{max}");
    }
}

#[test]
fn limits_are_announced_asked_for_and_repeated_when_lost() {
    let mut client = Client::new();
    assert_eq!(client.receives(1), Ok(true));
    client.opening.on_closed(id(1));
    client.opening.on_closed(id(0));
    client.open(Dir::Uni).unwrap();
    assert_eq!(client.open(Dir::Uni), None);
    assert!(client.opening.is_waited_for());
    // A value that is announced must be sent.
    assert_eq!(client.write(8).0, []);
    let [bi, uni] = [Dir::Bi, Dir::Uni];
    let both = [
        Frame::MaxStreams(MaxStreams { dir: bi, max: 5 }),
        Frame::StreamsBlocked(StreamsBlocked { dir: uni, limit: 1 }),
    ];
    // The second doesn't fit behind the first, which isn't repeated because of that.
    let (frames, first) = client.write(10);
    assert_eq!(frames, both[..1]);
    let (frames, second) = client.write(100);
    assert_eq!(frames, both[1..]);
    for lost in [first, second] {
        client.opening.on_lost(lost.connection());
    }
    assert_eq!(client.write(100).0, both);
    client.opening.give_up(Dir::Uni);
    assert!(!client.opening.is_waited_for());
    client.opening.raise(Dir::Uni, 2, &mut client.events);
    assert_eq!(client.events(), [StreamEvent::Opened(Dir::Bi)]);
}
