//! What a link may do to packets besides carrying them: lose, delay, shuffle.

mod bits;
mod code;
mod fading;
mod loss;
mod random;
mod timed;
mod wire;

pub use bits::{BitErrors, BitRates};
pub use code::{Code, Redundancy, Short};
pub use fading::{Antennas, bit_error_rate};
pub use loss::{GilbertElliott, Loss, Probability};
pub use random::Random;
pub use timed::TimedGilbertElliott;
pub use wire::{Jitter, Wire, WireConfig};
