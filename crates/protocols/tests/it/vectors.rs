//! The test vectors of `docs/wire.md`.

use std::collections::BTreeMap;

use pathmark_transport::Counters;
use pathmark_transport::wire::{Frame, Frames, Writer, frame::feedback};

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

/// Checks a FEEDBACK frame of a signal. `read` checks its counters, and returns them as the
/// protocol's totals encode them.
pub(crate) fn check_feedback(name: &str, kind: u8, read: impl FnOnce(&[u64]) -> Vec<u64>) {
    let bytes = vector(name);
    let mut frames = Frames::new(&bytes);
    let Some(Ok(Frame::Feedback(frame))) = frames.next() else {
        panic!("no FEEDBACK frame");
    };
    assert!(frames.next().is_none());
    assert_eq!((frame.kind, frame.epoch), (kind, 0));
    assert_eq!(frame.time, 12_345_678);
    let mut again = Counters::new();
    let totals = read(frame.counters().as_slice());
    assert!(totals.into_iter().all(|total| again.push(total)));
    let mut buffer = [0; 100];
    let mut w = Writer::new(&mut buffer);
    feedback::encode(&mut w, frame.kind, frame.epoch, frame.time, &again).unwrap();
    assert_eq!(w.written(), bytes);
}

/// Vectors that the modules of this program check.
const USED: &str = "check edge-acknowledgement edge-probe edge-request edge-request-ipv6 feedback \
    fresh ipv4-after ipv4-before marked marked-declared marked-declared-twice marked-translated \
    marked-twice parameter quick-start quick-start-approved quick-start-denied \
    quick-start-feedback quick-start-keep quick-start-kept unknown xcp-compact \
    xcp-compact-stamped xcp-feedback xcp-fresh xcp-stamped xcp-stamped-declared xcp-stamped-ipv6 \
    xcp-stamped-translated xcp-stamped-twice";

#[test]
fn every_vector_is_used() {
    let names: Vec<String> = all().into_keys().collect();
    assert_eq!(names.join(" "), USED);
}
