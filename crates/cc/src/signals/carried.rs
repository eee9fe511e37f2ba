//! What an arriving packet carries.

use super::{OwnWords, QuickStartCarried, VcpCarried, XcpCarried};

/// The fields of an arriving packet that control laws read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Carried {
    /// Nothing that a law reads (TCP, plain UDP, ACK-only packets …).
    #[default]
    Foreign,
    /// A VCP shim, or VCP's code in the ECN field.
    Vcp(VcpCarried),
    /// An XCP header.
    Xcp(XcpCarried),
    /// A request for a starting rate. Its flow may be of any kind.
    QuickStart(QuickStartCarried),
    /// A header of a registered protocol.
    Own(OwnWords),
}

impl Carried {
    /// True if the packet carries feedback of a law, so that its sender follows a port's answer. A
    /// request for a starting rate is not evidence of that.
    #[inline]
    pub const fn is_feedback(&self) -> bool {
        matches!(self, Self::Vcp(_) | Self::Xcp(_) | Self::Own(_))
    }
}

/// A packet at the port.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Size that the link will carry, in bytes: IP packet plus the configured frame overhead.
    pub bytes: u32,
    /// A hash of the packet's flow (addresses, ports, protocol), for sketches of bounded size.
    pub flow_hash: u32,
    /// What it carries.
    pub carried: Carried,
}

impl Arrival {
    /// The packets of a run one by one: equal sizes, and what is left over with the last.
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
