//! The second question: whether the flow may keep its grant.
//!
//! A port grants all that is free to the first flow that asks. Of flows that begin together that is
//! one. So a sender whose law would take long to give back the excess asks again with the first
//! packet of its flight, a round trip later, when the port knows which other flows asked. Routers
//! lower the rate or leave it; without an answer it stays.

use super::question::Question;
use crate::base::ablate::{Mechanism, without};
use crate::signals::QuickStartRequest;

/// The second question.
#[derive(Clone, Copy, Debug)]
pub(super) enum ConfirmQuestion {
    /// There is none.
    No,
    /// A packet of the flight is to ask.
    Due,
    /// A packet with the question is being built.
    Asking(QuickStartRequest),
    Asked(Question),
}

impl ConfirmQuestion {
    /// True if the next packet may ask.
    pub(super) fn asks(&self) -> bool {
        matches!(self, Self::Due | Self::Asking(_)) && !without(Mechanism::Keep)
    }
}
