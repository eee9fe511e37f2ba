//! Checks citations of the papers' equations and the RFCs' requirements. Each must be cited by
//! the code that implements it and by a test.
//!
//! Each file of [`FILES`] has an entry per equation or requirement. Its key begins with the name
//! of the paper or the number of the RFC, as in `VCP-ext eq. 11` or `9000 4.1 limits`. A comment
//! cites the key in square brackets, without a line break.

mod page;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemFn};

use super::crates;
use super::source::{is_test, of_crate};

/// Paths of the files with entries, relative to the repository.
pub(super) const FILES: [&str; 4] = [
    "docs/laws/equations.toml",
    "docs/rfc/9000.toml",
    "docs/rfc/9001.toml",
    "docs/rfc/9002.toml",
];
/// Fields of an equation: a description in words, and the reason why no code computes it.
const OF_EQUATIONS: [&str; 2] = ["says", "exception"];
/// Fields of a requirement: the same two, the RFC 2119 keyword, the role that it binds, other
/// sections that repeat it, and intended differences of the code.
const OF_REQUIREMENTS: [&str; 6] = ["says", "exception", "level", "who", "also", "deviation"];
/// Values of `level`.
const LEVELS: [&str; 2] = ["MUST", "MUST NOT"];
/// Values of `who`.
const ROLES: [&str; 3] = ["endpoint", "client", "server"];
/// Maximum number of words in a requirement's paraphrase.
const MOST_WORDS: usize = 25;

/// An equation or a requirement.
#[derive(Debug)]
struct Entry {
    /// The file that contains it.
    file: &'static str,
    fields: BTreeMap<String, String>,
}

/// Entries by key.
#[derive(Debug, Default)]
pub(super) struct Citable(BTreeMap<String, Entry>);

/// The kind of place where a key is cited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// A comment of code that is compiled outside tests.
    Code,
    /// A comment on or within a test function.
    Test,
    /// A page, or any other comment.
    Elsewhere,
}

/// A key in square brackets and its position.
#[derive(Debug, PartialEq, Eq)]
struct Citation {
    key: String,
    place: Place,
    path: PathBuf,
    line: usize,
}

/// The result of checking citations.
pub(super) struct Outcome {
    /// Faults of entries and citations, a line each.
    pub(super) faults: Vec<String>,
    /// Counts, a line per file with entries.
    pub(super) counts: Vec<String>,
    /// Generated pages, as path and text.
    pages: Vec<(String, String)>,
}

impl Entry {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    fn is_requirement(&self) -> bool {
        self.file.starts_with("docs/rfc/")
    }

    /// Returns faults of the key and the fields.
    fn faults(&self, key: &str) -> Vec<String> {
        let mut faults = Vec::new();
        let known: &[&str] = match self.is_requirement() {
            true => &OF_REQUIREMENTS,
            false => &OF_EQUATIONS,
        };
        for (field, text) in &self.fields {
            if !known.contains(&field.as_str()) || text.trim().is_empty() {
                faults.push(format!("`{field}` is unknown or empty"));
            }
        }
        if !self.has("says") {
            faults.push("`says` is missing".to_owned());
        }
        if self.is_requirement() {
            if page::parts(key).is_none_or(|(rfc, ..)| !self.file.ends_with(&format!("{rfc}.toml")))
            {
                faults.push("the key is not `RFC section slug`".to_owned());
            }
            if !LEVELS.contains(&self.field("level")) {
                faults.push(format!("`level` is none of {LEVELS:?}"));
            }
            if !ROLES.contains(&self.field("who")) {
                faults.push(format!("`who` is none of {ROLES:?}"));
            }
            let words = self.field("says").split_whitespace().count();
            if words > MOST_WORDS {
                faults.push(format!("`says` has {words} words, more than {MOST_WORDS}"));
            }
        }
        faults
    }
}

impl Citable {
    fn read(root: &Path) -> Result<Self> {
        let mut entries = Self::default();
        for file in FILES {
            let text = fs::read_to_string(root.join(file)).context(file)?;
            entries.add(file, &text).context(file)?;
        }
        Ok(entries)
    }

    /// Adds the entries of `file` with the content `text`. Keys in two files differ in their
    /// first word, and a duplicate within a file is invalid TOML.
    fn add(&mut self, file: &'static str, text: &str) -> Result<()> {
        let found: BTreeMap<String, BTreeMap<String, String>> = toml::from_str(text)?;
        let entries = found.into_iter();
        self.0
            .extend(entries.map(|(key, fields)| (key, Entry { file, fields })));
        Ok(())
    }

    /// Returns the names of papers and the numbers of RFCs, which are the first words of keys.
    fn sources(&self) -> BTreeSet<&str> {
        let words = self.0.keys().filter_map(|key| key.split(' ').next());
        words.collect()
    }

    /// Returns the keys in `text` that belong to these sources, with line numbers counted from 1.
    fn keys_in<'a>(&self, text: &'a str) -> Vec<(usize, &'a str)> {
        let sources = self.sources();
        let is_key = |key: &&str| {
            key.split_once(' ')
                .is_some_and(|(source, _)| sources.contains(source))
        };
        let lines = text.lines().enumerate();
        let keys = lines.flat_map(|(index, line)| {
            let after = line.split('[').skip(1);
            let inside = after.filter_map(|rest| rest.split_once(']'));
            // The text of a link or picture is not a key.
            let inside = inside.filter(|(_, rest)| !rest.starts_with('('));
            inside.map(move |(key, _)| (index + 1, key))
        });
        keys.filter(|(_, key)| is_key(key)).collect()
    }

    /// Returns faults of entries and citations, a line each.
    fn faults(&self, citations: &[Citation]) -> Vec<String> {
        let mut faults = Vec::new();
        let mut said: BTreeMap<&str, &str> = BTreeMap::new();
        for (key, entry) in &self.0 {
            let mut fault = |text: String| faults.push(format!("{}: {key}: {text}", entry.file));
            entry.faults(key).into_iter().for_each(&mut fault);
            let says = entry.field("says");
            if !says.is_empty()
                && let Some(other) = said.insert(says, key)
            {
                fault(format!("says what {other} says"));
            }
            let cited = |place| {
                let mut places = citations.iter().filter(|citation| &citation.key == key);
                places.any(|citation| citation.place == place)
            };
            match (cited(Place::Code), cited(Place::Test)) {
                (true, true) if entry.has("exception") => {
                    fault("cited, so the exception is stale".to_owned());
                }
                (true, true) => {}
                _ if entry.has("exception") => {}
                (code, test) => {
                    let missing = [(!code).then_some("code"), (!test).then_some("test")];
                    let missing: Vec<&str> = missing.into_iter().flatten().collect();
                    fault(format!("no {} cites it", missing.join(" and no ")));
                }
            }
        }
        for citation in citations {
            let Citation {
                key, path, line, ..
            } = citation;
            if !self.0.contains_key(key) {
                let at = path.display();
                faults.push(format!("{at}:{line}: [{key}] has no entry"));
            }
        }
        faults
    }

    fn counts(&self) -> Vec<String> {
        let counts = FILES.into_iter().map(|file| {
            let entries = self.0.values().filter(|entry| entry.file == file);
            let (keys, excepted) = entries.fold((0, 0), |(keys, excepted), entry| {
                (keys + 1, excepted + usize::from(entry.has("exception")))
            });
            let cited = keys - excepted;
            format!("{file}: {keys} keys, {cited} cited, {excepted} excepted")
        });
        counts.collect()
    }

    /// Finds citations in a Rust file. `compiled` is true if it is compiled outside tests.
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
            Citation {
                key: key.to_owned(),
                place,
                path: path.to_owned(),
                line,
            }
        };
        Ok(keys.into_iter().map(citation).collect())
    }
}

impl Outcome {
    /// Returns generated pages that differ from those in `root`.
    pub(super) fn stale(&self, root: &Path) -> Vec<String> {
        let differs = |(path, text): &&(String, String)| {
            fs::read_to_string(root.join(path)).ok().as_ref() != Some(text)
        };
        let stale = self.pages.iter().filter(differs).map(|(path, _)| {
            format!("{path}: differs from the citations; `cargo xtask check --record` writes it")
        });
        stale.collect()
    }

    pub(super) fn write(&self, root: &Path) -> Result<()> {
        for (path, text) in &self.pages {
            fs::write(root.join(path), text).with_context(|| path.clone())?;
        }
        Ok(())
    }
}

/// Reads the repository's entries and citations. `files` must list all of its files.
pub(super) fn check(root: &Path, files: &[PathBuf]) -> Result<Outcome> {
    let compiled = compiled(root)?;
    let entries = Citable::read(root)?;
    let mut citations = Vec::new();
    for path in files {
        let text = || fs::read_to_string(root.join(path));
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") if path.starts_with("crates") || path.starts_with("apps") => {
                let found = entries.in_rust(path, &text()?, compiled.contains(path))?;
                citations.extend(found);
            }
            Some("md") => {
                let text = text()?;
                let keys = entries.keys_in(&text).into_iter();
                citations.extend(keys.map(|(line, key)| Citation {
                    key: key.to_owned(),
                    place: Place::Elsewhere,
                    path: path.clone(),
                    line,
                }));
            }
            _ => {}
        }
    }
    let rfcs = FILES.into_iter().filter_map(page::of_rfc);
    Ok(Outcome {
        faults: entries.faults(&citations),
        counts: entries.counts(),
        pages: rfcs
            .map(|(rfc, path)| (path, entries.page(rfc, &citations)))
            .collect(),
    })
}

/// Returns the files of all crates that are compiled outside tests, relative to `root`.
fn compiled(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut compiled = BTreeSet::new();
    for (_, directory) in crates(root)? {
        let sources = of_crate(root, &directory)?;
        compiled.extend(sources.into_iter().map(|source| source.path));
    }
    Ok(compiled)
}

/// Returns true for a line that only has citations.
pub(super) fn only_cites(line: &str) -> bool {
    let cites = |text: &str| {
        text.starts_with('[')
            && text.ends_with(']')
            && (text[1..text.len() - 1].split("] [")).all(|key| key.contains(' '))
    };
    line.trim_start().strip_prefix("// ").is_some_and(cites)
}

/// Extracts the comment of a line as a separate line.
fn comment(line: &str) -> String {
    let text = line.split_once("//").map_or("", |(_, comment)| comment);
    format!("{text}\n")
}

/// Lines of test functions, and lines that are only compiled for tests.
#[derive(Debug, Default)]
struct Tests {
    functions: Vec<RangeInclusive<usize>>,
    only: Vec<RangeInclusive<usize>>,
}

/// Returns the lines from the first of `attributes`, which include doc comments, to the end of
/// `item`.
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
            // Property tests are inside a macro, together with their attributes.
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

/// Returns true for `#[test]` and `#[tokio::test]`.
fn has_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let last = attribute.path().segments.last();
        last.is_some_and(|last| last.ident == "test")
    })
}

#[cfg(test)]
mod tests;
