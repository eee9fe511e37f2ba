//! A stream is in each queue at most once, and leaves nothing behind.

use super::*;
use crate::streams::sent::Sent;

/// Maximum length of a queue with a few open streams.
const MOST: usize = 64;

fn queued(of: &Streams) -> [usize; 4] {
    let [schedule, parked] = of.turns.queued();
    [schedule, parked, of.account.queued(), of.control.len()]
}

/// Data waits for the connection's credit while sent data is lost again and again.
#[test]
fn a_stream_that_repeats_waits_for_credit_in_one_place() {
    let (mut client, mut server) =
        pair_with(|config| config.initial_connection_window = PACKET as u64);
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, &[7; 3 * PACKET]).unwrap();
    let mut under_way = Vec::new();
    for _ in 0..100 {
        under_way.extend(std::iter::from_fn(|| packet(&mut client, NOW)));
        assert_eq!(queued(&client), [0, 1, 0, 0]);
        for lost in under_way.drain(..) {
            client.on_lost(&lost.sent);
        }
    }
    // It continues once there is credit.
    settle(&mut client, &mut server, NOW);
    let mut got = 0;
    while let Ok(Some(n @ 1..)) = server.read(id, &mut [0; PACKET]) {
        got += n;
        settle(&mut client, &mut server, NOW);
    }
    assert_eq!(got, 3 * PACKET);
    assert_eq!(queued(&client), [0; 4]);
}

/// Streams are opened, find no room, and are abandoned. One that is never acknowledged fills
/// the buffer; it either has all of the connection's credit, or is lost again and again and
/// keeps the turn.
#[test]
fn streams_that_are_gone_wait_nowhere() {
    for (window, lossy) in [(16 * 1024, false), (1 << 24, true)] {
        let (mut client, mut server) = pair_with(|config| {
            config.max_send_buffer = 32 * 1024;
            config.initial_connection_window = window;
            config.max_uni_streams = 100;
        });
        let first = client.open(Dir::Uni).unwrap();
        client.set_priority(first, 1).unwrap();
        while client.write(first, &[7; 10_000]).is_ok() {}
        let mut most = [0; 4];
        for _ in 0..1000 {
            let id = client.open(Dir::Uni).unwrap();
            while client.write(id, &[7; 10_000]).is_ok() {}
            while let Some(sent) = packet(&mut client, NOW) {
                deliver(&mut server, NOW, &sent.payload).unwrap();
                if lossy {
                    client.on_lost(&sent.sent);
                    break;
                }
            }
            client.reset(id, 1).unwrap();
            let sent = packet(&mut client, NOW).unwrap();
            deliver(&mut server, NOW, &sent.payload).unwrap();
            let mut only = SentFrames::default();
            only.push(Sent::Reset(id));
            acked(&mut client, &only);
            if lossy {
                client.on_lost(&sent.sent);
            }
            assert!(server.read(id, &mut [0; 10]).is_err());
            while let Some(back) = packet(&mut server, NOW) {
                deliver(&mut client, NOW, &back.payload).unwrap();
                acked(&mut server, &back.sent);
            }
            for (most, now) in most.iter_mut().zip(queued(&client)) {
                *most = now.max(*most);
            }
        }
        assert_eq!(client.open_streams(), 1);
        assert!(most.iter().all(|most| *most <= MOST), "{most:?}");
    }
}
