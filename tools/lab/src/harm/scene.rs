//! Makes a scenario's text from a cell.

use std::fmt::Write as _;

use pathmark_link::impair::Random;

use super::axis::{Buffer, Burst, Count, Declared, Lossy, Mix, Percent, Rate, Size, Time};
use super::cell::{Cell, Kind};

/// Prefixes of the names of flows that are not ours.
pub(super) const TCP: &str = "tcp";
pub(super) const GUEST: &str = "guest";
/// Bytes of the smallest and of the largest IP packets in a scenario.
const TINY: u64 = 64;
const LARGE: u64 = 1500;

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
        let mut scene = Scene {
            seconds: self.seconds(),
            roles,
            http: self.coin("app"),
            random: Random::new(seed, &self.to_string()),
            links: String::new(),
            flows: String::new(),
        };
        self.fill(&mut scene);
        format!(
            "name = \"{self}\"\nduration = \"{:.3}s\"\nseed = {seed}\n{}{}",
            scene.seconds, scene.links, scene.flows
        )
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

    fn fill(&self, scene: &mut Scene<'_>) {
        let Self { rate, flows, .. } = *self;
        match self.kind {
            Kind::After | Kind::Before | Kind::Both | Kind::Late | Kind::Forged => {
                self.marked_and_plain(scene);
            }
            Kind::Lot => scene.lot(self, |_| rate),
            Kind::Taper => {
                scene.lot(self, |hop| (0..hop).fold(rate, |rate, _| rate.percent(90)));
            }
            Kind::Rtts | Kind::Sizes => scene.two_distances(rate, self.near, self.far),
            _ => {
                let (name, more) = self.only_link(scene);
                scene.marked(name, "S", "D", rate, &self.rtt.part(2), &more);
            }
        }
        match self.kind {
            Kind::Lot | Kind::Taper => {}
            Kind::Join => {
                let start = format!("start = \"{:.3}s\"", scene.seconds / 2.0);
                scene.ours("ours", "S", "D", flows.ours, "");
                scene.flow(TCP, "S", "D", "cubic", flows.tcp, &start);
            }
            Kind::Rtts => {
                scene.ours("near", "N", "D", flows.ours, "");
                scene.ours("far", "F", "D", flows.ours, "");
                scene.flow("tcp-near", "N", "D", "cubic", flows.tcp, "");
                scene.flow("tcp-far", "F", "D", "cubic", flows.tcp, "");
            }
            Kind::Sizes => {
                scene.ours("near", "N", "D", flows.ours, "packet = 512");
                scene.ours("far", "F", "D", self.large.0, "");
                scene.flow(TCP, "N", "D", "cubic", flows.tcp, "");
            }
            _ => scene.mix("S", "D", flows),
        }
        match self.kind {
            Kind::Mice => scene.mice(self.mice, self.size),
            Kind::Ports => scene.flow(GUEST, "S", "D", scene.roles.guest, self.guests.0, ""),
            Kind::Mixed => {
                for law in [scene.roles.guest, "newreno", "cubiq"] {
                    let name = format!("{GUEST}-{}-", law.split('+').next().unwrap_or(law));
                    scene.flow(&name, "S", "D", law, self.guests.0, "");
                }
            }
            Kind::Tiny => {
                let kbit = rate.kbit * self.share.permille / 1000;
                let more = format!("packet = {TINY}\nrate = \"{kbit}kbit\"\npoisson = true");
                scene.flow(GUEST, "S", "D", "udp", 1, &more);
            }
            _ => {}
        }
    }

    /// Adds a marked and a plain link in the order of the kind.
    fn marked_and_plain(&self, scene: &mut Scene<'_>) {
        let (delay, buffer) = (self.rtt.part(4), self.buffer);
        if self.kind == Kind::Before {
            scene.plain("hidden", "S", "H", self.hidden, &delay, buffer, "");
            scene.marked("marked", "H", "D", self.marked, &delay, "");
            return;
        }
        let more = match self.kind {
            Kind::Both | Kind::Late => scene.lossy(self.per, Burst::Single, Lossy::Through),
            Kind::Forged => format!("corruption = \"{}\"\n", self.per),
            _ => String::new(),
        };
        scene.marked("marked", "S", "H", self.marked, &delay, &more);
        let (rate, more) = if self.kind == Kind::Late {
            let falls = format!("rate = \"{}\"", self.hidden.toml());
            (self.marked, scene.at(&[(0.5, falls)]))
        } else {
            (self.hidden, String::new())
        };
        scene.plain("hidden", "H", "D", rate, &delay, buffer, &more);
    }

    /// Returns the name and further keys of a single marked link.
    fn only_link(&self, scene: &mut Scene<'_>) -> (&'static str, String) {
        let Self { rate, outage, .. } = *self;
        match self.kind {
            Kind::Random => {
                let mut more = scene.lossy(self.per, self.burst, self.lossy);
                if self.declared == Declared::Declared {
                    let _ = writeln!(more, "corruption = \"{}\"", self.per);
                }
                ("radio", more)
            }
            Kind::Join => (
                "radio",
                scene.lossy(self.per, Burst::Single, Lossy::Through),
            ),
            Kind::Cut => ("radio", scene.outages(rate, outage, self.times)),
            Kind::Low | Kind::Short => ("marked", queue(self.buffer)),
            Kind::Trace => ("cell", queue(self.buffer) + &scene.wandering(rate)),
            Kind::Handover => ("satellite", scene.handovers(rate, outage, self.rtt)),
            Kind::Radio => {
                let (queue, steps) = (queue(Buffer::Packets(256)), scene.stepping(rate));
                let more = format!("medium = \"cell\"\nframe_overhead = 38\n{queue}{steps}");
                ("radio", more)
            }
            Kind::Order => ("marked", format!("jitter = \"{}\"\n", self.jitter.part(1))),
            Kind::Reorder => {
                let most = self.jitter.part(1);
                let more = format!("jitter = {{ max = \"{most}\", reorder = true }}\n");
                ("marked", more)
            }
            Kind::Step => {
                let delay = format!("delay = \"{}\"", self.then.part(2));
                ("marked", scene.at(&[(1.0 / 3.0, delay)]))
            }
            _ => ("marked", String::new()),
        }
    }
}

pub(super) fn queue(buffer: Buffer) -> String {
    format!("queue = {{ limit = \"{buffer}\" }}\n")
}

/// A scenario in the making.
pub(super) struct Scene<'a> {
    pub(super) seconds: f64,
    pub(super) roles: Roles<'a>,
    /// True if our flows are downloads over HTTP/3.
    pub(super) http: bool,
    /// Source of values that the cell's name leaves open.
    pub(super) random: Random,
    pub(super) links: String,
    pub(super) flows: String,
}

impl Scene<'_> {
    pub(super) fn link(&mut self, name: &str, from: &str, to: &str, delay: &str, more: &str) {
        let _ = write!(
            self.links,
            "\n[[link]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nduplex = true\n\
             delay = \"{delay}\"\n{more}"
        );
    }

    pub(super) fn marked(
        &mut self,
        name: &str,
        from: &str,
        to: &str,
        rate: Rate,
        delay: &str,
        more: &str,
    ) {
        let port = self.roles.port;
        let more = format!(
            "rate = \"{}\"\ncontroller = \"{port}\"\n{more}",
            rate.toml()
        );
        self.link(name, from, to, delay, &more);
    }

    #[expect(clippy::too_many_arguments, reason = "a link has that many keys")]
    pub(super) fn plain(
        &mut self,
        name: &str,
        from: &str,
        to: &str,
        rate: Rate,
        delay: &str,
        buffer: Buffer,
        more: &str,
    ) {
        let more = format!("rate = \"{}\"\n{}{more}", rate.toml(), queue(buffer));
        self.link(name, from, to, delay, &more);
    }

    pub(super) fn flow(
        &mut self,
        name: &str,
        from: &str,
        to: &str,
        law: &str,
        count: u32,
        more: &str,
    ) {
        if count == 0 {
            return;
        }
        // Flows that begin simultaneously stay synchronized for a long time, with an advantage for
        // the first. Therefore, the seed draws their starts.
        let spread = if more.contains("start") {
            String::new()
        } else {
            let spread = (self.seconds / 30.0).min(1.0);
            format!("start_spread = \"{spread:.3}s\"\n")
        };
        let _ = write!(
            self.flows,
            "\n[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\n\
             algorithm = \"{law}\"\ncount = {count}\n{spread}{more}\n"
        );
    }

    pub(super) fn ours(&mut self, name: &str, from: &str, to: &str, count: u32, more: &str) {
        let law = self.roles.law;
        let app = if self.http { "app = \"http\"\n" } else { "" };
        self.flow(name, from, to, law, count, &format!("{app}{more}"));
    }

    pub(super) fn mix(&mut self, from: &str, to: &str, flows: Mix) {
        self.ours("ours", from, to, flows.ours, "");
        self.flow(TCP, from, to, "cubic", flows.tcp, "");
    }

    /// `at = [ … ]` of changes at shares of the run.
    pub(super) fn at(&self, changes: &[(f64, String)]) -> String {
        let one = |(share, change): &(f64, String)| {
            format!("  {{ t = \"{:.3}s\", {change} }},\n", share * self.seconds)
        };
        let all: String = changes.iter().map(one).collect();
        format!("at = [\n{all}]\n")
    }

    pub(super) fn lossy(&self, per: Percent, burst: Burst, lossy: Lossy) -> String {
        let per = per.share();
        let loss = match burst {
            Burst::Single => format!("{{ kind = \"bernoulli\", per = {per} }}"),
            Burst::Five => format!("{{ kind = \"bursts\", per = {per}, burst = 5 }}"),
        };
        let none = "{ kind = \"none\" }";
        match lossy {
            Lossy::Through => format!("loss = {loss}\n"),
            Lossy::Begins => self.at(&[(1.0 / 3.0, format!("loss = {loss}"))]),
            Lossy::Ends => {
                let at = self.at(&[(2.0 / 3.0, format!("loss = {none}"))]);
                format!("loss = {loss}\n{at}")
            }
        }
    }

    /// This number of outages, evenly spread.
    pub(super) fn outages(&self, rate: Rate, outage: Time, times: Count) -> String {
        let mut changes = Vec::new();
        for number in 1..=times.0 {
            let begin = f64::from(number) / f64::from(times.0 + 1);
            let end = begin + outage.seconds() / self.seconds;
            changes.push((begin, "rate = 0".to_owned()));
            changes.push((end, format!("rate = \"{}\"", rate.toml())));
        }
        self.at(&changes)
    }

    /// A rate that changes every 100 ms by up to a quarter of an octave, between a quarter and
    /// twice this rate, and is zero for 300 ms once in ten seconds on average.
    pub(super) fn wandering(&mut self, rate: Rate) -> String {
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
                let kbit = rate.kbit as f64 * libm::exp2(octaves);
                format!("rate = \"{}kbit\"", kbit.round())
            };
            changes.push((step as f64 / 10.0 / self.seconds, rate));
        }
        self.at(&changes)
    }

    /// Every ten seconds: an outage, then a rate and a delay of up to a half more or less.
    pub(super) fn handovers(&mut self, rate: Rate, outage: Time, rtt: Time) -> String {
        let mut changes = Vec::new();
        let mut now = 10.0;
        while now + outage.seconds() < self.seconds {
            let mut around = || 0.5 + self.random.below(1001) as f64 / 1000.0;
            let (rate, delay) = (rate.kbit as f64 * around(), rtt.seconds() / 2.0 * around());
            changes.push((now / self.seconds, "rate = 0".to_owned()));
            let after = format!(
                "rate = \"{}kbit\", delay = \"{}us\"",
                rate.round(),
                (delay * 1e6).round()
            );
            changes.push(((now + outage.seconds()) / self.seconds, after));
            now += 10.0;
        }
        self.at(&changes)
    }

    /// The whole rate, half, or a quarter, for two seconds each.
    pub(super) fn stepping(&mut self, rate: Rate) -> String {
        let mut changes = Vec::new();
        let mut now = 2.0;
        while now < self.seconds {
            let kbit = rate.kbit >> self.random.below(3);
            changes.push((now / self.seconds, format!("rate = \"{kbit}kbit\"")));
            now += 2.0;
        }
        self.at(&changes)
    }

    /// Links in a row, flows over all of them, and flows across each.
    pub(super) fn lot(&mut self, cell: &Cell, rate: impl Fn(u32) -> Rate) {
        let Cell { hops, cross, .. } = *cell;
        let delay = cell.rtt.part(2 * u64::from(hops.0));
        for hop in 0..hops.0 {
            let (from, to) = (format!("N{hop}"), format!("N{}", hop + 1));
            let name = format!("hop{hop}");
            self.marked(&name, &from, &to, rate(hop), &delay, &queue(cell.buffer));
        }
        self.ours("long", "N0", &format!("N{}", hops.0), cell.long.0, "");
        for hop in 0..hops.0 {
            let (from, to) = (format!("N{hop}"), format!("N{}", hop + 1));
            self.ours(&format!("cross{hop}-"), &from, &to, cross.ours, "");
            let name = format!("{TCP}{hop}-");
            self.flow(&name, &from, &to, "cubic", cross.tcp, "");
        }
    }

    /// Two paths to one marked link.
    pub(super) fn two_distances(&mut self, rate: Rate, near: Time, far: Time) {
        let shared = Time {
            micros: near.micros.min(far.micros) / 2,
        };
        for (name, node, rtt) in [("near", "N", near), ("far", "F", far)] {
            let rest = Time {
                micros: rtt.micros - shared.micros,
            };
            self.link(name, node, "R", &rest.part(2), "");
        }
        self.marked("marked", "R", "D", rate, &shared.part(2), "");
    }

    /// Adds files one after the other, from a sixth of the run to its last tenth.
    pub(super) fn mice(&mut self, mice: Count, size: Size) {
        let (first, last) = (self.seconds / 6.0, self.seconds * 0.9);
        let gap = (last - first) / f64::from(mice.0);
        let starts: Vec<String> = (0..mice.0)
            .map(|mouse| {
                let jitter = self.random.below(1000) as f64 / 1000.0;
                format!("\"{:.3}s\"", first + gap * (f64::from(mouse) + jitter))
            })
            .collect();
        let more = format!(
            "bytes = {}\nstart = [{}]",
            size.kilobytes * 1000,
            starts.join(", ")
        );
        self.ours("mouse", "S", "D", mice.0, &more);
    }
}

/// Packets of 1500 bytes that a run's fastest link may send, so that a run takes about a second.
const MOST_PACKETS: f64 = 500_000.0;

impl Cell {
    /// Returns the maximum duration of a run, which is long enough for slow laws, but still
    /// affordable.
    pub fn seconds(&self) -> f64 {
        let (rate, _) = self.traffic();
        // Distances that the cell does not have are 0.
        let longest = self.rtt.max(self.then).max(self.near).max(self.far);
        let wanted = match self.kind {
            Kind::Cut => 60.0,
            Kind::Handover | Kind::Rtts => 50.0,
            _ => (30.0 + 60.0 * longest.seconds()).min(60.0),
        };
        let affordable = MOST_PACKETS / rate.packets(1.0);
        (wanted.min(affordable) * 10.0).round() / 10.0
    }

    /// Estimates the packets that enter links in a run, including acknowledgements.
    pub fn packets(&self) -> f64 {
        let (rate, links) = self.traffic();
        1.5 * rate.packets(self.seconds()) * f64::from(links)
    }

    /// Returns the highest rate at which packets may be sent, and the approximate number of links
    /// that packets cross.
    fn traffic(&self) -> (Rate, u32) {
        match self.kind {
            Kind::After | Kind::Both | Kind::Late | Kind::Forged => (self.marked, 2),
            Kind::Before => (self.hidden, 2),
            Kind::Rtts | Kind::Sizes => (self.rate, 2),
            // Each hop carries as much as the first.
            Kind::Lot | Kind::Taper => (self.rate.percent(100 * u64::from(self.hops.0)), 1),
            // The rate of the same number of large packets.
            Kind::Tiny => {
                let tiny = self.share.permille * LARGE / TINY / 10;
                (self.rate.percent(100 + tiny), 1)
            }
            _ => (self.rate, 1),
        }
    }
}
