//! HTTP/1 as far as scraping requires it (RFC 9112): one request head in, one complete answer
//! out.
//!
//! Each connection carries one request. A body is not read. The connection always closes after
//! the answer.

use std::fmt::Write as _;

/// Maximum length of a request's head in bytes.
pub const LONGEST_HEAD: usize = 8 * 1024;

/// The request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The requested method.
    pub method: Method,
    /// The path of the target, without query and fragment.
    pub path: &'a str,
}

/// The methods that are distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The head and the body of the resource.
    Get,
    /// The head only.
    Head,
    /// Any other method; not allowed.
    Other,
}

/// The status of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// 200.
    Ok,
    /// 400.
    BadRequest,
    /// 404.
    NotFound,
    /// 405.
    MethodNotAllowed,
    /// 431.
    HeadTooLarge,
    /// 503.
    Unavailable,
    /// 505.
    VersionNotSupported,
}

impl Status {
    /// Code and reason phrase.
    pub const fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::Unavailable => "503 Service Unavailable",
            Self::VersionNotSupported => "505 HTTP Version Not Supported",
        }
    }
}

/// Parses a request's head from the bytes received so far. `None`: more bytes are needed.
///
/// Bytes that cannot become a request are refused immediately, without waiting for the end of
/// the head.
///
/// # Errors
/// The status of the answer.
pub fn request(bytes: &[u8]) -> Result<Option<Request<'_>>, Status> {
    // Empty lines before the request line are skipped (RFC 9112 §2.2).
    let start = bytes
        .iter()
        .position(|byte| !matches!(byte, b'\r' | b'\n'))
        .unwrap_or(bytes.len());
    let mut rest = bytes.get(start..).unwrap_or_default();
    let too_long = || {
        if bytes.len() >= LONGEST_HEAD {
            Err(Status::HeadTooLarge)
        } else {
            Ok(None)
        }
    };
    if !rest.first().is_none_or(|byte| is_token(*byte)) {
        return Err(Status::BadRequest);
    }
    let Some(first) = line(&mut rest) else {
        return too_long();
    };
    let request = request_line(first)?;
    loop {
        match line(&mut rest) {
            Some([]) => return Ok(Some(request)),
            Some(field) => header_field(field)?,
            None => return too_long(),
        }
    }
}

/// Splits off the next line, without its end; `None` if its end is still missing.
fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let (line, behind) = rest.split_at_checked(end)?;
    *rest = behind.get(1..)?;
    Some(line.strip_suffix(b"\r").unwrap_or(line))
}

fn request_line(line: &[u8]) -> Result<Request<'_>, Status> {
    let text = std::str::from_utf8(line).map_err(|_| Status::BadRequest)?;
    let mut words = text.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Status::BadRequest);
    };
    if method.is_empty() || !method.bytes().all(is_token) {
        return Err(Status::BadRequest);
    }
    match version.as_bytes() {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0'..=b'9'] => {}
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
            return Err(Status::VersionNotSupported);
        }
        _ => return Err(Status::BadRequest),
    }
    let method = match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        _ => Method::Other,
    };
    let path = match path(target) {
        Some(path) => path,
        // `OPTIONS *` and `CONNECT host:port` have targets of another form.
        None if method == Method::Other && !target.is_empty() => target,
        None => return Err(Status::BadRequest),
    };
    Ok(Request { method, path })
}

/// The path of a target in origin form (`/path?query`) or absolute form (`http://host/path?query`).
fn path(target: &str) -> Option<&str> {
    if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let end = target.find(['?', '#']).unwrap_or(target.len());
    let target = target.get(..end)?;
    if target.starts_with('/') {
        return Some(target);
    }
    let (scheme, rest) = target.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") || rest.is_empty() || rest.starts_with('/') {
        return None;
    }
    Some(
        rest.find('/')
            .map_or("/", |at| rest.get(at..).unwrap_or("/")),
    )
}

/// A field's name ends with a colon, without spaces in or before it (RFC 9112 §5).
fn header_field(field: &[u8]) -> Result<(), Status> {
    let end = field.iter().position(|byte| *byte == b':');
    match end.and_then(|end| field.get(..end)) {
        Some(name) if !name.is_empty() && name.iter().all(|byte| is_token(*byte)) => Ok(()),
        _ => Err(Status::BadRequest),
    }
}

/// A character of a token (RFC 9110 §5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The head of an answer with a body of `length` bytes.
pub fn head(status: Status, length: usize) -> Vec<u8> {
    let kind = match status {
        Status::Ok => "text/plain; version=0.0.4; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    };
    let mut text = format!(
        "HTTP/1.1 {}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n",
        status.line()
    );
    if status == Status::MethodNotAllowed {
        text.push_str("Allow: GET, HEAD\r\n");
    }
    // Writing to a string cannot fail.
    let _ = write!(text, "Connection: close\r\n\r\n");
    text.into_bytes()
}

/// The body of an answer other than 200.
pub const fn explanation(status: Status) -> &'static str {
    match status {
        Status::Ok => "",
        Status::NotFound => "there is only /metrics here\n",
        Status::MethodNotAllowed => "only GET and HEAD are answered\n",
        Status::HeadTooLarge => "the head of a request has at most 8 KiB\n",
        Status::Unavailable => "the router does not answer\n",
        Status::BadRequest | Status::VersionNotSupported => "try GET /metrics HTTP/1.1\n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<(Method, &str)>, Status> {
        request(text.as_bytes()).map(|found| found.map(|r| (r.method, r.path)))
    }

    #[test]
    fn requests_as_clients_write_them() {
        assert_eq!(read("GET / HTTP/1.0\n\n"), Ok(Some((Method::Get, "/"))));
        let get = |path| Some((Method::Get, path));
        for (head, found) in [
            ("GET /metrics HTTP/1.1\r\nHost: a", get("/metrics")),
            ("\r\nGET /metrics?name[]=up HTTP/1.1", get("/metrics")),
            ("GET http://h:9464/metrics?x HTTP/1.1", get("/metrics")),
            ("GET HTTP://h HTTP/1.1\r\nA:", get("/")),
            ("HEAD /metrics HTTP/1.1", Some((Method::Head, "/metrics"))),
            ("OPTIONS * HTTP/1.1", Some((Method::Other, "*"))),
        ] {
            assert_eq!(read(&format!("{head}\r\n\r\n")), Ok(found), "{head:?}");
        }
    }

    #[test]
    fn what_is_no_request_is_refused_as_soon_as_it_shows() {
        assert_eq!(read("\x16\x03\x01"), Err(Status::BadRequest));
        let lines = "GET|GET /metrics|GET  /metrics HTTP/1.1|GET metrics HTTP/1.1|G(T / HTTP/1.1|\
            GET ftp://h/ HTTP/1.1|GET http:///metrics HTTP/1.1|GET /mé HTTP/1.1|GET / HTTP/1.1 |\
            GET / http/1.1|GET / HTTP/1.1\r\nno colon|GET / HTTP/1.1\r\nHost : a|\
            GET / HTTP/1.1\r\n folded: a";
        for line in lines.split('|') {
            let read = read(&format!("{line}\r\n")).map(|_| ());
            assert_eq!(read, Err(Status::BadRequest), "{line:?}");
        }
        let newer = read("PRI * HTTP/2.0\r\n\r\nSM");
        assert_eq!(newer, Err(Status::VersionNotSupported));
        let long = format!("GET / HTTP/1.1\r\nA: {}", "a".repeat(LONGEST_HEAD));
        for long in [long, "\r\n".repeat(LONGEST_HEAD)] {
            assert_eq!(read(&long), Err(Status::HeadTooLarge), "{long}");
        }
    }

    /// A head may arrive in pieces. Each prefix must ask for more, and only the whole is a
    /// request.
    #[test]
    fn a_head_in_pieces() {
        let whole = b"\r\nGET /metrics?a HTTP/1.1\r\nHost: a:9464\r\nAccept: */*\r\n\r\n";
        for end in 0..whole.len() {
            assert_eq!(request(&whole[..end]), Ok(None), "{end}");
        }
        assert!(matches!(request(whole), Ok(Some(_))));
    }
}
