//! Correlation of losses with delay: are losses preceded by longer delays than other packets?
//!
//! A queue that drops packets is full, so the packet before a drop has waited in it. Random losses,
//! however, are independent of delay: they follow long delays (those above the median) as often as
//! other packets do. This test doesn't need a long queue. It also works for a buffer of a few
//! packets, on a path with other queues, and among random losses, provided that there are enough
//! losses.
//!
//! Each arrival is attributed to the delay of the sample before it, like a loss, because if one ACK
//! acknowledges many packets, both are more likely to follow the previous sample. Samples must
//! exclude the time for which the receiver held back the ACK, because it holds back the one for the
//! packet before a loss.

/// Losses and packets are halved when this many losses are counted.
const MOST_LOSSES: u64 = 192;
/// Fewer losses or fewer packets don't give a result.
const LEAST_LOSSES: u64 = 16;
const LEAST_PACKETS: u64 = 64;
/// Packets are halved when this many are counted, so that products never overflow.
const MOST_PACKETS: u64 = 1 << 24;
/// Number of delays over which their mean distance from the median is smoothed.
const SMOOTHED: u64 = 64;
/// The median moves by 1/`STEP` of this distance, and by at least `LEAST_STEP` ns.
const STEP: u64 = 16;
const LEAST_STEP: u64 = 100;

/// Number of packets, and of those that follow a long delay.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    all: u64,
    long: u64,
}

impl Count {
    const fn add(&mut self, packets: u64, long: bool) {
        self.all += packets;
        if long {
            self.long += packets;
        }
    }

    const fn halve(&mut self) {
        self.all /= 2;
        self.long /= 2;
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DelayCorrelation {
    /// Running median of delays in ns.
    median: Option<u64>,
    /// Mean distance of delays from the median in ns, times [`SMOOTHED`].
    spread: u64,
    packets: Count,
    losses: Count,
}

impl DelayCorrelation {
    /// Adds a packet's queueing delay. Returns true if it's long, i.e. above the median.
    #[inline]
    pub(super) fn on_delay(&mut self, delay_ns: u64) -> bool {
        let Some(median) = self.median else {
            self.median = Some(delay_ns);
            return false;
        };
        let long = delay_ns > median;
        let away = delay_ns.abs_diff(median);
        self.spread = (self.spread - self.spread / SMOOTHED).saturating_add(away);
        let step = (self.spread / (SMOOTHED * STEP)).max(LEAST_STEP).min(away);
        self.median = Some(if long { median + step } else { median - step });
        long
    }

    /// Adds `packets` packets that arrived after one whose delay was `long`.
    #[inline]
    pub(super) fn on_packets(&mut self, packets: u64, long: bool) {
        self.packets.add(packets.min(MOST_PACKETS), long);
        if self.packets.all >= MOST_PACKETS {
            self.packets.halve();
        }
    }

    /// Adds one loss event after a packet whose delay was `long`.
    pub(super) const fn on_loss(&mut self, long: bool) {
        self.losses.add(1, long);
        if self.losses.all >= MOST_LOSSES {
            self.losses.halve();
            self.packets.halve();
        }
    }

    /// Returns true if the share of losses after long delays exceeds the share of packets after
    /// long delays by more than `z` standard deviations.
    pub(super) fn is_clear(&self, z: u64) -> bool {
        let (n, packets) = (self.losses.all, self.packets.all);
        if n < LEAST_LOSSES || packets < LEAST_PACKETS {
            return false;
        }
        // With a/b, the share of packets: k − n·a/b > z·√(n·a·(b − a))/b, where both sides are
        // multiplied by b.
        let (a, b) = (self.packets.long, packets);
        let above = (self.losses.long * b).saturating_sub(n * a);
        let variance = n * a * (b - a);
        above > z * variance.isqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends 4000 packets through a queue of at most eight, which changes by at most one from
    /// packet to packet, with up to `other` ns of queueing elsewhere. `lost` decides about losses,
    /// based on the queue and a random number below 1000.
    fn run(seed: u64, other: u64, lost: fn(u64, u64) -> bool) -> DelayCorrelation {
        let mut leaning = DelayCorrelation::default();
        let (mut state, mut queue, mut long) = (seed, 4u64, false);
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..4000 {
            queue = (queue + draw(3)).saturating_sub(1).min(8);
            let delay = queue * 1_000_000 + draw(other + 1);
            if lost(queue, draw(1000)) {
                leaning.on_loss(long);
            } else {
                leaning.on_packets(1, long);
                long = leaning.on_delay(delay);
            }
        }
        leaning
    }

    /// Returns how many of a hundred runs show a correlation by `z` standard deviations.
    fn clear(z: u64, other: u64, lost: fn(u64, u64) -> bool) -> usize {
        let is_clear = |seed: &u64| run(*seed, other, lost).is_clear(z);
        (0..100).filter(is_clear).count()
    }

    #[test]
    fn drops_of_a_full_queue_lean_to_long_delays() {
        let full = |queue, draw| queue == 8 && draw < 300;
        assert_eq!(clear(5, 0, full), 100);
        // Another queue on the path is just as long.
        let with_other = clear(3, 8_000_000, full);
        assert!(with_other >= 90, "{with_other} of 100");
        // In addition, 2 % is lost at random.
        let mixed = |queue, draw| (queue == 8 && draw < 300) || draw >= 980;
        let mixed = clear(3, 0, mixed);
        assert!(mixed >= 90, "{mixed} of 100");
    }

    #[test]
    fn random_losses_do_not() {
        for per_mille in [|_, draw| draw < 10, |_, draw| draw < 100] {
            let chance = clear(3, 500_000, per_mille);
            assert!(chance <= 2, "{chance} of 100");
            assert_eq!(clear(5, 500_000, per_mille), 0);
        }
        assert!(!run(1, 0, |_, _| false).is_clear(3), "no loss at all");
        assert!(!DelayCorrelation::default().is_clear(0));
    }

    #[test]
    fn sums_stay_within_bounds() {
        let mut leaning = DelayCorrelation::default();
        for n in 0..1000 {
            let long = leaning.on_delay(n % 2 * u64::MAX);
            leaning.on_packets(u64::MAX, long);
            leaning.on_loss(n % 2 == 0);
            let _ = leaning.is_clear(5);
        }
        assert!(leaning.packets.all < MOST_PACKETS && leaning.losses.all < MOST_LOSSES);
    }
}
