//! Errors in a configuration.

use std::path::PathBuf;

use pathmark_link::keys::Fault;

/// A configuration that cannot be used. The message names file, line and key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Its contents are invalid.
    #[error("{0}")]
    Invalid(Fault),
}
