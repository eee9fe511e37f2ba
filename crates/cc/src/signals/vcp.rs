//! VCP: the code, its carrier, and what packets, ports and receivers add to it.

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
    /// Load of 100 % and above.
    Over = 3,
}

impl VcpCode {
    /// The code in the two low bits of `bits`.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::None,
            1 => Self::Low,
            2 => Self::High,
            _ => Self::Over,
        }
    }
}

/// The fields of a VCP packet that the link half reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VcpCarried {
    /// Its code as it arrived.
    pub code: VcpCode,
    /// The sender's least RTT, if it stated one.
    pub min_rtt: Option<Duration>,
    /// The sender would follow BISE's large ε.
    pub bise: bool,
    /// The shim has room for r (false for the ECN carrier).
    pub carries_r: bool,
}

/// A VCP router's mark: every field is *combined* with the packet's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VcpAnswer {
    /// This port's code; the packet keeps the higher one.
    pub code: VcpCode,
    /// r in 2^-16, 65 535 standing for 1; the packet keeps the lower one. `None`: this port runs no
    /// BISE.
    pub r: Option<u16>,
    /// This port's measuring interval in milliseconds ([`whole_millis`](Self::whole_millis)); the
    /// packet keeps the longer one.
    pub t_rho_ms: u16,
    /// This port's load in 1/128, saturating; the packet keeps the higher one with its router's id.
    pub load_128: u8,
    /// The port runs another law and expresses that law's answer in VCP's terms. The packet keeps
    /// this with the load.
    pub translated: bool,
    /// Loss by corruption that the port declares for the link behind it, in 10^-6 of packets; added
    /// to what the packet says. The port's to fill in
    /// ([`Answer::declare`](super::Answer::declare)), not the law's.
    pub corruption_ppm: u32,
}

impl VcpAnswer {
    /// An interval as packets carry it: rounded up, so that no sender acts faster than the router
    /// measures, and at most 65 535.
    pub fn whole_millis(interval: Duration) -> u16 {
        let millis = interval.as_nanos().div_ceil(1_000_000);
        u16::try_from(millis).unwrap_or(u16::MAX)
    }
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

/// Where the code travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// In the shim in front of the datagram.
    Shim,
    /// In the IP ECN field.
    Ecn,
}
