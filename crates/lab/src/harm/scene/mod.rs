//! Makes a scenario's text from a cell.

mod length;
mod text;

use std::fmt::Write as _;

use super::axis::{Buffer, Burst, Declared, Lossy};
use super::cell::Cell;
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
                declared,
                flows,
                rtt,
            } => {
                let mut more = scene.lossy(per, burst, lossy);
                if declared == Declared::Declared {
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
