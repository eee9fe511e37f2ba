//! How a transfer of the client fails.

use std::io;

use http::StatusCode;

use crate::root::KeepError;
use crate::wire::LinkError;

/// A response that is no success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server refused with status {status}{}", reason(*.status, .detail))]
pub struct Refusal {
    /// Its status code.
    pub status: StatusCode,
    /// Its problem details, or the status code's phrase. Control characters are replaced.
    pub detail: String,
}

/// Details behind a status, which has its phrase already.
fn reason(status: StatusCode, detail: &str) -> String {
    let phrase = status.canonical_reason().unwrap_or_default();
    match detail.strip_prefix(phrase) {
        Some(rest) if rest.is_empty() || rest.starts_with(';') => rest.to_owned(),
        _ => format!(": {detail}"),
    }
}

/// Why a file was not fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GetError {
    /// The stream or connection failed, and nothing is kept.
    #[error("{0}")]
    Link(#[from] LinkError),
    /// The same once bytes had arrived that the next attempt does not fetch again.
    #[error("{0}; the bytes that arrived are kept, and the next attempt resumes there")]
    Kept(#[source] LinkError),
    /// The server refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The path or the target has no form that a request or a file system takes.
    #[error("{0}")]
    Name(String),
    /// The response is no answer to the request.
    #[error("the server's response is not usable: {0}")]
    Response(&'static str),
    /// The server gave up because the file changed.
    #[error("the file changed while it was sent; fetch it again")]
    Changed,
    /// The file has another length than in the listing.
    #[error("the file has another length than the server listed; fetch it again")]
    Unlisted,
    /// The server lists without end.
    #[error(transparent)]
    TooMany(#[from] super::walk::TooMany),
    /// The content ended early. The part that arrived is kept.
    #[error("the server ended the content after {received} of {announced} bytes; try again")]
    Short {
        /// Bytes that arrived.
        received: u64,
        /// Bytes that the server announced.
        announced: u64,
    },
    /// The content is not the one that the server's digest is of. It is removed.
    #[error("the content's SHA-256 is not the one that the server announced; fetch it again")]
    Digest,
    /// Another transfer writes to the same target.
    #[error("another transfer is writing the file; wait for its end, or choose another directory")]
    Busy,
    /// The file did not get its name.
    #[error(transparent)]
    Keep(#[from] KeepError),
    /// A failure of the local disk.
    #[error("cannot write the file: {0}")]
    Storage(#[from] io::Error),
}

/// Why a file was not stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PutError {
    /// The stream or connection failed.
    #[error("the transfer broke off: {0}")]
    Link(#[from] LinkError),
    /// The server refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The path has no form that a request takes.
    #[error("{0}")]
    Name(String),
    /// The source is no regular file.
    #[error("the source is a directory, a device, a socket or a pipe; only files can be sent")]
    Source,
    /// The system does not say how many bytes the source has.
    #[error("the system does not say how many bytes the source has; copy it, and send the copy")]
    Endless,
    /// The server could not be asked what it has.
    #[error("cannot see what the server has: {0}")]
    Listing(String),
    /// The server stores no symbolic links.
    #[error("the server keeps no symbolic links")]
    NoLinks,
    /// The directory is larger than allowed.
    #[error(transparent)]
    TooMany(#[from] super::walk::TooMany),
    /// The source was written to meanwhile.
    #[error("the source changed while it was sent, and nothing was stored; send it again")]
    Changed,
    /// The source lost bytes meanwhile.
    #[error("the source became shorter while it was sent, and nothing was stored; send it again")]
    Shorter,
    /// The server stored something else.
    #[error("the server stored content with another SHA-256; send the file again")]
    Digest,
    /// A failure of the local disk.
    #[error("cannot read the file: {0}")]
    Storage(#[from] io::Error),
}
