//! VCP, the Variable-structure congestion Control Protocol: two bits of load per packet.
//!
//! A router marks whether its load is below 80 %, below 100 %, or above. A sender responds with
//! multiplicative increase (MI), additive increase (AI) or multiplicative decrease (MD).
//!
//! ```text
//!   port/      load.rs: ρ = (λ + κ·q) / (γ·C·t_ρ)  ─►  LOW │ HIGH │ OVER  ─►  packet
//!                                                                          │
//!   sender/    steering.rs: MI │ AI │ MD  ◄── scale.rs: ε, α per round trip ◄─┘ (counted by the receiver)
//!              supervise, bottleneck: or CUBIC, if no router answers for the path
//! ```
//!
//! Sources: Xia, Subramanian, Stoica, Kalyanaraman, "One More Bit Is Enough" (SIGCOMM 2005); the
//! VCP extensions paper (Ikeda et al.), eq. 1–6; the VCP Linux paper (Li, Yousefi'zadeh).

mod bise;
mod load;
mod params;
mod port;
mod scale;
mod sender;
mod wlte;

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;

pub use bise::{Bise, BiseParams, Draw, Marking};
pub use load::{LinkRule, Load, Mark, Plain};
pub use params::{AiGrowth, Interval, QueueFilter, VcpLinkParams, VcpParams};
pub use port::VcpLink;
pub(crate) use sender::{PublishedLoss, PublishedVcp, VcpLaw, VcpSender};
pub use wlte::Wlte;
