//! What is wrong with a configuration.

use std::path::PathBuf;

use pathmark_link::keys::Fault;

/// A configuration that cannot be used. Says file, line and key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Something in it is wrong.
    #[error("{0}")]
    Invalid(Fault),
}
