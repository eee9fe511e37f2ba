//! Contents of packets between senders, ports and receivers, regardless of their encoding.
//!
//! A sender writes a [`Request`] into a packet. A port reads the packet's contents ([`Carried`])
//! and writes an [`Answer`]. The receiver counts answers, and the sender receives the differences
//! as [`Feedback`].

mod answer;
mod carried;
mod cloud;
mod explicit;
mod feedback;
mod own;
mod quick_start;
mod request;
mod vcp;
mod xcp;

pub use answer::{Answer, RateChange};
pub use carried::{Arrival, Carried};
pub use cloud::{Cloud, CloudAnswer, CloudEstimate, Upstream};
pub use explicit::Explicit;
pub use feedback::{BadFeedback, Breach, Countable, Feedback};
pub use own::{OwnFeedback, OwnWords};
pub use quick_start::{
    KnownPath, QuickStartAnswer, QuickStartCarried, QuickStartFeedback, QuickStartPurpose,
    QuickStartRequest,
};
pub use request::Request;
pub use vcp::{Carrier, VcpAnswer, VcpCarried, VcpCode, VcpFeedback};
pub use xcp::{XcpAnswer, XcpCarried, XcpFeedback, XcpForm, XcpRequest};
