//! What `setup` makes and `teardown` takes away, and what both leave alone.

use crate::cards::{Cards, shell};
use crate::vcp_router;

#[test]
fn setup_is_idempotent_and_teardown_leaves_nothing_behind() {
    let cards = Cards::new();
    cards.configure("", "rate = \"10Mbit\"");
    // Link-local addresses come and get ready in their own time.
    let state = "ip -o address | grep -v fe80; ip -o link | cut -d: -f2; ip rule; ip -6 rule; \
                 (ip -4 route show table all; ip -6 route show table all) | grep -v fe80";
    let before = shell(&cards.kernel, state).out;
    let planned = cards.tool("setup", &["--dry-run"]);
    assert_eq!(
        shell(&cards.kernel, state).out,
        before,
        "a dry run changed something"
    );
    assert_eq!(cards.setup(), planned.out);
    assert!(
        planned
            .out
            .contains("ip tuntap add dev vcp-lan mode tun user root vnet_hdr\n")
    );
    // Nothing is left to do.
    assert_eq!(cards.setup(), "");
    // Deleted parts come back, and nothing else changes.
    let all = shell(&cards.kernel, state).out;
    let away = "ip link set dev vcp-lan mtu 1400; ip rule delete iif wan0; \
                ip -6 rule delete iif lan0; ip route flush table 11800";
    assert_eq!(shell(&cards.kernel, away).code, Some(0));
    assert_eq!(cards.setup().lines().count(), 5);
    assert_eq!(shell(&cards.kernel, state).out, all);
    // Torn down.
    let planned = cards.tool("teardown", &["--dry-run"]);
    assert_eq!(cards.tool("teardown", &[]).out, planned.out);
    assert_eq!(shell(&cards.kernel, state).out, before);
    assert_eq!(cards.tool("teardown", &[]).out, "");
    // The printed commands do the same.
    let script = cards.tool("setup", &["--dry-run"]).out;
    assert_eq!(shell(&cards.kernel, &script).code, Some(0));
    assert_eq!(cards.setup(), "");
}

#[test]
fn what_setup_must_mend_is_said_at_the_start() {
    let mut cards = Cards::new();
    cards.configure("", "rate = \"10Mbit\"");
    // No user may make an interface.
    let error = cards.try_start().unwrap_err();
    assert!(error.contains("let `vcp-router setup` make it"), "{error}");
    cards.setup();
    cards.start();
    // The interfaces are in use, and stay as they are.
    assert_eq!(cards.setup(), "");
    assert_eq!(cards.link("wan")["rate_bps"].as_f64(), Some(1e7));
    cards.kill();
    for (change, expected) in [
        (
            "mtu 1400",
            "has an MTU of 1400, the configuration says 1500",
        ),
        ("mtu 1500 down", "vcp-wan is down: run `vcp-router setup`"),
    ] {
        let change = format!("ip link set dev vcp-wan {change}");
        assert_eq!(shell(&cards.kernel, &change).code, Some(0));
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
    let fails = |expected: &str| {
        let said = cards.tool("setup", &[]);
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.err.contains(expected), "{}", said.err);
    };
    cards.configure("", "");
    let file = cards.path("router.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("vcp-wan", "eth7")).unwrap();
    shell(
        &cards.kernel,
        "ip link add eth7 type dummy || ip link add eth7 type bridge",
    );
    fails("eth7 exists and is no TUN interface");
    shell(
        &cards.kernel,
        "ip link delete eth7; ip rule add priority 11900 lookup 9",
    );
    fails("rule 11900 (table 9) is not this program's");
    shell(&cards.kernel, "ip rule delete priority 11900");
    // A second router with tables of its own.
    cards.setup();
    let second = text.replace("vcp-", "two-").replace("\"lan0\"", "\"lan1\"");
    std::fs::write(
        &file,
        format!("table = 20000\n{second}")
            .replace("192.0.2", "192.0.3")
            .replace("fd00:9", "fd00:8"),
    )
    .unwrap();
    let said = cards.tool("setup", &["--boot"]);
    assert!(said.err.contains("there is no interface lan1"), "{said:?}");
    assert_eq!(said.code, Some(0));
    let said = cards.tool("teardown", &[]);
    assert!(
        !said.out.contains("vcp-") && !said.out.contains("1180"),
        "{said:?}"
    );
    // The first: its interfaces under new names, the old ones are removed.
    std::fs::write(&file, text.replace("vcp-", "new-")).unwrap();
    let script = cards.setup();
    assert!(script.contains("ip link delete dev vcp-lan\n"), "{script}");
    assert_eq!(cards.setup(), "");
    cards.tool("teardown", &[]);
    let left = shell(
        &cards.kernel,
        "ip link; ip rule; ip route show table all proto 118",
    );
    assert!(
        !left.out.contains("new-") && !left.out.contains("1180"),
        "{left:?}"
    );
}

/// What was set up is taken away whatever has become of the configuration since.
#[test]
fn teardown_needs_no_configuration_that_holds_together() {
    let cards = Cards::new();
    let state = "ip -o link | cut -d: -f2; ip rule; ip -6 rule; \
                 (ip -4 route show table all; ip -6 route show table all) | grep -v fe80";
    let before = shell(&cards.kernel, state).out;
    cards.configure("", "rate = \"10Mbit\"");
    let file = cards.path("router.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let other_user = text.replace("user = \"root\"", "user = \"no-such-user\"");
    let moved = format!("table = 20000\n{text}");
    for wrong in [&other_user, "rate = 7", "= not TOML", &moved] {
        std::fs::write(&file, &text).unwrap();
        cards.setup();
        std::fs::write(&file, wrong).unwrap();
        let said = cards.tool("teardown", &[]);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_eq!(shell(&cards.kernel, state).out, before, "{wrong}");
    }
    // A changed `table`: what the old one had is replaced.
    std::fs::write(&file, &text).unwrap();
    cards.setup();
    std::fs::write(&file, &moved).unwrap();
    cards.setup();
    assert_eq!(cards.setup(), "");
    let left = shell(&cards.kernel, state).out;
    assert!(!left.contains("1180"), "{left}");
    // Without any file, as when the package is removed.
    let router = vcp_router();
    let line = format!("{} teardown", router.get_program().display());
    let said = shell(&cards.kernel, &line);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(shell(&cards.kernel, state).out, before);
    // Another program's route to an address of the router.
    std::fs::write(&file, &text).unwrap();
    let other = "ip route add 192.0.2.1/32 dev lan0 metric 100";
    assert_eq!(shell(&cards.kernel, other).code, Some(0));
    let said = cards.tool("setup", &[]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.err
            .contains("the route to 192.0.2.1/32 with metric 100"),
        "{said:?}"
    );
    let routes = shell(&cards.kernel, "ip route show 192.0.2.1").out;
    assert!(routes.contains("dev lan0"), "{routes}");
    assert_eq!(cards.tool("teardown", &[]).out, "");
}

/// Set-up that ends at any step is continued by the next one, and teardown removes what it has
/// made. (Only a kill between an interface and its mark leaves an interface without a mark: the
/// next set-up takes it over.)
#[test]
fn setup_that_ends_midway_leaves_nothing_that_is_not_known() {
    let cards = Cards::new();
    cards.configure("", "rate = \"10Mbit\"");
    let state = "ip -o link | cut -d: -f2; ip rule; ip -6 rule; ip -o address | grep vcp- | \
                 grep -v fe80; (ip -4 route show table all; ip -6 route show table all) | \
                 grep -v fe80";
    let now = || shell(&cards.kernel, state).out;
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
        let script = format!(
            "#!/bin/sh\n[ \"$*\" = \"{step}\" ] && exit 1\nexec {} \"$@\"\n",
            real.trim()
        );
        std::fs::write(&broken, script).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&broken, executable).unwrap();
        let said = shell(&cards.kernel, &run);
        assert_eq!(said.code, Some(1), "{step}: {said:?}");
        assert_eq!(said.out.lines().last(), Some(format!("ip {step}").as_str()));
        cards.tool("teardown", &[]);
        assert_eq!(now(), before, "{step}");
        shell(&cards.kernel, &run);
        assert_eq!(cards.tool("setup", &[]).code, Some(0));
        assert_eq!(now(), whole, "{step}");
        cards.tool("teardown", &[]);
        ended += 1;
    }
    assert!(ended > 10, "{ended} of {steps:?}");
}
