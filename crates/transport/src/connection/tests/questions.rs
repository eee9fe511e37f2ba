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
    pair.upload(100_000, Duration::from_secs(10));
    pair.run(Duration::from_millis(200));
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
    pair.upload(100_000, Duration::from_secs(10));
    pair.run(Duration::from_millis(200));
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
fn a_question_that_a_hop_drops_is_no_congestion_and_costs_no_data() {
    let mut pair = asking(&[0, KIND]);
    pair.tap = Some(Box::new(|_, datagram| {
        if datagram.bytes.first() == Some(&(8 | KIND)) {
            datagram.bytes.clear();
        }
    }));
    pair.upload(100_000, Duration::from_secs(10));
    pair.run(Duration::from_millis(500));
    let log = pair.client.log();
    assert_eq!((log.answers, log.questions_lost, log.lost), (0, 1, 0));
    assert_eq!(pair.client.get().stats().packets_lost, 1);
}
