//! An output port: control law, queue or queues, transmitter.

mod control;
mod follow;
mod law;

use pathmark_cc::{Answer, Arrival, Carried, Instant, LinkController, RateChange};

use crate::impair::Code;
use crate::queue::{Depth, Limit, Owner, Popped, Pushed, Queue, Queued};
use crate::separation::Separation;
use crate::shaper::Shaper;
use crate::stats::{DropCause, LinkStats};
pub use control::Rebuild;
use follow::Follow;
use law::{Law, Pulse};

/// One output port of a router.
///
/// Call [`arrive`](Self::arrive) for each packet routed to it, and [`poll`](Self::poll) until it
/// returns `None`, then again at [`deadline`](Self::deadline).
pub struct Port<P> {
    law: Law,
    pulse: Pulse,
    queues: Queues<P>,
    shaper: Shaper,
    /// The configured capacity, if it is below the rate or there is no rate.
    hint: Option<u64>,
    /// The reported rate of the link behind the port, which limits the port's own.
    report: Option<Report>,
    /// The measured capacity, if the law does not get the rate.
    follow: Option<Box<Follow>>,
    /// Bytes that the link adds to each packet.
    overhead: u32,
    /// The port's declared loss by corruption on the link, in 10^-6 of packets.
    corruption_ppm: u32,
    /// The link's error-correcting code.
    code: Option<Code>,
    access: Access,
    stats: LinkStats,
}

/// A reported rate, and the port's own rate, in bytes per second.
#[derive(Clone, Copy, Debug)]
struct Report {
    rate: u64,
    own: Option<u64>,
}

/// Whether a packet may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// As soon as the transmitter is ready.
    Free,
    /// Only when it is the port's turn on a shared medium.
    Asked,
    /// One packet, now.
    Granted,
}

/// A departing packet.
#[derive(Debug)]
pub struct Departure<P> {
    /// The marked packet.
    pub packet: P,
    /// Number of IP packets that it consists of.
    pub packets: u32,
    /// Its arrival; the bytes are those on the wire.
    pub arrival: Arrival,
    /// Its bytes, including the link's overhead, but before coding.
    pub frame: u32,
    /// The time at which its last bit leaves, slightly in the past if the driver polls late.
    pub finished: Instant,
}

impl<P> Port<P> {
    /// Creates a port with one queue for all packets.
    pub fn new(now: Instant, queue: Box<dyn Queue<P>>, shaper: Shaper) -> Self {
        let depth = queue.depth();
        Self::build(now, Queues::One(queue, depth), shaper)
    }

    /// Creates a port that separates packets with feedback from all others.
    pub fn separated(now: Instant, queues: Separation<P>, shaper: Shaper) -> Self {
        Self::build(now, Queues::Two(Box::new(queues)), shaper)
    }

    fn build(now: Instant, queues: Queues<P>, shaper: Shaper) -> Self {
        let stats = LinkStats::new(now, shaper.rate());
        Self {
            law: Law::none(),
            pulse: Pulse::new(),
            queues,
            shaper,
            hint: None,
            report: None,
            follow: None,
            overhead: 0,
            corruption_ppm: 0,
            code: None,
            access: Access::Free,
            stats,
        }
    }

    /// Installs a control law, with the port's rate as its capacity.
    #[must_use]
    pub fn with_controller(mut self, now: Instant, controller: Box<dyn LinkController>) -> Self {
        self.law.replace(Some(controller));
        self.law.on_capacity(now, self.capacity());
        self.law.on_buffer(self.queues.limit());
        self
    }

    /// Sets the bytes that the link adds to each packet's IP length.
    #[must_use]
    pub fn with_overhead(mut self, bytes: u32) -> Self {
        self.overhead = bytes;
        self
    }

    /// Accepts a packet. `arrival.bytes` is its IP length.
    pub fn arrive(&mut self, now: Instant, arrival: Arrival, packet: P, owner: &mut dyn Owner<P>) {
        self.arrive_run(now, arrival, 1, packet, owner);
    }

    /// Returns true if a super-packet can pass uncut: it fits completely, and the queue treats
    /// all of its packets alike.
    pub fn takes_whole(&self, now: Instant, arrival: &Arrival, packets: u32) -> bool {
        let bytes = self.on_wire(self.frame(arrival.bytes, packets), packets);
        let mut arrival = *arrival;
        self.law.read(&mut arrival.carried);
        match &self.queues {
            Queues::One(queue, _) => queue.takes_whole(packets, bytes),
            Queues::Two(separation) => separation.takes_whole(now, &arrival, packets, bytes),
        }
    }

    /// Accepts an uncut super-packet: `packets` IP packets with `arrival.bytes` bytes in total, all
    /// of one flow and with the same request. The control law counts each packet.
    pub fn arrive_run(
        &mut self,
        now: Instant,
        mut arrival: Arrival,
        packets: u32,
        packet: P,
        owner: &mut dyn Owner<P>,
    ) {
        self.advance(now);
        self.pulse.on_arrival(now);
        if self.queues.depth().packets == 0 {
            self.shaper.idle_until(now);
        }
        self.stats.arrived_packets += u64::from(packets);
        self.stats.arrived_bytes += u64::from(arrival.bytes);
        let frame = self.frame(arrival.bytes, packets);
        arrival.bytes = self.on_wire(frame, packets);
        self.law.read(&mut arrival.carried);
        let Some(hears) = self.queues.hears(now, &mut arrival) else {
            self.refuse(DropCause::Policed, packets);
            owner.dropped(packet, DropCause::Policed);
            return;
        };
        if hears {
            let queue = self.queues.heard_bytes();
            if !self.law.takes(now, &arrival, packets, queue) {
                self.queues.on_policed(arrival.bytes);
                self.refuse(DropCause::Policed, packets);
                owner.dropped(packet, DropCause::Policed);
                return;
            }
        } else {
            self.law.on_unheard(now, &arrival);
        }
        let item = Queued {
            packet,
            arrival,
            frame,
            packets,
            since: now,
        };
        let (law, stats) = (&mut self.law, &mut self.stats);
        let pushed = match &mut self.queues {
            Queues::One(queue, depth) => {
                let pushed = queue.push(now, item, owner);
                *depth = queue.depth();
                pushed
            }
            Queues::Two(separation) => separation.push(now, item, hears, owner, |victim, heard| {
                for one in victim.arrival.each(victim.packets) {
                    stats.drops.count(DropCause::PushedOut);
                    if heard {
                        law.on_drop(now, &one);
                    }
                }
            }),
        };
        if let Pushed::Dropped(cause) = pushed {
            for _ in 0..packets {
                self.stats.drops.count(cause);
            }
            let full = cause == DropCause::QueueFull;
            if full && hears && self.queues.is_feedback(&arrival) {
                for one in arrival.each(packets) {
                    self.law.on_drop(now, &one);
                }
            }
        }
        self.measure(now);
    }

    /// Returns the next packet whose transmission can start by `now`, marked. After `None`,
    /// there is nothing to do before [`deadline`](Self::deadline).
    pub fn poll(&mut self, now: Instant, owner: &mut dyn Owner<P>) -> Option<Departure<P>> {
        self.advance(now);
        if self.shaper.ready_at() > now || self.access == Access::Asked {
            return None;
        }
        if self.access == Access::Granted {
            self.access = Access::Asked;
        }
        let Popped { item, dropped } = self.queues.pop(now, owner);
        for _ in 0..dropped {
            self.stats.drops.count(DropCause::Early);
        }
        let Queued {
            mut packet,
            arrival,
            frame,
            packets,
            since,
        } = item?;
        let finished = self.shaper.transmit(now, since, arrival.bytes);
        if self.queues.answers(&arrival) {
            let queue = self.queues.heard_bytes();
            if packets == 1 {
                self.answer(now, &arrival, queue, &mut packet, 0, owner);
            } else {
                for (index, one) in (0..).zip(arrival.each(packets)) {
                    self.answer(now, &one, queue, &mut packet, index, owner);
                }
            }
        }
        let overhead = self.overhead.saturating_mul(packets);
        let waited = now.as_nanos().saturating_sub(since.as_nanos());
        let [plain, feedback] = &mut self.stats.delays;
        if arrival.carried == pathmark_cc::Carried::Foreign {
            plain.count(waited, packets);
        } else {
            feedback.count(waited, packets);
        }
        self.stats.sent_packets += u64::from(packets);
        self.stats.sent_bytes += u64::from(frame.saturating_sub(overhead));
        self.measure(now);
        Some(Departure {
            packet,
            packets,
            arrival,
            frame,
            finished,
        })
    }

    /// Writes the control law's answer to one of a run's packets.
    fn answer(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        queue: u64,
        run: &mut P,
        index: u32,
        owner: &mut dyn Owner<P>,
    ) {
        let mut answer = self.law.on_departure(now, arrival, queue);
        answer.declare(self.corruption_ppm);
        answer.pass_cloud(&arrival.carried);
        if let Some(change) = answer.rate_change(arrival) {
            self.queues.on_answer(arrival, change);
        }
        if answer != Answer::None {
            owner.mark_one(run, index, &answer);
        }
    }

    /// Bytes of packets, including the link's overhead for each.
    fn frame(&self, bytes: u32, packets: u32) -> u32 {
        bytes.saturating_add(self.overhead.saturating_mul(packets))
    }

    /// The same bytes after coding.
    #[inline(always)]
    fn on_wire(&self, frame: u32, packets: u32) -> u32 {
        match &self.code {
            None => frame,
            Some(code) => code.coded_run(frame, packets),
        }
    }

    /// Runs everything that is due, without sending anything.
    #[inline(always)]
    pub fn advance(&mut self, now: Instant) {
        if self.pulse.due() <= now {
            let stalled = self.pulse.beat(now);
            if stalled > 0 {
                self.law.on_stall(stalled);
            }
        }
        while let Some((at, rate)) = self.shaper.turn(now) {
            self.stats.on_rate(at, Some(rate));
            if self.follow.is_none() {
                let capacity = control::effective(None, &self.shaper, self.hint);
                self.law.on_capacity(now, capacity);
            }
        }
        if self
            .follow
            .as_ref()
            .is_some_and(|follow| follow.due() <= now)
        {
            self.look(now);
        }
        if let Queues::Two(separation) = &mut self.queues
            && separation.window_is_over(now)
            && let Some(rate) = control::effective(self.follow.as_deref(), &self.shaper, self.hint)
            && let Some(capacity) = separation.capacity(now, rate)
        {
            if let Some(law) = self.law.controller() {
                separation.set_interval(law.metrics().interval);
            }
            if separation.has_set_aside() {
                self.law.on_set_aside(now);
            }
            self.law.on_capacity(now, Some(capacity));
        }
        if self.law.timer <= now {
            self.law.on_timer(now, self.queues.heard_bytes());
        }
    }

    /// When [`poll`](Self::poll) has work to do next.
    pub fn deadline(&self) -> Option<Instant> {
        let at = self.due();
        (at < Instant::FAR_FUTURE).then_some(at)
    }

    /// The [`deadline`](Self::deadline), or the far future.
    pub(super) fn due(&self) -> Instant {
        let mut timer = self.law.timer.min(self.shaper.turns_at());
        if self.has_controller() {
            timer = timer.min(self.pulse.due());
        }
        if let Some(follow) = &self.follow {
            timer = timer.min(follow.due());
        }
        if self.queues.depth().packets > 0 && self.access != Access::Asked {
            timer.min(self.shaper.ready_at())
        } else {
            timer
        }
    }

    /// Counts packets that were dropped before reaching this port.
    pub fn refuse(&mut self, cause: DropCause, packets: u32) {
        for _ in 0..packets {
            self.stats.drops.count(cause);
        }
    }

    #[inline(always)]
    fn measure(&mut self, now: Instant) {
        let depth = self.queues.depth();
        self.stats.queue_packets.set(now, depth.packets);
        self.stats.queue_bytes(now, depth.bytes);
    }
}

impl<P> core::fmt::Debug for Port<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Port")
            .field("depth", &self.depth())
            .field("rate", &self.rate())
            .field("controller", &self.law.controller())
            .finish_non_exhaustive()
    }
}

/// The queues, each with its cached depth.
enum Queues<P> {
    One(Box<dyn Queue<P>>, Depth),
    Two(Box<Separation<P>>),
}

impl<P> Queues<P> {
    fn limit(&self) -> Limit {
        match self {
            Self::One(queue, _) => queue.limit(),
            Self::Two(separation) => separation.limit(),
        }
    }

    /// Whether this packet counts for the control law: every packet in a common queue, otherwise
    /// those of its class. `None`: the packet is dropped.
    fn hears(&mut self, now: Instant, arrival: &mut Arrival) -> Option<bool> {
        match self {
            Self::One(..) => Some(true),
            Self::Two(separation) => separation.hears(now, arrival),
        }
    }

    /// Whether a packet that counts for the law belongs to a flow that gets answers. In a common
    /// queue, this is only known of packets that carry feedback.
    fn is_feedback(&self, arrival: &Arrival) -> bool {
        matches!(self, Self::Two(_)) || arrival.carried.is_feedback()
    }

    /// Whether the law must answer this packet.
    fn answers(&self, arrival: &Arrival) -> bool {
        matches!(self, Self::One(..)) || arrival.carried != Carried::Foreign
    }

    fn heard_bytes(&self) -> u64 {
        match self {
            Self::One(_, depth) => depth.bytes,
            Self::Two(separation) => separation.heard_depth().bytes,
        }
    }

    /// Records the change of rate that an answer allows a flow.
    fn on_answer(&mut self, arrival: &Arrival, change: RateChange) {
        if let Self::Two(separation) = self {
            separation.on_answer(arrival, change);
        }
    }

    /// Records that the law dropped a packet of its class.
    #[cold]
    fn on_policed(&mut self, bytes: u32) {
        if let Self::Two(separation) = self {
            separation.on_policed(bytes);
        }
    }

    fn depth(&self) -> Depth {
        match self {
            Self::One(_, depth) => *depth,
            Self::Two(separation) => separation.depth(),
        }
    }

    fn pop(&mut self, now: Instant, owner: &mut dyn Owner<P>) -> Popped<P> {
        match self {
            Self::One(queue, depth) => {
                let popped = queue.pop(now, owner);
                *depth = queue.depth();
                popped
            }
            Self::Two(separation) => separation.pop(now, owner),
        }
    }
}
