use core::ops::RangeInclusive;

use super::super::*;
use super::fields::by_hand;
use super::*;
use crate::wire::PacketType;

/// RFC 9000's table 3, and extension frames: types, packets, and properties (N: not ack-eliciting,
/// P: probing).
const TABLE_3: [(RangeInclusive<u64>, &str, &str); 25] = [
    (0x00..=0x00, "IH01", "NP"),
    (0x01..=0x01, "IH01", ""),
    (0x02..=0x03, "IH_1", "N"),
    (0x04..=0x04, "__01", ""),
    (0x05..=0x05, "__01", ""),
    (0x06..=0x06, "IH_1", ""),
    (0x07..=0x07, "___1", ""),
    (0x08..=0x0f, "__01", ""),
    (0x10..=0x10, "__01", ""),
    (0x11..=0x11, "__01", ""),
    (0x12..=0x13, "__01", ""),
    (0x14..=0x14, "__01", ""),
    (0x15..=0x15, "__01", ""),
    (0x16..=0x17, "__01", ""),
    (0x18..=0x18, "__01", "P"),
    // Table 3 has __01; section 12.5 lets servers refuse it in 0-RTT, where it can't occur.
    (0x19..=0x19, "___1", ""),
    (0x1a..=0x1a, "__01", "P"),
    (0x1b..=0x1b, "___1", "P"),
    (0x1c..=0x1c, "IH01", "N"),
    (0x1d..=0x1d, "__01", "N"),
    (0x1e..=0x1e, "___1", ""),
    (0x1f..=0x1f, "___1", ""),
    (0x30..=0x31, "__01", ""),
    (0xaf..=0xaf, "___1", ""),
    (types::FEEDBACK..=types::FEEDBACK, "___1", "N"),
];

/// One or two of each frame.
fn all_frames() -> Vec<Frame<'static>> {
    let mut all: Vec<_> = by_hand().into_iter().map(|(_, frame)| frame).collect();
    all.extend(frames(&[0x02, 0, 0, 0, 0]));
    all.extend(frames(&[0x80, 0x66, 0x65, 0x64, 0, 0, 0, 0]));
    all
}

#[test]
fn frames_keep_to_table_3() {
    // [9000 12.4 permitted-frames] [9000 19.21 counted]
    use PacketType::{Handshake, Initial, OneRtt, ZeroRtt};
    let all = all_frames();
    for (types, packets, spec) in TABLE_3 {
        let of_row: Vec<_> = all.iter().filter(|f| types.contains(&f.ty())).collect();
        assert!(!of_row.is_empty(), "{types:?}");
        for frame in of_row {
            for (letter, packet) in packets.chars().zip([Initial, Handshake, ZeroRtt, OneRtt]) {
                let allowed = frame.allowed_in(packet);
                assert_eq!(allowed, letter != '_', "{frame:?} in {packet:?}");
            }
            assert_eq!(frame.is_ack_eliciting(), !spec.contains('N'), "{frame:?}");
            assert_eq!(frame.is_probing(), spec.contains('P'), "{frame:?}");
        }
    }
}

#[test]
fn only_servers_send_tokens_and_confirm() {
    for frame in all_frames() {
        assert!(frame.allowed_from(Side::Server));
        let of_servers = matches!(frame, Frame::NewToken(_) | Frame::HandshakeDone);
        assert_eq!(frame.allowed_from(Side::Client), !of_servers);
    }
}
