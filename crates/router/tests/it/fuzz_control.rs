//! Fuzz targets of what strangers say to a running router: lines of the status socket, and HTTP.
//!
//! `cargo test` runs each over its corpus in `__fuzz__` and a bounded number of random inputs; a
//! fuzzer drives the same functions for as long as one likes: `cargo bolero test -p pathmark-router
//! http_requests` (libFuzzer).

use pathmark_router::daemon::Query;
use pathmark_router::daemon::exchange::{Exchange, Protocol, Step};
use pathmark_router::daemon::http::{self, LONGEST_HEAD, Method};

/// Random inputs per target in `cargo test`, in addition to the corpus.
const ITERATIONS: usize = 50_000;
/// Longest random input, bytes.
const MAX_LEN: usize = 512;

/// What a client gets in the end, if it sends `input` in pieces of `size` bytes and then ends.
fn conversation(protocol: Protocol, input: &[u8], size: usize) -> Step {
    let mut exchange = Exchange::new(protocol);
    for piece in input.chunks(size) {
        let step = exchange.receive(piece);
        if step != Step::More {
            return step;
        }
    }
    exchange.receive(b"")
}

#[test]
fn lines() {
    bolero::check!()
        .with_iterations(ITERATIONS)
        .with_max_len(MAX_LEN)
        .for_each(|input: &[u8]| {
            let text = String::from_utf8_lossy(input);
            // What is understood is understood again as it is passed on.
            if let Ok(query) = text.parse::<Query>() {
                assert_eq!(query.to_string().parse(), Ok(query));
            }
            // The pieces in which a line comes make no difference.
            let whole = conversation(Protocol::Line, input, MAX_LEN);
            assert_eq!(conversation(Protocol::Line, input, 1), whole);
            assert!(matches!(whole, Step::Ask(_) | Step::Answer(_)));
        });
}

#[test]
fn http_requests() {
    bolero::check!()
        .with_iterations(ITERATIONS)
        .with_max_len(MAX_LEN)
        .for_each(|input: &[u8]| {
            let start = b"GET /metrics".map(|byte| byte);
            for input in [input.to_vec(), [&start, input].concat()] {
                if let Ok(Some(request)) = http::request(&input) {
                    assert!(!request.path.contains('?'));
                    let rooted = request.path.starts_with('/');
                    assert!(rooted || request.method == Method::Other);
                    // A request stays the same, whatever comes behind it.
                    let more = [input.as_slice(), b"\r\nA: b"].concat();
                    assert_eq!(http::request(&more), Ok(Some(request)));
                }
                let whole = conversation(Protocol::Http, &input, MAX_LEN * 2);
                assert_eq!(conversation(Protocol::Http, &input, 1), whole);
                if let Step::Answer(answer) = whole {
                    let [head, body] = answer.rest(0);
                    let text = std::str::from_utf8(head).unwrap();
                    assert!(text.starts_with("HTTP/1.1 4") || text.starts_with("HTTP/1.1 505"));
                    let length = format!("Content-Length: {}\r\n", body.len());
                    assert!(text.contains(&length) || body.is_empty(), "{text}");
                }
            }
            // A head without end is refused at the bound.
            let mut long = [b"GET / HTTP/1.1\r\nA: ".as_slice(), input].concat();
            long.resize(LONGEST_HEAD, b'a');
            if !input.contains(&b'\n') {
                assert!(http::request(&long).is_err());
            }
        });
}
