//! The reasons why a router did not start, or had to stop.

use std::io;
use std::path::PathBuf;

use super::assemble::AssembleError;
use super::socket::ControlError;
use crate::config::ConfigError;
use crate::tun::DeviceError;

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
pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |source| RunError::System { what, source }
}
