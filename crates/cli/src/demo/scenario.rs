//! The paths and stacks of the demonstration.

use pathmark_cc::Algorithm;

/// A bottleneck and what is sent through it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// `clean` or `wireless`.
    pub name: &'static str,
    /// Rate of the bottleneck, bits per second.
    pub rate_bps: u64,
    /// Delay of the bottleneck, one way, milliseconds.
    pub delay_ms: u64,
    /// Packets lost at random on the bottleneck, towards the receiver.
    pub loss: f64,
    /// Files at a time.
    pub files: usize,
    /// Bytes of each file.
    pub bytes: u64,
}

impl Scenario {
    /// Both scenarios, with files of `bytes`.
    #[must_use]
    pub fn all(bytes: u64) -> [Self; 2] {
        let clean = Self {
            name: "clean",
            rate_bps: 10_000_000,
            delay_ms: 200,
            loss: 0.0,
            files: 5,
            bytes,
        };
        let wireless = Self {
            name: "wireless",
            loss: 0.003,
            ..clean.clone()
        };
        [clean, wireless]
    }

    /// Round-trip time without queues, seconds.
    #[must_use]
    pub fn rtt_s(&self) -> f64 {
        2.0 * self.delay_ms as f64 * 1e-3
    }

    /// Seconds that all files take at least: their bytes, and 1.5 round trips for the handshake and
    /// the request.
    #[must_use]
    pub fn floor_s(&self) -> f64 {
        let bits = self.files as f64 * self.bytes as f64 * 8.0;
        bits / self.rate_bps as f64 + 1.5 * self.rtt_s()
    }

    /// Bandwidth-delay product, bytes.
    #[must_use]
    pub fn bdp_bytes(&self) -> u64 {
        self.rate_bps / 8 * 2 * self.delay_ms / 1000
    }
}

/// The sending stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stack {
    /// This library with a congestion controller.
    Pathmark(Algorithm),
    /// The kernel's TCP with one of its congestion controls.
    Kernel(&'static str),
}

impl Stack {
    /// Its name in results.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Pathmark(algorithm) => format!("pathmark {algorithm}"),
            Self::Kernel(control) => format!("kernel {control}"),
        }
    }

    /// The link controller that its port runs.
    #[must_use]
    pub fn link_controller(&self) -> String {
        let port = match self {
            Self::Pathmark(algorithm) => algorithm.port(),
            Self::Kernel(_) => None,
        };
        port.map_or_else(|| "none".to_owned(), |port| port.to_string())
    }
}
