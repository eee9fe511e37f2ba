//! Configurations with every value at its limits: each is either refused in one line, or results
//! in a working router.

use std::sync::atomic::{AtomicU32, Ordering};

use pathmark_cc::{Answer, Arrival, Carried, Duration, Instant, VcpCarried, VcpCode, XcpCarried};
use pathmark_link::{DropCause, Owner};
use proptest::prelude::*;

use super::tests::{GOOD, link, parse};

/// Counts dropped packets.
#[derive(Debug, Default)]
struct Log {
    drops: usize,
}

impl Owner<u32> for Log {
    fn mark(&mut self, _packet: &mut u32, _answer: &Answer) {}

    fn dropped(&mut self, _packet: u32, _cause: DropCause) {
        self.drops += 1;
    }
}

/// One port with only the keys that it must have.
const PORT: &str = "[[port]]\nname = \"a\"\ntun = \"a0\"\n";

/// Quantities at and beyond their limits, and kinds of things, with spaces in between.
const RATES: &str = r#"0 1 "1bit" "8bit" "10Mbit" "1000Gbit" "18446744073709551615bit"
    "18446744Tbit" -1"#;
const TIMES: &str = r#"0 "1ns" "50ms" "1h" "18446744073s" "5000000h" "1ms""#;
const LIMITS: &str = r#""0p" "1p" "100p" "1500B" "0.001bdp" "1bdp" "64KiB"
    "18446744073709551615p" "17179869183GiB""#;
const MTUS: &str = "67 68 1280 1500 65535 65536";
const LAWS: &str = "none vcp vcp+bise xcp xcp[capacity=auto,police=yes]";
const KINDS: &str = "droptail red codel";
const WEIGHTS: &str = "0 1e-300 0.002 1 1.1";
const MEANS: &str = "0 1 1500 4294967295";
const SHARES: &str = r#""0%" "0.0001%" "30%" "100%" "101%""#;
const SIZES: &str = r#"0 "1MiB" "16MiB" "1GiB" 18446744073709551615"#;

/// One of these words, or none.
fn one(of: &'static str) -> impl Strategy<Value = Option<&'static str>> {
    let words: Vec<_> = of.split_whitespace().collect();
    // Mostly absent, so that enough files are valid.
    prop::option::weighted(0.3, prop::sample::select(words))
}

fn key(text: &mut String, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        text.push_str(&format!("{name} = {value}\n"));
    }
}

/// Out-of-range integers, and the wording of their errors.
#[test]
fn errors_of_numbers_name_no_types() {
    let beyond = "18446744073709551616 -1 4294967296 99999999999 1.5 \"1\"".split(' ');
    let outside = "id = N|seed = N|table = N|[icmp]\nrate = N|[[ecn]]\ndscp = N".split('|');
    let inside = "mtu = N|fd = N|frame_overhead = N|queue = { min = N }|rate = N".split('|');
    let said = |text: &str| parse(text).err();
    let mut refused = 0;
    for number in beyond {
        let filled = |key: &str| key.replace('N', number);
        let (outside, inside) = (outside.clone(), inside.clone());
        let outside = outside.map(|key| format!("{}\n{PORT}", filled(key)));
        let inside = inside.map(|key| format!("[[port]]\nname = \"a\"\n{}\n", filled(key)));
        for text in outside.chain(inside) {
            refused += said(&text).map_or(0, |error| plainly(&text, &error));
        }
    }
    // A seed may be large, whereas 4294967296 does not fit a u32.
    assert!(refused > 45, "{refused}");
    let table = said(&format!("table = 18446744073709551616\n{PORT}")).unwrap();
    let end = "integer `18446744073709551616`, expected a whole number from 0 to 4294967295";
    assert!(table.ends_with(end), "{table}");
}

/// Asserts that an error names no integer type of the program.
fn plainly(text: &str, error: &str) -> u32 {
    let inner = |word: &str| {
        let (kind, bits) = word.split_at_checked(1).unwrap_or_default();
        matches!(kind, "i" | "u" | "f") && matches!(bits, "8" | "16" | "32" | "64" | "128" | "size")
    };
    let mut words = error.split(|c: char| !c.is_ascii_alphanumeric());
    assert!(!words.any(inner), "{text}{error}");
    1
}

/// Number of valid files.
static ACCEPTED: AtomicU32 = AtomicU32::new(0);

#[test]
fn a_file_is_refused_or_works() {
    each_is_refused_or_works();
    let accepted = ACCEPTED.load(Ordering::Relaxed);
    assert!((200..1_800).contains(&accepted), "{accepted} of 2000");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    fn each_is_refused_or_works(
        (rate, capacity, later) in (one(RATES), one(RATES), one(RATES)),
        (delay, jitter, rtt, at) in (one(TIMES), one(TIMES), one(TIMES), one(TIMES)),
        (limit, kind, mtu) in (one(LIMITS), one(KINDS), one(MTUS)),
        (weight, mean) in (one(WEIGHTS), one(MEANS)),
        (target, interval) in (one(TIMES), one(TIMES)),
        (law, corruption) in (one(LAWS), one(SHARES)),
        (memory, reserve, overhead) in (
            one(SIZES),
            one(SIZES),
            prop::option::of(prop_oneof![Just(0u32), Just(u32::MAX)]),
        ),
    ) {
        let mut text = String::new();
        key(&mut text, "memory", memory);
        text.push_str(PORT);
        key(&mut text, "rate", rate);
        key(&mut text, "capacity", capacity);
        key(&mut text, "delay", delay);
        key(&mut text, "jitter", jitter);
        key(&mut text, "mtu", mtu);
        key(&mut text, "reserve", reserve);
        key(&mut text, "corruption", corruption);
        key(&mut text, "controller", law.map(|law| format!("\"{law}\"")).as_deref());
        key(&mut text, "frame_overhead", overhead.map(|bytes| bytes.to_string()).as_deref());
        let mut queue = Vec::new();
        queue.extend(limit.map(|limit| format!("limit = {limit}")));
        queue.extend(kind.map(|kind| format!("kind = \"{kind}\"")));
        queue.extend(rtt.map(|rtt| format!("rtt = {rtt}")));
        if kind == Some("red") {
            queue.extend(weight.map(|weight| format!("weight = {weight}")));
            queue.extend(mean.map(|bytes| format!("mean_packet = {bytes}")));
        }
        if kind == Some("codel") {
            queue.extend(target.map(|target| format!("target = {target}")));
            queue.extend(interval.map(|interval| format!("interval = {interval}")));
        }
        text.push_str(&format!("queue = {{ {} }}\n", queue.join(", ")));
        if let (Some(at), Some(later)) = (at, later) {
            text.push_str(&format!("at = [ {{ t = {at}, rate = {later} }} ]\n"));
        }
        let config = match parse(&text) {
            Ok(config) => config,
            Err(error) => {
                prop_assert!(!error.contains('\n'), "{error}");
                return Ok(());
            }
        };
        let port = &config.ports[0];
        prop_assert!(config.reserve(port) <= config.memory.0);
        ACCEPTED.fetch_add(1, Ordering::Relaxed);
        let mut now = Instant::from_millis(1);
        // A configuration that `check` accepts must work in `run`.
        let mut link = link(&config, now);
        // Every packet must be delivered or dropped, however far apart the steps are.
        let mut log = Log::default();
        let (mut sent, mut got) = (0u32, 0usize);
        for step in 0..40u32 {
            let arrival = Arrival {
                bytes: 40 + step * 37,
                flow_hash: step % 3,
                carried: Carried::Foreign,
            };
            link.arrive(now, arrival, step, &mut log);
            sent += 1;
            while link.poll(now, &mut log).is_some() {
                got += 1;
            }
            now += Duration::from_millis(u64::from(step) * 7);
        }
        link.clear(now, &mut log);
        prop_assert_eq!(got + log.drops, sent as usize);
    }
}

/// A client may report any capacity at any time. A law may not fail on it, and must work as
/// before afterwards.
#[test]
fn laws_survive_every_reported_capacity() {
    const CAPACITY: u64 = 10_000_000 / 8;
    let carried = [
        Carried::Foreign,
        Carried::Vcp(VcpCarried {
            code: VcpCode::Low,
            min_rtt: Some(Duration::from_millis(100)),
            bise: true,
            carries_r: true,
        }),
        Carried::Xcp(XcpCarried {
            rtt_us: 100_000,
            x: 1 << 33,
            delta: 1 << 40,
            covers: 1,
            cloud: None,
        }),
    ];
    let laws = LAWS.split(' ').skip(1);
    for law in laws.chain(["xcp-i", "quick-start"]) {
        let keys = format!("capacity = \"10Mbit\"\ncontroller = \"{law}\"\n");
        let config = parse(&format!("id = 1\n{PORT}{keys}")).unwrap();
        let mut now = Instant::from_millis(1);
        let mut link = link(&config, now);
        let (mut log, mut got, mut sent, mut before) = (Log::default(), 0, 0, None);
        let most = u64::MAX / 8;
        for capacity in [CAPACITY, 1, most, 1, CAPACITY, most, CAPACITY] {
            link.port_mut().set_capacity(now, Some(capacity));
            for step in 0..4000 {
                let arrival = Arrival {
                    bytes: 1200,
                    flow_hash: step % 3,
                    carried: carried[step as usize % 3],
                };
                link.arrive(now, arrival, step, &mut log);
                sent += 1;
                while link.poll(now, &mut log).is_some() {
                    got += 1;
                }
                now += Duration::from_millis(5);
            }
            let metrics = link.port().metrics().unwrap();
            if capacity == CAPACITY {
                let (interval, load) = *before.get_or_insert((metrics.interval, metrics.load_ppb));
                assert_eq!(metrics.interval, interval, "{law}");
                assert!(metrics.load_ppb.abs_diff(load) <= load / 10, "{law}");
            }
        }
        assert_eq!(got + log.drops, sent, "{law}");
    }
}

#[test]
fn a_tunnel_has_its_encapsulation() {
    use crate::encapsulation::Encapsulation;
    let tunnel = |key: &str| {
        let text = GOOD.replace("tun = \"vcp0\"", &format!("tun = \"vcp0\"\n{key}"));
        parse(&text).unwrap().ports[0].tunnel
    };
    assert_eq!(tunnel(""), None);
    assert_eq!(tunnel("tunnel = \"ipip\""), Some(Encapsulation::IpInIp));
    assert_eq!(tunnel("tunnel = \"vxlan\""), Some(Encapsulation::Vxlan));
}
