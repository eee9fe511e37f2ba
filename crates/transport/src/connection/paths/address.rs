//! The peer's address in use, and what the peer has proved of it.

use std::net::{IpAddr, SocketAddr};

use crate::path::{AmplificationLimit, PathResponses, PathValidation};
use crate::{Duration, Instant};

/// Least datagram to an address that is not validated: it holds a PATH_CHALLENGE or an ACK.
pub(in crate::connection) const MIN_UNVALIDATED: usize = 48;
/// What data leaves of an address's credit, so that challenges can be repeated: a peer that only
/// listens adds little to it before it has seen one.
const RESERVE: usize = 4 * MIN_UNVALIDATED;

/// How long an address counts as known after the peer has shown that it gets what is sent there:
/// it is the peer's, and what was learnt of the path holds (RFC 9000 §9.3, §9.4).
const KNOWN: Duration = Duration::from_secs(60);

/// What the amplification limit makes of a datagram (RFC 9000 §8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum Allowance {
    /// It may have this many bytes.
    Bytes(usize),
    /// It may not leave, and the peer has to validate its address first.
    Blocked,
    /// It may not leave: the peer may only receive, and nothing probes.
    Nothing,
}

/// Where the peer is, and what it has proved of that.
#[derive(Debug)]
pub(in crate::connection) struct Address {
    pub(super) remote: SocketAddr,
    pub(super) local: Option<IpAddr>,
    pub(super) limit: AmplificationLimit,
    pub(super) responses: PathResponses,
    /// While the address is being validated.
    pub(super) validation: Option<PathValidation>,
    /// When the peer was last challenged here, if ever.
    pub(super) challenged_at: Option<Instant>,
    /// When the peer last showed that it gets what is sent here.
    pub(super) proved_at: Instant,
    /// An acknowledgement of a packet from this number on proves that the peer is back here.
    pub(super) proved_from: u64,
}

impl Address {
    pub(super) const fn new(
        now: Instant,
        remote: SocketAddr,
        local: Option<IpAddr>,
        limit: AmplificationLimit,
    ) -> Self {
        Self {
            remote,
            local,
            limit,
            responses: PathResponses::new(),
            validation: None,
            challenged_at: None,
            proved_at: now,
            proved_from: 0,
        }
    }

    /// The peer has proved its address by its handshake.
    pub(in crate::connection) const fn validate(&mut self) {
        self.limit.validate();
    }

    /// Bytes that may be sent there.
    pub(in crate::connection) const fn available(&self) -> u64 {
        self.limit.available()
    }

    /// A datagram left.
    #[inline]
    pub(in crate::connection) const fn on_datagram_sent(&mut self, bytes: u64) {
        self.limit.on_sent(bytes);
    }

    /// Whether its packets are of IPv6.
    #[inline]
    pub(super) const fn is_ipv6(&self) -> bool {
        // A socket of both versions writes IPv4 addresses as IPv4-mapped.
        self.remote.ip().to_canonical().is_ipv6()
    }

    /// Whether `remote` and `local` (as far as it is known) are this one's.
    #[inline]
    pub(super) fn is(&self, remote: SocketAddr, local: Option<IpAddr>) -> bool {
        self.remote == remote && self.is_from(local)
    }

    /// Whether nothing but the port tells `remote` and `local` from this one's.
    pub(super) fn is_same_host(&self, remote: SocketAddr, local: Option<IpAddr>) -> bool {
        self.remote.ip() == remote.ip() && self.is_from(local)
    }

    fn is_from(&self, local: Option<IpAddr>) -> bool {
        self.local.is_none() || local.is_none() || self.local == local
    }

    /// True if the address is the peer's, as it has shown not long ago.
    pub(super) fn is_known(&self, now: Instant) -> bool {
        self.limit.is_validated() && now.saturating_since(self.proved_at) < KNOWN
    }

    /// The peer has shown that it is here, by something that it could not know otherwise.
    pub(super) const fn prove(&mut self, now: Instant) {
        self.proved_at = now;
        self.limit.validate();
    }

    /// The path in use goes here. Packet `number` was acknowledged.
    #[inline]
    pub(super) fn on_acked(&mut self, now: Instant, number: u64) {
        self.proved_at = now;
        if self.limit.is_validated() && number >= self.proved_from {
            self.limit.validate();
        }
    }

    /// True if a PATH_CHALLENGE is due.
    #[inline]
    pub(super) fn wants_challenge(&self, now: Instant) -> bool {
        let validation = self.validation.as_ref();
        validation.is_some_and(|validation| validation.wants_challenge(now))
    }

    /// What a datagram of `size` bytes may have; `probes`: a probe waits. `least` and `full`: bytes
    /// of the least datagram with a PATH_CHALLENGE, and of a datagram that begins a connection.
    #[inline]
    pub(in crate::connection) fn allowance(
        &self,
        now: Instant,
        size: usize,
        probes: bool,
        [least, full]: [usize; 2],
    ) -> Allowance {
        if self.limit.is_lifted() {
            return Allowance::Bytes(size);
        }
        let least = least.max(MIN_UNVALIDATED);
        let available = usize::try_from(self.limit.available()).unwrap_or(usize::MAX);
        if self.limit.is_validated() {
            // The peer may only receive, and all that was lent may be lost: a probe that holds
            // little but a PING asks whether it is there.
            return match available {
                available if available >= least => Allowance::Bytes(size.min(available)),
                _ if probes => Allowance::Bytes(least),
                _ => Allowance::Nothing,
            };
        }
        let validation = self.validation.as_ref();
        let allowed = match validation {
            None => available,
            Some(validation) => match available.checked_sub(RESERVE) {
                Some(rest) if rest >= least => rest,
                _ if validation.wants_challenge(now) => available.min(least),
                _ => 0,
            },
        };
        // Initial packets need full datagrams; a path that is being validated makes do with less.
        let full = validation.is_none() && allowed >= full;
        if allowed >= size || full || (validation.is_some() && allowed >= least) {
            return Allowance::Bytes(size.min(allowed));
        }
        Allowance::Blocked
    }
}
