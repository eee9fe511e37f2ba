//! Packets that a probe timeout asks for, whatever the window is.

use crate::wire::SpaceId;

/// Which spaces owe a probe, and which one the last timeout was of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probes {
    due: [bool; 3],
    /// The space of the last probe timeout.
    space: SpaceId,
    /// Its second probe is the next to leave there.
    second: bool,
}

impl Probes {
    /// None is due.
    pub(super) const fn new() -> Self {
        Self {
            due: [false; 3],
            space: SpaceId::Initial,
            second: false,
        }
    }

    /// True if one is due in any space.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.due != [false; 3]
    }

    /// True if one is due in `space`.
    #[inline]
    pub(super) const fn is_due(&self, space: SpaceId) -> bool {
        let [initial, handshake, data] = self.due;
        match space {
            SpaceId::Initial => initial,
            SpaceId::Handshake => handshake,
            SpaceId::Data => data,
        }
    }

    /// Which of two probes is to leave, if one is: 0 or 1.
    #[inline]
    pub(super) fn index(&self, space: SpaceId) -> Option<u8> {
        self.is_due(space)
            .then(|| u8::from(self.second && self.space == space))
    }

    /// A probe timeout of `space`: its first probe is due.
    pub(super) const fn on_timeout(&mut self, space: SpaceId) {
        self.set(space, true);
        self.space = space;
        self.second = false;
    }

    /// The second probe is due, in `space`: if that is not the one of the timeout, in a handshake
    /// alone. False: it is not.
    pub(super) fn on_second(&mut self, space: SpaceId) -> bool {
        let same = self.space == space;
        if space == SpaceId::Data && !same {
            return false;
        }
        self.set(space, true);
        self.second = same;
        true
    }

    /// One more is due, in the same datagram as the second.
    pub(super) const fn add(&mut self, space: SpaceId) {
        self.set(space, true);
    }

    /// It left, or none is due there after all.
    #[inline]
    pub(super) const fn clear(&mut self, space: SpaceId) {
        self.set(space, false);
    }

    /// An answer came: none is wanted.
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

    /// The space that probes are of may change between the two, as the handshake goes on.
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
