//! The bytes of one log.

use pathmark_transport::Instant;
use pathmark_transport::crypto::Side;
use pathmark_transport::observe::{TraceEvent, TracedPacket};
use pathmark_transport::wire::{ConnectionId, PacketType};
use serde::Serialize;
use serde_json::json;

use crate::event::{
    Closed, Controller, Event, Recovery, RouterFeedback, file_header, report, since,
};

/// Begins each record (RFC 7464).
pub(crate) const RECORD_SEPARATOR: u8 = 0x1e;

/// Encodes the log of a connection, without I/O. You take its bytes by [`take`](Self::take).
#[derive(Debug)]
pub struct Encoder {
    start: Instant,
    /// Time of the last event. A packet's can be that of its arrival, which an event precedes.
    last: Instant,
    /// The law that controlled the window after the last event.
    law: Option<(&'static str, Option<&'static str>)>,
    bytes: Vec<u8>,
    events: u64,
}

impl Encoder {
    /// Begins the log of a connection that begins at `start`. `id` is the destination connection ID
    /// of the client's first packet. `wall_clock` is the same time as text (RFC 3339), if it's
    /// known.
    pub fn new(start: Instant, side: Side, id: ConnectionId, wall_clock: Option<&str>) -> Self {
        let mut encoder = Self {
            start,
            last: start,
            law: None,
            bytes: Vec::new(),
            events: 0,
        };
        let group = hex(id.as_slice());
        encoder.record(&file_header(side, &group, wall_clock));
        encoder
    }

    /// Appends an event.
    pub fn event(&mut self, now: Instant, event: &TraceEvent<'_>) {
        self.events += 1;
        let now = now.max(self.last);
        self.last = now;
        match event {
            TraceEvent::Sent(packet) => self.packet(now, "sent", packet),
            TraceEvent::Received(packet) => self.packet(now, "received", packet),
            TraceEvent::Lost(packet) => self.packet(now, "lost", packet),
            TraceEvent::Recovery(recovery) => {
                let (law, fallback) = (recovery.law, recovery.fallback);
                if self.law.replace((law, fallback)) != Some((law, fallback)) {
                    let controller = Controller { law, fallback };
                    self.named(now, "pathmark:controller_updated", controller);
                }
                let recovery = Recovery::from(recovery);
                self.named(now, "quic:recovery_metrics_updated", recovery);
            }
            TraceEvent::Feedback(feedback) => {
                let feedback = RouterFeedback(*feedback);
                self.named(now, "pathmark:feedback_received", feedback);
            }
            TraceEvent::Report(path, stats) => {
                self.named(now, "pathmark:report", report(path, stats));
            }
            TraceEvent::Closed(error) => {
                self.named(now, "quic:connection_closed", Closed::from(*error));
            }
            _ => {}
        }
    }

    /// Appends a warning, which says what is missing from the log.
    pub fn warning(&mut self, now: Instant, message: &str) {
        self.named(now, "loglevel:warning", json!({ "message": message }));
    }

    /// Returns the number of bytes that wait.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true if no bytes wait.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the bytes since the last call, with their number of events.
    pub fn take(&mut self) -> (Vec<u8>, u64) {
        // The next bytes are probably as many.
        let next = Vec::with_capacity(self.bytes.len());
        let bytes = core::mem::replace(&mut self.bytes, next);
        (bytes, core::mem::take(&mut self.events))
    }

    /// Appends what happened to a packet. Because a log mainly consists of these events, they are
    /// written without a serializer, which would need four times as long.
    fn packet(&mut self, now: Instant, what: &str, packet: &TracedPacket) {
        let time = now.saturating_since(self.start).as_nanos() / 1000;
        let time = u64::try_from(time).unwrap_or(u64::MAX);
        let mut text = Text(&mut self.bytes);
        text.0.push(RECORD_SEPARATOR);
        text.add("{\"time\":").number(time / 1000).add(".");
        for place in [100, 10, 1] {
            text.number(time % 1000 / place % 10);
        }
        text.add(",\"name\":\"quic:packet_").add(what);
        text.add("\",\"data\":{\"header\":{\"packet_type\":\"")
            .add(match packet.ty {
                PacketType::Initial => "initial",
                PacketType::ZeroRtt => "0RTT",
                PacketType::Handshake => "handshake",
                PacketType::OneRtt => "1RTT",
            });
        text.add("\",\"packet_number\":")
            .number(packet.number)
            .add("}");
        // Lost packets have neither a length nor a shim (quic-events section 7.5).
        if what != "lost" {
            text.add(",\"raw\":{\"length\":")
                .number(packet.bytes)
                .add("}");
            if packet.shim {
                text.add(",\"shim\":true");
            }
        }
        if packet.mtu_probe {
            text.add(",\"is_mtu_probe_packet\":true");
        }
        if packet.ack_only {
            text.add(",\"ack_only\":true");
        }
        text.add("}}\n");
    }

    fn named(&mut self, now: Instant, name: &'static str, data: impl Serialize) {
        let time = since(self.start, now);
        self.record(&Event { time, name, data });
    }

    fn record(&mut self, record: &impl Serialize) {
        let begun = self.bytes.len();
        self.bytes.push(RECORD_SEPARATOR);
        match serde_json::to_writer(&mut self.bytes, record) {
            Ok(()) => self.bytes.push(b'\n'),
            // Never: only a map whose keys aren't strings has no JSON.
            Err(_) => self.bytes.truncate(begun),
        }
    }
}

/// Text in the making.
struct Text<'a>(&'a mut Vec<u8>);

impl Text<'_> {
    fn add(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    /// Adds decimal digits.
    fn number(&mut self, mut number: u64) -> &mut Self {
        let mut digits = [0; 20];
        let mut begin = digits.len();
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
            begin -= 1;
            if number == 0 {
                break;
            }
        }
        self.0
            .extend_from_slice(digits.get(begin..).unwrap_or_default());
        self
    }
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use pathmark_cc::{Feedback, VcpFeedback};
    use pathmark_transport::connection::ConnectionError;
    use pathmark_transport::crypto::Side;
    use pathmark_transport::observe::{TraceEvent, TracedPacket, TracedRecovery};
    use pathmark_transport::wire::{ConnectionId, PacketType};
    use pathmark_transport::{Duration, Instant};

    use super::Encoder;

    const START: Instant = Instant::from_nanos(5_000_000_000);

    fn texts(encoder: &mut Encoder) -> Vec<String> {
        let text = String::from_utf8(encoder.take().0).unwrap();
        let records = text.split('\u{1e}').skip(1);
        records.map(|text| text.trim_end().to_owned()).collect()
    }

    fn packet(ty: PacketType) -> TracedPacket {
        TracedPacket {
            ty,
            number: 7,
            bytes: 1228,
            shim: true,
            mtu_probe: false,
            ack_only: false,
        }
    }

    fn recovery(law: &'static str, fallback: Option<&'static str>) -> TraceEvent<'static> {
        TraceEvent::Recovery(TracedRecovery {
            smoothed_rtt: Some(Duration::from_micros(600_125)),
            min_rtt: None,
            latest_rtt: None,
            rtt_variation: None,
            probe_timeouts: 2,
            window: 14_720,
            ssthresh: None,
            in_flight: 1228,
            pace: Some(125_000),
            law,
            fallback,
        })
    }

    /// The texts follow draft-ietf-quic-qlog-main-schema-13, section 5, and
    /// draft-ietf-quic-qlog-quic-events-12, sections 4, 5 and 7.
    #[test]
    fn events_have_the_shapes_of_the_drafts() {
        let id = ConnectionId::new(&[0xab, 1]).unwrap();
        let mut encoder = Encoder::new(START, Side::Client, id, Some("2026-01-02T03:04:05Z"));
        let header = texts(&mut encoder);
        let header: serde_json::Value = serde_json::from_str(&header[0]).unwrap();
        let expected = serde_json::json!({
            "file_schema": "urn:ietf:params:qlog:file:sequential",
            "serialization_format": "application/qlog+json-seq",
            "title": "pathmark",
            "trace": {
                "common_fields": {
                    "group_id": "ab01",
                    "protocol_types": ["QUIC"],
                    "time_format": "relative_to_epoch",
                    "reference_time": {
                        "clock_type": "monotonic",
                        "epoch": "unknown",
                        "wall_clock_time": "2026-01-02T03:04:05Z",
                    },
                },
                "vantage_point": { "type": "client" },
                "event_schemas": [
                    "urn:ietf:params:qlog:events:quic-12",
                    "urn:ietf:params:qlog:events:loglevel-13",
                    "urn:x-pathmark:qlog:events",
                ],
            },
        });
        assert_eq!(header, expected);
        let now = START + Duration::from_micros(1_500);
        encoder.event(now, &TraceEvent::Sent(packet(PacketType::OneRtt)));
        encoder.event(now, &TraceEvent::Lost(packet(PacketType::Initial)));
        encoder.event(now, &recovery("vcp", None));
        let error = ConnectionError::TimedOut;
        encoder.event(now, &TraceEvent::Closed(&error));
        assert_eq!(
            texts(&mut encoder),
            [
                concat!(
                    r#"{"time":1.500,"name":"quic:packet_sent","data":{"header":{"#,
                    r#""packet_type":"1RTT","packet_number":7},"raw":{"length":1228},"#,
                    r#""shim":true}}"#
                ),
                concat!(
                    r#"{"time":1.500,"name":"quic:packet_lost","data":{"header":{"#,
                    r#""packet_type":"initial","packet_number":7}}}"#
                ),
                concat!(
                    r#"{"time":1.5,"name":"pathmark:controller_updated","data":{"law":"vcp","#,
                    r#""fallback":null}}"#
                ),
                concat!(
                    r#"{"time":1.5,"name":"quic:recovery_metrics_updated","data":{"#,
                    r#""smoothed_rtt":600.125,"pto_count":2,"congestion_window":14720,"#,
                    r#""bytes_in_flight":1228,"pacing_rate":1000000}}"#
                ),
                concat!(
                    r#"{"time":1.5,"name":"quic:connection_closed","data":{"initiator":"local","#,
                    r#""trigger":"idle_timeout","reason":"timed out: no packet from the peer"}}"#
                ),
            ]
        );
    }

    #[test]
    fn numbers_are_those_of_the_events() {
        let mut encoder = Encoder::new(START, Side::Server, ConnectionId::EMPTY, None);
        texts(&mut encoder);
        for (number, micros) in [
            (0, 0),
            (9, 1),
            (u64::MAX, 10),
            (10, 999),
            (1_234_567, 1_050_007),
        ] {
            let packet = TracedPacket {
                number,
                mtu_probe: true,
                ack_only: true,
                ..packet(PacketType::ZeroRtt)
            };
            let now = START + Duration::from_micros(micros);
            encoder.event(now, &TraceEvent::Received(packet));
            let json: serde_json::Value = serde_json::from_str(&texts(&mut encoder)[0]).unwrap();
            assert_eq!(json["time"], micros as f64 / 1e3);
            let data = serde_json::json!({
                "header": { "packet_type": "0RTT", "packet_number": number },
                "raw": { "length": 1228 },
                "shim": true,
                "is_mtu_probe_packet": true,
                "ack_only": true,
            });
            assert_eq!(json["data"], data);
        }
    }

    /// A packet's time is that of its arrival, which may be before that of the event before it.
    #[test]
    fn times_never_go_back() {
        let mut encoder = Encoder::new(START, Side::Server, ConnectionId::EMPTY, None);
        texts(&mut encoder);
        for micros in [500, 200] {
            let now = START + Duration::from_micros(micros);
            encoder.event(now, &TraceEvent::Received(packet(PacketType::OneRtt)));
        }
        for text in texts(&mut encoder) {
            assert!(text.starts_with(r#"{"time":0.500,"#), "{text}");
        }
    }

    #[test]
    fn a_change_of_the_law_is_recorded_once() {
        let mut encoder = Encoder::new(START, Side::Server, ConnectionId::EMPTY, None);
        let plain = Some("plain-hop");
        for event in [
            recovery("cubic", plain),
            recovery("cubic", plain),
            recovery("xcp", None),
        ] {
            encoder.event(START, &event);
        }
        let changes = texts(&mut encoder);
        let changes: Vec<&str> = (changes.iter().map(String::as_str))
            .filter(|text| text.contains("controller_updated"))
            .collect();
        assert_eq!(
            changes,
            [
                concat!(
                    r#"{"time":0.0,"name":"pathmark:controller_updated","data":{"law":"cubic","#,
                    r#""fallback":"plain-hop"}}"#
                ),
                concat!(
                    r#"{"time":0.0,"name":"pathmark:controller_updated","data":{"law":"xcp","#,
                    r#""fallback":null}}"#
                ),
            ]
        );
    }

    #[test]
    fn feedback_says_what_routers_wrote() {
        let mut encoder = Encoder::new(START, Side::Server, ConnectionId::EMPTY, None);
        texts(&mut encoder);
        let feedback = Feedback::Vcp(VcpFeedback {
            packets: [0, 3, 1, 0],
            hops: 1,
            router: 9,
            load_128: 96,
            ..VcpFeedback::default()
        });
        encoder.event(START, &TraceEvent::Feedback(feedback));
        assert_eq!(
            texts(&mut encoder),
            [concat!(
                r#"{"time":0.0,"name":"pathmark:feedback_received","data":{"protocol":"vcp","#,
                r#""none":0,"low":3,"high":1,"over":0,"load_128":96,"hops":1,"router":9}}"#
            )]
        );
    }
}
