//! Two sessions connected directly, without packets. Tests only.

use super::{ClientCrypto, HandshakeError, KeyChange, Keys, PhaseKeys, ServerCrypto, Session};

/// One end of a handshake.
pub(crate) struct End {
    pub(crate) session: Box<dyn Session>,
    pub(crate) handshake: Option<Keys>,
    pub(crate) one_rtt: Option<(Keys, Box<dyn PhaseKeys>)>,
    /// Handshake bytes written per level: Initial, Handshake, 1-RTT.
    pub(crate) written: [usize; 3],
    level: usize,
    outbox: Vec<Vec<u8>>,
}

impl End {
    fn new(session: Box<dyn Session>) -> Self {
        Self {
            session,
            handshake: None,
            one_rtt: None,
            written: [0; 3],
            level: 0,
            outbox: Vec::new(),
        }
    }

    /// Writes until nothing is left, and takes the keys.
    fn write(&mut self) {
        loop {
            let mut out = Vec::new();
            let change = self.session.write_handshake(&mut out);
            if change.is_none() && out.is_empty() {
                return;
            }
            if let Some(written) = self.written.get_mut(self.level) {
                *written += out.len();
            }
            if !out.is_empty() {
                self.outbox.push(out);
            }
            match change {
                Some(KeyChange::Handshake(keys)) => {
                    self.handshake = Some(keys);
                    self.level = 1;
                }
                Some(KeyChange::OneRtt(keys, phases)) => {
                    self.one_rtt = Some((keys, phases));
                    self.level = 2;
                }
                None => {}
            }
        }
    }
}

/// The result of a handshake.
pub(crate) struct HandshakeResult {
    pub(crate) client: End,
    pub(crate) server: End,
    /// Flights in alternating directions, beginning with the client's.
    pub(crate) flights: usize,
    /// The error of the end that failed.
    pub(crate) failure: Option<HandshakeError>,
}

/// Runs a handshake, passing on bytes in pieces of at most `piece`.
pub(crate) fn handshake(
    client: &dyn ClientCrypto,
    server: &dyn ServerCrypto,
    name: &str,
    piece: usize,
) -> HandshakeResult {
    let mut outcome = HandshakeResult {
        client: End::new(client.start(name, b"from client".to_vec(), 1).unwrap()),
        server: End::new(server.start(b"from server".to_vec(), 2).unwrap()),
        flights: 0,
        failure: None,
    };
    outcome.client.write();
    loop {
        let (from, to) = if outcome.flights.is_multiple_of(2) {
            (&mut outcome.client, &mut outcome.server)
        } else {
            (&mut outcome.server, &mut outcome.client)
        };
        let flight = core::mem::take(&mut from.outbox);
        if flight.is_empty() {
            return outcome;
        }
        outcome.flights += 1;
        for part in flight.iter().flat_map(|bytes| bytes.chunks(piece)) {
            if let Err(error) = to.session.read_handshake(part) {
                outcome.failure = Some(error);
                return outcome;
            }
            to.write();
        }
    }
}
