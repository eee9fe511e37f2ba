//! IPv4 fragmentation in transit (RFC 791 §3.2), for packets without DF that exceed the next
//! link's MTU.

use crate::field::{put, renew_v4};

const MORE: u16 = 0x2000;
const DONT: u16 = 0x4000;
const OFFSET: u16 = 0x1FFF;

/// The reason why a packet cannot be fragmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadFragment {
    /// DF is set.
    #[error("the packet must not be fragmented")]
    DontFragment,
    /// Not an IPv4 packet with a plausible header and length.
    #[error("not an IPv4 packet")]
    Header,
    /// The link cannot even carry a header and 8 bytes.
    #[error("the link's MTU is too small for any fragment")]
    Mtu,
}

/// The fragments of one packet.
#[derive(Clone, Copy, Debug)]
pub struct Fragments<'a> {
    header: &'a [u8],
    payload: &'a [u8],
    /// Payload bytes of each fragment except the last.
    size: usize,
    /// Flags and offset of the original packet.
    field: u16,
    next: usize,
}

impl<'a> Fragments<'a> {
    /// Prepares to fragment `packet` for a link of `mtu` bytes. Its checksums must be complete.
    ///
    /// # Errors
    /// [`BadFragment`].
    pub fn new(packet: &'a [u8], mtu: usize) -> Result<Self, BadFragment> {
        let &[first, _, l0, l1, _, _, f0, f1] =
            packet.first_chunk::<8>().ok_or(BadFragment::Header)?;
        let header_len = usize::from(first & 0x0F) * 4;
        let total = usize::from(u16::from_be_bytes([l0, l1]));
        let field = u16::from_be_bytes([f0, f1]);
        if first >> 4 != 4 || header_len < 20 {
            return Err(BadFragment::Header);
        }
        if field & DONT != 0 {
            return Err(BadFragment::DontFragment);
        }
        let (header, payload) = packet
            .get(..total)
            .and_then(|packet| packet.split_at_checked(header_len))
            .ok_or(BadFragment::Header)?;
        let size = mtu.saturating_sub(header_len) & !7;
        if size == 0 {
            return Err(BadFragment::Mtu);
        }
        Ok(Self {
            header,
            payload,
            size,
            field,
            next: 0,
        })
    }

    /// Writes the next fragment to the front of `out` and returns its length. Returns `None`
    /// after the last one, or if `out` is too short.
    pub fn next_into(&mut self, out: &mut [u8]) -> Option<usize> {
        let start = self.next;
        if start >= self.payload.len() {
            return None;
        }
        let end = (start + self.size).min(self.payload.len());
        let body = self.payload.get(start..end)?;
        let len = self.header.len() + body.len();
        let out = out.get_mut(..len)?;
        let (header, rest) = out.split_at_mut_checked(self.header.len())?;
        header.copy_from_slice(self.header);
        rest.copy_from_slice(body);
        if start > 0 {
            keep_copied_options(header);
        }
        let more = if end < self.payload.len() {
            MORE
        } else {
            self.field & MORE
        };
        let offset = (self.field & OFFSET).wrapping_add(u16::try_from(start / 8).ok()?);
        put(header, 2, u16::try_from(len).ok()?);
        put(header, 6, more | offset & OFFSET);
        renew_v4(header);
        self.next = end;
        Some(len)
    }
}

/// Keeps only options with the "copied" flag, which later fragments must repeat. The others
/// become no-operations, so that the header's length stays the same.
fn keep_copied_options(header: &mut [u8]) {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    let mut at = 20;
    while let Some(&kind) = header.get(at) {
        let length = match kind {
            END => return,
            NO_OPERATION => 1,
            _ => header.get(at + 1).map_or(0, |l| usize::from(*l)),
        };
        let Some(option) = header.get_mut(at..at + length).filter(|o| !o.is_empty()) else {
            return;
        };
        if kind & 0x80 == 0 {
            option.fill(NO_OPERATION);
        }
        at += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathmark_shim::ip::{Fragment, Layout};
    use proptest::prelude::*;

    fn packet(options: &[u8], payload: usize, field: u16) -> Vec<u8> {
        let header = 20 + options.len();
        let mut bytes = vec![0x40 | (header / 4) as u8, 0];
        bytes.extend(((header + payload) as u16).to_be_bytes());
        bytes.extend([1, 2]);
        bytes.extend(field.to_be_bytes());
        bytes.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend(options);
        bytes.extend((0..payload).map(|i| (i % 253) as u8));
        bytes
    }

    proptest! {
        /// Reassembled in any order, the fragments result in the original packet.
        #[test]
        fn fragments_reassemble(
            payload in 1usize..5_000,
            mtu in 68usize..1_500,
            base in 0u16..100,
            more: bool,
        ) {
            let field = base | if more { MORE } else { 0 };
            let bytes = packet(&[0x94, 4, 0, 0, 7, 3, 4, 0], payload, field);
            let mut fragments = Fragments::new(&bytes, mtu).unwrap();
            let mut joined = vec![None; payload];
            let (mut out, mut last) = ([0; 1_500], 0);
            while let Some(len) = fragments.next_into(&mut out) {
                prop_assert!(len <= mtu);
                let layout = Layout::walk(&out[..len]).unwrap();
                prop_assert!(layout.header_checksum_ok(&out[..len]));
                let field = u16::from_be_bytes([out[6], out[7]]);
                let at = usize::from((field & OFFSET) - base) * 8;
                let first = at == 0;
                prop_assert_eq!(&out[20..24], &[0x94, 4, 0, 0], "copied option");
                prop_assert_eq!(out[24..27] == [7, 3, 4], first, "option of the first only");
                for (slot, byte) in joined[at..].iter_mut().zip(&out[28..len]) {
                    prop_assert!(slot.replace(*byte).is_none());
                }
                last = field;
            }
            prop_assert_eq!(last & MORE != 0, more);
            let joined: Option<Vec<u8>> = joined.into_iter().collect();
            prop_assert_eq!(joined.as_deref(), Some(&bytes[28..]));
        }
    }

    #[test]
    fn refuses_what_must_not_be() {
        for (packet, mtu, why) in [
            (packet(&[], 100, DONT), 68, BadFragment::DontFragment),
            (packet(&[], 100, 0), 27, BadFragment::Mtu),
            (vec![0x60; 40], 1280, BadFragment::Header),
        ] {
            assert_eq!(Fragments::new(&packet, mtu).err(), Some(why));
        }
        let bytes = packet(&[], 100, 0);
        let mut out = [0; 200];
        let mut fragments = Fragments::new(&bytes, 68).unwrap();
        let len = fragments.next_into(&mut out).unwrap();
        let first = Layout::walk(&out[..len]).unwrap().fragment();
        assert_eq!(first, Fragment::First);
    }
}
