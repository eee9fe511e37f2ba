//! The running router: interfaces, signals, status, reload.

mod ask;
mod assemble;
mod clouds;
mod control;
pub mod exchange;
mod headroom;
pub mod http;
mod kernel;
mod notify;
mod packets;
mod probe;
mod prometheus;
mod prometheus_clouds;
mod query;
mod questions;
mod rates;
mod record;
mod run;
mod run_error;
mod server;
mod snapshot;
mod socket;
mod steering;

pub use ask::ask;
pub use assemble::AssembleError;
pub use clouds::{CloudView, MeterView};
pub use probe::{doubtful, missing, probe};
pub use query::{Hint, Query};
pub use rates::Rates;
pub use run::{RunOptions, run};
pub use run_error::RunError;
pub use snapshot::{Build, Lately, LinkView, QueueView, Reload, Snapshot};
pub use socket::ControlError;
pub use steering::SteeringState;
