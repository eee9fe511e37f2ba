//! Tests with known values, and of parsing printed values.

use proptest::prelude::*;

use super::*;

const DOWN: Units = Units {
    round: Round::Down,
    free_zero: true,
    ..TIME
};
const NEAREST: Units = Units {
    round: Round::Nearest,
    bare: Some(SECOND),
    ..TIME
};

const LONG: &str = "1.0000000000000000000000000000000000000000000s";

#[test]
fn known_answers() {
    for (units, text, value) in [
        (RATE, "10Mbit", 10_000_000),
        (RATE, "2.5Gbit/s", 2_500_000_000),
        (RATE, " 300 kbps ", 300_000),
        (RATE, "1_000bps/s", 1_000),
        (RATE, "18446744.073709551615Tbit", u64::MAX),
        (TIME, "1.25s", 1_250_000_000),
        (TIME, ".5us", 500),
        (TIME, "5.ns", 5),
        (TIME, "2min", 120_000_000_000),
        (TIME, "0.5h", 1_800_000_000_000),
        (TIME, "50 µs", 50_000),
        (TIME, LONG, SECOND),
        (BYTES, "1500", 1_500),
        (BYTES, "64KiB", 65_536),
        (BYTES, "0.0009765625 KiB", 1),
        (BYTES, "500kB", 500_000),
        (BYTES, "9_007_199_254_740_993", (1 << 53) + 1),
        (DOWN, "1.999ns", 1),
        (DOWN, "0", 0),
        (DOWN, "0.0 parsecs", 0),
        (NEAREST, "1.4999999999999999999999999ns", 1),
        (NEAREST, "1.5ns", 2),
        (NEAREST, "30", 30 * SECOND),
        (Units::bare(SECOND), "0.0625", 62_500_000),
    ] {
        assert_eq!(units.read(text), Ok(value), "{text}");
    }
}

#[test]
fn errors_tell_what_is_wrong() {
    for (units, text, error) in [
        (RATE, "10", ReadError::Unit("")),
        (RATE, "10MB", ReadError::Unit("MB")),
        (RATE, "10mbit", ReadError::Unit("mbit")),
        (RATE, "10Mbit/s/s", ReadError::Unit("Mbit/s/s")),
        (RATE, "-1Mbit", ReadError::Unit("-1Mbit")),
        (RATE, "Mbit", ReadError::Number),
        (RATE, "1.2.3Mbit", ReadError::Number),
        (RATE, "0.5bit", ReadError::Inexact),
        (RATE, "18446744.073709551616Tbit", ReadError::TooLarge),
        (TIME, "1e3s", ReadError::Unit("e3s")),
        (TIME, "0", ReadError::Unit("")),
        (DOWN, "", ReadError::Number),
        (DOWN, "0.0000000001", ReadError::Unit("")),
        (BYTES, "", ReadError::Number),
        (BYTES, ".", ReadError::Number),
        (BYTES, "_B", ReadError::Number),
        (BYTES, "64K", ReadError::Unit("K")),
    ] {
        assert_eq!(units.read::<u64>(text), Err(error), "{text}");
    }
    let long = "9".repeat(40);
    assert_eq!(BYTES.read::<u128>(&long), Err(ReadError::TooLarge));
    assert_eq!(BYTES.read::<u8>("256"), Err(ReadError::TooLarge));
}

#[test]
fn values_are_shown_in_the_largest_unit() {
    for (units, value, text) in [
        (RATE, 0, "0bit"),
        (RATE, 1_234_567, "1.234567Mbit"),
        (RATE, 80_000, "80kbit"),
        (TIME, 0, "0ns"),
        (TIME, 100_000_000, "100ms"),
        (TIME, 90 * SECOND, "90s"),
        (BYTES, 1_500, "1.5kB"),
        (Units::bare(SECOND), 62_500_000, "0.0625"),
        (Units::bare(1), 7, "7"),
    ] {
        assert_eq!(units.show(value), text);
    }
    for units in [RATE, TIME, BYTES] {
        let mut ones = units.shown.iter().map(|(_, one)| *one);
        assert!(
            ones.clone()
                .is_sorted_by(|larger, smaller| larger > smaller)
        );
        assert!(ones.clone().all(|one| one == 10u64.pow(one.ilog10())));
        assert_eq!(ones.next_back(), Some(1));
    }
}

proptest! {
    #[test]
    fn what_is_shown_reads_back(value: u64, shift in 0u32..64) {
        let value = value >> shift;
        for units in [RATE, TIME, BYTES, DOWN, NEAREST, Units::bare(1_000_000)] {
            let shown = units.show(value);
            prop_assert_eq!(units.read(&shown), Ok(value));
        }
    }

    /// Compares with a single product of wide integers.
    #[test]
    fn fractions_are_exact(whole in 0u64..1 << 40, nanos in 0u64..SECOND, one in 1u64..1 << 40) {
        let text = format!("{whole}.{nanos:09}");
        let number = u128::from(whole) * u128::from(SECOND) + u128::from(nanos);
        let (product, second) = (number * u128::from(one), u128::from(SECOND));
        let units = |round| Units { round, ..Units::bare(one) };
        prop_assert_eq!(units(Round::Down).read(&text), Ok(product / second));
        prop_assert_eq!(units(Round::Nearest).read(&text), Ok((product + second / 2) / second));
        let exact = product.is_multiple_of(second);
        let expected = if exact { Ok(product / second) } else { Err(ReadError::Inexact) };
        prop_assert_eq!(units(Round::Exact).read(&text), expected);
    }

    /// Any text, usually similar to a quantity, must not panic, and a parsed value must survive
    /// printing and parsing.
    #[test]
    fn any_text_is_an_error_or_a_value(
        text in prop_oneof![
            any::<String>(),
            "[ ]?[0-9._]{0,50}[ ]?(|[kMGT]?(bit|bps)(/s)?|[num]?s|µs|min|h|[kMG]i?B|B|\\PC{0,3})",
        ],
    ) {
        for units in [RATE, TIME, BYTES, DOWN, NEAREST, Units::bare(1_000)] {
            if let Ok(value) = units.read::<u64>(&text) {
                let shown = units.show(value);
                prop_assert_eq!(units.read(&shown), Ok(value));
                prop_assert_eq!(units.read(&text), Ok(u128::from(value)));
            }
        }
    }
}
