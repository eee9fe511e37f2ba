//! Connection ids: the ones that this endpoint issues and the ones that the peer issued (RFC 9000
//! §5.1).
//!
//! [`LocalIds`] are those that the peer puts on its packets, [`RemoteIds`] those that this side
//! puts on its own. Both hold what must be sent about them until it is sent, and both are bounded
//! whatever the peer does.

mod local;
mod remote;

#[cfg(test)]
mod local_tests;
#[cfg(test)]
mod remote_tests;

pub(crate) use local::fresh_id;
pub use local::{Issued, LocalIds, MAX_LOCAL};
pub use remote::{RemoteId, RemoteIds};

/// Length of the connection ids that this endpoint issues, bytes: enough that guessing one is
/// hopeless and that two endpoints behind one address do not collide.
pub const LOCAL_ID_LEN: usize = 8;
