//! Requests from the status and reader threads to the forwarding thread.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, SyncSender};

use super::assemble::Plan;
use super::query::Hint;
use super::run_error::RunError;
use super::snapshot::Snapshot;
use super::wake::{clear, wake};

/// The reported capacity that a port's laws get, in bits per second (`None`: withdrawn), or an
/// error in one line if no law of the port takes it.
pub(super) type Taken = Result<Option<u64>, String>;

/// A request to the forwarding thread.
#[derive(Debug)]
pub(super) enum Request {
    /// Reply with the current state.
    Snapshot(SyncSender<Snapshot>),
    /// Take or withdraw the report of a port's capacity.
    Capacity(Hint, SyncSender<Taken>),
    /// Read the configuration again; the reply is the count of ended reloads, this one included.
    Reload(SyncSender<u64>),
    /// Apply the configuration that was read, or log why reading failed.
    Reloaded(Box<Result<Plan, RunError>>),
}

/// The forwarding thread's end: the requests, and a descriptor that becomes readable with each
/// of them. Writing a byte to the descriptor wakes the client's end.
#[derive(Debug)]
pub(super) struct ControlServer {
    requests: Receiver<Request>,
    wake_fd: UnixStream,
}

/// The end of the threads that serve clients and read configurations.
#[derive(Debug)]
pub(super) struct ControlClient {
    requests: SyncSender<Request>,
    waker: UnixStream,
    /// The other end of `waker`, for further threads that answer requests.
    other_end: UnixStream,
}

/// Both ends.
pub(super) fn pair() -> io::Result<(ControlServer, ControlClient)> {
    let (wake_fd, waker) = UnixStream::pair()?;
    wake_fd.set_nonblocking(true)?;
    waker.set_nonblocking(true)?;
    let (sender, requests) = mpsc::sync_channel(4);
    let client = ControlClient {
        requests: sender,
        waker,
        other_end: wake_fd.try_clone()?,
    };
    Ok((ControlServer { requests, wake_fd }, client))
}

impl ControlServer {
    pub(super) fn wake_fd(&self) -> &UnixStream {
        &self.wake_fd
    }

    /// The pending requests.
    pub(super) fn requests(&self) -> impl Iterator<Item = Request> {
        clear(&self.wake_fd);
        self.requests.try_iter()
    }

    /// Wakes the client's end after a reply.
    pub(super) fn answered(&self) {
        wake(&self.wake_fd);
    }
}

impl ControlClient {
    /// Clones this end for another thread.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            requests: self.requests.clone(),
            waker: self.waker.try_clone()?,
            other_end: self.other_end.try_clone()?,
        })
    }

    /// Hands over the configuration that was read, or the error.
    fn reloaded(&self, result: Result<Plan, RunError>) {
        let request = Request::Reloaded(Box::new(result));
        // Sending fails if the forwarding thread has ended.
        if self.requests.send(request).is_ok() {
            wake(&self.waker);
        }
    }

    /// Sends a request without waiting. The reply is in the receiver once
    /// [`wake_fd`](Self::wake_fd) is readable. `None`: too many requests are open.
    fn ask<T>(&self, request: impl FnOnce(SyncSender<T>) -> Request) -> Option<Receiver<T>> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.requests.try_send(request(reply)).ok()?;
        wake(&self.waker);
        Some(answer)
    }

    pub(super) fn snapshot(&self) -> Option<Receiver<Snapshot>> {
        self.ask(Request::Snapshot)
    }

    pub(super) fn capacity(&self, hint: Hint) -> Option<Receiver<Taken>> {
        self.ask(|reply| Request::Capacity(hint, reply))
    }

    pub(super) fn reload(&self) -> Option<Receiver<u64>> {
        self.ask(Request::Reload)
    }

    /// Becomes readable when a reply has arrived.
    pub(super) fn wake_fd(&self) -> &UnixStream {
        &self.waker
    }

    /// Returns a descriptor for another thread that answers requests. Writing a byte to it makes
    /// [`wake_fd`](Self::wake_fd) readable.
    pub(super) fn other_end(&self) -> io::Result<UnixStream> {
        self.other_end.try_clone()
    }

    /// Clears pending wake-ups.
    pub(super) fn clear(&self) {
        clear(&self.waker);
    }

    /// Runs `read` and hands over its result, or [`RunError::Unread`] if `read` panics.
    pub(super) fn read(self, read: impl FnOnce() -> Result<Plan, RunError>) {
        let mut on_panic = ReportUnread(Some(self));
        let result = read();
        if let Some(client) = on_panic.0.take() {
            client.reloaded(result);
        }
    }
}

/// Reports [`RunError::Unread`] if it is dropped before its client is taken.
struct ReportUnread(Option<ControlClient>);

impl Drop for ReportUnread {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            client.reloaded(Err(RunError::Unread));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this report, the reload would count as running forever and block all later ones.
    #[test]
    fn a_reload_that_panics_is_reported() {
        let (server, client) = pair().unwrap();
        let reader = std::thread::spawn(move || client.read(|| panic!("a defect")));
        assert!(reader.join().is_err());
        let requests: Vec<_> = server.requests().collect();
        let failed = matches!(requests.as_slice(), [Request::Reloaded(result)]
            if matches!(**result, Err(RunError::Unread)));
        assert!(failed, "{requests:?}");
    }
}
