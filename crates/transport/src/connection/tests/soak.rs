//! Everything at once, for many seeds: faults of the path, streams in both directions, and changes
//! of paths and keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::link::{Faults, Rng};
use super::pair::{Host, Pair, Setup, drain, pattern};
use super::signal::TestSignal;
use crate::streams::{Dir, StreamId};
use crate::{Duration, Signal};

/// Streams that one side sends, and the data that the other side has received.
#[derive(Default)]
struct Transfers {
    sending: Vec<(StreamId, Vec<u8>, usize)>,
    received: BTreeMap<StreamId, Vec<u8>>,
    finished: Vec<StreamId>,
}

impl Transfers {
    fn open(host: &mut Host, rng: &mut Rng) -> Self {
        let count = 1 + rng.next() % 8;
        let sending = (0..count).map(|n| {
            let dir = if rng.next().is_multiple_of(2) {
                Dir::Bi
            } else {
                Dir::Uni
            };
            let id = host.get().streams().open(dir).unwrap();
            let len = (rng.next() % 40_000) as usize;
            (id, pattern(len, n), 0)
        });
        Self {
            sending: sending.collect(),
            ..Self::default()
        }
    }

    fn push(&mut self, host: &mut Host) {
        for (id, data, written) in &mut self.sending {
            while *written < data.len() {
                match host.get().streams().write(*id, &data[*written..]) {
                    Ok(n) => *written += n,
                    Err(_) => break,
                }
            }
            if *written == data.len() {
                let _ = host.get().streams().finish(*id);
            }
        }
    }

    fn pull(&mut self, host: &mut Host) -> bool {
        let streams = host.get().streams();
        for dir in [Dir::Bi, Dir::Uni] {
            while let Some(id) = streams.accept(dir) {
                self.received.insert(id, Vec::new());
            }
        }
        for (id, got) in &mut self.received {
            if !self.finished.contains(id) && drain(host.get(), *id, got) {
                self.finished.push(*id);
            }
        }
        self.finished.len() == self.sending.len()
    }

    fn check(&self) {
        for (id, data, _) in &self.sending {
            assert!(self.received.get(id) == Some(data), "{id:?} differs");
        }
    }
}

fn faults(rng: &mut Rng) -> Faults {
    let mut up_to = |most: u64| (rng.next() % most) as u32;
    Faults {
        loss: up_to(150_000),
        reorder: up_to(150_000),
        duplicate: up_to(100_000),
        corrupt: up_to(60_000),
        mtu: 1200 + up_to(400) as usize,
        ..Faults::default()
    }
}

#[test]
fn whatever_happens_on_the_path_the_bytes_are_the_same() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let mut setup = Setup {
            seed,
            latency: Duration::from_millis(1 + rng.next() % 100),
            segments: 1 + (rng.next() % 20) as usize,
            ..Setup::default()
        };
        if rng.next().is_multiple_of(2) {
            let signal: Arc<dyn Signal> = Arc::new(TestSignal::shim(0));
            setup.client.signals = vec![Arc::clone(&signal)];
            setup.server.signals = vec![signal];
        }
        // A client that only receives must occasionally send, so that its NAT keeps its state.
        setup.client.keep_alive = Some(Duration::from_secs(2));
        setup.client.key_update_after = 20 + rng.next() % 200;
        let mut pair = Pair::with(setup);
        pair.up.faults = faults(&mut rng);
        pair.down.faults = faults(&mut rng);
        if rng.next().is_multiple_of(2) {
            pair.up.rate = Some(100_000 + rng.next() % 1_000_000);
            pair.up.queue = 10_000 + rng.next() % 100_000;
        }
        pair.connect();
        let mut up = Transfers::open(&mut pair.client, &mut rng);
        let mut down = Transfers::open(&mut pair.server, &mut rng);
        let mut steps = 0u64;
        let done = pair.run_until(Duration::from_secs(600), |pair| {
            steps += 1;
            match rng.next() % 300 {
                0 => pair.client.address.set_port(1000 + (steps % 5000) as u16),
                1 => {
                    let now = pair.now;
                    pair.server.get().update_keys(now);
                }
                2 => pair.client.get().ping(),
                _ => {}
            }
            up.push(&mut pair.client);
            down.push(&mut pair.server);
            up.pull(&mut pair.server) & down.pull(&mut pair.client)
        });
        assert!(
            done,
            "seed {seed}: {} and {} streams to go; {:?} {:?} {:?}",
            up.sending.len() - up.finished.len(),
            down.sending.len() - down.finished.len(),
            pair.client.error(),
            pair.server.error(),
            pair.client.get().stats(),
        );
        up.check();
        down.check();
        for host in [&mut pair.client, &mut pair.server] {
            assert_eq!(host.get().stats().feedback_bad, 0, "seed {seed}");
        }
    }
}
