//! The nearest known word.

/// Returns the entry of `known` with the smallest edit distance from `given`, if it is at most
/// two letters or a third of the word.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|word| (strsim::levenshtein(given, word), word))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, word)| *distance <= (word.len() / 3).max(2))
        .map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant() {
        let known = ["rate", "delay", "queue", "frame_overhead"];
        assert_eq!(nearest("rte", known), Some("rate"));
        assert_eq!(nearest("frame-overhed", known), Some("frame_overhead"));
        assert_eq!(nearest("colour", known), None);
    }
}
