//! The content of a file response: one span, or several as `multipart/byteranges` (RFC 9110
//! section 14.6).

use bytes::Bytes;

use crate::fields::{ContentRange, EntityTag, Span};

/// A piece of a response's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// These bytes.
    Text(Bytes),
    /// Bytes of the file.
    Span(Span),
}

impl Piece {
    /// Returns the length of the piece in bytes.
    pub fn length(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Span(span) => span.length,
        }
    }
}

/// Returns the boundary between parts. It is derived from the version and has 128 bits, so that
/// the content only contains it by accident.
pub(super) fn boundary(tag: &EntityTag) -> String {
    let opaque = tag.to_string();
    let digits = opaque.chars().filter(char::is_ascii_hexdigit);
    let digits: String = digits.collect();
    format!("pathmark-{digits}")
}

/// Returns the pieces of content with several parts.
pub(super) fn parts(spans: &[Span], size: u64, media_type: &str, boundary: &str) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(2 * spans.len() + 1);
    let mut line_break = "";
    for span in spans {
        let range = ContentRange::Part(*span, Some(size));
        let text = format!(
            "{line_break}--{boundary}\r\nContent-Type: {media_type}\r\n\
             Content-Range: {range}\r\n\r\n"
        );
        pieces.push(Piece::Text(text.into()));
        pieces.push(Piece::Span(*span));
        line_break = "\r\n";
    }
    pieces.push(Piece::Text(format!("\r\n--{boundary}--\r\n").into()));
    pieces
}
