//! Congestion control laws as pure state machines.
//!
//! Endpoints send requests, routers answer by modifying the packet, receivers return the answer,
//! and a controller follows it. This crate contains both ends of this loop, but doesn't know the
//! bytes in between:
//!
//! ```text
//!   transport ──sent, acked, lost, feedback──►  Controller     ─window, pace, request──► transport
//!                                               (sender half)
//!   router    ──arrivals, departures, queue──►  LinkController ─answer──►  header in the packet
//!                                               (link half)
//! ```
//!
//! Both halves of an algorithm are in the same folder (`vcp/sender/` and `vcp/port/`), together
//! with the constants and their sources (`params.rs` or `mod.rs`) and the slow `f64` oracle against
//! which tests compare them. No law reads a clock, draws randomness, allocates per packet or
//! touches a wire format. Instead, you pass in `now` and get numbers back.
//!
//! Each top-level module can only import from modules above it:
//!
//! | module | contents |
//! |---|---|
//! | `base` | time, integer arithmetic, meters, the table of flows |
//! | [`units`] | parsing and printing numbers with units |
//! | `signals` | contents of packets, answers of ports, requests, feedback |
//! | `metrics` | the state of laws, for reports |
//! | `law` | the traits [`Controller`] and [`LinkController`] |
//! | `standard` | CUBIC, NewReno, BBR, slow start |
//! | `bottleneck` | detecting a hop that limits the flow without announcing anything |
//! | `quick_start` | starting rates: both halves |
//! | `prague` | the sender for ECT(1) |
//! | `cubiq`, `ada` | standard laws that can start at a granted rate |
//! | `supervise` | the frame of senders that follow routers, and can switch to a standard law |
//! | `vcp`, `xcp` | the laws of VCP (with BISE and WLTE) and of XCP: sender and port |
//! | `xcp_i` | XCP ports that detect clouds |
//! | `auto` | the sender that follows the routers' protocol |
//! | `names` | names and options of all laws |

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
mod auto;
mod base;
mod bottleneck;
mod cubiq;
mod law;
mod metrics;
mod names;
mod prague;
#[cfg(test)]
mod published_tests;
mod quick_start;
mod signals;
mod standard;
mod supervise;
#[cfg(test)]
mod testing;
pub mod units;
mod vcp;
mod xcp;
mod xcp_i;

#[cfg(feature = "ablate")]
pub use base::ablate::{Mechanism, asked, remove};
pub use base::{Duration, Instant};
pub use law::{
    Acked, Controller, Halving, Limit, Limits, LinkController, LossRule, LossView, Lost,
    PacketState, Passive, Sent, UNPACED, Verdict,
};
pub use metrics::{
    CloudMetrics, ControllerChange, ControllerShare, ControllerShares, FallbackReason,
    GrantMetrics, LinkMetrics, Metrics, Phase, QuickStartMetrics, QuickStartOutcome, Ruler,
    XcpLinkMetrics,
};
pub use names::{Algorithm, LinkAlgorithm, ParseError, RegisterError};
pub use quick_start::{AfterGrant, QuickStart, QuickStartLink, Startable};
pub use signals::{
    Answer, Arrival, BadFeedback, Breach, Carried, Carrier, Cloud, CloudAnswer, CloudEstimate,
    Countable, Ecn, Explicit, Feedback, KnownPath, OwnFeedback, OwnWords, QuickStartAnswer,
    QuickStartCarried, QuickStartFeedback, QuickStartPurpose, QuickStartRequest, RateChange,
    Request, Upstream, VcpAnswer, VcpCarried, VcpCode, VcpFeedback, XcpAnswer, XcpCarried,
    XcpFeedback, XcpForm, XcpRequest,
};
pub use standard::{
    Avoidance, Bbr, Cause, Cubic, CubicController, Growth, HyStart, LossBased, NewReno, Reno,
    SlowStart, StartRule,
};
pub use supervise::FallbackLaw;
pub use vcp::{
    AiGrowth, Bise, BiseParams, Draw, Interval, LinkRule, Load, Mark, Marking, Plain, QueueFilter,
    VcpLink, VcpLinkParams, VcpParams, Wlte,
};
pub use xcp::{
    CloudParams, ExactEstimate, WindowForm, XcpCapacity, XcpLink, XcpLinkParams, XcpLoss, XcpParams,
};
pub use xcp_i::{ReceiverClouds, XcpILink};
