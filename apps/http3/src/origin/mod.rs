//! An origin server for a directory's files.

mod clock;
mod counters;
mod digests;
mod entry;
mod fault;
mod grant;
mod intake;
mod list;
mod places;
mod read;
mod send;
mod serve;
mod shared;
mod space;
mod steward;
mod upload;
mod uploads;
mod write;

pub use counters::Counts;
pub use grant::{Grant, Quota};
pub use serve::Origin;
pub use shared::Limits;
pub use steward::{End, Idle, Record, Steward, Tunnelling};
pub use uploads::UploadLimits;
