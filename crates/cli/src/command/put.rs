//! `pathmark put`: files stored on a server.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use futures_util::stream::{self, StreamExt};
use pathmark_cc::Algorithm;
use pathmark_http3::client::{Client, ClientLimits, Progress, PutError};
use pathmark_http3::http::StatusCode;
use pathmark_http3::root::Existing;
use pathmark_http3::wire::ALPN;

use super::connect::{ConnectArgs, Connected, Way};
use super::figures::Transfer;
use super::files::{AT_ONCE, Figures, FileFigures, UnderWay};
use super::routers::AnswerArgs;
use super::session::{DscpArgs, Stop};
use super::state::StateArgs;
use super::target::{Target, distinct, shown};
use super::trust::HostTrustArgs;
use super::values::hex;
use super::{Failure, Outcome, connect, output, session, values};
use crate::report::SenderReport;

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files to store
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where; NAME is for a single file and defaults to the file's own. NAME/, or NAME for several
    /// files, is the directory to store in
    #[arg(required = true, value_name = "HOST:PORT[/NAME]")]
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

pub(super) async fn put(args: Args, stop: Stop) -> Outcome {
    let mut files = Vec::new();
    for path in &args.files {
        if !path.is_file() {
            return Err(Failure::usage(anyhow!("{} is no file", path.display())));
        }
        let own = path.file_name().map(|name| name.as_bytes().to_vec());
        let mut name = match (&args.target.path, own) {
            (Some(file), _) if args.files.len() == 1 && !file.slash => file.clone(),
            (directory, Some(own)) => {
                let mut file = directory.clone().unwrap_or_default();
                file.names.push(own);
                file
            }
            (_, None) => return Err(Failure::usage(anyhow!("{} has no name", path.display()))),
        };
        name.slash = false;
        files.push((path, name));
    }
    distinct(
        files
            .iter()
            .map(|(path, name)| (shown(name), path.display())),
    )?;
    let existing = if args.force {
        Existing::Replace
    } else {
        Existing::Keep
    };
    let algorithm = args.cc.clone().unwrap_or_default();
    let mut transport = session::transport(&algorithm, args.marking);
    transport.keep_alive = Some(session::KEEP_ALIVE);
    let _edge = args.answer.store(&args.target).await?;
    let mut warnings = Vec::new();
    let before = |endpoint: &_, address| {
        args.state
            .visit(&args.target, address, endpoint, &mut warnings)
    };
    let way = Way {
        target: &args.target,
        trust: args.trust.judge(),
        limits: args.limits,
        stop: &stop,
    };
    let connected = connect::connect(way, ALPN, transport, before).await;
    let mut figures = Figures {
        transfer: Transfer {
            algorithm: algorithm.to_string(),
            ..Transfer::default()
        },
        files: Vec::new(),
    };
    let Connected {
        connection,
        handshake,
        prepared: visit,
    } = match connected {
        Err(Failure::Failed(error)) => {
            let error = output::explain(&error);
            let failed = files.into_iter().map(|(path, name)| {
                let error = format!("cannot store {}: {error}", path.display());
                FileFigures::failed(shown(&name), error)
            });
            figures.files = failed.collect();
            figures.transfer.warnings = warnings;
            figures.transfer.error = stop
                .is_stopped()
                .then(|| session::interrupted().to_string());
            return figures.say(args.json);
        }
        other => other?,
    };
    let limits = ClientLimits::default();
    let client = Client::new(connection.clone(), &args.target.authority(), limits).await?;
    let bars = output::bars();
    let started = session::now();
    let under_way = UnderWay::new(files.len());
    let stores = files.iter().enumerate().map(|(place, (path, name))| {
        let (client, bars, under_way) = (&client, &bars, &under_way);
        async move {
            let shown = shown(name);
            let bar = output::byte_bar(bars, &shown, 0);
            let storing = client.put_with(path, name, existing, |progress| match progress {
                Progress::Begin { bytes, .. } => bar.set_length(bytes.unwrap_or(0)),
                Progress::Bytes(bytes) => bar.inc(bytes),
                Progress::Arrived => {}
            });
            let stored = storing.await.map_err(|error| explained(error, existing));
            let stored = stored.with_context(|| format!("cannot store {}", path.display()));
            let result = match stored {
                Ok(stored) => {
                    bar.finish();
                    FileFigures {
                        name: shown,
                        bytes: stored.bytes,
                        sha256: Some(hex(&stored.sha256)),
                        seconds: started.elapsed().as_secs_f64(),
                        ..FileFigures::default()
                    }
                }
                Err(error) => {
                    bar.abandon();
                    FileFigures::failed(shown, output::explain(&error))
                }
            };
            under_way.ended(place, result);
        }
    });
    let all = stream::iter(stores)
        .buffer_unordered(AT_ONCE)
        .for_each(|()| async {});
    tokio::select! {
        () = all => {}
        () = stop.stopped() => {}
    }
    let name = |place: usize| files.get(place).map(|(_, name)| shown(name));
    figures.files = under_way.into_all(|place| name(place).unwrap_or_default());
    let transfer = &mut figures.transfer;
    transfer.handshake_ms = handshake.as_secs_f64() * 1e3;
    transfer.warnings = warnings;
    for stored in figures.files.iter().filter(|file| file.error.is_none()) {
        transfer.bytes_up += stored.bytes;
        transfer.streams += 1;
    }
    let sender = SenderReport::of(&connection);
    let seconds = started.elapsed().as_secs_f64();
    transfer.finish(&connection, &sender, seconds);
    session::leave(&connection, &stop, session::HTTP3).await;
    if let Some(visit) = visit {
        visit.end(&mut transfer.warnings);
    }
    transfer.error = stop
        .is_stopped()
        .then(|| session::interrupted().to_string());
    if !args.json {
        transfer.tell(&sender);
    }
    figures.say(args.json)
}

/// A failure with what a user of the commands would not know.
fn explained(error: PutError, existing: Existing) -> anyhow::Error {
    let PutError::Refused(refusal) = &error else {
        return error.into();
    };
    match (refusal.status, existing) {
        (StatusCode::PRECONDITION_FAILED, Existing::Keep) => {
            anyhow!("the server has a file of this name already; --force replaces it")
        }
        (StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED, _) => {
            anyhow!("the server stores nothing (pathmark serve does with --allow-put)")
        }
        _ => error.into(),
    }
}
