//! Jain's index of fairness (Jain, Chiu, Hawe, DEC-TR-301, 1984).

/// (Σx)² / (n·Σx²) over the flows' rates: 1 if all are equal, 1/n if one has everything. 1 if
/// there are no flows or no rates.
pub fn jain(rates: impl IntoIterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for rate in rates {
        count += 1.0;
        sum += rate;
        squares += rate * rate;
    }
    if squares > 0.0 {
        sum * sum / (count * squares)
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        assert!((jain([5.0; 7]) - 1.0).abs() < 1e-12);
        assert!((jain([1.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
        assert!((jain([1.0, 2.0, 3.0]) - 36.0 / 42.0).abs() < 1e-12);
        assert!((jain([]) - 1.0).abs() < 1e-12);
        assert!((jain([0.0]) - 1.0).abs() < 1e-12);
    }
}
