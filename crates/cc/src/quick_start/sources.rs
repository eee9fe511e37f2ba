//! Who asks how often.

use super::params::{PER_SOURCE, SOURCE_PERIOD, SOURCES};
use crate::Instant;
use crate::arith::{nanos, ns_since};

/// Requests of the running second, by a hash of their source.
#[derive(Debug)]
pub(crate) struct Sources {
    started: Instant,
    asked: Box<[u16; SOURCES]>,
}

impl Sources {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            started: now,
            asked: Box::new([0; SOURCES]),
        }
    }

    /// `source` asks. False: too often.
    pub(crate) fn admit(&mut self, now: Instant, source: u32) -> bool {
        if ns_since(now, self.started) >= nanos(SOURCE_PERIOD) {
            self.started = now;
            self.asked.fill(0);
        }
        // The hash may be weak in some bits: fold all of them in.
        let place = source.wrapping_mul(0x9E37_79B1) as usize >> 8;
        match self.asked.get_mut(place % SOURCES) {
            Some(asked) if *asked < PER_SOURCE => {
                *asked += 1;
                true
            }
            _ => false,
        }
    }
}
