//! XCP's law for an output port of a router.

mod answers;
mod controllers;
mod drain;
mod interval;
mod known;
mod policer;
mod sums;
mod vcp_flows;

#[cfg(test)]
mod tests;

use super::params::{Capacity, INITIAL_INTERVAL, XcpLinkParams, to_q16};
use crate::base::arith::{micros, ns_since, saturate};
use crate::base::offered::Offered;
use crate::base::rtt_sketch::RttSketch;
use crate::base::{Duration, Instant};
use crate::law::LinkController;
use crate::metrics::{LinkMetrics, XcpLinkMetrics};
use crate::quick_start::Granted;
use crate::signals::{Answer, Arrival, Carried, VcpCode};
use answers::Overflow;
use answers::Start;
use controllers::Pools;
use drain::DrainMeter;
use interval::{Seen, StandingQueue, Totals};
use known::{Admission, DepartureCompensation, Known, Newcomers};
use policer::Policer;
use sums::Sums;
use vcp_flows::VcpFlows;

/// The state of an XCP output port.
///
/// Only packets drive it: an interval ends with the first packet after its end.
#[derive(Clone, Debug)]
pub struct XcpLink {
    params: XcpLinkParams,
    /// Current capacity in bytes per second, and the mean capacity of the current interval
    /// (`offered`).
    capacity: u64,
    offered: Offered,
    /// Present if the capacity is measured.
    drain: Option<DrainMeter>,
    /// How long packets may wait on purpose because the capacity varies.
    wait: Duration,
    /// Size of the port's queue, in bytes.
    buffer: u64,
    started: Instant,
    interval: Duration,
    /// End or next check of the current interval.
    due: Instant,
    last_arrival: Instant,
    /// The longest RTT stated lately, in µs.
    stated_us: u64,
    /// A longer pause, in ns, means that the port was idle.
    idle_ns: u64,
    /// The traffic is beginning or beginning again, so nothing is known about it.
    waking: bool,
    start: Option<Start>,
    mean_rtt_us: u64,
    sums: Sums,
    /// The RTTs that the bytes of headers stated; `None`: all RTTs are trusted.
    rtts: Option<RttSketch>,
    granted: Granted,
    /// Arrival of the first packet of the last granted flight.
    flight_at: Instant,
    queue: StandingQueue,
    pools: Pools,
    vcp_flows: VcpFlows,
    /// Flows whose headers count.
    known: Option<Known>,
    newcomers: Newcomers,
    leaving: DepartureCompensation,
    policer: Option<Policer>,
    /// Spare bandwidth in bytes per second, if another part measures it.
    stated_spare: Option<i64>,
    overflow: Overflow,
    seen: Seen,
    totals: Totals,
}

impl XcpLink {
    /// Creates a port that starts at `now` and sends `capacity` bytes per second.
    pub fn new(now: Instant, capacity: u64, params: XcpLinkParams) -> Self {
        let mut link = Self {
            capacity: 1,
            offered: Offered::new(capacity),
            drain: (params.capacity == Capacity::Auto).then(|| DrainMeter::new(capacity)),
            wait: Duration::ZERO,
            buffer: u64::MAX,
            started: now,
            interval: INITIAL_INTERVAL,
            due: now,
            last_arrival: now,
            stated_us: 0,
            idle_ns: 0,
            waking: true,
            start: None,
            mean_rtt_us: micros(INITIAL_INTERVAL),
            sums: Sums::new(None),
            rtts: params.guard.then(|| RttSketch::new(now)),
            granted: Granted::new(now),
            flight_at: Instant::FAR_FUTURE,
            queue: StandingQueue::new(now),
            pools: Pools::default(),
            vcp_flows: VcpFlows::new(),
            known: params.guard.then(Known::new),
            newcomers: Newcomers::new(),
            leaving: DepartureCompensation::new(0),
            policer: params.police.then(Policer::new),
            stated_spare: None,
            overflow: Overflow::No,
            seen: Seen::default(),
            totals: Totals::default(),
            params,
        };
        link.set_capacity(now, capacity);
        link
    }

    fn set_capacity(&mut self, now: Instant, port: u64) {
        self.capacity = match (&mut self.drain, self.params.capacity) {
            (Some(drain), _) => {
                drain.set_port(port);
                drain.believed()
            }
            (None, Capacity::Fixed(fixed)) => fixed,
            (None, Capacity::Port | Capacity::Auto) => port,
        }
        .max(1);
        // A measured rate is an estimate for the whole interval, not a rate of the moment.
        if self.drain.is_none() {
            let elapsed = now.saturating_since(self.started);
            self.offered.change(elapsed, self.capacity);
        }
    }

    /// Sets the spare bandwidth, in B/s, to a measured rate instead of the rest of the capacity:
    /// [XCP-i eq. 1].
    pub(crate) const fn set_spare(&mut self, spare: i64) {
        self.stated_spare = Some(spare);
    }

    pub(crate) const fn mean_rtt(&self) -> Duration {
        Duration::from_micros(self.mean_rtt_us)
    }

    /// True if no packet has arrived for so long that the next packet begins new traffic.
    fn is_silent(&self, now: Instant, queue: u64) -> bool {
        ns_since(now, self.last_arrival) > self.idle_ns && queue == 0
    }

    fn took_start(&mut self, now: Instant, flow_hash: u32, bytes_per_second: u64) {
        // It requested a total, which includes its share as a VCP flow.
        if self.start.is_some() {
            let own = self.vcp_flows.take_back(flow_hash);
            self.totals.add(-own);
        }
        if let Some(policer) = &mut self.policer {
            policer.on_granted(now, flow_hash, to_q16(bytes_per_second));
        }
    }

    /// Counts a packet under the RTT that it states.
    fn see_rtt(&mut self, now: Instant, arrival: &Arrival, size: u32) {
        let rtt = match &arrival.carried {
            Carried::Xcp(header) if header.rtt_us > 0 => {
                Some(Duration::from_micros(header.rtt_us.into()))
            }
            Carried::Vcp(carried) => carried.min_rtt,
            _ => None,
        };
        if let Some(rtts) = &mut self.rtts
            && rtts.count(now, size, rtt)
        {
            self.review();
        }
    }

    /// Bytes that the link carries for a packet.
    fn size(&self, packet: &Arrival) -> u32 {
        packet.bytes.saturating_add(self.params.overhead)
    }
}

impl LinkController for XcpLink {
    fn admits(&mut self, now: Instant, arrival: &Arrival) -> bool {
        let size = self.size(arrival);
        let Some(policer) = &mut self.policer else {
            return true;
        };
        let header = match &arrival.carried {
            Carried::Xcp(header) => Some(header),
            Carried::QuickStart(_) | Carried::Own(_) | Carried::Foreign => None,
            // The law of VCP ports handles these.
            Carried::Vcp(_) => return true,
        };
        policer.admits(now, arrival.flow_hash, header, size)
    }

    fn on_arrival(&mut self, now: Instant, arrival: &Arrival, queue: u64) {
        let header = match &arrival.carried {
            Carried::Xcp(header) => Some(header),
            _ => None,
        };
        let size = self.size(arrival);
        let silent = self.is_silent(now, queue);
        if silent && self.goes_on(now, header, size) {
            self.resume(now);
        } else if silent || (self.waking && self.sums.bytes() == 0) {
            self.wake(now, header);
        } else if now >= self.due {
            self.look_or_close(now);
        }
        self.last_arrival = now;
        self.queue
            .sample(now, queue, self.mean_rtt_us, self.capacity);
        self.sums.count(size);
        self.see_rtt(now, arrival, size);
        match &arrival.carried {
            Carried::Xcp(header) => {
                if let Some(start) = &mut self.start {
                    start.hear(arrival.flow_hash);
                }
                let x = self.sums.hear(header, size);
                let standing = match &mut self.known {
                    Some(known) => known.count(now, arrival.flow_hash, x),
                    None => Admission::Known,
                };
                if standing == Admission::New {
                    self.newcomers.count(size);
                }
                // At the start, no flow is known.
                if self.waking || standing == Admission::Known {
                    self.sums.count_header(header, x);
                }
                if self.waking {
                    self.settle_first_interval();
                }
            }
            Carried::Vcp(carried) => {
                let (bytes, flow) = (self.size(arrival), arrival.flow_hash);
                if let Some(start) = &mut self.start {
                    start.hear(flow);
                }
                let stated = carried.min_rtt.map(|rtt| {
                    let us = u32::try_from(micros(rtt)).unwrap_or(u32::MAX);
                    Duration::from_micros(self.sums.count_rtt(us, bytes))
                });
                let (rtt, pools) = (stated, &mut self.pools);
                let net = self.vcp_flows.count(now, flow, bytes, rtt, pools);
                self.totals.add(net);
            }
            Carried::QuickStart(_) | Carried::Own(_) | Carried::Foreign => {
                let bytes = self.size(arrival);
                let net =
                    self.vcp_flows
                        .count_silent(now, arrival.flow_hash, bytes, &mut self.pools);
                self.totals.add(net);
            }
        }
    }

    fn on_departure(&mut self, now: Instant, packet: &Arrival, queue: u64) -> Answer {
        self.queue
            .sample(now, queue, self.mean_rtt_us, self.capacity);
        if now >= self.due && !self.waking {
            self.look_or_close(now);
        }
        let size = self.size(packet);
        if let Some(drain) = &mut self.drain {
            let mean = Duration::from_micros(self.mean_rtt_us);
            if drain.on_departure(now, size, queue > 0, mean) {
                self.capacity = drain.believed();
            }
        }
        match &packet.carried {
            Carried::Xcp(header) => {
                let answer = self.answer(packet.flow_hash, header, size);
                if let Some(policer) = &mut self.policer {
                    policer.on_answer(packet.flow_hash, &answer);
                }
                Answer::Xcp(answer)
            }
            Carried::Vcp(carried) if carried.code != VcpCode::None => {
                Answer::Vcp(self.answer_guest(packet.flow_hash, carried))
            }
            Carried::Vcp(_) | Carried::QuickStart(_) | Carried::Own(_) | Carried::Foreign => {
                Answer::None
            }
        }
    }

    /// Stops grants until an interval without drops has passed. Drops of plain traffic do not
    /// count, because they are no evidence about flows that receive feedback.
    fn on_drop(&mut self, _now: Instant, packet: &Arrival) {
        let ours = !matches!(packet.carried, Carried::QuickStart(_) | Carried::Foreign);
        if self.params.guard && ours {
            self.overflow = Overflow::Now;
            self.pools.give_nothing();
        }
    }

    /// Resets the mean RTT and everything that depends on it, while the traffic continues.
    fn on_set_aside(&mut self, now: Instant) {
        if self.params.guard {
            self.mean_rtt_us = micros(INITIAL_INTERVAL);
            self.sums = Sums::new(Some(self.mean_rtt_us));
            self.rtts = Some(RttSketch::new(now));
            self.stated_us = 0;
            self.overflow = Overflow::No;
            self.begin(now);
        }
    }

    fn on_timer(&mut self, _now: Instant, _queue: u64) {}

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn on_capacity(&mut self, now: Instant, bytes_per_second: u64) {
        self.set_capacity(now, bytes_per_second);
    }

    fn on_variation(&mut self, wait: Duration) {
        if self.params.guard {
            self.wait = wait;
        }
    }

    fn on_buffer(&mut self, bytes: u64) {
        self.buffer = bytes;
    }

    /// A small share, because the pools bring a new flow to its share within a few round trips.
    fn room_percent(&self) -> u64 {
        10
    }

    fn promised(&self, now: Instant, flow_hash: u32) -> u64 {
        // Later, promises become visible within a round trip.
        let Some(start) = &self.start else { return 0 };
        // The flows with that promise are gone. A port that separates plain packets does not report
        // the arrival of a request, which would have begun another start.
        if self.is_silent(now, 0) {
            return 0;
        }
        let own = i128::from(self.vcp_flows.given(flow_hash));
        let promised = start.promised(self.totals.net()) - own;
        let promised = u64::try_from(promised >> 16).unwrap_or(0);
        promised.saturating_sub(self.granted.rate())
    }

    fn promised_again(&self, now: Instant, flow_hash: u32) -> u64 {
        let alone = self.start.as_ref().is_some_and(|s| s.is_alone(flow_hash));
        if alone {
            0
        } else {
            self.promised(now, flow_hash)
        }
    }

    fn on_granted(&mut self, now: Instant, flow_hash: u32, bytes_per_second: u64) {
        self.granted.add(now, self.started, bytes_per_second);
        let rate = to_q16(bytes_per_second);
        let rate = i64::try_from(rate).unwrap_or(i64::MAX);
        self.pools.give_less(rate.unsigned_abs());
        self.totals.add(rate);
        self.took_start(now, flow_hash, bytes_per_second);
    }

    fn on_dealt_out(&mut self, now: Instant, flow_hash: u32, bytes_per_second: u64) {
        self.took_start(now, flow_hash, bytes_per_second);
    }

    fn on_grant_over(&mut self, now: Instant, bytes_per_second: u64, came: bool) {
        self.granted.take(now, bytes_per_second);
        if came {
            self.flight_at = now;
        } else {
            let rate = i64::try_from(to_q16(bytes_per_second)).unwrap_or(i64::MAX);
            self.totals.add(-rate);
        }
    }

    fn on_grant_unused(&mut self, _now: Instant, began: Instant, bytes_per_second: u64) {
        self.granted.forget(began, self.started, bytes_per_second);
        let rate = i64::try_from(to_q16(bytes_per_second)).unwrap_or(i64::MAX);
        self.totals.add(-rate);
    }

    fn metrics(&self) -> LinkMetrics {
        let load_ppb =
            u128::from(self.seen.input) * 1_000_000_000 / u128::from(to_q16(self.capacity));
        LinkMetrics {
            interval: self.interval,
            load_ppb: saturate(load_ppb),
            persistent_queue: self.queue.bytes(),
            xcp: Some(XcpLinkMetrics {
                intervals: self.totals.intervals,
                interval: self.interval,
                mean_rtt: Duration::from_micros(self.mean_rtt_us),
                capacity: self.capacity,
                input: self.seen.input >> 16,
                spare: i64::try_from(self.seen.spare >> 16).unwrap_or(i64::MIN),
                persistent_queue: self.queue.bytes(),
                aggregate: self.seen.aggregate >> 16,
                positive_left: self.pools.positive_left() >> 16,
                negative_left: self.pools.negative_left() >> 16,
                given: saturate(self.totals.given >> 16),
                taken: saturate(self.totals.taken >> 16),
                stamped: self.totals.stamped,
                policed: self.policer.as_ref().map_or(0, Policer::refused),
            }),
            ..LinkMetrics::default()
        }
    }
}
