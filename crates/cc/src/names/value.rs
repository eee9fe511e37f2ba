//! Values of options: decimal numbers as integers of a stated scale, quantities, switches. No
//! floating point.

use crate::base::Duration;
use crate::base::arith::nanos;
pub(super) use crate::units::show_decimal;
use crate::units::{RATE, TIME, Units};

/// A decimal number in units of 10^-`digits`, e.g. `0.0625` with 9 digits is 62 500 000. Further
/// digits must be 0.
pub(crate) fn decimal(text: &str, digits: u32) -> Option<u64> {
    Units::bare(10u64.checked_pow(digits)?).read(text).ok()
}

/// A time with its unit: `200ms`, `1.25s`, `10us`, `2min`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    TIME.read(text).ok().map(Duration::from_nanos)
}

/// A time in the form that [`duration`] reads.
pub(crate) fn show_duration(d: Duration) -> String {
    TIME.show(nanos(d))
}

/// A rate in bits per second, as bytes per second from 10^3 to 10^12: `10Mbit`, `2.5Gbit`,
/// `80kbit`.
pub(crate) fn rate(text: &str) -> Option<u64> {
    let bytes = RATE.read::<u64>(text).ok()? / 8;
    (1_000..=1_000_000_000_000)
        .contains(&bytes)
        .then_some(bytes)
}

/// Bytes per second in the form that [`rate`] reads.
pub(crate) fn show_rate(bytes_per_second: u64) -> String {
    RATE.show(bytes_per_second.saturating_mul(8))
}

/// `yes` or `no`; an option without a value means `yes`.
pub(crate) fn switch(text: &str) -> Option<bool> {
    match text {
        "yes" | "true" | "on" | "" => Some(true),
        "no" | "false" | "off" => Some(false),
        _ => None,
    }
}

/// A switch in the form that [`switch`] reads.
pub(crate) fn show_switch(on: bool) -> String {
    if on { "yes" } else { "no" }.to_owned()
}

/// Letters of a word that [`nearest`] reads at most.
const MOST_LETTERS: usize = 48;

/// The candidate that takes the fewest edits (insert, delete, replace) to become `given`; ties: the
/// first.
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

/// A decimal number in 10^-6 between `least` and `most`.
pub(crate) fn ppm(text: &str, least: u64, most: u64) -> Option<u64> {
    let value = decimal(text, 6)?;
    (least..=most).contains(&value).then_some(value)
}

/// A number in 10^-6 in the form that [`ppm`] reads.
pub(crate) fn show_ppm(value: u64) -> String {
    show_decimal(value, 6)
}
