//! A connection's report of its questions for a starting rate.

/// What became of a connection's questions so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuickStartMetrics {
    /// Questions that left.
    pub asked: u64,
    /// The last one's rate, in bytes of IP packets per second.
    pub wanted: u64,
    /// What was approved of it and used; 0: nothing.
    pub granted: u64,
    /// Answers that approved a rate.
    pub approved: u64,
    /// Questions that were denied or not answered.
    pub denied: u64,
    /// Of these, those asked again because their packet was lost.
    pub repeated: u64,
    /// Answers after their time, to an earlier question or to none.
    pub late: u64,
    /// Answers with more than was asked for.
    pub above: u64,
    /// Answers from a path on which not every hop took part, or whose receiver cannot determine it.
    pub partial: u64,
    /// Answers with a wrong nonce. After one, nothing is asked any more.
    pub forged: u64,
    /// Grants that were given up because of a loss.
    pub revoked: u64,
    /// Grants of which routers took a part back, for others who asked.
    pub lowered: u64,
    /// What became of the last question.
    pub outcome: QuickStartOutcome,
}

/// What became of a question for a starting rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuickStartOutcome {
    /// There was none.
    #[default]
    Unasked,
    /// No answer yet.
    Waiting,
    /// A router denied it, or its packet was lost.
    Denied,
    /// No answer came in time.
    Unanswered,
    /// Not every hop took part, or the receiver cannot determine it.
    Partial,
    /// The answer approved more than was asked for, came late, or had a wrong nonce.
    Refused,
    /// Approved, and not used: the window is as large without it, the first packets were lost, or
    /// nothing was sent in time.
    Unused,
    /// Approved and used.
    Used,
    /// Used, and routers took a part back, for others who asked.
    Lowered,
    /// Given up because of a loss.
    Revoked,
}

impl QuickStartOutcome {
    /// As in JSON and for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unasked => "unasked",
            Self::Waiting => "waiting",
            Self::Denied => "denied",
            Self::Unanswered => "unanswered",
            Self::Partial => "partial",
            Self::Refused => "refused",
            Self::Unused => "unused",
            Self::Used => "used",
            Self::Lowered => "lowered",
            Self::Revoked => "revoked",
        }
    }
}
