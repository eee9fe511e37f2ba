//! Random loss, either independent or in Gilbert–Elliott bursts, of packets or of bits.

use pathmark_cc::Instant;

use super::bits::BitErrors;
use super::code::Code;
use super::probability::Probability;
use super::random::Random;
use super::timed::TimedGilbertElliott;

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
}
