//! An origin server for a directory's files.

mod grant;
mod intake;
mod read;
mod send;
mod serve;
mod shared;
mod upload;
mod uploads;
mod write;

pub use grant::{End, Grant, Idle, Quota, Record, Steward, Tunnelling};
pub use serve::Origin;
pub use shared::{Counts, Limits};
pub use uploads::UploadLimits;
