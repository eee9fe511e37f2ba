//! The packaged units of `pathmark proxy` and `pathmark tunnel`, and their messages to the service
//! manager.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::common::{Process, Server, first_object, pathmark, stderr, words, write_private};

const TOKEN: &str = "0123456789abcdef";

const UNITS: [&str; 3] = [
    "pathmark-proxy.service",
    "pathmark-tunnel.service",
    "pathmark-tunnel-rules.service",
];

/// If systemd is installed, it finds no errors in the units.
#[test]
fn the_units_hold_together() {
    let directory = tempfile::tempdir().unwrap();
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]);
    for unit in UNITS {
        let text = std::fs::read_to_string(format!("packaging/{unit}")).unwrap();
        let text = text.replace("/usr/bin/pathmark", env!("CARGO_BIN_EXE_pathmark"));
        std::fs::write(directory.path().join(unit), text).unwrap();
        verify.arg(directory.path().join(unit));
    }
    match verify.output() {
        Ok(output) => {
            let said = stderr(&output);
            assert!(output.status.success() && said.is_empty(), "{said}");
        }
        Err(error) => {
            let ci = std::env::var_os("CI").is_some();
            assert!(!ci, "systemd-analyze cannot be run: {error}");
            eprintln!("systemd-analyze cannot be run ({error}): the units are not verified");
        }
    }
}

/// The commands accept the packaged configurations with the test's own files.
#[test]
fn the_packaged_configurations_have_no_faults() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    write_private(path("tokens"), &format!("a {TOKEN}\n"));
    let uri = format!("pathmark://{TOKEN}@192.0.2.1:4433");
    std::fs::write(path("proxy.uri"), uri).unwrap();
    for (command, file, packaged) in [
        ("proxy", "tokens", "/var/lib/pathmark-proxy/tokens"),
        ("tunnel", "proxy.uri", "/etc/pathmark/proxy.uri"),
    ] {
        let text = std::fs::read_to_string(format!("packaging/{command}.toml")).unwrap();
        let config = path(&format!("{command}.toml"));
        std::fs::write(&config, text.replace(packaged, &path(file))).unwrap();
        let output = pathmark(&[command, "check", &config]).output().unwrap();
        let stderr = stderr(&output);
        assert!(output.status.success(), "{command}: {stderr}");
    }
    let uris = pathmark(&["proxy", "uris", &path("proxy.toml")]).output();
    let uris = String::from_utf8(uris.unwrap().stdout).unwrap();
    let start = format!("for a: pathmark://{TOKEN}@");
    assert!(uris.starts_with(&start), "{uris}");
    assert!(uris.contains(":4433?pin="), "{uris}");
}

/// A socket that replaces the service manager's.
struct Manager(UnixDatagram);

impl Manager {
    fn new(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).unwrap();
        let wait = Some(Duration::from_secs(30));
        socket.set_read_timeout(wait).unwrap();
        Self(socket)
    }

    #[track_caller]
    fn hears(&self, words: &str) {
        let mut buffer = [0; 1000];
        loop {
            let length = self.0.recv(&mut buffer).expect(words);
            if String::from_utf8_lossy(&buffer[..length]).contains(words) {
                return;
            }
        }
    }
}

#[test]
fn both_say_that_they_are_ready_and_that_they_live() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    write_private(path("tokens"), &format!("a {TOKEN}\n"));
    let tokens = path("tokens");
    let proxy = format!("proxy --listen 127.0.0.1:0 --token-file {tokens}");
    let tunnel = format!("tunnel pathmark://{TOKEN}@127.0.0.1:9 -D 0");
    for (name, line) in [("proxy", proxy), ("tunnel", tunnel)] {
        let place = path(name);
        let manager = Manager::new(Path::new(&place));
        let mut command = pathmark(&words(&line));
        command.env("NOTIFY_SOCKET", &place);
        command.env("WATCHDOG_USEC", "100000");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let process = Process(command.spawn().unwrap());
        manager.hears("READY=1");
        for _ in 0..3 {
            manager.hears("WATCHDOG=1");
        }
        process.signal(Signal::SIGTERM);
    }
}

/// The alert rules and the board only use metrics that the proxy and the tunnel export. The tunnel
/// exports those of its connection once it has one.
#[test]
fn the_alert_rules_and_the_board_use_what_is_exported() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    write_private(path("tokens"), &format!("a {TOKEN}\n"));
    let text = "listen = '127.0.0.1:0'\ntokens = 'tokens'\ncontrol = 'proxy.sock'\n";
    std::fs::write(path("proxy.toml"), text).unwrap();
    let proxy = [
        "proxy",
        "--config",
        &path("proxy.toml"),
        "--show-uri",
        "--json",
    ];
    let (_proxy, said) = Server::and_said(pathmark(&proxy));
    write_private(path("proxy.uri"), said["uris"][0]["uri"].as_str().unwrap());
    let text = "uri_file = 'proxy.uri'\nsocks = ['127.0.0.1:0']\ncontrol = 'tunnel.sock'\n";
    std::fs::write(path("tunnel.toml"), text).unwrap();
    let mut tunnel = Process::start(&["tunnel", "--json", "--config", &path("tunnel.toml")]);
    first_object(tunnel.0.stdout.as_mut().unwrap());
    let board = include_str!("../../packaging/grafana.json");
    serde_json::from_str::<serde_json::Value>(board).unwrap();
    let rules = [include_str!("../../packaging/alerts.yml"), board].concat();
    for command in ["proxy", "tunnel"] {
        let socket = path(&format!("{command}.sock"));
        let metrics = loop {
            let show = pathmark(&[command, "show", "--metrics", "--socket", &socket]).output();
            let metrics = String::from_utf8(show.unwrap().stdout).unwrap();
            if !metrics.contains("pathmark_tunnel_connected 0") {
                break metrics;
            }
        };
        let prefix = format!("pathmark_{command}_");
        let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
        let used = rules.match_indices(&prefix).map(|(at, _)| &rules[at..]);
        let used = used.map(|rest| rest.split(|c| !is_name(c)).next().unwrap());
        let used: std::collections::BTreeSet<_> = used.collect();
        assert!(used.len() > 2, "{used:?}");
        for name in used {
            let is_there = [" ", "{"]
                .iter()
                .any(|end| metrics.contains(&format!("\n{name}{end}")));
            assert!(is_there, "{name}: {metrics}");
        }
    }
}
