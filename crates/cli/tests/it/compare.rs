//! `pathmark compare` from a user's perspective.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Everything takes one second.
const SMALL: [&str; 15] = [
    "compare",
    "--algorithms",
    "vcp+bise+wlte,cubic",
    "--seeds",
    "2",
    "--rate",
    "2Mbit",
    "--rtt",
    "20ms,100ms",
    "--buffer",
    "1bdp",
    "--flows",
    "2",
    "--routers",
    "none,1",
];

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pathmark"));
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Runs the small grid with additional options.
fn small(more: &[&str]) -> Output {
    run(&[&SMALL[..], &["--loss", "0,1%"], more].concat())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", said(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
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
    assert!(
        said(&output).contains("8 cells, 2 laws, 2 seeds"),
        "{}",
        said(&output)
    );
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
    for name in [
        "compare",
        "compare-completion",
        "compare-jain",
        "compare-fct-p95",
    ] {
        let picture = fs::read_to_string(out.join(format!("{name}.svg"))).unwrap();
        assert!(
            picture.contains("<svg") && picture.contains("router answers"),
            "{name}"
        );
    }
    let table = fs::read_to_string(out.join("compare.txt")).unwrap();
    assert!(
        table.contains("best or as good in") && table.contains("±"),
        "{table}"
    );
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
    let stderr = said(&again);
    assert!(stderr.contains("10 runs to do"), "{stderr}");
    assert!(
        stderr.contains("7 of 12 cells and laws are there already"),
        "{stderr}"
    );
    assert!(
        stderr.contains("4 of 12 cells and laws are damaged"),
        "{stderr}"
    );
    assert_eq!(json(&again), whole);
    let third = small(&more);
    let nothing = ": 0 runs to do, 0 million packets, about 0 seconds";
    assert!(said(&third).contains(nothing), "{}", said(&third));
    assert_eq!(json(&third), whole);
    // Other seeds result in other runs.
    let fewer = [&more[..], &["--seeds", "1", "--estimate"]].concat();
    let fewer: Vec<&str> = SMALL[..3]
        .iter()
        .chain(&SMALL[5..])
        .copied()
        .chain(fewer)
        .collect();
    let fewer = run(&fewer);
    assert!(
        said(&fewer).contains("another program or grid"),
        "{}",
        said(&fewer)
    );
}

#[cfg(unix)]
#[test]
fn an_interrupt_keeps_what_is_done() {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    let directory = TempDir::new().unwrap();
    let out = directory.path().join("out");
    // Each job is short, and together they take a while.
    let arguments = [
        "compare",
        "--algorithms",
        "cubic,bbr",
        "--rate",
        "1Mbit,5Mbit",
        "--rtt",
        "10ms,20ms",
        "--flows",
        "1..300",
        "--routers",
        "none",
        "--out",
        text(&out),
    ];
    let child = command(&arguments).spawn().unwrap();
    // From the first result on, Ctrl-C is handled.
    let kept = || fs::read_dir(out.join("cells")).is_ok_and(|mut cells| cells.any(is_result));
    while !kept() {
        std::thread::yield_now();
    }
    kill(
        Pid::from_raw(i32::try_from(child.id()).unwrap()),
        Signal::SIGINT,
    )
    .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let stderr = said(&output);
    assert!(stderr.contains("goes on where this one was"), "{stderr}");
    assert!(!files(&out.join("cells")).is_empty());
    let estimate = run(&[&arguments[..], &["--estimate"]].concat());
    assert!(
        said(&estimate).contains("are there already"),
        "{}",
        said(&estimate)
    );
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
    for (arguments, words) in [
        (&["--algorithms", "cubik"][..], "did you mean `cubic`"),
        (
            &["--rate", "1Mbit,,2Mbit"],
            "--rate `1Mbit,,2Mbit` lists no values",
        ),
        (
            &["--flows", "1..1000000"],
            "--flows: the range `1..1000000` must go up, over 100000 numbers at most",
        ),
        (
            &["--flows", "1..1000", "--seeds", "999"],
            "at most 200000 runs",
        ),
        (&["--seeds", "0"], "0 seeds"),
        (&["--grid", text(&grid)], "grid.toml:2"),
        (
            &["--grid", "/no/such/grid.toml"],
            "cannot read /no/such/grid.toml",
        ),
        (&["--out", "/proc/no"], "cannot make /proc/no"),
    ] {
        let output = run(&[&["compare", "--estimate"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let stderr = said(&output);
        assert!(stderr.contains(words), "{arguments:?}: {stderr}");
    }
}

#[test]
fn the_default_grid_has_144_cells() {
    let output = run(&["compare", "--estimate"]);
    assert!(output.status.success());
    let stderr = said(&output);
    assert!(stderr.contains("144 cells, 6 laws, 3 seeds"), "{stderr}");
}

#[test]
fn a_page_of_the_comparison() {
    let directory = TempDir::new().unwrap();
    let output = small(&["--results", text(directory.path())]);
    assert!(output.status.success(), "{}", said(&output));
    let page = fs::read_to_string(directory.path().join("comparison.md")).unwrap();
    assert!(
        page.contains("--algorithms 'vcp+bise+wlte,cubic'"),
        "{page}"
    );
    for picture in page.lines().filter_map(|line| line.strip_prefix("![")) {
        let file = picture.split(['(', ')']).nth(1).unwrap();
        assert!(directory.path().join(file).is_file(), "{file}");
    }
    assert!(
        page.lines()
            .all(|line| line.starts_with('|') || line.chars().count() <= 100)
    );
}
