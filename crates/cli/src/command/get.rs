//! `pathmark get`: files fetched from a server.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use futures_util::stream::{self, StreamExt};
use pathmark_cc::Algorithm;
use pathmark_http3::client::{Client, ClientLimits, Fetched, Get, GetError, Progress};
use pathmark_http3::fields::PathName;
use pathmark_http3::http::{HeaderMap, HeaderValue};
use pathmark_http3::resource::is_reserved;
use pathmark_http3::root::Existing;
use pathmark_http3::wire::ALPN;

use super::connect::{ConnectArgs, Connected, Way};
use super::figures::Transfer;
use super::files::{AT_ONCE, Figures, FileFigures, UnderWay};
use super::operator::{ANY_LAW, LAW, REPORT};
use super::routers::MeasureArgs;
use super::session::{DscpArgs, Stop};
use super::state::StateArgs;
use super::target::{Target, distinct};
use super::trust::HostTrustArgs;
use super::values::hex;
use super::{Failure, Outcome, connect, output, session, values};
use crate::report::SenderReport;

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files to fetch
    #[arg(
        required = true,
        value_name = "HOST:PORT/NAME | https://HOST[:PORT]/PATH"
    )]
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
    trust: HostTrustArgs,
    #[command(flatten)]
    limits: ConnectArgs,
    #[command(flatten)]
    state: StateArgs,
    /// Print one JSON object at the end
    #[arg(long)]
    pub(super) json: bool,
}

/// Where in `directory` the file of `target` shall lie.
fn local_path(target: &Target, directory: &Path) -> anyhow::Result<PathBuf> {
    let file = target.path.as_ref().filter(|path| !path.slash);
    let name = file
        .and_then(|path| path.names.last())
        .ok_or_else(|| anyhow!("say which file: {}/NAME", target.server()))?;
    if is_reserved(name) {
        bail!(
            "{target} is one of the names of unfinished files and keys, which no server sends; \
             choose another one"
        );
    }
    let name = OsStr::from_bytes(name);
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
        let note = format!("the server sends by {used}, not by {asked}: it chooses what to offer");
        if !transfer.warnings.contains(&note) {
            transfer.warnings.push(note);
        }
    }
    transfer.algorithm = used;
}

pub(super) async fn get(args: Args, stop: Stop) -> Outcome {
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
        match fetch(&args, &stop, &files).await {
            Ok((transfer, files)) => {
                figures.transfer.add(transfer);
                figures.files.extend(files);
            }
            // The other servers' files may be had all the same.
            Err(Failure::Failed(error)) => {
                let error = output::explain(&error);
                figures.files.extend(files.iter().map(|(target, _)| {
                    let name = target.name();
                    let error = format!("cannot fetch {name}: {error}");
                    FileFigures::failed(name, error)
                }));
            }
            Err(other) => return Err(other),
        }
        if stop.is_stopped() {
            figures.transfer.error = Some(session::interrupted().to_string());
        }
    }
    figures.say(args.json)
}

/// Fetches files of one server.
async fn fetch(
    args: &Args,
    stop: &Stop,
    files: &[(Target, PathBuf)],
) -> Result<(Transfer, Vec<FileFigures>), Failure> {
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
    let _edge = args.measure.fetch(server, &mut transport).await?;
    let warnings = &mut transfer.warnings;
    let before =
        |endpoint: &_, address| args.state.visit(server, address, endpoint, &mut *warnings);
    let way = Way {
        target: server,
        trust: args.trust.judge(),
        limits: args.limits,
        stop,
    };
    let Connected {
        connection,
        handshake,
        prepared: visit,
    } = connect::connect(way, ALPN, transport, before).await?;
    transfer.handshake_ms = handshake.as_secs_f64() * 1e3;
    let limits = ClientLimits::default();
    let client = Client::new(connection.clone(), &server.authority(), limits).await?;
    let bars = output::bars();
    let started = session::now();
    let under_way = UnderWay::new(files.len());
    let latest = RefCell::new(Latest::default());
    let fetches = files.iter().enumerate().map(|(place, (target, path))| {
        let (client, bars, asked) = (&client, &bars, asked.as_deref());
        let (under_way, latest) = (&under_way, &latest);
        let name = target.name();
        let source = target.path.clone().unwrap_or_default();
        async move {
            let bar = output::byte_bar(bars, &name, 0);
            let mut arrived = Duration::ZERO;
            let fetching = client.get_with(&source, path, how(asked), |progress| match progress {
                Progress::Begin { bytes, offset } => {
                    bar.set_length(bytes.unwrap_or(0));
                    bar.set_position(offset);
                    bar.reset_eta();
                }
                Progress::Bytes(bytes) => {
                    bar.inc(bytes);
                    latest.borrow_mut().bytes += bytes;
                }
                Progress::Arrived => arrived = started.elapsed(),
            });
            let fetched = fetching.await.map_err(|error| explained(error, &source));
            let fetched = fetched.with_context(|| format!("cannot fetch {name}"));
            let figures = match fetched {
                Ok(fetched) => {
                    bar.finish();
                    let seconds = arrived.as_secs_f64();
                    let figures = FileFigures {
                        name,
                        bytes: fetched.bytes,
                        sha256: Some(hex(&fetched.sha256)),
                        seconds,
                        resumed_bytes: fetched.resumed,
                        error: None,
                    };
                    latest.borrow_mut().note(seconds, &fetched, &figures.name);
                    figures
                }
                Err(error) => {
                    bar.abandon();
                    FileFigures::failed(name, output::explain(&error))
                }
            };
            under_way.ended(place, figures);
        }
    });
    let all = stream::iter(fetches)
        .buffer_unordered(AT_ONCE)
        .for_each(|()| async {});
    tokio::select! {
        () = all => {}
        () = stop.stopped() => {}
    }
    let name = |place: usize| files.get(place).map(|(target, _)| target.name());
    let ended = under_way.into_all(|place| name(place).unwrap_or_default());
    let latest = latest.into_inner();
    transfer.streams = ended.iter().filter(|file| file.error.is_none()).count() as u64;
    transfer.bytes_down = latest.bytes;
    if let Some(used) = latest.algorithm {
        note_law(&mut transfer, asked.as_deref(), used);
    }
    for name in latest.unverified {
        let warning =
            format!("{name}: the server announced no SHA-256, so only the length was checked");
        transfer.warnings.push(warning);
    }
    // The time that the disk takes to store and to read back the file does not count.
    let seconds = if stop.is_stopped() {
        started.elapsed().as_secs_f64()
    } else {
        latest.seconds
    };
    transfer.finish(&connection, &latest.sender, seconds);
    session::leave(&connection, stop, session::HTTP3).await;
    if let Some(visit) = visit {
        visit.end(&mut transfer.warnings);
    }
    if !args.json {
        transfer.tell(&latest.sender);
    }
    Ok((transfer, ended))
}

/// What is known of all files together.
#[derive(Debug, Default)]
struct Latest {
    /// Bytes that arrived, of all files.
    bytes: u64,
    /// When the last file had arrived …
    seconds: f64,
    /// … and what its sender reported.
    sender: SenderReport,
    algorithm: Option<String>,
    /// Names of files of which the server announced no SHA-256.
    unverified: Vec<String>,
}

impl Latest {
    /// A file arrived.
    fn note(&mut self, seconds: f64, fetched: &Fetched, name: &str) {
        if !fetched.verified {
            self.unverified.push(name.to_owned());
        }
        let text = |value: &HeaderValue| value.to_str().ok().map(ToOwned::to_owned);
        if let Some(used) = fetched.headers.get(LAW).and_then(text) {
            self.algorithm = Some(used);
        }
        if seconds >= self.seconds {
            let report = fetched.trailers.get(REPORT).map(HeaderValue::as_bytes);
            let report = report.and_then(|report| serde_json::from_slice(report).ok());
            (self.sender, self.seconds) = (report.unwrap_or_default(), seconds);
        }
    }
}

/// How files are fetched whose sender is `asked` for a law.
fn how(asked: Option<&str>) -> Get {
    let law = HeaderValue::from_str(asked.unwrap_or(ANY_LAW)).ok();
    let headers: HeaderMap = law.into_iter().map(|law| (LAW, law)).collect();
    Get {
        existing: Existing::Replace,
        headers,
    }
}

/// A failure with what a user of the commands would not know.
fn explained(error: GetError, source: &PathName) -> anyhow::Error {
    let directory = PathName {
        names: source.names.clone(),
        slash: true,
    };
    match &error {
        GetError::Refused(refusal)
            if refusal.status.is_redirection() && refusal.detail.ends_with(&directory.encode()) =>
        {
            anyhow!("there is no file of this name, but a directory, which ls lists")
        }
        _ => error.into(),
    }
}
