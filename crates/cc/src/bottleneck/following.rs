//! Losses that follow delay: a queue that overflows delays the packets before the one that it
//! drops.
//!
//! Each loss is matched with the delay of the packet before it (`delay_correlation.rs`).

use super::delay_correlation::DelayCorrelation;
use crate::base::ablate::{Mechanism, without};

/// Delays of packets that are remembered.
const SAMPLES: usize = 64;

/// Compares losses with delays.
#[derive(Clone, Debug)]
pub(crate) struct Following {
    /// Of packets: number, and whether the delay was longer than the median.
    samples: [(u64, bool); SAMPLES],
    count: u64,
    leaning: DelayCorrelation,
    /// The packet that was lost last.
    lost: Option<u64>,
}

impl Following {
    pub(crate) fn new() -> Self {
        Self {
            samples: [(0, false); SAMPLES],
            count: 0,
            leaning: DelayCorrelation::default(),
            lost: None,
        }
    }

    /// True if losses lie behind longer delays than other packets do, by `z` standard deviations
    /// and more: also where delays range over little, and where some of the loss is random.
    pub(crate) fn leans(&self, z: u64) -> bool {
        self.leaning.is_clear(z) && !without(Mechanism::Correlation)
    }

    /// Drops the record: the path has changed.
    pub(crate) fn forget(&mut self) {
        self.leaning = DelayCorrelation::default();
    }

    /// Packet `number`, the last one of `packets`, queued for `delay_ns`. `counts`: a loss at this
    /// time would count as well, since no router reports that its own queue is full.
    #[inline]
    pub(crate) fn on_delay(&mut self, number: u64, packets: u64, delay_ns: u64, counts: bool) {
        if counts && let Some(longer) = self.delay_before(number.saturating_sub(1)) {
            self.leaning.on_packets(packets, longer);
        }
        let longer = self.leaning.on_delay(delay_ns);
        if let Some(slot) = self.samples.get_mut((self.count % SAMPLES as u64) as usize) {
            *slot = (number, longer);
        }
        self.count += 1;
    }

    /// Whether the latest packet up to `number` had a delay longer than the median.
    fn delay_before(&self, number: u64) -> Option<bool> {
        let kept = self.count.min(SAMPLES as u64);
        (1..=kept)
            .filter_map(|back| {
                self.samples
                    .get(((self.count - back) % SAMPLES as u64) as usize)
            })
            .find(|(at, _)| *at <= number)
            .map(|(_, longer)| *longer)
    }

    /// Packets up to `number` were lost together. Consecutive packets that are reported lost one by
    /// one count as one loss.
    pub(crate) fn on_loss(&mut self, number: u64) {
        if let Some(longer) = self.delay_before(number)
            && self
                .lost
                .replace(number)
                .is_none_or(|last| last + 1 != number)
        {
            self.leaning.on_loss(longer);
        }
    }
}
