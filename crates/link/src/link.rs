//! A port and its wire, with scheduled changes of both.

use pathmark_cc::{Arrival, Duration, Instant, LinkAlgorithm};

use crate::impair::Loss;
use crate::port::{Departure, Port, Rebuild};
use crate::queue::Owner;
use crate::stats::DropCause;
use crate::wire::{Wire, WireConfig};

/// The parts of a [`Link`].
pub struct LinkConfig<P> {
    /// The port.
    pub port: Port<P>,
    /// The wire.
    pub wire: WireConfig,
    /// Changes over time.
    pub schedule: Schedule,
}

/// A port whose departures travel over an impaired wire.
#[derive(Debug)]
pub struct Link<P> {
    port: Port<P>,
    wire: Wire<P>,
    schedule: Schedule,
    /// How long before its last bit leaves a packet can be handed over, in ns.
    early: u64,
    restarts: Option<Box<Restarts<P>>>,
}

/// The state needed for restarts.
#[derive(Debug)]
struct Restarts<P> {
    rebuild: Rebuild<P>,
    /// The law installed by the last scheduled change, and its seed.
    law: Option<(LinkAlgorithm, u64)>,
    /// Number of restarts in progress. The router runs again after the last restart.
    down: u32,
}

impl<P: 'static> Link<P> {
    /// A link at rest.
    pub fn new(config: LinkConfig<P>) -> Self {
        let mut link = Self {
            port: config.port,
            wire: Wire::new(config.wire),
            schedule: config.schedule,
            early: 0,
            restarts: None,
        };
        link.port.set_code(link.wire.code());
        link
    }

    /// Hands a packet over up to this long before its last bit has left, unless something else
    /// delays it. Otherwise, a driver that polls only at such intervals would deliver each
    /// packet of a fast link one poll too late.
    #[must_use]
    pub fn hand_over_early(mut self, by: Duration) -> Self {
        self.early = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self
    }

    /// Sets how a restart rebuilds the port. Without this, a restart leaves the port unchanged.
    #[must_use]
    pub fn with_rebuild(mut self, rebuild: Rebuild<P>) -> Self {
        self.restarts = Some(Box::new(Restarts {
            rebuild,
            law: None,
            down: 0,
        }));
        self
    }

    /// Applies `change` to each port that a restart rebuilds.
    #[must_use]
    pub fn on_restart(
        mut self,
        change: impl FnMut(Instant, &mut Port<P>) + Send + 'static,
    ) -> Self {
        self.restarts = self.restarts.map(|restarts| {
            let Restarts { rebuild, law, down } = *restarts;
            let rebuild = rebuild.with(change);
            Box::new(Restarts { rebuild, law, down })
        });
        self
    }

    /// Accepts a packet for this link. `arrival.bytes` is its IP length.
    pub fn arrive(&mut self, now: Instant, arrival: Arrival, packet: P, owner: &mut dyn Owner<P>) {
        self.arrive_run(now, arrival, 1, packet, owner);
    }

    /// Accepts an uncut super-packet; see [`Port::arrive_run`].
    pub fn arrive_run(
        &mut self,
        now: Instant,
        arrival: Arrival,
        packets: u32,
        packet: P,
        owner: &mut dyn Owner<P>,
    ) {
        self.change(now, owner);
        self.port.arrive_run(now, arrival, packets, packet, owner);
    }

    /// Returns the next packet that has reached the far end by `now`.
    pub fn poll(&mut self, now: Instant, owner: &mut dyn Owner<P>) -> Option<P> {
        self.change(now, owner);
        let soon = Instant::from_nanos(now.as_nanos().saturating_add(self.early));
        while let Some(departure) = self.port.poll(now, owner) {
            if departure.finished <= soon && self.wire.is_transparent() {
                return Some(departure.packet);
            }
            self.transmit(departure, owner);
            if self.port.ready_at() > now {
                break;
            }
        }
        self.wire.poll(now)
    }

    /// When [`step`](Self::step) has work to do next.
    pub fn next_step(&self) -> Instant {
        let schedule = self.schedule.deadline().unwrap_or(Instant::FAR_FUTURE);
        self.port.due().min(schedule)
    }

    /// Does everything that is due at `now` without handing packets over: they wait at the far
    /// end for [`collect`](Self::collect).
    ///
    /// A driver that controls its clock need not call this whenever a packet leaves. Before the
    /// next arrival, or at [`next_arrival`](Self::next_arrival), it can catch up by stepping
    /// through everything that was due, each at its own [`next_step`](Self::next_step).
    pub fn step(&mut self, now: Instant, owner: &mut dyn Owner<P>) {
        self.change(now, owner);
        while let Some(departure) = self.port.poll(now, owner) {
            self.transmit(departure, owner);
            if self.port.ready_at() > now {
                break;
            }
        }
    }

    /// Returns the next packet that has reached the far end by `now`, provided that all steps up
    /// to `now` are done.
    pub fn collect(&mut self, now: Instant) -> Option<P> {
        self.wire.poll(now)
    }

    /// Returns a time before which no packet can reach the far end.
    pub fn next_arrival(&self) -> Instant {
        let schedule = self.schedule.deadline().unwrap_or(Instant::FAR_FUTURE);
        let leaves = self.port.due() + self.wire.delay();
        leaves.min(self.wire.due()).min(schedule)
    }

    fn transmit(&mut self, departure: Departure<P>, owner: &mut dyn Owner<P>) {
        let Departure {
            packet,
            packets,
            frame,
            finished,
            ..
        } = departure;
        if let Some(cause) = self.wire.send(finished, frame, packet, owner) {
            self.port.refuse(cause, packets);
        }
    }

    fn change(&mut self, now: Instant, owner: &mut dyn Owner<P>) {
        while let Some(change) = self.schedule.poll(now) {
            self.apply(now, change, owner);
        }
    }

    #[cold]
    fn apply(&mut self, now: Instant, change: Change, owner: &mut dyn Owner<P>) {
        match change.restart {
            Some(Restart::Down) => self.go_down(now, owner),
            Some(Restart::Up) => self.come_up(now),
            None => {}
        }
        if let Some(rate) = change.rate {
            self.set_rate(now, Some(rate));
        }
        if let Some(delay) = change.delay {
            self.wire.set_delay(delay);
        }
        if let Some(loss) = change.loss {
            self.wire.set_loss(loss);
            self.port.set_code(self.wire.code());
        }
        if let Some((law, seed)) = change.controller {
            self.set_law(now, &law, seed);
            if let Some(restarts) = &mut self.restarts {
                restarts.law = Some((law, seed));
            }
        }
    }

    fn set_law(&mut self, now: Instant, law: &LinkAlgorithm, seed: u64) {
        let capacity = self.port.capacity().unwrap_or(0);
        let controller = law.controller(now, capacity, seed);
        self.port.set_controller(now, Some(controller));
    }

    fn go_down(&mut self, now: Instant, owner: &mut dyn Owner<P>) {
        if let Some(restarts) = &mut self.restarts {
            restarts.down += 1;
            self.port.go_down(now, owner);
        }
    }

    fn come_up(&mut self, now: Instant) {
        let Some(mut restarts) = self.restarts.take() else {
            return;
        };
        restarts.down = restarts.down.saturating_sub(1);
        if restarts.down == 0
            && let Some(fresh) = restarts.rebuild.build(now)
        {
            self.port.come_up(now, fresh);
            if let Some((law, seed)) = &restarts.law {
                self.set_law(now, law, *seed);
            }
        }
        self.restarts = Some(restarts);
    }

    /// When [`poll`](Self::poll) has work to do next.
    pub fn deadline(&self) -> Option<Instant> {
        // Plain minima are fast, which matters because this is called after every step of a
        // link.
        let never = Instant::FAR_FUTURE;
        let schedule = self.schedule.deadline().unwrap_or(never);
        let at = self.port.due().min(self.wire.due()).min(schedule);
        (at < never).then_some(at)
    }

    /// The port.
    pub fn port(&self) -> &Port<P> {
        &self.port
    }

    /// The port, for changes.
    pub fn port_mut(&mut self) -> &mut Port<P> {
        &mut self.port
    }

    /// Changes the rate, in bytes per second. The packet in transmission arrives at the new
    /// rate.
    pub fn set_rate(&mut self, now: Instant, rate: Option<u64>) {
        if let Some(retimed) = self.port.set_rate(now, rate) {
            self.wire.retime(retimed);
        }
    }

    /// Limits the rate to a reported one, in bytes per second; see [`Port::set_report`].
    pub fn set_report(&mut self, now: Instant, report: Option<u64>) {
        if let Some(retimed) = self.port.set_report(now, report) {
            self.wire.retime(retimed);
        }
    }

    /// The wire.
    pub fn wire(&self) -> &Wire<P> {
        &self.wire
    }

    /// Replaces the wire. Packets in flight still arrive when they would have.
    pub fn set_wire(&mut self, config: WireConfig) {
        self.wire.configure(config);
        self.port.set_code(self.wire.code());
    }

    /// Replaces the scheduled changes.
    pub fn set_schedule(&mut self, schedule: Schedule) {
        self.schedule = schedule;
    }

    /// Returns every packet in the queue or in flight to its owner.
    pub fn clear(&mut self, now: Instant, owner: &mut dyn Owner<P>) {
        self.port.clear(now, owner);
        for packet in self.wire.drain() {
            let packets = owner.packets(&packet);
            self.port.refuse(DropCause::Removed, packets);
            owner.dropped(packet, DropCause::Removed);
        }
    }
}

/// A change; absent parts stay unchanged.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// New rate in bytes per second; 0 is an outage.
    pub rate: Option<u64>,
    /// New propagation delay.
    pub delay: Option<Duration>,
    /// New loss.
    pub loss: Option<Loss>,
    /// New control law, with the seed of its random numbers.
    pub controller: Option<(LinkAlgorithm, u64)>,
    /// The router stops, or runs again.
    pub restart: Option<Restart>,
}

/// Half of a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// The router stops: waiting packets and those that arrive are lost.
    Down,
    /// It runs again, from its initial state.
    Up,
}

/// Changes ordered by time.
#[derive(Debug, Default)]
pub struct Schedule {
    /// Latest first, so that the next one is popped off the end.
    pending: Vec<(Instant, Change)>,
}

impl Schedule {
    /// Creates a schedule of changes at offsets from `start`, in any order.
    pub fn new(start: Instant, changes: impl IntoIterator<Item = (Duration, Change)>) -> Self {
        let mut pending: Vec<_> = changes
            .into_iter()
            .map(|(offset, change)| (start + offset, change))
            .collect();
        // Sorted stably, then reversed, so that of two changes at one time the later in the list
        // is applied last.
        pending.sort_by_key(|(at, _)| *at);
        pending.reverse();
        Self { pending }
    }

    /// The time of the next change.
    pub fn deadline(&self) -> Option<Instant> {
        self.pending.last().map(|(at, _)| *at)
    }

    /// Returns the next change due by `now`.
    pub fn poll(&mut self, now: Instant) -> Option<Change> {
        if self.deadline()? <= now {
            self.pending.pop().map(|(_, change)| change)
        } else {
            None
        }
    }
}
