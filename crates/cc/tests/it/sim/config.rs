//! Configuration of a flow.

use pathmark_cc::{Duration, Instant, XcpCarried};

use super::IP_BYTES;

#[derive(Clone, Debug)]
pub(crate) struct FlowConfig {
    pub(crate) algorithm: &'static str,
    pub(crate) start: Duration,
    pub(crate) rtt: Duration,
    /// Application bytes; `None`: without end.
    pub(crate) bytes: Option<u64>,
    /// A packet each time so long, whatever comes back (UDP).
    pub(crate) constant: Option<Duration>,
    /// IP bytes of a full packet.
    pub(crate) packet: u32,
    /// Bytes in flight that the peer's flow control allows.
    pub(crate) peer_window: u64,
    /// How the sender lies, for XCP.
    pub(crate) lie: Lie,
    /// Its packets carry forged XCP headers.
    pub(crate) forged: Option<Forged>,
}

/// Fields of forged headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forged {
    /// Anything, over all orders of magnitude.
    Random,
    /// This.
    As(XcpCarried),
}

/// How a sender lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    No,
    /// It ignores negative feedback.
    Deaf,
    /// It sends this multiple of the stated rate.
    Times(u64),
}

impl FlowConfig {
    pub(crate) fn new(algorithm: &'static str, rtt_ms: u64) -> Self {
        Self {
            algorithm,
            start: Duration::ZERO,
            rtt: Duration::from_millis(rtt_ms),
            bytes: None,
            constant: None,
            packet: IP_BYTES,
            peer_window: u64::MAX,
            lie: Lie::No,
            forged: None,
        }
    }

    /// Forged headers at a constant rate in Mbit/s.
    pub(crate) fn garbage(mbit: f64) -> Self {
        Self {
            forged: Some(Forged::Random),
            ..Self::udp(mbit, 100)
        }
    }

    /// A packet of 84 bytes with this header every `gap`.
    pub(crate) fn forged(header: XcpCarried, gap: Duration) -> Self {
        Self {
            forged: Some(Forged::As(header)),
            constant: Some(gap),
            packet: 84,
            ..Self::new("newreno", 0)
        }
    }

    pub(crate) fn peer_window(self, bytes: u64) -> Self {
        Self {
            peer_window: bytes,
            ..self
        }
    }

    pub(crate) fn lie(self, lie: Lie) -> Self {
        Self { lie, ..self }
    }

    pub(crate) fn bytes(self, bytes: u64) -> Self {
        Self {
            bytes: Some(bytes),
            ..self
        }
    }

    /// A round trip in other units than milliseconds.
    pub(crate) fn rtt(self, rtt: Duration) -> Self {
        Self { rtt, ..self }
    }

    pub(crate) fn start(self, start: Duration) -> Self {
        Self { start, ..self }
    }

    pub(crate) fn packet(self, packet: u32) -> Self {
        Self { packet, ..self }
    }

    /// UDP at a constant rate in Mbit/s.
    pub(crate) fn udp(mbit: f64, rtt_ms: u64) -> Self {
        Self {
            constant: Some(Duration::from_nanos(
                (f64::from(IP_BYTES) * 8_000.0 / mbit) as u64,
            )),
            ..Self::new("newreno", rtt_ms)
        }
    }

    pub(crate) fn start_at(&self) -> Instant {
        Instant::ZERO + self.start
    }
}
