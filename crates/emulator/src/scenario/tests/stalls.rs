//! Stalls of nodes.

use super::*;

fn with(stalls: &str) -> Result<Scenario, String> {
    parse(&format!("{GOOD}{stalls}"))
}

fn stall(node: &str, at: &str, lasts: &str) -> String {
    format!("\n[[stall]]\nnode = \"{node}\"\nat = \"{at}\"\nlasts = \"{lasts}\"\n")
}

#[test]
fn stalls_of_routers_and_hosts() {
    let text = stall("D", "20s", "1s") + &stall("R", "10s", "500ms") + &stall("R", "10.5s", "1s");
    let scenario = with(&text).unwrap();
    let seconds = |s: f64| Duration::from_secs_f64(s);
    let found: Vec<_> = scenario
        .stalls
        .iter()
        .map(|stall| (stall.node, stall.from, stall.until))
        .collect();
    assert_eq!(
        found,
        [
            (1, seconds(10.0), seconds(10.5)),
            (1, seconds(10.5), seconds(11.5)),
            (2, seconds(20.0), seconds(21.0)),
        ]
    );
}

#[test]
fn stalls_that_cannot_be() {
    for (text, expected) in [
        (stall("Q", "1s", "1s"), "no link leads to or from `Q`"),
        (stall("R", "1s", "0s"), "`lasts` must be longer than 0"),
        (stall("R", "60s", "1s"), "raise `duration`"),
        (
            stall("R", "1s", "2s") + &stall("R", "2s", "2s"),
            "stalls overlap",
        ),
        (
            stall("R", "1s", "2s").replace("lasts", "last"),
            "did you mean `lasts`",
        ),
        (
            stall("R", "1s", "2s").replace("lasts = \"2s\"", ""),
            "`lasts`",
        ),
    ] {
        let error = with(&text).unwrap_err();
        assert!(error.contains("test.toml:"), "{error}");
        assert!(error.contains(expected), "{error}\nlacks {expected}");
    }
}
