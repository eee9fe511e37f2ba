//! Equations of the papers: each one is cited by the code that computes it and by a test.
//!
//! `docs/laws/equations.toml` has an entry per equation. Its key begins with a paper's name, as in
//! `VCP-ext eq. 11`. A comment cites the key in square brackets, on one line.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemFn};

use super::source::is_test;

/// Where the entries are, relative to the repository.
pub(super) const FILE: &str = "docs/laws/equations.toml";
/// The field with an equation in words, and the one with the reason why code does not compute it.
const FIELDS: [&str; 2] = ["says", "exception"];

/// Equations by key: their fields.
#[derive(Debug, Default)]
pub(super) struct Equations(BTreeMap<String, BTreeMap<String, String>>);

/// Where a key is cited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// A comment of code that is compiled outside tests.
    Code,
    /// A comment of a test function, or within it.
    Test,
    /// A page, or a comment that is of neither kind.
    Elsewhere,
}

/// A key in square brackets, and where it stands.
#[derive(Debug, PartialEq, Eq)]
struct Citation {
    key: String,
    place: Place,
    at: String,
}

impl Equations {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let text = fs::read_to_string(root.join(FILE)).context(FILE)?;
        Ok(Self(toml::from_str(&text).context(FILE)?))
    }

    /// Names of the papers: the first words of the keys.
    fn papers(&self) -> BTreeSet<&str> {
        let words = self.0.keys().filter_map(|key| key.split(' ').next());
        words.collect()
    }

    /// Keys of these papers in `text`, each with its line, counted from 1.
    fn keys_in<'a>(&self, text: &'a str) -> Vec<(usize, &'a str)> {
        let papers = self.papers();
        let is_key = |key: &&str| {
            key.split_once(' ')
                .is_some_and(|(paper, _)| papers.contains(paper))
        };
        let lines = text.lines().enumerate();
        let keys = lines.flat_map(|(index, line)| {
            let after = line.split('[').skip(1);
            let inside = after.filter_map(|rest| rest.split_once(']'));
            // The text of a link or of a picture is no key.
            let inside = inside.filter(|(_, rest)| !rest.starts_with('('));
            inside.map(move |(key, _)| (index + 1, key))
        });
        keys.filter(|(_, key)| is_key(key)).collect()
    }

    /// What is wrong with entries and citations, a line each.
    fn faults(&self, citations: &[Citation]) -> Vec<String> {
        let mut faults = Vec::new();
        for (key, fields) in &self.0 {
            let cited = |place| {
                let mut places = citations.iter().filter(|citation| &citation.key == key);
                places.any(|citation| citation.place == place)
            };
            for (field, text) in fields {
                if !FIELDS.contains(&field.as_str()) || text.trim().is_empty() {
                    faults.push(format!("{FILE}: {key}: `{field}` is unknown or empty"));
                }
            }
            if !fields.contains_key("says") {
                faults.push(format!("{FILE}: {key}: `says` is missing"));
            }
            match (cited(Place::Code), cited(Place::Test)) {
                (true, true) if fields.contains_key("exception") => {
                    faults.push(format!("{FILE}: {key}: cited, so the exception is stale"));
                }
                (true, true) => {}
                _ if fields.contains_key("exception") => {}
                (code, test) => {
                    let missing = [(!code).then_some("code"), (!test).then_some("test")];
                    let missing: Vec<&str> = missing.into_iter().flatten().collect();
                    let missing = missing.join(" and no ");
                    faults.push(format!("{FILE}: {key}: no {missing} cites it"));
                }
            }
        }
        for Citation { key, at, .. } in citations {
            if !self.0.contains_key(key) {
                faults.push(format!("{at}: [{key}] is not in {FILE}"));
            }
        }
        faults
    }

    /// Citations in a Rust file; `compiled` if it is compiled outside tests.
    fn in_rust(&self, path: &Path, text: &str, compiled: bool) -> Result<Vec<Citation>> {
        let comments: String = text.lines().map(comment).collect();
        let keys = self.keys_in(&comments);
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let file = syn::parse_file(text).with_context(|| path.display().to_string())?;
        let mut tests = Tests::default();
        tests.visit_file(&file);
        let within = |ranges: &[RangeInclusive<usize>], line| {
            ranges.iter().any(|range| range.contains(&line))
        };
        let citation = |(line, key): (usize, &str)| {
            let place = if within(&tests.functions, line) {
                Place::Test
            } else if compiled && !within(&tests.only, line) {
                Place::Code
            } else {
                Place::Elsewhere
            };
            let at = format!("{}:{line}", path.display());
            let key = key.to_owned();
            Citation { key, place, at }
        };
        Ok(keys.into_iter().map(citation).collect())
    }
}

/// Faults of the repository's entries and citations. `files` are all of its files, and `compiled`
/// those that its crates compile outside tests.
pub(super) fn check(
    root: &Path,
    files: &[PathBuf],
    compiled: &BTreeSet<PathBuf>,
) -> Result<Vec<String>> {
    let equations = Equations::read(root)?;
    let mut citations = Vec::new();
    for path in files {
        let text = || fs::read_to_string(root.join(path));
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") if path.starts_with("crates") => {
                let found = equations.in_rust(path, &text()?, compiled.contains(path))?;
                citations.extend(found);
            }
            Some("md") => {
                let text = text()?;
                let keys = equations.keys_in(&text).into_iter();
                citations.extend(keys.map(|(line, key)| Citation {
                    key: key.to_owned(),
                    place: Place::Elsewhere,
                    at: format!("{}:{line}", path.display()),
                }));
            }
            _ => {}
        }
    }
    Ok(equations.faults(&citations))
}

/// The comment of a line, as a line of its own.
fn comment(line: &str) -> String {
    let text = line.split_once("//").map_or("", |(_, comment)| comment);
    format!("{text}\n")
}

/// Lines of test functions, and lines that only tests compile.
#[derive(Debug, Default)]
struct Tests {
    functions: Vec<RangeInclusive<usize>>,
    only: Vec<RangeInclusive<usize>>,
}

/// Lines from the first of `attributes`, which include doc comments, to the end of `item`.
fn lines(attributes: &[Attribute], item: proc_macro2::Span) -> RangeInclusive<usize> {
    let first = attributes.first().map_or(item, Spanned::span);
    first.start().line..=item.end().line
}

impl<'ast> Visit<'ast> for Tests {
    fn visit_item(&mut self, item: &'ast Item) {
        let span = item.span();
        match item {
            Item::Fn(ItemFn { attrs, .. }) if has_test(attrs) => {
                self.functions.push(lines(attrs, span));
            }
            // Property tests stand in a macro, with their attributes.
            Item::Macro(found) if found.mac.path.is_ident("proptest") => {
                self.functions.push(lines(&found.attrs, span));
            }
            Item::Mod(found) if is_test(&found.attrs) => self.only.push(lines(&found.attrs, span)),
            Item::Impl(found) if is_test(&found.attrs) => self.only.push(lines(&found.attrs, span)),
            Item::Fn(found) if is_test(&found.attrs) => self.only.push(lines(&found.attrs, span)),
            _ => {}
        }
        visit::visit_item(self, item);
    }
}

/// True for `#[test]`.
fn has_test(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .any(|attribute| attribute.path().is_ident("test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equations(text: &str) -> Equations {
        Equations(toml::from_str(text).unwrap())
    }

    const TWO: &str = "['P eq. 1']\nsays = 'a'\n['P eq. 2']\nsays = 'b'\nexception = 'a proof'\n";

    const SOURCE: &str = "\
/// Computes [P eq. 1].
fn f() {
    let a = \"[P eq. 8]\"; // [P eq. 2]
}

#[cfg(test)]
mod tests {
    /// An oracle of [P eq. 3].
    fn g() {}

    /// A test of [P eq. 1].
    #[test]
    fn h() {
        // [P eq. 4], not [Q eq. 1], [P eq. 7](a.md) or a[0].
    }

    proptest! {
        /// [P eq. 5]
        fn i(n in 0..1) {}
    }
}
";

    fn found(compiled: bool) -> Vec<(String, Place, String)> {
        let found = equations(TWO).in_rust(Path::new("a.rs"), SOURCE, compiled);
        let found = found.unwrap().into_iter();
        found
            .map(|citation| (citation.key, citation.place, citation.at))
            .collect()
    }

    #[test]
    fn citations_are_of_code_or_of_tests() {
        let at = |key: &str, place, line: usize| (key.to_owned(), place, format!("a.rs:{line}"));
        let in_tests = [
            at("P eq. 3", Place::Elsewhere, 8),
            at("P eq. 1", Place::Test, 11),
            at("P eq. 4", Place::Test, 14),
            at("P eq. 5", Place::Test, 18),
        ];
        let code = |place| [at("P eq. 1", place, 1), at("P eq. 2", place, 3)];
        assert_eq!(found(true), [&code(Place::Code)[..], &in_tests].concat());
        let elsewhere = code(Place::Elsewhere);
        assert_eq!(found(false), [&elsewhere[..], &in_tests].concat());
    }

    fn cited(key: &str, place: Place) -> Citation {
        Citation {
            key: key.to_owned(),
            place,
            at: "a.rs:1".to_owned(),
        }
    }

    #[test]
    fn each_equation_needs_code_and_a_test() {
        let equations = equations(TWO);
        let faults = |places: &[Place]| {
            let citations: Vec<Citation> = places
                .iter()
                .map(|place| cited("P eq. 1", *place))
                .collect();
            equations.faults(&citations)
        };
        assert_eq!(faults(&[Place::Code, Place::Test]), [""; 0]);
        let fault = |missing| [format!("{FILE}: P eq. 1: no {missing} cites it")];
        assert_eq!(faults(&[Place::Code]), fault("test"));
        assert_eq!(faults(&[Place::Test]), fault("code"));
        assert_eq!(faults(&[Place::Elsewhere]), fault("code and no test"));
    }

    #[test]
    fn an_unknown_key_and_a_stale_exception_are_faults() {
        let equations = equations(TWO);
        let citations = [
            cited("P eq. 1", Place::Code),
            cited("P eq. 1", Place::Test),
            cited("P eq. 2", Place::Code),
            cited("P eq. 2", Place::Test),
            cited("P eq. 9", Place::Elsewhere),
        ];
        assert_eq!(
            equations.faults(&citations),
            [
                format!("{FILE}: P eq. 2: cited, so the exception is stale"),
                format!("a.rs:1: [P eq. 9] is not in {FILE}"),
            ]
        );
    }

    #[test]
    fn an_entry_has_a_paraphrase_and_no_unknown_field() {
        let equations = equations("['P 1']\nexception = ' '\nnote = 'c'\n");
        assert_eq!(
            equations.faults(&[]),
            [
                format!("{FILE}: P 1: `exception` is unknown or empty"),
                format!("{FILE}: P 1: `note` is unknown or empty"),
                format!("{FILE}: P 1: `says` is missing"),
            ]
        );
    }
}
