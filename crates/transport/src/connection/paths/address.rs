//! The peer's current address, and how far it is validated.

use std::net::{IpAddr, SocketAddr};

use crate::path::{AmplificationLimit, PathResponses, PathValidation};
use crate::{Duration, Instant};

/// Minimum size of a datagram to an address that isn't validated, which is enough for a
/// PATH_CHALLENGE or an ACK.
pub(in crate::connection) const MIN_UNVALIDATED: usize = 48;
/// Part of an address's credit that data doesn't use, so that challenges can be repeated: a peer
/// that only receives adds little credit before it has seen one.
const RESERVE: usize = 4 * MIN_UNVALIDATED;

/// Time for which an address counts as known after the peer has shown that it receives packets
/// there. During this time, the address is assumed to be the peer's, and the measurements of the
/// path to be valid (RFC 9000 §9.3, §9.4).
const KNOWN: Duration = Duration::from_secs(60);

/// Decision of the amplification limit on a datagram (RFC 9000 §8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum Allowance {
    /// It may have this many bytes.
    Bytes(usize),
    /// It can't be sent until the peer validates its address.
    Blocked,
    /// It can't be sent, because the peer may only be receiving and no probe is due.
    Nothing,
}

/// The peer's address, and how far it is validated.
#[derive(Debug)]
pub(in crate::connection) struct Address {
    pub(super) remote: SocketAddr,
    pub(super) local: Option<IpAddr>,
    pub(super) limit: AmplificationLimit,
    pub(super) responses: PathResponses,
    /// The state of validation, while the address is being validated.
    pub(super) validation: Option<PathValidation>,
    /// When the peer was last challenged at this address.
    pub(super) challenged_at: Option<Instant>,
    /// When the peer last showed that it receives packets at this address.
    pub(super) proved_at: Instant,
    /// First packet number whose acknowledgement proves that the peer is back at this address.
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

    /// Validates the address, because the peer has proved it by its handshake.
    pub(in crate::connection) const fn validate(&mut self) {
        self.limit.validate();
    }

    /// Returns the number of bytes that may be sent there.
    pub(in crate::connection) const fn available(&self) -> u64 {
        self.limit.available()
    }

    /// Counts a datagram sent there.
    #[inline]
    pub(in crate::connection) const fn on_datagram_sent(&mut self, bytes: u64) {
        self.limit.on_sent(bytes);
    }

    /// Returns whether packets to this address are IPv6.
    #[inline]
    pub(super) const fn is_ipv6(&self) -> bool {
        // Sockets for both versions report IPv4 addresses as IPv4-mapped addresses.
        self.remote.ip().to_canonical().is_ipv6()
    }

    /// Returns true if `remote` and `local`, as far as it is known, are those of this address.
    #[inline]
    pub(super) fn is(&self, remote: SocketAddr, local: Option<IpAddr>) -> bool {
        self.remote == remote && self.is_from(local)
    }

    /// Returns true if `remote` and `local` differ from this address by at most the port.
    pub(super) fn is_same_host(&self, remote: SocketAddr, local: Option<IpAddr>) -> bool {
        self.remote.ip() == remote.ip() && self.is_from(local)
    }

    fn is_from(&self, local: Option<IpAddr>) -> bool {
        self.local.is_none() || local.is_none() || self.local == local
    }

    /// Returns true if the peer has recently shown that it is at this address.
    pub(super) fn is_known(&self, now: Instant) -> bool {
        self.limit.is_validated() && now.saturating_since(self.proved_at) < KNOWN
    }

    /// Validates the address, because the peer has responded with information that it only gets
    /// there.
    pub(super) const fn prove(&mut self, now: Instant) {
        self.proved_at = now;
        self.limit.validate();
    }

    /// Processes the acknowledgement of packet `number` while the current path leads to this
    /// address.
    #[inline]
    pub(super) fn on_acked(&mut self, now: Instant, number: u64) {
        self.proved_at = now;
        if self.limit.is_validated() && number >= self.proved_from {
            self.limit.validate();
        }
    }

    /// Returns true if a PATH_CHALLENGE is due.
    #[inline]
    pub(super) fn wants_challenge(&self, now: Instant) -> bool {
        let validation = self.validation.as_ref();
        validation.is_some_and(|validation| validation.wants_challenge(now))
    }

    /// Applies the limit to a datagram of `size` bytes. `probes` is true if a probe is due. `least`
    /// is the size of the smallest datagram with a PATH_CHALLENGE, and `full` the size of a
    /// datagram that begins a connection, in bytes.
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
            // The peer may only be receiving, and everything sent so far may be lost. A probe with
            // little more than a PING therefore tests whether the peer is there.
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
        // Initial packets need full datagrams, whereas small datagrams suffice for path validation.
        let full = validation.is_none() && allowed >= full;
        if allowed >= size || full || (validation.is_some() && allowed >= least) {
            return Allowance::Bytes(size.min(allowed));
        }
        Allowance::Blocked
    }
}
