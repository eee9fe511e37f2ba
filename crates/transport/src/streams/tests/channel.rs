//! Two [`Streams`] connected by packets that a test can deliver, lose, duplicate or delay.

use super::*;

/// Bytes of frames per packet.
pub(super) const PACKET: usize = 1200;

/// A packet in flight, with the sender's record.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) payload: Vec<u8>,
    pub(super) sent: SentFrames,
}

/// The transport parameters that correspond to `config`.
pub(super) fn limits(config: &StreamsConfig) -> PeerLimits {
    PeerLimits {
        max_data: config.initial_connection_window,
        max_stream_data_bidi_local: config.initial_stream_window,
        max_stream_data_bidi_remote: config.initial_stream_window,
        max_stream_data_uni: config.initial_stream_window,
        max_streams_bidi: config.max_bidi_streams,
        max_streams_uni: config.max_uni_streams,
        ..PeerLimits::default()
    }
}

/// A client and a server that have exchanged their limits.
pub(super) fn pair(config: StreamsConfig) -> (Streams, Streams) {
    let mut ends = [Side::Client, Side::Server].map(|side| Streams::new(side, config));
    for end in &mut ends {
        end.set_peer_limits(limits(&config));
        end.on_rtt(Duration::from_millis(10));
    }
    let [client, server] = ends;
    (client, server)
}

/// The same with a change of the default configuration.
pub(super) fn pair_with(change: impl FnOnce(&mut StreamsConfig)) -> (Streams, Streams) {
    let mut config = StreamsConfig::default();
    change(&mut config);
    pair(config)
}

/// The next packet, if there is anything to send.
pub(super) fn packet(from: &mut Streams, now: Instant) -> Option<Packet> {
    if !from.wants_to_send() {
        return None;
    }
    let mut buffer = [0; PACKET];
    let mut w = Writer::new(&mut buffer);
    let sent = from.write_frames(now, &mut w);
    assert_eq!(w.position() == 0, sent.is_empty());
    assert!(!sent.is_empty(), "wants to send but does not");
    let payload = w.written().to_vec();
    Some(Packet { payload, sent })
}

/// Delivers all frames of a packet.
pub(super) fn deliver(to: &mut Streams, at: Instant, payload: &[u8]) -> Result<(), TransportError> {
    for frame in Frames::new(payload) {
        on_frame(to, at, &frame.unwrap())?;
    }
    Ok(())
}

/// Returns the streams and lengths of a packet's STREAM frames.
pub(super) fn stream_frames(payload: &[u8]) -> Vec<(StreamId, usize)> {
    let frames = Frames::new(payload).map(Result::unwrap);
    let data = frames.filter_map(|frame| match frame {
        Frame::Stream(frame) => Some((frame.id, frame.data.len())),
        _ => None,
    });
    data.collect()
}

/// Delivers one frame.
pub(super) fn on_frame(
    to: &mut Streams,
    now: Instant,
    frame: &Frame<'_>,
) -> Result<(), TransportError> {
    match frame {
        Frame::Stream(f) => to.on_stream(now, f).map(|_| ()),
        other => to.on_frame(now, other),
    }
}

/// The peer allows `max` bytes on a stream.
pub(super) fn raise(of: &mut Streams, id: StreamId, max: u64) {
    let frame = Frame::MaxStreamData(MaxStreamData { id, max });
    on_frame(of, Instant::ZERO, &frame).unwrap();
}

/// The peer allows `max` streams of a kind.
pub(super) fn allow(of: &mut Streams, dir: Dir, max: u64) {
    let frame = Frame::MaxStreams(MaxStreams { dir, max });
    on_frame(of, Instant::ZERO, &frame).unwrap();
}

/// A packet was acknowledged by itself.
pub(super) fn acked(of: &mut Streams, sent: &SentFrames) {
    let mut run = AckedRun::default();
    of.gather_acked(sent, &mut run);
    of.settle_acked(&mut run);
}

/// Memory held by received data, bytes.
pub(super) fn memory(of: &Streams) -> usize {
    let parts = of.records.values().filter_map(|r| r.recv.as_ref());
    parts.map(|part| part.kept().memory).sum()
}

/// Carries packets both ways without loss until neither end has anything to send.
pub(super) fn settle(a: &mut Streams, b: &mut Streams, now: Instant) {
    while carry(a, b, now) | carry(b, a, now) {}
}

/// Carries all packets of one end to the other. True if there were any.
pub(super) fn carry(from: &mut Streams, to: &mut Streams, now: Instant) -> bool {
    let mut any = false;
    while let Some(packet) = packet(from, now) {
        any = true;
        deliver(to, now, &packet.payload).unwrap();
        acked(from, &packet.sent);
    }
    any
}

/// All events pending.
pub(super) fn events(of: &mut Streams) -> Vec<StreamEvent> {
    std::iter::from_fn(|| of.poll_event()).collect()
}
