//! Addresses of nodes, and seeds of components.

use std::net::Ipv4Addr;

/// An address of a node.
pub(super) fn address(node: usize) -> Ipv4Addr {
    let [.., a, b] = (node as u64).to_be_bytes();
    Ipv4Addr::new(10, a, b, 1)
}

/// Derives a separate seed for each component (FNV-1a, then a finalizer).
pub(super) fn hash(seed: u64, name: &str) -> u64 {
    let hash = name
        .bytes()
        .fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}
