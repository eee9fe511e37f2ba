//! What of a line lies within the axes. Nothing beyond them is drawn as if it lay on the border.

/// A line cut at the ends of the axes.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Clipped {
    /// Its parts within, in order.
    pub(super) parts: Vec<Vec<(f64, f64)>>,
    /// The highest point of each part above the axis: where, and how high.
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

/// Where a line from `a` to `b` has the height `y`.
fn along(a: (f64, f64), b: (f64, f64), y: f64) -> f64 {
    a.0 + (b.0 - a.0) * (y - a.1) / (b.1 - a.1)
}

#[cfg(test)]
mod tests {
    use super::*;

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
