//! Closed ports, other configurations, and faults of the steering.

use super::*;
use crate::setup::closed::closed;
use crate::setup::faults::faults;
use crate::setup::state::{FoundRule, Sight};

/// The rules that drop bypassing packets, in the order of the configuration, so that earlier
/// ones take precedence.
#[test]
fn closed_ports_are_kept_closed_without_rules() {
    let text = CONFIG
        .replace("on_stop = \"open\"\n", "")
        .replace("eth1", "eth*");
    let mut state = fresh();
    state.links = vec![tun("vcp1", 11_800), card("eth3", 7), card("wlan0", 8)];
    let table = closed(&config(&text), &state).unwrap();
    let script = table.replace().to_string();
    for part in [
        "iifname \"eth*\" iifname != { \"vcp0\", \"vcp1\", \"vcp2\", \"lo\" } \
         oifname \"vcp1\" accept",
        "iif 7 oifname \"vcp1\" accept",
        "iif 7 drop",
        "iifname \"br0\" meta mark 7 ip daddr 10.0.0.0/8 oifname \"vcp0\" accept",
        "iifname \"br0\" meta mark 7 ip6 daddr 2001:db8::/32 drop",
    ] {
        assert!(script.contains(part), "{part}: {script}");
    }
    assert!(!script.contains("iif 8"), "{script}");
    // An existing table stays; with another card, it is replaced; without a closed port, it is
    // removed.
    state.closed.insert(11_800, table.comments());
    let nft = |state: &State, text: &str| {
        let mut steps = plan(text, state).unwrap();
        steps.retain(|step| step.starts_with("nft"));
        steps
    };
    assert!(nft(&state, &text).is_empty());
    // A renamed card is still known, also by its rules if the table is gone; but not if the file
    // no longer has what it was selected by.
    state.links[1].name = "other0".to_owned();
    assert!(nft(&state, &text).is_empty());
    let rule = "ip -4 rule add priority 11800 iif other0 lookup 11801 protocol 118";
    state.links.push(card("eth4", 10));
    assert!(plan(&text, &state).unwrap().contains(&rule.to_owned()));
    let script = |state: &State, text: &str| nft(state, text).concat();
    assert!(script(&state, &text).contains("iif 7 drop"));
    let elsewhere = text.replace("eth*", "lan0");
    assert!(!script(&state, &elsewhere).contains("iif 7 "));
    state.links.pop();
    state.links[1].name = "eth3".to_owned();
    state.links[1].index = 9;
    assert_eq!(nft(&state, &text).len(), 1);
    let open = text.replace("tun = \"vcp", "on_stop = \"open\"\ntun = \"vcp");
    let delete = "nft 'delete table inet vcp_router_closed_11800'";
    assert_eq!(nft(&state, &open), [delete]);
    assert_eq!(closed(&config(&open), &state), None);
    assert!(lines(&down(11_800, &state)).contains(&delete.to_owned()));
    // Without nftables, all other steps must still run.
    state.no_nft = Some("cannot run `nft`".to_owned());
    assert!(nft(&state, &text).is_empty());
    let said = plan::warnings(&config(&text), &state).join("\n");
    let part = "cannot run `nft`: closed ports hang on rules";
    assert!(said.contains(part), "{said}");
}

/// Interfaces of another configuration, and those that a program has open.
#[test]
fn a_running_router_keeps_what_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let first = dir.path().join("first.toml");
    std::fs::write(&first, "").unwrap();
    let first = marks::file(&first);
    let mut state = fresh();
    state.links = vec![tun("first0", 11_800)];
    state.links[0].alias = marks::alias(11_800, &first);
    let expected = format!("interface first0 belongs to {first} (`table = 11800`)");
    refused(&state, &expected);
    // Its file is gone while a router runs, and then no router runs.
    std::fs::remove_file(&first).unwrap();
    state.links[0].held = true;
    refused(&state, &expected);
    let forced = Owner {
        force: true,
        ..OWNER
    };
    let deletes = |steps: &[Step]| lines(steps).contains(&"ip link delete dev first0".to_owned());
    assert!(deletes(&up(&config(CONFIG), &forced, &state).unwrap()));
    state.links[0].held = false;
    assert!(deletes(&up(&config(CONFIG), &OWNER, &state).unwrap()));
    // An interface that was removed from this configuration must stay until the running router
    // releases it.
    state.links[0] = tun("old0", 11_800);
    state.links[0].held = true;
    let steps = plan(CONFIG, &state).unwrap();
    assert_eq!(place(&steps, "old0"), None, "{steps:?}");
    let said = plan::warnings(&config(CONFIG), &state).join("\n");
    let part = "old0 stays, for a program has it open";
    assert!(said.contains(part), "{said}");
    // An open interface cannot be recreated for another user.
    state.links[0] = tun("vcp1", 11_800);
    state.links[0].held = true;
    state.links[0].kind = held(1, true);
    let error = plan(CONFIG, &state).unwrap_err();
    assert!(matches!(error, SetupError::Held(name) if name == "vcp1"));
}

/// The kernel removes IPv6 from an interface whose MTU falls below 1280, so nothing of it is
/// left to delete.
#[test]
fn a_small_mtu_takes_ipv6_away_by_itself() {
    let mut state = fresh();
    state.links = vec![tun("vcp1", 11_800)];
    state.links[0].addresses = vec!["fd00:5::1/64".parse().unwrap()];
    state.routes = vec![Route {
        v6: true,
        ..route(11_801, Some("vcp1"), 100)
    }];
    let text = CONFIG.replace("addresses = [\"192", "mtu = 1200\naddresses = [\"192");
    let steps = plan(&text, &state).unwrap();
    let deletes = |step: &String| {
        step.starts_with("ip ") && (step.contains(" delete ") || step.contains(" del "))
    };
    assert!(!steps.iter().any(deletes), "{steps:?}");
    assert!(place(&steps, "dev vcp1 mtu 1200").is_some());
}

fn found(rule: Rule) -> FoundRule {
    FoundRule {
        rule,
        inverted: false,
        narrow: false,
        idle: false,
    }
}

/// A kernel with these cards that has everything `text` requires.
fn in_place(text: &str, cards: &[&str]) -> Sight {
    let wanted = plan::wanted(&config(text), true, cards);
    let names = cards.iter().chain(&["lo", "vcp0", "vcp1", "vcp2"]);
    let up = |name: &&str| Link {
        up: true,
        ..card(name, 0)
    };
    Sight {
        cards: names.map(up).collect(),
        rules: wanted.rules.into_iter().map(found).collect(),
        routes: wanted.routes,
        ipv6: true,
        open: false,
    }
}

#[test]
fn every_loss_is_a_fault_with_a_remedy() {
    let whole = in_place(CONFIG, &["eth1", "br0"]);
    let messages = |sight: &Sight| -> Vec<String> {
        let config = config(CONFIG);
        let faults = faults(&config, sight);
        faults.iter().map(|fault| fault.message(&config)).collect()
    };
    assert!(messages(&whole).is_empty(), "{:?}", messages(&whole));
    let one = |change: &dyn Fn(&mut Sight), expected: &str| {
        let mut sight = whole.clone();
        change(&mut sight);
        let messages = messages(&sight);
        let found = messages.iter().any(|line| line.starts_with(expected));
        assert!(found, "{expected}: {messages:?}");
    };
    let missing =
        "port lan: steering: missing: ip -4 rule add priority 11800 iif eth1 lookup 11801";
    one(&|sight| drop(sight.rules.remove(0)), missing);
    // A rule with additional selectors does not count.
    one(&|sight| sight.rules[0].narrow = true, missing);
    one(&|sight| sight.rules[0].rule.ours = false, missing);
    let backstop =
        "port lan: steering: missing: ip -4 route replace unreachable default table 11801";
    one(
        &|sight| sight.routes.retain(|route| route.device.is_some()),
        backstop,
    );
    let way = "port wan: steering: missing: ip -4 route replace default dev vcp0 table 11800";
    one(
        &|sight| sight.routes.retain(|route| route.device.is_none()),
        way,
    );
    let gone = |name: &'static str| move |sight: &mut Sight| sight.cards.retain(|c| c.name != name);
    let absent = "port lan: steering: there is no interface eth1: correct `from`";
    one(&gone("eth1"), absent);
    let missing = "port wan: steering: there is no interface vcp0: run `vcp-router setup`";
    one(&gone("vcp0"), missing);
    let down = "port wan: steering: interface vcp0 is down";
    one(
        &|sight| sight.cards.iter_mut().for_each(|card| card.up = false),
        down,
    );
    let near = format!("{absent}, or make the interface; did you mean eth0?");
    let other = |sight: &mut Sight| {
        gone("eth1")(sight);
        sight.cards[0].name = "eth0".to_owned();
    };
    one(&other, &near);
}

/// Rules of other programs, such as those of VPNs and operators.
#[test]
fn rules_that_come_first_are_distinguished() {
    let lookup = |priority, table| {
        found(Rule {
            from: None,
            ours: false,
            priority,
            ..rule(table, "")
        })
    };
    let kinds = |change: &dyn Fn(&mut FoundRule), priority, table| -> Vec<FaultKind> {
        let mut sight = in_place(CONFIG, &["eth1", "br0"]);
        let mut rule = lookup(priority, table);
        change(&mut rule);
        sight.rules.push(rule);
        let faults = faults(&config(CONFIG), &sight);
        faults.into_iter().map(|fault| fault.kind).collect()
    };
    use FaultKind::{Exception, Shadow};
    // "from all lookup main suppress_prefixlength 0", and "not from all fwmark 7 lookup 51820".
    assert_eq!(kinds(&|_| (), 100, 254), [Shadow, Shadow]);
    let not_marked = |found: &mut FoundRule| {
        found.inverted = true;
        found.rule.mark = Some(51_820);
    };
    assert_eq!(kinds(&not_marked, 100, 51_820), [Shadow, Shadow]);
    // Later rules, that of the local table, those for locally sent packets, and other cards.
    assert!(kinds(&|_| (), 11_900, 254).is_empty());
    assert!(kinds(&|_| (), 0, 255).is_empty());
    assert!(kinds(&|found| found.idle = true, 100, 9).is_empty());
    let from = |card: &str| kinds(&|found| found.rule.from = Some(card.to_owned()), 100, 9);
    assert!(from("eth2").is_empty());
    assert_eq!(from("eth1"), [Shadow]);
    // Intended exceptions: one source, one destination, another mark.
    let narrow = kinds(&|found| found.narrow = true, 100, 254);
    assert_eq!(narrow, [Exception, Exception]);
    for (to, expected) in [
        ("10.1.0.0/16", &[Exception, Exception][..]),
        ("10.0.0.0/7", &[Shadow, Exception]),
        ("192.0.2.0/24", &[Exception]),
    ] {
        let found = kinds(&|found| found.rule.to = Some(to.parse().unwrap()), 100, 254);
        assert_eq!(found, expected, "{to}");
    }
    let marked = kinds(&|found| found.rule.mark = Some(8), 100, 9);
    assert_eq!(marked, [Exception]);
}

/// `from = "eth*"`: each existing card needs its rule, but not the router's own interfaces.
#[test]
fn a_pattern_is_every_card_that_begins_so() {
    let text = CONFIG.replace("\"eth1\"", "\"eth*\"");
    let mut state = fresh();
    state.links = ["eth1", "eth2", "wlan0"].map(|name| card(name, 0)).to_vec();
    let steps = plan(&text, &state).unwrap();
    let rules = |card: &str| {
        let rule = format!("rule add priority 11800 iif {card} lookup 11801");
        steps.iter().filter(|step| step.contains(&rule)).count()
    };
    assert_eq!([rules("eth1"), rules("eth2"), rules("wlan0")], [2, 2, 0]);
    let own = CONFIG.replace("\"eth1\"", "\"vcp*\"");
    state.links.push(tun("vcp1", 11_800));
    let steps = plan(&own, &state).unwrap();
    assert_eq!(place(&steps, "iif vcp"), None, "{steps:?}");
    // A later card has no rule yet. Without any card, the message must report this.
    let mut sight = in_place(&text, &["eth1", "br0"]);
    sight.cards[0].name = "eth9".to_owned();
    let first = |sight: &Sight| faults(&config(&text), sight)[0].text.clone();
    let fault = first(&sight);
    let part = "rule add priority 11800 iif eth9";
    assert!(fault.contains(part), "{fault}");
    sight.cards[0].name = "wlan0".to_owned();
    let fault = first(&sight);
    let part = "no interface matches `from = \"eth*\"`";
    assert!(fault.starts_with(part), "{fault}");
}
