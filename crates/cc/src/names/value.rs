//! Values of options: decimal numbers as integers of a stated scale, durations, switches. No
//! floating point.

use crate::base::Duration;

/// A decimal number in units of 10^-`digits`, e.g. `0.0625` with 9 digits is 62 500 000. Further
/// digits must be 0.
pub(crate) fn decimal(text: &str, digits: u32) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let scale = 10u64.checked_pow(digits)?;
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let digits = usize::try_from(digits).ok()?;
    let (kept, dropped) = match fraction.split_at_checked(digits) {
        Some(parts) => parts,
        None => (fraction, ""),
    };
    if dropped.bytes().any(|b| b != b'0') {
        return None;
    }
    let mut value: u64 = if kept.is_empty() {
        0
    } else {
        kept.parse().ok()?
    };
    for _ in kept.len()..digits {
        value *= 10;
    }
    whole.checked_mul(scale)?.checked_add(value)
}

/// `value` × 10^-`digits` in the form that [`decimal`] reads, without needless zeros.
pub(crate) fn show_decimal(value: u64, digits: u32) -> String {
    let scale = 10u64.saturating_pow(digits);
    let (whole, fraction) = (value / scale, value % scale);
    if fraction == 0 {
        return whole.to_string();
    }
    let width = usize::try_from(digits).unwrap_or(0);
    let fraction = format!("{fraction:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

/// A time with its unit: `200ms`, `1.25s`, `10us`, `2min`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at_checked(unit_at)?;
    let nanos = match unit {
        "ns" => decimal(number, 0)?,
        "us" => decimal(number, 3)?,
        "ms" => decimal(number, 6)?,
        "s" => decimal(number, 9)?,
        "min" => decimal(number, 9)?.checked_mul(60)?,
        _ => return None,
    };
    Some(Duration::from_nanos(nanos))
}

/// A time in the form that [`duration`] reads.
pub(crate) fn show_duration(d: Duration) -> String {
    let nanos = crate::base::arith::nanos(d);
    if nanos >= 1_000_000_000 {
        format!("{}s", show_decimal(nanos, 9))
    } else if nanos >= 1_000_000 {
        format!("{}ms", show_decimal(nanos, 6))
    } else if nanos >= 1_000 {
        format!("{}us", show_decimal(nanos, 3))
    } else {
        format!("{nanos}ns")
    }
}

/// Units of rates, the largest first: bits per second and name.
const RATES: [(u64, u32, &str); 5] = [
    (1_000_000_000_000, 12, "Tbit"),
    (1_000_000_000, 9, "Gbit"),
    (1_000_000, 6, "Mbit"),
    (1_000, 3, "kbit"),
    (1, 0, "bit"),
];

/// A rate in bits per second, as bytes per second from 10^3 to 10^12: `10Mbit`, `2.5Gbit`,
/// `80kbit`.
pub(crate) fn rate(text: &str) -> Option<u64> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at_checked(unit_at)?;
    let unit = unit.strip_suffix("/s").unwrap_or(unit);
    let (_, digits, _) = RATES.iter().find(|(_, _, name)| *name == unit)?;
    let bytes = decimal(number, *digits)? / 8;
    (1_000..=1_000_000_000_000)
        .contains(&bytes)
        .then_some(bytes)
}

/// Bytes per second in the form that [`rate`] reads.
pub(crate) fn show_rate(bytes_per_second: u64) -> String {
    let bits = bytes_per_second.saturating_mul(8);
    let shown = RATES.iter().find(|(unit, _, _)| bits >= *unit);
    shown.map_or_else(
        || format!("{bits}bit"),
        |(_, digits, name)| format!("{}{name}", show_decimal(bits, *digits)),
    )
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
