//! Congestion control laws as pure state machines.
//!
//! Endpoints send requests, routers answer in the packet, receivers return the answer, and a
//! controller follows it. This crate holds both ends of that loop and nothing of the bytes in
//! between:
//!
//! ```text
//!   transport ──sent, acked, lost, feedback──►  Controller     ─window, pace, request──► transport
//!                                               (sender half)
//!   router    ──arrivals, departures, queue──►  LinkController ─answer──►  header in the packet
//!                                               (link half)
//! ```
//!
//! Both halves of an algorithm live in one folder (`vcp/sender.rs` and `vcp/link.rs`), with the
//! sources of the constants in `params.rs` and the slow `f64` oracle that tests compare with.
//! Nothing here reads a clock, draws randomness, allocates per packet or touches a wire format:
//! `now` comes in, numbers come out.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod ada;
mod arith;
mod auto;
mod bbr;
mod bise;
mod controller;
mod cubic;
mod cubiq;
mod fallback;
mod fallback_reason;
mod feedback;
mod hidden;
mod link;
mod loss_based;
mod loss_rule;
mod newreno;
mod offered;
mod passive;
mod power;
#[cfg(test)]
mod published_tests;
mod quick_start;
mod recent_rtt;
mod registry;
mod retransmission;
mod rtt_sketch;
mod slow_start;
#[cfg(test)]
mod testing;
mod time;
mod vcp;
mod window;
mod wlte;
mod xcp;
mod xcp_i;

pub use bbr::Bbr;
pub use bise::{Bise, BiseParams, Draw, Marking};
pub use controller::{
    Acked, Controller, Limit, Limits, Lost, Metrics, PacketState, Phase, Request, Sent, UNPACED,
};
pub use cubic::{Cubic, CubicController};
pub use fallback::FallbackLaw;
pub use fallback_reason::FallbackReason;
pub use feedback::{Countable, Feedback, VcpFeedback, XcpFeedback};
pub use link::{
    Answer, Arrival, Carried, LinkController, LinkMetrics, VcpAnswer, VcpCarried, VcpCode,
};
pub use loss_based::{Avoidance, Cause, Growth, LossBased, StartRule};
pub use loss_rule::{Halving, LossRule, LossView, Verdict};
pub use newreno::{NewReno, Reno};
pub use passive::Passive;
pub use quick_start::{
    AfterGrant, GrantMetrics, KnownPath, QuickStart, QuickStartAnswer, QuickStartCarried,
    QuickStartFeedback, QuickStartLink, QuickStartMetrics, QuickStartOutcome, QuickStartPurpose,
    QuickStartRequest, Startable,
};
pub use registry::{Algorithm, Explicit, LinkAlgorithm, ParseError, RegisterError};
pub use slow_start::{HyStart, SlowStart};
pub use time::{Duration, Instant};
pub use vcp::{
    AiBase, AiGrowth, Carrier, Interval, LinkRule, Load, Mark, Plain, QueueFilter, VcpLink,
    VcpLinkParams, VcpParams, VcpSender,
};
pub use wlte::Wlte;
pub use xcp::{
    Cloud, CloudAnswer, CloudEstimate, Upstream, WindowForm, XcpAnswer, XcpCapacity, XcpCarried,
    XcpForm, XcpLink, XcpLinkMetrics, XcpLinkParams, XcpLoss, XcpParams, XcpRequest, XcpSender,
};
pub use xcp_i::{CloudMetrics, CloudParams, ExactEstimate, ReceiverClouds, XcpILink};
