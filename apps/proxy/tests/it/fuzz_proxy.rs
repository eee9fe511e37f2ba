//! Fuzz targets for the data from a proxy's clients and servers, and for its files.
//!
//! `cargo test` runs each over a limited number of random inputs. A fuzzer can run the same
//! functions for as long as you like: `cargo bolero test -p pathmark-proxy capsules` (libFuzzer).

use std::collections::VecDeque;
use std::path::Path;

use bytes::Bytes;
use pathmark_http3::wire::capsule::{Capsules, datagram};
use pathmark_proxy::server::config::{self, Config, Credential};
use pathmark_proxy::uri::ProxyUri;
use pathmark_proxy::{outbound, uri};

/// Random inputs per target in `cargo test`.
const ITERATIONS: usize = 100_000;
/// Largest length of a random input in bytes.
const MAX_LEN: usize = 200;
/// Largest length of a datagram in bytes.
const LIMIT: u64 = 40;

fn fuzz(name: &str, target: impl Fn(&[u8]) + std::panic::RefUnwindSafe) {
    bolero::check!(name = name)
        .with_iterations(ITERATIONS)
        .with_max_len(MAX_LEN)
        .for_each(|input: &[u8]| target(input));
}

/// How a stream is split doesn't change any datagram, and none exceeds the limit.
#[test]
fn capsules() {
    fuzz("capsules", |input| {
        let whole = read(input, input.len().max(1));
        assert_eq!(read(input, 1), whole);
        assert!(
            whole
                .0
                .iter()
                .all(|datagram| datagram.len() as u64 <= LIMIT)
        );
        let (head, rest) = input.split_at(input.len().min(1));
        let written = datagram([head, rest]);
        let mut capsules = Capsules::new(MAX_LEN as u64);
        let mut out = VecDeque::new();
        capsules.feed(written, &mut out).unwrap();
        assert_eq!(out, [Bytes::copy_from_slice(input)]);
        assert!(capsules.is_between());
    });
}

/// Returns the datagrams before the first error, and whether there was one.
fn read(input: &[u8], chunk: usize) -> (Vec<Bytes>, bool) {
    let (mut capsules, mut out) = (Capsules::new(LIMIT), VecDeque::new());
    let mut parts = input.chunks(chunk).map(Bytes::copy_from_slice);
    let faulty = parts.any(|part| capsules.feed(part, &mut out).is_err());
    (out.into(), faulty)
}

#[test]
fn uris() {
    fuzz("uris", |input| {
        let text = String::from_utf8_lossy(input);
        let text = format!("pathmark://0123456789abcdef{text}");
        match text.parse::<ProxyUri>() {
            Ok(uri) => assert_eq!(uri.to_string().parse(), Ok(uri)),
            Err(error) => assert!(!error.to_string().contains("0123456789abcdef")),
        }
    });
}

#[test]
fn paths() {
    fuzz("paths", |input| {
        let text = String::from_utf8_lossy(input);
        let path = format!("/.well-known/masque/udp/{text}");
        if let Ok(target) = uri::target(&path) {
            assert_eq!(uri::target(&uri::path(&target)), Ok(target));
        }
    });
}

#[test]
fn statuses() {
    fuzz("statuses", |input| {
        let (status, field) = outbound::status_of(&outbound::refusal_of(502, Some(input)));
        assert!((400..600).contains(&status) && field.contains("error="));
    });
}

#[test]
fn files() {
    fuzz("files", |input| {
        let text = String::from_utf8_lossy(input);
        let _ = Config::parse(Path::new("p.toml"), &text);
        let text = format!("listen = ':1'\ntokens = 't'\n{text}");
        let _ = Config::parse(Path::new("p.toml"), &text);
        for (name, credential) in config::users("tokens", &text).unwrap_or_default() {
            assert!(name.len() <= 64);
            if let Credential::Token(token) = credential {
                assert!(token.secret().len() >= 16);
            }
        }
    });
}
