//! The values of the grid's axes, in the form used in scenarios.

use std::fmt;
use std::str::FromStr;

use pathmark_cc::Duration;
use pathmark_cc::units::show_decimal;
use pathmark_link::keys::{ByteCount, LimitSpec, RateValue, Span};

use crate::named::named;

named! {
    /// An axis of the grid, with its key in a grid's file. The order is that of a cell's name.
    pub Axis {
        /// The bottleneck's rate.
        Rate = "rate",
        /// The path's propagation round trip.
        Rtt = "rtt",
        /// Size of the bottleneck's queue.
        Buffer = "buffer",
        /// Share of data packets that are lost at random.
        Loss = "loss",
        /// Files that share the bottleneck.
        Flows = "flows",
        /// The routers that answer.
        Routers = "routers",
    }
}

/// Error for text that does not parse as a value of an axis.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{axis} cannot be `{given}`: write {expects}")]
pub struct BadValue {
    /// The axis.
    pub axis: Axis,
    /// The given text.
    pub given: String,
    /// Description of valid values.
    pub expects: &'static str,
}

fn bad(axis: Axis, given: &str, expects: &'static str) -> BadValue {
    BadValue {
        axis,
        given: given.to_owned(),
        expects,
    }
}

/// The bottleneck's rate, 32 kbit/s to 100 Gbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub RateValue);

impl Rate {
    /// Bits per second.
    pub fn bps(self) -> f64 {
        self.0.bits as f64
    }
}

impl FromStr for Rate {
    type Err = BadValue;
    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bare = text.trim().parse().ok().map(|bits| RateValue { bits });
        let read = bare.or_else(|| text.parse().ok());
        let within = |rate: &RateValue| (32_000..=100_000_000_000).contains(&rate.bits);
        read.filter(within).map(Self).ok_or_else(|| {
            bad(
                Axis::Rate,
                text,
                "a rate such as 100Mbit, 32kbit to 100Gbit",
            )
        })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A propagation round trip, 100 µs to 20 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rtt(pub Duration);

impl FromStr for Rtt {
    type Err = BadValue;
    fn from_str(text: &str) -> Result<Self, BadValue> {
        let read = text.parse::<Span>().ok().map(|span| span.0);
        let bounds = Duration::from_micros(100)..=Duration::from_secs(20);
        read.filter(|rtt| bounds.contains(rtt) && rtt.as_nanos().is_multiple_of(1000))
            .map(Self)
            .ok_or_else(|| bad(Axis::Rtt, text, "a time such as 80ms, 100us to 20s"))
    }
}

impl fmt::Display for Rtt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_micros() {
            micros if micros.is_multiple_of(1_000_000) => write!(f, "{}s", micros / 1_000_000),
            micros if micros.is_multiple_of(1000) => write!(f, "{}ms", micros / 1000),
            micros => write!(f, "{micros}us"),
        }
    }
}

/// Size of the bottleneck's queue in packets, bytes or bandwidth-delay products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room(pub LimitSpec);

impl FromStr for Room {
    type Err = BadValue;
    fn from_str(text: &str) -> Result<Self, BadValue> {
        let read = text.parse::<LimitSpec>().ok();
        let within = |limit: &LimitSpec| match limit {
            LimitSpec::MilliBdp(milli) => (1..=100_000).contains(milli),
            LimitSpec::Packets(packets) => (1..=10_000_000).contains(packets),
            LimitSpec::Bytes(bytes) => (1500..=10_000_000_000).contains(bytes),
        };
        read.filter(within).map(Self).ok_or_else(|| {
            let expects =
                "a queue's room such as 1bdp, 0.1bdp, 100p or 64KiB, for a packet at least";
            bad(Axis::Buffer, text, expects)
        })
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            LimitSpec::MilliBdp(milli) => {
                write!(f, "{}bdp", show_decimal(milli, 3))
            }
            LimitSpec::Packets(packets) => write!(f, "{packets}p"),
            LimitSpec::Bytes(bytes) => {
                let count = ByteCount(bytes);
                // The exact number, unless the short text is exact.
                match count.to_string() {
                    short if short.parse() == Ok(count) => f.write_str(&short),
                    _ => write!(f, "{bytes}B"),
                }
            }
        }
    }
}

/// Share of data packets that are lost at random, up to a half, in 10⁻⁶.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    /// Number of packets per million.
    pub ppm: u32,
}

impl FromStr for Loss {
    type Err = BadValue;
    fn from_str(text: &str) -> Result<Self, BadValue> {
        let trimmed = text.trim();
        let share = match trimmed.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
            None => trimmed.parse::<f64>(),
        };
        let ppm = share.ok().map(|share| share * 1e6).filter(|ppm| {
            let whole = (ppm - ppm.round()).abs() < 1e-6;
            (0.0..=500_000.0).contains(ppm) && whole
        });
        ppm.map(|ppm| Self {
            ppm: ppm.round() as u32,
        })
        .ok_or_else(|| {
            let expects = "a share of packets such as 0, 1e-3 or 0.1%, in steps of 1e-6 up to 50%";
            bad(Axis::Loss, text, expects)
        })
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", show_decimal(u64::from(self.ppm), 4))
    }
}

/// The routers on the path that answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Routers {
    /// None: the bottleneck is a plain hop.
    None,
    /// A router with twice the rate. The bottleneck behind it is a plain hop.
    Hidden,
    /// This number of routers in a row with the same rate, including the bottleneck.
    Answer(u8),
}

impl FromStr for Routers {
    type Err = BadValue;
    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text.trim() {
            "none" => Ok(Self::None),
            "hidden" => Ok(Self::Hidden),
            number => number
                .parse()
                .ok()
                .filter(|number| (1..=8).contains(number))
                .map(Self::Answer)
                .ok_or_else(|| {
                    let expects = "`none`, `hidden`, or how many answer, 1 to 8";
                    bad(Axis::Routers, text, expects)
                }),
        }
    }
}

impl fmt::Display for Routers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Hidden => f.write_str("hidden"),
            Self::Answer(number) => write!(f, "{number}"),
        }
    }
}

/// Number of files that share the bottleneck.
pub(super) fn flows(text: &str) -> Result<u32, BadValue> {
    let read = text.trim().parse().ok();
    read.filter(|flows| (1..=10_000).contains(flows))
        .ok_or_else(|| {
            bad(
                Axis::Flows,
                text,
                "how many files share the path, 1 to 10000",
            )
        })
}
