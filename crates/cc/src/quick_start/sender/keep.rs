//! The second question: whether what was granted may be kept.
//!
//! A port grants all that is free to whoever asks first. Of flows that begin together that is one.
//! So a sender whose law would take long to give back what is not its share asks again with the
//! first packet of its flight, a round trip later, when the port knows who else asked. Routers
//! lower the rate or leave it; no answer means that it stays.

use super::question::Question;
use crate::signals::QuickStartRequest;

/// The second question.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keep {
    /// There is none.
    No,
    /// A packet of the flight is to ask.
    Due,
    /// Says so to a packet that is being built.
    Asking(QuickStartRequest),
    Asked(Question),
}

impl Keep {
    /// True if the next packet may ask.
    pub(super) const fn asks(&self) -> bool {
        matches!(self, Self::Due | Self::Asking(_))
    }
}
