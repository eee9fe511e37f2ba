//! Typical scenario files, and the errors that they cause.

mod flows;
mod keys;
mod links;
mod stalls;

use std::path::Path;

use pathmark_cc::Duration;
use pathmark_link::queue::Limit;

use super::*;

fn parse(text: &str) -> Result<Scenario, String> {
    Scenario::parse(Path::new("test.toml"), text).map_err(|error| error.to_string())
}

const GOOD: &str = r#"name = "test"
duration = "60s"
packet = 1040
measure = [["10s", "20s"]]

[[link]]
name = "access"
from = "S"
to = "R"
duplex = true
delay = "1ms"

[[link]]
name = "bottleneck"
from = "R"
to = "D"
duplex = true
rate = "10Mbit"
delay = "199ms"
queue = { kind = "droptail", limit = "1bdp" }
controller = "vcp"
loss = { kind = "bernoulli", per = 1e-3 }
at = [ { t = "30s", rate = "5Mbit" } ]
reverse = { rate = "1Mbit", loss = { kind = "bernoulli", per = 0.01 } }

[[flow]]
name = "ftp"
from = "S"
to = "D"
algorithm = "vcp"
count = 3
bytes = 5_000_000
start = ["0s", "1s", "2.5s"]
stop = "50s"
receive_window = "64KiB"
max_ack_ranges = 2
packet = 600
"#;

#[test]
fn a_whole_file() {
    let scenario = parse(GOOD).unwrap();
    assert_eq!(scenario.nodes, ["S", "R", "D"]);
    let names: Vec<_> = scenario.links.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "access",
            "access.reverse",
            "bottleneck",
            "bottleneck.reverse"
        ]
    );
    let [_, _, there, back] = &scenario.links[..] else {
        panic!("four directions")
    };
    assert_eq!(there.spec.rate.unwrap().bytes(), 1_250_000);
    assert_eq!(there.spec.limit(there.rtt), Limit::Bytes(500_000));
    assert_eq!(back.spec.rate.unwrap().bytes(), 125_000);
    assert_eq!(back.spec.delay, there.spec.delay);
    // One bandwidth-delay product of its own rate and the flows' round trip.
    assert_eq!(back.spec.limit(back.rtt), Limit::Bytes(50_000));
    assert!(back.spec.controller.is_none() && back.spec.at.is_empty());
    assert_ne!(back.spec.loss, there.spec.loss);
    let flows = &scenario.flows;
    let names: Vec<_> = flows.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["ftp0", "ftp1", "ftp2"]);
    assert_eq!(flows[2].start, Duration::from_millis(2_500));
    assert_eq!(flows[0].path, [vec![0, 2], vec![3, 1]]);
    assert_eq!(flows[0].receive_window, Some(65_536));
    assert_eq!(flows[0].packet, 600);
    assert_eq!(scenario.id(), "test");
}

/// Each row has a text, of which `text` makes a scenario, and parts of its error, with ` => `
/// between them. `¶` ends a line of TOML.
fn refused(text: impl Fn(&str) -> String, rows: &str) {
    for row in rows.trim().lines() {
        let (toml, parts) = row.split_once("=> ").unwrap();
        let error = parse(&text(&toml.trim().replace('¶', "\n"))).unwrap_err();
        assert!(error.starts_with("test.toml:"), "{row}: {error}");
        assert!(!error.contains('\n'), "{row}: {error}");
        for part in parts.split(" => ") {
            assert!(error.contains(part), "{row}: {error}\nlacks {part}");
        }
    }
}

/// Each row begins with a piece of the good file, ` →` and what replaces it.
fn fails(rows: &str) {
    let replaced = |row: &str| {
        let (from, to) = row.split_once(" →").unwrap();
        assert!(GOOD.contains(from), "{from}");
        GOOD.replacen(from, to.trim_start(), 1)
    };
    refused(replaced, rows);
}

/// Appends tables to the good file.
fn and(tables: &str) -> String {
    format!("{GOOD}{tables}\n")
}

#[test]
fn unknown_names_suggest_the_nearest() {
    let rows = r#"
        delay = "1ms" → dealy = "1ms" => :11: => `delay`
        duration → durration => :2: => `duration`
        algorithm = "vcp" → algorithm = "vpc" => :30: => algorithm => did you mean `vcp`
        r = "vcp" → r = "vcp[kapa=1]" => :21: => controller => did you mean `kappa`
        reverse = { rate → reverse = { rat => :24: => did you mean `rate`
        [[flow]] → [[flwo]] => did you mean `flow`
        "ftp"¶from = "S" → "ftp"¶from = "s" => :28: => from: => no link => did you mean
    "#;
    fails(rows);
}

#[test]
fn impossible_demands() {
    let rows = r#"
        10Mbit → 7bit => :18: => rate => at least 8bit
        10Mbit → 10Mb => :18: => rate => 10Mbit
        "1bdp" → "1000B" => :20: => cannot hold one packet
        "1bdp" → "0p" => :20: => room for a packet
        "1bdp" → "0.001bdp" => :20:
        rate = "10Mbit"¶ →  => controller => add `rate`
        "60s" → "0s" => :2: => duration
        "20s"]] → "10s"]] => :4: => ends after it begins
        "20s"]] → "61s"]] => :4: => raise `duration`
        packet = 1040 → packet = 100 => :3: => 512
        "2.5s"] → "60s"] => :33: => starts after the run
        , "2.5s"] → ] => :33: => 2 times for 3 flows
        count = 3 → count = 0 => :31: => count
        stop = "50s" → stop = "2s" => :34: => stops before
        to = "R" → to = "S" => :9: => comes from
        "bottleneck" → "access" => :14: => already
        duplex = true¶delay = "1ms" → delay = "1ms" => :28: => no way back from `D` to `S`
        from = "S"¶to = "R" → from = "S"¶to = "X" => :29: => no way leads from `S` to `D`
    "#;
    fails(rows);
    assert!(parse("duration = \"1s\"").unwrap_err().contains("[[link]]"));
    let lonely = GOOD.split("[[flow]]").next().unwrap();
    assert!(parse(lonely).unwrap_err().contains("[[flow]]"));
}
