//! Bit errors: a Gilbert–Elliott chain that moves with every bit, and their correction by a
//! block code; and the rate of bit errors of a fading radio link, by its antennas.

use super::Random;
use super::code::Code;

/// Probabilities of a chain of bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BitRates {
    /// From the good to the bad state, per bit.
    pub good_to_bad: f64,
    /// From the bad to the good state, per bit.
    pub bad_to_good: f64,
    /// Probability of a bit error in the good state.
    pub error_good: f64,
    /// Probability of a bit error in the bad state.
    pub error_bad: f64,
}

/// A link with bursts of bit errors. Each bit is sent in the chain's current state, after which
/// the chain moves. It starts from its stationary distribution, and does not move between
/// packets.
///
/// No random numbers are drawn for single bits. Because times in a state and gaps between errors
/// are geometric, a packet only costs as many draws as it has wrong bytes and changes of state.
/// Logarithms come from `libm`, so that every machine draws the same numbers.
#[derive(Clone, Debug)]
pub struct BitErrors {
    rates: BitRates,
    code: Option<Code>,
    bad: bool,
    /// Remaining bits in this state.
    stay: u64,
    /// Correct bits among them before the next error.
    gap: u64,
    random: Random,
}

impl BitErrors {
    /// Creates a link whose packets are protected by `code`, if any. Probabilities outside 0…1
    /// are clamped.
    pub fn new(rates: BitRates, code: Option<Code>, random: Random) -> Self {
        let mut link = Self {
            rates,
            code,
            bad: false,
            stay: 0,
            gap: 0,
            random,
        };
        let (p, r) = (rates.good_to_bad, rates.bad_to_good);
        link.bad = p > 0.0 && link.uniform() * (p + r) <= p;
        link.enter();
        link
    }

    /// The link's code.
    pub fn code(&self) -> Option<Code> {
        self.code
    }

    /// Whether the next packet, of `bytes` before coding, cannot be corrected.
    pub(super) fn strikes(&mut self, bytes: u32) -> bool {
        let Some(code) = self.code else {
            return self.wrong_bytes(bytes, 0) > 0;
        };
        let mut lost = false;
        // All words are sent, even if an earlier one is lost.
        for word in code.words(bytes) {
            lost |= self.wrong_bytes(word.bytes, word.corrects) > word.corrects;
        }
        lost
    }

    /// Sends `bytes` bytes and returns the number of wrong ones, counting only up to `enough` +
    /// 1.
    fn wrong_bytes(&mut self, bytes: u32, enough: u32) -> u32 {
        let bits = 8 * u64::from(bytes);
        // Several errors in a byte count once, so errors count from `fresh` on. Because gaps are
        // memoryless, they can start there.
        let (mut at, mut fresh, mut wrong) = (0, 0, 0);
        while at < bits {
            let end = at + self.stay.min(bits - at);
            let mut here = at.max(fresh);
            while wrong <= enough && here < end {
                let error = here.saturating_add(self.gap);
                if error >= end {
                    self.gap -= end - here;
                    break;
                }
                wrong += 1;
                fresh = (error / 8 + 1) * 8;
                here = fresh;
                self.gap = self.draw_gap();
            }
            self.stay -= end - at;
            at = end;
            if self.stay == 0 {
                self.bad = !self.bad;
                self.enter();
            }
        }
        wrong
    }

    fn enter(&mut self) {
        let leave = if self.bad {
            self.rates.bad_to_good
        } else {
            self.rates.good_to_bad
        };
        self.stay = self.geometric(leave).saturating_add(1);
        self.gap = self.draw_gap();
    }

    fn draw_gap(&mut self) -> u64 {
        let error = if self.bad {
            self.rates.error_bad
        } else {
            self.rates.error_good
        };
        self.geometric(error)
    }

    /// Number of failures before the first success of probability `p`.
    fn geometric(&mut self, p: f64) -> u64 {
        if p >= 1.0 {
            return 0;
        }
        if p <= 0.0 {
            return u64::MAX;
        }
        // Saturates if the quotient exceeds 64 bits.
        (libm::log(self.uniform()) / libm::log1p(-p)) as u64
    }

    /// Uniform in (0, 1], in steps of 2^-53.
    fn uniform(&mut self) -> f64 {
        let high = u64::from(self.random.next_u32()) << 21;
        let low = u64::from(self.random.next_u32()) >> 11;
        ((high | low) + 1) as f64 / 9_007_199_254_740_992.0
    }
}

/// Antennas of the sender and of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Antennas {
    /// They share the power. With an orthogonal space-time block code, each is a separate path.
    pub send: u8,
    /// Their signals are combined.
    pub receive: u8,
}

impl Antennas {
    /// More per side than any full-rate block code supports.
    pub const MOST: u8 = 8;
}

/// The bit error rate at a mean signal-to-noise ratio of `snr_db` per bit: coherent QPSK over
/// independent Rayleigh fading on each of send × receive paths, with maximum-ratio combining
/// (Proakis, Digital Communications, §14.4).
pub fn bit_error_rate(snr_db: f64, antennas: Antennas) -> f64 {
    let ways = u32::from(antennas.send.max(1)) * u32::from(antennas.receive.max(1));
    let snr = libm::pow(10.0, snr_db / 10.0) / f64::from(antennas.send.max(1));
    let mu = (snr / (1.0 + snr)).sqrt();
    // (1 − µ) / 2 without cancellation, because 1 − µ² = 1 / (1 + SNR).
    let wrong = 0.5 / ((1.0 + snr) * (1.0 + mu));
    let right = 1.0 - wrong;
    let (mut sum, mut term) = (0.0, 1.0);
    for k in 0..ways {
        sum += term;
        // C(ways − 1 + k, k) · right^k, each computed from the previous one.
        term *= right * f64::from(ways + k) / f64::from(k + 1);
    }
    libm::pow(wrong, f64::from(ways)) * sum
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::impair::Redundancy;

    /// Computes the probability that a word has more than `corrects` wrong bytes, bit by bit over
    /// the state, the wrong bytes so far, and whether this byte is wrong. Returns this probability
    /// with the distribution of the state.
    fn word_lost(rates: BitRates, bytes: u32, corrects: usize) -> f64 {
        let BitRates {
            good_to_bad: p,
            bad_to_good: r,
            ..
        } = rates;
        let stay = [[1.0 - p, p], [r, 1.0 - r]];
        let error = [rates.error_good, rates.error_bad];
        let bad = if p == 0.0 { 0.0 } else { p / (p + r) };
        // law[state][wrong][this byte is wrong]
        let mut law = vec![[[0.0f64; 2]; 2]; corrects + 2];
        law[0][0][0] = 1.0 - bad;
        law[0][1][0] = bad;
        for bit in 0..8 * bytes {
            let mut next = vec![[[0.0f64; 2]; 2]; corrects + 2];
            for (wrong, states) in law.iter().enumerate() {
                for (state, flags) in states.iter().enumerate() {
                    for (flag, mass) in flags.iter().enumerate() {
                        let flag = if bit % 8 == 0 { 0 } else { flag };
                        for to in 0..2 {
                            let moved = mass * stay[state][to];
                            let more = if flag == 1 { wrong } else { wrong + 1 };
                            next[more.min(corrects + 1)][to][1] += moved * error[state];
                            next[wrong][to][flag] += moved * (1.0 - error[state]);
                        }
                    }
                }
            }
            law = next;
        }
        law[corrects + 1].iter().flatten().sum()
    }

    /// Probabilities of leaving the good and the bad state, and of bit errors in them.
    const fn bit_rates(good_to_bad: f64, bad_to_good: f64, good: f64, bad: f64) -> BitRates {
        BitRates {
            good_to_bad,
            bad_to_good,
            error_good: good,
            error_bad: bad,
        }
    }

    /// Share of lost packets among `n` that are far apart, each with a separate generator.
    fn measured(rates: BitRates, code: Option<Code>, bytes: u32, n: u64) -> f64 {
        let lost = (0..n).filter(|&seed| {
            let mut link = BitErrors::new(rates, code, Random::new(seed, "bits"));
            link.strikes(bytes)
        });
        lost.count() as f64 / n as f64
    }

    fn agree(measured: f64, exact: f64, n: u64) {
        let tolerance = 4.0 * (exact * (1.0 - exact) / n as f64).sqrt();
        assert!(
            (measured - exact).abs() <= tolerance,
            "{measured} for {exact} ± {tolerance}"
        );
    }

    const BURSTS: BitRates = bit_rates(1e-5, 1e-3, 1e-7, 1e-3);

    /// Closed forms: π·(D·P)^L·1, computed independently, and 1 − (1 − e)^L.
    #[test]
    fn packets_without_a_code_meet_their_closed_form() {
        let exact = 0.043_817_278_503;
        assert!((word_lost(BURSTS, 1040, 0) - exact).abs() < 1e-9);
        agree(measured(BURSTS, None, 1040, 200_000), exact, 200_000);
        let even = bit_rates(0.0, 1.0, 1e-5, 0.0);
        let exact = 1.0 - (1.0f64 - 1e-5).powi(8320);
        agree(measured(even, None, 1040, 100_000), exact, 100_000);
    }

    /// Compares words with the exact sum over all error patterns.
    #[test]
    fn words_of_a_code_meet_the_exact_sum() {
        let rates = bit_rates(2e-4, 2e-3, 1e-5, 0.05);
        let code = |corrects| Code {
            block: NonZeroU32::new(255),
            redundancy: Redundancy::Corrects(corrects),
            short: None,
        };
        for (corrects, data) in [(0, 255), (8, 239), (16, 60)] {
            let bytes = data + 2 * corrects;
            let exact = word_lost(rates, bytes, corrects as usize);
            assert!((0.01..0.9).contains(&exact), "{exact}");
            agree(
                measured(rates, Some(code(corrects)), data, 40_000),
                exact,
                40_000,
            );
        }
    }

    /// A code of the same rate helps a long packet more than a short one, which tolerates fewer
    /// wrong bytes.
    #[test]
    fn short_packets_stand_fewer_errors() {
        let rates = bit_rates(1e-4, 2e-2, 1e-6, 0.2);
        let code = Code {
            block: None,
            redundancy: Redundancy::Rate(950_000),
            short: None,
        };
        let data = measured(rates, Some(code), 1500, 20_000);
        let short = measured(rates, Some(code), 60, 20_000);
        agree(short, word_lost(rates, 64, 2), 20_000);
        agree(data, word_lost(rates, 1579, 39), 20_000);
        assert!(short > 2.0 * data, "{short} against {data}");
        let better = Code {
            short: Some(crate::impair::Short {
                below: 128,
                redundancy: Redundancy::Rate(500_000),
            }),
            ..code
        };
        let protected = measured(rates, Some(better), 60, 20_000);
        assert!(protected < short / 4.0, "{protected} against {short}");
    }

    /// In one long stream, the chain's memory extends from packet to packet, but its
    /// distribution must stay stationary.
    #[test]
    fn a_stream_of_packets_keeps_the_law() {
        let mut link = BitErrors::new(BURSTS, None, Random::new(3, "stream"));
        let n = 400_000;
        let lost = (0..n).filter(|_| link.strikes(1040)).count() as f64 / f64::from(n);
        // Stays of a thousand bits are shorter than a packet, so twice the deviation of
        // independent packets covers them.
        let exact = 0.043_817_278_503;
        let tolerance = 8.0 * (exact * (1.0 - exact) / f64::from(n)).sqrt();
        assert!((lost - exact).abs() < tolerance, "{lost}");
    }

    #[test]
    fn certainties_are_certain() {
        let rates = |good_to_bad, good, bad| bit_rates(good_to_bad, 0.0, good, bad);
        let lost = |rates, bytes| BitErrors::new(rates, None, Random::new(1, "x")).strikes(bytes);
        assert!(!lost(rates(0.0, 0.0, 1.0), u32::MAX / 8));
        assert!(lost(rates(1.0, 0.0, 1.0), 1), "nothing leads back to good");
        assert!(lost(rates(0.0, 1.0, 0.0), 1));
        assert!(!lost(rates(0.0, 1.0, 1.0), 0), "nothing to go wrong");
    }

    fn at(snr_db: f64, send: u8, receive: u8) -> f64 {
        bit_error_rate(snr_db, Antennas { send, receive })
    }

    /// Polynomials in p = ½ (1 − √(γ / (1 + γ))) for one, two and four paths.
    #[test]
    fn known_answers() {
        let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
        for snr_db in [0.0, 10.0, 20.0] {
            let p = |ratio: f64| {
                let snr = ratio * 10f64.powf(snr_db / 10.0);
                0.5 * (1.0 - (snr / (1.0 + snr)).sqrt())
            };
            let two = |p: f64| p * p * (3.0 - 2.0 * p);
            let four = |p: f64| p.powi(4) * (35.0 - 84.0 * p + 70.0 * p * p - 20.0 * p.powi(3));
            close(at(snr_db, 1, 1), p(1.0));
            close(at(snr_db, 1, 2), two(p(1.0)));
            close(at(snr_db, 2, 1), two(p(0.5)));
            close(at(snr_db, 2, 2), four(p(0.5)));
        }
        close(at(10.0, 1, 1), 0.023_268_705_377_203_72);
        // Asymptotically, 1 / (4 γ) and 35 / (4 γ / 2)^4.
        assert!((at(60.0, 1, 1) / 2.5e-7 - 1.0).abs() < 1e-5);
        assert!((at(60.0, 2, 2) / (35.0 / 2e6f64.powi(4)) - 1.0).abs() < 1e-5);
    }

    /// "1x1, 2x1, 1x2 and 2x2 in ascending order" (VCP Linux paper, §IV-B).
    #[test]
    fn more_antennas_err_less() {
        for snr_db in 0..50 {
            let rates = [(1, 1), (2, 1), (1, 2), (2, 2)].map(|(s, r)| at(f64::from(snr_db), s, r));
            assert!(rates.is_sorted_by(|a, b| a > b), "{snr_db} dB: {rates:?}");
        }
    }
}
