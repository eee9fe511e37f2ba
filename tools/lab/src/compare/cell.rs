//! Contestants, which are laws with the law of their ports, and the cells in which they run: points
//! of the grid, with their scenarios.

use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

use pathmark_cc::{Algorithm, Duration, LinkAlgorithm, ParseError};
use pathmark_link::impair::Random;
use pathmark_link::keys::{LimitSpec, RateValue};

use super::axis::{Axis, BadValue, Loss, Rate, Room, Routers, Rtt, flows};

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
    /// The bottleneck's rate.
    pub rate: Rate,
    /// Propagation round trip.
    pub rtt: Rtt,
    /// Size of the bottleneck's queue.
    pub buffer: Room,
    /// Share of data packets lost at random behind the bottleneck.
    pub loss: Loss,
    /// Number of large files.
    pub flows: u32,
    /// The routers that answer.
    pub routers: Routers,
}

impl fmt::Display for Cell {
    /// `100Mbit-80ms-1bdp-0.1%-8-none`: the values in the order of [`Axis::ALL`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, axis) in Axis::ALL.into_iter().enumerate() {
            let dash = if index > 0 { "-" } else { "" };
            write!(f, "{dash}{}", self.value(axis))?;
        }
        Ok(())
    }
}

/// One file, without a path: the base of `Cell::with`.
impl Default for Cell {
    fn default() -> Self {
        Self {
            rate: Rate(RateValue { bits: 0 }),
            rtt: Rtt(Duration::ZERO),
            buffer: Room(LimitSpec::Packets(0)),
            loss: Loss { ppm: 0 },
            flows: 1,
            routers: Routers::None,
        }
    }
}

impl Cell {
    /// Returns the cell with a value that is read from its text.
    pub(super) fn with(mut self, axis: Axis, text: &str) -> Result<Self, BadValue> {
        match axis {
            Axis::Rate => self.rate = text.parse()?,
            Axis::Rtt => self.rtt = text.parse()?,
            Axis::Buffer => self.buffer = text.parse()?,
            Axis::Loss => self.loss = text.parse()?,
            Axis::Flows => self.flows = flows(text)?,
            Axis::Routers => self.routers = text.parse()?,
        }
        Ok(self)
    }

    /// Returns the cell's value on an axis as text.
    pub fn value(&self, axis: Axis) -> String {
        match axis {
            Axis::Rate => self.rate.to_string(),
            Axis::Rtt => self.rtt.to_string(),
            Axis::Buffer => self.buffer.to_string(),
            Axis::Loss => self.loss.to_string(),
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

    fn rtt_s(&self) -> f64 {
        self.rtt.0.as_secs_f64()
    }

    /// Returns how long the large files keep the bottleneck busy, in seconds.
    pub fn busy_s(&self) -> f64 {
        let wanted = (ROUND_TRIPS * self.rtt_s()).clamp(SECONDS.0, SECONDS.1);
        let affordable = PACKETS * PACKET * 8.0 / self.rate.bps();
        let least = LEAST_ROUND_TRIPS * self.rtt_s();
        (wanted.min(affordable).max(least) * 100.0).round().max(1.0) / 100.0
    }

    /// Returns the bytes of each large file, at least one packet.
    fn large_bytes(&self) -> f64 {
        let all = self.rate.bps() / 8.0 * self.busy_s();
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
        FIRST_BYTE * self.rtt_s() + all * 8.0 / self.rate.bps()
    }

    /// Returns the same for one short file without other traffic.
    pub fn short_floor_s(&self) -> f64 {
        FIRST_BYTE * self.rtt_s() + self.short_bytes() * 8.0 / self.rate.bps()
    }

    /// Returns the latest end of a run in seconds.
    fn duration_s(&self) -> f64 {
        PATIENCE * self.floor_s() + 2.0 * self.rtt_s()
    }

    /// Estimates the packets that enter links in a run, including acknowledgements.
    pub fn packets(&self) -> f64 {
        let data = self.large_bytes() * f64::from(self.flows) / 1400.0;
        let links = match self.routers {
            Routers::None => 1.0,
            Routers::Hidden => 2.0,
            Routers::Answer(number) => f64::from(number),
        };
        1.5 * data * links
    }

    /// Returns the cell as a scenario file.
    pub fn scenario(&self, contestant: &Contestant, seed: u64) -> String {
        let busy = self.busy_s();
        let mut text = format!(
            "name = \"{self} {contestant}\"\nduration = \"{:.6}s\"\nseed = {seed}\n\
             measure = [[\"{:.6}s\", \"{busy:.6}s\"], [\"0s\", \"{busy:.6}s\"]]\n",
            self.duration_s(),
            busy / 2.0,
        );
        self.links(&mut text, contestant);
        let last = match self.routers {
            Routers::None => 1,
            Routers::Hidden => 2,
            Routers::Answer(number) => number,
        };
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
        let bdp = self.rate.bps() / 8.0 * self.rtt_s();
        match self.buffer.0 {
            LimitSpec::MilliBdp(milli) if bdp * milli as f64 / 1000.0 < 2.0 * PACKET => {
                "2p".to_owned()
            }
            _ => self.buffer.to_string(),
        }
    }

    fn links(&self, text: &mut String, contestant: &Contestant) {
        let limit = self.limit();
        let plain = format!("queue = {{ kind = \"droptail\", limit = \"{limit}\" }}\n");
        let answering = contestant.port(&limit);
        let rate = self.rate.0.bits;
        let hops: Vec<(u64, &str)> = match self.routers {
            Routers::None => vec![(rate, &plain)],
            Routers::Hidden => vec![(2 * rate, &answering), (rate, &plain)],
            Routers::Answer(number) => vec![(rate, &answering); usize::from(number)],
        };
        let delay = self.rtt.0.as_nanos() / (2 * hops.len().max(1) as u128);
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
            if last && self.loss.ppm > 0 {
                let per = f64::from(self.loss.ppm) / 1e6;
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

/// A law and its port: `xcp`, `cubic@codel`, `vcp[paper]@vcp[paper]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contestant {
    law: Algorithm,
    port: Port,
    /// True if the port was named.
    named: bool,
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
            named: false,
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
        let read = match port {
            "droptail" | "none" => Port::DropTail,
            "codel" => Port::CoDel,
            _ => Port::Controller(port.parse().map_err(|source| BadContestant::Port {
                port: port.to_owned(),
                source,
            })?),
        };
        Ok(Self {
            law,
            port: read,
            named: true,
        })
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.law.fmt(f)?;
        match (&self.port, self.named) {
            (_, false) => Ok(()),
            (Port::DropTail, true) => f.write_str("@droptail"),
            (Port::CoDel, true) => f.write_str("@codel"),
            (Port::Controller(law), true) => write!(f, "@{law}"),
        }
    }
}
