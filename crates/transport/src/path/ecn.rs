//! ECN counting and validation (RFC 9000 §13.4, Appendix A.4).

use crate::{Duration, Ecn, Instant, wire::frame::EcnCounts};

/// The receiver's counts of one packet number space.
#[derive(Clone, Copy, Debug, Default)]
pub struct EcnReceived {
    counts: EcnCounts,
}

impl EcnReceived {
    /// Counts a packet that was decrypted for the first time. Duplicates don't count.
    pub const fn on_packet(&mut self, ecn: Ecn) {
        match ecn {
            Ecn::NotEct => {}
            Ecn::Ect0 => self.counts.ect0 += 1,
            Ecn::Ect1 => self.counts.ect1 += 1,
            Ecn::Ce => self.counts.ce += 1,
        }
    }

    /// Creates counts with `each` packets of every mark.
    #[cfg(test)]
    pub(crate) fn with_counts(each: u64) -> Self {
        let counts = EcnCounts {
            ect0: each,
            ect1: each,
            ce: each,
        };
        Self { counts }
    }

    /// Returns the counts to report, or `None` while no packet has carried a mark.
    pub fn counts(&self) -> Option<EcnCounts> {
        (self.counts != EcnCounts::default()).then_some(self.counts)
    }
}

/// Why packets on a path are no longer marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EcnFailure {
    /// The peer doesn't report counts: it can't read the field, or the path cleared it from the
    /// start.
    #[error("no ECN counts for marked packets")]
    Missing,
    /// Fewer marks than packets arrived, so the path clears the field.
    #[error("ECN marks are cleared on the path")]
    Bleached,
    /// Marks arrived that weren't sent.
    #[error("ECN marks are rewritten on the path")]
    Remarked,
    /// A count decreased.
    #[error("ECN counts run backwards")]
    Backwards,
    /// Marked packets don't arrive, although others do, so the path drops them.
    #[error("packets with ECN marks are dropped on the path")]
    Dropped,
    /// Every marked packet is marked CE, however little is sent.
    #[error("every packet with an ECN mark is marked CE on the path")]
    AllCe,
}

/// State of validation (RFC 9000 Appendix A.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnState {
    /// Packets are never marked, because [`TransportConfig::ecn`](crate::TransportConfig::ecn) is
    /// false.
    Off,
    /// The first packets are sent with marks.
    Testing,
    /// Packets aren't marked until the fate of those already marked is known, because enough were
    /// sent for the test or because three consecutive probe timeouts passed without an
    /// acknowledgement.
    Unknown,
    /// Marks survive on the path.
    Capable,
    /// Marks don't survive. Occasionally, one packet is sent with a mark as a test.
    Failed(EcnFailure),
}

impl EcnState {
    /// Returns the state in a word, for reports and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Testing => "testing",
            Self::Unknown => "unknown",
            Self::Capable => "capable",
            Self::Failed(EcnFailure::Missing) => "missing",
            Self::Failed(EcnFailure::Bleached) => "bleached",
            Self::Failed(EcnFailure::Remarked) => "remarked",
            Self::Failed(EcnFailure::Backwards) => "backwards",
            Self::Failed(EcnFailure::Dropped) => "dropped",
            Self::Failed(EcnFailure::AllCe) => "all-ce",
        }
    }
}

/// Number of packets sent with marks before the first acknowledgement.
const TEST_PACKETS: u64 = 10;
/// Number of consecutive probe timeouts, without an acknowledgement, after which marks may be the
/// cause.
const SILENT_TIMEOUTS: u32 = 3;
/// If this many consecutive marked packets, over this many round trips, are all returned with CE,
/// this isn't a sign of congestion, because a window that is reduced eight times by 30 % is at 6 %.
const CE_PACKETS: u64 = 64;
const CE_ROUNDS: u32 = 8;
/// Time until marks are first tried again, as on a plain path. Each failure doubles it.
const FIRST_RETRY: Duration = Duration::from_secs(30);
const LONGEST_RETRY: Duration = Duration::from_secs(600);

/// State of a packet that tests whether marks survive now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trial {
    None,
    /// The next packet will be the trial.
    Due,
    /// The trial was sent.
    Out,
}

/// Consecutive marked packets that were all returned with CE.
#[derive(Clone, Copy, Debug)]
struct CeRun {
    packets: u64,
    rounds: u32,
    /// The round ends when this packet or a later one is acknowledged.
    round_ends: u64,
}

impl CeRun {
    const NONE: Self = Self {
        packets: 0,
        rounds: 0,
        round_ends: 0,
    };
}

/// The marks that an ACK frame reports. Only a frame that increased the largest acknowledged number
/// is evaluated, because others may be reordered.
#[derive(Clone, Copy, Debug)]
pub struct EcnAck {
    /// Newly acknowledged packets of this path that were sent with ECT(0).
    pub ect0: u64,
    /// The same for ECT(1).
    pub ect1: u64,
    /// The counts that the frame reports.
    pub counts: Option<EcnCounts>,
    /// The largest acknowledged number.
    pub largest: u64,
    /// The number of the next packet.
    pub next: u64,
}

/// The sender's validation of one path, which continues as long as marks are sent (RFC 9000
/// §13.4.2).
///
/// Counts are per packet number space. The spaces of the handshake can share one value only if
/// their counts are summed, so you should mark only 1-RTT packets or keep one value for each space.
#[derive(Clone, Debug)]
pub struct EcnValidation {
    state: EcnState,
    mark: Ecn,
    /// Packets sent with a mark on all paths, because the peer counts them together.
    sent: u64,
    /// Packets sent with a mark on this path.
    tested: u64,
    /// Packets of this path, from number `since` on, that haven't been acknowledged yet.
    open: u64,
    since: u64,
    /// The number after the last packet.
    next: u64,
    /// Whether one of those packets was acknowledged.
    acked: bool,
    counts: EcnCounts,
    ce: CeRun,
    trial: Trial,
    retry: Duration,
    retry_at: Option<Instant>,
}

impl EcnValidation {
    /// Begins to test a path with `mark`, which is ECT(0) or ECT(1). With [`Ecn::NotEct`], packets
    /// are never marked.
    pub const fn new(mark: Ecn) -> Self {
        Self {
            state: match mark {
                Ecn::NotEct => EcnState::Off,
                _ => EcnState::Testing,
            },
            mark,
            sent: 0,
            tested: 0,
            open: 0,
            since: 0,
            next: 0,
            acked: false,
            counts: EcnCounts {
                ect0: 0,
                ect1: 0,
                ce: 0,
            },
            ce: CeRun::NONE,
            trial: Trial::None,
            retry: FIRST_RETRY,
            retry_at: None,
        }
    }

    /// Continues the counts of the previous path, because the connection changes to this one and
    /// the peer doesn't reset its counts. Results for this path remain valid.
    pub const fn follow(&mut self, before: &Self) {
        self.sent = before.sent;
        self.counts = before.counts;
    }

    /// Forgets outstanding marks, because their fates won't be reported. If a test has no result
    /// yet, its marks are sent again.
    pub const fn test_again(&mut self) {
        self.forget_open();
        if matches!(self.state, EcnState::Testing | EcnState::Unknown) {
            self.state = EcnState::Testing;
            self.tested = 0;
        }
        if matches!(self.trial, Trial::Out) {
            self.trial = Trial::Due;
        }
    }

    const fn forget_open(&mut self) {
        self.open = 0;
        self.since = self.next;
        self.acked = false;
    }

    /// Returns the codepoint of the next ack-eliciting packet. Other packets aren't marked (as in
    /// RFC 3168 §6.1.4), because nothing would show if the path dropped them.
    pub const fn mark(&self) -> Ecn {
        match self.state {
            EcnState::Testing | EcnState::Capable => self.mark,
            EcnState::Failed(_) if matches!(self.trial, Trial::Due) => self.mark,
            EcnState::Off | EcnState::Unknown | EcnState::Failed(_) => Ecn::NotEct,
        }
    }

    /// Returns the state of validation.
    pub const fn state(&self) -> EcnState {
        self.state
    }

    /// Makes the next packet try marks again if it is time. Call this before sending data.
    pub fn poll(&mut self, now: Instant) {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            self.trial = Trial::Due;
        }
    }

    /// Returns true if the next marked packet is a trial. It then shouldn't have anything but the
    /// mark that could make it fail.
    pub const fn is_tried(&self) -> bool {
        matches!(self.trial, Trial::Due)
    }

    /// Records that the ack-eliciting packet `number` was sent with `mark`.
    pub fn on_sent(&mut self, number: u64, mark: Ecn) {
        self.next = number + 1;
        if mark == Ecn::NotEct {
            return;
        }
        self.sent += 1;
        self.tested += 1;
        self.open += 1;
        if self.is_tried() {
            self.trial = Trial::Out;
        }
        if self.state == EcnState::Testing && self.tested >= TEST_PACKETS {
            self.state = EcnState::Unknown;
        }
    }

    /// Processes the acknowledgement of packet `number`, which was sent with `mark`.
    pub fn on_acked(&mut self, number: u64, mark: Ecn) {
        if mark != Ecn::NotEct && number >= self.since {
            self.open = self.open.saturating_sub(1);
            self.acked = true;
            self.test_on();
        }
    }

    /// Repeats the test once no more marks are outstanding and some packet arrived. This isn't a
    /// result yet, unless the ACK frame reports counts.
    fn test_on(&mut self) {
        if self.open > 0 {
            return;
        }
        if self.state == EcnState::Unknown {
            self.state = EcnState::Testing;
            self.tested = 0;
        }
        if self.trial == Trial::Out {
            self.trial = Trial::Due;
        }
    }

    /// Processes the loss of packet `number`, which was sent with `mark`. If all packets of the
    /// test or the trial are lost, the path drops marked packets (RFC 9000 §13.4.2.2).
    pub fn on_lost(&mut self, now: Instant, number: u64, mark: Ecn) {
        if mark == Ecn::NotEct || number < self.since {
            return;
        }
        self.open = self.open.saturating_sub(1);
        let awaited = self.state == EcnState::Unknown || self.trial == Trial::Out;
        if !awaited || self.open > 0 {
            return;
        }
        if self.acked {
            self.test_on();
        } else {
            self.fail(now, EcnFailure::Dropped);
        }
    }

    /// Processes the `count`th consecutive probe timeout. From the third on, packets are sent
    /// without marks until the fate of those with marks is known.
    pub fn on_probe_timeout(&mut self, count: u32) {
        let marks = matches!(self.state, EcnState::Testing | EcnState::Capable);
        if count >= SILENT_TIMEOUTS && marks && self.open > 0 {
            self.state = EcnState::Unknown;
            self.acked = false;
        }
    }

    /// Processes an ACK frame. Returns the number of new CE marks, or 0 if validation fails or has
    /// failed.
    pub fn on_ack(&mut self, now: Instant, ack: &EcnAck) -> u64 {
        let marked = ack.ect0 + ack.ect1 > 0;
        let tried = self.trial != Trial::None && marked;
        if matches!(self.state, EcnState::Failed(_)) && !tried {
            // The counts are needed by the next path.
            self.counts = ack.counts.unwrap_or(self.counts);
            return 0;
        }
        let Some(counts) = ack.counts else {
            if marked {
                self.fail(now, EcnFailure::Missing);
            }
            return 0;
        };
        let checked = self.check(ack.ect0, ack.ect1, counts);
        let intact = counts.ect0 > self.counts.ect0 || counts.ect1 > self.counts.ect1;
        if checked.is_ok() || tried {
            self.counts = counts;
        }
        let ce = match checked {
            Ok(ce) => ce,
            Err(failure) => {
                self.fail(now, failure);
                return 0;
            }
        };
        let all = self.run_of_ce(ack, ce, intact);
        let again = tried && !intact && self.state == EcnState::Failed(EcnFailure::AllCe);
        if all || again {
            self.fail(now, EcnFailure::AllCe);
            return 0;
        }
        if marked {
            self.acked = true;
            self.trial = Trial::None;
            self.state = EcnState::Capable;
        }
        ce
    }

    /// Returns true if a run of CE has both [`CE_PACKETS`] and [`CE_ROUNDS`].
    fn run_of_ce(&mut self, ack: &EcnAck, ce: u64, intact: bool) -> bool {
        if intact {
            self.ce = CeRun::NONE;
        } else if ce > 0 {
            self.ce.packets = self.ce.packets.saturating_add(ce);
            if ack.largest >= self.ce.round_ends {
                self.ce.rounds += 1;
                self.ce.round_ends = ack.next;
            }
        }
        self.ce.packets >= CE_PACKETS && self.ce.rounds >= CE_ROUNDS
    }

    fn fail(&mut self, now: Instant, failure: EcnFailure) {
        // [9000 13.4.2.2 disable]
        self.state = EcnState::Failed(failure);
        self.forget_open();
        self.ce = CeRun::NONE;
        self.trial = Trial::None;
        self.retry_at = Some(now + self.retry);
        self.retry = (self.retry * 2).min(LONGEST_RETRY);
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
#[path = "ecn_tests.rs"]
mod tests;
