//! Interprets responses to a GET, given the part on disk, as pure functions.

use std::io;

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::fields::{AttributesField, ContentRange, EntityTag, Sha256Digest};
use crate::plan::{ATTRIBUTES, digest_in, lines};
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
    TooMany(#[from] TooMany),
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
    /// The disk has no room for the file.
    #[error(
        "the file needs {needed} bytes, and the disk has {free} bytes free; free space there, or \
         choose another directory"
    )]
    Full {
        /// Bytes that are still to be written.
        needed: u64,
        /// Free bytes.
        free: u64,
    },
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
    TooMany(#[from] TooMany),
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

/// A directory has more entries than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the directory has more than {0} entries; take its directories one by one")]
pub struct TooMany(pub usize);

/// The part of a version that is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) bytes: u64,
    pub(super) tag: EntityTag,
}

/// The content that a response carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arriving {
    /// The position of the first byte in the file.
    pub(super) first: u64,
    /// The number of bytes, if it is announced.
    pub(super) length: Option<u64>,
    /// A strong tag of the version, so that a later request can resume.
    pub(super) tag: Option<EntityTag>,
    /// The digest of the whole file, unless it is in the trailer section.
    pub(super) digest: Option<Sha256Digest>,
    /// The bytes of the whole file that aren't holes, if it is sparse.
    pub(super) data: Option<u64>,
}

/// The next step after a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Write the content to the file.
    Take(Arriving),
    /// Discard the part and request the whole file.
    Again,
    /// Report a refusal, whose content may explain the reason.
    Refused,
    /// Fail, because the response violates a rule.
    Broken(&'static str),
}

/// Chooses the next step after a request for the whole file, or for everything after `part`.
pub(super) fn decide(status: StatusCode, headers: &HeaderMap, part: Option<&Part>) -> Step {
    match (status, part) {
        (StatusCode::OK, _) => take_whole(headers),
        (StatusCode::PARTIAL_CONTENT, Some(part)) => {
            take_rest(headers, part).map_or(Step::Again, Step::Take)
        }
        (StatusCode::PARTIAL_CONTENT, None) => Step::Broken("it is a part, and none was requested"),
        (StatusCode::RANGE_NOT_SATISFIABLE | StatusCode::PRECONDITION_FAILED, Some(_)) => {
            Step::Again
        }
        (status, _) if status.is_success() => Step::Broken("its status has no content to store"),
        _ => Step::Refused,
    }
}

fn take_whole(headers: &HeaderMap) -> Step {
    let length = match content_length(headers) {
        Ok(length) => length,
        Err(why) => return Step::Broken(why),
    };
    take(headers, 0, length)
}

/// Returns the rest of the version of which `part` is on disk, or `None` if the response has
/// anything else. Then only the whole file helps, however often this range is requested.
fn take_rest(headers: &HeaderMap, part: &Part) -> Option<Arriving> {
    let mut ranges = lines(headers, &CONTENT_RANGE);
    let range = ranges.next().and_then(ContentRange::parse);
    let Some(ContentRange::Part(span, size)) = range else {
        return None;
    };
    // If-Range ensures the same version, and a 206 response must name it (RFC 9110 section 15.3.7).
    let is_same = tag(headers).is_some_and(|tag| tag.matches_strongly(&part.tag));
    if ranges.next().is_some() || span.first != part.bytes || !is_same {
        return None;
    }
    let is_whole = match size {
        Some(size) => span.end() == size,
        // Without a size or a digest, a missing end would go unnoticed.
        None => matches!(digest_in(headers), Ok(Some(_))),
    };
    let length = content_length(headers).ok()?;
    let fits = length.is_none_or(|length| length == span.length);
    match take(headers, span.first, Some(span.length)) {
        Step::Take(arriving) if is_whole && fits => Some(arriving),
        _ => None,
    }
}

fn take(headers: &HeaderMap, first: u64, length: Option<u64>) -> Step {
    let identity = |line: &[u8]| line.eq_ignore_ascii_case(b"identity");
    if !lines(headers, &CONTENT_ENCODING).all(identity) {
        return Step::Broken("it is compressed, which was not requested");
    }
    match digest_in(headers) {
        Err(_) => Step::Broken("its Repr-Digest does not follow the grammar"),
        Ok(digest) => Step::Take(Arriving {
            first,
            length,
            tag: tag(headers).filter(EntityTag::is_strong),
            digest,
            data: data(headers),
        }),
    }
}

fn data(headers: &HeaderMap) -> Option<u64> {
    AttributesField::parse(lines(headers, &ATTRIBUTES))
        .ok()??
        .data
}

fn tag(headers: &HeaderMap) -> Option<EntityTag> {
    EntityTag::parse(headers.get(ETAG)?.as_bytes())
}

fn content_length(headers: &HeaderMap) -> Result<Option<u64>, &'static str> {
    let mut lengths = lines(headers, &CONTENT_LENGTH);
    let Some(line) = lengths.next() else {
        return Ok(None);
    };
    let digits = !line.is_empty() && line.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(line).ok().filter(|_| digits);
    match text.and_then(|text| text.parse().ok()) {
        Some(length) if lengths.next().is_none() => Ok(Some(length)),
        _ => Err("its Content-Length is not one number"),
    }
}

/// A file that was fetched.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The file's size in bytes.
    pub bytes: u64,
    /// Bytes that an earlier attempt had already fetched.
    pub resumed: u64,
    /// SHA-256 of the file.
    pub sha256: Sha256Digest,
    /// Whether the server announced the same digest.
    pub verified: bool,
    /// The response's header section.
    pub headers: HeaderMap,
    /// The response's trailer section.
    pub trailers: HeaderMap,
}

impl Fetched {
    /// Returns what has arrived, without the header section. Fails if the server has announced
    /// another digest.
    pub(super) fn of(
        arriving: &Arriving,
        bytes: u64,
        hasher: Sha256,
        trailers: Option<HeaderMap>,
    ) -> Result<Self, GetError> {
        let trailers = trailers.unwrap_or_default();
        let trailer = digest_in(&trailers)
            .map_err(|_| GetError::Response("its Repr-Digest does not follow the grammar"))?;
        let sha256: Sha256Digest = hasher.finalize().into();
        let announced = [arriving.digest, trailer];
        if announced.iter().flatten().any(|digest| *digest != sha256) {
            return Err(GetError::Digest);
        }
        Ok(Self {
            bytes,
            resumed: arriving.first,
            sha256,
            verified: announced.iter().any(Option::is_some),
            headers: HeaderMap::new(),
            trailers,
        })
    }
}

/// Builds the refusal for a response with this content.
pub(super) fn refusal(status: StatusCode, headers: &HeaderMap, content: &[u8]) -> Refusal {
    #[derive(Deserialize)]
    struct Problem {
        title: Option<String>,
        detail: Option<String>,
    }
    let problem: Option<Problem> = serde_json::from_slice(content).ok();
    let text = problem.and_then(|problem| problem.detail.or(problem.title));
    let location = headers
        .get(http::header::LOCATION)
        .filter(|_| status.is_redirection());
    let location = location.and_then(|location| location.to_str().ok());
    let phrase = status.canonical_reason().unwrap_or("no reason given");
    let detail = match (text, location) {
        (Some(text), _) => text,
        (None, Some(location)) => format!("{phrase}; the file is at {location}"),
        (None, None) => phrase.to_owned(),
    };
    let visible = |char: char| {
        if char.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            char
        }
    };
    Refusal {
        status,
        detail: detail.chars().map(visible).take(1000).collect(),
    }
}

#[cfg(test)]
mod tests {
    use http::header::HeaderName;

    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = fields
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value);
        }
        headers
    }

    fn part(bytes: u64) -> Part {
        Part {
            bytes,
            tag: EntityTag::parse(b"\"v1\"").unwrap(),
        }
    }

    #[test]
    fn a_part_is_continued_only_by_the_rest_of_its_version() {
        let rest = [("content-range", "bytes 10-99/100"), ("etag", "\"v1\"")];
        let of = |fields: &[(&'static str, &str)]| {
            let fields = headers(fields);
            decide(StatusCode::PARTIAL_CONTENT, &fields, Some(&part(10)))
        };
        let expected = Arriving {
            first: 10,
            length: Some(90),
            tag: Some(part(10).tag),
            digest: None,
            data: None,
        };
        assert_eq!(of(&rest), Step::Take(expected));
        // Whatever else the response has, another try would bring it again.
        let multipart = ("content-type", "multipart/byteranges; boundary=b");
        for fields in [
            &[][..],
            &[multipart],
            &[("content-range", "bytes 0-99/100")],
            &[("content-range", "bytes 10-50/100")],
            &[("content-range", "bytes */100")],
            &[rest[0], ("content-length", "91")],
            &[rest[0], ("content-length", "9x")],
            &[rest[0], ("content-encoding", "gzip")],
            &[rest[0], ("repr-digest", "?")],
            &[rest[0], rest[0]],
        ] {
            let step = of(&[fields, &rest[1..]].concat());
            assert_eq!(step, Step::Again, "{fields:?}");
        }
        for tag in ["\"v2\"", "W/\"v1\"", "v1"] {
            assert_eq!(of(&[rest[0], ("etag", tag)]), Step::Again, "{tag}");
        }
        assert_eq!(of(&rest[..1]), Step::Again, "it does not name its version");
        // A missing end would go unnoticed.
        let open = ("content-range", "bytes 10-50/*");
        assert_eq!(of(&[open, rest[1]]), Step::Again);
        let digest = format!("sha-256=:{}=:", "A".repeat(43));
        let digest = ("repr-digest", digest.as_str());
        assert!(matches!(of(&[open, rest[1], digest]), Step::Take(_)));
        let step = decide(StatusCode::PARTIAL_CONTENT, &headers(&rest), None);
        assert!(matches!(step, Step::Broken(_)));
    }

    #[test]
    fn a_whole_file_takes_the_place_of_a_part() {
        let whole = headers(&[("content-length", "100"), ("etag", "W/\"v2\"")]);
        let Step::Take(arriving) = decide(StatusCode::OK, &whole, Some(&part(10))) else {
            panic!("it is taken");
        };
        let taken = (arriving.first, arriving.length, arriving.tag);
        assert_eq!(taken, (0, Some(100), None));
        for length in ["-1", "", "+5", "1,2", "18446744073709551616"] {
            let fields = headers(&[("content-length", length)]);
            let step = decide(StatusCode::OK, &fields, None);
            assert!(matches!(step, Step::Broken(_)), "{length}");
        }
        let gone = StatusCode::RANGE_NOT_SATISFIABLE;
        for (status, part, expected) in [
            (gone, Some(&part(10)), Step::Again),
            (gone, None, Step::Refused),
            (StatusCode::NOT_FOUND, None, Step::Refused),
        ] {
            assert_eq!(decide(status, &headers(&[]), part), expected, "{status}");
        }
    }

    #[test]
    fn refusals_carry_no_control_characters() {
        let content = br#"{"title":"Not Found","detail":"no \u001b[31mfile"}"#;
        let refused = refusal(StatusCode::NOT_FOUND, &HeaderMap::new(), content);
        assert_eq!(refused.detail, "no \u{fffd}[31mfile");
        let refused = refusal(StatusCode::NOT_FOUND, &HeaderMap::new(), b"<html>");
        assert_eq!(refused.detail, "Not Found");
        let said = "the server refused with status 404 Not Found";
        assert_eq!(refused.to_string(), said);
        let moved = headers(&[("location", "/there/")]);
        let refused = refusal(StatusCode::PERMANENT_REDIRECT, &moved, b"");
        assert_eq!(refused.detail, "Permanent Redirect; the file is at /there/");
    }
}
