//! VCP on the wire.
//!
//! ```text
//!   sender                 router port                      receiver
//!   ──────                 ───────────                      ────────
//!   Repr::initial ─shim─►  carried::read ► LinkController
//!                          mark::…  ◄───── VcpAnswer ─shim─►  Meter ─counters─► difference ► Controller
//! ```
//!
//! - [`header`]: the 16-byte shim, as a checked view ([`Packet`]) and as typed fields ([`Repr`]).
//! - [`mark`]: the marking rule, which only ever raises; in a header and in an IP packet in place.
//! - [`ecn`]: the other carrier, the IP ECN field, for paths that let nothing else through.
//! - [`carried`]: what a packet tells the link half of the law.
//! - [`counters`]: what a receiver counts and how a sender reads it.
//! - [`rtt_class`]: a round-trip time in one byte.
//! - [`tunnel`]: what a copy of a shim outside a tunnel leaves in the shim inside.
//! - `signal` (feature `transport`): both carriers as signals of the transport.
//!
//! The laws themselves are in `pathmark-cc`; here are bytes and the rules of both ends. Nothing
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

pub mod carried;
pub mod counters;
pub mod ecn;
pub mod header;
pub mod mark;
pub mod rtt_class;
#[cfg(feature = "transport")]
mod signal;
pub mod tunnel;

pub use header::{LEN, Packet, Repr};
#[cfg(feature = "transport")]
pub use signal::{VcpEcnSignal, VcpSignal};
