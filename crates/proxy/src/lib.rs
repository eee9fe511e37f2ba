//! TCP and UDP of any application over HTTP/3.
//!
//! ```text
//!   application ─► ingress ─► outbound: tunnel ══ HTTP/3 ══► proxy: access ─► target
//! ```
//!
//! An ingress accepts flows of applications. An [`Outbound`](outbound::Outbound) carries each flow
//! to its [`Target`](target::Target).

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod classes;
mod decapsulation;
pub mod flows;
pub mod ingress;
mod marked;
pub mod outbound;
mod payload;
pub mod policy;
pub mod server;
pub mod status;
pub mod target;
pub mod template;
pub mod token;
pub mod tunnel;
pub mod uri;

/// Bytes for [`set_unread_memory`](pathmark_driver::Endpoint::set_unread_memory) of endpoints with
/// flows, half of their memory. Flows go on next to some whose receivers have stopped at the full
/// rate of a long path.
pub const UNREAD: u64 = 256 << 20;
