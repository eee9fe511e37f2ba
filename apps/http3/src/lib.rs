//! Files over HTTP/3 (RFC 9114) on pathmark's connections, with an origin server and a client.
//!
//! ```text
//!   request ─► wire ─► plan (pure) ─► root: an open file ─► plan (pure) ─► wire ─► response
//!                        │ fields: Range, ETag lists, Digest fields, paths
//!   origin: the above            client: part file ─► Range, If-Range ─► rename
//! ```
//!
//! [`fields`] and [`plan`] are pure functions of bytes and metadata. [`root`] accesses the file
//! system and [`wire`] the connection, and [`origin`] and [`client`] combine them.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod client;
pub mod fields;
pub mod origin;
pub mod pace;
pub mod places;
pub mod plan;
pub mod resource;
pub mod root;
mod sink;
pub mod wire;

pub use http;

use std::sync::{Mutex, MutexGuard, PoisonError};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
