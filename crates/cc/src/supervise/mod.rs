//! Which law controls the window: the routers' or a standard one, and what the next takes over.

mod fallback;
mod handover;
mod mode;
mod recent_rtt;
mod retransmission;

pub(crate) use fallback::Fallback;
pub use fallback::FallbackLaw;
pub(crate) use handover::Handover;
pub(crate) use mode::{Change, ModeSelector};
pub(crate) use recent_rtt::RecentRtt;
pub(crate) use retransmission::RetransmissionTimeout;
