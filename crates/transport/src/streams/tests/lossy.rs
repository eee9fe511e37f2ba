//! All data arrives over a channel that loses, delays, reorders and duplicates packets, and
//! that declares some lost that aren't.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A small generator, because the tests only need variety from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // Marsaglia's xorshift, 64 bits.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

/// The byte of stream `id` at `offset`.
fn byte(id: StreamId, offset: u64) -> u8 {
    let mixed =
        (id.as_u64() + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ offset.wrapping_mul(0xff51_afd7);
    (mixed >> 13) as u8
}

/// An application that opens streams, writes patterns, and checks those that it reads.
#[derive(Default)]
struct Application {
    to_open: Vec<(Dir, u64)>,
    /// Length and progress of sent streams.
    sends: BTreeMap<StreamId, (u64, u64)>,
    /// Progress of received streams.
    reads: BTreeMap<StreamId, u64>,
    /// Streams read to their end, and their lengths.
    complete: BTreeMap<StreamId, u64>,
    finished: usize,
}

impl Application {
    fn drive(&mut self, streams: &mut Streams, dice: &mut Dice) {
        while let Some(event) = streams.poll_event() {
            if matches!(event, StreamEvent::Finished(_)) {
                self.finished += 1;
            }
        }
        while let Some(&(dir, len)) = self.to_open.last() {
            match streams.open(dir) {
                Ok(id) => {
                    self.to_open.pop();
                    self.sends.insert(id, (len, 0));
                    if dir == Dir::Bi {
                        self.reads.insert(id, 0);
                    }
                }
                Err(OpenError::Limit(_)) => break,
            }
        }
        for dir in [Dir::Bi, Dir::Uni] {
            while let Some(id) = streams.accept(dir) {
                self.reads.insert(id, 0);
                if dir == Dir::Bi {
                    self.sends.insert(id, (dice.roll(50_000), 0));
                }
            }
        }
        self.sends.retain(|id, (len, done)| {
            while *done < *len {
                let piece: Vec<u8> = (*done..(*done + 1 + dice.roll(5000)).min(*len))
                    .map(|offset| byte(*id, offset))
                    .collect();
                let wrote = if dice.roll(2) == 0 {
                    streams.write(*id, &piece)
                } else {
                    streams.write_bytes(*id, &mut Bytes::from(piece))
                };
                match wrote {
                    Ok(n) => *done += n as u64,
                    Err(WriteError::Blocked) => return true,
                    Err(error) => panic!("{id}: {error}"),
                }
            }
            streams.finish(*id).unwrap();
            false
        });
        let complete = &mut self.complete;
        self.reads.retain(|id, at| {
            let mut buffer = [0; 3000];
            loop {
                let max = 1 + usize::try_from(dice.roll(3000)).unwrap();
                let read = if dice.roll(2) == 0 {
                    let read = streams.read(*id, &mut buffer[..max]);
                    read.map(|n| n.map(|n| buffer[..n].to_vec()))
                } else {
                    streams.read_chunk(*id, max).map(|b| b.map(Vec::from))
                };
                match read {
                    Ok(Some(data)) => {
                        for got in data {
                            assert_eq!(got, byte(*id, *at), "{id} at {at}");
                            *at += 1;
                        }
                    }
                    Ok(None) => {
                        complete.insert(*id, *at);
                        return false;
                    }
                    Err(ReadError::Blocked) => return true,
                    Err(error) => panic!("{id}: {error}"),
                }
            }
        });
    }

    fn is_done(&self) -> bool {
        self.to_open.is_empty() && self.sends.is_empty() && self.reads.is_empty()
    }
}

struct Loss {
    drop: u64,
    repeat: u64,
    misjudge: u64,
    delay: u64,
}

/// The streams that each end opens, and their lengths.
type Opens = [Vec<(Dir, u64)>; 2];
/// Runs two applications until everything is done, and returns them.
fn run(seed: u64, config: StreamsConfig, loss: &Loss, opens: Opens) -> [Application; 2] {
    let mut dice = Dice(seed | 1);
    let (client, server) = pair(config);
    let mut ends = [client, server];
    let mut applications = opens.map(|to_open| Application {
        to_open,
        ..Application::default()
    });
    // By direction: packets with the tick of their arrival, and verdicts for their sender.
    let mut wires: [Vec<(u64, Packet)>; 2] = Default::default();
    let mut verdicts: [Vec<(u64, bool, Packet)>; 2] = Default::default();
    let streams_at_once =
        usize::try_from(config.max_bidi_streams + config.max_uni_streams).unwrap() * 2;
    for tick in 0..200_000 {
        let now = Instant::from_micros(tick * 500);
        for (end, application) in ends.iter_mut().zip(&mut applications) {
            application.drive(end, &mut dice);
            // A window, its presence bits, and one block with bits per stream.
            let window = usize::try_from(config.max_window).unwrap();
            let bound = (window + streams_at_once * (32 << 10)) * 9 / 8;
            let held = memory(end);
            assert!(held <= bound, "{held} > {bound}");
            assert!(end.open_streams() <= streams_at_once);
        }
        for side in [0, 1] {
            for _ in 0..8 {
                let Some(packet) = packet(&mut ends[side], now) else {
                    break;
                };
                let arrival = tick + 5 + dice.roll(loss.delay);
                let dropped = dice.roll(100) < loss.drop;
                let misjudged = dice.roll(100) < loss.misjudge;
                if !dropped {
                    wires[side].push((arrival, packet.clone()));
                    if dice.roll(100) < loss.repeat {
                        wires[side].push((arrival + dice.roll(50), packet.clone()));
                    }
                }
                // A misjudged packet is first declared lost, and later acknowledged.
                if dropped || misjudged {
                    verdicts[side].push((arrival + 10, false, packet.clone()));
                }
                if !dropped {
                    verdicts[side].push((arrival + if misjudged { 15 } else { 5 }, true, packet));
                }
            }
        }
        for side in [0, 1] {
            for (_, packet) in wires[side].extract_if(.., |(at, _)| *at <= tick) {
                deliver(&mut ends[1 - side], now, &packet.payload).unwrap();
            }
            for (_, acked, packet) in verdicts[side].extract_if(.., |(at, ..)| *at <= tick) {
                if acked {
                    channel::acked(&mut ends[side], &packet.sent);
                } else {
                    ends[side].on_lost(&packet.sent);
                }
            }
        }
        let quiet = wires.iter().all(Vec::is_empty) && verdicts.iter().all(Vec::is_empty);
        if quiet
            && applications.iter().all(Application::is_done)
            && !ends.iter_mut().any(Streams::wants_to_send)
        {
            for (end, application) in ends.iter_mut().zip(&mut applications) {
                application.drive(end, &mut dice);
                assert_eq!(end.open_streams(), 0);
                assert_eq!(end.account.unacked(), 0);
                assert_eq!(memory(end), 0);
            }
            return applications;
        }
    }
    panic!("not done: a stall");
}

const SMALL_WINDOWS: StreamsConfig = StreamsConfig {
    initial_connection_window: 10_000,
    initial_stream_window: 3_000,
    max_bidi_streams: 3,
    max_uni_streams: 2,
    max_window: 40_000,
    max_send_buffer: 30_000,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn everything_arrives(
        seed: u64,
        drop in 0u64..30,
        repeat in 0u64..20,
        misjudge in 0u64..10,
        delay in 1u64..40,
        lengths in prop::collection::vec((any::<bool>(), any::<bool>(), 0u64..100_000), 1..12),
    ) {
        let mut opens = Opens::default();
        for (ours, bi, len) in &lengths {
            opens[usize::from(*ours)].push((if *bi { Dir::Bi } else { Dir::Uni }, *len));
        }
        let loss = Loss { drop, repeat, misjudge, delay };
        let [client, server] = run(seed, SMALL_WINDOWS, &loss, opens);
        let both = lengths.iter().filter(|(_, bi, _)| *bi).count();
        prop_assert_eq!(client.finished + server.finished, lengths.len() + both);
        prop_assert_eq!(client.complete.len() + server.complete.len(), lengths.len() + both);
        let mut asked: Vec<u64> = lengths.iter().map(|(.., len)| *len).collect();
        let mut got: Vec<u64> = [(&client, 1), (&server, 0)]
            .iter()
            .flat_map(|(end, peer)| {
                end.complete.iter().filter(move |(id, _)| id.as_u64() & 1 == *peer).map(|(_, n)| *n)
            })
            .collect();
        asked.sort_unstable();
        got.sort_unstable();
        prop_assert_eq!(asked, got);
    }
}

#[test]
fn a_thousand_streams_take_turns_under_loss() {
    let config = StreamsConfig {
        max_bidi_streams: 100,
        ..StreamsConfig::default()
    };
    let opens = [vec![(Dir::Bi, 2_000); 1_000], Vec::new()];
    let loss = Loss {
        drop: 10,
        repeat: 5,
        misjudge: 2,
        delay: 20,
    };
    let [client, server] = run(7, config, &loss, opens);
    assert_eq!(client.complete.len(), 1_000);
    assert_eq!(server.complete.len(), 1_000);
    assert_eq!((client.finished, server.finished), (1_000, 1_000));
}
