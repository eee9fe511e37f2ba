//! The paths and stacks of the demonstration.

use pathmark_cc::Algorithm;

/// A bottleneck and the files sent through it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// `clean` or `wireless`.
    pub name: &'static str,
    /// The bottleneck's rate in bits per second.
    pub rate_bps: u64,
    /// The bottleneck's one-way delay in milliseconds.
    pub delay_ms: u64,
    /// Share of packets randomly lost at the bottleneck, towards the receiver.
    pub loss: f64,
    /// Concurrent files.
    pub files: usize,
    /// Bytes per file.
    pub bytes: u64,
}

impl Scenario {
    /// Returns both scenarios with files of `bytes`.
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

    /// Returns the round-trip time without queues in seconds.
    pub fn rtt_s(&self) -> f64 {
        2.0 * self.delay_ms as f64 * 1e-3
    }

    /// Returns the minimum time for all files in seconds: for their bytes, plus 1.5 round trips
    /// for the handshake and the request.
    pub fn floor_s(&self) -> f64 {
        let bits = self.files as f64 * self.bytes as f64 * 8.0;
        bits / self.rate_bps as f64 + 1.5 * self.rtt_s()
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
    /// Returns its name in results.
    pub fn name(&self) -> String {
        match self {
            Self::Pathmark(algorithm) => format!("pathmark {algorithm}"),
            Self::Kernel(control) => format!("kernel {control}"),
        }
    }

    /// Returns the link controller of its port.
    pub fn link_controller(&self) -> String {
        let port = match self {
            Self::Pathmark(algorithm) => algorithm.port(),
            Self::Kernel(_) => None,
        };
        port.map_or_else(|| "none".to_owned(), |port| port.to_string())
    }
}
