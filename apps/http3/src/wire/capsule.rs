//! Capsules (RFC 9297 section 3), which are messages in the content of an extended CONNECT.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};

use super::varint;

/// DATAGRAM, whose value is an HTTP datagram.
pub const DATAGRAM: u64 = 0;

/// A DATAGRAM capsule exceeds the receiver's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a capsule has {0} bytes, which is above the limit")]
pub struct CapsuleTooLong(pub u64);

/// Extracts datagrams from a stream of capsules, skipping other capsules regardless of their
/// length.
#[derive(Debug)]
pub struct Capsules {
    state: State,
    limit: u64,
}

#[derive(Debug)]
enum State {
    /// The bytes of an incomplete type and length.
    Header(Vec<u8>),
    /// The rest of a datagram.
    Datagram { left: usize, value: BytesMut },
    /// The rest of an unknown capsule.
    Skip(u64),
}

impl Capsules {
    /// Creates a reader for datagrams of at most `limit` bytes.
    pub const fn new(limit: u64) -> Self {
        Self {
            state: State::Header(Vec::new()),
            limit,
        }
    }

    /// Appends the datagrams that the next bytes complete to `out`. Of an incomplete datagram,
    /// at most `limit` bytes are kept.
    ///
    /// # Errors
    /// [`CapsuleTooLong`].
    pub fn feed(
        &mut self,
        mut input: Bytes,
        out: &mut VecDeque<Bytes>,
    ) -> Result<(), CapsuleTooLong> {
        while input.has_remaining() {
            match &mut self.state {
                State::Header(head) => {
                    head.push(input.get_u8());
                    let (kind, rest) = match varint::take(head) {
                        Some(taken) => taken,
                        None => continue,
                    };
                    if let Some((length, _)) = varint::take(rest) {
                        self.state = self.begin(kind, length, out)?;
                    }
                }
                State::Datagram { left, value } => {
                    let here = (*left).min(input.len());
                    let part = input.split_to(here);
                    *left -= here;
                    if *left > 0 {
                        value.extend_from_slice(&part);
                        continue;
                    }
                    // If the whole value is in one piece, no copy is needed.
                    out.push_back(match value.is_empty() {
                        true => part,
                        false => {
                            value.extend_from_slice(&part);
                            std::mem::take(value).freeze()
                        }
                    });
                    self.state = State::Header(Vec::new());
                }
                State::Skip(left) => {
                    let here = usize::try_from(*left).unwrap_or(usize::MAX);
                    let here = here.min(input.len());
                    input.advance(here);
                    *left -= here as u64;
                    if *left == 0 {
                        self.state = State::Header(Vec::new());
                    }
                }
            }
        }
        Ok(())
    }

    fn begin(
        &self,
        kind: u64,
        length: u64,
        out: &mut VecDeque<Bytes>,
    ) -> Result<State, CapsuleTooLong> {
        Ok(match (kind, length) {
            (DATAGRAM, 0) => {
                out.push_back(Bytes::new());
                State::Header(Vec::new())
            }
            (_, 0) => State::Header(Vec::new()),
            (DATAGRAM, length) if length > self.limit => return Err(CapsuleTooLong(length)),
            (DATAGRAM, length) => State::Datagram {
                left: usize::try_from(length).unwrap_or(usize::MAX),
                value: BytesMut::new(),
            },
            (_, length) => State::Skip(length),
        })
    }

    /// Returns true between two capsules, where the content may end.
    pub const fn is_between(&self) -> bool {
        matches!(&self.state, State::Header(head) if head.is_empty())
    }
}

/// Encodes a DATAGRAM capsule from the parts of a datagram.
pub fn datagram(parts: [&[u8]; 2]) -> Bytes {
    let length = parts.iter().map(|part| part.len()).sum::<usize>();
    let mut capsule = Vec::with_capacity(length + 9);
    varint::put(&mut capsule, DATAGRAM);
    varint::put(&mut capsule, length as u64);
    for part in parts {
        capsule.extend_from_slice(part);
    }
    capsule.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_come_out_whole_and_others_are_skipped() {
        let mut stream = datagram([b"ab", b"c"]).to_vec();
        // Type 0x2575 with 300 bytes, an empty capsule of type 1, and an empty datagram.
        stream.extend_from_slice(b"\x65\x75\x41\x2c");
        stream.extend_from_slice(&[7; 300]);
        stream.extend_from_slice(b"\x01\x00\x00\x00");
        stream.extend_from_slice(&datagram([&[1; 100], &[2; 1]]));
        for chunk in [1, 2, 3, 5, 64, stream.len()] {
            let (mut capsules, mut out) = (Capsules::new(101), VecDeque::new());
            for part in stream.chunks(chunk) {
                capsules
                    .feed(Bytes::copy_from_slice(part), &mut out)
                    .unwrap();
            }
            assert!(capsules.is_between());
            let lengths: Vec<_> = out.iter().map(Bytes::len).collect();
            assert_eq!(lengths, [3, 0, 101], "{chunk}");
            assert_eq!(out[0], "abc");
        }
    }

    #[test]
    fn a_datagram_above_the_limit_is_refused_before_it_arrives() {
        let (mut capsules, mut out) = (Capsules::new(4), VecDeque::new());
        let head = Bytes::from_static(b"\x00\x05");
        assert_eq!(capsules.feed(head, &mut out), Err(CapsuleTooLong(5)));
        let mut capsules = Capsules::new(4);
        capsules
            .feed(Bytes::from_static(b"\x00\x04a"), &mut out)
            .unwrap();
        assert!(!capsules.is_between() && out.is_empty());
    }
}
