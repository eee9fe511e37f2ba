//! Segmentation and checksums, which a TUN interface with offloads leaves to its reader.
//!
//! With a virtio-net header in front, the kernel hands over packets of up to 64 KiB that a network
//! card would cut into segments (TSO for TCP, USO for UDP), with checksum fields that hold the sum
//! of the pseudo-header only. [`VnetHeader`] is that header, [`Super`] cuts such a packet, and
//! [`Coalescer`] coalesces segments again on their way out: a fast path moves few large packets, a
//! slow one no bursts.

mod coalesce;
mod split;
#[cfg(test)]
mod tests;
mod vnet;

pub use coalesce::Coalescer;
pub use split::{BadSuper, Super};
pub use vnet::{BadVnet, Gso, GsoKind, Offload, Partial, VNET_LEN, VnetHeader};
