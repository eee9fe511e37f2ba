//! The client of a proxy. It carries flows over one HTTP/3 connection, and reconnects when this
//! is lost.

mod dial;
mod keeper;

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU8;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use keeper::{Keeper, Kept, Quic, State};
use pathmark_driver::{Connection, Stall};
use pathmark_http3::http::header::{HeaderName, HeaderValue, PROXY_AUTHORIZATION};
use pathmark_http3::http::{Request, Response, Uri};
use pathmark_http3::wire::capsule::{self, Capsules};
use pathmark_http3::wire::{
    ClientConnect, ClientLink, DatagramFlow, DatagramRefused, LinkError, TunnelRecv, TunnelSend,
    codes,
};
use pathmark_transport::{Ecn, QueueCounters};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::Mutex;

use crate::outbound::{self, Abort, Datagrams, Marks, Outbound, Refusal};
use crate::payload::{self, Contexts, MOST, Marking};
use crate::target::Target;
use crate::uri::{self, Token};

pub use dial::Dialer;
pub use keeper::Switch;

/// The stream may carry capsules (RFC 9297 section 3.4).
const CAPSULE_PROTOCOL: HeaderName = HeaderName::from_static("capsule-protocol");

/// Maximum number of early bytes per read.
const PIECE: usize = 4 * 1024;

/// Timeouts of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelTimes {
    /// Time that a flow waits for a connection to the proxy.
    pub wait: Duration,
    /// Time that a flow waits for its target, including the time for the connection.
    pub open: Duration,
}

impl Default for TunnelTimes {
    fn default() -> Self {
        Self {
            wait: Duration::from_secs(10),
            open: Duration::from_secs(30),
        }
    }
}

/// Opens flows through a proxy. Clones share one connection, which is closed when all
/// clones and their flows have been dropped.
#[derive(Clone, Debug)]
pub struct Tunnel(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    authority: String,
    bearer: Option<HeaderValue>,
    times: TunnelTimes,
    keeper: Keeper,
}

/// A flow that the proxy has opened.
struct Opened {
    send: TunnelSend,
    recv: TunnelRecv,
    datagrams: Option<DatagramFlow>,
    marking: Marking,
}

/// The number of a flow's connection.
type Id = u64;

impl Tunnel {
    /// Starts connecting in a spawned task, which keeps the connection. Without a token, the
    /// proxy authenticates the client by its certificate.
    pub fn new(dialer: Dialer, token: Option<&Token>, times: TunnelTimes) -> Self {
        Self(Arc::new(Inner {
            authority: dialer.server().to_string(),
            bearer: token.and_then(Token::bearer),
            times,
            keeper: Keeper::new(dialer),
        }))
    }

    /// Returns the proxy's host and port.
    pub fn server(&self) -> &str {
        &self.0.authority
    }

    /// Returns the connection.
    ///
    /// # Errors
    /// The reason why there is no connection, as human-readable text.
    pub fn connection(&self) -> Result<Connection, String> {
        match self.0.keeper.now() {
            State::Up(kept) => Ok(kept.quic.connection.clone()),
            none => Err(none.why()),
        }
    }

    /// Asks whether the proxy accepts this client's token or certificate, by requesting a flow to
    /// port 0. The proxy checks the client first and can't open such a flow.
    pub async fn is_refused(&self) -> bool {
        let mut early = tokio::io::empty();
        let opened = self.open("[::]:0".to_owned(), None, &mut early).await;
        matches!(opened, Err(Refusal::Unauthorized))
    }

    /// Opens a flow. If the connection is lost or silent before the proxy has responded, the
    /// next one is used. This must not happen after sending early bytes, because the target may
    /// have received them.
    async fn open(
        &self,
        uri: String,
        protocol: Option<&'static str>,
        early: &mut (impl AsyncRead + Send + Unpin),
    ) -> Result<(Opened, Id), Refusal> {
        let Inner { times, keeper, .. } = &*self.0;
        let head = self.head(uri, protocol.is_some())?;
        let opening = async {
            let (mut lost, mut sent) = (None, false);
            loop {
                let Kept { quic, id } = keeper.link(lost, times.wait).await?;
                let Quic { link, connection } = &quic;
                let attempt = tokio::select! {
                    attempt = attempt(link, head.clone(), protocol, early, &mut sent) => attempt,
                    () = keeper.left(id) => {
                        if sent {
                            return Err(Refusal::Proxy("it is silent".to_owned()));
                        }
                        lost = connection.close_reason().map(|_| id);
                        continue;
                    }
                };
                match attempt {
                    Ok(outcome) => return outcome.map(|opened| (opened, id)),
                    // The target's reset has arrived before the response.
                    Err(LinkError::Reset {
                        code: codes::CONNECT_ERROR,
                    }) => {
                        return Err(Refusal::Refused);
                    }
                    Err(error) if sent || connection.close_reason().is_none() => {
                        return Err(Refusal::Proxy(error.to_string()));
                    }
                    Err(_) => lost = Some(id),
                }
            }
        };
        let opened = tokio::time::timeout(times.open, opening).await;
        opened.unwrap_or(Err(Refusal::TimedOut))
    }

    fn head(&self, uri: String, capsules: bool) -> Result<Request<()>, Refusal> {
        let wrong = |error| Refusal::Proxy(format!("the request cannot be written: {error}"));
        let uri = Uri::try_from(uri).map_err(wrong)?;
        let mut head = Request::new(());
        *head.method_mut() = pathmark_http3::http::Method::CONNECT;
        *head.uri_mut() = uri;
        if let Some(bearer) = self.0.bearer.clone() {
            head.headers_mut().insert(PROXY_AUTHORIZATION, bearer);
        }
        if capsules {
            let yes = HeaderValue::from_static("?1");
            head.headers_mut().insert(CAPSULE_PROTOCOL, yes);
            if let Some(contexts) = Contexts::CLIENT.value() {
                head.headers_mut().insert(payload::FIELD, contexts);
            }
        }
        Ok(head)
    }
}

/// Opens a flow on a connection. Sets `sent` when early bytes are sent.
async fn attempt(
    link: &ClientLink,
    head: Request<()>,
    protocol: Option<&str>,
    early: &mut (impl AsyncRead + Unpin),
    sent: &mut bool,
) -> Result<Result<Opened, Refusal>, LinkError> {
    let no_udp = || Refusal::Proxy("it takes no UDP flows".to_owned());
    if protocol.is_some() && !link.peer_settings().await?.connect_protocol {
        return Ok(Err(no_udp()));
    }
    let mut request = link.connect(head, protocol).await?;
    let response = response(&mut request, early, sent).await?;
    let code = response.status();
    if !code.is_success() {
        let field = response.headers().get(outbound::PROXY_STATUS);
        let field = field.map(HeaderValue::as_bytes);
        return Ok(Err(outbound::refusal_of(code.as_u16(), field)));
    }
    let peer = response.headers().get(&payload::FIELD);
    let marking = Marking::new(Contexts::CLIENT, peer.and_then(Contexts::read));
    let opened = request.into_tunnel().map(|(send, recv, datagrams)| Opened {
        send,
        recv,
        datagrams,
        marking,
    });
    Ok(opened.ok_or_else(no_udp))
}

/// Sends early bytes until the response arrives.
async fn response(
    request: &mut ClientConnect,
    early: &mut (impl AsyncRead + Unpin),
    sent: &mut bool,
) -> Result<Response<()>, LinkError> {
    loop {
        let mut piece = BytesMut::with_capacity(PIECE);
        let read = tokio::select! {
            biased;
            response = request.response() => return response,
            read = early.read_buf(&mut piece) => read,
        };
        // An end or an error is handled by the flow later.
        if !matches!(read, Ok(1..)) {
            break;
        }
        *sent = true;
        // If the server accepts no more bytes, it has already responded.
        if request.send(piece.freeze()).await.is_err() {
            break;
        }
    }
    request.response().await
}

impl Outbound for Tunnel {
    type Read = TunnelRecv;
    type Write = TunnelSend;
    type Datagrams = Flow;

    async fn tcp_early(
        &self,
        target: &Target,
        early: &mut (impl AsyncRead + Send + Unpin),
    ) -> Result<(TunnelRecv, TunnelSend), Refusal> {
        let opening = self.open(target.to_string(), None, early);
        let (Opened { send, recv, .. }, _) = opening.await?;
        send.start_flow();
        Ok((recv, send))
    }

    async fn udp(&self, target: &Target) -> Result<Flow, Refusal> {
        let mut early = tokio::io::empty();
        let uri = format!("https://{}{}", self.0.authority, uri::path(target));
        let opening = self.open(uri, Some("connect-udp"), &mut early);
        let (opened, id) = opening.await?;
        Ok(Flow::new(opened, self.0.keeper.replaced(id)))
    }
}

impl Abort for TunnelRecv {
    fn abort(&mut self) {
        self.stop();
    }
}

impl Abort for TunnelSend {
    fn abort(&mut self) {
        self.reset();
    }

    fn set_weight(&self, weight: NonZeroU8) {
        Self::set_weight(self, weight);
    }

    fn stall(&self) -> Option<Stall> {
        Some(Self::stall(self))
    }
}

/// The datagrams of one flow. Those too long for the path are sent as capsules. The flow ends
/// once its connection has been replaced.
pub struct Flow {
    datagrams: Option<DatagramFlow>,
    send: Mutex<TunnelSend>,
    recv: Mutex<Received>,
    marking: Marking,
    /// `None` once the connection has been replaced.
    replaced: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

/// Incoming capsules.
struct Received {
    stream: TunnelRecv,
    capsules: Capsules,
    datagrams: VecDeque<Bytes>,
}

impl Flow {
    fn new(
        Opened {
            send,
            recv,
            datagrams,
            marking,
        }: Opened,
        replaced: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self {
            replaced: Mutex::new(Some(Box::pin(replaced))),
            datagrams,
            marking,
            send: Mutex::new(send),
            recv: Mutex::new(Received {
                stream: recv,
                capsules: Capsules::new(payload::MOST_DATAGRAM),
                datagrams: VecDeque::new(),
            }),
        }
    }

    /// Waits for the next HTTP datagram from either source, and returns it with the ECN field of
    /// its packet.
    async fn next(&self) -> io::Result<(Bytes, Ecn)> {
        let datagram = async {
            match &self.datagrams {
                Some(datagrams) => datagrams
                    .receive()
                    .await
                    .map_err(|error| io::Error::new(io::ErrorKind::NotConnected, error)),
                None => std::future::pending().await,
            }
        };
        let capsule = async { self.recv.lock().await.next().await };
        let replaced = async {
            let mut replaced = self.replaced.lock().await;
            if let Some(awaited) = replaced.as_mut() {
                awaited.await;
                *replaced = None;
            }
        };
        tokio::select! {
            datagram = datagram => datagram,
            // Stream data doesn't belong to a single packet.
            datagram = capsule => datagram.map(|datagram| (datagram, Ecn::NotEct)),
            () = replaced => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Received {
    async fn next(&mut self) -> io::Result<Bytes> {
        loop {
            if let Some(datagram) = self.datagrams.pop_front() {
                return Ok(datagram);
            }
            let Some(chunk) = self.stream.chunk().await? else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            let fed = self.capsules.feed(chunk, &mut self.datagrams);
            fed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }
}

impl Datagrams for Flow {
    async fn send_marked(&self, payload: Bytes, ecn: Ecn) -> io::Result<()> {
        if payload.len() > MOST {
            let why = format!("a UDP payload has {MOST} bytes at most");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let (context, ce) = self.marking.contexts(ecn);
        let sent = match &self.datagrams {
            Some(datagrams) => datagrams.send(context, ce, ecn, &payload),
            None => Err(DatagramRefused::TooLong),
        };
        match sent {
            Ok(()) => Ok(()),
            Err(DatagramRefused::TooLong) => {
                let capsule = capsule::datagram([&[context], &payload]);
                self.send.lock().await.send(capsule).await
            }
            Err(error) => Err(io::Error::new(io::ErrorKind::NotConnected, error)),
        }
    }

    fn set_weight(&self, weight: NonZeroU8) {
        if let Some(datagrams) = &self.datagrams {
            datagrams.set_weight(weight);
        }
    }

    fn queue(&self) -> Option<Arc<QueueCounters>> {
        self.datagrams.as_ref().map(|flow| Arc::clone(flow.queue()))
    }

    async fn receive_marked(&self) -> io::Result<(Bytes, Marks)> {
        loop {
            let (mut datagram, outer) = self.next().await?;
            // Other contexts belong to extensions that weren't requested.
            let payload = self.marking.udp(&datagram);
            if let Some((inner, length)) = payload.map(|(ecn, payload)| (ecn, payload.len())) {
                datagram.advance(datagram.len() - length);
                return Ok((datagram, Marks { inner, outer }));
            }
        }
    }
}
