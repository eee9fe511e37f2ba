//! What the receiver returned since the last time, as differences of its cumulative counters.

use crate::Duration;

/// One difference between two states of the receiver's counters (see the FEEDBACK frame).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Feedback {
    /// VCP codes counted by the receiver.
    Vcp(VcpFeedback),
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
    /// Sum of r over the LOW packets, in 2^-16 (BISE with r carried in the shim; 65 536 stands for 1).
    /// Without a BISE router on the path each LOW packet contributes 65 536.
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
    /// Its load in 1/128, for people and not for control.
    pub load_128: u8,
    /// True if the packets' IP TTL at the receiver shows a hop that is no VCP router.
    /// `None` if the receiver cannot read TTLs.
    pub unmarked_hop: Option<bool>,
}
