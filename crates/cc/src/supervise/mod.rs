//! Decides whether the window is controlled by the law that follows routers, or by a standard law.
//!
//! [`Supervised`] is the frame of every sender that follows routers. It contains everything that
//! doesn't depend on their protocol (`path.rs`): whether they answer (`mode.rs`), standard control
//! that can replace them (`fallback.rs`), the search for hops without feedback
//! ([`bottleneck`](crate::bottleneck)), RTTs, and packet numbers. A law ([`ExplicitLaw`]) turns
//! feedback into a window and a request.

mod fallback;
mod granted_start;
mod law;
mod law_set;
mod mode;
mod path;
mod recent_rtt;
mod retransmission;
mod sender;
mod takeover;

pub use fallback::FallbackLaw;
pub(crate) use law::{End, ExplicitLaw, Search};
pub(crate) use law_set::LawSet;
pub(crate) use path::{Path, TYPICAL_RTT};
pub(crate) use retransmission::RetransmissionTimeout;
pub(crate) use sender::Supervised;
pub(crate) use takeover::feed;
