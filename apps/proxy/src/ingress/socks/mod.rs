//! SOCKS version 5 (RFC 1928): CONNECT and UDP ASSOCIATE.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Ingress, count};
use crate::outbound::Outbound;
use crate::target::Target;
use wire::{Request, SocksError};

mod associate;
pub mod wire;

impl<O: Outbound> Ingress<O> {
    pub(super) async fn socks(&self, mut local: TcpStream) {
        let handshake = tokio::time::timeout(self.limits().handshake, handshake(&mut local));
        let request = match handshake.await {
            Ok(Ok(Ok(request))) => request,
            Ok(Ok(Err(refused))) => {
                count(&self.counters.bad_requests);
                tracing::debug!(error = %refused.error, "no flow for a SOCKS client");
                return self.farewell(local, &refused.answer).await;
            }
            Ok(Err(_)) | Err(_) => return count(&self.counters.bad_requests),
        };
        match request {
            Request::Connect(target) => self.socks_connect(local, &target).await,
            Request::Associate(port) => self.associate(local, port).await,
        }
    }

    async fn socks_connect(&self, mut local: TcpStream, target: &Target) {
        let Ok(own) = local.local_addr() else {
            return;
        };
        let listed = self.list(&local, "socks", target);
        let mut early = tokio::io::empty();
        let (read, write) = match self.open(&local, target, &mut early).await {
            Some(Ok(flow)) => flow,
            Some(Err(refusal)) => {
                let answer = wire::reply(wire::code(&refusal), own);
                return self.farewell(local, &answer).await;
            }
            None => return,
        };
        if local.write_all(&wire::reply(0, own)).await.is_err() {
            return self.give_up(read, write);
        }
        self.join(local, Vec::new(), (read, write), &listed).await;
    }
}

/// The answer to a client that can't be served.
struct Refused {
    error: SocksError,
    answer: Vec<u8>,
}

/// Reads a client's greeting and request, without reading any further bytes.
async fn handshake(local: &mut TcpStream) -> io::Result<Result<Request, Refused>> {
    let own = local.local_addr()?;
    let mut bytes = Vec::new();
    if let Err(error) = message(local, &mut bytes, wire::greeting).await? {
        let answer = match error {
            SocksError::Method => wire::UNACCEPTABLE.to_vec(),
            _ => Vec::new(),
        };
        return Ok(Err(Refused { error, answer }));
    }
    local.write_all(&wire::ACCEPTED).await?;
    bytes.clear();
    let request = message(local, &mut bytes, wire::request).await?;
    Ok(request
        .map(|(request, _)| request)
        .map_err(|error| Refused {
            error,
            answer: wire::reply(error.code(), own),
        }))
}

/// Reads a message by requesting the missing bytes until it is complete.
async fn message<T>(
    local: &mut TcpStream,
    bytes: &mut Vec<u8>,
    parse: impl Fn(&[u8]) -> Result<T, SocksError>,
) -> io::Result<Result<T, SocksError>> {
    loop {
        let needed = match parse(bytes) {
            Err(SocksError::Incomplete(needed)) => needed,
            done => return Ok(done),
        };
        let missing = needed.saturating_sub(bytes.len()) as u64;
        if (&mut *local).take(missing).read_buf(bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
