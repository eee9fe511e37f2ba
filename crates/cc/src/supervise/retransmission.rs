//! A TCP sender's retransmission timeout, for laws as published in their papers.
//!
//! QUIC repairs each loss as soon as an acknowledgement shows it, so it doesn't need a
//! retransmission timeout. The papers' senders, however, are TCPs: a *timeout* sets their window to
//! one packet, whereas the reaction to a *fast retransmit* depends on the law. This module
//! determines when a TCP sender with this law would time out. For this, it keeps track of TCP's
//! cumulative acknowledgement in packet numbers:
//!
//! - The timer restarts when the cumulative acknowledgement advances (RFC 6298, section 5.3).
//! - A loss stops the cumulative acknowledgement until its repair, which is the next packet sent,
//!   is acknowledged. If the repair is lost, it stops until the timeout, because these TCPs don't
//!   detect the loss of a retransmission.
//! - With SACK, all losses of a window are repaired at once. Without SACK, only the first one is. A
//!   second loss in the same window waits for the timeout, because no further fast retransmit is
//!   allowed below the highest packet sent (RFC 6582, section 3.2, and the simulator's Reno). Until
//!   then, only one packet fits into the window, which counts from the cumulative acknowledgement.
//! - Without SACK, lost packets also occupy the window until the cumulative acknowledgement passes
//!   them.
//! - With fewer than four packets in flight, there can't be three duplicate acknowledgements.
//! - A timeout retransmits everything in flight. Until this is acknowledged, no RTT is measured
//!   (RFC 6298, section 3), and another loss waits for the next timeout, which takes twice as long.
//! - Packets that are lost leave QUIC's flight, which may then be empty. This doesn't end the wait:
//!   only the timeout does.
//!
//! Where the RTT is far below 200 ms, QUIC's probes show the loss of a whole flight before the
//! timeout is due. The model takes this for a fast retransmit, so that it times out less often than
//! a TCP.
//!
//! Go-back-N can't be modelled, because QUIC doesn't send what the receiver has. The emulator's
//! `tcp-xcp` does.
//!
//! The timer follows RFC 6298. As in Linux (`tcp_rtt_estimator` and `__tcp_set_rto`), the minimum
//! of 200 ms bounds the term of the variation, so that the timeout is at least the smoothed RTT
//! plus 200 ms. A timeout is noticed at the next event after it is due.

use core::ops::RangeInclusive;
use std::collections::VecDeque;

use crate::base::{Duration, Instant};
use crate::law::{Acked, Lost, Sent};

/// Minimum of four variations: `TCP_RTO_MIN` of Linux.
const LEAST: Duration = Duration::from_millis(200);
/// Maximum timeout (RFC 6298, section 2.5).
const LONGEST: Duration = Duration::from_secs(60);
/// Timeout before the first RTT sample (RFC 6298, section 2.1).
const FIRST: Duration = Duration::from_secs(1);
/// Duplicate acknowledgements that cause a fast retransmit, and packets that must follow a repair.
const DUPLICATES: u64 = 3;
/// Repairs that are tracked individually; further ones are merged into the last.
const MOST_REPAIRS: usize = 16;

/// Packet numbers that carry repairs of losses reported together.
#[derive(Clone, Debug)]
struct Repair {
    numbers: RangeInclusive<u64>,
    lost: bool,
}

/// Tracks when a TCP sender would time out. See the module's documentation.
#[derive(Clone, Debug)]
pub(crate) struct RetransmissionTimeout {
    sack: bool,
    /// Smoothed RTT and its variation (RFC 6298, section 2).
    rtt: Option<(Duration, Duration)>,
    /// Doublings of the timeout since the last RTT sample.
    backoff: u32,
    timeouts: u64,
    /// When the cumulative acknowledgement last advanced; `None` while nothing is in flight.
    since: Option<Instant>,
    repairs: VecDeque<Repair>,
    /// True if losses in the current window aren't repaired by a fast retransmit.
    unrepaired: bool,
    /// Largest packet numbers acknowledged and sent.
    acked: Option<u64>,
    sent: Option<u64>,
    /// Packets in flight, and bytes lost since the cumulative acknowledgement advanced.
    flight: u64,
    missing: u64,
    /// Packets up to the first number were sent before the last timeout, and packets up to the
    /// second number retransmit them.
    resent: Option<(u64, u64)>,
}

impl RetransmissionTimeout {
    /// Creates the state. `sack` is true if the receiver reports all losses instead of only the
    /// first one.
    pub(crate) fn new(sack: bool) -> Self {
        Self {
            sack,
            rtt: None,
            backoff: 0,
            timeouts: 0,
            since: None,
            repairs: VecDeque::with_capacity(MOST_REPAIRS),
            unrepaired: false,
            acked: None,
            sent: None,
            flight: 0,
            missing: 0,
            resent: None,
        }
    }

    /// Handles sending a packet. The caller stores the number with each packet, see
    /// [`PacketState`](crate::law::PacketState).
    pub(crate) fn on_sent(&mut self, now: Instant, sent: &Sent) {
        self.sent = self.sent.max(Some(sent.packet_number));
        self.flight = sent.in_flight / sent.bytes.max(1);
        if sent.in_flight <= sent.bytes && !self.is_held() {
            self.since = Some(now);
        }
    }

    /// Returns the number of timeouts so far.
    pub(crate) const fn timeouts(&self) -> u64 {
        self.timeouts
    }

    /// Returns true while a loss waits for the timeout and no packet fits into the window.
    pub(crate) fn holds_back(&self) -> bool {
        self.unrepaired && self.repairs.is_empty()
    }

    /// Returns how many bytes may be in flight with a window of `bytes`, at least a packet of `mtu`
    /// bytes.
    pub(crate) fn leaves(&self, bytes: u64, mtu: u64) -> u64 {
        let left = if self.holds_back() {
            0
        } else {
            bytes.saturating_sub(self.missing)
        };
        left.max(mtu)
    }

    /// Handles acknowledged packets. Returns true if a timeout occurred before.
    pub(crate) fn on_ack(&mut self, now: Instant, acked: &Acked) -> bool {
        let timeout = self.on_time(now);
        self.confirm_repairs(now, acked);
        self.acked = self.acked.max(Some(acked.largest));
        if self.is_new(acked.largest) {
            self.since = Some(now);
            match (self.resent, acked.rtt) {
                (Some((_, again)), _) if acked.largest <= again => {}
                (_, Some(rtt)) => self.on_rtt(rtt),
                (_, None) => {}
            }
        }
        if acked.in_flight_before <= acked.bytes && !self.unrepaired {
            // Everything is acknowledged.
            self.since = None;
            self.repairs.clear();
        }
        if !self.is_held() {
            self.missing = 0;
        }
        timeout
    }

    /// Handles lost packets; their `first_state` must contain the smallest number. Returns true if
    /// this is a fast retransmit, and the first one of its window.
    pub(crate) fn on_loss(&mut self, lost: &Lost, mtu: u64) -> bool {
        let first = lost.first_state.explicit;
        if let Some((before, again)) = self.resent {
            if lost.largest <= before {
                return false;
            }
            if first <= again {
                self.unrepaired = true;
                return false;
            }
        }
        if !self.sack {
            self.missing = self.missing.saturating_add(lost.bytes);
        }
        let mut again = false;
        for repair in &mut self.repairs {
            if first <= *repair.numbers.end() && lost.largest >= *repair.numbers.start() {
                repair.lost = true;
                again |= repair.numbers.contains(&first) && repair.numbers.contains(&lost.largest);
            }
        }
        if again {
            return false;
        }
        let held = self.is_held();
        let next = self.sent.map_or(0, |sent| sent.saturating_add(1));
        if lost.in_flight_before < (DUPLICATES + 1) * mtu {
            self.unrepaired = true;
        } else if self.sack {
            let last = next.saturating_add(lost.packets.saturating_sub(1));
            self.repair(next..=last);
        } else if held {
            self.unrepaired = true;
        } else {
            self.unrepaired = lost.packets > 1;
            self.repair(next..=next);
        }
        !held
    }

    /// Handles a probe timeout or any other event. Returns true if a timeout occurred before.
    pub(crate) fn on_time(&mut self, now: Instant) -> bool {
        let due = self
            .since
            .is_some_and(|since| now >= since + self.timeout());
        if due {
            self.backoff += 1;
            self.timeouts += 1;
            self.since = Some(now);
            self.repairs.clear();
            self.unrepaired = false;
            self.missing = 0;
            self.resent = self
                .sent
                .map(|sent| (sent, sent.saturating_add(self.flight)));
        }
        due
    }

    /// Returns true if an acknowledgement up to `largest` covers new data, so it isn't a duplicate.
    pub(crate) fn is_new(&self, largest: u64) -> bool {
        !self.is_held() && self.resent.is_none_or(|(before, _)| largest > before)
    }

    fn is_held(&self) -> bool {
        self.unrepaired || !self.repairs.is_empty()
    }

    fn repair(&mut self, numbers: RangeInclusive<u64>) {
        let full = self.repairs.len() >= MOST_REPAIRS;
        match self.repairs.back_mut() {
            Some(last) if full => {
                last.numbers = *last.numbers.start()..=*numbers.end();
            }
            _ => self.repairs.push_back(Repair {
                numbers,
                lost: false,
            }),
        }
    }

    /// Removes the first repairs that have arrived, which advances the cumulative acknowledgement.
    /// Because losses are only reported after the acknowledgement that shows them, repairs of
    /// several packets are judged by the previous acknowledgement.
    fn confirm_repairs(&mut self, now: Instant, acked: &Acked) {
        while let Some(first) = self.repairs.front() {
            let end = *first.numbers.end();
            let followed = self
                .acked
                .is_some_and(|acked| acked >= end.saturating_add(DUPLICATES));
            let itself = first.numbers.start() == first.numbers.end() && acked.largest == end;
            if first.lost || !(followed || itself) {
                return;
            }
            self.repairs.pop_front();
            self.since = Some(now);
        }
    }

    fn on_rtt(&mut self, sample: Duration) {
        self.backoff = 0;
        let (smoothed, variation) = match self.rtt {
            None => (sample, sample / 2),
            Some((smoothed, variation)) => (
                (smoothed * 7 + sample) / 8,
                (variation * 3 + smoothed.abs_diff(sample)) / 4,
            ),
        };
        self.rtt = Some((smoothed, variation));
    }

    fn timeout(&self) -> Duration {
        let once = self.rtt.map_or(FIRST, |(smoothed, variation)| {
            smoothed + (variation * 4).max(LEAST)
        });
        once.saturating_mul(1 << self.backoff.min(6)).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// RFC 6298, section 2, in floats, with Linux's minimum.
        #[test]
        fn the_timeout_follows_the_oracle(samples in prop::collection::vec(1u64..2_000, 1..60)) {
            let mut timer = RetransmissionTimeout::new(true);
            let mut oracle: Option<(f64, f64)> = None;
            for sample in samples {
                timer.on_rtt(Duration::from_millis(sample));
                let rtt = sample as f64 / 1e3;
                let next = |(smoothed, variation): (f64, f64)| {
                    let error = (smoothed - rtt).abs();
                    (0.875 * smoothed + 0.125 * rtt, 0.75 * variation + 0.25 * error)
                };
                let (smoothed, variation) = oracle.map_or((rtt, rtt / 2.0), next);
                oracle = Some((smoothed, variation));
                let exact = smoothed + (4.0 * variation).max(0.2);
                let off = (timer.timeout().as_secs_f64() - exact).abs();
                prop_assert!(off < 1e-6, "{:?} {exact}", timer.timeout());
            }
        }
    }
}
