//! The files that a run writes into a directory.

use std::ops::ControlFlow;

use pathmark_emulator::{Outputs, Scenario};

#[test]
fn series_and_result() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("new/place");
    let mut scenario = Scenario::load("five-files").unwrap();
    scenario.set("flow.ftp.count", "2").unwrap();
    scenario.set("flow.ftp.bytes", "1_000_000").unwrap();
    let mut outputs = Outputs::create(&out, |_| ControlFlow::Continue(())).unwrap();
    let result = scenario.run_with(&mut outputs).unwrap();
    outputs.finish(&result).unwrap();

    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let text = serde_json::to_string_pretty(&result).unwrap();
    assert_eq!(read("result.json").trim_end(), text);
    let unwatched = scenario.run(|_| ControlFlow::Continue(())).unwrap();
    assert_eq!(result, unwatched, "watching changes nothing");

    let flows = read("flows.csv");
    let mut rows = flows.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let headings = rows.next().unwrap();
    assert_eq!(headings[..3], ["time_s", "flow", "cwnd_bytes"]);
    let rows: Vec<_> = rows.collect();
    assert!(rows.iter().all(|row| row.len() == headings.len()));
    // Two flows, with a point every 100 ms starting at 0, and one at the end.
    let points = (result.simulated_s * 10.0).floor() as usize + 2;
    assert_eq!(rows.len(), 2 * points);
    let last: Vec<_> = rows[rows.len() - 2..].iter().map(|row| row[6]).collect();
    assert_eq!(last, ["1000000", "1000000"]);
    // At first there is no answer; at the end, a VCP router has answered.
    assert_eq!(headings[9], "fallback");
    assert_eq!([rows[2][9], rows[rows.len() - 1][9]], ["no-answer", ""]);
    let goodput = |row: &Vec<&str>| row[5].parse::<f64>().unwrap();
    let steps = rows.windows(3).map(|w| {
        let time = |row: &Vec<&str>| row[0].parse::<f64>().unwrap();
        (time(&w[2]) - time(&w[0])) * goodput(&w[2])
    });
    let delivered: f64 = steps.sum::<f64>() / 8.0;
    assert!((delivered - 2e6).abs() < 1.0, "{delivered}");

    let links = read("links.csv");
    assert_eq!(links.lines().count(), 1 + 4 * points);
    assert!(links.contains(",bottleneck.reverse,"));
}

/// Returns the packets of a capture: time in ns, and bytes. This follows the format's description
/// instead of the code that writes it.
fn packets(capture: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let word = |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().unwrap());
    let (mut at, mut found) = (0, Vec::new());
    while at < capture.len() {
        let len = word(at + 4) as usize;
        assert!(len.is_multiple_of(4) && word(at + len - 4) as usize == len);
        match word(at) {
            0x0a0d_0d0a => assert_eq!((at, word(at + 8)), (0, 0x1a2b_3c4d)),
            1 => assert_eq!(word(at + 8), 101, "raw IP"),
            6 => {
                let time = (u64::from(word(at + 12)) << 32) | u64::from(word(at + 16));
                let (kept, whole) = (word(at + 20) as usize, word(at + 24) as usize);
                assert_eq!(kept, whole);
                found.push((time, capture[at + 28..at + 28 + kept].to_vec()));
            }
            other => panic!("block {other}"),
        }
        at += len;
    }
    found
}

fn capture(directory: &std::path::Path) -> (pathmark_emulator::result::RunResult, Vec<u8>) {
    let mut scenario = Scenario::load("five-files").unwrap();
    for (key, value) in [
        ("flow.ftp.count", "1"),
        ("flow.ftp.bytes", "300_000"),
        ("link.bottleneck.capture", "true"),
    ] {
        scenario.set(key, value).unwrap();
    }
    let mut outputs = Outputs::create(directory, |_| ControlFlow::Continue(())).unwrap();
    let result = scenario.run_with(&mut outputs).unwrap();
    outputs.finish(&result).unwrap();
    let bytes = std::fs::read(directory.join("bottleneck.pcapng")).unwrap();
    (result, bytes)
}

#[test]
fn a_capture_holds_what_came_out_of_the_link() {
    let directory = tempfile::tempdir().unwrap();
    let (result, bytes) = capture(directory.path());
    let packets = packets(&bytes);
    let sent = result.flows[0].packets_sent.unwrap();
    // None was lost. The handshake's packets share datagrams, and the last packet may be in flight
    // when all data is delivered.
    let missing = sent - packets.len() as u64;
    assert!(missing < 12, "{missing} of {sent}");
    assert!(packets.is_sorted_by_key(|(time, _)| *time));
    let mut marked = 0;
    for (_, packet) in &packets {
        let half = |at: usize| u16::from_be_bytes(packet[at..at + 2].try_into().unwrap());
        assert_eq!(
            (packet[0], packet[9], half(2)),
            (0x45, 17, packet.len() as u16)
        );
        // The header's checksum holds.
        let sum: u32 = (0..20).step_by(2).map(|at| u32::from(half(at))).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        assert_eq!((half(22), half(24)), (4433, packet.len() as u16 - 20));
        let shim = vcp_proto::Packet::parse(&packet[28..]);
        marked += u32::from(shim.is_ok_and(|shim| shim.hops() > 0));
    }
    assert!(marked > 200, "{marked} carry the router's mark");
    let none = directory.path().join("bottleneck.reverse.pcapng");
    assert!(!none.exists(), "the scenario captures one direction only");
}

/// The same with Wireshark's own parser.
#[test]
fn tshark_reads_a_capture() {
    if let Err(error) = std::process::Command::new("tshark")
        .arg("--version")
        .output()
    {
        assert!(
            std::env::var_os("CI").is_none(),
            "tshark judges captures and is missing here ({error}): install it, or run .ci/run, \
             which does"
        );
        println!("not judged: tshark is not installed ({error})");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (_, bytes) = capture(directory.path());
    let fields = "frame.time_epoch ip.src ip.dst udp.dstport udp.payload";
    let output = std::process::Command::new("tshark")
        .args(["-n", "-T", "fields", "-E", "separator=;", "-r"])
        .arg(directory.path().join("bottleneck.pcapng"))
        .args(["--disable-protocol", "quic"])
        .args(fields.split(' ').flat_map(|field| ["-e", field]))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|row| row.split(';').collect()).collect();
    let own = packets(&bytes);
    assert_eq!(rows.len(), own.len());
    for (row, (time, packet)) in rows.iter().zip(&own) {
        let seconds: f64 = row[0].parse().unwrap();
        assert!((seconds - *time as f64 / 1e9).abs() < 1e-6, "{seconds}");
        assert!(row[1].starts_with("10.0.") && row[2].starts_with("10.0.") && row[3] == "4433");
        let bytes = packet[28..].iter();
        let hex: String = bytes.map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(row[4].replace(':', ""), hex);
    }
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let place = std::path::Path::new("/proc/no");
    let error = Outputs::create(place, |_| ControlFlow::Continue(()));
    let text = error.err().unwrap().to_string();
    assert!(text.contains("/proc/no"), "{text}");
}
