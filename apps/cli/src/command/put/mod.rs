//! `pathmark put`: stores files on a server.

mod tree;

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use bytes::Bytes;
use pathmark_cc::Algorithm;
use pathmark_http3::client::PutError;
use pathmark_http3::fields::PathName;
use pathmark_http3::http::StatusCode;
use pathmark_http3::root::Existing;

use super::client::{ClientArgs, MoveArgs, Session};
use super::figures::{Figures, FileFigures, Transfer};
use super::moving::{self, Moving};
use super::routers::AnswerArgs;
use super::session::{DscpArgs, Stop};
use super::state::uploads::Uploads;
use super::target::{self, Target, distinct, shown};
use super::{Failure, Outcome, output, session, values};
use crate::report::SenderReport;

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files to store; - is the standard input, and needs a NAME
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where; NAME is for a single file and defaults to the file's own. NAME/, or NAME for several
    /// files, is the directory to store in
    #[arg(
        required = true,
        value_name = "HOST:PORT[/NAME]",
        value_parser = target::parser()
    )]
    target: Target,
    /// Replace files that the server has already
    #[arg(long)]
    force: bool,
    /// Congestion controller to send with
    #[arg(long, value_name = "NAME", value_parser = values::algorithm)]
    cc: Option<Algorithm>,
    #[command(flatten)]
    answer: AnswerArgs,
    #[command(flatten)]
    marking: DscpArgs,
    /// Store directories with all in them, in directories of the same names: names, modes, times
    /// and links. Files whose size and time are the same are left as they are
    #[arg(short, long)]
    recursive: bool,
    /// With -r: compare files of the same size by SHA-256, not by time
    #[arg(long, requires = "recursive")]
    checksum: bool,
    #[command(flatten)]
    moving: MoveArgs,
    #[command(flatten)]
    pub(super) client: ClientArgs,
}

/// Bytes to read from the standard input at once.
const PIECE: usize = 256 * 1024;
/// The name of the standard input.
const IN: &str = "-";

/// Returns the files to store with their paths on the server.
fn files(args: &Args) -> Result<Vec<(PathBuf, PathName)>, Failure> {
    let mut files = Vec::new();
    for path in &args.files {
        let is_in = path.as_os_str() == IN;
        if !is_in {
            let shown = path.display();
            let why = match path.metadata() {
                Ok(there) if there.is_file() => None,
                Ok(there) if there.is_dir() => {
                    Some(anyhow!("{shown} is a directory; -r stores directories"))
                }
                Ok(_) => Some(anyhow!(
                    "{shown} is a device, a socket or a pipe; - stores the standard input"
                )),
                Err(error) => Some(anyhow!("cannot read {shown}: {error}")),
            };
            if let Some(why) = why {
                return Err(Failure::usage(why));
            }
        }
        let own = path.file_name().filter(|_| !is_in);
        let own = own.map(|name| name.as_bytes().to_vec());
        let mut name = match (&args.target.path, own) {
            (Some(file), _) if args.files.len() == 1 && !file.slash => file.clone(),
            (directory, Some(own)) => {
                let mut file = directory.clone().unwrap_or_default();
                file.names.push(own);
                file
            }
            (_, None) if is_in => {
                return Err(Failure::usage(anyhow!(
                    "a file from the standard input needs a name: HOST:PORT/NAME"
                )));
            }
            (_, None) => return Err(Failure::usage(anyhow!("{} has no name", path.display()))),
        };
        name.slash = false;
        files.push((path.clone(), name));
    }
    distinct(
        files
            .iter()
            .map(|(path, name)| (shown(name), path.display())),
    )?;
    Ok(files)
}

pub(super) async fn put(args: Args, stop: Stop) -> Outcome {
    let files = if args.recursive {
        tree::directories(&args)?
    } else {
        files(&args)?
    };
    let existing = if args.force {
        Existing::Replace
    } else {
        Existing::Keep
    };
    let mut figures = Figures::default();
    let (mut files, mut attempts) = (files, args.moving.again.attempts());
    let uploads = args.client.uploads(args.moving.again);
    loop {
        let began = session::now();
        let attempt = match attempt(&args, &stop, &files, existing, uploads.clone()).await {
            Err(Failure::Failed(error)) => {
                let names = files.iter().map(|(path, name)| {
                    let what = format!("cannot store {}", path.display());
                    (shown(name), what)
                });
                let mut figures = Figures::unconnected(began.elapsed(), &error, names);
                figures.transfer.algorithm = Some(args.cc.clone().unwrap_or_default().to_string());
                figures
            }
            other => other?,
        };
        let (lost, moved) = (attempt.lost(), attempt.sent > 0);
        let now = attempt.wants_another();
        if !args.recursive {
            let failed = attempt.files.iter().filter(|file| file.lost.is_some());
            let names: BTreeSet<_> = failed.map(|file| file.name.as_str()).collect();
            // The standard input can't be read again.
            let is_left = |path: &PathBuf, name: &PathName| {
                path.as_os_str() != IN && names.contains(shown(name).as_str())
            };
            files.retain(|(path, name)| is_left(path, name));
        }
        figures.add(attempt);
        match lost {
            Some(why) if !files.is_empty() && attempts.again(&stop, moved, now, &why).await => {
                figures.forget_lost();
            }
            _ => break,
        }
    }
    figures.transfer.error = stop
        .is_stopped()
        .then(|| session::interrupted_transfer().to_string());
    figures.say(args.client.json, args.moving.quiet)
}

/// Connects and stores the remaining files.
async fn attempt(
    args: &Args,
    stop: &Stop,
    files: &[(PathBuf, PathName)],
    existing: Existing,
    uploads: Option<Arc<Uploads>>,
) -> Result<Figures, Failure> {
    let algorithm = args.cc.clone().unwrap_or_default();
    let mut figures = Figures {
        transfer: Transfer {
            algorithm: Some(algorithm.to_string()),
            ..Transfer::default()
        },
        ..Figures::default()
    };
    let transport = session::transport(&algorithm, args.marking);
    let _edge = args.answer.store(&args.target).await?;
    let (limits, warnings) = (args.moving.limits(), &mut figures.transfer.warnings);
    let target = &args.target;
    let connecting = args
        .client
        .connect(target, transport, limits, stop, warnings);
    let mut session = connecting.await?;
    if let Some(uploads) = uploads {
        session.client = session.client.with_ledger(uploads);
    }
    let started = session::now();
    if args.recursive {
        tree::store(args, stop, &session, files, existing, &mut figures).await;
    } else {
        let moved;
        (figures.files, moved) = store(args, stop, &session, files, existing).await;
        for stored in figures.files.iter().filter(|file| file.error.is_none()) {
            figures.transfer.bytes_up += stored.new_bytes();
            figures.transfer.streams += 1;
        }
        figures.sent = moved;
    }
    if figures.files.iter().any(|file| file.error.is_some()) {
        figures.transfer.bytes_up = figures.sent;
    }
    let transfer = &mut figures.transfer;
    transfer.handshake_ms = Some(session.handshake.as_secs_f64() * 1e3);
    transfer.protocol = Some(session.protocol());
    let connection = session.connection.as_ref();
    let sender = connection.map(SenderReport::of);
    let seconds = started.elapsed().as_secs_f64();
    transfer.finish(connection, sender.as_ref(), seconds);
    if sender.is_none() {
        // The system's law sends over TCP.
        transfer.algorithm = None;
    }
    session.leave(stop, &mut transfer.warnings).await;
    if !args.client.json && !args.moving.quiet {
        transfer.tell(sender.as_ref());
    }
    Ok(figures)
}

/// Formats a warning about a server that announced no digest.
fn unverified(name: &str) -> String {
    format!("{name}: the server announced no SHA-256 of what it stored")
}

/// Stores files concurrently. Also returns the number of content bytes sent.
async fn store(
    args: &Args,
    stop: &Stop,
    session: &Session,
    files: &[(PathBuf, PathName)],
    existing: Existing,
) -> (Vec<FileFigures>, u64) {
    let client = &session.client;
    let name = |(_, name): &(PathBuf, PathName)| shown(name);
    let store = async |file: &(PathBuf, PathName), moving: &Moving<'_>| {
        let (path, name) = file;
        let tell = |progress| moving.tell(progress);
        let stored = if path.as_os_str() == IN {
            client.put_stream(name, existing, read_in, tell).await
        } else {
            client.put_with(path, name, existing, tell).await
        };
        let stored = stored.map_err(|error| explained(error, existing));
        let stored = stored.with_context(|| format!("cannot store {}", path.display()))?;
        let (name, seconds) = (shown(name), moving.seconds());
        if !stored.verified {
            output::note!("note: {}", unverified(&name));
        }
        let (bytes, resumed) = (stored.bytes, stored.resumed);
        Ok(FileFigures::moved(
            name,
            bytes,
            resumed,
            &stored.sha256,
            seconds,
        ))
    };
    moving::all(files, args.moving, stop, name, store).await
}

/// Returns the next bytes of the standard input, which are empty at its end.
async fn read_in() -> io::Result<Bytes> {
    let read = tokio::task::spawn_blocking(|| {
        let mut piece = Vec::with_capacity(PIECE);
        io::stdin()
            .lock()
            .take(PIECE as u64)
            .read_to_end(&mut piece)?;
        Ok(piece.into())
    });
    read.await.map_err(io::Error::other)?
}

/// Explains an error in terms that users of the commands understand.
fn explained(error: PutError, existing: Existing) -> anyhow::Error {
    let PutError::Refused(refusal) = &error else {
        return error.into();
    };
    match (refusal.status, existing) {
        (StatusCode::PRECONDITION_FAILED, Existing::Keep) => {
            anyhow!("the server has a file of this name already; --force replaces it")
        }
        (StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED, _) => {
            anyhow!("you may not store here: ask the operator for --allow-put or the right `put`")
        }
        _ => error.into(),
    }
}
