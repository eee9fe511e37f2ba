//! Parses requests before their resource is accessed.

use std::time::SystemTime;

use http::header::{
    ACCEPT, ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, EXPECT, HeaderName, IF_MATCH,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE,
};
use http::{HeaderMap, Request, StatusCode};

use super::{Reply, problem};
use crate::fields::{
    AttributesField, BadField, EntityTag, Form, PathName, RangeSpec, Sha256Digest, TagList,
    UploadFields, parse_range, preferred_form, sha256_digest, sha256_preference, urgency,
};
use crate::resource::Token;

/// Priority (RFC 9218).
const PRIORITY: HeaderName = HeaderName::from_static("priority");
/// The attributes of a file, link or directory to store.
pub(crate) const ATTRIBUTES: HeaderName = HeaderName::from_static("pathmark-attributes");
/// Repr-Digest (RFC 9530).
pub(crate) const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");
/// Want-Repr-Digest (RFC 9530).
pub(crate) const WANT_REPR_DIGEST: HeaderName = HeaderName::from_static("want-repr-digest");

/// The rights of clients to store files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PutRights {
    /// Nothing.
    #[default]
    None,
    /// Files with new names.
    New,
    /// Files with any name, replacing existing files.
    Replace,
}

/// An operator's rules.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Hosts that requests can name, with or without a port. If empty, all hosts are allowed;
    /// otherwise, requests for other hosts get status 421.
    pub authorities: Vec<String>,
    /// Whether clients can fetch files.
    pub get: bool,
    /// Whether clients can list directories.
    pub list: bool,
    /// The right to store files.
    pub put: PutRights,
    /// The directory to which clients are confined, or empty for the root.
    pub prefix: Vec<Vec<u8>>,
    /// Maximum size of a stored file in bytes. Larger files get status 413.
    pub max_file: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            authorities: Vec::new(),
            get: true,
            list: true,
            put: PutRights::None,
            prefix: Vec::new(),
            max_file: u64::MAX,
        }
    }
}

/// A method that the origin supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// HEAD.
    Head,
    /// PUT.
    Put,
    /// PATCH of an upload.
    Patch,
    /// DELETE of an upload.
    Delete,
    /// OPTIONS.
    Options,
}

/// Preconditions (RFC 9110 section 13.1).
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// If-Match.
    pub if_match: Option<TagList>,
    /// If-None-Match.
    pub if_none_match: Option<TagList>,
    /// If-Modified-Since.
    pub if_modified_since: Option<SystemTime>,
    /// If-Unmodified-Since.
    pub if_unmodified_since: Option<SystemTime>,
}

/// Request fields about the content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// Content-Length.
    pub length: Option<u64>,
    /// The sha-256 digest in the header section.
    pub digest: Option<Sha256Digest>,
    /// Whether the client waits for status 100.
    pub expects_continue: bool,
    /// Attributes to store.
    pub attributes: Option<AttributesField>,
}

/// A parsed request.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Its method.
    pub method: Method,
    /// Its path.
    pub path: PathName,
    /// Its preconditions except If-Range.
    pub conditions: Conditions,
    /// The range set of a GET.
    pub range: Option<Vec<RangeSpec>>,
    /// The tag of If-Range. `Some(None)` is a date or an invalid value, which never match.
    pub if_range: Option<Option<EntityTag>>,
    /// Whether the client wants a sha-256 digest.
    pub wants_digest: bool,
    /// The urgency of the response (RFC 9218), where 0 is the most urgent.
    pub urgency: u8,
    /// The form of a listing.
    pub form: Form,
    /// Its fields about the content.
    pub body: Body,
    /// The upload, if the path is that of its resource.
    pub token: Option<Token>,
    /// Its fields about an upload.
    pub upload: UploadFields,
}

impl Ask {
    /// Parses the fields of a request.
    ///
    /// # Errors
    /// The reply to send immediately.
    pub fn read(request: &Request<()>, rules: &Rules) -> Result<Self, Box<Reply>> {
        let last = request.uri().path().rsplit('/').next();
        let token = last.and_then(|name| Token::in_name(name.as_bytes()));
        let method = method(request.method(), rules, token.is_some())?;
        authority(request, rules)?;
        let path = PathName::parse(request.uri().path().as_bytes())
            .map_err(|error| Box::new(problem(StatusCode::BAD_REQUEST, &error.to_string())))?;
        if !path.names.starts_with(&rules.prefix) {
            let detail = "the operator gives this client no right to the path";
            return Err(problem(StatusCode::FORBIDDEN, detail).into());
        }
        let is_own = path.names.len() == rules.prefix.len() && !rules.prefix.is_empty();
        if method == Method::Put && is_own && !path.slash {
            let detail = "the path is the directory that this client has; choose a name in it";
            return Err(problem(StatusCode::FORBIDDEN, detail).into());
        }
        let headers = request.headers();
        let bad = |error: BadField| Box::new(problem(StatusCode::BAD_REQUEST, &error.to_string()));
        let (range, if_range) = match method {
            Method::Get => (range(headers), if_range(headers)),
            _ => (None, None),
        };
        Ok(Self {
            method,
            path,
            conditions: conditions(headers).map_err(bad)?,
            range,
            if_range,
            wants_digest: sha256_preference(lines(headers, &WANT_REPR_DIGEST)) > 0,
            urgency: urgency(lines(headers, &PRIORITY)),
            form: preferred_form(lines(headers, &ACCEPT)),
            body: match method {
                Method::Put | Method::Patch => body(headers)?,
                _ => Body::default(),
            },
            token,
            upload: upload_fields(headers),
        })
    }
}

pub(crate) fn lines<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'a [u8]> {
    headers
        .get_all(name)
        .iter()
        .map(http::HeaderValue::as_bytes)
}

/// Parses the sha-256 digest in a header or trailer section.
pub(crate) fn digest_in(headers: &HeaderMap) -> Result<Option<Sha256Digest>, BadField> {
    sha256_digest("Repr-Digest", lines(headers, &REPR_DIGEST))
}

/// Returns the only line of a field, or `None` if there are more.
fn only_line<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    let mut lines = lines(headers, name);
    let line = lines.next();
    line.filter(|_| lines.next().is_none())
}

/// Parses a message's fields about an upload.
pub(crate) fn upload_fields(headers: &HeaderMap) -> UploadFields {
    UploadFields::read(|name| only_line(headers, &HeaderName::from_static(name)))
}

/// Returns the methods that are allowed on a path.
pub(super) const fn allowed(rules: &Rules, upload: bool) -> &'static str {
    match (rules.put, upload) {
        (PutRights::None, _) => "GET, HEAD, OPTIONS",
        (_, true) => "HEAD, PATCH, DELETE, OPTIONS",
        (_, false) => "GET, HEAD, PUT, OPTIONS",
    }
}

fn method(method: &http::Method, rules: &Rules, upload: bool) -> Result<Method, Box<Reply>> {
    let may_put = rules.put != PutRights::None;
    let (status, detail) = match *method {
        http::Method::GET => return Ok(Method::Get),
        http::Method::HEAD => return Ok(Method::Head),
        http::Method::OPTIONS => return Ok(Method::Options),
        http::Method::PUT if may_put => return Ok(Method::Put),
        http::Method::PATCH if may_put && upload => return Ok(Method::Patch),
        http::Method::DELETE if may_put && upload => return Ok(Method::Delete),
        http::Method::PUT => (
            StatusCode::METHOD_NOT_ALLOWED,
            "this origin stores nothing; its operator has to allow PUT",
        ),
        http::Method::POST
        | http::Method::DELETE
        | http::Method::PATCH
        | http::Method::TRACE
        | http::Method::CONNECT => (
            StatusCode::METHOD_NOT_ALLOWED,
            "the origin takes only the methods that Allow lists",
        ),
        _ => (
            StatusCode::NOT_IMPLEMENTED,
            "the origin does not know this method",
        ),
    };
    let reply = problem(status, detail);
    Err(reply.with(ALLOW, allowed(rules, upload)).into())
}

/// Rejects hosts that the operator didn't name, and other schemes than `https`.
fn authority(request: &Request<()>, rules: &Rules) -> Result<(), Box<Reply>> {
    let uri = request.uri();
    let https = uri
        .scheme()
        .is_none_or(|scheme| *scheme == http::uri::Scheme::HTTPS);
    let named = uri.authority().is_some_and(|authority| {
        let matches = |listed: &&String| {
            listed.eq_ignore_ascii_case(authority.as_str())
                || listed.eq_ignore_ascii_case(authority.host())
        };
        rules.authorities.iter().any(|listed| matches(&listed))
    });
    if https && (named || rules.authorities.is_empty()) {
        return Ok(());
    }
    let detail = "the origin does not serve this scheme and host; use a URI of a host it serves";
    Err(problem(StatusCode::MISDIRECTED_REQUEST, detail).into())
}

fn conditions(headers: &HeaderMap) -> Result<Conditions, BadField> {
    // An invalid date is ignored (RFC 9110 sections 13.1.3 and 13.1.4).
    let date = |name| {
        let text = std::str::from_utf8(only_line(headers, &name)?).ok()?;
        httpdate::parse_http_date(text).ok()
    };
    Ok(Conditions {
        if_match: TagList::parse("If-Match", lines(headers, &IF_MATCH))?,
        if_none_match: TagList::parse("If-None-Match", lines(headers, &IF_NONE_MATCH))?,
        if_modified_since: date(IF_MODIFIED_SINCE),
        if_unmodified_since: date(IF_UNMODIFIED_SINCE),
    })
}

fn range(headers: &HeaderMap) -> Option<Vec<RangeSpec>> {
    parse_range(only_line(headers, &RANGE)?)
}

fn if_range(headers: &HeaderMap) -> Option<Option<EntityTag>> {
    headers.contains_key(IF_RANGE).then(|| {
        let line = only_line(headers, &IF_RANGE)?;
        EntityTag::parse(line).filter(EntityTag::is_strong)
    })
}

fn body(headers: &HeaderMap) -> Result<Body, Box<Reply>> {
    let bad = |detail: &str| Box::new(problem(StatusCode::BAD_REQUEST, detail));
    if headers.contains_key(CONTENT_RANGE) {
        return Err(bad(
            "PUT with Content-Range is not supported; send the whole file",
        ));
    }
    let identity = |line: &[u8]| line.eq_ignore_ascii_case(b"identity");
    if !lines(headers, &CONTENT_ENCODING).all(identity) {
        let detail = "the origin stores bytes as they are; send no Content-Encoding";
        return Err(problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail).into());
    }
    let length = if headers.contains_key(CONTENT_LENGTH) {
        let length = only_line(headers, &CONTENT_LENGTH);
        let length = length.filter(|line| line.iter().all(u8::is_ascii_digit));
        let length = length.and_then(|line| std::str::from_utf8(line).ok()?.parse().ok());
        Some(length.ok_or_else(|| bad("Content-Length is not one number"))?)
    } else {
        None
    };
    let digest = digest_in(headers).map_err(|error| bad(&error.to_string()))?;
    let attributes = AttributesField::parse(lines(headers, &ATTRIBUTES));
    let attributes = attributes.map_err(|error| bad(&error.to_string()))?;
    let expected = |line: &[u8]| line.eq_ignore_ascii_case(b"100-continue");
    Ok(Body {
        length,
        digest,
        expects_continue: lines(headers, &EXPECT).any(expected),
        attributes,
    })
}
