//! The messages between sender, routers and receiver.

use crate::base::Duration;

/// The purpose of a sender's question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuickStartPurpose {
    /// A rate to start with.
    #[default]
    Start,
    /// Whether it may keep the rate granted a round trip ago: others may have asked since.
    Keep,
    /// A report of the rate that was approved and is used (RFC 4782 §3.1). Routers change nothing.
    Report,
}

/// A sender's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuickStartRequest {
    /// The requested rate, in bytes of IP packets per second. 0 in a report: nothing was approved.
    pub rate: u64,
    /// The purpose.
    pub purpose: QuickStartPurpose,
    /// IP TTL less QS TTL, modulo 256, as the packet leaves. Random.
    pub ttl_difference: u8,
    /// Random; 48 bits are carried.
    pub nonce: u64,
    /// The sender's round-trip time, if it knows one.
    pub rtt: Option<Duration>,
}

/// Data about a path before the first packet on it: from an earlier connection, or by
/// configuration. It is requested, and never used without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownPath {
    /// The rate that it carried, in bytes of IP packets per second.
    pub rate: u64,
    /// Its round-trip time, if that is known.
    pub rtt: Option<Duration>,
}

/// A question at a router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuickStartCarried {
    /// The rest of the requested rate, in bytes of IP packets per second. 0: denied already.
    pub rate: u64,
    /// The sender's round-trip time, rounded up, if it states one.
    pub rtt: Option<Duration>,
    /// A hash of the packet's source address.
    pub source: u32,
    /// It asks whether it may keep its grant.
    pub keeps: bool,
}

/// A router's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuickStartAnswer {
    /// The highest rate that it approves, in bytes of IP packets per second. 0: denied.
    pub approved: u64,
    /// Random bits for the part of the nonce that a lower rate spoils.
    pub random: u64,
}

/// An answer as the receiver returned it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuickStartFeedback {
    /// Questions that arrived since the previous feedback, and bytes of their packets.
    pub packets: u64,
    /// Bytes of UDP payload of these packets.
    pub bytes: u64,
    /// The rate left of the latest question, in bytes of IP packets per second.
    pub rate: u64,
    /// IP TTL less QS TTL, modulo 256, of that packet as it arrived. `None`: the receiver cannot
    /// read TTLs.
    pub ttl_difference: Option<u8>,
    /// A router has answered it: a rate that no router examined is not an approval.
    pub answered: bool,
    /// Its nonce.
    pub nonce: u64,
    /// Low bits of a nonce that remain as sent down to this rate.
    pub nonce_bits: u32,
}
