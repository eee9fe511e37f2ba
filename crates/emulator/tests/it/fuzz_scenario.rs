//! Fuzz targets for the parsers of scenarios and traces.
//!
//! `cargo test` runs each over a limited number of random inputs. A fuzzer can run the same
//! functions for as long as you like: `cargo bolero test -p pathmark-emulator scenarios`.

use std::path::Path;

use pathmark_emulator::Scenario;

const ITERATIONS: usize = 20_000;
/// Pieces of files, so that random bytes get past the first line.
const WORDS: &[&str] = &[
    "duration = \"1s\"\n",
    "packet = ",
    "measure = [[\"0s\", \"1s\"]]\n",
    "[[link]]\n",
    "[[flow]]\n",
    "name = \"a\"\n",
    "name = \"b\"\n",
    "from = \"A\"\n",
    "to = \"B\"\n",
    "to = \"A\"\n",
    "duplex = true\n",
    "rate = \"10Mbit\"\n",
    "rate = \"99999999Tbit\"\n",
    "delay = \"1ms\"\n",
    "delay = \"584y\"\n",
    "queue = { kind = \"red\", limit = \"1bdp\", min = 1, max = 2 }\n",
    "queue = { limit = \"18446744073709551615bdp\" }\n",
    "controller = \"vcp[",
    "controller = \"vcp+bise\"\n",
    "loss = { kind = \"gilbert-elliott\", p_good_bad = 1, p_bad_good = 0.0 }\n",
    "loss = { kind = \"bit-errors\", ber_good = 0.5, fec = { block = 1, corrects = 0 } }\n",
    "jitter = { max = \"1s\", reorder = true }\n",
    "at = [ { t = \"0s\", rate = \"0\" } ]\n",
    "reverse = { rate = \"1bit\" }\n",
    "rate = { trace = \"fuzz.toml\" }\n",
    "medium = \"hub\"\n",
    "frame_overhead = 4294967295\n",
    "corruption = \"31%\"\n",
    "count = 65536\n",
    "count = -1\n",
    "bytes = 0\n",
    "start = [\"0s\"]\n",
    "stop = \"1ns\"\n",
    "receive_window = \"1B\"\n",
    "max_ack_ranges = 0\n",
    "receiver_estimate = \"real\"\n",
    "packet = 512\n",
    "\"",
    "{",
    "[",
    "=",
    "\n",
    "😀",
    "0",
];

/// For any input, the parser returns a scenario or an error of one line.
#[test]
fn scenarios() {
    bolero::check!()
        .with_iterations(ITERATIONS)
        .with_max_len(48)
        .for_each(|input: &[u8]| {
            let text: String = input
                .iter()
                .map(|byte| WORDS[usize::from(*byte) % WORDS.len()])
                .collect();
            match Scenario::parse(Path::new("fuzz.toml"), &text) {
                Ok(mut scenario) => {
                    let _ = scenario.set("link.a.rate", &text);
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
            let raw = String::from_utf8_lossy(input);
            let _ = Scenario::parse(Path::new("fuzz.toml"), &raw);
        });
}

/// Any trace file is either accepted or refused, and has a rate if it is accepted.
#[test]
fn traces() {
    bolero::check!()
        .with_iterations(ITERATIONS)
        .with_max_len(200)
        .for_each(|input: &[u8]| {
            // Mostly digits and line ends, so that random bytes are sometimes numbers.
            let letters = b"0123456789\n\n\n\r -x\t18446744073709551615\n";
            let text: Vec<u8> = input
                .iter()
                .map(|byte| letters[usize::from(*byte) % letters.len()])
                .collect();
            for text in [
                String::from_utf8_lossy(&text),
                String::from_utf8_lossy(input),
            ] {
                if let Ok(trace) = pathmark_link::trace::Trace::parse(&text) {
                    let _ = trace.mean_rate();
                }
            }
        });
}
