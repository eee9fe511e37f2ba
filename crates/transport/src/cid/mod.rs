//! Connection ids issued by this endpoint and by the peer (RFC 9000 §5.1).
//!
//! The peer's packets are addressed with [`LocalIds`], and this side's with [`RemoteIds`]. Both
//! types also store the frames about these ids that must be sent. Their memory is bounded
//! regardless of the peer's behavior.

mod local;
mod remote;

#[cfg(test)]
mod local_tests;
#[cfg(test)]
mod remote_tests;

pub(crate) use local::fresh_id;
pub use local::{Issued, LocalIds, MAX_LOCAL};
pub use remote::{RemoteId, RemoteIds};

/// Length of the connection ids that this endpoint issues, bytes. Eight bytes make guessing an
/// id infeasible, and prevent collisions between endpoints behind one address.
pub const LOCAL_ID_LEN: usize = 8;
