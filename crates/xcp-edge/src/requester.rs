//! Router k, which requests trains of packets from upstream routers.
//!
//! A request that is not acknowledged is repeated after `xcp_req_timeout`, up to three tries in
//! total. Then, this router gets no more requests until a packet arrives from it again (the XCP-i
//! paper, section III-A.3), and not before a pause that doubles each time. The paper does not
//! specify the timeout. Here it is three round trips to the router, at least 200 ms, and doubles
//! with each try.
//!
//! The addresses of upstream routers come from headers, which any host can forge. Therefore the
//! table is bounded, an entry without packets expires, and all routers that never acknowledged a
//! request share ten requests per second. Addresses of one IPv6 prefix of 64 bits may all belong
//! to one host, so those that never acknowledged a request share a quarter of the table.

use core::net::{IpAddr, SocketAddr};

use pathmark_cc::{Duration, Instant};

use crate::Transmit;
use crate::auth::{Key, Own};
use crate::message::{Body, Message, Probe, Token, Train};

/// Maximum number of upstream routers.
pub(crate) const MOST_UPSTREAMS: usize = 32;
/// Maximum number of routers without an acknowledgement that share an IPv6 prefix of 64 bits.
const MOST_OF_PREFIX: usize = 8;
/// Time without packets after which a router is forgotten.
const INACTIVE: Duration = Duration::from_secs(10);
/// Time after which a router without an acknowledgement makes room for others.
const PATIENCE: Duration = Duration::from_secs(2);
/// Minimum timeout of a request, and its initial value.
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);
const MOST_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of requests without an acknowledgement before silence.
const TRIES: usize = 3;
/// Minimum and maximum duration of silence.
const LEAST_SILENCE: Duration = Duration::from_secs(1);
const MOST_SILENCE: Duration = Duration::from_secs(32);
/// Pause after a refusal.
const REFUSED: Duration = Duration::from_secs(1);
/// Rate of requests per second to routers that never acknowledged one, and their burst.
const STRANGERS_PER_SECOND: u64 = 10;
const STRANGERS_AT_ONCE: u64 = 10;

/// The next request to an upstream router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The train to request.
    pub train: Train,
    /// The earliest time.
    pub at: Instant,
}

/// The result of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A train is coming, and a new [`Ask`] is required.
    Coming {
        /// The router that sends it.
        from: SocketAddr,
        /// Its number.
        number: u32,
        /// The granted train.
        train: Train,
        /// Round-trip time of request and acknowledgement.
        rtt: Duration,
    },
    /// A packet of a train, not a duplicate.
    Probe {
        /// The router that sent it.
        from: SocketAddr,
        /// The number of its train.
        number: u32,
        /// Its fields.
        probe: Probe,
        /// Bytes of UDP payload.
        bytes: usize,
    },
}

/// The result of a step in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A datagram to send.
    Send(Transmit),
    /// This router is now silent.
    Silent(SocketAddr),
}

/// Counters of a requester.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequesterStats {
    /// Requests sent.
    pub requests: u64,
    /// Acknowledgements of open requests.
    pub acknowledged: u64,
    /// Answers to no open request: late, repeated, or replayed.
    pub stray: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Number of times that a router was considered silent.
    pub silences: u64,
    /// Upstream routers for which there was no room.
    pub no_room: u64,
    /// Number of upstream routers that are stored.
    pub upstreams: u64,
    /// Number of upstream routers that acknowledge requests.
    pub answering: u64,
}

/// A request that waits for its acknowledgement: its tries, and the timeout of the last try.
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
    /// It did not answer, and gets no request before this time.
    Silent(Instant),
}

/// A train that may arrive, with the packets that have arrived.
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
    /// True if it has acknowledged a request, so it has the secret and receives packets at its
    /// address.
    proven: bool,
    /// True if the last acknowledgement contained only a token.
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

    /// The timeout of a try after `tries` others.
    fn timeout(&self, tries: usize) -> Duration {
        let least = self.rtt.map_or(LEAST_TIMEOUT, |rtt| rtt * 3);
        let doubled = least.max(LEAST_TIMEOUT) * (1 << tries.min(TRIES));
        doubled.min(MOST_TIMEOUT)
    }
}

/// Requests trains, as described in the module.
#[derive(Debug)]
pub struct Requester {
    own: Own,
    key: Key,
    run: u64,
    number: u32,
    first: Train,
    upstreams: Vec<Upstream>,
    /// Requests to unproven routers that may be sent, in 10^-9, and the time of this value.
    strangers: u64,
    filled: Instant,
    stats: RequesterStats,
}

const WHOLE: u64 = 1_000_000_000;

impl Requester {
    /// Creates a requester with the addresses `own`. `run` must be random and different at each
    /// start; `first` is the first train requested from each router.
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

    /// Records that a packet arrived through a cloud from the router at `address`. Returns false
    /// if there is no room for this router.
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

    pub(crate) fn keeps(&self, address: SocketAddr) -> bool {
        self.upstreams.iter().any(|kept| kept.address == address)
    }

    /// Sets the next request to the router at `address`.
    pub fn want(&mut self, address: SocketAddr, ask: Ask) {
        if let Some(upstream) = self.find(address) {
            upstream.ask = ask;
        }
    }

    /// Handles an answer with a correct authenticator.
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
            // The first such answer contains the token, and a second such answer is a refusal.
            upstream.ask.at = if upstream.tokened { now + REFUSED } else { now };
            let refused = u64::from(upstream.tokened);
            upstream.tokened = !upstream.tokened;
            self.stats.refused += refused;
            self.stats.acknowledged += 1;
            return None;
        }
        upstream.tokened = false;
        // Until the estimator makes the next request.
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

    /// Performs the next action that is due. A request is written to the front of `out`.
    pub fn poll(&mut self, now: Instant, out: &mut [u8]) -> Option<Step> {
        self.upstreams
            .retain(|kept| now - kept.last_packet < INACTIVE);
        self.fill(now);
        let due = |upstream: &Upstream| upstream.deadline().is_some_and(|at| at <= now);
        let allowed = self.strangers >= WHOLE;
        // The router that has waited longest is first, so that unproven routers share their
        // requests.
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

    /// Returns when the next action is due.
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

    /// Counters.
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
    /// Returns a packet of an expected train, unless it is a duplicate.
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
