//! The null cipher's handshake: TLS 1.3's flights without its cryptography.
//!
//! ```text
//!   client                         server
//!     ClientHello        ─Initial─►
//!                        ◄─Initial─  ServerHello
//!                        ◄Handshake  flight: EncryptedExtensions to Finished
//!     Finished           Handshake►
//! ```
//!
//! Each arrow is one message, which has the framing of TLS and the size of TLS's messages, but
//! different contents: `type (8) length (24) body`. The body consists of fields, each with its
//! length (16), and of zeros up to the size.
//!
//! A client announces early data in an additional field of its ClientHello, and a server accepts it
//! in an additional field of its flight. The keys for early data are derived from the client's
//! random number.

use super::{Digest, NullCrypto, NullPhases, keys_for};
use crate::crypto::{
    DirectionalKeys, ExportError, HandshakeData, HandshakeError, KeyChange, Keys, Session, Side,
};

/// The next message of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    ClientHello,
    ServerHello,
    ServerFlight,
    ClientFinished,
    Done,
}

impl Step {
    /// Returns who sends the message.
    fn sender(self) -> Option<Side> {
        match self {
            Self::ClientHello | Self::ClientFinished => Some(Side::Client),
            Self::ServerHello | Self::ServerFlight => Some(Side::Server),
            Self::Done => None,
        }
    }

    /// Returns the message's type, and the length of TLS messages beyond our fields: rustls with
    /// X25519, ECDSA P-256 and a certificate of 430 bytes.
    fn form(self) -> (u8, usize) {
        match self {
            Self::ClientHello => (1, 169),
            Self::ServerHello => (2, 76),
            Self::ServerFlight => (8, 551),
            Self::ClientFinished | Self::Done => (20, 14),
        }
    }

    fn next(self) -> Self {
        match self {
            Self::ClientHello => Self::ServerHello,
            Self::ServerHello => Self::ServerFlight,
            Self::ServerFlight => Self::ClientFinished,
            Self::ClientFinished | Self::Done => Self::Done,
        }
    }
}

pub(super) struct NullSession {
    side: Side,
    step: Step,
    config: NullCrypto,
    server_name: Option<String>,
    local_parameters: Vec<u8>,
    peer_parameters: Option<Vec<u8>>,
    protocol: Option<Vec<u8>>,
    random: u64,
    /// Both sides derive it from the hellos.
    secret: u64,
    incoming: Vec<u8>,
    /// Client: the keys that the ServerHello has brought are not taken yet.
    has_handshake_keys: bool,
    /// Secret for the keys of early data. At a server: early data is accepted.
    early_secret: Option<u64>,
    /// Client: whether the server accepts early data.
    early_accepted: bool,
}

/// The field that announces or accepts early data.
const EARLY: &[u8] = &[1];
/// Longer messages are refused before they are stored.
const MAX_MESSAGE: usize = 1 << 16;
/// TLS alerts (RFC 8446 §6).
const UNEXPECTED_MESSAGE: u8 = 10;
const DECODE_ERROR: u8 = 50;
const DECRYPT_ERROR: u8 = 51;

fn failure(alert: u8, reason: &str) -> HandshakeError {
    HandshakeError::Tls {
        alert,
        reason: reason.to_owned(),
    }
}

fn early_secret(client: u64) -> u64 {
    Digest::new(client).number(0x3e1).finish().0
}

fn put_field(field: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&u16::try_from(field.len()).unwrap_or(0).to_be_bytes());
    out.extend_from_slice(field);
}

fn field<'a>(body: &mut &'a [u8]) -> Result<&'a [u8], HandshakeError> {
    let short = || failure(DECODE_ERROR, "message too short");
    let (len, rest) = body.split_first_chunk().ok_or_else(short)?;
    let len = usize::from(u16::from_be_bytes(*len));
    let (value, rest) = rest.split_at_checked(len).ok_or_else(short)?;
    *body = rest;
    Ok(value)
}

impl NullSession {
    /// Creates a session, which at a client is for the server `server_name`.
    pub(super) fn new(
        config: &NullCrypto,
        side: Side,
        server_name: Option<String>,
        local_parameters: Vec<u8>,
        seed: u64,
    ) -> Self {
        let random = Digest::new(seed).number(side.is_client().into()).finish().0;
        let offers_early = side.is_client() && config.early.is_some();
        Self {
            side,
            step: Step::ClientHello,
            config: config.clone(),
            server_name,
            local_parameters,
            peer_parameters: None,
            protocol: None,
            random,
            secret: 0,
            incoming: Vec::new(),
            has_handshake_keys: false,
            early_secret: offers_early.then(|| early_secret(random)),
            early_accepted: false,
        }
    }

    /// Sets the secret from the random number of the peer.
    fn agree(&mut self, mut peer: &[u8]) -> Result<u64, HandshakeError> {
        let peer = field(&mut peer)?.first_chunk();
        let peer = u64::from_be_bytes(*peer.ok_or_else(|| failure(DECODE_ERROR, "no random"))?);
        let (client, server) = match self.side {
            Side::Client => (self.random, peer),
            Side::Server => (peer, self.random),
        };
        self.secret = Digest::new(client).number(server).finish().0;
        Ok(peer)
    }

    fn keys(&self, level: u64) -> (u64, Keys) {
        let secret = Digest::new(self.secret).number(level).finish().0;
        (secret, keys_for(secret, self.side, self.config.policy))
    }

    fn handshake_keys(&self) -> KeyChange {
        KeyChange::Handshake(self.keys(1).1)
    }

    fn one_rtt_keys(&self) -> KeyChange {
        let (secret, keys) = self.keys(2);
        let phases = NullPhases {
            secret,
            side: self.side,
            policy: self.config.policy,
        };
        KeyChange::OneRtt(keys, Box::new(phases))
    }

    /// Returns the contents of a Finished message of `side`.
    fn finished(&self, side: Side) -> [u8; 16] {
        let secret = Digest::new(self.secret);
        secret.number(side.is_client().into()).finish_bytes()
    }

    /// Reads the last field of a message. If the field is absent, there is padding instead.
    fn read_early(&self, mut body: &[u8]) -> bool {
        self.config.early.is_some() && field(&mut body).is_ok_and(|field| field == EARLY)
    }

    fn check_finished(&self, sum: &[u8]) -> Result<(), HandshakeError> {
        let is_right = *sum == self.finished(self.side.peer());
        is_right
            .then_some(())
            .ok_or_else(|| failure(DECRYPT_ERROR, "hellos differ"))
    }

    /// Sets the first protocol of ours that `is_common`.
    fn choose(&mut self, is_common: impl Fn(&[u8]) -> bool) -> Result<(), HandshakeError> {
        let ours = &self.config.protocols;
        self.protocol = ours.iter().find(|protocol| is_common(protocol)).cloned();
        if self.protocol.is_some() || ours.is_empty() && is_common(&[]) {
            return Ok(());
        }
        Err(HandshakeError::NoApplicationProtocol)
    }

    fn read_message(&mut self, mut body: &[u8]) -> Result<(), HandshakeError> {
        match self.step {
            Step::ClientHello => {
                let client = self.agree(body)?;
                field(&mut body)?;
                self.server_name = String::from_utf8(field(&mut body)?.to_vec()).ok();
                self.peer_parameters = Some(field(&mut body)?.to_vec());
                let mut offered = field(&mut body)?;
                if self.read_early(body) {
                    self.early_secret = Some(early_secret(client));
                }
                let mut theirs = vec![&[][..]];
                while !offered.is_empty() {
                    theirs.push(field(&mut offered)?);
                }
                self.choose(|protocol| theirs.contains(&protocol))
            }
            Step::ServerHello => {
                self.has_handshake_keys = true;
                self.agree(body).map(drop)
            }
            Step::ServerFlight => {
                self.peer_parameters = Some(field(&mut body)?.to_vec());
                let chosen = field(&mut body)?;
                self.check_finished(field(&mut body)?)?;
                self.early_accepted = self.read_early(body);
                self.choose(|protocol| protocol == chosen)
            }
            Step::ClientFinished | Step::Done => self.check_finished(field(&mut body)?),
        }
    }

    /// Writes the message of this step, with the field of early data if there is any.
    fn write_message(&self, fields: &[&[u8]], out: &mut Vec<u8>) {
        let (kind, padding) = self.step.form();
        let has_early = matches!(self.step, Step::ClientHello | Step::ServerFlight);
        let early = self.early_secret.filter(|_| has_early).map(|_| EARLY);
        let start = out.len();
        out.extend_from_slice(&[kind, 0, 0, 0]);
        for field in fields.iter().copied().chain(early) {
            put_field(field, out);
        }
        out.resize(out.len() + padding, 0);
        let len = u32::try_from(out.len() - start - 4).unwrap_or(0);
        if let Some(place) = out.get_mut(start + 1..start + 4) {
            place.copy_from_slice(&len.to_be_bytes()[1..]);
        }
    }
}

impl Session for NullSession {
    fn read_handshake(&mut self, bytes: &[u8]) -> Result<(), HandshakeError> {
        self.incoming.extend_from_slice(bytes);
        while let Some([kind, high, mid, low]) = self.incoming.first_chunk().copied() {
            if self.step.sender() != Some(self.side.peer()) || kind != self.step.form().0 {
                return Err(failure(
                    UNEXPECTED_MESSAGE,
                    "handshake message out of order",
                ));
            }
            let end = 4 + u32::from_be_bytes([0, high, mid, low]) as usize;
            if end > MAX_MESSAGE {
                return Err(failure(DECODE_ERROR, "message too long"));
            }
            if self.incoming.len() < end {
                break;
            }
            let rest = self.incoming.split_off(end);
            let message = core::mem::replace(&mut self.incoming, rest);
            self.read_message(message.get(4..).unwrap_or(&[]))?;
            self.step = self.step.next();
        }
        Ok(())
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        if core::mem::take(&mut self.has_handshake_keys) {
            return Some(self.handshake_keys());
        }
        if self.step.sender() != Some(self.side) {
            return None;
        }
        let random = self.random.to_be_bytes();
        let parameters = core::mem::take(&mut self.local_parameters);
        let sum = self.finished(self.side);
        let keys = match self.step {
            Step::ClientHello => {
                let mut offered = Vec::new();
                for protocol in &self.config.protocols {
                    put_field(protocol, &mut offered);
                }
                let name = self.server_name.clone().unwrap_or_default();
                self.write_message(&[&random, name.as_bytes(), &parameters, &offered], out);
                None
            }
            Step::ServerHello => {
                self.write_message(&[&random], out);
                self.local_parameters = parameters;
                Some(self.handshake_keys())
            }
            Step::ServerFlight => {
                let protocol = self.protocol.as_deref().unwrap_or_default();
                self.write_message(&[&parameters, protocol, &sum], out);
                Some(self.one_rtt_keys())
            }
            Step::ClientFinished | Step::Done => {
                self.write_message(&[&sum], out);
                Some(self.one_rtt_keys())
            }
        };
        self.step = self.step.next();
        keys
    }

    fn is_handshaking(&self) -> bool {
        self.step != Step::Done
    }

    fn peer_transport_parameters(&self) -> Option<&[u8]> {
        self.peer_parameters.as_deref()
    }

    fn zero_rtt_keys(&self) -> Option<DirectionalKeys> {
        let keys = keys_for(self.early_secret?, self.side, self.config.policy);
        Some(match self.side {
            Side::Client => keys.local,
            Side::Server => keys.remote,
        })
    }

    fn remembered_parameters(&self) -> Option<&[u8]> {
        self.config.early.as_deref()
    }

    fn early_data_accepted(&self) -> bool {
        self.early_accepted
    }

    fn may_take_early_data(&self) -> bool {
        self.side.is_server() && self.config.early.is_some()
    }

    fn handshake_data(&self) -> HandshakeData {
        HandshakeData {
            protocol: self.protocol.clone(),
            server_name: self.server_name.clone().filter(|_| self.side.is_server()),
            resumed: false,
        }
    }

    fn peer_certificates(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn export_keying_material(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportError> {
        if self.is_handshaking() {
            return Err(ExportError);
        }
        let base = Digest::new(self.secret).absorb(label).absorb(context);
        for (i, block) in out.chunks_mut(16).enumerate() {
            let bytes = base.number(i as u64).finish_bytes();
            block.copy_from_slice(bytes.get(..block.len()).unwrap_or(&[]));
        }
        Ok(())
    }
}
