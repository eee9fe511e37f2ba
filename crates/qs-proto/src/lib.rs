//! Quick-Start (RFC 4782) on the wire.
//!
//! ```text
//!   sender                 router port                       receiver
//!   ──────                 ───────────                       ────────
//!   request ────────shim─►  answer::from_… ► LinkController
//!                           answer::… ◄──── QuickStartAnswer ─shim─►  Meter ─counters─► Controller
//! ```
//!
//! - [`answer`]: a request's fields for a port, and a router's answers, which never raise a rate,
//!   in a shim or in an IP packet.
//! - [`counters`]: the counters of a receiver, and their interpretation by a sender.
//! - [`tunnel`]: copies of requests outside a tunnel, and merging them into the inner requests.
//! - `signal` (feature `transport`): Quick-Start as a signal of the transport.
//!
//! The shim's fields are in [`pathmark_shim::quick_start`], the laws in `pathmark-cc`. No input
//! makes this crate panic or allocate.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )
)]

pub mod answer;
pub mod counters;
#[cfg(feature = "transport")]
mod signal;
pub mod tunnel;

#[cfg(test)]
#[path = "../../shim/tests/it/support.rs"]
mod support;

#[cfg(feature = "transport")]
pub use signal::QuickStartSignal;
