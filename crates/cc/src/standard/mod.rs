//! Laws that do not use feedback from routers: CUBIC, NewReno, BBR, and how they start.

pub(crate) mod bbr;
pub(crate) mod cubic;
pub(crate) mod loss_based;
pub(crate) mod newreno;
pub(crate) mod slow_start;

pub use bbr::Bbr;
pub use cubic::{Cubic, CubicController};
pub use loss_based::{Avoidance, Cause, Growth, LossBased, StartRule};
pub use newreno::{NewReno, Reno};
pub use slow_start::{HyStart, SlowStart};
