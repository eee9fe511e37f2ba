//! Emulation of endpoints and routers under a virtual clock, and the results of runs.
//!
//! ```text
//!   Scenario (TOML) ──► engine: unchanged transport connections and ports, virtual clock
//!                          │
//!   a run in real time ────┴──► RunResult ──► JSON (the contract), CSV
//! ```
//!
//! A [`Scenario`] is read and checked, can be changed key by key, and is then run. The same
//! scenario and seed give the same result on every machine. Runs under a virtual clock and over
//! real interfaces both have a [`result::RunResult`], so that they can be compared.

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

mod engine;
pub mod kit;
pub mod observe;
pub mod outputs;
pub mod result;
pub mod scenario;

pub use engine::RunError;
pub use observe::{Observer, Progress};
pub use outputs::{OutputError, Outputs};
pub use scenario::{Scenario, ScenarioError};
