//! Forms that this project avoids in prose, each with its rewrite.

/// Most words of a sentence.
const MOST_WORDS: usize = 35;
/// Most figures of a sentence; a table has more.
const MOST_FIGURES: usize = 3;

/// Phrases, and what says the same.
const PHRASES: [(&str, &str); 30] = [
    ("so many", "a count, or `as many`"),
    ("so much", "an amount, or `as much`"),
    ("so long as", "`while`, or `if`"),
    ("whoever", "a noun: `a host that`"),
    ("nobody", "a noun: `no host`, `no application`"),
    ("somebody", "a noun: `a host`, `an operator`"),
    ("anybody", "a noun: `any host`"),
    ("everybody", "a noun: `all hosts`"),
    ("is told", "`receives`, `reads`, `learns`"),
    ("are told", "`receive`, `read`, `learn`"),
    ("was told", "`received`, `read`, `learned`"),
    ("were told", "`received`, `read`, `learned`"),
    ("be told", "`receive`, `read`, `learn`"),
    ("told", "`reported`, `advertised`, `configured`"),
    ("anew", "`again`, or a verb with `re-`"),
    ("of late", "`recently`, or a time"),
    ("word of", "`a report of`, `a message about`"),
    ("beside", "`next to`, `compared with`, `as well as`"),
    ("besides", "`also`, `in addition to`"),
    ("by turns", "`alternately`"),
    ("in the mean", "`on average`"),
    ("tried and not taken", "nothing: git has the history"),
    ("not looked into", "`cause unknown`, with an issue"),
    ("busy machine", "a figure of an idle machine"),
    ("load average", "a figure of an idle machine"),
    ("none is no", "the positive form"),
    ("less than nothing", "`negative`"),
    ("becomes of", "`happens to`, or the result itself"),
    ("came of it", "the result itself"),
    ("for good", "`permanently`"),
];

/// First words of a clause without a noun.
const HEADLESS: [&str; 5] = ["what", "who", "whatever", "whichever", "whom"];
/// First words of a sentence that begins with its object or place.
const FRONTED: [&str; 3] = ["of", "behind", "beside"];
/// Numbers after these words are names.
const NAMES: [&str; 19] = [
    "RFC",
    "RFCs",
    "section",
    "sections",
    "eq.",
    "equation",
    "equations",
    "figure",
    "figures",
    "Figure",
    "Figures",
    "table",
    "Linux",
    "version",
    "page",
    "pages",
    "volume",
    "kind",
    "type",
];

/// Lines of `text` with a phrase to avoid.
pub(super) fn lines(text: &str) -> usize {
    let avoided = |line: &&str| phrases(&line.to_lowercase()).next().is_some();
    text.lines().filter(avoided).count()
}

/// The phrases to avoid in `text` of lower case, each with its rewrite, in the order of
/// [`PHRASES`]: a longer phrase stands before one that it contains.
fn phrases(text: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let found = PHRASES.iter().filter(move |(phrase, _)| has(text, phrase));
    found.copied()
}

/// A kind of text: headings, cells of tables and labels have no first word of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Sentences.
    Prose,
    /// A heading or a cell of a table.
    Label,
    /// Help, an error or a log line: its figures may be examples of units.
    Message,
}

/// What to rewrite in `text`: a line for each fault.
pub(super) fn faults(text: &str, kind: Kind) -> Vec<String> {
    let mut faults = Vec::new();
    for sentence in sentences(text) {
        let lower = sentence.to_lowercase();
        let mut fault = |what: String| {
            let start: String = sentence.chars().take(70).collect();
            faults.push(format!("{start}: {what}"));
        };
        if let Some((phrase, write)) = phrases(&lower).next() {
            fault(format!("`{phrase}`; write {write}"));
        }
        if kind == Kind::Label {
            continue;
        }
        if headless(&lower) {
            fault("no noun at the start of a clause; write `data that`, `a host that`".to_owned());
        }
        if fronted(sentence) {
            fault("object or place first; write subject, verb, object".to_owned());
        }
        let words = sentence.split_whitespace().filter(|word| is_word(word));
        let words = words.count();
        if words > MOST_WORDS {
            fault(format!("{words} words; split it, at most {MOST_WORDS}"));
        }
        let figures = figures(sentence);
        if figures > MOST_FIGURES && kind == Kind::Prose {
            fault(format!(
                "{figures} figures; make a table, at most {MOST_FIGURES}"
            ));
        }
    }
    faults
}

fn is_word(word: &str) -> bool {
    word.contains(char::is_alphanumeric)
}

/// The sentences of a paragraph, each with the mark at its end.
pub(super) fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut from = 0;
    for (at, mark) in text.char_indices().filter(|(_, c)| ".!?".contains(*c)) {
        let end = at + mark.len_utf8();
        let (Some(sentence), Some(rest)) = (text.get(from..end), text.get(end..)) else {
            continue;
        };
        let next = rest.trim_start_matches([')', '"', '\'', '”', '*']);
        let begins = next.trim_start().chars().next();
        let apart = next.starts_with(char::is_whitespace);
        let begins = begins.is_none_or(|c| c.is_uppercase() || "`(\"“*".contains(c));
        if apart && begins && !is_abbreviation(sentence) {
            sentences.push(sentence.trim());
            from = end;
        }
    }
    sentences.extend(text.get(from..).map(str::trim));
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

/// True if the last word is one that a full stop does not end a sentence after.
fn is_abbreviation(sentence: &str) -> bool {
    let last = sentence.rsplit([' ', '(']).next().unwrap_or("");
    let known = ["e.g.", "i.e.", "al.", "eq.", "vs.", "No.", "Fig.", "cf."];
    known.contains(&last) || last.chars().count() == 2 && last.starts_with(char::is_uppercase)
}

/// True if a clause of the sentence in lower case begins with a relative without a noun.
fn headless(sentence: &str) -> bool {
    if sentence.ends_with('?') {
        return false;
    }
    let starts = |clause: &str| {
        let first = clause.split_whitespace().next().unwrap_or("");
        HEADLESS.contains(&first) && clause.split_whitespace().nth(1).is_some()
    };
    starts(sentence) || sentence.split("; ").skip(1).any(starts)
}

/// True if the sentence begins with a place or an object: `Of several servers`, `Behind a law, `.
fn fronted(sentence: &str) -> bool {
    let mut words = sentence.split_whitespace();
    let first = words.next().unwrap_or("");
    let second = words.next().unwrap_or("");
    let known = FRONTED.contains(&first.to_lowercase().as_str());
    let capital = first.starts_with(char::is_uppercase);
    let begins = known && capital && second != "course";
    begins && (first == "Of" || sentence.chars().take(60).any(|c| c == ','))
}

/// Numbers of a sentence that are no names such as RFC 9000.
fn figures(sentence: &str) -> usize {
    let mut named = false;
    let mut count = 0;
    for word in sentence.split_whitespace() {
        let bare = word.trim_start_matches(['(', '±', '<', '>', '≥', '≤', '~', '−', '-', '+', '×']);
        let number = bare.starts_with(|c: char| c.is_ascii_digit());
        count += usize::from(number && !named);
        // `equations 5, 6 and 7` are three names.
        let goes_on = number || ["and", "to", "or"].contains(&word);
        named = NAMES.contains(&bare) || named && goes_on;
    }
    count
}

/// True if the text has the phrase between other characters than letters.
fn has(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(at, _)| {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let after = text
            .get(at + phrase.len()..)
            .and_then(|text| text.chars().next());
        !before.is_some_and(char::is_alphabetic) && !after.is_some_and(char::is_alphabetic)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prose(text: &str) -> Vec<String> {
        faults(text, Kind::Prose)
    }

    #[test]
    fn whole_words_count_once_per_line() {
        let text = "It is told of nobody.\nBesidesx, a foretold end.\n// Beside it.";
        assert_eq!(lines(text), 2);
    }

    #[test]
    fn a_fault_names_the_rewrite() {
        let faults = prose("The sender begins anew after that. It works.");
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].contains("write `again`"), "{faults:?}");
        for phrase in [
            "so many packets",
            "a loss of late",
            "in the mean",
            "is told",
        ] {
            let text = format!("The port has {phrase} here.");
            assert_eq!(prose(&text).len(), 1, "{text}");
        }
    }

    #[test]
    fn clauses_begin_with_a_noun() {
        for text in [
            "What is lost twice goes in two packets.",
            "Who hears HIGH makes no cut.",
            "The port marks; what it marks counts.",
            "It ends. Whatever comes later is dropped.",
        ] {
            assert!(!prose(text).is_empty(), "{text}");
        }
        for text in [
            "Data lost twice goes in two packets.",
            "What is a shim?",
            "The receiver counts what it reads.",
            "What",
        ] {
            assert_eq!(prose(text), [""; 0], "{text}");
        }
        assert_eq!(faults("What a sender writes", Kind::Label), [""; 0]);
        assert_eq!(faults("Beside TCP", Kind::Label).len(), 1);
    }

    #[test]
    fn sentences_begin_with_their_subject() {
        for text in [
            "Of several servers the times differ.",
            "Behind a law, `@` names a port.",
        ] {
            assert!(!prose(text).is_empty(), "{text}");
        }
        for text in [
            "Of course it ends.",
            "Times of several servers differ.",
            "Offers end.",
        ] {
            assert_eq!(prose(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn long_sentences_are_split() {
        let words = |count: usize| format!("A {}end.", "word ".repeat(count - 2));
        assert_eq!(prose(&words(35)), [""; 0]);
        assert_eq!(prose(&words(36)).len(), 1);
        let two = format!("{} {}", words(30), words(30));
        assert_eq!(prose(&two), [""; 0]);
        assert_eq!(
            sentences("See e.g. RED. Y. Xia (v. 1.2) ends! `a` 3.5 b"),
            ["See e.g. RED.", "Y. Xia (v. 1.2) ends!", "`a` 3.5 b"]
        );
    }

    #[test]
    fn three_figures_are_enough() {
        assert_eq!(prose("It takes 3 s, 4 s and 5 s."), [""; 0]);
        assert_eq!(prose("It takes 3 s, 4 s, 5 s and (6) s.").len(), 1);
        let names = "RFC 9000, RFC 9001 and RFC 9002 (section 3, equations 5, 6 and 7) have 2.";
        assert_eq!(figures(names), 1);
    }
}
