//! Stalls of nodes.

use super::*;

/// Stalls, each from its node, time and length, with `&` between them.
fn with(stalls: &str) -> String {
    let stall = |keys: &str| {
        let [node, at, lasts] = keys.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{keys}");
        };
        format!("\n[[stall]]\nnode = \"{node}\"\nat = \"{at}\"\nlasts = \"{lasts}\"\n")
    };
    and(&stalls.split('&').map(stall).collect::<String>())
}

#[test]
fn stalls_of_routers_and_hosts() {
    let scenario = parse(&with("D 20s 1s&R 10s 500ms&R 10.5s 1s")).unwrap();
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
    let rows = "
        Q 1s 1s => no link leads to or from `Q`
        R 1s 0s => `lasts` must be longer than 0
        R 60s 1s => raise `duration`
        R 1s 2s&R 2s 2s => stalls overlap
    ";
    refused(with, rows);
    let rows = r#"
        [[stall]]¶node = "R"¶at = "1s"¶last = "2s" => did you mean `lasts`
        [[stall]]¶node = "R"¶at = "1s" => `lasts`
    "#;
    refused(and, rows);
}
