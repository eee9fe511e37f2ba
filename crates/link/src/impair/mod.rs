//! Impairments of a link: loss, delay, and reordering.

mod bits;
mod code;
mod fading;
mod loss;
mod probability;
mod random;
mod timed;

pub use bits::{BitErrors, BitRates};
pub use code::{Code, Redundancy, Short};
pub use fading::{Antennas, bit_error_rate};
pub use loss::{GilbertElliott, Loss};
pub use probability::Probability;
pub use random::Random;
pub use timed::TimedGilbertElliott;
