//! Packets of registered protocols at ports.

use std::sync::{Arc, Mutex};

use pathmark_cc::{Answer, Arrival, Carried, Instant, LinkController, LinkMetrics, OwnWords};

use super::port::{arrival, port};
use crate::DropCause;
use crate::queue::Limit;
use crate::testing::{Log, VCP};

/// A law that answers protocol 3, or one of the library's.
#[derive(Debug)]
struct Answers(Option<u8>, Arc<Mutex<Vec<String>>>);

impl LinkController for Answers {
    fn protocol(&self) -> Option<u8> {
        self.0
    }
    fn on_arrival(&mut self, _now: Instant, arrival: &Arrival, _queue: u64) {
        self.1
            .lock()
            .unwrap()
            .push(format!("{:?}", arrival.carried));
    }
    fn on_departure(&mut self, _now: Instant, _packet: &Arrival, _queue: u64) -> Answer {
        Answer::None
    }
    fn on_drop(&mut self, _now: Instant, _packet: &Arrival) {
        self.1.lock().unwrap().push("drop".to_owned());
    }
    fn on_timer(&mut self, _now: Instant, _queue: u64) {}
    fn deadline(&self) -> Option<Instant> {
        None
    }
    fn on_capacity(&mut self, _now: Instant, _rate: u64) {}
    fn metrics(&self) -> LinkMetrics {
        LinkMetrics::default()
    }
}

/// Packets of a protocol that the law does not answer must arrive as foreign ones, and their
/// drops must not be reported to it.
#[test]
fn packets_of_another_protocol_are_foreign() {
    let own = |kind| {
        let words = [1, 2, 3];
        Carried::Own(OwnWords { kind, words })
    };
    for (law, carried, answered) in [
        (None, VCP, true),
        (None, own(3), false),
        (Some(3), own(3), true),
        (Some(3), own(4), false),
        (Some(3), VCP, false),
    ] {
        let events = Arc::new(Mutex::new(Vec::new()));
        let mut port = port(1_000_000, Limit::Packets(1))
            .with_controller(Instant::ZERO, Box::new(Answers(law, Arc::clone(&events))));
        let mut log = Log::default();
        for id in 0..2 {
            port.arrive(Instant::ZERO, arrival(1000, carried), id, &mut log);
        }
        let read = if answered { carried } else { Carried::Foreign };
        let mut expected = vec![format!("{read:?}"); 2];
        expected.extend(answered.then(|| "drop".to_owned()));
        assert_eq!(*events.lock().unwrap(), expected, "{law:?} {carried:?}");
        assert_eq!(log.drops, [(1, DropCause::QueueFull)]);
    }
}
