//! Which signal precedes our data and which packets count for it, according to the part of a
//! connection that keeps signals.

use pathmark_cc::{Carrier, Explicit};

use super::*;
use crate::Arrived;
use crate::connection::paths::Feedback;
use crate::connection::tests::questions::Question;
use crate::connection::tests::signal::{counters, mark};
use crate::wire::frame::feedback::encode;

/// Ours are the kinds 0, 1 and `KIND`, which asks. The peer offers 0, 3 and `KIND`.
fn negotiated() -> Feedback {
    between(&signals(&[0, 1, KIND]), &[0, 3, KIND])
}

/// A side that reads these signals, of which the peer offers these kinds.
fn between(own: &[Arc<dyn Signal>], peer: &[u8]) -> Feedback {
    let mut feedback = Feedback::new(own);
    feedback.negotiate(peer);
    feedback
}

fn set(feedback: &mut Feedback, kind: u8, next: u64) -> bool {
    let signal = signals(&[kind]).remove(0);
    feedback.set_signal(signal, next)
}

/// Receives packet `number` with a frame of this kind and epoch, which counts one packet of 100
/// bytes.
fn returned(feedback: &mut Feedback, kind: u8, number: u64, epoch: u64) -> bool {
    let counters = counters([1, 0, 0, 0, 100, 0, 0, 0, 0]);
    let mut room = [0; 100];
    let mut w = Writer::new(&mut room);
    encode(&mut w, kind, epoch, 0, &counters).unwrap();
    match Frames::new(w.written()).next() {
        Some(Ok(Frame::Feedback(frame))) => feedback.on_frame(number, &frame).is_some(),
        other => panic!("{other:?}"),
    }
}

/// Returns kind, time and counters of the frames sent to the peer now.
fn frames(feedback: &mut Feedback, now: Instant) -> Vec<(u8, u32, Vec<u64>)> {
    let mut room = [0; 200];
    let mut w = Writer::new(&mut room);
    feedback.write_frames(now, &mut w);
    let frames = Frames::new(w.written()).map(|frame| match frame {
        Ok(Frame::Feedback(frame)) => {
            let counters = frame.counters().as_slice().to_vec();
            (frame.kind, frame.time, counters)
        }
        other => panic!("{other:?}"),
    });
    frames.collect()
}

fn written(feedback: &mut Feedback, now: Instant) -> Vec<(u8, u32)> {
    let frames = frames(feedback, now).into_iter();
    frames.map(|(kind, time, _)| (kind, time)).collect()
}

/// Returns the counters of the frame sent now, if any.
fn counted(feedback: &mut Feedback) -> Option<Vec<u64>> {
    let mut frames = frames(feedback, Instant::ZERO).into_iter();
    frames.next().map(|(.., counters)| counters)
}

const SHIM: [u8; 12] = [0; 12];

/// An empty shim of this kind.
fn front(kind: u8) -> ShimPrefix<'static> {
    ShimPrefix::Shim { kind, bytes: &SHIM }
}

fn arrived(number: u64) -> Arrived<'static> {
    Arrived {
        shim: None,
        ecn: Ecn::NotEct,
        ttl: None,
        bytes: 100,
        now: Instant::from_millis(1),
        number,
    }
}

#[test]
fn a_signal_is_set_if_both_sides_named_its_kind() {
    let mut feedback = negotiated();
    assert_eq!(feedback.kind(), Some(0));
    for kind in [1, 3, 4] {
        assert!(!set(&mut feedback, kind, 5));
        assert_eq!(feedback.kind(), Some(0));
    }
    // It is put in front of questions only.
    assert!(set(&mut feedback, KIND, 5));
    assert!(feedback.signal().is_none());
    assert_eq!(feedback.kind(), Some(KIND));
    assert!(set(&mut feedback, 0, 5));
    assert_eq!(feedback.signal().map(Signal::kind), Some(0));
}

/// Packets sent with the same kind before continue to count. For another kind, only later packets
/// count.
#[test]
fn a_signal_that_is_set_again_goes_on_counting() {
    for (kind, rider) in [(0, ShimUse::Request(12)), (KIND, ShimUse::Question(12))] {
        let mut feedback = negotiated();
        feedback.on_sent(rider, 3, 100);
        assert!(set(&mut feedback, kind, 5));
        assert!(returned(&mut feedback, kind, 1, 3), "{kind}");
    }
    // The previous signal doesn't affect it.
    let mut feedback = between(&signals(&[0, 1]), &[0, 1]);
    feedback.on_sent(ShimUse::Request(12), 3, 100);
    assert!(set(&mut feedback, 1, 5));
    feedback.on_sent(ShimUse::Request(12), 6, 100);
    assert!(!returned(&mut feedback, 1, 1, 3));
    assert!(returned(&mut feedback, 1, 2, 5));
    // When the first signal returns, at anyone's request, the peer continues its counts.
    assert!(set(&mut feedback, 0, 7));
    assert!(returned(&mut feedback, 0, 3, 3));
    // It may speak another way than the previous one of its kind.
    let xcp = Explicit::Xcp(Default::default());
    assert!(feedback.set_signal(Arc::new(speaking(0, xcp)), 8));
    assert!(feedback.signal().is_some_and(|signal| signal.speaks(xcp)));
    assert_eq!(feedback.kind(), Some(0));
}

/// A shim whose routers answer this request.
fn speaking(kind: u8, wanted: Explicit) -> TestSignal {
    let mut signal = TestSignal::shim(kind);
    signal.speaks = Some(wanted);
    signal
}

/// A law that wants another signal gets the first of ours that speaks this way, precedes all data,
/// and is known to the peer. When the previous one is used again, it continues its counts.
#[test]
fn a_law_gets_the_signal_that_it_wants() {
    let vcp = Explicit::Vcp(Carrier::Shim);
    let xcp = Explicit::Xcp(Default::default());
    let own: Vec<Arc<dyn Signal>> = vec![
        Arc::new(speaking(0, vcp)),
        Arc::new(Question(speaking(KIND, xcp))),
        Arc::new(speaking(3, xcp)),
        Arc::new(speaking(1, xcp)),
    ];
    let mut feedback = between(&own, &[1, 0, KIND]);
    feedback.choose(vcp, 2);
    assert_eq!(feedback.kind(), Some(0));
    feedback.on_sent(ShimUse::Request(12), 3, 100);
    feedback.choose(xcp, 4);
    assert_eq!(feedback.kind(), Some(1));
    feedback.on_sent(ShimUse::Request(12), 4, 100);
    assert!(!returned(&mut feedback, 1, 1, 3));
    assert!(returned(&mut feedback, 1, 2, 4));
    feedback.choose(vcp, 5);
    assert_eq!(feedback.kind(), Some(0));
    assert!(returned(&mut feedback, 0, 3, 3));
    // No signal here carries Quick-Start.
    feedback.choose(Explicit::QuickStart, 6);
    assert_eq!(feedback.kind(), Some(0));
}

/// Feedback of routers on the path that was left is void on the new one.
#[test]
fn a_frame_about_the_path_before_tells_nothing() {
    let mut feedback = negotiated();
    feedback.on_sent(ShimUse::Request(12), 3, 100);
    feedback.on_new_outgoing_path(5);
    feedback.on_sent(ShimUse::Request(12), 5, 100);
    assert!(!returned(&mut feedback, 0, 1, 3));
    assert!(returned(&mut feedback, 0, 2, 5));
}

/// The peer's counters restart at 0 at a challenge, but not at any other frame.
#[test]
fn a_challenge_calls_for_an_epoch() {
    let mut feedback = negotiated();
    for number in 3..8 {
        feedback.on_sent(ShimUse::Request(12), number, 100);
    }
    assert!(returned(&mut feedback, 0, 1, 3));
    assert!(!returned(&mut feedback, 0, 2, 5));
    assert_eq!(feedback.disbelieved().uncalled_epochs, 1);
    feedback.on_challenge_sent();
    assert!(returned(&mut feedback, 0, 3, 5));
    assert_eq!(feedback.disbelieved().total(), 1);
}

/// A signal in the ECN field is counted for a peer that offers it. A signal in a shim is counted
/// from the first shim on.
#[test]
fn what_goes_back_is_what_the_peer_can_read() {
    let ecn = TestSignal::in_ecn(5);
    let own: Vec<Arc<dyn Signal>> = vec![Arc::new(ecn), Arc::new(TestSignal::shim(0))];
    for (peer, expected) in [(&[0][..], &[][..]), (&[0, 5], &[5])] {
        let mut feedback = between(&own, peer);
        assert!(!feedback.on_packet(ShimPrefix::Bad, arrived(1)));
        let frames = written(&mut feedback, Instant::ZERO).into_iter();
        assert_eq!(frames.map(|(kind, _)| kind).collect::<Vec<_>>(), expected);
        // Kind 0 has a shim, kind 5 a field.
        assert_eq!(feedback.has_shim(), peer == [0]);
    }
}

#[test]
fn shims_of_each_kind_have_counters_of_their_own() {
    let mut feedback = negotiated();
    for kind in [0, 1, 0, 1, 1] {
        assert!(feedback.on_packet(front(kind), arrived(1)));
    }
    assert_eq!(written(&mut feedback, Instant::ZERO), [(0, 0), (1, 0)]);
}

#[test]
fn a_kind_that_both_sides_named_goes_in_front_of_data() {
    assert!(!Feedback::new(&[]).offered() && negotiated().offered());
    for (own, peer, kind, asks) in [
        (&[0, 1][..], &[1, 0][..], Some(0), false),
        (&[0, 1], &[1], Some(1), false),
        (&[0, 1], &[3], None, false),
        (&[0, KIND], &[0, KIND], Some(0), true),
        (&[0, KIND], &[0], Some(0), false),
        (&[0, KIND], &[KIND], None, true),
        // A side that prefers the signal that asks doesn't want another one.
        (&[KIND, 0], &[0, KIND], None, true),
    ] {
        let feedback = between(&signals(own), peer);
        let found = feedback.signal().map(Signal::kind);
        assert_eq!(found, kind, "{own:?} {peer:?}");
        assert_eq!(feedback.question_len() > 0, asks, "{own:?} {peer:?}");
    }
}

/// A client asks before the handshake is complete for the kinds that the server accepted the last
/// time. The answer counts unless the server refuses early data or questions.
#[test]
fn a_question_in_early_data_is_answered() {
    let own = signals(&[0, KIND]);
    for kinds in [None, Some(&[0][..])] {
        let mut feedback = Feedback::new(&own);
        feedback.remember(kinds);
        assert_eq!(feedback.question_len(), 0);
    }
    for (refused, now, answered) in [
        (false, &[KIND][..], true),
        (true, &[KIND], false),
        (false, &[0], false),
    ] {
        let mut feedback = Feedback::new(&own);
        feedback.remember(Some(&[KIND, 0]));
        assert!(feedback.question_len() > 0 && feedback.signal().is_none());
        feedback.on_sent(ShimUse::Question(12), 3, 100);
        if refused {
            feedback.remember(None);
        }
        feedback.negotiate(now);
        assert_eq!(returned(&mut feedback, KIND, 1, 3), answered, "{now:?}");
    }
}

/// A router's value is in the shim. A packet with a damaged shim counts without it.
#[test]
fn shims_are_counted_by_what_is_in_them() {
    let mut shim = [0; 12];
    signals(&[0])[0].fill(&Default::default(), &mut shim);
    assert!(mark(&mut shim, 2, 9));
    let front = |kind| ShimPrefix::Shim { kind, bytes: &shim };
    let mut feedback = negotiated();
    assert!(!feedback.on_packet(ShimPrefix::Plain, arrived(1)));
    // We read no such kind.
    assert!(!feedback.on_packet(front(7), arrived(2)));
    assert_eq!(counted(&mut feedback), None);
    assert!(feedback.on_packet(front(0), arrived(3)));
    let one = Some(vec![0, 0, 1, 0, 0, 0, 100, 0, 9]);
    assert_eq!(counted(&mut feedback), one);
    assert!(!feedback.on_packet(ShimPrefix::Bad, arrived(4)));
    let damaged = vec![1, 0, 1, 0, 100, 0, 100, 0, 9];
    assert_eq!(counted(&mut feedback), Some(damaged));
    assert!(!feedback.on_packet(ShimPrefix::Plain, arrived(5)));
    assert_eq!(counted(&mut feedback), None);
    // The peer's next packets arrive on another path.
    feedback.on_new_incoming_path();
    assert!(feedback.on_packet(front(0), arrived(6)));
    assert_eq!(counted(&mut feedback), one);
}

#[test]
fn early_packets_count_if_they_ask() {
    let mut feedback = negotiated();
    assert!(feedback.is_question(front(KIND)) && !feedback.is_question(front(0)));
    assert!(!feedback.is_question(front(7)) && !feedback.is_question(ShimPrefix::Plain));
    assert!(!feedback.on_early_packet(front(0), arrived(1)));
    assert!(!feedback.on_early_packet(ShimPrefix::Plain, arrived(1)));
    assert!(feedback.on_early_packet(front(KIND), arrived(1)));
    let mut unnamed = between(&signals(&[KIND]), &[0]);
    assert!(!unnamed.on_early_packet(front(KIND), arrived(1)));
}

/// The code of a signal in the ECN field isn't a mark.
#[test]
fn a_mark_means_congestion_unless_a_signal_has_the_field() {
    assert_eq!(negotiated().mark(Ecn::Ce), Ecn::Ce);
    let feedback = between(&[Arc::new(TestSignal::in_ecn(5))], &[5]);
    assert_eq!(feedback.mark(Ecn::Ce), Ecn::NotEct);
    let mut shim = negotiated();
    assert!(shim.on_packet(front(0), arrived(1)));
    assert_eq!(shim.mark(Ecn::Ce), Ecn::Ce);
}

/// The clock is in microseconds, and wraps after roughly 18 minutes.
#[test]
fn a_frame_reports_when_it_was_written() {
    for micros in [1_234_567, u64::from(TIME_MODULUS) + 89] {
        let mut feedback = negotiated();
        assert!(feedback.on_packet(front(0), arrived(1)));
        let now = Instant::ZERO + crate::Duration::from_micros(micros);
        let time = (micros % u64::from(TIME_MODULUS)) as u32;
        assert_eq!(written(&mut feedback, now), [(0, time)]);
        assert_eq!(written(&mut feedback, now), []);
    }
}
