//! Limits of this process.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the soft limit on open files (1024 on many systems) to the hard limit, because each
/// active file takes a descriptor.
pub(super) fn raise_open_files() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::debug!(%error, "the limit of open files stays");
    }
}
