//! The report as a chapter of `results.md`.

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context;

use super::super::results::wrapped;
use super::report::{Report, Summary};
use super::table;

const HEADING: &str = "## Harm\n";
const READING: &str = "\
    writes. A number under a figure's name says how many cells are beyond its bound; `worst` is \
    the one farthest beyond. `excused` counts cells with less than 0.9 of `cubic`'s goodput that \
    are no harm, because the least flow has at least 1.3 times more; `worst excused` is the worst \
    of these.";
/// What a page without the chapter has it in front of.
const BEFORE: &str = "## Paper and here\n";

/// Puts the chapter into `results.md` in this directory, in place of the one that is there.
pub(super) fn write(directory: &Path, report: &Report, laws: &str) -> anyhow::Result<()> {
    let path = directory.join("results.md");
    let page = match fs::read_to_string(&path) {
        Ok(page) => page,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()));
        }
    };
    let page = spliced(&page, &chapter(report, laws));
    fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

/// The chapter of a page that was written before, if it has one.
pub(in super::super) fn find(page: &str) -> Option<&str> {
    let from = page.find(HEADING)?;
    let rest = page.get(from..)?;
    let end = rest.get(HEADING.len()..)?.find("\n## ");
    rest.get(..end.map_or(rest.len(), |end| end + HEADING.len() + 1))
}

/// The page with this chapter, in place of its own if it has one.
pub(in super::super) fn spliced(page: &str, chapter: &str) -> String {
    if let Some(old) = find(page) {
        return page.replacen(old, chapter, 1);
    }
    match page.find(BEFORE).map(|at| page.split_at(at)) {
        Some((head, tail)) => format!("{head}{chapter}{tail}"),
        None => format!("{page}{chapter}"),
    }
}

fn chapter(report: &Report, laws: &str) -> String {
    let about = format!(
        "Where laws do worse than `cubic` in their place: {} scenarios drawn by a seed, each run \
         with every law and with `cubic` at the same ports. [emulate.md](emulate.md#harm) says \
         what counts as harm and how a cell's name reads. This chapter is what",
        report.cells
    );
    let mut text = format!(
        "{HEADING}\n{}\n\n```\n\
         pathmark emulate --harm --seed {} --laws '{laws}' --results docs\n\
         ```\n\n{}\n\n",
        wrapped(&about),
        report.seed,
        wrapped(READING)
    );
    let header = table::header();
    let _ = writeln!(text, "| {} |", header.join(" | "));
    let _ = writeln!(text, "|{}", "---|".repeat(header.len()));
    for summary in &report.summary {
        let _ = writeln!(text, "| {} |", row(summary).join(" | "));
    }
    let _ = write!(
        text,
        "\nEvery harmed cell, with the law's figure, `cubic`'s, and how many times beyond its bound \
         it is:\n\n```\n{}```\n\n",
        table::harmed(report)
    );
    text
}

fn row(summary: &Summary) -> Vec<String> {
    let mut row = table::row(summary);
    if let Some(law) = row.get_mut(1) {
        *law = format!("`{law}`");
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chapter_takes_the_place_of_the_one_before() {
        let page = "# Results\n\nText.\n\n## Paper and here\n\nRows.\n\n## five-files\n";
        let once = spliced(page, "## Harm\n\nfirst\n\n");
        assert_eq!(
            once,
            "# Results\n\nText.\n\n## Harm\n\nfirst\n\n## Paper and here\n\nRows.\n\n## five-files\n"
        );
        assert_eq!(find(&once), Some("## Harm\n\nfirst\n\n"));
        let twice = spliced(&once, "## Harm\n\nsecond\n\n");
        assert_eq!(twice, once.replace("first", "second"));
        assert_eq!(find(page), None);
        assert_eq!(spliced("", "## Harm\n"), "## Harm\n");
        assert_eq!(find("## Harm\n\nlast\n"), Some("## Harm\n\nlast\n"));
    }
}
