//! Requests and answers: JSON objects behind a 4-byte big-endian length.

use std::io;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Longest request or answer in bytes.
pub const MAX_MESSAGE: usize = 64 * 1024;

/// Application error code with which a stream is reset when a file cannot be read to its end.
pub const BROKEN_OFF: u32 = 1;
/// The same for a file that became shorter while it was sent.
pub const SHORTER: u32 = 2;
/// The same for a file that changed while it was sent.
pub const CHANGED: u32 = 3;

/// Application error code with which a client stops the stream of a file that it has all of.
pub const HAS_ALL: u32 = 4;

/// What the sender of a file means by resetting its stream with `code`.
#[must_use]
pub fn reset_reason(code: u64) -> Option<&'static str> {
    [
        (BROKEN_OFF, "the file could not be read to its end"),
        (SHORTER, "the file became shorter while it was sent"),
        (CHANGED, "the file changed while it was sent"),
    ]
    .into_iter()
    .find_map(|(known, why)| (u64::from(known) == code).then_some(why))
}

/// A client's request on a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum Request {
    /// Send a file, from `offset` on.
    Get {
        /// Its path below the server's directory, `/` between parts.
        name: String,
        /// First byte wanted; the hash covers the whole file all the same.
        #[serde(default)]
        offset: u64,
        /// The requested law of the server's sender. Servers use only laws that they list.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cc: Option<String>,
    },
    /// Store a file whose bytes and hash follow.
    Put {
        /// Its path below the server's directory, `/` between parts.
        name: String,
        /// Bytes that follow.
        bytes: u64,
        /// Replace a file that has the name already.
        #[serde(default, skip_serializing_if = "is_false")]
        overwrite: bool,
    },
}

fn is_false(value: &bool) -> bool {
    !*value
}

/// The server's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// To `get`: the bytes follow.
    File {
        /// Size of the whole file.
        bytes: u64,
        /// Changes when the file does: a part fetched under another tag is of no use.
        tag: String,
        /// The law that the server sends by, which need not be the requested one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        algorithm: Option<String>,
    },
    /// To `put`: the file is in its place.
    Stored {
        /// SHA-256 of what was stored, in hexadecimal.
        sha256: String,
    },
    /// The request cannot be met.
    Refused {
        /// Why.
        reason: Refusal,
        /// More about it, for people.
        message: String,
    },
}

/// Why a server refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// The file does not exist.
    NotFound,
    /// The name leaves the server's directory, or cannot be the name of a file.
    BadName,
    /// The request is not of this protocol, or its offset lies behind the end.
    BadRequest,
    /// The server could not read or write (a full disk, missing permission).
    Storage,
    /// The bytes that arrived do not have the hash that came with them.
    WrongHash,
    /// The server stores nothing.
    ReadOnly,
    /// There is a file of this name, and the request does not say to replace it.
    Exists,
    /// The file was stored, and what lies under its name is another by now.
    Changed,
}

/// Writes one message.
///
/// # Errors
/// Those of the writer; [`io::ErrorKind::InvalidInput`] for a message above [`MAX_MESSAGE`].
pub async fn write<M: Serialize>(
    writer: &mut (impl AsyncWrite + Unpin),
    message: &M,
) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len())
        .ok()
        .filter(|_| body.len() <= MAX_MESSAGE)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "message too long"))?;
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend_from_slice(&body);
    writer.write_all(&framed).await
}

/// Reads one message.
///
/// # Errors
/// Those of the reader; [`io::ErrorKind::InvalidData`] if the bytes do not parse as a message.
pub async fn read<M: DeserializeOwned>(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<M> {
    let length = reader.read_u32().await? as usize;
    if length > MAX_MESSAGE {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "message too long: the peer does not speak pathmark-file",
        ));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await?;
    serde_json::from_slice(&body).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_keep_their_documented_form() {
        let mut wire = Vec::new();
        let request = Request::Get {
            name: "a/b".into(),
            offset: 7,
            cc: None,
        };
        write(&mut wire, &request).await.unwrap();
        assert_eq!(
            &wire[4..],
            br#"{"op":"get","name":"a/b","offset":7}"#.as_slice()
        );
        assert_eq!(
            read::<Request>(&mut wire.as_slice()).await.unwrap(),
            request
        );
    }

    #[tokio::test]
    async fn a_put_replaces_only_if_it_says_so() {
        let put = |overwrite| Request::Put {
            name: "a".into(),
            bytes: 1,
            overwrite,
        };
        for (overwrite, form) in [
            (false, r#"{"op":"put","name":"a","bytes":1}"#),
            (
                true,
                r#"{"op":"put","name":"a","bytes":1,"overwrite":true}"#,
            ),
        ] {
            let mut wire = Vec::new();
            write(&mut wire, &put(overwrite)).await.unwrap();
            assert_eq!(&wire[4..], form.as_bytes());
            let read: Request = read(&mut wire.as_slice()).await.unwrap();
            assert_eq!(read, put(overwrite));
        }
    }

    #[tokio::test]
    async fn what_is_no_message_is_an_error() {
        for wire in [
            b"\xff\xff\xff\xff".as_slice(),
            b"\0\0\0\x02{}",
            b"\0\0\0\x03{]}",
            b"\0\0",
            b"\0\0\0\x09{}",
        ] {
            let mut reader = wire;
            assert!(read::<Request>(&mut reader).await.is_err(), "{wire:?}");
        }
    }
}
