//! Range (RFC 9110 section 14.2), which selects bytes of a file, and Content-Range (section 14.4),
//! which the origin writes and the client parses.

use std::fmt;

use super::{decimal, split_once, trim};

/// Maximum number of parts in a response. Requests for more get status 416.
pub const MAX_PARTS: usize = 64;

/// One element of a Range field with the unit `bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeSpec {
    /// From the first position to the last, inclusive, or to the end if the last is omitted.
    From(u64, Option<u64>),
    /// The given number of bytes at the end of the file.
    Suffix(u64),
}

/// A non-empty range of bytes inside a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The position of the first byte.
    pub first: u64,
    /// The number of bytes.
    pub length: u64,
}

/// A range set that can't be satisfied and gets status 416.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// None of the ranges overlaps the file.
    #[error("no range overlaps the {0} bytes of the file; ask for bytes below its size")]
    Unsatisfiable(u64),
    /// After merging overlapping ranges, there are more than [`MAX_PARTS`].
    #[error("the request selects {0} separate ranges; ask for {MAX_PARTS} at most")]
    TooMany(usize),
}

impl Span {
    /// Returns the position after the last byte.
    pub const fn end(&self) -> u64 {
        self.first.saturating_add(self.length)
    }

    /// Returns the position of the last byte.
    pub const fn last(&self) -> u64 {
        self.end().saturating_sub(1)
    }
}

/// Parses a Range field. Returns `None` for another unit or an invalid value, which a server
/// ignores (RFC 9110 section 14.2).
pub fn parse_range(value: &[u8]) -> Option<Vec<RangeSpec>> {
    let (unit, set) = split_once(value, b'=')?;
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let mut specs = Vec::new();
    for element in set.split(|byte| *byte == b',') {
        let element = trim(element);
        if !element.is_empty() {
            specs.push(parse_spec(element)?);
        }
    }
    (!specs.is_empty()).then_some(specs)
}

fn parse_spec(element: &[u8]) -> Option<RangeSpec> {
    match split_once(element, b'-')? {
        ([], suffix) => Some(RangeSpec::Suffix(decimal(suffix)?)),
        (first, []) => Some(RangeSpec::From(decimal(first)?, None)),
        (first, last) => {
            let (first, last) = (decimal(first)?, decimal(last)?);
            (first <= last).then_some(RangeSpec::From(first, Some(last)))
        }
    }
}

/// Returns the spans of a file of `size` bytes that a range set selects, in the order of the
/// request. If any overlap, all are sorted and overlapping spans are merged, so that no byte is
/// sent twice.
///
/// # Errors
/// [`RangeError`].
pub fn resolve_ranges(specs: &[RangeSpec], size: u64) -> Result<Vec<Span>, RangeError> {
    let spans: Vec<Span> = specs
        .iter()
        .filter_map(|spec| resolve(*spec, size))
        .collect();
    if spans.is_empty() {
        return Err(RangeError::Unsatisfiable(size));
    }
    let spans = merge(spans);
    match spans.len() {
        parts if parts > MAX_PARTS => Err(RangeError::TooMany(parts)),
        _ => Ok(spans),
    }
}

fn resolve(spec: RangeSpec, size: u64) -> Option<Span> {
    let (first, end) = match spec {
        RangeSpec::From(first, last) => {
            let end = last.map_or(size, |last| last.saturating_add(1).min(size));
            (first, end)
        }
        RangeSpec::Suffix(length) => (size.saturating_sub(length), size),
    };
    let length = end.checked_sub(first).filter(|length| *length > 0)?;
    Some(Span { first, length })
}

fn merge(spans: Vec<Span>) -> Vec<Span> {
    let mut sorted = spans.clone();
    sorted.sort_unstable();
    let apart = |pair: &[Span]| match pair {
        [one, next] => one.end() <= next.first,
        _ => true,
    };
    if sorted.windows(2).all(apart) {
        return spans;
    }
    let mut merged: Vec<Span> = Vec::new();
    for span in sorted {
        match merged.last_mut() {
            Some(before) if span.first < before.end() => {
                before.length = before.end().max(span.end()) - before.first;
            }
            _ => merged.push(span),
        }
    }
    merged
}

/// The value of Content-Range with the unit `bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentRange {
    /// These bytes of a representation, and its size if it is known.
    Part(Span, Option<u64>),
    /// The size of the representation, for status 416.
    Unsatisfied(u64),
}

impl ContentRange {
    /// Parses a field value. Returns `None` for another unit or an invalid value.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let value = trim(value);
        let (unit, rest) = value.split_at_checked(5)?;
        if !unit.eq_ignore_ascii_case(b"bytes") {
            return None;
        }
        let rest = rest.strip_prefix(b" ")?;
        let (range, size) = split_once(rest, b'/')?;
        if range == b"*" {
            return Some(Self::Unsatisfied(decimal(size)?));
        }
        let (first, last) = split_once(range, b'-')?;
        let (first, last) = (decimal(first)?, decimal(last)?);
        let size = match size {
            b"*" => None,
            size => Some(decimal(size)?),
        };
        let length = last.checked_sub(first)?.checked_add(1)?;
        let inside = size.is_none_or(|size| last < size);
        inside.then_some(Self::Part(Span { first, length }, size))
    }
}

impl fmt::Display for ContentRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part(span, Some(size)) => {
                write!(f, "bytes {}-{}/{size}", span.first, span.last())
            }
            Self::Part(span, None) => write!(f, "bytes {}-{}/*", span.first, span.last()),
            Self::Unsatisfied(size) => write!(f, "bytes */{size}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(first: u64, length: u64) -> Span {
        Span { first, length }
    }

    #[test]
    fn range_sets_are_read() {
        use RangeSpec::{From, Suffix};
        for (value, specs) in [
            ("bytes=0-499", vec![From(0, Some(499))]),
            ("bytes=9500-", vec![From(9500, None)]),
            ("bytes=-500", vec![Suffix(500)]),
            ("BYTES= 0-0 , -1,,", vec![From(0, Some(0)), Suffix(1)]),
            ("bytes=99999999999999999999999-", vec![From(u64::MAX, None)]),
        ] {
            assert_eq!(parse_range(value.as_bytes()), Some(specs), "{value}");
        }
        let bad =
            "|bytes|bytes=|bytes=,|bytes=-|bytes=--1|bytes=5-4|bytes=a-|bytes=0 - 1|bytes=+1-2";
        let more = "lines=0-1|bytes =0-1|bytes=0-1;2-3|bytes=0x1-2|bytes=1";
        for value in bad.split('|').chain(more.split('|')) {
            assert_eq!(parse_range(value.as_bytes()), None, "{value}");
        }
    }

    /// Examples from RFC 9110 section 14.1.2, for a representation of 10000 bytes.
    #[test]
    fn spans_lie_inside_the_file() {
        for (value, spans) in [
            ("bytes=0-499", vec![span(0, 500)]),
            ("bytes=500-999", vec![span(500, 500)]),
            ("bytes=-500", vec![span(9500, 500)]),
            ("bytes=9500-", vec![span(9500, 500)]),
            ("bytes=0-0,-1", vec![span(0, 1), span(9999, 1)]),
            ("bytes=0-20000", vec![span(0, 10_000)]),
            ("bytes=-20000", vec![span(0, 10_000)]),
            (
                "bytes=0-999,4500-5499,-1000",
                vec![span(0, 1000), span(4500, 1000), span(9000, 1000)],
            ),
            (
                "bytes=500-600,601-999",
                vec![span(500, 101), span(601, 399)],
            ),
            ("bytes=500-700,601-999", vec![span(500, 500)]),
            ("bytes=900-999,0-10,5-20", vec![span(0, 21), span(900, 100)]),
            ("bytes=10000-,3-3", vec![span(3, 1)]),
            ("bytes=-18446744073709551616", vec![span(0, 10_000)]),
        ] {
            let specs = parse_range(value.as_bytes()).unwrap();
            assert_eq!(resolve_ranges(&specs, 10_000), Ok(spans), "{value}");
        }
        for (value, size) in [
            ("bytes=10000-", 10_000),
            ("bytes=-0", 10_000),
            ("bytes=-5", 0),
        ] {
            let specs = parse_range(value.as_bytes()).unwrap();
            let error = RangeError::Unsatisfiable(size);
            assert_eq!(resolve_ranges(&specs, size), Err(error), "{value}");
        }
    }

    #[test]
    fn a_thousand_ranges_are_refused_unless_they_merge() {
        let apart: Vec<_> = (0..1000)
            .map(|n| RangeSpec::From(2 * n, Some(2 * n)))
            .collect();
        let resolved = resolve_ranges(&apart, 10_000);
        assert_eq!(resolved, Err(RangeError::TooMany(1000)));
        let same = vec![RangeSpec::From(0, None); 1000];
        assert_eq!(resolve_ranges(&same, 10_000), Ok(vec![span(0, 10_000)]));
    }

    fn specs() -> impl Strategy<Value = Vec<RangeSpec>> {
        let position = prop_oneof![0..200_u64, Just(u64::MAX), any::<u64>()];
        let from = (position.clone(), proptest::option::of(position.clone()))
            .prop_map(|(first, last)| RangeSpec::From(first, last.map(|last| last.max(first))));
        proptest::collection::vec(
            prop_oneof![from, position.prop_map(RangeSpec::Suffix)],
            1..9,
        )
    }

    proptest! {
        /// Each byte that the specs select is returned exactly once.
        #[test]
        fn resolved_spans_cover_what_is_named(specs in specs(), size in 0..200_u64) {
            let named = |byte: u64| specs.iter().any(|spec| match *spec {
                RangeSpec::From(first, last) => (first..=last.unwrap_or(u64::MAX)).contains(&byte),
                RangeSpec::Suffix(length) => byte >= size.saturating_sub(length),
            });
            let named: Vec<u64> = (0..size).filter(|byte| named(*byte)).collect();
            match resolve_ranges(&specs, size) {
                Err(error) => {
                    prop_assert_eq!(error, RangeError::Unsatisfiable(size));
                    prop_assert!(named.is_empty());
                }
                Ok(spans) => {
                    let mut selected: Vec<u64> =
                        spans.iter().flat_map(|span| span.first..span.end()).collect();
                    selected.sort_unstable();
                    prop_assert_eq!(selected, named);
                }
            }
        }
    }

    #[test]
    fn values_are_read_and_written() {
        for value in "bytes 42-1233/1234|bytes 42-1233/*|bytes */1234|bytes 0-0/1".split('|') {
            let parsed = ContentRange::parse(value.as_bytes()).unwrap();
            assert_eq!(parsed.to_string(), value);
        }
        let bad = "|bytes|bytes 1-0/5|bytes 0-5/5|bytes */*|bytes 0-/5|bytes -5/5|lines 0-1/5";
        let more = "bytes 0-18446744073709551615/*|bytes 0-1|bytes0-1/2";
        for value in bad.split('|').chain(more.split('|')) {
            assert_eq!(ContentRange::parse(value.as_bytes()), None, "{value}");
        }
    }
}
