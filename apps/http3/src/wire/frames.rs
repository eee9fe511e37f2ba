//! A filter for incoming frames (RFC 9114 section 7.1) in front of the `h3` crate.
//!
//! `h3` 0.0.8 buffers every frame except DATA completely, regardless of its length. It treats an
//! empty DATA frame as the end of the content, and it doesn't detect that a stream ends within a
//! DATA frame. Therefore this filter rejects long frames, drops empty DATA frames and frames of
//! unknown types, detects whether a stream ends between two frames, and reads trailer sections,
//! whose pseudo-header fields `h3` drops. Types and lengths are variable-length integers (RFC 9000
//! section 16).

use std::collections::VecDeque;

use bytes::{Buf, Bytes};

use super::pseudo::is_with_pseudo;

/// DATA, the only frame type without a limit on its length.
pub(super) const DATA: u64 = 0;
/// HEADERS.
const HEADERS: u64 = 1;
/// The last type that HTTP/3 defines or reserves. Higher types are unsupported extensions.
const LAST_KNOWN: u64 = 0x0f;
/// The type of control streams.
const CONTROL: u64 = 0;

/// A frame exceeds the length limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of type {kind:#x} has {length} bytes, which is above the limit")]
pub struct FrameTooLong {
    /// The frame's type.
    pub kind: u64,
    /// The frame's length.
    pub length: u64,
}

/// The filter's state for one incoming stream.
#[derive(Debug)]
pub struct Frames {
    state: State,
    /// The bytes of an incomplete varint or frame header.
    head: Vec<u8>,
    /// Maximum length of a frame in bytes, except for DATA.
    limit: u64,
    has_data: bool,
    /// The beginning of a trailer section.
    trailers: Option<Vec<u8>>,
    is_malformed: bool,
}

#[derive(Debug)]
enum State {
    /// Expects the type of a unidirectional stream.
    StreamType,
    /// Expects a frame header.
    Header,
    /// Expects this number of payload bytes, to pass or to drop.
    Payload { left: u64, pass: bool },
    /// The stream does not consist of frames.
    Raw,
}

impl Frames {
    /// Creates the filter for a request stream.
    pub const fn bidirectional(limit: u64) -> Self {
        Self {
            state: State::Header,
            head: Vec::new(),
            limit,
            has_data: false,
            trailers: None,
            is_malformed: false,
        }
    }

    /// Creates the filter for a unidirectional stream. Only control streams have frames.
    pub const fn unidirectional(limit: u64) -> Self {
        Self {
            state: State::StreamType,
            head: Vec::new(),
            limit,
            has_data: false,
            trailers: None,
            is_malformed: false,
        }
    }

    /// Returns true if a trailer section had a pseudo-header field (RFC 9114 section 4.3).
    pub(super) const fn is_malformed(&self) -> bool {
        self.is_malformed
    }

    /// Returns true if the stream may end here.
    pub fn is_between(&self) -> bool {
        match self.state {
            State::Header => self.head.is_empty(),
            State::Payload { left, .. } => left == 0,
            State::StreamType | State::Raw => true,
        }
    }

    /// Filters the next bytes of the stream, and appends the bytes that pass to `out`.
    ///
    /// # Errors
    /// [`FrameTooLong`].
    pub fn feed(
        &mut self,
        mut input: Bytes,
        out: &mut VecDeque<Bytes>,
    ) -> Result<(), FrameTooLong> {
        while input.has_remaining() {
            match &mut self.state {
                State::Raw => {
                    out.push_back(input);
                    return Ok(());
                }
                State::Payload { left, pass } => {
                    let here = usize::try_from(*left)
                        .unwrap_or(usize::MAX)
                        .min(input.len());
                    let payload = input.split_to(here);
                    *left -= here as u64;
                    if let Some(section) = &mut self.trailers {
                        section.extend_from_slice(&payload);
                    }
                    if *pass && here > 0 {
                        out.push_back(payload);
                    }
                    if *left == 0 {
                        self.state = State::Header;
                        let section = self.trailers.take().unwrap_or_default();
                        self.is_malformed |= is_with_pseudo(&section);
                    }
                }
                State::StreamType => {
                    self.head.push(input.get_u8());
                    if let Some((kind, _)) = take(&self.head) {
                        out.push_back(std::mem::take(&mut self.head).into());
                        self.state = if kind == CONTROL {
                            State::Header
                        } else {
                            State::Raw
                        };
                    }
                }
                State::Header => {
                    self.head.push(input.get_u8());
                    if let Some((kind, length)) = header(&self.head) {
                        let head = std::mem::take(&mut self.head);
                        self.begin(kind, length, head, out)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn begin(
        &mut self,
        kind: u64,
        length: u64,
        head: Vec<u8>,
        out: &mut VecDeque<Bytes>,
    ) -> Result<(), FrameTooLong> {
        let known = kind <= LAST_KNOWN;
        if known && kind != DATA && length > self.limit {
            return Err(FrameTooLong { kind, length });
        }
        let pass = known && (kind, length) != (DATA, 0);
        self.has_data |= kind == DATA;
        self.trailers = (self.has_data && kind == HEADERS).then(Vec::new);
        if pass {
            out.push_back(head.into());
        }
        self.state = match length {
            0 => State::Header,
            left => State::Payload { left, pass },
        };
        Ok(())
    }
}

/// Parses a frame header into type and length. Returns `None` while bytes are missing.
pub(super) fn header(bytes: &[u8]) -> Option<(u64, u64)> {
    let (kind, rest) = take(bytes)?;
    let (length, _) = take(rest)?;
    Some((kind, length))
}

/// The largest integer that can be encoded.
pub(crate) const MAX: u64 = (1 << 62) - 1;

/// Decodes an integer at the beginning, and also returns the rest. Returns `None` while bytes
/// are missing.
pub(crate) fn take(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let first = *bytes.first()?;
    let length = 1_usize << (first >> 6);
    let (integer, rest) = bytes.split_at_checked(length)?;
    let value = integer
        .iter()
        .skip(1)
        .fold(u64::from(first & 0x3f), |value, byte| {
            value << 8 | u64::from(*byte)
        });
    Some((value, rest))
}

/// Appends an integer in its shortest form. It must not exceed [`MAX`].
pub(crate) fn put(out: &mut Vec<u8>, value: u64) {
    let value = value.min(MAX);
    let (length, mark) = match value {
        0..0x40 => (1, 0),
        0x40..0x4000 => (2, 0x40),
        0x4000..0x4000_0000 => (4, 0x80),
        _ => (8, 0xc0),
    };
    let bytes = value.to_be_bytes();
    let begin = out.len();
    out.extend_from_slice(bytes.get(8 - length..).unwrap_or_default());
    if let Some(first) = out.get_mut(begin) {
        *first |= mark;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Filters `input` in chunks of `chunk` bytes. Returns the output and whether the stream may
    /// end.
    fn pass(
        mut frames: Frames,
        input: &[u8],
        chunk: usize,
    ) -> Result<(Vec<u8>, bool), FrameTooLong> {
        let mut out = VecDeque::new();
        for part in input.chunks(chunk) {
            frames.feed(Bytes::copy_from_slice(part), &mut out)?;
        }
        Ok((out.into_iter().flatten().collect(), frames.is_between()))
    }

    #[test]
    fn known_frames_pass_and_others_do_not() {
        // HEADERS "ab", empty DATA, DATA "xyz", type 0x21 "q", 2-byte type 0x4040 "r".
        let input = b"\x01\x02ab\x00\x00\x00\x03xyz\x21\x01q\x80\x00\x40\x40\x01r";
        for chunk in 1..=input.len() {
            let passed = pass(Frames::bidirectional(100), input, chunk).unwrap();
            assert_eq!(passed, (b"\x01\x02ab\x00\x03xyz".to_vec(), true), "{chunk}");
        }
        let cut = input.get(..10).unwrap();
        assert!(!pass(Frames::bidirectional(100), cut, 3).unwrap().1);
        assert!(!pass(Frames::bidirectional(100), b"\x01", 1).unwrap().1);
        assert!(pass(Frames::bidirectional(100), b"", 1).unwrap().1);
    }

    #[test]
    fn data_alone_is_of_any_length() {
        let data = b"\x00\xff\xff\xff\xff\xff\xff\xff\xffab";
        let passed = pass(Frames::bidirectional(10), data, 4).unwrap();
        assert_eq!(passed, (data.to_vec(), false));
        let headers = b"\x01\x40\x0b";
        let error = FrameTooLong {
            kind: 1,
            length: 11,
        };
        assert_eq!(pass(Frames::bidirectional(10), headers, 1), Err(error));
        assert!(pass(Frames::bidirectional(11), headers, 1).is_ok());
    }

    #[test]
    fn control_streams_alone_have_frames() {
        let control = b"\x00\x04\x02ab\x21\x01c";
        let passed = pass(Frames::unidirectional(10), control, 1).unwrap();
        assert_eq!(passed.0, b"\x00\x04\x02ab");
        let other = b"\x02\x3f\xff\xff\xff";
        let passed = pass(Frames::unidirectional(0), other, 2).unwrap();
        assert_eq!(passed.0, other);
    }

    #[test]
    fn integers_come_back_in_their_shortest_form() {
        for (value, length) in [
            (0, 1),
            (63, 1),
            (64, 2),
            (16_383, 2),
            (16_384, 4),
            ((1 << 30) - 1, 4),
            (1 << 30, 8),
            (MAX, 8),
        ] {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(out.len(), length);
            assert_eq!(take(&out), Some((value, &[][..])));
            assert_eq!(take(&out[..length - 1]), None);
        }
    }
}
