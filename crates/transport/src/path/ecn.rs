//! ECN counting and validation (RFC 9000 §13.4, Appendix A.4).

use crate::{Ecn, wire::frame::EcnCounts};

/// The receiver's counts of one packet number space.
#[derive(Clone, Copy, Debug, Default)]
pub struct EcnReceived {
    counts: EcnCounts,
}

impl EcnReceived {
    /// A packet opened for the first time (duplicates do not count).
    #[inline]
    pub const fn on_packet(&mut self, ecn: Ecn) {
        match ecn {
            Ecn::NotEct => {}
            Ecn::Ect0 => self.counts.ect0 += 1,
            Ecn::Ect1 => self.counts.ect1 += 1,
            Ecn::Ce => self.counts.ce += 1,
        }
    }

    /// `each` packets of every mark.
    #[cfg(test)]
    pub(crate) fn with_counts(each: u64) -> Self {
        let counts = EcnCounts {
            ect0: each,
            ect1: each,
            ce: each,
        };
        Self { counts }
    }

    /// What to report; `None` while no packet carried a mark.
    #[must_use]
    #[inline]
    pub fn counts(&self) -> Option<EcnCounts> {
        (self.counts != EcnCounts::default()).then_some(self.counts)
    }
}

/// Why a path gets no ECN marks any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EcnFailure {
    /// The peer reports no counts: it cannot read the field, or the path cleared it from the start.
    #[error("no ECN counts for marked packets")]
    Missing,
    /// Fewer marks arrived than packets: the path clears the field.
    #[error("ECN marks are cleared on the path")]
    Bleached,
    /// Marks arrived that nobody sent.
    #[error("ECN marks are rewritten on the path")]
    Remarked,
    /// Counts ran backwards.
    #[error("ECN counts run backwards")]
    Backwards,
    /// None of the first marked packets arrived: the path drops them.
    #[error("packets with ECN marks are dropped on the path")]
    Dropped,
}

/// Where validation stands (RFC 9000 Appendix A.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnState {
    /// The first packets are sent with marks.
    Testing,
    /// Enough were sent; their acknowledgement is awaited, without marks.
    Unknown,
    /// Marks survive.
    Capable,
    /// They do not.
    Failed(EcnFailure),
}

/// Packets sent with marks before the first acknowledgement.
const TEST_PACKETS: u64 = 10;

/// The sender's validation of one path. Counts are per packet number space; the spaces of the
/// handshake may share one value only if their counts are summed, so mark 1-RTT packets alone or
/// keep one value for each space.
#[derive(Clone, Debug)]
pub struct EcnValidation {
    state: EcnState,
    mark: Ecn,
    /// Packets that left with a mark, on all paths: so the peer counts.
    sent: u64,
    /// Those of this path.
    tested: u64,
    lost: u64,
    acked: bool,
    counts: EcnCounts,
}

impl EcnValidation {
    /// Begins to test a path with `mark`, ECT(0) or ECT(1). [`Ecn::NotEct`] never marks.
    #[must_use]
    pub const fn new(mark: Ecn) -> Self {
        Self {
            state: EcnState::Testing,
            mark,
            sent: 0,
            tested: 0,
            lost: 0,
            acked: false,
            counts: EcnCounts {
                ect0: 0,
                ect1: 0,
                ce: 0,
            },
        }
    }

    /// The connection changes from the path of `before` to this one. The peer goes on counting;
    /// what this path has shown so far stands.
    pub const fn follow(&mut self, before: &Self) {
        self.sent = before.sent;
        self.counts = before.counts;
    }

    /// Nobody will be told what becomes of the marks under way: those of a test that has no result
    /// yet are sent again.
    pub const fn test_again(&mut self) {
        if matches!(self.state, EcnState::Testing | EcnState::Unknown) {
            self.state = EcnState::Testing;
            self.tested = 0;
            self.lost = 0;
        }
    }

    /// The codepoint of the next packet.
    #[must_use]
    #[inline]
    pub const fn mark(&self) -> Ecn {
        match self.state {
            EcnState::Testing | EcnState::Capable => self.mark,
            EcnState::Unknown | EcnState::Failed(_) => Ecn::NotEct,
        }
    }

    /// Where validation stands.
    #[must_use]
    pub const fn state(&self) -> EcnState {
        self.state
    }

    /// A packet left with `mark`.
    #[inline]
    pub fn on_sent(&mut self, mark: Ecn) {
        if mark == Ecn::NotEct {
            return;
        }
        self.sent += 1;
        self.tested += 1;
        if self.state == EcnState::Testing && self.tested >= TEST_PACKETS {
            self.state = EcnState::Unknown;
        }
    }

    /// A packet that left with a mark was lost. If all of the test packets are, the path drops them
    /// (RFC 9000 §13.4.2.2).
    pub fn on_lost(&mut self, mark: Ecn) {
        if mark == Ecn::NotEct || self.acked {
            return;
        }
        self.lost += 1;
        if self.state == EcnState::Unknown && self.lost >= self.tested {
            self.state = EcnState::Failed(EcnFailure::Dropped);
        }
    }

    /// An ACK frame that raised the largest acknowledged number (others may be reordered and are
    /// not to be judged) newly acknowledged `ect0` and `ect1` packets of this path that were sent
    /// with these marks, and reports `counts`. Returns the new CE marks; 0 when validation fails or
    /// has failed.
    pub fn on_ack(&mut self, ect0: u64, ect1: u64, counts: Option<EcnCounts>) -> u64 {
        if matches!(self.state, EcnState::Failed(_)) {
            // For the next path.
            self.counts = counts.unwrap_or(self.counts);
            return 0;
        }
        let Some(counts) = counts else {
            if ect0 + ect1 > 0 {
                self.state = EcnState::Failed(EcnFailure::Missing);
            }
            return 0;
        };
        match self.check(ect0, ect1, counts) {
            Ok(ce) => {
                self.counts = counts;
                if ect0 + ect1 > 0 {
                    self.acked = true;
                    self.state = EcnState::Capable;
                }
                ce
            }
            Err(failure) => {
                self.state = EcnState::Failed(failure);
                0
            }
        }
    }

    fn check(&self, ect0: u64, ect1: u64, new: EcnCounts) -> Result<u64, EcnFailure> {
        let rise = |new: u64, old: u64| new.checked_sub(old).ok_or(EcnFailure::Backwards);
        let up0 = rise(new.ect0, self.counts.ect0)?;
        let up1 = rise(new.ect1, self.counts.ect1)?;
        let ce = rise(new.ce, self.counts.ce)?;
        let (sent0, sent1) = match self.mark {
            Ecn::Ect0 => (self.sent, 0),
            Ecn::Ect1 => (0, self.sent),
            Ecn::NotEct | Ecn::Ce => (0, 0),
        };
        let total = new.ect0.saturating_add(new.ect1).saturating_add(new.ce);
        if new.ect0 > sent0 || new.ect1 > sent1 || total > self.sent {
            return Err(EcnFailure::Remarked);
        }
        if up0.saturating_add(ce) < ect0 || up1.saturating_add(ce) < ect1 {
            return Err(EcnFailure::Bleached);
        }
        Ok(ce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn counts(ect0: u64, ect1: u64, ce: u64) -> Option<EcnCounts> {
        Some(EcnCounts { ect0, ect1, ce })
    }

    fn tested(packets: u64) -> EcnValidation {
        let mut v = EcnValidation::new(Ecn::Ect0);
        for _ in 0..packets {
            let mark = v.mark();
            v.on_sent(mark);
        }
        v
    }

    #[test]
    fn marks_that_survive() {
        let mut v = tested(12);
        assert_eq!((v.state(), v.mark()), (EcnState::Unknown, Ecn::NotEct));
        assert_eq!(v.on_ack(4, 0, counts(4, 0, 0)), 0);
        assert_eq!((v.state(), v.mark()), (EcnState::Capable, Ecn::Ect0));
        assert_eq!(v.on_ack(6, 0, counts(7, 0, 3)), 3);
        // An ACK got lost: counts rise by more than this one acknowledges.
        v.on_sent(Ecn::Ect0);
        v.on_sent(Ecn::Ect0);
        assert_eq!(v.on_ack(1, 0, counts(8, 0, 4)), 1);
        assert_eq!(v.state(), EcnState::Capable);
        let mut received = EcnReceived::default();
        assert_eq!(received.counts(), None);
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ce, Ecn::Ect0, Ecn::Ect1] {
            received.on_packet(ecn);
        }
        assert_eq!(received.counts(), counts(2, 1, 1));
    }

    #[test]
    fn paths_that_meddle() {
        let fails = |ect0, reported, failure| {
            let mut v = tested(10);
            assert_eq!(v.on_ack(ect0, 0, reported), 0);
            assert_eq!(
                (v.state(), v.mark()),
                (EcnState::Failed(failure), Ecn::NotEct)
            );
            assert_eq!(v.on_ack(1, 0, counts(100, 0, 100)), 0);
        };
        fails(4, None, EcnFailure::Missing);
        fails(4, counts(3, 0, 0), EcnFailure::Bleached);
        fails(4, counts(0, 4, 0), EcnFailure::Remarked);
        fails(4, counts(11, 0, 0), EcnFailure::Remarked);
        fails(4, counts(5, 0, 6), EcnFailure::Remarked);
        let mut v = tested(10);
        v.on_ack(5, 0, counts(5, 0, 0));
        v.on_ack(1, 0, counts(4, 0, 2));
        assert_eq!(v.state(), EcnState::Failed(EcnFailure::Backwards));
    }

    #[test]
    fn counts_go_on_over_a_change_of_path() {
        let mut old = tested(12);
        old.on_ack(8, 0, counts(7, 0, 1));
        let mut new = EcnValidation::new(Ecn::Ect0);
        new.follow(&old);
        for _ in 0..10 {
            assert_eq!(new.mark(), Ecn::Ect0);
            new.on_sent(Ecn::Ect0);
        }
        assert_eq!(new.state(), EcnState::Unknown);
        // Two of the old path's arrive late, beside three of the new one's.
        assert_eq!(new.on_ack(3, 0, counts(11, 0, 2)), 1);
        assert_eq!(new.state(), EcnState::Capable);

        // A path that failed counts on for the next.
        let mut failed = tested(10);
        failed.on_ack(10, 0, counts(0, 10, 0));
        failed.on_ack(0, 0, counts(0, 10, 0));
        let mut new = EcnValidation::new(Ecn::Ect0);
        new.follow(&failed);
        new.on_sent(Ecn::Ect0);
        assert_eq!(new.on_ack(1, 0, counts(0, 11, 0)), 0);
        assert!(matches!(new.state(), EcnState::Failed(_)));
    }

    #[test]
    fn a_path_that_drops_marked_packets() {
        let mut v = tested(10);
        for _ in 0..9 {
            v.on_lost(Ecn::Ect0);
        }
        v.on_lost(Ecn::NotEct);
        assert_eq!(v.state(), EcnState::Unknown);
        v.on_lost(Ecn::Ect0);
        assert_eq!(v.state(), EcnState::Failed(EcnFailure::Dropped));
    }

    /// The same with the other codepoint.
    #[test]
    fn paths_are_validated_with_either_codepoint() {
        let sent = || {
            let mut v = EcnValidation::new(Ecn::Ect1);
            for _ in 0..12 {
                let mark = v.mark();
                v.on_sent(mark);
            }
            assert_eq!(v.state(), EcnState::Unknown);
            v
        };
        for (reported, state) in [
            (counts(0, 4, 0), EcnState::Capable),
            (counts(0, 1, 3), EcnState::Capable),
            (None, EcnState::Failed(EcnFailure::Missing)),
            (counts(0, 3, 0), EcnState::Failed(EcnFailure::Bleached)),
            (counts(4, 0, 0), EcnState::Failed(EcnFailure::Remarked)),
        ] {
            let mut v = sent();
            v.on_ack(0, 4, reported);
            assert_eq!(v.state(), state, "{reported:?}");
        }
    }

    /// RFC 9000 §A.4: a path is capable once a marked packet of it was acknowledged, and not by
    /// counts of the path before.
    #[test]
    fn acknowledgements_of_other_packets_validate_nothing() {
        let mut old = tested(12);
        old.on_ack(8, 0, counts(8, 0, 0));
        let mut new = EcnValidation::new(Ecn::Ect0);
        new.follow(&old);
        for _ in 0..10 {
            new.on_sent(Ecn::Ect0);
        }
        assert_eq!(new.on_ack(0, 0, counts(9, 0, 1)), 1);
        assert_eq!(new.on_ack(0, 0, None), 0);
        assert_eq!(new.state(), EcnState::Unknown);
        // So its marks may still turn out to be dropped.
        for _ in 0..10 {
            new.on_lost(Ecn::Ect0);
        }
        assert_eq!(new.state(), EcnState::Failed(EcnFailure::Dropped));
    }
}
