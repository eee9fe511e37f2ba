//! Checks that the pages of results are up to date: quick pages are generated again and
//! compared.

use pathmark_cc::FallbackReason;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

use crate::common::offered::Offered;
use crate::common::{Server, json, run, stderr, words};

/// Built-in scenarios with few packets, which together contain senders and ports of each kind.
const QUICK: [&str; 4] = [
    "five-files",
    "parking-lot",
    "vcp-linux-fig3",
    "xcp-linux-fig5",
];

/// If this fails, run `pathmark emulate --results docs/evidence/figures`, and read
/// `docs/evidence/reproduction.md`, which quotes the tables.
#[test]
fn pages_and_pictures_are_what_their_runs_give() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/evidence/figures");
    let directory = TempDir::new().unwrap();
    let same = |file: &str| {
        let read = |directory: &Path| {
            let path = directory.join(file);
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        // Since a picture has many lines, the failure only shows the first pair that differs.
        let (new, old) = (read(directory.path()), read(&docs));
        let differ = new.lines().zip(old.lines()).find(|(new, old)| new != old);
        assert_eq!(differ, None, "{file}");
        assert_eq!(new.len(), old.len(), "{file}");
    };
    for name in QUICK {
        let directory = directory.path().to_str().unwrap();
        let output = run(&["emulate", "--results", directory, name]);
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        same(&format!("{name}.md"));
        same(&format!("{name}.svg"));
    }
    same("index.md");
}

/// Every page belongs to a built-in scenario, and each picture has its page.
#[test]
fn every_built_in_scenario_has_its_page() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/evidence/figures");
    let mut pages = Vec::new();
    let mut pictures = Vec::new();
    for entry in fs::read_dir(docs).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        match name.rsplit_once('.') {
            Some((stem, "md")) => pages.push(stem.to_owned()),
            Some((stem, "svg")) => pictures.push(stem.to_owned()),
            _ => panic!("{name} is neither a page nor a picture"),
        }
    }
    pages.retain(|page| !["index", "harm", "comparison"].contains(&page.as_str()));
    pages.sort();
    let built_in = pathmark_emulator::scenario::BUILT_IN.iter();
    let mut scenarios: Vec<&str> = built_in.map(|scenario| scenario.name).collect();
    scenarios.sort_unstable();
    assert_eq!(pages, scenarios);
    let of_a_page = |picture: &String| picture.starts_with("compare") || pages.contains(picture);
    assert!(pictures.iter().all(of_a_page), "{pictures:?}");
}

/// Returns the numbers with a point or with commas between thousands, without the commas.
fn figures(text: &str) -> Vec<String> {
    let numbers = text.split(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','));
    let numbers = numbers.map(|number| number.trim_matches(['.', ',']));
    let figures = numbers.filter(|number| number.contains(['.', ',']));
    figures.map(|number| number.replace(',', "")).collect()
}

/// Returns the text of all pages to which a part of the summary links.
fn linked(text: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/evidence/figures");
    let links = text.split("](figures/").skip(1);
    let names = links.map(|link| link.split(')').next().unwrap());
    let pages = names.map(|name| fs::read_to_string(docs.join(name)).unwrap());
    pages.collect()
}

/// Each figure of a row in `reproduction.md` must be on the page to which this row or the row above
/// it links. Each figure of its prose must be on a page to which its section links.
#[test]
fn the_summary_copies_its_figures() {
    let summary = include_str!("../../../../docs/evidence/reproduction.md");
    let mut checked = 0;
    for section in summary.split("\n## ").skip(1) {
        let all = linked(section);
        let mut pages = String::new();
        for line in section.lines() {
            let cell = line.trim_end_matches('|').rsplit('|').next().unwrap();
            let is_row = line.starts_with('|');
            if line.contains("](figures/") {
                pages = linked(line);
            }
            for figure in figures(cell) {
                let page = if is_row { &pages } else { &all };
                assert!(page.contains(&figure), "{figure}: {line}");
                checked += 1;
            }
        }
    }
    assert!(checked > 80, "{checked}");
}

/// Pages name the tests that prove their statements, so these tests must exist. Names with five or
/// more words are those of tests.
#[test]
fn tests_that_pages_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut sources = String::new();
    for part in ["apps", "crates", "examples", "src", "tools"] {
        for file in walk(&root.join(part), "rs") {
            sources += &fs::read_to_string(file).unwrap();
        }
    }
    let mut pages = walk(&root.join("docs"), "md");
    pages.push(root.join("README.md"));
    let mut named = 0;
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for name in text.split('`').skip(1).step_by(2) {
            let plain = name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric());
            if plain && name.matches('_').count() >= 4 {
                let there = sources.contains(&format!("fn {name}("));
                assert!(there, "{}: {name}", page.display());
                named += 1;
            }
        }
    }
    assert!(named > 20, "{named}");
}

/// Commands on pages name targets of cargo that exist, and modules of tests that exist.
#[test]
fn targets_that_pages_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut named = 0;
    for page in walk(&root.join("docs"), "md") {
        let text = fs::read_to_string(&page).unwrap();
        let code = text.split('`').skip(1).step_by(2);
        for command in code.filter(|code| code.starts_with("cargo ")) {
            let words: Vec<&str> = command.split_whitespace().collect();
            let after = |option| {
                let at = words.iter().position(|word| *word == option)?;
                words.get(at + 1).copied()
            };
            let package = match after("-p") {
                None => root.clone(),
                Some(name) => {
                    let name = name.trim_start_matches("pathmark-");
                    let tiers = ["apps", "crates", "tools"].map(|tier| root.join(tier).join(name));
                    let package = tiers.into_iter().find(|path| path.is_dir());
                    package.unwrap_or_else(|| panic!("{}: {command}", page.display()))
                }
            };
            let exists = |folder: &str, name: &str| {
                let path = package.join(folder).join(name);
                let found = path.is_dir() || path.with_extension("rs").is_file();
                assert!(found, "{}: {command}", page.display());
            };
            for (option, folder) in [
                ("--test", "tests"),
                ("--bench", "benches"),
                ("--example", "examples"),
            ] {
                if let Some(name) = after(option) {
                    exists(folder, name);
                    named += 1;
                }
            }
            if let Some(module) = after("it").filter(|word| !word.starts_with('-')) {
                exists("tests/it", module);
            }
        }
    }
    assert!(named > 8, "{named}");
}

/// Every key that commands print with `--json`, every reason and every outcome has its explanation.
#[test]
fn keys_and_values_of_json_are_explained() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let names = ["json.md", "emulate.md", "path-report.md"];
    let pages = names.map(|name| fs::read_to_string(docs.join(name)).unwrap());
    let pages = pages.concat();
    // Without blocks, so that each second part is code.
    let prose: String = pages.split("```").step_by(2).collect();
    let code = prose.split('`').skip(1).step_by(2);
    let code = code.fold(String::new(), |all, code| all + " " + code);
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let explained: BTreeSet<&str> = code.split(|c| !is_word(c)).collect();

    let offered = Offered::new();
    fs::write(offered.path().join("file"), "content").unwrap();
    let server = Server::offering(&offered, "127.0.0.1:0", &["--allow-put"]);
    let own = offered.path().join("file");
    let out = TempDir::new().unwrap();
    let (own, out) = (own.display(), out.path().display());
    let transfers = [
        format!("get @/file -o {out}/copy --json"),
        format!("put {own} @ --force --json"),
        "ls @ --json".to_owned(),
    ];
    let transfers = transfers.map(|line| server.run(&line));
    let emulated = [
        "",
        " --set link.bottleneck.controller=xcp",
        " --set link.bottleneck.controller=xcp-i[estimate=exact]",
        " --sweep seed=1,2",
    ];
    let brief = "emulate five-files --set duration=3s --json";
    let emulated = emulated.map(|more| run(&words(&format!("{brief}{more}"))));
    let mut keys = BTreeSet::new();
    for output in transfers.iter().chain(&emulated) {
        let printed = json(output);
        add_keys(&printed, &mut keys);
    }
    assert!(keys.len() > 100, "{keys:?}");
    let is_unexplained = |key: &&String| !explained.contains(&key[..]);
    let unexplained: Vec<_> = keys.iter().filter(is_unexplained).collect();
    assert!(unexplained.is_empty(), "{unexplained:?}");

    let metrics = include_str!("../../../../crates/cc/src/metrics/mod.rs");
    let (_, outcomes) = metrics.split_once("impl QuickStartOutcome").unwrap();
    let outcomes = outcomes.split("=> \"").skip(1);
    let outcomes = outcomes.map(|rest| rest.split('"').next().unwrap());
    let reasons = FallbackReason::ALL.iter().map(|reason| reason.name());
    let values: Vec<&str> = reasons.chain(outcomes).collect();
    assert!(values.len() >= 17, "{values:?}");
    for value in values {
        assert!(explained.contains(value), "{value}");
    }
}

/// Adds the keys of objects at any depth, except those of `set`, which are keys of scenarios.
fn add_keys(value: &Value, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                keys.insert(key.clone());
                if key != "set" {
                    add_keys(value, keys);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| add_keys(value, keys)),
        _ => {}
    }
}

fn walk(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(walk(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found
}
