//! One request and its answer, without I/O.

use std::sync::Arc;

use super::http::{self, Method, Status};
use super::query::Query;

/// Maximum length of a line on the status socket, in bytes.
const LONGEST_LINE: usize = 8 * 1024;
/// Bytes after a request that are read and discarded, because closing the connection with unread
/// bytes would destroy the answer in transit.
const TRAILING: usize = 256 * 1024;

/// The protocol of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// One line on the status socket.
    Line,
    /// HTTP/1.
    Http,
}

/// The next step after receiving bytes from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// None, because the request is incomplete.
    More,
    /// Send a query to the router.
    Ask(Query),
    /// Send an answer that does not depend on the router.
    Answer(Answer),
    /// Close, because the client has left or sends too much after its request.
    Close,
}

/// The bytes of an answer. Clients with the same query share its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The part for this client only.
    pub head: Vec<u8>,
    /// The shared part.
    pub body: Arc<str>,
}

/// One request, from its first byte to its answer.
#[derive(Debug)]
pub struct Exchange {
    protocol: Protocol,
    input: Vec<u8>,
    head_only: bool,
    answered: bool,
    trailing: usize,
}

impl Exchange {
    /// Starts with a client that has not sent anything yet.
    pub fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            input: Vec::new(),
            head_only: false,
            answered: false,
            trailing: 0,
        }
    }

    /// Processes `bytes` from the client. An empty slice means that it will send no more.
    pub fn receive(&mut self, bytes: &[u8]) -> Step {
        if self.answered {
            self.trailing = self.trailing.saturating_add(bytes.len());
            return match bytes.is_empty() || self.trailing > TRAILING {
                true => Step::Close,
                false => Step::More,
            };
        }
        self.input.extend_from_slice(bytes);
        let step = match self.protocol {
            Protocol::Line => self.line(bytes.is_empty()),
            Protocol::Http => self.http(bytes.is_empty()),
        };
        if step != Step::More {
            self.answered = true;
            self.input = Vec::new();
        }
        step
    }

    fn line(&self, ended: bool) -> Step {
        let end = self.input.iter().position(|byte| *byte == b'\n');
        let line = match end {
            Some(end) => self.input.get(..end),
            None if ended => Some(self.input.as_slice()),
            None if self.input.len() >= LONGEST_LINE => None,
            None => return Step::More,
        };
        let text = line
            .filter(|line| line.len() <= LONGEST_LINE)
            .ok_or("a line has at most 8 KiB")
            .and_then(|line| std::str::from_utf8(line).map_err(|_| "the line is not UTF-8"));
        match text.map_err(str::to_owned).and_then(str::parse) {
            Ok(query) => Step::Ask(query),
            Err(error) => Step::Answer(Answer {
                head: Vec::new(),
                body: error_line(&error).into(),
            }),
        }
    }

    fn http(&mut self, ended: bool) -> Step {
        let status = match http::request(&self.input) {
            Ok(None) if ended && self.input.is_empty() => return Step::Close,
            Ok(None) if ended => Status::BadRequest,
            Ok(None) => return Step::More,
            Ok(Some(request)) => {
                self.head_only = request.method == Method::Head;
                match (request.method, request.path) {
                    (Method::Other, _) => Status::MethodNotAllowed,
                    (_, "/metrics" | "/") => return Step::Ask(Query::Metrics),
                    _ => Status::NotFound,
                }
            }
            Err(status) => status,
        };
        Step::Answer(self.frame(status, http::explanation(status).into()))
    }

    /// Returns the answer with the router's reply; `None`: it did not reply.
    pub fn answer(&self, body: Option<Arc<str>>) -> Answer {
        match (self.protocol, body) {
            (Protocol::Line, Some(body)) => Answer {
                head: Vec::new(),
                body,
            },
            (Protocol::Line, None) => Answer {
                head: Vec::new(),
                body: error_line("the router does not answer").into(),
            },
            (Protocol::Http, Some(body)) => self.frame(Status::Ok, body),
            (Protocol::Http, None) => {
                let status = Status::Unavailable;
                self.frame(status, http::explanation(status).into())
            }
        }
    }

    fn frame(&self, status: Status, body: Arc<str>) -> Answer {
        let head = http::head(status, body.len());
        let body = if self.head_only { "".into() } else { body };
        Answer { head, body }
    }
}

/// Formats an error for the status socket.
pub(super) fn error_line(error: &str) -> String {
    serde_json::json!({ "error": error }).to_string() + "\n"
}

impl Answer {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Returns true if there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the unsent rest of the head and of the body, after `sent` bytes.
    pub fn rest(&self, sent: usize) -> [&[u8]; 2] {
        let head = self.head.get(sent..).unwrap_or_default();
        let behind = sent.saturating_sub(self.head.len());
        [head, self.body.as_bytes().get(behind..).unwrap_or_default()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(answer: &Answer) -> String {
        String::from_utf8([answer.rest(0)[0], answer.rest(0)[1]].concat()).unwrap()
    }

    /// The error that a client gets at once.
    fn refusal(exchange: &mut Exchange, bytes: &[u8]) -> String {
        match exchange.receive(bytes) {
            Step::Answer(answer) => text(&answer),
            other => panic!("{}: {other:?}", bytes.escape_ascii()),
        }
    }

    #[test]
    fn a_line_by_bytes_or_without_its_end() {
        let mut exchange = Exchange::new(Protocol::Line);
        for byte in b"metrics" {
            assert_eq!(exchange.receive(&[*byte]), Step::More);
        }
        assert_eq!(exchange.receive(b"\nmore"), Step::Ask(Query::Metrics));
        let mut exchange = Exchange::new(Protocol::Line);
        assert_eq!(exchange.receive(b"metrics"), Step::More);
        assert_eq!(exchange.receive(b""), Step::Ask(Query::Metrics));
        let step = Exchange::new(Protocol::Line).receive(b"");
        assert_eq!(step, Step::Ask(Query::Json));
    }

    #[test]
    fn a_line_without_a_request_gets_an_error() {
        let long = "a".repeat(LONGEST_LINE);
        for (line, part) in [
            (&b"jsn\n"[..], "ask for json"),
            (long.as_bytes(), "at most 8 KiB"),
            (b"capacity a 8parsec\n", "8parsec"),
            (b"\xff\n", "UTF-8"),
        ] {
            let text = refusal(&mut Exchange::new(Protocol::Line), line);
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_head_request_gets_the_length_and_no_body() {
        let mut exchange = Exchange::new(Protocol::Http);
        let step = exchange.receive(b"HEAD /metrics?a HTTP/1.1\r\n\r\n");
        assert_eq!(step, Step::Ask(Query::Metrics));
        let answer = text(&exchange.answer(Some("12345".into())));
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("Content-Length: 5\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\n"), "{answer}");
    }

    #[test]
    fn each_mistake_has_its_status() {
        let body = "POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
        for (request, status) in [
            ("GET /other HTTP/1.1\r\n\r\n", "404"),
            (body, "405"),
            ("OPTIONS * HTTP/1.1\r\n\r\n", "405"),
            ("hello\r\n", "400"),
            ("GET / HTTP/3.0\r\n\r\n", "505"),
        ] {
            let text = refusal(&mut Exchange::new(Protocol::Http), request.as_bytes());
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
            assert_eq!(text.contains("Allow: GET, HEAD"), status == "405", "{text}");
        }
        let mut exchange = Exchange::new(Protocol::Http);
        assert_eq!(exchange.receive(b"GET / HT"), Step::More);
        assert!(refusal(&mut exchange, b"").starts_with("HTTP/1.1 400 "));
        assert_eq!(Exchange::new(Protocol::Http).receive(b""), Step::Close);
    }

    /// Bytes after a request are discarded, but only up to a limit.
    #[test]
    fn trailing_bytes_are_bounded() {
        let mut exchange = Exchange::new(Protocol::Line);
        assert_eq!(exchange.receive(b"\n"), Step::Ask(Query::Json));
        let piece = [0; 1024];
        let taken = (0..).take_while(|_| exchange.receive(&piece) == Step::More);
        assert_eq!(taken.count(), TRAILING / piece.len());
        assert!(exchange.input.is_empty());
    }
}
