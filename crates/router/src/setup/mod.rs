//! `vcp-router setup` and `teardown`: what the kernel needs around a router, made and taken away
//! again.
//!
//! ```text
//!   lan0 ─► rule: iif lan0 ─► table of port "lan" ─► vcp-lan ─► router ─► vcp-wan ─► main table ─► wan0
//! ```
//!
//! - Each port with `tun` gets a persistent interface that belongs to `user`, so that `run` needs
//!   no capability and the interface outlives it.
//! - Each port that packets are steered into gets a routing table. Its default routes lead into the
//!   interface as long as a router holds that (the interface has no carrier otherwise, and routes
//!   without carrier are ignored). What then follows in the table is the port's `on_stop`: refuse,
//!   or nothing, so that the main table has its turn.
//! - Each `[[steer]]` is a rule that leads to the port's table.
//!
//! Interfaces bear an alias, rules and routes a protocol number, by which they are known again:
//! whatever is not asked for any more is removed, and [`teardown`] needs nothing else (`marks`). A
//! plan is made from the configuration and the kernel's present state (`plan`); its steps are
//! commands of iproute2 and writes of sysctls (`step`).

mod marks;
mod plan;
mod state;
mod step;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::config::{Config, ConfigError};
use crate::tell::tell;
use crate::tun::sys;

pub use step::Step;

/// Whose things are taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose<'a> {
    /// Those of this configuration, which need not hold together any more.
    File(&'a Path),
    /// Those of the configuration with this `table`.
    Table(u32),
    /// Those of all that have left marks.
    Everybody,
}

/// What cannot be set up, and why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No such user.
    #[error("user: there is no user `{}`: create it, or change `user`", .0.escape_debug())]
    User(String),
    /// iproute2 is not installed, or another `ip` is.
    #[error("cannot run `{command}`: {source}; install iproute2")]
    Missing {
        /// The command.
        command: String,
        /// Why not.
        source: io::Error,
    },
    /// A command failed.
    #[error("`{command}` failed: {message}")]
    Command {
        /// The command.
        command: String,
        /// What it said.
        message: String,
    },
    /// A sysctl cannot be written.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What a command printed is not what iproute2 prints.
    #[error("cannot read what `{command}` printed: {message}")]
    Output {
        /// The command.
        command: String,
        /// What is wrong with it.
        message: String,
    },
    /// An interface of this name exists and is something else.
    #[error("{name} exists and is no TUN interface of one queue: choose another name for `tun`")]
    NotTun {
        /// The interface.
        name: String,
    },
    /// An interface of this name exists only as long as a program holds it.
    #[error(
        "{name} exists and ends with the program that made it: stop that program, then set up again"
    )]
    Transient {
        /// The interface.
        name: String,
    },
    /// A name is somebody else's interface, rule or table.
    #[error("{0}")]
    Taken(String),
    /// An interface of this name belongs to somebody else.
    #[error(
        "interface {name} belongs to another user and was not made by set-up: choose another name, \
         or delete it with \"ip link delete dev {name}\" if nobody needs it"
    )]
    Foreign {
        /// Its name.
        name: String,
    },
    /// It cannot be told what is to be taken away.
    #[error(
        "cannot read {}: {message}; there are things of configurations with `table` {tables}: \
         name one by --table, or name no configuration to take all of them away", .path.display()
    )]
    Unclear {
        /// The configuration.
        path: PathBuf,
        /// Why it cannot be read.
        message: String,
        /// What there is.
        tables: String,
    },
    /// Standard output takes nothing.
    #[error("cannot print: {0}")]
    Print(io::Error),
}

/// Sets up what `path` asks for, and removes what it does not ask for any more; with `dry_run` only
/// prints the commands. Each is printed as a shell would take it, before it runs.
///
/// # Errors
/// [`SetupError`]; what was done until then stays, and the next call goes on from there.
pub fn setup(path: &Path, dry_run: bool) -> Result<(), SetupError> {
    let config = Config::load(path)?;
    let owner = config.user.as_deref().unwrap_or("root");
    let uid = sys::user(owner)
        .ok_or_else(|| SetupError::User(owner.to_owned()))?
        .user;
    let mut state = state::State::read(&plan::named(&config))?;
    state.foreign = state::foreign(&plan::routes(&config, state.ipv6))?;
    let steps = plan::up(&config, &plan::Owner { name: owner, uid }, &state)?;
    run(&steps, dry_run, &mut io::stdout().lock())?;
    for warning in plan::warnings(&config, &state) {
        tell!("{warning}");
    }
    Ok(())
}

/// Takes away what [`setup`] made, by the marks that it bears, in the same way.
///
/// # Errors
/// As for [`setup`].
pub fn teardown(whose: Whose<'_>, dry_run: bool) -> Result<(), SetupError> {
    let state = state::State::read(&BTreeSet::new())?;
    let tables = match whose {
        Whose::File(path) => marks::tables_for(path, &state)?,
        Whose::Table(table) => BTreeSet::from([table]),
        Whose::Everybody => marks::tables(&state),
    };
    let steps: Vec<_> = tables
        .into_iter()
        .flat_map(|table| plan::down(table, &state))
        .collect();
    run(&steps, dry_run, &mut io::stdout().lock())
}

/// Does `steps`, or with `dry_run` only prints them. A reader of `out` that goes away, or a full
/// disk, does not stop what was begun.
fn run(steps: &[Step], dry_run: bool, out: &mut dyn Write) -> Result<(), SetupError> {
    let mut printed = Ok(());
    for step in steps {
        if printed.is_ok() {
            printed = writeln!(out, "{step}");
        }
        if !dry_run {
            step.run()?;
        }
    }
    match printed.and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(SetupError::Print(error)),
        _ => Ok(()),
    }
}
