//! Errors of the client's transfers.

use std::io;

use http::StatusCode;

use crate::root::KeepError;
use crate::wire::LinkError;

/// A response without a success status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server refused with status {status}{}", reason(*.status, .detail))]
pub struct Refusal {
    /// The status code.
    pub status: StatusCode,
    /// The problem details, or else the status code's phrase. Control characters are replaced.
    pub detail: String,
}

/// Formats the details after a status, without repeating its phrase.
fn reason(status: StatusCode, detail: &str) -> String {
    let phrase = status.canonical_reason().unwrap_or_default();
    match detail.strip_prefix(phrase) {
        Some(rest) if rest.is_empty() || rest.starts_with(';') => rest.to_owned(),
        _ => format!(": {detail}"),
    }
}

/// The reason why a file was not fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GetError {
    /// The stream or connection failed, and nothing is kept.
    #[error("{0}")]
    Link(#[from] LinkError),
    /// The stream or connection failed, but the next attempt can resume after the bytes that are
    /// kept.
    #[error("{0}; the bytes that arrived are kept, and the next attempt resumes there")]
    Kept(#[source] LinkError),
    /// The server refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The path or target cannot be used in a request or a file system.
    #[error("{0}")]
    Name(String),
    /// The response doesn't match the request.
    #[error("the server's response is not usable: {0}")]
    Response(&'static str),
    /// The server gave up because the file changed.
    #[error("the file changed while it was sent; fetch it again")]
    Changed,
    /// The length of the file differs from the listing.
    #[error("the file has another length than the server listed; fetch it again")]
    Unlisted,
    /// The directory is larger than allowed.
    #[error(transparent)]
    TooMany(#[from] super::walk::TooMany),
    /// The content ended early. The part that arrived is kept.
    #[error("the server ended the content after {received} of {announced} bytes; try again")]
    Short {
        /// Bytes received.
        received: u64,
        /// Bytes that the server announced.
        announced: u64,
    },
    /// The content doesn't match the server's digest, so it was removed.
    #[error("the content's SHA-256 is not the one that the server announced; fetch it again")]
    Digest,
    /// Another transfer writes to the same target.
    #[error("another transfer is writing the file; wait for its end, or choose another directory")]
    Busy,
    /// The file could not be renamed to its target.
    #[error(transparent)]
    Keep(#[from] KeepError),
    /// Access to the local disk failed.
    #[error("cannot write the file: {0}")]
    Storage(#[from] io::Error),
}

/// The reason why a file was not stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PutError {
    /// The stream or connection failed.
    #[error("the transfer broke off: {0}")]
    Link(#[from] LinkError),
    /// The server refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The path cannot be used in a request.
    #[error("{0}")]
    Name(String),
    /// The source is not a regular file.
    #[error("the source is a directory, a device, a socket or a pipe; only files can be sent")]
    Source,
    /// The operating system does not report the source's size.
    #[error("the system does not say how many bytes the source has; copy it, and send the copy")]
    Endless,
    /// The server's files could not be listed.
    #[error("cannot see what the server has: {0}")]
    Listing(String),
    /// The server does not store symbolic links.
    #[error("the server keeps no symbolic links")]
    NoLinks,
    /// The directory is larger than allowed.
    #[error(transparent)]
    TooMany(#[from] super::walk::TooMany),
    /// The source was modified during the transfer.
    #[error("the source changed while it was sent, and nothing was stored; send it again")]
    Changed,
    /// The source was truncated during the transfer.
    #[error("the source became shorter while it was sent, and nothing was stored; send it again")]
    Shorter,
    /// The server announced the digest of different content.
    #[error("the server stored content with another SHA-256; send the file again")]
    Digest,
    /// Access to the local disk failed.
    #[error("cannot read the file: {0}")]
    Storage(#[from] io::Error),
}
