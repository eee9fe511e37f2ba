//! Router k: asks upstream routers for trains of packets.
//!
//! A request that is not acknowledged is repeated after `xcp_req_timeout`, three times in all; then
//! nothing more is sent to that router until a packet comes from it again (the XCP-i paper, section
//! III-A.3), and not before a while that doubles each time. The paper leaves the timeout open: here
//! it is three round trips to that router, at least 200 ms, and doubles with each try.
//!
//! The addresses of upstream routers come from headers, which any host can forge. So the table is
//! bounded, an entry without packets expires, and all routers that never acknowledged a request get
//! ten requests per second together. Those with addresses of one IPv6 prefix of 64 bits, all of
//! which one host may have, get a quarter of the table.

use core::net::{IpAddr, SocketAddr};

use pathmark_cc::{Duration, Instant};

use crate::Transmit;
use crate::auth::{Key, Own};
use crate::message::{Body, Message, Probe, Token, Train};

/// Upstream routers that are kept at most.
pub(crate) const MOST_UPSTREAMS: usize = 32;
/// Those that acknowledged nothing, of one IPv6 prefix of 64 bits.
const MOST_OF_PREFIX: usize = 8;
/// A router without packets for this time is forgotten.
const INACTIVE: Duration = Duration::from_secs(10);
/// A router without an acknowledgement makes room for others after this time.
const PATIENCE: Duration = Duration::from_secs(2);
/// Least time that an acknowledgement is waited for; the first guess too.
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);
/// Longest.
const MOST_TIMEOUT: Duration = Duration::from_secs(5);
/// Requests without an acknowledgement before silence.
const TRIES: usize = 3;
/// Least silence, and most.
const LEAST_SILENCE: Duration = Duration::from_secs(1);
const MOST_SILENCE: Duration = Duration::from_secs(32);
/// Wait after a refusal.
const REFUSED: Duration = Duration::from_secs(1);
/// Requests per second to routers that never acknowledged one, and at once.
const STRANGERS_PER_SECOND: u64 = 10;
const STRANGERS_AT_ONCE: u64 = 10;

/// What an upstream router is to be asked for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// This train …
    pub train: Train,
    /// … not before this.
    pub at: Instant,
}

/// What came of a datagram or of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A train is coming. A new [`Ask`] is wanted.
    Coming {
        /// From whom.
        from: SocketAddr,
        /// Its number.
        number: u32,
        /// What was granted.
        train: Train,
        /// Round trip of request and acknowledgement.
        rtt: Duration,
    },
    /// A packet of a train, the first time.
    Probe {
        /// From whom.
        from: SocketAddr,
        /// The number of its train.
        number: u32,
        /// What it says.
        probe: Probe,
        /// Bytes of UDP payload.
        bytes: usize,
    },
}

/// What a step in time brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A datagram to be sent.
    Send(Transmit),
    /// That router is silent from now on.
    Silent(SocketAddr),
}

/// What a requester did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequesterStats {
    /// Requests that were sent.
    pub requests: u64,
    /// Acknowledgements that were awaited.
    pub acknowledged: u64,
    /// Answers to no open request: late, repeated, or replayed.
    pub stray: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Times that a router was given up for silent.
    pub silences: u64,
    /// Upstream routers for which there was no room.
    pub no_room: u64,
    /// Upstream routers that are kept …
    pub upstreams: u64,
    /// … and those of them that acknowledge.
    pub answering: u64,
}

/// A request that waits for its acknowledgement: its tries, and until when the last one is waited
/// for.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    tries: [Option<(u32, Instant)>; TRIES],
    until: Instant,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The next request may be sent.
    Ready,
    Pending(Pending),
    /// It did not answer.
    Silent(Instant),
}

/// A train that may come, and which of its packets have.
#[derive(Clone, Copy, Debug, Default)]
struct Expected {
    number: u32,
    seen: u128,
}

#[derive(Clone, Debug)]
struct Upstream {
    address: SocketAddr,
    since: Instant,
    last_packet: Instant,
    state: State,
    silence: Duration,
    token: Token,
    /// It has acknowledged something, so it knows the secret and gets what is sent there.
    proven: bool,
    /// The last acknowledgement gave nothing but a token.
    tokened: bool,
    rtt: Option<Duration>,
    ask: Ask,
    expected: [Expected; 2],
}

impl Upstream {
    fn new(now: Instant, address: SocketAddr, train: Train) -> Self {
        Self {
            address,
            since: now,
            last_packet: now,
            state: State::Ready,
            silence: LEAST_SILENCE,
            token: Token::default(),
            proven: false,
            tokened: false,
            rtt: None,
            ask: Ask { train, at: now },
            expected: [Expected::default(); 2],
        }
    }

    fn may_go(&self, now: Instant) -> bool {
        let hopeless = !self.proven && now - self.since >= PATIENCE;
        hopeless || now - self.last_packet >= INACTIVE
    }

    fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Ready => (self.ask.at < Instant::FAR_FUTURE).then_some(self.ask.at),
            State::Pending(pending) => Some(pending.until),
            State::Silent(_) => None,
        }
    }

    /// How long the try after `tries` others is waited for.
    fn timeout(&self, tries: usize) -> Duration {
        let least = self.rtt.map_or(LEAST_TIMEOUT, |rtt| rtt * 3);
        let doubled = least.max(LEAST_TIMEOUT) * (1 << tries.min(TRIES));
        doubled.min(MOST_TIMEOUT)
    }
}

/// See the module.
#[derive(Debug)]
pub struct Requester {
    own: Own,
    key: Key,
    run: u64,
    number: u32,
    first: Train,
    upstreams: Vec<Upstream>,
    /// Requests to strangers that may be sent, in 10^-9, and as of when.
    strangers: u64,
    filled: Instant,
    stats: RequesterStats,
}

const WHOLE: u64 = 1_000_000_000;

impl Requester {
    /// A requester with the addresses `own`. `run` is random, and another each time that it starts;
    /// `first` is what each router is asked for first.
    #[must_use]
    pub fn new(now: Instant, own: impl Into<Own>, key: Key, run: u64, first: Train) -> Self {
        Self {
            own: own.into(),
            key,
            run,
            number: 0,
            first,
            upstreams: Vec::with_capacity(MOST_UPSTREAMS),
            strangers: STRANGERS_AT_ONCE * WHOLE,
            filled: now,
            stats: RequesterStats::default(),
        }
    }

    fn find(&mut self, address: SocketAddr) -> Option<&mut Upstream> {
        let mut upstreams = self.upstreams.iter_mut();
        upstreams.find(|upstream| upstream.address == address)
    }

    /// A packet came through a cloud from the router at `address`. False if there is no room for
    /// it.
    pub fn saw(&mut self, now: Instant, address: SocketAddr) -> bool {
        if let Some(upstream) = self.find(address) {
            upstream.last_packet = now;
            if let State::Silent(until) = upstream.state
                && now >= until
            {
                upstream.state = State::Ready;
                upstream.ask.at = now;
            }
            return true;
        }
        if !self.own.reaches(address.ip()) {
            return false;
        }
        let upstream = Upstream::new(now, address, self.first);
        let prefix = prefix(address);
        let of_prefix = |kept: &Upstream| prefix.is_some() && self::prefix(kept.address) == prefix;
        let strangers = |kept: &&Upstream| of_prefix(kept) && !kept.proven;
        let crowded = self.upstreams.iter().filter(strangers).count() >= MOST_OF_PREFIX;
        if !crowded && self.upstreams.len() < MOST_UPSTREAMS {
            self.upstreams.push(upstream);
            return true;
        }
        let mut upstreams = self.upstreams.iter_mut();
        let gone = upstreams.find(|kept| kept.may_go(now) && (!crowded || of_prefix(kept)));
        let Some(place) = gone else {
            self.stats.no_room += 1;
            return false;
        };
        *place = upstream;
        true
    }

    /// True if the router at `address` is kept.
    pub(crate) fn keeps(&self, address: SocketAddr) -> bool {
        self.upstreams.iter().any(|kept| kept.address == address)
    }

    /// What the router at `address` is to be asked for next.
    pub fn want(&mut self, address: SocketAddr, ask: Ask) {
        if let Some(upstream) = self.find(address) {
            upstream.ask = ask;
        }
    }

    /// An answer came whose authenticator is right.
    pub(crate) fn on_answer(
        &mut self,
        now: Instant,
        from: SocketAddr,
        message: &Message,
        bytes: usize,
    ) -> Option<Received> {
        if message.run != self.run {
            self.stats.stray += 1;
            return None;
        }
        let received = match message.body {
            Body::Acknowledgement(token, train) => {
                self.acknowledged(now, from, message.number, token, train)
            }
            Body::Probe(probe) => {
                let upstream = self.find(from);
                upstream.and_then(|upstream| upstream.first_time(message.number, probe, bytes))
            }
            Body::Request(..) => None,
        };
        if received.is_none() {
            self.stats.stray += 1;
        }
        received
    }

    fn acknowledged(
        &mut self,
        now: Instant,
        from: SocketAddr,
        number: u32,
        token: Token,
        train: Train,
    ) -> Option<Received> {
        let upstream = self.find(from)?;
        let State::Pending(pending) = upstream.state else {
            return None;
        };
        let mut tries = pending.tries.iter().flatten();
        let (_, sent) = *tries.find(|(tried, _)| *tried == number)?;
        let rtt = now - sent;
        upstream.rtt = Some(match upstream.rtt {
            Some(before) => (before * 7 + rtt) / 8,
            None => rtt,
        });
        upstream.proven = true;
        upstream.silence = LEAST_SILENCE;
        upstream.token = token;
        upstream.state = State::Ready;
        if train.packets == 0 {
            // A token comes first; a second answer like that is a refusal.
            upstream.ask.at = if upstream.tokened { now + REFUSED } else { now };
            let refused = u64::from(upstream.tokened);
            upstream.tokened = !upstream.tokened;
            self.stats.refused += refused;
            self.stats.acknowledged += 1;
            return None;
        }
        upstream.tokened = false;
        // Until the estimator says what next.
        upstream.ask.at = Instant::FAR_FUTURE;
        upstream.expected = [
            Expected { number, seen: 0 },
            upstream.expected.first().copied().unwrap_or_default(),
        ];
        self.stats.acknowledged += 1;
        Some(Received::Coming {
            from,
            number,
            train,
            rtt,
        })
    }

    /// Does the next thing that is due; a request goes to the front of `out`.
    pub fn poll(&mut self, now: Instant, out: &mut [u8]) -> Option<Step> {
        self.upstreams
            .retain(|kept| now - kept.last_packet < INACTIVE);
        self.fill(now);
        let due = |upstream: &Upstream| upstream.deadline().is_some_and(|at| at <= now);
        let allowed = self.strangers >= WHOLE;
        // Who waits for longest comes first: strangers share what they may get.
        let upstreams = self.upstreams.iter_mut();
        let upstream = upstreams
            .filter(|upstream| due(upstream) && (upstream.proven || allowed))
            .min_by_key(|upstream| upstream.deadline())?;
        let mut pending = match upstream.state {
            State::Pending(pending) => pending,
            _ => Pending::default(),
        };
        let Some(place) = pending.tries.iter_mut().find(|tried| tried.is_none()) else {
            upstream.state = State::Silent(now + upstream.silence);
            upstream.silence = (upstream.silence * 2).min(MOST_SILENCE);
            upstream.token = Token::default();
            upstream.proven = false;
            upstream.tokened = false;
            self.stats.silences += 1;
            return Some(Step::Silent(upstream.address));
        };
        self.number = self.number.wrapping_add(1);
        *place = Some((self.number, now));
        let tries = pending.tries.iter().flatten().count();
        pending.until = now + upstream.timeout(tries - 1);
        upstream.state = State::Pending(pending);
        if !upstream.proven {
            self.strangers -= WHOLE;
        }
        let message = Message {
            run: self.run,
            number: self.number,
            body: Body::Request(upstream.token, upstream.ask.train),
        };
        let to = upstream.address;
        let route = self.own.way_to(to.ip());
        self.stats.requests += 1;
        let len = message.write(&self.key, &route, 0, out)?;
        Some(Step::Send(Transmit { to, len }))
    }

    fn fill(&mut self, now: Instant) {
        let elapsed = u64::try_from((now - self.filled).as_nanos()).unwrap_or(u64::MAX);
        let more = elapsed.saturating_mul(STRANGERS_PER_SECOND);
        let most = STRANGERS_AT_ONCE * WHOLE;
        self.strangers = self.strangers.saturating_add(more).min(most);
        self.filled = now;
    }

    /// When something is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let missing = WHOLE.saturating_sub(self.strangers);
        let wait = Duration::from_nanos(missing.div_ceil(STRANGERS_PER_SECOND));
        let allowed = self.filled + wait;
        let due = |upstream: &Upstream| {
            let at = upstream.deadline()?;
            Some(if upstream.proven { at } else { at.max(allowed) })
        };
        self.upstreams.iter().filter_map(due).min()
    }

    /// What it did.
    #[must_use]
    pub fn stats(&self) -> RequesterStats {
        let answering = self.upstreams.iter().filter(|upstream| upstream.proven);
        RequesterStats {
            upstreams: self.upstreams.len() as u64,
            answering: answering.count() as u64,
            ..self.stats
        }
    }
}

/// The first 64 bits of an IPv6 address; `None` for an IPv4 address.
fn prefix(address: SocketAddr) -> Option<[u8; 8]> {
    match address.ip() {
        IpAddr::V4(_) => None,
        IpAddr::V6(v6) => v6.octets().first_chunk().copied(),
    }
}

impl Upstream {
    /// A packet of an expected train, unless it came before.
    fn first_time(&mut self, number: u32, probe: Probe, bytes: usize) -> Option<Received> {
        let expected = self
            .expected
            .iter_mut()
            .find(|expected| number != 0 && expected.number == number)?;
        let bit = 1u128.checked_shl(u32::from(probe.index))?;
        if expected.seen & bit != 0 {
            return None;
        }
        expected.seen |= bit;
        Some(Received::Probe {
            from: self.address,
            number,
            probe,
            bytes,
        })
    }
}

#[cfg(test)]
#[path = "requester_tests.rs"]
mod tests;
