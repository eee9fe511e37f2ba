//! How much room flow control, send buffer and application leave for the window during a round
//! trip.

use crate::law::Limits;

/// How far the window may exceed the room (as a part of the room), so that the room and not the
/// window is the limit.
const SLACK: u64 = 16;
/// Room that grew by more than this part of itself in a round trip is still growing.
const GROWS: u64 = 8;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    limits: Limits,
    /// The largest room in the current round trip (`most`) and in the previous one (`before`).
    most: u64,
    before: u64,
}

impl Room {
    pub(crate) const fn new() -> Self {
        Self {
            limits: Limits::NONE,
            most: 0,
            before: 0,
        }
    }

    pub(crate) fn set(&mut self, limits: &Limits) {
        self.limits = *limits;
        self.most = self.most.max(limits.least());
    }

    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The largest window that is currently useful.
    #[inline]
    pub(crate) fn largest(&self) -> u64 {
        let least = self.limits.least();
        least.saturating_add(least / SLACK)
    }

    /// Ends a round trip. Returns `Some` with a bound for the window if the room is not growing.
    pub(crate) fn turn(&mut self) -> Option<u64> {
        let least = self.limits.least();
        let most = core::mem::replace(&mut self.most, least);
        let before = core::mem::replace(&mut self.before, most);
        let stands = most > 0 && most <= before.saturating_add(before / GROWS);
        stands.then(|| most.saturating_add(most / SLACK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(bytes: u64) -> Limits {
        Limits {
            peer: bytes,
            ..Limits::NONE
        }
    }

    #[test]
    fn room_that_grows_is_no_bound_and_room_that_stands_is() {
        let mut room = Room::new();
        assert_eq!(room.largest(), u64::MAX);
        room.set(&peer(64_000));
        assert_eq!(room.largest(), 68_000);
        assert_eq!(room.turn(), None, "seen for the first time");
        room.set(&peer(64_000));
        assert_eq!(room.turn(), Some(68_000));
        room.set(&peer(640_000));
        assert_eq!(room.turn(), None);
        room.set(&peer(640_000));
        room.set(&peer(320_000));
        assert_eq!(room.turn(), Some(680_000));
    }
}
