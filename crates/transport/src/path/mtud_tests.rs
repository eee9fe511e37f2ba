//! The search for the datagram size, and losses that aren't a black hole.

use super::*;
use crate::{Duration, Instant};

/// A path that carries `width` bytes and answers all probes of a round trip.
struct Path {
    mtud: Mtud,
    now: Instant,
    next: u64,
    probes: u32,
}

impl Path {
    fn new(ceiling: u16) -> Self {
        Self {
            mtud: Mtud::new(ceiling),
            now: Instant::from_millis(1),
            next: 0,
            probes: 0,
        }
    }

    /// A path of 1452 bytes whose search is over.
    fn of_1452_bytes() -> Self {
        let mut path = Self::new(1452);
        path.search(1500, || false);
        path
    }

    fn search(&mut self, width: u16, mut unlucky: impl FnMut() -> bool) -> u16 {
        while let Some(size) = self.mtud.poll_probe(self.now) {
            assert!(size > self.mtud.mtu());
            let sent_at = self.now;
            self.mtud.on_probe_sent(self.next, size);
            assert_eq!(self.mtud.poll_probe(self.now), None, "one at a time");
            self.now += Duration::from_millis(100);
            if size <= width && !unlucky() {
                assert!(self.mtud.on_acked(self.now, self.next, size));
            } else {
                self.mtud.on_lost(self.now, self.next, size, sent_at);
            }
            assert!(!self.mtud.settle(), "probes say nothing about black holes");
            self.next += 1;
            self.probes += 1;
        }
        self.mtud.mtu()
    }

    /// Simulates a round trip in which packets of these sizes are sent, and those that `passes`
    /// selects arrive.
    fn round(&mut self, sizes: &[u16], passes: impl Fn(usize, u16) -> bool) -> bool {
        let sent_at = self.now;
        let first = self.next;
        self.next += sizes.len() as u64;
        self.now += Duration::from_millis(100);
        let packets = || (first..).zip(sizes.iter().copied().enumerate());
        for (number, (i, size)) in packets() {
            if passes(i, size) {
                self.mtud.on_acked(self.now, number, size);
            }
        }
        for (number, (i, size)) in packets() {
            if !passes(i, size) {
                self.mtud.on_lost(self.now, number, size, sent_at);
            }
        }
        self.mtud.settle()
    }
}

#[test]
fn a_known_path_is_not_searched() {
    for base in [1012, 1472, 8972] {
        let mut mtud = Mtud::with_base(base, base);
        mtud.set_peer_limit(65_527);
        assert_eq!(mtud.mtu(), base);
        assert_eq!(mtud.poll_probe(Instant::ZERO), None);
        for number in 0..100 {
            mtud.on_lost(Instant::from_millis(number), number, base, Instant::ZERO);
        }
        assert!(!mtud.settle(), "losses of known sizes are no black hole");
        assert_eq!(mtud.probe_limit(3), base);
    }
    let mut mtud = Mtud::with_base(8972, 8972);
    mtud.set_peer_limit(1500);
    assert_eq!(mtud.mtu(), 1500, "the peer has the last word");
}

/// A search may begin with a size that the path doesn't carry. It then falls back to 1200 bytes.
#[test]
fn a_base_that_is_too_large_is_given_up() {
    let mut path = Path::new(0);
    path.mtud = Mtud::with_base(1400, 1472);
    path.mtud.set_ceiling(1400);
    assert_eq!((path.mtud.mtu(), path.mtud.probe_limit(2)), (1400, 1200));
    let narrow = |_, size| size <= 1250;
    let rounds = (0..10).take_while(|_| !path.round(&[1400, 1400, 1200], narrow));
    assert_eq!(rounds.count(), 3);
    assert_eq!((path.mtud.mtu(), path.mtud.base()), (1200, 1200));
    let found = path.search(1250, || false);
    assert!((1239..=1250).contains(&found), "{found}");
}

#[test]
fn finds_the_width() {
    let mut wide = Path::new(1452);
    assert_eq!(wide.search(1500, || false), 1452);
    assert_eq!((wide.probes, wide.mtud.deadline()), (1, None));
    for width in [1200, 1211, 1280, 1400, 1451, 4000, 8951] {
        let mut path = Path::new(8952);
        let found = path.search(width, || false);
        assert!(found <= width && width - found < 12, "{found} for {width}");
        assert!(path.probes <= 34, "{} probes", path.probes);
        // Later, the path may have become wider.
        path.now = path.mtud.deadline().unwrap();
        assert_eq!(path.search(9000, || false), 8952);
    }
}

#[test]
fn bounds_of_both_ends() {
    let mut path = Path::new(9000);
    path.mtud.set_peer_limit(1400);
    assert_eq!(path.search(9000, || false), 1400);
    path.mtud.set_peer_limit(65_527);
    assert_eq!(path.mtud.mtu(), 1400);
    path.mtud.set_peer_limit(1000);
    assert_eq!(path.mtud.mtu(), BASE_MTU, "the least that QUIC permits");
    let mut base = Path::new(800);
    assert_eq!(base.search(9000, || false), BASE_MTU);
    assert_eq!(base.probes, 0);
}

#[test]
fn unlucky_probes_are_repeated() {
    let mut path = Path::new(1452);
    let mut n = 0;
    let found = path.search(1500, || {
        n += 1;
        n < 3
    });
    assert_eq!((found, path.probes), (1452, 3));
}

#[test]
fn the_system_refuses() {
    let mut path = Path::new(8952);
    let size = path.mtud.poll_probe(path.now).unwrap();
    path.mtud.on_probe_sent(0, size);
    assert!(!path.mtud.on_refused(path.now, size));
    let found = path.search(1472, || false);
    assert!((1461..=1472).contains(&found));
    // The interface changed.
    assert!(path.mtud.on_refused(path.now, found));
    assert_eq!(path.mtud.mtu(), BASE_MTU);
    assert!(path.search(9000, || false) < found);
}

/// The configured base size, which this path doesn't carry.
#[test]
fn the_system_refuses_the_base() {
    let mut mtud = Mtud::with_base(u16::MAX, u16::MAX);
    assert_eq!(mtud.mtu(), LARGEST_MTU);
    let now = Instant::ZERO;
    assert!(!mtud.on_refused(now, BASE_MTU), "that is not its reason");
    assert!(mtud.on_refused(now, LARGEST_MTU));
    assert_eq!((mtud.mtu(), mtud.base()), (BASE_MTU, BASE_MTU));
    assert!(!mtud.on_refused(now, BASE_MTU));
    let probe = mtud.poll_probe(now);
    assert!(probe.is_some_and(|size| size > BASE_MTU && size < LARGEST_MTU));
}

#[test]
fn a_path_that_narrows_is_noticed() {
    let mut path = Path::of_1452_bytes();
    let mut rounds = 0;
    loop {
        rounds += 1;
        // A flight of large packets, followed by the probes of a timeout.
        let probe = path.mtud.probe_limit(u32::from(rounds > 1));
        let mut sizes = vec![1452; 4];
        sizes.extend([if rounds > 1 { probe } else { 1200 }; 2]);
        if path.round(&sizes, |_, size| size <= 1300) {
            break;
        }
        assert_eq!(path.mtud.probe_limit(1), BASE_MTU, "suspected");
    }
    assert_eq!(rounds, 3);
    assert_eq!(path.mtud.mtu(), BASE_MTU);
    let found = path.search(1300, || false);
    assert!((1289..=1300).contains(&found), "{found}");
}

/// Random loss of up to a fifth of all packets, both small and large.
#[test]
fn random_loss_is_no_black_hole() {
    let mut path = Path::of_1452_bytes();
    let mut state = 1u64;
    let draws = (0..40_000).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.is_multiple_of(5)
    });
    let mut lost: Vec<bool> = draws.collect();
    while !lost.is_empty() {
        let round = lost.split_off(lost.len() - 20);
        assert!(!path.round(&[1452, 100].repeat(10), |i, _| !round[i]));
    }
    assert_eq!(path.mtud.mtu(), 1452);
}

/// A queue measured in bytes drops a burst of large packets but lets small packets through.
#[test]
fn a_burst_of_drops_is_no_black_hole() {
    let mut path = Path::of_1452_bytes();
    for _ in 0..20 {
        let mut sizes = vec![1452; 60];
        sizes.extend([100; 10]);
        assert!(!path.round(&sizes, |_, size| size < 1200));
        assert!(!path.round(&[1452; 10], |_, _| true));
    }
    assert_eq!(path.mtud.mtu(), 1452);
}

#[test]
fn the_interface_widens_the_search_and_never_narrows_it_below_the_base() {
    let mut path = Path::new(1472);
    path.mtud.set_ceiling(8972);
    assert_eq!(path.search(9000, || false), 8972);
    let mut path = Path::new(1472);
    let base = path.mtud.mtu();
    path.mtud.set_ceiling(100);
    assert_eq!((path.search(9000, || false), path.probes), (base, 0));
}

/// Simulates a path of 1452 bytes on which losses of large packets are noticed in `rounds` round
/// trips, `losses` in total, after which `passed` small packets are acknowledged. Returns true if
/// that is a black hole.
fn suspected(rounds: u64, losses: u64, passed: u64) -> bool {
    let mut path = Path::of_1452_bytes();
    let mut number = path.next;
    let mut lose = |path: &mut Path, count| {
        let sent_at = path.now;
        path.now += Duration::from_millis(100);
        for _ in 0..count {
            path.mtud.on_lost(path.now, number, 1452, sent_at);
            number += 1;
        }
    };
    for _ in 1..rounds {
        lose(&mut path, 1);
    }
    lose(&mut path, losses - (rounds - 1));
    for number in 0..passed {
        let number = path.next + losses + number;
        assert!(!path.mtud.on_acked(path.now, number, 1200));
    }
    path.mtud.settle()
}

#[test]
fn a_black_hole_takes_three_rounds_six_losses_and_three_packets_that_pass() {
    assert!(suspected(3, 6, 3));
    assert!(!suspected(2, 60, 30));
    assert!(!suspected(3, 5, 30));
    assert!(!suspected(3, 60, 2));
}

/// Packets no larger than the base are lost for other reasons, and a packet that was overtaken by a
/// large one doesn't indicate a narrow path.
#[test]
fn losses_that_no_narrow_path_explains() {
    let mut path = Path::of_1452_bytes();
    let first = path.next;
    path.mtud.on_acked(path.now, first + 100, 1452);
    for round in 0..10 {
        let sent_at = path.now;
        path.now += Duration::from_millis(100);
        for (number, size) in [(10 + round, 1452), (200 + 2 * round, 1200)] {
            path.mtud.on_lost(path.now, first + number, size, sent_at);
        }
        path.mtud.on_acked(path.now, first + 201 + 2 * round, 1200);
        assert!(!path.mtud.settle());
        assert_eq!(path.mtud.probe_limit(0), 1452, "not even suspected");
    }
    assert_eq!(path.mtud.mtu(), 1452);
}

/// Packets sent before the first loss show nothing about the path since then.
#[test]
fn what_was_sent_before_the_first_loss_clears_no_suspicion() {
    let mut path = Path::of_1452_bytes();
    let first = path.next;
    for round in 0..3 {
        let sent_at = path.now;
        path.now += Duration::from_millis(100);
        for n in 0..2 {
            let number = first + 100 + 10 * round + n;
            path.mtud.on_lost(path.now, number, 1452, sent_at);
        }
        path.mtud.on_acked(path.now, first + round, 1200);
        path.mtud.on_acked(path.now, first + 10 + round, 1452);
        assert!(!path.mtud.settle(), "only earlier ones passed");
    }
    for n in 0..3 {
        path.mtud.on_acked(path.now, first + 200 + n, 1200);
    }
    assert!(path.mtud.settle());
    // The former size of the path isn't tried again.
    let next = path.mtud.poll_probe(path.now).unwrap();
    assert!(next < 1452, "{next}");
}

/// A packet larger than the base that arrives proves only its own size, but not that of the
/// outstanding probe.
#[test]
fn only_the_probe_itself_raises_the_size() {
    let mut path = Path::new(1452);
    path.mtud.on_probe_sent(7, 1452);
    for number in [6, 8] {
        assert!(!path.mtud.on_acked(path.now, number, 1300));
        assert_eq!(path.mtud.mtu(), BASE_MTU);
    }
    assert!(path.mtud.on_acked(path.now, 7, 1452));
    assert_eq!(path.mtud.mtu(), 1452);
}

/// The first probe of a timeout is as large as any packet. Later probes have the size of the base.
#[test]
fn probes_of_repeated_timeouts_have_the_size_of_the_base() {
    let path = Path::of_1452_bytes();
    let limits = [0, 1, 2, 3, 10].map(|count| path.mtud.probe_limit(count));
    assert_eq!(limits, [1452, 1452, 1200, 1200, 1200]);
}

#[test]
fn bases_and_ceilings_that_contradict_each_other() {
    let cases = [
        (0, 0, 400),
        (399, 1200, 400),
        (401, 1200, 401),
        (1300, 1200, 1300),
    ];
    for (base, ceiling, mtu) in cases {
        let mut mtud = Mtud::with_base(base, ceiling);
        mtud.set_peer_limit(65_527);
        assert_eq!(mtud.mtu(), mtu, "{base} {ceiling}");
        let probe = mtud.poll_probe(Instant::ZERO);
        assert_eq!(probe, (ceiling > mtu).then_some(ceiling));
    }
}

/// If an interface carries more than the path, most paths are as wide as an Ethernet. Its size is
/// therefore tried after the upper bound.
#[test]
fn the_width_of_an_ethernet_is_found_exactly() {
    for ceiling in [1484, 1500, 4000, 8972] {
        let mut path = Path::new(ceiling);
        let found = path.search(ETHERNET_MTU, || false);
        assert_eq!(found, ETHERNET_MTU, "{ceiling}");
    }
}
