//! A server in a separate process is attacked while honest clients use it. The tests measure by how
//! much the server's process grows, and how long an honest client waits.
//!
//! Linux only: resident memory is read from `/proc`.

mod attackers;
mod memory;
mod served;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::testing::*;
use super::*;
use attackers::{Attack, Forger, Kind, SlowHandshakes};
use served::{Role, Served, fetch, resident};

/// Attacking connections, each from a different address.
const ATTACKERS: u8 = 64;
/// Rate of all attackers together in bits per second, including headers.
const RATE: u64 = 10_000_000;
/// Largest growth of the server's process during an attack.
const GROWTH: usize = 32 << 20;
/// Longest time that an honest client may wait for a connection and an answer.
const WAIT: Duration = Duration::from_secs(2);
const ANSWER: usize = 64 << 10;
/// Held by each test of this module, because floods would delay the honest clients of others.
static ALONE: Mutex<()> = Mutex::new(());

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
    let served = Served::start(Role::TwoThreads);
    let server = served.address;
    let (rest, most, worst, waits, sent) = runtime(2).block_on(async {
        let mut attackers = Vec::new();
        for host in 1..=ATTACKERS {
            attackers.push(attacker(server, host).await);
        }
        let honest = endpoint();
        fetch_anew(&honest, server).await;
        let rest = served.resident();
        let over = Arc::new(AtomicBool::new(false));
        let spawn = |one: A| tokio::spawn(attack(one, server, Arc::clone(&over)));
        let attackers: Vec<_> = attackers.into_iter().map(spawn).collect();
        let (mut most, mut worst, mut waits) = (rest, Duration::ZERO, 0);
        let asking = async {
            let end = clock::now() + time;
            while clock::now() < end {
                let began = clock::now();
                let fetched = tokio::time::timeout(5 * WAIT, fetch_anew(&honest, server)).await;
                if fetched.is_err() {
                    wrong.push(format!("{name}: nothing came within {:?}", 5 * WAIT));
                }
                worst = worst.max(clock::now().saturating_since(began));
                waits += 1;
            }
        };
        let sampling = async {
            // No event reports that the process grows.
            loop {
                most = most.max(served.resident());
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
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
    if worst > WAIT {
        wrong.push(format!("{name}: {waits} waits, longest {worst:?}"));
    }
    wrong
}

/// Opens a new connection and fetches an answer.
async fn fetch_anew(endpoint: &Endpoint, server: SocketAddr) {
    let connecting = endpoint.connect_with(client(transport()), server, NAME);
    fetch(&connecting.unwrap().await.unwrap(), ANSWER).await;
}

/// Runs all kinds one after the other, even after one has failed.
fn all(time: Duration) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
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
#[ignore = "cargo xtask soak attackers"]
fn sixty_four_attackers_for_a_minute_each() {
    all(Duration::from_secs(60));
}
