//! VCP, the Variable-structure congestion Control Protocol: two bits of load per packet.
//!
//! A router marks whether its load is below 80 %, below 100 % or above; a sender responds with
//! multiplicative increase (MI), additive increase (AI) or multiplicative decrease (MD).
//!
//! ```text
//!   link.rs    load.rs: ρ = (λ + κ·q) / (γ·C·t_ρ)  ─►  LOW │ HIGH │ OVER  ─►  packet
//!                                                                          │
//!   sender.rs  steering.rs: MI │ AI │ MD  ◄── scale.rs: ε, α per round trip ◄─┘ (counted by the receiver)
//!              ruler.rs, ../hidden: or CUBIC, where no router answers for the path
//! ```
//!
//! Sources: Xia, Subramanian, Stoica, Kalyanaraman, "One More Bit Is Enough" (SIGCOMM 2005); the
//! VCP extensions paper (Ikeda et al.), eq. 1–6; the VCP Linux paper (Li, Yousefi'zadeh).

mod ai;
mod delivered;
mod granted_start;
mod guests;
mod interval;
mod link;
mod load;
mod params;
mod phase;
mod published;
mod rule;
mod ruler;
mod scale;
mod sender;
mod shares;
mod steering;
mod window;

#[cfg(test)]
mod link_tests;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod sender_tests;
#[cfg(test)]
mod tests;

pub use link::VcpLink;
pub use load::Load;
pub(crate) use params::PPM;
pub use params::{AiBase, AiGrowth, Carrier, Interval, QueueFilter, VcpLinkParams, VcpParams};
pub(crate) use published::{PublishedLoss, PublishedVcp};
pub use rule::{LinkRule, Mark, Plain};
pub(crate) use ruler::{Change, Ruler};
pub(crate) use scale::ln_gain;
pub use sender::VcpSender;
