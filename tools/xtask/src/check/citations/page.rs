//! Generates the pages of RFC conformance, which list requirements by section and the files that
//! cite each.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::{Citable, Citation, Entry, Place};

/// The directory with most citations, which tables omit.
const HOME: &str = "crates/transport/src/";

/// Splits a requirement's key into RFC, section and slug.
pub(super) fn parts(key: &str) -> Option<(&str, &str, &str)> {
    let mut words = key.split(' ');
    let (rfc, section, slug) = (words.next()?, words.next()?, words.next()?);
    let numbers = |text: &str| text.split('.').all(|part| part.parse::<u16>().is_ok());
    let is_slug = slug
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    (words.next().is_none() && numbers(section) && is_slug).then_some((rfc, section, slug))
}

/// Returns the RFC and the page for a file with requirements.
pub(super) fn of_rfc(file: &'static str) -> Option<(&'static str, String)> {
    let rfc = file.strip_prefix("docs/rfc/")?.strip_suffix(".toml")?;
    Some((rfc, format!("docs/rfc/{rfc}.md")))
}

/// Parses a section's numbers for sorting.
fn numbers(section: &str) -> Vec<u16> {
    let parts = section.split('.').map(|part| part.parse().unwrap_or(0));
    parts.collect()
}

/// Compares sections by their order in the RFC.
fn by_section(a: &str, b: &str) -> Ordering {
    numbers(a).cmp(&numbers(b))
}

impl Citable {
    pub(super) fn page(&self, rfc: &str, citations: &[Citation]) -> String {
        let of_rfc = self.0.iter().filter_map(|(key, entry)| {
            let (of, section, slug) = parts(key)?;
            (of == rfc).then_some((section, slug, key.as_str(), entry))
        });
        let mut entries: Vec<(&str, &str, &str, &Entry)> = of_rfc.collect();
        entries.sort_by(|a, b| by_section(a.0, b.0).then(a.1.cmp(b.1)));
        let mut cited: BTreeMap<(&str, Place), BTreeSet<&str>> = BTreeMap::new();
        for citation in citations {
            let file = citation.path.to_str().unwrap_or_default();
            let file = file.strip_prefix(HOME).unwrap_or(file);
            cited
                .entry((&citation.key, citation.place))
                .or_default()
                .insert(file);
        }
        let files = |key, place| {
            let files = cited.get(&(key, place)).into_iter().flatten();
            let files: Vec<String> = files.map(|file| format!("`{file}`")).collect();
            files.join(", ")
        };
        let excepted = entries.iter().filter(|entry| entry.3.has("exception"));
        let mut page = format!(
            "# Requirements of RFC {rfc}\n\n`cargo xtask check --record` writes this page from \
             [{rfc}.toml]({rfc}.toml) and from the comments\nthat cite its keys. A requirement \
             says what holds, in words of this project; the level is that of\nthe RFC. Keys: {}, \
             of which exceptions: {}. Files are relative to\n`{HOME}`.\n",
            entries.len(),
            excepted.count(),
        );
        let mut before = None;
        for (section, slug, key, entry) in entries {
            if before != Some(section) {
                let head =
                    "| key | requirement | who, level | code | tests |\n|---|---|---|---|---|\n";
                let _ = write!(page, "\n## Section {section}\n\n{head}");
                before = Some(section);
            }
            let word = format!("{}, {}", entry.field("who"), entry.field("level"));
            let mut says = entry.field("says").to_owned();
            if entry.has("also") {
                let _ = write!(says, " Also in {}.", entry.field("also"));
            }
            for field in ["deviation", "exception"] {
                if entry.has(field) {
                    let _ = write!(says, " **{field}**: {}", entry.field(field));
                }
            }
            let (code, tests) = (files(key, Place::Code), files(key, Place::Test));
            let _ = writeln!(page, "| `{slug}` | {says} | {word} | {code} | {tests} |");
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_an_rfc_a_section_and_a_slug() {
        assert_eq!(parts("9000 4.1 a-b2"), Some(("9000", "4.1", "a-b2")));
        for key in "9000 4.1/9000 4.1 a b/9000 x a/9000 4.1 A/VCP eq. 1".split('/') {
            assert_eq!(parts(key), None, "{key}");
        }
    }

    #[test]
    fn sections_come_in_order_with_the_files_that_cite_them() {
        let mut entries = Citable::default();
        let entry = |key: &str, rest: &str| {
            format!("['9002 {key}']\nlevel = 'MUST'\nwho = 'server'\nsays = 'It {key}.'\n{rest}")
        };
        let text = [
            entry("10.1 a", "exception = 'Unused.'\n"),
            entry("9.2 b", "also = '3, 4'\ndeviation = 'Less.'\n"),
        ];
        entries.add(super::super::FILES[3], &text.concat()).unwrap();
        let citation = |place, path: &str| Citation {
            key: "9002 9.2 b".to_owned(),
            place,
            path: path.into(),
            line: 7,
        };
        let citations = [
            citation(Place::Code, "crates/transport/src/b.rs"),
            citation(Place::Code, "crates/transport/src/b.rs"),
            citation(Place::Test, "crates/cc/src/a.rs"),
        ];
        let page = entries.page("9002", &citations);
        let (_, tables) = page.split_once("\n\n## ").unwrap();
        let head = "| key | requirement | who, level | code | tests |\n|---|---|---|---|---|\n";
        let rows = [
            "| `b` | It 9.2 b. Also in 3, 4. **deviation**: Less. | server, MUST | `b.rs` | \
             `crates/cc/src/a.rs` |\n",
            "| `a` | It 10.1 a. **exception**: Unused. | server, MUST |  |  |\n",
        ];
        let [first, second] = rows;
        let expected = format!("Section 9.2\n\n{head}{first}\n## Section 10.1\n\n{head}{second}");
        assert_eq!(tables, expected);
        assert!(page.contains("Keys: 2, of which exceptions: 1."));
    }
}
