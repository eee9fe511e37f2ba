//! Peers whose handshake doesn't contain transport parameters.

use super::*;
use crate::crypto::{
    ExportError, HandshakeData, HandshakeError, KeyChange, Keys, RETRY_TAG_LEN, Session, StartError,
};

/// Sessions that find no parameters in the peer's handshake.
#[derive(Debug)]
struct Without(NullCrypto);

impl Without {
    fn new() -> Arc<Self> {
        Arc::new(Self(NullCrypto::new(&[b"test"])))
    }
}

impl InitialCrypto for Without {
    fn initial_keys(&self, client_dcid: &[u8], side: crate::crypto::Side) -> Keys {
        self.0.initial_keys(client_dcid, side)
    }

    fn retry_tag(&self, original_dcid: &[u8], packet: &[u8]) -> [u8; RETRY_TAG_LEN] {
        self.0.retry_tag(original_dcid, packet)
    }
}

type Started = Result<Box<dyn Session>, StartError>;
impl ClientCrypto for Without {
    fn start(&self, name: &str, parameters: Vec<u8>, seed: u64) -> Started {
        let session = ClientCrypto::start(&self.0, name, parameters, seed)?;
        Ok(Box::new(Unread(session)))
    }
}

impl ServerCrypto for Without {
    fn start(&self, parameters: Vec<u8>, seed: u64) -> Started {
        let session = ServerCrypto::start(&self.0, parameters, seed)?;
        Ok(Box::new(Unread(session)))
    }
}

struct Unread(Box<dyn Session>);

impl Session for Unread {
    fn read_handshake(&mut self, bytes: &[u8]) -> Result<(), HandshakeError> {
        self.0.read_handshake(bytes)
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        self.0.write_handshake(out)
    }

    fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    fn peer_transport_parameters(&self) -> Option<&[u8]> {
        None
    }

    fn handshake_data(&self) -> HandshakeData {
        self.0.handshake_data()
    }

    fn peer_certificates(&self) -> Vec<Vec<u8>> {
        self.0.peer_certificates()
    }

    fn export_keying_material(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportError> {
        self.0.export_keying_material(out, label, context)
    }
}

/// RFC 9001 §8.2: the handshake fails with missing_extension, at either end.
#[test]
fn a_peer_without_transport_parameters_is_refused() {
    // [9001 8.2 missing-parameters]
    for client in [true, false] {
        let mut setup = Setup::default();
        if client {
            setup.client_crypto = Without::new();
        } else {
            setup.server_crypto = Without::new();
        }
        let mut pair = Pair::with(setup);
        pair.run(Duration::from_millis(100));
        assert_eq!(pair.host(client).closed_with(), Code::crypto(109));
        assert_eq!(pair.host(!client).peer_closed_with(), Code::crypto(109));
    }
}
