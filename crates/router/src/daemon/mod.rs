//! The running router: interfaces, signals, status, reload.

mod ask;
mod assemble;
mod capacity;
mod clouds;
mod control;
pub mod exchange;
mod headroom;
pub mod http;
mod kernel;
mod measure;
mod notify;
mod probe;
mod prometheus;
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
mod wake;

pub use ask::ask;
pub use assemble::{AssembleError, without_interfaces};
pub use clouds::{CloudView, MeterView};
pub use notify::Supervisor;
pub use probe::{doubtful, missing, probe};
pub use query::{Hint, Query};
pub use rates::Rates;
pub use run::{RunOptions, run};
pub use run_error::RunError;
pub use snapshot::{Build, Lately, LinkView, QueueView, RateView, Reload, Snapshot};
pub use socket::{ControlError, Socket, bind};
pub use steering::SteeringState;
