//! ACK frames (RFC 9000 §19.3). Their ranges are decoded lazily from the payload.

use core::ops::RangeInclusive;

use super::types;
use crate::wire::{Reader, UnexpectedEnd, WriteError, Writer, varint};

/// Cumulative counts of packets by ECN codepoint (RFC 9000 §19.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnCounts {
    /// Packets with ECT(0).
    pub ect0: u64,
    /// Packets with ECT(1).
    pub ect1: u64,
    /// Packets with CE.
    pub ce: u64,
}

/// An ACK frame whose ranges have been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// The largest packet number acknowledged.
    pub largest: u64,
    /// The delay as encoded in the frame: microseconds shifted right by the sender's
    /// ack_delay_exponent.
    pub delay: u64,
    /// ECN counts, if the sender can read the ECN field.
    pub ecn: Option<EcnCounts>,
    first_range: u64,
    /// Pairs of gap and length, as varints.
    pairs: &'a [u8],
}

impl<'a> Ack<'a> {
    /// Returns the acknowledged ranges: descending, disjoint, and with gaps in between.
    pub const fn ranges(&self) -> AckRanges<'a> {
        AckRanges {
            next: Some((self.largest, self.first_range)),
            pairs: Reader::new(self.pairs),
        }
    }

    /// Decodes the fields after the type, and checks every range.
    pub(super) fn decode(r: &mut Reader<'a>, with_ecn: bool) -> Result<Self, Malformed> {
        let largest = r.get_varint()?;
        let delay = r.get_varint()?;
        let count = r.get_varint()?;
        let first_range = r.get_varint()?;
        let mut smallest = largest
            .checked_sub(first_range)
            // [9000 19.3.1 negative]
            .ok_or(Malformed::BelowZero)?;
        let pairs = r.rest();
        let start = r.position();
        // Each pair takes 2 bytes or more, so the payload bounds the loop regardless of
        // `count`.
        for _ in 0..count {
            let gap = r.get_varint()?;
            let length = r.get_varint()?;
            smallest = below(smallest, gap)
                .and_then(|largest| largest.checked_sub(length))
                .ok_or(Malformed::BelowZero)?;
        }
        let pairs = pairs.get(..r.position() - start).unwrap_or(pairs);
        let ecn = if with_ecn {
            Some(EcnCounts {
                ect0: r.get_varint()?,
                ect1: r.get_varint()?,
                ce: r.get_varint()?,
            })
        } else {
            None
        };
        Ok(Self {
            largest,
            delay,
            ecn,
            first_range,
            pairs,
        })
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) -> Result<(), WriteError> {
        encode(w, self.ranges(), self.delay, self.ecn, usize::MAX).map(|_| ())
    }

    /// Returns the length of the frame in its shortest form.
    pub(super) fn len(&self) -> usize {
        match Plan::new(self.ranges(), self.delay, self.ecn, usize::MAX) {
            Ok(plan) => plan.len,
            Err(_) => 0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    /// It is incomplete.
    End,
    /// A range extends below packet number 0.
    BelowZero,
}

impl From<UnexpectedEnd> for Malformed {
    fn from(_: UnexpectedEnd) -> Self {
        Self::End
    }
}

/// Returns the largest number of the range that follows one ending at `smallest`. A gap of 0
/// means that one packet is missing.
const fn below(smallest: u64, gap: u64) -> Option<u64> {
    match smallest.checked_sub(gap) {
        Some(rest) => rest.checked_sub(2),
        None => None,
    }
}

/// The ranges of an [`Ack`], descending.
#[derive(Clone, Debug)]
pub struct AckRanges<'a> {
    /// Largest number and length − 1 of the next range.
    next: Option<(u64, u64)>,
    pairs: Reader<'a>,
}

impl Iterator for AckRanges<'_> {
    type Item = RangeInclusive<u64>;

    fn next(&mut self) -> Option<RangeInclusive<u64>> {
        let (largest, length) = self.next?;
        // Decoding has checked all ranges; an invalid one would only end the iteration.
        let smallest = largest.checked_sub(length)?;
        self.next = match (self.pairs.get_varint(), self.pairs.get_varint()) {
            (Ok(gap), Ok(length)) => below(smallest, gap).map(|largest| (largest, length)),
            _ => None,
        };
        Some(smallest..=largest)
    }
}

impl core::iter::FusedIterator for AckRanges<'_> {}

/// Writes an ACK frame of at most `limit` bytes that acknowledges the first of `ranges`
/// (descending, disjoint, with gaps in between) and as many of the following ranges as fit.
/// `delay` is already shifted by this side's ack_delay_exponent. Returns the number of ranges
/// written.
///
/// # Errors
/// [`WriteError`], with nothing written, if not even one range fits, or if the ranges are out
/// of order or empty.
pub fn encode(
    w: &mut Writer<'_>,
    ranges: impl Iterator<Item = RangeInclusive<u64>> + Clone,
    delay: u64,
    ecn: Option<EcnCounts>,
    limit: usize,
) -> Result<usize, WriteError> {
    let plan = Plan::new(ranges.clone(), delay, ecn, limit.min(w.remaining()))?;
    w.all_or_nothing(|w| {
        w.put_varint(if ecn.is_some() {
            types::ACK_ECN
        } else {
            types::ACK
        })?;
        let mut smallest = None;
        for range in ranges.take(plan.ranges) {
            let (low, high) = (*range.start(), *range.end());
            match smallest {
                None => {
                    w.put_varint(high)?;
                    w.put_varint(delay)?;
                    w.put_varint(plan.ranges as u64 - 1)?;
                }
                Some(above) => w.put_varint(gap(above, high)?)?,
            }
            w.put_varint(high - low)?;
            smallest = Some(low);
        }
        if let Some(ecn) = ecn {
            w.put_varint(ecn.ect0)?;
            w.put_varint(ecn.ect1)?;
            w.put_varint(ecn.ce)?;
        }
        Ok(plan.ranges)
    })
}

/// Returns the gap field between a range ending at `smallest` and the next one, whose largest
/// number is `largest`.
fn gap(smallest: u64, largest: u64) -> Result<u64, WriteError> {
    smallest
        .checked_sub(largest)
        .and_then(|distance| distance.checked_sub(2))
        .ok_or(WriteError::AckRanges)
}

/// The number of ranges that fit, and the resulting length.
struct Plan {
    ranges: usize,
    len: usize,
}

impl Plan {
    fn new(
        mut ranges: impl Iterator<Item = RangeInclusive<u64>>,
        delay: u64,
        ecn: Option<EcnCounts>,
        limit: usize,
    ) -> Result<Self, WriteError> {
        let first = ranges.next().ok_or(WriteError::AckRanges)?;
        let mut smallest = *first.start();
        let first_range = first
            .end()
            .checked_sub(smallest)
            .ok_or(WriteError::AckRanges)?;
        let tail = ecn.map_or(0, |ecn| {
            varint::len(ecn.ect0) + varint::len(ecn.ect1) + varint::len(ecn.ce)
        });
        // Everything except the range count, whose own length grows with it.
        let mut body =
            1 + varint::len(*first.end()) + varint::len(delay) + varint::len(first_range) + tail;
        let mut count = 1;
        let len = |body: usize, count: usize| body + varint::len(count as u64 - 1);
        if len(body, count) > limit {
            return Err(WriteError::NoRoom);
        }
        for range in ranges {
            let gap = gap(smallest, *range.end())?;
            let length = range
                .end()
                .checked_sub(*range.start())
                .ok_or(WriteError::AckRanges)?;
            let grown = body + varint::len(gap) + varint::len(length);
            if len(grown, count + 1) > limit {
                break;
            }
            smallest = *range.start();
            body = grown;
            count += 1;
        }
        Ok(Self {
            ranges: count,
            len: len(body, count),
        })
    }
}
