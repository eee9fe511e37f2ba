//! `pathmark emulate` and `pathmark merge` from a user's perspective.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const SCENARIO: &str = r#"
name = "two files"
duration = "20s"

[[link]]
name = "hop"
from = "A"
to = "B"
duplex = true
rate = "5Mbit"
delay = "10ms"
controller = "vcp+bise"
loss = { kind = "bernoulli", per = 1e-3 }

[[flow]]
name = "file"
from = "A"
to = "B"
count = 2
bytes = 200_000
"#;

fn scenario(directory: &TempDir) -> PathBuf {
    let path = directory.path().join("two.toml");
    fs::write(&path, SCENARIO).unwrap();
    path
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pathmark"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Returns the single JSON object on stdout, without the wall time, which differs between runs.
fn json(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let mut value = serde_json::from_slice(&output.stdout).unwrap();
    forget_wall_time(&mut value);
    value
}

fn forget_wall_time(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("wall_s");
            map.values_mut().for_each(forget_wall_time);
        }
        Value::Array(list) => list.iter_mut().for_each(forget_wall_time),
        _ => {}
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn one_run_for_people_and_for_scripts() {
    let directory = TempDir::new().unwrap();
    let path = scenario(&directory);
    let out = directory.path().join("out");
    let result = json(&run(&["emulate", text(&path), "--json", "--seed", "7"]));
    assert_eq!(result["scenario"], "two files");
    assert_eq!(result["seed"], 7);
    for flow in result["flows"].as_array().unwrap() {
        assert_eq!(flow["bytes_delivered"], 200_000);
        assert_eq!(flow["completed"], true);
    }
    let people = run(&["emulate", text(&path), "--seed", "7", "--out", text(&out)]);
    assert!(people.status.success());
    let said = String::from_utf8(people.stdout).unwrap();
    assert!(
        said.contains("file0") && said.contains("5.00 Mbit/s"),
        "{said}"
    );
    for file in ["flows.csv", "links.csv", "plot.svg"] {
        assert!(fs::metadata(out.join(file)).unwrap().len() > 0, "{file}");
    }
    let mut written = serde_json::from_slice(&fs::read(out.join("result.json")).unwrap()).unwrap();
    forget_wall_time(&mut written);
    assert_eq!(written, result, "the same seed, the same result");
}

#[test]
fn shards_merge_to_what_the_whole_sweep_gives() {
    let directory = TempDir::new().unwrap();
    let path = scenario(&directory);
    let (first, second) = (directory.path().join("a"), directory.path().join("b"));
    let sweep = |more: &[&str]| {
        let mut arguments = vec!["emulate", text(&path), "--json"];
        arguments.extend([
            "--sweep",
            "flow.file.algorithm=vcp[alpha=1.0,t_rho=200ms],cubic",
        ]);
        arguments.extend(["--sweep", "seed=1..2"]);
        arguments.extend(more);
        run(&arguments)
    };
    let unsplit = directory.path().join("unsplit");
    let whole = json(&sweep(&["--out", text(&unsplit)]));
    assert_eq!(whole["runs"].as_array().unwrap().len(), 4);
    assert_eq!(whole["runs"][2]["set"]["flow.file.algorithm"], "cubic");
    assert_eq!(whole["runs"][3]["result"]["seed"], 2);

    assert!(
        sweep(&["--shard", "0/2", "--out", text(&first)])
            .status
            .success()
    );
    let incomplete = run(&["merge", text(&first), "--json"]);
    assert_eq!(incomplete.status.code(), Some(1));
    let stderr = String::from_utf8(incomplete.stderr).unwrap();
    assert!(
        stderr.contains("2 of 4") && stderr.contains("missing 1, 3"),
        "{stderr}"
    );

    assert!(
        sweep(&["--shard", "1/2", "--out", text(&second)])
            .status
            .success()
    );
    let joined = directory.path().join("joined");
    let merged = run(&[
        "merge",
        text(&second),
        text(&first),
        "--json",
        "--out",
        text(&joined),
    ]);
    assert_eq!(json(&merged), whole);
    let csv = fs::read_to_string(joined.join("runs.csv")).unwrap();
    assert_eq!(csv.lines().count(), 5, "{csv}");
    let alone = fs::read_to_string(unsplit.join("runs.csv")).unwrap();
    assert_eq!(csv, alone, "byte by byte");
    assert!(
        csv.starts_with("run,variant,flow.file.algorithm,seed,"),
        "{csv}"
    );
    let header = csv.lines().next().unwrap();
    let (_, last) = header.split_once(",completion_mean_s,").unwrap();
    let behind_the_mean = last.split(',').count();
    for row in csv.lines().skip(1) {
        // Names of laws may be quoted and contain commas, but figures don't.
        let mut figures = row.rsplitn(behind_the_mean + 2, ',');
        let mut figure = || figures.next().unwrap().parse::<f64>();
        let [p99, p95, p50] = [(); 3].map(|()| figure().unwrap());
        let mean = figures.nth(behind_the_mean - 3).unwrap();
        let mean: f64 = mean.parse().unwrap();
        // By nearest rank, the median of two files is the faster one, and p95 the slower one.
        assert!(((p50 + p95) / 2.0 - mean).abs() < 1e-9, "{row}");
        assert_eq!(p95, p99, "{row}");
    }
}

/// Shards of a sweep that belong to different experiments: `--set` or the file changed between
/// them, or an index is outside the sweep.
#[test]
fn runs_of_different_experiments_do_not_merge() {
    let directory = TempDir::new().unwrap();
    let path = scenario(&directory);
    let shard = |name: &str, shard: &str, more: &[&str]| {
        let out = directory.path().join(name);
        let mut arguments = vec!["emulate", text(&path), "--sweep", "seed=1..2"];
        arguments.extend(["--shard", shard, "--out", text(&out)]);
        arguments.extend(more);
        assert!(run(&arguments).status.success());
        out
    };
    let first = shard("first", "0/2", &[]);
    let refused = |second: &Path, words: &str| {
        let merged = run(&["merge", text(&first), text(second)]);
        assert_eq!(merged.status.code(), Some(2));
        let stderr = String::from_utf8(merged.stderr).unwrap();
        assert!(stderr.contains(words), "{stderr}");
    };
    let set = shard("set", "1/2", &["--set", "link.hop.rate=50Mbit"]);
    refused(&set, "other --set");
    fs::write(&path, SCENARIO.replace("10ms", "20ms")).unwrap();
    refused(&shard("file", "1/2", &[]), "different experiments");

    fs::write(&path, SCENARIO).unwrap();
    let second = shard("second", "1/2", &[]);
    assert!(
        run(&["merge", text(&first), text(&second)])
            .status
            .success()
    );
    let entries = fs::read_dir(&second)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let case = entries
        .map(|entry| entry.join("case.json"))
        .find(|case| case.exists());
    let case = case.unwrap();
    let changed = fs::read_to_string(&case)
        .unwrap()
        .replace("\"index\": 1", "\"index\": 2");
    fs::write(&case, changed).unwrap();
    refused(&second, "none of the 2");
}

/// The VCP Linux paper's five files: its statements on VCP hold here, and the table shows both
/// results.
#[test]
fn a_paper_s_experiment() {
    let result = json(&run(&["emulate", "vcp-linux-fig3", "--json"]));
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 8);
    for run in runs {
        let flows = run["result"]["flows"].as_array().unwrap();
        assert!(flows.iter().all(|flow| flow["completed"] == true));
    }
    let vcp = runs.iter().find(|run| run["variant"] == "vcp").unwrap();
    assert!(vcp["result"]["jain"].as_f64().unwrap() > 0.99);
    assert_eq!(vcp["result"]["links"][0]["drops"], 0);

    // One shortened run of each variant, for the table.
    let people = run(&["emulate", "vcp-linux-fig3", "--set", "duration=2s"]);
    let said = String::from_utf8(people.stdout).unwrap();
    assert!(
        said.contains("the paper says") && said.contains("32.1 s"),
        "{said}"
    );
    assert!(said.contains("0 of 5 ended"), "{said}");

    // The statements and the note concern the scenario's own paths and controllers.
    let brief = |name, kind, change| run(&["emulate", name, "--set", "duration=2s", kind, change]);
    for change in ["flow.ftp.algorithm=bbr", "link.bottleneck.rate=50Mbit"] {
        for kind in ["--set", "--sweep"] {
            let people = brief("vcp-linux-fig3", kind, change);
            let said = String::from_utf8(people.stdout).unwrap();
            assert!(!said.contains("the paper says"), "{change}: {said}");
            let said = String::from_utf8(people.stderr).unwrap();
            assert!(said.contains("figures do not apply"), "{change}: {said}");
        }
    }
    let note = |set| String::from_utf8(brief("five-files", "--set", set).stdout).unwrap();
    assert!(note("seed=2").contains("The wire alone takes"));
    assert!(!note("link.bottleneck.rate=50Mbit").contains("The wire alone takes"));
}

/// The example in `docs/emulate.md` matches the command's output.
#[test]
fn the_example_of_the_pages_is_of_today() {
    let page = include_str!("../../../../docs/emulate.md");
    let (_, example) = page
        .split_once("`pathmark emulate vcp-linux-fig3`:\n\n```text\n")
        .unwrap();
    let example = example.split("```").next().unwrap().trim();
    let printed = run(&["emulate", "vcp-linux-fig3"]);
    let said = String::from_utf8(printed.stdout).unwrap();
    assert!(
        said.starts_with(example),
        "docs/emulate.md is to have\n{said}"
    );
}

/// A single cell of the harm grid, selected by its name: the law compared with `cubic`, and the
/// scenario's file.
#[test]
fn a_cell_of_the_harm_grid() {
    let directory = TempDir::new().unwrap();
    let out = directory.path().join("out");
    let cell = "outage/low-256k-20p-1+1-20ms";
    let arguments = ["emulate", "--harm", "--seed", "3", "--cell", cell];
    let report = json(&run(
        &[&arguments[..], &["--json", "--out", text(&out)]].concat()
    ));
    let results = report["results"].as_array().unwrap();
    let laws: Vec<_> = results.iter().map(|r| r["law"].as_str().unwrap()).collect();
    assert_eq!(laws, ["auto", "vcp+bise+wlte", "xcp"]);
    for result in results {
        assert_eq!(result["cell"], cell);
        assert!(result["figures"].as_array().unwrap().len() >= 5, "{result}");
    }
    let run_of_cubic = out.join("outage_low-256k-20p-1+1-20ms/cubic-at-xcp");
    let scenario = run_of_cubic.join("scenario.toml");
    let again = json(&run(&["emulate", text(&scenario), "--json"]));
    let written = fs::read(run_of_cubic.join("result.json")).unwrap();
    let mut written: Value = serde_json::from_slice(&written).unwrap();
    forget_wall_time(&mut written);
    assert_eq!(again, written);

    let people = run(&[&arguments[..], &["--laws", "cubic", "--at-most", "0"]].concat());
    assert!(people.status.success(), "cubic does what cubic does");
    let list = run(&[
        "emulate", "--harm", "--list", "--cells", "30", "--seed", "3",
    ]);
    assert_eq!(String::from_utf8(list.stdout).unwrap().lines().count(), 30);
    assert!(list.stderr.is_empty(), "all 30 differ");
    let list = run(&["emulate", "--harm", "--list", "--cells", "100000"]);
    let cells = String::from_utf8(list.stdout).unwrap().lines().count();
    let stderr = String::from_utf8(list.stderr).unwrap();
    assert!(cells < 100_000, "{cells}");
    let drawn = format!("{cells} different cells were drawn, not the 100000");
    assert!(stderr.contains(&drawn), "{cells}: {stderr}");
}

#[test]
fn wrong_usage_ends_with_exit_code_2() {
    let directory = TempDir::new().unwrap();
    let path = scenario(&directory);
    let wrong: &[(&[&str], &str)] = &[
        (&["emulate", "five-file"], "did you mean `five-files`"),
        (
            &["emulate", text(&path), "--set", "duratoin=5s"],
            "`duration`",
        ),
        (&["emulate", text(&path), "--set", "duration"], "KEY=VALUE"),
        (
            &["emulate", text(&path), "--set", "rate=1Mbit"],
            "link.NAME.rate",
        ),
        (
            &["emulate", "five-files", "--set", "link.bottleneck.rate=10"],
            "a bare rate is in bit/s",
        ),
        (
            &["emulate", text(&path), "--sweep", "seed=2..1"],
            "must go up",
        ),
        (&["emulate", text(&path), "--shard", "0/2"], "--out"),
        (&["emulate"], "`pathmark emulate --list` shows"),
        (
            &["emulate", "five-files", "--variant", "x"],
            "leave --variant out",
        ),
        (
            &["demo", "--in-process", "--scenario", "five-files"],
            "use `pathmark emulate five-files`",
        ),
        (&["proxy"], "or --listen ADDR with --token-file FILE"),
        (
            &["emulate", "--harm", "--cell", "hidden/over"],
            "no kind of cell",
        ),
        (&["emulate", "five-files", "--cells", "3"], "--harm"),
        (&["emulate", "--harm", "--cells", "0"], "from 1 to 100000"),
        (
            &["emulate", "--harm", "--cells", "1000000000", "--list"],
            "from 1 to 100000",
        ),
        (&["emulate", "--harm", "--at-most", "2"], "from 0 to 1"),
        (
            &["emulate", "--harm", "--at-most", "abc"],
            "a share such as 0.02",
        ),
        (&["merge", text(directory.path())], "no runs"),
    ];
    for (arguments, expected) in wrong {
        let output = run(arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
    assert!(
        String::from_utf8(run(&["emulate", "--list"]).stdout)
            .unwrap()
            .contains("five-files")
    );
}

#[test]
fn a_scenario_is_shown_with_its_changes() {
    let built_in = run(&["emulate", "five-files", "--show"]);
    let shown = String::from_utf8(built_in.stdout).unwrap();
    let known = include_str!("../../../emulator/scenarios/five-files.toml");
    assert_eq!(shown, known, "byte for byte, with its comments");
    let changed = run(&[
        "emulate",
        "five-files",
        "--show",
        "--set",
        "duration=7s",
        "--seed",
        "9",
    ]);
    let shown = String::from_utf8(changed.stdout).unwrap();
    assert!(
        shown.contains("duration = \"7s\"") && shown.contains("seed = 9"),
        "{shown}"
    );
    // The shown scenario can be run.
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("shown.toml");
    fs::write(&path, shown).unwrap();
    assert_eq!(
        json(&run(&["emulate", text(&path), "--json"]))["simulated_s"],
        7.0
    );
    let wrong = run(&["emulate", "five-files", "--show", "--set", "duratoin=7s"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_a_run_and_keeps_what_was_measured() {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    let directory = TempDir::new().unwrap();
    let (path, out) = (scenario(&directory), directory.path().join("out"));
    let child = Command::new(env!("CARGO_BIN_EXE_pathmark"))
        .args(["emulate", text(&path), "--out", text(&out)])
        .args([
            "--set",
            "flow.file.bytes=900_000_000_000",
            "--set",
            "duration=1000000s",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Time series are written during the run; once the file has bytes, Ctrl-C is handled.
    while fs::metadata(out.join("flows.csv")).map_or(0, |file| file.len()) == 0 {
        std::thread::yield_now();
    }
    kill(
        Pid::from_raw(i32::try_from(child.id()).unwrap()),
        Signal::SIGINT,
    )
    .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("interrupted")
    );
    let result: Value =
        serde_json::from_slice(&fs::read(out.join("result.json")).unwrap()).unwrap();
    let simulated = result["simulated_s"].as_f64().unwrap();
    assert!(simulated > 0.0 && simulated < 1e6, "{simulated}");
}

#[test]
fn a_variant_is_run_alone_by_its_name() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("two.toml");
    let variants = "[[variant]]\nname = \"a, slow\"\nset = { \"link.hop.rate\" = \"2Mbit\" }\n\
        [[variant]]\nname = \"b\"\nset = { \"link.hop.rate\" = \"9Mbit\" }\n";
    fs::write(&path, format!("{SCENARIO}{variants}")).unwrap();
    let path = path.to_str().unwrap();
    let rates = |arguments: &[&str]| {
        let value = json(&run(&[&["emulate", path, "--json"], arguments].concat()));
        let runs = value.get("runs").and_then(Value::as_array).cloned();
        // A single run is an object, several runs are a list.
        let results: Vec<Value> = match runs {
            Some(runs) => runs.iter().map(|run| run["result"].clone()).collect(),
            None => vec![value],
        };
        let rate = |result: &Value| result["links"][0]["rate_bps"].as_f64().unwrap() / 1e6;
        results.iter().map(rate).collect::<Vec<_>>()
    };
    assert_eq!(rates(&[]), [2.0, 9.0]);
    assert_eq!(rates(&["--variant", "a, slow"]), [2.0]);
    assert_eq!(
        rates(&["--variant", "b", "--variant", "a, slow"]),
        [2.0, 9.0]
    );
    let wrong = run(&["emulate", path, "--variant", "c"]);
    assert_eq!(wrong.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&wrong.stderr);
    assert!(
        stderr.contains("no variant `c`: it has `a, slow`, `b`"),
        "{stderr}"
    );
}
