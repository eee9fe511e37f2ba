//! HTTP datagrams of a UDP flow: a context and a payload (RFC 9298 section 5).

/// The context of UDP payloads, which are as they are on the wire.
pub(crate) const UDP: u8 = 0;
/// Bytes of a UDP payload at most: 65,535 less a UDP header.
pub(crate) const MOST: usize = 65_527;
/// Bytes of an HTTP datagram at most: a payload, and a context in its longest form.
pub(crate) const MOST_DATAGRAM: u64 = MOST as u64 + 8;

/// The UDP payload of an HTTP datagram. `None`: it has another context, or none.
pub(crate) fn udp(datagram: &[u8]) -> Option<&[u8]> {
    let first = datagram.first()?;
    let length = 1_usize << (first >> 6);
    let (context, payload) = datagram.split_at_checked(length)?;
    let is_udp = context.iter().enumerate().all(|(place, byte)| match place {
        0 => byte & 0x3f == UDP,
        _ => *byte == 0,
    });
    (is_udp && payload.len() <= MOST).then_some(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_of_the_context_of_udp_alone() {
        assert_eq!(udp(b"\x00ab"), Some(&b"ab"[..]));
        assert_eq!(udp(b"\x00"), Some(&b""[..]));
        assert_eq!(udp(b"\x40\x00ab"), Some(&b"ab"[..]));
        for other in [
            &b""[..],
            b"\x01ab",
            b"\x40\x01ab",
            b"\x40",
            b"\xc0\0\0\0\0\0\0",
        ] {
            assert_eq!(udp(other), None, "{other:?}");
        }
        let mut most = vec![0; MOST + 1];
        assert!(udp(&most).is_some());
        most.push(0);
        assert!(udp(&most).is_none());
    }
}
