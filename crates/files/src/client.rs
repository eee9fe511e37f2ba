//! The client's side: fetching and storing files over a connection.

use std::io;
use std::path::{Path, PathBuf};

use tokio::io::AsyncWriteExt;

use super::incoming::{Existing, Incoming, KeepError};
use super::protocol::{self, Answer, Refusal, Request};
use super::receive::{ReceiveError, receive_file};
use super::report::SenderReport;
use super::send::{Hash, hex, send_file};
use super::source::{SendError, Source, blocking, with_cause};
use pathmark::{Connection, ReadError, SendStream};

/// Why a file was not fetched or stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The server refused.
    #[error("the server refuses: {message}")]
    Refused {
        /// Why.
        reason: Refusal,
        /// More about it.
        message: String,
    },
    /// The connection or stream failed.
    #[error("the transfer broke off: {0}")]
    Stream(#[source] io::Error),
    /// The sender gave the file up and says why.
    #[error("the server broke off: {0}")]
    GivenUp(&'static str),
    /// A file of this side changed while it was sent.
    #[error("{path}: {why}; nothing was stored")]
    Moving {
        /// Which.
        path: PathBuf,
        /// What became of it.
        why: SendError,
    },
    /// A file on this side could not be read or written.
    #[error("{path}: {source}")]
    Local {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another transfer, of this process or another, is at the same file.
    #[error("another transfer is writing {path}; wait for its end, or choose another directory")]
    Busy {
        /// Where the file shall lie.
        path: PathBuf,
    },
    /// What arrived was right, and what lies there now is something else.
    #[error("{path} is not the file that arrived: another program wrote it meanwhile")]
    Changed {
        /// Where.
        path: PathBuf,
    },
    /// What arrived is not what was sent; it was thrown away.
    #[error(
        "the bytes received do not have the sender's SHA-256 and are deleted; fetch the file again"
    )]
    WrongHash,
    /// The server answered something else.
    #[error("the server does not speak pathmark-file")]
    Protocol,
}

/// A file that arrived whole.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Its size in bytes.
    pub bytes: u64,
    /// Bytes of it that an earlier attempt had brought.
    pub resumed: u64,
    /// Its hash.
    pub hash: Hash,
    /// What its sender knew about the path at the end.
    pub sender: SenderReport,
    /// The law that the server reports to send by.
    pub algorithm: Option<String>,
}

/// Fetches `name` to `target`, going on with what an earlier attempt left there, and replaces what
/// lies at `target` when all has come. `cc` is the law that the client requests of the server;
/// [`Fetched::algorithm`] is the one that it used. `progress` gets the whole size once it is known,
/// and the number of bytes as they arrive.
///
/// # Errors
/// [`TransferError`]; after [`TransferError::Stream`] the bytes that came stay for the next
/// attempt. [`TransferError::Busy`] while another transfer to `target` runs.
pub async fn get(
    connection: &Connection,
    name: &str,
    target: &Path,
    cc: Option<&str>,
    mut progress: impl FnMut(Progress),
) -> Result<Fetched, TransferError> {
    let local = |error| TransferError::Local {
        path: target.to_owned(),
        source: with_cause(error),
    };
    let Some(incoming) = Incoming::resume(target).map_err(local)? else {
        let path = target.to_owned();
        return Err(TransferError::Busy { path });
    };
    let (mut offset, old_tag) = incoming.have().map_err(local)?.unwrap_or_default();
    let (mut recv, bytes, algorithm) = loop {
        let (recv, answer) = match ask(connection, name, offset, cc).await {
            // What was fetched is longer than the file has become since.
            Err(TransferError::Refused {
                reason: Refusal::BadRequest,
                ..
            }) if offset > 0 => {
                offset = 0;
                continue;
            }
            other => other?,
        };
        let Answer::File {
            bytes,
            tag,
            algorithm,
        } = answer
        else {
            return Err(TransferError::Protocol);
        };
        if offset > 0 && tag != old_tag {
            offset = 0;
            continue;
        }
        if offset == 0 {
            incoming.restart(&tag).map_err(local)?;
        }
        break (recv, bytes, algorithm);
    };
    progress(Progress::Begin { bytes, offset });
    let file = incoming.file().map_err(local)?;
    let receiving = receive_file(file, offset, bytes, &mut recv, |n| {
        progress(Progress::Bytes(n));
    });
    let received = tokio::select! {
        biased;
        received = receiving => received,
        // Also while present bytes are read back, when no call reads the stream.
        reason = connection.closed() => Err(ReceiveError::Stream(io::Error::other(reason))),
    };
    let hash = match received {
        Ok(hash) => hash,
        Err(ReceiveError::Stream(error)) => return Err(broken(error)),
        Err(ReceiveError::Storage(error)) => return Err(local(error)),
        Err(ReceiveError::WrongHash) => {
            incoming.discard().map_err(local)?;
            return Err(TransferError::WrongHash);
        }
    };
    progress(Progress::Arrived);
    let sender = protocol::read::<SenderReport>(&mut recv)
        .await
        .unwrap_or_default();
    // The end of the stream may come later, and carries no more data.
    let _ = recv.stop(protocol::HAS_ALL);
    let kept = tokio::task::spawn_blocking(move || incoming.keep(&hash, Existing::Replace)).await;
    match kept.map_err(|error| local(io::Error::other(error)))? {
        Ok(()) => Ok(Fetched {
            bytes,
            resumed: offset,
            hash,
            sender,
            algorithm,
        }),
        Err(KeepError::Storage(error)) => Err(local(error)),
        Err(KeepError::Changed | KeepError::Exists) => Err(TransferError::Changed {
            path: target.to_owned(),
        }),
    }
}

/// How far a transfer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The transfer begins at `offset` of `bytes`.
    Begin {
        /// Size of the file.
        bytes: u64,
        /// Bytes that are there already.
        offset: u64,
    },
    /// Number of further bytes.
    Bytes(u64),
    /// All bytes and their hash have come; they still are to be given their name and read back.
    Arrived,
}

async fn ask(
    connection: &Connection,
    name: &str,
    offset: u64,
    cc: Option<&str>,
) -> Result<(pathmark::RecvStream, Answer), TransferError> {
    let stream = |error: io::Error| TransferError::Stream(error);
    let (mut send, mut recv) = connection
        .open_bi()
        .await
        .map_err(|error| stream(io::Error::other(error)))?;
    let request = Request::Get {
        name: name.to_owned(),
        offset,
        cc: cc.map(ToOwned::to_owned),
    };
    protocol::write(&mut send, &request).await.map_err(stream)?;
    // Dropped, it is finished. A server that refuses may have stopped it already.
    drop(send);
    match protocol::read(&mut recv).await {
        Ok(Answer::Refused { reason, message }) => Err(TransferError::Refused { reason, message }),
        Ok(answer) => Ok((recv, answer)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(TransferError::Protocol),
        Err(error) => Err(stream(error)),
    }
}

/// Stores the file at `source` as `name`; the size and hash of what the server now has. A file of
/// this name that the server has already is replaced only if `existing` says so.
///
/// # Errors
/// [`TransferError`]. The server then has what it had before under this name, unless the stream
/// failed while its answer was under way.
pub async fn put(
    connection: &Connection,
    source: &Path,
    name: &str,
    existing: Existing,
    mut progress: impl FnMut(Progress),
) -> Result<(u64, Hash), TransferError> {
    let local = |error| TransferError::Local {
        path: source.to_owned(),
        source: with_cause(error),
    };
    let stream = |error: io::Error| TransferError::Stream(error);
    let path = source.to_owned();
    let file = blocking(move || Source::open(&path)).await.map_err(local)?;
    let bytes = file.bytes();
    let (mut send, mut recv) = connection
        .open_bi()
        .await
        .map_err(|error| stream(io::Error::other(error)))?;
    let request = Request::Put {
        name: name.to_owned(),
        bytes,
        overwrite: existing == Existing::Replace,
    };
    protocol::write(&mut send, &request).await.map_err(stream)?;
    progress(Progress::Begin { bytes, offset: 0 });
    let sending = send_whole(file, &mut send, |n| progress(Progress::Bytes(n)));
    let sent = match sending.await {
        Ok(hash) => Ok(hash),
        Err(SendError::Stream(error)) => Err(error),
        Err(why) => {
            // The server throws away what it has, and has nothing to answer.
            let _ = send.reset(why.code());
            return Err(match why {
                SendError::Read(error) => local(error),
                why => TransferError::Moving {
                    path: source.to_owned(),
                    why,
                },
            });
        }
    };
    // A server that refuses stops the stream and sends the reason: its answer explains more than
    // the failed write.
    let answer = match protocol::read(&mut recv).await {
        Ok(answer) => answer,
        Err(error) => return Err(stream(sent.err().unwrap_or(error))),
    };
    match answer {
        Answer::Refused { reason, message } => Err(TransferError::Refused { reason, message }),
        Answer::Stored { sha256 } => {
            let hash = sent.map_err(stream)?;
            if sha256 == hex(&hash) {
                Ok((bytes, hash))
            } else {
                Err(TransferError::Protocol)
            }
        }
        Answer::File { .. } => Err(TransferError::Protocol),
    }
}

/// Sends all of `file` and ends the stream.
async fn send_whole(
    file: Source,
    send: &mut SendStream,
    progress: impl FnMut(u64),
) -> Result<Hash, SendError> {
    // If the stream is closed already, the write below fails.
    let _ = send.announce(file.bytes());
    let hash = send_file(file, 0, send, progress).await?;
    // All is handed over. The server's answer reports whether it has stored the file: a server that
    // has read the hash may have stopped the stream before this.
    let _ = send.shutdown().await;
    Ok(hash)
}

/// Why bytes stopped coming: what the sender means by resetting the stream, or what happened to it.
fn broken(error: io::Error) -> TransferError {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref());
    match cause {
        Some(ReadError::Reset(code)) => match protocol::reset_reason(*code) {
            Some(why) => TransferError::GivenUp(why),
            None => TransferError::Stream(error),
        },
        _ => TransferError::Stream(error),
    }
}
