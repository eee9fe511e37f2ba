//! Full handshakes per second of this library, s2n-quic and quinn, with both ends on one core:
//! `cargo bench -p pathmark-judges --bench handshakes [-- --rounds N] [--seconds N] [STACK…]`, by
//! default all stacks for one round of one second. Prints a Markdown table.
//!
//! Both ends of a stack run in one thread, which stays on one processor. All stacks use rustls with
//! the same configuration (a P-256 certificate that is verified, X25519, AES-128-GCM), and no
//! session is resumed. A client opens a connection, waits until it is ready, and closes it; either
//! one or eight connections are opened at a time. The stacks take turns. The table contains the
//! medians over rounds, per second and, in case other programs use the processor too, per second of
//! processor time.

mod stacks;
mod tls;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use stacks::{Ours, Quinn, S2n, Stack};

const STACKS: [&str; 3] = ["pathmark", "s2n-quic", "quinn"];
/// Connections opened at a time.
const AT_A_TIME: [usize; 2] = [1, 8];

const USAGE: &str = "handshakes [--rounds N] [--seconds N] [pathmark] [s2n-quic] [quinn]";

/// The requested measurement.
struct Asked {
    rounds: u64,
    time: Duration,
    stacks: Vec<&'static str>,
}

impl Asked {
    /// Returns `None` if the arguments are invalid.
    fn read(mut arguments: impl Iterator<Item = String>) -> Option<Self> {
        let (mut rounds, mut seconds, mut stacks) = (1, 1, Vec::new());
        while let Some(argument) = arguments.next() {
            let mut number = || {
                let number: u64 = arguments.next()?.parse().ok()?;
                (number > 0).then_some(number)
            };
            match argument.as_str() {
                // `cargo bench` adds it.
                "--bench" => {}
                "--rounds" => rounds = number()?,
                "--seconds" => seconds = number()?,
                name => stacks.push(*STACKS.iter().find(|stack| **stack == name)?),
            }
        }
        if stacks.is_empty() {
            stacks.extend(STACKS);
        }
        Some(Self {
            rounds,
            time: Duration::from_secs(seconds),
            stacks,
        })
    }
}

fn main() -> ExitCode {
    let Some(asked) = Asked::read(std::env::args().skip(1)) else {
        eprintln!("usage: {USAGE}");
        return ExitCode::from(2);
    };
    let Asked {
        rounds,
        time,
        stacks,
    } = asked;
    stay_on_one_processor();
    let mut rates = vec![[const { Vec::new() }; AT_A_TIME.len()]; stacks.len()];
    let mut of_cpu = rates.clone();
    for _ in 0..rounds {
        for (stack, all) in stacks.iter().zip(rates.iter_mut().zip(&mut of_cpu)) {
            for (at_a_time, (rates, of_cpu)) in
                AT_A_TIME.into_iter().zip(all.0.iter_mut().zip(all.1))
            {
                let rate = rate(stack, at_a_time, time);
                rates.push(rate.per_second);
                of_cpu.push(rate.per_cpu_second);
            }
        }
    }
    println!(
        "| stack | handshakes/s, 1 at a time | 8 at a time | per second of the processor, 1 | 8 |"
    );
    println!("|---|---|---|---|---|");
    for (stack, (rates, of_cpu)) in stacks.iter().zip(rates.into_iter().zip(of_cpu)) {
        let [one, eight] = rates.map(median);
        let [cpu_one, cpu_eight] = of_cpu.map(median);
        println!("| {stack} | {one:.0} | {eight:.0} | {cpu_one:.0} | {cpu_eight:.0} |");
    }
    ExitCode::SUCCESS
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Prevents the scheduler from moving this thread.
fn stay_on_one_processor() {
    let mut set = rustix::thread::CpuSet::new();
    set.set(rustix::thread::sched_getcpu());
    rustix::thread::sched_setaffinity(None, &set).expect("allowed");
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

#[derive(Clone, Copy)]
struct Rate {
    per_second: f64,
    /// Per second of this thread's processor time, including the kernel's.
    per_cpu_second: f64,
}

/// Returns this thread's processor time so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("not negative")
}

fn rate(name: &str, at_a_time: usize, time: Duration) -> Rate {
    let tls = tls::Configs::new();
    runtime().block_on(async {
        match name {
            "pathmark" => repeat(Ours::start(tls).await, at_a_time, time).await,
            "s2n-quic" => repeat(S2n::start(tls).await, at_a_time, time).await,
            "quinn" => repeat(Quinn::start(tls).await, at_a_time, time).await,
            other => panic!("no stack {other}"),
        }
    })
}

#[expect(clippy::disallowed_methods, reason = "it measures real time")]
async fn repeat(stack: impl Stack, at_a_time: usize, time: Duration) -> Rate {
    // This warms up one-time work, and tables up to their final size.
    for _ in 0..100 {
        stack.handshake().await;
    }
    let (began, cpu_before) = (Instant::now(), cpu_time());
    let before = stack.accepted();
    let stack = std::rc::Rc::new(stack);
    let local = tokio::task::LocalSet::new();
    let tasks: Vec<_> = (0..at_a_time)
        .map(|_| {
            let stack = std::rc::Rc::clone(&stack);
            local.spawn_local(async move {
                let mut done = 0u64;
                while began.elapsed() < time {
                    stack.handshake().await;
                    done += 1;
                }
                done
            })
        })
        .collect();
    let done = local
        .run_until(async move {
            let mut done = 0;
            for task in tasks {
                done += task.await.expect("it went on");
            }
            done
        })
        .await;
    let (took, cpu) = (began.elapsed(), cpu_time() - cpu_before);
    // Only handshakes that are complete at both ends count; the server may not have accepted the
    // last few yet.
    let accepted = stack.accepted() - before;
    assert!(
        accepted + 2 * at_a_time as u64 >= done,
        "{accepted} of {done}"
    );
    Rate {
        per_second: done as f64 / took.as_secs_f64(),
        per_cpu_second: done as f64 / cpu.as_secs_f64(),
    }
}
