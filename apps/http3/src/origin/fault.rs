//! Reasons why a file is not stored, and the replies to their clients.

use std::io;

use http::StatusCode;

use super::read::refusal;
use crate::plan::{Reply, problem};
use crate::root::RootError;
use crate::wire::LinkError;

/// The reason why a file is not stored.
pub(super) enum Fault {
    /// The reply to send to the client.
    Reply(Box<Reply>),
    /// The stream failed.
    Link(LinkError),
}

impl From<LinkError> for Fault {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}

impl From<Box<Reply>> for Fault {
    fn from(reply: Box<Reply>) -> Self {
        Self::Reply(reply)
    }
}

impl From<Reply> for Fault {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply.into())
    }
}

impl From<RootError> for Fault {
    fn from(error: RootError) -> Self {
        let reply = match error {
            RootError::NotFound => {
                let detail = "a file or a link has the name of a directory in the path; choose \
                              another name";
                problem(StatusCode::CONFLICT, detail)
            }
            RootError::Storage(error) => return Self::from(error),
            error => refusal(&error),
        };
        reply.into()
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        storage(&error).into()
    }
}

/// Returns the reply to a PUT after a storage error.
fn storage(error: &io::Error) -> Reply {
    if let Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) =
        rustix::io::Errno::from_io_error(error)
    {
        return refusal(&RootError::Busy);
    }
    use io::ErrorKind::{
        FileTooLarge, NotFound, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    let (status, detail) = match error.kind() {
        StorageFull | QuotaExceeded => (
            StatusCode::INSUFFICIENT_STORAGE,
            "the server's disk is full; free space there, then try again".to_owned(),
        ),
        FileTooLarge => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "the server's file system takes no file of this size".to_owned(),
        ),
        PermissionDenied | ReadOnlyFilesystem => (
            StatusCode::FORBIDDEN,
            "the server has no permission to write there; its operator can grant it".to_owned(),
        ),
        NotFound => (
            StatusCode::CONFLICT,
            "the directory or the unfinished file was removed meanwhile; send the file again"
                .to_owned(),
        ),
        _ => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the server could not store the file: {error}"),
        ),
    };
    problem(status, &detail)
}

/// Refuses a file that exceeds the client's quota.
pub(super) fn over_quota() -> Fault {
    let detail = "the operator lets this client store no more; remove files there first";
    problem(StatusCode::INSUFFICIENT_STORAGE, detail).into()
}

/// Refuses a file that exceeds the free disk space.
pub(super) fn disk_full() -> Fault {
    storage(&io::ErrorKind::StorageFull.into()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_the_disk_have_their_status() {
        for (number, status) in [
            (rustix::io::Errno::NOSPC, 507),
            (rustix::io::Errno::DQUOT, 507),
            (rustix::io::Errno::FBIG, 413),
            (rustix::io::Errno::ROFS, 403),
            (rustix::io::Errno::ACCESS, 403),
            (rustix::io::Errno::NOENT, 409),
            (rustix::io::Errno::IO, 500),
        ] {
            assert_eq!(storage(&number.into()).status.as_u16(), status, "{number}");
        }
    }
}
