//! Time series of the changes since the last point.
//!
//! A quantity over time, with its time-weighted mean and its maximum.
//!
//! Rates, times and queues in the units of results.

use super::Engine;
use super::endpoint::Endpoint;
use crate::observe::{FlowPoint, LawPoint, LinkPoint, Observer, Sample};
use crate::result::{MeanMax, QueueStats};
use pathmark_cc::{Duration, Instant};
use pathmark_link::Summary;

/// The times of points, and totals at the last one.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    /// `None`: the observer requests no points.
    every: Option<Duration>,
    last: Instant,
    next: Instant,
    flows: Vec<FlowPoint>,
    links: Vec<LinkPoint>,
    /// Totals per link: bytes sent, bytes that could have been sent, drops, losses, marks.
    totals: Vec<Totals>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    sent: u64,
    capacity: u64,
    drops: u64,
    losses: u64,
    marked: [u64; 4],
}

impl Sampler {
    /// Takes a point at this interval, starting at time 0.
    pub(super) fn new(every: Option<Duration>) -> Self {
        Self {
            every,
            ..Self::default()
        }
    }

    /// When the next point is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.every.map(|_| self.next)
    }
}

impl Engine {
    /// Takes a point if one is due; with `last`, also if any time has passed since the last one.
    pub(super) fn take_sample(&mut self, now: Instant, last: bool, observer: &mut dyn Observer) {
        let Some(every) = self.sampler.every else {
            return;
        };
        if self.sampler.next > now && !(last && now > self.sampler.last) {
            return;
        }
        let mut sampler = std::mem::take(&mut self.sampler);
        sampler.flows.resize(self.flows.len(), FlowPoint::default());
        sampler.links.resize(self.links.len(), LinkPoint::default());
        sampler.totals.resize(self.links.len(), Totals::default());
        for (flow, point) in sampler.flows.iter_mut().enumerate() {
            *point = self.flow_point(flow, now, sampler.last, point);
        }
        let points = sampler.links.iter_mut().zip(&mut sampler.totals);
        for (link, (point, totals)) in points.enumerate() {
            *point = self.link_point(link, now, totals);
        }
        let sample = Sample {
            at: now - Instant::ZERO,
            flows: &sampler.flows,
            links: &sampler.links,
        };
        observer.sample(&self.scenario, &sample);
        sampler.last = now;
        sampler.next = now + every;
        self.sampler = sampler;
    }

    fn flow_point(
        &self,
        flow: usize,
        now: Instant,
        last: Instant,
        before: &FlowPoint,
    ) -> FlowPoint {
        let delivered = self.delivered(flow);
        let sender = self.sender(flow);
        if let Some(tcp) = sender.and_then(Endpoint::tcp) {
            return FlowPoint {
                active: self.started(flow) <= now && self.ended(flow).is_none(),
                cwnd: tcp.window(),
                in_flight: tcp.in_flight(),
                srtt: tcp.srtt(),
                delivered,
                goodput_bps: goodput(delivered - before.delivered, last, now),
                lost: tcp.repeated(),
                losses_per_s: per_second(tcp.repeated().saturating_sub(before.lost), last, now),
                timeouts: tcp.timeouts(),
                fallback: None,
            };
        }
        let Some(connection) = sender.and_then(Endpoint::connection) else {
            return FlowPoint::default();
        };
        let (report, stats) = (connection.path_report(now), connection.stats());
        FlowPoint {
            active: connection.error().is_none(),
            cwnd: report.controller.window,
            in_flight: report.in_flight,
            srtt: report.smoothed_rtt,
            delivered,
            goodput_bps: goodput(delivered - before.delivered, last, now),
            lost: stats.packets_lost,
            losses_per_s: per_second(stats.packets_lost.saturating_sub(before.lost), last, now),
            timeouts: report.controller.timeouts.unwrap_or(stats.probe_timeouts),
            fallback: report.controller.fallback,
        }
    }

    fn link_point(&self, index: usize, now: Instant, totals: &mut Totals) -> LinkPoint {
        let Some(link) = self.links.get(index) else {
            return LinkPoint::default();
        };
        let (stats, port) = (link.stats(), link.link().port());
        let metrics = port.metrics();
        let after = Totals {
            sent: stats.sent_bytes(),
            capacity: stats.capacity_bytes(now),
            drops: link.drops(),
            losses: link.losses(),
            marked: metrics.map_or([0; 4], |metrics| metrics.marked),
        };
        let before = std::mem::replace(totals, after);
        let possible = after.capacity - before.capacity;
        let mut marked = after.marked;
        for (after, before) in marked.iter_mut().zip(before.marked) {
            *after = after.saturating_sub(before);
        }
        LinkPoint {
            rate_bps: port.rate().map(|rate| rate as f64 * 8.0),
            utilization: (possible > 0)
                .then(|| (after.sent - before.sent) as f64 / possible as f64),
            queue_packets: port.depth().packets,
            queue_bytes: port.depth().bytes,
            drops: after.drops - before.drops,
            losses: after.losses - before.losses,
            law: metrics.map(|metrics| LawPoint {
                load: metrics.load_ppb as f64 / 1e9,
                code: metrics.code,
                r: metrics.r_q32.map(|r| r as f64 / 4_294_967_296.0),
                marked,
            }),
        }
    }
}

/// A value over time. It takes only 48 bytes, because unlike a [`Gauge`](pathmark_link::Gauge)
/// it has no quantiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Average {
    start: Instant,
    since: Instant,
    value: u64,
    max: u64,
    /// Integral of the value over nanoseconds.
    area: u128,
}

impl Average {
    /// Starts with `value` at `now`.
    pub(super) fn new(now: Instant, value: u64) -> Self {
        Self {
            start: now,
            since: now,
            value,
            max: value,
            area: 0,
        }
    }

    /// Sets the value from `now` on.
    #[inline]
    pub(super) fn set(&mut self, now: Instant, value: u64) {
        if value == self.value {
            return;
        }
        let elapsed = now.as_nanos().saturating_sub(self.since.as_nanos());
        self.area += u128::from(self.value) * u128::from(elapsed);
        self.since = now;
        self.value = value;
        self.max = self.max.max(value);
    }

    /// Mean and maximum up to `now`.
    pub(super) fn summary(&self, now: Instant) -> MeanMax {
        let pending = now.as_nanos().saturating_sub(self.since.as_nanos());
        let area = self.area + u128::from(self.value) * u128::from(pending);
        let total = now.as_nanos().saturating_sub(self.start.as_nanos());
        // In thousandths as integers, so that rounding is the same on every machine.
        let milli = (area * 1000).checked_div(u128::from(total));
        MeanMax {
            mean: milli.map_or(self.value as f64, |milli| milli as f64 / 1000.0),
            max: self.max as f64,
        }
    }
}

/// Bits per second for `bytes` between two times; 0 if no time passes.
pub(super) fn goodput(bytes: u64, start: Instant, end: Instant) -> f64 {
    per_second(bytes, start, end) * 8.0
}

/// Events per second for `count` events between two times; 0 if no time passes.
pub(super) fn per_second(count: u64, start: Instant, end: Instant) -> f64 {
    let nanos = end.as_nanos().saturating_sub(start.as_nanos());
    if nanos == 0 {
        0.0
    } else {
        count as f64 * 1e9 / nanos as f64
    }
}

/// A queue's statistics divided by `unit`.
pub(super) fn queue_stats(summary: &Summary, unit: f64) -> QueueStats {
    QueueStats {
        mean: summary.mean_milli as f64 / 1e3 / unit,
        mean_nonempty: summary.mean_nonempty_milli as f64 / 1e3 / unit,
        p99: summary.p99 as f64 / unit,
        max: summary.max as f64 / unit,
    }
}

/// Seconds since the start of the run.
pub(super) fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}

#[cfg(test)]
mod average_tests {
    use super::*;

    #[test]
    fn weighs_by_time() {
        let mut average = Average::new(Instant::from_millis(10), 100);
        average.set(Instant::from_millis(40), 400);
        average.set(Instant::from_millis(50), 0);
        let MeanMax { mean, max } = average.summary(Instant::from_millis(110));
        // 100 for 30 ms, 400 for 10 ms, 0 for 60 ms.
        assert!((mean - 70.0).abs() < 1e-9 && (max - 400.0).abs() < 1e-9);
        let none = Average::new(Instant::ZERO, 5).summary(Instant::ZERO);
        assert!((none.mean - 5.0).abs() < 1e-9);
    }
}
