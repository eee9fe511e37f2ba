//! Fuzz targets for the input of ingresses from users and clients.
//!
//! `cargo test` runs each over its corpus in `__fuzz__` and a limited number of random inputs. A
//! fuzzer can run the same functions for as long as you like: `cargo bolero test -p pathmark-proxy
//! socks` (libFuzzer).

use pathmark_proxy::ingress::connect;
use pathmark_proxy::ingress::socks::{self, Request, SocksError};
use pathmark_proxy::ingress::spec::{Bind, Forward};

/// Random inputs per target in `cargo test`, in addition to the corpus.
const ITERATIONS: usize = 200_000;
/// Largest length of a random input in bytes.
const MAX_LEN: usize = 300;

/// A valid forward or listener is displayed as a text with the same meaning.
fn spec(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    if let Ok(forward) = text.parse::<Forward>() {
        assert_eq!(forward.to_string().parse(), Ok(forward));
    }
    if let Ok(bind) = text.parse::<Bind>() {
        assert_eq!(bind.to_string().parse(), Ok(bind));
    }
}

/// A message ends within its bytes. All shorter prefixes are incomplete, and don't request more
/// bytes than the message has.
fn prefixes<T: PartialEq + std::fmt::Debug>(
    input: &[u8],
    length: usize,
    parse: impl Fn(&[u8]) -> Result<T, SocksError>,
) {
    assert!(length <= input.len());
    for short in 0..length {
        match parse(&input[..short]) {
            Err(SocksError::Incomplete(needed)) => assert!(short < needed && needed <= length),
            other => panic!("{short} of {length} bytes: {other:?}"),
        }
    }
}

fn message(input: &[u8]) {
    if let Ok(length) = socks::greeting(input) {
        prefixes(input, length, socks::greeting);
    }
    if let Ok((request, length)) = socks::request(input) {
        prefixes(input, length, socks::request);
        if let Request::Connect(target) = request {
            assert_ne!(target.port, 0);
        }
    }
    if let Ok((target, payload)) = socks::datagram(input) {
        assert!(input.ends_with(payload));
        let again = [&socks::datagram_header(&target)[..], payload].concat();
        assert_eq!(socks::datagram(&again), Ok((target, payload)));
    }
}

fn head(input: &[u8]) {
    let line = [b"CONNECT ", input, b" HTTP/1.1\r\n\r\n"].concat();
    for head in [input, &line] {
        if let Ok((target, length)) = connect::request(head) {
            assert!(length <= head.len());
            assert_eq!(target.to_string().parse(), Ok(target));
        }
    }
}

#[test]
fn specs() {
    bolero::check!()
        .with_iterations(ITERATIONS)
        .with_max_len(MAX_LEN)
        .for_each(|input: &[u8]| {
            spec(input);
            // These bytes are more frequent in forwards than in random texts.
            const COMMON: &[u8] = b"0123456789abf:::::[]*./-/udp";
            let common = input
                .iter()
                .map(|byte| COMMON[*byte as usize % COMMON.len()]);
            spec(&common.take(40).collect::<Vec<_>>());
        });
}

#[test]
fn socks() {
    bolero::check!()
        .with_iterations(ITERATIONS)
        .with_max_len(MAX_LEN)
        .for_each(|input: &[u8]| {
            message(input);
            for start in [
                &[5][..],
                &[5, 1, 0, 3],
                &[5, 3, 0, 4],
                &[0, 0, 0, 1],
                &[0, 0, 0, 3],
            ] {
                message(&[start, input].concat());
            }
        });
}

#[test]
fn heads() {
    bolero::check!()
        .with_iterations(ITERATIONS)
        .with_max_len(MAX_LEN)
        .for_each(head);
}
