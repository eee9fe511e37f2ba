//! The two ends of a simulation.

use std::net::SocketAddr;
use std::sync::Arc;

use pathmark_cc::Algorithm;
use pathmark_transport::connection::{Connection, ConnectionError};
use pathmark_transport::crypto::null::NullEndpointKey;
use pathmark_transport::crypto::{ClientCrypto, Random, ServerCrypto};
use pathmark_transport::endpoint::{
    Connect, ConnectionHandle, Endpoint, EndpointConfig, ServerConfig,
};
use pathmark_transport::{Duration, Instant, TransportConfig};
use vcp_proto::VcpSignal;

use super::addresses::Addresses;
use super::applications::{Application, CLIENT, SERVER};
use super::messages::Messages;
use super::plan::{Move, Plan};

/// Memory for waiting datagrams in bytes, which is not enough for all datagrams.
const DATAGRAM_MEMORY: usize = 20_000;

/// One of the two ends.
pub(crate) struct End {
    pub(super) endpoint: Endpoint,
    pub(super) connection: Option<(ConnectionHandle, Box<Connection>)>,
    pub(super) application: Application,
    pub(super) messages: Messages,
    pub(super) error: Option<ConnectionError>,
    pub(super) asleep_until: Option<Instant>,
    pub(super) dead: bool,
    /// How far its clock is ahead of the other end's.
    pub(super) ahead: Duration,
    /// The peer has decided on early data.
    pub(super) early: bool,
}

pub(crate) fn transport(plan: &Plan) -> TransportConfig {
    let law = match plan.feedback {
        true => "vcp+bise+wlte",
        false => "newreno",
    };
    let law = Algorithm::parse(law).expect("known");
    let mut transport = TransportConfig::new(Arc::new(move |now, mtu| law.controller(now, mtu)));
    if plan.feedback {
        transport.signals = vec![Arc::new(VcpSignal::default())];
    }
    if plan.datagrams != [0, 0] {
        transport.datagrams.receive_bytes = DATAGRAM_MEMORY;
        transport.datagrams.send_bytes = DATAGRAM_MEMORY;
    }
    transport.key_update_after = plan.key_update_after;
    transport
}

fn endpoint_config(plan: &Plan, key: Arc<NullEndpointKey>) -> EndpointConfig {
    let mut config = EndpointConfig::new(key, Duration::from_secs(1));
    if let Some(short) = plan.shortage {
        config.receive_memory = short.bytes;
    }
    config
}

pub(crate) fn server_config(
    plan: &Plan,
    key: Arc<NullEndpointKey>,
    crypto: Arc<dyn ServerCrypto>,
) -> EndpointConfig {
    let mut config = endpoint_config(plan, key);
    config.server = Some(ServerConfig {
        transport: Arc::new(transport(plan)),
        crypto,
    });
    config
}

/// Returns both ends. The client has already started a connection.
pub(crate) fn ends(
    now: Instant,
    plan: &Plan,
    key: Arc<NullEndpointKey>,
    config: &EndpointConfig,
    crypto: Arc<dyn ClientCrypto>,
    server: SocketAddr,
    random: &mut Random,
) -> [End; 2] {
    let mut patient = transport(plan);
    // Otherwise a client that only waits would send nothing from which the server could learn its
    // new address.
    patient.keep_alive = Some(Duration::from_secs(3));
    let ahead = [0, 1].map(|_| Duration::from_micros(random.below(10_000_000_000)));
    let mut client = Endpoint::new(endpoint_config(plan, key), random.fork());
    let connect = Connect {
        config: Arc::new(patient),
        crypto,
        server_name: "server.test".into(),
        remote: server,
        local: None,
        token: Vec::new(),
    };
    let connection = client.connect(now + ahead[0], connect).expect("begun");
    let end = |endpoint, connection, side: usize| End {
        endpoint,
        connection,
        application: Application::new(plan, side),
        messages: Messages::new(plan.datagrams, side),
        error: None,
        asleep_until: None,
        dead: false,
        ahead: ahead[side],
        early: false,
    };
    [
        end(client, Some(connection), CLIENT),
        end(Endpoint::new(config.clone(), random.fork()), None, SERVER),
    ]
}

/// Moves the client if this is possible now.
pub(crate) fn move_on(
    connection: &mut Connection,
    now: Instant,
    addresses: &mut Addresses,
    how: Move,
) -> bool {
    let mut there = addresses.clone();
    let local = Some(there.add(how != Move::TryInVain));
    let moves = connection.handshake().is_confirmed()
        && match how {
            Move::Leave => connection.migrate(now, local),
            Move::Try | Move::TryInVain => connection.try_address(now, local),
        };
    if moves {
        *addresses = there;
    }
    moves
}
