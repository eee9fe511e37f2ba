//! Fuzz target for a receiver's feedback as a sender reads it: counters, epochs and clocks, in
//! every order.
//!
//! `cargo test` runs it over its corpus in `__fuzz__` and a limited number of random inputs. A
//! fuzzer can run the same function for as long as you like: `cargo bolero test -p
//! pathmark-transport peers_words` (libFuzzer).

use pathmark_cc::{Countable, Feedback, Request, VcpFeedback};
use pathmark_transport::path::{OneWayDelay, Returned, Sample};
use pathmark_transport::wire::frame::feedback::TIME_MODULUS;
use pathmark_transport::{BadFeedback, Breach, Counters, Duration, Instant, Meter, Signal};

/// Random inputs in `cargo test`, in addition to the corpus.
const ITERATIONS: usize = 50_000;
/// Largest length of a random input in bytes.
const MAX_LEN: usize = 1024;

/// Counts packets and their bytes.
#[derive(Debug)]
struct Counts;

impl Signal for Counts {
    fn kind(&self) -> u8 {
        200
    }

    fn shim_len(&self) -> usize {
        0
    }

    fn fill(&self, _: &Request, _: &mut [u8]) {}

    fn meter(&self) -> Box<dyn Meter> {
        unreachable!("only the sender's side is under test")
    }

    fn difference(
        &self,
        older: Option<&Counters>,
        newer: &Counters,
        most: &Countable,
    ) -> Result<Feedback, BadFeedback> {
        let bad = |breach| BadFeedback {
            breach,
            message: "cannot be",
        };
        let read = |counters: &Counters| match counters.as_slice() {
            &[packets, bytes] => Ok((packets, bytes)),
            _ => Err(bad(Breach::Form)),
        };
        let (packets, bytes) = read(newer)?;
        let (old_packets, old_bytes) = older.map_or(Ok((0, 0)), read)?;
        if packets > most.packets {
            return Err(bad(Breach::Packets));
        }
        if bytes > most.bytes {
            return Err(bad(Breach::Sum));
        }
        let less = |new: u64, old: u64| new.checked_sub(old).ok_or(bad(Breach::Backwards));
        let mut vcp = VcpFeedback::default();
        vcp.packets[1] = less(packets, old_packets)?;
        vcp.bytes[1] = less(bytes, old_bytes)?;
        Ok(Feedback::Vcp(vcp))
    }
}

/// The input consists of words of 8 bytes: actions of the sender, and the peer's feedback.
fn words(input: &[u8]) {
    let mut returned = Returned::new();
    let mut clock = OneWayDelay::new();
    let (mut next, mut now) = (0_u64, Instant::from_micros(0));
    // On this path: packets and bytes that were sent and that were accepted as received.
    let (mut sent, mut believed) = ((0, 0), (0, 0));
    let mut frames = 0;
    let (words, _) = input.as_chunks::<8>();
    for &[what, a, b, c, d, e, f, g] in words {
        let wide = u64::from(u32::from_be_bytes([a, b, c, d]));
        let narrow = u64::from(u16::from_be_bytes([e, f]));
        match what % 8 {
            0..=2 => {
                next += u64::from(a % 4);
                returned.on_sent(next, narrow);
                next += 1;
                sent = (sent.0 + 1, sent.1 + narrow);
            }
            3 => {
                returned.on_path_change(next);
                (sent, believed) = ((0, 0), (0, 0));
                clock = OneWayDelay::new();
            }
            4 => returned.on_challenge(),
            5 | 6 => {
                let mut counters = Counters::new();
                let first = u64::from(a);
                counters.push(if what & 8 == 0 { first } else { wide << 30 });
                if g != 255 {
                    counters.push(u64::from(b) * narrow);
                }
                let epoch = (next + 1).saturating_sub(u64::from(c));
                frames += 1;
                let number = u64::saturating_sub(frames, u64::from(d % 2));
                if let Some(feedback) = returned.on_frame(number, epoch, &counters, &Counts) {
                    let (packets, bytes) = feedback.counted();
                    believed = (believed.0 + packets, believed.1 + bytes);
                }
                assert!(believed.0 <= sent.0 && believed.1 <= sent.1);
            }
            _ => {
                let rtt = Duration::from_micros(narrow * u64::from(g));
                let sample = Sample {
                    sent_at: now,
                    arrived: (wide % u64::from(TIME_MODULUS)) as u32,
                    rtt,
                    min_rtt: Duration::from_micros(narrow.min(u64::from(g))),
                };
                now += rtt;
                let longer = rtt.saturating_sub(sample.min_rtt);
                if let Some(queued) = clock.on_sample(now, &sample) {
                    let back = Duration::from_millis(200).max(sample.min_rtt * 2);
                    assert!(queued <= longer && queued + back >= longer);
                    assert!(!clock.given_up() || queued == longer);
                }
            }
        }
    }
    assert!(returned.disbelieved().total() <= frames);
}

target!(peers_words, words);
