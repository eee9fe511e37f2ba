//! Plans responses to requests as pure functions, which don't read files or the clock.
//!
//! [`Ask::read`] turns a request's header section into an [`Ask`]. Once the resource is known,
//! [`file()`], [`directory`] and [`before_write`] choose the response, and [`listing`] renders
//! directories.
//!
//! The content of a [`Reply`] is in memory. Errors have problem details (RFC 9457).

mod ask;
pub mod listing;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeMap;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderName, LOCATION};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde::Serialize;

use crate::fields::PathName;

pub use ask::{Ask, Body, Conditions, Method, PutRights, Rules};
pub use read::{FilePlan, HashAt, Piece, directory, file, hash_at};
pub use write::{
    UploadState, before_link, before_write, incomplete, is_inside, options, resumable, stored,
    whole_length, wrong_length, wrong_offset,
};

pub(crate) use ask::{ATTRIBUTES, REPR_DIGEST, WANT_REPR_DIGEST, digest_in, lines, upload_fields};
pub(crate) use write::{
    PARTIAL_UPLOAD, RESUMPTION_SUPPORTED, UPLOAD_COMPLETE, UPLOAD_LENGTH, UPLOAD_OFFSET,
    UPLOAD_VERSION, too_large,
};

/// A response that is completely in memory.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// Its header fields, without Date.
    pub headers: HeaderMap,
    /// Its content.
    pub body: Bytes,
    /// The text of its problem details, or empty without any.
    pub detail: String,
}

/// The members of problem details that this origin uses. The default type is `about:blank`,
/// whose title must be the status code's phrase.
#[derive(Serialize)]
struct Problem<'a> {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(flatten)]
    more: BTreeMap<&'a str, u64>,
}

impl Reply {
    /// Creates a response without content.
    pub fn empty(status: StatusCode) -> Self {
        Self {
            status,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            detail: String::new(),
        }
    }

    /// Adds a field. An invalid value is omitted.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: &str) -> Self {
        set(&mut self.headers, name, value);
        self
    }

    /// Returns the response's header section.
    pub fn head(&self, now: SystemTime) -> Response<()> {
        let mut response = Response::new(());
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        date(response.headers_mut(), now);
        response
    }
}

/// Creates an error response with problem details that name a remedy.
pub fn problem(status: StatusCode, detail: &str) -> Reply {
    let title = status.canonical_reason().unwrap_or("Error");
    typed_problem(status, None, title, detail, &[])
}

/// Does the same with a registered type, its title, and additional members.
pub(super) fn typed_problem(
    status: StatusCode,
    kind: Option<&str>,
    title: &str,
    detail: &str,
    more: &[(&str, u64)],
) -> Reply {
    let problem = Problem {
        kind,
        title,
        status: status.as_u16(),
        detail,
        more: more.iter().copied().collect(),
    };
    let body = serde_json::to_vec(&problem).unwrap_or_default();
    let length = body.len().to_string();
    let mut reply = Reply::empty(status)
        .with(CONTENT_TYPE, "application/problem+json")
        .with(CONTENT_LENGTH, &length);
    reply.body = body.into();
    detail.clone_into(&mut reply.detail);
    reply
}

/// Redirects a directory's name without a slash to the name with a slash, so that relative
/// references in its listing can be resolved.
pub fn redirect_to_directory(path: &PathName) -> Reply {
    let target = PathName {
        names: path.names.clone(),
        slash: true,
    };
    Reply::empty(StatusCode::PERMANENT_REDIRECT)
        .with(LOCATION, &target.encode())
        .with(CONTENT_LENGTH, "0")
}

/// Sets a field. An invalid value is omitted.
pub(super) fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// Sets Date. A time before the epoch can't be represented and is omitted.
pub(super) fn date(headers: &mut HeaderMap, now: SystemTime) {
    if let Some(now) = http_date(now) {
        set(headers, DATE, &now);
    }
}

/// Formats a time for HTTP. Returns `None` outside the years 1970 to 9999.
pub fn http_date(time: SystemTime) -> Option<String> {
    /// Seconds from the epoch to the end of the year 9999.
    const LAST: u64 = 253_402_300_799;
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    (since.as_secs() <= LAST).then(|| httpdate::fmt_http_date(time))
}
