//! What `setup` makes and `teardown` takes away, and what both leave alone.

use crate::cards::{Cards, shell};
use crate::vcp_router;

/// Lists addresses, interfaces, rules and routes, but for link-local addresses, which come and get
/// ready in their own time.
const STATE: &str = "ip -o address | grep -v fe80; ip -o link | cut -d: -f2; ip rule; ip -6 rule; \
     (ip -4 route show table all; ip -6 route show table all) | grep -v fe80";

#[test]
fn setup_is_idempotent_and_teardown_leaves_nothing_behind() {
    let cards = Cards::with("", "rate = \"10Mbit\"");
    let now = || shell(&cards.kernel, STATE).out;
    let before = now();
    let planned = cards.tool("setup", &["--dry-run"]).out;
    assert_eq!(now(), before, "a dry run changed something");
    assert_eq!(cards.setup(), planned);
    let make = "ip tuntap add dev vcp-lan mode tun user root vnet_hdr\n";
    assert!(planned.contains(make));
    // Nothing is left to do.
    assert_eq!(cards.setup(), "");
    // Deleted parts come back, and nothing else changes.
    let all = now();
    cards.does(
        "ip link set dev vcp-lan mtu 1400; ip rule delete iif wan0; \
         ip -6 rule delete iif lan0; ip route flush table 11800",
    );
    assert_eq!(cards.setup().lines().count(), 5);
    assert_eq!(now(), all);
    // Torn down.
    let planned = cards.tool("teardown", &["--dry-run"]).out;
    assert_eq!(cards.tool("teardown", &[]).out, planned);
    assert_eq!(now(), before);
    assert_eq!(cards.tool("teardown", &[]).out, "");
    // The printed commands do the same.
    cards.does(&cards.tool("setup", &["--dry-run"]).out);
    assert_eq!(cards.setup(), "");
}

#[test]
fn what_setup_must_mend_is_said_at_the_start() {
    let mut cards = Cards::with("", "rate = \"10Mbit\"");
    // No user may make an interface.
    let error = cards.try_start().unwrap_err();
    assert!(error.contains("let `vcp-router setup` make it"), "{error}");
    cards.setup();
    cards.start();
    // The interfaces are in use, and stay as they are.
    assert_eq!(cards.setup(), "");
    assert_eq!(cards.link("wan")["rate_bps"].as_f64(), Some(1e7));
    cards.kill();
    let mtu = "has an MTU of 1400, the configuration says 1500";
    for (change, expected) in [
        ("mtu 1400", mtu),
        ("mtu 1500 down", "vcp-wan is down: run `vcp-router setup`"),
    ] {
        cards.does(&format!("ip link set dev vcp-wan {change}"));
        let error = cards.try_start().unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    cards.setup();
    cards.start();
    let udp = cards.udp(false);
    udp.until_it_passes();
}

#[test]
fn setup_touches_nothing_of_others() {
    let cards = Cards::new();
    let fails = |expected: &str| cards.tool("setup", &[]).ended(1, &[expected]);
    cards.configure("", "");
    let text = cards.text();
    cards.write(&text.replace("vcp-wan", "eth7"));
    cards.does("ip link add eth7 type dummy || ip link add eth7 type bridge");
    fails("eth7 exists and is no TUN interface");
    cards.does("ip link delete eth7; ip rule add priority 11900 lookup 9");
    fails("rule 11900 (table 9) is not this program's");
    cards.does("ip rule delete priority 11900");
    // A second router with tables of its own.
    cards.setup();
    let mut second = format!("table = 20000\n{text}");
    for (from, to) in [
        ("vcp-", "two-"),
        ("\"lan0\"", "\"lan1\""),
        ("192.0.2", "192.0.3"),
        ("fd00:9", "fd00:8"),
    ] {
        second = second.replace(from, to);
    }
    cards.write(&second);
    let said = cards.tool("setup", &["--boot"]);
    said.ended(0, &["there is no interface lan1"]);
    let of_first = |text: &str, name: &str| text.contains(name) || text.contains("1180");
    let said = cards.tool("teardown", &[]);
    assert!(!of_first(&said.out, "vcp-"), "{said:?}");
    // The first: its interfaces under new names, the old ones are removed.
    cards.write(&text.replace("vcp-", "new-"));
    let script = cards.setup();
    assert!(script.contains("ip link delete dev vcp-lan\n"), "{script}");
    assert_eq!(cards.setup(), "");
    cards.tool("teardown", &[]);
    let state = "ip link; ip rule; ip route show table all proto 118";
    let left = shell(&cards.kernel, state);
    assert!(!of_first(&left.out, "new-"), "{left:?}");
}

/// What was set up is taken away whatever has become of the configuration since.
#[test]
fn teardown_needs_no_configuration_that_holds_together() {
    let cards = Cards::new();
    let now = || shell(&cards.kernel, STATE).out;
    let before = now();
    cards.configure("", "rate = \"10Mbit\"");
    let text = cards.text();
    let other_user = text.replace("user = \"root\"", "user = \"no-such-user\"");
    let moved = format!("table = 20000\n{text}");
    for wrong in [&other_user, "rate = 7", "= not TOML", &moved] {
        cards.write(&text);
        cards.setup();
        cards.write(wrong);
        cards.tool("teardown", &[]).ended(0, &[]);
        assert_eq!(now(), before, "{wrong}");
    }
    // A changed `table`: what the old one had is replaced.
    cards.write(&text);
    cards.setup();
    cards.write(&moved);
    cards.setup();
    assert_eq!(cards.setup(), "");
    let left = now();
    assert!(!left.contains("1180"), "{left}");
    // Without any file, as when the package is removed.
    let router = vcp_router();
    cards.does(&format!("{} teardown", router.get_program().display()));
    assert_eq!(now(), before);
}

/// Set-up that ends at any step is continued by the next one, and teardown removes what it has
/// made. (Only a kill between an interface and its mark leaves an interface without a mark: the
/// next set-up takes it over.)
#[test]
fn setup_that_ends_midway_leaves_nothing_that_is_not_known() {
    let cards = Cards::with("", "rate = \"10Mbit\"");
    let now = || shell(&cards.kernel, STATE).out;
    let before = now();
    let steps: Vec<_> = cards.setup().lines().map(str::to_owned).collect();
    let whole = now();
    cards.tool("teardown", &[]);
    assert_eq!(now(), before);
    // An `ip` that fails at one command, which ends set-up there.
    let broken = cards.path("ip");
    let real = shell(&cards.kernel, "command -v ip").out;
    let router = vcp_router();
    let run = format!(
        "PATH={}:$PATH {} setup --config {}",
        cards.path("").display(),
        router.get_program().display(),
        cards.path("router.toml").display()
    );
    let mut ended = 0;
    for step in steps.iter().filter_map(|step| step.strip_prefix("ip ")) {
        if step.contains(" alias ") {
            continue;
        }
        let fails = format!("[ \"$*\" = \"{step}\" ] && exit 1");
        let script = format!("#!/bin/sh\n{fails}\nexec {} \"$@\"\n", real.trim());
        std::fs::write(&broken, script).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&broken, executable).unwrap();
        let said = shell(&cards.kernel, &run);
        said.ended(1, &[]);
        assert_eq!(said.out.lines().last(), Some(format!("ip {step}").as_str()));
        cards.tool("teardown", &[]);
        assert_eq!(now(), before, "{step}");
        shell(&cards.kernel, &run);
        cards.tool("setup", &[]).ended(0, &[]);
        assert_eq!(now(), whole, "{step}");
        cards.tool("teardown", &[]);
        ended += 1;
    }
    assert!(ended > 10, "{ended} of {steps:?}");
}
