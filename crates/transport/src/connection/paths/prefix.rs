//! The shim in front of a datagram's packets.

use pathmark_shim::Framed;
use pathmark_shim::frame::declared_len;

/// The bytes in front of the packets of a received datagram.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) enum ShimPrefix<'a> {
    /// No shim.
    Plain,
    /// A valid shim.
    Shim { kind: u8, bytes: &'a [u8] },
    /// A shim whose check failed.
    Bad,
}

/// Removes a shim. Even if its check failed, the bytes behind it are a packet and can be read.
#[inline]
pub(in crate::connection) fn strip(datagram: &mut [u8]) -> (ShimPrefix<'_>, &mut [u8]) {
    let Ok(len) = declared_len(datagram) else {
        return (ShimPrefix::Plain, datagram);
    };
    let (shim, rest) = datagram.split_at_mut(len);
    let prefix = match Framed::parse(shim) {
        Ok(framed) => ShimPrefix::Shim {
            kind: framed.kind().number(),
            bytes: framed.bytes(),
        },
        Err(_) => ShimPrefix::Bad,
    };
    (prefix, rest)
}

/// The shim in front of one of our datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::connection) enum ShimUse {
    /// No shim, or a signal in the ECN field.
    #[default]
    Nothing,
    /// The controller's request, with the shim's size in bytes.
    Request(usize),
    /// The controller's question for a starting rate, with the shim's size in bytes.
    Question(usize),
}

impl ShimUse {
    /// Returns the size of the shim, in bytes.
    #[inline]
    pub(in crate::connection) const fn len(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Request(len) | Self::Question(len) => len,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_shim_is_left_where_it_is() {
        for bytes in [&[][..], &[0x40; 20], &[0xc0; 1200]] {
            let mut datagram = bytes.to_vec();
            let (prefix, rest) = strip(&mut datagram);
            assert!(matches!(prefix, ShimPrefix::Plain), "{prefix:?}");
            assert_eq!(rest, bytes);
        }
    }

    #[test]
    fn uses_have_lengths() {
        let uses = [
            ShimUse::Nothing,
            ShimUse::Request(20),
            ShimUse::Question(12),
        ];
        assert_eq!(uses.map(ShimUse::len), [0, 20, 12]);
    }
}
