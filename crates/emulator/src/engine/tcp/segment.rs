//! Headers of segments and acknowledgements.
//!
//! Each begins with a number below 2^56, so that no router takes its first byte for a shim.

use pathmark_cc::Instant;

/// Bytes of a segment's header. With IPv4 and UDP in front, they are as long as IPv4 and TCP with
/// timestamps, 52 bytes.
pub(super) const HEADER: usize = 24;
/// Bytes of an acknowledgement.
pub(super) const ACK: usize = HEADER;

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Its number, from 0 on.
    pub(super) number: u64,
    pub(super) sent: Instant,
}

impl Segment {
    pub(super) fn write(&self, bytes: &mut [u8]) {
        write(bytes, [self.number, self.sent.as_nanos(), 0]);
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let [number, sent, _] = read(bytes)?;
        Some(Self {
            number,
            sent: Instant::from_nanos(sent),
        })
    }
}

/// The acknowledgement of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ack {
    /// Number of the first segment that is missing.
    pub(super) next: u64,
    /// When the segment was sent that caused it.
    pub(super) echo: Instant,
    /// What XCP routers granted this segment, in 2^-16 bytes per second.
    pub(super) delta: i64,
}

impl Ack {
    pub(super) fn write(&self, bytes: &mut [u8]) {
        let delta = u64::from_be_bytes(self.delta.to_be_bytes());
        write(bytes, [self.next, self.echo.as_nanos(), delta]);
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let [next, echo, delta] = read(bytes)?;
        Some(Self {
            next,
            echo: Instant::from_nanos(echo),
            delta: i64::from_be_bytes(delta.to_be_bytes()),
        })
    }
}

fn write(bytes: &mut [u8], fields: [u64; 3]) {
    for (to, field) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(fields) {
        *to = field.to_be_bytes();
    }
}

fn read(bytes: &[u8]) -> Option<[u64; 3]> {
    let (fields, _) = bytes.first_chunk::<HEADER>()?.as_chunks::<8>();
    fields
        .try_into()
        .ok()
        .map(|fields: [[u8; 8]; 3]| fields.map(u64::from_be_bytes))
}
