//! Claims: measured figures of the README and the book without a source.
//!
//! A *figure* is a number with a unit of rate, time, size or share, outside of code. It reads as a
//! *result* in three cases:
//!
//! - It has a decimal fraction: `22.8 s`. Options and limits are round, or stand in code.
//! - Its sentence has a word of outcome or comparison (`took`, `lost`, `faster`: [`OUTCOMES`]).
//! - It begins a cell, not the first of its row, of a table that has no column `default`. Numbers
//!   with a fraction need no unit there.
//!
//! A section reaches from one heading to the next. A section with a result names a *source*:
//!
//! - a command that prints it, in a block or in code: `cargo run`, `test` or `bench`, and
//!   `pathmark emulate`, `compare`, `demo` or `get`, and the judges' scripts. A test, example,
//!   bench or scenario that the command names exists;
//! - a test: a path below `tests`, a file `tests.rs`, or the name of a test, in code;
//! - a link to a generated page, below `evidence/figures`;
//! - a paper, RFC or draft with its section, figure, table or equation, in one sentence.
//!
//! The tool does not know whether the source prints the figure: the author checks that.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::words::sentences;

const UNITS: [&str; 42] = [
    "%", "B", "B/s", "bit/s", "bytes", "day", "days", "drops", "GB", "GiB", "Gbit/s", "hour",
    "hours", "kB", "kB/s", "KiB", "kbit/s", "M/s", "MB", "MB/s", "MiB", "Mbit/s", "minute",
    "minutes", "ms", "ns", "packets", "percent", "round", "RTT", "RTTs", "s", "second", "seconds",
    "TB", "times", "us", "x", "×", "µs", "μs", "Tbit/s",
];
/// Words of sentences that report an outcome.
const OUTCOMES: [&str; 18] = [
    "against",
    "compared",
    "completes",
    "continues",
    "delivered",
    "faster",
    "gets",
    "got",
    "grew",
    "had",
    "instead",
    "lost",
    "loses",
    "measured",
    "slower",
    "took",
    "takes",
    "utilization",
];
/// Beginnings of commands that print figures.
const COMMANDS: [&str; 8] = [
    "cargo run",
    "cargo test",
    "cargo bench",
    "pathmark emulate",
    "pathmark compare",
    "pathmark demo",
    "pathmark get",
    "judges/",
];
const PAPERS: [&str; 6] = ["RFC", "draft-", "paper", "VCP-", "XCP-", "NSDI"];
const PLACES: [&str; 6] = ["section", "§", "eq.", "equation", "figure", "table"];

/// What sources may name.
pub(super) struct Known {
    files: BTreeSet<PathBuf>,
    /// Names of tests.
    tests: BTreeSet<String>,
}

impl Known {
    pub(super) fn of(root: &Path, files: &[PathBuf]) -> Result<Self> {
        let mut tests = BTreeSet::new();
        let rust = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "rs");
        for path in files.iter().filter(rust) {
            let text = fs::read_to_string(root.join(path))?;
            let mut test = false;
            for line in text.lines().map(str::trim_start) {
                if line.starts_with("#[") {
                    test |= line.contains("test]") || line.contains("test(");
                } else if let Some((_, name)) = line.split_once("fn ").filter(|_| test) {
                    tests.extend(name.split('(').next().map(str::to_owned));
                    test = false;
                }
            }
        }
        let files = files.iter().cloned().collect();
        Ok(Self { files, tests })
    }

    /// True if `code`, a code block or a span, prints or tests figures.
    fn is_source(&self, code: &str) -> bool {
        let command = code.lines().map(str::trim_start).any(|line| {
            COMMANDS.iter().any(|command| line.contains(command)) && self.has_targets(line)
        });
        let path = Path::new(code);
        let in_tests = path.iter().any(|part| part == "tests") || path.ends_with("tests.rs");
        let name = code.rsplit("::").next().unwrap_or(code);
        command
            || in_tests && self.files.iter().any(|file| file.starts_with(path))
            || name.contains('_') && self.tests.contains(name)
    }

    /// True if tests, examples, benches and scenarios that the command names exist.
    fn has_targets(&self, command: &str) -> bool {
        let words: Vec<&str> = command.split_whitespace().collect();
        let exists = |stem: &str| {
            let named = |path: &PathBuf| {
                path.file_stem().is_some_and(|name| name == stem)
                    || path.iter().rev().nth(1).is_some_and(|name| name == stem)
            };
            self.files.iter().any(named)
        };
        words.windows(2).all(|pair| match pair {
            ["--test" | "--example" | "--bench", name] => exists(name),
            ["emulate", name] if name.starts_with(char::is_alphabetic) => exists(name),
            _ => true,
        })
    }
}

/// A section of a page.
#[derive(Default)]
struct Section {
    /// Lines and starts of blocks with results.
    results: Vec<(usize, String)>,
    sourced: bool,
}

/// Results without a source in the page `text`, each with its line.
pub(super) fn of_page(text: &str, known: &Known) -> Vec<(usize, String)> {
    let line = |at: usize| {
        text.get(..at)
            .map_or(1, |before| before.matches('\n').count() + 1)
    };
    let mut found = Vec::new();
    let mut section = Section::default();
    // The text of a paragraph, an item or a cell, and of a block of code.
    let (mut block, mut code) = (String::new(), None::<String>);
    let (mut from, mut column) = (0, 0);
    let (mut heading, mut in_table, mut settings) = (false, false, false);
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { .. }) => {
                found.append(&mut std::mem::take(&mut section).unsourced());
                heading = true;
            }
            Event::Start(Tag::CodeBlock(_)) => code = Some(String::new()),
            Event::End(TagEnd::CodeBlock) => {
                section.sourced |= known.is_source(&code.take().unwrap_or_default());
            }
            Event::Code(span) => {
                section.sourced |= known.is_source(&span.replace('\n', " "));
                block.push('`');
            }
            Event::Text(more) => code.as_mut().unwrap_or(&mut block).push_str(&more),
            Event::SoftBreak | Event::HardBreak => block.push(' '),
            Event::Start(Tag::Link { dest_url, .. }) => {
                section.sourced |= dest_url.contains("figures/");
            }
            Event::Start(Tag::Table(_)) => (in_table, settings) = (true, false),
            Event::End(TagEnd::Table) => in_table = false,
            Event::Start(Tag::TableHead | Tag::TableRow) => column = 0,
            Event::Start(Tag::Paragraph | Tag::Item | Tag::TableCell) => {
                block.clear();
                from = range.start;
            }
            Event::End(
                TagEnd::Heading(_) | TagEnd::Paragraph | TagEnd::Item | TagEnd::TableCell,
            ) => {
                let ended = std::mem::take(&mut block);
                settings |= in_table && ended.trim() == "default";
                section.sourced |= sentences(&ended).iter().any(|sentence| cites(sentence));
                let result = match in_table {
                    true => column > 0 && !settings && begins_with_result(&ended),
                    false => sentences(&ended).iter().any(|sentence| reports(sentence)),
                };
                if result && !heading {
                    section
                        .results
                        .push((line(from), ended.chars().take(60).collect()));
                }
                heading = false;
                column += 1;
            }
            _ => {}
        }
    }
    found.append(&mut section.unsourced());
    found
}

impl Section {
    fn unsourced(self) -> Vec<(usize, String)> {
        match self.sourced {
            true => Vec::new(),
            false => self.results,
        }
    }
}

/// A number at the start of `word`, and what follows it: `10` and `ms` of `(10ms,`.
fn number(word: &str) -> Option<(&str, &str)> {
    let word = word.trim_start_matches(|c: char| "(±<>≥≤~−-+×".contains(c));
    let end = word
        .find(|c: char| !c.is_ascii_digit() && !".,".contains(c))
        .unwrap_or(word.len());
    let (digits, rest) = word.split_at_checked(end)?;
    let bare = digits.trim_end_matches(['.', ',']);
    let rest = if bare == digits { rest } else { "" };
    let punctuation = |c: char| ".,;:)”".contains(c);
    bare.starts_with(|c: char| c.is_ascii_digit())
        .then(|| (bare, rest.trim_matches(punctuation)))
}

/// The figures of a text: numbers with a unit.
fn figures(text: &str) -> impl Iterator<Item = &str> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let bare = |word: &str| word.trim_matches(|c: char| ".,;:()".contains(c)).to_owned();
    (0..words.len()).filter_map(move |at| {
        let (number, rest) = number(words.get(at)?)?;
        let unit = match rest {
            "" => bare(words.get(at + 1)?),
            rest => bare(rest),
        };
        UNITS.contains(&unit.as_str()).then_some(number)
    })
}

/// True if a sentence has a figure that reads as a result.
fn reports(sentence: &str) -> bool {
    let mut words = sentence.split(|c: char| !c.is_alphanumeric());
    let outcome = words.any(|word| OUTCOMES.contains(&word.to_lowercase().as_str()));
    let mut figures = figures(sentence);
    figures.any(|number| outcome || number.contains('.'))
}

/// True if a cell of a table begins with a figure, or with a number that has a fraction.
fn begins_with_result(cell: &str) -> bool {
    let mut words = cell.split_whitespace();
    let first = words.next().and_then(number);
    let Some((number, rest)) = first else {
        return false;
    };
    let unit = if rest.is_empty() {
        words.next().unwrap_or("")
    } else {
        rest
    };
    number.contains('.') || UNITS.contains(&unit)
}

/// True if the sentence names a paper, RFC or draft with a place in it.
fn cites(sentence: &str) -> bool {
    PAPERS.iter().any(|paper| sentence.contains(paper))
        && PLACES.iter().any(|place| sentence.contains(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        let files = [
            "crates/a/tests/long.rs",
            "crates/b/examples/figures.rs",
            "scenarios/lot.toml",
        ];
        Known {
            files: files.iter().map(PathBuf::from).collect(),
            tests: BTreeSet::from(["a_file_arrives".to_owned(), "short".to_owned()]),
        }
    }

    fn lines(text: &str) -> Vec<usize> {
        let found = of_page(text, &known());
        found.into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn results_differ_from_settings() {
        for text in [
            "A file takes 23 s.",
            "The queue has (8.5 ms) then.",
            "| a | b |\n|---|---|\n| x | 22 s |\n",
            "| a | b |\n|---|---|\n| x | 0.98 |\n",
            "- The first took\n  10\n  ms.\n",
        ] {
            assert_eq!(lines(text).len(), 1, "{text}");
        }
        for text in [
            "The buffer has 16 MiB by default.",
            "`get` waits `0.5 s`.",
            "```sh\nsleep 1.5 s\n```",
            "It takes Linux 6.18 and 2 files.",
            "| key | default |\n|---|---|\n| x | 0.5 s |\n",
            "# It takes 10 s\n",
        ] {
            assert_eq!(lines(text), [0; 0], "{text}");
        }
    }

    #[test]
    fn a_source_covers_its_section() {
        let text = "It takes 1 s.\n\n# A\n\nIt takes 2 s.\n\n# B\n\nIt takes 3 s:\n\n\
                    ```sh\npathmark emulate lot\n```\n";
        assert_eq!(lines(text), [1, 5]);
    }

    #[test]
    fn sources_exist() {
        for source in [
            "`a_file_arrives`",
            "`crates/a/tests/long.rs`",
            "`cargo test -p a --test long`",
            "`cargo run -p b --example figures`",
            "`pathmark emulate lot`",
            "[x](../evidence/figures/x.md)",
            "RFC 9000 section 8.1 asks for it.",
            "It is in the XCP paper, figure 3.",
        ] {
            assert_eq!(
                lines(&format!("It takes 1 s. {source}\n")),
                [0; 0],
                "{source}"
            );
        }
        for none in [
            "`short`",
            "`a_file_departs`",
            "`crates/a/tests/gone.rs`",
            "`cargo test -p a --test gone`",
            "`pathmark emulate gone`",
            "[x](../wire.md)",
            "RFC 9000 asks for it.",
        ] {
            assert_eq!(lines(&format!("It takes 1 s. {none}\n")), [1], "{none}");
        }
    }
}
