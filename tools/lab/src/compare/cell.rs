//! Contestants, which are laws with the law of their ports, and the cells in which they run: points
//! of the grid, with their scenarios.

use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

use pathmark_cc::units::show_decimal;
use pathmark_cc::{Algorithm, Duration, LinkAlgorithm, ParseError};
use pathmark_link::impair::Random;
use pathmark_link::keys::{ByteCount, LimitSpec, RateValue, Span};

use super::axis::{Axis, BadValue, Routers};

/// Bytes of the largest IP packets.
const PACKET: f64 = 1500.0;
/// Data packets of a run, unless its path is so long that this is only a few round trips.
const PACKETS: f64 = 300_000.0;
/// Round trips for which all files together keep the bottleneck busy, and its limits in seconds.
const ROUND_TRIPS: f64 = 60.0;
const SECONDS: (f64, f64) = (10.0, 30.0);
/// Minimum number of round trips.
const LEAST_ROUND_TRIPS: f64 = 10.0;
/// A run ends after this multiple of its floor.
const PATIENCE: f64 = 8.0;
/// Round trips until the first byte arrives: the handshake and the one-way delay.
const FIRST_BYTE: f64 = 1.5;
/// Number of short files in a run, and their maximum size in bytes. Together, they are at most a
/// tenth of the large files.
const SHORT: u32 = 20;
const SHORT_BYTES: f64 = 30_000.0;
const SHORT_SHARE: f64 = 0.1;

/// Names of flows for large and for short files.
pub(super) const LARGE_NAME: &str = "file";
pub(super) const SHORT_NAME: &str = "short";
/// The bottleneck's name.
pub(super) const BOTTLENECK: &str = "bottleneck";

/// A path, and the number of files that share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The bottleneck's rate, 32 kbit/s to 100 Gbit/s.
    rate: RateValue,
    /// Propagation round trip, 100 µs to 20 s.
    rtt: Duration,
    /// Size of the bottleneck's queue in packets, bytes or bandwidth-delay products.
    buffer: LimitSpec,
    /// Share of data packets lost at random behind the bottleneck, up to a half, in 10⁻⁶.
    loss_ppm: u32,
    /// Number of large files.
    pub(super) flows: u32,
    /// The routers that answer.
    pub(super) routers: Routers,
}

impl fmt::Display for Cell {
    /// `100Mbit-80ms-1bdp-0.1%-8-none`: the values in the order of [`Axis::ALL`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Axis::ALL.map(|axis| self.value(axis)).join("-"))
    }
}

/// One file, without a path: the base of `Cell::with`.
impl Default for Cell {
    fn default() -> Self {
        Self {
            rate: RateValue { bits: 0 },
            rtt: Duration::ZERO,
            buffer: LimitSpec::Packets(0),
            loss_ppm: 0,
            flows: 1,
            routers: Routers::None,
        }
    }
}

impl Cell {
    /// Returns the cell with a value that is read from its text.
    pub(super) fn with(mut self, axis: Axis, text: &str) -> Result<Self, BadValue> {
        let set = set(&mut self, axis, text);
        set.map(|()| self).ok_or_else(|| BadValue::new(axis, text))
    }

    /// Returns the cell's value on an axis as text, which parses back.
    pub fn value(&self, axis: Axis) -> String {
        match axis {
            Axis::Rate => self.rate.to_string(),
            Axis::Rtt => match self.rtt.as_micros() {
                micros if micros.is_multiple_of(1_000_000) => format!("{}s", micros / 1_000_000),
                micros if micros.is_multiple_of(1000) => format!("{}ms", micros / 1000),
                micros => format!("{micros}us"),
            },
            Axis::Buffer => match self.buffer {
                LimitSpec::MilliBdp(milli) => format!("{}bdp", show_decimal(milli, 3)),
                LimitSpec::Packets(packets) => format!("{packets}p"),
                LimitSpec::Bytes(bytes) => {
                    // The exact number, unless the short text is exact.
                    let short = ByteCount(bytes).to_string();
                    let exact = short.parse() == Ok(ByteCount(bytes));
                    if exact { short } else { format!("{bytes}B") }
                }
            },
            Axis::Loss => format!("{}%", show_decimal(u64::from(self.loss_ppm), 4)),
            Axis::Flows => self.flows.to_string(),
            Axis::Routers => self.routers.to_string(),
        }
    }

    /// Returns the cell in which a law is run. For a law without router signals, a single answering
    /// router is a plain hop.
    #[must_use]
    pub fn as_run_by(mut self, contestant: &Contestant) -> Self {
        if self.routers == Routers::Answer(1) && !contestant.hears_routers() {
            self.routers = Routers::None;
        }
        self
    }

    fn rate_bps(&self) -> f64 {
        self.rate.bits as f64
    }

    fn rtt_s(&self) -> f64 {
        self.rtt.as_secs_f64()
    }

    /// Returns how long the large files keep the bottleneck busy, in seconds.
    pub fn busy_s(&self) -> f64 {
        let wanted = (ROUND_TRIPS * self.rtt_s()).clamp(SECONDS.0, SECONDS.1);
        let affordable = PACKETS * PACKET * 8.0 / self.rate_bps();
        let least = LEAST_ROUND_TRIPS * self.rtt_s();
        (wanted.min(affordable).max(least) * 100.0).round().max(1.0) / 100.0
    }

    /// Returns the bytes of each large file, at least one packet.
    fn large_bytes(&self) -> f64 {
        let all = self.rate_bps() / 8.0 * self.busy_s();
        (all / f64::from(self.flows)).round().max(PACKET)
    }

    /// Returns the bytes of each short file.
    fn short_bytes(&self) -> f64 {
        let all = self.large_bytes() * f64::from(self.flows);
        let affordable = all * SHORT_SHARE / f64::from(SHORT);
        SHORT_BYTES.min(affordable).round().max(100.0)
    }

    /// Returns the least time in seconds in which all files can arrive: a handshake, the one-way
    /// delay, and all bytes of the files without headers at the bottleneck's rate.
    pub fn floor_s(&self) -> f64 {
        let large = self.large_bytes() * f64::from(self.flows);
        let all = large + self.short_bytes() * f64::from(SHORT);
        FIRST_BYTE * self.rtt_s() + all * 8.0 / self.rate_bps()
    }

    /// Returns the same for one short file without other traffic.
    pub fn short_floor_s(&self) -> f64 {
        FIRST_BYTE * self.rtt_s() + self.short_bytes() * 8.0 / self.rate_bps()
    }

    /// Estimates the packets that enter links in a run, including acknowledgements.
    pub fn packets(&self) -> f64 {
        let data = self.large_bytes() * f64::from(self.flows) / 1400.0;
        1.5 * data * f64::from(self.routers.hops())
    }

    /// Returns the cell as a scenario file.
    pub fn scenario(&self, contestant: &Contestant, seed: u64) -> String {
        let busy = self.busy_s();
        let mut text = format!(
            "name = \"{self} {contestant}\"\nduration = \"{:.6}s\"\nseed = {seed}\n\
             measure = [[\"{:.6}s\", \"{busy:.6}s\"], [\"0s\", \"{busy:.6}s\"]]\n",
            PATIENCE * self.floor_s() + 2.0 * self.rtt_s(),
            busy / 2.0,
        );
        self.links(&mut text, contestant);
        let last = self.routers.hops();
        let _ = write!(
            text,
            "\n[[flow]]\nname = \"{LARGE_NAME}\"\nfrom = \"N0\"\nto = \"N{last}\"\n\
             algorithm = \"{law}\"\ncount = {}\nbytes = {}\nstart_spread = \"{:.6}s\"\n\
             \n[[flow]]\nname = \"{SHORT_NAME}\"\nfrom = \"N0\"\nto = \"N{last}\"\n\
             algorithm = \"{law}\"\ncount = {SHORT}\nbytes = {}\nstart = [{}]\n",
            self.flows,
            self.large_bytes(),
            // Several files begin within a round trip, but a single file begins immediately.
            if self.flows > 1 { self.rtt_s() } else { 0.0 },
            self.short_bytes(),
            self.short_starts(seed),
            law = contestant.law(),
        );
        text
    }

    /// Size of the queues: at least two packets, however short the path is.
    fn limit(&self) -> String {
        let bdp = self.rate_bps() / 8.0 * self.rtt_s();
        match self.buffer {
            LimitSpec::MilliBdp(milli) if bdp * milli as f64 / 1000.0 < 2.0 * PACKET => {
                "2p".to_owned()
            }
            _ => self.value(Axis::Buffer),
        }
    }

    fn links(&self, text: &mut String, contestant: &Contestant) {
        let limit = self.limit();
        let plain = format!("queue = {{ kind = \"droptail\", limit = \"{limit}\" }}\n");
        let answering = contestant.port(&limit);
        let rate = self.rate.bits;
        let hops: Vec<(u64, &str)> = match self.routers {
            Routers::None => vec![(rate, &plain)],
            Routers::Hidden => vec![(2 * rate, &answering), (rate, &plain)],
            Routers::Answer(number) => vec![(rate, &answering); usize::from(number)],
        };
        let delay = self.rtt.as_nanos() / (2 * hops.len().max(1) as u128);
        for (index, (rate, port)) in hops.iter().enumerate() {
            let last = index + 1 == hops.len();
            let name = if last {
                BOTTLENECK.to_owned()
            } else {
                format!("hop{index}")
            };
            let _ = write!(
                text,
                "\n[[link]]\nname = \"{name}\"\nfrom = \"N{index}\"\nto = \"N{}\"\nduplex = true\n\
                 rate = {rate}\ndelay = \"{delay}ns\"\n{port}",
                index + 1
            );
            if last && self.loss_ppm > 0 {
                let per = f64::from(self.loss_ppm) / 1e6;
                let _ = writeln!(text, "loss = {{ kind = \"bernoulli\", per = {per} }}");
            }
        }
    }

    /// Short files begin at random between a tenth and nine tenths of the least time that the large
    /// files need. With the same seed, these times are the same for every law, regardless of its
    /// routers.
    fn short_starts(&self, seed: u64) -> String {
        let plain = Self {
            routers: Routers::None,
            ..*self
        };
        let mut random = Random::new(seed, &format!("{plain}/short"));
        let starts = (0..SHORT).map(|_| {
            let part = 0.1 + 0.8 * random.below(1_000_000) as f64 / 1e6;
            format!("\"{:.6}s\"", part * self.busy_s())
        });
        starts.collect::<Vec<_>>().join(", ")
    }
}

/// Sets the cell's value on an axis. `None`: the text is no such value.
fn set(cell: &mut Cell, axis: Axis, text: &str) -> Option<()> {
    let trimmed = text.trim();
    match axis {
        Axis::Rate => {
            let bare = trimmed.parse().ok().map(|bits| RateValue { bits });
            let within = |rate: &RateValue| (32_000..=100_000_000_000).contains(&rate.bits);
            cell.rate = bare.or_else(|| text.parse().ok()).filter(within)?;
        }
        Axis::Rtt => {
            let bounds = Duration::from_micros(100)..=Duration::from_secs(20);
            let rtt = text.parse::<Span>().ok()?.0;
            let valid = bounds.contains(&rtt) && rtt.as_nanos().is_multiple_of(1000);
            cell.rtt = valid.then_some(rtt)?;
        }
        Axis::Buffer => {
            let within = |limit: &LimitSpec| match limit {
                LimitSpec::MilliBdp(milli) => (1..=100_000).contains(milli),
                LimitSpec::Packets(packets) => (1..=10_000_000).contains(packets),
                LimitSpec::Bytes(bytes) => (1500..=10_000_000_000).contains(bytes),
            };
            cell.buffer = text.parse().ok().filter(within)?;
        }
        Axis::Loss => {
            let share = match trimmed.strip_suffix('%') {
                Some(percent) => percent.trim().parse::<f64>().ok()? / 100.0,
                None => trimmed.parse::<f64>().ok()?,
            };
            let ppm = share * 1e6;
            let whole = (ppm - ppm.round()).abs() < 1e-6;
            let valid = (0.0..=500_000.0).contains(&ppm) && whole;
            cell.loss_ppm = valid.then_some(ppm.round() as u32)?;
        }
        Axis::Flows => {
            let flows = trimmed.parse().ok();
            cell.flows = flows.filter(|flows| (1..=10_000).contains(flows))?;
        }
        Axis::Routers => {
            let number = trimmed.parse().ok();
            cell.routers = match trimmed {
                "none" => Routers::None,
                "hidden" => Routers::Hidden,
                _ => Routers::Answer(number.filter(|number| (1..=8).contains(number))?),
            };
        }
    }
    Some(())
}

/// A law and its port: `xcp`, `cubic@codel`, `vcp[paper]@vcp[paper]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contestant {
    law: Algorithm,
    port: Port,
    /// The port as it is named after the law, if it was named.
    suffix: String,
}

/// The law or queue of answering routers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Port {
    /// A DropTail queue without answers.
    DropTail,
    /// Controlled delay (RFC 8289) without answers.
    CoDel,
    /// A controller that answers.
    Controller(LinkAlgorithm),
}

/// Error for an unknown law or port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadContestant {
    /// The law.
    #[error(transparent)]
    Law(ParseError),
    /// The port.
    #[error(
        "`{port}` behind @ is no port's law: {source}; without one it is `droptail` or `codel`"
    )]
    Port {
        /// The text after the `@`.
        port: String,
        /// The error.
        source: ParseError,
    },
}

impl Contestant {
    /// Creates a law with its own port, or with DropTail without router signals.
    pub fn new(law: Algorithm) -> Self {
        let port = law.port();
        Self {
            law,
            port: port.map_or(Port::DropTail, Port::Controller),
            suffix: String::new(),
        }
    }

    /// Returns the sender's law.
    pub const fn law(&self) -> &Algorithm {
        &self.law
    }

    /// True if answering routers differ from plain routers for this law.
    pub(super) fn hears_routers(&self) -> bool {
        self.port != Port::DropTail
    }

    /// Returns the lines of a link's table that set its port's law and queue.
    pub(super) fn port(&self, limit: &str) -> String {
        match &self.port {
            Port::DropTail => format!("queue = {{ kind = \"droptail\", limit = \"{limit}\" }}\n"),
            Port::CoDel => format!("queue = {{ kind = \"codel\", limit = \"{limit}\" }}\n"),
            Port::Controller(law) => format!(
                "queue = {{ kind = \"droptail\", limit = \"{limit}\" }}\ncontroller = \"{law}\"\n"
            ),
        }
    }
}

impl FromStr for Contestant {
    type Err = BadContestant;
    fn from_str(text: &str) -> Result<Self, BadContestant> {
        let (law, port) = match text.split_once('@') {
            Some((law, port)) => (law, Some(port.trim())),
            None => (text, None),
        };
        let law: Algorithm = law.trim().parse().map_err(BadContestant::Law)?;
        let Some(port) = port else {
            return Ok(Self::new(law));
        };
        let (port, suffix) = match port {
            "droptail" | "none" => (Port::DropTail, "@droptail".to_owned()),
            "codel" => (Port::CoDel, "@codel".to_owned()),
            _ => {
                let port: LinkAlgorithm = port.parse().map_err(|source| BadContestant::Port {
                    port: port.to_owned(),
                    source,
                })?;
                let suffix = format!("@{port}");
                (Port::Controller(port), suffix)
            }
        };
        Ok(Self { law, port, suffix })
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.law, self.suffix)
    }
}
