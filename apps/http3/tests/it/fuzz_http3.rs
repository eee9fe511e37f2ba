//! Fuzz targets for everything that parses a peer's bytes.
//!
//! `cargo test` runs each over a limited number of random inputs. A fuzzer can run the same
//! functions for as long as you like: `cargo bolero test -p pathmark-http3 fields` (libFuzzer).

use std::collections::VecDeque;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Request, Uri};
use pathmark_http3::client::{ListingReader, parse_listing};
use pathmark_http3::fields::{
    AttributesField, ContentRange, EntityTag, MAX_NAME, MAX_PARTS, PathName, TagList, UploadFields,
    parse_range, preferred_form, resolve_ranges, sha256_digest, sha256_field, sha256_preference,
    urgency,
};
use pathmark_http3::plan::{Ask, Piece, PutRights, Rules, file};
use pathmark_http3::resource::{Kind, Stat, Time};
use pathmark_http3::wire::frames::{FrameTooLong, Frames};

/// Random inputs per target in `cargo test`.
const ITERATIONS: usize = 50_000;
/// Largest length of a random input in bytes.
const MAX_LEN: usize = 256;

/// Values that can be read are the same after writing and reading them again.
fn field_values(input: &[u8]) {
    if let Some(tag) = EntityTag::parse(input) {
        assert_eq!(EntityTag::parse(tag.to_string().as_bytes()), Some(tag));
    }
    if let Some(range) = ContentRange::parse(input) {
        let again = ContentRange::parse(range.to_string().as_bytes());
        assert_eq!(again, Some(range));
    }
    if let Ok(Some(digest)) = sha256_digest("Repr-Digest", [input]) {
        let written = sha256_field(&digest);
        let again = sha256_digest("Repr-Digest", [written.as_bytes()]);
        assert_eq!(again, Ok(Some(digest)));
    }
    for entry in parse_listing(input).unwrap_or_default() {
        assert!(!entry.name.contains(&b'/') && !entry.name.is_empty());
    }
    if let Ok(path) = PathName::parse(input) {
        for name in &path.names {
            let forbidden = name.contains(&0) || name.contains(&b'/');
            assert!(!forbidden && (1..=MAX_NAME).contains(&name.len()));
            assert!(name != b"." && name != b"..");
        }
        assert_eq!(PathName::parse(path.encode().as_bytes()), Ok(path));
    }
    if let Ok(Some(TagList::Tags(tags))) = TagList::parse("If-Match", [input]) {
        let tags: Vec<_> = tags.iter().map(ToString::to_string).collect();
        let again = TagList::parse("If-Match", [tags.join(",").as_bytes()]);
        assert!(again.is_ok_and(|again| again.is_some()));
    }
    if let Ok(Some(field)) = AttributesField::parse([input]) {
        let written = field.write();
        let again = AttributesField::parse([written.as_bytes()]);
        assert_eq!(again, Ok(Some(field)));
    }
    let upload = UploadFields::read(|_| Some(input));
    assert!(upload.complete.is_none() || upload.offset.is_none());
    assert_eq!(upload.offset, upload.length);
    assert!(sha256_preference([input]) <= 10 && urgency([input]) <= 7);
    let _ = preferred_form([input]);
}

/// The input consists of the length of a listing's first piece, and its entries. How a listing is
/// split doesn't matter.
fn listings(input: &[u8]) {
    let Some((first, entries)) = input.split_first() else {
        return;
    };
    let text = [b"{\"entries\":[", entries, b"]}"].concat();
    let (one, other) = text.split_at(usize::from(*first).min(text.len()));
    let (mut reader, mut pieces) = (ListingReader::default(), Vec::new());
    let fed = reader
        .feed(one, &mut pieces)
        .and_then(|()| reader.feed(other, &mut pieces));
    let fed = fed.and_then(|()| reader.finish());
    assert_eq!(fed.map(|()| pieces), parse_listing(&text));
}

/// The input consists of a size of 8 bytes and a range set. The spans lie inside the file and don't
/// overlap.
fn range_sets(input: &[u8]) {
    let Some((size, set)) = input.split_first_chunk::<8>() else {
        return;
    };
    let size = u64::from_be_bytes(*size);
    let Some(specs) = parse_range(&[b"bytes=", set].concat()) else {
        return;
    };
    if let Ok(mut spans) = resolve_ranges(&specs, size) {
        assert!((1..=MAX_PARTS).contains(&spans.len()));
        spans.sort_unstable();
        for span in &spans {
            assert!(span.length > 0 && span.first.checked_add(span.length).unwrap() <= size);
        }
        for pair in spans.windows(2) {
            assert!(pair[0].end() <= pair[1].first);
        }
    }
}

/// The input consists of a path and lines of `name: value`. The plan of a request with these fields
/// announces its length.
fn plans(input: &[u8]) {
    const NAMES: [&str; 8] = [
        "range",
        "if-range",
        "if-match",
        "if-none-match",
        "want-repr-digest",
        "repr-digest",
        "content-length",
        "accept",
    ];
    let mut lines = input.split(|byte| *byte == b'\n');
    let path = lines.next().unwrap_or_default();
    let uri = Uri::builder()
        .scheme("https")
        .authority("host")
        .path_and_query(path);
    let Ok(uri) = uri.build() else {
        return;
    };
    for method in ["GET", "HEAD", "PUT"] {
        let mut request = Request::builder()
            .method(method)
            .uri(uri.clone())
            .body(())
            .unwrap();
        for line in lines.clone() {
            let Some((name, value)) = line.split_first() else {
                continue;
            };
            let name = HeaderName::from_static(NAMES[usize::from(*name) % NAMES.len()]);
            if let Ok(value) = HeaderValue::from_bytes(value) {
                request.headers_mut().append(name, value);
            }
        }
        let rules = Rules {
            put: PutRights::New,
            ..Rules::default()
        };
        let Ok(ask) = Ask::read(&request, &rules) else {
            continue;
        };
        let time = Time::default();
        let stat = Stat {
            kind: Kind::File,
            size: 10_000,
            mode: 0o644,
            modified: time,
            changed: time,
            device: 1,
            inode: 1,
            taken: 10_000,
        };
        let now = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000);
        let plan = file(&ask, &stat, now, None);
        let length: u64 = plan.pieces.iter().map(Piece::length).sum();
        assert!(length < 20_000);
        let announced = plan.head.headers().get("content-length");
        let announced = announced.map(|value| value.to_str().unwrap().parse::<u64>().unwrap());
        if method == "GET" {
            assert_eq!(announced.unwrap_or(0), length);
        }
    }
}

/// The input consists of a chunk size and a stream. The output of the filter doesn't depend on
/// where chunks end.
fn filters(input: &[u8]) {
    let Some((chunk, stream)) = input.split_first() else {
        return;
    };
    let pass = |mut frames: Frames, chunk: usize| {
        let mut out = VecDeque::new();
        for part in stream.chunks(chunk) {
            frames.feed(Bytes::copy_from_slice(part), &mut out)?;
        }
        let passed: Vec<u8> = out.into_iter().flatten().collect();
        assert!(passed.len() <= stream.len());
        Ok::<_, FrameTooLong>((passed, frames.is_between()))
    };
    let chunk = usize::from(*chunk).max(1);
    let both = || [Frames::bidirectional(50), Frames::unidirectional(50)];
    for (one, other) in both().into_iter().zip(both()) {
        assert_eq!(pass(one, chunk), pass(other, stream.len().max(1)));
    }
}

fn fuzz(name: &str, target: impl Fn(&[u8]) + std::panic::RefUnwindSafe) {
    bolero::check!(name = name)
        .with_iterations(ITERATIONS)
        .with_max_len(MAX_LEN)
        .for_each(|input: &[u8]| target(input));
}

#[test]
fn fields() {
    fuzz("fields", field_values);
}

#[test]
fn listing_pieces() {
    fuzz("listing_pieces", listings);
}

#[test]
fn ranges() {
    fuzz("ranges", range_sets);
}

#[test]
fn requests() {
    fuzz("requests", plans);
}

#[test]
fn frames() {
    fuzz("frames", filters);
}
