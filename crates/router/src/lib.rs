//! A userspace router whose ports mark load into the packets that pass.
//!
//! Operators run the program `vcp-router`. The library is for programs that embed a router.
//!
//! ```text
//!   tun      Device ─► Driver ◄─ deadlines, signals, status          system calls, clock
//!              │          │
//!   forward    └──► Router: checks, route, TTL, ICMP, cut, mark      whole packets, no I/O
//!                     │      (with ip and offload)
//!   pathmark-link   Link: control law, queue, shaper, wire           packets of any type, no I/O
//! ```
//!
//! - [`pathmark_link`]: ports and wires, generic over packets, so that an emulator runs the same
//!   code under a virtual clock.
//! - [`forward`]: the whole router on packet buffers; [`ip`], [`offload`] and [`encapsulation`]
//!   are its parts.
//! - `config` (feature `config`): routers described in TOML.
//! - `tun`, `daemon`, `cli` (feature `daemon`): the program `vcp-router`, whose `main` is
//!   `cli::main`; `setup`: its interfaces, routes and rules in the kernel.
//!
//! Only `tun`, `daemon` and `setup` read a clock, use a file descriptor or run a command.
//! Received bytes must never make the router panic or hold more memory than its limit.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        // These macros panic if nothing reads the output: see `stderr` and `cli`.
        clippy::print_stdout,
        clippy::print_stderr
    )
)]

#[cfg(feature = "daemon")]
pub mod cli;
#[cfg(feature = "config")]
pub mod config;
#[cfg(feature = "daemon")]
pub mod daemon;
pub mod encapsulation;
mod field;
pub mod forward;
pub mod ip;
pub mod offload;
#[cfg(feature = "daemon")]
mod output;
#[cfg(feature = "daemon")]
pub mod setup;
#[cfg(feature = "daemon")]
mod show;
#[cfg(test)]
mod test_packets;
#[cfg(feature = "daemon")]
pub mod tun;
