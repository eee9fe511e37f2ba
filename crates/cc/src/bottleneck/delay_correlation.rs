//! Do losses lie behind longer delays than other packets do?
//!
//! A queue that drops is full, and the packet before the dropped one has waited in it. Random
//! losses on the way are independent of delay: as many of them lie behind packets with more than
//! the median delay as other packets do. The correlation needs no long queue. It shows behind a
//! buffer of a few packets, in a path with other queues, and among random losses, if there are
//! enough losses.
//!
//! The delay of an arrival is that of the sample before it, as it is for a loss: where one ACK
//! acknowledges many packets, more of both lie behind the sample before. Samples must exclude the
//! time that the receiver held the ACK back: it holds back the one for the packet before a loss.

/// From this many losses on, losses and packets count half.
const MOST_LOSSES: u64 = 192;
/// Fewer losses, or fewer packets, give no result.
const LEAST_LOSSES: u64 = 16;
const LEAST_PACKETS: u64 = 64;
/// From this many packets on, they count half, so that products never overflow.
const MOST_PACKETS: u64 = 1 << 24;
/// Number of delays over which their mean distance from the median is smoothed.
const SMOOTHED: u64 = 64;
/// The median moves by 1/`STEP` of that distance, and by `LEAST_STEP` ns at least.
const STEP: u64 = 16;
const LEAST_STEP: u64 = 100;

/// Packets, and those of them with a long delay.
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

/// Compares the delays before losses with all delays.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DelayCorrelation {
    /// The running median of delays in ns.
    median: Option<u64>,
    /// How far delays are from it in the mean, in ns, times [`SMOOTHED`].
    spread: u64,
    packets: Count,
    losses: Count,
}

impl DelayCorrelation {
    /// A packet queued for `delay_ns`. True if that is long: more than the median.
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

    /// `packets` packets arrived behind one whose delay was `long`.
    #[inline]
    pub(super) fn on_packets(&mut self, packets: u64, long: bool) {
        self.packets.add(packets.min(MOST_PACKETS), long);
        if self.packets.all >= MOST_PACKETS {
            self.packets.halve();
        }
    }

    /// Packets were lost together behind one whose delay was `long`.
    pub(super) const fn on_loss(&mut self, long: bool) {
        self.losses.add(1, long);
        if self.losses.all >= MOST_LOSSES {
            self.losses.halve();
            self.packets.halve();
        }
    }

    /// True if the share of losses behind long delays exceeds the share of packets there by `z`
    /// standard deviations and more.
    pub(super) fn is_clear(&self, z: u64) -> bool {
        let (n, packets) = (self.losses.all, self.packets.all);
        if n < LEAST_LOSSES || packets < LEAST_PACKETS {
            return false;
        }
        // With the share a/b of packets: k − n·a/b > z·√(n·a·(b − a))/b, all times b.
        let (a, b) = (self.packets.long, packets);
        let above = (self.losses.long * b).saturating_sub(n * a);
        let variance = n * a * (b - a);
        above > z * variance.isqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4000 packets behind a queue of at most eight that changes by one at most from packet to
    /// packet, with up to `other` ns of queues elsewhere. Losses come by `lost`, of the queue and a
    /// draw in 10^-3.
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

    /// How many of a hundred runs are clear by `z` standard deviations.
    fn clear(z: u64, other: u64, lost: fn(u64, u64) -> bool) -> usize {
        (0..100)
            .filter(|seed| run(*seed, other, lost).is_clear(z))
            .count()
    }

    #[test]
    fn drops_of_a_full_queue_lean_to_long_delays() {
        let full = |queue, draw| queue == 8 && draw < 300;
        assert_eq!(clear(5, 0, full), 100);
        // Another queue on the way is as long as this one.
        let with_other = clear(3, 8_000_000, full);
        assert!(with_other >= 90, "{with_other} of 100");
        // Twice as much is lost at random.
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
