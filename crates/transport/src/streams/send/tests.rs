use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Write(usize),
    Finish,
    /// Sends everything possible in one frame.
    Send,
    /// The outcome of the n-th frame sent.
    Ack(usize),
    Lose(usize),
    Reset,
    Stop,
    ResetAcked,
}

/// Runs `steps` and returns the state after each.
fn run(steps: &[Step]) -> Vec<SendState> {
    let mut part = SendPart::new(1000);
    let mut frames = Vec::new();
    let states = steps.iter().map(|step| {
        match *step {
            Step::Write(n) => part.write(&vec![0; n]),
            Step::Finish => part.finish().unwrap(),
            Step::Send => frames.push(part.take(u64::MAX, u64::MAX).unwrap()),
            Step::Ack(n) => {
                part.on_acked(frames[n].range.clone(), frames[n].fin);
            }
            Step::Lose(n) => part.on_lost(frames[n].range.clone(), frames[n].fin),
            Step::Reset => part.reset(9).unwrap(),
            Step::Stop => {
                part.on_stop_sending(9);
            }
            Step::ResetAcked => part.on_reset_acked(),
        }
        part.state()
    });
    states.collect()
}

/// RFC 9000 §3.1, figure 2.
#[test]
fn states() {
    use SendState::{DataRecvd, DataSent, Ready, ResetRecvd, ResetSent, Send as Sending};
    use Step::{Ack, Finish, Lose, Reset, ResetAcked, Send, Stop, Write};
    let table: &[(&[Step], &[SendState])] = &[
        (
            &[Write(10), Send, Finish, Send, Ack(0), Ack(1)],
            &[Ready, Sending, Sending, DataSent, DataSent, DataRecvd],
        ),
        (&[Finish, Send, Ack(0)], &[Ready, DataSent, DataRecvd]),
        (
            &[Write(10), Finish, Send, Lose(0), Send, Ack(0)],
            &[Ready, Ready, DataSent, DataSent, DataSent, DataRecvd],
        ),
        (
            &[Write(10), Send, Finish, Send, Lose(0), Ack(1), Send, Ack(2)],
            &[
                Ready, Sending, Sending, DataSent, DataSent, DataSent, DataSent, DataRecvd,
            ],
        ),
        (&[Reset, ResetAcked], &[ResetSent, ResetRecvd]),
        (
            &[Write(10), Send, Stop, Ack(0), ResetAcked],
            &[Ready, Sending, ResetSent, ResetSent, ResetRecvd],
        ),
        (
            &[Write(10), Finish, Send, Reset, Lose(0), ResetAcked],
            &[Ready, Ready, DataSent, ResetSent, ResetSent, ResetRecvd],
        ),
        // Once all data is acknowledged, a late STOP_SENDING changes nothing.
        (
            &[Finish, Send, Ack(0), Stop],
            &[Ready, DataSent, DataRecvd, DataRecvd],
        ),
    ];
    for (steps, states) in table {
        assert_eq!(&run(steps), states, "{steps:?}");
    }
}

#[test]
fn credit_of_stream_and_connection_bounds_what_is_new_but_not_what_was_lost() {
    // [9000 2.2 within-limits]
    let mut part = SendPart::new(100);
    part.write(&[0; 150]);
    assert!(part.has_fresh() && !part.has_old() && !part.is_stalled());
    let first = part.take(80, 60).unwrap();
    assert_eq!((first.range.clone(), first.fresh), (0..60, 60));
    let second = part.take(80, 1000).unwrap();
    assert_eq!((second.range, second.fresh), (60..100, 40));
    assert!(part.is_stalled() && part.block() && !part.block());
    assert_eq!(part.blocked_at(), Some(100));
    assert_eq!(part.take(80, 1000), None);
    part.on_lost(first.range, first.fin);
    assert!(part.has_old());
    assert_eq!(part.next(0), (0, 60));
    let again = part.take(50, 0).unwrap();
    assert_eq!((again.range, again.fresh), (0..50, 0));
    assert!(part.on_max_stream_data(200));
    assert_eq!(part.blocked_at(), None);
    part.take(50, 0).unwrap();
    assert_eq!(part.take(80, 1000).map(|p| p.range), Some(100..150));
}

#[test]
fn the_end_goes_with_the_last_data_or_alone() {
    // [9000 4.5 beyond-final-size]
    let mut part = SendPart::new(100);
    part.write(&[0; 20]);
    part.finish().unwrap();
    assert!(!part.has_old(), "the end waits for its data");
    let piece = part.take(10, 1000).unwrap();
    assert!(!piece.fin);
    let piece = part.take(10, 1000).unwrap();
    assert!(piece.fin && piece.range == (10..20));
    assert_eq!(part.take(10, 1000), None);
    part.on_acked(0..20, false);
    part.on_lost(10..20, true);
    assert!(part.has_old());
    let alone = part.take(10, 0).unwrap();
    assert!(alone.fin && alone.range.is_empty() && alone.range.start == 20);
    assert!(!part.has_old());
}

#[test]
fn writing_ends_with_finish_reset_or_the_peers_wish() {
    // [9000 3.3 after-the-end] [9000 3.5 stop-answered]
    let mut part = SendPart::new(100);
    assert_eq!(part.check_writable(), Ok(()));
    part.finish().unwrap();
    assert_eq!(part.check_writable(), Err(WriteError::Closed));
    assert_eq!(part.finish(), Err(WriteError::Closed));
    assert!(part.on_stop_sending(7));
    assert!(!part.on_stop_sending(8));
    assert_eq!(part.check_writable(), Err(WriteError::Stopped(7)));
    assert_eq!(part.reset(1), Err(ClosedStream));
    assert_eq!(part.reset_frame(), Some((7, 0)));
    part.on_reset_acked();
    assert_eq!(part.reset_frame(), None);
}

#[test]
fn a_reset_tells_what_was_sent() {
    // [9000 3.3 after-the-end]
    let mut part = SendPart::new(100);
    part.write(&[0; 50]);
    part.take(30, 1000).unwrap();
    part.reset(4).unwrap();
    assert_eq!(part.reset_frame(), Some((4, 30)));
    assert_eq!(part.unacked(), 0);
    assert!(!part.has_old() && !part.has_fresh());
    part.on_lost(0..30, false);
    assert!(!part.has_old());
}
