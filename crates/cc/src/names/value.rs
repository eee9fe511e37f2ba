//! Values of options, which parse and print them without floating point.

use core::ops::RangeInclusive;

use crate::base::Duration;
use crate::base::arith::nanos;
use crate::units::{RATE, TIME, Units, show_decimal};

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
        let bytes = RATE.read::<u64>(text).ok()? / 8;
        (1_000..=1_000_000_000_000)
            .contains(&bytes)
            .then_some(bytes)
    }

    fn show(&self, bytes_per_second: &u64) -> String {
        RATE.show(bytes_per_second.saturating_mul(8))
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
