//! The names that people write: `cubic`, `vcp+bise+wlte[alpha=1,t_rho=200ms]`.
//!
//! [`Algorithm`] names a sender's law, [`LinkAlgorithm`] a port's. Both parse from text with errors
//! that name the nearest known word, print back as the shortest text that means the same, and build
//! the controller.

mod auto;
mod common;
mod error;
mod knob;
mod link;
mod own;
mod quick_start;
mod register;
mod sender;
mod serves;
mod value;
mod vcp;
mod xcp;

#[cfg(test)]
mod tests;

pub use error::ParseError;
pub use link::LinkAlgorithm;
pub use register::RegisterError;
pub use sender::Algorithm;
