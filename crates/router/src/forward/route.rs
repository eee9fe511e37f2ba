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
    /// Its packets fit the next link's MTU.
    pub(super) fits: bool,
    /// What the kernel of the box takes off its TTL.
    pub(super) kernel: KernelHops,
}

/// What the kernel of the box takes off a packet's TTL, because it forwards the packet as well:
/// between a card and an interface of the router.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KernelHops {
    /// Before the packet comes to the router.
    pub(super) before: u8,
    /// After it has left the router.
    pub(super) behind: u8,
}

impl KernelHops {
    /// Notes in a packet what the box takes off its TTL.
    #[inline]
    pub(super) fn note(self, frame: &mut Option<Frame>) {
        if let Some(frame) = frame {
            frame.hops = self.hops();
        }
    }

    /// What the whole box takes off.
    #[inline]
    pub(super) fn hops(self) -> u8 {
        self.before.saturating_add(1).saturating_add(self.behind)
    }
}
