//! The fields of XCP packets, apart from their encoding: request, header at a router, a router's
//! answer.

use super::cloud::{Cloud, CloudAnswer};

/// How XCP headers travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XcpForm {
    /// RTT in µs, inter-packet time and feedback with their fractions.
    #[default]
    Full,
    /// Three 16-bit fields, for thin links: RTT in ms, window in packets, feedback as a window
    /// change with a 13-bit mantissa (XCP Linux paper, section II-B).
    Compact,
}

/// What a sender writes into the header of its next packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XcpRequest {
    /// Smoothed RTT in µs; 0 while unknown, and then the header takes no share of anything.
    pub rtt_us: u32,
    /// Inter-packet time in 2^-40 s: what the packets that this header stands for take at the
    /// sender's rate; 0 while unknown.
    pub x: u64,
    /// Change of rate asked for, in 2^-16 bytes per second.
    pub delta: i64,
    /// Packets that this header stands for, itself included: more than 1 if only every n-th packet
    /// carries one.
    pub covers: u16,
    /// The window that goes with `x`, in bytes: the least of the congestion window and every other
    /// limit. The compact form carries it instead of `x`, in packets of [`packet`](Self::packet)
    /// bytes.
    pub window: u64,
    /// Bytes of a full packet as [`window`](Self::window) counts them.
    pub packet: u16,
}

/// The fields of an XCP header that the link half reads.
///
/// The compact form is brought to this one by [`WindowForm`](crate::xcp::WindowForm). A header of
/// the *minimal* format (draft-falk-xcp-spec-03, section 3.2) has all fields 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XcpCarried {
    /// The sender's smoothed RTT in µs; 0: unknown.
    pub rtt_us: u32,
    /// Inter-packet time in 2^-40 s; 0: unknown.
    pub x: u64,
    /// Change of rate that all hops so far would grant, in 2^-16 bytes per second.
    pub delta: i64,
    /// Packets that the header stands for; 0 counts as 1.
    pub covers: u16,
    /// Hops since the last XCP router that are not XCP routers, if the header can show them and
    /// there are any.
    pub cloud: Option<Cloud>,
}

/// A router's stamp.
///
/// The packet counts as stamped from then on, whether or not the answer lowers anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XcpAnswer {
    /// The new value of the header, in 2^-16 bytes per second; never above the old one.
    pub delta: i64,
    /// True if this port lowered it: its identity is then the one that bounds the flow.
    pub bounding: bool,
    /// The port runs another law and expresses that law's answer in XCP's rates. The header keeps
    /// this with the identity.
    pub translated: bool,
    /// Loss by corruption that the port declares for the link behind it, in 10^-6 of packets; added
    /// to what the header says. The port's to fill in
    /// ([`Answer::declare`](super::answer::Answer::declare)), not the law's.
    pub corruption_ppm: u32,
    /// What becomes of the cloud that the packet came through.
    pub cloud: CloudAnswer,
}

/// XCP: what headers brought since the previous feedback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XcpFeedback {
    /// Sum of the rate changes that the headers of *stamped* packets brought, in 2^-16 bytes per
    /// second. An unstamped header brings back its sender's request, which no router has granted:
    /// it counts for nothing.
    pub delta: i64,
    /// Packets that carried a header that routers read.
    pub packets: u64,
    /// Those of them that an XCP router stamped. All others are *no signal*.
    pub stamped: u64,
    /// Bytes of all packets with a header, as the receiver counts them (UDP payload).
    pub bytes: u64,
    /// XCP routers on the path by `xcp_ttl`, from the latest packet.
    pub hops: u8,
    /// Loss by corruption that the routers on the path declare together, as in
    /// [`VcpFeedback::corruption_ppm`](super::VcpFeedback::corruption_ppm).
    pub corruption_ppm: u32,
    /// True if `xcp_ttl` and the IP TTL at the receiver show a hop that is not an XCP router, from
    /// the latest packet. `None` if the receiver cannot read TTLs, or the TTL was rewritten on the
    /// way.
    pub unmarked_hop: Option<bool>,
    /// … and an XCP-i router has found that hop, but does not know what it can carry.
    pub uncounted: bool,
    /// The IP TTL at the receiver is above `xcp_ttl`: it was rewritten on the way.
    pub ttl_rewritten: bool,
    /// Identity of the router that last lowered the request, from the latest packet. 0: none.
    pub router: u16,
    /// That router runs another law, and its answer is translated into XCP's rates.
    pub translated: bool,
}
