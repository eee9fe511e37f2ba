//! The receiver's report since the last one, as differences of its cumulative counters.

use crate::{Duration, QuickStartFeedback};

/// One difference between two states of the receiver's counters (see the FEEDBACK frame).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Feedback {
    /// VCP codes counted by the receiver.
    Vcp(VcpFeedback),
    /// XCP rate changes summed by the receiver.
    Xcp(XcpFeedback),
    /// A starting rate that routers left of the one asked for.
    QuickStart(QuickStartFeedback),
}

/// VCP: packets and bytes that arrived under each code since the previous feedback.
///
/// Index 0 counts packets that no VCP router marked (code 0, or a code with hop count 0):
/// they are *no signal*, however many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VcpFeedback {
    /// Packets per code: none, LOW, HIGH, OVER.
    pub packets: [u64; 4],
    /// Bytes of those packets, as the receiver counts them (UDP payload), per code.
    pub bytes: [u64; 4],
    /// Sum of r over the LOW packets, in 2^-16 (BISE with r carried in the shim; 65 536 stands for
    /// 1). Without a BISE router on the path each LOW packet contributes 65 536.
    pub sum_r: u64,
    /// The largest t_ρ that any router on the path wrote, in the latest packet.
    pub t_rho: Duration,
    /// VCP routers on the path, from the latest packet.
    pub hops: u8,
    /// True while every VCP router on the path runs BISE, from the latest packet.
    pub bise: bool,
    /// True if r is carried in the shim; false if the router mixes LOW and HIGH marks by lottery.
    pub carried_r: bool,
    /// Identity of the router with the highest load, from the latest packet. 0: none.
    pub router: u16,
    /// Its load in 1/128. From 128 on it is OVER, and HIGH then means that this flow has too little
    /// to be cut.
    pub load_128: u8,
    /// That router runs another law, and its answer is translated into VCP's terms.
    pub translated: bool,
    /// Loss by corruption that the routers on the path declare together, in 10^-6 of packets (a
    /// class of it, at most 300 000), from the latest packet. 0: none declared. The declaration is
    /// not proven: a law bounds its response to it.
    pub corruption_ppm: u32,
    /// True if the packets' IP TTL at the receiver shows a hop that is not a VCP router. `None` if
    /// the receiver cannot read TTLs.
    pub unmarked_hop: Option<bool>,
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
    /// [`VcpFeedback::corruption_ppm`].
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

/// The most that a receiver can have counted in a path epoch: what its sender sent with the signal
/// since the epoch began, without what an earlier epoch reported. The receiver's totals are its
/// claim; this is the sender's own count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Countable {
    /// Packets.
    pub packets: u64,
    /// Their bytes of UDP payload, shim included.
    pub bytes: u64,
    /// Bytes of the longest packet that was sent with the signal on the path.
    pub longest: u64,
}

impl Feedback {
    /// Packets that it reports, and their bytes.
    #[must_use]
    pub fn counted(&self) -> (u64, u64) {
        let sum = |of: &[u64; 4]| of.iter().fold(0_u64, |sum, &n| sum.saturating_add(n));
        match self {
            Self::Vcp(vcp) => (sum(&vcp.packets), sum(&vcp.bytes)),
            Self::Xcp(xcp) => (xcp.packets, xcp.bytes),
            Self::QuickStart(answer) => (answer.packets, answer.bytes),
        }
    }
}
