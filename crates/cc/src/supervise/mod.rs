//! Which law controls the window: the routers' or a standard one, and what the next takes over.

mod fallback;
mod handover;
mod recent_rtt;
mod retransmission;
mod ruler;

pub(crate) use fallback::Fallback;
pub use fallback::FallbackLaw;
pub(crate) use handover::Handover;
pub(crate) use recent_rtt::RecentRtt;
pub(crate) use retransmission::RetransmissionTimeout;
pub(crate) use ruler::{Change, Ruler};
