//! FEEDBACK frames: the cumulative counters of a signal, on their way back to the sender.
//!
//! ```text
//! FEEDBACK Frame {
//!   Type (i) = 0x666564,
//!   Kind (i),            signal, as in the explicit_feedback transport parameter
//!   Epoch (i),           path epoch: number of the first packet counted
//!   Time (i) < 2^30,     the sender's clock in microseconds, modulo 2^30
//!   Count (i) <= 20,
//!   Counter (i) ...,     Count times; meaning is the signal's
//! }
//! ```
//!
//! Not ack-eliciting, never retransmitted, ordered by the number of the packet that carries it.

use super::types;
use crate::signal::{Counters, MAX_COUNTERS};
use crate::wire::{Reader, UnexpectedEnd, WriteError, Writer, varint};

/// A FEEDBACK frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feedback<'a> {
    /// The signal's number.
    pub kind: u8,
    /// The path epoch to which the counters belong, identified by the number of the first
    /// packet counted in it.
    pub epoch: u64,
    /// The peer's clock when it wrote the frame, in microseconds modulo 2^30. By subtracting
    /// the ACK delay of the ACK frame in the same packet, you obtain the arrival time of the
    /// largest acknowledged packet.
    pub time: u32,
    /// At most [`MAX_COUNTERS`] counters as varints.
    counters: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    /// It is incomplete.
    End,
    /// Its kind is above 255, so no transport parameter can have offered it.
    Kind,
    /// Its time is 2^30 or more.
    Time,
    /// It has more counters than a signal may have.
    Count,
}

/// Modulus of times, in microseconds: about 18 minutes, and at most four bytes.
pub const TIME_MODULUS: u32 = 1 << 30;

impl From<UnexpectedEnd> for Malformed {
    fn from(_: UnexpectedEnd) -> Self {
        Self::End
    }
}

impl<'a> Feedback<'a> {
    /// Returns the counters, in order.
    pub fn counters(&self) -> Counters {
        let mut r = Reader::new(self.counters);
        let mut counters = Counters::new();
        while let Ok(value) = r.get_varint() {
            counters.push(value);
        }
        counters
    }

    pub(super) fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let kind = u8::try_from(r.get_varint()?).map_err(|_| Malformed::Kind)?;
        let epoch = r.get_varint()?;
        let time = u32::try_from(r.get_varint()?)
            .ok()
            .filter(|&time| time < TIME_MODULUS)
            .ok_or(Malformed::Time)?;
        let count = r.get_varint()?;
        if count > MAX_COUNTERS as u64 {
            return Err(Malformed::Count);
        }
        let counters = r.rest();
        let start = r.position();
        for _ in 0..count {
            r.get_varint()?;
        }
        let counters = counters.get(..r.position() - start).unwrap_or(counters);
        Ok(Self {
            kind,
            epoch,
            time,
            counters,
        })
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) -> Result<(), WriteError> {
        encode(w, self.kind, self.epoch, self.time, &self.counters())
    }

    /// Returns the length of the frame in its shortest form.
    pub(super) fn len(&self) -> usize {
        len(self.kind, self.epoch, self.time, &self.counters())
    }
}

/// Returns the length of a FEEDBACK frame.
pub fn len(kind: u8, epoch: u64, time: u32, counters: &Counters) -> usize {
    let values = counters.as_slice();
    varint::len(types::FEEDBACK)
        + varint::len(u64::from(kind))
        + varint::len(epoch)
        + varint::len(u64::from(time))
        + varint::len(values.len() as u64)
        + values
            .iter()
            .map(|&value| varint::len(value))
            .sum::<usize>()
}

/// Writes a FEEDBACK frame.
///
/// # Errors
/// [`WriteError`], with nothing written.
pub fn encode(
    w: &mut Writer<'_>,
    kind: u8,
    epoch: u64,
    time: u32,
    counters: &Counters,
) -> Result<(), WriteError> {
    w.all_or_nothing(|w| {
        w.put_varint(types::FEEDBACK)?;
        w.put_varint(u64::from(kind))?;
        w.put_varint(epoch)?;
        w.put_varint(u64::from(time))?;
        w.put_varint(counters.as_slice().len() as u64)?;
        counters
            .as_slice()
            .iter()
            .try_for_each(|&value| w.put_varint(value))
    })
}
