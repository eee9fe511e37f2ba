//! The Gilbert–Elliott chain in continuous time, which moves with the clock instead of with
//! packets.

use pathmark_cc::{Duration, Instant};

use super::probability::Probability;
use super::random::Random;

/// A chain with a good and a bad state and a loss probability for each, which stays in each
/// state for exponential times. It starts from the stationary distribution.
///
/// Each packet draws the state at its own time from the transition probabilities of the
/// two-state Markov process: starting in state s, the chain is bad after t with probability π +
/// (1{s bad} − π) · exp(−t/g − t/b), where g and b are the mean times in the good and the bad
/// state and π = b / (g + b). A packet therefore costs two draws, regardless of the pause before
/// it.
#[derive(Clone, Debug)]
pub struct TimedGilbertElliott {
    /// 1/g + 1/b, per nanosecond.
    decay: f64,
    /// π.
    bad_share: f64,
    loss_good: Probability,
    loss_bad: Probability,
    /// State and time of the last packet.
    bad: bool,
    last: Option<Instant>,
    random: Random,
}

impl TimedGilbertElliott {
    /// Creates a chain with these mean times in its states; a time of zero counts as one
    /// nanosecond.
    pub fn new(
        good: Duration,
        bad: Duration,
        loss_good: Probability,
        loss_bad: Probability,
        random: Random,
    ) -> Self {
        let nanos = |time: Duration| (time.as_nanos() as f64).max(1.0);
        let (good, bad) = (nanos(good), nanos(bad));
        Self {
            decay: 1.0 / good + 1.0 / bad,
            bad_share: bad / (good + bad),
            loss_good,
            loss_bad,
            bad: false,
            last: None,
            random,
        }
    }

    /// Whether a packet that leaves at `sent` is lost.
    pub(super) fn strikes(&mut self, sent: Instant) -> bool {
        let chance = match self.last {
            None => self.bad_share,
            Some(last) => {
                let passed = sent.saturating_since(last).as_nanos() as f64;
                let stays = libm::exp(-passed * self.decay);
                let was = if self.bad { 1.0 } else { 0.0 };
                self.bad_share + (was - self.bad_share) * stays
            }
        };
        // Packets usually arrive in order; an earlier time finds the chain in its last state.
        self.last = Some(self.last.map_or(sent, |last| last.max(sent)));
        let uniform = f64::from(self.random.next_u32()) / 4_294_967_296.0;
        self.bad = uniform < chance;
        let loss = if self.bad {
            self.loss_bad
        } else {
            self.loss_good
        };
        loss.happens(&mut self.random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(good_ms: u64, bad_ms: u64, seed: u64) -> TimedGilbertElliott {
        TimedGilbertElliott::new(
            Duration::from_millis(good_ms),
            Duration::from_millis(bad_ms),
            Probability::ZERO,
            Probability::ONE,
            Random::new(seed, "timed"),
        )
    }

    /// The share of lost packets and the mean duration of bursts, for packets `gap` apart.
    fn run(chain: &mut TimedGilbertElliott, gap: Duration, packets: u64) -> (f64, f64) {
        let (mut lost, mut bursts, mut before, mut now) = (0u64, 0u64, false, Instant::ZERO);
        for _ in 0..packets {
            now += gap;
            let strikes = chain.strikes(now);
            lost += u64::from(strikes);
            bursts += u64::from(strikes && !before);
            before = strikes;
        }
        let burst = lost as f64 * gap.as_secs_f64() / bursts.max(1) as f64;
        (lost as f64 / packets as f64, burst)
    }

    /// Bad for 50 ms after 450 ms: a tenth of all packets must be lost, in bursts of 50 ms,
    /// whether packets are 1 ms or 0.1 ms apart.
    #[test]
    fn shares_and_bursts_are_those_of_time() {
        for (gap, packets) in [(1000, 2_000_000), (100, 5_000_000)] {
            let gap = Duration::from_micros(gap);
            let (lost, burst) = run(&mut chain(450, 50, 7), gap, packets);
            assert!((lost - 0.1).abs() < 0.008, "{gap:?}: {lost}");
            // The observed part of a burst, for packets a gap apart: gap / (1 - P(bad after
            // gap)).
            let leaves = 0.9 * (1.0 - (-gap.as_secs_f64() * (1.0 / 0.45 + 1.0 / 0.05)).exp());
            let expected = gap.as_secs_f64() / leaves;
            assert!(
                (burst / expected - 1.0).abs() < 0.06,
                "{gap:?}: {burst} s for {expected}"
            );
        }
    }

    /// Packets far apart must be lost independently of each other, and long pauses must not cost
    /// more.
    #[test]
    fn long_pauses_forget() {
        let mut chain = chain(300, 100, 3);
        let day = Duration::from_secs(86_400);
        let (mut both, mut lost, mut before, mut now) = (0, 0, false, Instant::ZERO);
        let packets = 20_000;
        for _ in 0..packets {
            now += day;
            let strikes = chain.strikes(now);
            lost += u32::from(strikes);
            both += u32::from(strikes && before);
            before = strikes;
        }
        let (share, pairs) = (f64::from(lost) / 2e4, f64::from(both) / 2e4);
        assert!((share - 0.25).abs() < 0.013, "{share}");
        assert!((pairs - 0.0625).abs() < 0.008, "{pairs}");
    }

    #[test]
    fn at_one_instant_the_state_is_one() {
        for seed in 0..50 {
            let mut chain = chain(5, 5, seed);
            let first = chain.strikes(Instant::from_millis(9));
            assert!((0..100).all(|_| chain.strikes(Instant::from_millis(9)) == first));
            assert_eq!(chain.strikes(Instant::from_millis(8)), first, "earlier");
        }
    }

    #[test]
    fn times_of_nothing_hang_nothing() {
        let mut chain = chain(0, 0, 1);
        let lost = (0..1000u64).filter(|ms| chain.strikes(Instant::from_millis(*ms)));
        assert!((400..600).contains(&lost.count()));
    }
}
