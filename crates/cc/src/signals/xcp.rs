//! Fields of XCP packets, regardless of their encoding: request, header at a router, and router's
//! answer.

use super::cloud::{Cloud, CloudAnswer};

/// Encoding of XCP headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XcpForm {
    /// RTT in µs, and inter-packet time and feedback with their fractions.
    #[default]
    Full,
    /// Three 16-bit fields for thin links: RTT in ms, window in packets, and feedback as a window
    /// change with a 13-bit mantissa (XCP Linux paper, section II-B).
    Compact,
}

/// Fields that a sender writes into the header of its next packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XcpRequest {
    /// Smoothed RTT in µs, or 0 if unknown, in which case the header doesn't get a share of
    /// anything.
    pub rtt_us: u32,
    /// Inter-packet time in 2^-40 s, i.e. the time for the packets represented by this header at
    /// the sender's rate, or 0 if unknown.
    pub x: u64,
    /// Requested change of the rate in 2^-16 bytes per second.
    pub delta: i64,
    /// Number of packets that this header represents, including its own. It is more than 1 if only
    /// every n-th packet carries a header.
    pub covers: u16,
    /// Window in bytes that belongs to `x`, which is the minimum of the congestion window and all
    /// other limits. The compact form carries it instead of `x`, in packets of
    /// [`packet`](Self::packet) bytes.
    pub window: u64,
    /// Size of a full packet in bytes, as counted by [`window`](Self::window).
    pub packet: u16,
}

/// Fields of an XCP header that the link half reads.
///
/// The compact form is converted to this form by [`WindowForm`](crate::xcp::WindowForm). In a
/// header of the *minimal* format (draft-falk-xcp-spec-03, section 3.2), all fields are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XcpCarried {
    /// The sender's smoothed RTT in µs, or 0 if unknown.
    pub rtt_us: u32,
    /// Inter-packet time in 2^-40 s, or 0 if unknown.
    pub x: u64,
    /// Change of the rate that all hops so far would grant, in 2^-16 bytes per second.
    pub delta: i64,
    /// Number of packets that the header represents; 0 counts as 1.
    pub covers: u16,
    /// Hops since the last XCP router that aren't XCP routers, if there are any and the header can
    /// show them.
    pub cloud: Option<Cloud>,
}

/// A router's stamp.
///
/// From then on, the packet counts as stamped, even if the answer doesn't lower anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XcpAnswer {
    /// New value of the header in 2^-16 bytes per second, at most the old value.
    pub delta: i64,
    /// True if this port lowered the value, so that its identity is the one that limits the flow.
    pub bounding: bool,
    /// True if the port runs another law, and translates its answer into XCP's rates. The header
    /// keeps this with the identity.
    pub translated: bool,
    /// Loss by corruption that the port declares for the link behind it, in 10^-6 of packets, which
    /// is added to the header's value. It is set by the port
    /// ([`Answer::declare`](super::answer::Answer::declare)) instead of the law.
    pub corruption_ppm: u32,
    /// Result for the cloud through which the packet arrived.
    pub cloud: CloudAnswer,
}

/// XCP: contents of headers received since the previous feedback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XcpFeedback {
    /// Sum of rate changes in the headers of *stamped* packets, in 2^-16 bytes per second. An
    /// unstamped header returns its sender's request, which no router has granted, so it doesn't
    /// count.
    pub delta: i64,
    /// Packets with a header that routers read.
    pub packets: u64,
    /// Packets among these that an XCP router has stamped. The others are *no signal*.
    pub stamped: u64,
    /// Bytes of all packets with a header, as the receiver counts them (UDP payload).
    pub bytes: u64,
    /// Number of XCP routers on the path according to `xcp_ttl`, from the latest packet.
    pub hops: u8,
    /// Total loss by corruption that the routers on the path declare, see
    /// [`VcpFeedback::corruption_ppm`](super::VcpFeedback::corruption_ppm).
    pub corruption_ppm: u32,
    /// True if `xcp_ttl` and the IP TTL at the receiver show a hop that isn't an XCP router, from
    /// the latest packet. `None` if the receiver can't read TTLs, or the TTL was rewritten on the
    /// way.
    pub unmarked_hop: Option<bool>,
    /// True if, in addition, an XCP-i router has found this hop but doesn't know its capacity.
    pub uncounted: bool,
    /// True if the IP TTL at the receiver exceeds `xcp_ttl`, because it was rewritten on the way.
    pub ttl_rewritten: bool,
    /// Identity of the router that last lowered the request, from the latest packet, or 0 if there
    /// is none.
    pub router: u16,
    /// True if this router runs another law, and has translated its answer into XCP's rates.
    pub translated: bool,
}
