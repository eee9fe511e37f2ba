//! The values in a cell's name: `100M`, `80ms`, `8p`, `2+1`, `5%`.
//!
//! Each value has one spelling and bounds that keep a run affordable. A cell keeps its text.

use std::ops::RangeInclusive;
use std::str::FromStr;

use pathmark_cc::units::Units;

/// Error for a part of a name that does not parse as a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read `{given}` as {what}: write {example}")]
pub struct BadAxis {
    given: String,
    what: &'static str,
    example: String,
}

/// Names of units, the largest first, with their multiples of the smallest.
type Names = &'static [(&'static str, u64)];

/// What a value can be.
enum Form {
    /// A number with one of these units, within bounds in the smallest one.
    Number(&'static [(Names, RangeInclusive<u64>)]),
    /// `x3`, from 1 to 200.
    Count,
    /// Flows of ours and TCP flows on the same path: `2+1`.
    Mix,
    Words(&'static [&'static str]),
}

const TIME: Names = &[("s", 1_000_000), ("ms", 1000), ("us", 1)];
const RATE: Names = &[("G", 1_000_000), ("M", 1000), ("k", 1)];
/// Bounds of rates, kbit/s.
const RATES: RangeInclusive<u64> = 32..=2_000_000;
/// Maximum number of flows.
const MOST: u32 = 200;

/// Returns the form of the value with this name, its description, and an example. Words have no
/// other example than themselves.
fn form(value: &str) -> (Form, &'static str, &'static str) {
    match value {
        "rate" | "marked" | "hidden" => (
            Form::Number(&[(RATE, RATES)]),
            "a rate",
            "100M, 2500k or 1G, from 32k to 2G",
        ),
        // In permille.
        "per" | "share" => (
            Form::Number(&[(&[("%", 10)], 1..=500)]),
            "a share of packets",
            "5% or 0.1%, up to 50%",
        ),
        "size" => (
            Form::Number(&[(&[("kB", 1)], 1..=100_000)]),
            "a size",
            "30kB, up to 100000kB",
        ),
        "buffer" => (
            Form::Number(&[(&[("bdp", 10)], 1..=100), (&[("p", 1)], 1..=10_000)]),
            "a buffer",
            "8p, 1bdp or 0.1bdp",
        ),
        "flows" | "cross" => (Form::Mix, "flows of ours and TCP flows", "2+0 or 5+2"),
        "times" | "hops" | "long" | "mice" | "large" | "guests" => {
            (Form::Count, "a count", "x3, from x1 to x200")
        }
        "burst" => (Form::Words(&["single", "burst5"]), "how losses come", ""),
        "lossy" => (
            Form::Words(&["through", "begins", "ends"]),
            "when packets are lost",
            "",
        ),
        "declared" => (
            Form::Words(&["declared", "undeclared"]),
            "whether the loss is declared",
            "",
        ),
        // In microseconds.
        _ => (
            Form::Number(&[(TIME, 20..=60_000_000)]),
            "a time",
            "80ms, 200us or 5s, from 20us to 60s",
        ),
    }
}

/// Checks the text of the value with this name. Returns a number in its smallest unit, and the
/// number of our flows of a mix.
pub(super) fn read(value: &str, text: &str) -> Result<u64, BadAxis> {
    let (form, what, example) = form(value);
    let found = match &form {
        Form::Number(all) => (all.iter())
            .find_map(|(units, bounds)| number(units, text).filter(|n| bounds.contains(n))),
        Form::Count => (text.strip_prefix('x').and_then(whole))
            .filter(|count| (1..=MOST).contains(count))
            .map(u64::from),
        Form::Mix => mix(text)
            .filter(|[ours, tcp]| (1..=MOST).contains(ours) && *tcp <= MOST)
            .map(|[ours, _]| u64::from(ours)),
        Form::Words(words) => words.contains(&text).then_some(0),
    };
    found.ok_or_else(|| BadAxis {
        given: text.to_owned(),
        what,
        example: match form {
            Form::Words(words) => format!("one of: {}", words.join(" ")),
            _ => example.to_owned(),
        },
    })
}

/// Returns both numbers of a mix.
pub(super) fn mix(text: &str) -> Option<[u32; 2]> {
    let (ours, tcp) = text.split_once('+')?;
    Some([whole(ours)?, whole(tcp)?])
}

/// Parses a whole number without a sign or a leading zero.
fn whole(text: &str) -> Option<u32> {
    let number = u32::from_str(text).ok();
    number.filter(|number| number.to_string() == text)
}

/// Parses the only spelling of a number.
fn number(units: Names, text: &str) -> Option<u64> {
    let value = Units::of(units).read(text).ok();
    value.filter(|value| spelled(units, *value) == text)
}

/// Returns the only spelling of a number: a whole number of the largest possible unit, or a decimal
/// of the last one.
fn spelled(units: Names, value: u64) -> String {
    let whole = units.iter().position(|(_, one)| value.is_multiple_of(*one));
    let place = whole.unwrap_or(units.len() - 1);
    Units::of(units.get(place..=place).unwrap_or_default()).show(value)
}

/// Returns this share of a rate in kbit/s, but at least the lowest valid rate.
pub(super) fn percent(kbit: u64, percent: u64) -> u64 {
    (kbit * percent / 100).clamp(*RATES.start(), *RATES.end())
}

/// Returns this share of a rate, such as `95%` of `100M`.
pub(super) fn share(rate: &str, share: &str) -> Result<String, BadAxis> {
    let whole = share.strip_suffix('%').and_then(whole);
    let whole = whole.ok_or_else(|| BadAxis {
        given: share.to_owned(),
        what: "a share",
        example: "5%".to_owned(),
    })?;
    let kbit = percent(read("rate", rate)?, u64::from(whole));
    Ok(spelled(RATE, kbit))
}
