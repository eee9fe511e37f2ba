//! Why a transfer took as long as it did, in at most ten lines.

use core::fmt;

use pathmark_cc::FallbackReason::{self, NoAnswer};
use serde::{Deserialize, Serialize};

use crate::report::SenderReport;

/// The largest share of a connection's time that needs no explanation.
const SMALL: f64 = 0.3;
/// A longer queueing delay, in milliseconds, isn't that of a router's port.
const QUEUE_MS: f64 = 50.0;
/// A router with a lower mean load, in percent, isn't what limits a flow.
const SPARE_LOAD: f64 = 50.0;
/// The largest plausible time in seconds, which is 30 years.
const LATEST_S: f64 = 1e9;

/// What is known about a transfer, from a report or a log.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Account {
    /// Name of an emulated flow.
    pub(crate) name: String,
    /// Duration in seconds including the handshake, or 0 if it's unknown.
    #[serde(alias = "completion_s")]
    pub(crate) seconds: f64,
    pub(crate) handshake_ms: f64,
    #[serde(alias = "bytes_sent")]
    pub(crate) bytes_up: u64,
    #[serde(alias = "bytes_received", alias = "bytes_delivered")]
    pub(crate) bytes_down: u64,
    pub(crate) packets_sent: u64,
    /// Packets that were declared lost although they arrived.
    pub(crate) packets_spurious: u64,
    pub(crate) probe_timeouts: u64,
    /// Whether this end's memory limits the peer.
    pub(crate) receive_limited: bool,
    /// Whether datagrams with a shim pass.
    pub(crate) passes_shims: Option<bool>,
    /// What only a log shows about the end that wrote it. Reports are about a transfer's sender.
    #[serde(skip)]
    pub(crate) log: Option<Logged>,
    /// Why the transfer failed or the connection ended, unless this side closed it.
    pub(crate) error: Option<String>,
    #[serde(flatten)]
    pub(crate) sender: SenderReport,
}

/// What only a log shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Logged {
    /// The times in which nothing arrived although packets were in flight, in seconds in all.
    pub(crate) silence_s: f64,
    pub(crate) silences: u64,
    /// The mean load that VCP routers reported, in percent.
    pub(crate) load: Option<f64>,
}

/// The main cause, and what can be done about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Verdict {
    /// Name of the cause in JSON.
    pub(crate) cause: &'static str,
    pub(crate) because: String,
    pub(crate) next: String,
}

impl Verdict {
    fn new(cause: &'static str, because: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            cause,
            because: because.into(),
            next: next.into(),
        }
    }
}

impl Account {
    /// Returns the main cause of the duration.
    pub(crate) fn verdict(&self) -> Verdict {
        if let Some(error) = self.error.as_ref().filter(|error| !error.is_empty()) {
            return Verdict::new(
                "ended",
                error,
                "mend this, and run the command again: `get` and `put` continue where they ended",
            );
        }
        if let Some(log) = &self.log
            && log.silence_s > SMALL * self.seconds
        {
            let because = format!(
                "nothing arrived for {:.1} s in all, {} time{}, although packets were in flight",
                log.silence_s,
                log.silences,
                if log.silences == 1 { "" } else { "s" }
            );
            return Verdict::new("outage", because, "look for outages of a link on the path");
        }
        if self.log.is_some() && self.bytes_down / 2 > self.bytes_up {
            if self.receive_limited {
                return Verdict::new(
                    "receiver",
                    "the memory for received data limited what the other end could send",
                    "raise `set_receive_memory` at this end",
                );
            }
            return Verdict::new(
                "other-end",
                "this end mostly received, so that the other one knows what limited it",
                "explain the log of the other end, or the JSON of the command",
            );
        }
        if self.handshake_ms / 1e3 > 0.5 * self.seconds {
            return Verdict::new(
                "handshake",
                format!("the handshake took {:.0} ms", self.handshake_ms),
                "use one connection for several transfers, or resume a former one with 0-RTT",
            );
        }
        let b = &self.sender.bounded_by;
        let percent = |share: f64| format!("{:.0} % of the time", share * 100.0);
        match b.largest() {
            Some("application") => Verdict::new(
                "application",
                format!(
                    "the sender had nothing to send for {}",
                    percent(b.application)
                ),
                "look at what the application waits for, such as its disk; send more at a time",
            ),
            Some("peer") => Verdict::new(
                "receiver",
                format!(
                    "the receiver's flow control held it up for {}",
                    percent(b.peer)
                ),
                "look at what the receiver waits for, such as its disk, or raise its \
                 `set_receive_memory`",
            ),
            Some("streams") => Verdict::new(
                "streams",
                format!(
                    "the peer's limit of streams held it up for {}",
                    percent(b.streams)
                ),
                "raise `max_bidi_streams` or `max_uni_streams` at the peer",
            ),
            Some("buffers") => Verdict::new(
                "buffers",
                format!(
                    "the sender's own buffers held it up for {}",
                    percent(b.buffers)
                ),
                "raise `send_window` at the sender",
            ),
            Some("router") => self.router(&percent(b.router)),
            _ => self.window(),
        }
    }

    /// Returns the cause if routers held the sender back for most of the time.
    fn router(&self, share: &str) -> Verdict {
        if let Some(fallback) = self.fallback(SMALL).filter(|reason| *reason != NoAnswer) {
            return self.without_routers(fallback);
        }
        if let Some(queue) = self.queue() {
            return queue;
        }
        let load = self.log.as_ref().and_then(|log| log.load);
        if let Some(load) = load.filter(|load| *load < SPARE_LOAD) {
            return self.start(&format!("the routers' mean load was {load:.0} %"));
        }
        let router = self.sender.router_id;
        let router = router.map_or_else(|| "routers".to_owned(), |id| format!("router {id}"));
        Verdict::new(
            "router",
            format!("{router} limited the flow to its share for {share}"),
            "nothing, if the link is full; otherwise compare the port's `rate` with that of the \
             slowest link behind it",
        )
    }

    /// Returns the cause if the congestion window held the sender back, or nothing else is known.
    fn window(&self) -> Verdict {
        if self.passes_shims == Some(false) {
            return Verdict::new(
                "shims-dropped",
                "the path drops datagrams with the routers' header",
                "let UDP payloads whose first byte is 8 to 15 pass",
            );
        }
        if self.sender.bounded_by.largest().is_none() {
            return Verdict::new(
                "unknown",
                "the report doesn't say what limited the sender",
                "make a log, by setting QLOGDIR or by `emulate --out DIR --qlog`, and explain it",
            );
        }
        let lost = self.sender.packets_lost;
        if lost > 0 && self.packets_spurious > lost / 2 {
            return Verdict::new(
                "reordering",
                format!(
                    "{} of {lost} packets declared lost were only late",
                    self.packets_spurious
                ),
                "find what reorders packets, such as links that are used in parallel",
            );
        }
        if let Some(fallback) = self.fallback(0.5) {
            return self.without_routers(fallback);
        }
        let law = self.law();
        if law == "bbr" {
            return Verdict::new(
                "window",
                "bbr's estimate of the path's rate limited it",
                "nothing, if the link is full; otherwise send more at a time, or put routers on \
                 the path",
            );
        }
        if lost > self.packets_spurious {
            return Verdict::new(
                "loss",
                format!("{law} made its window smaller at losses"),
                "if the losses are random, try `--cc bbr`, or routers on the path",
            );
        }
        if let Some(queue) = self.queue() {
            return queue;
        }
        self.start("nothing was lost")
    }

    /// Returns the cause if routers didn't control the window for this reason.
    fn without_routers(&self, reason: FallbackReason) -> Verdict {
        let mut because = format!("routers didn't control the window: {}", reason.message());
        let mut next = reason.remedy().to_owned();
        if reason == NoAnswer && self.sender.packets_lost > self.packets_spurious {
            because += &format!(", and {} made it smaller at losses", self.law());
            next += "; without routers, try `--cc bbr` if the losses are random";
        }
        Verdict::new(reason.name(), because, next)
    }

    /// Returns the cause if half of the round trips contain a queue.
    fn queue(&self) -> Option<Verdict> {
        let rtt = &self.sender.rtt_ms;
        (rtt.p50 > 1.5 * rtt.min && rtt.p50 > rtt.min + QUEUE_MS).then(|| {
            Verdict::new(
                "queue",
                format!(
                    "round trips of {:.0} ms instead of {:.0} show a queue that routers don't \
                     control",
                    rtt.p50, rtt.min
                ),
                "find the queue, such as a modem's, and put a router in front of it, with a \
                 lower `rate`",
            )
        })
    }

    /// Returns the law that controlled the window for most of the time.
    fn law(&self) -> &str {
        let shares = self.sender.controllers.shares.iter();
        let longest = shares.max_by(|one, other| one.time.total_cmp(&other.time));
        longest.map_or(&self.sender.algorithm, |share| &share.law)
    }

    /// Returns the cause if the window had not reached the path's rate yet, which `evidence` shows.
    fn start(&self, evidence: &str) -> Verdict {
        let law = self.law();
        let mut because = format!("{law} had not reached the path's rate yet: {evidence}");
        if let Some("denied" | "unanswered" | "partial" | "refused" | "revoked") =
            self.sender.start.as_deref()
        {
            because += ", but the requested starting rate was not available";
        }
        Verdict::new(
            "start",
            because,
            "send more at a time; routers that grant starting rates shorten the start",
        )
    }
}

impl Account {
    /// Returns the most frequent reason why routers didn't control the window, if they didn't for
    /// more than this share of the time.
    fn fallback(&self, least: f64) -> Option<FallbackReason> {
        let shares = self.sender.controllers.shares.iter();
        let without: Vec<_> = shares
            .filter_map(|share| {
                let reason = FallbackReason::by_name(share.fallback.as_deref()?)?;
                let normal = if reason == NoAnswer {
                    self.first_answer()
                } else {
                    0.0
                };
                Some((share.time - normal, reason))
            })
            .collect();
        let sum: f64 = without.iter().map(|(time, _)| time).sum();
        let worst = (without.into_iter()).max_by(|one, other| one.0.total_cmp(&other.0))?;
        (sum > least).then_some(worst.1)
    }

    /// Returns the share of time in which no router can have answered yet: the handshake and two
    /// round trips.
    fn first_answer(&self) -> f64 {
        let first = (self.handshake_ms + 2.0 * self.sender.rtt_ms.min) / 1e3;
        if self.seconds > 0.0 {
            (first / self.seconds).min(1.0)
        } else {
            0.0
        }
    }

    /// Returns true if no number is impossible.
    pub(crate) fn is_plausible(&self) -> bool {
        let (b, rtt) = (&self.sender.bounded_by, &self.sender.rtt_ms);
        let shares = self.sender.controllers.shares.iter();
        let shares = shares.flat_map(|share| [share.time, share.bytes]);
        let bounds = b.sorted().map(|(share, _)| share);
        let times = [
            self.seconds,
            self.handshake_ms / 1e3,
            rtt.min / 1e3,
            rtt.p50 / 1e3,
            rtt.p99 / 1e3,
        ];
        // Shares are rounded sums.
        shares
            .chain(bounds)
            .all(|share| (0.0..1.001).contains(&share))
            && times.iter().all(|time| (0.0..LATEST_S).contains(time))
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.name.is_empty() {
            writeln!(f, "flow        {}", self.name)?;
        }
        if self.seconds > 0.0 {
            write!(f, "time        {:.2} s", self.seconds)?;
            if self.handshake_ms > 0.0 {
                write!(f, ", the handshake {:.0} ms of it", self.handshake_ms)?;
            }
            writeln!(f)?;
        }
        write!(f, "data        ")?;
        for (bytes, direction) in [(self.bytes_up, "sent"), (self.bytes_down, "received")] {
            if bytes > 0 {
                write!(f, "{bytes} bytes {direction}, ")?;
            }
        }
        write!(f, "lost packets: {}", self.sender.packets_lost)?;
        if self.packets_sent > 0 {
            write!(f, " of {}", self.packets_sent)?;
        }
        if self.packets_spurious > 0 {
            write!(f, ", of which {} were only late", self.packets_spurious)?;
        }
        writeln!(f)?;
        for (name, text) in [
            ("ruled by    ", self.sender.controllers.explain()),
            ("bounded by  ", self.sender.explain()),
        ] {
            if !text.is_empty() {
                writeln!(f, "{name}{text}")?;
            }
        }
        let rtt = &self.sender.rtt_ms;
        if rtt.min > 0.0 {
            writeln!(
                f,
                "round trip  {:.1} ms at least, {:.1} ms for half of them, at most {:.1} ms for \
                 99 %",
                rtt.min, rtt.p50, rtt.p99
            )?;
        }
        if let Some(start) = &self.sender.start {
            writeln!(f, "start       the request for a starting rate: {start}")?;
        }
        let verdict = self.verdict();
        writeln!(f, "because     {}", verdict.because)?;
        write!(f, "next        {}", verdict.next)
    }
}
