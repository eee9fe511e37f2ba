//! From a cell to the text of a scenario.

use std::fmt::Write as _;

use pathmark_router::core::impair::Random;

use super::axis::{Buffer, Burst, Count, Lossy, Mix, Percent, Rate, Size, Time, Told};
use super::cell::Cell;

/// Packets of 1500 bytes that a run's fastest link may send: what keeps a run about a second long.
const MOST_PACKETS: f64 = 500_000.0;
/// Names of flows begin with these where they are not ours.
pub(super) const TCP: &str = "tcp";
pub(super) const GUEST: &str = "guest";
/// Bytes of the smallest IP packets that a scenario sends, and of the largest.
const TINY: u64 = 64;
const LARGE: u64 = 1500;

/// Who runs what in a cell.
#[derive(Clone, Copy, Debug)]
pub struct Roles<'a> {
    /// The law of our flows.
    pub law: &'a str,
    /// The controller of marked ports.
    pub port: &'a str,
    /// The law of flows that are guests at such a port.
    pub guest: &'a str,
}

impl Cell {
    /// The cell as a scenario file.
    #[must_use]
    pub fn scenario(&self, seed: u64, roles: Roles<'_>) -> String {
        let mut scene = Scene {
            seconds: self.seconds(),
            roles,
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

    /// How long it runs at most: long enough for laws that take their time, short enough to be
    /// affordable.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        let (rate, _) = self.size();
        let rtt = self.longest_rtt().seconds();
        let wanted = match self {
            Self::Cut { .. } => 60.0,
            Self::Handover { .. } | Self::Rtts { .. } => 50.0,
            _ => (30.0 + 60.0 * rtt).min(60.0),
        };
        let affordable = MOST_PACKETS / rate.packets(1.0);
        (wanted.min(affordable) * 10.0).round() / 10.0
    }

    /// Packets that enter links in a run, about, acknowledgements among them.
    #[must_use]
    pub fn packets(&self) -> f64 {
        let (rate, links) = self.size();
        1.5 * rate.packets(self.seconds()) * f64::from(links)
    }

    /// The fastest rate that packets may be sent at, and the number of links that packets cross,
    /// about.
    fn size(&self) -> (Rate, u32) {
        match *self {
            Self::After { marked, .. }
            | Self::Both { marked, .. }
            | Self::Late { marked, .. }
            | Self::Forged { marked, .. } => (marked, 2),
            Self::Before { hidden, .. } => (hidden, 2),
            Self::Random { rate, .. }
            | Self::Join { rate, .. }
            | Self::Cut { rate, .. }
            | Self::Low { rate, .. }
            | Self::Trace { rate, .. }
            | Self::Handover { rate, .. }
            | Self::Radio { rate, .. }
            | Self::Order { rate, .. }
            | Self::Reorder { rate, .. }
            | Self::Short { rate, .. }
            | Self::Step { rate, .. }
            | Self::Many { rate, .. }
            | Self::Mice { rate, .. }
            | Self::Ports { rate, .. }
            | Self::Mixed { rate, .. } => (rate, 1),
            Self::Tiny { rate, share, .. } => {
                // As many packets as large ones would be at this rate.
                let tiny = u64::from(share.permille) * LARGE / TINY / 10;
                (rate.percent(100 + tiny), 1)
            }
            Self::Lot { rate, hops, .. } | Self::Taper { rate, hops, .. } => {
                // Each hop carries as much as the first.
                let all = rate.percent(100 * u64::from(hops.0));
                (all, 1)
            }
            Self::Rtts { rate, .. } | Self::Sizes { rate, .. } => (rate, 2),
        }
    }

    fn longest_rtt(&self) -> Time {
        match *self {
            Self::After { rtt, .. }
            | Self::Before { rtt, .. }
            | Self::Random { rtt, .. }
            | Self::Both { rtt, .. }
            | Self::Late { rtt, .. }
            | Self::Forged { rtt, .. }
            | Self::Join { rtt, .. }
            | Self::Cut { rtt, .. }
            | Self::Low { rtt, .. }
            | Self::Trace { rtt, .. }
            | Self::Handover { rtt, .. }
            | Self::Radio { rtt, .. }
            | Self::Lot { rtt, .. }
            | Self::Taper { rtt, .. }
            | Self::Order { rtt, .. }
            | Self::Reorder { rtt, .. }
            | Self::Short { rtt, .. }
            | Self::Many { rtt, .. }
            | Self::Mice { rtt, .. }
            | Self::Ports { rtt, .. }
            | Self::Mixed { rtt, .. }
            | Self::Tiny { rtt, .. } => rtt,
            Self::Step { rtt, then, .. } => rtt.max(then),
            Self::Rtts { near, far, .. } | Self::Sizes { near, far, .. } => near.max(far),
        }
    }

    fn fill(&self, scene: &mut Scene<'_>) {
        match *self {
            Self::After {
                marked,
                hidden,
                buffer,
                flows,
                rtt,
            } => scene.after(marked, hidden, buffer, flows, rtt),
            Self::Before {
                marked,
                hidden,
                buffer,
                flows,
                rtt,
            } => {
                scene.plain("hidden", "S", "H", hidden, &rtt.part(4), buffer, "");
                scene.marked("marked", "H", "D", marked, &rtt.part(4), "");
                scene.mix("S", "D", flows);
            }
            Self::Random {
                rate,
                per,
                burst,
                lossy,
                told,
                flows,
                rtt,
            } => {
                let mut more = scene.lossy(per, burst, lossy);
                if told == Told::Declared {
                    let _ = writeln!(more, "corruption = \"{per}\"");
                }
                scene.marked("radio", "S", "D", rate, &rtt.part(2), &more);
                scene.mix("S", "D", flows);
            }
            Self::Both {
                marked,
                hidden,
                buffer,
                per,
                flows,
                rtt,
            } => {
                let more = scene.lossy(per, Burst::Single, Lossy::Through);
                scene.marked("marked", "S", "H", marked, &rtt.part(4), &more);
                scene.plain("hidden", "H", "D", hidden, &rtt.part(4), buffer, "");
                scene.mix("S", "D", flows);
            }
            Self::Late {
                marked,
                hidden,
                buffer,
                per,
                flows,
                rtt,
            } => {
                let more = scene.lossy(per, Burst::Single, Lossy::Through);
                let at = scene.at(&[(0.5, format!("rate = \"{}\"", hidden.toml()))]);
                scene.marked("marked", "S", "H", marked, &rtt.part(4), &more);
                scene.plain("hidden", "H", "D", marked, &rtt.part(4), buffer, &at);
                scene.mix("S", "D", flows);
            }
            Self::Join {
                rate,
                per,
                flows,
                rtt,
            } => {
                let more = scene.lossy(per, Burst::Single, Lossy::Through);
                scene.marked("radio", "S", "D", rate, &rtt.part(2), &more);
                let start = format!("start = \"{:.3}s\"", scene.seconds / 2.0);
                scene.ours("ours", "S", "D", flows.ours, "");
                scene.flow(TCP, "S", "D", "cubic", flows.tcp, &start);
            }
            Self::Forged {
                marked,
                hidden,
                buffer,
                per,
                flows,
                rtt,
            } => {
                let more = format!("corruption = \"{per}\"\n");
                scene.marked("marked", "S", "H", marked, &rtt.part(4), &more);
                scene.plain("hidden", "H", "D", hidden, &rtt.part(4), buffer, "");
                scene.mix("S", "D", flows);
            }
            Self::Cut {
                rate,
                outage,
                times,
                flows,
                rtt,
            } => {
                let at = scene.outages(rate, outage, times);
                scene.marked("radio", "S", "D", rate, &rtt.part(2), &at);
                scene.mix("S", "D", flows);
            }
            Self::Low {
                rate,
                buffer,
                flows,
                rtt,
            }
            | Self::Short {
                rate,
                buffer,
                flows,
                rtt,
            } => {
                let queue = queue(buffer);
                scene.marked("marked", "S", "D", rate, &rtt.part(2), &queue);
                scene.mix("S", "D", flows);
            }
            Self::Trace {
                rate,
                buffer,
                flows,
                rtt,
            } => {
                let more = queue(buffer) + &scene.wandering(rate);
                scene.marked("cell", "S", "D", rate, &rtt.part(2), &more);
                scene.mix("S", "D", flows);
            }
            Self::Handover {
                rate,
                outage,
                flows,
                rtt,
            } => {
                let at = scene.handovers(rate, outage, rtt);
                scene.marked("satellite", "S", "D", rate, &rtt.part(2), &at);
                scene.mix("S", "D", flows);
            }
            Self::Radio { rate, flows, rtt } => {
                let more = format!(
                    "medium = \"cell\"\nframe_overhead = 38\n{}{}",
                    queue(Buffer::Packets(256)),
                    scene.stepping(rate)
                );
                scene.marked("radio", "S", "D", rate, &rtt.part(2), &more);
                scene.mix("S", "D", flows);
            }
            Self::Lot {
                rate,
                hops,
                long,
                cross,
                buffer,
                rtt,
            } => scene.lot(|_| rate, hops, long, cross, buffer, rtt),
            Self::Taper {
                rate,
                hops,
                long,
                cross,
                buffer,
                rtt,
            } => {
                let slower = |hop: u32| (0..hop).fold(rate, |rate, _| rate.percent(90));
                scene.lot(slower, hops, long, cross, buffer, rtt);
            }
            Self::Order {
                rate,
                jitter,
                flows,
                rtt,
            } => {
                let more = format!("jitter = \"{}\"\n", jitter.part(1));
                scene.marked("marked", "S", "D", rate, &rtt.part(2), &more);
                scene.mix("S", "D", flows);
            }
            Self::Reorder {
                rate,
                jitter,
                flows,
                rtt,
            } => {
                let more = format!(
                    "jitter = {{ max = \"{}\", reorder = true }}\n",
                    jitter.part(1)
                );
                scene.marked("marked", "S", "D", rate, &rtt.part(2), &more);
                scene.mix("S", "D", flows);
            }
            Self::Step {
                rate,
                flows,
                rtt,
                then,
            } => {
                let at = scene.at(&[(1.0 / 3.0, format!("delay = \"{}\"", then.part(2)))]);
                scene.marked("marked", "S", "D", rate, &rtt.part(2), &at);
                scene.mix("S", "D", flows);
            }
            Self::Many { rate, flows, rtt } => {
                scene.marked("marked", "S", "D", rate, &rtt.part(2), "");
                scene.mix("S", "D", flows);
            }
            Self::Mice {
                rate,
                flows,
                mice,
                size,
                rtt,
            } => {
                scene.marked("marked", "S", "D", rate, &rtt.part(2), "");
                scene.mix("S", "D", flows);
                scene.mice(mice, size);
            }
            Self::Rtts {
                rate,
                flows,
                near,
                far,
            } => {
                scene.two_distances(rate, near, far);
                scene.ours("near", "N", "D", flows.ours, "");
                scene.ours("far", "F", "D", flows.ours, "");
                scene.flow("tcp-near", "N", "D", "cubic", flows.tcp, "");
                scene.flow("tcp-far", "F", "D", "cubic", flows.tcp, "");
            }
            Self::Sizes {
                rate,
                flows,
                large,
                near,
                far,
            } => {
                scene.two_distances(rate, near, far);
                scene.ours("near", "N", "D", flows.ours, "packet = 512");
                scene.ours("far", "F", "D", large.0, "");
                scene.flow(TCP, "N", "D", "cubic", flows.tcp, "");
            }
            Self::Ports {
                rate,
                flows,
                guests,
                rtt,
            } => {
                scene.marked("marked", "S", "D", rate, &rtt.part(2), "");
                scene.mix("S", "D", flows);
                let law = scene.roles.guest;
                scene.flow(GUEST, "S", "D", law, guests.0, "");
            }
            Self::Mixed {
                rate,
                flows,
                guests,
                rtt,
            } => {
                scene.marked("marked", "S", "D", rate, &rtt.part(2), "");
                scene.mix("S", "D", flows);
                for law in [scene.roles.guest, "newreno", "cubiq"] {
                    let name = format!("{GUEST}-{}-", law.split('+').next().unwrap_or(law));
                    scene.flow(&name, "S", "D", law, guests.0, "");
                }
            }
            Self::Tiny {
                rate,
                flows,
                share,
                rtt,
            } => {
                scene.marked("marked", "S", "D", rate, &rtt.part(2), "");
                scene.mix("S", "D", flows);
                let kbit = rate.kbit * u64::from(share.permille) / 1000;
                let more = format!("packet = {TINY}\nrate = \"{kbit}kbit\"\npoisson = true");
                scene.flow(GUEST, "S", "D", "udp", 1, &more);
            }
        }
    }
}

fn queue(buffer: Buffer) -> String {
    format!("queue = {{ limit = \"{buffer}\" }}\n")
}

/// A scenario in the making.
struct Scene<'a> {
    seconds: f64,
    roles: Roles<'a>,
    /// For what the cell's name leaves open.
    random: Random,
    links: String,
    flows: String,
}

impl Scene<'_> {
    fn link(&mut self, name: &str, from: &str, to: &str, delay: &str, more: &str) {
        let _ = write!(
            self.links,
            "\n[[link]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nduplex = true\ndelay = \"{delay}\"\n{more}"
        );
    }

    fn marked(&mut self, name: &str, from: &str, to: &str, rate: Rate, delay: &str, more: &str) {
        let port = self.roles.port;
        let more = format!(
            "rate = \"{}\"\ncontroller = \"{port}\"\n{more}",
            rate.toml()
        );
        self.link(name, from, to, delay, &more);
    }

    #[expect(clippy::too_many_arguments, reason = "a link has that many keys")]
    fn plain(
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

    fn after(&mut self, marked: Rate, hidden: Rate, buffer: Buffer, flows: Mix, rtt: Time) {
        self.marked("marked", "S", "H", marked, &rtt.part(4), "");
        self.plain("hidden", "H", "D", hidden, &rtt.part(4), buffer, "");
        self.mix("S", "D", flows);
    }

    fn flow(&mut self, name: &str, from: &str, to: &str, law: &str, count: u32, more: &str) {
        if count == 0 {
            return;
        }
        // Flows that begin at one moment stay in step for long, and who comes first has an
        // advantage: let the seed say.
        let spread = if more.contains("start") {
            String::new()
        } else {
            let spread = (self.seconds / 30.0).min(1.0);
            format!("start_spread = \"{spread:.3}s\"\n")
        };
        let _ = write!(
            self.flows,
            "\n[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nalgorithm = \"{law}\"\ncount = {count}\n{spread}{more}\n"
        );
    }

    fn ours(&mut self, name: &str, from: &str, to: &str, count: u32, more: &str) {
        let law = self.roles.law;
        self.flow(name, from, to, law, count, more);
    }

    fn mix(&mut self, from: &str, to: &str, flows: Mix) {
        self.ours("ours", from, to, flows.ours, "");
        self.flow(TCP, from, to, "cubic", flows.tcp, "");
    }

    /// `at = [ … ]` of changes at shares of the run.
    fn at(&self, changes: &[(f64, String)]) -> String {
        let one = |(share, change): &(f64, String)| {
            format!("  {{ t = \"{:.3}s\", {change} }},\n", share * self.seconds)
        };
        let all: String = changes.iter().map(one).collect();
        format!("at = [\n{all}]\n")
    }

    fn lossy(&self, per: Percent, burst: Burst, lossy: Lossy) -> String {
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

    /// Out so often, evenly spread.
    fn outages(&self, rate: Rate, outage: Time, times: Count) -> String {
        let mut changes = Vec::new();
        for number in 1..=times.0 {
            let begin = f64::from(number) / f64::from(times.0 + 1);
            let end = begin + outage.seconds() / self.seconds;
            changes.push((begin, "rate = 0".to_owned()));
            changes.push((end, format!("rate = \"{}\"", rate.toml())));
        }
        self.at(&changes)
    }

    /// A rate that moves every 100 ms, by up to a quarter of an octave, between a quarter of this
    /// rate and twice it, and stands still for 300 ms once in ten seconds, in the mean.
    fn wandering(&mut self, rate: Rate) -> String {
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

    /// Every ten seconds: out, then a rate and a delay of up to a half more or less.
    fn handovers(&mut self, rate: Rate, outage: Time, rtt: Time) -> String {
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

    /// A rate that is whole, half or a quarter, for two seconds each.
    fn stepping(&mut self, rate: Rate) -> String {
        let mut changes = Vec::new();
        let mut now = 2.0;
        while now < self.seconds {
            let kbit = rate.kbit >> self.random.below(3);
            changes.push((now / self.seconds, format!("rate = \"{kbit}kbit\"")));
            now += 2.0;
        }
        self.at(&changes)
    }

    fn lot(
        &mut self,
        rate: impl Fn(u32) -> Rate,
        hops: Count,
        long: Count,
        cross: Mix,
        buffer: Buffer,
        rtt: Time,
    ) {
        let delay = rtt.part(2 * u64::from(hops.0));
        for hop in 0..hops.0 {
            let (from, to) = (format!("N{hop}"), format!("N{}", hop + 1));
            let name = format!("hop{hop}");
            self.marked(&name, &from, &to, rate(hop), &delay, &queue(buffer));
        }
        self.ours("long", "N0", &format!("N{}", hops.0), long.0, "");
        for hop in 0..hops.0 {
            let (from, to) = (format!("N{hop}"), format!("N{}", hop + 1));
            self.ours(&format!("cross{hop}-"), &from, &to, cross.ours, "");
            let name = format!("{TCP}{hop}-");
            self.flow(&name, &from, &to, "cubic", cross.tcp, "");
        }
    }

    /// Two ways to one marked link.
    fn two_distances(&mut self, rate: Rate, near: Time, far: Time) {
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

    /// One after the other, from a sixth of the run to its last tenth.
    fn mice(&mut self, mice: Count, size: Size) {
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
            u64::from(size.kilobytes) * 1000,
            starts.join(", ")
        );
        self.ours("mouse", "S", "D", mice.0, &more);
    }
}
