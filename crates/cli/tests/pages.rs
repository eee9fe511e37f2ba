//! The page of results is of today: chapters that take a moment are made again and compared.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Built-in scenarios of few packets; together they have senders and ports of each kind.
const QUICK: [&str; 4] = [
    "five-files",
    "parking-lot",
    "vcp-linux-fig3",
    "xcp-linux-fig5",
];

/// A chapter, from its heading to the next one's.
fn chapter<'a>(page: &'a str, name: &str) -> &'a str {
    let heading = format!("\n## {name}\n");
    let from = page.find(&heading).expect(name);
    let rest = &page[from + heading.len()..];
    rest.split("\n## ").next().unwrap()
}

/// What fails here is mended by `pathmark emulate --results docs`, and by reading the notes of the
/// scenarios whose tables changed.
#[test]
fn chapters_and_pictures_are_what_their_runs_give() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = fs::read_to_string(docs.join("results.md")).unwrap();
    let directory = TempDir::new().unwrap();
    for name in QUICK {
        let output = Command::new(env!("CARGO_BIN_EXE_pathmark"))
            .args(["emulate", "--results"])
            .arg(directory.path())
            .arg(name)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {stderr}");
        let made = String::from_utf8(output.stdout).unwrap();
        assert_eq!(chapter(&made, name), chapter(&page, name), "{name}");
        let picture = |directory: &Path| {
            let path = directory.join("results").join(format!("{name}.svg"));
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        // A picture is many lines: the failure shows the first pair that differs.
        let (new, old) = (picture(directory.path()), picture(&docs));
        let differ = new.lines().zip(old.lines()).find(|(new, old)| new != old);
        assert_eq!(differ, None, "{name}.svg");
        assert_eq!(new.len(), old.len(), "{name}.svg");
    }
}
