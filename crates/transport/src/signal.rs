//! What an explicit-feedback protocol adds to the transport.
//!
//! A `Signal` defines how many bytes stand in front of a datagram, fills them from the controller's
//! request, makes a [`Meter`] that counts what arrives, and turns differences of the returned
//! counters into the controller's [`Feedback`]. The transport carries the counters as opaque
//! cumulative numbers.

use core::fmt;

use pathmark_cc::{Countable, Explicit, Feedback, Instant, Request};

/// The IP ECN field (RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Not-ECT.
    #[default]
    NotEct = 0,
    /// ECT(1).
    Ect1 = 1,
    /// ECT(0).
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// The field in the two low bits of `bits`.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// A packet that arrived and opened, as a [`Meter`] sees it.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// The shim as it arrived, prefix and check included; `None` if there was none or its check
    /// failed.
    pub shim: Option<&'a [u8]>,
    /// The IP ECN field.
    pub ecn: Ecn,
    /// IP TTL or hop limit, where the driver can read it.
    pub ttl: Option<u8>,
    /// Bytes of UDP payload, shim included.
    pub bytes: u64,
    /// When it was read.
    pub now: Instant,
    /// Its packet number.
    pub number: u64,
}

/// Most counters that one signal may keep.
pub const MAX_COUNTERS: usize = 20;

/// Cumulative counters of one path epoch, opaque to the transport. Each is below 2^62 (a QUIC
/// varint); a signal that wraps does so modulo 2^62.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    values: [u64; MAX_COUNTERS],
    len: u8,
}

impl Counters {
    /// No counters.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            values: [0; MAX_COUNTERS],
            len: 0,
        }
    }

    /// Appends one, reduced modulo 2^62. False (and unchanged) if [`MAX_COUNTERS`] are held
    /// already.
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

    /// The counters in the order in which they were pushed.
    #[must_use]
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

/// What about a peer's counters cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Breach {
    /// Their number, or a field out of its range.
    Form,
    /// A total fell.
    Backwards,
    /// More packets than were sent.
    Packets,
    /// Bytes or sums that do not fit the packets they are of.
    Sum,
}

/// Counters that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("impossible feedback counters: {message}")]
pub struct BadFeedback {
    /// What is wrong.
    pub breach: Breach,
    /// The same for people.
    pub message: &'static str,
}

/// The receiver's counting of one path epoch.
pub trait Meter: Send + fmt::Debug {
    /// A 1-RTT packet opened, for the first time, on the current path, in a datagram of its own or
    /// as the first of its datagram: its shim counts once. Only for datagrams with something
    /// ack-eliciting in them, since no other carries the signal.
    fn on_packet(&mut self, arrived: &Arrived<'_>);

    /// The totals so far, to go into the next FEEDBACK frame. `None`: nothing worth sending.
    fn counters(&self) -> Option<Counters>;
}

/// An explicit-feedback protocol over this transport. One value serves all connections of an
/// endpoint.
pub trait Signal: Send + Sync + fmt::Debug {
    /// Its number in the `explicit_feedback` transport parameter and in FEEDBACK frames.
    fn kind(&self) -> u8;

    /// Bytes in front of a datagram that carries it. 0: no shim (the ECN field carries it).
    fn shim_len(&self) -> usize;

    /// The same for a datagram with this request: never 0 where [`shim_len`](Self::shim_len) is
    /// not, but it may be less or more.
    fn len_of(&self, request: &Request) -> usize {
        let _ = request;
        self.shim_len()
    }

    /// The most that [`len_of`](Self::len_of) may return for any request on a path of IPv6, or of
    /// IPv4.
    fn longest(&self, ipv6: bool) -> usize {
        let _ = ipv6;
        self.shim_len()
    }

    /// True if it carries what laws [ask in](Request::signal) as `wanted`.
    fn speaks(&self, wanted: Explicit) -> bool {
        let _ = wanted;
        false
    }

    /// The ECN field of outgoing packets, if this signal claims it. `None`: the transport's own
    /// (ECT(0)).
    fn ecn(&self) -> Option<Ecn> {
        None
    }

    /// True if it goes in front of those packets alone with which the controller
    /// [asks](pathmark_cc::Controller::ask) for a starting rate, in place of the signal that goes
    /// in front of the others, if any.
    fn asks_once(&self) -> bool {
        false
    }

    /// Fills the [`len_of`](Self::len_of) bytes in front of a datagram from the controller's
    /// request.
    fn fill(&self, request: &Request, shim: &mut [u8]);

    /// A receiver's counters for a new path epoch.
    fn meter(&self) -> Box<dyn Meter>;

    /// What `newer` adds to `older` (`None` at the start of an epoch), for the controller. Both are
    /// a peer's word; `sent` is ours: the totals of `newer` must not be above it.
    ///
    /// # Errors
    /// [`BadFeedback`] if the counters cannot be; the transport then ignores them and counts it.
    fn difference(
        &self,
        older: Option<&Counters>,
        newer: &Counters,
        sent: &Countable,
    ) -> Result<Feedback, BadFeedback>;
}
