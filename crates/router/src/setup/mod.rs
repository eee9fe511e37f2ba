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

mod closed;
mod faults;
mod interfaces;
mod marks;
mod plan;
mod sight;
mod state;
mod step;
mod sysctl;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::config::{Config, ConfigError};
use crate::stderr::log_line;
use crate::tun::sys;

pub(crate) use faults::{Fault, FaultKind, look};
pub(crate) use sight::{addresses, messages, table_of};
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
    /// iproute2 or nftables is not installed.
    #[error("cannot run `{command}`: {source}; install {package}")]
    Missing {
        /// The command.
        command: String,
        /// The package that has it.
        package: &'static str,
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
    /// Another program has an interface, rule, route or table of this name.
    #[error("{0}")]
    Taken(String),
    /// An interface of this name belongs to another user.
    #[error(
        "interface {name} belongs to another user and was not made by set-up: choose another name, \
         or delete it with \"ip link delete dev {name}\" if no program needs it"
    )]
    Foreign {
        /// Its name.
        name: String,
    },
    /// The configuration that is to be taken away cannot be determined.
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
    /// Another configuration's interface would be changed or removed.
    #[error(
        "interface {name} belongs to {file} (`table = {table}`): give this configuration another \
         `table` and other names, or take it over with --force"
    )]
    OtherFile {
        /// The interface.
        name: String,
        /// The configuration that it was made for.
        file: String,
        /// That configuration's `table`.
        table: u32,
    },
    /// A program has an interface open that would be removed.
    #[error(
        "interface {0} is in use by a program, most likely a running router: stop it first, or \
         remove the interface nevertheless with --force"
    )]
    Held(String),
    /// What set-up cannot mend keeps packets from being steered.
    #[error("set up, but packets are not steered as they should: {}", .0.join("; "))]
    Steering(Vec<String>),
    /// The kernel cannot be asked.
    #[error("cannot ask the kernel for links, rules and routes: {0}")]
    Kernel(io::Error),
    /// Standard output takes nothing.
    #[error("cannot print: {0}")]
    Print(io::Error),
}

/// How [`setup`] and [`teardown`] go about it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetupOptions {
    /// Only prints the commands.
    pub dry_run: bool,
    /// Takes over and removes what belongs to another configuration, or is in use.
    pub force: bool,
    /// Steering that set-up cannot mend is a warning: cards may come later.
    pub boot: bool,
}

/// Sets up what `path` asks for, and removes what it no longer asks for. Each command is
/// printed as a shell would take it, before it runs.
///
/// # Errors
/// [`SetupError`]; what was done until then stays, and the next call goes on from there.
pub fn setup(path: &Path, options: SetupOptions) -> Result<(), SetupError> {
    let dry_run = options.dry_run;
    let config = Config::load(path)?;
    let owner = config.user.as_deref().unwrap_or("root");
    let uid = sys::user(owner)
        .ok_or_else(|| SetupError::User(owner.to_owned()))?
        .user;
    let mut state = state::State::read(&interfaces::named(&config))?;
    state.foreign = state::foreign(&plan::routes(&config, state.ipv6))?;
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
        // Before the commands have run, what they make is missing.
        if dry_run && fault.kind == FaultKind::Missing {
            continue;
        }
        let text = fault.message(&config);
        match options.boot || fault.kind == FaultKind::Exception {
            true => log_line!("{text}"),
            false => wrong.push(text),
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(SetupError::Steering(wrong)),
    }
}

/// Takes away what [`setup`] made, by the marks that it bears, in the same way.
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
        let concerned = |link: &&state::Link| {
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
