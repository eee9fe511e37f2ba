//! Quick-Start (RFC 4782) on the wire.
//!
//! ```text
//!   sender                 router port                       receiver
//!   ──────                 ───────────                       ────────
//!   request ────────shim─►  carried::read ► LinkController
//!                           answer::… ◄──── QuickStartAnswer ─shim─►  Meter ─counters─► Controller
//! ```
//!
//! - [`answer`]: what a router writes, which only ever lowers; in a shim and in an IP packet.
//! - [`carried`]: what a request tells a port.
//! - [`counters`]: what a receiver returns and how a sender reads it.
//! - [`tunnel`]: what a copy of a request outside a tunnel leaves in the request inside.
//! - `signal` (feature `transport`): Quick-Start as a signal of the transport.
//!
//! The shim's fields are in [`pathmark_shim::quick_start`], the laws in `pathmark-cc`. Nothing
//! panics or allocates, whatever arrives.

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
pub mod carried;
pub mod counters;
#[cfg(feature = "transport")]
mod signal;
pub mod tunnel;

#[cfg(feature = "transport")]
pub use signal::QuickStartSignal;
