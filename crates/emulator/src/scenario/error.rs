//! What can be wrong with a scenario.

use std::path::PathBuf;

use pathmark_link::keys::Fault;

/// A scenario that cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// Neither a built-in scenario nor a file.
    #[error(
        "no built-in scenario is called `{given}`, and there is no such file{}; `--list` shows all \
         names",
        hint(.nearest.as_deref())
    )]
    Unknown {
        /// What was asked for.
        given: String,
        /// The built-in scenario whose name is most like it.
        nearest: Option<String>,
    },
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
    /// A changed key is wrong.
    #[error("{key}={value}: {message}")]
    Set {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What is wrong and what to do.
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
