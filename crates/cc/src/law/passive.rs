//! A port without a law, which never answers.

use super::link::LinkController;
use crate::base::Instant;
use crate::metrics::LinkMetrics;
use crate::signals::{Answer, Arrival};

/// Link half named `none`, which never answers packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passive;

impl LinkController for Passive {
    fn on_arrival(&mut self, _now: Instant, _arrival: &Arrival, _queue: u64) {}

    fn on_departure(&mut self, _now: Instant, _packet: &Arrival, _queue: u64) -> Answer {
        Answer::None
    }

    fn on_timer(&mut self, _now: Instant, _queue: u64) {}

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn on_capacity(&mut self, _now: Instant, _bytes_per_second: u64) {}

    fn metrics(&self) -> LinkMetrics {
        LinkMetrics::default()
    }
}
