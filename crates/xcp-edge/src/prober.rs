//! Router k−1, which answers requests with trains of packets.
//!
//! A stranger gets no answer at all. A requester that has the secret but has not proven its address
//! gets an acknowledgement of the same length as its request. After proving its address, it will
//! get trains. All requesters share a byte budget, and each train may use at most half of the
//! remaining budget.
//!
//! A requester proves its address by returning a token that was sent to this address. Issuing a
//! token needs no state. Only requesters with a fresh token get an entry, which contains the
//! highest request number of their run. Another run of the same requester (after a restart) needs a
//! token younger than that of the previous run, so that no message of the old run counts again.
//! Tokens depend on a key of this start, so that messages from before this router's start do not
//! count either.

use core::net::SocketAddr;
use std::collections::VecDeque;

use pathmark_cc::{Duration, Instant};

use crate::Transmit;
use crate::auth::{Key, Own};
use crate::message::{Body, Message, Probe, Token, Train};

/// Maximum number of trains in progress or waiting, in total and per requester.
const MOST_TRAINS: usize = 64;
const MOST_OF_ONE: usize = 2;
/// Maximum number of answers waiting to be sent.
const MOST_ANSWERS: usize = 64;
/// Headers of IP (version 6) and UDP, which the budget counts for each packet.
const HEADERS: u64 = 48;
/// Packets that are late by at most this time are sent immediately after each other.
const LATE: Duration = Duration::from_micros(500);
/// Maximum duration of a train, ns.
const MOST_SPAN: u64 = 4_000_000_000;

/// Limits of a prober's trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Long-term rate of trains in bytes per second, including IP headers, for example 1 % of
    /// the link.
    pub rate: u64,
    /// Additional bytes at once, for first estimates. The budget is refilled at `rate`.
    pub burst: u64,
    /// Maximum UDP payload of a packet.
    pub packet: u16,
}

/// Counters of a prober.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProberStats {
    /// Trains sent, including those in progress.
    pub trains: u64,
    /// Packets in these trains.
    pub probes: u64,
    /// UDP payload of these packets in bytes.
    pub probe_bytes: u64,
    /// Requests that were answered only with a token.
    pub unproven: u64,
    /// Requests whose number was received before.
    pub replayed: u64,
    /// Requests that exceeded the budget or the limits.
    pub refused: u64,
    /// Number of requesters that are stored.
    pub peers: u64,
}

/// A train in progress.
#[derive(Clone, Copy, Debug)]
struct Under {
    to: SocketAddr,
    run: u64,
    number: u32,
    train: Train,
    next: u16,
    due: Instant,
}

/// Answers requests, as described in the module.
#[derive(Debug)]
pub struct Prober {
    own: Own,
    key: Key,
    peers: Peers,
    limits: Limits,
    /// Budget in bytes, and the time of this value.
    budget: u64,
    filled: Instant,
    answers: VecDeque<(SocketAddr, Message)>,
    trains: VecDeque<Under>,
    stats: ProberStats,
}

impl Prober {
    /// Creates a prober with the addresses `own`. `start` must be a random key for this start
    /// only, which nobody else knows.
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

    /// Changes the limits.
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

    /// Handles a request with a correct authenticator.
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

    /// The part of a requested train that may be sent.
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
        // At least two packets are needed to show a gap.
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
        // A sender that was late for a long time must not catch up, because the rate matters, and
        // packets that accumulate here would be sent too fast. However, timers may be coarser than
        // a gap.
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
    pub fn deadline(&self) -> Option<Instant> {
        if !self.answers.is_empty() {
            return Some(Instant::ZERO);
        }
        self.heads().map(|(_, under)| under.due).min()
    }

    /// The first train of each requester, whose second train waits until the first has ended.
    fn heads(&self) -> impl Iterator<Item = (usize, &Under)> {
        let earlier = |place, to| {
            let mut earlier = self.trains.iter().take(place);
            earlier.any(|under: &Under| under.to == to)
        };
        let trains = self.trains.iter().enumerate();
        trains.filter(move |&(place, under)| !earlier(place, under.to))
    }

    /// Counters.
    pub fn stats(&self) -> ProberStats {
        ProberStats {
            peers: self.peers.count() as u64,
            ..self.stats
        }
    }
}

/// Maximum number of requesters that are stored.
pub(crate) const MOST_PEERS: usize = 64;
/// Validity of a token.
pub(crate) const FRESH: Duration = Duration::from_secs(10);
/// Time without requests after which a requester is forgotten. It is longer than the validity of
/// tokens, so that none of its messages can count as new by then.
const FORGET: Duration = Duration::from_secs(30);

/// A requester that has proven its address.
#[derive(Clone, Debug)]
struct Peer {
    address: SocketAddr,
    run: u64,
    number: u32,
    issued: u64,
    seen: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It can be answered with a train.
    New,
    /// Its sender has no fresh token, and must get one.
    Unproven,
    /// Its number was received before.
    Replayed,
    /// It is proven and new, but there is no room for its sender.
    Full,
}

#[derive(Clone, Debug)]
pub(crate) struct Peers {
    own: Own,
    key: Key,
    started: Instant,
    peers: Vec<Peer>,
}

impl Peers {
    /// Creates an empty table; `key` must only be used for this start.
    pub(crate) fn new(now: Instant, own: Own, key: Key) -> Self {
        Self {
            own,
            key,
            started: now,
            peers: Vec::with_capacity(MOST_PEERS),
        }
    }

    fn clock(&self, now: Instant) -> u64 {
        // Starts at 1, because 0 means that there is no token.
        let millis = (now - self.started).as_millis();
        u64::try_from(millis).unwrap_or(u64::MAX).saturating_add(1)
    }

    fn proof(&self, from: SocketAddr, run: u64, issued: u64) -> u64 {
        let mut bytes = [0; 18];
        for (to, from) in bytes.iter_mut().zip(
            run.to_be_bytes()
                .into_iter()
                .chain(issued.to_be_bytes())
                .chain(from.port().to_be_bytes()),
        ) {
            *to = from;
        }
        let route = self.own.way_from(from.ip());
        let tag = self.key.tag(&route, &bytes);
        tag.first_chunk()
            .map_or(0, |proof: &[u8; 8]| u64::from_be_bytes(*proof))
    }

    pub(crate) fn token(&self, now: Instant, to: SocketAddr, run: u64) -> Token {
        let issued = self.clock(now);
        Token {
            issued,
            proof: self.proof(to, run, issued),
        }
    }

    /// Admits or refuses a request with a correct authenticator.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        from: SocketAddr,
        run: u64,
        number: u32,
        token: &Token,
    ) -> Admission {
        let clock = self.clock(now);
        let proven = token.issued != 0
            && token.issued <= clock
            && self.proof(from, run, token.issued) == token.proof;
        if !proven {
            return Admission::Unproven;
        }
        let age = Duration::from_millis(clock - token.issued);
        if let Some(peer) = self.peers.iter_mut().find(|peer| peer.address == from) {
            let later = if peer.run == run {
                number > peer.number
            } else {
                token.issued > peer.issued
            };
            if !later {
                return Admission::Replayed;
            }
            (peer.run, peer.number, peer.seen) = (run, number, now);
            peer.issued = peer.issued.max(token.issued);
            return Admission::New;
        }
        if age > FRESH {
            return Admission::Unproven;
        }
        let peer = Peer {
            address: from,
            run,
            number,
            issued: token.issued,
            seen: now,
        };
        if self.peers.len() < MOST_PEERS {
            self.peers.push(peer);
            return Admission::New;
        }
        let gone = self.peers.iter_mut().find(|peer| now - peer.seen > FORGET);
        match gone {
            Some(place) => {
                *place = peer;
                Admission::New
            }
            None => Admission::Full,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.peers.len()
    }
}

#[cfg(test)]
#[path = "prober_tests.rs"]
mod tests;
