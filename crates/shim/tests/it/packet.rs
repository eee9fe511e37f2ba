//! Packets around shims, for the tests of the protocols.

use pathmark_shim::ip::Layout;
use pathmark_shim::udp::Datagram;

/// An IP packet with a UDP datagram and correct checksums, built field by field.
pub(crate) fn packet(v6: bool, payload: &[u8]) -> Vec<u8> {
    let udp_len = u16::try_from(8 + payload.len()).unwrap().to_be_bytes();
    let mut bytes = Vec::new();
    if v6 {
        bytes.extend([0x60, 0, 0, 0]);
        bytes.extend(udp_len);
        bytes.extend([17, 64]);
        bytes.extend([0x20, 1, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        bytes.extend([0x20, 1, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    } else {
        let len = u16::try_from(28 + payload.len()).unwrap().to_be_bytes();
        bytes.extend([0x45, 0, len[0], len[1], 0, 0, 0x40, 0, 64, 17, 0, 0]);
        bytes.extend([192, 0, 2, 1, 198, 51, 100, 2]);
    }
    bytes.extend([0xC0, 0, 0x11, 0x51]);
    bytes.extend(udp_len);
    bytes.extend([0, 0]);
    bytes.extend(payload);
    let ip = Layout::walk(&bytes).unwrap();
    let udp = Datagram::locate(&bytes, &ip).unwrap();
    let checksum = udp.compute_checksum(&bytes, &ip).to_be_bytes();
    let at = udp.payload_offset() - 2;
    bytes[at..at + 2].copy_from_slice(&checksum);
    bytes
}
