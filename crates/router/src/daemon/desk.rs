//! Where the thread that talks to clients asks the one that moves packets.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, SyncSender};

use super::assemble::Plan;
use super::query::Hint;
use super::run_error::RunError;
use super::snapshot::Snapshot;

/// What the thread that moves packets is asked to do.
#[derive(Debug)]
pub(super) enum Request {
    /// To say how things are.
    Snapshot(SyncSender<Snapshot>),
    /// To tell a port of a capacity, and to say why that would change nothing.
    Capacity(Hint, SyncSender<Result<(), String>>),
    /// To read the configuration again, and to say how many reloads will have ended with that one.
    Reload(SyncSender<u64>),
    /// To put a configuration in force, or to say why there is none.
    Reloaded(Box<Result<Plan, RunError>>),
}

/// The side of the thread that moves packets: requests, and a descriptor that becomes readable with
/// each. Written to, it wakes the other side.
#[derive(Debug)]
pub(super) struct Desk {
    requests: Receiver<Request>,
    bell: UnixStream,
}

/// The side of the threads that talk to clients and read configurations.
#[derive(Debug)]
pub(super) struct Counter {
    desk: SyncSender<Request>,
    ringer: UnixStream,
    /// The other end of `ringer`, for whoever else answers.
    other_end: UnixStream,
}

/// Both sides.
pub(super) fn pair() -> io::Result<(Desk, Counter)> {
    let (bell, ringer) = UnixStream::pair()?;
    bell.set_nonblocking(true)?;
    ringer.set_nonblocking(true)?;
    let (desk, requests) = mpsc::sync_channel(4);
    let counter = Counter {
        desk,
        ringer,
        other_end: bell.try_clone()?,
    };
    Ok((Desk { requests, bell }, counter))
}

impl Desk {
    pub(super) fn bell(&self) -> &UnixStream {
        &self.bell
    }

    /// What has been asked for.
    pub(super) fn requests(&self) -> impl Iterator<Item = Request> {
        let mut rings = [0; 16];
        while matches!((&self.bell).read(&mut rings), Ok(1..)) {}
        self.requests.try_iter()
    }

    /// Says that something was answered.
    pub(super) fn answered(&self) {
        // A bell that cannot be rung any more has been rung often enough.
        let _ = (&self.bell).write(&[1]);
    }
}

impl Counter {
    /// The same for another thread.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            desk: self.desk.clone(),
            ringer: self.ringer.try_clone()?,
            other_end: self.other_end.try_clone()?,
        })
    }

    /// Hands over what became of a configuration.
    fn reloaded(&self, result: Result<Plan, RunError>) {
        // No one to hand it to: the router has stopped.
        if self.desk.send(Request::Reloaded(Box::new(result))).is_ok() {
            let _ = (&self.ringer).write(&[1]);
        }
    }

    /// Where the answer will be, once the [`bell`](Self::bell) rings; nobody waits for it here.
    /// `None`: too many questions are open.
    fn ask<T>(&self, request: impl FnOnce(SyncSender<T>) -> Request) -> Option<Receiver<T>> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.desk.try_send(request(reply)).ok()?;
        // A bell that cannot be rung any more has been rung often enough.
        let _ = (&self.ringer).write(&[1]);
        Some(answer)
    }

    pub(super) fn snapshot(&self) -> Option<Receiver<Snapshot>> {
        self.ask(Request::Snapshot)
    }

    /// The answer is an error, in a line, if there is no port whose law it reaches.
    pub(super) fn capacity(&self, hint: Hint) -> Option<Receiver<Result<(), String>>> {
        self.ask(|reply| Request::Capacity(hint, reply))
    }

    pub(super) fn reload(&self) -> Option<Receiver<u64>> {
        self.ask(Request::Reload)
    }

    /// Becomes readable when something was answered.
    pub(super) fn bell(&self) -> &UnixStream {
        &self.ringer
    }

    /// Where another thread that answers questions rings.
    pub(super) fn other_end(&self) -> io::Result<UnixStream> {
        self.other_end.try_clone()
    }

    /// Takes notice of the bell.
    pub(super) fn hear(&self) {
        let mut rings = [0; 16];
        while matches!((&self.ringer).read(&mut rings), Ok(1..)) {}
    }

    /// Reads a configuration by `read` and hands over what becomes of it, also if reading panics.
    pub(super) fn read(self, read: impl FnOnce() -> Result<Plan, RunError>) {
        let mut untold = Untold(Some(self));
        let result = read();
        if let Some(counter) = untold.0.take() {
            counter.reloaded(result);
        }
    }
}

/// Says, if it is dropped full, that a configuration was not read to its end.
struct Untold(Option<Counter>);

impl Drop for Untold {
    fn drop(&mut self) {
        if let Some(counter) = self.0.take() {
            counter.reloaded(Err(RunError::Unread));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The router would else take a reload for still running, and never do another.
    #[test]
    fn a_reload_that_panics_is_told_of() {
        let (desk, counter) = pair().unwrap();
        let reader = std::thread::spawn(move || counter.read(|| panic!("a defect")));
        assert!(reader.join().is_err());
        let told: Vec<_> = desk.requests().collect();
        assert!(
            matches!(told.as_slice(), [Request::Reloaded(result)]
                if matches!(**result, Err(RunError::Unread))),
            "{told:?}"
        );
    }
}
