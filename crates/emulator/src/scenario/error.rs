//! Errors in scenarios.

use std::path::PathBuf;

use pathmark_link::keys::Fault;

/// A scenario that cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// Neither a built-in scenario nor an existing file.
    #[error(
        "no built-in scenario is called `{given}`, and there is no such file{}; `--list` shows all \
         names",
        hint(.nearest.as_deref())
    )]
    Unknown {
        /// The given name.
        given: String,
        /// The built-in scenario with the most similar name.
        nearest: Option<String>,
    },
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
    /// A changed key is invalid.
    #[error("{key}={value}: {message}")]
    Set {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// The error and its remedy.
        message: String,
    },
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

impl From<Fault> for ScenarioError {
    fn from(fault: Fault) -> Self {
        Self::Invalid(fault)
    }
}
