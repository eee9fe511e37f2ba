//! Options in brackets. Each is a row of a table with its key, the field that it sets, its values,
//! and its accepted values in words.

use core::fmt;
use core::ops::RangeInclusive;

use super::ParseError;
use crate::base::Duration;
use crate::base::arith::nanos;
use crate::supervise::FallbackLaw;
use crate::units;
use crate::units::{TIME, Units, show_decimal};

pub(crate) struct Knob<C> {
    pub(crate) key: &'static str,
    /// Accepted values, which complete "write …" in an error.
    pub(crate) expects: &'static str,
    /// Sets the option from text. Returns `None` if the text can't be parsed or is out of range.
    pub(crate) set: fn(&mut C, &str) -> Option<()>,
    /// Returns the text that sets the option to its current value.
    pub(crate) show: fn(&C) -> String,
}

/// An option of several laws, which have different fields for it.
pub(crate) struct Shared<V> {
    pub(crate) key: &'static str,
    pub(crate) values: V,
    /// Accepted values, which complete "write …" in an error.
    pub(crate) expects: &'static str,
}

/// A row of a table: an option that sets one field. This is either a shared option
/// (`field: SHARED`), or one with its own key, values and accepted values in words
/// (`field: "key", values, "a number from …"`).
macro_rules! knob {
    ($($field:ident).+: $shared:expr) => {
        $crate::names::knob::Knob {
            key: $shared.key,
            expects: $shared.expects,
            set: |config, text| {
                config.$($field).+ = $crate::names::knob::Values::read(&$shared.values, text)?;
                Some(())
            },
            show: |config| {
                $crate::names::knob::Values::show(&$shared.values, &config.$($field).+)
            },
        }
    };
    ($($field:ident).+: $key:literal, $values:expr, $expects:expr) => {
        knob! {
            $($field).+: $crate::names::knob::Shared {
                key: $key,
                values: $values,
                expects: $expects,
            }
        }
    };
}

pub(crate) use knob;

/// The values of a law's options.
pub(crate) trait Options: Default + 'static {
    /// Options that the law has in any case.
    const TABLE: &'static [Knob<Self>] = &[];

    /// Tables of further options.
    fn further(&self) -> &'static [&'static [Knob<Self>]] {
        &[]
    }

    /// The values of the same law without options in brackets.
    fn defaults(&self) -> Self {
        Self::default()
    }
}

/// No options.
impl Options for () {}

fn all<C: Options>(config: &C) -> impl Iterator<Item = &'static Knob<C>> + use<C> {
    let further = config.further().iter().copied().flatten();
    C::TABLE.iter().chain(further)
}

/// Splits `NAME[options]` into the name and the text between the brackets.
pub(crate) fn split(text: &str) -> Result<(&str, Option<&str>), ParseError> {
    let syntax = || ParseError::Syntax {
        given: text.to_owned(),
    };
    let text = text.trim();
    match text.split_once('[') {
        None if text.contains(']') => Err(syntax()),
        None => Ok((text, None)),
        Some((name, rest)) => {
            let options = rest.strip_suffix(']').ok_or_else(syntax)?;
            if options.contains(['[', ']']) {
                return Err(syntax());
            }
            Ok((name.trim_end(), Some(options)))
        }
    }
}

/// Applies `options` (`key=value,key=value`) to `config` in the given order.
pub(crate) fn apply<C: Options>(
    name: &'static str,
    mut config: C,
    options: Option<&str>,
) -> Result<C, ParseError> {
    let mut seen: Vec<&'static str> = Vec::new();
    let parts = options.unwrap_or("").split(',').map(str::trim);
    for part in parts.filter(|part| !part.is_empty()) {
        let (key, given) = part.split_once('=').unwrap_or((part, ""));
        let (key, given) = (key.trim_end(), given.trim_start());
        let Some(knob) = all(&config).find(|knob| knob.key == key) else {
            let keys = all(&config).map(|knob| knob.key);
            return Err(match nearest(key, keys) {
                Some(nearest) => ParseError::UnknownOption {
                    name,
                    given: key.to_owned(),
                    nearest,
                },
                None => ParseError::NoOptions { name },
            });
        };
        if seen.contains(&knob.key) {
            return Err(ParseError::Repeated { option: knob.key });
        }
        seen.push(knob.key);
        (knob.set)(&mut config, given).ok_or_else(|| ParseError::BadValue {
            option: knob.key,
            given: given.to_owned(),
            expects: knob.expects,
        })?;
    }
    Ok(config)
}

/// Prints `name` and all options that differ from their defaults.
pub(crate) fn show<C: Options>(f: &mut fmt::Formatter<'_>, name: &str, config: &C) -> fmt::Result {
    f.write_str(name)?;
    let default = config.defaults();
    let mut separator = '[';
    for knob in all(config) {
        let text = (knob.show)(config);
        if text != (knob.show)(&default) {
            write!(f, "{separator}{}={text}", knob.key)?;
            separator = ',';
        }
    }
    if separator == ',' {
        f.write_str("]")?;
    }
    Ok(())
}

// Values of options, which parse and print them without floating point.

/// The values that an option accepts.
pub(crate) trait Values<T> {
    /// Parses a value. Returns `None` if the text can't be parsed or is out of range.
    fn read(&self, text: &str) -> Option<T>;
    /// Prints a value as text that [`Self::read`] accepts.
    fn show(&self, value: &T) -> String;
}

/// Decimal numbers in a range, in 10^-6.
pub(crate) struct Ppm(pub(crate) RangeInclusive<u64>);

impl Values<u64> for Ppm {
    fn read(&self, text: &str) -> Option<u64> {
        decimal(text, 6).filter(|value| self.0.contains(value))
    }

    fn show(&self, value: &u64) -> String {
        show_decimal(*value, 6)
    }
}

/// Whole numbers in a range.
pub(crate) struct Count<T>(pub(crate) RangeInclusive<T>);

impl<T: Copy + PartialOrd + TryFrom<u64> + ToString> Values<T> for Count<T> {
    fn read(&self, text: &str) -> Option<T> {
        let count = T::try_from(decimal(text, 0)?).ok()?;
        self.0.contains(&count).then_some(count)
    }

    fn show(&self, count: &T) -> String {
        count.to_string()
    }
}

/// Times with their unit in a range: `200ms`, `1.25s`, `10us`, `2min`.
pub(crate) struct Time(pub(crate) RangeInclusive<Duration>);

impl Values<Duration> for Time {
    fn read(&self, text: &str) -> Option<Duration> {
        let time = TIME.read(text).ok().map(Duration::from_nanos);
        time.filter(|time| self.0.contains(time))
    }

    fn show(&self, time: &Duration) -> String {
        TIME.show(nanos(*time))
    }
}

/// Rates in bits per second, such as `10Mbit`, `2.5Gbit` or `80kbit`. The value is in bytes per
/// second, from 10^3 to 10^12.
pub(crate) struct Rate;

impl Values<u64> for Rate {
    fn read(&self, text: &str) -> Option<u64> {
        let bytes = units::RATE.read::<u64>(text).ok()? / 8;
        (1_000..=1_000_000_000_000)
            .contains(&bytes)
            .then_some(bytes)
    }

    fn show(&self, bytes_per_second: &u64) -> String {
        units::RATE.show(bytes_per_second.saturating_mul(8))
    }
}

/// `yes` or `no`. An option without a value means `yes`.
pub(crate) struct Switch;

impl Values<bool> for Switch {
    fn read(&self, text: &str) -> Option<bool> {
        match text {
            "yes" | "true" | "on" | "" => Some(true),
            "no" | "false" | "off" => Some(false),
            _ => None,
        }
    }

    fn show(&self, on: &bool) -> String {
        if *on { "yes" } else { "no" }.to_owned()
    }
}

/// Words, and what they mean.
pub(crate) struct Words<T: 'static>(pub(crate) &'static [(&'static str, T)]);

impl<T: Copy + PartialEq> Values<T> for Words<T> {
    fn read(&self, text: &str) -> Option<T> {
        let found = self.0.iter().find(|(word, _)| *word == text);
        found.map(|(_, meaning)| *meaning)
    }

    fn show(&self, value: &T) -> String {
        let found = self.0.iter().find(|(_, meaning)| meaning == value);
        found.map_or_else(String::new, |(word, _)| (*word).to_owned())
    }
}

/// Other values, or `auto` for none of them.
pub(crate) struct Auto<V>(pub(crate) V);

impl<T, V: Values<T>> Values<Option<T>> for Auto<V> {
    fn read(&self, text: &str) -> Option<Option<T>> {
        match text {
            "auto" => Some(None),
            _ => self.0.read(text).map(Some),
        }
    }

    fn show(&self, value: &Option<T>) -> String {
        let auto = || "auto".to_owned();
        value.as_ref().map_or_else(auto, |value| self.0.show(value))
    }
}

/// Parses a decimal number in units of 10^-`digits`, e.g. `0.0625` with 9 digits is 62 500 000.
/// Further digits must be 0.
pub(crate) fn decimal(text: &str, digits: u32) -> Option<u64> {
    Units::bare(10u64.checked_pow(digits)?).read(text).ok()
}

/// Maximum number of a word's letters that [`nearest`] considers.
const MOST_LETTERS: usize = 48;

/// Returns the candidate that takes the fewest edits (insert, delete, replace) to become `given`,
/// or the first of several.
pub(crate) fn nearest(
    given: &str,
    candidates: impl IntoIterator<Item = &'static str>,
) -> Option<&'static str> {
    let given = given.to_ascii_lowercase();
    let given: String = given.chars().take(MOST_LETTERS).collect();
    candidates
        .into_iter()
        .min_by_key(|candidate| strsim::levenshtein(&given, candidate))
}

// Options shared by several laws.

pub(super) const PAPERS_SENDER: &str = "nothing: `paper` selects the papers' sender, without any \
    rule of this library's; options after it may still differ";

pub(super) const PAPERS_PORT: &str = "nothing: `paper` selects the papers' own rules; options \
    after it may still differ";

pub(super) const SACK: &str =
    "after `paper`: `yes` (the timeout of a TCP with SACK) or `no` (of one without)";

pub(super) const YES_NO: &str = "`yes` or `no`";

/// The times that a VCP port may measure over.
pub(super) const INTERVAL: Time = Time(Duration::from_millis(1)..=Duration::from_millis(65_535));

pub(super) const INITIAL_WINDOW: Shared<Auto<Count<u32>>> = Shared {
    key: "iw",
    values: Auto(Count(1..=10_000)),
    expects: "a number of packets from 1 to 10000, or `auto`",
};

pub(super) const HYSTART: Shared<Switch> = Shared {
    key: "hystart",
    values: Switch,
    expects: "`yes` (HyStart++ ends slow start before the queue overflows) or `no`",
};

pub(super) const BETA: Shared<Ppm> = Shared {
    key: "beta",
    values: Ppm(100_000..=999_999),
    expects: "what a cut leaves of the window, from 0.1 to 0.999999 (RFC 9438: 0.7; CUBIC of \
        2008: 0.8)",
};

pub(super) const PACE: Shared<Switch> = Shared {
    key: "pace",
    values: Switch,
    expects: "`yes`, or `no` (what the window lets go leaves at once, as in the papers' \
        simulations)",
};

pub(super) const RATE: Shared<Auto<Rate>> = Shared {
    key: "rate",
    values: Auto(Rate),
    expects: "the rate that is asked for, such as 1Gbit, or `auto`: as much as can be used",
};

pub(super) const START: Shared<Words<bool>> = Shared {
    key: "start",
    values: Words(&[("law", false), ("quick-start", true)]),
    expects: "`law` (as the law itself starts) or `quick-start` (with a rate that routers are \
        asked for)",
};

pub(super) const FALLBACK: Shared<Words<FallbackLaw>> = Shared {
    key: "fallback",
    values: Words(&[("cubic", FallbackLaw::Cubic), ("bbr", FallbackLaw::Bbr)]),
    expects: "`cubic` or `bbr`: the law where no router answers",
};
