//! Plans responses to PUT.

use std::time::SystemTime;

use http::StatusCode;
use http::header::{CONTENT_LENGTH, ETAG};

use super::ask::{Ask, PutRights, REPR_DIGEST, Rules};
use super::reply::{Reply, problem};
use crate::fields::{Sha256Digest, TagList, sha256_field};
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
    let status = match replaced {
        true => StatusCode::NO_CONTENT,
        false => StatusCode::CREATED,
    };
    let reply = Reply::empty(status)
        .with(ETAG, &stat.tag(now).to_string())
        .with(REPR_DIGEST, &sha256_field(digest));
    match replaced {
        true => reply,
        false => reply.with(CONTENT_LENGTH, "0"),
    }
}

#[cfg(test)]
mod tests {
    use super::is_inside;

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
}
