//! The plan that a seed determines: a path with its faults, and the transfers over this path.

use pathmark_transport::Duration;
use pathmark_transport::crypto::Random;

/// Parts per million.
type Ppm = u64;

/// An event that affects one end or the path, some time after the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Incident {
    /// The client's address changes without its knowledge.
    Rebinding,
    /// The client moves to another of its own addresses.
    Migration(Move),
    /// The path carries nothing for this time.
    Outage(Duration),
    /// The router dies with everything in flight. For this time the path carries nothing; then
    /// another router forwards, which either marks packets (true) or doesn't know shims.
    RouterKilled(Duration, bool),
    /// An end (0: client, 1: server) is stopped for this time, so that its clock jumps.
    Sleep(usize, Duration),
    /// An end is gone for good.
    Death(usize),
    /// The server forgets its connections, but still has its key.
    Restart,
}

/// How a client moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// To another socket, permanently.
    Leave,
    /// To a working address.
    Try,
    /// To an address without a working path, so that it must return.
    TryInVain,
}

/// Whether the server accepts early data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Early {
    Taken,
    Refused,
}

/// Too little memory for received data at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    /// Memory of each endpoint in bytes.
    pub(crate) bytes: u64,
    /// How long after the beginning each end starts to read.
    pub(crate) unread: [Duration; 2],
}

/// Kinds of faults, and of rarely used features.
pub(crate) const KINDS: [&str; 14] = [
    "loss",
    "duplication",
    "reordering",
    "corruption",
    "truncation",
    "rebinding",
    "outage",
    "router killed",
    "clock jump",
    "end gone",
    "migration",
    "datagrams",
    "early data",
    "short of memory",
];

/// The plan of one seed.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) tls: bool,
    /// Routers report their load, and both ends follow it; otherwise they only respond to loss.
    pub(crate) feedback: bool,
    pub(crate) latency: Duration,
    pub(crate) loss: Ppm,
    pub(crate) duplication: Ppm,
    pub(crate) reordering: Ppm,
    pub(crate) corruption: Ppm,
    pub(crate) truncation: Ppm,
    pub(crate) incidents: Vec<(Duration, Incident)>,
    /// Bytes up and down of each stream.
    pub(crate) streams: Vec<[u64; 2]>,
    /// Streams of which a direction is reset halfway: stream, sending end.
    pub(crate) resets: Vec<(usize, usize)>,
    /// The same for readers that stop: stream, reading end.
    pub(crate) stops: Vec<(usize, usize)>,
    /// Number of 1-RTT packets after which keys are updated.
    pub(crate) key_update_after: u64,
    /// DATAGRAM frames of each end.
    pub(crate) datagrams: [u32; 2],
    /// The client resumes a session that allows early data.
    pub(crate) early: Option<Early>,
    pub(crate) shortage: Option<Shortage>,
}

impl Plan {
    /// Draws a plan. Each kind of fault is omitted from at least every second plan, and no plan has
    /// every kind.
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::from_u64(seed ^ 0x5eed_0000_0000);
        let below = |random: &mut Random, n| random.below(n);
        let mut rate = |most| match random.below(2) {
            0 => 0,
            _ => 1 + random.below(most),
        };
        let [loss, duplication, reordering, corruption, truncation] =
            [150_000, 100_000, 200_000, 30_000, 30_000].map(&mut rate);
        let ms = |n| Duration::from_millis(n);
        let mut incidents = Vec::new();
        if below(&mut random, 4) == 0 {
            for _ in 0..=below(&mut random, 3) {
                incidents.push((ms(below(&mut random, 2000)), Incident::Rebinding));
            }
        }
        if below(&mut random, 4) == 0 {
            let time = ms(100 + below(&mut random, 19_900));
            incidents.push((ms(below(&mut random, 1000)), Incident::Outage(time)));
        }
        if below(&mut random, 4) == 0 {
            let end = below(&mut random, 2) as usize;
            let time = ms(100 + below(&mut random, 9_900));
            incidents.push((ms(below(&mut random, 1000)), Incident::Sleep(end, time)));
        }
        if below(&mut random, 8) == 0 {
            let incident = match below(&mut random, 3) {
                2 => Incident::Restart,
                end => Incident::Death(end as usize),
            };
            incidents.push((ms(below(&mut random, 1000)), incident));
        }
        let count = 1 + below(&mut random, 6) as usize;
        let size = |random: &mut Random| match random.below(4) {
            0 => 0,
            1 => random.below(1000),
            _ => random.below(60_000),
        };
        let sizes = (0..count).map(|_| [size(&mut random), size(&mut random)]);
        let streams: Vec<_> = sizes.collect();
        let mut some = || -> Vec<(usize, usize)> {
            let all = (0..count).flat_map(|stream| [(stream, 0), (stream, 1)]);
            all.filter(|_| random.below(16) == 0).collect()
        };
        let (resets, stops) = (some(), some());
        let latency = ms(1 + below(&mut random, 150));
        let key_update_after = match below(&mut random, 4) {
            0 => 1 + below(&mut random, 60),
            _ => u64::MAX,
        };
        let feedback = below(&mut random, 2) == 0;
        if below(&mut random, 4) == 0 {
            let time = ms(below(&mut random, 5_000));
            let marks = below(&mut random, 2) == 0;
            let incident = Incident::RouterKilled(time, marks);
            incidents.push((ms(below(&mut random, 1000)), incident));
        }
        if below(&mut random, 4) == 0 {
            for _ in 0..=below(&mut random, 2) {
                let how = match below(&mut random, 3) {
                    0 => Move::Leave,
                    1 => Move::Try,
                    _ => Move::TryInVain,
                };
                incidents.push((ms(below(&mut random, 2000)), Incident::Migration(how)));
            }
        }
        let datagrams = match below(&mut random, 4) {
            0 => [0, 1].map(|_| 1 + below(&mut random, 60) as u32),
            _ => [0, 0],
        };
        let early = match below(&mut random, 12) {
            0 | 1 => Some(Early::Taken),
            2 => Some(Early::Refused),
            _ => None,
        };
        let shortage = (below(&mut random, 4) == 0).then(|| Shortage {
            bytes: below(&mut random, 200_000),
            unread: [0, 1].map(|_| ms(below(&mut random, 2) * below(&mut random, 4000))),
        });
        incidents.sort_by_key(|(at, _)| *at);
        let mut plan = Self {
            seed,
            tls: seed % 10 == 9,
            feedback,
            latency,
            loss,
            duplication,
            reordering,
            corruption,
            truncation,
            incidents,
            streams,
            resets,
            stops,
            key_update_after,
            datagrams,
            early,
            shortage,
        };
        if plan.kinds().iter().all(|has| *has) {
            plan.truncation = 0;
        }
        plan
    }

    /// Returns an earlier connection of the same ends without faults, in which the client gets its
    /// session.
    pub(crate) fn meeting(&self) -> Self {
        Self {
            loss: 0,
            duplication: 0,
            reordering: 0,
            corruption: 0,
            truncation: 0,
            incidents: Vec::new(),
            streams: vec![[0, 0]],
            resets: Vec::new(),
            stops: Vec::new(),
            early: None,
            shortage: None,
            ..self.clone()
        }
    }

    /// Returns how long after the beginning the end `side` starts to read.
    pub(crate) fn unread(&self, side: usize) -> Duration {
        let shortage = self.shortage;
        shortage.map_or(Duration::ZERO, |short| short.unread[side])
    }

    /// Returns which of [`KINDS`] this plan has.
    pub(crate) fn kinds(&self) -> [bool; KINDS.len()] {
        let has = |test: fn(&Incident) -> bool| self.incidents.iter().any(|(_, i)| test(i));
        [
            self.loss > 0,
            self.duplication > 0,
            self.reordering > 0,
            self.corruption > 0,
            self.truncation > 0,
            has(|i| matches!(i, Incident::Rebinding)),
            has(|i| matches!(i, Incident::Outage(_))),
            has(|i| matches!(i, Incident::RouterKilled(..))),
            has(|i| matches!(i, Incident::Sleep(..))),
            self.is_fatal(),
            has(|i| matches!(i, Incident::Migration(_))),
            self.datagrams != [0, 0],
            self.early.is_some(),
            self.shortage.is_some(),
        ]
    }

    /// Returns true if nothing may arrive for a while.
    pub(crate) fn is_dark(&self) -> bool {
        use Incident::{Outage, RouterKilled, Sleep};
        let dark = |i: &Incident| matches!(i, Outage(_) | Sleep(..) | RouterKilled(..));
        self.incidents.iter().any(|(_, incident)| dark(incident))
    }

    /// Returns true if an end disappears permanently, so that the transfer needn't complete.
    pub(crate) fn is_fatal(&self) -> bool {
        let fatal = |i: &Incident| matches!(i, Incident::Death(_) | Incident::Restart);
        self.incidents.iter().any(|(_, incident)| fatal(incident))
    }
}
