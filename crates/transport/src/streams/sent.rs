//! The stream frames of one packet, and runs of acknowledged data from several packets.

use core::ops::Range;

use super::{Dir, StreamId};
use crate::wire::{WriteError, Writer};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// STREAM: `len` bytes from `offset`, with the end of the stream if `fin`; retransmitted if
    /// `again`.
    Data {
        id: StreamId,
        offset: u64,
        len: u32,
        fin: bool,
        again: bool,
    },
    /// RESET_STREAM.
    Reset(StreamId),
    /// STOP_SENDING.
    Stop(StreamId),
    /// MAX_STREAM_DATA.
    MaxStreamData(StreamId),
    /// STREAM_DATA_BLOCKED.
    StreamDataBlocked(StreamId),
}

/// A set of frames that concern the connection as a whole, of which each occurs at most once
/// per packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConnectionFrames(u8);

impl ConnectionFrames {
    pub(crate) const MAX_DATA: Self = Self(1);
    pub(crate) const DATA_BLOCKED: Self = Self(1 << 1);

    /// Returns MAX_STREAMS and STREAMS_BLOCKED of a direction.
    pub(crate) const fn of_streams(dir: Dir) -> (Self, Self) {
        match dir {
            Dir::Bi => (Self(1 << 2), Self(1 << 3)),
            Dir::Uni => (Self(1 << 4), Self(1 << 5)),
        }
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(crate) fn remove(&mut self, other: Self) {
        self.0 &= !other.0;
    }
}

/// The frames that [`Streams::write_frames`](super::Streams::write_frames) wrote into one
/// packet. The caller keeps them, and passes them back when the packet is acknowledged or lost.
///
/// A packet with one STREAM frame, possibly with frames of the connection as a whole (such as
/// MAX_DATA), needs no allocation; further frames require one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "without it the frames in the packet can be neither acknowledged nor sent again"]
pub struct SentFrames {
    first: Option<Sent>,
    connection: ConnectionFrames,
    #[allow(
        clippy::box_collection,
        reason = "one record per packet in flight: the rare case may cost an indirection, not 16 \
            bytes each"
    )]
    more: Option<Box<Vec<Sent>>>,
}

impl SentFrames {
    /// Returns true if nothing was written into the packet.
    pub fn is_empty(&self) -> bool {
        self.first.is_none() && self.connection.is_empty()
    }

    pub(crate) fn push(&mut self, frame: Sent) {
        if self.first.is_none() {
            self.first = Some(frame);
        } else {
            self.more.get_or_insert_default().push(frame);
        }
    }

    pub(crate) fn insert(&mut self, frames: ConnectionFrames) {
        self.connection.insert(frames);
    }

    pub(crate) fn connection(&self) -> ConnectionFrames {
        self.connection
    }

    /// Returns true if the packet contains the byte of a stream at `offset`.
    pub(super) fn has_data(&self, stream: StreamId, offset: u64) -> bool {
        self.iter().any(|frame| match frame {
            Sent::Data {
                id,
                offset: first,
                len,
                ..
            } => id == stream && (first..first.saturating_add(len.into())).contains(&offset),
            _ => false,
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Sent> + '_ {
        self.first
            .iter()
            .chain(self.more.iter().flat_map(|more| more.iter()))
            .copied()
    }
}

/// Adjacent acknowledged data of one stream: see
/// [`Streams::gather_acked`](super::Streams::gather_acked).
#[derive(Debug, Default)]
#[must_use = "what is in it has to be settled"]
pub struct AckedRun(Option<(StreamId, Range<u64>, bool)>);

impl AckedRun {
    /// Adds data directly before or after the present range. Returns false if it isn't
    /// adjacent.
    pub(super) fn extend(&mut self, id: StreamId, range: &Range<u64>, fin: bool) -> bool {
        match &mut self.0 {
            Some((stream, held, last)) if *stream == id => {
                // An ACK is processed from its largest packet downwards.
                if range.end == held.start {
                    held.start = range.start;
                } else if range.start == held.end {
                    held.end = range.end;
                } else {
                    return false;
                }
                *last |= fin;
                true
            }
            _ => false,
        }
    }

    /// Replaces the contents by data of a stream.
    pub(super) fn begin(&mut self, id: StreamId, range: Range<u64>, fin: bool) {
        self.0 = Some((id, range, fin));
    }

    pub(super) fn take(&mut self) -> Option<(StreamId, Range<u64>, bool)> {
        self.0.take()
    }
}

/// Checks for room before a value is announced, because it must then be sent.
pub(super) fn room_for(w: &Writer<'_>, bytes: usize) -> Result<(), WriteError> {
    if w.remaining() < bytes {
        return Err(WriteError::NoRoom);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_small_and_keeps_order() {
        assert!(size_of::<SentFrames>() <= 40, "{}", size_of::<SentFrames>());
        let mut frames = SentFrames::default();
        assert!(frames.is_empty());
        let all = [0, 1, 2, 3, 4].map(|i| Sent::Stop(StreamId::from_u64(i).unwrap()));
        for frame in &all {
            frames.push(*frame);
        }
        assert_eq!(frames.iter().collect::<Vec<_>>(), all);
        assert!(!frames.is_empty());
    }

    #[test]
    fn connection_frames_are_a_set() {
        let mut frames = SentFrames::default();
        let (max_bidi, _) = ConnectionFrames::of_streams(Dir::Bi);
        let (max_uni, blocked_uni) = ConnectionFrames::of_streams(Dir::Uni);
        frames.insert(max_uni);
        assert!(!frames.is_empty());
        assert!(frames.connection().contains(max_uni));
        assert!(!frames.connection().contains(max_bidi));
        assert!(!frames.connection().contains(blocked_uni));
    }

    #[test]
    fn a_run_holds_adjacent_data_of_one_stream() {
        let [a, b] = [0, 4].map(|n| StreamId::from_u64(n).unwrap());
        let mut run = AckedRun::default();
        assert!(!run.extend(a, &(0..10), false), "there is nothing yet");
        run.begin(a, 20..30, true);
        assert!(run.extend(a, &(10..20), false) && run.extend(a, &(30..31), false));
        assert!(!run.extend(b, &(0..10), false) && !run.extend(a, &(0..9), false));
        assert_eq!(run.take(), Some((a, 10..31, true)));
        assert_eq!(run.take(), None);
    }
}
