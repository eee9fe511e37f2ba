//! The values in a cell's name: `100M`, `80ms`, `8p`, `2+1`, `5%`.
//!
//! Each value has one spelling, parses back from its text, and has bounds that keep a run
//! affordable.

use std::fmt;
use std::str::FromStr;

use pathmark_cc::units::Units;

/// Error for a part of a name that does not parse as a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read `{given}` as {what}: write {example}")]
pub struct BadAxis {
    given: String,
    what: &'static str,
    example: &'static str,
}

fn bad(given: &str, what: &'static str, example: &'static str) -> BadAxis {
    BadAxis {
        given: given.to_owned(),
        what,
        example,
    }
}

/// Parses a whole number without a sign or a leading zero.
fn number<T: FromStr + ToString>(text: &str) -> Option<T> {
    text.parse().ok().filter(|n: &T| n.to_string() == text)
}

/// A rate: `100M`, `2500k`, `1G`; 32 kbit/s to 2 Gbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate {
    /// Kilobits per second.
    pub kbit: u64,
}

impl Rate {
    const BOUNDS: std::ops::RangeInclusive<u64> = 32..=2_000_000;

    /// Creates a rate in megabits per second.
    pub const fn mbit(mbit: u64) -> Self {
        Self { kbit: mbit * 1000 }
    }

    /// Returns this share of the rate, but at least the lowest valid rate.
    #[must_use]
    pub fn percent(self, percent: u64) -> Self {
        let kbit = self.kbit * percent / 100;
        Self {
            kbit: kbit.clamp(*Self::BOUNDS.start(), *Self::BOUNDS.end()),
        }
    }

    /// Returns the rate as in scenarios.
    pub fn toml(self) -> String {
        format!("{}kbit", self.kbit)
    }

    /// Returns the packets of 1500 bytes in `seconds`.
    pub fn packets(self, seconds: f64) -> f64 {
        self.kbit as f64 * 1000.0 / 12_000.0 * seconds
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kbit {
            kbit if kbit % 1_000_000 == 0 => write!(f, "{}G", kbit / 1_000_000),
            kbit if kbit % 1000 == 0 => write!(f, "{}M", kbit / 1000),
            kbit => write!(f, "{kbit}k"),
        }
    }
}

impl FromStr for Rate {
    type Err = BadAxis;

    fn from_str(text: &str) -> Result<Self, BadAxis> {
        let units = Units::of(&[("G", 1_000_000), ("M", 1000), ("k", 1)]);
        let read = units.read(text).ok();
        read.filter(|kbit| Self::BOUNDS.contains(kbit))
            .map(|kbit| Self { kbit })
            .filter(|rate| rate.to_string() == text)
            .ok_or_else(|| bad(text, "a rate", "100M, 2500k or 1G, from 32k to 2G"))
    }
}

/// A time: `200us`, `80ms`, `5s`; up to 60 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Microseconds.
    pub micros: u64,
}

impl Time {
    const BOUNDS: std::ops::RangeInclusive<u64> = 20..=60_000_000;

    /// Creates a time in milliseconds.
    pub const fn millis(millis: u64) -> Self {
        Self {
            micros: millis * 1000,
        }
    }

    /// Converts to seconds.
    pub fn seconds(self) -> f64 {
        self.micros as f64 / 1e6
    }

    /// Returns one of `parts` equal parts as in scenarios.
    pub fn part(self, parts: u64) -> String {
        format!("{}ns", self.micros * 1000 / parts.max(1))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.micros {
            micros if micros % 1_000_000 == 0 => write!(f, "{}s", micros / 1_000_000),
            micros if micros % 1000 == 0 => write!(f, "{}ms", micros / 1000),
            micros => write!(f, "{micros}us"),
        }
    }
}

impl FromStr for Time {
    type Err = BadAxis;

    fn from_str(text: &str) -> Result<Self, BadAxis> {
        let units = Units::of(&[("s", 1_000_000), ("ms", 1000), ("us", 1)]);
        let read = units.read(text).ok();
        read.filter(|micros| Self::BOUNDS.contains(micros))
            .map(|micros| Self { micros })
            .filter(|time| time.to_string() == text)
            .ok_or_else(|| bad(text, "a time", "80ms, 200us or 5s, from 20us to 60s"))
    }
}

/// Size of a queue: `8p` packets, or `1bdp`, `0.1bdp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Buffer {
    /// Packets, 1 to 10 000.
    Packets(u32),
    /// Tenths of a bandwidth-delay product, up to 10.
    Bdp(u32),
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Packets(packets) => write!(f, "{packets}p"),
            Self::Bdp(tenths) if tenths % 10 == 0 => write!(f, "{}bdp", tenths / 10),
            Self::Bdp(tenths) => write!(f, "{}.{}bdp", tenths / 10, tenths % 10),
        }
    }
}

impl FromStr for Buffer {
    type Err = BadAxis;

    fn from_str(text: &str) -> Result<Self, BadAxis> {
        let (bdp, packets) = (Units::of(&[("bdp", 10)]), Units::of(&[("p", 1)]));
        let bdp = bdp.read(text).ok().filter(|t| (1..=100).contains(t));
        let packets = packets.read(text).ok();
        let packets = packets.filter(|p| (1..=10_000).contains(p));
        let read = bdp.map(Self::Bdp).or(packets.map(Self::Packets));
        let read = read.filter(|buffer| buffer.to_string() == text);
        read.ok_or_else(|| bad(text, "a buffer", "8p, 1bdp or 0.1bdp"))
    }
}

/// Flows of ours and TCP flows on the same path: `2+1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mix {
    /// Flows whose law is compared.
    pub ours: u32,
    /// Flows that always run `cubic`.
    pub tcp: u32,
}

impl Mix {
    const MOST: u32 = 200;

    /// Creates a mix of two numbers of flows.
    pub const fn new(ours: u32, tcp: u32) -> Self {
        Self { ours, tcp }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.ours, self.tcp)
    }
}

impl FromStr for Mix {
    type Err = BadAxis;

    fn from_str(text: &str) -> Result<Self, BadAxis> {
        let read = || {
            let (ours, tcp) = text.split_once('+')?;
            let (ours, tcp) = (number::<u32>(ours)?, number::<u32>(tcp)?);
            ((1..=Self::MOST).contains(&ours) && tcp <= Self::MOST).then_some(Self { ours, tcp })
        };
        read().ok_or_else(|| bad(text, "flows of ours and TCP flows", "2+0 or 5+2"))
    }
}

/// A count: `x3`, from 1 to 200.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Count(pub u32);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "x{}", self.0)
    }
}

impl FromStr for Count {
    type Err = BadAxis;

    fn from_str(text: &str) -> Result<Self, BadAxis> {
        let read = text.strip_prefix('x').and_then(number::<u32>);
        read.filter(|count| (1..=200).contains(count))
            .map(Self)
            .ok_or_else(|| bad(text, "a count", "x3, from x1 to x200"))
    }
}

/// A share of packets: `0.1%`, `5%`; up to 50 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent {
    /// Tenths of a percent.
    pub permille: u32,
}

impl Percent {
    /// Converts to a probability.
    pub fn share(self) -> f64 {
        f64::from(self.permille) / 1000.0
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.permille {
            permille if permille % 10 == 0 => write!(f, "{}%", permille / 10),
            permille => write!(f, "{}.{}%", permille / 10, permille % 10),
        }
    }
}

impl FromStr for Percent {
    type Err = BadAxis;

    fn from_str(text: &str) -> Result<Self, BadAxis> {
        let read = || {
            let permille = Units::of(&[("%", 10)]).read(text).ok()?;
            let read = Self { permille };
            ((1..=500).contains(&permille) && read.to_string() == text).then_some(read)
        };
        read().ok_or_else(|| bad(text, "a share of packets", "5% or 0.1%, up to 50%"))
    }
}

/// A file's size: `30kB`, `2000kB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size {
    /// Kilobytes.
    pub kilobytes: u32,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}kB", self.kilobytes)
    }
}

impl FromStr for Size {
    type Err = BadAxis;

    fn from_str(text: &str) -> Result<Self, BadAxis> {
        let read = text.strip_suffix("kB").and_then(number::<u32>);
        read.filter(|kilobytes| (1..=100_000).contains(kilobytes))
            .map(|kilobytes| Self { kilobytes })
            .ok_or_else(|| bad(text, "a size", "30kB, up to 100000kB"))
    }
}

/// An enum whose variants are words of a cell's name.
macro_rules! words {
    (
        $(#[$about:meta])* $name:ident: $what:literal {
            $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)?
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant),+
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $word),+
                })
            }
        }

        impl FromStr for $name {
            type Err = BadAxis;

            fn from_str(text: &str) -> Result<Self, BadAxis> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(bad(text, $what, concat!("one of:" $(, " ", $word)+))),
                }
            }
        }
    };
}

words! {
    /// Distribution of losses.
    Burst: "how losses come" {
        /// Each packet independently.
        Single = "single",
        /// Five in a row on average.
        Five = "burst5",
    }
}

words! {
    /// Time in which links lose packets.
    Lossy: "when packets are lost" {
        /// During the whole run.
        Through = "through",
        /// From the second third onwards.
        Begins = "begins",
        /// For the first two thirds.
        Ends = "ends",
    }
}

words! {
    /// Whether the port declares the loss rate of the link behind it.
    Declared: "whether the loss is declared" {
        /// The port declares it.
        Declared = "declared",
        /// The port does not declare it.
        Undeclared = "undeclared",
    }
}
