//! XCP, the eXplicit Control Protocol: each packet asks for a change of rate, each router lowers it to what it can grant.
//!
//! Sources: Katabi, Handley, Rohrs, "Congestion Control for High Bandwidth-Delay Product Networks" (SIGCOMM 2002);
//! draft-falk-xcp-spec-03 (rate form); the XCP Linux paper (Zhang, Henderson).

mod header;
mod metrics;
mod window_form;

pub use header::{XcpAnswer, XcpCarried, XcpForm, XcpRequest};
pub use metrics::XcpLinkMetrics;
pub use window_form::WindowForm;
