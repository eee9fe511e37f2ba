//! `pathmark get`: files fetched from a server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use futures_util::stream::{self, StreamExt};
use pathmark_cc::Algorithm;
use serde::Serialize;

use super::figures::Transfer;
use super::routers::MeasureArgs;
use super::session::{Connected, DscpArgs};
use super::state::StateArgs;
use super::target::{Target, distinct};
use super::trust::TrustArgs;
use super::{Failure, Outcome, output, session, values};
use crate::file::client::{self, Progress};
use crate::file::incoming::is_temporary;
use crate::file::report::SenderReport;
use crate::file::{self, send::hex};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What to fetch
    #[arg(required = true, value_name = "HOST:PORT/NAME")]
    targets: Vec<Target>,
    /// Where to put it
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// Congestion controller that the server is asked to send with; it uses those that it lists
    #[arg(long, value_name = "NAME", value_parser = values::algorithm)]
    cc: Option<Algorithm>,
    #[command(flatten)]
    marking: DscpArgs,
    #[command(flatten)]
    measure: MeasureArgs,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    state: StateArgs,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

/// Files that are under way at once, each of which is open.
pub(super) const AT_ONCE: usize = 32;

/// What became of a file, in the JSON of `get` and `put`.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum FileResult {
    /// It is where it should be.
    Done(FileFigures),
    /// It is not.
    Failed {
        /// Its name at the server.
        name: String,
        /// Why.
        error: String,
    },
}

/// A file that is where it should be.
#[derive(Debug, Serialize)]
pub(super) struct FileFigures {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) sha256: String,
    pub(super) seconds: f64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) resumed_bytes: u64,
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// The JSON of `get` and `put`.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    #[serde(flatten)]
    pub(super) transfer: Transfer,
    pub(super) files: Vec<FileResult>,
}

impl Figures {
    /// Says what became of the files: in JSON all at once, to people each success on stdout and
    /// each failure on stderr.
    pub(super) fn say(&self, json: bool) -> Outcome {
        if json {
            output::json(self)?;
        }
        let mut outcome = Ok(());
        for file in &self.files {
            match file {
                FileResult::Done(file) if !json => {
                    output::line(format_args!("{}  {}", file.sha256, file.name))?;
                }
                FileResult::Done(_) => {}
                FileResult::Failed { error, .. } => {
                    output::note!("pathmark: {error}");
                    outcome = Err(Failure::Told);
                }
            }
        }
        outcome
    }
}

/// Where in `directory` the file of `target` shall lie.
fn local_path(target: &Target, directory: &Path) -> anyhow::Result<PathBuf> {
    let name = target
        .name
        .as_deref()
        .and_then(|name| name.rsplit('/').next())
        .filter(|name| !matches!(*name, "" | "." | ".."))
        .ok_or_else(|| anyhow!("say which file: {}:{}/NAME", target.host, target.port))?;
    if is_temporary(name) {
        bail!("{name} is a name of unfinished files, not one to fetch");
    }
    let path = directory.join(name);
    if path.is_dir() {
        bail!(
            "{} is a directory; fetch {target} into another one",
            path.display()
        );
    }
    Ok(path)
}

/// Notes that a server sent by the law `used`, where the user had `asked` for one.
fn note_law(transfer: &mut Transfer, asked: Option<&str>, used: String) {
    if let Some(asked) = asked
        && asked != used
    {
        let told = format!("the server sends by {used}, not by {asked}: it chooses what to offer");
        if !transfer.warnings.contains(&told) {
            transfer.warnings.push(told);
        }
    }
    transfer.algorithm = used;
}

pub(super) async fn get(args: Args) -> Outcome {
    if !args.output.is_dir() {
        return Err(Failure::usage(anyhow!(
            "{} is no directory; make it first",
            args.output.display()
        )));
    }
    let mut paths = Vec::new();
    for target in &args.targets {
        let path = local_path(target, &args.output).map_err(Failure::usage)?;
        paths.push((path, target));
    }
    distinct(paths.iter().map(|(path, target)| (path, target)))?;
    let mut servers: BTreeMap<(String, u16), Vec<(Target, PathBuf)>> = BTreeMap::new();
    for (path, target) in paths {
        servers
            .entry((target.host.clone(), target.port))
            .or_default()
            .push((target.clone(), path));
    }
    let mut figures = Figures {
        transfer: Transfer {
            algorithm: args.cc.clone().unwrap_or_default().to_string(),
            ..Transfer::default()
        },
        files: Vec::new(),
    };
    for files in servers.into_values() {
        match fetch(&args, &files).await {
            Ok((transfer, files)) => {
                figures.transfer.add(transfer);
                figures.files.extend(files);
            }
            // The other servers' files may be had all the same.
            Err(Failure::Failed(error)) => {
                let error = output::explain(&error);
                figures.files.extend(files.iter().map(|(target, _)| {
                    let name = target.name.clone().unwrap_or_default();
                    let error = format!("cannot fetch {name}: {error}");
                    FileResult::Failed { name, error }
                }));
            }
            Err(other) => return Err(other),
        }
    }
    figures.say(args.json)
}

/// Fetches files of one server.
async fn fetch(
    args: &Args,
    files: &[(Target, PathBuf)],
) -> Result<(Transfer, Vec<FileResult>), Failure> {
    let algorithm = args.cc.clone().unwrap_or_default();
    let asked = args.cc.as_ref().map(ToString::to_string);
    let mut transfer = Transfer {
        algorithm: algorithm.to_string(),
        ..Transfer::default()
    };
    let Some((server, _)) = files.first() else {
        return Ok((transfer, Vec::new()));
    };
    let mut transport = session::transport(&algorithm, args.marking);
    transport.keep_alive = Some(session::KEEP_ALIVE);
    let _edge = args.measure.fetch(server, &mut transport)?;
    let warnings = &mut transfer.warnings;
    let before =
        |endpoint: &_, address| args.state.visit(server, address, endpoint, &mut *warnings);
    let Connected {
        endpoint,
        connection,
        handshake,
        prepared: visit,
    } = session::connect(server, &args.trust, file::ALPN, transport, before).await?;
    transfer.handshake_ms = handshake.as_secs_f64() * 1e3;
    let bars = output::bars();
    let started = session::now();
    let fetches = files.iter().enumerate().map(|(place, (target, path))| {
        let (connection, bars, asked) = (&connection, &bars, asked.as_deref());
        let name = target.name.clone().unwrap_or_default();
        async move {
            let bar = output::byte_bar(bars, &name, 0);
            let mut arrived = Duration::ZERO;
            let fetched = client::get(connection, &name, path, asked, |progress| match progress {
                Progress::Begin { bytes, offset } => {
                    bar.set_length(bytes);
                    bar.set_position(offset);
                    bar.reset_eta();
                }
                Progress::Bytes(bytes) => bar.inc(bytes),
                Progress::Arrived => arrived = started.elapsed(),
            })
            .await
            .with_context(|| format!("cannot fetch {name}"));
            match &fetched {
                Ok(_) => bar.finish(),
                Err(_) => bar.abandon(),
            }
            (place, name, fetched, arrived.as_secs_f64())
        }
    });
    let mut fetched: Vec<_> = stream::iter(fetches)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    fetched.sort_by_key(|(place, ..)| *place);
    let (mut sender, mut last, mut files) = (SenderReport::default(), 0.0_f64, Vec::new());
    for (_, name, fetched, seconds) in fetched {
        match fetched {
            Ok(fetched) => {
                transfer.bytes_down += fetched.bytes - fetched.resumed;
                transfer.streams += 1;
                if let Some(used) = fetched.algorithm {
                    note_law(&mut transfer, asked.as_deref(), used);
                }
                if seconds >= last {
                    (sender, last) = (fetched.sender, seconds);
                }
                files.push(FileResult::Done(FileFigures {
                    name,
                    bytes: fetched.bytes,
                    sha256: hex(&fetched.hash),
                    seconds,
                    resumed_bytes: fetched.resumed,
                }));
            }
            Err(error) => {
                let error = output::explain(&error);
                files.push(FileResult::Failed { name, error });
            }
        }
    }
    // What the disk takes to keep and to read back what came is none of the path's.
    transfer.finish(&connection, &sender, last);
    if let Some(visit) = visit {
        visit.end(&mut transfer.warnings);
    }
    if !args.json {
        transfer.tell(&sender);
    }
    connection.close(0, b"done");
    endpoint.wait_idle().await;
    Ok((transfer, files))
}
