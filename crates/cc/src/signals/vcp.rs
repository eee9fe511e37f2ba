//! VCP: code, carrier, and the related fields of packets, ports and receivers.

use crate::base::Duration;

/// VCP's two-bit load code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum VcpCode {
    /// Not VCP, or erased.
    #[default]
    None = 0,
    /// Load below 80 %.
    Low = 1,
    /// Load from 80 % to below 100 %.
    High = 2,
    /// Load of at least 100 %.
    Over = 3,
}

impl VcpCode {
    /// Returns the code in the two low bits of `bits`.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::None,
            1 => Self::Low,
            2 => Self::High,
            _ => Self::Over,
        }
    }
}

/// Fields of a VCP packet that the link half reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VcpCarried {
    /// Code of the packet on arrival.
    pub code: VcpCode,
    /// The sender's minimum RTT, if stated.
    pub min_rtt: Option<Duration>,
    /// True if the sender supports BISE's large ε.
    pub bise: bool,
    /// True if the shim has room for r, which is not the case for the ECN carrier.
    pub carries_r: bool,
}

/// A VCP router's mark. Each field is *combined* with the packet's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VcpAnswer {
    /// This port's code. The packet keeps the higher code.
    pub code: VcpCode,
    /// r in 2^-16, where 65 535 represents 1, or `None` if this port doesn't run BISE. The packet
    /// keeps the lower value.
    pub r: Option<u16>,
    /// This port's measuring interval in milliseconds ([`whole_millis`](Self::whole_millis)). The
    /// packet keeps the longer interval.
    pub t_rho_ms: u16,
    /// This port's load in 1/128, saturating. The packet keeps the higher load with its router's
    /// identity.
    pub load_128: u8,
    /// True if the port runs another law, and translates its answer into VCP's terms. The packet
    /// keeps this with the load.
    pub translated: bool,
    /// Loss by corruption that the port declares for the link behind it, in 10^-6 of packets, which
    /// is added to the packet's value. It is set by the port
    /// ([`Answer::declare`](super::Answer::declare)) instead of the law.
    pub corruption_ppm: u32,
}

impl VcpAnswer {
    /// Returns an interval as carried in packets, at most 65 535 ms. It is rounded up, so that no
    /// sender reacts faster than the router measures.
    pub fn whole_millis(interval: Duration) -> u16 {
        let millis = interval.as_nanos().div_ceil(1_000_000);
        u16::try_from(millis).unwrap_or(u16::MAX)
    }
}

/// VCP: packets and bytes that arrived with each code since the previous feedback.
///
/// Index 0 counts packets that no VCP router has marked (code 0, or a code with hop count 0). These
/// are *no signal*, regardless of their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VcpFeedback {
    /// Packets per code: none, LOW, HIGH, OVER.
    pub packets: [u64; 4],
    /// Bytes of these packets per code, as the receiver counts them (UDP payload).
    pub bytes: [u64; 4],
    /// Sum of r over LOW packets in 2^-16 (BISE with r carried in the shim), where 65 536
    /// represents 1. Without a BISE router on the path, each LOW packet contributes 65 536.
    pub sum_r: u64,
    /// Largest t_ρ written by any router on the path, from the latest packet.
    pub t_rho: Duration,
    /// Number of VCP routers on the path, from the latest packet.
    pub hops: u8,
    /// True if every VCP router on the path runs BISE, from the latest packet.
    pub bise: bool,
    /// True if r is carried in the shim, and false if the router mixes LOW and HIGH marks by
    /// lottery.
    pub carried_r: bool,
    /// Identity of the router with the highest load, from the latest packet, or 0 if there is none.
    pub router: u16,
    /// Load of this router in 1/128. From 128 on it is OVER, and HIGH then means that this flow's
    /// rate is too low for a cut.
    pub load_128: u8,
    /// True if this router runs another law, and has translated its answer into VCP's terms.
    pub translated: bool,
    /// Total loss by corruption that the routers on the path declare, in 10^-6 of packets, from the
    /// latest packet. It is a class, at most 300 000, or 0 if nothing was declared. Because
    /// declarations aren't proven, laws must limit their response.
    pub corruption_ppm: u32,
    /// True if the packets' IP TTL at the receiver shows a hop that isn't a VCP router, or `None`
    /// if the receiver can't read TTLs.
    pub unmarked_hop: Option<bool>,
}

/// Carrier of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// The shim in front of the datagram.
    Shim,
    /// The IP ECN field.
    Ecn,
}
