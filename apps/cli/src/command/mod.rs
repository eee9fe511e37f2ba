//! The `pathmark` command.
//!
//! Exit codes are 0 for success, 1 for failure, and 2 for wrong usage or configuration. With
//! `--json`, stdout only has one JSON object. Human-readable text and progress bars go to stderr.
// `println!` and `eprintln!` panic when the pipe's reader has gone: see `output`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod accept;
mod client;
mod clients;
mod compare;
mod connect;
mod control;
mod demo;
mod emulate;
mod explain;
mod figures;
mod get;
mod glob;
mod identity;
mod ls;
mod moving;
mod operator;
mod output;
mod pages;
mod perf;
mod plot;
mod proxy;
mod put;
mod qlog;
mod reconnect;
mod routers;
mod serve;
mod session;
mod state;
mod target;
mod tcp;
mod top;
mod trust;
mod tunnel;
mod values;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::iter::once;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use serde::Serialize;

/// Move data over long, fat or lossy paths whose routers you own.
///
/// Connections read the load that routers on the path write into their packets, and keep the path
/// full without a queue. Without such routers they run CUBIC.
#[derive(Debug, Parser)]
#[command(name = "pathmark", version, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  pathmark demo                                     see it work, in two minutes, without root
  pathmark serve --listen 0.0.0.0:4433 --dir data   offer a directory; prints the key's pin
  pathmark get host:4433/big.iso --trust-new        fetch a file; run it again to go on after a \
  break
  pathmark ls host:4433                             list what is there
  pathmark put big.iso host:4433                    store a file, if the server runs with \
  --allow-put
  pathmark proxy --listen :4433 --token-file tokens carry TCP and UDP; prints a URI for clients
  pathmark tunnel --uri-file proxy.uri -D 1080      any application through a proxy
  pathmark perf client host:4433 --download 1GB     measure
  pathmark explain report.json                      say why a transfer took that long
  pathmark emulate five-files                       the same code under a virtual clock, in a second
  pathmark compare --out compare                    control laws over a grid of paths, in minutes

Controllers (--cc): auto (default), vcp+bise+wlte, vcp+bise, vcp+wlte, vcp, xcp, xcp-i, cubiq, ada,
cubic, newreno, bbr; options in brackets: --cc 'vcp[alpha=1.0,t_rho=200ms]'.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// See it work: five files over 10 Mbit/s and 400 ms, next to the kernel's TCP; needs no root
    Demo(demo::Args),
    /// Offer the files of a directory, and store files from clients if you allow it
    Serve(serve::Args),
    /// Fetch files; continue where an earlier attempt stopped
    Get(get::Args),
    /// Store files on a server
    Put(put::Args),
    /// List a directory of a server
    Ls(ls::Args),
    /// Take TCP and UDP of any application through a proxy: port forwards, SOCKS5, HTTP CONNECT
    Tunnel(Box<tunnel::Args>),
    /// Run a scenario under a virtual clock: the same endpoints and routers, without a network
    Emulate(emulate::Args),
    /// Say why a transfer took as long as it did, from its JSON report or its qlog
    Explain(explain::Args),
    /// Draw windows, round trips and rates of qlogs over time
    Plot(plot::Args),
    /// Compare control laws over a grid of paths, and draw each law's figures
    Compare(compare::Args),
    /// Join the runs of a sweep that was split among jobs
    Merge(emulate::MergeArgs),
    /// Print the manual page of a command: pathmark man get | man -l -
    Man(pages::ManArgs),
    /// Print completions for a shell: source <(pathmark completions bash)
    Completions(pages::CompletionsArgs),
    /// Write manual pages and completions for shells, for packages
    #[command(hide = true)]
    Pages(pages::Args),
    /// Carry TCP and UDP of any application to their targets, for clients with a token
    Proxy(proxy::Args),
    /// Show the flows of a running tunnel or proxy, the fastest first, once a second
    Top(top::Args),
    /// Measure throughput (QUIC performance protocol, draft-banks-quic-performance)
    #[command(subcommand)]
    Perf(perf::Command),
}

/// The reason why a command failed.
#[derive(Debug)]
enum Failure {
    /// Wrong usage or configuration: exit code 2.
    Usage(anyhow::Error),
    /// Any other failure: exit code 1.
    Failed(anyhow::Error),
    /// Parts failed, and each failure was already reported: exit code 1.
    Reported,
}

impl Failure {
    fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self::Usage(error.into())
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// The first argument that makes this program a router, so that the demo doesn't need a second
/// program.
const ROUTER: &str = "vcp-router";

/// The log filter of servers without `RUST_LOG`.
const SERVERS_LOG: &str = "warn,pathmark_cli=info,pathmark_proxy=info";

/// The log filter of `tunnel connect` without `RUST_LOG`.
const PIPES_LOG: &str = "warn";

/// The log filter of tunnels without `RUST_LOG`.
const TUNNELS_LOG: &str = "warn,pathmark_cli=info,pathmark_proxy=info";

type Outcome = Result<(), Failure>;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    if arguments.nth(1).is_some_and(|first| first == ROUTER) {
        return pathmark_router::cli::main_from(once("vcp-router".into()).chain(arguments));
    }
    let cli = pages::parse();
    output::log(match cli.command {
        Command::Serve(_) | Command::Proxy(_) | Command::Perf(perf::Command::Server(_)) => {
            Some(SERVERS_LOG)
        }
        Command::Tunnel(ref args) if args.is_pipe() => Some(PIPES_LOG),
        Command::Tunnel(_) => Some(TUNNELS_LOG),
        _ => None,
    });
    raise_open_files();
    let reads_logs = matches!(cli.command, Command::Explain(_) | Command::Plot(_));
    if !reads_logs && let Err(error) = qlog::begin() {
        output::note!("pathmark: {error:#}");
        return ExitCode::from(2);
    }
    let json = cli.command.json();
    let is_demo = matches!(cli.command, Command::Demo(_));
    let outcome = match cli.command {
        Command::Demo(args) => session::run_to_stop(demo::demo(args)),
        Command::Serve(args) if serve::reloads(&args) => {
            session::run_reloading(|stop| serve::serve(args, stop))
        }
        Command::Serve(args) => session::run(|stop| serve::serve(args, stop)),
        Command::Get(args) => session::run(|stop| get::get(args, stop)),
        Command::Put(args) => session::run(|stop| put::put(args, stop)),
        Command::Ls(args) => session::run(|stop| ls::ls(args, stop)),
        Command::Tunnel(args) if args.reloads() => {
            session::run_reloading(|stop| tunnel::tunnel(*args, stop))
        }
        Command::Tunnel(args) => session::run(|stop| tunnel::tunnel(*args, stop)),
        Command::Top(args) => session::run(|stop| top::top(args, stop)),
        Command::Emulate(args) => emulate::emulate(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Plot(args) => plot::plot(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Merge(args) => emulate::merge(&args),
        Command::Pages(args) => pages::pages(&args),
        Command::Man(args) => pages::man(&args),
        Command::Completions(args) => pages::completions(&args),
        Command::Proxy(args) => proxy::proxy(args),
        Command::Perf(perf::Command::Server(args)) => session::run(|stop| perf::server(args, stop)),
        Command::Perf(perf::Command::Client(args)) => session::run(|stop| perf::client(args, stop)),
    };
    qlog::end();
    let code = report(outcome, json, is_demo);
    output::settle();
    ExitCode::from(code)
}

/// Reports the reason if a command failed, and returns the exit code.
fn report(outcome: Outcome, json: bool, is_demo: bool) -> u8 {
    let (error, code) = match outcome {
        Ok(()) => return 0,
        Err(Failure::Reported) => return 1,
        Err(Failure::Failed(error)) => (error, 1),
        Err(Failure::Usage(error)) => (error, 2),
    };
    let error = output::explain(&error);
    if json && code == 1 && !output::has_printed_json() {
        // If stdout fails, the error is still reported on stderr below.
        let _ = output::json(&Failed {
            runs: is_demo.then_some([]),
            error: &error,
        });
    }
    output::note!("pathmark: {error}");
    code
}

/// The JSON of a command that failed before it had figures.
#[derive(Debug, Serialize)]
struct Failed<'a> {
    /// The runs of `demo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<[(); 0]>,
    error: &'a str,
}

impl Command {
    const fn json(&self) -> bool {
        match self {
            Self::Demo(args) => args.json,
            Self::Serve(args) => args.json,
            Self::Get(args) => args.client.json,
            Self::Put(args) => args.client.json,
            Self::Ls(args) => args.client.json,
            Self::Tunnel(args) => args.json(),
            Self::Emulate(args) => args.json,
            Self::Explain(args) => args.json,
            Self::Compare(args) => args.json,
            Self::Merge(args) => args.json,
            Self::Pages(_) | Self::Man(_) | Self::Completions(_) | Self::Plot(_) | Self::Top(_) => {
                false
            }
            Self::Proxy(args) => args.json,
            Self::Perf(perf::Command::Server(args)) => args.json,
            Self::Perf(perf::Command::Client(args)) => args.json,
        }
    }
}

/// Raises the soft limit on open files (1024 on many systems) to the hard limit, because each
/// active file takes a descriptor.
fn raise_open_files() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::debug!(%error, "the limit of open files stays");
    }
}
