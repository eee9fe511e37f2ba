//! Second questions, which ask whether the flow may keep its grant.
//!
//! A port grants all that is free to the first flow that asks, even if several flows begin
//! together. If its law would take long to give back the excess, the sender therefore asks again
//! with the first packet of its flight, a round trip later, when the port knows which other flows
//! have asked. Routers lower the rate or leave it unchanged. Without an answer, the flow keeps it.

use super::question::Question;
use crate::base::ablate::{Mechanism, without};
use crate::signals::QuickStartRequest;

#[derive(Clone, Copy, Debug)]
pub(super) enum ConfirmQuestion {
    No,
    /// The next packet of the flight may ask.
    Due,
    Asking(QuickStartRequest),
    Asked(Question),
}

impl ConfirmQuestion {
    /// Returns true if the next packet may ask.
    pub(super) fn asks(&self) -> bool {
        matches!(self, Self::Due | Self::Asking(_)) && !without(Mechanism::Keep)
    }
}
