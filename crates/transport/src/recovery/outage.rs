//! Round trips measured across an outage.
//!
//! Packets and probes that wait out an outage in a queue come back with samples that tell how long
//! the outage was, not how long the path is. A few of them make the probe timeout as long as the
//! outage. What the queue dropped meanwhile fills the window, and nothing but a probe finds that
//! the path is there again. So after probe timeouts:
//!
//! - until a packet is acknowledged that was sent since something came back, the timeout is no
//!   longer than before the outage;
//! - that packet's sample decides: nearer to what was known before the outage, and the samples from
//!   the outage are forgotten; else the path is slower now, and they stand.

use super::RttEstimator;
use crate::{Duration, Instant};

/// What was known before the first of several probe timeouts in a row.
#[derive(Debug, Default)]
pub(super) struct Outage {
    before: Option<RttEstimator>,
    /// When something came back.
    over: Option<Instant>,
}

impl Outage {
    /// A probe timeout fired.
    pub(super) fn on_probe_timeout(&mut self, rtt: &RttEstimator) {
        if self.before.is_none() && rtt.srtt().is_some() {
            self.before = Some(rtt.clone());
        }
    }

    /// Something came back at `now`; the latest packet of it was sent at `sent_at`, and its round
    /// trip was `sample`, which is part of `rtt` already.
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
            // This sample counts, as it did: with as much delay of the peer's taken off. It is
            // longer than the time that it took where that was next to nothing.
            let took = now - sent_at;
            rtt.update(now, took, took.saturating_sub(sample));
        }
    }

    /// The probe timeout's base: [`RttEstimator::pto_base`], but no longer than before the outage.
    pub(super) fn pto_base(&self, rtt: &RttEstimator) -> Duration {
        let before = self.before.as_ref().map(RttEstimator::pto_base);
        before.map_or(rtt.pto_base(), |before| before.min(rtt.pto_base()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock stands still from the sending of a packet to its acknowledgement. Samples are a
    /// microsecond at least.
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
