//! Fetches directories and everything in them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow};
use pathmark_http3::client::{Ended, Fetched, GetError, GetTree, Outcome, Skipped, TreeLimits};
use pathmark_http3::http::StatusCode;
use pathmark_http3::root::KeepError;

use super::super::figures::{Figures, FileFigures};
use super::super::moving::AT_ONCE;
use super::super::output;
use super::super::session::{self, Stop};
use super::super::target::shown;
use super::super::values::hex;
use super::{Args, Job, Latest, Session, To, existing, fields};

/// Interval for showing the bytes that have arrived.
const TICK: Duration = Duration::from_millis(200);
/// Places that a large file takes.
const LARGE: usize = 16;

/// Fetches the directories of one server, one after the other.
pub(super) async fn fetch(
    args: &Args,
    stop: &Stop,
    session: &Session,
    jobs: &[Job],
    figures: &mut Figures,
) -> Latest {
    let started = session::now();
    let asked = args.cc.as_ref().map(ToString::to_string);
    let (arrived, found) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let most = TreeLimits::default().places;
    let how = GetTree {
        headers: fields(asked.as_deref()),
        existing: existing(args),
        checksum: args.checksum,
        limits: TreeLimits {
            entries: args.max_entries,
            places: most.min(args.moving.at_once(AT_ONCE) * LARGE),
        },
        arrived: Arc::clone(&arrived),
        found: Arc::clone(&found),
    };
    let mut latest = Latest::default();
    let bars = output::bars(args.moving.quiet);
    for job in jobs {
        let To::Tree(directory) = &job.to else {
            continue;
        };
        let name = job.target.name();
        let bar = output::count_bar(&bars, &name);
        let path = job.target.path.clone().unwrap_or_default();
        let (mut printed, mut entries) = (Ok(()), 0_u64);
        let fetching = session
            .client
            .get_tree(&path, directory, how.clone(), |ended| {
                entries += 1;
                bar.set_message(entries.to_string());
                let seconds = started.elapsed().as_secs_f64();
                // A line must not be on that of the bar.
                let said = bar.suspend(|| note(args, figures, &mut latest, seconds, ended));
                if printed.is_ok() {
                    printed = said;
                }
            });
        let ticking = async {
            let mut ticks = tokio::time::interval(TICK);
            loop {
                ticks.tick().await;
                let [moved, found] = [&arrived, &found].map(|bytes| bytes.load(Ordering::Relaxed));
                bar.set_length(found);
                bar.set_position(moved);
            }
        };
        let ended = tokio::select! {
            ended = fetching => ended.map_err(|error| explained(error, true)),
            () = ticking => Ok(()),
            () = stop.stopped() => Err(session::interrupted()),
        };
        bar.set_length(found.load(Ordering::Relaxed));
        bar.finish();
        for ended in [ended, printed] {
            let into = directory.display();
            let what = || format!("cannot fetch all of {name}/ into {into}");
            if let Err(error) = ended.with_context(what) {
                let seconds = started.elapsed().as_secs_f64();
                let broken = FileFigures::broken(format!("{name}/"), &error).after(seconds);
                figures.files.push(broken);
            }
        }
    }
    latest.bytes = arrived.load(Ordering::Relaxed);
    latest
}

/// Records an entry's result.
fn note(
    args: &Args,
    figures: &mut Figures,
    latest: &mut Latest,
    seconds: f64,
    ended: Ended<Fetched, GetError>,
) -> anyhow::Result<()> {
    let name = shown(&ended.path);
    match ended.outcome {
        Ok(Outcome::Moved(fetched)) => {
            latest.note(seconds, &fetched, &name);
            figures.transfer.streams += 1;
            let sha256 = hex(&fetched.sha256);
            if args.client.json {
                let (bytes, resumed) = (fetched.bytes, fetched.resumed);
                let moved = FileFigures::moved(name, bytes, resumed, &fetched.sha256, seconds);
                figures.files.push(moved);
            } else if !args.moving.quiet {
                output::line(format_args!("{sha256}  {}", output::plain(&name)))?;
            }
        }
        Ok(Outcome::Unchanged(files)) => figures.unchanged += files,
        Ok(Outcome::Skipped(why @ Skipped::Deep)) => {
            let error = format!("cannot fetch {name}: {why}");
            figures
                .files
                .push(FileFigures::failed(name, error).after(seconds));
        }
        Ok(Outcome::Skipped(why)) => {
            let note = format!("{name} is not fetched: {why}");
            figures.transfer.warnings.push(note);
        }
        Err(error) => {
            let error = explained(error, ended.path.slash);
            let error = error.context(format!("cannot fetch {name}"));
            figures
                .files
                .push(FileFigures::broken(name, &error).after(seconds));
        }
    }
    Ok(())
}

/// Explains an error in terms that users of the command understand.
fn explained(error: GetError, is_directory: bool) -> anyhow::Error {
    match error {
        GetError::Refused(refusal) if is_directory && refusal.status == StatusCode::NOT_FOUND => {
            anyhow!("the server has no directory of this name; without -r get fetches a file")
        }
        GetError::Keep(KeepError::Exists) => {
            anyhow!("it is there already and differs; --force replaces it")
        }
        GetError::TooMany(error) => anyhow!("{error}, or raise --max-entries"),
        error => error.into(),
    }
}
