//! The running router: interfaces, signals, status, reload.

mod assemble;
mod clouds;
pub mod exchange;
pub mod http;
mod measure;
mod probe;
mod prometheus;
mod questions;
mod rates;
mod record;
mod run;
mod server;
mod service;
mod snapshot;
mod socket;
mod steering;

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use crate::config::ConfigError;
use crate::tun::DeviceError;
pub use assemble::{AssembleError, without_interfaces};
pub use clouds::{CloudView, MeterView};
pub use exchange::{Hint, Query};
pub use probe::{doubtful, missing, probe};
pub use rates::Rates;
pub use run::{RunOptions, run};
pub use service::Supervisor;
pub use snapshot::{Build, Lately, LinkView, QueueView, RateView, Reload, Snapshot};
pub use socket::{ControlError, Socket, ask, bind};
pub use steering::SteeringState;

/// The reason why the router did not start, or had to stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration cannot be applied.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// A socket cannot be created.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// No such user.
    #[error("user: there is no user `{}`: create it, or change `user`", .0.escape_debug())]
    User(String),
    /// No such group.
    #[error("group: there is no group `{}`: create it, or change `group`", .0.escape_debug())]
    Group(String),
    /// The time series cannot be written.
    #[error("cannot write {}: {source}", .path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The link behind a port cannot be measured.
    #[error(
        "port {port}: probe: cannot send echo requests: {source}: let the router's group do so \
         (sysctl net.ipv4.ping_group_range=\"0 2147483647\", also for IPv6)"
    )]
    Probe {
        /// The port.
        port: String,
        /// The cause.
        source: io::Error,
    },
    /// An interface is gone.
    #[error("port {port}: its interface is gone and cannot be opened again: {source}")]
    Lost {
        /// The port.
        port: String,
        /// The reason why it cannot be opened.
        source: DeviceError,
    },
    /// The thread that reads a configuration panicked.
    #[error("reading the configuration ended early: this is a defect of the program")]
    Unread,
    /// The system refuses a basic operation.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
}

/// Converts an I/O error of an operation.
fn system(what: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |source| RunError::System { what, source }
}

/// Writes one byte, which makes the other end readable.
fn wake(mut waker: &UnixStream) {
    // An error means that the buffer is full, so that a wake-up is already pending, or that the
    // other end is gone.
    let _ = waker.write(&[1]);
}

/// Discards pending wake-ups.
fn clear_wakes(mut waker: &UnixStream) {
    let mut bytes = [0; 16];
    while matches!(waker.read(&mut bytes), Ok(1..)) {}
}
