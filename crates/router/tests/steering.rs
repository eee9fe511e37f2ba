//! What other programs do to rules, routes and links while a router runs: it is seen within a
//! second, nothing passes by a closed port, and set-up mends it.

#![expect(clippy::disallowed_methods, reason = "these tests run in real time")]

mod cards;

use std::io::{BufRead, BufReader};
use std::process::Command;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use cards::{Cards, Said, run, shell};
use pathmark_testbed::undisturbed;

/// The program under test.
fn vcp_router() -> Command {
    Command::new(env!("CARGO_BIN_EXE_vcp-router"))
}

/// Time within which a loss is to be seen.
const WITHIN: Duration = Duration::from_secs(1);
/// What has not happened by then does not happen.
const PATIENCE: Duration = Duration::from_secs(10);

/// A box with a router that runs, and the lines that it writes.
struct Watched {
    cards: Cards,
    lines: Receiver<(Instant, String)>,
}

impl Watched {
    fn new(cards: Cards) -> Self {
        let watched = Self::started(cards);
        watched.until("\"ok\":true");
        watched
    }

    /// Set up, and ready.
    fn started(mut cards: Cards) -> Self {
        let directory = cards.path("run");
        std::fs::create_dir_all(&directory).unwrap();
        cards.environment = vec![("RUNTIME_DIRECTORY", directory.display().to_string())];
        cards.setup();
        cards.start();
        let stderr = cards.router().child().stderr.take().unwrap();
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = tell.send((Instant::now(), line));
            }
        });
        Self { cards, lines }
    }

    /// Waits for a line with this in it; when it came.
    fn line(&self, part: &str) -> (Instant, String) {
        let start = Instant::now();
        loop {
            let rest = PATIENCE.saturating_sub(start.elapsed());
            let next = self.lines.recv_timeout(rest);
            let (at, line) = next.unwrap_or_else(|_| panic!("no line with {part}"));
            if line.contains(part) {
                return (at, line);
            }
        }
    }

    /// Waits until `show --json` has this of every port that is steered into.
    fn until(&self, part: &str) {
        let start = Instant::now();
        loop {
            let state = self.cards.show();
            let links = state["links"].as_array().unwrap();
            let steering = links.iter().map(|link| link["steering"].to_string());
            if steering.clone().all(|steering| steering.contains(part)) {
                return;
            }
            let late = start.elapsed() > PATIENCE;
            assert!(!late, "{part}: {:?}", steering.collect::<Vec<_>>());
        }
    }

    fn told(&self, arguments: &[&str]) -> String {
        let mut command = vcp_router();
        command.arg("show").args(arguments);
        command.arg("--socket").arg(self.cards.control());
        run(&self.cards.kernel, command).out
    }

    fn does(&self, line: &str) {
        let said = shell(&self.cards.kernel, line);
        assert_eq!(said.code, Some(0), "{line}: {said:?}");
    }
}

fn has_nft() -> bool {
    let found = Command::new("nft").arg("--version").output().is_ok();
    let ci = std::env::var_os("CI").is_some();
    assert!(found || !ci, "nft is missing: install nftables");
    if !found {
        eprintln!("nft is not installed: what passes by a closed port is not counted");
    }
    found
}

/// Something that another program does, what is said of it, and what undoes what set-up does not.
struct Loss {
    name: &'static str,
    does: &'static str,
    port: &'static str,
    reason: &'static str,
    undoes: &'static str,
}

/// What systemd-networkd 252 was seen to do when it configures a link: "Removing foreign route …
/// table: 11800, proto: 118, type: unreachable", "Removing foreign routing policy rule".
const NETWORKD: &str = "for v in -4 -6; do \
     ip $v rule delete priority 11800; ip $v rule delete priority 11801; \
     ip $v route delete unreachable default table 11800 metric 10000; \
     ip $v route delete unreachable default table 11801 metric 10000; done";

const LOSSES: [Loss; 6] = [
    Loss {
        name: "networkd",
        does: NETWORKD,
        port: "lan",
        reason: "missing: ip -4 rule add priority 11800 iif lan0 lookup 11801",
        undoes: ":",
    },
    Loss {
        name: "ip rule flush",
        does: "ip -4 rule flush; ip -6 rule flush; \
               for v in -4 -6; do ip $v rule add priority 32766 lookup main; done",
        port: "wan",
        reason: "missing: ip -4 rule add priority 11801 iif wan0 lookup 11800",
        undoes: ":",
    },
    Loss {
        name: "renamed card",
        does: "ip link set lan0 down; ip link set lan0 name other0; ip link set other0 up",
        port: "lan",
        reason: "there is no interface lan0: mend `from`",
        undoes: "ip link set other0 down; ip link set other0 name lan0; ip link set lan0 up; \
                 ip address add fd00:1::1/64 dev lan0 nodad",
    },
    Loss {
        name: "shadowing rule",
        does: "ip -4 rule add priority 100 lookup main; ip -6 rule add priority 100 lookup main",
        port: "lan",
        reason: "rule 100 (lookup main) takes packets before rule 11800",
        undoes: "ip -4 rule delete priority 100; ip -6 rule delete priority 100",
    },
    Loss {
        name: "interface down and up",
        does: "ip link set vcp-wan down; ip link set vcp-wan up",
        port: "wan",
        reason: "missing: ip -4 route replace default dev vcp-wan table 11800",
        undoes: ":",
    },
    Loss {
        name: "deleted backstop",
        does: "ip -6 route delete unreachable default table 11801 metric 10000",
        port: "lan",
        reason: "missing: ip -6 route replace unreachable default table 11801",
        undoes: ":",
    },
];

#[test]
fn every_loss_is_told_within_a_second_and_nothing_passes_by() {
    undisturbed(|| {
        let nft = has_nft();
        for loss in &LOSSES {
            let cards = Cards::new();
            cards.configure("on_stop = \"closed\"", "rate = \"10Mbit\"");
            let watched = Watched::new(cards);
            let udp = [false, true].map(|v6| watched.cards.udp(v6));
            udp.iter().for_each(|udp| _ = udp.until_it_passes());
            udp.iter().for_each(|udp| _ = udp.count());
            let lost = || {
                let state = watched.cards.link(loss.port)["steering"].clone();
                udp.iter().for_each(|udp| udp.probe());
                state["ok"] == false && state["reason"].to_string().contains(loss.reason)
            };
            watched.does(loss.does);
            let start = Instant::now();
            while !lost() {
                assert!(start.elapsed() < PATIENCE, "{}: not shown", loss.name);
            }
            let shown = start.elapsed();
            let said = format!("steering of port {} is missing: {}", loss.port, loss.reason);
            let (at, _) = watched.line(&said);
            let logged = at.saturating_duration_since(start);
            println!(
                "{}: shown after {shown:?}, logged after {logged:?}",
                loss.name
            );
            assert!(shown < WITHIN && logged < WITHIN, "{}", loss.name);
            let metric = format!("vcp_router_steering_ok{{port=\"{}\"}} 0", loss.port);
            assert!(watched.told(&["--metrics"]).contains(&metric));
            let table = watched.told(&[]);
            let said = format!("steering of {} is missing: {}", loss.port, loss.reason);
            assert!(table.contains(&said), "{table}");
            // As long as it lasts.
            let end = Instant::now() + Duration::from_millis(300);
            let mut past = 0;
            while Instant::now() < end {
                for udp in &udp {
                    udp.probe();
                    past += udp.count().1;
                }
            }
            assert!(!nft || past == 0, "{}: {past} packets pass by", loss.name);

            watched.does(loss.undoes);
            watched.cards.setup();
            watched.line(&format!("steering of port {} is back", loss.port));
            watched.until("\"ok\":true");
            udp.iter().for_each(|udp| _ = udp.until_it_passes());
        }
    });
}

/// A unit is asked for set-up by a file: at once, and after a reload.
#[test]
fn a_repair_is_asked_for() {
    let cards = Cards::new();
    cards.configure("", "rate = \"10Mbit\"");
    let mut watched = Watched::new(cards);
    let request = watched.cards.path("run/setup-wanted");
    assert!(!request.exists());
    watched.does("ip -4 rule delete priority 11800");
    watched.line("steering of port lan is missing");
    let wanted = |part: &str| {
        let start = Instant::now();
        while !std::fs::read_to_string(&request).is_ok_and(|text| text.contains(part)) {
            assert!(start.elapsed() < PATIENCE, "no request: {part}");
        }
    };
    wanted("ip -4 rule add priority 11800");
    watched.cards.setup();
    watched.line("steering of port lan is back");
    // A shadowing rule is not mended by set-up, so that none is asked for.
    std::fs::remove_file(&request).unwrap();
    watched.does("ip -4 rule add priority 100 lookup main");
    watched.line("steering of port lan is missing");
    assert!(!request.exists());
    watched.cards.router().hang_up().unwrap();
    watched.line("reloaded");
    wanted("reloaded");
}

fn fails(said: &Said, parts: &[&str]) {
    assert!(said.code.is_some_and(|code| code > 0), "{said:?}");
    for part in parts {
        assert!(said.err.contains(part), "{part}: {said:?}");
    }
}

/// A card that does not exist and a rule that comes first fail `check` and `setup`, which name them
/// and the remedy; `--offline` and `--boot` are for other machines and for the time before cards
/// are there.
#[test]
fn what_takes_packets_past_a_port_is_refused() {
    let cards = Cards::new();
    cards.configure("", "rate = \"10Mbit\"");
    let file = cards.path("router.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(cards.tool("check", &[]).code, Some(0));

    std::fs::write(&file, text.replace("\"lan0\"", "\"lan00\"")).unwrap();
    let absent = "port lan: steering: there is no interface lan00: mend `from`, or make the \
                  interface; did you mean lan0?";
    fails(&cards.tool("check", &[]), &[absent]);
    assert_eq!(cards.tool("check", &["--offline"]).code, Some(0));
    fails(&cards.tool("setup", &["--dry-run"]), &[absent]);
    fails(&cards.tool("setup", &[]), &[absent]);
    let said = cards.tool("setup", &["--boot"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains(absent), "{said:?}");
    cards.tool("teardown", &[]);

    std::fs::write(&file, &text).unwrap();
    shell(&cards.kernel, "ip rule add priority 5270 lookup 52");
    let shadow = [
        "port lan: steering: rule 5270 (lookup 52) takes packets before rule 11800",
        "iif lan0 lookup 11801",
        "give it a priority above 12055, or choose a `table` below 5270",
    ];
    fails(&cards.tool("check", &[]), &shadow);
    fails(&cards.tool("setup", &[]), &shadow);
    // All is made nevertheless.
    assert_eq!(cards.tool("setup", &["--boot"]).out, "");
    shell(
        &cards.kernel,
        "ip rule delete priority 5270; ip rule add priority 9 to 10.9.0.0/16 lookup main",
    );
    let said = cards.tool("check", &[]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        said.err
            .contains("rule 9 (lookup main) takes some packets before"),
        "{said:?}"
    );
    shell(&cards.kernel, "ip rule delete priority 9");

    // An address that the kernel has, and a rule that is not there although all was set up.
    std::fs::write(&file, text.replace("192.0.2.1", "10.0.1.1")).unwrap();
    fails(
        &cards.tool("check", &[]),
        &["addresses: 10.0.1.1 is an address of the interface lan0"],
    );
    std::fs::write(&file, &text).unwrap();
    shell(&cards.kernel, "ip rule delete priority 11801");
    let said = cards.tool("check", &[]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        said.err.contains("missing: ip -4 rule add priority 11801"),
        "{said:?}"
    );
}

/// Another file with the same `table`, and a teardown of everything, leave a running router alone.
#[test]
fn a_second_file_takes_nothing_from_a_running_router() {
    let cards = Cards::new();
    cards.configure("", "rate = \"10Mbit\"");
    let mut watched = Watched::new(cards);
    let state = "ip -o link | cut -d: -f2; ip rule; ip -6 rule; ip route show table all; \
                 nft list ruleset || true";
    let before = shell(&watched.cards.kernel, state).out;
    let first = watched.cards.path("router.toml");
    let second = watched.cards.path("test.toml");
    let text = std::fs::read_to_string(&first).unwrap();
    std::fs::write(&second, text.replace("vcp-", "two-")).unwrap();
    let tool = |cards: &Cards, command: &str, more: &[&str]| {
        let mut program = vcp_router();
        program.arg(command).args(more);
        run(&cards.kernel, program)
    };
    let with = ["--config", second.to_str().unwrap()];
    let owner = format!("belongs to {} (`table = 11800`)", first.display());
    fails(
        &tool(&watched.cards, "setup", &with),
        &[&owner, "another `table`", "--force"],
    );
    fails(&tool(&watched.cards, "teardown", &with), &[&owner]);
    fails(
        &tool(&watched.cards, "teardown", &[]),
        &["in use by a program", "--force"],
    );
    fails(
        &tool(&watched.cards, "teardown", &["--table", "11800"]),
        &["in use by a program"],
    );
    fails(
        &watched.cards.tool("teardown", &[]),
        &["in use by a program"],
    );
    assert_eq!(shell(&watched.cards.kernel, state).out, before);
    watched.cards.udp(false).until_it_passes();
    // Stopped, it may be taken away, or over.
    watched.cards.kill();
    fails(&tool(&watched.cards, "setup", &with), &[&owner]);
    let said = tool(&watched.cards, "setup", &[with[0], with[1], "--force"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("ip link delete dev vcp-wan"), "{said:?}");
    fails(
        &watched.cards.tool("setup", &[]),
        &["belongs to", "test.toml"],
    );
    // A file that is gone owns nothing.
    std::fs::remove_file(&second).unwrap();
    watched.cards.setup();
    let said = tool(&watched.cards, "teardown", &[]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let left = shell(&watched.cards.kernel, "ip link; nft list ruleset || true").out;
    assert!(!left.contains("vcp") && !left.contains("two-"), "{left}");
}

/// As docs/deploy.md has it: check, set up, reload. A port that was taken out is let go by the
/// reload, and its interface goes with the next set-up.
#[test]
fn a_port_can_be_taken_out_under_load() {
    let cards = Cards::new();
    cards.configure("", "rate = \"10Mbit\"");
    let file = cards.path("router.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let more = "[[port]]\nname = \"dmz\"\ntun = \"vcp-dmz\"\n";
    std::fs::write(&file, format!("{text}{more}")).unwrap();
    let mut watched = Watched::started(cards);
    assert!(watched.cards.link("dmz")["steering"].is_null());
    let udp = watched.cards.udp(false);
    udp.until_it_passes();
    std::fs::write(&file, &text).unwrap();
    assert_eq!(watched.cards.tool("check", &[]).code, Some(0));
    let said = watched.cards.tool("setup", &[]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        said.err
            .contains("vcp-dmz stays, for a program has it open"),
        "{said:?}"
    );
    watched.cards.router().hang_up().unwrap();
    watched.line("reloaded, generation 2");
    // Longer than the router waits for an interface that is gone.
    let end = Instant::now() + Duration::from_millis(1_500);
    while Instant::now() < end {
        udp.until_it_passes();
    }
    assert_eq!(watched.cards.setup(), "ip link delete dev vcp-dmz\n");
    udp.until_it_passes();
    assert!(
        watched.cards.show()["links"]
            .as_array()
            .is_some_and(|links| links.len() == 2)
    );
}

/// The MTU of a set-up falls below that of IPv6: nothing of it is left to be deleted.
#[test]
fn a_small_mtu_can_be_set_up_afterwards() {
    let cards = Cards::new();
    cards.configure("host_addresses = [\"fd00:77::1/64\"]", "rate = \"10Mbit\"");
    cards.setup();
    cards.configure(
        "host_addresses = [\"fd00:77::1/64\"]\nmtu = 1200",
        "rate = \"10Mbit\"",
    );
    let said = cards.tool("setup", &[]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(cards.setup(), "");
    cards.configure("", "rate = \"10Mbit\"");
    cards.setup();
    assert_eq!(cards.setup(), "");
}

/// `from = "lan*"`: a card that comes later is missing until the next set-up, and is steered then.
#[test]
fn a_card_that_comes_later_is_seen() {
    let cards = Cards::new();
    cards.configure("", "rate = \"10Mbit\"");
    let file = cards.path("router.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"lan0\"", "\"lan*\"")).unwrap();
    let watched = Watched::new(cards);
    watched.cards.udp(false).until_it_passes();
    watched.does("ip link add lan7 type dummy || ip link add lan7 type bridge");
    let (_, line) = watched.line("steering of port lan is missing");
    assert!(
        line.contains("rule add priority 11800 iif lan7 lookup 11801"),
        "{line}"
    );
    let script = watched.cards.setup();
    assert!(
        script.contains("ip -4 rule add priority 11800 iif lan7 lookup 11801"),
        "{script}"
    );
    watched.line("steering of port lan is back");
    // Gone again, its rules are stale.
    watched.does("ip link delete lan7");
    assert!(
        watched
            .cards
            .setup()
            .contains("ip -4 rule delete priority 11800 iif lan7")
    );
    assert_eq!(watched.cards.setup(), "");
    watched.cards.udp(false).until_it_passes();
}

/// systemd-networkd, with directories of its own and nobody to become but root.
const START_NETWORKD: &str = "mount --make-rprivate /; mount -t tmpfs run /run; \
     mkdir -p /run/systemd/network /run/systemd/netif/links /run/systemd/networkd.conf.d; \
     mount -t sysfs -o ro sys /sys; \
     printf 'root:x:0:0::/:/bin/sh\\nsystemd-network:x:0:0::/:/bin/sh\\n' > /run/passwd; \
     printf 'root:x:0:\\nsystemd-network:x:0:\\n' > /run/group; \
     mount --bind /run/passwd /etc/passwd; mount --bind /run/group /etc/group; \
     for at in 1 2; do printf \"[Match]\\nName=extra$at\\n[Network]\\nAddress=10.77.$at.1/24\\n\" \
     > /run/systemd/network/extra$at.network; done; \
     [ -z \"$0\" ] || cp \"$0\" /run/systemd/networkd.conf.d/10-vcp-router.conf; \
     exec /lib/systemd/systemd-networkd";

/// What systemd-networkd removes when it configures a link is told, nothing passes by, and set-up
/// mends it; with the packaged drop-in it removes nothing.
#[test]
fn networkd_is_seen_and_the_drop_in_stops_it() {
    if !std::path::Path::new("/lib/systemd/systemd-networkd").exists() {
        eprintln!("systemd-networkd is not installed: its deletions are made by `ip` alone");
        return;
    }
    let nft = has_nft();
    let drop_in = format!("{}/packaging/networkd.conf", env!("CARGO_MANIFEST_DIR"));
    for drop_in in ["", drop_in.as_str()] {
        let cards = Cards::new();
        cards.configure("on_stop = \"closed\"", "rate = \"10Mbit\"");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-euc", START_NETWORKD, drop_in]);
        command.stderr(std::process::Stdio::piped());
        let mut networkd = cards.kernel.spawn(command, &[]).unwrap();
        let stderr = networkd.child().stderr.take().unwrap();
        let said = std::thread::spawn(move || {
            let lines = BufReader::new(stderr).lines().map_while(Result::ok);
            lines.collect::<Vec<_>>().join("\n")
        });
        let configured = |at: u32| {
            let look = format!("ip -4 -o address show dev extra{at} | grep -q 10.77.{at}.1");
            let start = Instant::now();
            while shell(&cards.kernel, &look).code != Some(0) {
                if start.elapsed() > PATIENCE {
                    return false;
                }
            }
            true
        };
        let add = |at: u32| {
            format!("ip link add extra{at} type veth peer name peer{at}; ip link set peer{at} up")
        };
        assert_eq!(shell(&cards.kernel, &add(1)).code, Some(0));
        if !configured(1) {
            drop(networkd);
            panic!("systemd-networkd does not run: {}", said.join().unwrap());
        }
        let watched = Watched::new(cards);
        let udp = watched.cards.udp(false);
        udp.until_it_passes();
        watched.does(&add(2));
        if drop_in.is_empty() {
            let (_, line) = watched.line("steering of port lan is missing");
            assert!(line.contains("missing: ip -"), "{line}");
            udp.count();
            for _ in 0..50 {
                udp.probe();
            }
            assert!(!nft || udp.next(Duration::from_millis(100)) != Some(true));
            watched.cards.setup();
            watched.line("steering of port lan is back");
        } else {
            let look = "ip -4 -o address show dev extra2 | grep -q 10.77.2.1";
            let start = Instant::now();
            while shell(&watched.cards.kernel, look).code != Some(0) {
                assert!(start.elapsed() < PATIENCE, "the link is not configured");
            }
            assert_eq!(watched.cards.setup(), "", "networkd has removed something");
            watched.until("\"ok\":true");
        }
        udp.until_it_passes();
        udp.until_not_past();
    }
}
