//! `pathmark put`: files stored on a server.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use futures_util::future::join_all;
use pathmark_cc::Algorithm;

use super::figures::Transfer;
use super::get::{Figures, FileFigures};
use super::routers::AnswerArgs;
use super::session::DscpArgs;
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
    /// Where; NAME is for a single file and defaults to the file's own
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
            (Some(name), _) if args.files.len() == 1 => name.clone(),
            (Some(directory), Some(own)) => format!("{directory}/{own}"),
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
    let transport = session::transport(&algorithm, args.marking);
    let _edge = args.answer.store(&args.target)?;
    let (mut visit, mut warnings) = (None, Vec::new());
    let before = |endpoint: &_, address| {
        visit = args
            .state
            .visit(&args.target, address, endpoint, &mut warnings);
    };
    let (endpoint, connection, handshake) =
        session::connect(&args.target, &args.trust, file::ALPN, transport, before).await?;
    let bars = output::bars();
    let started = session::now();
    let stores = files.iter().map(|(path, name)| {
        let (connection, bars) = (&connection, &bars);
        async move {
            let bar = output::byte_bar(bars, name, 0);
            let (bytes, hash) =
                client::put(
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
                .with_context(|| format!("cannot store {}", path.display()))?;
            bar.finish();
            Ok::<_, anyhow::Error>(FileFigures {
                name: name.clone(),
                bytes,
                sha256: hex(&hash),
                seconds: started.elapsed().as_secs_f64(),
                resumed_bytes: 0,
            })
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
    let mut failed = None;
    for stored in join_all(stores).await {
        match stored {
            Ok(stored) => {
                figures.transfer.bytes_up += stored.bytes;
                figures.transfer.streams += 1;
                figures.files.push(stored);
            }
            Err(error) => failed = Some(error),
        }
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
