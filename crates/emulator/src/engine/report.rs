//! Time series of the changes since the last point.

use pathmark_cc::{Duration, Instant};

use super::Engine;
use super::endpoint::Endpoint;
use super::measure::{goodput, per_second};
use crate::observe::{FlowPoint, LawPoint, LinkPoint, Observer, Sample};

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
