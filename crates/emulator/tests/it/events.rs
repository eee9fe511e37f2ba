//! Links that change during a run, and ports with a configured capacity of the link behind them.

use std::ops::ControlFlow;
use std::path::Path;

use pathmark_cc::{Algorithm, Controller, Explicit, Instant};
use pathmark_emulator::Scenario;
use pathmark_emulator::kit::Trial;

use crate::support::{flow, in_the_end, link, run};

fn parse(text: &str) -> Result<Scenario, String> {
    Scenario::parse(Path::new("test.toml"), text).map_err(|error| error.to_string())
}

/// Two flows of `law` over 10 Mbit/s and 60 ms, with these keys of the link.
fn path(law: &str, keys: &str) -> String {
    "duration = \"40s\"\nmeasure = [[\"10s\", \"20s\"], [\"22s\", \"40s\"]]\n".to_owned()
        + &link("l", ["A", "B"], "10Mbit", "30ms", keys)
        + &flow("f", ["A", "B"], law, "count = 2")
}

#[test]
fn flows_go_on_after_a_restart() {
    for (law, port) in [
        ("vcp+bise+wlte", "vcp+bise"),
        ("xcp", "xcp"),
        ("cubic", "none"),
    ] {
        let plain = format!("controller = \"{port}\"");
        let restart = format!("{plain}\nat = [{{ t = \"20s\", restart = \"500ms\" }}]");
        let before = run(&path(law, &plain));
        let after = run(&path(law, &restart));
        assert_eq!(before.links[0].restart_losses, 0);
        // Until then, nothing differs.
        assert_eq!(before.windows[0], after.windows[0], "{law}");
        // Half a second at 10 Mbit/s is 417 packets; senders stop if nothing is returned.
        let lost = after.links[0].restart_losses;
        assert!((10..1000).contains(&lost), "{law}: {lost}");
        // The other direction has no restart.
        assert_eq!(after.links[1].restart_losses, 0);
        let used = after.windows[1].links[0].utilization.unwrap();
        assert!(used > 0.85, "{law}: {used}");
        let json = |result| serde_json::to_string(&result).unwrap();
        assert_eq!(json(after), json(run(&path(law, &restart))));
    }
}

/// A law selected by a change is active again after a restart, and so is a law provided by the
/// caller.
#[test]
fn a_restart_brings_the_law_back() {
    let at = "at = [{ t = \"5s\", controller = \"xcp\" }, { t = \"20s\", restart = true }]";
    let result = run(&path("xcp", &format!("controller = \"vcp+bise\"\n{at}")));
    let used = result.windows[1].links[0].utilization.unwrap();
    assert!(used > 0.9, "{used}");
    assert!(result.windows[1].jain > 0.95, "{}", result.windows[1].jain);
    // At VCP's port, XCP's senders use CUBIC, which causes drops.
    assert_eq!(result.windows[1].links[0].drops, 0);

    let built = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let count = std::sync::Arc::clone(&built);
    let restart = "controller = \"xcp\"\nat = [{ t = \"20s\", restart = true }]";
    let figures = Trial::parse(&path("xcp", restart))
        .unwrap()
        .port("l", move |now: Instant, rate: u64| {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let law: pathmark_cc::LinkAlgorithm = "xcp".parse().unwrap();
            law.controller(now, rate, 1)
        })
        .run()
        .unwrap();
    assert_eq!(built.load(std::sync::atomic::Ordering::Relaxed), 2);
    figures
        .expect()
        .utilization_at_least("l", 0.9)
        .met()
        .unwrap();
}

/// The router runs again when the last of its restarts is over. No packet is forgotten: the lost
/// and the received packets add up to all sent packets.
#[test]
fn restarts_may_overlap() {
    let at = "at = [{ t = \"10s\", restart = \"8s\" }, { t = \"11s\", restart = \"2s\" }]";
    let text = path("cubic", at).replace("algorithm = \"cubic\"", "algorithm = \"udp\"");
    let text = text.replace("count = 2", "rate = \"6Mbit\"\nstop = \"39s\"");
    let result = run(&text);
    let lost = result.links[0].restart_losses;
    let sent = result.flows[0].packets_sent.unwrap();
    // Eight seconds with 500 packets each.
    assert!((3990..=4010).contains(&lost), "{lost}");
    assert_eq!(result.flows[0].bytes_delivered / 1472, sent - lost);
}

/// After a restart, `capacity = "auto"` only counts deliveries since the restart.
#[test]
fn a_restarted_port_follows_from_then_on() {
    let keys = "controller = \"xcp\"\ncapacity = \"auto\"\nat = [{ t = \"20s\", restart = true }]";
    let result = run(&path("xcp", keys));
    let late = &result.windows[1].links[0];
    assert!(late.utilization.unwrap() > 0.9, "{late:?}");
    assert!(late.queue_packets.max < 60.0, "{late:?}");
}

#[test]
fn restarts_that_cannot_be_read() {
    for (given, expected) in [
        ("restart = 3", "true, or how long the restart takes"),
        ("restart = \"soon\"", "soon"),
        ("restrat = true", "restart"),
    ] {
        let text = path("cubic", &format!("at = [{{ t = \"20s\", {given} }}]"));
        let error = parse(&text).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let never = path("cubic", "at = [{ t = \"20s\", restart = false }]");
    assert_eq!(run(&never).links[0].restart_losses, 0);
}

/// `capacity` of a port is the capacity of the slow link behind it. The slow link has no control
/// law.
#[test]
fn a_port_without_a_rate_takes_its_capacity_key() {
    let text = |keys: &str| {
        "duration = \"30s\"\nmeasure = [[\"5s\", \"30s\"]]\n".to_owned()
            + &link("port", ["A", "R"], "", "0s", keys)
            + &link(
                "slow",
                ["R", "B"],
                "10Mbit",
                "30ms",
                "queue = { limit = \"500p\" }",
            )
            + &flow("f", ["A", "B"], "vcp+bise", "count = 2")
    };
    let law = "controller = \"vcp+bise\"";
    let result = run(&text(&format!("{law}\ncapacity = \"9.5Mbit\"")));
    let slow = in_the_end(&result, "slow");
    assert!(slow.utilization.unwrap() > 0.85, "{slow:?}");
    assert!(slow.queue_packets.mean < 20.0, "{slow:?}");
    assert_eq!(slow.drops, 0, "{slow:?}");

    let error = parse(&text(law)).unwrap_err();
    assert!(error.contains("add `rate`, or `capacity`"), "{error}");
    let error = parse(&text(&format!("{law}\ncapacity = \"auto\""))).unwrap_err();
    assert!(error.contains("has no bound"), "{error}");
}

/// A bad state follows 1.9 s of a good one, lasts 100 ms and loses everything: 5 % of a steady
/// stream of packets, in bursts that grow with the rate.
#[test]
fn losses_that_follow_the_clock() {
    let text = |rate: &str| {
        let loss = "loss = { kind = \"gilbert-elliott-time\", good = \"1.9s\", bad = \"100ms\" }";
        let udp = format!("rate = \"{rate}\"\npacket = 125");
        "duration = \"600s\"\n".to_owned()
            + &link("l", ["A", "B"], "2Mbit", "0s", loss)
            + &flow("u", ["A", "B"], "udp", &udp)
    };
    for (rate, packets) in [("10kbit", 6_000.0), ("1Mbit", 600_000.0)] {
        let share = run(&text(rate)).links[0].random_losses as f64 / packets;
        // 300 bad states: a standard error of about 6 % of the share.
        assert!((share - 0.05).abs() < 0.01, "{rate}: {share}");
    }
    let broken = text("1Mbit").replace("100ms", "0s");
    let error = parse(&broken).unwrap_err();
    assert!(error.contains("a state lasts from 1us"), "{error}");
    let missing = text("1Mbit").replace("good = \"1.9s\", ", "");
    assert!(parse(&missing).unwrap_err().contains("good"));
}

/// A registered law can be used by its name, in files and in changes, and gets the signal with
/// which it was registered.
#[test]
fn a_law_of_ones_own_is_named_in_a_scenario() {
    let window = |packets: u64| {
        move |_: Instant, mtu: u16| -> Box<dyn Controller> {
            let law: Algorithm = format!("cubic[iw={packets}]").parse().unwrap();
            law.controller(Instant::ZERO, mtu)
        }
    };
    Algorithm::register("own-cubic", None, window(10)).unwrap();
    let codes = Some(Explicit::Vcp(pathmark_cc::Carrier::Shim));
    Algorithm::register("own-shims", codes, window(10)).unwrap();
    let named = run(&path("own-cubic", ""));
    assert_eq!(named.flows[0].algorithm, "own-cubic");
    let [named, known] = [named, run(&path("cubic", ""))].map(|run| run.flows[0].bytes_delivered);
    assert_eq!(named, known);
    let mut changed = parse(&path("cubic", "controller = \"vcp\"")).unwrap();
    changed.set("flow.f.algorithm", "own-shims").unwrap();
    let result = changed.run(|_| ControlFlow::Continue(())).unwrap();
    assert!(result.links[0].utilization.unwrap() > 0.9);
    let misnamed = parse(&path("own-cubik", "")).unwrap_err();
    assert!(misnamed.contains("did you mean `own-cubic`"), "{misnamed}");
}
