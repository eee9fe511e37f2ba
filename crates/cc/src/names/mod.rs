//! Names of laws as people write them: `cubic`, `vcp+bise+wlte[alpha=1,t_rho=200ms]`.
//!
//! [`Algorithm`] names a sender's law, and [`LinkAlgorithm`] a port's. By parsing text, you get
//! either of these or an error that suggests the nearest known word. Both print as the shortest
//! text with the same meaning, and can build the controller.

mod common;
mod error;
mod knob;
mod link;
mod own;
mod register;
mod sender;
mod serves;
mod standard;
mod value;
mod vcp;
mod xcp;

#[cfg(test)]
mod tests;

pub use error::ParseError;
pub use link::LinkAlgorithm;
pub use register::RegisterError;
pub use sender::Algorithm;
