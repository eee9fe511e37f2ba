//! Writing answers into IP packets, including those that offload will segment.

use pathmark_cc::Answer;
use pathmark_shim::ip::Layout;
use pathmark_shim::udp::{ChecksumState, Datagram};
use vcp_proto::mark;

pub use vcp_proto::mark::Row;

use crate::shim::{self, Carrier, Identity};

/// A packet, or a super-packet whose segments have the same headers.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The part that carries feedback.
    pub carrier: Carrier,
    /// Bytes of UDP payload per segment; `None` for a plain packet.
    pub segment: Option<usize>,
    /// Whether the UDP checksum is complete or left to checksum offload.
    pub checksum: ChecksumState,
}

/// Writes a port's answer into a packet, or into segment `index` of a super-packet. A segment
/// without a valid shim is not changed. `row` keeps state between consecutive segments.
#[inline]
pub fn write_answer(
    bytes: &mut [u8],
    target: &Target,
    index: u32,
    answer: &Answer,
    router: &Identity,
    row: &mut Row,
) {
    let state = target.checksum;
    match (target.carrier, answer) {
        (Carrier::Vcp(lifted), Answer::Vcp(answer)) if index == 0 => {
            // The shim was already read on arrival, so the result needn't be checked, here and
            // below.
            let _ = lifted.mark(bytes, answer, shim::vcp_router(router), state);
        }
        (Carrier::Vcp(lifted), Answer::Vcp(answer)) if state == ChecksumState::Partial => {
            let shim = lifted.payload_offset() + segment_offset(target, index);
            let rest = bytes.get_mut(shim..).unwrap_or_default();
            let _ = row.mark_payload(rest, answer, shim::vcp_router(router));
        }
        (Carrier::Vcp(lifted), _) => {
            write_shim(
                bytes,
                target,
                lifted.payload_offset(),
                index,
                answer,
                router,
            );
        }
        (Carrier::Shim { payload }, _) => {
            write_shim(bytes, target, payload.into(), index, answer, router);
        }
        (Carrier::Ecn, Answer::Vcp(answer)) => {
            if let Ok(layout) = Layout::walk(bytes) {
                let _ = mark::mark_ecn(bytes, &layout, answer.code);
            }
        }
        (Carrier::Ecn | Carrier::None, _) => {}
    }
}

/// Writes an answer into a shim that must be read again, because it is not a VCP shim or belongs to
/// a later segment.
fn write_shim(
    bytes: &mut [u8],
    target: &Target,
    payload: usize,
    index: u32,
    answer: &Answer,
    router: &Identity,
) {
    let size = target.segment.unwrap_or(0);
    let offset = segment_offset(target, index);
    let rest = bytes.len().saturating_sub(payload + offset);
    let own = if size > 0 { rest.min(size) } else { rest };
    let packet = u32::try_from(payload + own).unwrap_or(u32::MAX);
    // False is not an error: the segment has no valid shim.
    let _ = match target.checksum {
        ChecksumState::Partial => {
            let shim = bytes.get_mut(payload + offset..).unwrap_or(&mut []);
            shim::write(shim, answer, packet, router)
        }
        ChecksumState::Complete => located(bytes)
            .is_some_and(|udp| shim::write_packet(bytes, &udp, offset, answer, packet, router)),
    };
}

/// Returns where the payload of a super-packet's segment begins, in bytes from the start of the
/// super-packet's payload.
#[inline]
fn segment_offset(target: &Target, index: u32) -> usize {
    target.segment.unwrap_or(0) * index as usize
}

#[inline]
fn located(bytes: &[u8]) -> Option<Datagram> {
    Datagram::locate(bytes, &Layout::walk(bytes).ok()?)
}
