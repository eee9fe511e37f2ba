//! `vcp-router setup` and `teardown` create and remove everything that a router needs in the
//! kernel.
//!
//! ```text
//!   lan0 ─► rule: iif lan0 ─► table of port "lan" ─► vcp-lan ─► router ─► vcp-wan ─► main ─► wan0
//! ```
//!
//! - Each port with `tun` gets a persistent interface that belongs to `user`, so that `run`
//!   needs no capability and the interface outlives it.
//! - Each port that packets are steered into gets a routing table. Its default routes lead into
//!   the interface as long as a router holds it. Otherwise the interface has no carrier, and
//!   routes without carrier are ignored. The rest of the table then implements the port's
//!   `on_stop`: it either rejects packets, or has no further routes, so that the main table is
//!   next.
//! - Each `[[steer]]` is a rule that leads to the port's table.
//!
//! Interfaces carry an alias, rules and routes a protocol number, which identify them later:
//! entries that are no longer needed are removed, and [`teardown`] needs nothing else (`marks`).
//! A plan is computed from the configuration and the kernel's present state (`plan`). Its steps
//! are commands of iproute2 and writes to sysctls (`step`).

mod closed;
mod faults;
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
use crate::output::log_line;
use crate::tun::{LinkState, sys};
pub(crate) use faults::{Fault, FaultKind, look};
pub(crate) use state::{named_addresses, table_of};
pub use step::Step;

/// Selects the configurations to tear down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose<'a> {
    /// This configuration, which need not be valid any more.
    File(&'a Path),
    /// The configuration with this `table`.
    Table(u32),
    /// All that have left marks.
    Everybody,
}

/// The reason why setting up failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No such user.
    #[error("user: there is no user `{}`: create it, or change `user`", .0.escape_debug())]
    User(String),
    /// iproute2 or nftables is not installed.
    #[error("cannot run `{command}`: {source}; install {package}")]
    Missing {
        /// The command.
        command: String,
        /// The package that has it.
        package: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// A command failed.
    #[error("`{command}` failed: {message}")]
    Command {
        /// The command.
        command: String,
        /// Its error output.
        message: String,
    },
    /// A sysctl cannot be written.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A command's output cannot be parsed.
    #[error("cannot read what `{command}` printed: {message}")]
    Output {
        /// The command.
        command: String,
        /// The error in the output.
        message: String,
    },
    /// An interface with this name exists, but has another kind.
    #[error("{0} exists and is no TUN interface of one queue: choose another name for `tun`")]
    NotTun(String),
    /// An interface with this name exists only as long as a program holds it.
    #[error(
        "{0} exists and ends with the program that made it: stop that program, then set up again"
    )]
    Transient(String),
    /// Another program has an interface, rule, route or table in this place.
    #[error("{0}")]
    Taken(String),
    /// An interface with this name belongs to another user.
    #[error(
        "interface {0} belongs to another user and was not made by set-up: choose another name, or \
         delete it with \"ip link delete dev {0}\" if no program needs it"
    )]
    Foreign(String),
    /// The configuration to tear down cannot be determined.
    #[error(
        "cannot read {}: {message}; there are things of configurations with `table` {tables}: \
         name one by --table, or name no configuration to take all of them away", .path.display()
    )]
    Unclear {
        /// The configuration.
        path: PathBuf,
        /// Why it cannot be read.
        message: String,
        /// The tables that have marks.
        tables: String,
    },
    /// An interface of another configuration would be changed or removed.
    #[error(
        "interface {name} belongs to {file} (`table = {table}`): give this configuration another \
         `table` and other names, or take it over with --force"
    )]
    OtherFile {
        /// The interface.
        name: String,
        /// The configuration that it was created for.
        file: String,
        /// That configuration's `table`.
        table: u32,
    },
    /// An interface that a program has open would be removed.
    #[error(
        "interface {0} is in use by a program, most likely a running router: stop it first, or \
         remove the interface nevertheless with --force"
    )]
    Held(String),
    /// A fault that set-up cannot repair keeps packets from being steered.
    #[error("even after these commands, packets are not steered: {}", .0.join("; "))]
    Steering(Vec<String>),
    /// The kernel cannot be queried.
    #[error("cannot ask the kernel for links, rules and routes: {0}")]
    Kernel(io::Error),
    /// Standard output cannot be written.
    #[error("cannot print: {0}")]
    Print(io::Error),
}

/// Options of [`setup`] and [`teardown`].
#[derive(Clone, Copy, Debug, Default)]
pub struct SetupOptions {
    /// Only prints the commands.
    pub dry_run: bool,
    /// Takes over or removes interfaces of another configuration, or in use.
    pub force: bool,
    /// Only warns about steering faults that set-up cannot repair, because cards may appear
    /// later.
    pub boot: bool,
}

/// Sets up everything that `path` requires, and removes what it no longer requires. Each command
/// is printed in shell syntax before it runs.
///
/// # Errors
/// [`SetupError`]. Completed steps stay in effect, and the next call continues from there.
pub fn setup(path: &Path, options: SetupOptions) -> Result<(), SetupError> {
    let dry_run = options.dry_run;
    let config = Config::load(path)?;
    let owner = config.user.as_deref().unwrap_or("root");
    let uid = sys::user(owner)
        .ok_or_else(|| SetupError::User(owner.to_owned()))?
        .user;
    let mut state = state::State::read(&marks::named(&config))?;
    let routes = plan::routes(&config, state.ipv6);
    state.foreign = state::foreign(&routes).map_err(SetupError::Kernel)?;
    let file = marks::file(path);
    let owner = plan::Owner {
        name: owner,
        uid,
        file: &file,
        force: options.force,
    };
    let steps = plan::up(&config, &owner, &state)?;
    run(&steps, dry_run, &mut io::stdout().lock())?;
    for warning in plan::warnings(&config, &state) {
        log_line!("{warning}");
    }
    let mut wrong = Vec::new();
    for fault in look(&config).map_err(SetupError::Kernel)? {
        // Before the commands have run, the entries that they create are missing.
        if dry_run && fault.kind.is_mended_by_setup() {
            continue;
        }
        let text = fault.message(&config);
        if options.boot || fault.kind == FaultKind::Exception {
            log_line!("{text}");
        } else {
            wrong.push(text);
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(SetupError::Steering(wrong))
    }
}

/// Removes everything that [`setup`] created, identified by its marks, and prints the commands
/// likewise.
///
/// # Errors
/// As for [`setup`].
pub fn teardown(whose: Whose<'_>, options: SetupOptions) -> Result<(), SetupError> {
    let state = state::State::read(&BTreeSet::new())?;
    let tables = match whose {
        Whose::File(path) => marks::tables_for(path, &state)?,
        Whose::Table(table) => BTreeSet::from([table]),
        Whose::Everybody => marks::tables(&state),
    };
    if !options.force {
        let concerned = |link: &&LinkState| {
            marks::table_of(&link.alias).is_some_and(|table| tables.contains(&table))
        };
        for link in state.links.iter().filter(concerned) {
            if let Whose::File(path) = whose
                && let Some(file) = marks::other_file(link, &marks::file(path))
            {
                return Err(SetupError::OtherFile {
                    name: link.name.clone(),
                    file: file.to_owned(),
                    table: marks::table_of(&link.alias).unwrap_or_default(),
                });
            }
            if link.held {
                return Err(SetupError::Held(link.name.clone()));
            }
        }
    }
    let steps: Vec<_> = tables
        .into_iter()
        .flat_map(|table| plan::down(table, &state))
        .collect();
    run(&steps, options.dry_run, &mut io::stdout().lock())
}

/// Runs `steps`, or with `dry_run` only prints them. If `out` fails, because its reader left or
/// a disk is full, the remaining steps still run.
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
