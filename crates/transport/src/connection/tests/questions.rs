//! Questions for a starting rate, in front of one packet while the others carry another signal.

use pathmark_cc::QuickStartFeedback;

use super::*;

/// The tests' signal as one that asks.
#[derive(Debug)]
pub(crate) struct Question(pub(crate) TestSignal);

pub(crate) const KIND: u8 = 2;

impl Signal for Question {
    fn kind(&self) -> u8 {
        self.0.kind()
    }

    fn shim_len(&self) -> usize {
        self.0.shim_len()
    }

    fn asks_once(&self) -> bool {
        true
    }

    fn speaks(&self, wanted: Explicit) -> bool {
        self.0.speaks(wanted)
    }

    fn fill(&self, request: &Request, shim: &mut [u8]) {
        assert!(request.quick_start.is_some());
        self.0.fill(request, shim);
    }

    fn meter(&self) -> Box<dyn Meter> {
        self.0.meter()
    }

    fn difference(
        &self,
        older: Option<&Counters>,
        newer: &Counters,
        sent: &Countable,
    ) -> Result<Feedback, BadFeedback> {
        let difference = self.0.difference(older, newer, sent)?;
        let (packets, bytes) = difference.counted();
        Ok(Feedback::QuickStart(QuickStartFeedback {
            packets,
            bytes,
            ..QuickStartFeedback::default()
        }))
    }
}

/// Returns signals of these kinds. The signal of kind `KIND` is a question.
pub(crate) fn signals(kinds: &[u8]) -> Vec<Arc<dyn Signal>> {
    let signal = |kind: &u8| -> Arc<dyn Signal> {
        match *kind {
            KIND => Arc::new(Question(TestSignal::shim(KIND))),
            kind => Arc::new(TestSignal::shim(kind)),
        }
    };
    kinds.iter().map(signal).collect()
}

/// Both sides offer the kinds, in this order, of which `KIND` asks. The client's controller asks
/// once.
fn asking(kinds: &[u8]) -> Pair {
    let setup = Setup::both(|config| config.signals = signals(kinds));
    setup.client_log.lock().unwrap().asks = true;
    let mut pair = Pair::with(setup);
    pair.record = true;
    pair.connect();
    pair
}

/// Returns the lengths of the client's datagrams with a shim of this kind.
fn shims(pair: &Pair, kind: u8) -> Vec<usize> {
    let sent = pair.client.sent.iter();
    sent.filter(|datagram| datagram[0] == 8 | kind)
        .map(Vec::len)
        .collect()
}

#[test]
fn it_rides_alone_in_one_datagram_of_full_length() {
    let mut pair = asking(&[KIND]);
    pair.upload(1000, Duration::from_secs(10));
    assert!(shims(&pair, KIND).is_empty(), "there is too little to send");
    let mtu = usize::from(pair.client.get().mtu());
    pair.upload_and_run(100_000, 10, Duration::from_millis(200));
    assert_eq!(shims(&pair, KIND), [mtu]);
    let log = pair.client.log();
    assert_eq!((log.questions, log.signals), (1, 1));
    assert_eq!((log.answers, log.feedbacks), (1, 1));
    let stats = pair.client.get().stats();
    assert_eq!((stats.shims_sent, stats.feedback_bad), (1, 0));
    assert_eq!(pair.server.get().stats().shims_received, 1);
}

#[test]
fn it_takes_the_place_of_the_request_in_its_packet() {
    let mut pair = asking(&[0, KIND]);
    pair.upload_and_run(100_000, 10, Duration::from_millis(200));
    assert_eq!(shims(&pair, KIND).len(), 1);
    let requests = shims(&pair, 0);
    assert!(requests.len() > 60, "{}", requests.len());
    let log = pair.client.log();
    assert_eq!(log.answers, 1);
    // The other signal counts its own packets.
    let counted: u64 = log.feedback.packets.iter().sum();
    assert_eq!(counted, requests.len() as u64);
    assert_eq!(log.signals, counted + 1);
    assert_eq!(pair.client.get().stats().feedback_bad, 0);
}

#[test]
fn it_is_not_asked_of_a_peer_that_does_not_know_it() {
    let mut setup = Setup::default();
    setup.client.signals = vec![Arc::new(Question(TestSignal::shim(KIND)))];
    setup.client_log.lock().unwrap().asks = true;
    let mut pair = Pair::with(setup);
    pair.record = true;
    pair.connect_and_upload(100_000, 10);
    assert!(shims(&pair, KIND).is_empty());
    assert_eq!(pair.client.log().questions, 0);
}

/// A pair with a measured round trip of 20 ms that asks. Datagrams with a question take `longer`,
/// while 85 packets are sent.
fn held(longer: u64) -> Pair {
    let mut pair = asking(&[0, KIND]);
    pair.upload_and_run(1000, 10, Duration::from_millis(200));
    pair.up.faults.holds = Some((KIND, Duration::from_millis(longer)));
    pair.upload_and_run(100_000, 10, Duration::from_millis(3000));
    assert_eq!(shims(&pair, KIND).len(), 1);
    assert_eq!(pair.client.get().stats().feedback_bad, 0);
    pair
}

#[test]
fn a_question_that_all_others_overtake_is_answered_and_not_lost() {
    let mut pair = held(8);
    let log = pair.client.log();
    assert_eq!((log.answers, log.questions_lost, log.lost), (1, 0, 0));
    let stats = pair.client.get().stats();
    assert_eq!((stats.packets_lost, stats.packets_spurious), (0, 0));
}

/// It counts as lost, and its data arrives again in another packet. No other packet is lost.
#[test]
fn a_question_that_comes_a_second_later_is_lost_alone() {
    let pair = held(1000);
    let log = pair.client.log();
    assert_eq!((log.questions_lost, log.lost), (1, 0));
}

#[test]
fn a_question_that_a_hop_drops_is_no_congestion_and_costs_no_data() {
    let mut pair = asking(&[0, KIND]);
    pair.drop_if(|_, datagram| datagram.bytes.first() == Some(&(8 | KIND)));
    pair.upload_and_run(100_000, 10, Duration::from_millis(500));
    let log = pair.client.log();
    assert_eq!((log.answers, log.questions_lost, log.lost), (0, 1, 0));
    assert_eq!(pair.client.get().stats().packets_lost, 1);
}

/// Routers aren't asked for a path to an address that isn't validated, because it may be forged.
#[test]
fn it_waits_until_the_address_is_validated() {
    let mut pair = Pair::at_rest(Setup::both(|config| config.signals = signals(&[KIND])));
    pair.rebind("10.0.0.9:2000");
    pair.client.write(&[1; 20_000]);
    // No challenge arrives.
    pair.down.faults.loss = 1_000_000;
    pair.run(Duration::from_millis(11));
    let sent = pair.server.get().stats().bytes_sent;
    let id = pair.server.open();
    let written = pair.server.get().streams().write(id, &[2; 200_000]);
    assert!(written.unwrap() > 100_000);
    pair.server.log.lock().unwrap().asks = true;
    pair.flush();
    let server = pair.server.get();
    assert_eq!(server.remote_address(), pair.client.address);
    assert!(!server.paths.limit().is_validated());
    assert!(server.stats().bytes_sent > sent + 20_000);
    assert_eq!(pair.server.log().questions, 0);
    pair.down.faults.loss = 0;
    pair.run(Duration::from_secs(5));
    assert!(pair.server.get().paths.limit().is_validated());
    assert_eq!(pair.server.log().questions, 1);
}
