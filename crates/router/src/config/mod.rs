//! The router's configuration: TOML, read strictly.
//!
//! [`Config`] is the content of a file, checked as a whole: every name resolves, every number is
//! plausible, and a router can be created from it. Errors name file, line and key, and suggest
//! the nearest known word. The keys of a port's link are [`pathmark_link::keys`].

mod check;
#[cfg(test)]
mod edge_tests;
#[cfg(test)]
mod law_tests;
mod schema;
mod steer;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use pathmark_link::keys::{Fault, Source, read_regular};

use schema::File;
pub use schema::{
    Config, EcnSpec, HostSpec, IcmpSpec, Interface, MeasureSpec, OnStop, PortSpec, RouteSpec,
    Secret, SteerSpec, XcpISpec,
};
#[cfg(feature = "daemon")]
pub(crate) use steer::{DEFAULT_TABLE, PORT_NAME, is_port_name};

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

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`ConfigError`] names file, line and key.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = read_regular(path).map_err(|source| ConfigError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(path, &text)
    }

    /// Parses and checks `text`; `path` only appears in messages.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let source = Source { path, text };
        let file: File = toml::from_str(text).map_err(|error| {
            let mut fault = source.syntax(&error);
            let of_all = [
                "id", "seed", "control", "metrics", "user", "group", "memory", "table",
            ];
            let key = fault.key.as_deref().unwrap_or_default();
            if of_all.contains(&key) && fault.message.starts_with("unknown name") {
                fault.message = format!("write `{key}` above the first `[[port]]`");
            }
            ConfigError::Invalid(fault)
        })?;
        check::config(&source, file).map_err(ConfigError::Invalid)
    }
}
