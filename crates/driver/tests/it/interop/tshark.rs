//! Checks that Wireshark's dissector, given the keys, understands our packets.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::peers::{Options, Pair, Server, Stack};
use super::support::proxy::{Proxy, Weather};
use super::support::{capture, data, in_time};

/// The name of this test, for running it again.
const NAME: &str = "interop::tshark::a_handshake_and_a_transfer_dissect_without_errors";
const KEY_LOG: &str = "SSLKEYLOGFILE";
const LENGTH: u64 = 1 << 20;

/// Path of the capture and the keys.
fn scratch(name: &str) -> PathBuf {
    let file = format!("{name}-{}", std::process::id());
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(file)
}

/// The transport writes its keys to the file that the environment names when the process starts.
/// Therefore the test runs itself again with this variable set.
#[test]
fn a_handshake_and_a_transfer_dissect_without_errors() {
    if let Err(error) = Command::new("tshark").arg("--version").output() {
        assert!(
            std::env::var_os("CI").is_none(),
            "tshark judges our packets and is missing here ({error}): install it, or run .ci/run, \
             which does"
        );
        println!("not judged: tshark is not installed ({error})");
        return;
    }
    if let Some(keys) = std::env::var_os(KEY_LOG) {
        let capture = scratch("interop.pcapng");
        std::fs::write(&capture, in_time(transfer())).unwrap();
        judge(&capture, &keys);
        std::fs::remove_file(capture).unwrap();
        return;
    }
    let keys = scratch("interop.keys");
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", NAME, "--nocapture"]);
    let output = again.env(KEY_LOG, &keys).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    println!("{said}");
    assert!(output.status.success() && said.contains("1 passed"));
    std::fs::remove_file(keys).unwrap();
}

/// Returns a capture of a connection with streams, resets, key updates and a close.
async fn transfer() -> Vec<u8> {
    let options = Options::with(|options| options.retry = true);
    let server = Server::start(Stack::Ours, &options);
    let proxy = Proxy::start(server.address(), Weather::FAIR, 1).await;
    proxy.record();
    let pair = Pair::to(Stack::Ours, server, proxy.address(), &options).await;
    for round in 0..2 {
        data::pass(&pair.client, &pair.server, (round, LENGTH / 2), |_| ()).await;
        pair.client.update_keys();
    }
    let mut abandoned = pair.server.open_uni().await.unwrap();
    abandoned.write_all(b"nothing").await.unwrap();
    let mut receiver = pair.client.accept_uni().await.unwrap();
    receiver.read_chunk().await.unwrap();
    receiver.stop(3).unwrap();
    assert_eq!(abandoned.stopped().await, Ok(Some(3)));
    pair.client.close(7, b"done");
    pair.server.closed().await;
    capture::pcapng(&proxy.take_record())
}

/// Returns tshark's output lines: the `fields` of packets that pass `filter`, separated by tabs.
fn tshark(capture: &Path, keys: &OsStr, filter: &str, fields: &[&str]) -> Vec<String> {
    let mut key_log = std::ffi::OsString::from("tls.keylog_file:");
    key_log.push(keys);
    let mut command = Command::new("tshark");
    command.arg("-r").arg(capture).arg("-o").arg(key_log);
    command.args(["-n", "-Y", filter, "-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn judge(capture: &Path, keys: &OsStr) {
    let find = |filter: &str, fields: &[&str]| tshark(capture, keys, filter, fields);
    let all = find("udp", &["frame.number"]).len();
    let quic = find("quic", &["frame.number"]).len();
    assert_eq!(quic, all, "every datagram is QUIC");
    // Apart from notes, the dissector reports no errors of format or protection.
    let objections = find(
        // Warnings and errors.
        "_ws.malformed || _ws.expert.severity >= 0x600000",
        &["frame.number", "_ws.expert.message", "_ws.col.Info"],
    );
    assert!(objections.is_empty(), "{objections:#?}");

    // It has read the frames of every packet.
    let mut frames = BTreeMap::<u64, usize>::new();
    for line in find("quic.frame_type", &["quic.frame_type"]) {
        for frame in line.split(',') {
            *frames.entry(number(frame)).or_default() += 1;
        }
    }
    let seen = |types: std::ops::RangeInclusive<u64>| -> usize {
        frames.range(types).map(|(_, count)| count).sum()
    };
    let expected = [
        ("ACK", 0x02..=0x03),
        ("CRYPTO", 0x06..=0x06),
        ("NEW_TOKEN", 0x07..=0x07),
        ("STREAM", 0x08..=0x0f),
        ("STOP_SENDING", 0x05..=0x05),
        ("RESET_STREAM", 0x04..=0x04),
        ("NEW_CONNECTION_ID", 0x18..=0x18),
        ("CONNECTION_CLOSE", 0x1d..=0x1d),
        ("HANDSHAKE_DONE", 0x1e..=0x1e),
    ];
    for (name, types) in expected {
        assert!(seen(types) > 0, "no {name} among {frames:?}");
    }
    let fin = "quic.stream.fin == 1";
    assert!(!find(fin, &["frame.number"]).is_empty());

    // Long headers by type: Initial, Handshake, Retry.
    let mut types = BTreeMap::<u64, usize>::new();
    for line in find("quic.long.packet_type", &["quic.long.packet_type"]) {
        for ty in line.split(',') {
            *types.entry(number(ty)).or_default() += 1;
        }
    }
    let has_all = [0, 2, 3].iter().all(|ty| types.contains_key(ty));
    assert!(has_all, "{types:?}");

    // It has read both key phases.
    for phase in ["0", "1"] {
        let filter = format!("quic.key_phase == {phase} && quic.frame_type");
        let found = find(&filter, &["frame.number"]);
        assert!(!found.is_empty(), "phase {phase}");
    }

    // All of the data is there, as hexadecimal digits.
    let lines = find("quic.stream_data", &["quic.stream_data"]);
    let digits = lines.iter().flat_map(|line| line.chars());
    let bytes = digits.filter(char::is_ascii_hexdigit).count() / 2;
    assert!(bytes as u64 >= LENGTH, "{bytes} bytes");
    println!("{all} datagrams, frames by type {frames:?}, {bytes} bytes of data");
}

/// Parses a number as tshark prints it.
fn number(text: &str) -> u64 {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("{text} is no number"))
}
