//! Typical configuration files, and the errors that they cause.

use std::fmt::Debug;
use std::path::Path;

use pathmark_cc::Instant;
use pathmark_link::Link;
use pathmark_link::keys::{LinkContext, build_link};
use pathmark_link::queue::Limit;

use super::*;

pub(super) fn parse(text: &str) -> Result<Config, String> {
    Config::parse(Path::new("router.toml"), text).map_err(|error| error.to_string())
}

/// Asserts that a text is refused, with an error that has these parts, separated by ` & `.
#[track_caller]
pub(super) fn refused<T: Debug>(
    parse: impl FnOnce(&str) -> Result<T, String>,
    text: &str,
    parts: &str,
) {
    let error = parse(text).unwrap_err();
    for part in parts.split(" & ") {
        assert!(error.contains(part), "{text}: {error}\nlacks {part}");
    }
}

/// The link of the first port.
pub(super) fn link(config: &Config, now: Instant) -> Link<u32> {
    let context = LinkContext {
        now,
        seed: 1,
        name: "a",
        rtt: None,
    };
    build_link(&config.ports[0].link, &context).unwrap()
}

pub(super) const GOOD: &str = r#"
id = 7
control = "/run/vcp-router/control.sock"

[[port]]
name = "wan"
tun = "vcp0"
rate = "10Mbit"
delay = "199ms"
queue = { kind = "droptail", limit = "1bdp", rtt = "400ms" }
controller = "vcp"
loss = { kind = "bernoulli", per = 3e-3 }
jitter = { max = "2ms", reorder = true }
at = [ { t = "30s", rate = "5Mbit" }, { t = "60s", rate = 0 } ]

[[port]]
name = "lan"
fd = 5
addresses = ["10.0.0.1", "fd00::1"]

[[route]]
prefix = "10.1.0.0/16"
port = "wan"

[[route]]
prefix = "::/0"
port = "lan"
"#;

#[test]
fn a_whole_file() {
    let config = parse(GOOD).unwrap();
    assert_eq!(config.id, 7);
    let wan = &config.ports[0];
    assert_eq!(wan.interface, Interface::Tun("vcp0".to_owned()));
    assert_eq!(wan.link.rate.unwrap().bytes(), 1_250_000);
    assert_eq!(wan.link.limit(None), Limit::Bytes(500_000));
    assert!(wan.link.separate());
    assert!(wan.link.is_random());
    assert_eq!(wan.link.at.len(), 2);
    let lan = &config.ports[1];
    assert_eq!((&lan.interface, lan.mtu), (&Interface::Fd(5), 1500));
    assert!(lan.link.controller.is_none());
    assert!(!lan.link.separate());
    assert_eq!(config.routes[1].port, 1);
}

/// Mistakes in the good file: what is replaced, by what, and parts of the error.
const MISTAKES: &str = r#"
# Unknown names suggest the nearest.
rate = "10 => rte = "10 => :8: & `rte` & did you mean `rate`
limit = => limt = => :10: & queue & did you mean `limit`
droptail => dropptail => :10: & did you mean `droptail`
bernoulli => bernouli => :12: & did you mean `bernoulli`
[[route]] => [[rout]] => did you mean `route`
fd = 5 => fd = 5\nmetrics = 9464 => write `metrics` above the first `[[port]]`
id = 7 => metrics = "9464" => "127.0.0.1:9464"
loss = { kind = "bernoulli", per = 3e-3 } => loss = "1%" => { kind =
"vcp" => "auto" => `auto`: known are
port = "wan" => port = "wann" => :23: & port: & did you mean `wan`
"vcp" => "vpc" => :11: & controller & did you mean `vcp`
# Values that make no sense.
10Mbit => 10Mbot => :8: & rate & 10Mbit
199ms => 199 => :9: & delay & 199ms
per = 3e-3 => per = 1.5 => :12: & between 0 and 1
rtt = "400ms" => separate = true => :10: & rtt
"1bdp" => "100B" => :10: & raise `limit`
"1bdp" => "1.5x" => :10: & queue limit
limit = => min = 5, limit = => :10: & `min` belongs to kind = "red"
limit = => target = "5ms", limit = => :10: & `target` belongs to kind = "codel"
limit = => step = "1ms", limit = => :10: & `step` belongs to kind = "dualpi2"
"droptail" => "codel", p = 0.1 => :10: & `p` belongs to kind = "red"
"droptail" => "red", min = 20 => :10: & RED: `min` must be below `max`
id = 7 => id = 0 => :2: & id
fd = 5 => fd = 1 => :18: & above 2
fd = 5 => fd = 5\ntun = "x" => not both
fd = 5 =>  => tun = "NAME"
fd = 5 => tun = "vcp0" => :18: & share this interface
name = "lan" => name = "wan" => :17: & two ports
rate = "10Mbit"\n =>  => rate
10.1.0.0/16 => 10.1.0.1/16 => :22: & prefix & did you mean `10.1.0.0/16`
::/0 => 10.1.0.0/16 => :26: & two routes
tun = "vcp0" => tun = "much-too-long-a-name" => :7: & 1 to 15
# A number without a unit would mean bits per second, which is rarely intended.
"10Mbit" => 10 => :8: & rate & 10bit & 10Mbit
fd = 5 => fd = 5\ncapacity = 1_000 => capacity & unit
rate = "5Mbit" => rate = 5 => :14: & at & unit & 5Mbit
# A real router is restarted by its operator.
rate = "5Mbit" => restart = "1s" => :14: & at & only emulated routers
# Keys that need a law.
fd = 5 => fd = 5\ncorruption = "1%" => corruption & add `controller`
fd = 5 => fd = 5\ngrant = true => grant & add one
fd = 5 => fd = 5\ngrant = false => grant & add one
# Steering, and the interfaces that it needs.
id = 7 => table = 255 => 256 to 32000
fd = 5 => fd = 5\ntxqueuelen = 0 => 1 to 1000000
fd = 5 => fd = 5\non_stop = "shut" => on_stop
fd = 5 => fd = 5\nhost_addresses = ["10.0.0.1"] => 10.9.0.1/30
"vcp0" => ".." => 1 to 15 letters
"vcp0" => "-x" => 1 to 15 letters
"vcp0" => "a b" => 1 to 15 letters
# Declared corruption, grants, and whose shims are believed.
loss = => corruption = "31%"\nloss = => :12: & at most 30%
loss = => corruption = 5\nloss = => :12: & share
loss = => corruption = "5"\nloss = => :12: & 0.1%
loss = => corrupton = "5%"\nloss = => :12: & did you mean `corruption`
loss = => grant = 1\nloss = => :12: & grant
loss = => grant = "no"\nloss = => :12: & grant
loss = => grants = false\nloss = => :12: & did you mean `grant`
fd = 5 => fd = 5\nshims = 1 => :19: & write true, false
fd = 5 => fd = 5\nshims = { form = [] } => :19: & unknown name `form`
fd = 5 => fd = 5\nshims = { from = "wan" } => :19: & write true, false
fd = 5 => fd = 5\nshims = { from = [5] } => :19: & write true, false
fd = 5 => fd = 5\nshims = { from = ["wann"] } => :19: & did you mean `wan`
fd = 5 => fd = 5\nshims = { from = ["10.1.0.1/16"] } => :19: & did you mean `10.1.0.0/16`
# A tunnel must show its packets: encrypted ones cannot be copied.
"vcp0" => "vcp0"\ntunnel = "esp" => :8: tunnel:  & `esp` encrypts the packets inside
"vcp0" => "vcp0"\ntunnel = "wireguard" => :8: tunnel:  & encrypts
"vcp0" => "vcp0"\ntunnel = "vxlna" => :8: tunnel:  & did you mean `vxlan`?
"vcp0" => "vcp0"\ntunnel = "gre" => :8: tunnel:  & only `ipip` and `vxlan`
"#;

#[test]
fn mistakes_are_explained() {
    for line in MISTAKES.lines() {
        if line.is_empty() || line.starts_with("# ") {
            continue;
        }
        let line = line.replace("\\n", "\n");
        let [from, to, expected] = *line.split(" => ").collect::<Vec<_>>() else {
            panic!("{line}")
        };
        assert!(GOOD.contains(from), "{from}");
        let text = GOOD.replacen(from, to, 1);
        let error = parse(&text).unwrap_err();
        let one_line = error.starts_with("router.toml:") && !error.contains('\n');
        assert!(one_line, "{error}");
        refused(parse, &text, expected);
    }
    // An outage needs no unit.
    assert!(GOOD.contains("rate = 0"));
    refused(parse, "", "at least one [[port]]");
    refused(parse, &format!("{GOOD}\n[[ecn]]\n"), "dscp, port or prefix");
}

/// The good file with another key of the port `wan`, on line 12.
fn with_key(key: &str) -> Result<Config, String> {
    parse(&GOOD.replacen("loss =", &format!("{key}\nloss ="), 1))
}

#[test]
fn declared_corruption() {
    let declared = |key| with_key(key).map(|config| config.ports[0].link.corruption.ppm);
    assert_eq!(declared(""), Ok(0));
    assert_eq!(declared("corruption = \"5%\""), Ok(50_000));
    assert_eq!(declared("corruption = \"0%\""), Ok(0));
    assert_eq!(declared("corruption = \"30%\""), Ok(300_000));
}

#[test]
fn granted_starts() {
    let grants = |key| {
        with_key(key).map(|config| {
            let law = config.ports[0].link.controller.as_ref();
            law.is_some_and(|law| law.grants())
        })
    };
    assert_eq!(grants(""), Ok(true));
    assert_eq!(grants("grant = true"), Ok(true));
    assert_eq!(grants("grant = false"), Ok(false));
}

#[test]
fn whose_shims_are_believed() {
    use crate::forward::Trust;
    let with = |text: &str| {
        let text = GOOD.replacen("fd = 5", &format!("fd = 5\n{text}"), 1);
        parse(&text).map(|config| config.ports[1].shims.clone())
    };
    assert_eq!(with(""), Ok(Trust::All));
    assert_eq!(with("shims = true"), Ok(Trust::All));
    assert_eq!(with("shims = false"), Ok(Trust::None));
    let trust = with("shims = { from = [\"10.1.0.0/16\", \"wan\", \"fd00::/8\", \"lan\"] }");
    let expected = Trust::From {
        prefixes: ["10.1.0.0/16", "fd00::/8"]
            .map(|p| p.parse().unwrap())
            .to_vec(),
        ports: vec![0, 1],
    };
    assert_eq!(trust, Ok(expected));
}

/// A bucket without room never holds enough for a message.
#[test]
fn messages_that_would_never_be_sent() {
    let with = |keys: &str| parse(&format!("{GOOD}\n[icmp]\n{keys}\n"));
    refused(with, "burst = 0", "icmp: burst = 0 lets no message");
    assert!(with("rate = 10\nburst = 0").is_err());
    for good in ["", "rate = 0", "rate = 0\nburst = 0", "burst = 1"] {
        assert!(with(good).is_ok(), "{good}");
    }
}

#[test]
fn an_unreadable_file_is_named() {
    let error = Config::load(Path::new("/nonexistent/router.toml")).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/router.toml"));
}

#[test]
fn a_law_is_told_the_least_of_rate_and_capacity() {
    let port = |keys: &str| {
        let text = format!("[[port]]\nname = \"a\"\ntun = \"a0\"\ncontroller = \"xcp\"\n{keys}");
        parse(&text)
    };
    let bits = |keys: &str| {
        let metrics = link(&port(keys).unwrap(), Instant::ZERO).port().metrics();
        metrics.unwrap().xcp.unwrap().capacity * 8
    };
    assert_eq!(bits("rate = \"10Mbit\""), 10_000_000);
    assert_eq!(bits("capacity = \"8Mbit\""), 8_000_000);
    assert_eq!(bits("rate = \"10Mbit\"\ncapacity = \"8Mbit\""), 8_000_000);
    assert_eq!(bits("rate = \"10Mbit\"\ncapacity = \"20Mbit\""), 10_000_000);
    refused(port, "", "add `rate`, or `capacity`");
    refused(port, "capacity = 0", "at least 8bit");
}

/// The maximum memory for a queue and a delay must be compared with the configured memory.
#[test]
fn limits_that_memory_cannot_hold() {
    let with = |memory: &str, lan: &str| {
        let text = GOOD.replacen("id = 7", &format!("memory = \"{memory}\""), 1);
        parse(&text.replacen("fd = 5", &format!("fd = 5\n{lan}"), 1))
    };
    let config = with("100MiB", "").unwrap();
    let free = (100 << 20) - crate::forward::WORKING as u64;
    assert_eq!(config.reserve(&config.ports[0]), free / 4);
    // 75 MiB for one of two ports, in buffers of 2048 for packets of 1500: about 38,000.
    assert!(with("100MiB", "queue = { limit = \"38000p\" }").is_ok());
    let lan = |lan: &str| with("100MiB", lan);
    let parts = ":19: & queue & take 76.1MiB & may use 74.8MiB";
    refused(lan, "queue = { limit = \"39000p\" }", parts);
    assert!(with("100MiB", "queue = { limit = \"57MB\" }").is_ok());
    assert!(with("100MiB", "queue = { limit = \"58MB\" }").is_err());
    // The same packets in flight: 1 Gbit/s for half a second are 62.5 MB.
    let delay = "rate = \"1Gbit\"\ndelay = \"500ms\"\nqueue = { limit = \"10p\" }";
    assert!(with("100MiB", delay).is_err());
    assert!(with("200MiB", delay).is_ok());
    // A reserve is only for this port.
    let reserved = "reserve = \"90MiB\"";
    let both = format!("{reserved}\nqueue = {{ limit = \"45000p\" }}");
    assert!(with("100MiB", &both).is_err());
    for memory in ["100MiB", "90MiB"] {
        refused(
            |lan| with(memory, lan),
            reserved,
            "reserve & lower `reserve`",
        );
    }
}

/// The shipped example must be valid, even with every commented key enabled.
#[test]
fn the_shipped_example_is_good() {
    let text = include_str!("../../packaging/vcp-router.toml");
    let config = parse(text).unwrap();
    assert_eq!(config.ports.len(), 2);
    let every_key: String = text
        .lines()
        .filter(|line| !line.contains("bernoulli"))
        .map(|line| match line.strip_prefix("# ") {
            Some(key) if key.starts_with('[') || key.contains(" = ") => format!("{key}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let config = parse(&every_key).unwrap();
    assert_eq!(config.ecn.len(), 1);
    assert_eq!(config.ports[0].link.at.len(), 3);
    assert!(config.metrics.is_some());
}

#[test]
fn a_measured_rate_has_a_probe_and_lies_above_the_floor() {
    let port = |keys: &str| parse(&format!("[[port]]\nname = \"a\"\ntun = \"a\"\n{keys}\n"));
    let probe = "probe = \"198.51.100.1\"";
    let measure = |keys: &str| port(keys).unwrap().ports[0].measure.unwrap();
    assert_eq!(measure(probe).floor, None);
    let follows = measure(&format!("rate = \"9Mbit\"\nfloor = \"9Mbit\"\n{probe}"));
    assert_eq!(follows.floor.map(|floor| floor.bits), Some(9_000_000));
    for (keys, expected) in [
        ("floor = \"1Mbit\"", "add probe = "),
        ("floor = \"1Mbit\"\nP", "choose a `floor`"),
        (
            "rate = \"1Mbit\"\nfloor = \"2Mbit\"\nP",
            "that is not lower",
        ),
        ("rate = \"1Mbit\"\nfloor = \"7bit\"\nP", "at least 8bit"),
        ("probe = \"224.0.0.1\"", "no single host"),
        ("probe = \"modem\"", "IP address"),
    ] {
        refused(port, &keys.replace('P', probe), expected);
    }
}

#[test]
fn steering_names_what_exists() {
    let steer = |keys: &str| parse(&format!("{GOOD}\n[[steer]]\n{keys}\n"));
    let good = "from = \"eth0\"\nmark = 7\nto = [\"10.0.0.0/8\", \"::/0\"]\nport = \"wan\"";
    let config = steer(good).unwrap();
    assert_eq!(config.steers[0].mark, Some(7));
    assert_eq!((config.steers[0].port, config.table), (0, 11_800));
    assert_eq!(config.ports[0].host.on_stop, OnStop::Closed);
    for (keys, expected) in [
        ("from = 'eth0'\nport = 'wam'", "did you mean `wan`"),
        ("from = 'eth0'\nport = 'lan'", "with `tun` only"),
        ("port = 'wan'", "say which packets"),
        ("from = 'a/b'\nport = 'wan'", "1 to 15 letters"),
        ("from = 'vcp0'\nport = 'wan'", "round in a circle"),
        ("mark = 0\nport = 'wan'", "0 is no mark"),
        (
            "mark = 1\nto = ['10.0.0.1/8']\nport = 'wan'",
            "did you mean `10.0.0.0/8`",
        ),
        (
            "mark = 1\nfrm = 'eth0'\nport = 'wan'",
            "did you mean `from`",
        ),
    ] {
        refused(steer, keys, expected);
    }
    let twice = steer(&format!("{good}\n[[steer]]\n{good}")).unwrap_err();
    assert!(twice.contains("twice"), "{twice}");
}
