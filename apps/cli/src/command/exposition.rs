//! Prometheus' text format.

use std::fmt::{self, Write as _};
use std::time::Duration;

use pathmark::Connection;
use pathmark_transport::QueueCounts;

/// Adds metrics of one value each, with their names and explanations.
macro_rules! values {
    ($out:expr; $($name:literal $help:literal = $value:expr;)+) => {
        $($out.value($name, $help, $value);)+
    };
}

pub(super) use values;

/// A program's metrics in Prometheus' text format.
pub(super) struct Exposition {
    prefix: &'static str,
    text: String,
}

impl Exposition {
    pub(super) const fn new(prefix: &'static str) -> Self {
        Self {
            prefix,
            text: String::new(),
        }
    }

    /// Adds a metric with a value for each set of labels, which are like `{user="a"}` or empty.
    pub(super) fn metric<L: fmt::Display, V: fmt::Display>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (L, V)>,
    ) {
        let kind = match name.ends_with("_total") {
            true => "counter",
            false => "gauge",
        };
        let prefix = self.prefix;
        let _ = writeln!(self.text, "# HELP {prefix}_{name} {help}");
        let _ = writeln!(self.text, "# TYPE {prefix}_{name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(self.text, "{prefix}_{name}{labels} {value}");
        }
    }

    pub(super) fn value(&mut self, name: &str, help: &str, value: impl fmt::Display) {
        self.metric(name, help, [("", value)]);
    }

    /// Adds a connection's metrics.
    pub(super) fn path(&mut self, connection: &Connection) {
        let (report, stats) = (connection.path_report(), connection.stats());
        let seconds = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64();
        let rtt = seconds(report.smoothed_rtt);
        self.value("rtt_seconds", "Smoothed RTT of the connection.", rtt);
        let least = seconds(report.min_rtt);
        self.value("min_rtt_seconds", "Least RTT of the connection.", least);
        values! { self;
            "sent_bytes_total" "Bytes of UDP payload sent." = stats.bytes_sent;
            "received_bytes_total" "Bytes of UDP payload received." = stats.bytes_received;
            "lost_packets_total" "Packets declared lost." = stats.packets_lost;
            "migrations_total" "Changes of path that were validated." = stats.migrations;
        }
    }

    /// Adds metrics of UDP flows' queues.
    pub(super) fn queues(&mut self, totals: &QueueCounts) {
        values! { self;
            "queue_marked_total" "Datagrams that were marked in front of the path." = totals.marked;
            "queue_dropped_total"
                "Datagrams that were dropped in front of the path." = totals.dropped;
        }
        let name = format!("{}_queue_seconds", self.prefix);
        let help = "Time that datagrams waited in front of the path.";
        let _ = writeln!(self.text, "# HELP {name} {help}");
        let _ = writeln!(self.text, "# TYPE {name} histogram");
        let mut so_far = 0;
        for (bound, count) in QueueCounts::BOUNDS.iter().zip(totals.waits) {
            so_far += count;
            let bound = Duration::from_millis(*bound).as_secs_f64();
            let _ = writeln!(self.text, "{name}_bucket{{le=\"{bound}\"}} {so_far}");
        }
        let (sent, sum) = (totals.sent, totals.waited.as_secs_f64());
        let _ = writeln!(self.text, "{name}_bucket{{le=\"+Inf\"}} {sent}");
        let _ = writeln!(self.text, "{name}_sum {sum}");
        let _ = writeln!(self.text, "{name}_count {sent}");
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}
