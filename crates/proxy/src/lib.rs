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
