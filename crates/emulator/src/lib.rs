//! Emulation of endpoints and routers under a virtual clock, and the results of runs.
//!
//! ```text
//!   Scenario (TOML) ──► engine: transport connections and router ports, unchanged, and a virtual clock
//!                          │
//!   a run in real time ────┴──► RunResult ──► JSON (the contract), CSV
//! ```
//!
//! A [`Scenario`] is read and checked, changed key by key if need be, and run; the same scenario
//! and seed give the same result on every machine. The same [`result::RunResult`] describes a run
//! under a virtual clock and one over real interfaces, so that the two can be laid side by side.

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

mod controllers;
mod engine;
pub mod fairness;
pub mod kit;
pub mod observe;
pub mod outputs;
pub mod result;
pub mod scenario;

pub use engine::RunError;
pub use observe::{Observer, Progress};
pub use outputs::{OutputError, Outputs};
pub use scenario::{Scenario, ScenarioError};
