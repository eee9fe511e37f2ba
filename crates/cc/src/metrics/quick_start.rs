//! Report about a connection's questions for a starting rate.

/// Results of a connection's questions for a starting rate so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuickStartMetrics {
    /// Questions sent.
    pub asked: u64,
    /// Rate requested by the last question, in bytes of IP packets per second.
    pub wanted: u64,
    /// Part of this rate that was approved and used; 0 if nothing was.
    pub granted: u64,
    /// Answers that approved a rate.
    pub approved: u64,
    /// Questions that were denied or not answered.
    pub denied: u64,
    /// Questions among these that were repeated because their packet was lost.
    pub repeated: u64,
    /// Answers that arrived too late, or answered an earlier question or none at all.
    pub late: u64,
    /// Answers that approved more than was requested.
    pub above: u64,
    /// Answers from a path on which not every hop participated, or whose receiver can't determine
    /// this.
    pub partial: u64,
    /// Answers with a wrong nonce. After receiving one, the connection never asks again.
    pub forged: u64,
    /// Grants abandoned because of a loss.
    pub revoked: u64,
    /// Grants partially withdrawn by routers in favour of others who asked.
    pub lowered: u64,
    /// Result of the last question.
    pub outcome: QuickStartOutcome,
}

/// Result of a question for a starting rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuickStartOutcome {
    /// There wasn't any question.
    #[default]
    Unasked,
    /// The answer hasn't arrived yet.
    Waiting,
    /// A router denied the question, or its packet was lost.
    Denied,
    /// No answer arrived in time.
    Unanswered,
    /// Not every hop participated, or the receiver can't determine this.
    Partial,
    /// The answer approved more than was requested, arrived too late, or had a wrong nonce.
    Refused,
    /// A rate was approved but not used, because the window is equally large without it, the first
    /// packets were lost, or nothing was sent in time.
    Unused,
    /// A rate was approved and used.
    Used,
    /// The rate was used, but routers later withdrew a part in favour of others who asked.
    Lowered,
    /// The rate was abandoned because of a loss.
    Revoked,
}

impl QuickStartOutcome {
    /// Returns the name used in JSON and for people.
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
