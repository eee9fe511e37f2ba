//! Makes a scenario's text from a cell.
//!
//! The scene of a kind has a line for each entity, with further keys after semicolons:
//!
//! | line | adds |
//! |---|---|
//! | `link NAME FROM TO DELAY` | a link in both directions |
//! | `marked NAME FROM TO RATE DELAY` | a link whose port has a controller |
//! | `plain NAME FROM TO RATE DELAY` | a link of less capacity, with a queue of size `buffer` |
//! | `flow NAME FROM TO LAW COUNT` | flows; `law` is ours, `guest` the other one |
//! | `mix FROM TO` | flows of ours and of TCP as `flows` says |
//! | `lot PERCENT` | links in a row, each of this share of the one before, and flows over them |
//!
//! A `RATE` and a `COUNT` are numbers or names of values. A `DELAY` is a time and a number of equal
//! parts (`rtt/2`). A key is written as in scenarios, with values in angle brackets, or is one of
//! the words of [`Scene::key`].

use std::fmt::Write as _;

use pathmark_link::impair::Random;

use super::axis::{mix, percent};
use super::cell::Cell;

/// Prefixes of the names of flows that are not ours.
pub(super) const TCP: &str = "tcp";
pub(super) const GUEST: &str = "guest";
/// Bytes of the smallest and of the largest IP packets in a scenario.
const TINY: u64 = 64;
const LARGE: u64 = 1500;
/// The scene of kinds without one.
const SCENE: &str = "marked marked S D rate rtt/2\nmix S D";

/// The laws of a cell's flows and ports.
#[derive(Clone, Copy, Debug)]
pub struct Roles<'a> {
    /// The law of our flows.
    pub law: &'a str,
    /// The controller of marked ports.
    pub port: &'a str,
    /// The law of flows for which such a port runs another law.
    pub guest: &'a str,
}

impl Cell {
    /// Returns the cell as a scenario file.
    pub fn scenario(&self, seed: u64, roles: Roles<'_>) -> String {
        let seconds = self.seconds();
        let mut scene = Scene {
            cell: self,
            seconds,
            roles,
            http: self.coin("app"),
            random: Random::new(seed, &self.to_string()),
            text: format!("name = \"{self}\"\nduration = \"{seconds:.3}s\"\nseed = {seed}\n"),
        };
        for line in self.kind.scene.as_deref().unwrap_or(SCENE).lines() {
            scene.line(line);
        }
        scene.text
    }

    /// True for half of all cells: another half for each question, but the same for every seed.
    fn coin(&self, question: &str) -> bool {
        Random::new(0, &format!("{self} {question}")).below(2) == 1
    }

    /// Returns the law of marked ports for a law that follows any router: VCP's in half of the
    /// cells, otherwise XCP's.
    pub fn port_for_any(&self) -> &'static str {
        if self.coin("port") { "vcp+bise" } else { "xcp" }
    }

    /// Returns a number as it is written, that of a value, or that of our flows or TCP flows of the
    /// cell's mix.
    fn amount(&self, amount: &str) -> u64 {
        let [ours, tcp] = mix(self.text("flows")).unwrap_or_default();
        match amount {
            "ours" => u64::from(ours),
            "tcp" => u64::from(tcp),
            _ => amount.parse().unwrap_or_else(|_| self.number(amount)),
        }
    }

    /// Returns a time in microseconds. Of two distances, the shared part is half of the shorter
    /// one.
    fn micros(&self, time: &str) -> u64 {
        match time.split_once('-') {
            Some((time, shared)) => self.micros(time) - self.micros(shared),
            None if time == "shared" => self.number("near").min(self.number("far")) / 2,
            None => self.number(time),
        }
    }

    fn seconds_of(&self, time: &str) -> f64 {
        self.micros(time) as f64 / 1e6
    }

    /// Returns a part of a time as in scenarios.
    fn part(&self, time: &str) -> String {
        let (time, parts) = time.split_once('/').unwrap_or((time, "1"));
        let parts: u64 = parts.parse().unwrap_or(1);
        format!("{}ns", self.micros(time) * 1000 / parts.max(1))
    }
}

/// A scenario in the making.
struct Scene<'a> {
    cell: &'a Cell,
    seconds: f64,
    roles: Roles<'a>,
    /// True if our flows are downloads over HTTP/3.
    http: bool,
    /// Source of values that the cell's name leaves open.
    random: Random,
    text: String,
}

impl Scene<'_> {
    fn line(&mut self, line: &str) {
        let mut parts = line.split("; ");
        let words: Vec<&str> = parts.next().unwrap_or_default().split(' ').collect();
        let keys = parts.map(|key| self.key(key)).collect::<Vec<_>>();
        match words[..] {
            ["link", name, from, to, delay] => self.link(name, from, to, delay, &keys),
            ["marked", name, from, to, rate, delay] => {
                let port = format!("controller = \"{}\"", self.roles.port);
                let own = [kbit(self.cell.amount(rate)), port];
                self.link(name, from, to, delay, &[&own[..], &keys].concat());
            }
            ["plain", name, from, to, rate, delay] => {
                let own = [kbit(self.cell.amount(rate)), self.key("queue")];
                self.link(name, from, to, delay, &[&own[..], &keys].concat());
            }
            ["flow", name, from, to, law, count] => match self.cell.amount(count) {
                0 => {}
                count => self.flow(&self.filled(name), from, to, law, count, &keys.join("\n")),
            },
            ["mix", from, to] => {
                self.line(&format!("flow ours {from} {to} law ours"));
                self.line(&format!("flow {TCP} {from} {to} cubic tcp"));
            }
            ["lot", share] => self.lot(share.parse().unwrap_or(100)),
            _ => {}
        }
    }

    /// Returns a key with its value, or several lines of these.
    fn key(&mut self, key: &str) -> String {
        let rate = self.cell.number("rate");
        let outage = self.cell.seconds_of("outage");
        match key.split_once(' ').unwrap_or((key, "")) {
            ("at", change) => {
                let (share, change) = change.split_once(' ').unwrap_or_default();
                let (part, whole) = share.split_once('/').unwrap_or_default();
                let number = |text: &str| text.parse().unwrap_or(1.0);
                self.at(&[(number(part) / number(whole), self.filled(change))])
            }
            ("declared", _) if self.cell.text("declared") != "declared" => String::new(),
            ("declared", _) => self.filled("corruption = \"<per>\""),
            ("files", _) => self.files(),
            ("halfway", _) => format!("start = \"{:.3}s\"", self.seconds / 2.0),
            ("handovers", _) => self.handovers(rate, outage),
            ("loss", _) => self.loss(),
            ("outages", _) => self.outages(rate, outage),
            ("queue", "") => self.filled("queue = { limit = \"<buffer>\" }"),
            ("queue", limit) => format!("queue = {{ limit = \"{limit}\" }}"),
            ("stepping", _) => self.stepping(rate),
            ("tiny", _) => {
                let kbit = kbit(rate * self.cell.number("share") / 1000);
                format!("packet = {TINY}\n{kbit}\npoisson = true")
            }
            ("wandering", _) => self.wandering(rate),
            _ => self.filled(key),
        }
    }

    /// Replaces values in angle brackets.
    fn filled(&self, text: &str) -> String {
        let mut parts = text.split(['<', '>']);
        let mut filled = parts.next().unwrap_or_default().to_owned();
        while let (Some(value), Some(rest)) = (parts.next(), parts.next()) {
            filled += &match value {
                "hidden" => format!("{}kbit", self.cell.number(value)),
                "guest" => self
                    .roles
                    .guest
                    .split('+')
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
                _ if value.contains('/') => self.cell.part(value),
                _ => self.cell.text(value).to_owned(),
            };
            filled += rest;
        }
        filled
    }

    fn link(&mut self, name: &str, from: &str, to: &str, delay: &str, keys: &[String]) {
        let delay = self.cell.part(delay);
        let _ = write!(
            self.text,
            "\n[[link]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nduplex = true\n\
             delay = \"{delay}\"\n"
        );
        for key in keys.iter().filter(|key| !key.is_empty()) {
            let _ = writeln!(self.text, "{key}");
        }
    }

    fn flow(&mut self, name: &str, from: &str, to: &str, law: &str, count: u64, more: &str) {
        let (law, app) = match law {
            "law" if self.http => (self.roles.law, "app = \"http\"\n"),
            "law" => (self.roles.law, ""),
            "guest" => (self.roles.guest, ""),
            _ => (law, ""),
        };
        // Flows that begin simultaneously stay synchronized for a long time, with an advantage for
        // the first. Therefore, the seed draws their starts.
        let spread = if more.contains("start") {
            String::new()
        } else {
            let spread = (self.seconds / 30.0).min(1.0);
            format!("start_spread = \"{spread:.3}s\"\n")
        };
        let _ = write!(
            self.text,
            "\n[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\n\
             algorithm = \"{law}\"\ncount = {count}\n{spread}{app}{more}\n"
        );
    }

    /// `at = [ … ]` of changes at shares of the run.
    fn at(&self, changes: &[(f64, String)]) -> String {
        let one = |(share, change): &(f64, String)| {
            format!("  {{ t = \"{:.3}s\", {change} }},\n", share * self.seconds)
        };
        let all: String = changes.iter().map(one).collect();
        format!("at = [\n{all}]")
    }

    /// Random loss, by default of single packets and during the whole run. It can also begin with
    /// the second third, or end with it.
    fn loss(&self) -> String {
        let per = self.cell.number("per") as f64 / 1000.0;
        let loss = match self.cell.text("burst") {
            "burst5" => format!("loss = {{ kind = \"bursts\", per = {per}, burst = 5 }}"),
            _ => format!("loss = {{ kind = \"bernoulli\", per = {per} }}"),
        };
        match self.cell.text("lossy") {
            "begins" => self.at(&[(1.0 / 3.0, loss)]),
            "ends" => {
                let at = self.at(&[(2.0 / 3.0, "loss = { kind = \"none\" }".to_owned())]);
                format!("{loss}\n{at}")
            }
            _ => loss,
        }
    }

    /// This number of outages, evenly spread.
    fn outages(&self, rate: u64, outage: f64) -> String {
        let mut changes = Vec::new();
        let times = self.cell.number("times");
        for number in 1..=times {
            let begin = number as f64 / (times + 1) as f64;
            changes.push((begin, "rate = 0".to_owned()));
            changes.push((begin + outage / self.seconds, kbit(rate)));
        }
        self.at(&changes)
    }

    /// A rate that changes every 100 ms by up to a quarter of an octave, between a quarter and
    /// twice this rate, and is zero for 300 ms once in ten seconds on average.
    fn wandering(&mut self, rate: u64) -> String {
        let mut changes = Vec::new();
        let (mut octaves, mut quiet) = (0.0_f64, 0);
        for step in 1..(self.seconds * 10.0) as u64 {
            octaves += (self.random.below(1001) as f64 - 500.0) / 2000.0;
            octaves = octaves.clamp(-2.0, 1.0);
            if quiet == 0 && self.random.below(100) == 0 {
                quiet = 3;
            }
            let rate = if quiet > 0 {
                quiet -= 1;
                "rate = 0".to_owned()
            } else {
                kbit((rate as f64 * libm::exp2(octaves)).round())
            };
            changes.push((step as f64 / 10.0 / self.seconds, rate));
        }
        self.at(&changes)
    }

    /// Every ten seconds: an outage, then a rate and a delay of up to a half more or less.
    fn handovers(&mut self, rate: u64, outage: f64) -> String {
        let one_way = self.cell.seconds_of("rtt") / 2.0;
        let mut changes = Vec::new();
        let mut now = 10.0;
        while now + outage < self.seconds {
            let mut around = || 0.5 + self.random.below(1001) as f64 / 1000.0;
            let (rate, delay) = (rate as f64 * around(), one_way * around());
            let delay = (delay * 1e6).round();
            let after = format!("{}, delay = \"{delay}us\"", kbit(rate.round()));
            changes.push((now / self.seconds, "rate = 0".to_owned()));
            changes.push(((now + outage) / self.seconds, after));
            now += 10.0;
        }
        self.at(&changes)
    }

    /// The whole rate, half, or a quarter, for two seconds each.
    fn stepping(&mut self, rate: u64) -> String {
        let mut changes = Vec::new();
        let mut now = 2.0;
        while now < self.seconds {
            changes.push((now / self.seconds, kbit(rate >> self.random.below(3))));
            now += 2.0;
        }
        self.at(&changes)
    }

    /// Links in a row, each of this share of the one before in percent, flows over all of them,
    /// and flows across each.
    fn lot(&mut self, share: u64) {
        let (hops, mut rate) = (self.cell.number("hops"), self.cell.number("rate"));
        let [ours, tcp] = mix(self.cell.text("cross")).unwrap_or_default();
        for hop in 0..hops {
            let (next, parts) = (hop + 1, 2 * hops);
            self.line(&format!(
                "marked hop{hop} N{hop} N{next} {rate} rtt/{parts}; queue"
            ));
            rate = percent(rate, share);
        }
        self.line(&format!("flow long N0 N{hops} law long"));
        for hop in 0..hops {
            let next = hop + 1;
            self.line(&format!("flow cross{hop}- N{hop} N{next} law {ours}"));
            self.line(&format!("flow {TCP}{hop}- N{hop} N{next} cubic {tcp}"));
        }
    }

    /// Files one after the other, from a sixth of the run to its last tenth.
    fn files(&mut self) -> String {
        let mice = self.cell.number("mice");
        let (first, last) = (self.seconds / 6.0, self.seconds * 0.9);
        let gap = (last - first) / mice as f64;
        let starts: Vec<String> = (0..mice)
            .map(|mouse| {
                let jitter = self.random.below(1000) as f64 / 1000.0;
                format!("\"{:.3}s\"", first + gap * (mouse as f64 + jitter))
            })
            .collect();
        let bytes = self.cell.number("size") * 1000;
        format!("bytes = {bytes}\nstart = [{}]", starts.join(", "))
    }
}

/// A rate in kbit/s as in scenarios.
fn kbit(rate: impl std::fmt::Display) -> String {
    format!("rate = \"{rate}kbit\"")
}

/// Packets of 1500 bytes that a run's fastest link may send, so that a run takes about a second.
const MOST_PACKETS: f64 = 500_000.0;

impl Cell {
    /// Returns the maximum duration of a run, which is long enough for slow laws, but still
    /// affordable.
    pub fn seconds(&self) -> f64 {
        // Distances that the cell does not have are 0.
        let longest = ["rtt", "then", "near", "far"].map(|time| self.seconds_of(time));
        let longest = longest.into_iter().fold(0.0, f64::max);
        let wanted = match self.kind.seconds {
            Some(seconds) => f64::from(seconds),
            None => (30.0 + 60.0 * longest).min(60.0),
        };
        let affordable = MOST_PACKETS / self.large_packets(1.0);
        (wanted.min(affordable) * 10.0).round() / 10.0
    }

    /// Estimates the packets that enter links in a run, including acknowledgements.
    pub fn packets(&self) -> f64 {
        let links = self.kind.links.unwrap_or(1);
        1.5 * self.large_packets(self.seconds()) * f64::from(links)
    }

    /// Returns the packets of 1500 bytes that may be sent in `seconds`.
    fn large_packets(&self, seconds: f64) -> f64 {
        let rate = self.number(self.kind.fastest.as_deref().unwrap_or("rate"));
        // Each hop carries as much as the first. Tiny packets are as many as large ones at the
        // same rate.
        let tiny = self.number("share") * LARGE / TINY / 10;
        let rate = percent(rate, 100 * self.number("hops").max(1) + tiny);
        rate as f64 * 1000.0 / 12_000.0 * seconds
    }
}
