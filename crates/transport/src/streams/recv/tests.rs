use super::*;
use crate::streams::Record;
use crate::wire::StreamId;

const NOW: Instant = Instant::ZERO;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Offset, length, end of the stream.
    Data(u64, usize, bool),
    /// Final size.
    Reset(u64),
    /// Reads everything, including the end or the reset if it is next.
    Read,
    Stop,
}

fn part(stream: u64, connection: u64) -> (RecvPart, ReceiveWindow) {
    let part = RecvPart::new(ReceiveWindow::new(stream, stream));
    (part, ReceiveWindow::new(connection, connection))
}

fn apply(part: &mut RecvPart, conn: &mut ReceiveWindow, step: Step) -> Result<(), RecvError> {
    match step {
        Step::Data(offset, len, fin) => {
            part.on_data(NOW, None, offset, &vec![1; len], fin, conn)?;
        }
        Step::Reset(size) => part.on_reset(NOW, None, 5, size, conn)?,
        Step::Read => while matches!(part.read(&mut [0; 7], conn), Ok(Some(_))) {},
        Step::Stop => {
            part.stop(3, conn).unwrap();
        }
    }
    Ok(())
}

/// RFC 9000 §3.2, figure 3.
#[test]
fn states() {
    use RecvState as S;
    use Step::{Data, Read, Reset, Stop};
    let table: &[(&[Step], &[S])] = &[
        (
            &[
                Data(0, 9, false),
                Data(20, 9, true),
                Data(9, 11, false),
                Read,
            ],
            &[S::Recv, S::SizeKnown, S::DataRecvd, S::DataRead],
        ),
        (&[Data(0, 0, true), Read], &[S::DataRecvd, S::DataRead]),
        (
            &[Data(0, 10, true), Data(0, 10, true), Read],
            &[S::DataRecvd, S::DataRecvd, S::DataRead],
        ),
        (
            &[Data(0, 10, false), Reset(30), Read],
            &[S::Recv, S::ResetRecvd, S::ResetRead],
        ),
        (
            &[Data(5, 10, true), Reset(15), Data(0, 5, false), Read],
            &[S::SizeKnown, S::ResetRecvd, S::ResetRecvd, S::ResetRead],
        ),
        // A reset after all data has arrived is ignored.
        (
            &[Data(0, 10, true), Reset(10), Read],
            &[S::DataRecvd, S::DataRecvd, S::DataRead],
        ),
        // A stopped part is done once its final size is known.
        (
            &[Data(0, 10, false), Stop, Data(10, 10, true)],
            &[S::Recv, S::Recv, S::DataRead],
        ),
        (&[Stop, Reset(10)], &[S::Recv, S::ResetRead]),
        (&[Reset(10), Stop], &[S::ResetRecvd, S::ResetRead]),
    ];
    for (steps, states) in table {
        let (mut part, mut conn) = part(1000, 1000);
        let got = steps.iter().map(|step| {
            apply(&mut part, &mut conn, *step).unwrap();
            part.state()
        });
        let got: Vec<_> = got.collect();
        assert_eq!(&got, states, "{steps:?}");
        if part.is_done() {
            assert_eq!(conn.pending(), 0, "{steps:?}: all credit is given back");
            assert!(part.kept().memory <= 1024);
        }
    }
}

/// RFC 9000 §4.1, §4.5.
#[test]
fn what_a_peer_must_not_do() {
    // [9000 4.1 credit-exceeded] [9000 4.5 final-size-counts]
    use RecvError::{ConnectionLimit, FinalSize, StreamLimit};
    use Step::{Data, Reset, Stop};
    let table: &[(&[Step], RecvError)] = &[
        (&[Data(0, 10, true), Data(10, 1, false)], FinalSize),
        (&[Data(0, 10, true), Data(0, 9, true)], FinalSize),
        (&[Data(0, 10, true), Data(0, 11, true)], FinalSize),
        (&[Data(5, 10, false), Data(0, 5, true)], FinalSize),
        (&[Data(0, 10, true), Reset(11)], FinalSize),
        (&[Data(0, 10, false), Reset(9)], FinalSize),
        (&[Reset(10), Reset(11)], FinalSize),
        (&[Reset(10), Data(5, 6, false)], FinalSize),
        (&[Stop, Data(0, 10, false), Reset(9)], FinalSize),
        (&[Data(0, 101, false)], StreamLimit),
        (&[Data(100, 1, false)], StreamLimit),
        (&[Data(u64::MAX, 1, false)], StreamLimit),
        (&[Reset(101)], StreamLimit),
        (&[Stop, Data(100, 1, false)], StreamLimit),
        (&[Data(90, 10, false)], ConnectionLimit),
        (&[Reset(100)], ConnectionLimit),
    ];
    for (steps, error) in table {
        let connection = if *error == ConnectionLimit { 99 } else { 1000 };
        let (mut part, mut conn) = part(100, connection);
        let (last, before) = steps.split_last().unwrap();
        for step in before {
            apply(&mut part, &mut conn, *step).unwrap();
        }
        assert_eq!(apply(&mut part, &mut conn, *last), Err(*error), "{steps:?}");
    }
}

#[test]
fn what_is_discarded_gives_its_credit_back_at_once() {
    let (mut part, mut conn) = part(1000, 1000);
    apply(&mut part, &mut conn, Step::Data(500, 100, false)).unwrap();
    assert_eq!(conn.pending(), 600);
    apply(&mut part, &mut conn, Step::Stop).unwrap();
    assert_eq!(conn.pending(), 0);
    assert_eq!(part.stop_frame(), Some(3));
    apply(&mut part, &mut conn, Step::Data(600, 200, false)).unwrap();
    assert_eq!((conn.pending(), part.kept().memory), (0, 0));
    apply(&mut part, &mut conn, Step::Reset(900)).unwrap();
    assert_eq!((conn.pending(), part.stop_frame()), (0, None));
    assert_eq!(part.stop(4, &mut conn), Err(ClosedStream));
}

/// Credit for bytes that were read isn't returned again when the rest is discarded.
#[test]
fn credit_is_given_back_once() {
    for ends in [Step::Stop, Step::Reset(900)] {
        let (mut part, mut conn) = part(1000, 3000);
        let (mut other, _) = self::part(1000, 0);
        apply(&mut other, &mut conn, Step::Data(0, 1000, false)).unwrap();
        apply(&mut part, &mut conn, Step::Data(0, 900, false)).unwrap();
        assert_eq!(part.read(&mut [0; 200], &mut conn), Ok(Some(200)));
        assert_eq!(part.read(&mut [0; 300], &mut conn), Ok(Some(300)));
        assert_eq!(conn.pending(), 1400);
        apply(&mut part, &mut conn, ends).unwrap();
        assert_eq!(conn.pending(), 1000, "what the other holds, {ends:?}");
    }
}

/// A part counts as readable if a read would not return `Blocked`.
#[test]
fn readable_is_what_a_read_would_not_wait_for() {
    use Step::{Data, Read, Reset, Stop};
    let table: &[(&[Step], bool)] = &[
        (&[], false),
        (&[Data(5, 10, false)], false),
        (&[Data(5, 10, false), Data(0, 5, false)], true),
        (&[Data(0, 10, false), Read], false),
        (&[Data(0, 10, false), Read, Data(10, 0, true)], true),
        (&[Data(5, 5, true)], false),
        (&[Data(5, 5, true), Reset(10)], true),
        (&[Data(0, 10, true), Read], true),
        (&[Stop], true),
    ];
    for (steps, readable) in table {
        let (mut part, mut conn) = part(1000, 1000);
        for step in *steps {
            apply(&mut part, &mut conn, *step).unwrap();
        }
        assert_eq!(part.is_readable(), *readable, "{steps:?}");
        let waits = part.read(&mut [0; 1], &mut conn) == Err(ReadError::Blocked);
        assert_eq!(waits, !readable, "{steps:?}");
    }
}

/// Data takes no memory if every byte has arrived before.
#[test]
fn what_is_there_is_not_kept_again() {
    let (mut part, mut conn) = part(1000, 1000);
    apply(&mut part, &mut conn, Step::Data(0, 10, false)).unwrap();
    assert!(part.keeps(0, 11) && part.keeps(9, 2) && part.keeps(500, 1));
    assert!(!part.keeps(0, 10) && !part.keeps(3, 2) && !part.keeps(10, 0));
}

#[test]
fn end_and_reset_are_reported_once() {
    let (mut part, mut conn) = part(1000, 1000);
    assert_eq!(part.read(&mut [0; 4], &mut conn), Err(ReadError::Blocked));
    apply(&mut part, &mut conn, Step::Data(0, 6, true)).unwrap();
    assert_eq!(part.read(&mut [0; 4], &mut conn), Ok(Some(4)));
    assert_eq!(part.read_chunk(9, &mut conn).unwrap().unwrap().len(), 2);
    assert_eq!(part.read(&mut [0; 4], &mut conn), Ok(None));
    assert_eq!(part.read(&mut [0; 4], &mut conn), Err(ReadError::Closed));

    let (mut part, mut conn) = self::part(1000, 1000);
    apply(&mut part, &mut conn, Step::Data(0, 6, false)).unwrap();
    apply(&mut part, &mut conn, Step::Reset(6)).unwrap();
    assert_eq!(part.read(&mut [0; 4], &mut conn), Err(ReadError::Reset(5)));
    assert_eq!(part.read(&mut [0; 4], &mut conn), Err(ReadError::Closed));
}

/// Skipping returns credit like reading, reports the end once, and ends reading.
#[test]
fn what_is_skipped_is_consumed() {
    let (mut part, mut conn) = part(100, 100);
    apply(&mut part, &mut conn, Step::Data(0, 60, false)).unwrap();
    assert_eq!(part.skip(&mut conn), Ok(Some(60)));
    assert_eq!(part.skip(&mut conn), Err(ReadError::Blocked));
    assert!(part.update_due() && conn.update_due());
    apply(&mut part, &mut conn, Step::Data(60, 30, true)).unwrap();
    assert_eq!(part.read(&mut [0; 7], &mut conn), Err(ReadError::Closed));
    assert_eq!(part.read_chunk(7, &mut conn), Err(ReadError::Closed));
    assert_eq!(part.state(), RecvState::DataRecvd);
    assert_eq!(part.skip(&mut conn), Ok(Some(30)));
    assert_eq!(part.skip(&mut conn), Ok(None));
    assert_eq!(part.skip(&mut conn), Err(ReadError::Closed));
    assert_eq!(part.state(), RecvState::DataRead);
}

#[test]
fn credit_is_renewed_only_while_data_is_expected() {
    let (mut part, mut conn) = part(100, 1000);
    apply(&mut part, &mut conn, Step::Data(0, 90, false)).unwrap();
    assert!(!part.update_due());
    apply(&mut part, &mut conn, Step::Read).unwrap();
    assert!(part.update_due());
    apply(&mut part, &mut conn, Step::Data(90, 10, true)).unwrap();
    assert!(!part.update_due());
}

/// A byte beyond a gap also charges the stream's record, until the stream is idle.
#[test]
fn a_stream_that_holds_data_is_charged_for_itself() {
    let (mut part, mut conn) = part(100, 100);
    assert_eq!(part.kept().memory, 0);
    apply(&mut part, &mut conn, Step::Data(5, 1, false)).unwrap();
    let kept = part.kept().memory;
    assert!(kept > part.buffer.memory() + size_of::<Record>(), "{kept}");
    apply(&mut part, &mut conn, Step::Data(0, 5, false)).unwrap();
    apply(&mut part, &mut conn, Step::Read).unwrap();
    assert_eq!(part.kept().memory, part.buffer.memory());
    assert!(part.kept().memory < size_of::<Record>());
}

/// Idle streams aren't charged, according to `docs/transport.md`.
#[test]
fn a_stream_at_rest_takes_less_than_800_bytes() {
    let at_rest = size_of::<Record>() + 2 * size_of::<(StreamId, Box<Record>)>();
    println!("{at_rest} bytes");
    assert!(at_rest < 800, "{at_rest}");
}
