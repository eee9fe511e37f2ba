//! What stands in front of the packets of a datagram.

use pathmark_shim::Framed;
use pathmark_shim::frame::declared_len;

/// The bytes in front of the packets of a received datagram.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) enum ShimPrefix<'a> {
    /// Nothing.
    Plain,
    /// A sound shim.
    Shim { kind: u8, bytes: &'a [u8] },
    /// A shim whose check failed.
    Bad,
}

/// Takes a shim off. The bytes behind one whose check failed are a packet still, and can be read.
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
    /// Nothing, or the signal in the ECN field.
    #[default]
    Nothing,
    /// The controller's request; the shim's length in bytes.
    Request(usize),
    /// Its question for a starting rate; the shim's length in bytes.
    Question(usize),
}

impl ShimUse {
    /// Bytes of the shim.
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
