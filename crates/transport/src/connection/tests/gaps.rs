//! Flow control while the data to be read next is missing.

use super::*;

fn id(index: u64) -> StreamId {
    inject::id(Side::Client, Dir::Uni, index)
}

/// A client with a window of `window` bytes, and its first stream.
fn pair(seed: u64, window: u64, latency: Duration) -> Pair {
    Pair::connected(Setup {
        seed,
        latency,
        ..Setup::with_window(window)
    })
}

/// The client opens stream 0 without sending on it, while the server's application waits for it.
fn with_a_waiting_reader(mut pair: Pair) -> Pair {
    pair.client.open();
    piece(&mut pair, 0, b"");
    pair.run(Duration::from_millis(15));
    let server = pair.server.get().streams();
    assert_eq!(server.accept(Dir::Uni), Some(id(0)));
    assert_eq!(server.read(id(0), &mut [0; 9]), Err(ReadError::Blocked));
    pair
}

fn piece(pair: &mut Pair, offset: u64, data: &[u8]) {
    let frame = inject::stream(id(0), offset, data, false);
    send_frames(pair, From::Client, &[frame]);
}

fn window(pair: &mut Pair) -> u64 {
    pair.server.get().streams().receiving.window()
}

/// 5 % loss, 160 Mbit/s, 550 ms: from the first flight on, most of the received data waits for a
/// retransmission.
#[test]
fn a_flight_with_losses_is_not_held_up_by_the_receive_window() {
    let time = |initial: Option<u64>| {
        let mut setup = Setup {
            seed: 5,
            latency: Duration::from_millis(275),
            ..Setup::with_window(11 << 20)
        };
        if let Some(window) = initial {
            setup.server.streams.initial_connection_window = window;
            setup.server.streams.initial_stream_window = window;
        }
        let mut pair = Pair::connected(setup);
        pair.up.rate = Some(20_000_000);
        pair.up.faults.loss = 50_000;
        pair.upload(40 << 20, Duration::from_secs(60))
    };
    let (wide, grown) = (time(Some(1 << 30)), time(None));
    let most = wide + Duration::from_millis(1100);
    assert!(grown <= most, "{grown:?} {wide:?}");
}

#[test]
fn far_offsets_grow_no_window_while_the_application_waits() {
    let mut pair = with_a_waiting_reader(pair(1, 1 << 20, Duration::from_millis(10)));
    let initial = window(&mut pair);
    for i in 1..=60 {
        piece(&mut pair, i * 16_000, b"x");
        pair.run(Duration::from_millis(5));
    }
    assert_eq!((pair.client.error(), pair.server.error()), (None, None));
    assert_eq!(window(&mut pair), initial);
}

#[test]
fn a_gap_in_an_unread_stream_grows_no_window() {
    let mut pair = pair(1, 1 << 20, Duration::from_millis(10));
    pair.client.open();
    let initial = window(&mut pair);
    for i in 0..800 {
        piece(&mut pair, 1 + i * 1100, &[7; 1100]);
        if i % 20 == 19 {
            pair.run(Duration::from_millis(5));
        }
    }
    assert_eq!((pair.client.error(), pair.server.error()), (None, None));
    assert_eq!(window(&mut pair), initial);
}

/// Peers that omit the first byte, send 4 MB/s in total after it, and never close the gap.
#[test]
fn gaps_that_stay_hold_bounded_memory_and_an_honest_peer_goes_on() {
    let memory = Arc::new(ReceiveMemory::new(16 << 20));
    let peers = (0..16).map(|seed| {
        let mut pair = pair(100 + seed, 1 << 20, Duration::from_millis(10));
        pair.share(&memory);
        with_a_waiting_reader(pair)
    });
    let mut hostile: Vec<Pair> = peers.collect();
    for round in 0..100 {
        for pair in &mut hostile {
            for i in 0..6 {
                piece(pair, 1 + (round * 6 + i) * 1100, &[7; 1100]);
            }
            pair.run(Duration::from_millis(25));
        }
    }
    assert!(hostile.iter().all(|pair| pair.server.error().is_none()));
    // The memory that each was promised at first, including the bits that mark present bytes. The
    // part that they earned is within the memory.
    let held = memory.held();
    assert!(held <= 16 * (1536 << 10) * 9 / 8 + (16 << 20), "{held}");

    let mut honest = pair(7, 1 << 20, Duration::from_millis(10));
    let alone = pair(7, 1 << 20, Duration::from_millis(10));
    honest.share(&memory);
    super::memory::arrives_as_if_alone(&mut honest, alone);
    drop(hostile);
    drop(honest);
    assert_eq!(memory.held(), 0);
}
