//! Captures for Wireshark and similar programs: pcapng (draft-ietf-opsawg-pcapng), one
//! interface, raw IP.

use std::io::{self, Write};
use std::path::Path;

use pathmark_cc::Duration;

use super::{OutputError, OutputFile};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// LINKTYPE_RAW: packets start with their IP header.
const RAW_IP: u16 = 101;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
/// Times in 10^-9 s.
const NANOSECONDS: u8 = 9;

/// Creates a capture of the interface `name`.
pub(super) fn create(path: &Path, name: &str) -> Result<OutputFile, OutputError> {
    OutputFile::create(path, |file| {
        let mut section = BYTE_ORDER.to_le_bytes().to_vec();
        // Version 1.0, of unspecified length.
        section.extend(1u16.to_le_bytes());
        section.extend(0u16.to_le_bytes());
        section.extend(u64::MAX.to_le_bytes());
        block(file, SECTION_HEADER, &section, &[])?;
        let mut interface = RAW_IP.to_le_bytes().to_vec();
        interface.extend(0u16.to_le_bytes());
        // Packets are never truncated.
        interface.extend(0u32.to_le_bytes());
        option(&mut interface, IF_NAME, name.as_bytes());
        option(&mut interface, IF_TSRESOL, &[NANOSECONDS]);
        option(&mut interface, 0, &[]);
        block(file, INTERFACE_DESCRIPTION, &interface, &[])
    })
}

/// Adds a packet to a capture.
pub(super) fn packet(
    capture: &mut OutputFile,
    at: Duration,
    packet: &[u8],
) -> Result<(), OutputError> {
    let nanos = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
    let len = u32::try_from(packet.len()).unwrap_or(u32::MAX);
    let mut head = [0u8; 20];
    // Interface 0; the upper half of the time comes first.
    let words = [0, (nanos >> 32) as u32, nanos as u32, len, len];
    for (to, word) in head.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    capture.write(|file| block(file, ENHANCED_PACKET, &head, packet))
}

/// Writes a block of two parts, padded to whole words, with its length before and after.
fn block(file: &mut impl Write, kind: u32, head: &[u8], body: &[u8]) -> io::Result<()> {
    let len = head.len() + body.len();
    let fill = len.next_multiple_of(4) - len;
    let total = u32::try_from(len + fill + 12).map_err(io::Error::other)?;
    file.write_all(&kind.to_le_bytes())?;
    file.write_all(&total.to_le_bytes())?;
    file.write_all(head)?;
    file.write_all(body)?;
    file.write_all([0u8; 3].get(..fill).unwrap_or(&[]))?;
    file.write_all(&total.to_le_bytes())
}

/// Appends an option, padded to whole words.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend(code.to_le_bytes());
    out.extend(u16::try_from(value.len()).unwrap_or(u16::MAX).to_le_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
}
