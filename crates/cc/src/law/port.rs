//! Link half of a control law, one per output port of a router.

use core::fmt;

use crate::base::{Duration, Instant};
use crate::metrics::LinkMetrics;
use crate::signals::{Answer, Arrival, CloudEstimate, Upstream};

/// Link half of a control law. Its inputs are arrivals, departures, drops and time.
///
/// Methods must not allocate, block or read a clock, and must keep their state bounded regardless
/// of arrivals. `queue` is always the port's current queue in bytes.
pub trait LinkController: Send + fmt::Debug {
    /// Returns the number of the registered protocol whose packets the law answers, or `None` if it
    /// answers VCP, XCP or Quick-Start. All other protocols are foreign to the law: the port queues
    /// their packets with plain traffic, and their drops aren't evidence for the law.
    fn protocol(&self) -> Option<u8> {
        None
    }

    /// Decides whether to admit a packet that is about to arrive. If its flow is policed, this
    /// returns false, and the port drops the packet without calling the law again.
    fn admits(&mut self, now: Instant, arrival: &Arrival) -> bool {
        let _ = (now, arrival);
        true
    }

    /// Decides about a run of packets as in [`on_arrivals`](Self::on_arrivals). Returns false if
    /// any of these packets must be held back.
    fn admits_all(&mut self, now: Instant, run: &Arrival, packets: u32) -> bool {
        run.each(packets).all(|arrival| self.admits(now, &arrival))
    }

    /// Handles an arriving packet before it is enqueued or dropped; `queue` excludes it.
    fn on_arrival(&mut self, now: Instant, arrival: &Arrival, queue: u64);

    /// Handles `packets` packets of one flow that arrived at once and carry the same contents.
    /// Their sizes sum up to `run.bytes` and are equal, except that the last one includes the
    /// remainder. Override this if the law only sums up packets and can process a run at once.
    fn on_arrivals(&mut self, now: Instant, run: &Arrival, packets: u32, queue: u64) {
        for arrival in run.each(packets) {
            self.on_arrival(now, &arrival, queue);
        }
    }

    /// Processes a packet as ports do, in one call: [`admits`](Self::admits), followed by
    /// [`on_arrival`](Self::on_arrival) if admitted. Returns the subsequent
    /// [`deadline`](Self::deadline), or the far future if there isn't any; `None` means that the
    /// packet is held back.
    fn take(&mut self, now: Instant, arrival: &Arrival, queue: u64) -> Option<Instant> {
        if !self.admits(now, arrival) {
            return None;
        }
        self.on_arrival(now, arrival, queue);
        Some(self.deadline().unwrap_or(Instant::FAR_FUTURE))
    }

    /// Answers a packet that is leaving for the wire; `queue` excludes it.
    fn on_departure(&mut self, now: Instant, packet: &Arrival, queue: u64) -> Answer;

    /// Handles the drop of a packet that carries feedback, or whose flow does, because it found no
    /// room in its queue or had to make room there. It isn't called for RED drops, packets held
    /// back by the law itself, or any other packets, because these aren't evidence about flows that
    /// follow feedback.
    fn on_drop(&mut self, now: Instant, packet: &Arrival) {
        let _ = (now, packet);
    }

    /// Discards the values stated in headers of unresponsive flows, because the port has isolated
    /// these and no longer passes their packets to the law.
    fn on_set_aside(&mut self, now: Instant) {
        let _ = now;
    }

    /// Runs due work. Called at or after [`deadline`](Self::deadline) and before other calls.
    fn on_timer(&mut self, now: Instant, queue: u64);

    /// Returns when [`on_timer`](Self::on_timer) should be called next, or `None` if not before a
    /// packet arrives. Any other call can change it.
    fn deadline(&self) -> Option<Instant>;

    /// Sets the link's capacity in bytes per second, after deductions made by the port itself.
    fn on_capacity(&mut self, now: Instant, bytes_per_second: u64);

    /// Reports that the capacity varies from moment to moment. Packets may deliberately wait for
    /// `wait`, so that the link has something to send when it can send more. The default is zero.
    fn on_variation(&mut self, wait: Duration) {
        let _ = wait;
    }

    /// Sets the port's queue limit to `bytes`, including all kinds of packets. The default is
    /// unbounded.
    fn on_buffer(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// Returns the rate in bytes per second that the law has promised to flows since its traffic
    /// began, regardless of whether their packets have arrived, or 0 if it doesn't keep such a sum.
    /// Starting rates are granted from the remaining capacity. The sum excludes the flow with
    /// `flow_hash`, whose request states a total. This request may be the first packet after a
    /// pause of any length.
    fn promised(&self, now: Instant, flow_hash: u32) -> u64 {
        let _ = (now, flow_hash);
        0
    }
    /// Like [`promised`](Self::promised), for a flow that repeats its request because the answer
    /// was lost, often together with other feedback. Because such a flow uses the larger of both
    /// rates, this also excludes any rate promised to it in headers.
    fn promised_again(&self, now: Instant, flow_hash: u32) -> u64 {
        self.promised(now, flow_hash)
    }
    /// Returns the percentage of the capacity that can be granted even if all is in use, because
    /// the law makes room for it within about a round trip. 0 means that it doesn't.
    fn room_percent(&self) -> u64 {
        0
    }
    /// Handles a grant of `bytes_per_second` to a flow that starts. Until
    /// [`on_grant_over`](Self::on_grant_over), the law must expect its link to carry this rate,
    /// too.
    fn on_granted(&mut self, now: Instant, flow_hash: u32, bytes_per_second: u64) {
        let _ = (now, flow_hash, bytes_per_second);
    }
    /// Handles a grant of `bytes_per_second` to a flow that starts, taken from the rate that
    /// another flow gives back. Its packets replace the other flow's, so the law has already
    /// counted their rate.
    fn on_dealt_out(&mut self, now: Instant, flow_hash: u32, bytes_per_second: u64) {
        let _ = (now, flow_hash, bytes_per_second);
    }
    /// Handles the end of a grant, because its packets have begun to arrive or (`came` is false)
    /// won't.
    fn on_grant_over(&mut self, now: Instant, bytes_per_second: u64, came: bool) {
        let _ = (now, bytes_per_second, came);
    }
    /// Handles an unused grant of `bytes_per_second`: packets of its flow have arrived since
    /// `began`, but far too few for a granted flight.
    fn on_grant_unused(&mut self, now: Instant, began: Instant, bytes_per_second: u64) {
        let _ = (now, began, bytes_per_second);
    }

    /// Handles a packet, or a run of packets, of a flow whose packets the law doesn't receive,
    /// because the port keeps such flows apart. The flow may have requested a starting rate.
    fn on_unheard(&mut self, now: Instant, arrival: &Arrival) {
        let _ = (now, arrival);
    }

    /// Handles a measurement of the capacity left in the cloud behind `upstream`, if the law looks
    /// for clouds. It was made outside the law, and covers the time since the previous call.
    fn on_estimate(&mut self, now: Instant, upstream: Upstream, estimate: &CloudEstimate) {
        let _ = (now, upstream, estimate);
    }

    /// Calls `visit` for each upstream router of a cloud that the law remembers, with the number of
    /// bytes received from it since then.
    fn visit_clouds(&self, visit: &mut dyn FnMut(Upstream, u64)) {
        let _ = visit;
    }

    /// Returns the state for reports.
    fn metrics(&self) -> LinkMetrics;
}

// A port without a law, which never answers.

/// Link half named `none`, which never answers packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passive;

impl LinkController for Passive {
    fn on_arrival(&mut self, _now: Instant, _arrival: &Arrival, _queue: u64) {}

    fn on_departure(&mut self, _now: Instant, _packet: &Arrival, _queue: u64) -> Answer {
        Answer::None
    }

    fn on_timer(&mut self, _now: Instant, _queue: u64) {}

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn on_capacity(&mut self, _now: Instant, _bytes_per_second: u64) {}

    fn metrics(&self) -> LinkMetrics {
        LinkMetrics::default()
    }
}
