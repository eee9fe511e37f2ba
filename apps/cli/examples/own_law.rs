//! The `pathmark` command with your own law, which you can use by its name like any other:
//!
//! ```text
//! cargo run --release --example own_law -- emulate five-files --set flow.ftp.algorithm=gentle
//! cargo run --release --example own_law -- emulate vcp-linux-fig3 --variant vcp \
//!     --sweep flow.*.algorithm='gentle,newreno'
//! cargo run --release --example own_law -- compare --algorithms gentle,newreno,bbr --estimate
//! ```
//!
//! `gentle` differs from NewReno in two numbers: its window grows by half a packet per round trip,
//! and shrinks by an eighth instead of half.

use std::process::ExitCode;

use pathmark::cc::{Acked, Algorithm, Controller, Instant, Lost, Metrics, Phase};

#[derive(Debug)]
struct Gentle {
    /// Congestion window in bytes.
    window: u64,
    /// Slow start ends at this window, in bytes.
    threshold: u64,
    mtu: u64,
    /// Losses of packets with lower numbers belong to a round trip for which the window was already
    /// reduced.
    recovery_until: u64,
}

impl Gentle {
    fn new(mtu: u16) -> Self {
        Self {
            window: 10 * u64::from(mtu),
            threshold: u64::MAX,
            mtu: u64::from(mtu),
            recovery_until: 0,
        }
    }
}

impl Controller for Gentle {
    fn on_ack(&mut self, _now: Instant, acked: &Acked) {
        if !acked.window_limited || acked.largest < self.recovery_until {
            return;
        }
        self.window += if self.window < self.threshold {
            acked.bytes
        } else {
            acked.bytes * self.mtu / (2 * self.window)
        };
    }

    fn on_loss(&mut self, _now: Instant, lost: &Lost) {
        if lost.largest >= self.recovery_until {
            self.recovery_until = lost.last_sent + 1;
            self.window = (self.window - self.window / 8).max(2 * self.mtu);
            self.threshold = self.window;
        }
    }

    fn on_persistent_congestion(&mut self, _now: Instant) {
        self.window = 2 * self.mtu;
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = u64::from(mtu);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn metrics(&self) -> Metrics {
        let phase = if self.window < self.threshold {
            Phase::Startup
        } else {
            Phase::Avoidance
        };
        Metrics::new("gentle", phase, self.window)
    }
}

fn main() -> ExitCode {
    let registered = Algorithm::register("gentle", None, |_now, mtu| Box::new(Gentle::new(mtu)));
    if let Err(error) = registered {
        eprintln!("own_law: {error}");
        return ExitCode::FAILURE;
    }
    pathmark_cli::main()
}
