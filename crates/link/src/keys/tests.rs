//! Links from their keys, and errors for keys that do not fit together.

use std::path::Path;

use pathmark_cc::{LinkAlgorithm, Passive};
use serde::Deserialize;
use toml::Spanned;

use super::check::{LinkCheck, Pace, Reader};
use super::file::{Fault, Source};
use super::link::LinkSpec;
use super::{LinkKeys, WithLink};
use crate::queue::Limit;

/// A table with one additional key.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Own {
    name: Spanned<String>,
}

fn source(text: &str) -> Source<'_> {
    Source {
        path: Path::new("links.toml"),
        text,
    }
}

fn parse(text: &str) -> Result<WithLink<Own>, Fault> {
    toml::from_str(text).map_err(|error| source(text).syntax(&error))
}

/// Checks the keys as `reader` would, with packets of 1500 bytes.
fn check(reader: Reader, keys: &str) -> Result<LinkSpec, String> {
    let text = format!("name = \"l\"\n{keys}\n");
    let table = parse(&text).map_err(|fault| fault.to_string())?;
    let keys = &table.link;
    let check = LinkCheck {
        reader,
        source: &source(&text),
        keys,
        place: table.own.name.span(),
    };
    let checked = check.link(Pace {
        rate: keys.rate.as_ref().map(|rate| *rate.get_ref()),
        capacity: keys.capacity.as_ref().map(|rate| *rate.get_ref()),
        ..Pace::default()
    });
    let checked = checked.and_then(|link| check.queue(&link, 1500, None).map(|()| link));
    checked.map_err(|fault| fault.to_string())
}

const EVERY_KEY: &str = r#"
name = "l"
rate = "10Mbit"
capacity = "8Mbit"
delay = "5ms"
queue = { limit = "100p" }
controller = "xcp"
grant = false
corruption = "5%"
frame_overhead = 18
loss = { kind = "none" }
jitter = "1ms"
at = [ { t = "1s", rate = "1Mbit" } ]
"#;

/// Every key must be read, and values must keep their places.
#[test]
fn every_key_is_read() {
    for name in LinkKeys::NAMES {
        assert!(EVERY_KEY.contains(&format!("\n{name} = ")), "{name}");
    }
    let WithLink { own, link } = parse(EVERY_KEY).unwrap();
    assert_eq!(own.name.get_ref(), "l");
    assert_eq!(
        EVERY_KEY.get(link.rate.as_ref().unwrap().span()),
        Some("\"10Mbit\"")
    );
    assert_eq!(
        EVERY_KEY.get(link.grant.as_ref().unwrap().span()),
        Some("false")
    );
    assert!(link.capacity.is_some() && link.delay.is_some() && link.queue.is_some());
    assert!(link.controller.is_some() && link.corruption.is_some());
    assert!(link.frame_overhead.is_some() && link.loss.is_some() && link.jitter.is_some());
    assert_eq!(link.at.len(), 1);
    for reader in [Reader::Router, Reader::Emulator] {
        let keys = EVERY_KEY.replace("name = \"l\"\n", "");
        let link = check(reader, &keys).unwrap();
        assert!(link.controller.as_ref().is_some_and(|law| !law.grants()));
        assert_eq!(
            (link.corruption.ppm, link.frame_overhead, link.at.len()),
            (50_000, 18, 1)
        );
    }
}

#[test]
fn unknown_keys_suggest_the_nearest_of_both() {
    let error = |text: &str| parse(text).unwrap_err().to_string();
    let rate = error("name = \"l\"\nrte = \"1Mbit\"\n");
    assert_eq!(
        rate,
        "links.toml:2: rte: unknown name `rte`: did you mean `rate`?"
    );
    let name = error("rate = \"1Mbit\"\nnme = \"l\"\n");
    assert_eq!(
        name,
        "links.toml:2: nme: unknown name `nme`: did you mean `name`?"
    );
    let neither = error("colour = 1\n");
    assert!(
        neither.contains("expected one of `name`, `rate`, `capacity`"),
        "{neither}"
    );
    let loss = error("name = \"l\"\nloss = \"1%\"\n");
    assert!(loss.contains("{ kind = \"bernoulli\", per"), "{loss}");
    let missing = error("rate = \"1Mbit\"\n");
    assert!(missing.contains("missing field `name`"), "{missing}");
    let inner = error("name = \"l\"\nqueue = { limt = \"1p\" }\n");
    assert!(
        inner.contains(":2: queue.limt: ") && inner.contains("`limit`"),
        "{inner}"
    );
}

/// Keys, and what the errors of a router and of the emulator contain; empty if the keys are valid.
const MISFITS: &str = r#"
rate = "1bit" => leave it out for an unlimited port => an unlimited link
rate = 10 => 10 what? a rate has a unit =>
controller = "vcp" => :2: controller: a controller measures load against the port's rate => link's
at = [ { t = "1s", controller = "vcp" } ] => add `rate` =>
capacity = "8Mbit" => only a control law reckons with a capacity =>
at = [ { t = "1s", restart = true } ] => only emulated routers restart =>
grant = true => :2: grant: => :2: grant:
corruption = "1%" => add `controller` => add `controller`
queue = { limit = "1bdp" } => also set rtt = "100ms" => needs the link's rate
queue = { limit = "0p" } => a queue needs room => a queue needs room
queue = { limit = "100B" } => one packet of the port's MTU => hold one packet: raise
queue = { min = 3 } => belongs to kind = "red" => belongs to kind = "red"
"#;

#[test]
fn keys_that_do_not_fit_together() {
    for line in MISFITS.lines().filter(|line| !line.is_empty()) {
        let [keys, router, emulator] = *line.split("=>").collect::<Vec<_>>() else {
            panic!("{line}")
        };
        for (reader, part) in [(Reader::Router, router), (Reader::Emulator, emulator)] {
            let part = part.trim();
            match check(reader, keys.trim()) {
                Ok(_) => assert_eq!(part, "", "{reader:?}: {keys}"),
                Err(error) => assert!(
                    !part.is_empty() && error.contains(part),
                    "{reader:?}: {keys}: {error}"
                ),
            }
        }
    }
}

#[test]
fn queues_without_limit_hold_a_bdp() {
    let mut spec = LinkSpec {
        rate: Some("10Mbit".parse().unwrap()),
        ..LinkSpec::default()
    };
    assert_eq!(spec.limit(None), Limit::Bytes(250_000));
    assert_eq!(
        spec.limit(Some(pathmark_cc::Duration::from_millis(400))),
        Limit::Bytes(500_000)
    );
    spec.queue.limit = Some("100p".parse().unwrap());
    assert_eq!(spec.limit(None), Limit::Packets(100));
    spec.queue.limit = Some("0.25bdp".parse().unwrap());
    assert_eq!(spec.limit(None), Limit::Bytes(62_500));
}

#[test]
fn a_law_that_cannot_grant_refuses_to() {
    LinkAlgorithm::register("grants-nothing", 7, |_, _, _| Box::new(Passive)).unwrap();
    let keys = |grant| format!("rate = \"1Mbit\"\ncontroller = \"grants-nothing\"\n{grant}");
    for reader in [Reader::Router, Reader::Emulator] {
        let error = check(reader, &keys("grant = true")).unwrap_err();
        assert!(
            error.contains(":4:") && error.contains("remove the key"),
            "{error}"
        );
        for fine in ["grant = false", ""] {
            let link = check(reader, &keys(fine)).unwrap();
            assert!(link.controller.is_some_and(|law| !law.grants()), "{fine}");
        }
    }
}
