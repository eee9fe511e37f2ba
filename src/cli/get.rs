//! `pathmark get`: files fetched from a server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use futures_util::future::join_all;
use pathmark_cc::Algorithm;
use serde::Serialize;

use super::figures::Transfer;
use super::routers::MeasureArgs;
use super::session::DscpArgs;
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

/// A file in the JSON of `get` and `put`.
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
    pub(super) files: Vec<FileFigures>,
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

impl Figures {
    /// A server sent by the law `used`, where the user had `asked` for one.
    fn used(&mut self, asked: Option<&str>, used: String) {
        if let Some(asked) = asked
            && asked != used
        {
            let told =
                format!("the server sends by {used}, not by {asked}: it chooses what to offer");
            if !self.transfer.warnings.contains(&told) {
                self.transfer.warnings.push(told);
            }
        }
        self.transfer.algorithm = used;
    }
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
    let algorithm = args.cc.clone().unwrap_or_default();
    let asked = args.cc.as_ref().map(ToString::to_string);
    let mut figures = Figures {
        transfer: Transfer {
            algorithm: algorithm.to_string(),
            ..Transfer::default()
        },
        files: Vec::new(),
    };
    let mut failed = None;
    for files in servers.into_values() {
        let Some((server, _)) = files.first() else {
            continue;
        };
        let mut transport = session::transport(&algorithm, args.marking);
        let _edge = args.measure.fetch(server, &mut transport)?;
        let (state, mut visit) = (args.state, None);
        let warnings = &mut figures.transfer.warnings;
        let before = |endpoint: &_, address| {
            visit = state.visit(server, address, endpoint, warnings);
        };
        let (endpoint, connection, handshake) =
            session::connect(server, &args.trust, file::ALPN, transport, before).await?;
        figures.transfer.handshake_ms = handshake.as_secs_f64() * 1e3;
        let bars = output::bars();
        let started = session::now();
        let fetches = files.iter().map(|(target, path)| {
            let (connection, bars, asked) = (&connection, &bars, asked.as_deref());
            async move {
                let name = target.name.as_deref().unwrap_or_default();
                let bar = output::byte_bar(bars, name, 0);
                let mut arrived = Duration::ZERO;
                let fetched =
                    client::get(connection, name, path, asked, |progress| match progress {
                        Progress::Begin { bytes, offset } => {
                            bar.set_length(bytes);
                            bar.set_position(offset);
                            bar.reset_eta();
                        }
                        Progress::Bytes(bytes) => bar.inc(bytes),
                        Progress::Arrived => arrived = started.elapsed(),
                    })
                    .await
                    .with_context(|| format!("cannot fetch {name}"))?;
                bar.finish();
                Ok::<_, anyhow::Error>((name.to_owned(), fetched, arrived.as_secs_f64()))
            }
        });
        let mut sender = SenderReport::default();
        let mut last = 0.0_f64;
        for fetched in join_all(fetches).await {
            match fetched {
                Ok((name, fetched, seconds)) => {
                    figures.transfer.bytes_down += fetched.bytes - fetched.resumed;
                    figures.transfer.streams += 1;
                    last = last.max(seconds);
                    if let Some(used) = fetched.algorithm {
                        figures.used(asked.as_deref(), used);
                    }
                    figures.files.push(FileFigures {
                        name,
                        bytes: fetched.bytes,
                        sha256: hex(&fetched.hash),
                        seconds,
                        resumed_bytes: fetched.resumed,
                    });
                    sender = fetched.sender;
                }
                Err(error) => failed = Some(error),
            }
        }
        // What the disk takes to keep and to read back what came is none of the path's.
        figures.transfer.finish(&connection, &sender, last);
        if let Some(visit) = visit {
            visit.end(&mut figures.transfer.warnings);
        }
        if !args.json {
            figures.transfer.tell(&sender);
        }
        connection.close(0, b"done");
        endpoint.wait_idle().await;
    }
    if let Some(error) = failed {
        return Err(error.into());
    }
    if args.json {
        output::json(&figures)?;
    } else {
        for file in &figures.files {
            output::line(format_args!("{}  {}", file.sha256, file.name))?;
        }
    }
    Ok(())
}
