//! HTTP CONNECT (RFC 9110 section 9.3.6, RFC 9112), and the early bytes of a connection, which
//! directly follow its flow's request.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pathmark_http3::http::StatusCode;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

use super::Ingress;
use super::splice::Half;
use crate::count;
use crate::flows::Meter;
use crate::outbound::{self, Outbound, Refusal};
use crate::target::{Target, TargetError};

/// Maximum length of a request's header section in bytes.
const LONGEST_HEAD: usize = 16 * 1024;
/// Maximum number of fields in a request.
const MOST_FIELDS: usize = 100;

/// The reason why a request opens no flow. Its message suggests a remedy to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The header section is incomplete.
    #[error("the request is not complete")]
    Incomplete,
    /// The method is not CONNECT.
    #[error("this proxy has CONNECT only; set the client's proxy for https, or use SOCKS5")]
    Method,
    /// The request is not valid HTTP/1.1.
    #[error("the request is not HTTP/1.1")]
    Syntax,
    /// The header section exceeds the limits.
    #[error("the request's head is too long")]
    TooLong,
    /// The host or port is invalid.
    #[error(transparent)]
    Target(#[from] TargetError),
}

impl RequestError {
    const fn status(self) -> &'static str {
        match self {
            Self::Incomplete => "408 Request Timeout",
            Self::Method => "405 Method Not Allowed\r\nAllow: CONNECT",
            Self::Syntax | Self::Target(_) => "400 Bad Request",
            Self::TooLong => "431 Request Header Fields Too Large",
        }
    }
}

/// Formats the answer to a client whose flow was refused. It is the response of an HTTP/3 proxy,
/// except that a denied target results in status 403.
fn refused(target: &Target, refusal: &Refusal) -> String {
    let (status, field) = match (refusal, outbound::status_of(refusal)) {
        (Refusal::Denied, (_, field)) => (403, field),
        (_, of) => of,
    };
    let reason = StatusCode::from_u16(status).ok();
    let reason = reason.and_then(|status| status.canonical_reason());
    let reason = reason.unwrap_or_default();
    let body = format!("{target}: {refusal}\n");
    format!(
        "HTTP/1.1 {status} {reason}\r\nProxy-Status: {field}\r\nContent-Type: text/plain\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Parses the header section of a CONNECT request, and returns its target and length. The
/// following bytes belong to the flow.
///
/// # Errors
/// [`RequestError`].
pub fn request(bytes: &[u8]) -> Result<(Target, usize), RequestError> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() < LONGEST_HEAD => {
            return Err(RequestError::Incomplete);
        }
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Err(RequestError::TooLong);
        }
        Err(_) => return Err(RequestError::Syntax),
    };
    if length > LONGEST_HEAD {
        return Err(RequestError::TooLong);
    }
    if request.method != Some("CONNECT") {
        return Err(RequestError::Method);
    }
    Ok((request.path.unwrap_or_default().parse()?, length))
}

impl<O: Outbound> Ingress<O> {
    /// Serves an HTTP client, which sends one request for one flow.
    pub(super) async fn http(&self, mut local: TcpStream) {
        let mut head = Vec::new();
        let read = tokio::time::timeout(self.limits().handshake, read(&mut local, &mut head));
        let request = match read.await {
            Ok(Ok(request)) => request,
            Ok(Err(_)) => return count(&self.counters.bad_requests),
            Err(_) => Err(RequestError::Incomplete),
        };
        let (target, length) = match request {
            Ok(request) => request,
            Err(error) => {
                count(&self.counters.bad_requests);
                tracing::debug!(%error, "no flow for an HTTP client");
                let body = format!("{error}\n");
                let answer = format!(
                    "HTTP/1.1 {}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
                     Connection: close\r\n\r\n{body}",
                    error.status(),
                    body.len()
                );
                return self.farewell(local, answer.as_bytes()).await;
            }
        };
        let listed = self.list(&local, "http", &target);
        let mut early = tokio::io::empty();
        let (read, write) = match self.open(&local, &target, &mut early).await {
            Some(Ok(flow)) => flow,
            Some(Err(refusal)) => {
                let answer = refused(&target, &refusal);
                return self.farewell(local, answer.as_bytes()).await;
            }
            None => return,
        };
        if local.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.is_err() {
            return self.give_up(read, write);
        }
        self.join(local, head.split_off(length), read, write, &listed)
            .await;
    }
}

/// Reads a request's header section. `head` may also receive bytes after it.
async fn read(
    local: &mut TcpStream,
    head: &mut Vec<u8>,
) -> io::Result<Result<(Target, usize), RequestError>> {
    loop {
        match request(head) {
            Err(RequestError::Incomplete) => {}
            done => return Ok(done),
        }
        if local.read_buf(head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Reads the first bytes of a connection while its flow is being opened.
pub(super) struct Early<'a> {
    from: Half<'a>,
    /// Bytes that may still be read.
    left: usize,
    meter: &'a Meter,
}

impl<'a> Early<'a> {
    /// Creates a reader of at most `most` bytes.
    pub(super) const fn new(local: &'a TcpStream, most: usize, meter: &'a Meter) -> Self {
        Self {
            from: Half(local),
            left: most,
            meter,
        }
    }
}

impl AsyncRead for Early<'_> {
    /// The reader ends after `most` bytes.
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = self.left.min(buffer.remaining());
        if room == 0 {
            return Poll::Ready(Ok(()));
        }
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(room));
        ready!(Pin::new(&mut self.from).poll_read(cx, &mut part))?;
        let read = part.filled().len();
        self.left -= read;
        self.meter.add(read);
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        let head = b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\nrest";
        let target = "a.example:443".parse().unwrap();
        assert_eq!(request(head), Ok((target, head.len() - 4)));
        let v6 = request(b"CONNECT [::1]:22 HTTP/1.0\r\n\r\n").unwrap();
        assert_eq!(v6.0.to_string(), "[::1]:22");
        for length in 0..head.len() - 4 {
            let got = request(head.get(..length).unwrap());
            assert_eq!(got, Err(RequestError::Incomplete), "{length}");
        }
        for (head, error) in [
            ("GET http://a/ HTTP/1.1\r\n\r\n", RequestError::Method),
            ("CONNECT a HTTP/1.1\r\n\r\n", TargetError::Port.into()),
            ("CONNECT a:0 HTTP/1.1\r\n\r\n", TargetError::Port.into()),
            ("CONNECT :1 HTTP/1.1\r\n\r\n", TargetError::Host.into()),
            ("\x05\x01\0", RequestError::Syntax),
            ("CONNECT a:1 HTTP/9\r\n\r\n", RequestError::Syntax),
        ] {
            assert_eq!(request(head.as_bytes()), Err(error), "{head:?}");
        }
        let long = format!("CONNECT a:1 HTTP/1.1\r\nA: {}", "b".repeat(LONGEST_HEAD));
        assert_eq!(request(long.as_bytes()), Err(RequestError::TooLong));
        let many = format!("CONNECT a:1 HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(101));
        assert_eq!(request(many.as_bytes()), Err(RequestError::TooLong));
    }
}
