//! Writes datagrams to a capture file (pcapng, draft-ietf-opsawg-pcapng), with made-up headers.

use std::time::Duration;

use super::proxy::Passed;

/// Raw IP packets.
const LINKTYPE_RAW: u16 = 101;
const IPV4_HEADER: usize = 20;
const UDP_HEADER: usize = 8;

/// IPv4 address and port that the capture shows for the client.
pub(crate) const CLIENT: ([u8; 4], u16) = ([192, 0, 2, 1], 50_000);
/// The same for the server. Dissectors expect QUIC at port 443.
pub(crate) const SERVER: ([u8; 4], u16) = ([192, 0, 2, 2], 443);

/// Returns a capture file of these datagrams.
pub(crate) fn pcapng(passed: &[Passed]) -> Vec<u8> {
    let mut file = Vec::new();
    // Section header: byte-order magic, version 1.0, unknown length.
    let mut body = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
    body.extend(1u16.to_le_bytes());
    body.extend(0u16.to_le_bytes());
    body.extend((-1i64).to_le_bytes());
    block(&mut file, 0x0a0d_0d0a, &body);
    // One interface. By default, times are in microseconds.
    let mut body = LINKTYPE_RAW.to_le_bytes().to_vec();
    body.extend(0u16.to_le_bytes());
    body.extend(0u32.to_le_bytes());
    block(&mut file, 1, &body);
    for passed in passed {
        let packet = packet(passed);
        let time = micros(passed.at);
        let length = u32::try_from(packet.len()).unwrap();
        let mut body = 0u32.to_le_bytes().to_vec();
        body.extend(((time >> 32) as u32).to_le_bytes());
        body.extend((time as u32).to_le_bytes());
        body.extend(length.to_le_bytes());
        body.extend(length.to_le_bytes());
        body.extend(&packet);
        block(&mut file, 6, &body);
    }
    file
}

/// An arbitrary day, so that the times look realistic.
fn micros(at: Duration) -> u64 {
    let day = Duration::from_secs(1_750_000_000);
    u64::try_from((day + at).as_micros()).unwrap()
}

fn block(file: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let padding = body.len().next_multiple_of(4) - body.len();
    let length = u32::try_from(12 + body.len() + padding).unwrap();
    file.extend(kind.to_le_bytes());
    file.extend(length.to_le_bytes());
    file.extend(body);
    file.extend(vec![0; padding]);
    file.extend(length.to_le_bytes());
}

/// Returns the datagram as an IPv4 packet, including checksums.
fn packet(passed: &Passed) -> Vec<u8> {
    let (from, to) = if passed.from_client {
        (CLIENT, SERVER)
    } else {
        (SERVER, CLIENT)
    };
    let udp_length = u16::try_from(UDP_HEADER + passed.bytes.len()).unwrap();
    let length = udp_length + IPV4_HEADER as u16;
    let mut ip = vec![0x45, 0];
    ip.extend(length.to_be_bytes());
    // No identification, don't fragment, TTL 64, UDP.
    ip.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    ip.extend(from.0);
    ip.extend(to.0);
    let checksum = !sum(0, &ip);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());

    let mut udp = Vec::new();
    udp.extend(from.1.to_be_bytes());
    udp.extend(to.1.to_be_bytes());
    udp.extend(udp_length.to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(&passed.bytes);
    let pseudo = sum(u32::from(udp_length) + 17, &ip[12..20]);
    let checksum = match !sum(u32::from(pseudo), &udp) {
        0 => 0xffff,
        other => other,
    };
    udp[6..8].copy_from_slice(&u16::to_be_bytes(checksum));
    ip.extend(udp);
    ip
}

/// Returns the sum of the Internet checksum (RFC 1071), not complemented.
fn sum(initial: u32, bytes: &[u8]) -> u16 {
    let mut sum = initial;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
