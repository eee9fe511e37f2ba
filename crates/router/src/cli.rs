//! The command line of `vcp-router`.

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand};
use pathmark_link::keys::Span;

use crate::config::Config;
use crate::daemon::{Query, RunError, RunOptions, ask, doubtful, missing, probe, run};
use crate::output::{self, log_line};
use crate::setup::{SetupError, SetupOptions, Whose, setup, teardown};
use crate::show;
use crate::tun::sys;

mod pages;
mod reload;

const DEFAULT_SOCKET: &str = "/run/vcp-router/control.sock";

/// A router in user space that marks load into the packets that pass.
#[derive(Debug, Parser)]
#[command(name = "vcp-router", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Open the interfaces and forward until SIGTERM; SIGHUP reloads the configuration.
    Run {
        /// The configuration.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Print one JSON object on stdout once the router is ready.
        #[arg(long)]
        json: bool,
        /// Write a time series of the links to this file as CSV.
        #[arg(long, value_name = "FILE")]
        record: Option<PathBuf>,
        /// Time between the samples of --record.
        #[arg(long, value_name = "TIME", default_value = "100ms")]
        sample: Span,
    },
    /// Report mistakes in a configuration, and what it lacks on this machine.
    Check {
        /// The configuration.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
        /// Try everything that `run` does before it forwards, with the same rights, and undo it.
        #[arg(long)]
        probe: bool,
        /// Check only the file, and nothing on this machine: the file is for another one.
        #[arg(long, conflicts_with = "probe")]
        offline: bool,
    },
    /// Create the interfaces, routes and rules that the kernel needs around the router. Run it as
    /// root, once per boot.
    Setup {
        /// The configuration.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Print the commands that are needed, and run none.
        #[arg(long)]
        dry_run: bool,
        /// Take over interfaces of another configuration, and remove interfaces that are in use.
        #[arg(long)]
        force: bool,
        /// Warn instead of failing if a `from` interface does not exist yet or a foreign rule comes
        /// first.
        #[arg(long)]
        boot: bool,
    },
    /// Remove everything that `setup` created, for all configurations unless you give --config or
    /// --table.
    Teardown {
        /// The configuration file; it may be invalid.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// The configuration's `table`, if the file no longer exists.
        #[arg(long, value_name = "NUMBER", conflicts_with = "config", value_parser = number)]
        table: Option<u32>,
        /// Print the commands that are needed, and run none.
        #[arg(long)]
        dry_run: bool,
        /// Also remove interfaces of another configuration, and interfaces that are in use.
        #[arg(long)]
        force: bool,
    },
    /// Write manual pages and completions for shells, for packages.
    #[command(hide = true)]
    Pages {
        /// The output directory.
        directory: PathBuf,
    },
    /// Make a running router reload its configuration, as SIGHUP does.
    Reload {
        /// The router's status socket.
        #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
        socket: PathBuf,
        /// The configuration, which is checked first and names the status socket (`control`).
        #[arg(long, value_name = "FILE", conflicts_with = "socket")]
        config: Option<PathBuf>,
        /// Wait until the file is in force, or fail with the reason why it is not.
        #[arg(long)]
        wait: bool,
    },
    /// Show the state of a running router.
    Show {
        /// The router's status socket.
        #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
        socket: PathBuf,
        /// Print one JSON object, or with --watch one per line.
        #[arg(long)]
        json: bool,
        /// Print again after this time, by default each second, until you press Ctrl-C or the
        /// router ends.
        #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
            value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "metrics")]
        watch: Option<u32>,
        /// Print Prometheus text.
        #[arg(long, conflicts_with = "json")]
        metrics: bool,
    },
    /// Report the capacity of the link behind a port to a running router.
    Capacity {
        /// The port's name.
        port: String,
        /// The capacity, such as 8Mbit, or 0 while the link is away; `none` restores the configured
        /// capacity.
        rate: String,
        /// Restore the configured capacity unless another report follows within this time, such as
        /// 5s.
        #[arg(long = "for", value_name = "TIME")]
        hold: Option<Span>,
        /// The router's status socket.
        #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
        socket: PathBuf,
    },
}

/// Parses a number, for `--table`.
fn number(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "write a number")
}

/// Runs the program with the arguments of the process.
pub fn main() -> ExitCode {
    main_from(std::env::args_os())
}

/// Runs the program with these arguments, of which the first is its own name. The exit code is 0
/// for success, 1 for a failure, and 2 for wrong usage or configuration.
pub fn main_from(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version go to stdout with code 0, usage errors to stderr with code 2.
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    match arguments.command {
        Command::Run {
            config,
            json,
            record,
            sample,
        } => run_command(&RunOptions {
            config,
            json,
            record,
            sample: sample.0.max(Duration::from_millis(1)),
        }),
        Command::Check {
            config,
            json,
            probe,
            offline,
        } => check_command(config, json, probe, offline),
        Command::Pages { directory } => ended(pages::write(&directory, Arguments::command())),
        Command::Setup {
            config,
            dry_run,
            force,
            boot,
        } => {
            let options = SetupOptions {
                dry_run,
                force,
                boot,
            };
            setup_command(setup(&config, options))
        }
        Command::Teardown {
            config,
            table,
            dry_run,
            force,
        } => {
            let whose = match (&config, table) {
                (Some(file), _) => Whose::File(file),
                (None, Some(table)) => Whose::Table(table),
                (None, None) => Whose::Everybody,
            };
            let options = SetupOptions {
                dry_run,
                force,
                boot: false,
            };
            setup_command(teardown(whose, options))
        }
        Command::Show {
            socket,
            json,
            watch: seconds,
            metrics,
        } => match seconds {
            Some(seconds) => ended(watch(&socket, json, seconds)),
            None => show_command(&socket, json, metrics),
        },
        Command::Reload {
            socket,
            config,
            wait,
        } => {
            let socket = match config.as_deref().map(reload::socket).transpose() {
                Ok(named) => named.unwrap_or(socket),
                Err(error) => return fail(2, &error),
            };
            ended(reload::command(&socket, wait))
        }
        Command::Capacity {
            port,
            rate,
            hold,
            socket,
        } => match Query::capacity(&port, &rate, hold) {
            Ok(query) => ended(answer(&socket, &query).map(|_| ())),
            Err(error) => fail(2, &error),
        },
    }
}

fn fail(code: u8, error: &dyn std::fmt::Display) -> ExitCode {
    log_line!("{error}");
    ExitCode::from(code)
}

/// 0, or 1 with the error on stderr.
fn ended<E: std::fmt::Display>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(1, &error),
    }
}

fn run_command(options: &RunOptions) -> ExitCode {
    let code = match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Signals are blocked by now, so nothing else would end a write that blocks.
            let _ = output::start();
            fail(run_code(&error), &error)
        }
    };
    output::finish();
    code
}

/// Returns 2 for errors in the configuration, and 1 for all others.
fn run_code(error: &RunError) -> u8 {
    match error {
        RunError::Config(_) | RunError::User(_) | RunError::Group(_) => 2,
        _ => 1,
    }
}

fn setup_command(result: Result<(), SetupError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ (SetupError::Config(_) | SetupError::User(_))) => fail(2, &error),
        Err(error) => fail(1, &error),
    }
}

fn check_command(path: PathBuf, json: bool, try_it: bool, offline: bool) -> ExitCode {
    let name = path.display().to_string();
    let (mut code, mut errors, mut good) = (2, Vec::new(), String::new());
    let mut warnings = Vec::new();
    match Config::load(&path) {
        Ok(config) => {
            let (ports, routes) = (config.ports.len(), config.routes.len());
            good = match routes {
                0 => format!("{name}: it has no `[[route]]`, so it would drop every packet"),
                _ => format!("{name}: good, {ports} ports and {routes} routes"),
            };
            warnings = config.warnings();
            if !offline {
                let missing = missing(&config).into_iter();
                errors.extend(missing.map(|problem| format!("{name}: {problem}")));
                warnings.extend(doubtful(&config, &path));
            }
        }
        Err(error) => errors.push(error.to_string()),
    }
    if errors.is_empty()
        && try_it
        && let Err(error) = probe(&RunOptions {
            config: path,
            json: false,
            record: None,
            sample: Duration::from_secs(1),
        })
    {
        code = run_code(&error);
        errors.push(error.to_string());
    }
    if json {
        let (ok, first) = (errors.is_empty(), errors.first());
        let object = serde_json::json!({
            "ok": ok,
            "error": first,
            "errors": errors,
            "warnings": warnings,
        });
        if let Err(error) = print(&format!("{object}\n")) {
            code = 1;
            errors.push(error.to_string());
            log_line!("{error}");
        }
        warnings.clear();
    } else if errors.is_empty() {
        log_line!("{good}{}", if try_it { "; it runs here" } else { "" });
    } else {
        for error in &errors {
            log_line!("{error}");
        }
    }
    for warning in &warnings {
        log_line!("{name}: {warning}");
    }
    ExitCode::from(if errors.is_empty() { 0 } else { code })
}

/// The output of `show`, and whether packets are steered into every port as configured.
fn shown(socket: &Path, json: bool, metrics: bool) -> Result<(String, bool), Box<dyn Error>> {
    let query = if metrics { Query::Metrics } else { Query::Json };
    let text = ask(socket, &query)?;
    if metrics {
        return Ok((text, true));
    }
    // A router that ends may leave half of an answer.
    match serde_json::from_str(&text) {
        Ok(_) if json => Ok((text, true)),
        Ok(state) => Ok((show::table(&state), show::is_steered(&state))),
        Err(error) => Err(format!("the router's answer is not complete: {error}").into()),
    }
}

fn show_command(socket: &Path, json: bool, metrics: bool) -> ExitCode {
    let shown = shown(socket, json, metrics);
    match shown.and_then(|(text, steered)| Ok(print(&text).map(|()| steered)?)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => fail(1, &error),
    }
}

/// Shows the state every `seconds` until the router ends. A thread ends the process after a signal,
/// or when nobody reads any more, so that neither has to wait for a write or for the router.
fn watch(socket: &Path, json: bool, seconds: u32) -> Result<(), Box<dyn Error>> {
    let signals = sys::Signals::take_over()?;
    std::thread::Builder::new().spawn(move || {
        let stdout = sys::hung_up(libc::STDOUT_FILENO);
        let mut fds = vec![sys::readable(signals.fd()), stdout];
        while sys::wait(&mut fds, None).is_ok() && fds.iter().all(|fd| fd.revents == 0) {}
        std::process::exit(0)
    })?;
    let (before, after) = match (json, io::stdout().is_terminal()) {
        (true, _) => ("", ""),
        (_, true) => ("\x1b[H\x1b[2J", ""),
        (_, false) => ("", "\n"),
    };
    #[expect(clippy::disallowed_methods, reason = "a command waits in real time")]
    let sleep = std::thread::sleep;
    loop {
        let (text, _) = shown(socket, json, false)?;
        print(&format!("{before}{text}{after}"))?;
        sleep(Duration::from_secs(seconds.into()));
    }
}

/// Sends a query that changes something, and returns the router's answer or its error.
fn answer(socket: &Path, query: &Query) -> Result<serde_json::Value, String> {
    let text = ask(socket, query).map_err(|error| error.to_string())?;
    let answer: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| error.to_string())?;
    match answer.get("error").and_then(|error| error.as_str()) {
        Some(error) => Err(error.to_owned()),
        None => Ok(answer),
    }
}

/// Standard output could not be written completely.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to the standard output: {0}")]
struct PrintError(io::Error);

/// Prints to stdout. A reader that closes the pipe early does not count as a failure, but a full
/// disk does.
fn print(text: &str) -> Result<(), PrintError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(PrintError(error)),
        _ => Ok(()),
    }
}
