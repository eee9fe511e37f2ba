//! What is sent because of a grant, from its first packet to its last acknowledgement.

use crate::Instant;

/// What is sent because of a grant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// Bytes per second and bytes in flight, of UDP payload.
    pub(super) pace: u64,
    pub(super) window: u64,
    /// The law has made it its own window.
    pub(super) steered: bool,
    /// It must have begun by then.
    pub(super) until: Instant,
    /// Its packets so far.
    pub(super) packets: Option<(u64, u64)>,
    pub(super) started: Instant,
    pub(super) bytes: u64,
    pub(super) lost: u64,
}

/// A flight of which the first packet was acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Landing {
    pub(super) packets: (u64, u64),
    pub(super) sent: (Instant, Instant),
    pub(super) delivered: u64,
    pub(super) steered: bool,
    pub(super) lost: u64,
}

/// A flight of which something was lost. Until it is settled what it delivered counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Falling {
    pub(super) last_sent: u64,
    pub(super) delivered: u64,
}
