//! Loss recovery: a single space, the whole against a naive reference, on simulated paths, and
//! rule by rule.

mod detector;
mod judge;
mod path;
mod questions;
mod rules;
mod sender;
mod timers;

use super::sent::packet;
use super::*;
use crate::{Duration, Instant, wire::SpaceId};

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const fn at(n: u64) -> Instant {
    Instant::from_millis(n)
}
