//! Initial and minimum windows.

/// Returns the initial window in bytes: `packets` datagrams if given, or that of RFC 9002 §7.2,
/// which is ten datagrams, but at most 14 720 bytes unless two datagrams are more.
pub(crate) fn initial(mtu: u64, packets: Option<u32>) -> u64 {
    match packets {
        Some(packets) => mtu.saturating_mul(u64::from(packets.max(1))),
        None => (10 * mtu).min((2 * mtu).max(14_720)),
    }
}

/// Returns the minimum window of loss-based laws, which is two datagrams (RFC 9002 §7.2).
pub(crate) const fn loss_based_floor(mtu: u64) -> u64 {
    2 * mtu
}
