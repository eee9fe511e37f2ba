//! Where the polls of a connection handle wait.

use super::shared::{Awaited, Shared};
use super::waiters::Place;
use pathmark_transport::streams::Dir;

/// The places of one handle that polls, with one place for each event it can wait for. The handle
/// gives them back when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) accept: [Place; 2],
    pub(super) open: [Place; 2],
    pub(super) datagram: Place,
}

impl Places {
    pub(super) fn of(pair: &mut [Place; 2], dir: Dir) -> &mut Place {
        let [bi, uni] = pair;
        match dir {
            Dir::Bi => bi,
            Dir::Uni => uni,
        }
    }

    fn is_empty(&self) -> bool {
        let mut streams = self.accept.iter().chain(&self.open);
        self.datagram.is_empty() && streams.all(Place::is_empty)
    }

    /// Gives back all places.
    pub(super) fn leave(&mut self, shared: &Shared) {
        if self.is_empty() {
            return;
        }
        let mut state = shared.lock();
        state.leave(Awaited::Datagram, &mut self.datagram);
        for dir in [Dir::Bi, Dir::Uni] {
            state.leave(Awaited::Accept(dir), Self::of(&mut self.accept, dir));
            state.leave(Awaited::Open(dir), Self::of(&mut self.open, dir));
        }
    }
}
