//! The state that one law passes to the next.

use super::mode::ModeSelector;
use super::recent_rtt::RecentRtt;
use crate::base::Duration;
use crate::bottleneck::HiddenHop;
use crate::standard::CubicController;

/// The state of a path that does not depend on the routers' protocol.
#[derive(Clone, Debug)]
pub(crate) struct Handover {
    /// Largest datagram, bytes of UDP payload.
    pub(crate) mtu: u64,
    /// The window under the routers' rule, in bytes.
    pub(crate) window: u64,
    /// Standard control, which rules while no router answers.
    pub(crate) cubic: CubicController,
    /// The law that rules.
    pub(crate) mode: ModeSelector,
    /// Losses and delays as evidence of hops without feedback.
    pub(crate) hidden: HiddenHop,
    pub(crate) srtt: Option<Duration>,
    pub(crate) recent: RecentRtt,
    /// Largest packet number sent.
    pub(crate) last_sent: u64,
}
