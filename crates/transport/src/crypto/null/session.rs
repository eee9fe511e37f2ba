//! The null cipher's handshake: TLS 1.3's flights without its cryptography.
//!
//! ```text
//!   client                         server
//!     ClientHello        ─Initial─►
//!                        ◄─Initial─  ServerHello
//!                        ◄Handshake  EncryptedExtensions, Certificate, CertificateVerify, Finished
//!     Finished           Handshake►
//! ```
//!
//! Messages have the types, framing and approximate sizes of TLS, but different contents:
//!
//! ```text
//!   type (8) length (24) body
//!   body: fields as length (16) and bytes, then zeros up to the size of the TLS message
//! ```
//!
//! A client announces early data in an additional field of its ClientHello, and a server accepts it
//! in an additional field of its EncryptedExtensions. The keys for early data are derived from the
//! client's random number.

use super::{Digest, NullCrypto, NullPhases, keys_for};
use crate::crypto::{
    DirectionalKeys, ExportError, HandshakeData, HandshakeError, KeyChange, Session, Side,
};

/// The next message to read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    SendClientHello,
    AwaitClientHello,
    AwaitServerHello,
    SendServerHello,
    TakeHandshakeKeys,
    SendServerFlight,
    AwaitEncryptedExtensions,
    AwaitCertificate,
    AwaitCertificateVerify,
    AwaitServerFinished,
    SendClientFinished,
    AwaitClientFinished,
    Done,
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
    secret: u64,
    transcript: Digest,
    incoming: Vec<u8>,
    /// Secret for the keys of early data. At a server: early data is accepted.
    early_secret: Option<u64>,
    /// Client: whether the server accepts early data.
    early_accepted: bool,
}

/// The field that announces or accepts early data.
const EARLY: &[u8] = &[1];

impl NullSession {
    /// Creates a session, which at a client is for the server `server_name`.
    pub(super) fn new(
        config: &NullCrypto,
        side: Side,
        server_name: Option<&str>,
        local_parameters: Vec<u8>,
        seed: u64,
    ) -> Self {
        let random = Digest::new(seed).number(side.is_client().into()).finish().0;
        let offers_early = side.is_client() && config.early.is_some();
        Self {
            side,
            step: match side {
                Side::Client => Step::SendClientHello,
                Side::Server => Step::AwaitClientHello,
            },
            config: config.clone(),
            server_name: server_name.map(str::to_owned),
            local_parameters,
            peer_parameters: None,
            protocol: None,
            random,
            secret: 0,
            transcript: Digest::new(0),
            incoming: Vec::new(),
            early_secret: offers_early.then(|| Self::early_secret(random)),
            early_accepted: false,
        }
    }

    fn early_secret(client: u64) -> u64 {
        Digest::new(client).number(0x3e1).finish().0
    }

    /// Reads the last field of a message. If the field is absent, there is padding instead.
    fn read_early(&self, mut body: &[u8]) -> bool {
        self.config.early.is_some() && field(&mut body).is_ok_and(|field| field == EARLY)
    }

    /// Writes a message, and adds it to the transcript.
    fn say(&mut self, kind: u8, fields: &[&[u8]], out: &mut Vec<u8>) {
        let start = out.len();
        write(kind, fields, out);
        let said = out.get(start..).unwrap_or(&[]);
        self.transcript = self.transcript.clone().absorb(said);
    }

    fn say_finished(&mut self, out: &mut Vec<u8>) {
        let sum = self.transcript.clone().finish_bytes();
        self.say(FINISHED, &[&sum], out);
    }

    fn check_finished(&self, mut body: &[u8]) -> Result<(), HandshakeError> {
        if field(&mut body)? == self.transcript.clone().finish_bytes() {
            Ok(())
        } else {
            Err(failure(DECRYPT_ERROR, "transcripts differ"))
        }
    }

    fn read_random(field: &[u8]) -> Result<u64, HandshakeError> {
        field
            .first_chunk()
            .map(|b| u64::from_be_bytes(*b))
            .ok_or_else(|| failure(DECODE_ERROR, "random too short"))
    }

    /// Computes the secret, which both sides derive from the hellos.
    fn agree(&mut self, client: u64, server: u64) {
        self.secret = Digest::new(client).number(server).finish().0;
    }

    fn handshake_keys(&self) -> KeyChange {
        let secret = Digest::new(self.secret).number(1).finish().0;
        KeyChange::Handshake(keys_for(secret, self.side, self.config.policy))
    }

    fn one_rtt_keys(&self) -> KeyChange {
        let secret = Digest::new(self.secret).number(2).finish().0;
        KeyChange::OneRtt(
            keys_for(secret, self.side, self.config.policy),
            Box::new(NullPhases {
                secret,
                side: self.side,
                policy: self.config.policy,
            }),
        )
    }

    fn read_client_hello(&mut self, mut body: &[u8]) -> Result<(), HandshakeError> {
        let client = Self::read_random(field(&mut body)?)?;
        let name = field(&mut body)?;
        self.server_name = String::from_utf8(name.to_vec()).ok();
        self.peer_parameters = Some(field(&mut body)?.to_vec());
        let mut offered = field(&mut body)?;
        if self.read_early(body) {
            self.early_secret = Some(Self::early_secret(client));
        }
        let mut theirs = Vec::new();
        while !offered.is_empty() {
            theirs.push(field(&mut offered)?);
        }
        let mut ours = self.config.protocols.iter();
        self.protocol = ours.find(|ours| theirs.contains(&ours.as_slice())).cloned();
        if self.protocol.is_none() && !self.config.protocols.is_empty() {
            return Err(HandshakeError::NoApplicationProtocol);
        }
        self.agree(client, self.random);
        self.step = Step::SendServerHello;
        Ok(())
    }

    fn read_encrypted_extensions(&mut self, mut body: &[u8]) -> Result<(), HandshakeError> {
        self.peer_parameters = Some(field(&mut body)?.to_vec());
        let chosen = field(&mut body)?;
        self.early_accepted = self.read_early(body);
        self.protocol = self.config.protocols.iter().find(|p| *p == chosen).cloned();
        if self.protocol.is_none() && !(self.config.protocols.is_empty() && chosen.is_empty()) {
            return Err(HandshakeError::NoApplicationProtocol);
        }
        self.step = Step::AwaitCertificate;
        Ok(())
    }

    fn read_message(&mut self, kind: u8, mut body: &[u8]) -> Result<(), HandshakeError> {
        match (self.step, kind) {
            (Step::AwaitClientHello, CLIENT_HELLO) => self.read_client_hello(body)?,
            (Step::AwaitServerHello, SERVER_HELLO) => {
                let server = Self::read_random(field(&mut body)?)?;
                self.agree(self.random, server);
                self.step = Step::TakeHandshakeKeys;
            }
            (Step::AwaitEncryptedExtensions, ENCRYPTED_EXTENSIONS) => {
                self.read_encrypted_extensions(body)?;
            }
            (Step::AwaitCertificate, CERTIFICATE) => {
                self.step = Step::AwaitCertificateVerify;
            }
            (Step::AwaitCertificateVerify, CERTIFICATE_VERIFY) => {
                self.step = Step::AwaitServerFinished;
            }
            (Step::AwaitServerFinished, FINISHED) => {
                self.check_finished(body)?;
                self.step = Step::SendClientFinished;
            }
            (Step::AwaitClientFinished, FINISHED) => {
                self.check_finished(body)?;
                self.step = Step::Done;
            }
            _ => {
                return Err(failure(
                    UNEXPECTED_MESSAGE,
                    "handshake message out of order",
                ));
            }
        }
        Ok(())
    }
}

impl Session for NullSession {
    fn read_handshake(&mut self, bytes: &[u8]) -> Result<(), HandshakeError> {
        self.incoming.extend_from_slice(bytes);
        while let Some((kind, whole)) = next(&mut self.incoming)? {
            self.read_message(kind, whole.get(4..).unwrap_or(&[]))?;
            self.transcript = self.transcript.clone().absorb(&whole);
        }
        Ok(())
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        match self.step {
            Step::SendClientHello => {
                let mut offered = Vec::new();
                for protocol in &self.config.protocols {
                    put_field(protocol, &mut offered);
                }
                let name = self.server_name.clone().unwrap_or_default();
                let parameters = core::mem::take(&mut self.local_parameters);
                let random = self.random.to_be_bytes();
                let fields: [&[u8]; 5] = [&random, name.as_bytes(), &parameters, &offered, EARLY];
                let early = usize::from(self.early_secret.is_some());
                let said = fields.get(..4 + early).unwrap_or(&fields);
                self.say(CLIENT_HELLO, said, out);
                self.step = Step::AwaitServerHello;
                None
            }
            Step::SendServerHello => {
                self.say(SERVER_HELLO, &[&self.random.to_be_bytes()], out);
                self.step = Step::SendServerFlight;
                Some(self.handshake_keys())
            }
            Step::TakeHandshakeKeys => {
                self.step = Step::AwaitEncryptedExtensions;
                Some(self.handshake_keys())
            }
            Step::SendServerFlight => {
                let parameters = core::mem::take(&mut self.local_parameters);
                let protocol = self.protocol.clone().unwrap_or_default();
                let fields: [&[u8]; 3] = [&parameters, &protocol, EARLY];
                let early = usize::from(self.early_secret.is_some());
                let said = fields.get(..2 + early).unwrap_or(&fields);
                self.say(ENCRYPTED_EXTENSIONS, said, out);
                self.say(CERTIFICATE, &[], out);
                self.say(CERTIFICATE_VERIFY, &[], out);
                self.say_finished(out);
                self.step = Step::AwaitClientFinished;
                Some(self.one_rtt_keys())
            }
            Step::SendClientFinished => {
                self.say_finished(out);
                self.step = Step::Done;
                Some(self.one_rtt_keys())
            }
            _ => None,
        }
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
            let bytes = base.clone().number(i as u64).finish_bytes();
            block
                .iter_mut()
                .zip(bytes)
                .for_each(|(to, from)| *to = from);
        }
        Ok(())
    }
}

pub(super) const CLIENT_HELLO: u8 = 1;
pub(super) const SERVER_HELLO: u8 = 2;
pub(super) const ENCRYPTED_EXTENSIONS: u8 = 8;
pub(super) const CERTIFICATE: u8 = 11;
pub(super) const CERTIFICATE_VERIFY: u8 = 15;
pub(super) const FINISHED: u8 = 20;

/// Longer messages are refused before they are stored.
const MAX_MESSAGE: usize = 1 << 16;

/// TLS alerts (RFC 8446 §6).
pub(super) const UNEXPECTED_MESSAGE: u8 = 10;
pub(super) const DECODE_ERROR: u8 = 50;
pub(super) const DECRYPT_ERROR: u8 = 51;

pub(super) fn failure(alert: u8, reason: &str) -> HandshakeError {
    HandshakeError::Tls {
        alert,
        reason: reason.to_owned(),
    }
}

/// Length of TLS messages beyond our fields: rustls with X25519, ECDSA P-256 and a certificate
/// of 430 bytes.
const fn padding(kind: u8) -> usize {
    match kind {
        CLIENT_HELLO => 169,
        SERVER_HELLO => 76,
        ENCRYPTED_EXTENSIONS => 9,
        CERTIFICATE => 441,
        CERTIFICATE_VERIFY => 75,
        FINISHED => 14,
        _ => 0,
    }
}

pub(super) fn write(kind: u8, fields: &[&[u8]], out: &mut Vec<u8>) {
    let len = fields.iter().map(|f| 2 + f.len()).sum::<usize>() + padding(kind);
    let [_, high, mid, low] = u32::try_from(len).unwrap_or(0).to_be_bytes();
    out.extend_from_slice(&[kind, high, mid, low]);
    for field in fields {
        put_field(field, out);
    }
    out.resize(out.len() + padding(kind), 0);
}

pub(super) fn put_field(field: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&u16::try_from(field.len()).unwrap_or(0).to_be_bytes());
    out.extend_from_slice(field);
}

pub(super) fn field<'a>(body: &mut &'a [u8]) -> Result<&'a [u8], HandshakeError> {
    let (len, rest) = body
        .split_first_chunk::<2>()
        .ok_or_else(|| failure(DECODE_ERROR, "field missing"))?;
    let (value, rest) = rest
        .split_at_checked(usize::from(u16::from_be_bytes(*len)))
        .ok_or_else(|| failure(DECODE_ERROR, "field too long"))?;
    *body = rest;
    Ok(value)
}

/// Removes the next complete message from `buffer`: its type, and all bytes including the
/// header.
pub(super) fn next(buffer: &mut Vec<u8>) -> Result<Option<(u8, Vec<u8>)>, HandshakeError> {
    let Some([kind, high, mid, low]) = buffer.first_chunk().copied() else {
        return Ok(None);
    };
    let len = u32::from_be_bytes([0, high, mid, low]) as usize;
    if len > MAX_MESSAGE {
        return Err(failure(DECODE_ERROR, "message too long"));
    }
    if buffer.len() < 4 + len {
        return Ok(None);
    }
    let rest = buffer.split_off(4 + len);
    Ok(Some((kind, core::mem::replace(buffer, rest))))
}
