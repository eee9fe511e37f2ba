//! Paths without a connection. Peer IDs and recovery are separate, and the controller has a
//! constant window.

mod ack_report;
mod address;
mod moves;
mod packets;
mod route;
mod shims;
mod signals;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use pathmark_cc::PacketState;

use super::{Allowance, Move, Others, Paths};
use crate::cid::{RemoteId, RemoteIds};
use crate::config::TransportConfig;
use crate::connection::Received;
use crate::connection::paths::{Departure, Fault, OffPathFrame, ShimPrefix, ShimUse};
use crate::connection::tests::fixed_window::{ControllerLog, fixed_window};
use crate::connection::tests::questions::{KIND, signals};
use crate::connection::tests::signal::TestSignal;
use crate::crypto::{Random, ResetToken, Side};
use crate::recovery::{LossOutcome, Probe, Recovery};
use crate::wire::frame::Frames;
use crate::wire::frame::feedback::TIME_MODULUS;
use crate::wire::{ConnectionId, Frame, SpaceId, Writer};
use crate::{Duration, Ecn, Instant, Signal};

const HOME: &str = "10.0.0.1:1000";
const REBOUND: &str = "10.0.0.1:1001";
const AWAY: &str = "10.0.0.9:2000";
const WINDOW: u64 = 100_000;
const FULL: usize = 1200;
/// Three probe timeouts of a path with unknown RTT, after which it is given up.
const PERIOD: Duration = Duration::from_millis(1024);

struct Parts {
    paths: Paths,
    ids: RemoteIds,
    recovery: Recovery<()>,
    random: Random,
    now: Instant,
    log: Arc<Mutex<ControllerLog>>,
    /// Number of packets that arrived with ECT(0) and with CE.
    counts: (u64, u64),
}

fn id(n: u64) -> ConnectionId {
    ConnectionId::new(&n.to_be_bytes()).unwrap()
}

fn token(n: u64) -> ResetToken {
    ResetToken::new(u128::from(n).to_be_bytes())
}

fn peer_id(sequence: u64) -> RemoteId {
    let (id, token) = (id(sequence), Some(token(sequence)));
    RemoteId {
        sequence,
        id,
        token,
    }
}

fn from(address: &str) -> Received {
    Received::plain(address.parse().unwrap())
}

/// A server whose address is validated, with three IDs of its peer.
fn server() -> Parts {
    parts(Side::Server, 3, true)
}

/// Paths of one side from a local address to [`HOME`], with this configuration.
fn paths_of(side: Side, local: Option<IpAddr>, change: impl FnOnce(&mut TransportConfig)) -> Paths {
    let mut config = TransportConfig::new(fixed_window(WINDOW).0);
    change(&mut config);
    let remote = from(HOME).remote;
    let now = Instant::from_millis(1000);
    Paths::new(now, side, Arc::new(config), remote, local, id(100), true)
}

/// Creates the paths of `side` to a peer at [`HOME`] that has issued the IDs 1 to `ids`.
fn parts(side: Side, ids: u64, validated: bool) -> Parts {
    signalling(side, ids, validated, Vec::new())
}

/// The same for a side that reads these signals.
fn signalling(side: Side, ids: u64, validated: bool, signals: Vec<Arc<dyn Signal>>) -> Parts {
    let now = Instant::from_millis(1000);
    let (controller, log) = fixed_window(WINDOW);
    let mut config = TransportConfig::new(controller);
    config.signals = signals;
    let remote = HOME.parse::<SocketAddr>().unwrap();
    let mut held = RemoteIds::new(id(0), 8);
    for sequence in 1..=ids {
        held.on_new(0, &peer_id(sequence)).unwrap();
    }
    Parts {
        paths: Paths::new(
            now,
            side,
            Arc::new(config),
            remote,
            None,
            id(100),
            validated,
        ),
        ids: held,
        recovery: Recovery::new(side.is_client(), now),
        random: Random::from_u64(1),
        now,
        log,
        counts: (0, 0),
    }
}

impl Parts {
    fn split(&mut self) -> (&mut Paths, Others<'_, ()>) {
        let others = Others {
            ids: &mut self.ids,
            recovery: &mut self.recovery,
            longest_pto: Duration::from_secs(30),
        };
        (&mut self.paths, others)
    }

    /// Receives a packet of 100 bytes with our ID `dcid`, following the peer if necessary.
    fn packet(&mut self, address: &str, dcid: u64) -> Move {
        let now = self.now;
        self.paths.on_datagram(&from(address), 100);
        let (paths, others) = self.split();
        paths.follow_peer(now, &from(address), &id(dcid), others)
    }

    fn move_to(&mut self, back: bool) -> Move {
        self.move_from("192.0.2.1", back)
    }

    fn move_from(&mut self, local: &str, back: bool) -> Move {
        let now = self.now;
        let (paths, others) = self.split();
        paths.move_to(now, Some(local.parse().unwrap()), back, others)
    }

    /// The peer, which is then elsewhere, returns.
    fn away_and_back(&mut self) {
        assert_eq!(self.packet(AWAY, 100), Move::OtherPath);
        assert_eq!(self.packet(HOME, 100), Move::OtherPath);
    }

    /// A challenge arrives from this address in a datagram of `size` bytes.
    fn challenged(&mut self, address: &str, data: [u8; 8], size: usize) {
        self.paths
            .on_challenge(&from(address), data, size, &mut self.ids);
    }

    fn poll_challenge(&mut self) -> Option<OffPathFrame> {
        let (now, ids, random) = (self.now, &mut self.ids, &mut self.random);
        self.paths.poll_challenge(now, ids, random)
    }

    fn check(&mut self) -> Move {
        let now = self.now;
        let (paths, others) = self.split();
        paths.check_validation(now, others)
    }

    fn response(&mut self, address: &str, data: [u8; 8]) -> bool {
        let now = self.now;
        let (paths, mut others) = self.split();
        paths.on_response(now, &from(address), data, &mut others)
    }

    /// Returns the data of the challenges and responses that the current path writes into `room`
    /// bytes.
    fn written(&mut self, room: usize) -> (Vec<[u8; 8]>, Vec<[u8; 8]>, bool) {
        let mut buffer = vec![0; room];
        let mut w = Writer::new(&mut buffer);
        let path = &mut self.paths.path;
        let frames = path.write_frames(self.now, FULL, &mut self.random, &mut w);
        assert_eq!(frames.written, w.position() > 0);
        let (mut challenges, mut responses) = (Vec::new(), Vec::new());
        for frame in Frames::new(w.written()) {
            match frame.unwrap() {
                Frame::PathChallenge(data) => challenges.push(data),
                Frame::PathResponse(data) => responses.push(data),
                other => panic!("{other:?}"),
            }
        }
        (challenges, responses, frames.padded)
    }

    fn allowance(&self, size: usize, probes: bool) -> Allowance {
        let least = super::least_challenge(8);
        let address = &self.paths.path.address;
        address.allowance(self.now, size, probes, [least, FULL])
    }

    /// Sends a packet with number 3 that probes for larger datagrams, and returns its size.
    fn probe_mtu(&mut self) -> u16 {
        let path = &mut self.paths.path;
        let size = path.poll_mtu_probe(self.now, 0).unwrap();
        path.route.on_mtu_probe_sent(3, size);
        size
    }

    /// Packets with shims are lost between others that arrive, until the path is plain.
    fn lose_shims(&mut self) {
        let plain = &mut self.paths.path.route.plain;
        for number in [0, 2, 4] {
            plain.on_sent(number, true);
            plain.on_sent(number + 1, false);
            plain.on_acked(number + 1, false);
            plain.on_lost(self.now, number, true);
            plain.settle(self.now);
        }
    }
}

#[test]
fn a_packet_from_the_same_address_moves_nothing() {
    let mut parts = server();
    assert_eq!(parts.packet(HOME, 100), Move::Stays);
    assert_eq!(parts.packet(HOME, 101), Move::Stays);
    assert!(!parts.paths.take_moved_tokens());
    assert!(parts.written(FULL).0.is_empty());
}

/// RFC 9000 §9.4: another port most likely means that a NAT was rebound. The window is kept, both
/// addresses are challenged, and the one that answers stays.
#[test]
fn another_port_keeps_what_was_learnt_and_is_validated() {
    let mut parts = server();
    assert_eq!(parts.packet(REBOUND, 100), Move::OtherPort);
    assert!(parts.paths.take_moved_tokens() && !parts.paths.has_moved_tokens());
    assert_eq!(parts.paths.path.remote(), from(REBOUND).remote);
    assert!(!parts.paths.path.is_validated());
    // The limit is a window plus three times the received bytes.
    assert_eq!(parts.paths.path.address.available(), WINDOW + 300);
    assert_eq!(parts.ids.current().sequence, 0);
    let old = parts.poll_challenge().unwrap();
    assert_eq!((old.remote, old.dcid), (from(HOME).remote, id(0)));
    let size = old.size as u64;
    parts.paths.on_off_path_sent(parts.now, &old, size);
    assert!(parts.poll_challenge().is_none());
    let (challenges, ..) = parts.written(FULL);
    assert!(!parts.response(REBOUND, [0; 8]), "an answer to nothing");
    assert!(parts.response(REBOUND, challenges[0]));
    assert!(parts.paths.path.is_validated());
    assert_eq!(parts.check(), Move::Stays);
}

/// RFC 9000 §9.3, §8.1: another host gets three times the bytes received from it until it has
/// answered.
#[test]
fn another_host_gets_a_fresh_path_and_a_limit() {
    // [9000 9.4 reset-on-migration]
    let mut parts = server();
    assert_eq!(parts.packet(AWAY, 101), Move::OtherPath);
    // The peer moved on purpose, so packets to it carry another of its IDs.
    assert_eq!(parts.ids.current().sequence, 1);
    assert_eq!(parts.paths.path.address.available(), 300);
    // 192 bytes are reserved for challenges.
    assert_eq!(parts.allowance(FULL, false), Allowance::Bytes(108));
    parts.paths.path.address.on_datagram_sent(100);
    assert_eq!(parts.allowance(FULL, false), Allowance::Bytes(48));
    parts.paths.path.address.on_datagram_sent(153);
    assert_eq!(parts.allowance(FULL, false), Allowance::Blocked, "47 bytes");
    parts.paths.on_datagram(&from(AWAY), 1);
    assert_eq!(parts.allowance(FULL, false), Allowance::Bytes(48));
    let (small, _, padded) = parts.written(40);
    assert_eq!((small.len(), padded), (1, false));
    assert_eq!(parts.allowance(FULL, false), Allowance::Blocked);
    // The response proves the address, but not that full datagrams get through.
    assert!(!parts.response(AWAY, small[0]));
    assert!(parts.paths.path.is_validated());
    assert_eq!(parts.allowance(FULL, false), Allowance::Bytes(FULL));
    let (full, _, padded) = parts.written(FULL);
    assert!(padded && parts.response(AWAY, full[0]));
    assert!(parts.written(FULL).0.is_empty());
}

/// Someone else has sent a copy from elsewhere, so the connection continues on the path to the
/// peer.
#[test]
fn a_path_without_an_answer_is_left_for_the_last_that_worked() {
    let mut parts = server();
    assert_eq!(parts.packet(AWAY, 100), Move::OtherPath);
    parts.now += PERIOD.saturating_mul(3) - Duration::from_millis(1);
    assert_eq!(parts.check(), Move::Stays);
    parts.now += Duration::from_millis(1);
    assert_eq!(parts.check(), Move::OtherPath);
    assert_eq!(parts.paths.path.remote(), from(HOME).remote);
    assert!(parts.paths.path.is_validated() && !parts.paths.has_fallback());
    assert_eq!(parts.check(), Move::Stays);
}

/// A return gets an initial window until the peer has proved it, and only probes exceed it.
#[test]
fn a_return_without_proof_has_a_limit() {
    let mut parts = server();
    parts.away_and_back();
    let path = &mut parts.paths.path;
    assert!(path.is_validated());
    let lent = path.address.available();
    assert_eq!(lent, 12_000 + 300);
    path.address.on_datagram_sent(lent - 47);
    assert_eq!(parts.allowance(FULL, false), Allowance::Nothing);
    assert_eq!(parts.allowance(FULL, true), Allowance::Bytes(48));
}

#[test]
fn a_client_moves_only_with_an_id_of_its_own_and_goes_back_if_asked_to() {
    let mut none = parts(Side::Client, 0, true);
    assert_eq!(none.move_to(true), Move::Stays);
    assert_eq!(none.paths.path.local(), None);

    let mut there = parts(Side::Client, 3, true);
    assert_eq!(there.move_to(false), Move::OtherPath);
    assert!(!there.paths.has_fallback());
    assert_eq!(there.ids.current().sequence, 1);

    let mut back = parts(Side::Client, 3, true);
    assert_eq!(back.move_to(true), Move::OtherPath);
    let local = back.paths.path.local();
    assert_eq!(local, Some("192.0.2.1".parse().unwrap()));
    back.now += PERIOD.saturating_mul(3);
    assert_eq!(back.check(), Move::OtherPath);
    assert_eq!(back.paths.path.local(), None);
    // If nothing works for a while, the other path is tried next.
    assert!(back.paths.has_fallback());
    back.now += PERIOD.saturating_mul(3);
    assert_eq!(back.check(), Move::OtherPath);
    assert!(back.paths.path.local().is_some());
}

/// RFC 9000 §8.2.2: a response is sent on the path that was probed, and the peer gets at most three
/// times the bytes that it sent there.
#[test]
fn a_probe_is_answered_where_it_came_from() {
    let mut parts = server();
    for (bytes, size) in [(100, 64), (FULL, FULL)] {
        let away = from(AWAY);
        assert!(!parts.paths.on_datagram(&away, bytes as u64));
        parts.challenged(AWAY, [7; 8], bytes);
        let answer = parts.paths.poll_response(&mut parts.ids).unwrap();
        assert_eq!((answer.remote, answer.dcid), (away.remote, id(1)));
        assert_eq!(answer.frame(), Frame::PathResponse([7; 8]));
        assert_eq!(answer.size, size);
        let size = answer.size as u64;
        parts.paths.on_off_path_sent(parts.now, &answer, size);
        assert!(parts.paths.poll_response(&mut parts.ids).is_none());
    }
    let (home, away) = (from(HOME).remote, from(AWAY).remote);
    let tokens: Vec<_> = parts.paths.reset_tokens(Some(token(0))).collect();
    assert_eq!(tokens, [(home, token(0)), (away, token(1))]);
    // Another probed path replaces it, and the ID is retired.
    parts.paths.on_datagram(&from(REBOUND), 10);
    parts.challenged(REBOUND, [8; 8], 10);
    assert!(!parts.ids.is_held(1));
    assert_eq!(parts.paths.off_path_id(), Some(2));
    let response = parts.paths.poll_response(&mut parts.ids);
    assert!(response.is_none(), "30 bytes");
}

#[test]
fn each_challenge_has_other_data() {
    // [9000 8.2.1 unpredictable]
    let mut parts = parts(Side::Server, 4, true);
    assert_eq!(parts.packet(AWAY, 100), Move::OtherPath);
    let mut sent = Vec::new();
    for _ in 0..3 {
        sent.extend(parts.written(1200).0);
        parts.now += PERIOD;
    }
    sent.sort_unstable();
    sent.dedup();
    assert_eq!(sent.len(), 3);
}

#[test]
fn a_challenge_of_the_path_in_use_is_answered_there() {
    let mut parts = server();
    parts.challenged(HOME, [7; 8], FULL);
    assert_eq!(parts.paths.off_path_id(), None);
    assert!(parts.paths.path.wants_frames(parts.now));
    assert_eq!(parts.written(8), (vec![], vec![], false), "no room");
    assert_eq!(parts.written(FULL), (vec![], vec![[7; 8]], true));
    assert!(!parts.paths.path.wants_frames(parts.now));
}

#[test]
fn datagrams_are_bounded_by_interface_and_peer_on_each_path() {
    let mut parts = server();
    let now = parts.now;
    assert_eq!(parts.paths.mtud().mtu(), 1200);
    parts.paths.set_interface_mtu(1300);
    let first = parts.paths.path.poll_mtu_probe(now, 0);
    assert!(first.is_some_and(|size| size <= 1300), "{first:?}");
    parts.paths.set_peer_mtu(now, 1200);
    assert_eq!(parts.packet(AWAY, 100), Move::OtherPath);
    // There's no search while the path is being validated, and none beyond the peer's limit.
    assert_eq!(parts.paths.path.poll_mtu_probe(now, 0), None);
    let (challenges, ..) = parts.written(FULL);
    assert!(parts.response(AWAY, challenges[0]));
    assert_eq!(parts.paths.path.poll_mtu_probe(now, 0), None);
}

#[test]
fn a_probe_for_larger_datagrams_fits_the_window() {
    let mut parts = server();
    let (now, path) = (parts.now, &mut parts.paths.path);
    assert!(!path.route.carries_data(|| false));
    assert!(path.route.carries_data(|| true));
    let carried = || unreachable!("it has carried some");
    assert!(path.route.carries_data(carried));
    assert_eq!(path.poll_mtu_probe(now, WINDOW - 1200), None);
    let size = path.poll_mtu_probe(now, 1200).unwrap();
    let room = WINDOW - u64::from(size);
    assert_eq!(path.poll_mtu_probe(now, room), Some(size));
    assert_eq!(path.poll_mtu_probe(now, room + 1), None);
}

#[test]
fn what_a_path_has_shown_is_handed_out_once_and_only_of_a_proved_address() {
    let mut proved = parts(Side::Server, 3, true);
    assert!(proved.paths.poll_shown().is_some_and(|shown| !shown.asked));
    assert_eq!(proved.paths.poll_shown(), None);
    let mut forged = parts(Side::Server, 3, false);
    assert_eq!(forged.paths.poll_shown(), None);
    // A second connection may ask for the rate granted to the first one.
    let mut asked = server();
    asked.paths.path.route.on_asked_ahead();
    assert!(asked.paths.poll_shown().is_some_and(|shown| shown.asked));
}
