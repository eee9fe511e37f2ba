//! The client of a proxy: flows over one HTTP/3 connection, which is made again when it is lost.

mod dial;
mod flow;
mod keeper;
mod network;
mod switch;

use std::sync::Arc;
use std::time::Duration;

use pathmark_driver::Connection;
use pathmark_http3::http::header::{HeaderName, HeaderValue, PROXY_AUTHORIZATION};
use pathmark_http3::http::{Request, Uri};
use pathmark_http3::wire::{ClientLink, DatagramFlow, LinkError, TunnelRecv, TunnelSend, codes};

pub use dial::Dialer;
pub use flow::Flow;
use keeper::{Keeper, State};
pub use switch::Switch;

use crate::outbound::{Abort, Outbound, Refusal};
use crate::payload::{self, Contexts, Marking};
use crate::target::Target;
use crate::token::Token;
use crate::{status, template};

/// Capsules may be on the stream (RFC 9297 section 3.4).
const CAPSULE_PROTOCOL: HeaderName = HeaderName::from_static("capsule-protocol");

/// Times of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelTimes {
    /// A flow waits this long for a connection to the proxy.
    pub wait: Duration,
    /// A flow waits this long for its target, with the time for the connection.
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

/// Flows through a proxy. Clones share one connection, which is closed with the last of them and
/// of their flows.
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

/// The connection of a flow.
type Id = usize;

impl Tunnel {
    /// Begins to connect; a task of the runtime keeps the connection. Without a token the client is
    /// known by the certificate that it shows.
    #[must_use]
    pub fn new(dialer: Dialer, token: Option<&Token>, times: TunnelTimes) -> Self {
        Self(Arc::new(Inner {
            authority: dialer.server().to_string(),
            bearer: token.and_then(Token::bearer),
            times,
            keeper: Keeper::new(dialer),
        }))
    }

    /// The proxy, as it is named.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.0.authority
    }

    /// The connection; or why there is none.
    ///
    /// # Errors
    /// The reason, for people.
    pub fn connection(&self) -> Result<Connection, String> {
        match self.0.keeper.now() {
            State::Up(link) => Ok(link.connection().clone()),
            State::Down(why) => Err(why),
        }
    }

    /// Waits for a connection to the proxy.
    ///
    /// # Errors
    /// [`Refusal::Proxy`] says why there is none after the time of a flow.
    pub async fn connected(&self) -> Result<(), Refusal> {
        self.0.keeper.link(None, self.0.times.wait).await.map(drop)
    }

    /// Opens a flow. Where the connection is lost or silent before the proxy has responded, the
    /// next one is waited for.
    async fn open(
        &self,
        uri: String,
        protocol: Option<&'static str>,
    ) -> Result<(Opened, Id), Refusal> {
        let Inner { times, keeper, .. } = &*self.0;
        let head = self.head(uri, protocol.is_some())?;
        let opening = async {
            let mut lost = None;
            loop {
                let link = keeper.link(lost, times.wait).await?;
                let id = link.connection().stable_id();
                let attempt = tokio::select! {
                    attempt = attempt(&link, head.clone(), protocol) => attempt,
                    () = keeper.left(id) => {
                        lost = link.connection().close_reason().map(|_| id);
                        continue;
                    }
                };
                match attempt {
                    Ok(outcome) => return outcome.map(|opened| (opened, id)),
                    // The target's reset has overtaken the response.
                    Err(LinkError::Reset {
                        code: codes::CONNECT_ERROR,
                    }) => {
                        return Err(Refusal::Refused);
                    }
                    Err(error) if link.connection().close_reason().is_none() => {
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

/// Opens a flow on a connection.
async fn attempt(
    link: &ClientLink,
    head: Request<()>,
    protocol: Option<&str>,
) -> Result<Result<Opened, Refusal>, LinkError> {
    let no_udp = || Refusal::Proxy("it takes no UDP flows".to_owned());
    if protocol.is_some() && !link.peer_settings().await?.connect_protocol {
        return Ok(Err(no_udp()));
    }
    let mut request = link.connect(head, protocol).await?;
    let response = request.response().await?;
    let code = response.status();
    if !code.is_success() {
        let field = response.headers().get(status::FIELD);
        let field = field.map(HeaderValue::as_bytes);
        return Ok(Err(status::read(code.as_u16(), field)));
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

impl Outbound for Tunnel {
    type Read = TunnelRecv;
    type Write = TunnelSend;
    type Datagrams = Flow;

    async fn tcp(&self, target: &Target) -> Result<(TunnelRecv, TunnelSend), Refusal> {
        let (Opened { send, recv, .. }, _) = self.open(target.to_string(), None).await?;
        Ok((recv, send))
    }

    async fn udp(&self, target: &Target) -> Result<Flow, Refusal> {
        let uri = format!("https://{}{}", self.0.authority, template::path(target));
        let (opened, id) = self.open(uri, Some("connect-udp")).await?;
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
}
