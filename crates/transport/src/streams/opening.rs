//! Opens streams, both this side's and the peer's, within their limits.

use std::collections::VecDeque;

use super::sent::{ConnectionFrames, room_for};
use super::{
    Dir, Events, LocalStreams, OpenError, PeerLimits, ReceiveWindow, Record, Records, RecvPart,
    RemoteStreams, SendPart, SentFrames, Side, StreamEvent, StreamId, StreamsConfig,
};
use crate::wire::{
    Frame, TransportError, TransportErrorCode as Code, WriteError, Writer,
    frame::{FrameType, MaxStreams, StreamsBlocked},
};

/// Streams of one direction.
#[derive(Debug)]
struct Kind {
    local: LocalStreams,
    remote: RemoteStreams,
    /// Streams that wait until the peer allows them, lowest first.
    held: VecDeque<StreamId>,
    /// Whether the application has accepted all streams so far.
    acceptor_waits: bool,
}

impl Kind {
    fn new(concurrent: u64) -> Self {
        Self {
            local: LocalStreams::default(),
            remote: RemoteStreams::new(concurrent),
            held: VecDeque::new(),
            acceptor_waits: true,
        }
    }
}

/// Which streams are open, of both sides and directions.
///
/// A local stream opens within the limit of the peer, or of an earlier connection; if this one then
/// turns out to allow fewer, the rest is held until MAX_STREAMS allows it. A remote stream opens
/// when its first frame arrives, and with it all lower ones. Each that ends makes room for another.
#[derive(Debug)]
pub(crate) struct Opening {
    side: Side,
    config: StreamsConfig,
    peer: PeerLimits,
    bidi: Kind,
    uni: Kind,
    /// MAX_STREAMS frames that must be sent even if the limit is unchanged.
    due: ConnectionFrames,
}

impl Opening {
    pub(super) fn new(side: Side, config: StreamsConfig) -> Self {
        Self {
            side,
            config,
            peer: PeerLimits::default(),
            bidi: Kind::new(config.max_bidi_streams),
            uni: Kind::new(config.max_uni_streams),
            due: ConnectionFrames::default(),
        }
    }

    const fn kind(&self, dir: Dir) -> &Kind {
        match dir {
            Dir::Bi => &self.bidi,
            Dir::Uni => &self.uni,
        }
    }

    const fn kind_mut(&mut self, dir: Dir) -> &mut Kind {
        match dir {
            Dir::Bi => &mut self.bidi,
            Dir::Uni => &mut self.uni,
        }
    }

    fn is_own(&self, id: StreamId) -> bool {
        id.initiator() == self.side
    }

    pub(super) fn open(&mut self, dir: Dir, records: &mut Records) -> Result<StreamId, OpenError> {
        let index = self.kind_mut(dir).local.open();
        let id = index
            .and_then(|index| StreamId::new(self.side, dir, index))
            .ok_or(OpenError::Limit(dir))?;
        self.insert(id, records);
        Ok(id)
    }

    /// Returns true while the application waits to open a stream, after [`OpenError::Limit`].
    pub(crate) fn is_waited_for(&self) -> bool {
        self.bidi.local.is_blocked() || self.uni.local.is_blocked()
    }

    /// Records that the application no longer waits to open a stream of this kind.
    pub(super) fn give_up(&mut self, dir: Dir) {
        self.kind_mut(dir).local.give_up();
    }

    /// Sets how many streams of this kind the peer may have open at once.
    pub(super) fn set_concurrent(&mut self, dir: Dir, streams: u64) {
        self.kind_mut(dir).remote.set_concurrent(streams);
    }

    /// Returns the next stream that the peer opened.
    pub(super) fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        let kind = self.kind_mut(dir);
        let index = kind.remote.accept();
        kind.acceptor_waits |= index.is_none();
        StreamId::new(self.side.peer(), dir, index?)
    }

    /// Returns the stream of a frame for this side's receiving part, or `None` if it is done
    /// and removed.
    pub(super) fn receiver<'r>(
        &mut self,
        id: StreamId,
        frame: FrameType,
        records: &'r mut Records,
        events: &mut Events,
    ) -> Result<Option<&'r mut Record>, TransportError> {
        // [9000 19.4 send-only]
        if id.dir() == Dir::Uni && self.is_own(id) {
            let reason = "the peer sends on a stream that only we may send on";
            return Err(TransportError::new(Code::STREAM_STATE_ERROR, reason).in_frame(frame));
        }
        self.resolve(id, frame, records, events)
    }

    /// Does the same for this side's sending part.
    pub(super) fn sender<'r>(
        &mut self,
        id: StreamId,
        frame: FrameType,
        records: &'r mut Records,
        events: &mut Events,
    ) -> Result<Option<&'r mut Record>, TransportError> {
        // [9000 19.5 receive-only]
        if id.dir() == Dir::Uni && !self.is_own(id) {
            let reason = "the peer speaks of our sending on a stream that only it may send on";
            return Err(TransportError::new(Code::STREAM_STATE_ERROR, reason).in_frame(frame));
        }
        self.resolve(id, frame, records, events)
    }

    fn resolve<'r>(
        &mut self,
        id: StreamId,
        frame: FrameType,
        records: &'r mut Records,
        events: &mut Events,
    ) -> Result<Option<&'r mut Record>, TransportError> {
        if !records.contains_key(&id) {
            self.on_unknown(id, frame, records, events)?;
        }
        Ok(records.get_mut(&id).map(Box::as_mut))
    }

    /// Handles a frame for a stream without a record: either the stream is done, or the peer
    /// opens it.
    fn on_unknown(
        &mut self,
        id: StreamId,
        frame: FrameType,
        records: &mut Records,
        events: &mut Events,
    ) -> Result<(), TransportError> {
        let dir = id.dir();
        if self.is_own(id) {
            if id.index() < self.kind(dir).local.opened() {
                return Ok(());
            }
            // [9000 19.5 not-created]
            let reason = "a frame for a stream that we have not opened";
            return Err(TransportError::new(Code::STREAM_STATE_ERROR, reason).in_frame(frame));
        }
        let opened = self.kind_mut(dir).remote.on_index(id.index());
        let opened = opened.map_err(|_| {
            let reason = "more streams than we allowed";
            TransportError::new(Code::STREAM_LIMIT_ERROR, reason).in_frame(frame)
        })?;
        // [9000 13.3 outdated-frames]
        if opened.is_empty() {
            return Ok(());
        }
        for index in opened {
            if let Some(id) = StreamId::new(self.side.peer(), dir, index) {
                self.insert(id, records);
            }
        }
        if core::mem::take(&mut self.kind_mut(dir).acceptor_waits) {
            events.push(StreamEvent::Opened(dir));
        }
        Ok(())
    }

    /// Inserts a new stream with the parts that this side has.
    fn insert(&self, id: StreamId, records: &mut Records) {
        let (ours, both) = (self.is_own(id), id.dir() == Dir::Bi);
        let send = (ours || both).then(|| SendPart::new(self.initial_credit(id)));
        let recv = (!ours || both).then(|| {
            let (initial, max) = (self.config.initial_stream_window, self.config.max_window);
            RecvPart::new(ReceiveWindow::new(initial, max))
        });
        records.insert(id, Box::new(Record::new(send, recv)));
    }

    /// Returns how many bytes the peer's transport parameters let this side send on a stream.
    pub(super) fn initial_credit(&self, id: StreamId) -> u64 {
        match (id.dir(), self.is_own(id)) {
            (Dir::Uni, _) => self.peer.max_stream_data_uni,
            (Dir::Bi, true) => self.peer.max_stream_data_bidi_remote,
            (Dir::Bi, false) => self.peer.max_stream_data_bidi_local,
        }
    }

    /// Records that both parts of a stream are done.
    pub(super) fn on_closed(&mut self, id: StreamId) {
        if !self.is_own(id) {
            self.kind_mut(id.dir()).remote.on_closed();
        }
    }

    pub(super) fn set_peer(&mut self, limits: PeerLimits, events: &mut Events) {
        self.peer = limits;
        self.raise(Dir::Bi, limits.max_streams_bidi, events);
        self.raise(Dir::Uni, limits.max_streams_uni, events);
    }

    /// Processes a MAX_STREAMS frame. The streams that waited for it are returned by
    /// [`next_allowed`](Self::next_allowed).
    pub(super) fn raise(&mut self, dir: Dir, max: u64, events: &mut Events) {
        if self.kind_mut(dir).local.raise(max) {
            events.push(StreamEvent::Available(dir));
        }
    }

    pub(super) fn on_peer_blocked(&mut self, dir: Dir, limit: u64) {
        self.kind_mut(dir).remote.on_peer_blocked(limit);
    }

    /// Replaces the limits under which streams were opened by `limits`.
    pub(super) fn start_over(&mut self, limits: PeerLimits, events: &mut Events) {
        self.peer = limits;
        for (dir, max) in [
            (Dir::Bi, limits.max_streams_bidi),
            (Dir::Uni, limits.max_streams_uni),
        ] {
            let kind = self.kind_mut(dir);
            kind.held.clear();
            if kind.local.start_over(max) {
                events.push(StreamEvent::Available(dir));
            }
        }
    }

    /// Returns true if the peer doesn't allow an open stream, which is then queued until it
    /// does. Must be called for lower streams first.
    pub(super) fn holds(&mut self, id: StreamId) -> bool {
        let holds = !self.is_allowed(id);
        if holds {
            self.kind_mut(id.dir()).held.push_back(id);
        }
        holds
    }

    /// Returns the next waiting stream that the peer now allows. Only the first one is
    /// examined, so that frequent limits from the peer stay cheap.
    pub(super) fn next_allowed(&mut self, dir: Dir) -> Option<StreamId> {
        let id = *self.kind(dir).held.front()?;
        self.is_allowed(id).then_some(id)?;
        self.kind_mut(dir).held.pop_front()
    }

    /// Returns true if the peer's limit allows the stream, or if the peer opened it.
    fn is_allowed(&self, id: StreamId) -> bool {
        !self.is_own(id) || id.index() < self.kind(id.dir()).local.max()
    }

    /// Returns true if a MAX_STREAMS or STREAMS_BLOCKED frame is due.
    pub(super) fn has_frame(&self) -> bool {
        let due = |kind: &Kind| kind.remote.update_due() || kind.local.block_due();
        !self.due.is_empty() || due(&self.bidi) || due(&self.uni)
    }

    /// Writes the frames that are due and fit.
    pub(super) fn write(
        &mut self,
        w: &mut Writer<'_>,
        sent: &mut SentFrames,
    ) -> Result<(), WriteError> {
        for (dir, kind) in [(Dir::Bi, &mut self.bidi), (Dir::Uni, &mut self.uni)] {
            let (max_streams, streams_blocked) = ConnectionFrames::of_streams(dir);
            if self.due.contains(max_streams) || kind.remote.update_due() {
                room_for(w, 9)?;
                let max = kind.remote.announce();
                Frame::MaxStreams(MaxStreams { dir, max }).encode(w)?;
                self.due.remove(max_streams);
                sent.insert(max_streams);
            }
            if kind.local.block_due() {
                room_for(w, 9)?;
                let limit = kind.local.announce_blocked();
                Frame::StreamsBlocked(StreamsBlocked { dir, limit }).encode(w)?;
                sent.insert(streams_blocked);
            }
        }
        Ok(())
    }

    pub(super) fn on_lost(&mut self, lost: ConnectionFrames) {
        for dir in [Dir::Bi, Dir::Uni] {
            let (max_streams, streams_blocked) = ConnectionFrames::of_streams(dir);
            if lost.contains(max_streams) {
                self.due.insert(max_streams);
            }
            if lost.contains(streams_blocked) {
                self.kind_mut(dir).local.on_blocked_lost();
            }
        }
    }
}

#[cfg(test)]
#[path = "opening_tests.rs"]
mod tests;
