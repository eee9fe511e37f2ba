//! `pathmark emulate` and `pathmark merge` from a user's perspective.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{self, Process, ended, pathmark, run, stderr, table, words};

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

/// Returns the single JSON object on stdout, without the wall time, which differs between runs.
fn json(output: &Output) -> Value {
    let mut value = common::json(output);
    forget_wall_time(&mut value);
    value
}

fn stdout(output: Output) -> String {
    String::from_utf8(output.stdout).unwrap()
}

fn from_file(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
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
    let said = stdout(people);
    let shows = said.contains("file0") && said.contains("5.00 Mbit/s");
    assert!(shows, "{said}");
    for file in ["flows.csv", "links.csv", "plot.svg"] {
        assert!(fs::metadata(out.join(file)).unwrap().len() > 0, "{file}");
    }
    let mut written = from_file(&out.join("result.json"));
    forget_wall_time(&mut written);
    assert_eq!(written, result, "the same seed, the same result");
}

#[test]
fn shards_merge_to_what_the_whole_sweep_gives() {
    let directory = TempDir::new().unwrap();
    let path = scenario(&directory);
    let (first, second) = (directory.path().join("a"), directory.path().join("b"));
    let laws = "flow.file.algorithm=vcp[alpha=1.0,t_rho=200ms],cubic";
    let sweep = |more: &[&str]| {
        let fixed = ["emulate", text(&path), "--json", "--sweep", laws];
        run(&[&fixed[..], &["--sweep", "seed=1..2"], more].concat())
    };
    let unsplit = directory.path().join("unsplit");
    let whole = json(&sweep(&["--out", text(&unsplit)]));
    assert_eq!(whole["runs"].as_array().unwrap().len(), 4);
    assert_eq!(whole["runs"][2]["set"]["flow.file.algorithm"], "cubic");
    assert_eq!(whole["runs"][3]["result"]["seed"], 2);

    let shard = |shard, out| sweep(&["--shard", shard, "--out", text(out)]);
    assert!(shard("0/2", &first).status.success());
    let incomplete = run(&["merge", text(&first), "--json"]);
    ended(&incomplete, 1, "2 of 4");
    ended(&incomplete, 1, "missing 1, 3");

    assert!(shard("1/2", &second).status.success());
    let joined = directory.path().join("joined");
    let merge = ["merge", text(&second), text(&first), "--json", "--out"];
    let merged = run(&[&merge[..], &[text(&joined)]].concat());
    assert_eq!(json(&merged), whole);
    let csv = fs::read_to_string(joined.join("runs.csv")).unwrap();
    assert_eq!(csv.lines().count(), 5, "{csv}");
    let alone = fs::read_to_string(unsplit.join("runs.csv")).unwrap();
    assert_eq!(csv, alone, "byte by byte");
    let keys = "run,variant,flow.file.algorithm,seed,";
    assert!(csv.starts_with(keys), "{csv}");
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
        let fixed = ["emulate", text(&path), "--sweep", "seed=1..2"];
        let out_of = ["--shard", shard, "--out", text(&out)];
        let arguments = [&fixed[..], &out_of, more].concat();
        assert!(run(&arguments).status.success());
        out
    };
    let first = shard("first", "0/2", &[]);
    let refused = |second: &Path, words: &str| {
        let merged = run(&["merge", text(&first), text(second)]);
        ended(&merged, 2, words);
    };
    let set = shard("set", "1/2", &["--set", "link.hop.rate=50Mbit"]);
    refused(&set, "other --set");
    fs::write(&path, SCENARIO.replace("10ms", "20ms")).unwrap();
    refused(&shard("file", "1/2", &[]), "different experiments");

    fs::write(&path, SCENARIO).unwrap();
    let second = shard("second", "1/2", &[]);
    let merged = run(&["merge", text(&first), text(&second)]);
    assert!(merged.status.success());
    let mut entries = fs::read_dir(&second).unwrap();
    let case = entries.find_map(|entry| {
        let case = entry.unwrap().path().join("case.json");
        case.exists().then_some(case)
    });
    let case = case.unwrap();
    let known = fs::read_to_string(&case).unwrap();
    let changed = known.replace("\"index\": 1", "\"index\": 2");
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
    let said = stdout(run(&["emulate", "vcp-linux-fig3", "--set", "duration=2s"]));
    for part in ["the paper says", "32.1 s", "0 of 5 ended"] {
        assert!(said.contains(part), "{said}");
    }

    // The statements and the note concern the scenario's own paths and controllers.
    let brief = |name, kind, change| run(&["emulate", name, "--set", "duration=2s", kind, change]);
    for change in ["flow.ftp.algorithm=bbr", "link.bottleneck.rate=50Mbit"] {
        for kind in ["--set", "--sweep"] {
            let people = brief("vcp-linux-fig3", kind, change);
            let said = String::from_utf8_lossy(&people.stdout);
            assert!(!said.contains("the paper says"), "{change}: {said}");
            let said = stderr(&people);
            assert!(said.contains("figures do not apply"), "{change}: {said}");
        }
    }
    let note = |set| stdout(brief("five-files", "--set", set));
    assert!(note("seed=2").contains("The wire alone takes"));
    assert!(!note("link.bottleneck.rate=50Mbit").contains("The wire alone takes"));
}

/// The example in `docs/emulate.md` matches the command's output.
#[test]
fn the_example_of_the_pages_is_of_today() {
    let page = include_str!("../../../../docs/emulate.md");
    let block = "`pathmark emulate vcp-linux-fig3`:\n\n```text\n";
    let (_, example) = page.split_once(block).unwrap();
    let example = example.split("```").next().unwrap().trim();
    let said = stdout(run(&["emulate", "vcp-linux-fig3"]));
    let is_of_today = said.starts_with(example);
    assert!(is_of_today, "docs/emulate.md is to have\n{said}");
}

/// A single cell of the harm grid, selected by its name: the law compared with `cubic`, and the
/// scenario's file.
#[test]
fn a_cell_of_the_harm_grid() {
    let directory = TempDir::new().unwrap();
    let out = directory.path().join("out");
    let cell = "outage/low-256k-20p-1+1-20ms";
    let arguments = ["emulate", "--harm", "--seed", "3", "--cell", cell];
    let more = ["--json", "--out", text(&out)];
    let report = json(&run(&[&arguments[..], &more].concat()));
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
    let mut written = from_file(&run_of_cubic.join("result.json"));
    forget_wall_time(&mut written);
    assert_eq!(again, written);

    let people = run(&[&arguments[..], &["--laws", "cubic", "--at-most", "0"]].concat());
    assert!(people.status.success(), "cubic does what cubic does");
    let list = |more| run(&words(&format!("emulate --harm --list --cells {more}")));
    let few = list("30 --seed 3");
    assert!(few.stderr.is_empty(), "all 30 differ");
    assert_eq!(stdout(few).lines().count(), 30);
    let most = list("100000");
    let stderr = stderr(&most);
    let cells = stdout(most).lines().count();
    assert!(cells < 100_000, "{cells}");
    let drawn = format!("{cells} different cells were drawn, not the 100000");
    assert!(stderr.contains(&drawn), "{cells}: {stderr}");
}

#[test]
fn wrong_usage_ends_with_exit_code_2() {
    let directory = TempDir::new().unwrap();
    let path = scenario(&directory);
    let (path, empty) = (text(&path), text(directory.path()));
    let cases = format!(
        "emulate five-file => did you mean `five-files`
        emulate {path} --set duratoin=5s => `duration`
        emulate {path} --set duration => KEY=VALUE
        emulate {path} --set rate=1Mbit => link.NAME.rate
        emulate five-files --set link.bottleneck.rate=10 => a bare rate is in bit/s
        emulate {path} --sweep seed=2..1 => must go up
        emulate {path} --shard 0/2 => --out
        emulate => `pathmark emulate --list` shows
        emulate five-files --variant x => leave --variant out
        demo --scenario five-files => [possible values: clean, wireless]
        proxy => or --listen ADDR with --token-file FILE
        emulate --harm --cell hidden/over => no kind of cell
        emulate five-files --cells 3 => --harm
        emulate --harm --cells 0 => from 1 to 100000
        emulate --harm --cells 1000000000 --list => from 1 to 100000
        emulate --harm --at-most 2 => from 0 to 1
        emulate --harm --at-most abc => a share such as 0.02
        merge {empty} => no runs"
    );
    for (line, expected) in table(&cases) {
        let output = run(&words(line));
        let stderr = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains(expected), "{line}: {stderr}");
    }
    assert!(stdout(run(&["emulate", "--list"])).contains("five-files"));
}

#[test]
fn a_scenario_is_shown_with_its_changes() {
    let show = |more| run(&words(&format!("emulate five-files --show{more}")));
    let known = include_str!("../../../../crates/emulator/scenarios/five-files.toml");
    assert_eq!(stdout(show("")), known, "byte for byte, with its comments");
    let shown = stdout(show(" --set duration=7s --seed 9"));
    let is_changed = shown.contains("duration = \"7s\"") && shown.contains("seed = 9");
    assert!(is_changed, "{shown}");
    // The shown scenario can be run.
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("shown.toml");
    fs::write(&path, shown).unwrap();
    let result = json(&run(&["emulate", text(&path), "--json"]));
    assert_eq!(result["simulated_s"], 7.0);
    assert_eq!(show(" --set duratoin=7s").status.code(), Some(2));
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_a_run_and_keeps_what_was_measured() {
    use nix::sys::signal::Signal;

    let directory = TempDir::new().unwrap();
    let (path, out) = (scenario(&directory), directory.path().join("out"));
    let mut command = pathmark(&["emulate", text(&path), "--out", text(&out)]);
    command.args(["--set", "flow.file.bytes=900_000_000_000"]);
    command.args(["--set", "duration=1000000s"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut process = Process(command.spawn().unwrap());
    // Time series are written during the run; once the file has bytes, Ctrl-C is handled.
    while fs::metadata(out.join("flows.csv")).map_or(0, |file| file.len()) == 0 {
        std::thread::yield_now();
    }
    process.signal(Signal::SIGINT);
    let said = std::io::read_to_string(process.0.stderr.take().unwrap()).unwrap();
    assert_eq!(process.0.wait().unwrap().code(), Some(1));
    assert!(said.contains("interrupted"), "{said}");
    let result = from_file(&out.join("result.json"));
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
    let both = ["--variant", "b", "--variant", "a, slow"];
    assert_eq!(rates(&both), [2.0, 9.0]);
    let wrong = run(&["emulate", path, "--variant", "c"]);
    ended(&wrong, 2, "no variant `c`: it has `a, slow`, `b`");
}
