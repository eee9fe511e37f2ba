//! Fuzz target of the names of the harm grid's cells.
//!
//! `cargo test` runs it over a bounded number of random inputs; a fuzzer drives the same function
//! for as long as one likes: `cargo bolero test -p pathmark-lab cells`.

use std::path::Path;

use pathmark_emulator::Scenario;
use pathmark_lab::harm::{Cell, Roles};

const ITERATIONS: usize = 20_000;

/// Any text is either refused with an error, or the name of a cell, which gives a scenario or an
/// error.
#[test]
fn cells() {
    const PARTS: &[&str] = &[
        "hidden/after",
        "loss/random",
        "loss/late",
        "outage/trace",
        "hops/lot",
        "jitter/step",
        "flows/mice",
        "flows/rtts",
        "100M",
        "2G",
        "32k",
        "5M",
        "8p",
        "1bdp",
        "0.1bdp",
        "2+2",
        "200+200",
        "1+0",
        "20us",
        "80ms",
        "60s",
        "x1",
        "x200",
        "5%",
        "0.1%",
        "50%",
        "30kB",
        "100000kB",
        "single",
        "burst5",
        "through",
        "begins",
        "undeclared",
        "",
        "+",
        "%",
        "18446744073709551615M",
        "0",
        "-",
        "/",
        "é",
    ];
    bolero::check!()
        .with_iterations(ITERATIONS)
        .with_max_len(9)
        .for_each(|input: &[u8]| {
            let parts: Vec<&str> = input
                .iter()
                .map(|byte| PARTS[usize::from(*byte) % PARTS.len()])
                .collect();
            let name = parts.join("-");
            match name.parse::<Cell>() {
                Err(error) => assert!(!error.to_string().is_empty()),
                Ok(cell) => {
                    assert_eq!(cell.to_string(), name);
                    let roles = Roles {
                        law: "vcp",
                        port: "vcp+bise",
                        guest: "xcp",
                    };
                    let text = cell.scenario(1, roles);
                    if let Err(error) = Scenario::parse(Path::new("cell.toml"), &text) {
                        let text = error.to_string();
                        assert!(!text.is_empty() && !text.contains('\n'), "{text}");
                    }
                }
            }
        });
}
