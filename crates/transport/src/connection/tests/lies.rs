//! Receivers that send false FEEDBACK frames. Whatever they report, and in any order, no packet
//! counts twice, and none that wasn't sent.

use proptest::prelude::*;

use super::*;
use crate::wire::frame::feedback;

/// A client whose packets a router marks LOW, and a server that may report anything.
fn pair() -> Pair {
    let mut pair = Pair::with(Setup::with_shims());
    pair.record = true;
    pair.tap = Some(Box::new(|_, datagram| {
        if datagram.from.port() != 443 {
            mark(&mut datagram.bytes, 1, 9);
        }
    }));
    pair.connect();
    pair
}

/// Sends a FEEDBACK frame of the server that reports `packets` packets with `bytes` bytes in this
/// epoch, all LOW, and `time` as its clock.
fn claim(pair: &mut Pair, epoch: u64, packets: u64, bytes: u64, time: u32) {
    let counters = counters([0, packets, 0, 0, 0, bytes, 0, 0, 9]);
    let mut buffer = [0; 200];
    let mut w = Writer::new(&mut buffer);
    feedback::encode(&mut w, 0, epoch, time, &counters).unwrap();
    let payload = w.written().to_vec();
    send(pair, From::Server, SpaceId::Data, &payload);
    pair.run(Duration::from_millis(60));
}

/// Returns the number of the client's next packet.
fn next(pair: &mut Pair) -> u64 {
    let recovery = &mut pair.client.get().spaces.recovery;
    recovery.space(SpaceId::Data).sent().next_number()
}

/// Returns the packets and bytes reported to the client's controller, and those that the client
/// sent with the signal.
fn reported_and_sent(pair: &Pair) -> ([u64; 2], [u64; 2]) {
    let log = pair.client.log().feedback;
    let shims = pair.client.sent.iter().filter(|d| d[0] & 0xf8 == 8);
    let sent = shims.fold([0, 0], |[packets, bytes], d| {
        [packets + 1, bytes + d.len() as u64]
    });
    ([log.packets.iter().sum(), log.bytes.iter().sum()], sent)
}

#[track_caller]
fn believed_within_reason(pair: &Pair) {
    let (reported, sent) = reported_and_sent(pair);
    let less = reported[0] <= sent[0] && reported[1] <= sent[1];
    assert!(less, "{reported:?} of {sent:?}");
}

#[test]
fn a_new_epoch_in_each_frame_counts_nothing_again() {
    let mut pair = pair();
    pair.upload(500_000, Duration::from_secs(10));
    let next_number = next(&mut pair);
    for epoch in (0..next_number).step_by(7) {
        let packets = next_number - epoch;
        claim(&mut pair, epoch, packets, packets * 1200, 0);
    }
    believed_within_reason(&pair);
    let disbelieved = pair.client.get().path_report(pair.now).disbelieved;
    assert!(disbelieved.uncalled_epochs > 20, "{disbelieved:?}");
    let bad = pair.client.get().stats().feedback_bad;
    assert_eq!(bad, disbelieved.total());
}

#[test]
fn each_kind_of_lie_is_counted_by_its_kind() {
    let mut pair = pair();
    pair.upload_and_run(100_000, 10, Duration::from_millis(100));
    let next_number = next(&mut pair);
    let epoch = pair.client.get().paths.path.feedback.epoch().unwrap();
    let (before, sent) = reported_and_sent(&pair);
    claim(&mut pair, epoch, sent[0] + 1000, sent[1], 0);
    claim(&mut pair, epoch, 1, 1200, 0);
    claim(&mut pair, epoch, before[0], 1 << 40, 0);
    claim(&mut pair, next_number + 1000, 1, 1200, 0);
    claim(&mut pair, epoch + 1, 1, 1200, 0);
    let disbelieved = pair.client.get().path_report(pair.now).disbelieved;
    let kinds = [
        disbelieved.packets,
        disbelieved.backwards,
        disbelieved.sums,
        disbelieved.unsent_epochs,
        disbelieved.uncalled_epochs,
    ];
    assert_eq!(kinds, [1; 5], "{disbelieved:?}");
    believed_within_reason(&pair);
    // True reports continue to count.
    pair.upload_and_run(100_000, 10, Duration::from_millis(100));
    let (reported, sent) = reported_and_sent(&pair);
    assert_eq!(reported, sent);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn any_words_in_any_order(
        words in prop::collection::vec(
            (0..4u8, 0..200u64, 0..300u64, 0..400_000u64, 0..1u32 << 30),
            1..25,
        ),
    ) {
        let mut pair = pair();
        pair.upload(30_000, Duration::from_secs(10));
        for (kind, back, packets, bytes, time) in words {
            let next_number = next(&mut pair);
            match kind {
                0 => _ = pair.upload(20_000, Duration::from_secs(10)),
                1 => _ = pair.client.get().migrate(pair.now, None),
                _ => claim(&mut pair, next_number.saturating_sub(back), packets, bytes, time),
            }
            believed_within_reason(&pair);
        }
        pair.upload(30_000, Duration::from_secs(30));
    }
}
