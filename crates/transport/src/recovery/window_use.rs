//! Whether the window limited the sender, for the controller (RFC 9002 §7.8).

/// The limits that applied since the sender was last able to send.
///
/// ACKs often arrive in batches that are read before anything is sent. Each ACK of a batch then
/// concerns the same use of the window, so the answer remains valid until the sender has had
/// its turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowUse {
    limited: bool,
    /// An ACK has read the report, so the next record starts a new period.
    reported: bool,
}

impl WindowUse {
    /// Records that the window or its pacer limits the sender.
    #[inline]
    pub(super) const fn limited(&mut self) {
        self.limited = true;
        self.reported = false;
    }

    #[inline]
    pub(super) const fn otherwise(&mut self) {
        if self.reported {
            *self = Self {
                limited: false,
                reported: false,
            };
        }
    }

    /// Returns, for an ACK, whether the window limited the sender since it last had its turn.
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
        // The window was full at some point, regardless of later events.
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
