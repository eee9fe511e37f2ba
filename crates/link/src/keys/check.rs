//! Checks that the types of a link's keys cannot express, for all programs that read them.

use std::ops::Range;
use std::sync::Arc;

use pathmark_cc::{Duration, LinkAlgorithm};
use toml::Spanned;

use super::LinkKeys;
use super::file::{Fault, Source};
use super::link::{ChangeSpec, LimitSpec, LinkSpec, QueueSpec};
use super::units::RateValue;
use crate::queue::Limit;
use crate::trace::Trace;

/// The program that reads a link's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// A router, for one of its ports.
    Router,
    /// The emulator, for a link of a scenario.
    Emulator,
}

impl Reader {
    /// The noun for a table with these keys.
    const fn noun(self) -> &'static str {
        match self {
            Self::Router => "port",
            Self::Emulator => "link",
        }
    }
}

/// The rate of a link, and the capacity that its control law gets.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// Rate, or a trace's mean; absent: unlimited.
    pub rate: Option<RateValue>,
    /// When packets can leave, if the rate is not constant.
    pub trace: Option<Arc<Trace>>,
    /// The capacity for the control law.
    pub capacity: Option<RateValue>,
    /// True if the control law gets a measurement of the recent capacity.
    pub follow: bool,
    /// Changes that are part of a trace.
    pub changes: Vec<ChangeSpec>,
}

/// The keys of one table, with the inputs that their errors and limits depend on.
#[derive(Clone, Debug)]
pub struct LinkCheck<'a, R, C> {
    /// The program that reads them.
    pub reader: Reader,
    /// Their file.
    pub source: &'a Source<'a>,
    /// The keys.
    pub keys: &'a LinkKeys<R, C>,
    /// The place of faults that concern no single key.
    pub place: Range<usize>,
}

impl<R, C> LinkCheck<'_, R, C> {
    /// Checks the keys and builds a description of the link; `pace` contains their rate and
    /// capacity. The queue should be checked by [`queue`](Self::queue) once round-trip times are
    /// known.
    ///
    /// # Errors
    /// A [`Fault`] if the keys do not fit together.
    pub fn link(&self, pace: Pace) -> Result<LinkSpec, Fault> {
        self.rates(&pace)?;
        self.laws(&pace)?;
        let keys = self.keys;
        let mut at = pace.changes;
        at.extend(keys.at.iter().map(|change| change.get_ref().clone()));
        let mut link = LinkSpec {
            rate: pace.rate,
            trace: pace.trace,
            capacity: pace.capacity,
            follow: pace.follow,
            delay: keys.delay.unwrap_or_default(),
            queue: value(keys.queue.as_ref()),
            controller: keys
                .controller
                .as_ref()
                .and_then(|law| law.get_ref().0.clone()),
            corruption: value(keys.corruption.as_ref()),
            frame_overhead: keys.frame_overhead.unwrap_or(0),
            loss: keys.loss,
            jitter: keys.jitter,
            at,
        };
        if let Some(grant) = &keys.grant
            && let Err(message) = link.set_grants(*grant.get_ref())
        {
            return self.fail(grant.span(), message);
        }
        match (link.bad_corruption(), &keys.corruption) {
            (Some(message), Some(given)) => self.fail(given.span(), message),
            _ => Ok(link),
        }
    }

    fn fail<T>(&self, span: Range<usize>, message: impl Into<String>) -> Result<T, Fault> {
        Err(self.source.locate(Some(span), message))
    }

    fn rates(&self, pace: &Pace) -> Result<(), Fault> {
        let keys = self.keys;
        let noun = self.reader.noun();
        let own = keys.rate.as_ref().map(Spanned::span);
        let own = own.unwrap_or_else(|| self.place.clone());
        let capacity = keys.capacity.as_ref().map(Spanned::span);
        let capacity = capacity.unwrap_or_else(|| self.place.clone());
        if self.reader == Reader::Router {
            let given = [(pace.rate, own.clone()), (pace.capacity, capacity.clone())];
            let later = keys.at.iter();
            let later = later.map(|change| (change.get_ref().rate, change.span()));
            for (rate, span) in given.into_iter().chain(later) {
                self.unit(rate, span)?;
            }
        }
        let later = keys.at.iter().any(|at| at.get_ref().rate.is_some());
        if pace.trace.is_some() && later {
            return self.fail(
                own,
                "the rate follows a trace: leave `rate` out of `at`, or write a rate here",
            );
        }
        if pace.rate.is_some_and(|rate| rate.bytes() == 0) {
            let message =
                format!("the rate must be at least 8bit; leave it out for an unlimited {noun}");
            return self.fail(own, message);
        }
        if pace.capacity.is_some_and(|capacity| capacity.bytes() == 0) {
            return self.fail(
                capacity,
                "the capacity must be at least 8bit; leave it out where `rate` says all",
            );
        }
        if pace.follow && pace.rate.is_none() {
            return self.fail(
                capacity,
                "a link without a rate has no bound: add `rate` or `capacity`",
            );
        }
        Ok(())
    }

    /// A number without a unit would mean bits per second, which is probably unintended.
    fn unit(&self, rate: Option<RateValue>, span: Range<usize>) -> Result<(), Fault> {
        let Some(RateValue { bits }) = rate.filter(|rate| rate.bits > 0) else {
            return Ok(());
        };
        if !self.source.is_bare(&span) {
            return Ok(());
        }
        let meant = RateValue {
            bits: bits.saturating_mul(1_000_000),
        };
        let message = format!(
            "{bits} what? a rate has a unit: write \"{bits}bit\" for {bits} bits per second, or \
             \"{meant}\""
        );
        self.fail(span, message)
    }

    /// Checks the requirements of control laws, now and after each scheduled change.
    fn laws(&self, pace: &Pace) -> Result<(), Fault> {
        let keys = self.keys;
        let noun = self.reader.noun();
        let own = keys.controller.iter();
        let own = own.filter_map(|law| Some((law.get_ref().0.as_ref()?, law.span())));
        let later = keys.at.iter();
        let later = later.filter_map(|at| Some((at.get_ref().controller.as_ref()?, at.span())));
        // An emulated link may use later laws without a rate; they then measure no load.
        let later = later.filter(|_| self.reader == Reader::Router);
        let laws: Vec<(&LinkAlgorithm, Range<usize>)> = own.chain(later).collect();
        if let (Some((_, span)), None, None) = (laws.first(), pace.rate, pace.capacity) {
            let message = format!(
                "a controller measures load against the {noun}'s rate: add `rate`, or `capacity` \
                 if the link behind the port is the slow one"
            );
            return self.fail(span.clone(), message);
        }
        if self.reader == Reader::Emulator {
            return Ok(());
        }
        if let Some((_, span)) = laws.iter().find(|(law, _)| law.exact_estimate().is_some()) {
            return self.fail(
                span.clone(),
                "only the emulator knows what clouds have left: leave `estimate=exact` out",
            );
        }
        if let (Some(capacity), true) = (&keys.capacity, laws.is_empty()) {
            return self.fail(
                capacity.span(),
                "only a control law reckons with a capacity: add `controller`",
            );
        }
        match keys.at.iter().find(|at| at.get_ref().restart.is_some()) {
            Some(change) => self.fail(
                change.span(),
                "only emulated routers restart at a given time: leave `restart` out",
            ),
            None => Ok(()),
        }
    }

    /// Checks the queue of `link` against its largest packet, in bytes. `rtt` is the round-trip
    /// time for `bdp`, unless the queue specifies one.
    ///
    /// # Errors
    /// A [`Fault`] if the queue cannot work.
    pub fn queue(&self, link: &LinkSpec, packet: u64, rtt: Option<Duration>) -> Result<(), Fault> {
        let Some(given) = &self.keys.queue else {
            return Ok(());
        };
        let fail = |message: &str| self.fail(given.span(), message);
        let queue = given.get_ref();
        let routes = self.reader == Reader::Router;
        if let Some(LimitSpec::MilliBdp(_)) = queue.limit {
            if routes && queue.rtt.is_none() {
                return fail(
                    "`bdp` needs to know the path's round-trip time: also set rtt = \"100ms\"",
                );
            }
            if link.rate.is_none() {
                let noun = self.reader.noun();
                return fail(&format!(
                    "`bdp` needs the {noun}'s rate: add `rate`, or write the limit in packets or \
                     bytes"
                ));
            }
        }
        match self.room(queue, link, rtt) {
            Some(Limit::Packets(0)) => {
                return fail("a queue needs room for a packet: raise `limit`");
            }
            Some(Limit::Bytes(bytes)) if bytes < packet => {
                return fail(if routes {
                    "the queue cannot hold one packet of the port's MTU: raise `limit`"
                } else {
                    "the queue cannot hold one packet: raise `limit` (a bare rate is in bit/s)"
                });
            }
            _ => {}
        }
        match queue.unfit() {
            Some(message) => fail(&message),
            None => Ok(()),
        }
    }

    /// The requested room of a queue, before rounding up to a working size. `None`: it is always
    /// rounded up.
    fn room(&self, queue: &QueueSpec, link: &LinkSpec, rtt: Option<Duration>) -> Option<Limit> {
        match (queue.limit, self.reader) {
            (Some(LimitSpec::Packets(packets)), _) => Some(Limit::Packets(packets)),
            (Some(LimitSpec::Bytes(bytes)), _) => Some(Limit::Bytes(bytes)),
            (Some(LimitSpec::MilliBdp(0)), Reader::Router) => Some(Limit::Packets(0)),
            (_, Reader::Router) => None,
            (Some(LimitSpec::MilliBdp(milli)), Reader::Emulator) => {
                let rtt = queue.rtt.map(|rtt| rtt.0).or(rtt).unwrap_or(Duration::MAX);
                Some(Limit::bdp(milli, link.rate?.bytes(), rtt))
            }
            (None, Reader::Emulator) => Some(link.limit(rtt)),
        }
    }
}

/// The given value or its default.
fn value<T: Copy + Default>(given: Option<&Spanned<T>>) -> T {
    given.map(|given| *given.get_ref()).unwrap_or_default()
}
