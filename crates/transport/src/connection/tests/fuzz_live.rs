//! Fuzz target for the state of a live connection: frames sealed with the peer's own keys, in any
//! order, with data, acknowledgements and time in between.
//!
//! `cargo test` runs it with a bounded number of random inputs, and `fuzz/run` for as long as you
//! like.

use super::*;

/// Number of random inputs in `cargo test`.
const ITERATIONS: usize = 300;
/// Maximum length of a random input, in bytes.
const MAX_LEN: usize = 256;
/// Memory of both servers for received data, in bytes.
const MEMORY: u64 = 1 << 20;

/// Types of frames (RFC 9000 §19), of extensions, and an unassigned one.
const TYPES: [u64; 40] = [
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f,
    0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f,
    0x30, 0x31, 0xaf, 0xac, 0x0a, 0x0e, 0x18, 0x2f_ff,
];

/// Writes a frame whose type and fields are selected by `word`, with small and very large values.
fn frame(word: [u8; 8], w: &mut Writer<'_>) -> Option<()> {
    let [_, kind, a, b, c, d, e, f] = word;
    let ty = TYPES[usize::from(kind) % TYPES.len()];
    let wide = |n: u8| match n {
        0..=200 => u64::from(n),
        201..=250 => u64::from(n) << 12,
        _ => (1 << 62) - 1 - u64::from(255 - n),
    };
    w.put_varint(ty).ok()?;
    match ty {
        // STREAM: ID, offset, length, data.
        0x08..=0x0f => {
            w.put_varint(wide(a)).ok()?;
            if ty & 4 != 0 {
                w.put_varint(wide(b).wrapping_mul(16) % (1 << 62)).ok()?;
            }
            let data = [c; 64];
            let len = usize::from(d % 64);
            if ty & 2 != 0 {
                w.put_varint(len as u64).ok()?;
            }
            w.put_slice(&data[..len]).ok()
        }
        // NEW_CONNECTION_ID: sequence, retire prior to, length, ID, token.
        0x18 => {
            w.put_varint(wide(a)).ok()?;
            w.put_varint(wide(b)).ok()?;
            w.put_u8(if c < 200 { 8 } else { c }).ok()?;
            w.put_slice(&[d, e, f, a, b, c, d, e]).ok()?;
            w.put_slice(&[f; 16]).ok()
        }
        // PATH_CHALLENGE, PATH_RESPONSE.
        0x1a | 0x1b => w.put_slice(&[a, b, c, d, e, f, 0, 1]).ok(),
        // ACK: largest, delay, ranges, first range, ECN counts.
        0x02 | 0x03 => {
            for field in [a, b, c % 4, d, e, f, e, f, d] {
                w.put_varint(wide(field)).ok()?;
            }
            Some(())
        }
        // The others consist of integers, and of bytes preceded by their number.
        _ => {
            for field in [a, b, c] {
                w.put_varint(wide(field)).ok()?;
            }
            w.put_slice(&[d; 16][..usize::from(e % 17)]).ok()
        }
    }
}

/// Runs a connection in which each word of 8 bytes selects the next event. Returns how it ended, if
/// it did.
fn live(input: &[u8]) -> Option<ConnectionError> {
    let memory = Arc::new(ReceiveMemory::new(MEMORY));
    let sharing = |seed| {
        let mut pair = Pair::connected(Setup::new(|setup| setup.seed = seed));
        let server = pair.server.get();
        server.streams().share_memory(Arc::clone(&memory));
        pair
    };
    let (mut pair, mut honest) = (sharing(1), sharing(2));
    let (words, _) = input.as_chunks::<8>();
    for &word in words {
        let [what, a, b, ..] = word;
        let ended = pair.client.error().is_some() || pair.server.error().is_some();
        match what % 8 {
            0 => pair.run(Duration::from_millis(u64::from(a))),
            1 if !ended => {
                let dir = if a & 1 == 0 { Dir::Uni } else { Dir::Bi };
                let streams = pair.client.get().streams();
                if let Ok(id) = streams.open(dir) {
                    let _ = streams.write(id, &vec![a; usize::from(b) * 64]);
                    let _ = streams.finish(id);
                }
            }
            2 => {
                let streams = pair.server.get().streams();
                let dir = if a & 1 == 0 { Dir::Uni } else { Dir::Bi };
                if let Some(id) = streams.accept(dir) {
                    let _ = streams.read(id, &mut [0; 4096]);
                }
            }
            3 if !ended => pair.client.address.set_port(1000 + u16::from(a % 4)),
            _ if ended => {}
            side => {
                let mut room = [0; 256];
                let mut w = Writer::new(&mut room);
                if frame(word, &mut w).is_some() {
                    let from = if side < 5 { From::Server } else { From::Client };
                    send(&mut pair, from, SpaceId::Data, w.written());
                    pair.run(Duration::from_millis(u64::from(b % 32)));
                }
            }
        }
        assert!(memory.held() <= MEMORY, "{} bytes", memory.held());
        assert!(pair.server.events.len() <= 64 * (words.len() + 8));
    }
    // The connection ends or continues, and another connection of the same server continues.
    pair.run(Duration::from_secs(40));
    honest.upload(10_000, Duration::from_secs(20));
    pair.client.error()
}

#[test]
fn live_connections() {
    bolero::check!()
        .with_iterations(ITERATIONS)
        .with_max_len(MAX_LEN)
        .for_each(|input| {
            live(input);
        });
}

/// The inputs have the intended effect: connections end with errors of many kinds, and many
/// continue.
#[test]
fn live_connections_are_reached() {
    let mut rng = Rng::new(1);
    let mut ends = std::collections::BTreeMap::new();
    for _ in 0..300 {
        let input: Vec<u8> = (0..32).flat_map(|_| rng.next().to_le_bytes()).collect();
        let end = live(&input).map(|error| error.to_string());
        *ends.entry(end).or_insert(0) += 1;
    }
    assert!(ends.len() > 10, "{ends:?}");
    assert!(ends.values().all(|&times| times < 200), "{ends:?}");
}
