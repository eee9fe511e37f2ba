//! A server in a separate process is attacked by 64 connections at once while an honest client uses
//! it. The tests measure by how much the server's process grows, and how long the honest client
//! waits.
//!
//! Linux only: resident memory is read from `/proc`.

mod attackers;
mod served;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pathmark_cc::{Controller, NewReno};

use super::*;
use attackers::{Attack, Forger, Kind, SlowHandshakes};
use pathmark_transport::{Instant, TransportConfig};
use served::Served;

/// Attacking connections, each from a different address.
const ATTACKERS: u8 = 64;
/// Rate of all attackers together in bits per second, including headers.
const RATE: u64 = 10_000_000;
/// Largest growth of the server's process during an attack.
const GROWTH: usize = 32 << 20;
/// Longest time that an honest client may wait for a connection and an answer.
const WAIT: Duration = Duration::from_secs(2);
const ANSWER: usize = 64 << 10;
const ALPN: &[u8] = b"attacked";
/// How often a process checks whether its runtime still runs tasks in time.
const BEAT: Duration = Duration::from_millis(5);

fn transport() -> Arc<TransportConfig> {
    let factory =
        |_: Instant, mtu: u16| -> Box<dyn Controller> { Box::new(NewReno::newreno(mtu, None)) };
    Arc::new(TransportConfig::new(Arc::new(factory)))
}

fn runtime(workers: usize) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(workers)
        .enable_all()
        .build()
        .unwrap()
}

/// Sends at this connection's share of `RATE`, until `over`.
async fn attack(mut attack: impl Attack, server: SocketAddr, over: Arc<AtomicBool>) -> u64 {
    let began = clock::now();
    let mut sent = 0;
    while !over.load(Ordering::Relaxed) {
        let elapsed = clock::now().saturating_since(began).as_secs_f64();
        let due = (elapsed * RATE as f64 / 8.0 / f64::from(ATTACKERS)) as u64;
        while sent < due {
            sent += attack.send(server) as u64;
        }
        // The rate is an average over time, so delayed packets are sent later.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    sent
}

/// Attacks for `time`, prints and judges the results, and returns the failures.
fn withstands<A: Attack>(
    name: &str,
    time: Duration,
    attacker: impl AsyncFn(SocketAddr, u8) -> A,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let served = Served::start();
    let server = served.address;
    let (rest, most, worst, waits, sent) = runtime(2).block_on(async {
        let mut attackers = Vec::new();
        for host in 1..=ATTACKERS {
            attackers.push(attacker(server, host).await);
        }
        let honest = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        fetch(&honest, server).await;
        let rest = served.resident();
        let over = Arc::new(AtomicBool::new(false));
        let spawn = |one: A| tokio::spawn(attack(one, server, Arc::clone(&over)));
        let attackers: Vec<_> = attackers.into_iter().map(spawn).collect();
        let (mut worst, mut waits) = (Fetched::default(), 0);
        let asking = async {
            let end = clock::now() + time;
            while clock::now() < end {
                let fetched = tokio::time::timeout(5 * WAIT, fetch(&honest, server)).await;
                let Ok(fetched) = fetched else {
                    wrong.push(format!("{name}: nothing came within {:?}", 5 * WAIT));
                    continue;
                };
                if fetched.all() > worst.all() {
                    worst = fetched;
                }
                waits += 1;
            }
        };
        let mut most = rest;
        let sampling = async {
            // No event reports that the process grows.
            loop {
                most = most.max(served.resident());
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let late = Arc::new(Lateness::default());
        tokio::spawn(Arc::clone(&late).watch());
        tokio::select! {
            () = asking => {}
            () = sampling => {}
        }
        over.store(true, Ordering::Relaxed);
        let mut sent = 0;
        for attacker in attackers {
            match attacker.await {
                Ok(bytes) => sent += bytes,
                Err(error) => wrong.push(format!("{name}: an attacker ended: {error}")),
            }
        }
        println!("attackers and honest client: {late:?}");
        (rest, most, worst, waits, sent)
    });
    println!(
        "{name}: {:.1} Mbit/s for {time:?}, {} KiB above {}, {waits} waits, longest {worst:?}",
        sent as f64 * 8.0 / 1e6 / time.as_secs_f64(),
        (most - rest) / 1024,
        rest / 1024,
    );
    println!("{}", served.end());
    if sent * 8 < RATE * time.as_secs() / 2 {
        wrong.push(format!("{name}: the attack was slow, {sent} bytes"));
    }
    if most - rest > GROWTH {
        wrong.push(format!("{name}: it grew by {} bytes", most - rest));
    }
    if worst.all() > WAIT {
        wrong.push(format!("{name}: {waits} waits, longest {worst:?}"));
    }
    wrong
}

/// How the time of a fetch was spent, for readers of the output.
#[derive(Clone, Copy, Debug, Default)]
#[expect(dead_code, reason = "some of it is only printed")]
struct Fetched {
    connecting: Duration,
    answering: Duration,
    probe_timeouts: u64,
    packets_lost: u64,
    longest_round_trip: Duration,
}

impl Fetched {
    fn all(&self) -> Duration {
        self.connecting + self.answering
    }
}

/// Opens a new connection and fetches an answer.
async fn fetch(endpoint: &Endpoint, server: SocketAddr) -> Fetched {
    let began = clock::now();
    let crypto = Arc::new(testing::client(&[ALPN]));
    let config = ClientConfig::new(crypto, transport());
    let connecting = endpoint
        .connect_with(config, server, "server.test")
        .unwrap();
    let connection = connecting.await.unwrap();
    let connected = clock::now();
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(b"?").await.unwrap();
    send.finish().unwrap();
    assert_eq!(recv.read_to_end(ANSWER).await.unwrap().len(), ANSWER);
    let stats = connection.stats();
    Fetched {
        connecting: connected.saturating_since(began),
        answering: clock::now().saturating_since(connected),
        probe_timeouts: stats.probe_timeouts,
        packets_lost: stats.packets_lost,
        longest_round_trip: stats.rtt.max().unwrap_or_default(),
    }
}

/// How late a runtime wakes a task. Such delays of a fetch are due to the machine and to other
/// tasks.
#[derive(Debug, Default)]
struct Lateness {
    /// In milliseconds.
    worst: AtomicU64,
    /// How often it was 100 ms or more.
    often: AtomicU64,
}

impl Lateness {
    async fn watch(self: Arc<Self>) {
        loop {
            let began = clock::now();
            // The measured quantity is the delay of this sleep.
            tokio::time::sleep(BEAT).await;
            let late = clock::now().saturating_since(began).saturating_sub(BEAT);
            let late = late.as_millis() as u64;
            self.worst.fetch_max(late, Ordering::Relaxed);
            self.often
                .fetch_add(u64::from(late >= 100), Ordering::Relaxed);
        }
    }
}

/// Runs all kinds one after the other, even after one has failed.
fn all(time: Duration) {
    let mut wrong = Vec::new();
    for kind in Kind::ALL {
        let name = format!("{kind:?}");
        wrong.extend(withstands(&name, time, async |server, host| {
            Forger::new(kind, server, host).await
        }));
    }
    wrong.extend(withstands("slow handshakes", time, async |_, host| {
        SlowHandshakes::new(host)
    }));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sixty_four_attackers_for_a_while() {
    all(Duration::from_secs(2));
}

#[test]
#[ignore = "five minutes: cargo test -p pathmark-driver --lib attackers -- --ignored"]
fn sixty_four_attackers_for_a_minute_each() {
    all(Duration::from_secs(60));
}
