//! Plans responses to requests as pure functions, which don't read files or the clock.
//!
//! [`Ask::read`] turns a request's header section into an [`Ask`]. Once the resource is known,
//! [`file()`], [`directory`] and [`before_write`] choose the response, and [`listing`] renders
//! directories.

mod ask;
pub mod listing;
mod media;
mod multipart;
mod read;
mod reply;
#[cfg(test)]
mod tests;
mod upload;
mod write;

pub(crate) use ask::{ATTRIBUTES, REPR_DIGEST, WANT_REPR_DIGEST, digest_in, lines, upload_fields};
pub use ask::{Ask, Body, Conditions, Method, PutRights, Rules};
pub use multipart::Piece;
pub use read::{FilePlan, HashAt, directory, file, hash_at};
pub use reply::{Reply, http_date, problem, redirect_to_directory};
pub(crate) use upload::{
    PARTIAL_UPLOAD, RESUMPTION_SUPPORTED, UPLOAD_COMPLETE, UPLOAD_LENGTH, UPLOAD_OFFSET,
    UPLOAD_VERSION,
};
pub use upload::{
    UploadState, incomplete, options, resumable, whole_length, wrong_length, wrong_offset,
};
pub(crate) use write::too_large;
pub use write::{before_link, before_write, is_inside, stored};
