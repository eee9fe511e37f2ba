//! Numbers with units, parsed and printed exactly as integers.
//!
//! [`RATE`], [`TIME`] and [`BYTES`] are the units that all texts share. If you need to parse
//! further names, or to round differently, create your own [`Units`].

#[cfg(test)]
mod tests;

/// Handling of a number that isn't a multiple of the smallest unit, such as `1.5ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// Return an error.
    Exact,
    /// Round down to a multiple.
    Down,
    /// Round to the nearest multiple; a half rounds up.
    Nearest,
}

/// Reason why a text isn't a number with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError<'a> {
    /// The text before the unit isn't a decimal number.
    #[error("no number")]
    Number,
    /// The unit is unknown, or missing if the text is empty.
    #[error("no unit `{0}`")]
    Unit(&'a str),
    /// The number doesn't fit into the type of the result.
    #[error("the number is too large")]
    TooLarge,
    /// The number has a part below the smallest unit.
    #[error("the number has a part below the smallest unit")]
    Inexact,
}

/// Set of units for a quantity.
///
/// A text consists of a decimal number (`12`, `1.25`, `.5`, `5_000`) and a unit, with optional
/// spaces around and between these.
#[derive(Clone, Copy, Debug)]
pub struct Units {
    /// Names that [`Self::show`] prints and [`Self::read`] accepts, beginning with the largest.
    /// Each has its multiple of the smallest unit, which must be a power of ten.
    pub shown: &'static [(&'static str, u64)],
    /// Further names that [`Self::read`] accepts, in any order.
    pub read: &'static [(&'static str, u64)],
    /// Multiple of the smallest unit for a number without a unit, or `None` if this is an error.
    pub bare: Option<u64>,
    /// Optional suffix of any name, such as `/s`.
    pub ending: &'static str,
    /// True if 0 is accepted with any unit or without one.
    pub free_zero: bool,
    /// Handling of a part below the smallest unit.
    pub round: Round,
}

/// Nanoseconds per second.
pub const SECOND: u64 = 1_000_000_000;

/// Rates in bits per second: `10Mbit`, `2.5Gbit/s`, `300kbps`.
pub const RATE: Units = Units {
    read: &[
        ("Tbps", 1_000_000_000_000),
        ("Gbps", 1_000_000_000),
        ("Mbps", 1_000_000),
        ("kbps", 1_000),
        ("bps", 1),
    ],
    ending: "/s",
    ..Units::of(&[
        ("Tbit", 1_000_000_000_000),
        ("Gbit", 1_000_000_000),
        ("Mbit", 1_000_000),
        ("kbit", 1_000),
        ("bit", 1),
    ])
};

/// Times in nanoseconds: `200ms`, `1.25s`, `2min`.
pub const TIME: Units = Units {
    read: &[("h", 3_600 * SECOND), ("min", 60 * SECOND), ("µs", 1_000)],
    ..Units::of(&[("s", SECOND), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)])
};

/// Numbers of bytes: `500kB`, `64KiB`, `1500`.
pub const BYTES: Units = Units {
    read: &[("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)],
    bare: Some(1),
    ..Units::of(&[
        ("TB", 1_000_000_000_000),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("kB", 1_000),
        ("B", 1),
    ])
};

impl Units {
    /// Creates exact units with these names. A number without a unit is an error.
    pub const fn of(shown: &'static [(&'static str, u64)]) -> Self {
        Self {
            shown,
            read: &[],
            bare: None,
            ending: "",
            free_zero: false,
            round: Round::Exact,
        }
    }

    /// Creates units for exact numbers without a unit, in multiples of 1 / `one`.
    pub const fn bare(one: u64) -> Self {
        Self {
            bare: Some(one),
            ..Self::of(&[])
        }
    }

    /// Parses a quantity, and returns it in its smallest unit.
    ///
    /// # Errors
    /// Returns the first of these: an unknown unit, not a number, a part below the smallest unit,
    /// or a number that exceeds the type's maximum.
    pub fn read<'a, T: TryFrom<u128>>(&self, text: &'a str) -> Result<T, ReadError<'a>> {
        let text = text.trim();
        let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '_'));
        let parts = end.and_then(|end| text.split_at_checked(end));
        let (number, unit) = parts.unwrap_or((text, ""));
        let unit = unit.trim();
        let zero = !number.contains(|c| matches!(c, '1'..='9'));
        let free = (self.free_zero && zero).then_some(1);
        let one = self.one(unit).or(free).ok_or(ReadError::Unit(unit))?;
        let units = scaled(number, u128::from(one), self.round)?;
        T::try_from(units).map_err(|_| ReadError::TooLarge)
    }

    /// Returns the text that [`Self::read`] parses as `value`. It uses the largest unit that
    /// doesn't exceed the value, without trailing zeros.
    pub fn show(&self, value: u64) -> String {
        let fits = self.shown.iter().find(|(_, one)| *one <= value);
        let bare = ("", self.bare.unwrap_or(1));
        let (name, one) = *fits.or(self.shown.last()).unwrap_or(&bare);
        let digits = one.checked_ilog10().unwrap_or(0);
        format!("{}{name}", show_decimal(value, digits))
    }

    /// Returns the multiple of the smallest unit for `unit`.
    fn one(&self, unit: &str) -> Option<u64> {
        if unit.is_empty() {
            return self.bare;
        }
        let unit = unit.strip_suffix(self.ending).unwrap_or(unit);
        let mut names = self.shown.iter().chain(self.read);
        names.find(|(name, _)| *name == unit).map(|(_, one)| *one)
    }
}

/// Returns `number` × `one`.
fn scaled(number: &str, one: u128, round: Round) -> Result<u128, ReadError<'static>> {
    let digits = |part: &str| -> Vec<u128> {
        let digits = part.chars().filter_map(|c| c.to_digit(10));
        digits.map(u128::from).collect()
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let (whole, parts) = (digits(whole), digits(fraction));
    if fraction.contains('.') || whole.is_empty() && parts.is_empty() {
        return Err(ReadError::Number);
    }
    // 0.abc · one = (a · one + (b · one + c · one / 10) / 10) / 10. Rounding down each quotient
    // also rounds down the total.
    let (mut below, mut rest, mut exact) = (0, 0, true);
    for digit in parts.into_iter().rev() {
        let sum = digit * one + below;
        (below, rest) = (sum / 10, sum % 10);
        exact &= rest == 0;
    }
    match round {
        Round::Exact if !exact => return Err(ReadError::Inexact),
        Round::Nearest if rest >= 5 => below += 1,
        _ => {}
    }
    let append = |number: u128, digit| number.checked_mul(10)?.checked_add(digit);
    let whole = whole.into_iter().try_fold(0, append);
    let scaled = whole.and_then(|whole| whole.checked_mul(one)?.checked_add(below));
    scaled.ok_or(ReadError::TooLarge)
}

/// Returns `value` × 10^-`digits` without trailing zeros.
pub fn show_decimal(value: u64, digits: u32) -> String {
    let scale = 10u64.saturating_pow(digits);
    let (whole, fraction) = (value / scale, value % scale);
    if fraction == 0 {
        return whole.to_string();
    }
    let width = usize::try_from(digits).unwrap_or(0);
    let fraction = format!("{fraction:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}
