//! The log on stderr, and the JSON line on stdout. While the router forwards, a separate thread
//! writes them, so that a reader that has stopped cannot delay packets.

use std::collections::VecDeque;
use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Lines that may wait for the reader. Further lines are dropped and counted.
const WAITING: usize = 256;
/// Time for the remaining lines when the process ends.
const PATIENCE: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug)]
pub(crate) enum To {
    Stdout,
    Stderr,
}

struct Log {
    /// True if a thread writes the lines.
    started: bool,
    /// The first line stays here until it is written.
    lines: VecDeque<(To, String)>,
    dropped: u64,
}

static LOG: Mutex<Log> = Mutex::new(Log {
    started: false,
    lines: VecDeque::new(),
    dropped: 0,
});
static CHANGED: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Log> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log {
    fn is_idle(&self) -> bool {
        self.lines.is_empty() && self.dropped == 0
    }
}

/// Writes one line to stderr, prefixed with the program's name. If stderr cannot be written (a
/// full disk, a closed pipe), the line is lost, but forwarding continues. `eprintln!` would
/// panic instead.
pub(crate) fn line(text: Arguments<'_>) {
    put(To::Stderr, format!("vcp-router: {text}\n"));
}

/// Writes a line, or queues it for the thread.
pub(crate) fn put(to: To, line: String) {
    let mut log = lock();
    if !log.started {
        drop(log);
        write(to, &line);
    } else if log.dropped > 0 || log.lines.len() >= WAITING {
        // The count must follow the lines before the gap, so no further line is queued until then.
        log.dropped += 1;
    } else {
        log.lines.push_back((to, line));
        CHANGED.notify_all();
    }
}

/// Starts the thread, unless it already runs. Call this after giving up privileges, because a
/// thread keeps those that it starts with.
pub(crate) fn start() -> io::Result<()> {
    if !std::mem::replace(&mut lock().started, true) {
        let thread = std::thread::Builder::new().name("log".to_owned());
        thread
            .spawn(serve)
            .inspect_err(|_| lock().started = false)?;
    }
    Ok(())
}

fn serve() {
    loop {
        let log = CHANGED.wait_while(lock(), |log| log.is_idle());
        let mut log = log.unwrap_or_else(PoisonError::into_inner);
        if log.lines.is_empty() {
            let dropped = std::mem::take(&mut log.dropped);
            let text =
                format!("vcp-router: {dropped} lines of this log are lost: nothing read it\n");
            log.lines.push_back((To::Stderr, text));
        }
        let Some((to, line)) = log.lines.front().cloned() else {
            continue;
        };
        drop(log);
        write(to, &line);
        lock().lines.pop_front();
        CHANGED.notify_all();
    }
}

/// Waits for the remaining lines, but not long.
pub(crate) fn finish() {
    let _ = CHANGED.wait_timeout_while(lock(), PATIENCE, |log| !log.is_idle());
}

/// One write per line, so that lines of several programs do not mix.
fn write(to: To, line: &str) {
    // An error means that nothing reads, so that nothing needs the line.
    let _ = match to {
        To::Stderr => io::stderr().lock().write_all(line.as_bytes()),
        To::Stdout => io::stdout().lock().write_all(line.as_bytes()),
    };
}

/// Logs a [`line`] from the arguments of `format!`.
macro_rules! log_line {
    ($($argument:tt)*) => { $crate::output::line(format_args!($($argument)*)) };
}

pub(crate) use log_line;
