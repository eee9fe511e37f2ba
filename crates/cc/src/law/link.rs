//! The link half of a control law: one per output port of a router.

use core::fmt;

use crate::base::{Duration, Instant};
use crate::metrics::LinkMetrics;
use crate::signals::{Answer, Arrival, CloudEstimate, Upstream};

/// The link half of a control law. Its inputs are arrivals, departures, drops and time.
///
/// Methods neither allocate nor block nor read a clock. State is bounded whatever arrives.
/// `queue` is always the port's queue in bytes at that moment.
pub trait LinkController: Send + fmt::Debug {
    /// The number of the registered protocol whose packets the law answers; `None` for a law that
    /// answers VCP, XCP or Quick-Start. Packets of all other protocols are foreign to it: the port
    /// queues them with plain traffic, and their drops are no evidence for the law.
    fn protocol(&self) -> Option<u8> {
        None
    }

    /// A packet is about to arrive: false if its flow is policed, and the port drops it without a
    /// further call of the law.
    fn admits(&mut self, now: Instant, arrival: &Arrival) -> bool {
        let _ = (now, arrival);
        true
    }

    /// The same of a run as for [`on_arrivals`](Self::on_arrivals): false if any of its packets is
    /// held back.
    fn admits_all(&mut self, now: Instant, run: &Arrival, packets: u32) -> bool {
        run.each(packets).all(|arrival| self.admits(now, &arrival))
    }

    /// A packet arrived, before it is enqueued or dropped; `queue` excludes it.
    fn on_arrival(&mut self, now: Instant, arrival: &Arrival, queue: u64);

    /// `packets` packets of one flow arrived at once, carrying alike, together of `run.bytes`:
    /// equal sizes, and what is left over with the last. A law that adds packets up may take them
    /// in one go.
    fn on_arrivals(&mut self, now: Instant, run: &Arrival, packets: u32, queue: u64) {
        for arrival in run.each(packets) {
            self.on_arrival(now, &arrival, queue);
        }
    }

    /// What a port does with each packet, in one call: [`admits`](Self::admits), and if so
    /// [`on_arrival`](Self::on_arrival). The [`deadline`](Self::deadline) after that, or the far
    /// future where there is none; `None` if the packet is held back.
    fn take(&mut self, now: Instant, arrival: &Arrival, queue: u64) -> Option<Instant> {
        if !self.admits(now, arrival) {
            return None;
        }
        self.on_arrival(now, arrival, queue);
        Some(self.deadline().unwrap_or(Instant::FAR_FUTURE))
    }

    /// The packet leaves for the wire; `queue` excludes it.
    fn on_departure(&mut self, now: Instant, packet: &Arrival, queue: u64) -> Answer;

    /// A packet that carries feedback, or one of a flow that does, found no room in its queue, or
    /// had to make room there. Not called for RED drops, for packets that the law itself held back,
    /// and for other packets: those are no evidence about flows that follow feedback.
    fn on_drop(&mut self, now: Instant, packet: &Arrival) {
        let _ = (now, packet);
    }

    /// The port has isolated unresponsive flows and passes their packets no longer to the law:
    /// discards what their headers stated.
    fn on_set_aside(&mut self, now: Instant) {
        let _ = now;
    }

    /// Runs what is due; called at or after [`deadline`](Self::deadline) and before other calls.
    fn on_timer(&mut self, now: Instant, queue: u64);

    /// When [`on_timer`](Self::on_timer) wants to be called next. `None`: not before a packet
    /// arrives. May change with every other call.
    fn deadline(&self) -> Option<Instant>;

    /// The link's capacity changed, in bytes per second, net of what the port subtracts itself.
    fn on_capacity(&mut self, now: Instant, bytes_per_second: u64);

    /// The capacity moves from one moment to the next: packets may wait for `wait` on purpose, so
    /// that the link has something to send when it can send more. Zero until it is called.
    fn on_variation(&mut self, wait: Duration) {
        let _ = wait;
    }

    /// The port's queue can hold `bytes`, all kinds of packets together. Unbounded until it is
    /// called.
    fn on_buffer(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// The rate in bytes per second that the law has promised to flows since its traffic began,
    /// whether their packets have arrived or not; 0 if the law keeps no such sum. Starting rates
    /// are granted from the remaining capacity. The sum leaves out the flow with `flow_hash`, whose
    /// request states a total. The request may be the first packet after a pause of any length.
    fn promised(&self, now: Instant, flow_hash: u32) -> u64 {
        let _ = (now, flow_hash);
        0
    }
    /// The same for a flow that asks again, since the answer, and often what else came with it, was
    /// lost: it takes the larger of both, so what headers promised it is no part of this either.
    fn promised_again(&self, now: Instant, flow_hash: u32) -> u64 {
        self.promised(now, flow_hash)
    }
    /// The part of the capacity in percent that may be granted although all is in use, since the
    /// law makes room for it within about a round trip. 0: it does not.
    fn room_percent(&self) -> u64 {
        0
    }
    /// The port has granted a flow that starts `bytes_per_second`. Until
    /// [`on_grant_over`](Self::on_grant_over) that is part of what the law's link will carry.
    fn on_granted(&mut self, now: Instant, flow_hash: u32, bytes_per_second: u64) {
        let _ = (now, flow_hash, bytes_per_second);
    }
    /// The port has granted a flow that starts `bytes_per_second` of what another one gives back.
    /// Its packets replace the other flow's, so the law has counted their rate already.
    fn on_dealt_out(&mut self, now: Instant, flow_hash: u32, bytes_per_second: u64) {
        let _ = (now, flow_hash, bytes_per_second);
    }
    /// Packets of what was granted have begun to arrive, or (`came` is false) do not come.
    fn on_grant_over(&mut self, now: Instant, bytes_per_second: u64, came: bool) {
        let _ = (now, bytes_per_second, came);
    }
    /// Packets of a flow that was granted `bytes_per_second` have come since `began`, and they are
    /// none of a granted flight: they are far too few.
    fn on_grant_unused(&mut self, now: Instant, began: Instant, bytes_per_second: u64) {
        let _ = (now, began, bytes_per_second);
    }

    /// A packet, or a run of them, arrived of a flow whose packets the law does not receive, at a
    /// port that keeps such flows apart: the flow may have asked for a start.
    fn on_unheard(&mut self, now: Instant, arrival: &Arrival) {
        let _ = (now, arrival);
    }

    /// What is left of the cloud behind `upstream`, if the law looks for clouds: a measurement from
    /// outside the law, over the time since the last call.
    fn on_estimate(&mut self, now: Instant, upstream: Upstream, estimate: &CloudEstimate) {
        let _ = (now, upstream, estimate);
    }

    /// Shows each upstream router of a cloud that the law keeps, with the bytes that have come from
    /// it since it is kept.
    fn visit_clouds(&self, visit: &mut dyn FnMut(Upstream, u64)) {
        let _ = visit;
    }

    /// State for reports.
    fn metrics(&self) -> LinkMetrics;
}
