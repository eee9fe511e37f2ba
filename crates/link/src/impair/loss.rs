//! Random loss of packets, either independent or in Gilbert–Elliott bursts, with a chain that moves
//! with packets, with bits, or with the clock.

use pathmark_cc::{Duration, Instant};

use super::bits::BitErrors;
use super::code::Code;
use super::{Probability, Random};

/// The packet losses of a link.
#[derive(Clone, Debug, Default)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each with the same probability.
    Bernoulli {
        /// That probability.
        per: Probability,
        /// The generator.
        random: Random,
    },
    /// In bursts.
    GilbertElliott(GilbertElliott),
    /// In bursts that last for some time, regardless of the number of packets.
    Timed(TimedGilbertElliott),
    /// Packets with more bit errors than can be corrected.
    Bits(BitErrors),
}

impl Loss {
    /// Returns true if the next packet is lost. It leaves at `sent` and has `bytes` bytes before
    /// coding.
    #[inline]
    pub fn strikes(&mut self, sent: Instant, bytes: u32) -> bool {
        match self {
            Self::None => false,
            Self::Bernoulli { per, random } => per.happens(random),
            Self::GilbertElliott(chain) => chain.strikes(),
            Self::Timed(chain) => chain.strikes(sent),
            Self::Bits(bits) => bits.strikes(bytes),
        }
    }

    /// The code that protects packets, if any.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Bits(bits) => bits.code(),
            _ => None,
        }
    }

    /// Returns true if packets can be lost.
    pub fn is_some(&self) -> bool {
        !matches!(self, Self::None)
    }
}

/// The Gilbert–Elliott chain, with a good and a bad state and a loss probability for each. For
/// each packet, it first emits and then moves. It starts from the stationary distribution.
#[derive(Clone, Debug)]
pub struct GilbertElliott {
    good_to_bad: Probability,
    bad_to_good: Probability,
    loss_good: Probability,
    loss_bad: Probability,
    bad: bool,
    random: Random,
}

impl GilbertElliott {
    /// Creates a chain in a state drawn from its stationary distribution (the good one if it
    /// never moves).
    pub fn new(
        good_to_bad: Probability,
        bad_to_good: Probability,
        loss_good: Probability,
        loss_bad: Probability,
        mut random: Random,
    ) -> Self {
        let stationary =
            Probability::ratio(good_to_bad.q32(), good_to_bad.q32() + bad_to_good.q32());
        let bad = stationary.happens(&mut random);
        Self {
            good_to_bad,
            bad_to_good,
            loss_good,
            loss_bad,
            bad,
            random,
        }
    }

    #[inline]
    fn strikes(&mut self) -> bool {
        let (loss, moves) = if self.bad {
            (self.loss_bad, self.bad_to_good)
        } else {
            (self.loss_good, self.good_to_bad)
        };
        let lost = loss.happens(&mut self.random);
        if moves.happens(&mut self.random) {
            self.bad = !self.bad;
        }
        lost
    }
}

impl Default for Random {
    fn default() -> Self {
        Self::new(0, "")
    }
}

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

    fn p(value: f64) -> Probability {
        Probability::new(value).unwrap()
    }

    #[test]
    fn certainty_is_certain() {
        let mut random = Random::new(1, "x");
        assert!((0..100_000).all(|_| Probability::ONE.happens(&mut random)));
        assert!(!(0..100_000).any(|_| Probability::ZERO.happens(&mut random)));
        assert_eq!(Probability::new(1.1), None);
        assert_eq!(Probability::new(f64::NAN), None);
    }

    #[test]
    fn the_stream_is_fixed_by_seed_and_name() {
        let draw = |seed, name| {
            let mut random = Random::new(seed, name);
            [random.next_u32(), random.next_u32(), random.next_u32()]
        };
        assert_eq!(draw(1, "loss"), draw(1, "loss"));
        assert_ne!(draw(1, "loss"), draw(2, "loss"));
        assert_ne!(draw(1, "loss"), draw(1, "jitter"));
        // PCG XSH RR 64/32, calculated by hand. It must be the same on every platform and in
        // every release.
        assert_eq!(draw(1, "loss"), GOLDEN);
    }

    const GOLDEN: [u32; 3] = [3_653_764_929, 3_540_658_745, 2_299_633_377];

    #[test]
    fn bernoulli_loses_its_share() {
        let mut loss = Loss::Bernoulli {
            per: p(0.01),
            random: Random::new(11, "bernoulli"),
        };
        let lost = (0..1_000_000)
            .filter(|_| loss.strikes(Instant::ZERO, 1500))
            .count() as f64;
        assert!((lost / 1e6 - 0.01).abs() < 4.0 * (0.01f64 * 0.99 / 1e6).sqrt());
    }

    /// (p, r, 1−k, 1−h) and the packet error rate of the stationary chain.
    #[test]
    fn gilbert_elliott_meets_its_closed_form() {
        let table = [
            (0.01, 0.25, 0.0, 1.0, 0.038_461_538_5),
            (0.001, 0.1, 0.001, 0.5, 0.005_940_594_1),
            (0.05, 0.5, 0.0, 0.8, 0.072_727_272_7),
        ];
        for (gb, bg, good, bad, per) in table {
            let random = Random::new(5, "ge");
            let mut loss =
                Loss::GilbertElliott(GilbertElliott::new(p(gb), p(bg), p(good), p(bad), random));
            let n = 1_000_000;
            let lost =
                (0..n).filter(|_| loss.strikes(Instant::ZERO, 1500)).count() as f64 / f64::from(n);
            let inflation = (2.0 - gb - bg) / (gb + bg);
            let tolerance = 4.0 * (per * (1.0 - per) / f64::from(n) * inflation).sqrt();
            assert!(
                (lost - per).abs() <= tolerance,
                "{lost} for {per} ± {tolerance}"
            );
        }
    }

    #[test]
    fn bursts_last_one_over_r() {
        let random = Random::new(9, "bursts");
        let mut loss = Loss::GilbertElliott(GilbertElliott::new(
            p(0.01),
            p(0.25),
            Probability::ZERO,
            Probability::ONE,
            random,
        ));
        let (mut lost, mut bursts, mut before) = (0u32, 0u32, false);
        for _ in 0..2_000_000 {
            let now = loss.strikes(Instant::ZERO, 1500);
            lost += u32::from(now);
            bursts += u32::from(now && !before);
            before = now;
        }
        let mean = f64::from(lost) / f64::from(bursts);
        assert!((mean - 4.0).abs() < 0.08, "{mean}");
    }

    #[test]
    fn the_start_is_stationary() {
        let starts_bad = (0..100_000)
            .filter(|&seed| {
                let random = Random::new(seed, "start");
                GilbertElliott::new(p(0.01), p(0.25), p(0.0), p(1.0), random).bad
            })
            .count() as f64
            / 1e5;
        assert!((starts_bad - 0.038_461_538_5).abs() < 0.003, "{starts_bad}");
        let still = GilbertElliott::new(p(0.0), p(0.0), p(0.0), p(1.0), Random::new(1, ""));
        assert!(!still.bad);
    }

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
