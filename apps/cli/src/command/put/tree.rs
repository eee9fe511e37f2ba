//! Stores directories and everything in them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, anyhow};
use pathmark_http3::client::{Ended, Outcome, PutError, PutTree, Skipped, Stored, TreeLimits};
use pathmark_http3::fields::PathName;
use pathmark_http3::root::Existing;

use super::super::client::Session;
use super::super::figures::{Figures, FileFigures};
use super::super::moving::AT_ONCE;
use super::super::session::{self, Stop};
use super::super::target::{distinct, shown};
use super::super::values::hex;
use super::super::{Failure, output};
use super::{Args, explained};

/// Places that a large file takes.
const LARGE: usize = 16;

/// Returns the directories to store with their paths on the server.
pub(super) fn directories(args: &Args) -> Result<Vec<(PathBuf, PathName)>, Failure> {
    let mut directories = Vec::new();
    for path in &args.files {
        let shown = path.display();
        let why = match path.metadata() {
            Ok(there) if there.is_dir() => None,
            Ok(_) => Some(anyhow!(
                "{shown} is no directory, and -r stores directories; store files without -r"
            )),
            Err(error) => Some(anyhow!("cannot read {shown}: {error}")),
        };
        if let Some(why) = why {
            return Err(Failure::usage(why));
        }
        let mut there = args.target.path.clone().unwrap_or_default();
        there.slash = true;
        // `.` and `..` have no name, so everything in them is stored in the server's directory
        // itself.
        let name = path.file_name().map(OsStr::as_bytes).map(<[u8]>::to_vec);
        there.names.extend(name);
        directories.push((path.clone(), there));
    }
    distinct(
        directories
            .iter()
            .map(|(path, there)| (shown(there), path.display())),
    )?;
    Ok(directories)
}

/// Stores directories, one after the other.
pub(super) async fn store(
    args: &Args,
    stop: &Stop,
    session: &Session,
    directories: &[(PathBuf, PathName)],
    existing: Existing,
    figures: &mut Figures,
) {
    let started = session::now();
    let (sent, found) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let most = TreeLimits::default();
    let how = PutTree {
        existing,
        checksum: args.checksum,
        limits: TreeLimits {
            places: most.places.min(args.moving.at_once(AT_ONCE) * LARGE),
            ..most
        },
        sent: Arc::clone(&sent),
        found: Arc::clone(&found),
    };
    let bars = output::bars(args.moving.quiet);
    for (directory, there) in directories {
        let name = shown(there);
        let bar = output::count_bar(&bars, &name);
        let (mut printed, mut entries) = (Ok(()), 0_u64);
        let storing = session
            .client
            .put_tree(directory, there, how.clone(), |ended| {
                entries += 1;
                bar.set_message(entries.to_string());
                let [moved, found] = [&sent, &found].map(|bytes| bytes.load(Ordering::Relaxed));
                bar.set_length(found);
                bar.set_position(moved);
                let seconds = started.elapsed().as_secs_f64();
                let said = bar.suspend(|| note(args, figures, seconds, existing, ended));
                if printed.is_ok() {
                    printed = said;
                }
            });
        let ended = tokio::select! {
            ended = storing => ended.map_err(|error| explained(error, existing)),
            () = stop.stopped() => Err(session::interrupted()),
        };
        figures.sent = sent.load(Ordering::Relaxed);
        bar.finish();
        for ended in [ended, printed] {
            let directory = directory.display();
            if let Err(error) = ended.with_context(|| format!("cannot store all of {directory}")) {
                let seconds = started.elapsed().as_secs_f64();
                let broken = FileFigures::broken(name.clone(), &error).after(seconds);
                figures.files.push(broken);
            }
        }
    }
}

/// Records an entry's result.
fn note(
    args: &Args,
    figures: &mut Figures,
    seconds: f64,
    existing: Existing,
    ended: Ended<Stored, PutError>,
) -> anyhow::Result<()> {
    let name = shown(&ended.path);
    match ended.outcome {
        Ok(Outcome::Moved(stored)) => {
            figures.transfer.streams += 1;
            figures.transfer.bytes_up += stored.bytes - stored.resumed;
            let sha256 = hex(&stored.sha256);
            if args.client.json {
                let (bytes, resumed) = (stored.bytes, stored.resumed);
                let moved = FileFigures::moved(name, bytes, resumed, &stored.sha256, seconds);
                figures.files.push(moved);
            } else if !args.moving.quiet {
                output::line(format_args!("{sha256}  {}", output::plain(&name)))?;
            }
        }
        Ok(Outcome::Unchanged(files)) => figures.unchanged += files,
        Ok(Outcome::Skipped(why @ Skipped::Deep)) => {
            let error = format!("cannot store {name}: {why}");
            figures
                .files
                .push(FileFigures::failed(name, error).after(seconds));
        }
        Ok(Outcome::Skipped(why)) => {
            let note = format!("{name} is not stored: {why}");
            figures.transfer.warnings.push(note);
        }
        Err(error) => {
            let error = explained(error, existing).context(format!("cannot store {name}"));
            figures
                .files
                .push(FileFigures::broken(name, &error).after(seconds));
        }
    }
    Ok(())
}
