//! Quantities as written in files: `10Mbit`, `199ms`, `64KiB`.

use std::fmt;
use std::str::FromStr;

use pathmark_cc::Duration;
use pathmark_cc::units::{self, Round, Units, show_decimal};
use serde::{Deserialize, Deserializer, de};

use crate::impair::Probability;

/// Text that is not a valid quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read `{given}` as {what}: write {example}")]
pub struct UnitError {
    given: String,
    what: &'static str,
    example: &'static str,
}

/// A rate: `10Mbit`, `2.5Gbit/s`, or a number of bits per second. SI units, powers of 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RateValue {
    /// Bits per second.
    pub bits: u64,
}

/// A time: `199ms`, `1.25s`, `50us`, `2min`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// A number of bytes: `64KiB`, `500kB`, `1MB`, `1500B`, or a bare number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteCount(pub u64);

/// A share of packets: `5%`, `0.1%`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent {
    /// In 10⁻⁶.
    pub ppm: u32,
}

/// A probability between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chance(pub f64);

impl Chance {
    /// The fixed-point value for the generator.
    pub fn probability(self) -> Probability {
        Probability::new(self.0).unwrap_or(Probability::ZERO)
    }
}

impl RateValue {
    /// Bytes per second, rounded down.
    pub const fn bytes(self) -> u64 {
        self.bits / 8
    }
}

/// Like the shared units, but a fraction of the smallest unit is cut off.
const RATE: Units = Units {
    round: Round::Down,
    ..units::RATE
};
const TIME: Units = Units {
    round: Round::Down,
    free_zero: true,
    ..units::TIME
};
const BYTES: Units = Units {
    round: Round::Down,
    ..units::BYTES
};
/// In 10⁻⁶.
const SHARE: Units = Units {
    round: Round::Down,
    free_zero: true,
    ..Units::of(&[("%", 10_000)])
};

/// How a quantity is read from a text, and from a bare number as far as one is allowed; what it
/// is, an example of it, and what the parser of a file expects.
macro_rules! quantities {
    ($(
        $name:ident: $read:expr, $number:expr, $what:literal, $example:literal, $expects:literal;
    )*) => {
        $(impl FromStr for $name {
            type Err = UnitError;
            fn from_str(text: &str) -> Result<Self, UnitError> {
                let read: fn(&str) -> Option<Self> = $read;
                read(text).ok_or_else(|| UnitError {
                    given: text.to_owned(),
                    what: $what,
                    example: $example,
                })
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Quantity {
                    expecting: $expects,
                    from_number: $number,
                })
            }
        })*
    };
}

quantities! {
    RateValue:
        |text| RATE.read(text).ok().map(|bits| Self { bits }),
        |bits| Some(Self { bits }),
        "a rate", "one such as \"10Mbit\", \"2.5Gbit\" or \"300kbit\"",
        "a rate such as \"10Mbit\"";
    Span:
        |text| TIME.read(text).ok().map(|nanos| Self(Duration::from_nanos(nanos))),
        |number| (number == 0).then(Self::default),
        "a time", "one such as \"199ms\", \"1.25s\" or \"50us\"",
        "a time with its unit, such as \"199ms\"";
    ByteCount:
        |text| BYTES.read(text).ok().map(Self),
        |number| Some(Self(number)),
        "a number of bytes", "one such as \"64KiB\", \"500kB\" or 1500",
        "a number of bytes such as \"64KiB\"";
    Percent:
        |text| {
            let ppm = SHARE.read::<u32>(text).ok().filter(|ppm| *ppm <= 1_000_000);
            ppm.map(|ppm| Self { ppm })
        },
        |number| (number == 0).then(Self::default),
        "a share", "one such as \"5%\" or \"0.1%\"",
        "a share with its sign, such as \"5%\"";
}

impl fmt::Display for RateValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (factor, unit) in [
            (1_000_000_000, "Gbit"),
            (1_000_000, "Mbit"),
            (1_000, "kbit"),
        ] {
            if self.bits >= factor {
                // Rounded down to three decimals.
                let milli = self.bits / (factor / 1000);
                return write!(f, "{}{unit}", show_decimal(milli, 3));
            }
        }
        write!(f, "{}bit", self.bits)
    }
}

impl fmt::Display for ByteCount {
    /// Displays up to four digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (factor, unit) in [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
            if self.0 >= factor {
                let tenths = u128::from(self.0) * 10 / u128::from(factor);
                return match tenths {
                    1000.. => write!(f, "{}{unit}", tenths / 10),
                    _ => write!(f, "{}.{}{unit}", tenths / 10, tenths % 10),
                };
            }
        }
        write!(f, "{}B", self.0)
    }
}

/// Parses a string by `FromStr`, or a bare number by `from_number`.
struct Quantity<T> {
    expecting: &'static str,
    from_number: fn(u64) -> Option<T>,
}

impl<T: FromStr<Err = UnitError>> de::Visitor<'_> for Quantity<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        (self.from_number)(number)
            .ok_or_else(|| E::invalid_type(de::Unexpected::Unsigned(number), &self))
    }
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(de::Unexpected::Signed(number), &self)),
        }
    }
}

impl<'de> Deserialize<'de> for Chance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let p = f64::deserialize(deserializer)?;
        if (0.0..=1.0).contains(&p) {
            Ok(Self(p))
        } else {
            Err(de::Error::custom(format!(
                "the probability {p} is not between 0 and 1"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_in_bits_and_si() {
        let rate = |text: &str| text.parse::<RateValue>().map(RateValue::bytes).ok();
        assert_eq!(rate("10Mbit"), Some(1_250_000));
        assert_eq!(rate("2.5Gbit/s"), Some(312_500_000));
        assert_eq!(rate("300 kbit"), Some(37_500));
        assert_eq!(rate("1_000bps"), Some(125));
        assert_eq!(rate("0.0649kbit"), Some(8));
        for bad in [
            "10",
            "10MB",
            "10mbit",
            "fast",
            "",
            "Mbit",
            "1.2.3Mbit",
            "-1Mbit",
            "99999999999Tbit",
        ] {
            assert_eq!(rate(bad), None, "{bad}");
        }
        for text in ["10Mbit", "2.5Gbit", "300kbit", "64bit"] {
            assert_eq!(text.parse::<RateValue>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn times_need_a_unit() {
        let span = |text: &str| text.parse::<Span>().map(|s| s.0.as_nanos()).ok();
        assert_eq!(span("199ms"), Some(199_000_000));
        assert_eq!(span("1.25s"), Some(1_250_000_000));
        assert_eq!(span("0.5us"), Some(500));
        assert_eq!(span("2min"), Some(120_000_000_000));
        assert_eq!(span("1.9ns"), Some(1));
        assert_eq!(span("0"), Some(0));
        assert_eq!(span("10"), None);
        assert_eq!(span("10 days"), None);
    }

    #[test]
    fn shares_need_a_sign() {
        let share = |text: &str| text.parse::<Percent>().map(|share| share.ppm).ok();
        assert_eq!(share("5%"), Some(50_000));
        assert_eq!(share("0.1 %"), Some(1_000));
        assert_eq!(share("100%"), Some(1_000_000));
        assert_eq!(share("0"), Some(0));
        for bad in ["5", "0.05", "101%", "-1%", "%", "5 percent", ""] {
            assert_eq!(share(bad), None, "{bad}");
        }
    }

    #[test]
    fn bytes_tell_si_from_binary() {
        let bytes = |text: &str| text.parse::<ByteCount>().map(|b| b.0).ok();
        assert_eq!(bytes("64KiB"), Some(65_536));
        assert_eq!(bytes("64kB"), Some(64_000));
        assert_eq!(bytes("1500"), Some(1500));
        assert_eq!(bytes("64K"), None);
        assert_eq!(bytes("1.9B"), Some(1));
        assert_eq!(bytes("18446744073709551616"), None);
        for (count, text) in [
            (1_023, "1023B"),
            (1 << 10, "1.0KiB"),
            (1_500_000, "1.4MiB"),
            (800 << 20, "800MiB"),
            (u64::MAX, "17179869183GiB"),
        ] {
            assert_eq!(ByteCount(count).to_string(), text);
        }
    }
}
