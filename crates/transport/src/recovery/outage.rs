//! Discards round-trip times that were measured across an outage.
//!
//! Packets and probes that a queue holds during an outage yield samples that reflect the length
//! of the outage instead of the path's RTT. A few such samples make the probe timeout as long as
//! the outage. Since the packets that the queue dropped fill the window, only a probe can then
//! discover that the path works again. Therefore, after probe timeouts:
//!
//! - The timeout is at most as long as before the outage until a packet is acknowledged that
//!   was sent after the first acknowledgement.
//! - That packet's sample decides. If it is closer to the estimate from before the outage, the
//!   samples from the outage are discarded. Otherwise the path has become slower, and they are
//!   kept.

use super::RttEstimator;
use crate::{Duration, Instant};

/// The estimate from before the first of several consecutive probe timeouts.
#[derive(Debug, Default)]
pub(super) struct Outage {
    before: Option<RttEstimator>,
    /// When the first packet was acknowledged after the outage.
    over: Option<Instant>,
}

impl Outage {
    pub(super) fn on_probe_timeout(&mut self, rtt: &RttEstimator) {
        if self.before.is_none() && rtt.srtt().is_some() {
            self.before = Some(rtt.clone());
        }
    }

    /// Processes an RTT sample at `now`: the latest acknowledged packet was sent at `sent_at`.
    /// `rtt` already includes `sample`.
    pub(super) fn on_sample(
        &mut self,
        now: Instant,
        sent_at: Instant,
        sample: Duration,
        rtt: &mut RttEstimator,
    ) {
        let Some(over) = self.over else {
            self.over = self.before.as_ref().map(|_| now);
            return;
        };
        if sent_at < over {
            return;
        }
        self.over = None;
        let Some(before) = self.before.take() else {
            return;
        };
        let far = |known: &RttEstimator| known.srtt_or_initial().abs_diff(sample);
        if far(&before) < far(rtt) {
            rtt.go_back_to(before, over);
            // Count this sample again, with the same acknowledgement delay subtracted. The
            // sample can exceed `took`, because samples have a minimum.
            let took = now - sent_at;
            rtt.update(now, took, took.saturating_sub(sample));
        }
    }

    /// Returns the base of the probe timeout: [`RttEstimator::pto_base`], but at most that from
    /// before the outage.
    pub(super) fn pto_base(&self, rtt: &RttEstimator) -> Duration {
        let before = self.before.as_ref().map(RttEstimator::pto_base);
        before.map_or(rtt.pto_base(), |before| before.min(rtt.pto_base()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock doesn't advance between sending a packet and its acknowledgement. Samples are
    /// at least a microsecond.
    #[test]
    fn a_round_trip_of_no_time_ends_an_outage() {
        let at = Instant::from_millis;
        let mut rtt = RttEstimator::new();
        let mut outage = Outage::default();
        rtt.update(at(10), Duration::ZERO, Duration::ZERO);
        outage.on_probe_timeout(&rtt);
        let long = rtt.update(at(510), Duration::from_millis(500), Duration::ZERO);
        outage.on_sample(at(510), at(10), long, &mut rtt);
        assert!(rtt.srtt() > Some(Duration::from_millis(50)));
        let short = rtt.update(at(510), Duration::ZERO, Duration::ZERO);
        outage.on_sample(at(510), at(510), short, &mut rtt);
        assert!(rtt.srtt() <= Some(Duration::from_micros(1)));
    }
}
