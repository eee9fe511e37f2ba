//! The nearest known word.

/// The word of `known` that takes the fewest edits from `given`, if it looks meant (at most a third
/// of it wrong, or two letters).
#[must_use]
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|word| (distance(given, word), word))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, word)| *distance <= (word.len() / 3).max(2))
        .map(|(_, word)| word)
}

/// Levenshtein's distance in letters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (y, cell) in b.iter().zip(row.iter_mut().skip(1)) {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = *cell;
            left = replaced.min(diagonal + 1).min(left + 1);
            *cell = left;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        let known = ["rate", "delay", "queue", "frame_overhead"];
        assert_eq!(nearest("rte", known), Some("rate"));
        assert_eq!(nearest("frame-overhed", known), Some("frame_overhead"));
        assert_eq!(nearest("colour", known), None);
    }
}
