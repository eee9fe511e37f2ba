//! Quick-Start's messages between sender, routers and receiver.

use crate::base::Duration;

/// The purpose of a sender's question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuickStartPurpose {
    /// To receive a rate to start with.
    #[default]
    Start,
    /// To keep the rate granted a round trip ago, although others may have asked since.
    Keep,
    /// To report the approved rate that is used (RFC 4782 §3.1). Routers don't change anything.
    Report,
}

/// A sender's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuickStartRequest {
    /// Requested rate in bytes of IP packets per second. In a report, 0 means that nothing was
    /// approved.
    pub rate: u64,
    /// Purpose of the question.
    pub purpose: QuickStartPurpose,
    /// IP TTL minus QS TTL, modulo 256, when sent. Must be random.
    pub ttl_difference: u8,
    /// Random nonce, of which 48 bits are carried.
    pub nonce: u64,
    /// The sender's RTT, if known.
    pub rtt: Option<Duration>,
}

/// A path's properties known before the first packet, from an earlier connection or by
/// configuration. The rate is only requested, and never used without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownPath {
    /// Rate that the path has carried, in bytes of IP packets per second.
    pub rate: u64,
    /// RTT of the path, if known.
    pub rtt: Option<Duration>,
}

/// A question that arrives at a router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuickStartCarried {
    /// Remaining rate in bytes of IP packets per second, or 0 if it was already denied.
    pub rate: u64,
    /// The sender's RTT, rounded up, if stated.
    pub rtt: Option<Duration>,
    /// Hash of the packet's source address.
    pub source: u32,
    /// True if it asks to keep a grant.
    pub keeps: bool,
}

/// A router's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuickStartAnswer {
    /// Highest rate that it approves, in bytes of IP packets per second, or 0 to deny.
    pub approved: u64,
    /// Random bits for the part of the nonce that a lower rate overwrites.
    pub random: u64,
}

/// An answer as returned by the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuickStartFeedback {
    /// Questions that arrived since the previous feedback.
    pub packets: u64,
    /// Bytes of UDP payload of these packets.
    pub bytes: u64,
    /// Remaining rate of the latest question, in bytes of IP packets per second.
    pub rate: u64,
    /// IP TTL minus QS TTL, modulo 256, when this packet arrived. `None` if the receiver can't read
    /// TTLs.
    pub ttl_difference: Option<u8>,
    /// True if a router has answered. A rate that no router has examined isn't an approval.
    pub answered: bool,
    /// Nonce of the latest question.
    pub nonce: u64,
    /// Number of low bits of the nonce that remain unchanged down to this rate.
    pub nonce_bits: u32,
}
