//! The result of examining a packet.

use pathmark_shim::ip::Layout;

use crate::offload::Super;

/// A packet that may be forwarded, and its output port.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) port: usize,
    pub(super) layout: Layout,
    pub(super) whole: Option<Super>,
    /// Its packets fit the next link's MTU.
    pub(super) fits: bool,
}
