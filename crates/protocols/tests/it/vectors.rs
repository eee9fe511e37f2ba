//! The test vectors of `docs/wire.md`.

use std::collections::BTreeMap;

/// Returns all vectors by name.
fn all() -> BTreeMap<String, Vec<u8>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/wire.md");
    let text = std::fs::read_to_string(path).unwrap();
    let mut vectors = BTreeMap::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix("```hex ") else {
            continue;
        };
        let bytes = lines
            .by_ref()
            .take_while(|line| *line != "```")
            .flat_map(|line| line.split('#').next().unwrap_or("").split_whitespace())
            .map(|byte| u8::from_str_radix(byte, 16).unwrap())
            .collect();
        assert!(
            vectors.insert(name.to_owned(), bytes).is_none(),
            "{name} twice"
        );
    }
    vectors
}

pub(crate) fn vector(name: &str) -> Vec<u8> {
    all()
        .remove(name)
        .unwrap_or_else(|| panic!("no vector {name}"))
}

/// Vectors that the modules of this program check.
const USED: [&str; 31] = [
    "check",
    "edge-acknowledgement",
    "edge-probe",
    "edge-request",
    "edge-request-ipv6",
    "feedback",
    "fresh",
    "ipv4-after",
    "ipv4-before",
    "marked",
    "marked-declared",
    "marked-declared-twice",
    "marked-translated",
    "marked-twice",
    "parameter",
    "quick-start",
    "quick-start-approved",
    "quick-start-denied",
    "quick-start-feedback",
    "quick-start-keep",
    "quick-start-kept",
    "unknown",
    "xcp-compact",
    "xcp-compact-stamped",
    "xcp-feedback",
    "xcp-fresh",
    "xcp-stamped",
    "xcp-stamped-declared",
    "xcp-stamped-ipv6",
    "xcp-stamped-translated",
    "xcp-stamped-twice",
];

#[test]
fn every_vector_is_used() {
    let names: Vec<String> = all().into_keys().collect();
    assert_eq!(names, USED);
}
