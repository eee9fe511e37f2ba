//! What a TUN interface with offloads leaves undone: segmentation and checksums.
//!
//! With a virtio-net header in front, the kernel hands over packets of up to 64 KiB that a network
//! card would cut into segments (TSO for TCP, USO for UDP), with checksum fields that hold the sum
//! of the pseudo-header only. [`VnetHeader`] is that header, [`Super`] cuts such a packet,
//! [`Train`] couples segments again on their way out, so that a fast path moves few large packets
//! and a slow one no bursts.

mod merge;
mod split;
#[cfg(test)]
mod tests;
mod vnet;

pub use merge::Train;
pub use split::{BadSuper, Super};
pub use vnet::{BadVnet, Gso, GsoKind, Offload, Partial, VNET_LEN, VnetHeader};
