//! Plans responses to PUT, and responses about resumable uploads
//! (draft-ietf-httpbis-resumable-upload-12).

use std::time::{Duration, SystemTime};

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, ETAG, HeaderName, LOCATION};
use http::{Response, StatusCode};

use super::ask::{Ask, PutRights, REPR_DIGEST, Rules, allowed};
use super::{Reply, problem, set, typed_problem};
use crate::fields::{INTEROP_VERSION, Sha256Digest, TagList, boolean, sha256_field};
use crate::resource::{Kind, Stat, is_reserved};

/// Checks whether a PUT must be refused, given the existing file `there`. This should be called
/// both before the content arrives and before the file is renamed.
///
/// The refusal.
/// The reply that refuses.
pub fn before_write(
    ask: &Ask,
    rules: &Rules,
    there: Option<&Stat>,
    now: SystemTime,
) -> Result<(), Box<Reply>> {
    let name = ask.path.names.last().filter(|_| !ask.path.slash);
    let Some(name) = name else {
        let detail = "a file's name ends without a slash; leave the slash out";
        return Err(problem(StatusCode::CONFLICT, detail).into());
    };
    if is_reserved(name) {
        let detail = "the name is one of those of unfinished files and keys; choose another one";
        return Err(problem(StatusCode::FORBIDDEN, detail).into());
    }
    if let Some(length) = ask.body.length
        && length > rules.max_file
    {
        return Err(too_large(rules).into());
    }
    if there.is_some_and(|there| there.kind != Kind::File) {
        let detail = "the name is that of a directory, a link or a device; choose another one";
        return Err(problem(StatusCode::CONFLICT, detail).into());
    }
    let tag = there.map(|there| there.tag(now));
    let conditions = &ask.conditions;
    if let Some(tags) = &conditions.if_match
        && !tags.holds_strongly(tag.as_ref())
    {
        let detail = "the file is not the version that If-Match names; fetch the new one first";
        return Err(problem(StatusCode::PRECONDITION_FAILED, detail).into());
    }
    if let Some(tags) = &conditions.if_none_match
        && tags.has_weakly(tag.as_ref())
    {
        return Err(exists(tags).into());
    }
    if there.is_some() && rules.put != PutRights::Replace {
        let detail = "there is a file of this name, and the operator allows no replacement";
        return Err(problem(StatusCode::FORBIDDEN, detail).into());
    }
    Ok(())
}

/// Checks whether a PUT of a link must be refused, given the existing file `there`. `same` is
/// true if it is a link with the same target.
///
/// The refusal.
/// The reply that refuses.
pub fn before_link(
    ask: &Ask,
    rules: &Rules,
    there: Option<&Stat>,
    same: bool,
    now: SystemTime,
) -> Result<(), Box<Reply>> {
    let is_link = |there: &&Stat| there.kind == Kind::Symlink;
    before_write(ask, rules, there.filter(|there| !is_link(there)), now)?;
    if same || !there.is_some_and(|there| is_link(&there)) {
        return Ok(());
    }
    match &ask.conditions.if_none_match {
        Some(tags) => Err(exists(tags).into()),
        None if rules.put == PutRights::Replace => Ok(()),
        None => {
            let detail = "there is a link of this name, and the operator allows no replacement";
            Err(problem(StatusCode::FORBIDDEN, detail).into())
        }
    }
}

/// Returns true if the target of a link stays within the top directory. The link's directory is
/// `depth` levels beneath it. A name in the target may itself be a link. Therefore, if clients
/// are confined to their own directories (`confined`), no `..` may follow a name.
pub fn is_inside(target: &[u8], depth: usize, confined: bool) -> bool {
    let (mut depth, mut named) = (depth, false);
    !target.starts_with(b"/")
        && target.split(|byte| *byte == b'/').all(|name| match name {
            b"" | b"." => true,
            b".." => {
                let inside = depth > 0 && !(confined && named);
                depth = depth.saturating_sub(1);
                inside
            }
            _ => {
                (depth, named) = (depth + 1, true);
                true
            }
        })
}

/// Returns the reply to a PUT whose name is taken.
fn exists(tags: &TagList) -> Reply {
    let detail = match tags {
        TagList::Any => "there is a file of this name; to replace it, leave If-None-Match out",
        TagList::Tags(_) => "the file is the version that If-None-Match excludes",
    };
    problem(StatusCode::PRECONDITION_FAILED, detail)
}

/// Returns the reply to content that is longer than the operator allows.
pub(crate) fn too_large(rules: &Rules) -> Reply {
    let detail = format!(
        "the operator allows files of {} bytes at most",
        rules.max_file
    );
    problem(StatusCode::PAYLOAD_TOO_LARGE, &detail)
}

/// Returns the reply to a PUT whose file was stored.
pub fn stored(replaced: bool, stat: &Stat, digest: &Sha256Digest, now: SystemTime) -> Reply {
    let status = if replaced {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::CREATED
    };
    let reply = Reply::empty(status)
        .with(ETAG, &stat.tag(now).to_string())
        .with(REPR_DIGEST, &sha256_field(digest));
    if replaced {
        reply
    } else {
        reply.with(CONTENT_LENGTH, "0")
    }
}

/// Upload-Complete.
pub(crate) const UPLOAD_COMPLETE: HeaderName = HeaderName::from_static("upload-complete");
/// Upload-Offset.
pub(crate) const UPLOAD_OFFSET: HeaderName = HeaderName::from_static("upload-offset");
/// Upload-Length.
pub(crate) const UPLOAD_LENGTH: HeaderName = HeaderName::from_static("upload-length");
/// Upload-Limit.
const UPLOAD_LIMIT: HeaderName = HeaderName::from_static("upload-limit");
/// Upload-Draft-Interop-Version.
pub(crate) const UPLOAD_VERSION: HeaderName =
    HeaderName::from_static("upload-draft-interop-version");
/// Accept-Patch (RFC 5789).
const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");
/// The media type for appending content to an upload.
pub(crate) const PARTIAL_UPLOAD: &str = "application/partial-upload";
/// The status of the interim response that names an upload's resource.
pub(crate) const RESUMPTION_SUPPORTED: u16 = 104;
/// The registry of problem types.
const TYPES: &str = "https://iana.org/assignments/http-problem-types#";
/// The largest integer in structured fields.
const LARGEST: u64 = 999_999_999_999_999;

/// The state of an upload.
#[derive(Clone, Copy, Debug)]
pub struct UploadState {
    /// Bytes received so far.
    pub offset: u64,
    /// The whole upload's length (Upload-Length or Content-Length), if announced.
    pub length: Option<u64>,
    /// How long it is kept if no further bytes arrive.
    pub age: Duration,
}

fn limit(rules: &Rules, age: Duration) -> String {
    let size = rules.max_file.min(LARGEST);
    format!("max-size={size}, max-age={}", age.as_secs())
}

/// Returns the interim response that names an upload's resource.
pub fn resumable(location: &str, rules: &Rules, age: Duration) -> Response<()> {
    let mut interim = Response::new(());
    if let Ok(status) = StatusCode::from_u16(RESUMPTION_SUPPORTED) {
        *interim.status_mut() = status;
    }
    let headers = interim.headers_mut();
    set(headers, LOCATION, location);
    set(headers, UPLOAD_LIMIT, &limit(rules, age));
    set(headers, UPLOAD_VERSION, &INTEROP_VERSION.to_string());
    interim
}

/// Returns the response to incomplete content, or to a request for the offset.
pub fn incomplete(status: StatusCode, state: &UploadState, rules: &Rules) -> Reply {
    let reply = Reply::empty(status)
        .with(UPLOAD_COMPLETE, boolean(false))
        .with(UPLOAD_OFFSET, &state.offset.to_string())
        .with(UPLOAD_LIMIT, &limit(rules, state.age))
        .with(CACHE_CONTROL, "no-store");
    match state.length {
        Some(length) => reply.with(UPLOAD_LENGTH, &length.to_string()),
        None => reply,
    }
}

/// Refuses content that doesn't begin where the upload ends.
pub fn wrong_offset(expected: u64, provided: u64) -> Reply {
    let kind = format!("{TYPES}mismatching-upload-offset");
    let detail = "the content does not begin where the upload ends; send what follows the offset";
    let members = [("expected-offset", expected), ("provided-offset", provided)];
    let title = "Mismatching Upload Offset";
    typed_problem(StatusCode::CONFLICT, Some(&kind), title, detail, &members)
        .with(UPLOAD_OFFSET, &expected.to_string())
        .with(UPLOAD_COMPLETE, boolean(false))
}

/// Refuses a length that differs from the announced one.
pub fn wrong_length() -> Reply {
    let kind = format!("{TYPES}inconsistent-upload-length");
    let title = "Inconsistent Upload Length Values";
    let detail = "the lengths of the upload differ; send the file again, from its beginning";
    typed_problem(StatusCode::BAD_REQUEST, Some(&kind), title, detail, &[])
}

/// Returns the whole upload's length according to a request whose content begins at `offset`.
///
/// # Errors
/// The refusal if lengths differ, including `known`.
pub fn whole_length(ask: &Ask, offset: u64, known: Option<u64>) -> Result<Option<u64>, Box<Reply>> {
    let end = ask.body.length.map(|length| offset.saturating_add(length));
    let last = end.filter(|_| ask.upload.complete == Some(true));
    let lengths = [known, ask.upload.length, last];
    let mut lengths = lengths.into_iter().flatten();
    let first = lengths.next();
    let same = lengths.all(|other| Some(other) == first);
    if same && first.is_none_or(|first| end.is_none_or(|end| end <= first)) {
        Ok(first)
    } else {
        Err(wrong_length().into())
    }
}

/// Returns the response to OPTIONS.
pub fn options(ask: &Ask, rules: &Rules, age: Duration) -> Reply {
    let allow = allowed(rules, ask.token.is_some());
    let reply = Reply::empty(StatusCode::NO_CONTENT).with(ALLOW, allow);
    match rules.put {
        PutRights::None => reply,
        PutRights::New | PutRights::Replace => reply
            .with(ACCEPT_PATCH, PARTIAL_UPLOAD)
            .with(UPLOAD_LIMIT, &limit(rules, age)),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn links_lead_to_places_beneath_the_top() {
        for (target, depth, inside, confined) in [
            ("a", 0, true, true),
            ("", 0, true, true),
            ("/a", 5, false, false),
            ("..", 0, false, false),
            ("../a", 1, true, true),
            ("./../../a", 2, true, true),
            ("../../a", 1, false, false),
            ("a/../b", 0, true, false),
            ("a/../../b", 0, false, false),
            ("a//../../b", 1, true, false),
        ] {
            let of = |confined| is_inside(target.as_bytes(), depth, confined);
            assert_eq!((of(false), of(true)), (inside, confined), "{target}");
        }
    }

    fn ask(fields: &[(&str, &str)]) -> Ask {
        let mut request = Request::put("https://host/name");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let rules = Rules {
            put: PutRights::New,
            ..Rules::default()
        };
        Ask::read(&request.body(()).unwrap(), &rules).unwrap()
    }

    #[test]
    fn lengths_that_differ_are_refused() {
        let whole = [("content-length", "10"), ("upload-complete", "?1")];
        assert_eq!(whole_length(&ask(&whole), 5, None).unwrap(), Some(15));
        assert_eq!(whole_length(&ask(&whole), 5, Some(15)).unwrap(), Some(15));
        assert!(whole_length(&ask(&whole), 5, Some(16)).is_err());
        let part = [("content-length", "10"), ("upload-complete", "?0")];
        assert_eq!(whole_length(&ask(&part), 5, None).unwrap(), None);
        assert_eq!(whole_length(&ask(&part), 5, Some(16)).unwrap(), Some(16));
        assert!(whole_length(&ask(&part), 7, Some(16)).is_err());
        let both = [whole[0], whole[1], ("upload-length", "11")];
        assert!(whole_length(&ask(&both), 0, None).is_err());
        assert_eq!(whole_length(&ask(&both), 1, None).unwrap(), Some(11));
    }

    #[test]
    fn a_problem_has_its_type_and_members() {
        let reply = wrong_offset(7, 9);
        let body: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(body["expected-offset"], 7);
        assert_eq!(body["provided-offset"], 9);
        let kind = body["type"].as_str().unwrap();
        assert!(kind.ends_with("#mismatching-upload-offset"), "{kind}");
        assert_eq!(reply.headers[UPLOAD_OFFSET], "7");
    }
}
