//! Waits for interfaces with epoll, so that the cost of idle ones does not grow with their
//! number.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use pathmark_cc::Duration;

use super::sys;

/// Maximum number of descriptors reported at once; the next turns report the others.
const EVENTS: usize = 64;
/// Marks descriptors that are not interfaces.
const WATCHED: u64 = 1 << 63;

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ready {
    /// The interface of this port.
    Port(usize),
    /// The watched descriptor with this index.
    Watched(usize),
}

/// A set of descriptors to wait for.
#[derive(Debug)]
pub(super) struct Poller {
    set: OwnedFd,
    watched: Vec<RawFd>,
    events: Vec<libc::epoll_event>,
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            set: sys::epoll()?,
            watched: Vec::new(),
            events: Vec::with_capacity(EVENTS),
        })
    }

    /// Adds the interface of `port`.
    pub(super) fn add(&self, port: usize, fd: RawFd) -> io::Result<()> {
        sys::epoll_add(self.set.as_raw_fd(), fd, port as u64)
    }

    /// Removes a descriptor. If it was not in the set, nothing happens.
    pub(super) fn remove(&self, fd: RawFd) {
        let _ = sys::epoll_remove(self.set.as_raw_fd(), fd);
    }

    /// Waits for these descriptors besides interfaces, replacing the previous ones. A descriptor
    /// must be replaced before it is closed, since another one may get its number.
    pub(super) fn watch(&mut self, watched: &[RawFd]) -> io::Result<()> {
        if self.watched == watched {
            return Ok(());
        }
        for fd in std::mem::take(&mut self.watched) {
            self.remove(fd);
        }
        for (index, fd) in watched.iter().enumerate() {
            sys::epoll_add(self.set.as_raw_fd(), *fd, WATCHED | index as u64)?;
        }
        self.watched = watched.to_vec();
        Ok(())
    }

    /// Waits until a descriptor is ready, or `timeout` has passed (`None`: forever).
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        sys::epoll_wait(self.set.as_raw_fd(), &mut self.events, timeout)
    }

    /// The results of the last wait.
    pub(super) fn ready(&self) -> impl Iterator<Item = Ready> + '_ {
        self.events.iter().map(|event| {
            let token = event.u64;
            let index = usize::try_from(token & !WATCHED).unwrap_or(usize::MAX);
            match token & WATCHED {
                0 => Ready::Port(index),
                _ => Ready::Watched(index),
            }
        })
    }

    /// The result with this index, for callers that make changes meanwhile.
    pub(super) fn nth(&self, index: usize) -> Option<Ready> {
        self.ready().nth(index)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Only the ready ones of 1,000 descriptors are reported.
    #[test]
    fn only_ready_descriptors_are_reported() {
        let mut poller = Poller::new().unwrap();
        let pairs: Vec<_> = (0..1_000).map(|_| UnixStream::pair().unwrap()).collect();
        for (port, (end, _)) in pairs.iter().enumerate() {
            poller.add(port, end.as_raw_fd()).unwrap();
        }
        let (wake_fd, mut waker) = UnixStream::pair().unwrap();
        poller.watch(&[wake_fd.as_raw_fd()]).unwrap();
        poller.wait(Some(Duration::ZERO)).unwrap();
        assert_eq!(poller.nth(0), None);
        (&pairs[7].1).write_all(&[1]).unwrap();
        (&pairs[900].1).write_all(&[1]).unwrap();
        waker.write_all(&[1]).unwrap();
        poller.wait(None).unwrap();
        let mut ready: Vec<_> = poller.ready().collect();
        ready.sort_by_key(|ready| format!("{ready:?}"));
        assert_eq!(ready, [Ready::Port(7), Ready::Port(900), Ready::Watched(0)]);
        poller.remove(pairs[7].0.as_raw_fd());
        poller.watch(&[]).unwrap();
        poller.wait(None).unwrap();
        assert_eq!(poller.ready().collect::<Vec<_>>(), [Ready::Port(900)]);
    }
}
