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
    let crypto = Crypto {
        offset: 0,
        data: b"x",
    };
    let stream = Stream {
        id,
        offset: 0,
        fin: false,
        data: b"",
    };
    let (dir, max, limit) = (Dir::Bi, 0, 0);
    let data_blocked = StreamDataBlocked { id, limit };
    let new_id = NewConnectionId {
        sequence: 1,
        retire_prior_to: 0,
        id: ConnectionId::new(&[1]).unwrap(),
        reset_token: [0; 16],
    };
    let close = ConnectionClose {
        error_code: TransportErrorCode::NO_ERROR,
        frame_type: 0,
        reason: b"",
    };
    let application_close = ApplicationClose {
        error_code: 0,
        reason: b"",
    };
    let frequency = AckFrequency {
        sequence: 0,
        ack_eliciting_threshold: 1,
        max_ack_delay: Duration::from_millis(25),
        reordering_threshold: 1,
    };
    vec![
        (Frame::Padding(1), "IH01", "NP"),
        (Frame::Ping, "IH01", ""),
        (ack, "IH_1", "N"),
        (Frame::ResetStream(reset), "__01", ""),
        (Frame::StopSending(stop), "__01", ""),
        (Frame::Crypto(crypto), "IH_1", ""),
        (Frame::NewToken(b"x"), "___1", ""),
        (Frame::Stream(stream), "__01", ""),
        (Frame::MaxData(0), "__01", ""),
        (Frame::MaxStreamData(MaxStreamData { id, max }), "__01", ""),
        (Frame::MaxStreams(MaxStreams { dir, max }), "__01", ""),
        (Frame::DataBlocked(0), "__01", ""),
        (Frame::StreamDataBlocked(data_blocked), "__01", ""),
        (
            Frame::StreamsBlocked(StreamsBlocked { dir, limit }),
            "__01",
            "",
        ),
        (Frame::NewConnectionId(new_id), "__01", "P"),
        // Table 3 has __01; section 12.5 lets servers refuse it in 0-RTT, where it can't occur.
        (Frame::RetireConnectionId(0), "___1", ""),
        (Frame::PathChallenge([0; 8]), "__01", "P"),
        (Frame::PathResponse([0; 8]), "___1", "P"),
        (Frame::ConnectionClose(close), "IH01", "N"),
        (Frame::ApplicationClose(application_close), "__01", "N"),
        (Frame::HandshakeDone, "___1", ""),
        (Frame::Datagram(b""), "__01", ""),
        (Frame::AckFrequency(frequency), "___1", ""),
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
