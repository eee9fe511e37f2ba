//! Losses that follow delay: before an overflowing queue drops a packet, it delays the packets
//! ahead of that one.
//!
//! Each loss is matched with the delay of the packet before it (`delay_correlation.rs`).

use super::delay_correlation::DelayCorrelation;
use crate::base::ablate::{Mechanism, without};

const SAMPLES: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct Following {
    /// Packet numbers, and whether the packet's delay was above the median.
    samples: [(u64, bool); SAMPLES],
    count: u64,
    leaning: DelayCorrelation,
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

    /// Returns true if losses follow longer delays than other packets do, by more than `z` standard
    /// deviations. This also works if delays hardly vary, and if some of the loss is random.
    pub(crate) fn leans(&self, z: u64) -> bool {
        self.leaning.is_clear(z) && !without(Mechanism::Correlation)
    }

    /// Discards the correlation, because the path has changed.
    pub(crate) fn forget(&mut self) {
        self.leaning = DelayCorrelation::default();
    }

    /// Handles the delay of packet `number`, the last of `packets`. `counts` is true if a loss at
    /// this time would count, too, because no router reports that its own queue is full.
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

    /// Returns whether the latest known packet up to `number` had a delay above the median.
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

    /// Handles the loss of packets up to `number`. If consecutive packets are reported lost one by
    /// one, they count as one loss.
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
