//! Whether the window bounded the sender, for the controller (RFC 9002 §7.8).

/// What bounded the sender since it last could send.
///
/// ACKs often come in batches: several are read before anything is sent. Each of them then concerns
/// the same window in use, so the answer stands until the sender has had its turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowUse {
    limited: bool,
    /// An ACK has taken the report; what comes next is about the time after it.
    reported: bool,
}

impl WindowUse {
    /// The window, or its pacer, bounds the sender.
    #[inline]
    pub(super) const fn limited(&mut self) {
        self.limited = true;
        self.reported = false;
    }

    /// Something else does.
    #[inline]
    pub(super) const fn otherwise(&mut self) {
        if self.reported {
            *self = Self {
                limited: false,
                reported: false,
            };
        }
    }

    /// For an ACK: true if the window did at some point since the sender last had its turn.
    #[inline]
    pub(super) const fn report(&mut self) -> bool {
        self.reported = true;
        self.limited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stands_until_the_sender_had_its_turn() {
        let mut used = WindowUse::default();
        assert!(!used.report());
        used.limited();
        // The window was full at some point, whatever came after.
        used.otherwise();
        assert!(used.report());
        // A second ACK of the same batch.
        assert!(used.report());
        used.otherwise();
        assert!(!used.report());
        used.limited();
        assert!(used.report());
    }
}
