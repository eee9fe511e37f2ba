//! What a link may do to packets besides carrying them: lose, delay, shuffle.

mod loss;
mod random;
mod wire;

pub use loss::{GilbertElliott, Loss, Probability};
pub use random::Random;
pub use wire::{Jitter, Wire, WireConfig};
