//! An origin server for a directory's files.

mod grant;
mod intake;
mod places;
mod read;
mod send;
mod serve;
mod shared;
mod upload;
mod uploads;
mod write;

pub use grant::{Grant, Quota};
pub use serve::{End, Idle, Origin, Record, Steward, Tunnelling};
pub use shared::{Counts, Limits};
pub use uploads::UploadLimits;
