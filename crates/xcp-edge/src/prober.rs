//! Router k−1: answers requests with trains of packets.
//!
//! A stranger gets no answer at all. Who knows the secret but has not proven its address gets an
//! acknowledgement as long as its request. Who has gets trains, within a budget in bytes that all
//! requesters share, each at most half of what is left.

use core::net::SocketAddr;
use std::collections::VecDeque;

use pathmark_cc::{Duration, Instant};

use crate::Transmit;
use crate::auth::{Key, Own};
use crate::message::{Body, Message, Probe, Token, Train};
use crate::replay::{Admission, Peers};

/// Trains that are on their way or wait at most, all requesters together, and of one.
const MOST_TRAINS: usize = 64;
const MOST_OF_ONE: usize = 2;
/// Answers that wait to be sent at most.
const MOST_ANSWERS: usize = 64;
/// Headers of IP (version 6) and UDP, as the budget counts them for each packet.
const HEADERS: u64 = 48;
/// Packets that are late by no more are sent one behind the other.
const LATE: Duration = Duration::from_micros(500);
/// Longest time that a train may take.
const MOST_SPAN: u64 = 4_000_000_000;

/// What a prober may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes per second of trains over time, IP headers included: 1 % of the link, say.
    pub rate: u64,
    /// Bytes beyond that at once: for first estimates. What was not used comes back at `rate`.
    pub burst: u64,
    /// Largest UDP payload of a packet.
    pub packet: u16,
}

/// What a prober did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProberStats {
    /// Trains that were sent, or are being sent …
    pub trains: u64,
    /// … packets of them …
    pub probes: u64,
    /// … and bytes of UDP payload.
    pub probe_bytes: u64,
    /// Requests that got a token and nothing else.
    pub unproven: u64,
    /// Requests whose number was received before.
    pub replayed: u64,
    /// Requests beyond what may be sent or kept.
    pub refused: u64,
    /// Requesters that are kept.
    pub peers: u64,
}

/// A train on its way.
#[derive(Clone, Copy, Debug)]
struct Under {
    to: SocketAddr,
    run: u64,
    number: u32,
    train: Train,
    next: u16,
    due: Instant,
}

/// See the module.
#[derive(Debug)]
pub struct Prober {
    own: Own,
    key: Key,
    peers: Peers,
    limits: Limits,
    /// Bytes that may be sent, and as of when.
    budget: u64,
    filled: Instant,
    answers: VecDeque<(SocketAddr, Message)>,
    trains: VecDeque<Under>,
    stats: ProberStats,
}

impl Prober {
    /// A prober with the addresses `own`. `start` is a random key of this start alone, unknown to
    /// everybody else.
    #[must_use]
    pub fn new(now: Instant, own: impl Into<Own>, key: Key, start: Key, limits: Limits) -> Self {
        let own = own.into();
        Self {
            own,
            key,
            peers: Peers::new(now, own, start),
            limits,
            budget: limits.burst,
            filled: now,
            answers: VecDeque::with_capacity(MOST_ANSWERS),
            trains: VecDeque::with_capacity(MOST_TRAINS),
            stats: ProberStats::default(),
        }
    }

    /// What it may send changed.
    pub fn limit(&mut self, now: Instant, limits: Limits) {
        self.fill(now);
        self.budget = self.budget.min(limits.burst);
        self.limits = limits;
    }

    fn fill(&mut self, now: Instant) {
        let elapsed = (now - self.filled).as_nanos();
        let more = u128::from(self.limits.rate) * elapsed / 1_000_000_000;
        if more > 0 {
            let more = u64::try_from(more).unwrap_or(u64::MAX);
            self.budget = self.budget.saturating_add(more).min(self.limits.burst);
            self.filled = now;
        }
    }

    /// A request came whose authenticator is right.
    pub(crate) fn on_request(
        &mut self,
        now: Instant,
        from: SocketAddr,
        message: &Message,
        token: &Token,
        wanted: &Train,
    ) {
        if self.answers.len() >= MOST_ANSWERS {
            self.stats.refused += 1;
            return;
        }
        let (run, number) = (message.run, message.number);
        let granted = match self.peers.admit(now, from, run, number, token) {
            Admission::New => self.grant(now, from, wanted),
            Admission::Unproven => {
                self.stats.unproven += 1;
                Train::default()
            }
            Admission::Replayed => {
                self.stats.replayed += 1;
                return;
            }
            Admission::Full => {
                self.stats.refused += 1;
                Train::default()
            }
        };
        let body = Body::Acknowledgement(self.peers.token(now, from, run), granted);
        let answer = Message { run, number, body };
        self.answers.push_back((from, answer));
        if granted.packets > 0 {
            self.stats.trains += 1;
            self.trains.push_back(Under {
                to: from,
                run,
                number,
                train: granted,
                next: 0,
                due: now,
            });
        }
    }

    /// As much of a train as may be sent.
    fn grant(&mut self, now: Instant, to: SocketAddr, wanted: &Train) -> Train {
        self.fill(now);
        let of_one = self.trains.iter().filter(|under| under.to == to).count();
        let bytes = wanted.bytes.min(self.limits.packet);
        let each = u64::from(bytes) + HEADERS;
        let affordable = u16::try_from(self.budget / 2 / each).unwrap_or(u16::MAX);
        let train = Train {
            packets: wanted.packets.min(affordable),
            bytes,
            gap: wanted.gap,
        };
        let too_many = of_one >= MOST_OF_ONE || self.trains.len() >= MOST_TRAINS;
        // Two packets are the least that show a gap.
        if too_many || train.packets < 2 || train.span() > MOST_SPAN {
            self.stats.refused += u64::from(wanted.packets > 0);
            return Train::default();
        }
        self.budget -= each * u64::from(train.packets);
        train
    }

    /// Writes the next datagram that is due into `out`.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<Transmit> {
        if let Some((to, answer)) = self.answers.pop_front() {
            let route = self.own.way_to(to.ip());
            let len = answer.write(&self.key, &route, 0, out)?;
            return Some(Transmit { to, len });
        }
        let place = self.heads().find(|(_, under)| under.due <= now)?.0;
        let under = self.trains.get_mut(place)?;
        let probe = Message {
            run: under.run,
            number: under.number,
            body: Body::Probe(Probe {
                sent: now.as_nanos(),
                index: under.next,
                packets: under.train.packets,
            }),
        };
        let (to, bytes) = (under.to, under.train.bytes);
        under.next += 1;
        // A sender that was late for long does not make up for it: the rate is what matters, and
        // packets that queue up here would come too fast. Timers may be coarser than a gap.
        let gap = Duration::from_nanos(u64::from(under.train.gap));
        let steady = under.due + gap;
        under.due = if steady + gap.max(LATE) < now {
            now + gap
        } else {
            steady
        };
        if under.next >= under.train.packets {
            self.trains.remove(place);
        }
        let len = probe.write(&self.key, &self.own.way_to(to.ip()), bytes, out)?;
        self.stats.probes += 1;
        self.stats.probe_bytes += len as u64;
        Some(Transmit { to, len })
    }

    /// When the next packet is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if !self.answers.is_empty() {
            return Some(Instant::ZERO);
        }
        self.heads().map(|(_, under)| under.due).min()
    }

    /// The first train of each requester: a second one waits for its end.
    fn heads(&self) -> impl Iterator<Item = (usize, &Under)> {
        let earlier = |place, to| {
            let mut earlier = self.trains.iter().take(place);
            earlier.any(|under: &Under| under.to == to)
        };
        let trains = self.trains.iter().enumerate();
        trains.filter(move |&(place, under)| !earlier(place, under.to))
    }

    /// What it did.
    #[must_use]
    pub fn stats(&self) -> ProberStats {
        ProberStats {
            peers: self.peers.count() as u64,
            ..self.stats
        }
    }
}

#[cfg(test)]
#[path = "prober_tests.rs"]
mod tests;
