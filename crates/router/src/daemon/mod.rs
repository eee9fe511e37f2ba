//! The running router: interfaces, signals, status, reload.

mod assemble;
mod control;
mod prometheus;
mod record;
mod run;
mod snapshot;

pub use assemble::AssembleError;
pub use control::{ControlError, Query, ask};
pub use run::{RunError, RunOptions, run};
pub use snapshot::{LinkView, QueueView, Snapshot};
