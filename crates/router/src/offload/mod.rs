//! Segmentation and checksums, which a TUN interface with offloads leaves to its reader.
//!
//! The kernel puts a virtio-net header in front of each packet ([`VnetHeader`]). It can then
//! hand over packets of up to 64 KiB, which a network card would cut into segments (TSO for TCP,
//! USO for UDP). Their checksum fields hold only the sum of the pseudo-header. [`Super`] cuts
//! such a packet, and [`Coalescer`] coalesces segments again on departure. A fast path therefore
//! handles few large packets, whereas a slow one has no bursts.

mod coalesce;
mod split;
#[cfg(test)]
mod tests;
mod vnet;

pub use coalesce::Coalescer;
pub use split::{BadSuper, Super};
pub use vnet::{BadVnet, Gso, GsoKind, Offload, Partial, VNET_LEN, VnetHeader};
