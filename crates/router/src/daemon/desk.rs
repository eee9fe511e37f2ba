//! Where the thread that talks to clients asks the one that moves packets.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;

use super::assemble::Plan;
use super::query::Hint;
use super::run::RunError;
use super::snapshot::Snapshot;

/// How long the thread that moves packets may take for an answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the thread that moves packets is asked to do.
#[derive(Debug)]
pub(super) enum Request {
    /// To say how things are.
    Snapshot(SyncSender<Snapshot>),
    /// To tell a port of a capacity, and whether there is such a port.
    Capacity(Hint, SyncSender<bool>),
    /// To put a configuration in force, or to say why there is none.
    Reloaded(Box<Result<Plan, RunError>>),
}

/// The side of the thread that moves packets: requests, and a descriptor that becomes readable with
/// each.
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
}

/// Both sides.
pub(super) fn pair() -> io::Result<(Desk, Counter)> {
    let (bell, ringer) = UnixStream::pair()?;
    bell.set_nonblocking(true)?;
    ringer.set_nonblocking(true)?;
    let (desk, requests) = mpsc::sync_channel(4);
    Ok((Desk { requests, bell }, Counter { desk, ringer }))
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
}

impl Counter {
    /// The same for another thread.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            desk: self.desk.clone(),
            ringer: self.ringer.try_clone()?,
        })
    }

    /// Hands over what became of a configuration.
    pub(super) fn reloaded(&self, result: Result<Plan, RunError>) {
        // No one to hand it to: the router has stopped.
        if self.desk.send(Request::Reloaded(Box::new(result))).is_ok() {
            let _ = (&self.ringer).write(&[1]);
        }
    }

    /// `None`: no answer in time, or never.
    fn ask<T>(&self, request: impl FnOnce(SyncSender<T>) -> Request) -> Option<T> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.desk.try_send(request(reply)).ok()?;
        // A bell that cannot be rung any more has been rung often enough.
        let _ = (&self.ringer).write(&[1]);
        answer.recv_timeout(PATIENCE).ok()
    }

    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        self.ask(Request::Snapshot)
    }

    /// True if there is a port of this name.
    pub(super) fn capacity(&self, hint: Hint) -> Option<bool> {
        self.ask(|reply| Request::Capacity(hint, reply))
    }
}
