//! Content-Range (RFC 9110 section 14.4), which the origin writes and the client parses.

use std::fmt;

use super::{Span, decimal, trim};

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
        let slash = rest.iter().position(|byte| *byte == b'/')?;
        let (range, size) = rest.split_at_checked(slash)?;
        let size = size.strip_prefix(b"/")?;
        if range == b"*" {
            return Some(Self::Unsatisfied(decimal(size)?));
        }
        let dash = range.iter().position(|byte| *byte == b'-')?;
        let (first, last) = range.split_at_checked(dash)?;
        let (first, last) = (decimal(first)?, decimal(last.strip_prefix(b"-")?)?);
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
    use super::*;

    #[test]
    fn values_are_read_and_written() {
        for value in [
            "bytes 42-1233/1234",
            "bytes 42-1233/*",
            "bytes */1234",
            "bytes 0-0/1",
        ] {
            let parsed = ContentRange::parse(value.as_bytes()).unwrap();
            assert_eq!(parsed.to_string(), value);
        }
        for value in [
            "",
            "bytes",
            "bytes 1-0/5",
            "bytes 0-5/5",
            "bytes */*",
            "bytes 0-/5",
            "bytes -5/5",
            "lines 0-1/5",
            "bytes 0-18446744073709551615/*",
            "bytes 0-1",
            "bytes0-1/2",
        ] {
            assert_eq!(ContentRange::parse(value.as_bytes()), None, "{value}");
        }
    }
}
