//! A hop: a DropTail queue, a link of some rate, and the port's controller.

use std::collections::VecDeque;

use pathmark_cc::{
    Answer, Arrival, Carried, Duration, Instant, LinkAlgorithm, LinkController, LinkMetrics,
    VcpCarried, VcpCode, XcpCarried,
};

use super::Random;

/// VCP's fields as they travel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shim {
    pub(crate) carried: VcpCarried,
    pub(crate) r: Option<u16>,
    pub(crate) hops: u8,
    pub(crate) t_rho: Duration,
    pub(crate) load_128: u8,
}

/// XCP's fields as they travel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct XcpShim {
    pub(crate) carried: XcpCarried,
    pub(crate) stamped: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) flow: usize,
    pub(crate) number: u64,
    pub(crate) bytes: u32,
    pub(crate) shim: Option<Shim>,
    pub(crate) xcp: Option<XcpShim>,
}

impl Packet {
    fn arrival(&self) -> Arrival {
        Arrival {
            bytes: self.bytes,
            flow_hash: (self.flow as u32 + 1).wrapping_mul(0x85EB_CA6B),
            carried: match (self.shim, self.xcp) {
                (Some(shim), _) => Carried::Vcp(shim.carried),
                (None, Some(xcp)) => Carried::Xcp(xcp.carried),
                (None, None) => Carried::Foreign,
            },
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct HopConfig {
    pub(crate) controller: &'static str,
    pub(crate) bytes_per_second: u64,
    pub(crate) queue_limit: u64,
    /// The rate configured at the controller, if it differs from the true one.
    pub(crate) believed: Option<u64>,
    pub(crate) loss: f64,
    /// Losses behind the queue.
    pub(crate) loss_after: f64,
    /// Where the controller's clock starts, against the flows'.
    pub(crate) phase: Duration,
}

impl HopConfig {
    /// `mbit` Mbit/s with a queue of `limit` bytes.
    pub(crate) fn new(controller: &'static str, mbit: f64, limit: u64) -> Self {
        Self {
            controller,
            bytes_per_second: (mbit * 125_000.0) as u64,
            queue_limit: limit,
            believed: None,
            loss: 0.0,
            loss_after: 0.0,
            phase: Duration::ZERO,
        }
    }

    pub(crate) fn lossy(self, loss: f64) -> Self {
        Self { loss, ..self }
    }

    pub(crate) fn lossy_after(self, loss_after: f64) -> Self {
        Self { loss_after, ..self }
    }

    /// The controller believes in `mbit` Mbit/s.
    pub(crate) fn believed(self, mbit: f64) -> Self {
        Self {
            believed: Some((mbit * 125_000.0) as u64),
            ..self
        }
    }

    pub(crate) fn phase(self, phase: Duration) -> Self {
        Self { phase, ..self }
    }
}

#[derive(Debug)]
pub(crate) struct Hop {
    config: HopConfig,
    controller: Box<dyn LinkController>,
    queue: VecDeque<Packet>,
    queued: u64,
    busy: bool,
    armed: Option<Instant>,
    drops: u64,
    refused: u64,
    max_queue: u64,
    // Queue in byte-seconds, since `since`.
    area: f64,
    since: Instant,
    sent: u64,
    /// Bytes sent per 100 ms, and queue area per 100 ms.
    slots: Vec<(u64, f64)>,
    lost: u64,
    overs: u64,
}

const SLOT: f64 = 0.1;

impl Hop {
    pub(crate) fn new(config: &HopConfig, seed: u64) -> Self {
        let algorithm = LinkAlgorithm::parse(config.controller).expect("a known controller");
        let configured = config.believed.unwrap_or(config.bytes_per_second);
        let mut controller = algorithm.controller(Instant::ZERO, configured, seed);
        controller.on_buffer(config.queue_limit);
        // Packets counted as if the port had been up for `phase` when the flows begin.
        if config.phase > Duration::ZERO {
            controller.on_capacity(Instant::ZERO + config.phase, configured);
        }
        Self {
            config: config.clone(),
            controller,
            queue: VecDeque::new(),
            queued: 0,
            busy: false,
            armed: None,
            drops: 0,
            refused: 0,
            max_queue: 0,
            area: 0.0,
            since: Instant::ZERO,
            sent: 0,
            slots: Vec::new(),
            lost: 0,
            overs: 0,
        }
    }

    fn slot(&mut self, now: Instant) -> &mut (u64, f64) {
        let index = (now.as_nanos() as f64 / 1e9 / SLOT) as usize;
        if self.slots.len() <= index {
            self.slots.resize(index + 1, (0, 0.0));
        }
        &mut self.slots[index]
    }

    pub(crate) fn settle(&mut self, now: Instant) {
        let waiting = self.queued as f64 * (now - self.since).as_secs_f64();
        self.area += waiting;
        self.slot(now).1 += waiting;
        self.since = now;
    }

    pub(crate) fn loses_after(&mut self, random: &mut Random) -> bool {
        random.chance(self.config.loss_after)
    }

    /// The rate changes; the controller keeps the old one.
    pub(crate) fn set_rate(&mut self, mbit: f64) {
        self.config.bytes_per_second = (mbit * 125_000.0) as u64;
    }

    pub(crate) fn loses(&mut self, random: &mut Random) -> bool {
        let lost = random.chance(self.config.loss);
        self.lost += u64::from(lost);
        lost
    }

    fn due(&mut self, now: Instant) {
        while self.controller.deadline().is_some_and(|at| at <= now) {
            self.controller.on_timer(now, self.queued);
            self.overs += u64::from(self.controller.metrics().code == VcpCode::Over);
        }
    }

    /// The packet's end of transmission if the link was free.
    pub(crate) fn enqueue(&mut self, now: Instant, packet: Packet) -> Option<Instant> {
        self.due(now);
        self.settle(now);
        if !self.controller.admits(now, &packet.arrival()) {
            self.refused += 1;
            return None;
        }
        self.controller
            .on_arrival(now, &packet.arrival(), self.queued);
        if self.queued + u64::from(packet.bytes) > self.config.queue_limit && self.busy {
            self.drops += 1;
            self.controller.on_drop(now, &packet.arrival());
            return None;
        }
        self.queue.push_back(packet);
        self.queued += u64::from(packet.bytes);
        self.max_queue = self.max_queue.max(self.queued);
        if self.busy {
            return None;
        }
        self.busy = true;
        Some(now + self.transmission(packet.bytes))
    }

    fn transmission(&self, bytes: u32) -> Duration {
        Duration::from_nanos(u64::from(bytes) * 1_000_000_000 / self.config.bytes_per_second)
    }

    /// The packet whose transmission ended, and when the next one's ends.
    pub(crate) fn dequeue(&mut self, now: Instant) -> (Option<Packet>, Option<Instant>) {
        self.due(now);
        self.settle(now);
        let Some(mut packet) = self.queue.pop_front() else {
            return (None, None);
        };
        self.queued -= u64::from(packet.bytes);
        self.sent += u64::from(packet.bytes);
        self.slot(now).0 += u64::from(packet.bytes);
        let answer = self
            .controller
            .on_departure(now, &packet.arrival(), self.queued);
        if let (Answer::Xcp(answer), Some(xcp)) = (answer, &mut packet.xcp) {
            assert!(
                answer.delta <= xcp.carried.delta,
                "a wish only ever shrinks"
            );
            xcp.carried.delta = answer.delta;
            xcp.stamped = true;
        }
        if let (Answer::Vcp(answer), Some(shim)) = (answer, &mut packet.shim) {
            shim.carried.code = shim.carried.code.max(answer.code);
            shim.hops += 1;
            let t_rho = Duration::from_millis(answer.t_rho_ms.into());
            shim.t_rho = shim.t_rho.max(t_rho);
            shim.load_128 = shim.load_128.max(answer.load_128);
            match answer.r {
                Some(r) => shim.r = Some(shim.r.map_or(r, |old| old.min(r))),
                None => shim.carried.bise = false,
            }
        }
        let next = self
            .queue
            .front()
            .map(|next| now + self.transmission(next.bytes));
        self.busy = next.is_some();
        (Some(packet), next)
    }

    pub(crate) fn on_timer(&mut self, now: Instant) {
        self.armed = None;
        self.due(now);
    }

    pub(crate) fn timer_to_arm(&mut self) -> Option<Instant> {
        let at = self.controller.deadline()?;
        if self.armed.is_some_and(|armed| armed <= at) {
            return None;
        }
        self.armed = Some(at);
        Some(at)
    }

    // Results.

    pub(crate) fn drops(&self) -> u64 {
        self.drops
    }

    /// Bytes sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Packets that the controller did not admit.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    pub(crate) fn max_queue(&self) -> u64 {
        self.max_queue
    }

    pub(crate) fn metrics(&self) -> LinkMetrics {
        self.controller.metrics()
    }

    pub(crate) fn overs(&self) -> u64 {
        self.overs
    }

    /// Mean queue in bytes over the whole run.
    pub(crate) fn mean_queue(&self) -> f64 {
        self.area / (self.since.as_nanos() as f64 / 1e9).max(1e-9)
    }

    /// Mean queue in bytes from `from` to `to` seconds.
    pub(crate) fn mean_queue_between(&self, from: f64, to: f64) -> f64 {
        let (a, b) = ((from / SLOT) as usize, (to / SLOT) as usize);
        let b = b.min(self.slots.len());
        self.slots[a.min(b)..b]
            .iter()
            .map(|slot| slot.1)
            .sum::<f64>()
            / (to - from)
    }

    /// Share of the rate that was sent from `from` to `to` seconds.
    pub(crate) fn utilization(&self, from: f64, to: f64) -> f64 {
        let (a, b) = ((from / SLOT) as usize, (to / SLOT) as usize);
        let b = b.min(self.slots.len());
        let bytes: u64 = self.slots[a.min(b)..b].iter().map(|slot| slot.0).sum();
        bytes as f64 / (to - from) / self.config.bytes_per_second as f64
    }

    /// End of the first round trip with a utilization of 0.8 or more, in seconds.
    pub(crate) fn time_to_80(&self, rtt: f64) -> Option<f64> {
        let width = (rtt / SLOT).round().max(1.0) as usize;
        (width..=self.slots.len())
            .map(|end| end as f64 * SLOT)
            .find(|end| self.utilization(end - width as f64 * SLOT, *end) >= 0.8)
    }
}
