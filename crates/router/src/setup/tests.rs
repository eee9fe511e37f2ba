//! Plans for kernels in various states.

mod steering;

use std::path::Path;

use super::plan::{Owner, down, up};
use super::state::State;
use super::step::{Route, Rule};
use super::*;
use crate::tun::{LinkKind, LinkState as Link};

const CONFIG: &str = r#"
[[port]]
name = "wan"
tun = "vcp0"
mtu = 1400
txqueuelen = 1000
on_stop = "open"
host_addresses = ["10.9.0.1/30", "fd09::1/64"]

[[port]]
name = "lan"
tun = "vcp1"
addresses = ["192.0.2.1", "fe80::1"]

[[port]]
name = "thin"
tun = "vcp2"
mtu = 1000

[[steer]]
from = "eth1"
port = "lan"

[[steer]]
from = "br0"
mark = 7
to = ["10.0.0.0/8", "2001:db8::/32"]
port = "wan"
"#;

const OWNER: Owner<'_> = Owner {
    name: "vcp-router",
    uid: 997,
    file: "/a.toml",
    force: false,
};

fn config(text: &str) -> Config {
    Config::parse(Path::new("router.toml"), text).unwrap()
}

fn plan(text: &str, state: &State) -> Result<Vec<String>, SetupError> {
    Ok(lines(&up(&config(text), &OWNER, state)?))
}

fn lines(steps: &[Step]) -> Vec<String> {
    steps.iter().map(ToString::to_string).collect()
}

/// Asserts that there is no plan, for a reason with this text.
#[track_caller]
fn refused(state: &State, part: &str) {
    let error = plan(CONFIG, state).unwrap_err().to_string();
    assert!(error.contains(part), "{error}");
}

/// The place of the first step with this text.
fn place(steps: &[String], text: &str) -> Option<usize> {
    steps.iter().position(|step| step.contains(text))
}

fn fresh() -> State {
    State {
        ipv6: true,
        ..State::default()
    }
}

#[test]
fn everything_is_made_in_an_order_that_lets_nothing_by() {
    let steps = plan(CONFIG, &fresh()).unwrap();
    let (closed, steps) = steps.split_first().unwrap();
    let rules = "ip6 daddr fe80::/10 accept; iifname \"eth1\" oifname \"vcp1\" accept comment";
    let start = "nft 'table inet vcp_router_closed_11800; delete table inet vcp";
    assert!(closed.starts_with(start), "{closed}");
    let right = closed.contains(rules) && !closed.contains("br0");
    assert!(right, "{closed}");
    let expected = "\
ip -4 route replace unreachable default table 11801 metric 10000 protocol 118
ip -6 route replace unreachable default table 11801 metric 10000 protocol 118
ip tuntap add dev vcp0 mode tun user vcp-router vnet_hdr
ip link set dev vcp0 alias vcp-router:11800:/a.toml
echo 0 > /proc/sys/net/ipv4/conf/vcp0/rp_filter
echo 1 > /proc/sys/net/ipv4/conf/vcp0/ignore_routes_with_linkdown
echo 1 > /proc/sys/net/ipv6/conf/vcp0/addr_gen_mode
echo 1 > /proc/sys/net/ipv6/conf/vcp0/ignore_routes_with_linkdown
ip link set dev vcp0 mtu 1400 txqueuelen 1000 up
ip address replace 10.9.0.1/30 dev vcp0
ip address replace fd09::1/64 dev vcp0 nodad
ip tuntap add dev vcp1 mode tun user vcp-router vnet_hdr
ip link set dev vcp1 alias vcp-router:11800:/a.toml
echo 0 > /proc/sys/net/ipv4/conf/vcp1/rp_filter
echo 1 > /proc/sys/net/ipv4/conf/vcp1/ignore_routes_with_linkdown
echo 1 > /proc/sys/net/ipv6/conf/vcp1/addr_gen_mode
echo 1 > /proc/sys/net/ipv6/conf/vcp1/ignore_routes_with_linkdown
ip link set dev vcp1 mtu 1500 txqueuelen 500 up
ip tuntap add dev vcp2 mode tun user vcp-router vnet_hdr
ip link set dev vcp2 alias vcp-router:11800:/a.toml
echo 0 > /proc/sys/net/ipv4/conf/vcp2/rp_filter
echo 1 > /proc/sys/net/ipv4/conf/vcp2/ignore_routes_with_linkdown
ip link set dev vcp2 mtu 1000 txqueuelen 500 up
ip -4 route replace default dev vcp0 table 11800 metric 100 protocol 118
ip -6 route replace default dev vcp0 table 11800 metric 100 protocol 118
ip -4 route replace default dev vcp1 table 11801 metric 100 protocol 118
ip -6 route replace default dev vcp1 table 11801 metric 100 protocol 118
ip -4 route replace 192.0.2.1/32 dev vcp1 table 254 metric 100 protocol 118
ip -4 rule add priority 11800 iif eth1 lookup 11801 protocol 118
ip -6 rule add priority 11800 iif eth1 lookup 11801 protocol 118
ip -4 rule add priority 11801 iif br0 fwmark 7 to 10.0.0.0/8 lookup 11800 protocol 118
ip -6 rule add priority 11801 iif br0 fwmark 7 to 2001:db8::/32 lookup 11800 protocol 118";
    assert_eq!(steps.join("\n"), expected);
    // Without IPv6, no step may use it.
    let steps = plan(CONFIG, &State::default()).unwrap();
    let v6 = |step: &&String| step.contains("-6") || step.contains("ipv6") || step.contains("::");
    // The nftables table is for both versions.
    let mut steps = steps.iter().filter(|step| !step.starts_with("nft"));
    assert!(!steps.any(|step| v6(&step)));
}

/// A port that is open, one that is closed, and entries of other programs.
#[test]
fn what_differs_is_changed_and_nothing_else() {
    let mut state = fresh();
    state.routes = vec![
        route(11_800, None, 10_000),
        route(11_801, Some("vcp1"), 100),
        route(9, Some("vcp1"), 100),
    ];
    let link = |name: &str, owner, persistent| Link {
        alias: "vcp-router:11800".to_owned(),
        kind: held(owner, persistent),
        ..tun(name, 11_800)
    };
    state.links = vec![link("vcp1", 997, true)];
    let steps = plan(CONFIG, &state).unwrap();
    let at = |text: &str| place(&steps, text);
    let opened = at("-4 route delete unreachable default table 11800").unwrap();
    assert_eq!(opened, steps.len() - 1);
    let replaced = at("route replace default dev vcp1 table 11801").unwrap();
    assert!(steps[replaced].contains("-6"));
    assert_eq!(at("table 9"), None);

    // With another owner, the interface and its routes must be replaced.
    state.links = vec![link("vcp1", 1000, true), link("old", 997, true)];
    state.links[0].alias = String::new();
    // Set-up did not make alice's interface.
    assert!(plan(CONFIG, &state).is_err());
    state.links[0].alias = "vcp-router:11800".to_owned();
    let steps = plan(CONFIG, &state).unwrap();
    let at = |text: &str| place(&steps, text);
    assert!(at("link delete dev vcp1").unwrap() < at("tuntap add dev vcp1").unwrap());
    assert!(at("-4 route replace default dev vcp1 table 11801").is_some());
    assert_eq!(at("link delete dev old").unwrap(), steps.len() - 1);
    state.links = vec![link("vcp1", 997, true)];
    let steps = plan(CONFIG, &state).unwrap();
    assert!(!steps.concat().contains("tuntap add dev vcp1"), "{steps:?}");
    state.links = vec![link("vcp1", 997, false)];
    refused(&state, "stop that program");
    state.links[0].kind = LinkKind::Other;
    refused(&state, "no TUN interface");
    // Entries with our marks must be removed.
    state.links = vec![link("vcp1", 997, true), link("tun9", 997, true)];
    state.links[1].alias = "vcp-router:20000".to_owned();
    let rule = |priority, ours| Rule {
        v6: true,
        priority,
        ours,
        ..rule(11_801, "eth1")
    };
    state.rules = vec![rule(11_800, true), rule(50, false)];
    let steps = lines(&down(11_800, &state));
    let expected = "\
ip -6 rule delete priority 11800 iif eth1 lookup 11801 protocol 118
ip -4 route delete unreachable default table 11800 metric 10000 protocol 118
ip link delete dev vcp1";
    assert_eq!(steps.join("\n"), expected);
}

fn held(owner: u32, persistent: bool) -> LinkKind {
    LinkKind::Tun {
        persistent,
        owner: Some(owner),
    }
}

fn tun(name: &str, table: u32) -> Link {
    Link {
        alias: marks::alias(table, "/a.toml"),
        up: true,
        mtu: 1500,
        txqueuelen: 500,
        kind: held(997, true),
        ..card(name, 0)
    }
}

fn card(name: &str, index: u32) -> Link {
    Link {
        name: name.to_owned(),
        index,
        ..Link::default()
    }
}

fn rule(table: u32, from: &str) -> Rule {
    Rule {
        v6: false,
        priority: table,
        from: Some(from.to_owned()),
        mark: None,
        to: None,
        table,
        ours: true,
    }
}

fn route(table: u32, device: Option<&str>, metric: u32) -> Route {
    Route {
        v6: false,
        table,
        to: None,
        device: device.map(str::to_owned),
        metric,
    }
}

/// A configuration with another `table` must remove its old entries, unless they may belong to
/// another configuration.
#[test]
fn a_changed_table_leaves_nothing_behind() {
    let mut state = fresh();
    state.links = vec![tun("vcp1", 20_000)];
    state.rules = vec![rule(20_001, "eth1")];
    state.routes = vec![route(20_001, None, 10_000)];
    let steps = plan(CONFIG, &state).unwrap();
    let at = |text: &str| place(&steps, text);
    let gone = at("rule delete priority 20001 iif eth1 lookup 20001").unwrap();
    assert!(at("rule add priority 11800 iif eth1").unwrap() < gone);
    assert!(at("route delete unreachable default table 20001").unwrap() > gone);
    assert!(at("up alias vcp-router:11800:/a.toml").is_some());
    assert_eq!(at("link delete"), None);
    // Another configuration may still use it.
    state.links.push(tun("other0", 20_000));
    refused(
        &state,
        "vcp1 belongs to a configuration with `table = 20000`",
    );
}

#[test]
fn marks_tell_whose_things_there_are() {
    let mut state = fresh();
    assert!(marks::tables(&state).is_empty());
    state.links = vec![tun("a", 11_800), tun("b", 11_800), Link::default()];
    state.rules = [
        (11_801, "eth0"),
        (20_003, "eth1"),
        (20_004, "eth2"),
        (9, "eth3"),
    ]
    .map(|(table, from)| rule(table, from))
    .to_vec();
    state.rules[3].ours = false;
    let tables: Vec<_> = marks::tables(&state).into_iter().collect();
    assert_eq!(tables, [11_800, 20_003]);
    let all = tables.iter().flat_map(|table| down(*table, &state));
    assert_eq!(all.count(), 5);

    // An invalid file still determines its table; for an unreadable one, existing tables count.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("router.toml");
    let whose = |text: &str, state: &State| {
        std::fs::write(&file, text).unwrap();
        let tables = marks::tables_for(&file, state)?;
        Ok::<_, SetupError>(tables.into_iter().collect::<Vec<_>>())
    };
    let wrong = "table = 20000\nuser = 7\nnonsense = true\n[[port]]\nrate = \"x\"\ntun = \"a\"";
    // Its interface shows its former table, but another one with this table is not its own.
    assert_eq!(whose(wrong, &state).unwrap(), [20_000]);
    let both = format!("{wrong}\n[[port]]\ntun = \"b\"");
    assert_eq!(whose(&both, &state).unwrap(), [11_800, 20_000]);
    assert_eq!(whose("", &state).unwrap(), [11_800]);
    let error = whose("table = [", &state).unwrap_err().to_string();
    assert!(error.contains("`table` 11800, 20003: name one"), "{error}");
    state.rules.clear();
    assert_eq!(whose("table = [", &state).unwrap(), [11_800]);
}

/// Another program's route must be neither replaced nor removed later.
#[test]
fn a_route_of_others_is_not_replaced() {
    let mut state = fresh();
    let own = Route {
        to: Some("192.0.2.1/32".parse().unwrap()),
        ..route(step::MAIN, Some("eth5"), 100)
    };
    state.foreign = vec![own];
    state.foreign[0].metric = 0;
    assert!(plan(CONFIG, &state).is_ok(), "another metric");
    state.foreign[0].metric = 100;
    refused(
        &state,
        "the route to 192.0.2.1/32 with metric 100 in table 254 is not",
    );
}

#[test]
fn what_stands_in_the_way_is_said() {
    let mut state = fresh();
    let mut warned = |key: &str, value: &str| {
        state.sysctls.insert(step::sysctl(key), value.to_owned());
        plan::warnings(&config(CONFIG), &state).join("\n")
    };
    assert_eq!(warned("ipv4/ip_forward", "1"), "");
    assert!(warned("ipv4/ip_forward", "0").contains("net.ipv4.ip_forward is 0"));
    // Only for an IP version that is steered.
    let only = |prefix: &str, ipv6: bool| {
        let text = CONFIG.replace("[[steer]]", &format!("[[steer]]\nto = [\"{prefix}\"]"));
        let text = text.replace("to = [\"10.0.0.0/8\", \"2001:db8::/32\"]\n", "");
        let mut state = fresh();
        state.ipv6 = ipv6;
        for key in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            state.sysctls.insert(step::sysctl(key), "0".to_owned());
        }
        let said = plan::warnings(&config(&text), &state).join("\n");
        let parts = [
            "ipv4.ip_forward",
            "ipv6.conf.all.forwarding",
            "IPv6 is disabled",
        ];
        parts.map(|part| said.contains(part))
    };
    assert_eq!(only("0.0.0.0/0", true), [true, false, false]);
    assert_eq!(only("::/0", true), [false, true, false]);
    assert_eq!(only("::/0", false), [false, false, true]);
    assert_eq!(only("0.0.0.0/0", false), [true, false, false]);
    assert!(warned(step::RP_FILTER, "1").contains("all.rp_filter is not 0"));
}

#[test]
fn a_step_is_what_a_shell_runs() {
    for (arguments, line) in [
        (
            &["tuntap", "user", "o'neil; reboot"][..],
            r"ip tuntap user 'o'\''neil; reboot'",
        ),
        (&[""], "ip ''"),
    ] {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned());
        assert_eq!(Step::Ip(arguments.collect()).to_string(), line);
    }
}

/// Accepts this number of writes, then fails with this error.
struct Failing(usize, std::io::ErrorKind);

impl std::io::Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(1).ok_or(self.1)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn set_up_is_completed_although_its_output_has_no_reader() {
    use std::io::ErrorKind::{BrokenPipe, StorageFull};

    let directory = tempfile::TempDir::new().unwrap();
    let files = [0, 1, 2].map(|i| directory.path().join(i.to_string()));
    let steps = files.clone().map(|file| Step::Sysctl(file, "1".to_owned()));
    for (kind, fails) in [(BrokenPipe, false), (StorageFull, true)] {
        let dry = run(&steps, true, &mut Failing(0, kind));
        assert_eq!(matches!(dry, Err(SetupError::Print(_))), fails);
        assert!(files.iter().all(|file| !file.exists()));
        let done = run(&steps, false, &mut Failing(0, kind));
        assert_eq!(matches!(done, Err(SetupError::Print(_))), fails);
        for file in &files {
            assert_eq!(std::fs::read_to_string(file).unwrap(), "1");
            std::fs::remove_file(file).unwrap();
        }
    }
}

/// There must be only one route to an address, however many ports have it. Otherwise two would
/// replace each other, and set-up would never be complete.
#[test]
fn ports_with_one_address_share_its_route() {
    let addresses = "mtu = 1300\naddresses = [\"192.0.2.1\", \"fd00:9::1\", \"fd00:9::1\"]";
    let steps = plan(&CONFIG.replace("mtu = 1000", addresses), &fresh()).unwrap();
    for (version, address, port) in [(4, "192.0.2.1/32", "vcp1"), (6, "fd00:9::1/128", "vcp2")] {
        let bare = address.split('/').next().unwrap();
        let to: Vec<_> = steps.iter().filter(|step| step.contains(bare)).collect();
        let route = format!("route replace {address} dev {port} table 254 metric 100 protocol 118");
        assert_eq!(to, [&format!("ip -{version} {route}")]);
    }
}
