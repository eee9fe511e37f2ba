//! Files of logs, which a thread of their own writes.

use std::collections::HashSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use pathmark_transport::Instant;
use pathmark_transport::crypto::Side;
use pathmark_transport::observe::{Trace, TraceEvent, TraceFactory};
use pathmark_transport::wire::ConnectionId;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::encoder::{Encoder, hex};

/// Bytes of a connection that wait before they go to the thread.
const CHUNK: usize = 65_536;
/// Chunks that wait for the disk, 4 MiB in all.
const QUEUE: usize = 64;

/// Bounds of all logs in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections that have a log at the same time. Further ones have none.
    pub connections: usize,
    /// Bytes of a log, after which it ends with a warning.
    pub bytes: u64,
}

/// 256 connections, and 256 MiB per log.
impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            bytes: 256 << 20,
        }
    }
}

/// A directory with a log for each connection, named after the time at which it began, its side
/// and its ID: `20260102T030405-client-ab01….sqlog`.
///
/// Connections never wait for the disk. What it can't take in time is missing from the log, which
/// says so, and [`missing`](Self::missing) counts it.
#[derive(Clone, Debug)]
pub struct Directory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    limits: Limits,
    to_thread: SyncSender<Work>,
    /// Connections that have a log now.
    connections: Mutex<usize>,
    ended: Condvar,
    missing: AtomicU64,
    refused: AtomicU64,
    failed: OnceLock<String>,
}

/// Work of the thread.
enum Work {
    /// Writes the bytes at the end of the file, or into a new one if they are its first.
    Write {
        file: PathBuf,
        bytes: Vec<u8>,
        first: bool,
    },
    Flush(SyncSender<()>),
}

impl Directory {
    /// Creates the directory if it doesn't exist, and begins the thread, with default limits.
    ///
    /// # Errors
    /// The directory can't be created or written to, or the system allows no further thread.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::with_limits(path, Limits::default())
    }

    /// Like [`create`](Self::create), with these limits.
    ///
    /// # Errors
    /// The same.
    pub fn with_limits(path: impl AsRef<Path>, limits: Limits) -> io::Result<Self> {
        let path = path.as_ref().to_owned();
        DirBuilder::new().recursive(true).create(&path)?;
        // A directory that can't be written to is found now rather than by missing logs.
        let probe = path.join(format!(".{}", std::process::id()));
        OpenOptions::new().create(true).append(true).open(&probe)?;
        std::fs::remove_file(&probe)?;
        let (to_thread, work) = sync_channel(QUEUE);
        let shared = Arc::new(Shared {
            path,
            limits,
            to_thread,
            connections: Mutex::new(0),
            ended: Condvar::new(),
            missing: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            failed: OnceLock::new(),
        });
        let weak = Arc::downgrade(&shared);
        thread::Builder::new()
            .name("qlog".to_owned())
            .spawn(move || {
                write_all(&work, |error| {
                    if let Some(shared) = weak.upgrade() {
                        shared.fail(error);
                    }
                });
            })?;
        Ok(Self { shared })
    }

    /// Returns the value for
    /// [`TransportConfig::trace`](pathmark_transport::TransportConfig::trace).
    pub fn factory(&self) -> Arc<dyn TraceFactory> {
        Arc::new(self.clone())
    }

    /// Like [`factory`](Self::factory), for a single connection in simulated time, whose ends have
    /// the logs `name-client.sqlog` and `name-server.sqlog`. In the name, anything but letters,
    /// digits, `.`, `-` and `_` becomes `%` and its code, so that names remain different.
    pub fn factory_of(&self, name: &str) -> Arc<dyn TraceFactory> {
        let encoded = |c: char| match c {
            '.' | '-' | '_' => c.to_string(),
            c if c.is_alphanumeric() => c.to_string(),
            c => format!("%{:02x}", u32::from(c)),
        };
        Arc::new(Simulated {
            shared: Arc::clone(&self.shared),
            name: name.chars().map(encoded).collect(),
        })
    }

    /// Waits until no connection has a log, at most for this time, and until all is written.
    /// Returns the number of connections that still have one: the ends of their logs are missing.
    pub fn close(&self, limit: Duration) -> usize {
        let open = self.shared.open();
        let waited = self
            .shared
            .ended
            .wait_timeout_while(open, limit, |open| *open > 0);
        let (open, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let left = *open;
        drop(open);
        self.flush();
        left
    }

    /// Waits until all that ended connections and full chunks left is written.
    pub fn flush(&self) {
        let (to_us, done) = sync_channel(1);
        if self.shared.to_thread.send(Work::Flush(to_us)).is_ok() {
            let _ = done.recv();
        }
    }

    /// Returns the number of events that aren't in the logs because the disk was too slow or full.
    pub fn missing(&self) -> u64 {
        self.shared.missing.load(Ordering::Relaxed)
    }

    /// Returns the number of connections without a log, because there were as many as
    /// [`Limits`] allows.
    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Returns why a log couldn't be written, if there was an error.
    pub fn error(&self) -> Option<&str> {
        self.shared.failed.get().map(String::as_str)
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, usize> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, error: &str) {
        if self.failed.set(error.to_owned()).is_ok() {
            tracing::warn!("qlog: {error}");
        }
    }
}

/// Does the work until all senders are gone. A file that failed isn't tried again.
fn write_all(work: &Receiver<Work>, mut on_error: impl FnMut(&str)) {
    let mut given_up = HashSet::new();
    // Chunks of one log often follow each other.
    let mut latest: Option<(PathBuf, File)> = None;
    for work in work {
        match work {
            Work::Write { file, .. } if given_up.contains(&file) => {}
            Work::Write { file, bytes, first } => {
                let opened = match latest.take() {
                    Some((open, opened)) if open == file && !first => Ok(opened),
                    _ if first => File::create(&file),
                    _ => OpenOptions::new().append(true).open(&file),
                };
                let written = opened.and_then(|mut opened| {
                    opened.write_all(&bytes)?;
                    Ok(opened)
                });
                match written {
                    Ok(opened) => latest = Some((file, opened)),
                    Err(error) => {
                        on_error(&format!("cannot write {}: {error}", file.display()));
                        given_up.insert(file);
                    }
                }
            }
            Work::Flush(done) => {
                let _ = done.try_send(());
            }
        }
    }
}

impl TraceFactory for Directory {
    fn start(&self, now: Instant, side: Side, id: ConnectionId) -> Option<Box<dyn Trace>> {
        #[allow(clippy::disallowed_methods, reason = "logs say when they were written")]
        let wall_clock = OffsetDateTime::now_utc();
        let name = format!(
            "{:04}{:02}{:02}T{:02}{:02}{:02}-{}-{}",
            wall_clock.year(),
            u8::from(wall_clock.month()),
            wall_clock.day(),
            wall_clock.hour(),
            wall_clock.minute(),
            wall_clock.second(),
            name_of(side),
            hex(id.as_slice()),
        );
        let text = wall_clock.format(&Rfc3339).ok();
        Log::begin(&self.shared, &name, false, || {
            Encoder::new(now, side, id, text.as_deref())
        })
    }
}

/// Creates the logs of a connection in simulated time.
struct Simulated {
    shared: Arc<Shared>,
    name: String,
}

impl TraceFactory for Simulated {
    fn start(&self, now: Instant, side: Side, id: ConnectionId) -> Option<Box<dyn Trace>> {
        let name = format!("{}-{}", self.name, name_of(side));
        let encoder = || Encoder::new(now, side, id, None);
        Log::begin(&self.shared, &name, true, encoder)
    }
}

const fn name_of(side: Side) -> &'static str {
    if side.is_client() { "client" } else { "server" }
}

/// The log of one connection.
struct Log {
    encoder: Encoder,
    /// Precedes the first bytes that the thread gets.
    header: Vec<u8>,
    file: PathBuf,
    /// Bytes that the thread got.
    written: u64,
    /// Events that it didn't get since the last warning.
    missing: u64,
    /// Whether the log has as many bytes as it may have.
    is_full: bool,
    /// Whether the connection waits for the disk, which it can in simulated time.
    waits: bool,
    last: Instant,
    shared: Arc<Shared>,
}

impl Log {
    /// Begins a log, unless there are as many as there may be.
    fn begin(
        shared: &Arc<Shared>,
        name: &str,
        waits: bool,
        encoder: impl FnOnce() -> Encoder,
    ) -> Option<Box<dyn Trace>> {
        let mut open = shared.open();
        if *open >= shared.limits.connections {
            shared.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        *open += 1;
        drop(open);
        let mut encoder = encoder();
        let (header, _) = encoder.take();
        Some(Box::new(Self {
            encoder,
            header,
            file: shared.path.join(format!("{name}.sqlog")),
            written: 0,
            missing: 0,
            is_full: false,
            waits,
            last: Instant::ZERO,
            shared: Arc::clone(shared),
        }))
    }

    /// Passes what waits to the thread.
    fn pass(&mut self) {
        if self.missing > 0 && !self.is_full {
            let text = format!("{} earlier events are missing", self.missing);
            self.encoder.warning(self.last, &text);
        }
        let (mut bytes, events) = self.encoder.take();
        if self.written == 0 {
            bytes.splice(..0, self.header.iter().copied());
        }
        let len = bytes.len() as u64;
        let work = Work::Write {
            file: self.file.clone(),
            bytes,
            first: self.written == 0,
        };
        let to_thread = &self.shared.to_thread;
        let passed = match self.waits {
            true => to_thread.send(work).is_ok(),
            false => to_thread.try_send(work).is_ok(),
        };
        if passed {
            self.written += len;
            self.missing = 0;
        } else {
            self.missing += events;
            self.shared.missing.fetch_add(events, Ordering::Relaxed);
        }
    }
}

impl Trace for Log {
    fn on_event(&mut self, now: Instant, event: &TraceEvent<'_>) {
        if self.is_full {
            self.shared.missing.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.last = now;
        self.encoder.event(now, event);
        let len = self.encoder.len();
        if self.written + len as u64 >= self.shared.limits.bytes {
            let text = format!(
                "the log ends here, after {} bytes",
                self.written + len as u64
            );
            self.encoder.warning(now, &text);
            self.pass();
            self.is_full = true;
        } else if len >= CHUNK {
            self.pass();
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if !self.encoder.is_empty() || self.written == 0 {
            self.pass();
        }
        *self.shared.open() -= 1;
        self.shared.ended.notify_all();
    }
}

#[cfg(test)]
mod tests;
