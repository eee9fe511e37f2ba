//! A network that drops UDP: files go over TCP, and over UDP when that works again.

use std::fs;
use std::time::{Duration, Instant};

use pathmark_testbed::{ChildGuard, Node, Testbed};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::offered::{Offered, until, until_unfinished};
use crate::common::on_node::serve;
use crate::common::{content, piped, words};

/// Everything is on the loopback interface of one node, whose firewall drops what `rule` says.
struct Bed {
    node: Node,
    _bed: Testbed,
}

const ADDRESS: &str = "127.0.0.1:4433";

impl Bed {
    fn new() -> Self {
        let bed = Testbed::new().unwrap();
        let node = bed.node("all").unwrap();
        Self { node, _bed: bed }
    }

    /// Replaces the firewall's rules.
    fn firewall(&self, rules: &str) {
        let script = format!(
            "nft -f - <<'END'
            add table inet firewall
            delete table inet firewall
            table inet firewall {{
                chain arriving {{
                    type filter hook input priority 0;
                    {rules}
                }}
            }}
END"
        );
        self.node.script(&script).unwrap();
    }

    /// Serves a directory, and returns the server with its pin.
    fn serve(&self, directory: &Offered) -> (ChildGuard, String) {
        let directory = directory.path().to_str().unwrap();
        let line = format!("serve --dir {directory} --listen {ADDRESS} --allow-put --json");
        let (server, said) = serve(&self.node, &words(&line));
        (server, said["pin"].as_str().unwrap().to_owned())
    }

    /// Runs a client with `--json`, and returns its figures, its notes, and how long it took.
    #[expect(clippy::disallowed_methods, reason = "a path in real time")]
    fn run(&self, arguments: &[&str]) -> (Value, String, Duration) {
        let begun = Instant::now();
        let mut command = piped(&[arguments, &["--json"]].concat());
        command.stderr(std::process::Stdio::piped());
        let mut client = self.node.spawn(command, &[]).unwrap();
        let out = client.child().stdout.take().unwrap();
        let figures = serde_json::from_reader(out).unwrap();
        let mut notes = String::new();
        let mut err = client.child().stderr.take().unwrap();
        std::io::Read::read_to_string(&mut err, &mut notes).unwrap();
        client.wait().unwrap();
        (figures, notes, begun.elapsed())
    }
}

const SAID: &str = "no answer over UDP from 127.0.0.1:4433: continuing over TCP";

#[test]
fn files_move_over_tcp_until_udp_works_again() {
    let (bed, there, here) = (Bed::new(), Offered::new(), TempDir::new().unwrap());
    let bytes = content(3_000_000, 1);
    fs::write(there.path().join("a"), &bytes).unwrap();
    let local = here.path().join("a");
    let out = here.path().to_str().unwrap();
    let (_server, pin) = bed.serve(&there);
    let from = format!("{ADDRESS}/a");
    let get = ["get", &from, "-o", out, "--force", "--pin", &pin];

    bed.firewall("udp dport 4433 drop");
    let (figures, notes, took) = bed.run(&get);
    assert_eq!(figures["protocol"], "h2", "{figures} {notes}");
    assert_eq!(figures["error"], Value::Null, "{figures}");
    assert!(notes.contains(SAID), "{notes}");
    println!("get: {took:?}");
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert!(fs::read(&local).unwrap() == bytes);

    let newer = content(2_000_000, 2);
    fs::write(&local, &newer).unwrap();
    let source = local.to_str().unwrap();
    let put = ["put", source, ADDRESS, "--force", "--pin", &pin];
    let (figures, notes, took) = bed.run(&put);
    assert_eq!(figures["protocol"], "h2", "{figures} {notes}");
    assert_eq!(figures["algorithm"], Value::Null, "{figures}");
    println!("put: {took:?}");
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert!(fs::read(there.path().join("a")).unwrap() == newer);

    // The pin counts over TCP, too.
    let other = "00".repeat(32);
    let wrong = [&get[..get.len() - 1], &[&other]].concat();
    let (figures, _, _) = bed.run(&wrong);
    let error = figures["error"].as_str().unwrap();
    assert!(error.contains("pin"), "{error}");

    let without = [&get[..], &["--no-tcp", "--connect-timeout", "2s"]].concat();
    let (figures, _, _) = bed.run(&without);
    let error = figures["error"].as_str().unwrap();
    assert!(error.contains("no answer within 2s"), "{error}");

    bed.firewall("");
    let (figures, notes, _) = bed.run(&get);
    assert_eq!(
        (&figures["protocol"], notes.as_str()),
        (&"h3".into(), ""),
        "{figures}"
    );
}

/// One of thirty packets is lost, and the connection is reset midway.
#[test]
fn transfers_go_on_after_losses_and_a_reset() {
    const WITHOUT_UDP: &str = "udp dport 4433 drop";
    const LOSSES: &str = "meta l4proto tcp numgen random mod 30 < 1 drop";
    const RESET: &str = "tcp dport 4433 counter reject with tcp reset";
    let (bed, there, here) = (Bed::new(), Offered::new(), TempDir::new().unwrap());
    let bytes = content(20_000_000, 1);
    let (served, local) = (there.path().join("a"), here.path().join("a"));
    let (_server, pin) = bed.serve(&there);
    let out = here.path().to_str().unwrap();
    let how = format!("--limit 6MB --reconnect --force --pin {pin}");
    for (line, from, to) in [
        (format!("get {ADDRESS}/a -o {out} {how}"), &served, &local),
        (format!("put {out}/a {ADDRESS} {how}"), &local, &served),
    ] {
        fs::write(from, &bytes).unwrap();
        let _ = fs::remove_file(to);
        bed.firewall(&format!("{WITHOUT_UDP}\n{LOSSES}"));
        let (figures, notes, _) = std::thread::scope(|scope| {
            let client = scope.spawn(|| bed.run(&words(&line)));
            until_unfinished(to.parent().unwrap(), 1_000_000);
            bed.firewall(&format!("{WITHOUT_UDP}\n{RESET}"));
            let rules = || bed.node.script("nft list table inet firewall").unwrap();
            until(|| !rules().contains("counter packets 0 "));
            bed.firewall(&format!("{WITHOUT_UDP}\n{LOSSES}"));
            client.join().unwrap()
        });
        assert_eq!(figures["error"], Value::Null, "{figures} {notes}");
        assert_eq!(figures["protocol"], "h2", "{figures}");
        assert!(notes.contains("next attempt"), "{notes}");
        let resumed = figures["files"][0]["resumed_bytes"].as_u64().unwrap();
        assert!(resumed >= 500_000, "{line}: {figures}");
        assert!(fs::read(to).unwrap() == bytes, "{line}");
    }
}

/// A server that answers over UDP is believed: its refusal is no reason to try TCP.
#[test]
fn a_refusal_over_udp_is_final() {
    let (bed, there) = (Bed::new(), Offered::new());
    let (_server, _) = bed.serve(&there);
    bed.firewall("tcp dport 4433 counter");
    let pin = "00".repeat(32);
    let (figures, notes, _) = bed.run(&["ls", ADDRESS, "--pin", &pin]);
    let error = figures["error"].as_str().unwrap();
    assert!(error.contains("pin"), "{error}");
    assert!(!notes.contains(SAID), "{notes}");
    let rules = bed.node.script("nft list table inet firewall").unwrap();
    assert!(rules.contains("counter packets 0 "), "{rules}");
}
