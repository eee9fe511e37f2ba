//! Explicit-feedback protocols as the transport sees them.
//!
//! A [`Signal`] defines how many bytes precede a datagram, fills them from the controller's
//! request, creates a [`Meter`] for counting arrivals, and turns differences of the returned
//! counters into the controller's [`Feedback`]. The transport carries these counters as opaque
//! cumulative numbers.

use core::fmt;

pub use pathmark_cc::{BadFeedback, Breach, Ecn};
use pathmark_cc::{Countable, Explicit, Feedback, Instant, Request};

/// A packet that arrived and was successfully opened, as passed to a [`Meter`].
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// The shim as received, including prefix and check. `None` if the datagram had none or the
    /// check failed.
    pub shim: Option<&'a [u8]>,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// IP TTL or hop limit, if the driver can read it.
    pub ttl: Option<u8>,
    /// Bytes of UDP payload, including the shim.
    pub bytes: u64,
    /// Time at which the packet was read.
    pub now: Instant,
    /// Packet number.
    pub number: u64,
}

/// Maximum number of counters that a signal can keep.
pub const MAX_COUNTERS: usize = 20;

/// Cumulative counters of one path epoch, opaque to the transport. Each is below 2^62 (a QUIC
/// varint); a signal whose counters can wrap must do so modulo 2^62.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    values: [u64; MAX_COUNTERS],
    len: u8,
}

impl Counters {
    /// Creates an empty set of counters.
    pub const fn new() -> Self {
        Self {
            values: [0; MAX_COUNTERS],
            len: 0,
        }
    }

    /// Appends a counter, reducing it modulo 2^62. Returns false, leaving the set unchanged, if it
    /// already holds [`MAX_COUNTERS`].
    pub fn push(&mut self, value: u64) -> bool {
        match self.values.get_mut(usize::from(self.len)) {
            Some(slot) => {
                *slot = value & ((1 << 62) - 1);
                self.len += 1;
                true
            }
            None => false,
        }
    }

    /// Returns the counters in the order in which they were pushed.
    pub fn as_slice(&self) -> &[u64] {
        self.values.get(..usize::from(self.len)).unwrap_or(&[])
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

/// Counts arriving packets of one path epoch at the receiver.
pub trait Meter: Send + fmt::Debug {
    /// Counts a 1-RTT packet that was opened for the first time on the current path. Called only
    /// for the first packet of a datagram, because the datagram's shim must be counted once, and
    /// only if the datagram contains something ack-eliciting, because no other carries the signal.
    fn on_packet(&mut self, arrived: &Arrived<'_>);

    /// Returns the totals so far, for sending in the next FEEDBACK frame, or `None` if there's
    /// nothing worth sending.
    fn counters(&self) -> Option<Counters>;
}

/// An explicit-feedback protocol on top of this transport. One value serves all connections of an
/// endpoint.
pub trait Signal: Send + Sync + fmt::Debug {
    /// Returns the protocol's number in the `explicit_feedback` transport parameter and in FEEDBACK
    /// frames.
    fn kind(&self) -> u8;

    /// Returns how many bytes precede a datagram that carries the signal. 0 means that there is no
    /// shim, because the ECN field carries the signal.
    fn shim_len(&self) -> usize;

    /// Returns the length of the shim for this particular request, which can be less or more than
    /// [`shim_len`](Self::shim_len), but must not be 0 unless that is.
    fn len_of(&self, request: &Request) -> usize {
        let _ = request;
        self.shim_len()
    }

    /// Returns the maximum of [`len_of`](Self::len_of) for any request, on a path over IPv6 or over
    /// IPv4.
    fn longest(&self, ipv6: bool) -> usize {
        let _ = ipv6;
        self.shim_len()
    }

    /// Returns true if this signal carries the protocol `wanted`, in which laws
    /// [ask](Request::signal).
    fn speaks(&self, wanted: Explicit) -> bool {
        let _ = wanted;
        false
    }

    /// Returns the ECN field of outgoing packets if this signal claims it. With `None`, the
    /// transport uses its own (ECT(0)).
    fn ecn(&self) -> Option<Ecn> {
        None
    }

    /// Returns true if the signal precedes only packets with which the controller
    /// [asks](pathmark_cc::Controller::ask) for a starting rate. These packets carry it instead of
    /// the signal that precedes all others, if any.
    fn asks_once(&self) -> bool {
        false
    }

    /// Writes the controller's request into the [`len_of`](Self::len_of) bytes that precede a
    /// datagram.
    fn fill(&self, request: &Request, shim: &mut [u8]);

    /// Creates the receiver's counters for a new path epoch.
    fn meter(&self) -> Box<dyn Meter>;

    /// Computes the controller's feedback from the increase between `older` (`None` at the start of
    /// an epoch) and `newer`. Both are claims by a peer and must not be trusted; `sent` holds our
    /// own totals, which those in `newer` must not exceed.
    ///
    /// # Errors
    /// Returns [`BadFeedback`] if the counters are impossible. The transport then ignores these
    /// counters and increments a statistic.
    fn difference(
        &self,
        older: Option<&Counters>,
        newer: &Counters,
        sent: &Countable,
    ) -> Result<Feedback, BadFeedback>;
}
