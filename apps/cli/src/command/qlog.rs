//! Logs of all connections of the command, if `QLOGDIR` names a directory.

use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result};
use pathmark::TransportConfig;
use pathmark_qlog::Directory;

use super::output;

/// How long connections may take to end after the command.
const LONGEST_END: Duration = Duration::from_secs(1);

static LOGS: OnceLock<Directory> = OnceLock::new();

/// Creates the directory that `QLOGDIR` names, if it is set.
pub(super) fn begin() -> Result<()> {
    let Some(path) = std::env::var_os("QLOGDIR").filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let logs = Directory::create(&path)
        .with_context(|| format!("cannot write logs to QLOGDIR ({})", path.to_string_lossy()))?;
    let _ = LOGS.set(logs);
    Ok(())
}

/// Gives each connection with this configuration a log, if there are logs.
pub(super) fn log(config: &mut TransportConfig) {
    config.trace = LOGS.get().map(Directory::factory);
}

/// Waits until all logs are written, and reports what is missing.
pub(super) fn end() {
    let Some(logs) = LOGS.get() else {
        return;
    };
    // The runtime ends connections in its own threads.
    let cut = logs.close(LONGEST_END);
    if cut > 0 {
        output::note!("note: the ends of {cut} logs are missing in QLOGDIR");
    }
    if let Some(error) = logs.error() {
        output::note!("note: qlog: {error}");
    }
    let missing = logs.missing();
    if missing > 0 {
        output::note!(
            "note: {missing} events are missing in QLOGDIR, because the disk was too slow or full, \
             or a log too long"
        );
    }
    let refused = logs.refused();
    if refused > 0 {
        output::note!("note: {refused} connections have no log in QLOGDIR: too many were open");
    }
}
