//! Both ends over a path of one packet at a time, whose losses the test chooses, and the timeout.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::engine::tcp::{TcpReceiver, room};

const PAYLOAD: u16 = 972;
/// One-way delay.
const DELAY: Duration = Duration::from_millis(50);

/// A sender, its receiver, and datagrams on the way.
struct Path {
    now: Instant,
    sender: TcpSender,
    receiver: TcpReceiver,
    segments: VecDeque<(Instant, u64, Vec<u8>)>,
    acks: VecDeque<(Instant, Vec<u8>)>,
    /// Numbers in the order in which they were sent.
    sent: Vec<u64>,
}

impl Path {
    fn new(bytes: Option<u64>, receive_window: Option<u64>) -> Self {
        let segment = room(PAYLOAD, 0);
        Self {
            now: Instant::ZERO,
            sender: TcpSender::new(TcpSetup {
                shim: None,
                datagram: PAYLOAD,
                segment,
                start: Instant::ZERO,
                stop: None,
                bytes,
                receive_window,
            }),
            receiver: TcpReceiver::new(0, segment, bytes),
            segments: VecDeque::new(),
            acks: VecDeque::new(),
            sent: Vec::new(),
        }
    }

    fn send(&mut self) {
        let remote = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 1);
        let mut buffer = vec![0; 2000];
        while let Some(sent) = self.sender.poll_transmit(self.now, remote, &mut buffer) {
            let datagram = buffer[..sent.len].to_vec();
            let number = Segment::read(&datagram).unwrap().number;
            self.sent.push(number);
            self.segments
                .push_back((self.now + DELAY, number, datagram));
        }
        while let Some(sent) = self.receiver.poll_transmit(remote, &mut buffer) {
            let datagram = buffer[..sent.len].to_vec();
            self.acks.push_back((self.now + DELAY, datagram));
        }
    }

    /// Runs until nothing is left to do, or the time is over. The closures return false for the
    /// n-th transmission of a segment, or for an acknowledgement, that is lost.
    fn run(
        &mut self,
        until: Duration,
        mut passes: impl FnMut(u64, usize) -> bool,
        mut returns: impl FnMut() -> bool,
    ) {
        let mut times: Vec<usize> = Vec::new();
        loop {
            let next = [
                self.sender.deadline(),
                self.segments.front().map(|held| held.0),
                self.acks.front().map(|held| held.0),
            ];
            let Some(next) = next.into_iter().flatten().min() else {
                return;
            };
            if next - Instant::ZERO > until {
                return;
            }
            self.now = next;
            while let Some((_, number, datagram)) = self.segments.pop_front_if(|h| h.0 <= next) {
                let number = usize::try_from(number).unwrap();
                times.resize(times.len().max(number + 1), 0);
                times[number] += 1;
                if passes(number as u64, times[number]) {
                    self.receiver.on_datagram(next, &datagram);
                }
            }
            while let Some((_, datagram)) = self.acks.pop_front_if(|held| held.0 <= next) {
                if returns() {
                    self.sender.on_datagram(next, &datagram);
                }
            }
            if self.sender.deadline().is_some_and(|at| at <= next) {
                self.sender.on_time(next);
            }
            self.send();
        }
    }
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_file_arrives_once_without_losses() {
    let mut path = Path::new(Some(100_000), None);
    path.run(MINUTE, |_, _| true, || true);
    assert_eq!(path.receiver.delivered(), 100_000);
    assert!(path.receiver.completed().is_some());
    assert_eq!((path.sender.repeated(), path.sender.timeouts()), (0, 0));
    // 106 segments of 948 bytes; the window doubles each round trip of 100 ms from 2 on.
    assert_eq!(path.sender.sent(), 106);
    assert!(path.now - Instant::ZERO <= Duration::from_millis(600));
}

#[test]
fn one_loss_is_repaired_by_a_fast_retransmit_that_halves_the_window() {
    let mut path = Path::new(Some(100_000), None);
    path.run(MINUTE, |number, time| number != 20 || time > 1, || true);
    assert_eq!(path.receiver.delivered(), 100_000);
    assert_eq!((path.sender.repeated(), path.sender.timeouts()), (1, 0));
    assert!(path.sender.threshold < 20, "{}", path.sender.threshold);
}

#[test]
fn a_lost_repair_waits_for_the_timeout_and_what_arrived_is_sent_again() {
    let mut path = Path::new(Some(100_000), None);
    let passes = |number, time| match number {
        20 => time > 2,
        22 => time > 1,
        _ => true,
    };
    path.run(MINUTE, passes, || true);
    assert_eq!(path.receiver.delivered(), 100_000);
    assert_eq!(path.sender.timeouts(), 1);
    let times = |number| path.sent.iter().filter(|sent| **sent == number).count();
    // The repair of 20 acknowledges 21, but not 23, which has also arrived.
    assert_eq!([20, 21, 22, 23].map(times), [3, 1, 2, 2], "{:?}", path.sent);
}

/// The second of two losses in a window waits for the timeout: duplicates below the highest number
/// sent cause no further fast retransmit.
#[test]
fn reno_repairs_one_loss_of_a_window() {
    let mut path = Path::new(Some(100_000), None);
    let lost = [20, 22];
    path.run(
        MINUTE,
        |number, time| !lost.contains(&number) || time > 1,
        || true,
    );
    assert_eq!(path.receiver.delivered(), 100_000);
    assert_eq!(path.sender.timeouts(), 1);
}

#[test]
fn without_acknowledgements_it_tries_ever_more_rarely() {
    let mut path = Path::new(None, None);
    path.run(10 * MINUTE, |_, _| true, || false);
    // 3, 6, 12, 24 and 48 s, then a minute each: 11 to 13 attempts in ten minutes.
    assert!(
        (11..=13).contains(&path.sender.timeouts()),
        "{}",
        path.sender.timeouts()
    );
    assert_eq!(path.sender.window(), room(PAYLOAD, 0));
}

#[test]
fn a_small_receive_window_still_moves_one_segment_per_round_trip() {
    let mut path = Path::new(Some(10_000), Some(1));
    path.run(MINUTE, |_, _| true, || true);
    assert_eq!(path.receiver.delivered(), 10_000);
    assert!(path.now - Instant::ZERO >= Duration::from_millis(1_000));
}

#[test]
fn half_of_the_acknowledgements_suffice() {
    let mut path = Path::new(Some(300_000), None);
    let mut turn = 0;
    path.run(
        MINUTE,
        |_, _| true,
        || {
            turn += 1;
            turn % 2 == 0
        },
    );
    assert_eq!(path.receiver.delivered(), 300_000);
}

/// Three duplicates and the repaired segment's acknowledgement may arrive at the same instant,
/// before anything can be sent.
#[test]
fn a_fast_retransmit_that_is_late_sends_nothing_beyond_the_end() {
    let segment = room(PAYLOAD, 0);
    let mut path = Path::new(Some(4 * segment), None);
    path.sender.on_time(Instant::ZERO);
    path.send();
    path.now = Instant::from_millis(100);
    let arrives = |path: &mut Path, next| {
        let mut datagram = [0; 24];
        let (echo, delta) = (Instant::ZERO, 0);
        Ack { next, echo, delta }.write(&mut datagram);
        path.sender.on_datagram(path.now, &datagram);
    };
    arrives(&mut path, 1);
    path.send();
    assert_eq!(path.sent, [0, 1, 2, 3]);
    for next in [1, 1, 1, 4] {
        arrives(&mut path, next);
    }
    path.send();
    assert_eq!(path.sent, [0, 1, 2, 3]);
}

/// A flow that stops doesn't send again what is missing, whether or not all was sent once.
#[test]
fn a_flow_that_stops_is_silent() {
    for segments in [10, 1_000] {
        let mut path = Path::new(Some(segments * room(PAYLOAD, 0)), None);
        path.sender.setup.stop = Some(Instant::from_millis(350));
        // From the second round trip on, nothing arrives.
        path.run(MINUTE, |number, _| number < 4, || true);
        let sent = path.sent.len();
        assert!(path.now <= Instant::from_millis(450), "{:?}", path.now);
        assert_eq!(path.sender.timeouts(), 0);
        assert!(sent <= 20 && path.sender.deadline().is_none(), "{sent}");
    }
}

proptest! {
    /// Whatever is lost, the file arrives once the path lets it.
    #[test]
    fn every_file_arrives(losses in prop::collection::vec(any::<bool>(), 0..400)) {
        let mut path = Path::new(Some(60_000), None);
        let mut fates = losses.into_iter();
        let fates = std::cell::RefCell::new(&mut fates);
        let passes = || fates.borrow_mut().next().is_none_or(|lost| !lost);
        path.run(1_000 * MINUTE, |_, _| passes(), passes);
        prop_assert_eq!(path.receiver.delivered(), 60_000);
        prop_assert!(path.sender.deadline().is_none());
    }

    /// No datagram makes either end fail, or the window larger than its limit.
    #[test]
    fn any_bytes_are_harmless(
        datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..40),
    ) {
        let mut path = Path::new(None, None);
        path.sender.on_time(Instant::ZERO);
        path.send();
        for datagram in datagrams {
            path.sender.on_datagram(Instant::from_millis(7), &datagram);
        }
        prop_assert!(path.sender.segments() <= MOST);
    }
}

/// RFC 6298, section 2, with floats, without a clock.
#[derive(Default)]
struct Oracle {
    rtt: Option<(f64, f64)>,
}

impl Oracle {
    fn sample(&mut self, rtt: f64) -> f64 {
        let (smoothed, variation) = match self.rtt {
            None => (rtt, rtt / 2.0),
            Some((smoothed, variation)) => (
                0.875 * smoothed + 0.125 * rtt,
                0.75 * variation + 0.25 * (smoothed - rtt).abs(),
            ),
        };
        self.rtt = Some((smoothed, variation));
        (smoothed + 4.0 * variation).max(0.2)
    }
}

#[test]
fn the_timeout_follows_rfc_6298_within_the_clock() {
    let (mut timeout, mut oracle) = (Timeout::default(), Oracle::default());
    assert_eq!(timeout.get(), FIRST);
    for round in 0..200u64 {
        let rtt = [60, 60, 130, 400, 90][(round / 7 % 5) as usize] + round % 3;
        let sent = Instant::from_millis(1_000 * round);
        timeout.sample(sent, Instant::from_millis(1_000 * round + rtt));
        let exact = oracle.sample(rtt as f64 / 1e3);
        let off = (timeout.get().as_secs_f64() - exact).abs();
        assert!(off <= 0.05, "{round}: {:?} {exact}", timeout.get());
    }
}

#[test]
fn it_doubles_up_to_a_minute_until_new_data_arrive() {
    let mut timeout = Timeout::default();
    timeout.sample(Instant::ZERO, Instant::from_millis(600));
    let once = timeout.get();
    assert_eq!(once, Duration::from_millis(1_800));
    timeout.back_off();
    timeout.sample(Instant::ZERO, Instant::from_millis(600));
    assert!(timeout.get() > once, "a sample alone doesn't end it");
    for _ in 0..100 {
        timeout.back_off();
    }
    assert_eq!(timeout.get(), LONGEST);
    timeout.recover();
    assert!(timeout.get() <= once);
}
