//! Builds a link from its description.

use std::sync::Arc;

use pathmark_cc::{Duration, Instant, LinkAlgorithm};

use super::link::{JitterSpec, LimitSpec, LinkSpec, QueueKind, QueueSpec};
use super::loss::LossSpec;
use super::units::{Chance, RateValue};
use crate::impair::{
    BitErrors, BitRates, GilbertElliott, Loss, Random, TimedGilbertElliott, bit_error_rate,
};
use crate::link::{Change, Link, LinkConfig, Restart, Schedule};
use crate::port::{Port, Rebuild};
use crate::queue::{
    BadRed, CoDel, CoDelConfig, DropTail, DualPi2, DualPi2Config, Limit, Queue, Red,
};
use crate::separation::Separation;
use crate::shaper::Shaper;
use crate::wire::{Jitter, WireConfig};

/// Packets are only spaced down to this time, because the driver does not wake up more often.
const SMOOTH: Duration = Duration::from_micros(100);
/// Default round-trip time for the size of a queue without a limit.
const DEFAULT_RTT: Duration = Duration::from_millis(200);
/// Size of a DualPI2 queue without a limit, at the link's rate (RFC 9332, appendix A.1).
const DUALPI2_ROOM: Duration = Duration::from_millis(250);
/// Size of a queue without a limit on a link without a rate.
const DEFAULT_PACKETS: u64 = 1000;
/// Assumed rate of a link until a measurement exists: 1 Mbit/s, in bytes per second.
const UNKNOWN_RATE: u64 = 125_000;
/// Minimum size to which a bandwidth-delay product is rounded up, in bytes.
const LEAST_BDP: u64 = 2 * 1514;

/// The surroundings of a link.
#[derive(Clone, Copy, Debug)]
pub struct LinkContext<'a> {
    /// The time at which it comes up.
    pub now: Instant,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Its name. Links with different names draw different random numbers.
    pub name: &'a str,
    /// The round-trip time for `bdp`, unless the queue specifies one.
    pub rtt: Option<Duration>,
}

impl LinkContext<'_> {
    fn random(&self, component: &str) -> Random {
        Random::new(self.seed, &format!("{}/{component}", self.name))
    }
}

/// Builds a link from `spec`.
///
/// # Errors
/// [`BadRed`] for impossible RED parameters.
pub fn build_link<P: Send + 'static>(
    spec: &LinkSpec,
    context: &LinkContext<'_>,
) -> Result<Link<P>, BadRed> {
    let port = build_port(spec, context)?;
    let link = Link::new(LinkConfig {
        port,
        wire: build_wire(spec, context),
        schedule: build_schedule(spec, context),
    });
    let link = link.hand_over_early(SMOOTH);
    if spec.at.iter().all(|change| change.restart.is_none()) {
        return Ok(link);
    }
    let (spec, name) = (spec.clone(), context.name.to_owned());
    let (seed, rtt) = (context.seed, context.rtt);
    Ok(link.with_rebuild(Rebuild::new(move |now| {
        let name = &name;
        let context = LinkContext {
            now,
            seed,
            name,
            rtt,
        };
        build_port(&spec, &context).ok()
    })))
}

/// Builds the port of a link in its state when its router starts, at `context.now`.
fn build_port<P: Send + 'static>(
    spec: &LinkSpec,
    context: &LinkContext<'_>,
) -> Result<Port<P>, BadRed> {
    let now = context.now;
    let rate = spec.rate.map(|rate| rate.bytes());
    let limit = spec.limit(context.rtt);
    let shaper = match &spec.trace {
        Some(trace) => Shaper::following(Arc::clone(trace), now),
        None => Shaper::new(rate),
    };
    let foreign = build_queue(&spec.queue, limit, rate, context)?;
    let mut port = if spec.separate() {
        // Feedback keeps the first class's queue short, so that a limit is sufficient.
        let heard = Box::new(DropTail::new(limit));
        Port::separated(now, Separation::new(heard, foreign, limit), shaper)
    } else {
        Port::new(now, foreign, shaper)
    };
    port.set_overhead(spec.frame_overhead);
    port.set_corruption(spec.corruption.ppm);
    port.set_capacity(now, spec.capacity.map(|capacity| capacity.bytes()));
    if spec.follow {
        port.follow(now, UNKNOWN_RATE);
    }
    port.set_controller(now, spec.controller(context));
    Ok(port)
}

/// Builds the wire of a link from `spec`.
pub fn build_wire(spec: &LinkSpec, context: &LinkContext<'_>) -> WireConfig {
    let jitter = spec.jitter.map(|JitterSpec { max, reorder }| Jitter {
        max: max.0,
        reorder,
        random: context.random("jitter"),
    });
    WireConfig {
        delay: spec.delay.0,
        jitter,
        loss: spec
            .loss
            .map_or(Loss::None, |loss| build_loss(&loss, context)),
        ..WireConfig::default()
    }
}

/// Builds the scheduled changes in `spec`, starting at `context.now`.
pub fn build_schedule(spec: &LinkSpec, context: &LinkContext<'_>) -> Schedule {
    let changes = spec.at.iter().flat_map(|change| {
        let what = Change {
            rate: change.rate.map(|rate| rate.bytes()),
            delay: change.delay.map(|delay| delay.0),
            loss: change.loss.map(|loss| build_loss(&loss, context)),
            controller: change.controller.clone().map(|law| (law, context.seed)),
            restart: change.restart.map(|_| Restart::Down),
        };
        let up = change.restart.map(|takes| {
            let up = Change {
                restart: Some(Restart::Up),
                ..Change::default()
            };
            (change.t.0.saturating_add(takes.0), up)
        });
        [Some((change.t.0, what)), up].into_iter().flatten()
    });
    Schedule::new(context.now, changes)
}

fn build_loss(spec: &LossSpec, context: &LinkContext<'_>) -> Loss {
    match *spec {
        LossSpec::None => Loss::None,
        LossSpec::Bernoulli { per } => Loss::Bernoulli {
            per: per.probability(),
            random: context.random("loss"),
        },
        LossSpec::GilbertElliott {
            p_good_bad,
            p_bad_good,
            per_good,
            per_bad,
        } => Loss::GilbertElliott(GilbertElliott::new(
            p_good_bad.probability(),
            p_bad_good.probability(),
            per_good.probability(),
            per_bad.probability(),
            context.random("loss"),
        )),
        LossSpec::GilbertElliottTime {
            good,
            bad,
            per_good,
            per_bad,
        } => Loss::Timed(TimedGilbertElliott::new(
            good.0.0,
            bad.0.0,
            per_good.probability(),
            per_bad.probability(),
            context.random("loss"),
        )),
        // Packets in the bad state are lost: r = 1 / burst, p = PER · r / (1 − PER).
        LossSpec::Bursts { per, burst } => {
            let bad_good = 1.0 / burst.0;
            let good_bad = (per.0 * bad_good / (1.0 - per.0)).min(1.0);
            let chance = |p| Chance(p).probability();
            Loss::GilbertElliott(GilbertElliott::new(
                chance(good_bad),
                chance(bad_good),
                chance(0.0),
                chance(1.0),
                context.random("loss"),
            ))
        }
        LossSpec::BitErrors {
            ber_good,
            ber_bad,
            p_good_bad,
            p_bad_good,
            fec,
        } => {
            let rates = BitRates {
                good_to_bad: p_good_bad.0,
                bad_to_good: p_bad_good.0,
                error_good: ber_good.0,
                error_bad: ber_bad.0,
            };
            let code = fec.map(|fec| fec.0);
            Loss::Bits(BitErrors::new(rates, code, context.random("loss")))
        }
        LossSpec::Fading {
            snr,
            fade,
            antennas,
            p_good_bad,
            p_bad_good,
            fec,
        } => {
            let rates = BitRates {
                good_to_bad: p_good_bad.0,
                bad_to_good: p_bad_good.0,
                error_good: bit_error_rate(snr.0, antennas.0),
                error_bad: bit_error_rate(snr.0 - fade.0, antennas.0),
            };
            let code = fec.map(|fec| fec.0);
            Loss::Bits(BitErrors::new(rates, code, context.random("loss")))
        }
    }
}

fn build_queue<P: Send + 'static>(
    spec: &QueueSpec,
    limit: Limit,
    rate: Option<u64>,
    context: &LinkContext<'_>,
) -> Result<Box<dyn Queue<P>>, BadRed> {
    match spec.kind {
        QueueKind::DropTail => return Ok(Box::new(DropTail::new(limit))),
        QueueKind::CoDel => {
            let usual = CoDelConfig::new(limit);
            return Ok(Box::new(CoDel::new(CoDelConfig {
                target: spec.target.map_or(usual.target, |target| target.0),
                interval: spec.interval.map_or(usual.interval, |interval| interval.0),
                limit,
            })));
        }
        QueueKind::DualPi2 => {
            let usual = DualPi2Config::new(limit);
            return Ok(Box::new(DualPi2::new(DualPi2Config {
                target: spec.target.map_or(usual.target, |target| target.0),
                step: spec.step.map_or(usual.step, |step| step.0),
                limit,
            })));
        }
        QueueKind::Red => {}
    }
    let red = Red::new(spec.red(limit), rate, context.random("red"))?;
    Ok(Box::new(red))
}

impl LinkSpec {
    /// The queue's limit; `rtt` is the round-trip time for `bdp`, unless the queue specifies
    /// one.
    pub fn limit(&self, rtt: Option<Duration>) -> Limit {
        let rtt = match (self.queue.kind, self.queue.limit) {
            (QueueKind::DualPi2, None) => Some(DUALPI2_ROOM),
            _ => self.queue.rtt.map(|rtt| rtt.0).or(rtt),
        };
        let bdp = |milli| match self.rate {
            None => Limit::Packets(DEFAULT_PACKETS),
            Some(rate) => match Limit::bdp(milli, rate.bytes(), rtt.unwrap_or(DEFAULT_RTT)) {
                Limit::Bytes(bytes) => Limit::Bytes(bytes.max(LEAST_BDP)),
                packets @ Limit::Packets(_) => packets,
            },
        };
        match self.queue.limit {
            Some(LimitSpec::MilliBdp(milli)) => bdp(milli),
            Some(LimitSpec::Packets(packets)) => Limit::Packets(packets),
            Some(LimitSpec::Bytes(bytes)) => Limit::Bytes(bytes),
            None => bdp(1000),
        }
    }

    /// Returns true if packets with feedback are separated from others: as configured, otherwise
    /// if a control law with feedback is in use.
    pub fn separate(&self) -> bool {
        let law = self.controller.as_ref();
        let feedback = law.is_some_and(LinkAlgorithm::has_feedback);
        self.queue.separate.unwrap_or(feedback)
    }

    /// The control law, with the lower of rate and capacity; `None` without one.
    pub fn controller(
        &self,
        context: &LinkContext<'_>,
    ) -> Option<Box<dyn pathmark_cc::LinkController>> {
        let least = [self.rate, self.capacity].into_iter().flatten();
        let least = least.min_by_key(|rate: &RateValue| rate.bytes());
        let (law, rate) = (self.controller.as_ref()?, least?);
        let rate = if self.follow {
            UNKNOWN_RATE
        } else {
            rate.bytes()
        };
        let seed = u64::from(context.random("controller").next_u32());
        Some(law.controller(context.now, rate, seed))
    }
}
