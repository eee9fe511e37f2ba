//! Cryptography with and without TLS, and resumed sessions.

use std::sync::Arc;

use pathmark_transport::TransportConfig;
use pathmark_transport::crypto::null::NullCrypto;
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark_transport::crypto::{ClientCrypto, ServerCrypto};
use pathmark_transport::wire::TransportParameters;

use super::plan::{Early, Plan};
use super::world::{Outcome, World};

const PROTOCOLS: [&[u8]; 1] = [b"faults"];

/// The cryptography of the two ends of a simulation.
pub(crate) type Both = (Arc<dyn ClientCrypto>, Arc<dyn ServerCrypto>);

/// Shared by all simulations of a process.
pub(crate) struct Crypto {
    null: Arc<NullCrypto>,
    tls: (Arc<TlsClientConfig>, Arc<TlsServerConfig>),
    early: Arc<TlsServerConfig>,
}

fn client() -> TlsClientConfig {
    TlsClientConfig::new(Trust::Anyone, &PROTOCOLS).expect("usable")
}

impl Crypto {
    pub(crate) fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["server.test".to_owned()]).expect("made");
        let server = || {
            let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
            TlsServerConfig::new(vec![made.cert.der().clone()], key.into(), &PROTOCOLS)
                .expect("usable")
        };
        Self {
            null: Arc::new(NullCrypto::new(&PROTOCOLS)),
            tls: (Arc::new(client()), Arc::new(server())),
            early: Arc::new(server().with_early_data(100)),
        }
    }

    /// Returns the cryptography that `plan` needs, with both ends using `transport`.
    ///
    /// # Errors
    /// If the connection in which the client should get a session failed.
    pub(crate) fn of(&self, plan: &Plan, transport: &TransportConfig) -> Result<Both, String> {
        let Some(early) = plan.early else {
            return Ok(match plan.tls {
                true => (self.tls.0.clone(), self.tls.1.clone()),
                false => (self.null.clone(), self.null.clone()),
            });
        };
        if plan.tls {
            let client = Arc::new(client().with_early_data());
            let mut before = World::new((client.clone(), self.early.clone()), plan.meeting());
            match before.run()? {
                Outcome::Complete => {}
                other => return Err(format!("the meeting before: {other:?}")),
            }
            let server = match early {
                Early::Taken => &self.early,
                Early::Refused => &self.tls.1,
            };
            return Ok((client, server.clone()));
        }
        let remembered = TransportParameters {
            initial_max_data: transport.streams.initial_connection_window,
            initial_max_stream_data_bidi_local: transport.streams.initial_stream_window,
            initial_max_stream_data_bidi_remote: transport.streams.initial_stream_window,
            initial_max_streams_bidi: transport.streams.max_bidi_streams,
            max_datagram_frame_size: match transport.datagrams.receive_bytes {
                0 => 0,
                _ => 65_535,
            },
            ..TransportParameters::DEFAULT
        };
        let client = NullCrypto::new(&PROTOCOLS).with_early_parameters(&remembered);
        let client = Arc::new(client);
        Ok(match early {
            // A server with scarce memory promises less than before, and therefore refuses early
            // data.
            Early::Taken if plan.shortage.is_none() => (client.clone(), client),
            Early::Taken | Early::Refused => (client, self.null.clone()),
        })
    }
}
