//! Runs all blocks of commands in `docs/router/deploy.md`, between hosts in namespaces.
//!
//! This file replaces the system: paths lead into the test's own directory, `systemctl` starts
//! the programs of the packaged units, and the user is the one available in rootless namespaces.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pathmark_testbed::{Node, undisturbed};
use serde_json::Value;

use crate::cards::{Cards, Said, goodput, run, shell};
use crate::common::on_node::start;

const DOCUMENT: &str = include_str!("../../../../docs/router/deploy.md");
const SETUP_UNIT: &str =
    include_str!("../../../../crates/router/packaging/vcp-router-setup.service");
const UNIT: &str = include_str!("../../../../crates/router/packaging/vcp-router.service");
const PATHMARK: &str = env!("CARGO_BIN_EXE_pathmark");

/// A block of commands and the host that runs it.
struct Block {
    host: String,
    text: String,
}

/// Returns the blocks under each heading, in order.
fn sections() -> Vec<(String, Vec<Block>)> {
    let mut sections = vec![(String::new(), Vec::new())];
    let mut lines = DOCUMENT.lines();
    while let Some(line) = lines.next() {
        if let Some(heading) = line.strip_prefix("## ") {
            sections.push((heading.to_owned(), Vec::new()));
        }
        let Some(language) = line.strip_prefix("```").filter(|rest| !rest.is_empty()) else {
            continue;
        };
        let body = lines.by_ref().take_while(|line| *line != "```");
        let text: String = body.map(|line| format!("{line}\n")).collect();
        let (language, host) = language.split_once(' ').unwrap_or((language, "box"));
        assert_eq!(language, "sh", "a block that this test cannot run");
        let block = Block {
            host: host.to_owned(),
            text,
        };
        sections.last_mut().unwrap().1.push(block);
    }
    sections
}

/// A test bed in which the test follows the document.
struct Reader {
    cards: Cards,
}

impl Reader {
    fn new(cards: Cards) -> Self {
        for directory in ["bin", "etc/sysctl.d", "run"] {
            fs::create_dir_all(cards.path(directory)).unwrap();
        }
        let script = |name: &str, text: &str| {
            let path = cards.path("bin").join(name);
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        };
        // `show` uses the default socket path; `--socket` sets another.
        let socket = cards.control();
        script(
            "vcp-router",
            &format!(
                "case $1 in show) set -- \"$@\" --socket {} ;; esac\nexec {PATHMARK} \
                 vcp-router \"$@\"",
                socket.display()
            ),
        );
        script(
            "systemctl",
            &format!("echo \"$@\" >> {}", cards.path("systemctl").display()),
        );
        symlink(PATHMARK, cards.path("bin/pathmark")).unwrap();
        Self { cards }
    }

    /// Follows a section from beginning to end, and returns the output of each block.
    fn follow(&mut self, heading: &str) -> Vec<Said> {
        let sections = sections();
        let found = sections.iter().find(|(name, _)| name == heading);
        let blocks = &found.unwrap_or_else(|| panic!("no section {heading}")).1;
        assert!(!blocks.is_empty());
        blocks.iter().map(|block| self.execute(block)).collect()
    }

    fn here(&self, text: &str) -> String {
        let directory = |name: &str| format!("{}/", self.cards.path(name).display());
        text.replace("/etc/", &directory("etc"))
            .replace("/run/vcp-router/", &directory(""))
            .replace("user = \"vcp-router\"", "user = \"root\"")
    }

    fn execute(&mut self, block: &Block) -> Said {
        let node = match block.host.as_str() {
            "lan" => &self.cards.lan,
            "wan" => &self.cards.wan,
            _ => &self.cards.kernel,
        };
        let text = self.here(&block.text);
        let said = self.shell(node, &text);
        assert_eq!(said.code, Some(0), "{text}\n{said:?}");
        if let Ok(asked) = fs::read_to_string(self.cards.path("systemctl")) {
            fs::remove_file(self.cards.path("systemctl")).unwrap();
            asked.lines().for_each(|line| self.systemctl(line));
        }
        said
    }

    fn shell(&self, node: &Node, text: &str) -> Said {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("sh");
        command.args(["-euc", text]);
        command.env(
            "PATH",
            format!("{}:{path}", self.cards.path("bin").display()),
        );
        run(node, command)
    }

    /// Executes the units' commands in systemd's place.
    fn systemctl(&mut self, arguments: &str) {
        match arguments {
            "enable --now vcp-router" => {
                self.unit(SETUP_UNIT, "ExecStart=");
                self.unit(UNIT, "ExecStartPre=+");
                // The configuration is where the unit expects it.
                let start = "ExecStart=/usr/bin/vcp-router run --config /etc/vcp-router.toml\n";
                assert!(UNIT.contains(start));
                self.copy_configuration();
                self.cards.start();
            }
            "disable --now vcp-router vcp-router-setup" => {
                self.cards.kill();
                self.unit(SETUP_UNIT, "ExecStop=");
            }
            "reload vcp-router" => {
                let reload = "ExecReload=/usr/bin/vcp-router reload --wait --config \
                              /etc/vcp-router.toml\n";
                assert!(UNIT.contains(reload));
                self.copy_configuration();
                self.unit(UNIT, "ExecReload=/usr");
            }
            other => panic!("systemctl {other}: this test knows no such call"),
        }
    }

    /// Copies the file to where the router of this test reads it.
    fn copy_configuration(&self) {
        let [etc, own] = ["etc/vcp-router.toml", "router.toml"].map(|name| self.cards.path(name));
        fs::copy(etc, own).unwrap();
    }

    /// Runs the first line of a unit that begins with this key.
    fn unit(&self, unit: &str, key: &str) {
        let line = unit.lines().find(|line| line.starts_with(key)).unwrap();
        let command = line.split_once("/usr/bin/").unwrap().1;
        let said = self.shell(&self.cards.kernel, &self.here(command));
        assert_eq!(said.code, Some(0), "{said:?}");
    }
}

fn has_nft() -> bool {
    let found = Command::new("nft").arg("--version").output().is_ok();
    let ci = std::env::var_os("CI").is_some();
    assert!(found || !ci, "nft is missing: install nftables");
    if !found {
        eprintln!("nft is not installed: the sections that need it are not run");
    }
    found
}

fn both(check: impl Fn(bool)) {
    check(false);
    check(true);
}

/// Checks that TCP passes in both directions at the ports' rates, that UDP and pings pass, and that
/// nothing uses another way.
fn passes(cards: &Cards) {
    let time = Duration::from_millis(700);
    both(|v6| {
        let udp = cards.udp(v6);
        udp.until_it_passes();
        udp.probe();
        Cards::ping(
            &cards.lan,
            cards.hosts.wan[usize::from(v6)].parse().unwrap(),
        );
        assert_eq!(udp.count().1, 0, "a packet passes by");
        let (a, b) = cards.tcp(v6);
        let up = goodput(a, b, time);
        assert!((13e6..19.6e6).contains(&up), "up {up}, IPv6: {v6}");
        let (a, b) = cards.tcp(v6);
        let down = goodput(b, a, time);
        assert!((32e6..49e6).contains(&down), "down {down}, IPv6: {v6}");
    });
}

/// Checks that nothing passes while the router is dead, and everything once it is back.
fn closed(cards: &mut Cards) {
    cards.kill();
    both(|v6| {
        let udp = cards.udp(v6);
        for _ in 0..50 {
            udp.probe();
            udp.send();
            assert_eq!(udp.next(Duration::from_millis(2)), None, "IPv6: {v6}");
        }
    });
    cards.start();
    both(|v6| _ = cards.udp(v6).until_it_passes());
}

fn perf_server(cards: &Cards) -> pathmark_testbed::ChildGuard {
    start(
        &cards.wan,
        &["perf", "server", "--listen", "203.0.113.2:4433"],
    )
    .0
}

const START: &str = "Cards, forwarding, configuration";
const AWAY: &str = "What takes the steering away";
const END: &str = "What happens when it ends";
const STATE: &str = "ip -o link | cut -d: -f2; ip rule; ip -6 rule; \
                     (ip -4 route show table all; ip -6 route show table all) | grep -v -e fe80 -e \
                     anycast";

#[test]
fn two_cards_routed_from_the_documents_text() {
    undisturbed(|| {
        let cards = Cards::new();
        for key in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
            cards.kernel.sysctl(key, "0").unwrap();
        }
        let before = shell(&cards.kernel, STATE).out;
        let mut reader = Reader::new(cards);
        let said = reader.follow(START);
        let mut all = said.iter();
        assert!(all.all(|said| !said.err.contains("forwards nothing")));
        passes(&reader.cards);
        closed(&mut reader.cards);
        the_steering_is_watched(&mut reader);

        // An endpoint requests feedback, and the router answers.
        let _server = perf_server(&reader.cards);
        let said = reader.follow("See that endpoints use it");
        let figures: Value = serde_json::from_str(&said[0].out).unwrap();
        assert_eq!(
            (&figures["feedback"], &figures["router_id"]),
            (&"vcp".into(), &1.into()),
            "{figures}"
        );
        assert_eq!(figures["down"]["feedback"], "vcp", "{figures}");
        // The box's own kernel doesn't count as a hop without feedback.
        assert!(figures["down"]["fallback"].is_null(), "{figures}");
        for port in ["wan", "lan"] {
            let marked = reader.cards.link(port)["controller"]["marked"].clone();
            assert!(
                marked.as_object().is_some_and(|codes| !codes.is_empty()),
                "{marked}"
            );
        }
        a_pathmark_flow_goes_on(&mut reader.cards);

        // After the teardown, nothing is left, and the kernel forwards packets itself.
        reader.follow(END);
        assert_eq!(shell(&reader.cards.kernel, STATE).out, before);
        both(|v6| reader.cards.udp(v6).until_past());
    });
}

/// The section's drop-in matches that of the package. `show` reports rules and routes that networkd
/// removes, and nothing bypasses the router.
fn the_steering_is_watched(reader: &mut Reader) {
    reader.follow(AWAY);
    let drop_in = reader
        .cards
        .path("etc/systemd/networkd.conf.d/10-vcp-router.conf");
    let drop_in = fs::read_to_string(drop_in).unwrap();
    let packaged = include_str!("../../../../crates/router/packaging/networkd.conf");
    let keys = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(keys(&drop_in), keys(packaged));
    let away = "ip rule delete priority 11800; ip -6 rule delete priority 11800; \
                ip route delete unreachable default table 11801";
    assert_eq!(shell(&reader.cards.kernel, away).code, Some(0));
    let begun = Instant::now();
    while reader.cards.link("lan")["steering"]["ok"] != false {
        let waited = begun.elapsed();
        assert!(waited < Duration::from_secs(10), "show reports nothing");
    }
    if has_nft() {
        let udp = reader.cards.udp(false);
        for _ in 0..50 {
            udp.probe();
            assert_eq!(udp.next(Duration::from_millis(2)), None, "passes by");
        }
    }
    let config = "/etc/vcp-router.toml";
    let mend = reader.here(&format!("vcp-router setup --config {config}"));
    let said = reader.shell(&reader.cards.kernel, &mend);
    assert_eq!(said.code, Some(0), "{said:?}");
    while reader.cards.link("lan")["steering"]["ok"] != true {
        assert!(begun.elapsed() < Duration::from_secs(10), "not back");
    }
    both(|v6| _ = reader.cards.udp(v6).until_it_passes());
}

/// Data flows again within a second after a killed router is back.
fn a_pathmark_flow_goes_on(cards: &mut Cards) {
    let mut client = Command::new(PATHMARK);
    client.args(["perf", "client", "203.0.113.2:4433", "--insecure", "--json"]);
    client.args(["--time", "3s"]).stdout(Stdio::piped());
    let mut client = cards.lan.spawn(client, &[]).unwrap();
    // Each sample is a separate command, which takes some milliseconds.
    let sent = |cards: &Cards| cards.link("lan")["sent_bytes"].as_u64().unwrap();
    let (start, begun) = (sent(cards), Instant::now());
    while sent(cards) < start + 1_000_000 {
        assert!(begun.elapsed() < Duration::from_secs(10), "no data flows");
    }
    cards.kill();
    cards.start();
    let back = Instant::now();
    // The counters are those of the new router.
    while sent(cards) < 100_000 {
        assert!(back.elapsed() < Duration::from_secs(10), "no data flows");
    }
    let took = back.elapsed();
    println!("a pathmark flow goes on {took:?} after the router is back");
    assert!(took < Duration::from_secs(1), "{took:?}");
    let figures: Value = serde_json::from_reader(client.child().stdout.take().unwrap()).unwrap();
    assert!(client.wait().unwrap().success());
    let goodput = figures["goodput_down_bps"].as_f64().unwrap();
    assert!(goodput > 10e6, "{figures}");
}

#[test]
fn nat_and_a_firewall_from_the_documents_text() {
    undisturbed(|| {
        if !has_nft() {
            return;
        }
        let mut reader = Reader::new(Cards::new());
        reader.follow(START);
        // The section's last block removes the table, which the checks need.
        let heading = "With NAT and a firewall";
        let sections = sections();
        let blocks = &sections.iter().find(|(name, _)| name == heading).unwrap().1;
        let [load, unload] = blocks.as_slice() else {
            panic!("the section has other blocks");
        };
        reader.execute(load);
        let cards = &mut reader.cards;
        passes(cards);
        let peer = |cards: &Cards, v6| cards.tcp(v6).1.peer_addr().unwrap().ip().to_string();
        assert_eq!(peer(cards, false), "203.0.113.1");
        assert_eq!(peer(cards, true), "fd00:1::2");
        // From outside, only answers get in.
        let listener = cards
            .lan
            .tcp_listener("[fd00:1::2]:0".parse().unwrap())
            .unwrap();
        let client = cards
            .wan
            .socket(libc::AF_INET6, libc::SOCK_STREAM, 0)
            .unwrap();
        let client = socket2::Socket::from(client);
        let at = listener.local_addr().unwrap().into();
        assert!(
            client
                .connect_timeout(&at, Duration::from_millis(300))
                .is_err()
        );
        closed(cards);
        // Without zones, packets leave with the LAN's addresses, as the document warns.
        let without = Block {
            host: "box".to_owned(),
            text: load.text.replace("ct zone set 1", "accept"),
        };
        reader.execute(&without);
        assert_eq!(peer(&reader.cards, false), "10.0.1.2");
        reader.execute(unload);
        both(|v6| _ = reader.cards.udp(v6).until_it_passes());
    });
}

#[test]
fn a_bridge_from_the_documents_text() {
    undisturbed(|| {
        if !has_nft() {
            return;
        }
        let mut reader = Reader::new(Cards::in_one_network());
        let heading = "Between hosts of one network (bridged)";
        let sections = sections();
        let blocks = &sections.iter().find(|(name, _)| name == heading).unwrap().1;
        let (back, blocks) = blocks.split_last().unwrap();
        for block in blocks {
            reader.execute(block);
        }
        passes(&reader.cards);
        a_tagged_frame_stays_on_the_bridge(&reader.cards);
        closed(&mut reader.cards);
        reader.execute(back);
        both(|v6| reader.cards.udp(v6).until_past());
    });
}

/// An IPv4 packet behind a VLAN tag, which the box shouldn't route, passes unchanged.
fn a_tagged_frame_stays_on_the_bridge(cards: &Cards) {
    let address = |node: &Node| -> Vec<u8> {
        let said = shell(node, "ip -o link show dev eth0").out;
        let text = said.split("link/ether ").nth(1).unwrap();
        let text = text.split(' ').next().unwrap();
        let byte = |byte| u8::from_str_radix(byte, 16).unwrap();
        text.split(':').map(byte).collect()
    };
    let [from, to] = [&cards.lan, &cards.wan].map(|node| node.frames("eth0").unwrap());
    let [from, to] = [from, to].map(socket2::Socket::from);
    let mut frame = [address(&cards.wan), address(&cards.lan)].concat();
    // 802.1Q with VLAN 5, then IPv4: a datagram for a port without a listener.
    frame.extend([0x81, 0, 0, 5, 8, 0]);
    let marker = b"behind a tag";
    frame.extend([
        0x45, 0, 0, 40, 0, 1, 0, 0, 64, 17, 0x64, 0x9f, 10, 0, 1, 2, 10, 0, 1, 254,
    ]);
    frame.extend([0, 9, 0, 9, 0, 20, 0, 0]);
    frame.extend(marker);
    to.set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let start = Instant::now();
    let mut buffer = [0; 2048];
    loop {
        from.send(&frame).unwrap();
        let len = (&to).read(&mut buffer).unwrap_or(0);
        if buffer[..len].ends_with(marker) {
            return;
        }
        let late = start.elapsed() > Duration::from_secs(10);
        assert!(!late, "a tagged frame is lost");
    }
}

/// The tests above run every command in the document.
#[test]
fn no_block_is_left_out() {
    let run = [
        START,
        AWAY,
        END,
        "With NAT and a firewall",
        "Between hosts of one network (bridged)",
        "See that endpoints use it",
    ];
    for (heading, blocks) in sections() {
        let known = run.contains(&heading.as_str());
        assert_eq!(known, !blocks.is_empty(), "{heading}");
    }
    assert!(Path::new(PATHMARK).exists());
}
