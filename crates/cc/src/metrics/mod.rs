//! State of laws, for reports. No law reads these types.

mod cloud;
mod controller_shares;
mod fallback_reason;
mod grants;
mod link;
mod quick_start;
mod sender;
mod xcp;

pub use cloud::CloudMetrics;
pub use controller_shares::{ControllerChange, ControllerShare, ControllerShares};
pub use fallback_reason::FallbackReason;
pub use grants::GrantMetrics;
pub use link::LinkMetrics;
pub use quick_start::{QuickStartMetrics, QuickStartOutcome};
pub use sender::{Metrics, Phase, Ruler};
pub use xcp::XcpLinkMetrics;
