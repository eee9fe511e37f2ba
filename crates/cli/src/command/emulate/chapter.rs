//! Chapters of `results.md` that commands of their own write.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context;

use super::super::output;

/// The heading of the chapter that `pathmark compare` writes.
pub(in super::super) const COMPARISON: &str = "## Comparison\n";
/// What a page without a chapter has it in front of.
const BEFORE: &str = "## Paper and here\n";

/// Puts a chapter, which begins with `heading`, into `results.md` in this directory, in place of
/// the one that is there.
pub(in super::super) fn put(directory: &Path, heading: &str, chapter: &str) -> anyhow::Result<()> {
    let path = directory.join("results.md");
    let page = match fs::read_to_string(&path) {
        Ok(page) => page,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()));
        }
    };
    let page = spliced(&page, heading, chapter);
    fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    output::line(format_args!("{}", path.display()))?;
    Ok(())
}

/// The chapter of a page that was written before, if it has one.
pub(super) fn find<'a>(page: &'a str, heading: &str) -> Option<&'a str> {
    let from = page.find(heading)?;
    let rest = page.get(from..)?;
    let end = rest.get(heading.len()..)?.find("\n## ");
    rest.get(..end.map_or(rest.len(), |end| end + heading.len() + 1))
}

/// The page with this chapter, in place of its own if it has one.
pub(super) fn spliced(page: &str, heading: &str, chapter: &str) -> String {
    if let Some(old) = find(page, heading) {
        return page.replacen(old, chapter, 1);
    }
    match page.find(BEFORE).map(|at| page.split_at(at)) {
        Some((head, tail)) => format!("{head}{chapter}{tail}"),
        None => format!("{page}{chapter}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HARM: &str = "## Harm\n";

    #[test]
    fn a_chapter_takes_the_place_of_the_one_before() {
        let page = "# Results\n\nText.\n\n## Paper and here\n\nRows.\n\n## five-files\n";
        let once = spliced(page, HARM, "## Harm\n\nfirst\n\n");
        assert_eq!(
            once,
            "# Results\n\nText.\n\n## Harm\n\nfirst\n\n## Paper and here\n\nRows.\n\n## \
             five-files\n"
        );
        assert_eq!(find(&once, HARM), Some("## Harm\n\nfirst\n\n"));
        let twice = spliced(&once, HARM, "## Harm\n\nsecond\n\n");
        assert_eq!(twice, once.replace("first", "second"));
        assert_eq!(find(page, HARM), None);
        assert_eq!(spliced("", HARM, "## Harm\n"), "## Harm\n");
        assert_eq!(find("## Harm\n\nlast\n", HARM), Some("## Harm\n\nlast\n"));
    }

    #[test]
    fn two_chapters_leave_each_other_alone() {
        let page = "# Results\n\n## Paper and here\n";
        let both = spliced(page, HARM, "## Harm\n\nharm\n\n");
        let both = spliced(&both, "## Comparison\n", "## Comparison\n\ncells\n\n");
        assert_eq!(find(&both, HARM), Some("## Harm\n\nharm\n\n"));
        assert_eq!(
            find(&both, "## Comparison\n"),
            Some("## Comparison\n\ncells\n\n")
        );
    }
}
