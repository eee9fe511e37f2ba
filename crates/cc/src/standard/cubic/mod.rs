//! CUBIC (RFC 9438): the window is a cubic function of the time since the last cut, so that it
//! remains near the size at which the last loss occurred for a while, and then grows ever faster.
//!
//! The window rule is [`Cubic`]. Slow start and its early end are implemented by
//! [HyStart++](super::slow_start::HyStart), recovery periods and undoing spurious losses by
//! [`LossBased`]. All values are integers in bytes and microseconds.

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
    /// CUBIC with HyStart++ for datagrams of `mtu` bytes, with an initial window of `initial`
    /// packets.
    pub fn cubic(mtu: u16, initial: Option<u32>) -> Self {
        Self::new(mtu, initial, Cubic::default(), HyStart::default())
    }
}
