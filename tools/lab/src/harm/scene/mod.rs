//! Makes a scenario's text from a cell.

mod length;
mod text;

use std::fmt::Write as _;

use super::axis::{Buffer, Burst, Declared, Lossy};
use super::cell::{Cell, Kind};
use pathmark_link::impair::Random;
use text::{Scene, queue};

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
