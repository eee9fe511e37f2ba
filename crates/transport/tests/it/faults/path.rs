//! The path between both ends, and its faults.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;

use pathmark_cc::{VcpAnswer, VcpCode};
use pathmark_transport::crypto::Random;
use pathmark_transport::{Duration, Instant};
use vcp_proto::mark::{Outcome, mark_payload};

use super::addresses::Addresses;
use super::applications::{CLIENT, SERVER};
use super::plan::{KINDS, Plan};

/// How often each of [`KINDS`] occurred, counted in datagrams or ends.
pub(crate) type Struck = [u64; KINDS.len()];

/// Indices into [`KINDS`].
pub(crate) const LOSS: usize = 0;
pub(crate) const DUPLICATION: usize = 1;
pub(crate) const REORDERING: usize = 2;
pub(crate) const CORRUPTION: usize = 3;
pub(crate) const TRUNCATION: usize = 4;
pub(crate) const REBINDING: usize = 5;
pub(crate) const OUTAGE: usize = 6;
pub(crate) const ROUTER_KILLED: usize = 7;
pub(crate) const CLOCK_JUMP: usize = 8;
pub(crate) const END_GONE: usize = 9;
pub(crate) const MIGRATION: usize = 10;
pub(crate) const DATAGRAMS: usize = 11;
pub(crate) const EARLY_DATA: usize = 12;
pub(crate) const SHORTAGE: usize = 13;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Flying {
    pub(crate) at: Instant,
    order: u64,
    pub(crate) to: usize,
    pub(crate) from: SocketAddr,
    pub(crate) address: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

/// The path of a plan, with one router.
pub(crate) struct Path {
    plan: Plan,
    random: Random,
    flying: BinaryHeap<Reverse<Flying>>,
    order: u64,
    /// The number of the last datagram that arrived at each end.
    last: [u64; 2],
    /// The source of the client's last datagram.
    source: Option<SocketAddr>,
    /// The time until which nothing passes, and the fault that causes this.
    dark: (Instant, usize),
    /// The router's identity, if it marks shims.
    router: Option<u16>,
    /// How often each kind of fault occurred.
    pub(crate) struck: Struck,
    /// Number of shims into which the router wrote.
    pub(crate) marked: u64,
}

impl Path {
    pub(crate) fn new(plan: Plan, random: Random) -> Self {
        Self {
            plan,
            random,
            flying: BinaryHeap::new(),
            order: 0,
            last: [0; 2],
            source: None,
            dark: (Instant::ZERO, OUTAGE),
            router: Some(1),
            struck: Struck::default(),
            marked: 0,
        }
    }

    /// Lets nothing pass until `end`.
    pub(crate) fn darken(&mut self, end: Instant) {
        if end > self.dark.0 {
            self.dark = (end, OUTAGE);
        }
    }

    /// Kills the router with everything in flight. From `end` on, another router forwards, which
    /// marks packets or not.
    pub(crate) fn kill_router(&mut self, end: Instant, marks: bool) {
        self.struck[ROUTER_KILLED] += self.flying.len() as u64;
        self.flying.clear();
        if end > self.dark.0 {
            self.dark = (end, ROUTER_KILLED);
        }
        self.router = marks.then_some(2);
    }

    fn chance(&mut self, ppm: u64) -> bool {
        ppm > 0 && self.random.below(1_000_000) < ppm
    }

    /// Returns varying answers of the router.
    fn answer(&mut self) -> VcpAnswer {
        let (code, load_128) = match self.random.below(10) {
            0..6 => (VcpCode::Low, 90),
            6..9 => (VcpCode::High, 120),
            _ => (VcpCode::Over, 140),
        };
        VcpAnswer {
            code,
            r: Some(self.random.below(65_536) as u16),
            t_rho_ms: 200,
            load_128,
            translated: false,
            corruption_ppm: 0,
        }
    }

    /// Sends a datagram of the end `side`. Returns false if it is lost.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        side: usize,
        from: SocketAddr,
        address: SocketAddr,
        mut bytes: Vec<u8>,
    ) -> bool {
        if now < self.dark.0 {
            self.struck[self.dark.1] += 1;
            return false;
        }
        if self.chance(self.plan.loss) {
            self.struck[LOSS] += 1;
            return false;
        }
        if let Some(router) = self.router {
            let answer = self.answer();
            let marked = mark_payload(&mut bytes, &answer, router) == Outcome::Marked;
            self.marked += u64::from(marked);
        }
        if self.chance(self.plan.corruption) {
            let at = self.random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << self.random.below(8);
            self.struck[CORRUPTION] += 1;
        }
        if self.chance(self.plan.truncation) {
            bytes.truncate(self.random.below(bytes.len() as u64) as usize);
            self.struck[TRUNCATION] += 1;
        }
        let copies = 1 + u64::from(self.chance(self.plan.duplication));
        self.struck[DUPLICATION] += copies - 1;
        let latency = self.plan.latency;
        for _ in 0..copies {
            let late = match self.chance(self.plan.reordering) {
                true => latency / 4 + latency.mul_f64(self.random.below(100) as f64 / 50.0),
                false => Duration::ZERO,
            };
            self.order += 1;
            self.flying.push(Reverse(Flying {
                at: now + latency + late,
                order: self.order,
                to: 1 - side,
                from,
                address,
                bytes: bytes.clone(),
            }));
        }
        true
    }

    /// Returns when the next datagram arrives.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.flying.peek().map(|Reverse(datagram)| datagram.at)
    }

    /// Returns the next datagram that has arrived if the client has the addresses `client`.
    pub(crate) fn arrive(&mut self, now: Instant, client: &Addresses) -> Option<Flying> {
        while self.next().is_some_and(|at| at <= now) {
            let Reverse(datagram) = self.flying.pop()?;
            // Datagrams to an address that the client has left are lost.
            if datagram.to == CLIENT && !client.has(datagram.address) {
                continue;
            }
            if datagram.to == SERVER {
                let before = self.source.replace(datagram.from);
                if let Some(before) = before.filter(|before| *before != datagram.from) {
                    let rebound = before.ip() == datagram.from.ip();
                    self.struck[if rebound { REBINDING } else { MIGRATION }] += 1;
                }
            }
            let last = &mut self.last[datagram.to];
            self.struck[REORDERING] += u64::from(datagram.order < *last);
            *last = datagram.order.max(*last);
            return Some(datagram);
        }
        None
    }
}
