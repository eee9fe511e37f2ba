//! HTTP/2 (RFC 9113) on TLS over TCP. This is the only module that uses the `h2` crate.
//!
//! Its limits answer the known floods: an `h2` connection reads nothing more until its answers to
//! PING and SETTINGS are sent, it bounds the CONTINUATION frames of a header section, and it ends
//! with ENHANCE_YOUR_CALM after too many streams that were reset before they were accepted.

mod client;
mod server;

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http::HeaderMap;

pub(super) use client::{ClientExchange, ClientLink};
pub(super) use server::{Incoming, ServerExchange, ServerLink};

use super::{LinkError, codes};

/// Content in bytes that a stream keeps for a connection that is not ready to send it.
const SEND_BUFFER: usize = 32 * 1024;
/// Streams that were reset before they were accepted, and streams that this side has reset and
/// still knows. More of them end the connection.
const RESET_STREAMS: usize = 64;

/// The codes of both versions (RFC 9113 section 7, RFC 9114 section 8.1).
const CODES: [(Reason, u64); 6] = [
    (Reason::NO_ERROR, codes::NO_ERROR),
    (Reason::REFUSED_STREAM, codes::REQUEST_REJECTED),
    (Reason::CANCEL, codes::REQUEST_CANCELLED),
    (Reason::CONNECT_ERROR, codes::CONNECT_ERROR),
    (Reason::ENHANCE_YOUR_CALM, codes::EXCESSIVE_LOAD),
    (Reason::PROTOCOL_ERROR, codes::MESSAGE_ERROR),
];

/// Converts a code to that of HTTP/3.
fn code_of(reason: Reason) -> u64 {
    let known = CODES.iter().find(|(known, _)| *known == reason);
    known.map_or(codes::INTERNAL_ERROR, |(_, code)| *code)
}

/// Converts a code from that of HTTP/3.
fn reason_of(code: u64) -> Reason {
    let known = CODES.iter().find(|(_, known)| *known == code);
    known.map_or(Reason::INTERNAL_ERROR, |(reason, _)| *reason)
}

impl From<h2::Error> for LinkError {
    fn from(error: h2::Error) -> Self {
        match error.reason() {
            Some(Reason::NO_ERROR) if error.is_go_away() => Self::Closed(String::new()),
            Some(reason) if error.is_reset() => Self::Reset {
                code: code_of(reason),
            },
            _ => Self::Ended(error.to_string()),
        }
    }
}

/// Sends content as the peer and the connection accept it, and removes it from `data`.
fn poll_send(
    stream: &mut SendStream<Bytes>,
    cx: &mut Context<'_>,
    data: &mut Bytes,
) -> Poll<Result<(), LinkError>> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let Some(room) = ready!(stream.poll_capacity(cx)) else {
            let reason = ready!(stream.poll_reset(cx))?;
            let code = code_of(reason);
            return Poll::Ready(Err(LinkError::Reset { code }));
        };
        let part = data.split_to(room?.min(data.len()));
        if !part.is_empty() {
            stream.send_data(part, false)?;
        }
    }
    Poll::Ready(Ok(()))
}

/// Ends the content.
fn finish(stream: &mut SendStream<Bytes>, trailers: Option<HeaderMap>) -> Result<(), LinkError> {
    match trailers {
        Some(trailers) => stream.send_trailers(trailers)?,
        None => stream.send_data(Bytes::new(), true)?,
    }
    Ok(())
}

/// Returns the next bytes of content, or `None` at its end. Dropping the future loses no bytes.
async fn data(stream: &mut h2::RecvStream) -> Result<Option<Bytes>, LinkError> {
    let Some(data) = stream.data().await else {
        return Ok(None);
    };
    let data = data?;
    // The connection's window opens for as much as was taken.
    stream.flow_control().release_capacity(data.len())?;
    Ok(Some(data))
}
