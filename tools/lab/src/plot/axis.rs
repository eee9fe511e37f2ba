//! Axes, linear or logarithmic. Lines are clipped to them, because a point beyond an axis must not
//! be drawn as if it were on the border.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;

/// Space for 0 to the left of the least positive value, as a share of a logarithmic axis.
const ROOM_FOR_ZERO: f64 = 0.08;

/// If values are 0, a logarithmic axis begins with a separate tick for 0.
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

    /// Returns a logarithmic axis from the least positive value to `most` if their ratio is above
    /// `ratio`.
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

/// A line cut at the ends of the axes.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Clipped {
    /// The parts within the axes, in order.
    pub(super) parts: Vec<Vec<(f64, f64)>>,
    /// The position and height of the highest point of each part above the axis.
    pub(super) above: Vec<(f64, f64)>,
}

/// Cuts a line, ordered by x, at `x_max` and `y_max`.
pub(super) fn clip(points: &[(f64, f64)], x_max: f64, y_max: f64) -> Clipped {
    let mut clipped = Clipped::default();
    let mut part = Vec::new();
    let mut peak: Option<(f64, f64)> = None;
    let mut last: Option<(f64, f64)> = None;
    for &(x, y) in points.iter().filter(|(x, _)| *x <= x_max) {
        let crossing = last.map(|last| (along(last, (x, y), y_max), y_max));
        if y > y_max {
            if peak.is_none() {
                part.extend(crossing);
            }
            if !part.is_empty() {
                clipped.parts.push(std::mem::take(&mut part));
            }
            if peak.is_none_or(|(_, highest)| y > highest) {
                peak = Some((x, y));
            }
        } else {
            if let Some(peak) = peak.take() {
                clipped.above.push(peak);
                part.extend(crossing);
            }
            part.push((x, y));
        }
        last = Some((x, y));
    }
    clipped.above.extend(peak);
    if !part.is_empty() {
        clipped.parts.push(part);
    }
    clipped
}

/// Returns where a line from `a` to `b` has the height `y`.
fn along(a: (f64, f64), b: (f64, f64), y: f64) -> f64 {
    a.0 + (b.0 - a.0) * (y - a.1) / (b.1 - a.1)
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

    #[test]
    fn a_line_is_cut_where_it_leaves_and_comes_back() {
        let points = [(0.0, 0.0), (1.0, 4.0), (2.0, 6.0), (4.0, 0.0), (9.0, 1.0)];
        let clipped = clip(&points, 5.0, 2.0);
        assert_eq!(clipped.above, [(2.0, 6.0)]);
        let (first, second) = (&clipped.parts[0], &clipped.parts[1]);
        assert_eq!(*first, [(0.0, 0.0), (0.5, 2.0)]);
        assert_eq!(second.last(), Some(&(4.0, 0.0)));
        assert!((second[0].0 - 10.0 / 3.0).abs() < 1e-12 && (second[0].1 - 2.0).abs() < 1e-12);
    }

    #[test]
    fn what_lies_within_stays_and_what_lies_above_is_named() {
        let points = [(0.0, 1.0), (1.0, 2.0)];
        assert_eq!(clip(&points, 1.0, 2.0).parts, [points.to_vec()]);
        assert!(clip(&points, 1.0, 2.0).above.is_empty());
        let clipped = clip(&[(0.0, 9.0), (1.0, 8.0)], 1.0, 2.0);
        assert_eq!((clipped.parts.len(), clipped.above), (0, vec![(0.0, 9.0)]));
        assert_eq!(clip(&[], 1.0, 1.0), Clipped::default());
    }
}
