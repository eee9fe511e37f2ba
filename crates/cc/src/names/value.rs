//! Values of options: decimal numbers as scaled integers, quantities, and switches, without
//! floating point.

use crate::base::Duration;
use crate::base::arith::nanos;
pub(super) use crate::units::show_decimal;
use crate::units::{RATE, TIME, Units};

/// Parses a decimal number in units of 10^-`digits`, e.g. `0.0625` with 9 digits is 62 500 000.
/// Further digits must be 0.
pub(crate) fn decimal(text: &str, digits: u32) -> Option<u64> {
    Units::bare(10u64.checked_pow(digits)?).read(text).ok()
}

/// Parses a time with its unit: `200ms`, `1.25s`, `10us`, `2min`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    TIME.read(text).ok().map(Duration::from_nanos)
}

pub(crate) fn show_duration(d: Duration) -> String {
    TIME.show(nanos(d))
}

/// Parses a rate in bits per second, such as `10Mbit`, `2.5Gbit` or `80kbit`, and returns it in
/// bytes per second, from 10^3 to 10^12.
pub(crate) fn rate(text: &str) -> Option<u64> {
    let bytes = RATE.read::<u64>(text).ok()? / 8;
    (1_000..=1_000_000_000_000)
        .contains(&bytes)
        .then_some(bytes)
}

pub(crate) fn show_rate(bytes_per_second: u64) -> String {
    RATE.show(bytes_per_second.saturating_mul(8))
}

/// Parses `yes` or `no`. An option without a value means `yes`.
pub(crate) fn switch(text: &str) -> Option<bool> {
    match text {
        "yes" | "true" | "on" | "" => Some(true),
        "no" | "false" | "off" => Some(false),
        _ => None,
    }
}

pub(crate) fn show_switch(on: bool) -> String {
    if on { "yes" } else { "no" }.to_owned()
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

/// Parses a decimal number between `least` and `most`, in 10^-6.
pub(crate) fn ppm(text: &str, least: u64, most: u64) -> Option<u64> {
    let value = decimal(text, 6)?;
    (least..=most).contains(&value).then_some(value)
}

pub(crate) fn show_ppm(value: u64) -> String {
    show_decimal(value, 6)
}
