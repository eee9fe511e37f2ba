//! A router's link, with additional measurements for results, such as when it was first well used:
//! the end of the first round trip with a utilization of 0.8.

use pathmark_cc::{CloudEstimate, Duration, Instant, Upstream};
use pathmark_link::{DropCause, Gauge, Link, LinkStats};
use pathmark_protocols::shim::Identity;

use super::packet::{Marking, PacketId, Pool};
use super::stalls::Pauses;

/// One direction of a link: the router's code, unchanged, with gauges.
#[derive(Debug)]
pub(super) struct MeasuredLink {
    link: Link<PacketId>,
    /// Identity of the port's router.
    router: Identity,
    /// The medium that it shares, if any.
    medium: Option<u32>,
    /// The times in which its router is stalled.
    pauses: Pauses,
    /// True if packets that leave it are passed to the observer.
    captured: bool,
    ramp: Ramp,
    /// Everything due up to this time is done.
    reached: Instant,
    /// The queue in packets during each open measuring window, with the window's number.
    gauges: Vec<(usize, Gauge)>,
}

impl MeasuredLink {
    pub(super) fn new(
        mut link: Link<PacketId>,
        router: Identity,
        medium: Option<u32>,
        ramp: Ramp,
    ) -> Self {
        if medium.is_some() {
            link.port_mut().share_medium();
        }
        Self {
            link,
            router,
            medium,
            pauses: Pauses::default(),
            captured: false,
            ramp,
            reached: Instant::ZERO,
            gauges: Vec::new(),
        }
    }

    /// Accepts a packet for this link.
    pub(super) fn arrive(&mut self, now: Instant, id: PacketId, pool: &mut Pool) {
        self.catch_up(now, pool);
        let arrival = pool.arrival(id, self.link.port().reads_packets());
        let router = &self.router;
        self.link
            .arrive(now, arrival, id, &mut Marking { pool, router });
        self.measure(now);
        self.catch_up(now, pool);
    }

    /// Does everything that was due by `now`, each action at its own time. Other components
    /// notice none of this before a packet leaves. Therefore it can wait until the next packet
    /// enters or leaves, or until the link's state is read.
    pub(super) fn catch_up(&mut self, now: Instant, pool: &mut Pool) {
        loop {
            // A packet that finds the transmitter ready leaves now, not at the time when it
            // became ready.
            let at = self.link.next_step().max(self.reached);
            let at = self.pauses.resume(at);
            if at > now {
                break;
            }
            let port = self.link.port();
            self.ramp
                .observe(at, port.stats().sent_bytes(), port.rate());
            let router = &self.router;
            self.link.step(at, &mut Marking { pool, router });
            self.measure(at);
        }
        self.reached = now;
    }

    /// The next packet that has left by `now`. Everything up to `now` must be done.
    pub(super) fn collect(&mut self, now: Instant) -> Option<PacketId> {
        self.link.collect(now)
    }

    fn measure(&mut self, now: Instant) {
        if !self.gauges.is_empty() {
            let depth = self.link.port().depth().packets;
            for (_, gauge) in &mut self.gauges {
                gauge.set(now, depth);
            }
        }
    }

    /// A time before which no packet can leave.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let mut at = self.link.next_arrival();
        let resumes = self.pauses.resume(self.reached);
        if resumes > self.reached {
            let arrives = self.link.wire().deadline();
            at = at.max(resumes).min(arrives.unwrap_or(Instant::FAR_FUTURE));
        }
        (at < Instant::FAR_FUTURE).then_some(at)
    }

    /// The medium that it shares.
    pub(super) fn medium(&self) -> Option<u32> {
        self.medium
    }

    /// Its rate in bytes per second, if it has something to send now.
    pub(super) fn wants(&self, now: Instant) -> Option<u64> {
        let port = self.link.port();
        let runs = self.pauses.resume(now) == now;
        let waits = runs && port.depth().packets > 0 && port.ready_at() <= now;
        port.rate().filter(|rate| waits && *rate > 0)
    }

    /// Stalls its router at these times.
    pub(super) fn with_pauses(mut self, pauses: Pauses) -> Self {
        self.pauses = pauses;
        self
    }

    /// Passes packets that leave it to the observer.
    pub(super) fn with_capture(mut self, captured: bool) -> Self {
        self.captured = captured;
        self
    }

    /// Whether packets that leave it are passed to the observer.
    pub(super) fn is_captured(&self) -> bool {
        self.captured
    }

    /// When its transmitter is or was ready for the next packet.
    pub(super) fn ready_at(&self) -> Instant {
        self.link.port().ready_at()
    }

    /// Grants it the medium.
    pub(super) fn grant(&mut self, now: Instant) {
        self.link.port_mut().grant(now);
    }

    /// Passes an estimate of a cloud to its control law.
    pub(super) fn tell(&mut self, now: Instant, upstream: Upstream, estimate: &CloudEstimate) {
        self.link.port_mut().tell_cloud(now, upstream, estimate);
    }

    /// Bytes that crossed the cloud behind `upstream` since its control law keeps this cloud.
    pub(super) fn came_from(&self, upstream: Upstream) -> Option<u64> {
        let mut came = None;
        self.link.port().visit_clouds(&mut |kept, bytes| {
            if kept == upstream {
                came = Some(bytes);
            }
        });
        came
    }

    /// Starts recording the queue for measuring window `window`.
    pub(super) fn open_window(&mut self, now: Instant, window: usize) {
        let mut gauge = Gauge::new(now);
        gauge.set(now, self.link.port().depth().packets);
        self.gauges.push((window, gauge));
    }

    /// The record of the queue in measuring window `window`.
    pub(super) fn close_window(&mut self, window: usize) -> Option<Gauge> {
        let at = self.gauges.iter().position(|(index, _)| *index == window)?;
        Some(self.gauges.swap_remove(at).1)
    }

    pub(super) fn link(&self) -> &Link<PacketId> {
        &self.link
    }

    pub(super) fn stats(&self) -> &LinkStats {
        self.link.port().stats()
    }

    /// Packets that the queue dropped.
    pub(super) fn drops(&self) -> u64 {
        self.stats().drops().by_queue()
    }

    /// Packets lost on the wire, at random or because the wire was full.
    pub(super) fn losses(&self) -> u64 {
        let drops = self.stats().drops();
        drops.of(DropCause::RandomLoss) + drops.of(DropCause::WireFull)
    }

    /// Determines when it was first well used.
    pub(super) fn ramp(&self) -> &Ramp {
        &self.ramp
    }
}

/// Number of parts per round trip.
const PARTS: usize = 16;
/// Minimum length of a part in ns, because links without delay have no round trip.
const LEAST_PART: u64 = 1_000;

/// Slides a window of one round trip over the bytes that a link sends.
#[derive(Clone, Debug)]
pub(super) struct Ramp {
    /// Length of a part in nanoseconds.
    part: u64,
    /// Total bytes sent at the last boundaries of parts, the oldest at `passed % PARTS`.
    marks: [u64; PARTS],
    /// Number of boundaries passed.
    passed: u64,
    /// The next boundary, ns.
    next: u64,
    reached: Option<Instant>,
}

impl Ramp {
    /// Starts at time 0, with windows of `rtt`.
    pub(super) fn new(rtt: Duration) -> Self {
        let rtt = u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX);
        let part = (rtt / PARTS as u64).max(LEAST_PART);
        Self {
            part,
            marks: [0; PARTS],
            passed: 0,
            next: part,
            reached: None,
        }
    }

    /// Records the total bytes sent until an event at `now`, and the rate in bytes per second.
    pub(super) fn observe(&mut self, now: Instant, sent: u64, rate: Option<u64>) {
        if now.as_nanos() >= self.next
            && self.reached.is_none()
            && let Some(rate) = rate
        {
            self.pass(now.as_nanos(), sent, rate);
        }
    }

    #[cold]
    fn pass(&mut self, now: u64, sent: u64, rate: u64) {
        // Boundaries without events in between are alike, so the rest is known after a whole window
        // of such boundaries.
        let behind = (now - self.next) / self.part;
        let known = 2 * PARTS as u64;
        if behind > known {
            let skipped = behind - known;
            self.passed = self.passed.wrapping_add(skipped);
            self.next += skipped * self.part;
            self.marks = [sent; PARTS];
        }
        let window = u128::from(self.part) * PARTS as u128;
        let possible = u128::from(rate) * window / 1_000_000_000;
        while self.next <= now && self.reached.is_none() {
            let oldest = usize::try_from(self.passed % PARTS as u64).unwrap_or(0);
            let Some(oldest) = self.marks.get_mut(oldest) else {
                return;
            };
            // In the first round trip, the window extends before the start, when nothing was
            // sent.
            let used = u128::from(sent.saturating_sub(*oldest));
            if possible > 0 && used * 5 >= possible * 4 {
                self.reached = Some(Instant::from_nanos(self.next));
            }
            *oldest = sent;
            self.passed = self.passed.wrapping_add(1);
            self.next = self.next.saturating_add(self.part);
        }
    }

    /// When the first such window ended.
    pub(super) fn reached(&self) -> Option<Instant> {
        self.reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 1_000_000;

    /// Sends at a share of the rate (in percent) from each of these times (ms).
    fn reached(shares: &[(u64, u64)]) -> Option<u64> {
        let mut ramp = Ramp::new(Duration::from_millis(160));
        let mut sent = 0;
        for ms in 0..5_000 {
            let share = shares.iter().rev().find(|(from, _)| *from <= ms);
            ramp.observe(Instant::from_millis(ms), sent, Some(RATE));
            sent += RATE / 1000 * share.map_or(0, |(_, percent)| *percent) / 100;
        }
        ramp.reached().map(|at| at.as_nanos() / 1_000_000)
    }

    #[test]
    fn full_rate_counts_after_most_of_a_round_trip() {
        // 0.8 × 160 ms of sending, rounded up to a sixteenth of the window.
        assert_eq!(reached(&[(0, 100)]), Some(130));
        assert_eq!(reached(&[(0, 10), (1_000, 80)]), Some(1_160));
        assert_eq!(reached(&[(0, 79)]), None);
    }

    #[test]
    fn silence_is_skipped() {
        let mut ramp = Ramp::new(Duration::from_millis(160));
        ramp.observe(Instant::from_millis(5), 0, Some(RATE));
        ramp.observe(Instant::from_millis(1_000_000), 2_000, Some(RATE));
        assert_eq!(ramp.reached(), None);
        ramp.observe(Instant::from_millis(1_000_160), 162_000, Some(RATE));
        assert!(ramp.reached().is_some());
        let mut unlimited = Ramp::new(Duration::from_millis(160));
        unlimited.observe(Instant::from_millis(500), 1 << 30, None);
        assert_eq!(unlimited.reached(), None);
    }
}
