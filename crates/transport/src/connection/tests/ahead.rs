//! Questions for a starting rate before the handshake is complete: who may ask, and the results.

use super::questions::{KIND, signals};
use super::*;

const START: Instant = Instant::from_millis(1);
const RATE: u64 = 7_000_000;

/// Both ends advertise `kinds`, the client meets the server for the second time, and its address is
/// validated.
fn known(kinds: &[u8]) -> Setup {
    let mut setup = Setup::with_crypto(NullCrypto::new(&[b"test"]).with_early_data(kinds));
    setup.client.signals = signals(kinds);
    setup.server.signals = signals(kinds);
    setup.validated = true;
    setup
}

fn client_asks(setup: Setup) -> Pair {
    one_asks(true, setup)
}

fn server_asks(setup: Setup) -> Pair {
    one_asks(false, setup)
}

fn one_asks(client: bool, mut setup: Setup) -> Pair {
    let (config, log) = match client {
        true => (&mut setup.client, &setup.client_log),
        false => (&mut setup.server, &setup.server_log),
    };
    config.known_rate = Some(RATE);
    asks(log);
    begin(setup)
}

fn asks(log: &Mutex<ControllerLog>) {
    let mut log = log.lock().unwrap();
    (log.asks, log.asks_again) = (true, true);
}

fn begin(setup: Setup) -> Pair {
    let mut pair = Pair::with(setup);
    pair.record = true;
    pair
}

/// Returns the indices of questions among the datagrams that a host has sent.
fn questions(host: &Host) -> Vec<usize> {
    let sent = host.sent.iter().enumerate();
    sent.filter(|(_, datagram)| datagram[0] == 8 | KIND)
        .map(|(at, _)| at)
        .collect()
}

/// Returns when the answer arrived, since the start.
fn answered(pair: &mut Pair, client: bool) -> Duration {
    let answered = |pair: &mut Pair| pair.host(client).log().answers == 1;
    assert!(pair.run_until(Duration::from_secs(5), answered));
    pair.now - START
}

/// Checks that nothing was asked during the handshake, which took as long as usual.
fn connects_unasked(mut pair: Pair) -> Pair {
    pair.connect();
    assert_eq!(pair.now - START, Duration::from_millis(40));
    assert!(questions(&pair.client).is_empty() && questions(&pair.server).is_empty());
    pair
}

#[test]
fn a_client_asks_with_its_first_packet_and_has_the_answer_with_the_servers() {
    let mut pair = client_asks(known(&[KIND]));
    assert_eq!(answered(&mut pair, true), Duration::from_millis(20));
    // The question follows the packet that begins the connection, in a separate datagram of full
    // size.
    assert_eq!(questions(&pair.client), [1]);
    assert_eq!(types(&pair.client.sent[0]), [PacketType::Initial]);
    let question = &pair.client.sent[1];
    assert_eq!(types(&question[LEN..]), [PacketType::ZeroRtt]);
    assert_eq!(question.len(), 1200);
    assert_eq!(pair.client.log().known_rate, Some(RATE));
    pair.connect_and_upload(100_000, 5);
    assert_eq!(questions(&pair.client), [1]);
    for host in [&mut pair.client, &mut pair.server] {
        let stats = host.get().stats();
        assert_eq!((stats.packets_lost, stats.packets_dropped), (0, 0));
        assert_eq!(stats.feedback_bad, 0);
    }
    assert_eq!(pair.server.get().stats().shims_received, 1);
}

#[test]
fn a_server_asks_with_its_first_flight_and_has_the_answer_with_the_clients_next() {
    for early in [true, false] {
        let mut setup = known(&[0, KIND]);
        if !early {
            setup.client_crypto = Setup::default().client_crypto;
            setup.server_crypto = Setup::default().server_crypto;
        }
        let mut pair = server_asks(setup);
        assert_eq!(answered(&mut pair, false), Duration::from_millis(30));
        assert_eq!(questions(&pair.server).len(), 1);
        let question = &pair.server.sent[questions(&pair.server)[0]];
        let behind = &question[LEN..];
        assert_eq!((question.len(), behind[0] & 0xc0), (1200, 0x40));
        assert_eq!(pair.server.log().known_rate, Some(RATE));
        pair.connect_and_upload(100_000, 5);
        let stats = pair.server.get().stats();
        assert_eq!((stats.packets_lost, stats.feedback_bad), (0, 0));
        assert_eq!(pair.client.get().stats().packets_dropped, 0);
    }
}

/// A first packet from a forged address doesn't reach routers.
#[test]
fn a_server_asks_no_router_before_the_address_is_validated() {
    let mut setup = known(&[KIND]);
    setup.validated = false;
    let pair = connects_unasked(server_asks(setup));
    assert_eq!(pair.server.log().questions, 0);
}

#[test]
fn a_peer_that_did_not_advertise_answers_is_not_asked() {
    // A server that didn't advertise such a signal the last time, and one that doesn't accept early
    // data.
    let mut setup = known(&[0, KIND]);
    setup.client_crypto = Arc::new(NullCrypto::new(&[b"test"]).with_early_data(&[0]));
    connects_unasked(client_asks(setup));
    let mut setup = known(&[0, KIND]);
    setup.client_crypto = Setup::default().client_crypto;
    connects_unasked(client_asks(setup));
    // A client that doesn't offer the signal.
    let mut setup = known(&[0, KIND]);
    setup.client.signals = signals(&[0]);
    connects_unasked(server_asks(setup));
    // Nothing is known about the path.
    let setup = known(&[KIND]);
    asks(&setup.client_log);
    asks(&setup.server_log);
    connects_unasked(begin(setup));
}

#[test]
fn a_server_that_takes_no_early_data_is_asked_with_the_first_flight() {
    let mut setup = known(&[KIND]);
    setup.server_crypto = Setup::default().server_crypto;
    let mut pair = client_asks(setup);
    pair.connect();
    assert_eq!(pair.now - START, Duration::from_millis(40));
    assert_eq!(pair.client.log().questions_lost, 1);
    pair.upload_and_run(100_000, 5, Duration::from_millis(200));
    let log = pair.client.log();
    assert_eq!((log.questions, log.answers, log.lost), (2, 1, 0));
    let stats = pair.client.get().stats();
    assert_eq!((stats.packets_lost, stats.feedback_bad), (0, 0));
}

/// A server of another version drops it, or a hop that drops unknown packets.
#[test]
fn a_question_that_is_dropped_holds_nothing_up() {
    for client in [true, false] {
        let mut pair = one_asks(client, known(&[KIND]));
        pair.drop_if(|_, datagram| datagram.bytes.first() == Some(&(8 | KIND)));
        pair.connect();
        assert_eq!(pair.now - START, Duration::from_millis(40));
        pair.upload_and_run(100_000, 5, Duration::from_millis(500));
        let host = pair.host(client);
        let log = host.log();
        assert_eq!((log.answers, log.lost), (0, 0));
        assert!(log.questions_lost > 0);
        assert_eq!(host.get().stats().packets_lost, log.questions_lost);
        assert_eq!(host.get().error(), None);
    }
}

/// The client can't read it before the packets that it overtook, but does so afterwards.
#[test]
fn a_question_that_comes_before_the_handshake_is_kept_and_answered() {
    let mut pair = server_asks(known(&[KIND]));
    pair.drop_if(|now, datagram| {
        let first = now < START + Duration::from_millis(15);
        let server = datagram.from == SERVER.parse().unwrap();
        first && server && datagram.bytes[0] & 0x80 != 0
    });
    let later = answered(&mut pair, false);
    assert!(later > Duration::from_millis(100), "{later:?}");
    pair.connect();
    let log = pair.server.log();
    assert_eq!((log.questions, log.questions_lost), (1, 0));
    assert_eq!(pair.client.get().stats().shims_received, 1);
}

/// The server advertised the signal when the session began, but no longer does. It would drop shims
/// in front of 1-RTT packets, so there are none.
#[test]
fn a_server_that_has_given_the_signal_up_sees_it_no_more() {
    let mut setup = known(&[KIND]);
    setup.server.signals = signals(&[]);
    asks(&setup.client_log);
    let mut pair = begin(setup);
    pair.connect_and_upload(100_000, 10);
    assert!(questions(&pair.client).is_empty());
    assert_eq!(pair.client.get().stats().packets_lost, 0);
}

/// Measurements of a path only belong to this path. A client that moves doesn't change the known
/// state of others.
#[test]
fn a_question_belongs_to_the_path_that_it_was_asked_on() {
    let mut pair = server_asks(known(&[KIND]));
    pair.connect();
    assert!(pair.server.get().path_report(pair.now).known_path);
    pair.run(Duration::from_millis(500));
    pair.rebind("10.0.0.9:2000");
    pair.upload_and_run(20_000, 10, Duration::from_secs(1));
    pair.server.get().close(pair.now, 0, Bytes::new());
    let shown = pair.server.get().poll_shown_path().unwrap();
    assert!(!shown.asked);
}

/// The first packet takes 1200 bytes of the window, as does the question.
#[test]
fn a_question_leaves_if_the_window_has_room_for_it() {
    for (window, asked) in [(2399, vec![]), (2400, vec![1])] {
        let mut setup = known(&[KIND]);
        (setup.client.controller, setup.client_log) = fixed_window(window);
        let mut pair = client_asks(setup);
        pair.flush();
        assert_eq!(questions(&pair.client), asked);
    }
}

/// In front of early data, only a question counts, and only of a kind that the client lists.
#[test]
fn of_early_shims_questions_count_that_the_client_names() {
    for (named, kind, counted) in [
        (&[0, KIND][..], KIND, 1),
        (&[0][..], KIND, 0),
        (&[0, KIND][..], 0, 0),
    ] {
        let mut setup = known(&[0, KIND]);
        setup.client.signals = signals(named);
        let mut pair = Pair::with(setup);
        pair.flush();
        let packet = packet_from(&mut pair, From::Client, SpaceId::Data, &[Frame::Ping]);
        let mut bytes = vec![0; LEN];
        TestSignal::shim(kind).fill(&Default::default(), &mut bytes);
        bytes.extend(packet);
        pair.send_to_server(bytes);
        pair.run(Duration::from_millis(15));
        let stats = pair.server.get().stats();
        let got = (stats.early_packets_received, stats.shims_received);
        assert_eq!(got, (1, counted), "{named:?} {kind}");
    }
}
