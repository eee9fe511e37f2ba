//! Queues the log lines of a server. A separate thread writes them to stderr, so that a pipe
//! without a reader loses lines but never delays the logging task.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// Maximum number of waiting lines.
const WAITING: usize = 4096;
/// Time to wait at exit until the last lines are written.
const FAREWELL: Duration = Duration::from_millis(500);

static QUEUE: OnceLock<Queue> = OnceLock::new();

struct Queue {
    messages: SyncSender<Message>,
    /// Lines dropped for lack of room that have not been reported yet.
    dropped: AtomicU64,
}

enum Message {
    Line(String),
    /// Dropping the sender signals that all previous lines are written.
    Settle(SyncSender<()>),
}

/// Starts passing lines to the thread.
pub(super) fn begin() {
    let (messages, receiver) = sync_channel(WAITING);
    let dropped = AtomicU64::new(0);
    let write = move || {
        if let Some(queue) = QUEUE.get() {
            write(&receiver, &queue.dropped, &mut io::stderr());
        }
    };
    // The queue must be set before the thread starts. Without a thread, lines are written
    // immediately.
    if QUEUE.set(Queue { messages, dropped }).is_ok() {
        let spawned = std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(write);
        if let Err(error) = spawned {
            let _ = writeln!(io::stderr(), "pathmark: there is no log: {error}");
        }
    }
}

/// Adds a line, or returns it if there is no queue.
pub(super) fn add(line: String) -> Option<String> {
    let Some(queue) = QUEUE.get() else {
        return Some(line);
    };
    match queue.messages.try_send(Message::Line(line)) {
        Ok(()) | Err(TrySendError::Disconnected(Message::Settle(_))) => None,
        Err(TrySendError::Full(_)) => {
            queue.dropped.fetch_add(1, Ordering::Relaxed);
            None
        }
        Err(TrySendError::Disconnected(Message::Line(line))) => Some(line),
    }
}

/// Waits until all lines are written, for at most [`FAREWELL`].
pub(super) fn settle() {
    let Some(queue) = QUEUE.get() else {
        return;
    };
    let (written, waiting) = sync_channel(1);
    if queue.messages.try_send(Message::Settle(written)).is_ok() {
        let _ = waiting.recv_timeout(FAREWELL);
    }
}

/// Writes lines until the queue is dropped.
fn write(messages: &Receiver<Message>, dropped: &AtomicU64, out: &mut impl Write) {
    while let Ok(message) = messages.recv() {
        match message {
            Message::Line(line) => {
                let _ = out.write_all(line.as_bytes());
            }
            Message::Settle(written) => drop(written),
        }
        let dropped = dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let why = "nobody read the log in time";
            let _ = writeln!(out, "pathmark: {dropped} lines are missing: {why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_have_no_room_are_counted() {
        let (messages, receiver) = sync_channel(2);
        let dropped = AtomicU64::new(3);
        for line in ["a\n", "b\n"] {
            messages.send(Message::Line(line.to_owned())).unwrap();
        }
        drop(messages);
        let mut out = Vec::new();
        write(&receiver, &dropped, &mut out);
        let text = String::from_utf8(out).unwrap();
        let missing = "pathmark: 3 lines are missing: nobody read the log in time\n";
        assert_eq!(text, format!("a\n{missing}b\n"));
    }
}
