//! The running router: interfaces, signals, status, reload.

mod ask;
mod assemble;
mod desk;
pub mod exchange;
pub mod http;
mod prometheus;
mod query;
mod record;
mod run;
mod server;
mod snapshot;
mod socket;

pub use ask::ask;
pub use assemble::AssembleError;
pub use query::{Hint, Query};
pub use run::{RunError, RunOptions, run};
pub use snapshot::{LinkView, QueueView, Snapshot};
pub use socket::ControlError;
