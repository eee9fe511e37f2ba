//! Moves several files at the same time, and keeps their results.

use std::cell::{Cell, RefCell};
use std::time::Instant;

use futures_util::stream::{self, StreamExt};
use indicatif::ProgressBar;
use pathmark_http3::client::Progress;

use super::client::MoveArgs;
use super::figures::FileFigures;
use super::output;
use super::session::{self, Stop};

/// Maximum number of concurrent files, each of which is open.
pub(super) const AT_ONCE: usize = 32;

/// All files of a connection.
struct UnderWay {
    started: Instant,
    /// Bytes moved for all of them.
    moved: Cell<u64>,
    /// Their figures so far. Those of a file that has not ended are of an interrupted one.
    files: RefCell<Vec<FileFigures>>,
}

/// A file under way.
pub(super) struct Moving<'a> {
    all: &'a UnderWay,
    place: usize,
    bar: ProgressBar,
}

impl UnderWay {
    fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Changes the figures of a file.
    fn change(&self, place: usize, change: impl FnOnce(&mut FileFigures)) {
        if let Some(file) = self.files.borrow_mut().get_mut(place) {
            change(file);
        }
    }
}

impl Moving<'_> {
    pub(super) fn tell(&self, progress: Progress) {
        match progress {
            Progress::Begin { bytes, offset } => {
                self.bar.set_length(bytes.unwrap_or(0));
                self.bar.set_position(offset);
                self.bar.reset_eta();
                self.all.change(self.place, |file| {
                    (file.bytes, file.resumed_bytes) = (Some(offset), Some(offset));
                });
            }
            Progress::Bytes(bytes) => {
                self.bar.inc(bytes);
                self.all.moved.set(self.all.moved.get() + bytes);
                self.all.change(self.place, |file| {
                    file.bytes = file.bytes.map(|before| before + bytes);
                });
            }
            Progress::Arrived => {
                let seconds = self.all.seconds();
                self.all.change(self.place, |file| file.seconds = seconds);
            }
        }
    }

    /// Returns when the content had arrived, in seconds.
    pub(super) fn arrived(&self) -> f64 {
        let files = self.all.files.borrow();
        files.get(self.place).map_or(0.0, |file| file.seconds)
    }

    /// Returns the time so far in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.all.seconds()
    }
}

/// Moves a file for each job. Returns their figures in the order of the jobs, and the number of
/// bytes moved. Without an error in the figures that `one` returns, the file has been moved.
pub(super) async fn all<J>(
    jobs: &[J],
    args: MoveArgs,
    stop: &Stop,
    name: impl Fn(&J) -> String,
    one: impl AsyncFn(&J, &Moving<'_>) -> anyhow::Result<FileFigures>,
) -> (Vec<FileFigures>, u64) {
    let bars = output::bars(args.quiet);
    let interrupted = session::interrupted().to_string();
    let begun = |job| FileFigures {
        bytes: Some(0),
        resumed_bytes: Some(0),
        ..FileFigures::failed(name(job), interrupted.clone())
    };
    let under_way = UnderWay {
        started: session::now(),
        moved: Cell::new(0),
        files: RefCell::new(jobs.iter().map(begun).collect()),
    };
    let moves = jobs.iter().enumerate().map(|(place, job)| {
        let moving = Moving {
            all: &under_way,
            place,
            bar: output::byte_bar(&bars, &name(job), 0),
        };
        let one = &one;
        async move {
            let ended = one(job, &moving).await;
            let seconds = moving.seconds();
            match &ended {
                Ok(_) => moving.bar.finish(),
                Err(_) => moving.bar.abandon(),
            }
            moving.all.change(place, |file| match ended {
                Ok(moved) => *file = moved,
                Err(error) => {
                    let failed = FileFigures::broken(std::mem::take(&mut file.name), &error);
                    *file = FileFigures {
                        bytes: file.bytes,
                        resumed_bytes: file.resumed_bytes,
                        seconds,
                        ..failed
                    };
                }
            });
        }
    });
    let moves = stream::iter(moves)
        .buffer_unordered(args.at_once(AT_ONCE))
        .for_each(|()| async {});
    tokio::select! {
        () = moves => {}
        () = stop.stopped() => {
            let seconds = under_way.seconds();
            let mut files = under_way.files.borrow_mut();
            let left = files.iter_mut().filter(|file| file.error.as_ref() == Some(&interrupted));
            left.for_each(|file| file.seconds = seconds);
        }
    }
    (under_way.files.into_inner(), under_way.moved.get())
}
