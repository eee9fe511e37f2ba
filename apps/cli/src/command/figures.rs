//! A transfer's figures, and those of the files of a `get` or `put`, as human-readable text and
//! for scripts.

use std::ops::Add;
use std::time::Duration;

use pathmark::Connection;
use pathmark_emulator::result::{Controllers, Distribution};
use pathmark_lab::text;
use pathmark_transport::connection::BoundShares;
use serde::Serialize;

use super::reconnect::Lost;
use super::values::hex;
use super::{Failure, Outcome, output};
use crate::explain::Account;
use crate::report::SenderReport;

/// Keys that the JSON of `perf`, `get` and `put` share. They are present on every exit, and null if
/// the value is not known.
#[derive(Debug, Default, Serialize)]
pub(super) struct Transfer {
    pub(super) handshake_ms: Option<f64>,
    /// The version of HTTP of `get` and `put`: `h3`, or `h2` over TCP.
    pub(super) protocol: Option<&'static str>,
    pub(super) seconds: f64,
    pub(super) bytes_up: u64,
    pub(super) bytes_down: u64,
    pub(super) goodput_up_bps: f64,
    pub(super) goodput_down_bps: f64,
    pub(super) streams: u64,
    pub(super) algorithm: Option<String>,
    pub(super) feedback: Option<String>,
    pub(super) fallback: Option<String>,
    pub(super) controllers: Option<Controllers>,
    pub(super) packets_lost: Option<u64>,
    pub(super) rtt_ms: Option<Distribution>,
    pub(super) cpu_s: f64,
    pub(super) bounded_by: Option<BoundShares>,
    /// The state of ECN on the path.
    pub(super) ecn: Option<String>,
    pub(super) router_id: Option<u16>,
    pub(super) approved_bps: Option<f64>,
    pub(super) start: Option<String>,
    /// Whether the path's rate was requested before the handshake was complete.
    pub(super) known_path: Option<bool>,
    pub(super) warnings: Vec<String>,
    /// The reason why the command failed, if it did.
    pub(super) error: Option<String>,
}

impl Transfer {
    /// Creates the figures of an attempt that took this time without a connection.
    pub(super) fn unconnected(took: Duration) -> Self {
        Self {
            seconds: took.as_secs_f64(),
            cpu_s: cpu_seconds(),
            ..Self::default()
        }
    }

    /// Completes the figures of a transfer that took `seconds`, using the sender's report if there
    /// is one.
    pub(super) fn finish(
        &mut self,
        connection: Option<&Connection>,
        sender: Option<&SenderReport>,
        seconds: f64,
    ) {
        self.seconds = seconds;
        self.goodput_up_bps = bits_per_second(self.bytes_up, seconds);
        self.goodput_down_bps = bits_per_second(self.bytes_down, seconds);
        self.cpu_s = cpu_seconds();
        if let Some(sender) = sender {
            self.feedback.clone_from(&sender.feedback);
            self.fallback.clone_from(&sender.fallback);
            self.controllers = Some(sender.controllers.clone());
            self.packets_lost = Some(sender.packets_lost);
            self.rtt_ms = Some(sender.rtt_ms);
            self.bounded_by = Some(sender.bounded_by);
            // Older senders report none.
            self.ecn = Some(sender.ecn.clone()).filter(|ecn| !ecn.is_empty());
            self.router_id = sender.router_id;
            self.approved_bps = sender.approved_bps;
            self.start.clone_from(&sender.start);
            self.known_path = Some(sender.known_path);
        }
        let Some(connection) = connection else {
            return;
        };
        // The buffer must have room for data that arrives while the process wakes up 20 ms late.
        let buffer = connection.receive_buffer();
        if self.goodput_down_bps / 8.0 * 0.02 > buffer.granted as f64 {
            self.warnings.extend(buffer.advice());
        }
    }

    /// Adds another server's figures. For figures that can't be added, those of the last server
    /// whose sender is known are used.
    pub(super) fn add(&mut self, mut server: Self) {
        let mut before = std::mem::take(self);
        let mut warnings = std::mem::take(&mut before.warnings);
        for warning in std::mem::take(&mut server.warnings) {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        let seconds = before.seconds + server.seconds;
        let bytes_up = before.bytes_up + server.bytes_up;
        let bytes_down = before.bytes_down + server.bytes_down;
        let handshake_ms = sum(before.handshake_ms, server.handshake_ms);
        let packets_lost = sum(before.packets_lost, server.packets_lost);
        let (streams, cpu_s) = (before.streams + server.streams, server.cpu_s);
        let is_unknown = server.controllers.is_none() && before.controllers.is_some();
        *self = Self {
            handshake_ms,
            seconds,
            bytes_up,
            bytes_down,
            goodput_up_bps: bits_per_second(bytes_up, seconds),
            goodput_down_bps: bits_per_second(bytes_down, seconds),
            streams,
            packets_lost,
            cpu_s,
            warnings,
            ..if is_unknown { before } else { server }
        };
    }

    fn account(&self, sender: &SenderReport) -> Account {
        let handshake_ms = self.handshake_ms.unwrap_or(0.0);
        Account {
            seconds: self.seconds + handshake_ms / 1e3,
            handshake_ms,
            bytes_up: self.bytes_up,
            bytes_down: self.bytes_down,
            sender: sender.clone(),
            ..Account::default()
        }
    }

    /// Reports which limits held back the sender, and what to do about it.
    fn explain(&self, sender: &SenderReport) {
        let ruled = self.controllers.as_ref().map(Controllers::explain);
        for (what, text) in [
            ("bounded", sender.explain()),
            ("ruled", ruled.unwrap_or_default()),
        ] {
            if !text.is_empty() {
                output::note!("{what} by: {text}");
            }
        }
        let verdict = self.account(sender).verdict();
        // A full link is no fault.
        if !matches!(verdict.cause, "router" | "window" | "unknown") {
            output::note!("note: {}: {}", verdict.because, verdict.next);
        }
    }

    /// Reports on stderr how the transfer went and which limits held back the sender.
    pub(super) fn tell(&self, sender: Option<&SenderReport>) {
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
        // In a shorter transfer, nothing had time to limit the sender.
        if let Some(sender) = sender.filter(|_| self.seconds >= 1.0) {
            self.explain(sender);
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

/// Adds two figures, of which each may be unknown.
fn sum<N: Add<Output = N>>(one: Option<N>, other: Option<N>) -> Option<N> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
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

/// A file's result in the JSON of `get` and `put`.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct FileFigures {
    /// Its name on the server.
    pub(super) name: String,
    /// The bytes that are complete, with resumed ones.
    pub(super) bytes: Option<u64>,
    /// `None` if the transfer failed.
    pub(super) sha256: Option<String>,
    pub(super) seconds: f64,
    pub(super) resumed_bytes: Option<u64>,
    /// The reason for failing.
    pub(super) error: Option<String>,
    /// How another connection might help.
    #[serde(skip)]
    pub(super) lost: Option<Lost>,
}

impl FileFigures {
    /// Creates the result of a file that was moved.
    pub(super) fn moved(
        name: String,
        bytes: u64,
        resumed: u64,
        sha256: &[u8; 32],
        seconds: f64,
    ) -> Self {
        Self {
            name,
            bytes: Some(bytes),
            resumed_bytes: Some(resumed),
            sha256: Some(hex(sha256)),
            seconds,
            ..Self::default()
        }
    }

    /// Returns the bytes that were moved now.
    pub(super) fn new_bytes(&self) -> u64 {
        let bytes = self.bytes.unwrap_or(0);
        bytes.saturating_sub(self.resumed_bytes.unwrap_or(0))
    }

    /// Creates the result of a failed file.
    pub(super) fn failed(name: String, error: String) -> Self {
        Self {
            name,
            error: Some(error),
            ..Self::default()
        }
    }

    /// Sets when the file ended.
    pub(super) fn after(self, seconds: f64) -> Self {
        Self { seconds, ..self }
    }

    /// Creates the result of a file that failed with this error.
    pub(super) fn broken(name: String, error: &anyhow::Error) -> Self {
        Self {
            lost: Lost::of(error),
            ..Self::failed(name, output::explain(error))
        }
    }
}

/// The JSON of `get` and `put`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Figures {
    #[serde(flatten)]
    pub(super) transfer: Transfer,
    /// Files that were already there, which `-r` leaves unchanged.
    pub(super) unchanged: u64,
    pub(super) files: Vec<FileFigures>,
    /// Bytes of content that were sent, even for files that did not arrive completely.
    #[serde(skip)]
    pub(super) sent: u64,
}

impl Figures {
    /// Creates the results of an attempt that took this time without a connection, for the names
    /// of the files and what can't be done with them.
    pub(super) fn unconnected(
        took: Duration,
        error: &anyhow::Error,
        files: impl Iterator<Item = (String, String)>,
    ) -> Self {
        let transfer = Transfer::unconnected(took);
        let files = files.map(|(name, what)| FileFigures {
            bytes: Some(0),
            resumed_bytes: Some(0),
            seconds: transfer.seconds,
            lost: Lost::of(error),
            ..FileFigures::failed(name, format!("{what}: {}", output::explain(error)))
        });
        Self {
            files: files.collect(),
            transfer,
            ..Self::default()
        }
    }

    /// Returns true if nothing was done so far.
    pub(super) const fn is_empty(&self) -> bool {
        self.files.is_empty() && self.transfer.streams == 0 && self.unchanged == 0
    }

    /// Returns the first failure that another connection might resolve.
    pub(super) fn lost(&self) -> Option<String> {
        let mut lost = self.files.iter().filter(|file| file.lost.is_some());
        lost.find_map(|file| file.error.clone())
    }

    /// Returns true if files have been moved, and the server wants another connection for the
    /// others. A server that only rejects them would get connections without end.
    pub(super) fn wants_another(&self) -> bool {
        let mut lost = self.files.iter().filter_map(|file| file.lost);
        let is_known = |file: &&FileFigures| file.error.is_none() && file.new_bytes() == 0;
        let known = self.files.iter().filter(is_known).count();
        self.transfer.streams > known as u64 && lost.all(|lost| lost == Lost::Now)
    }

    /// Removes failures that another attempt will replace.
    pub(super) fn forget_lost(&mut self) {
        self.files.retain(|file| file.lost.is_none());
    }

    pub(super) fn add(&mut self, server: Self) {
        self.transfer.add(server.transfer);
        self.unchanged += server.unchanged;
        self.files.extend(server.files);
    }

    /// Prints the result of each file. With `json`, this is one object. As text, successes go to
    /// stdout unless `quiet`, and failures to stderr. If the transfer itself has an error, it
    /// replaces the files' errors.
    pub(super) fn say(mut self, json: bool, quiet: bool) -> Outcome {
        let failures = self.files.iter().filter_map(|file| file.error.as_deref());
        let failed = failures.clone().count() as u64;
        let own = self.transfer.error.clone();
        let error = match (&own, failed) {
            (Some(error), _) => Some(error.clone()),
            (None, 0) => None,
            (None, 1) => failures.clone().next().map(ToOwned::to_owned),
            (None, failed) => {
                let all = failed + self.transfer.streams + self.unchanged;
                Some(format!("{failed} of {all} files failed"))
            }
        };
        self.transfer.error.clone_from(&error);
        if json {
            output::json(&self)?;
        } else if !quiet {
            for file in &self.files {
                if let Some(sha256) = &file.sha256 {
                    output::line(format_args!("{sha256}  {}", output::plain(&file.name)))?;
                }
            }
            if self.unchanged > 0 {
                let (files, were) = match self.unchanged {
                    1 => ("file", "was"),
                    _ => ("files", "were"),
                };
                output::note!("{} {files} {were} there already", self.unchanged);
            }
        }
        match (own, error) {
            (Some(own), _) => return Err(anyhow::anyhow!(own).into()),
            (None, None) => return Ok(()),
            (None, Some(_)) => {}
        }
        for error in self.files.iter().filter_map(|file| file.error.as_deref()) {
            output::note!("pathmark: {}", output::plain(error));
        }
        Err(Failure::Reported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_connection_follows_progress_alone() {
        let moved = |resumed| FileFigures::moved("a".to_owned(), 10, resumed, &[0; 32], 1.0);
        let rejected = FileFigures {
            lost: Some(Lost::Now),
            ..FileFigures::failed("b".to_owned(), "rejected".to_owned())
        };
        let broken = FileFigures {
            lost: Some(Lost::Later),
            ..rejected.clone()
        };
        for (streams, first, second, expected) in [
            (1, moved(0), rejected.clone(), true),
            // It was already there.
            (1, moved(10), rejected.clone(), false),
            (0, broken.clone(), rejected.clone(), false),
            (1, moved(0), broken, false),
        ] {
            let mut figures = Figures::default();
            figures.transfer.streams = streams;
            figures.files = vec![first, second];
            assert_eq!(figures.wants_another(), expected, "{figures:?}");
        }
    }

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
        all.add(Transfer {
            controllers: Some(Controllers::default()),
            packets_lost: Some(3),
            ..server(1_000_000, 0.75)
        });
        // Nothing is known about the sender of the second one.
        all.add(server(0, 0.25));
        assert_eq!(all.goodput_down_bps.to_bits(), 8e6_f64.to_bits());
        assert_eq!((all.streams, all.warnings.len()), (2, 1));
        assert_eq!((all.packets_lost, all.handshake_ms), (Some(3), None));
        assert!(all.controllers.is_some());
    }
}
