//! CUBIC (RFC 9438): the window follows a cubic function of the time since the last cut, so that it
//! lingers where the last loss was and leaves that plateau ever faster.
//!
//! The window rule is [`Cubic`]; slow start and its early end are
//! [HyStart++](super::slow_start::HyStart), recovery periods and the way back from spurious losses
//! are [`LossBased`]'s. Everything is in bytes and microseconds, in integers.

mod curve;
mod params;
mod rule;

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;

pub(crate) use params::{BETA_2008_PPM, BETA_PPM};
pub use rule::Cubic;

use super::loss_based::LossBased;
use super::slow_start::HyStart;

/// The controller `cubic`.
pub type CubicController = LossBased<Cubic, HyStart>;

impl CubicController {
    /// CUBIC with HyStart++ over datagrams of `mtu` bytes, `initial` packets of them first.
    pub fn cubic(mtu: u16, initial: Option<u32>) -> Self {
        Self::new(mtu, initial, Cubic::default(), HyStart::default())
    }
}
