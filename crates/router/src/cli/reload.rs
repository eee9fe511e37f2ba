//! `vcp-router reload`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::answer;
use crate::config::{Config, ConfigError};
use crate::daemon::Query;
use crate::output::log_line;

/// Interval at which a running reload is polled.
const LOOK: Duration = Duration::from_millis(20);
/// Maximum time to wait for a reload. A file with 100,000 routes takes about a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// A configuration that names no status socket.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoSocket {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{}: no `control` is given: send the router SIGHUP", .0.display())]
    NoControl(PathBuf),
}

/// The status socket that a configuration names.
///
/// # Errors
/// [`NoSocket`].
pub(super) fn socket(config: &Path) -> Result<PathBuf, NoSocket> {
    let control = Config::load(config)?.control;
    control.ok_or_else(|| NoSocket::NoControl(config.to_owned()))
}

/// Makes the router at `socket` read its configuration again; with `wait`, until this is
/// finished.
///
/// # Errors
/// The reason why the configuration is not in force, or why the router does not answer.
pub(super) fn command(socket: &Path, wait: bool) -> Result<(), String> {
    let asked = answer(socket, &Query::Reload)?;
    if !wait {
        return Ok(());
    }
    let end = number(&asked, "reloads");
    #[expect(clippy::disallowed_methods, reason = "a command waits in real time")]
    let (now, sleep) = (Instant::now, std::thread::sleep);
    let until = now() + PATIENCE;
    loop {
        let state = answer(socket, &Query::Json)?;
        let reload = state.get("reload").unwrap_or(&Value::Null);
        let generation = number(reload, "generation");
        if generation + number(reload, "failures") > end {
            let error = reload.get("error").and_then(Value::as_str);
            if reload.get("ok") != Some(&Value::Bool(true)) {
                let reason = error.unwrap_or("the router gives no reason");
                return Err(format!("not reloaded, still running as before: {reason}"));
            }
            match error {
                None => log_line!("reloaded, generation {generation}"),
                Some(error) => {
                    log_line!("reloaded, generation {generation}, in force but for: {error}");
                }
            }
            return Ok(());
        }
        if now() >= until {
            return Err(format!(
                "the reload has not ended within {} s: see `vcp-router show`",
                PATIENCE.as_secs()
            ));
        }
        sleep(LOOK);
    }
}

fn number(object: &Value, key: &str) -> u64 {
    object.get(key).and_then(Value::as_u64).unwrap_or(0)
}
