//! Models of varying links, which generate their deliveries and changes of delay from a seed.
//!
//! | model | behaviour |
//! |---|---|
//! | cellular | the rate goes up and down at random, and sometimes stays at zero |
//! | wifi | turns of several packets at a time, whose size changes with the modulation |
//! | leo | a satellite for 15 s each, then a short outage, another rate and another delay |

use pathmark_cc::Duration;
use pathmark_link::impair::Random;
use pathmark_link::keys::{ChangeSpec, Span};
use pathmark_link::trace::{BadTrace, OPPORTUNITY, Trace};
use serde::Deserialize;

/// Maximum length of a generated recording in seconds; a longer run repeats it.
const LONGEST: f64 = 600.0;
const MILLI: f64 = 1e-3;

/// A kind of varying link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// Deliveries are a Poisson process whose rate is a Brownian motion with σ = 0.4 means per
    /// √s, in steps of 20 ms, between zero and twice the mean. A period of zero lasts 1 s on
    /// average and ends with a quarter of the mean. Apart from this end, the model is from
    /// Winstein, Sivaraman, Balakrishnan, "Stochastic Forecasts Achieve High Throughput and Low
    /// Delay over Cellular Networks", NSDI 2013, §3.1, with a bound of 1000 packets/s and σ =
    /// 200.
    Cellular,
    /// Turns at exponential intervals with a mean of 4 ms. The number of packets per turn is
    /// uniform between zero and twice its mean. This mean is 0.25, 0.5, 1 or 1.5 of the overall
    /// mean, and drawn again after exponential times with a mean of 0.5 s.
    Wifi,
    /// Another satellite every 15 s: an outage of 60 to 160 ms, then a rate of 0.5 to 1.5 means,
    /// which varies by up to a fifth in either direction each second, and a delay of 0.7 to 1.3
    /// times the link's.
    Leo,
}

/// A generated recording.
#[derive(Debug)]
pub(super) struct MadeUp {
    pub(super) trace: Trace,
    /// The changes of the link's delay.
    pub(super) delays: Vec<ChangeSpec>,
}

/// Deliveries in each millisecond, relative to the mean.
struct Course {
    shares: Vec<f64>,
    delays: Vec<ChangeSpec>,
}

/// The parameters of a recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) model: Model,
    /// Mean rate, bits per second.
    pub(super) mean: u64,
    /// Duration of the run.
    pub(super) length: Duration,
    /// The link's delay, around which `leo` varies it.
    pub(super) delay: Duration,
}

impl Wish {
    /// Generates a recording. Its mean is the requested one, apart from random variation.
    ///
    /// # Errors
    /// [`BadTrace`] if it would be empty or too long for memory.
    pub(super) fn make(&self, mut random: Random) -> Result<MadeUp, BadTrace> {
        let seconds = self.length.as_secs_f64().clamp(1.0, LONGEST);
        let millis = (seconds / MILLI).ceil() as usize;
        let packets = self.mean as f64 * seconds / 8.0 / f64::from(OPPORTUNITY);
        if packets > 60e6 {
            return Err(BadTrace::Long);
        }
        let mut course = match self.model {
            Model::Cellular => cellular(&mut random, millis),
            Model::Wifi => wifi(&mut random, millis),
            Model::Leo => leo(&mut random, millis, self.delay),
        };
        let sum: f64 = course.shares.iter().sum();
        let each = packets / sum.max(1e-9);
        let mut at = Vec::with_capacity(packets as usize);
        // Cellular deliveries are random; all others occur as soon as there is a packet's worth.
        let poisson = self.model == Model::Cellular;
        let mut left = if poisson {
            exponential(&mut random)
        } else {
            1.0
        };
        for (milli, share) in course.shares.iter().enumerate() {
            let mut due = share * each;
            while due >= left {
                due -= left;
                at.push((milli as u64 + 1) * 1_000_000);
                left = if poisson {
                    exponential(&mut random)
                } else {
                    1.0
                };
            }
            left -= due;
        }
        // The last line is also the length of the recording.
        at.push(millis as u64 * 1_000_000);
        let delays = std::mem::take(&mut course.delays);
        let trace = Trace::new(at)?;
        Ok(MadeUp { trace, delays })
    }
}

/// Uniform in 0 to 1, excluding 1.
fn uniform(random: &mut Random) -> f64 {
    f64::from(random.next_u32()) / 4_294_967_296.0
}

/// Exponential with mean 1.
pub(super) fn exponential(random: &mut Random) -> f64 {
    -libm::log(1.0 - uniform(random))
}

/// Normal with mean 0 and variance 1, as the sum of twelve uniform numbers minus six.
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0
}

fn cellular(random: &mut Random, millis: usize) -> Course {
    const STEP: usize = 20;
    const BOUND: f64 = 2.0;
    let seconds = STEP as f64 * MILLI;
    let sigma = 0.4 * libm::sqrt(seconds);
    let leave = 1.0 - libm::exp(-seconds);
    let mut rate = 1.0;
    let mut shares = Vec::with_capacity(millis);
    while shares.len() < millis {
        if rate > 0.0 {
            rate = (rate + sigma * normal(random)).max(0.0);
            if rate > BOUND {
                rate = (2.0 * BOUND - rate).max(0.0);
            }
        } else if uniform(random) < leave {
            // A single step of the motion would soon be back at zero.
            rate = 0.25;
        }
        shares.extend(std::iter::repeat_n(rate, STEP));
    }
    shares.truncate(millis);
    Course {
        shares,
        delays: Vec::new(),
    }
}

fn wifi(random: &mut Random, millis: usize) -> Course {
    const TURN: f64 = 4.0;
    const HOLD: f64 = 500.0;
    const LEVELS: [f64; 4] = [0.25, 0.5, 1.0, 1.5];
    let mut shares = vec![0.0; millis];
    let (mut now, mut level, mut until) = (0.0, 1.0, 0.0);
    while now < millis as f64 {
        if now >= until {
            let drawn = usize::try_from(random.below(LEVELS.len() as u64)).unwrap_or(0);
            level = LEVELS.get(drawn).copied().unwrap_or(1.0);
            until = now + HOLD * exponential(random);
        }
        now += TURN * exponential(random);
        if let Some(share) = shares.get_mut(now as usize) {
            *share += 2.0 * level * uniform(random);
        }
    }
    Course {
        shares,
        delays: Vec::new(),
    }
}

fn leo(random: &mut Random, millis: usize, delay: Duration) -> Course {
    const EPOCH: usize = 15_000;
    let mut shares = Vec::with_capacity(millis);
    let mut delays = Vec::new();
    while shares.len() < millis {
        let begun = shares.len();
        let level = 0.5 + uniform(random);
        let outage = 60 + usize::try_from(random.below(101)).unwrap_or(0);
        if begun > 0 {
            let step = 0.7 + 0.6 * uniform(random);
            delays.push(ChangeSpec {
                t: Span(Duration::from_millis(begun as u64)),
                rate: None,
                delay: Some(Span(delay.mul_f64(step))),
                loss: None,
                controller: None,
                restart: None,
            });
            shares.extend(std::iter::repeat_n(0.0, outage));
        }
        while shares.len() < begun + EPOCH {
            let share = level * (0.8 + 0.4 * uniform(random));
            let rest = begun + EPOCH - shares.len();
            shares.extend(std::iter::repeat_n(share, rest.min(1000)));
        }
    }
    shares.truncate(millis);
    let end = Duration::from_millis(millis as u64);
    delays.retain(|change| change.t.0 < end);
    Course { shares, delays }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(model: Model, mbit: u64, seconds: u64, seed: u64) -> MadeUp {
        let wish = Wish {
            model,
            mean: mbit * 1_000_000,
            length: Duration::from_secs(seconds),
            delay: Duration::from_millis(25),
        };
        wish.make(Random::new(seed, "test")).unwrap()
    }

    const ALL: [Model; 3] = [Model::Cellular, Model::Wifi, Model::Leo];

    #[test]
    fn the_mean_is_the_one_that_is_wanted() {
        for model in ALL {
            for seed in 1..=5 {
                let mean = made(model, 10, 60, seed).trace.mean_rate() as f64 * 8.0 / 1e6;
                assert!((mean - 10.0).abs() < 0.3, "{model:?}, seed {seed}: {mean}");
            }
        }
    }

    /// Coefficient of variation of the number of deliveries per `millis` ms.
    fn spread(trace: &Trace, millis: u64) -> f64 {
        let counts = trace.counts(millis * 1_000_000);
        let n = counts.len() as f64;
        let mean = counts.iter().sum::<u64>() as f64 / n;
        let squares = counts.iter().map(|count| (*count as f64 - mean).powi(2));
        (squares.sum::<f64>() / n).sqrt() / mean
    }

    /// Checks the table in docs/links.md, over 20 seeds.
    #[test]
    fn statistics_are_as_stated() {
        for (model, least, most) in [
            (Model::Cellular, 0.5, 0.8),
            (Model::Wifi, 0.45, 0.75),
            (Model::Leo, 0.2, 0.4),
        ] {
            let spreads = (1..=20).map(|seed| spread(&made(model, 10, 120, seed).trace, 100));
            let mean = spreads.sum::<f64>() / 20.0;
            assert!((least..most).contains(&mean), "{model:?}: {mean}");
        }
        let one_milli = spread(&made(Model::Wifi, 10, 120, 1).trace, 1);
        assert!(one_milli > 2.0, "turns come in bursts: {one_milli}");
    }

    #[test]
    fn satellites_change_delay_and_pause() {
        let made = made(Model::Leo, 50, 60, 3);
        let at: Vec<u64> = made.delays.iter().map(|c| c.t.0.as_secs()).collect();
        assert_eq!(at, [15, 30, 45]);
        for change in &made.delays {
            let delay = change.delay.unwrap().0.as_secs_f64() / 0.025;
            assert!((0.7..=1.3).contains(&delay), "{delay}");
        }
        let pauses = made.trace.counts(10_000_000);
        let empty = pauses.iter().filter(|count| **count == 0).count();
        // Three pauses of 60 to 160 ms, in periods of 10 ms.
        assert!((3 * 5..=3 * 16).contains(&empty), "{empty}");
    }

    #[test]
    fn the_same_seed_makes_the_same_and_others_do_not() {
        for model in ALL {
            assert_eq!(made(model, 5, 20, 1).trace, made(model, 5, 20, 1).trace);
            assert_ne!(made(model, 5, 20, 1).trace, made(model, 5, 20, 2).trace);
        }
    }

    #[test]
    fn too_much_is_refused() {
        let wish = Wish {
            model: Model::Leo,
            mean: 1_000_000_000_000,
            length: Duration::from_secs(100),
            delay: Duration::ZERO,
        };
        let made = wish.make(Random::new(1, "test"));
        assert_eq!(made.unwrap_err(), BadTrace::Long);
    }

    /// Returns utilization, and mean queue in ms of the mean rate, for a sender with exact but
    /// late feedback. After one round trip, it gets the link's deliveries over 100 ms and its
    /// queue. Its target is `target` ms of queue. The queue holds at most 250 packets.
    fn late_feedback(offered: &[f64], round_trip: usize, target: f64) -> (f64, f64) {
        const MEAN_OVER: usize = 100;
        let millis = offered.len();
        let mean = offered.iter().sum::<f64>() / millis as f64;
        let (mut queue, mut sent, mut queues) = (0.0f64, 0.0, Vec::with_capacity(millis));
        for (now, room) in offered.iter().enumerate() {
            let then = now
                .checked_sub(round_trip)
                .filter(|then| *then >= MEAN_OVER);
            let wish = then.map_or(mean, |then| {
                let carried: f64 = offered[then - MEAN_OVER..then].iter().sum();
                let missing = target * mean - queues[then];
                carried / MEAN_OVER as f64 + missing / (MEAN_OVER + round_trip) as f64
            });
            queue = (queue + wish.max(0.0)).min(250.0);
            let leaves = queue.min(*room);
            queue -= leaves;
            sent += leaves;
            queues.push(queue);
        }
        let waiting = queues.iter().sum::<f64>() / millis as f64 / mean;
        (sent / (mean * millis as f64), waiting)
    }

    /// The bound for Wi-Fi in docs/links.md: over a round trip of 100 ms, a sender with such
    /// late feedback needs about 65 ms of queue to fill nine tenths of the link.
    #[test]
    fn wifi_is_faster_than_a_round_trip() {
        let over = |target: f64| {
            let runs = (1..=6).map(|seed| {
                let counts = made(Model::Wifi, 10, 60, seed).trace.counts(1_000_000);
                let offered: Vec<f64> = counts.iter().map(|count| *count as f64).collect();
                late_feedback(&offered, 100, target)
            });
            let (used, waiting) = runs.fold((0.0, 0.0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
            (used / 6.0, waiting / 6.0)
        };
        let (used, waiting) = over(0.0);
        assert!((0.78..0.87).contains(&used), "{used}");
        assert!((30.0..50.0).contains(&waiting), "{waiting}");
        let (used, waiting) = over(50.0);
        assert!((0.88..0.95).contains(&used), "{used}");
        assert!((60.0..85.0).contains(&waiting), "{waiting}");
    }
}
