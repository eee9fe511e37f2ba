//! Plans responses to GET and HEAD.
//!
//! The content of a file is one span, or several as `multipart/byteranges` (RFC 9110 section 14.6).
//! Its media type depends on the filename extension.

use std::time::SystemTime;

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, HeaderName, LAST_MODIFIED, TRAILER, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Response, StatusCode};

use super::ask::{ATTRIBUTES, Ask, Conditions, Method, REPR_DIGEST};
use super::{Reply, date, http_date, listing, problem, set};
use crate::fields::{
    AttributesField, ContentRange, EntityTag, Form, RangeError, Sha256Digest, Span, resolve_ranges,
    sha256_field,
};
use crate::resource::Stat;

/// Maximum size in bytes of a file that is hashed before responding. This way the digest is in
/// the header section, which more clients read than the trailer section.
const SMALL: u64 = 1 << 20;

/// When the digest of a file is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashAt {
    /// Never.
    Never,
    /// Before the response begins.
    Begin,
    /// In the trailer section, unless it is already known.
    End,
}

/// The response to a request for a file.
#[derive(Debug)]
pub struct FilePlan {
    /// Its header section.
    pub head: Response<()>,
    /// Its content.
    pub pieces: Vec<Piece>,
    /// Whether the file's digest follows in the trailer section.
    pub trailer: bool,
}

impl FilePlan {
    /// Returns true if the content is the whole file in order, so that it can be hashed while
    /// sending.
    pub fn is_whole(&self, size: u64) -> bool {
        let all = Span {
            first: 0,
            length: size,
        };
        match self.pieces.as_slice() {
            [] => size == 0,
            [Piece::Span(span)] => *span == all,
            _ => false,
        }
    }
}

/// Returns when the response to `ask` for a file needs its digest.
pub fn hash_at(ask: &Ask, stat: &Stat) -> HashAt {
    match (ask.wants_digest, ask.method) {
        (false, _) => HashAt::Never,
        (true, Method::Head) => HashAt::Begin,
        (true, _) if stat.size <= SMALL => HashAt::Begin,
        (true, _) => HashAt::End,
    }
}

/// Plans the response to a GET or HEAD of a regular file with the metadata `stat` and the
/// `digest`, if it is known.
pub fn file(ask: &Ask, stat: &Stat, now: SystemTime, digest: Option<&Sha256Digest>) -> FilePlan {
    let tag = stat.tag(now);
    let modified = stat.modified.to_system();
    if let Some(status) = fails(&ask.conditions, &tag, modified) {
        return match status {
            StatusCode::NOT_MODIFIED => not_modified(&tag, modified, now),
            status => whole_reply(ask.method, &condition_failed(status), now),
        };
    }
    let honoured = match &ask.if_range {
        None => true,
        Some(wanted) => wanted
            .as_ref()
            .is_some_and(|wanted| wanted.matches_strongly(&tag)),
    };
    let spans = match ask.range.as_ref().filter(|_| honoured) {
        None => None,
        Some(specs) => match resolve_ranges(specs, stat.size) {
            Ok(spans) => Some(spans),
            Err(error) => return whole_reply(ask.method, &refused_range(error, stat), now),
        },
    };
    let mut plan = content(ask, stat, &tag, spans.as_deref());
    let headers = plan.head.headers_mut();
    validators(headers, &tag, modified);
    set(headers, ACCEPT_RANGES, "bytes");
    set(headers, X_CONTENT_TYPE_OPTIONS, "nosniff");
    if stat.taken < stat.size {
        let sparse = AttributesField {
            data: Some(stat.taken),
            ..AttributesField::default()
        };
        set(headers, ATTRIBUTES, &sparse.write());
    }
    date(headers, now);
    match (digest, ask.wants_digest) {
        (Some(digest), true) => set(headers, REPR_DIGEST, &sha256_field(digest)),
        (None, true) if ask.method == Method::Get => {
            set(headers, TRAILER, "Repr-Digest");
            plan.trailer = true;
        }
        _ => {}
    }
    if ask.method == Method::Head {
        plan.pieces.clear();
    }
    plan
}

/// Returns the status and content of a successful response.
fn content(ask: &Ask, stat: &Stat, tag: &EntityTag, spans: Option<&[Span]>) -> FilePlan {
    let media_type = media_type(ask.path.names.last().map_or(&[], Vec::as_slice));
    let mut headers = HeaderMap::new();
    set(&mut headers, CONTENT_TYPE, media_type);
    let (status, pieces) = match spans {
        None => {
            let all = Span {
                first: 0,
                length: stat.size,
            };
            let pieces = if stat.size > 0 {
                vec![Piece::Span(all)]
            } else {
                Vec::new()
            };
            (StatusCode::OK, pieces)
        }
        Some([span]) => {
            let range = ContentRange::Part(*span, Some(stat.size));
            set(&mut headers, CONTENT_RANGE, &range.to_string());
            (StatusCode::PARTIAL_CONTENT, vec![Piece::Span(*span)])
        }
        Some(spans) => {
            let boundary = boundary(tag);
            let multipart = format!("multipart/byteranges; boundary={boundary}");
            set(&mut headers, CONTENT_TYPE, &multipart);
            let pieces = parts(spans, stat.size, media_type, &boundary);
            (StatusCode::PARTIAL_CONTENT, pieces)
        }
    };
    let length: u64 = pieces.iter().map(Piece::length).sum();
    set(&mut headers, CONTENT_LENGTH, &length.to_string());
    let mut head = Response::new(());
    *head.status_mut() = status;
    *head.headers_mut() = headers;
    FilePlan {
        head,
        pieces,
        trailer: false,
    }
}

/// Returns the status of the first failed precondition, in the order of RFC 9110 section 13.2.2.
fn fails(conditions: &Conditions, tag: &EntityTag, modified: SystemTime) -> Option<StatusCode> {
    // Fields only have whole seconds.
    let newer = |than: &SystemTime| {
        let seconds = |time: &SystemTime| {
            let since = time.duration_since(SystemTime::UNIX_EPOCH);
            since.map_or(0, |since| since.as_secs())
        };
        seconds(&modified) > seconds(than)
    };
    match (&conditions.if_match, &conditions.if_unmodified_since) {
        (Some(tags), _) if !tags.holds_strongly(Some(tag)) => {
            return Some(StatusCode::PRECONDITION_FAILED);
        }
        (None, Some(since)) if newer(since) => return Some(StatusCode::PRECONDITION_FAILED),
        _ => {}
    }
    match (&conditions.if_none_match, &conditions.if_modified_since) {
        (Some(tags), _) => tags
            .has_weakly(Some(tag))
            .then_some(StatusCode::NOT_MODIFIED),
        (None, Some(since)) if !newer(since) => Some(StatusCode::NOT_MODIFIED),
        _ => None,
    }
}

fn condition_failed(status: StatusCode) -> Reply {
    problem(
        status,
        "the file is not the version that the request names; fetch the new one",
    )
}

fn refused_range(error: RangeError, stat: &Stat) -> Reply {
    let range = ContentRange::Unsatisfied(stat.size);
    problem(StatusCode::RANGE_NOT_SATISFIABLE, &error.to_string())
        .with(CONTENT_RANGE, &range.to_string())
        .with(ACCEPT_RANGES, "bytes")
}

fn not_modified(tag: &EntityTag, modified: SystemTime, now: SystemTime) -> FilePlan {
    let mut reply = Reply::empty(StatusCode::NOT_MODIFIED);
    validators(&mut reply.headers, tag, modified);
    whole_reply(Method::Get, &reply, now)
}

fn validators(headers: &mut HeaderMap, tag: &EntityTag, modified: SystemTime) {
    set(headers, ETAG, &tag.to_string());
    set(headers, CACHE_CONTROL, "no-cache");
    if let Some(modified) = http_date(modified) {
        set(headers, LAST_MODIFIED, &modified);
    }
}

fn whole_reply(method: Method, reply: &Reply, now: SystemTime) -> FilePlan {
    let body = match method {
        Method::Head => None,
        _ => Some(Piece::Text(reply.body.clone())).filter(|piece| piece.length() > 0),
    };
    FilePlan {
        head: reply.head(now),
        pieces: body.into_iter().collect(),
        trailer: false,
    }
}

/// Returns the header section for a directory's listing, or a failed precondition.
pub fn directory(ask: &Ask) -> Reply {
    // A directory has no validator, so that If-Match only holds for `*`.
    let exists = EntityTag::from_hash(true, &[]);
    if let Some(tags) = &ask.conditions.if_match
        && !tags.holds_strongly(Some(&exists))
    {
        return condition_failed(StatusCode::PRECONDITION_FAILED);
    }
    let media_type = match ask.form {
        Form::Json => "application/json",
        Form::Html => "text/html; charset=utf-8",
    };
    let fields: [(HeaderName, &str); 5] = [
        (CONTENT_TYPE, media_type),
        (VARY, "Accept"),
        (CACHE_CONTROL, "no-cache"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CONTENT_SECURITY_POLICY, listing::POLICY.as_str()),
    ];
    let with = |reply: Reply, (name, value)| reply.with(name, value);
    fields.into_iter().fold(Reply::empty(StatusCode::OK), with)
}

/// A piece of a response's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// These bytes.
    Text(Bytes),
    /// Bytes of the file.
    Span(Span),
}

impl Piece {
    /// Returns the length of the piece in bytes.
    pub fn length(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Span(span) => span.length,
        }
    }
}

/// Returns the boundary between parts. It is derived from the version and has 128 bits, so that
/// the content only contains it by accident.
pub(super) fn boundary(tag: &EntityTag) -> String {
    let opaque = tag.to_string();
    let digits = opaque.chars().filter(char::is_ascii_hexdigit);
    let digits: String = digits.collect();
    format!("pathmark-{digits}")
}

/// Returns the pieces of content with several parts.
pub(super) fn parts(spans: &[Span], size: u64, media_type: &str, boundary: &str) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(2 * spans.len() + 1);
    let mut line_break = "";
    for span in spans {
        let range = ContentRange::Part(*span, Some(size));
        let text = format!(
            "{line_break}--{boundary}\r\nContent-Type: {media_type}\r\n\
             Content-Range: {range}\r\n\r\n"
        );
        pieces.push(Piece::Text(text.into()));
        pieces.push(Piece::Span(*span));
        line_break = "\r\n";
    }
    pieces.push(Piece::Text(format!("\r\n--{boundary}--\r\n").into()));
    pieces
}

/// Returns the media type for `name`, by default arbitrary bytes.
pub(super) fn media_type(name: &[u8]) -> &'static str {
    let dot = name.iter().rposition(|byte| *byte == b'.');
    let ending = dot
        .filter(|dot| *dot > 0)
        .and_then(|dot| name.get(dot + 1..));
    let ending = ending.unwrap_or_default().to_ascii_lowercase();
    match ending.as_slice() {
        b"txt" | b"log" | b"md" | b"csv" | b"toml" | b"yaml" | b"yml" => {
            "text/plain; charset=utf-8"
        }
        b"html" | b"htm" => "text/html; charset=utf-8",
        b"css" => "text/css",
        b"js" | b"mjs" => "text/javascript",
        b"json" => "application/json",
        b"xml" => "application/xml",
        b"pdf" => "application/pdf",
        b"png" => "image/png",
        b"jpg" | b"jpeg" => "image/jpeg",
        b"gif" => "image/gif",
        b"svg" => "image/svg+xml",
        b"webp" => "image/webp",
        b"mp3" => "audio/mpeg",
        b"ogg" => "audio/ogg",
        b"mp4" => "video/mp4",
        b"webm" => "video/webm",
        b"wasm" => "application/wasm",
        b"zip" => "application/zip",
        b"gz" => "application/gzip",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_decide() {
        assert_eq!(media_type(b"a.PNG"), "image/png");
        assert_eq!(media_type(b"a.tar.gz"), "application/gzip");
        for other in [&b"png"[..], b".png", b"a.", b"", b"\xff.\xff"] {
            assert_eq!(media_type(other), "application/octet-stream");
        }
    }
}
