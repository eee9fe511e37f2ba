//! The result of examining a packet.

use pathmark_shim::ip::Layout;

use super::frame::Frame;
use crate::offload::Super;

/// A packet that may be forwarded, and its output port.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) port: usize,
    pub(super) layout: Layout,
    pub(super) whole: Option<Super>,
    /// True if its packets fit the next link's MTU.
    pub(super) fits: bool,
    /// Hops that the host's kernel subtracts.
    pub(super) kernel: KernelHops,
}

/// Hops that the host's kernel subtracts from a packet's TTL because it forwards the packet too,
/// between a network card and an interface of the router.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KernelHops {
    /// Before the router reads the packet.
    pub(super) before: u8,
    /// After the router has written the packet.
    pub(super) behind: u8,
}

impl KernelHops {
    /// Records in a packet the hops that this machine subtracts.
    #[inline]
    pub(super) fn note(self, frame: &mut Option<Frame>) {
        if let Some(frame) = frame {
            frame.hops = self.hops();
        }
    }

    /// The hops that the whole machine subtracts.
    #[inline]
    pub(super) fn hops(self) -> u8 {
        self.before.saturating_add(1).saturating_add(self.behind)
    }
}
