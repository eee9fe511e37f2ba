//! Connections of either implementation, and how they end.

use std::net::SocketAddr;

use pathmark_driver as driver;
use pathmark_transport::connection::ConnectionError;
use quinn::VarInt;
use quinn::crypto::rustls::HandshakeData;
use rustls::pki_types::CertificateDer;

use super::super::streams::{Receiver, Sender};

/// A connection of either implementation.
#[derive(Clone, Debug)]
pub(crate) enum Connection {
    Ours(driver::Connection),
    Quinn(quinn::Connection),
}

/// Why a connection ended, independent of the implementation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer's application closed it.
    Application {
        code: u64,
        reason: Vec<u8>,
    },
    /// The peer's transport closed it, with this code.
    PeerTransport(u64),
    /// This side's transport closed it, with this code.
    Transport(u64),
    /// This side's application closed it.
    Local,
    Reset,
    TimedOut,
    VersionMismatch,
}

impl From<ConnectionError> for End {
    fn from(error: ConnectionError) -> Self {
        // Tests only compare codes, but the message helps when looking into a failure.
        eprintln!("our side: {error}");
        match error {
            ConnectionError::TransportError(error) => Self::Transport(error.code.0),
            ConnectionError::ConnectionClosed(error) => Self::PeerTransport(error.code.0),
            ConnectionError::ApplicationClosed(close) => Self::Application {
                code: close.error_code.into_inner(),
                reason: close.reason.to_vec(),
            },
            ConnectionError::LocallyClosed => Self::Local,
            ConnectionError::Reset => Self::Reset,
            ConnectionError::TimedOut => Self::TimedOut,
            ConnectionError::VersionMismatch => Self::VersionMismatch,
            other => panic!("an end that these tests do not know: {other}"),
        }
    }
}

impl From<quinn::ConnectionError> for End {
    fn from(error: quinn::ConnectionError) -> Self {
        eprintln!("quinn: {error}");
        match error {
            quinn::ConnectionError::TransportError(error) => Self::Transport(error.code.into()),
            quinn::ConnectionError::ConnectionClosed(close) => {
                Self::PeerTransport(close.error_code.into())
            }
            quinn::ConnectionError::ApplicationClosed(close) => Self::Application {
                code: close.error_code.into_inner(),
                reason: close.reason.to_vec(),
            },
            quinn::ConnectionError::LocallyClosed => Self::Local,
            quinn::ConnectionError::Reset => Self::Reset,
            quinn::ConnectionError::TimedOut => Self::TimedOut,
            quinn::ConnectionError::VersionMismatch => Self::VersionMismatch,
            quinn::ConnectionError::CidsExhausted => panic!("quinn ran out of connection ids"),
        }
    }
}

impl Connection {
    pub(crate) async fn open_bi(&self) -> Result<(Sender, Receiver), End> {
        Ok(match self {
            Self::Ours(connection) => {
                let (send, recv) = connection.open_bi().await?;
                (Sender::Ours(send), Receiver::Ours(recv))
            }
            Self::Quinn(connection) => {
                let (send, recv) = connection.open_bi().await?;
                (Sender::Quinn(send), Receiver::Quinn(recv))
            }
        })
    }

    pub(crate) async fn accept_bi(&self) -> Result<(Sender, Receiver), End> {
        Ok(match self {
            Self::Ours(connection) => {
                let (send, recv) = connection.accept_bi().await?;
                (Sender::Ours(send), Receiver::Ours(recv))
            }
            Self::Quinn(connection) => {
                let (send, recv) = connection.accept_bi().await?;
                (Sender::Quinn(send), Receiver::Quinn(recv))
            }
        })
    }

    pub(crate) async fn open_uni(&self) -> Result<Sender, End> {
        Ok(match self {
            Self::Ours(connection) => Sender::Ours(connection.open_uni().await?),
            Self::Quinn(connection) => Sender::Quinn(connection.open_uni().await?),
        })
    }

    pub(crate) async fn accept_uni(&self) -> Result<Receiver, End> {
        Ok(match self {
            Self::Ours(connection) => Receiver::Ours(connection.accept_uni().await?),
            Self::Quinn(connection) => Receiver::Quinn(connection.accept_uni().await?),
        })
    }

    pub(crate) fn close(&self, code: u32, reason: &[u8]) {
        match self {
            Self::Ours(connection) => connection.close(code.into(), reason),
            Self::Quinn(connection) => connection.close(VarInt::from_u32(code), reason),
        }
    }

    pub(crate) async fn closed(&self) -> End {
        match self {
            Self::Ours(connection) => connection.closed().await.into(),
            Self::Quinn(connection) => connection.closed().await.into(),
        }
    }

    pub(crate) fn close_reason(&self) -> Option<End> {
        match self {
            Self::Ours(connection) => connection.close_reason().map(Into::into),
            Self::Quinn(connection) => connection.close_reason().map(Into::into),
        }
    }

    pub(crate) fn remote_address(&self) -> SocketAddr {
        match self {
            Self::Ours(connection) => connection.remote_address(),
            Self::Quinn(connection) => connection.remote_address(),
        }
    }

    /// Returns the negotiated protocol and, at a server, the name that the client requested.
    pub(crate) fn agreed(&self) -> (Option<Vec<u8>>, Option<String>) {
        match self {
            Self::Ours(connection) => {
                let data = connection.handshake_data();
                (data.protocol, data.server_name)
            }
            Self::Quinn(connection) => {
                let data = connection.handshake_data().unwrap();
                let data = data.downcast::<HandshakeData>().unwrap();
                (data.protocol, data.server_name)
            }
        }
    }

    /// Returns the peer's certificates in DER.
    pub(crate) fn certificates(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Ours(connection) => connection.peer_certificates(),
            Self::Quinn(connection) => {
                let identity = connection.peer_identity().unwrap();
                let chain = identity.downcast::<Vec<CertificateDer<'static>>>().unwrap();
                chain.iter().map(|c| c.to_vec()).collect()
            }
        }
    }

    /// Starts a key update. This has no effect while the previous update is in progress.
    pub(crate) fn update_keys(&self) {
        match self {
            Self::Ours(connection) => {
                connection.force_key_update();
            }
            Self::Quinn(connection) => connection.force_key_update(),
        }
    }

    /// Returns the largest datagram that this side sends, in bytes of UDP payload.
    pub(crate) fn mtu(&self) -> u16 {
        match self {
            Self::Ours(connection) => connection.path_report().mtu,
            Self::Quinn(connection) => connection.stats().path.current_mtu,
        }
    }

    /// Returns the connection if it is ours, for facts that only our implementation reports.
    pub(crate) fn ours(&self) -> Option<&driver::Connection> {
        match self {
            Self::Ours(connection) => Some(connection),
            Self::Quinn(_) => None,
        }
    }
}
