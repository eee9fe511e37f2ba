//! The small header in front of a datagram that routers rewrite in flight.
//!
//! ```text
//!   IP ─ UDP ─┬─ shim (8…60 bytes) ─┬─ QUIC packet, encrypted
//!             │ prefix · fields · check
//!             └ routers read and rewrite this, and nothing behind it
//! ```
//!
//! - [`demux`]: whether a datagram is a shim, QUIC, or something else.
//! - [`frame`]: prefix, length, magic and check of every kind of shim; the fields belong to the
//!   protocol's crate.
//! - [`ip`] and [`udp`]: from the first byte of an IP packet to the UDP payload, and the few
//!   rewrites of a router.
//! - [`checksum`]: the Internet checksum and its incremental update.
//! - [`quick_start`]: the only kind of shim whose fields are in this crate.
//!
//! Views are checked completely when they are parsed, and typed representations contain only legal
//! values. No function of this crate panics, whatever bytes and offsets it is given: missing bytes
//! result in an error or `None`, and writes to them are refused. This crate does not allocate, so
//! it is `no_std`.

#![no_std]
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

#[cfg(test)]
extern crate std;

pub mod checksum;
pub mod corruption;
mod crc;
pub mod demux;
pub mod frame;
pub mod ip;
pub mod quick_start;
pub mod udp;

pub use crc::crc16;
pub use frame::{Framed, FramingError, Kind};
