//! Parses and formats HTTP field values as pure functions.
//!
//! Parsers accept input from peers, and allocate at most a small multiple of its size. Of Accept
//! (RFC 9110 section 12.5.1), only the two forms of a listing are supported.

mod metadata;
mod path;
mod range;
mod structured;

pub use metadata::{
    AttributesField, EntityTag, Sha256Digest, TagList, sha256_digest, sha256_field,
    sha256_preference,
};
pub use path::{
    MAX_NAME, PathError, PathName, decode_bytes, encode_bytes, encode_name, is_obeyed, text_of,
};
pub use range::{
    ContentRange, MAX_PARTS, RangeError, RangeSpec, Span, parse_range, resolve_ranges,
};
pub use structured::{INTEROP_VERSION, UploadFields, boolean, urgency};

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

/// Splits bytes at the first `byte`, which belongs to neither part.
fn split_once(bytes: &[u8], byte: u8) -> Option<(&[u8], &[u8])> {
    let place = bytes.iter().position(|other| *other == byte)?;
    Some((bytes.get(..place)?, bytes.get(place + 1..)?))
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

/// The form of a directory listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `application/json`.
    Json,
    /// `text/html`.
    Html,
}

/// Returns the form with the higher weight according to Accept. Otherwise, JSON is the default,
/// even if neither is acceptable.
pub fn preferred_form<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Form {
    let (mut json, mut html) = (Weight::default(), Weight::default());
    for line in lines {
        for element in line.split(|byte| *byte == b',') {
            let mut parts = element.split(|byte| *byte == b';');
            let range = trim(parts.next().unwrap_or_default());
            let weight = parts.find_map(weight).unwrap_or(1000);
            json.apply(range, b"application/json", b"application/*", weight);
            html.apply(range, b"text/html", b"text/*", weight);
        }
    }
    if html.thousandths > json.thousandths {
        Form::Html
    } else {
        Form::Json
    }
}

/// The weight of one media type in thousandths. The most specific media range takes precedence.
#[derive(Default)]
struct Weight {
    specificity: u8,
    thousandths: u16,
}

impl Weight {
    fn apply(&mut self, range: &[u8], exact: &[u8], class: &[u8], weight: u16) {
        let specificity = match range {
            range if range.eq_ignore_ascii_case(exact) => 3,
            range if range.eq_ignore_ascii_case(class) => 2,
            b"*/*" => 1,
            _ => return,
        };
        if specificity > self.specificity {
            self.specificity = specificity;
            self.thousandths = weight;
        }
    }
}

/// Parses the weight in a parameter `q=`, in thousandths.
fn weight(parameter: &[u8]) -> Option<u16> {
    let parameter = trim(parameter);
    let value = parameter
        .strip_prefix(b"q=")
        .or_else(|| parameter.strip_prefix(b"Q="))?;
    let (whole, fraction) = match value {
        [whole, b'.', fraction @ ..] => (*whole, fraction),
        [whole] => (*whole, &[][..]),
        _ => return None,
    };
    if fraction.len() > 3 || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let places = [100, 10, 1];
    let thousandths = fraction.iter().zip(places);
    let thousandths = thousandths.map(|(digit, place)| u16::from(digit - b'0') * place);
    match whole {
        b'0' => Some(thousandths.sum()),
        b'1' => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heavier_form_is_chosen() {
        for (accept, form) in [
            ("", Form::Json),
            ("*/*", Form::Json),
            ("text/html", Form::Html),
            (
                "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
                Form::Html,
            ),
            ("application/json", Form::Json),
            ("text/*;q=0.5, */*;q=0.1", Form::Html),
            ("text/html;q=0.5, application/json;q=0.75", Form::Json),
            ("*/*, text/html;q=0", Form::Json),
            ("TEXT/HTML;level=1;q=1", Form::Html),
            ("image/png", Form::Json),
        ] {
            assert_eq!(preferred_form([accept.as_bytes()]), form, "{accept}");
        }
    }
}
