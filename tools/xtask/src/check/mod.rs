//! `cargo xtask check`: checks properties that compilers and tests don't.
//!
//! | section of `tools/xtask/ceilings.toml` | counts |
//! |---|---|
//! | `cycle` | top-level modules in the largest import cycle of a crate |
//! | `arrows` | imports between top-level modules of a crate that are part of a cycle |
//! | `cyclic` | modules of a crate, its root among them, with a cycle among those beneath them |
//! | `fields`, `methods`, `impl-files` | maxima over a crate's types (files: of inherent `impl`s) |
//! | `protocols` | files outside laws' and protocols' crates that match or name a protocol |
//! | `packages` | packages that are built for a library user, the test kit, the router |
//! | `code`, `files` | lines of code of a crate, and its files of Rust, apart from tests |
//! | `test-programs` | programs of integration tests, each of which links all that it tests |
//! | `lines` | lines of a file that has more than 500, but for those that only cite |
//!
//! It also checks links within the pages, the book's table of contents, citations of equations and
//! requirements (`citations.rs`), and that no core crate depends on one above (`imports.rs`).
//! `.ci/tools` runs external tools.

mod ceilings;
mod citations;
mod imports;
mod pages;
mod protocols;
mod sizes;
mod source;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use ceilings::Figures;

/// Files with more lines have a separate ceiling.
const MOST_LINES: usize = 500;
/// Crates of laws and protocols, where matching on a protocol is allowed.
const AT_HOME: [&str; 6] = [
    "cc",
    "protocols",
    "qs-proto",
    "vcp-proto",
    "xcp-edge",
    "xcp-proto",
];
/// Packages to count, with a name and the arguments for `cargo tree`.
const PACKAGES: [(&str, &[&str]); 3] = [
    ("library", &["-p", "pathmark"]),
    ("test kit", &["-p", "pathmark", "--features", "testkit"]),
    ("router", &["-p", "pathmark-router", "--features", "daemon"]),
];

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write ceilings that fell, and those of new files and pages; none rises
    #[arg(long)]
    record: bool,
}

/// Returns true if nothing exceeds its ceiling and all links and citations are valid.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = &root.canonicalize().context("no root of the workspace")?;
    let file = root.join("tools/xtask/ceilings.toml");
    let files = tracked(root)?;
    // Markdown files below sources describe test data.
    let is_page = |path: &&PathBuf| {
        path.extension().is_some_and(|extension| extension == "md")
            && path.iter().all(|part| part != "src")
    };
    let pages: Vec<PathBuf> = files.iter().filter(is_page).cloned().collect();
    let pages = pages::read(root, &pages)?;
    let cited = citations::check(root, &files)?;
    if args.record {
        cited.write(root)?;
    }
    let figures = measure(root, &files)?;
    let former = Figures::read(&file)?;
    if args.record {
        return record(figures, &former, &file);
    }
    let mut content = report("ceilings", &figures.above(&former));
    content &= report("stale ceilings", &figures.gone(&former));
    match figures.below(&former) {
        0 => {}
        fell => println!("{fell} figures fell: record them with `cargo xtask check --record`"),
    }
    content &= report("tiers", &imports::upward(root, &crates(root)?)?);
    content &= report("links", &pages::dead_links(root, &pages));
    content &= report("table of contents", &pages::unlisted(&pages));
    cited.counts.iter().for_each(|line| println!("{line}"));
    content &= report("citations", &cited.faults);
    content &= report("pages of RFCs", &cited.stale(root));
    Ok(content)
}

/// Writes ceilings that fell and new ones. A new file must have at most [`MOST_LINES`] lines.
fn record(figures: Figures, former: &Figures, file: &Path) -> Result<bool> {
    let (mut faults, mut new) = (Vec::new(), Vec::new());
    for line in figures.above(former) {
        let is_new = line.ends_with("no ceiling");
        match is_new && (former.is_empty() || !line.starts_with("lines:")) {
            true => new.push(line),
            false => faults.push(line),
        }
    }
    if !faults.is_empty() {
        println!("nothing is recorded while a figure is above its ceiling");
        return Ok(report("ceilings", &faults));
    }
    for line in &new {
        println!("recorded: {line}");
    }
    figures.lowered(former).write(file)?;
    Ok(report("ceilings", &[]))
}

fn report(what: &str, faults: &[String]) -> bool {
    for fault in faults {
        println!("{fault}");
    }
    match faults.len() {
        0 => println!("{what}: all right"),
        count => println!("{what}: {count} faults"),
    }
    faults.is_empty()
}

/// Returns the repository's files, relative to `root`.
pub(crate) fn tracked(root: &Path) -> Result<Vec<PathBuf>> {
    let list = output(
        root,
        "git",
        &[
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ],
    )?;
    let files = list.split('\0').filter(|path| !path.is_empty());
    let files = files
        .map(PathBuf::from)
        .filter(|path| root.join(path).exists());
    let files: Vec<PathBuf> = files.collect();
    if !files.iter().any(|path| path == Path::new("Cargo.toml")) {
        bail!("git does not list this checkout's files: check needs a repository of its own");
    }
    Ok(files)
}

fn output(root: &Path, program: &str, arguments: &[&str]) -> Result<String> {
    let result = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output();
    let result = result.with_context(|| format!("cannot run {program}"))?;
    if !result.status.success() {
        bail!(
            "{program} {arguments:?}: {}",
            String::from_utf8_lossy(&result.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&result.stdout).into_owned())
}

fn measure(root: &Path, files: &[PathBuf]) -> Result<Figures> {
    let mut figures = Figures::default();
    let (mut matching, mut naming) = (0, 0);
    for (name, directory) in crates(root)? {
        let sources = source::of_crate(root, &directory)?;
        let imports = imports::of_crate(&sources);
        let most = |of: fn(&imports::Imports) -> usize| imports.first().map_or(0, of);
        figures.set("cycle", &name, most(imports::Imports::largest_cycle));
        figures.set("arrows", &name, most(imports::Imports::arrows_in_cycles));
        let cyclic = imports.iter().filter(|imports| imports.largest_cycle() > 0);
        figures.set("cyclic", &name, cyclic.count());
        let [fields, methods, impl_files] = sizes::largest(&sources);
        figures.set("fields", &name, fields);
        figures.set("methods", &name, methods);
        figures.set("impl-files", &name, impl_files);
        if !AT_HOME.contains(&name.as_str()) {
            let known = sources.iter().map(protocols::knows);
            for knows in known {
                matching += usize::from(knows.matches);
                naming += usize::from(knows.names);
            }
        }
    }
    figures.set("protocols", "matching", matching);
    figures.set("protocols", "naming", naming);
    for (name, package) in PACKAGES {
        let mut arguments = vec!["tree", "-e", "normal,build", "--prefix", "none", "--locked"];
        arguments.extend(package);
        let tree = output(root, "cargo", &arguments)?;
        let packages: BTreeSet<&str> = (tree.lines())
            .map(|line| line.trim_end_matches(" (*)"))
            .filter(|line| !line.is_empty())
            .collect();
        figures.set("packages", name, packages.len());
    }
    sizes::measure(root, files, &mut figures)?;
    for path in files {
        if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(root.join(path))?;
            let lines = text.lines().filter(|line| !citations::only_cites(line));
            let lines = lines.count();
            if lines > MOST_LINES {
                figures.set("lines", &path.display().to_string(), lines);
            }
        }
    }
    Ok(figures)
}

/// Returns the names and directories of the root package and of all crates but those that check
/// the others.
fn crates(root: &Path) -> Result<Vec<(String, String)>> {
    let mut crates = vec![("pathmark".to_owned(), ".".to_owned())];
    for tier in imports::TIERS {
        for entry in fs::read_dir(root.join(tier))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // Switching branches can leave directories with only ignored files.
            let checks = ["judges", "xtask"].contains(&name.as_str());
            if !checks && entry.path().join("Cargo.toml").exists() {
                let directory = format!("{tier}/{name}");
                crates.push((name, directory));
            }
        }
    }
    crates.sort();
    Ok(crates)
}
