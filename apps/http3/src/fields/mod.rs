//! Parses and formats HTTP field values as pure functions.
//!
//! Parsers accept input from peers, and allocate at most a small multiple of its size.

mod accept;
mod attributes;
mod content_range;
mod digest;
mod etag;
mod percent;
mod priority;
mod range;
mod shown;
mod structured;
mod upload;

pub use accept::{Form, preferred_form};
pub use attributes::AttributesField;
pub use content_range::ContentRange;
pub use digest::{Sha256Digest, sha256_digest, sha256_field, sha256_preference};
pub use etag::{EntityTag, TagList};
pub use percent::{MAX_NAME, PathError, PathName, decode_bytes, encode_bytes, encode_name};
pub use priority::urgency;
pub use range::{MAX_PARTS, RangeError, RangeSpec, Span, parse_range, resolve_ranges};
pub use shown::{is_obeyed, text_of};
pub use upload::{INTEROP_VERSION, UploadFields, boolean};

/// A field violates its grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field {0} does not follow its grammar; correct it or leave it out")]
pub struct BadField(pub &'static str);

/// Strips spaces and tabs on both sides.
fn trim(bytes: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = bytes.iter().position(|byte| !blank(byte));
    let end = bytes.iter().rposition(|byte| !blank(byte));
    match (start, end) {
        (Some(start), Some(end)) => bytes.get(start..=end).unwrap_or_default(),
        _ => &[],
    }
}

/// Parses an unsigned decimal number. Numbers above `u64::MAX` are reduced to it, because no
/// file has as many bytes.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit))
    })
}
