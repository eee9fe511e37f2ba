//! The server's side: answers requests on the streams of its connections.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use pathmark_cc::Algorithm;
use tokio::io::AsyncWriteExt;

use super::protocol::{self, Answer, Refusal, Request};
use super::receive::{ReceiveError, receive_file};
use super::report::SenderReport;
use super::send::{hex, send_file};
use super::store::Store;
use crate::{Connection, Endpoint, RecvStream, SendStream};

/// Application error code with which a stream is reset when a file cannot be read to its end.
pub const BROKEN_OFF: u32 = 1;

/// Serves the files of a [`Store`].
#[derive(Debug)]
pub struct FileServer {
    store: Store,
    fixed_controller: bool,
}

impl FileServer {
    /// Serves `store`. Clients choose the congestion controller of what they fetch, unless it is fixed.
    #[must_use]
    pub fn new(store: Store, fixed_controller: bool) -> Self {
        Self {
            store,
            fixed_controller,
        }
    }

    /// Accepts connections until the endpoint closes.
    pub async fn run(self: Arc<Self>, endpoint: &Endpoint) {
        while let Some(incoming) = endpoint.accept().await {
            let server = Arc::clone(&self);
            tokio::spawn(async move {
                let connection = match incoming.accept() {
                    Ok(connecting) => connecting.await,
                    Err(error) => return tracing::debug!(%error, "connection not accepted"),
                };
                match connection {
                    Ok(connection) => server.connection(connection).await,
                    Err(error) => tracing::debug!(%error, "handshake failed"),
                }
            });
        }
    }

    async fn connection(self: Arc<Self>, connection: Connection) {
        while let Ok((send, recv)) = connection.accept_bi().await {
            let server = Arc::clone(&self);
            let connection = connection.clone();
            tokio::spawn(async move {
                if let Err(error) = server.stream(&connection, send, recv).await {
                    tracing::debug!(%error, "transfer broke off");
                }
            });
        }
    }

    async fn stream(
        &self,
        connection: &Connection,
        mut send: SendStream,
        mut recv: RecvStream,
    ) -> io::Result<()> {
        let request = match protocol::read::<Request>(&mut recv).await {
            Ok(request) => request,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return refuse(&mut send, Refusal::BadRequest, error).await;
            }
            Err(error) => return Err(error),
        };
        match request {
            Request::Get { name, offset, cc } => {
                if let Some(cc) = cc.filter(|_| !self.fixed_controller) {
                    match Algorithm::parse(&cc) {
                        Ok(algorithm) => {
                            connection.set_controller(crate::controller(&algorithm));
                            if let Some(signal) = crate::signal(&algorithm) {
                                // A client without this signal gets the law's fallback.
                                let _ = connection.set_signal(signal);
                            }
                        }
                        Err(error) => {
                            return refuse(&mut send, Refusal::BadRequest, error).await;
                        }
                    }
                }
                self.get(connection, &name, offset, &mut send).await
            }
            Request::Put { name, bytes } => self.put(&name, bytes, &mut send, &mut recv).await,
        }
    }

    async fn get(
        &self,
        connection: &Connection,
        name: &str,
        offset: u64,
        send: &mut SendStream,
    ) -> io::Result<()> {
        let path = match self.store.path(name) {
            Ok(path) => path,
            Err(error) => return refuse(send, Refusal::BadName, error).await,
        };
        let opened = File::open(&path).and_then(|file| {
            let metadata = file.metadata()?;
            if metadata.is_file() {
                Ok((file, metadata))
            } else {
                Err(io::ErrorKind::NotFound.into())
            }
        });
        let (file, metadata) = match opened {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let message = format!("there is no file `{name}`");
                return refuse(send, Refusal::NotFound, message).await;
            }
            Err(error) => return refuse(send, Refusal::Storage, error).await,
        };
        let size = metadata.len();
        if offset > size {
            let message = format!("`{name}` has {size} bytes, not {offset}");
            return refuse(send, Refusal::BadRequest, message).await;
        }
        let modified = metadata
            .modified()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
            .map_or(0, |time| time.as_nanos());
        let answer = Answer::File {
            bytes: size,
            tag: format!("{size:x}-{modified:x}"),
        };
        protocol::write(send, &answer).await?;
        match send_file(file, offset, size, send, |_| ()).await {
            Ok(_) => {
                protocol::write(send, &SenderReport::of(connection)).await?;
                send.shutdown().await
            }
            Err(error) => {
                // Without its hash the client keeps what it has as a part, never as the file.
                let _ = send.reset(BROKEN_OFF);
                Err(error)
            }
        }
    }

    async fn put(
        &self,
        name: &str,
        bytes: u64,
        send: &mut SendStream,
        recv: &mut RecvStream,
    ) -> io::Result<()> {
        let incoming = match self.store.create(name) {
            Ok(incoming) => incoming,
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return refuse(send, Refusal::BadName, error).await;
            }
            Err(error) => return refuse(send, Refusal::Storage, error).await,
        };
        let file = incoming.file()?;
        match receive_file(file, 0, bytes, recv, |_| ()).await {
            Ok(hash) => {
                if let Err(error) = incoming.keep() {
                    return refuse(send, Refusal::Storage, error).await;
                }
                let sha256 = hex(&hash);
                protocol::write(send, &Answer::Stored { sha256 }).await?;
                send.shutdown().await
            }
            Err(ReceiveError::Stream(error)) => Err(error),
            Err(error @ ReceiveError::WrongHash) => refuse(send, Refusal::WrongHash, error).await,
            Err(error) => refuse(send, Refusal::Storage, error).await,
        }
    }
}

async fn refuse(send: &mut SendStream, reason: Refusal, message: impl ToString) -> io::Result<()> {
    let message = message.to_string();
    protocol::write(send, &Answer::Refused { reason, message }).await?;
    send.shutdown().await
}
