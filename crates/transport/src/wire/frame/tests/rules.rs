use super::super::*;
use super::*;
use crate::wire::PacketType;

/// One of each frame, with its row of RFC 9000's table 3 ("Pkts" and "Spec"; N: not ack-eliciting,
/// P: probing).
fn table_3() -> Vec<(Frame<'static>, &'static str, &'static str)> {
    let id = StreamId::new(Side::Client, Dir::Bi, 0).unwrap();
    let ack = frames(&[0x02, 0, 0, 0, 0])[0];
    let feedback = frames(&[0x80, 0x66, 0x65, 0x64, 0, 0, 0, 0])[0];
    let reset = ResetStream {
        id,
        error_code: 0,
        final_size: 0,
    };
    let stop = StopSending { id, error_code: 0 };
    let stream = stream(id, 0, false, b"");
    let (dir, max, limit) = (Dir::Bi, 0, 0);
    let data_blocked = StreamDataBlocked { id, limit };
    let blocked = Frame::StreamsBlocked(StreamsBlocked { dir, limit });
    let new_id = new_id(1, 0, &[1], [0; 16]);
    let close = close(TransportErrorCode::NO_ERROR, 0, b"");
    let (error_code, reason) = (0, &b""[..]);
    let of_application = ApplicationClose { error_code, reason };
    let frequency = frequency([0, 1, 1, 25]);
    vec![
        (Frame::Padding(1), "IH01", "NP"),
        (Frame::Ping, "IH01", ""),
        (ack, "IH_1", "N"),
        (Frame::ResetStream(reset), "__01", ""),
        (Frame::StopSending(stop), "__01", ""),
        (Frame::Crypto(crypto(0, b"x")), "IH_1", ""),
        (Frame::NewToken(b"x"), "___1", ""),
        (Frame::Stream(stream), "__01", ""),
        (Frame::MaxData(0), "__01", ""),
        (Frame::MaxStreamData(MaxStreamData { id, max }), "__01", ""),
        (Frame::MaxStreams(MaxStreams { dir, max }), "__01", ""),
        (Frame::DataBlocked(0), "__01", ""),
        (Frame::StreamDataBlocked(data_blocked), "__01", ""),
        (blocked, "__01", ""),
        (new_id, "__01", "P"),
        // Table 3 has __01; section 12.5 lets servers refuse it in 0-RTT, where it can't occur.
        (Frame::RetireConnectionId(0), "___1", ""),
        (Frame::PathChallenge([0; 8]), "__01", "P"),
        (Frame::PathResponse([0; 8]), "___1", "P"),
        (Frame::ConnectionClose(close), "IH01", "N"),
        (Frame::ApplicationClose(of_application), "__01", "N"),
        (Frame::HandshakeDone, "___1", ""),
        (Frame::Datagram(b""), "__01", ""),
        (frequency, "___1", ""),
        (Frame::ImmediateAck, "___1", ""),
        (feedback, "___1", "N"),
    ]
}

#[test]
fn frames_keep_to_table_3() {
    // [9000 12.4 permitted-frames] [9000 19.21 counted]
    for (frame, packets, spec) in table_3() {
        use PacketType::{Handshake, Initial, OneRtt, ZeroRtt};
        for (letter, packet) in packets.chars().zip([Initial, Handshake, ZeroRtt, OneRtt]) {
            let allowed = frame.allowed_in(packet);
            assert_eq!(allowed, letter != '_', "{frame:?} in {packet:?}");
        }
        assert_eq!(frame.is_ack_eliciting(), !spec.contains('N'), "{frame:?}");
        assert_eq!(frame.is_probing(), spec.contains('P'), "{frame:?}");
    }
}

#[test]
fn only_servers_send_tokens_and_confirm() {
    for (frame, ..) in table_3() {
        assert!(frame.allowed_from(Side::Server));
        let of_servers = matches!(frame, Frame::NewToken(_) | Frame::HandshakeDone);
        assert_eq!(frame.allowed_from(Side::Client), !of_servers);
    }
}
