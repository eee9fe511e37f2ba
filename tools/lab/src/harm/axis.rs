//! The values in a cell's name: `100M`, `80ms`, `8p`, `2+1`, `5%`.
//!
//! Each value has one spelling, parses back from its text, and has bounds that keep a run
//! affordable.

use std::fmt;
use std::str::FromStr;

use pathmark_cc::units::Units;

use crate::named::named;

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

/// Returns the only spelling of a value: a whole number of the largest possible unit, or a decimal
/// of the last one.
fn spelled(units: &'static [(&'static str, u64)], value: u64) -> String {
    let whole = units.iter().position(|(_, one)| value.is_multiple_of(*one));
    let place = whole.unwrap_or(units.len() - 1);
    Units::of(units.get(place..=place).unwrap_or_default()).show(value)
}

/// Parses what [`spelled`] returns.
fn read(units: &'static [(&'static str, u64)], text: &str) -> Option<u64> {
    let value = Units::of(units).read(text).ok();
    value.filter(|value| spelled(units, *value) == text)
}

/// Parses a whole share, such as `95%`.
pub(super) fn percent(text: &str) -> Result<u64, BadAxis> {
    read(&[("%", 1)], text).ok_or_else(|| bad(text, "a share", "5%"))
}

/// A number with a unit and bounds.
macro_rules! quantity {
    (
        $(#[$about:meta])* $name:ident { $(#[$doc:meta])* $field:ident }
        $units:expr, $bounds:expr, $what:literal: $example:literal
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(super) struct $name {
            $(#[$doc])* pub(super) $field: u64,
        }

        impl $name {
            const UNITS: &'static [(&'static str, u64)] = &$units;
            const BOUNDS: std::ops::RangeInclusive<u64> = $bounds;
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&spelled(Self::UNITS, self.$field))
            }
        }

        impl FromStr for $name {
            type Err = BadAxis;

            fn from_str(text: &str) -> Result<Self, BadAxis> {
                let read = read(Self::UNITS, text).filter(|read| Self::BOUNDS.contains(read));
                read.map(|$field| Self { $field })
                    .ok_or_else(|| bad(text, $what, $example))
            }
        }
    };
}

quantity! {
    /// A rate: `100M`, `2500k`, `1G`; 32 kbit/s to 2 Gbit/s.
    Rate {
        /// Kilobits per second.
        kbit
    }
    [("G", 1_000_000), ("M", 1000), ("k", 1)], 32..=2_000_000,
    "a rate": "100M, 2500k or 1G, from 32k to 2G"
}

quantity! {
    /// A time: `200us`, `80ms`, `5s`; up to 60 s.
    Time {
        /// Microseconds.
        micros
    }
    [("s", 1_000_000), ("ms", 1000), ("us", 1)], 20..=60_000_000,
    "a time": "80ms, 200us or 5s, from 20us to 60s"
}

quantity! {
    /// A share of packets: `0.1%`, `5%`; up to 50 %.
    Percent {
        /// Tenths of a percent.
        permille
    }
    [("%", 10)], 1..=500, "a share of packets": "5% or 0.1%, up to 50%"
}

quantity! {
    /// A file's size: `30kB`, `2000kB`.
    Size {
        /// Kilobytes.
        kilobytes
    }
    [("kB", 1)], 1..=100_000, "a size": "30kB, up to 100000kB"
}

impl Rate {
    /// Returns this share of the rate, but at least the lowest valid rate.
    #[must_use]
    pub(super) fn percent(self, percent: u64) -> Self {
        let kbit = self.kbit * percent / 100;
        Self {
            kbit: kbit.clamp(*Self::BOUNDS.start(), *Self::BOUNDS.end()),
        }
    }

    /// Returns the rate as in scenarios.
    pub(super) fn toml(self) -> String {
        format!("{}kbit", self.kbit)
    }

    /// Returns the packets of 1500 bytes in `seconds`.
    pub(super) fn packets(self, seconds: f64) -> f64 {
        self.kbit as f64 * 1000.0 / 12_000.0 * seconds
    }
}

impl Time {
    /// Converts to seconds.
    pub(super) fn seconds(self) -> f64 {
        self.micros as f64 / 1e6
    }

    /// Returns one of `parts` equal parts as in scenarios.
    pub(super) fn part(self, parts: u64) -> String {
        format!("{}ns", self.micros * 1000 / parts.max(1))
    }
}

impl Percent {
    /// Converts to a probability.
    pub(super) fn share(self) -> f64 {
        self.permille as f64 / 1000.0
    }
}

/// Size of a queue: `8p` packets, or `1bdp`, `0.1bdp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Buffer {
    /// Packets, 1 to 10 000.
    Packets(u64),
    /// Tenths of a bandwidth-delay product, up to 10.
    Bdp(u64),
}

const PACKETS: &[(&str, u64)] = &[("p", 1)];
const BDP: &[(&str, u64)] = &[("bdp", 10)];

impl Default for Buffer {
    fn default() -> Self {
        Self::Packets(0)
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match *self {
            Self::Packets(packets) => spelled(PACKETS, packets),
            Self::Bdp(tenths) => spelled(BDP, tenths),
        })
    }
}

impl FromStr for Buffer {
    type Err = BadAxis;

    fn from_str(text: &str) -> Result<Self, BadAxis> {
        let bdp = read(BDP, text).filter(|tenths| (1..=100).contains(tenths));
        let packets = read(PACKETS, text).filter(|packets| (1..=10_000).contains(packets));
        let read = bdp.map(Self::Bdp).or(packets.map(Self::Packets));
        read.ok_or_else(|| bad(text, "a buffer", "8p, 1bdp or 0.1bdp"))
    }
}

/// Flows of ours and TCP flows on the same path: `2+1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Mix {
    /// Flows whose law is compared.
    pub(super) ours: u32,
    /// Flows that always run `cubic`.
    pub(super) tcp: u32,
}

impl Mix {
    const MOST: u32 = 200;
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Count(pub(super) u32);

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

/// A [`named!`] enum that parses from its names.
macro_rules! words {
    ($name:ident: $what:literal, $words:literal) => {
        impl Default for $name {
            fn default() -> Self {
                let [first, ..] = Self::ALL;
                first
            }
        }

        impl FromStr for $name {
            type Err = BadAxis;

            fn from_str(text: &str) -> Result<Self, BadAxis> {
                let known = Self::ALL.into_iter().find(|known| known.name() == text);
                known.ok_or_else(|| bad(text, $what, $words))
            }
        }
    };
}

words! { Burst: "how losses come", "one of: single burst5" }
words! { Lossy: "when packets are lost", "one of: through begins ends" }
words! { Declared: "whether the loss is declared", "one of: declared undeclared" }

named! {
    /// Distribution of losses.
    pub(super) Burst {
        /// Each packet independently.
        Single = "single",
        /// Five in a row on average.
        Five = "burst5",
    }
}

named! {
    /// Time in which links lose packets.
    pub(super) Lossy {
        /// During the whole run.
        Through = "through",
        /// From the second third onwards.
        Begins = "begins",
        /// For the first two thirds.
        Ends = "ends",
    }
}

named! {
    /// Whether the port declares the loss rate of the link behind it.
    pub(super) Declared {
        /// The port declares it.
        Declared = "declared",
        /// The port does not declare it.
        Undeclared = "undeclared",
    }
}
