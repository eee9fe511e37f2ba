//! `pathmark compare` from a user's perspective.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{Process, ended, json, run, stderr, table, words};

/// Everything takes one second.
const SMALL: &str = "--algorithms vcp+bise+wlte,cubic --rate 2Mbit --rtt 20ms,100ms \
                     --buffer 1bdp --flows 2 --routers none,1 --loss 0,1%";

/// Runs the small grid with this number of seeds and additional options.
fn seeded(seeds: &str, more: &[&str]) -> Output {
    let fixed = ["compare", "--seeds", seeds];
    run(&[&fixed[..], &words(SMALL), more].concat())
}

fn small(more: &[&str]) -> Output {
    seeded("2", more)
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_grid_for_people_and_for_scripts() {
    let directory = TempDir::new().unwrap();
    let out = directory.path().join("out");
    let output = small(&["--json", "--out", text(&out)]);
    ended(&output, 0, "8 cells, 2 laws, 2 seeds");
    let report = json(&output);
    let cells = report["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 8);
    for cell in cells {
        for law in cell["laws"].as_array().unwrap() {
            assert_eq!(law["figures"]["completion"]["n"], 2, "{law}");
            assert!(law["figures"]["queue"]["ci95"].is_number());
        }
        assert!(!cell["best"]["completion"].as_array().unwrap().is_empty());
    }
    assert_eq!(report["sentences"].as_array().unwrap().len(), 6);
    // CUBIC uses no router signal, so its runs are the same with and without a router.
    let cubic = |index: usize| &cells[index]["laws"][1]["figures"];
    assert_eq!(cubic(0), cubic(1));
    for name in ["", "-completion", "-jain", "-fct-p95"] {
        let picture = fs::read_to_string(out.join(format!("compare{name}.svg"))).unwrap();
        let is_whole = picture.contains("<svg") && picture.contains("router answers");
        assert!(is_whole, "compare{name}");
    }
    let table = fs::read_to_string(out.join("compare.txt")).unwrap();
    let is_whole = table.contains("best or as good in") && table.contains("±");
    assert!(is_whole, "{table}");
    // 4 paths, with and without routers for one law.
    assert_eq!(files(&out.join("cells")).len(), 12);
}

#[test]
fn a_run_that_was_stopped_goes_on_and_believes_no_damaged_file() {
    let directory = TempDir::new().unwrap();
    let out = directory.path().join("out");
    let more = ["--json", "--out", text(&out)];
    let whole = json(&small(&more));
    let cells = files(&out.join("cells"));
    // One file is missing, one is truncated, one contains other numbers, one is from another
    // program, and one can't be parsed.
    fs::remove_file(&cells[0]).unwrap();
    let cut = fs::read_to_string(&cells[1]).unwrap();
    fs::write(&cells[1], &cut[..cut.len() / 2]).unwrap();
    let forged = fs::read_to_string(&cells[2]).unwrap();
    let forged = forged.replacen("\"unfinished\": 0", "\"unfinished\": 7", 1);
    fs::write(&cells[2], forged).unwrap();
    let mut other: Value = serde_json::from_slice(&fs::read(&cells[3]).unwrap()).unwrap();
    other["program"] = "00".into();
    fs::write(&cells[3], other.to_string()).unwrap();
    fs::write(&cells[4], vec![b'['; 1 << 20]).unwrap();
    let again = small(&more);
    for part in [
        "10 runs to do",
        "7 of 12 cells and laws are there already",
        "4 of 12 cells and laws are damaged",
    ] {
        ended(&again, 0, part);
    }
    assert_eq!(json(&again), whole);
    let third = small(&more);
    let nothing = ": 0 runs to do, 0 million packets, about 0 seconds";
    ended(&third, 0, nothing);
    assert_eq!(json(&third), whole);
    // Other seeds result in other runs.
    let fewer = seeded("1", &[&more[..], &["--estimate"]].concat());
    let fewer = stderr(&fewer);
    assert!(fewer.contains("another program or grid"), "{fewer}");
}

#[cfg(unix)]
#[test]
fn an_interrupt_keeps_what_is_done() {
    use nix::sys::signal::Signal;

    let directory = TempDir::new().unwrap();
    let out = directory.path().join("out");
    // Each job is short, and together they take a while.
    let line = format!(
        "compare --algorithms cubic,bbr --rate 1Mbit,5Mbit --rtt 10ms,20ms --flows 1..300 \
         --routers none --out {}",
        text(&out)
    );
    let process = Process::start(&words(&line));
    // From the first result on, Ctrl-C is handled.
    let kept = || fs::read_dir(out.join("cells")).is_ok_and(|mut cells| cells.any(is_result));
    while !kept() {
        std::thread::yield_now();
    }
    process.signal(Signal::SIGINT);
    ended(&process.finish(), 1, "goes on where this one was");
    assert!(!files(&out.join("cells")).is_empty());
    let estimate = stderr(&run(&words(&format!("{line} --estimate"))));
    assert!(estimate.contains("are there already"), "{estimate}");
}

#[cfg(unix)]
fn is_result(entry: std::io::Result<fs::DirEntry>) -> bool {
    entry.is_ok_and(|entry| entry.path().extension().is_some_and(|end| end == "json"))
}

#[test]
fn what_cannot_be_is_usage() {
    let directory = TempDir::new().unwrap();
    let grid = directory.path().join("grid.toml");
    fs::write(&grid, "rate = \"1Mbit\"\nspeed = 3\n").unwrap();
    let (grid, flows) = (text(&grid), "1..1000000");
    let cases = format!(
        "--algorithms cubik => did you mean `cubic`
        --rate 1Mbit,,2Mbit => --rate `1Mbit,,2Mbit` lists no values
        --flows {flows} => --flows: the range `{flows}` must go up, over 100000 numbers at most
        --flows 1..1000 --seeds 999 => at most 200000 runs
        --seeds 0 => 0 seeds
        --grid {grid} => grid.toml:2
        --grid /no/such/grid.toml => cannot read /no/such/grid.toml
        --out /proc/no => cannot make /proc/no"
    );
    for (line, says) in table(&cases) {
        let output = run(&words(&format!("compare --estimate {line}")));
        let stderr = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(stderr.contains(says), "{line}: {stderr}");
    }
}

#[test]
fn the_default_grid_has_144_cells() {
    let estimate = run(&["compare", "--estimate"]);
    ended(&estimate, 0, "144 cells, 6 laws, 3 seeds");
}

#[test]
fn a_page_of_the_comparison() {
    let directory = TempDir::new().unwrap();
    let output = small(&["--results", text(directory.path())]);
    assert!(output.status.success(), "{}", stderr(&output));
    let page = fs::read_to_string(directory.path().join("comparison.md")).unwrap();
    let line = "--algorithms 'vcp+bise+wlte,cubic'";
    assert!(page.contains(line), "{page}");
    for picture in page.lines().filter_map(|line| line.strip_prefix("![")) {
        let file = picture.split(['(', ')']).nth(1).unwrap();
        assert!(directory.path().join(file).is_file(), "{file}");
    }
    let fits = |line: &str| line.starts_with('|') || line.chars().count() <= 100;
    assert!(page.lines().all(fits));
}
