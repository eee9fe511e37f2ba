//! `pathmark put`: files stored on a server.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use futures_util::stream::{self, StreamExt};
use pathmark_cc::Algorithm;

use super::figures::Transfer;
use super::get::{AT_ONCE, Figures, FileFigures, FileResult};
use super::routers::AnswerArgs;
use super::session::{Connected, DscpArgs};
use super::state::StateArgs;
use super::target::{Target, distinct};
use super::trust::TrustArgs;
use super::{Failure, Outcome, output, session, values};
use crate::file::client::{self, Progress};
use crate::file::incoming::Existing;
use crate::file::report::SenderReport;
use crate::file::{self, send::hex};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What to store
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
    trust: TrustArgs,
    #[command(flatten)]
    state: StateArgs,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

pub(super) async fn put(args: Args) -> Outcome {
    let mut files = Vec::new();
    for path in &args.files {
        if !path.is_file() {
            return Err(Failure::usage(anyhow!("{} is no file", path.display())));
        }
        let own = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let name = match (&args.target.name, own) {
            (Some(name), _) if args.files.len() == 1 && !name.ends_with('/') => name.clone(),
            (Some(directory), Some(own)) => format!("{}/{own}", directory.trim_end_matches('/')),
            (None, Some(own)) => own,
            (_, None) => return Err(Failure::usage(anyhow!("{} has no name", path.display()))),
        };
        files.push((path, name));
    }
    distinct(files.iter().map(|(path, name)| (name, path.display())))?;
    let existing = if args.force {
        Existing::Replace
    } else {
        Existing::Keep
    };
    let algorithm = args.cc.clone().unwrap_or_default();
    let mut transport = session::transport(&algorithm, args.marking);
    transport.keep_alive = Some(session::KEEP_ALIVE);
    let _edge = args.answer.store(&args.target)?;
    let mut warnings = Vec::new();
    let before = |endpoint: &_, address| {
        args.state
            .visit(&args.target, address, endpoint, &mut warnings)
    };
    let connected =
        session::connect(&args.target, &args.trust, file::ALPN, transport, before).await;
    let Connected {
        endpoint,
        connection,
        handshake,
        prepared: visit,
    } = match connected {
        Err(Failure::Failed(error)) => {
            let error = output::explain(&error);
            let failed = files.into_iter().map(|(path, name)| FileResult::Failed {
                error: format!("cannot store {}: {error}", path.display()),
                name,
            });
            let figures = Figures {
                transfer: Transfer {
                    algorithm: algorithm.to_string(),
                    warnings,
                    ..Transfer::default()
                },
                files: failed.collect(),
            };
            return figures.say(args.json);
        }
        other => other?,
    };
    let bars = output::bars();
    let started = session::now();
    let stores = files.iter().enumerate().map(|(place, (path, name))| {
        let (connection, bars) = (&connection, &bars);
        async move {
            let bar = output::byte_bar(bars, name, 0);
            let stored = client::put(
                connection,
                path,
                name,
                existing,
                |progress| match progress {
                    Progress::Begin { bytes, .. } => bar.set_length(bytes),
                    Progress::Bytes(bytes) => bar.inc(bytes),
                    Progress::Arrived => {}
                },
            )
            .await
            .with_context(|| format!("cannot store {}", path.display()));
            let result = match stored {
                Ok((bytes, hash)) => {
                    bar.finish();
                    FileResult::Done(FileFigures {
                        name: name.clone(),
                        bytes,
                        sha256: hex(&hash),
                        seconds: started.elapsed().as_secs_f64(),
                        resumed_bytes: 0,
                    })
                }
                Err(error) => {
                    bar.abandon();
                    FileResult::Failed {
                        name: name.clone(),
                        error: output::explain(&error),
                    }
                }
            };
            (place, result)
        }
    });
    let mut figures = Figures {
        transfer: Transfer {
            algorithm: algorithm.to_string(),
            handshake_ms: handshake.as_secs_f64() * 1e3,
            warnings,
            ..Transfer::default()
        },
        files: Vec::new(),
    };
    let mut stored: Vec<_> = stream::iter(stores)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    stored.sort_by_key(|(place, _)| *place);
    for (_, result) in stored {
        if let FileResult::Done(stored) = &result {
            figures.transfer.bytes_up += stored.bytes;
            figures.transfer.streams += 1;
        }
        figures.files.push(result);
    }
    let sender = SenderReport::of(&connection);
    let seconds = started.elapsed().as_secs_f64();
    figures.transfer.finish(&connection, &sender, seconds);
    if let Some(visit) = visit {
        visit.end(&mut figures.transfer.warnings);
    }
    connection.close(0, b"done");
    endpoint.wait_idle().await;
    if !args.json {
        figures.transfer.tell(&sender);
    }
    figures.say(args.json)
}
