//! Carries any application's TCP and UDP over HTTP/3.
//!
//! ```text
//!   application ─► ingress ─► outbound: tunnel ══ HTTP/3 ══► proxy: access ─► target
//! ```
//!
//! An ingress accepts flows from applications, and an [`Outbound`](outbound::Outbound) carries
//! each flow to its [`Target`](target::Target).

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod classes;
pub mod flows;
pub mod ingress;
pub mod outbound;
mod payload;
pub mod policy;
pub mod server;
pub mod target;
pub mod tunnel;
pub mod uri;

pub use uri as token;

/// Bytes for [`set_unread_memory`](pathmark_driver::Endpoint::set_unread_memory) of endpoints
/// with flows, which is half of their memory. It suffices for flows to continue at the full rate
/// of a long path while the receivers of some others have stopped.
pub const UNREAD: u64 = 256 << 20;
