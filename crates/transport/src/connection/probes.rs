//! Packets that must be sent after a probe timeout, regardless of the window.

use crate::wire::SpaceId;

/// The spaces in which a probe is due, and the space of the last timeout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probes {
    due: [bool; 3],
    /// The space of the last probe timeout.
    space: SpaceId,
    /// Whether the next probe in this space is the second one.
    second: bool,
}

impl Probes {
    /// Creates a state without due probes.
    pub(super) const fn new() -> Self {
        Self {
            due: [false; 3],
            space: SpaceId::Initial,
            second: false,
        }
    }

    /// Returns true if a probe is due in any space.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.due != [false; 3]
    }

    /// Returns true if a probe is due in `space`.
    #[inline]
    pub(super) const fn is_due(&self, space: SpaceId) -> bool {
        let [initial, handshake, data] = self.due;
        match space {
            SpaceId::Initial => initial,
            SpaceId::Handshake => handshake,
            SpaceId::Data => data,
        }
    }

    /// Returns which of the two probes is due, 0 or 1, if any.
    #[inline]
    pub(super) fn index(&self, space: SpaceId) -> Option<u8> {
        self.is_due(space)
            .then(|| u8::from(self.second && self.space == space))
    }

    /// Makes the first probe due after a probe timeout in `space`.
    pub(super) const fn on_timeout(&mut self, space: SpaceId) {
        self.set(space, true);
        self.space = space;
        self.second = false;
    }

    /// Makes the second probe due in `space`. This may only differ from the space of the timeout
    /// during a handshake; otherwise, this does nothing and returns false.
    pub(super) fn on_second(&mut self, space: SpaceId) -> bool {
        let same = self.space == space;
        if space == SpaceId::Data && !same {
            return false;
        }
        self.set(space, true);
        self.second = same;
        true
    }

    /// Makes another probe due, in the same datagram as the second one.
    pub(super) const fn add(&mut self, space: SpaceId) {
        self.set(space, true);
    }

    /// Clears the probe of `space`, because it was sent or isn't needed.
    #[inline]
    pub(super) const fn clear(&mut self, space: SpaceId) {
        self.set(space, false);
    }

    /// Clears all probes, because the peer has answered.
    pub(super) const fn clear_all(&mut self) {
        self.due = [false; 3];
    }

    #[inline]
    const fn set(&mut self, space: SpaceId, due: bool) {
        let [initial, handshake, data] = &mut self.due;
        *match space {
            SpaceId::Initial => initial,
            SpaceId::Handshake => handshake,
            SpaceId::Data => data,
        } = due;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_asks_for_a_probe_and_then_for_another() {
        let mut probes = Probes::new();
        assert!(!probes.any());
        probes.on_timeout(SpaceId::Data);
        assert!(probes.any() && probes.is_due(SpaceId::Data));
        assert_eq!(probes.index(SpaceId::Data), Some(0));
        assert_eq!(probes.index(SpaceId::Handshake), None);
        probes.clear(SpaceId::Data);
        assert_eq!(probes.index(SpaceId::Data), None);
        assert!(!probes.any());
        assert!(probes.on_second(SpaceId::Data));
        assert_eq!(probes.index(SpaceId::Data), Some(1));
        probes.clear_all();
        assert!(!probes.any());
        // The next timeout begins again.
        probes.on_timeout(SpaceId::Data);
        assert_eq!(probes.index(SpaceId::Data), Some(0));
    }

    /// The space of the probes may change between the two, as the handshake progresses.
    #[test]
    fn a_second_probe_of_another_space_is_its_first() {
        let mut probes = Probes::new();
        probes.on_timeout(SpaceId::Initial);
        probes.clear(SpaceId::Initial);
        assert!(!probes.on_second(SpaceId::Data));
        assert!(!probes.any());
        assert!(probes.on_second(SpaceId::Handshake));
        assert_eq!(probes.index(SpaceId::Handshake), Some(0));
        probes.clear(SpaceId::Handshake);
        assert!(probes.on_second(SpaceId::Initial));
        probes.add(SpaceId::Handshake);
        assert_eq!(probes.index(SpaceId::Initial), Some(1));
        assert_eq!(probes.index(SpaceId::Handshake), Some(0));
    }
}
