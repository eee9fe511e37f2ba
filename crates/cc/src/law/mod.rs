//! Traits of control laws: the sender's part, the port's part, and the reaction to losses.

mod controller;
mod link;
mod loss_rule;
mod passive;

pub use controller::{Acked, Controller, Limit, Limits, Lost, PacketState, Sent, UNPACED};
pub use link::LinkController;
pub use loss_rule::{Halving, LossRule, LossView, Verdict};
pub use passive::Passive;
