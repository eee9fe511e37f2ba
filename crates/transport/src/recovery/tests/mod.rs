//! Loss recovery: a single space, the whole against a naive reference, on simulated paths, and
//! rule by rule.

mod detector;
mod judge;
mod path;
mod questions;
mod rules;
mod sender;
mod timers;

use std::collections::BTreeSet;

use super::sent::packet;
use super::*;
use crate::{Duration, Instant, wire::SpaceId};

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const fn at(n: u64) -> Instant {
    Instant::from_millis(n)
}

/// Neither in flight nor ack-eliciting, like a pure ACK.
fn bare(now: u64) -> SentPacket<()> {
    let mut bare = packet(at(now), 40, ());
    (bare.ack_eliciting, bare.in_flight) = (false, false);
    bare
}

/// Returns runs of consecutive numbers, largest first.
fn ranges(numbers: &BTreeSet<u64>) -> Vec<core::ops::RangeInclusive<u64>> {
    let mut received = crate::ack::ReceivedRanges::new(usize::MAX);
    for &n in numbers {
        received.insert(n);
    }
    received.descending().collect()
}
