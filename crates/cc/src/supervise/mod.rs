//! Which law controls the window: the routers' or a standard one.
//!
//! [`Supervised`] is the frame of every sender that follows routers. It keeps what does not depend
//! on their protocol (`path.rs`): whether they answer (`mode.rs`), standard control in their place
//! (`fallback.rs`), the search for hops without feedback ([`bottleneck`](crate::bottleneck)), round
//! trips and packet numbers. A law ([`ExplicitLaw`]) turns feedback into a window and a request.

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
