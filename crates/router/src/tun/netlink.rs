//! Queries to the kernel about interfaces, rules and routes (rtnetlink), which require no
//! privileges.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use super::sys;

const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP: u16 = 0x300;
/// The list changed while it was read.
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// Bytes of a message's header.
const HEADER: usize = 16;
/// Number of attempts to read a list that keeps changing.
const ATTEMPTS: usize = 8;
/// Answers to abandoned requests that may arrive before the answer to a query.
const STALE: usize = 16;

/// A socket for queries in one network namespace.
#[derive(Debug)]
pub(crate) struct Socket {
    file: File,
    /// Number of the last request.
    sequence: u32,
}

impl Socket {
    /// Opens a socket in this network namespace, or this thread's own.
    ///
    /// # Errors
    /// Errors of the system calls.
    pub(crate) fn open(namespace: Option<OwnedFd>) -> io::Result<Self> {
        let file = File::from(sys::route_socket(namespace)?);
        sys::filter_lists(&file);
        Ok(Self { file, sequence: 0 })
    }

    /// Queries a single entry. `body` is everything behind the header of the request.
    ///
    /// # Errors
    /// Errors of the socket, and of the kernel.
    pub(crate) fn get(&mut self, kind: u16, body: &[u8]) -> io::Result<Vec<u8>> {
        self.send(kind, NLM_F_REQUEST, body)?;
        let mut buffer = vec![0; 32 * 1024];
        for _ in 0..STALE {
            let len = self.file.read(&mut buffer)?;
            for (head, body) in messages(buffer.get(..len).unwrap_or_default()) {
                if u32_at(head, 8) == Some(self.sequence) {
                    return match u16_at(head, 4) {
                        Some(NLMSG_ERROR) => Err(failure(body)),
                        _ => Ok(body.to_vec()),
                    };
                }
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Queries a list, and returns its entries as far as `read` knows them.
    ///
    /// # Errors
    /// As for [`get`](Self::get), and if the list changes during each attempt.
    pub(crate) fn list<T>(
        &mut self,
        kind: u16,
        body: &[u8],
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        for _ in 0..ATTEMPTS {
            if let Some(whole) = self.list_once(kind, body, &read)? {
                return Ok(whole);
            }
        }
        Err(io::Error::other(
            "the list changed during each attempt to read it",
        ))
    }

    /// Returns `None` if the list changed while it was read.
    fn list_once<T>(
        &mut self,
        kind: u16,
        body: &[u8],
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> io::Result<Option<Vec<T>>> {
        self.send(kind, NLM_F_REQUEST | NLM_F_DUMP, body)?;
        let mut buffer = vec![0; 64 * 1024];
        let (mut found, mut whole) = (Vec::new(), true);
        loop {
            let len = self.file.read(&mut buffer)?;
            for (head, body) in messages(buffer.get(..len).unwrap_or_default()) {
                if u32_at(head, 8) != Some(self.sequence) {
                    continue;
                }
                whole &= u16_at(head, 6).unwrap_or(0) & NLM_F_DUMP_INTR == 0;
                match u16_at(head, 4) {
                    Some(NLMSG_ERROR | NLMSG_DONE) if u32_at(body, 0).unwrap_or(0) == 0 => {
                        return Ok(whole.then_some(found));
                    }
                    Some(NLMSG_ERROR | NLMSG_DONE) => return Err(failure(body)),
                    _ => found.extend(read(body)),
                }
            }
        }
    }

    /// Sends a request in native byte order, as netlink requires.
    fn send(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let len = u32::try_from(HEADER + body.len()).unwrap_or(0);
        let mut request = Vec::new();
        request.extend(len.to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend(flags.to_ne_bytes());
        request.extend(self.sequence.to_ne_bytes());
        request.extend(0u32.to_ne_bytes());
        request.extend(body);
        self.file.write_all(&request)
    }
}

/// The error in the body of a message.
fn failure(body: &[u8]) -> io::Error {
    let code = u32_at(body, 0).unwrap_or(0).wrapping_neg();
    i32::try_from(code).map_or_else(
        |_| io::ErrorKind::InvalidData.into(),
        io::Error::from_raw_os_error,
    )
}

/// Iterates over headers and bodies of a datagram's messages, up to the first truncated one.
pub(crate) fn messages(mut rest: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || {
        let len = u32_at(rest, 0)? as usize;
        let (head, body) = (rest.get(..HEADER)?, rest.get(HEADER..len)?);
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((head, body))
    })
}

/// Iterates over attributes and their values, up to the first truncated one.
pub(crate) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (len, kind) = (usize::from(u16_at(rest, 0)?), u16_at(rest, 2)?);
        let value = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        // The upper bits are flags about the value's encoding.
        Some((kind & 0x3FFF, value))
    })
}

/// Appends an attribute to the body of a request.
pub(crate) fn push_attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let len = u16::try_from(4 + value.len()).unwrap_or(0);
    body.extend(len.to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Returns a text without its terminating zero. The kernel allows nearly any bytes in it, so
/// control characters become `?`.
pub(crate) fn printable(text: &[u8]) -> String {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let shown = |c: char| if c.is_control() { '?' } else { c };
    String::from_utf8_lossy(text).chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_fit_to_print() {
        assert_eq!(printable(b"wan0\0"), "wan0");
        assert_eq!(printable(b"a\x1b[2J\x7f"), "a?[2J?");
        assert_eq!(printable(b"a\xff\0b"), "a\u{fffd}");
        assert_eq!(printable(b""), "");
    }
}
