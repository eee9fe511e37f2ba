//! Start rules: how a loss-based window grows before its first cut.

mod hystart;
mod limited;
#[cfg(test)]
mod tests;

pub use hystart::HyStart;
pub(crate) use limited::{Limited, MAX_SSTHRESH};

use super::loss_based::{Growth, StartRule};
use crate::law::Acked;

/// Slow start that ends only with a loss, or HyStart++, which can end earlier.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one per connection, where it is used"
)]
pub(crate) enum Ending {
    Loss(SlowStart),
    Early(HyStart),
}

impl Ending {
    pub(crate) fn new(early: bool) -> Self {
        if early {
            Self::Early(HyStart::default())
        } else {
            Self::Loss(SlowStart)
        }
    }
}

impl StartRule for Ending {
    fn on_ack(&mut self, acked: &Acked, last_sent: u64) -> Growth {
        match self {
            Self::Loss(rule) => rule.on_ack(acked, last_sent),
            Self::Early(rule) => rule.on_ack(acked, last_sent),
        }
    }
}

/// Slow start as in RFC 9002 §7.3.1: the window grows by the acknowledged bytes, until a loss.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlowStart;

impl StartRule for SlowStart {
    fn on_ack(&mut self, acked: &Acked, _last_sent: u64) -> Growth {
        Growth::plain(acked.bytes)
    }
}
