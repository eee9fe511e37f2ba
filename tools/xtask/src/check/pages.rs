//! Checks that the pages' links are valid, and that the book lists all pages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The book's table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";

/// A page in Markdown.
pub(super) struct Page {
    /// The path relative to the repository.
    pub(super) path: PathBuf,
    /// The anchors of its headings.
    anchors: BTreeSet<String>,
    links: Vec<String>,
}

/// Reads the pages at `paths`, relative to `root`.
pub(super) fn read(root: &Path, paths: &[PathBuf]) -> Result<Vec<Page>> {
    let pages = paths.iter().map(|path| {
        let text =
            fs::read_to_string(root.join(path)).with_context(|| path.display().to_string())?;
        Ok(page(path.clone(), &text))
    });
    pages.collect()
}

fn page(path: PathBuf, text: &str) -> Page {
    let mut page = Page {
        path,
        anchors: BTreeSet::new(),
        links: Vec::new(),
    };
    let mut heading: Option<String> = None;
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let anchor = anchor(&heading.take().unwrap_or_default());
                let again = seen.entry(anchor.clone()).or_default();
                page.anchors.insert(match *again {
                    0 => anchor,
                    times => format!("{anchor}-{times}"),
                });
                *again += 1;
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                page.links.push(dest_url.into_string());
            }
            _ => {}
        }
    }
    page
}

/// Returns the anchor that GitHub gives a heading: in lowercase, with hyphens instead of spaces,
/// and without punctuation.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

/// Returns links within the repository whose target doesn't exist, a line each. Links to other
/// sites are not checked.
pub(super) fn dead_links(root: &Path, pages: &[Page]) -> Vec<String> {
    let mut dead = Vec::new();
    for page in pages {
        for link in &page.links {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let to = match file {
                "" => page.path.clone(),
                file => plain(&page.path.parent().unwrap_or(Path::new("")).join(file)),
            };
            let known = pages.iter().find(|known| known.path == to);
            let there = root.join(&to).exists();
            let anchored = known.is_none_or(|known| known.anchors.contains(anchor));
            if !there || !(anchor.is_empty() || anchored) {
                dead.push(format!("{}: {link} leads nowhere", page.path.display()));
            }
        }
    }
    dead
}

/// Returns the book's pages that are not listed exactly once in its table of contents, a line each.
pub(super) fn unlisted(pages: &[Page]) -> Vec<String> {
    let summary = Path::new(SUMMARY);
    let book = summary.parent().unwrap_or(Path::new(""));
    let contents = pages.iter().find(|page| page.path == summary);
    let listed: Vec<PathBuf> = contents.map_or_else(Vec::new, |page| {
        page.links
            .iter()
            .map(|link| plain(&book.join(link)))
            .collect()
    });
    let chapters = pages.iter().filter(|page| page.path.starts_with(book));
    let faults = chapters
        .filter(|page| page.path != summary)
        .filter_map(|page| {
            let times = listed.iter().filter(|path| **path == page.path).count();
            (times != 1).then(|| format!("{}: {SUMMARY} has it {times} times", page.path.display()))
        });
    faults.collect()
}

/// Resolves `..` in a path.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_to_files_and_headings() {
        let pages = [
            page(
                "docs/a.md".into(),
                "# A `b` c, d\n\n## A `b` c, d\n[x](b.md#e-f) [y](#a-b-c-d-1)",
            ),
            page(
                "docs/b.md".into(),
                "# E f\n[r](../src/main.rs) [no](#g) ![no](c.svg)\n[w](https://x)",
            ),
        ];
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let dead = dead_links(root, &pages);
        // docs/b.md itself does not exist in this crate.
        let expected = ["docs/a.md: b.md#e-f", "docs/b.md: #g", "docs/b.md: c.svg"];
        let found = |link: &&str| dead.iter().any(|line| line.starts_with(*link));
        assert!(expected.iter().all(found), "{dead:?}");
        assert!(!found(&"docs/b.md: ../src/main.rs"), "{dead:?}");
    }

    #[test]
    fn the_book_has_each_page_once() {
        let pages = [
            page(
                "docs/SUMMARY.md".into(),
                "[a](a.md) [b](b/b.md) [b](b/../b/b.md)",
            ),
            page("docs/a.md".into(), "# A"),
            page("docs/b/b.md".into(), "# B"),
            page("docs/c.md".into(), "# C"),
            page("README.md".into(), "# R"),
        ];
        let faults = [
            "docs/b/b.md: docs/SUMMARY.md has it 2 times",
            "docs/c.md: docs/SUMMARY.md has it 0 times",
        ];
        assert_eq!(unlisted(&pages), faults);
    }
}
