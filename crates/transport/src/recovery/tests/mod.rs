//! Loss recovery as a whole: against a naive judge, on simulated paths, and rule by rule.

mod judge;
mod path;
mod rules;

use super::sent::packet;
use super::*;
use crate::{Duration, Instant, wire::SpaceId};

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const fn at(n: u64) -> Instant {
    Instant::from_millis(n)
}
