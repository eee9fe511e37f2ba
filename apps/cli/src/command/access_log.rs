//! `serve --access-log`: logs a line of JSON for each request. A separate thread writes the
//! lines, so that a full disk or a missing reader loses lines but never delays a transfer.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use anyhow::Context as _;
use serde::Serialize;

use super::output;

/// Maximum number of waiting lines.
const WAITING: usize = 4096;
/// The name of the standard output.
const OUT: &str = "-";

/// A request.
#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    /// When it ended, in seconds since 1970-01-01 UTC.
    pub(super) time: f64,
    /// The client's name in the list of clients.
    pub(super) client: Option<&'a str>,
    pub(super) address: String,
    pub(super) method: &'a str,
    /// The path as the client sent it.
    pub(super) path: &'a str,
    /// The status, or 0 without a response.
    pub(super) status: u16,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    /// The limit that held the sender back most, over the whole connection.
    pub(super) bounded_by: Option<&'static str>,
    pub(super) error: Option<&'a str>,
}

/// A message to the thread.
#[derive(Debug)]
enum Message {
    Line(String),
    Reopen,
}

/// The access log.
#[derive(Clone, Debug)]
pub(super) struct AccessLog {
    lines: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

impl AccessLog {
    /// Begins logging to a file or to the standard output.
    ///
    /// # Errors
    /// Fails if the file can't be opened or the thread can't be started.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let opened = open(path).with_context(|| format!("cannot write {}", path.display()))?;
        let (lines, messages) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let (path, counter) = (path.to_owned(), Arc::clone(&lost));
        std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || write(&path, opened, &messages, &counter))?;
        Ok(Self { lines, lost })
    }

    pub(super) fn log(&self, line: &Line<'_>) {
        let Ok(text) = output::json_text(line) else {
            return;
        };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.lines.try_send(Message::Line(text))
        {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Reopens the file by its name, after the previous one was moved away.
    pub(super) fn reopen(&self) {
        // If the queue is full, the thread continues with the old file.
        let _ = self.lines.try_send(Message::Reopen);
    }
}

fn open(path: &Path) -> io::Result<Box<dyn Write + Send>> {
    if path.as_os_str() == OUT {
        return Ok(Box::new(io::stdout()));
    }
    let file: File = OpenOptions::new().append(true).create(true).open(path)?;
    Ok(Box::new(file))
}

/// Writes lines until the log is dropped.
fn write(
    path: &Path,
    opened: Box<dyn Write + Send>,
    messages: &Receiver<Message>,
    lost: &AtomicU64,
) {
    let (mut file, mut failing) = (Some(opened), false);
    while let Ok(message) = messages.recv() {
        let Message::Line(line) = message else {
            file = None;
            continue;
        };
        let out = match file.as_mut() {
            Some(out) => Ok(out),
            None => open(path).map(|opened| file.insert(opened)),
        };
        let written = out.and_then(|out| out.write_all(line.as_bytes()).and_then(|()| out.flush()));
        match written {
            Ok(()) if failing => {
                let lost = lost.swap(0, Ordering::Relaxed);
                output::note!(
                    "pathmark: the access log is written again; {lost} lines are missing"
                );
                failing = false;
            }
            Ok(()) => {}
            Err(error) => {
                lost.fetch_add(1, Ordering::Relaxed);
                file = None;
                if !failing {
                    output::note!("pathmark: cannot write {}: {error}", path.display());
                }
                failing = true;
            }
        }
    }
}
