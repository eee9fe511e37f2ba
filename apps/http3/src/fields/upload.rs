//! Fields of resumable uploads (draft-ietf-httpbis-resumable-upload-12). Their values are items,
//! which are ignored if they are invalid.

use super::structured::{Bare, item};

/// The draft's interop version, by which both sides recognize it.
pub const INTEROP_VERSION: u64 = 8;

/// The fields of a message about an upload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UploadFields {
    /// Upload-Complete: whether the content is the last of the upload.
    pub complete: Option<bool>,
    /// Upload-Offset: number of bytes before the content.
    pub offset: Option<u64>,
    /// Upload-Length: number of bytes in the whole upload.
    pub length: Option<u64>,
    /// Whether Upload-Draft-Interop-Version is that of this crate.
    pub same_version: bool,
}

impl UploadFields {
    /// Parses the fields. `line` must return a field's line, if the message has the field only
    /// once.
    pub fn read<'a>(line: impl Fn(&'static str) -> Option<&'a [u8]>) -> Self {
        let number = |name| match item(line(name)?)? {
            Bare::Integer(number) => u64::try_from(number).ok(),
            _ => None,
        };
        let complete = line("upload-complete").and_then(item);
        Self {
            complete: match complete {
                Some(Bare::Boolean(complete)) => Some(complete),
                _ => None,
            },
            offset: number("upload-offset"),
            length: number("upload-length"),
            same_version: number("upload-draft-interop-version") == Some(INTEROP_VERSION),
        }
    }
}

/// Formats an item of type Boolean.
pub const fn boolean(value: bool) -> &'static str {
    if value { "?1" } else { "?0" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_outside_the_grammar_are_ignored() {
        let read = |complete: &'static str, offset: &'static str| {
            UploadFields::read(|name| match name {
                "upload-complete" => Some(complete.as_bytes()),
                "upload-offset" => Some(offset.as_bytes()),
                "upload-draft-interop-version" => Some(b"8"),
                _ => None,
            })
        };
        let fields = read("?1", "7");
        assert_eq!((fields.complete, fields.offset), (Some(true), Some(7)));
        assert!(fields.same_version && fields.length.is_none());
        for (complete, offset) in [("1", "-1"), ("?2", "1.5"), ("?0, ?1", "?1"), ("", "")] {
            let fields = read(complete, offset);
            assert_eq!((fields.complete, fields.offset), (None, None), "{complete}");
        }
    }
}
