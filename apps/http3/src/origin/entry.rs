//! Responds to PUT of a link or a directory.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::PoisonError;

use http::StatusCode;
use http::header::CONTENT_LENGTH;

use super::clock::now;
use super::fault::Fault;
use super::grant::Grant;
use super::shared::Shared;
use crate::fields::{AttributesField, PathName};
use crate::plan::{self, Ask, PutRights, Reply, problem};
use crate::resource::{Time, is_reserved};
use crate::root::{Attributes, make_link, names_stat};

/// Converts a field's attributes, restricted by this process's umask.
pub(super) fn attributes(field: &AttributesField) -> Attributes {
    let modified = field.modified.map(|(seconds, nanoseconds)| Time {
        seconds,
        nanoseconds,
    });
    let mode = field.mode;
    Attributes { mode, modified }.allowed()
}

/// Stores a link or a directory.
pub(super) fn entry(shared: &Shared, grant: &Grant, ask: &Ask) -> Result<Reply, Fault> {
    let field = ask.body.attributes.clone().unwrap_or_default();
    let attributes = attributes(&field);
    let created = |new: bool| match new {
        true => Reply::empty(StatusCode::CREATED).with(CONTENT_LENGTH, "0"),
        false => Reply::empty(StatusCode::NO_CONTENT),
    };
    let name = ask.path.names.last().map_or(&[][..], Vec::as_slice);
    if name.is_empty() || is_reserved(name) {
        let detail = "the name is that of the root or of unfinished files; choose another one";
        return Err(problem(StatusCode::FORBIDDEN, detail).into());
    }
    let prefix = grant.rules.prefix.len();
    let (directory, depth) = shared.root.parent_at(&ask.path, prefix, true)?;
    let _held = shared
        .commits
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let there = names_stat(directory.as_fd(), name)?;
    let Some(target) = &field.link else {
        // The last name of the path is created like those before it.
        let inside = PathName {
            names: [ask.path.names.as_slice(), &[b"x".to_vec()]].concat(),
            slash: false,
        };
        let made = shared.root.parent(&inside, prefix, true)?;
        if there.is_none() || grant.rules.put == PutRights::Replace {
            attributes.set(made)?;
        }
        return Ok(created(there.is_none()));
    };
    if ask.path.slash || !plan::is_inside(target, depth, prefix > 0) {
        let detail = "the link leads out of what the server has; links are relative, and inside";
        return Err(problem(StatusCode::FORBIDDEN, detail).into());
    }
    let own = readlink(directory.as_fd(), name)?;
    let same = own.as_ref().is_some_and(|own| own == target);
    plan::before_link(ask, &grant.rules, there.as_ref(), same, now())?;
    let modified = attributes.modified;
    make_link(directory.as_fd(), name, target, modified)?;
    Ok(created(there.is_none()))
}

/// Returns a link's target, or `None` if the name isn't that of a link.
fn readlink(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<Option<Vec<u8>>> {
    use rustix::io::Errno;
    match rustix::fs::readlinkat(directory, name, Vec::new()) {
        Ok(target) => Ok(Some(target.into_bytes())),
        Err(Errno::NOENT | Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
