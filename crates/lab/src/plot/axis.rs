//! Axes: linear, or logarithmic if values span decades.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;

/// Room left of the least positive value for 0, as a share of a logarithmic axis.
const ROOM_FOR_ZERO: f64 = 0.08;

/// A logarithmic axis has 0 as a tick of its own at its beginning if values are 0.
pub(super) struct Axis {
    /// In decades if the axis is logarithmic.
    places: RangedCoordf64,
    /// Of a logarithmic axis.
    ticks: Option<Vec<f64>>,
}

impl Axis {
    pub(super) fn linear(range: Range<f64>) -> Self {
        Self {
            places: range.into(),
            ticks: None,
        }
    }

    /// A logarithmic axis from the least positive value to `most`, if their ratio is above `ratio`.
    pub(super) fn log(
        values: impl Iterator<Item = f64> + Clone,
        most: f64,
        ratio: f64,
    ) -> Option<Self> {
        let positive = values.clone().filter(|value| *value > 0.0);
        let least = positive.fold(f64::INFINITY, f64::min);
        if most / least <= ratio {
            return None;
        }
        let has_zero = values.into_iter().any(|value| value <= 0.0);
        let (first, last) = (least.log10(), most.log10());
        let room = if has_zero { ROOM_FOR_ZERO } else { 0.0 };
        let powers = first.ceil() as i32..=last.floor() as i32;
        let ticks = powers.map(|power| 10f64.powi(power));
        Some(Self {
            places: (first - room * (last - first)..last).into(),
            ticks: Some(has_zero.then_some(0.0).into_iter().chain(ticks).collect()),
        })
    }

    pub(super) const fn is_log(&self) -> bool {
        self.ticks.is_some()
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let place = match self.is_log() {
            true => value.max(0.0).log10().max(self.places.range().start),
            false => *value,
        };
        self.places.map(&place, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let ticks = self.ticks.clone();
        ticks.unwrap_or_else(|| self.places.key_points(hint))
    }

    fn range(&self) -> Range<f64> {
        let Range { start, end } = self.places.range();
        match self.is_log() {
            true => 10f64.powf(start)..10f64.powf(end),
            false => start..end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_has_a_tick_left_of_the_decades() {
        let axis = |values: &[f64]| Axis::log(values.iter().copied(), 0.1, 40.0);
        assert!(axis(&[0.0, 0.0025]).is_none(), "linear up to the ratio");
        let axis = axis(&[0.0, 1e-4, 0.05]).unwrap();
        assert_eq!(
            axis.ticks.as_deref(),
            Some(&[0.0, 1e-4, 1e-3, 0.01, 0.1][..])
        );
        let places = [0.0, 1e-4, 1e-3, 0.1].map(|value| axis.map(&value, (0, 1080)));
        assert_eq!(places, [0, 80, 413, 1080]);
    }
}
