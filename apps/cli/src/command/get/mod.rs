//! `pathmark get`: fetches files from a server.

mod files;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use pathmark_cc::Algorithm;
use pathmark_http3::client::{Fetched, GetError};
use pathmark_http3::fields::PathName;
use pathmark_http3::http::{HeaderMap, HeaderValue};
use pathmark_http3::resource::is_reserved;
use pathmark_http3::root::{Existing, KeepError};

use super::client::{ClientArgs, MoveArgs, Session};
use super::figures::{Figures, Transfer};
use super::operator::{ANY_LAW, LAW, REPORT};
use super::routers::MeasureArgs;
use super::session::{DscpArgs, Stop};
use super::target::{self, Target, distinct};
use super::{Failure, Outcome, glob, session, values};
use crate::report::SenderReport;

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files to fetch; * ? and [ ] in the last NAME of HOST:PORT/NAME match names of the server
    #[arg(
        required = true,
        value_name = "HOST:PORT/NAME | https://HOST[:PORT]/PATH",
        value_parser = target::parser()
    )]
    targets: Vec<Target>,
    /// The directory to put files in, or the name for a single file; - is the standard output
    #[arg(short, long, value_name = "PATH", default_value = ".")]
    output: PathBuf,
    /// Fetch directories with all in them, into directories of the same names beneath --output:
    /// names, modes, times and links. Files whose size and time are the same are left as they are
    #[arg(short, long)]
    recursive: bool,
    /// Replace files that differ from those of the server
    #[arg(long)]
    force: bool,
    /// With -r: compare files of the same size by SHA-256, not by time
    #[arg(long, requires = "recursive")]
    checksum: bool,
    /// With -r: fail where the server lists more entries than this
    #[arg(
        long,
        value_name = "N",
        default_value = "1000000",
        requires = "recursive"
    )]
    max_entries: usize,
    #[command(flatten)]
    moving: MoveArgs,
    /// Ask the server to send with this congestion controller, which its own --cc must list
    #[arg(long, value_name = "NAME", value_parser = values::algorithm)]
    cc: Option<Algorithm>,
    #[command(flatten)]
    marking: DscpArgs,
    #[command(flatten)]
    measure: MeasureArgs,
    #[command(flatten)]
    pub(super) client: ClientArgs,
}

/// The destination of a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum To {
    /// This file.
    File(PathBuf),
    /// This directory, for a directory.
    Tree(PathBuf),
    /// This directory, for all files with matching names.
    Matching(PathBuf),
    /// This device, pipe or socket, which is written to and not replaced.
    Special(PathBuf),
    /// The standard output.
    Out,
}

const fn existing(args: &Args) -> Existing {
    if args.force {
        Existing::Replace
    } else {
        Existing::Keep
    }
}

/// A target to fetch and its destination.
#[derive(Clone, Debug)]
struct Job {
    target: Target,
    to: To,
}

/// The value of `--output` for the standard output.
const OUT: &str = "-";
/// System names of the standard output. If it is redirected to a file, that file is written to
/// and not replaced.
const SYSTEM_OUT: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// Returns true if the files go to the standard output.
fn is_out(output: &Path) -> bool {
    output.as_os_str() == OUT || SYSTEM_OUT.iter().any(|name| output == Path::new(name))
}

/// Returns the destination for `path`, depending on the kind of an existing file.
fn to_name(path: PathBuf) -> To {
    match std::fs::metadata(&path) {
        Ok(there) if !there.is_file() && !there.is_dir() => To::Special(path),
        // A link is kept, and the file that it refers to is replaced.
        _ => To::File(path),
    }
}

fn destination(target: &Target, args: &Args) -> anyhow::Result<To> {
    let output = args.output.as_path();
    let last = target.path.as_ref().and_then(|path| path.names.last());
    let is_pattern = target.globs && last.is_some_and(|name| glob::is_pattern(name));
    if is_pattern && (args.recursive || is_out(output)) {
        let why = if args.recursive {
            "matches files, and -r fetches directories; leave -r out"
        } else {
            "may match several files, and one goes to the standard output"
        };
        bail!("{target} is a pattern that {why}; https://HOST:PORT/PATH has names as they are");
    }
    if args.recursive {
        let names = target.path.as_ref().map(|path| path.names.as_slice());
        let below = names
            .and_then(<[_]>::last)
            .map(|name| OsStr::from_bytes(name));
        return Ok(To::Tree(
            below.map_or(output.to_owned(), |name| output.join(name)),
        ));
    }
    let file = target.path.as_ref().filter(|path| !path.slash);
    let name = file.and_then(|path| path.names.last());
    let name = name.ok_or_else(|| {
        anyhow!(
            "say which file: {}/NAME, or give -r for a directory",
            target.server()
        )
    })?;
    if is_reserved(name) {
        bail!(
            "{target} is one of the names of unfinished files and keys, which no server sends; \
             choose another one"
        );
    }
    if is_out(output) {
        return Ok(To::Out);
    }
    let is_directory = output.is_dir();
    if is_pattern {
        return Ok(To::Matching(output.to_owned()));
    }
    let path = if is_directory {
        output.join(OsStr::from_bytes(name))
    } else {
        output.to_owned()
    };
    if path.is_dir() {
        bail!(
            "{} is a directory; fetch {target} into another one",
            path.display()
        );
    }
    Ok(to_name(path))
}

/// Returns the targets to fetch with their destinations, rejecting those that can't be fetched.
fn jobs(args: &Args) -> Result<Vec<Job>, Failure> {
    let output = args.output.as_path();
    let one = args.targets.len() == 1 && !output.as_os_str().as_bytes().ends_with(b"/");
    let parent = output
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let is_name = one && parent.unwrap_or(Path::new(".")).is_dir();
    let is_out = is_out(output);
    if args.recursive && is_out {
        return Err(Failure::usage(anyhow!(
            "a directory cannot go to the standard output"
        )));
    }
    if is_out && !one {
        return Err(Failure::usage(anyhow!(
            "a single file can go to the standard output"
        )));
    }
    if is_out && args.client.json {
        let why = "the file goes to the standard output, so that --json has no place";
        return Err(Failure::usage(anyhow!(why)));
    }
    if !(args.recursive || is_out || is_name || output.is_dir()) {
        let missing = parent.filter(|_| one).unwrap_or(output);
        return Err(Failure::usage(anyhow!(
            "{} is no directory; make it first",
            missing.display()
        )));
    }
    let mut jobs = Vec::new();
    for target in &args.targets {
        let to = destination(target, args).map_err(Failure::usage)?;
        let target = target.clone();
        jobs.push(Job { target, to });
    }
    let named = jobs.iter().filter(|job| !matches!(job.to, To::Matching(_)));
    distinct(named.map(|job| (job.to.path(), &job.target)))?;
    Ok(jobs)
}

impl To {
    fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Tree(path) | Self::Matching(path) | Self::Special(path) => {
                path
            }
            Self::Out => Path::new(OUT),
        }
    }
}

/// Warns if the server used a different law than the user `asked` for. `ruled` is the last
/// active law, if `used` is a combination.
fn note_law(transfer: &mut Transfer, asked: Option<&str>, used: String, ruled: &str) {
    if let Some(asked) = asked
        && asked != used
    {
        let which = if ruled == used || ruled.is_empty() {
            String::new()
        } else {
            format!(", of which {ruled} ruled at the end")
        };
        let note = format!(
            "the server sends by {used}{which}, not by {asked}, which it does not offer; start it \
             with --cc {used},{asked}"
        );
        if !transfer.warnings.contains(&note) {
            transfer.warnings.push(note);
        }
    }
    transfer.algorithm = Some(used);
}

pub(super) async fn get(args: Args, stop: Stop) -> Outcome {
    let mut servers: BTreeMap<(String, u16), Vec<Job>> = BTreeMap::new();
    for job in jobs(&args)? {
        let server = (job.target.host.clone(), job.target.port);
        servers.entry(server).or_default().push(job);
    }
    let mut figures = Figures::default();
    for mut jobs in servers.into_values() {
        let mut attempts = args.moving.again.attempts();
        loop {
            let began = session::now();
            let server = match fetch(&args, &stop, &jobs).await {
                Ok(server) => server,
                // The other servers' files can still be fetched, and fetched files are kept.
                Err(Failure::Usage(error)) if figures.is_empty() => {
                    return Err(Failure::Usage(error));
                }
                Err(Failure::Failed(error) | Failure::Usage(error)) => {
                    Figures::unconnected(began.elapsed(), &error, jobs.iter().map(failed))
                }
                Err(Failure::Reported) => return Err(Failure::Reported),
            };
            let (lost, moved) = (server.lost(), server.transfer.bytes_down > 0);
            let now = server.wants_another();
            jobs = left(jobs, &server);
            figures.add(server);
            match lost {
                Some(why) if attempts.again(&stop, moved, now, &why).await => figures.forget_lost(),
                _ => break,
            }
        }
        if stop.is_stopped() {
            let error = if is_out(&args.output) {
                session::interrupted()
            } else {
                session::interrupted_transfer()
            };
            figures.transfer.error = Some(error.to_string());
        }
    }
    let is_out = is_out(&args.output);
    figures.say(args.client.json, args.moving.quiet || is_out)
}

/// Returns the name of a job that failed, and what failed.
fn failed(job: &Job) -> (String, String) {
    let name = job.target.name();
    let what = format!("cannot fetch {name}");
    (name, what)
}

/// Returns the jobs that another connection could complete. In a directory, files that are
/// already there stay unchanged.
fn left(jobs: Vec<Job>, ended: &Figures) -> Vec<Job> {
    let lost = ended.files.iter().filter(|file| file.lost.is_some());
    let lost: BTreeSet<_> = lost.map(|file| file.name.as_str()).collect();
    let is_left = |job: &Job| match job.to {
        To::Tree(_) | To::Matching(_) => !lost.is_empty(),
        // Bytes written to a pipe can't be taken back.
        To::Out | To::Special(_) => false,
        To::File(_) => lost.contains(job.target.name().as_str()),
    };
    jobs.into_iter().filter(is_left).collect()
}

/// Fetches everything requested from one server.
async fn fetch(args: &Args, stop: &Stop, jobs: &[Job]) -> Result<Figures, Failure> {
    let algorithm = args.cc.clone().unwrap_or_default();
    let asked = args.cc.as_ref().map(ToString::to_string);
    let mut figures = Figures::default();
    let Some(Job { target: server, .. }) = jobs.first() else {
        return Ok(figures);
    };
    let mut transport = session::transport(&algorithm, args.marking);
    let _edge = args.measure.fetch(server, &mut transport).await?;
    let (limits, warnings) = (args.moving.limits(), &mut figures.transfer.warnings);
    let connecting = args
        .client
        .connect(server, transport, limits, stop, warnings);
    let session = connecting.await?;
    figures.transfer.handshake_ms = Some(session.handshake.as_secs_f64() * 1e3);
    figures.transfer.protocol = Some(session.protocol());
    let started = session::now();
    let latest = if args.recursive {
        tree::fetch(args, stop, &session, jobs, &mut figures).await
    } else {
        files::fetch(args, stop, &session, jobs, &mut figures).await
    };
    let transfer = &mut figures.transfer;
    transfer.bytes_down = latest.bytes;
    if let Some(used) = latest.algorithm {
        let ruled = latest
            .sender
            .as_ref()
            .map(|sender| sender.algorithm.as_str());
        note_law(transfer, asked.as_deref(), used, ruled.unwrap_or_default());
    }
    for name in latest.unverified {
        let warning =
            format!("{name}: the server announced no SHA-256, so only the length was checked");
        transfer.warnings.push(warning);
    }
    // If all files have arrived, exclude the time for storing and reading back.
    let is_broken = figures.files.iter().any(|file| file.error.is_some());
    let seconds = if stop.is_stopped() || is_broken {
        started.elapsed().as_secs_f64()
    } else {
        latest.seconds
    };
    transfer.finish(session.connection.as_ref(), latest.sender.as_ref(), seconds);
    session.leave(stop, &mut transfer.warnings).await;
    if !args.client.json && !args.moving.quiet {
        transfer.tell(latest.sender.as_ref());
    }
    Ok(figures)
}

/// Figures for all files together.
#[derive(Debug, Default)]
struct Latest {
    /// Bytes received for all files.
    bytes: u64,
    /// When the last file arrived …
    seconds: f64,
    /// … and the report of its sender.
    sender: Option<SenderReport>,
    algorithm: Option<String>,
    /// Names of the first files without a SHA-256 from the server.
    unverified: Vec<String>,
}

/// Maximum number of names to keep.
const UNVERIFIED: usize = 20;

impl Latest {
    /// Records that a file arrived.
    fn note(&mut self, seconds: f64, fetched: &Fetched, name: &str) {
        if !fetched.verified && self.unverified.len() < UNVERIFIED {
            self.unverified.push(name.to_owned());
        }
        let text = |value: &HeaderValue| value.to_str().ok().map(ToOwned::to_owned);
        if let Some(used) = fetched.headers.get(LAW).and_then(text) {
            self.algorithm = Some(used);
        }
        let report = fetched.trailers.get(REPORT).map(HeaderValue::as_bytes);
        let report = report.and_then(|report| serde_json::from_slice(report).ok());
        if seconds >= self.seconds {
            self.sender = report.or(self.sender.take());
            self.seconds = seconds;
        }
    }
}

/// Returns request fields that ask the sender for a law, if `asked` is one.
fn fields(asked: Option<&str>) -> HeaderMap {
    let law = HeaderValue::from_str(asked.unwrap_or(ANY_LAW)).ok();
    law.into_iter().map(|law| (LAW, law)).collect()
}

/// Explains an error in terms that users of the commands understand.
fn explained(error: GetError, source: &PathName) -> anyhow::Error {
    let directory = PathName {
        names: source.names.clone(),
        slash: true,
    };
    match &error {
        GetError::Refused(refusal)
            if refusal.status.is_redirection() && refusal.detail.ends_with(&directory.encode()) =>
        {
            anyhow!("there is no file of this name, but a directory, which ls lists and -r fetches")
        }
        GetError::Keep(KeepError::Exists) => {
            anyhow!("there is another file of this name already; --force replaces it")
        }
        _ => error.into(),
    }
}
