//! A transfer's figures, as human-readable text and for scripts.

use serde::Serialize;

use pathmark_emulator::result::{Controllers, Distribution};

use super::output;
use crate::report::{BoundedBy, SenderReport};
use pathmark::Connection;
use pathmark_lab::text;

/// Keys that the JSON of `perf`, `get` and `put` share. They are present on every exit. Numbers
/// are 0 if nothing was measured, and other missing values are null.
#[derive(Debug, Default, Serialize)]
pub(super) struct Transfer {
    pub(super) handshake_ms: f64,
    pub(super) seconds: f64,
    pub(super) bytes_up: u64,
    pub(super) bytes_down: u64,
    pub(super) goodput_up_bps: f64,
    pub(super) goodput_down_bps: f64,
    pub(super) streams: u64,
    pub(super) algorithm: String,
    pub(super) feedback: Option<String>,
    pub(super) fallback: Option<String>,
    pub(super) controllers: Controllers,
    pub(super) packets_lost: u64,
    pub(super) rtt_ms: Distribution,
    pub(super) cpu_s: f64,
    pub(super) bounded_by: BoundedBy,
    /// The state of ECN on the path.
    pub(super) ecn: String,
    pub(super) router_id: Option<u16>,
    pub(super) approved_bps: Option<f64>,
    pub(super) start: Option<String>,
    /// Whether the path's rate was requested before the handshake was complete.
    pub(super) known_path: bool,
    pub(super) warnings: Vec<String>,
    /// The reason why the command failed, if it did.
    pub(super) error: Option<String>,
}

impl Transfer {
    /// Completes the figures of a transfer that took `seconds`, using the sender's report.
    pub(super) fn finish(&mut self, connection: &Connection, sender: &SenderReport, seconds: f64) {
        self.seconds = seconds;
        self.goodput_up_bps = bits_per_second(self.bytes_up, seconds);
        self.goodput_down_bps = bits_per_second(self.bytes_down, seconds);
        self.feedback.clone_from(&sender.feedback);
        self.fallback.clone_from(&sender.fallback);
        self.controllers.clone_from(&sender.controllers);
        self.packets_lost = sender.packets_lost;
        self.rtt_ms = sender.rtt_ms;
        self.bounded_by = sender.bounded_by;
        self.ecn.clone_from(&sender.ecn);
        self.router_id = sender.router_id;
        self.approved_bps = sender.approved_bps;
        self.start.clone_from(&sender.start);
        self.known_path = sender.known_path;
        self.cpu_s = cpu_seconds();
        // The buffer must have room for data that arrives while the process wakes up 20 ms late.
        let buffer = connection.receive_buffer();
        if self.goodput_down_bps / 8.0 * 0.02 > buffer.granted as f64 {
            self.warnings.extend(buffer.advice());
        }
    }

    /// Adds another server's figures. For figures that can't be added, the last server's are used.
    pub(super) fn add(&mut self, server: Self) {
        let mut warnings = std::mem::take(&mut self.warnings);
        for warning in server.warnings {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        let seconds = self.seconds + server.seconds;
        let bytes_up = self.bytes_up + server.bytes_up;
        let bytes_down = self.bytes_down + server.bytes_down;
        *self = Self {
            handshake_ms: self.handshake_ms + server.handshake_ms,
            seconds,
            bytes_up,
            bytes_down,
            goodput_up_bps: bits_per_second(bytes_up, seconds),
            goodput_down_bps: bits_per_second(bytes_down, seconds),
            streams: self.streams + server.streams,
            packets_lost: self.packets_lost + server.packets_lost,
            warnings,
            ..server
        };
    }

    /// Reports on stderr how the transfer went and which limits held back the sender.
    pub(super) fn tell(&self, sender: &SenderReport) {
        for (bytes, rate, direction) in [
            (self.bytes_up, self.goodput_up_bps, "up"),
            (self.bytes_down, self.goodput_down_bps, "down"),
        ] {
            if bytes > 0 {
                output::note!(
                    "{bytes} bytes {direction} in {:.3} s: {}",
                    self.seconds,
                    text::rate(rate)
                );
            }
        }
        let bounds = sender.explain();
        if !bounds.is_empty() {
            output::note!("bounded by: {bounds}");
        }
        let ruled = self.controllers.explain();
        if !ruled.is_empty() {
            output::note!("ruled by: {ruled}");
        }
        // Shorter transfers would gain little.
        if let Some(remedy) = self.controllers.remedy().filter(|_| self.seconds >= 1.0) {
            output::note!("note: {remedy}");
        }
        for warning in &self.warnings {
            output::note!("note: {warning}");
        }
    }
}

fn bits_per_second(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        bytes as f64 * 8.0 / seconds
    } else {
        0.0
    }
}

/// Returns the user and system CPU time of this process so far in seconds.
fn cpu_seconds() -> f64 {
    use nix::sys::resource::{UsageWho, getrusage};
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 * 1e-6;
    getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |usage| {
        seconds(usage.user_time()) + seconds(usage.system_time())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_servers_take_the_time_of_both() {
        let server = |bytes_down, seconds| Transfer {
            bytes_down,
            seconds,
            streams: 1,
            warnings: vec!["once".to_owned()],
            ..Transfer::default()
        };
        let mut all = Transfer::default();
        all.add(server(1_000_000, 0.75));
        all.add(server(0, 0.25));
        assert_eq!(all.goodput_down_bps.to_bits(), 8e6_f64.to_bits());
        assert_eq!((all.streams, all.warnings.len()), (2, 1));
    }
}
