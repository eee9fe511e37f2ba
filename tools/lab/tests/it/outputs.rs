//! The files of runs, including plots.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use pathmark_emulator::{Progress, Scenario};
use pathmark_lab::outputs::PlottedOutputs;
use pathmark_lab::sweep::{Shard, cases};

/// All files of a directory.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap());
    let file = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        (name, std::fs::read(entry.path()).unwrap())
    };
    entries.map(file).collect()
}

const EVERYTHING: &str = r#"
duration = "5s"
measure = [["1s", "3s"]]
[[link]]
name = "port"
from = "R"
to = "D"
duplex = true
rate = "8Mbit"
delay = "15ms"
queue = { kind = "red", limit = "1bdp" }
controller = "vcp+bise"
jitter = { max = "3ms", reorder = true }
capture = true
at = [
  { t = "2s", rate = "4Mbit" },
  { t = "4s", delay = "5ms" },
  { t = "4s", loss = { kind = "gilbert-elliott", p_good_bad = 0.01, p_bad_good = 0.3 } },
]
[link.loss]
kind = "bit-errors"
ber_good = 1e-7
ber_bad = 1e-3
p_good_bad = 1e-6
p_bad_good = 1e-3
fec = { rate = 0.98 }
[[link]]
name = "hub"
from = "S"
to = "R"
duplex = true
medium = "hub"
rate = "10Mbit"
queue = { limit = "50p" }
[[flow]]
name = "f"
from = "S"
to = "D"
count = 2
start = ["0s", "300ms"]
[[flow]]
name = "c"
from = "D"
to = "S"
algorithm = "cubic"
rate = "1Mbit"
on_off = { on = "1s", off = "500ms", random = true }
[[flow]]
name = "u"
from = "S"
to = "D"
algorithm = "udp"
rate = "500kbit"
poisson = true
[sweep]
"seed" = [1, 2, 3]
"link.port.rate" = ["8Mbit", "20Mbit"]
"#;

/// Every file of every run, byte by byte, however the runs are split, in whatever order and on
/// whatever thread.
#[test]
fn runs_do_not_depend_on_when_and_where_they_are_made() {
    let scenario = Scenario::parse(Path::new("all.toml"), EVERYTHING).unwrap();
    let cases = || cases(&scenario, &[], &[]).unwrap();
    let write = |scenario: &Scenario| {
        let directory = tempfile::tempdir().unwrap();
        let go_on = |_: &Progress| ControlFlow::Continue(());
        let mut outputs = PlottedOutputs::create(directory.path(), go_on).unwrap();
        let result = scenario.run_with(&mut outputs).unwrap();
        outputs.finish(&result, "").unwrap();
        files(directory.path())
    };
    let whole = cases()
        .iter()
        .map(|(_, scenario)| write(scenario))
        .collect::<Vec<_>>();
    let names: Vec<&str> = whole[0].keys().map(String::as_str).collect();
    let expected = "flows.csv links.csv plot.svg port.pcapng result.json";
    assert_eq!(names.join(" "), expected);
    assert_eq!(whole.len(), 6);
    let plot = String::from_utf8_lossy(&whole[0]["plot.svg"]);
    assert!(plot.contains("<polyline"), "{plot}");
    for (index, one) in whole.iter().enumerate() {
        let equal = |other: &&BTreeMap<_, _>| other["result.json"] == one["result.json"];
        let same = whole.iter().filter(equal);
        assert_eq!(same.count(), 1, "run {index} is unlike all others");
    }
    for shards in 2..=3 {
        let made = std::thread::scope(|scope| {
            let shard = |number: usize| {
                let shard: Shard = format!("{number}/{shards}").parse().unwrap();
                let own = cases()
                    .into_iter()
                    .filter(move |(case, _)| shard.holds(case));
                // Last first.
                let own: Vec<_> = own.collect::<Vec<_>>().into_iter().rev().collect();
                scope.spawn(move || -> Vec<_> {
                    own.iter()
                        .map(|(case, scenario)| (case.index, write(scenario)))
                        .collect()
                })
            };
            let threads: Vec<_> = (0..shards).map(shard).collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect::<Vec<_>>()
        });
        assert_eq!(made.len(), 6);
        for (index, files) in made {
            for (name, bytes) in &files {
                let same = *bytes == whole[index][name];
                assert!(same, "{name} of run {index}, {shards} shards");
            }
        }
    }
}
