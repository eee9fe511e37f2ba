//! Lines with words that this project avoids.

/// A number, a field's name or a plain noun says more.
const AVOIDED: [&str; 11] = [
    "so many", "so much", "whoever", "nobody", "somebody", "anybody", "told", "anew", "of late",
    "word of", "beside",
];

/// Lines of `text` with one of them.
pub(super) fn lines(text: &str) -> usize {
    let avoided = |line: &&str| {
        let line = line.to_lowercase();
        AVOIDED.iter().any(|phrase| has(&line, phrase))
    };
    text.lines().filter(avoided).count()
}

/// True if the line has the phrase between other characters than letters.
fn has(line: &str, phrase: &str) -> bool {
    line.match_indices(phrase).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line
            .get(at + phrase.len()..)
            .and_then(|text| text.chars().next());
        !before.is_some_and(char::is_alphabetic) && !after.is_some_and(char::is_alphabetic)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_count_once_per_line() {
        assert_eq!(
            lines("It is told of nobody.\nBesides, a foretold end.\n// Beside it."),
            2
        );
    }
}
