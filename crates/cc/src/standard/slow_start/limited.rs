//! Limited Slow-Start (RFC 3742): above `max_ssthresh`, the window grows by about half of
//! `max_ssthresh` per round trip, instead of by everything that was acknowledged.

use super::Ending;
use crate::base::arith::Carry;
use crate::law::Acked;
use crate::standard::loss_based::{Growth, StartRule};

/// `max_ssthresh` in packets if none is configured: the value of RFC 3742's tests.
pub(crate) const MAX_SSTHRESH: u32 = 100;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limited {
    rule: Ending,
    /// `max_ssthresh` in packets; `None`: growth is not limited.
    most: Option<u32>,
    growth: Carry,
}

impl Limited {
    pub(crate) fn new(rule: Ending, most: Option<u32>) -> Self {
        Self {
            rule,
            most,
            growth: Carry::default(),
        }
    }
}

impl StartRule for Limited {
    fn on_ack(&mut self, acked: &Acked, last_sent: u64) -> Growth {
        self.rule.on_ack(acked, last_sent)
    }

    /// Returns 1/K of the growth, with K = int(cwnd / (0.5 max_ssthresh)).
    fn limited(&mut self, bytes: u64, window: u64, mtu: u64) -> u64 {
        let Some(most) = self.most else {
            return bytes;
        };
        let most = u64::from(most.max(1)).saturating_mul(mtu.max(1));
        if window <= most {
            return bytes;
        }
        let parts = window.saturating_mul(2) / most;
        self.growth.add(u128::from(bytes), u128::from(parts.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Instant;
    use crate::law::Controller;
    use crate::standard::cubic::Cubic;
    use crate::standard::loss_based::LossBased;
    use crate::testing::{acked, ms, sent};

    const MSS: u64 = 1000;

    fn limited(most: Option<u32>) -> Limited {
        Limited::new(Ending::new(false), most)
    }

    /// RFC 3742, section 2, for `max_ssthresh` of 100 packets: the window in packets, and the
    /// number of acknowledgements of one packet each that make the window one packet larger.
    #[test]
    fn the_rfcs_growth() {
        let slow = [(150, 3), (199, 3), (200, 4), (1000, 20), (4000, 80)];
        let fast = [(2, 1), (100, 1), (101, 2), (149, 2)];
        for (window, acknowledgements) in fast.into_iter().chain(slow) {
            let mut rule = limited(Some(MAX_SSTHRESH));
            let grown = |rule: &mut Limited, acknowledgements: u64| -> u64 {
                let each = (0..acknowledgements).map(|_| rule.limited(MSS, window * MSS, MSS));
                each.sum()
            };
            // The remainder of a division is not lost.
            let all = grown(&mut rule, 60 * acknowledgements);
            assert_eq!(all, 60 * MSS, "{window}");
            assert_eq!(limited(None).limited(MSS, window * MSS, MSS), MSS);
        }
    }

    /// According to the RFC, the start takes up to log2(max_ssthresh) + (cwnd - max_ssthresh) /
    /// (max_ssthresh / 2) round trips. Slow start without a limit takes log2(cwnd).
    #[test]
    fn the_rfcs_round_trips() {
        let rounds = |most: Option<u32>, until: u64| {
            let mut law = LossBased::new(1000, Some(2), Cubic::default(), limited(most));
            let (mut rounds, mut number) = (0u64, 0);
            while law.window() < until * MSS {
                rounds += 1;
                for _ in 0..law.window() / MSS {
                    law.on_sent(Instant::ZERO, &sent(number, MSS));
                    law.on_ack(Instant::ZERO, &acked(number, MSS, ms(100)));
                    number += 1;
                }
            }
            rounds
        };
        assert_eq!(rounds(None, 1024), 9);
        // From 2 packets to 128, followed by (1000 - 128) / 50.
        let limited = rounds(Some(100), 1000);
        assert!((6 + 13..=6 + 18).contains(&limited), "{limited}");
        // Every 5000 additional packets take 100 additional round trips.
        let more = rounds(Some(100), 15_000) - rounds(Some(100), 10_000);
        assert!((98..=100).contains(&more), "{more}");
    }
}
