//! Contents of arriving packets.

use super::{OwnWords, QuickStartCarried, VcpCarried, XcpCarried};

/// Fields of an arriving packet that control laws read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Carried {
    /// Nothing that any law reads, as in TCP, plain UDP or ACK-only packets.
    #[default]
    Foreign,
    /// A VCP shim, or VCP's code in the ECN field.
    Vcp(VcpCarried),
    /// An XCP header.
    Xcp(XcpCarried),
    /// A request for a starting rate, in a flow of any kind.
    QuickStart(QuickStartCarried),
    /// A header of a registered protocol.
    Own(OwnWords),
}

impl Carried {
    /// Returns true if the packet carries feedback of a law, so that its sender follows a port's
    /// answer. A request for a starting rate doesn't show this.
    #[inline]
    pub const fn is_feedback(&self) -> bool {
        matches!(self, Self::Vcp(_) | Self::Xcp(_) | Self::Own(_))
    }
}

/// A packet that arrives at a port.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Size in bytes that the link will carry, which is the IP packet plus the configured frame
    /// overhead.
    pub bytes: u32,
    /// Hash of the packet's flow (addresses, ports, protocol), for sketches of bounded size.
    pub flow_hash: u32,
    /// Contents of the packet.
    pub carried: Carried,
}

impl Arrival {
    /// Returns the packets of a run one by one. Their sizes are equal, except that the last
    /// includes the remainder.
    #[inline]
    pub fn each(&self, packets: u32) -> impl Iterator<Item = Self> {
        let packets = packets.max(1);
        let size = self.bytes / packets;
        let last = self.bytes - size * (packets - 1);
        let run = *self;
        (1..=packets).map(move |n| Self {
            bytes: if n == packets { last } else { size },
            ..run
        })
    }
}
