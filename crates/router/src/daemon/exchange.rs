//! One request and its answer, without I/O: queries on the status socket, one line each, and
//! requests of HTTP.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use pathmark_link::keys::{RateValue, Span};

use super::http;
use super::http::{Method, Status};
use crate::config::{PORT_NAME, is_port_name};

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
            return if bytes.is_empty() || self.trailing > TRAILING {
                Step::Close
            } else {
                Step::More
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

/// The least capacity that a law can use: one byte per second.
const LEAST: RateValue = RateValue { bits: 8 };

/// A client's query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// The state as JSON.
    Json,
    /// Prometheus text.
    Metrics,
    /// Change the capacity that a port's control law uses.
    Capacity(Hint),
    /// Read the configuration again.
    Reload,
}

/// A capacity for a port and its control law, set by an operator or by a program that monitors the
/// link behind the port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The port's name.
    pub port: String,
    /// The capacity, at least 8 bit/s; `None`: the configured value.
    pub rate: Option<RateValue>,
    /// Time after which the report expires; `None`: never.
    pub hold: Option<Duration>,
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json => f.write_str("json"),
            Self::Metrics => f.write_str("metrics"),
            Self::Reload => f.write_str("reload"),
            Self::Capacity(Hint { port, rate, hold }) => {
                match rate {
                    Some(rate) => write!(f, "capacity {port} {}bit", rate.bits)?,
                    None => write!(f, "capacity {port} none")?,
                }
                hold.map_or(Ok(()), |hold| write!(f, " for {}ns", hold.as_nanos()))
            }
        }
    }
}

impl Query {
    /// Creates a query that sets the capacity of a port's law to `rate`, which is a rate as in
    /// files, or `none`. A rate below 8 bit/s, also `0`, counts as 8 bit/s, because laws need
    /// a capacity of at least one byte per second. The capacity expires after `hold`.
    ///
    /// # Errors
    /// A line about an invalid name, rate or time.
    pub fn capacity(port: &str, rate: &str, hold: Option<Span>) -> Result<Self, String> {
        let rate = match rate {
            "none" if hold.is_some() => return Err("`none` never expires".to_owned()),
            "none" => None,
            "0" => Some(LEAST),
            rate => {
                let rate = rate.parse::<RateValue>();
                Some(rate.map_err(|error| error.to_string())?.max(LEAST))
            }
        };
        let hold = hold.map(|hold| hold.0);
        if hold.is_some_and(|hold| hold.is_zero()) {
            return Err("a report that expires holds for longer than 0".to_owned());
        }
        if !is_port_name(port) {
            return Err(format!("no port is called {port:?}: {PORT_NAME}"));
        }
        let port = port.to_owned();
        Ok(Self::Capacity(Hint { port, rate, hold }))
    }
}

impl FromStr for Query {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let line = line.trim();
        match line {
            "json" | "" => return Ok(Self::Json),
            "metrics" => return Ok(Self::Metrics),
            "reload" => return Ok(Self::Reload),
            _ => {}
        }
        // A port's name may contain spaces and `for`; a rate is one word, and no time.
        let hint = line.strip_prefix("capacity ").unwrap_or_default();
        let Some((port, rate)) = last_word(hint) else {
            return Err("ask for json, metrics, reload, capacity PORT RATE [for TIME]".to_owned());
        };
        let timed = port.strip_suffix(" for").and_then(last_word);
        match (timed, rate.parse()) {
            (Some((port, rate)), Ok(hold)) => Self::capacity(port, rate, Some(hold)),
            _ => Self::capacity(port, rate, None),
        }
    }
}

/// Splits a text before its last word.
fn last_word(text: &str) -> Option<(&str, &str)> {
    let (before, word) = text.trim().rsplit_once(' ')?;
    Some((before.trim_end(), word))
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

    #[test]
    fn a_report_may_expire() {
        let hint = |line: &str| match line.parse() {
            Ok(Query::Capacity(Hint { port, rate, hold })) => {
                (port, rate.map(|rate| rate.bits), hold)
            }
            other => panic!("{line}: {other:?}"),
        };
        let five = Some(Duration::from_secs(5));
        let eight = Some(8_000_000);
        for (line, port, bits, hold) in [
            ("wan 8Mbit", "wan", eight, None),
            ("wan 8Mbit for 5s", "wan", eight, five),
            (" wan  8Mbit  for  5s ", "wan", eight, five),
            ("wan none", "wan", None, None),
            // The least that a law can use.
            ("wan 0", "wan", Some(8), None),
            ("wan 0 for 5s", "wan", Some(8), five),
            ("wan 7bit", "wan", Some(8), None),
            // Names with `for`.
            ("a for 8Mbit", "a for", eight, None),
            ("a for 0", "a for", Some(8), None),
            ("a for b 8Mbit for 5s", "a for b", eight, five),
        ] {
            let expected = (port.to_owned(), bits, hold);
            assert_eq!(hint(&format!("capacity {line}")), expected, "{line}");
        }
        for (line, part) in [
            ("capacity wan none for 5s", "`none` never expires"),
            ("capacity wan 8Mbit for 0s", "longer than 0"),
            ("capacity wan 8Mbit for 5parsec", "5parsec"),
            ("capacity wan fast for 5s", "fast"),
            ("capacity wan", "capacity PORT RATE [for TIME]"),
        ] {
            let error = line.parse::<Query>().unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
