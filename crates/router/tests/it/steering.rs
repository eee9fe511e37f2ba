//! What other programs do to rules, routes and links while a router runs: it is seen within a
//! second, nothing passes by a closed port, and set-up mends it.

use std::time::{Duration, Instant};

use pathmark_testbed::undisturbed;

use crate::cards::{Cards, run, shell};
use crate::vcp_router;
use crate::watched::{PATIENCE, Watched, has_nft};

/// Time within which a loss is to be seen.
const WITHIN: Duration = Duration::from_secs(1);
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
        reason: "there is no interface lan0: correct `from`",
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
fn every_loss_is_reported_within_a_second_and_nothing_passes_by() {
    undisturbed(|| {
        let nft = has_nft();
        for loss in &LOSSES {
            let watched = Watched::new(Cards::with("on_stop = \"closed\"", "rate = \"10Mbit\""));
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
            let soon = shown < WITHIN && logged < WITHIN;
            assert!(soon, "{}: {shown:?}, logged {logged:?}", loss.name);
            let metric = format!("vcp_router_steering_ok{{port=\"{}\"}} 0", loss.port);
            assert!(watched.show(&["--metrics"]).contains(&metric));
            let table = watched.show(&[]);
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

/// Rules of all kinds are known again as the kernel lists them, and the loss of each is seen.
#[test]
fn marks_and_destinations_are_watched_too() {
    let cards = Cards::with("", "rate = \"10Mbit\"");
    let more = "[[steer]]\nmark = 7\nport = \"wan\"\n\
                [[steer]]\nfrom = \"wan0\"\nmark = 4096\nport = \"lan\"\n\
                to = [\"10.0.0.0/8\", \"0.0.0.0/0\", \"2001:db8::/32\", \"fd00:7::1/128\"]\n";
    cards.write(&(cards.text() + more));
    let watched = Watched::new(cards);
    assert_eq!(watched.cards.setup(), "");
    let marked = "priority 11803 iif wan0 fwmark 4096";
    for (family, rule) in [
        ("-6", "priority 11802 fwmark 7 lookup 11800".to_owned()),
        ("-4", format!("{marked} lookup 11801")),
        ("-6", format!("{marked} to fd00:7::1/128 lookup 11801")),
    ] {
        watched.does(&format!("ip {family} rule delete {rule}"));
        let (_, line) = watched.line("is missing: ");
        let remedy = format!("ip {family} rule add {rule}");
        assert!(line.contains(&remedy), "{line}");
        watched.cards.setup();
        watched.line("is back");
    }
}

/// A unit is asked for set-up by a file: at once, and after a reload.
#[test]
fn a_repair_is_asked_for() {
    let mut watched = Watched::new(Cards::with("", "rate = \"10Mbit\""));
    let request = watched.cards.path("run/setup-wanted");
    assert!(!request.exists());
    watched.does("ip -4 rule delete priority 11800");
    watched.line("steering of port lan is missing");
    watched.requested("ip -4 rule add priority 11800");
    watched.cards.setup();
    watched.line("steering of port lan is back");
    // A shadowing rule is not mended by set-up, so that none is asked for.
    std::fs::remove_file(&request).unwrap();
    watched.does("ip -4 rule add priority 100 lookup main");
    watched.line("steering of port lan is missing");
    assert!(!request.exists());
    watched.cards.router().hang_up().unwrap();
    watched.line("reloaded");
    watched.requested("reloaded");
}

/// A card that does not exist and a rule that comes first fail `check` and `setup`, which name them
/// and the remedy; `--offline` and `--boot` are for other machines and for the time before cards
/// are there.
#[test]
fn what_takes_packets_past_a_port_is_refused() {
    let cards = Cards::with("", "rate = \"10Mbit\"");
    let text = cards.text();
    cards.tool("check", &[]).ended(0, &[]);

    cards.write(&text.replace("\"lan0\"", "\"lan00\""));
    let absent = "port lan: steering: there is no interface lan00: correct `from`, or make the \
                  interface; did you mean lan0?";
    cards.tool("check", &[]).ended(2, &[absent]);
    cards.tool("check", &["--offline"]).ended(0, &[]);
    cards.tool("setup", &["--dry-run"]).ended(1, &[absent]);
    cards.tool("setup", &[]).ended(1, &[absent]);
    cards.tool("setup", &["--boot"]).ended(0, &[absent]);
    cards.tool("teardown", &[]);

    cards.write(&text);
    cards.does("ip rule add priority 5270 lookup 52");
    let shadow = [
        "port lan: steering: rule 5270 (lookup 52) takes packets before rule 11800",
        "iif lan0 lookup 11801",
        "give it a priority above 12055, or choose a `table` below 5270",
    ];
    cards.tool("check", &[]).ended(2, &shadow);
    cards.tool("setup", &[]).ended(1, &shadow);
    // All is made nevertheless.
    assert_eq!(cards.tool("setup", &["--boot"]).out, "");
    cards.does("ip rule delete priority 5270; ip rule add priority 9 to 10.9.0.0/16 lookup main");
    let said = "rule 9 (lookup main) takes some packets before";
    cards.tool("check", &[]).ended(0, &[said]);
    cards.does("ip rule delete priority 9");

    // A rule that is not there although all was set up.
    cards.does("ip rule delete priority 11801");
    let said = "missing: ip -4 rule add priority 11801";
    cards.tool("check", &[]).ended(0, &[said]);
}

/// Another file with the same `table`, and a teardown of everything, leave a running router alone.
#[test]
fn a_second_file_takes_nothing_from_a_running_router() {
    let mut watched = Watched::new(Cards::with("", "rate = \"10Mbit\""));
    // Link-local addresses come and get ready in their own time.
    let state = "ip -o link | cut -d: -f2; ip rule; ip -6 rule; \
                 ip route show table all | grep -v fe80; nft list ruleset || true";
    let before = shell(&watched.cards.kernel, state).out;
    let first = watched.cards.path("router.toml");
    let second = watched.cards.path("test.toml");
    std::fs::write(&second, watched.cards.text().replace("vcp-", "two-")).unwrap();
    let tool = |cards: &Cards, command: &str, more: &[&str]| {
        let mut program = vcp_router();
        program.arg(command).args(more);
        run(&cards.kernel, program)
    };
    let with = ["--config", second.to_str().unwrap()];
    let owner = format!("belongs to {} (`table = 11800`)", first.display());
    let in_use = "in use by a program";
    let refused = tool(&watched.cards, "setup", &with);
    refused.ended(1, &[&owner, "another `table`", "--force"]);
    tool(&watched.cards, "teardown", &with).ended(1, &[&owner]);
    tool(&watched.cards, "teardown", &[]).ended(1, &[in_use, "--force"]);
    tool(&watched.cards, "teardown", &["--table", "11800"]).ended(1, &[in_use]);
    watched.cards.tool("teardown", &[]).ended(1, &[in_use]);
    assert_eq!(shell(&watched.cards.kernel, state).out, before);
    watched.cards.udp(false).until_it_passes();
    // Stopped, it may be taken away, or over.
    watched.cards.kill();
    tool(&watched.cards, "setup", &with).ended(1, &[&owner]);
    let said = tool(&watched.cards, "setup", &[with[0], with[1], "--force"]);
    said.ended(0, &[]);
    assert!(said.out.contains("ip link delete dev vcp-wan"), "{said:?}");
    let said = watched.cards.tool("setup", &[]);
    said.ended(1, &["belongs to", "test.toml"]);
    // A file that is gone owns nothing.
    std::fs::remove_file(&second).unwrap();
    watched.cards.setup();
    tool(&watched.cards, "teardown", &[]).ended(0, &[]);
    let left = shell(&watched.cards.kernel, "ip link; nft list ruleset || true").out;
    assert!(!left.contains("vcp") && !left.contains("two-"), "{left}");
}

/// As docs/router/deploy.md has it: check, setup, reload. The reload lets a removed port go,
/// and its interface goes with the next set-up.
#[test]
fn a_port_can_be_taken_out_under_load() {
    let cards = Cards::with("", "rate = \"10Mbit\"");
    let text = cards.text();
    let more = "[[port]]\nname = \"dmz\"\ntun = \"vcp-dmz\"\n";
    cards.write(&format!("{text}{more}"));
    let mut watched = Watched::started(cards);
    assert!(watched.cards.link("dmz")["steering"].is_null());
    let udp = watched.cards.udp(false);
    udp.until_it_passes();
    watched.cards.write(&text);
    watched.cards.tool("check", &[]).ended(0, &[]);
    let said = watched.cards.tool("setup", &[]);
    said.ended(0, &["vcp-dmz stays, for a program has it open"]);
    watched.cards.router().hang_up().unwrap();
    watched.line("reloaded, generation 2");
    // Longer than the router waits for an interface that is gone.
    let end = Instant::now() + Duration::from_millis(1_500);
    while Instant::now() < end {
        udp.until_it_passes();
    }
    assert_eq!(watched.cards.setup(), "ip link delete dev vcp-dmz\n");
    udp.until_it_passes();
    let state = watched.cards.show();
    assert_eq!(state["links"].as_array().map(Vec::len), Some(2));
}

/// The MTU of a set-up falls below that of IPv6: nothing of it is left to be deleted.
#[test]
fn a_small_mtu_can_be_set_up_afterwards() {
    let cards = Cards::new();
    let (host, rate) = ("host_addresses = [\"fd00:77::1/64\"]", "rate = \"10Mbit\"");
    cards.configure(host, rate);
    cards.setup();
    cards.configure(&format!("{host}\nmtu = 1200"), rate);
    cards.setup();
    assert_eq!(cards.setup(), "");
    cards.configure("", "rate = \"10Mbit\"");
    cards.setup();
    assert_eq!(cards.setup(), "");
}

/// `from = "lan*"`: a card that comes later is missing until the next set-up, and is steered then.
#[test]
fn a_card_that_comes_later_is_seen() {
    let cards = Cards::with("", "rate = \"10Mbit\"");
    cards.write(&cards.text().replace("\"lan0\"", "\"lan*\""));
    let watched = Watched::new(cards);
    watched.cards.udp(false).until_it_passes();
    watched.does("ip link add lan7 type dummy || ip link add lan7 type bridge");
    let (_, line) = watched.line("steering of port lan is missing");
    let rule = "rule add priority 11800 iif lan7 lookup 11801";
    assert!(line.contains(rule), "{line}");
    let script = watched.cards.setup();
    assert!(script.contains(&format!("ip -4 {rule}")), "{script}");
    watched.line("steering of port lan is back");
    // Gone again, its rules are stale.
    watched.does("ip link delete lan7");
    let script = watched.cards.setup();
    let gone = "ip -4 rule delete priority 11800 iif lan7";
    assert!(script.contains(gone), "{script}");
    assert_eq!(watched.cards.setup(), "");
    watched.cards.udp(false).until_it_passes();
}

/// MTU and name of a port change at a reload, which says how it ended. The interface's MTU is
/// `setup`'s to change.
#[test]
fn a_reload_changes_mtu_and_name_of_a_port() {
    let cards = Cards::with("", "rate = \"10Mbit\"");
    let watched = Watched::started(cards);
    let udp = watched.cards.udp(false);
    udp.until_it_passes();
    let sent = watched.cards.link("wan")["sent_packets"].as_u64();
    let reload = || watched.cards.ask(&["reload", "--wait"]);
    let text = watched.cards.text();
    let renamed = text.replace("\"wan\"", "\"uplink\"");
    assert_ne!(renamed, text);
    watched.cards.write(&renamed);
    reload().ended(0, &["reloaded, generation 2"]);
    let after = watched.cards.link("uplink")["sent_packets"].as_u64();
    assert!(after >= sent && sent > Some(0), "{sent:?} {after:?}");
    udp.until_it_passes();

    let narrow = renamed.replacen("[[port]]", "[[port]]\nmtu = 1400", 1);
    watched.cards.write(&narrow);
    let remedy = "port uplink: the TUN interface vcp-wan has an MTU of 1500, the configuration \
                  says 1400: run `vcp-router setup`";
    reload().ended(1, &[remedy]);
    watched.cards.setup();
    reload().ended(0, &["reloaded, generation 3"]);
    watched.does("ip link show vcp-wan | grep -q 'mtu 1400'");
    udp.until_it_passes();

    watched.cards.write("nonsense");
    let reason = "not reloaded, still running as before: ";
    reload().ended(1, &[reason, "router.toml:1: "]);
    assert_eq!(watched.cards.show()["reload"]["generation"], 3);
    udp.until_it_passes();
}
