//! Keeps a tunnel's connection, reconnecting when it is lost. A reload replaces the tunnel for new
//! flows.

use std::convert::Infallible;
use std::fmt::Display;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use pathmark_driver::Connection;
use pathmark_http3::wire::{ClientLink, LinkError, TunnelRecv, TunnelSend};
use pathmark_transport::connection::ConnectionError;
use tokio::io::AsyncRead;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::dial::{self, Changes, Dialer};
use super::{Flow, Tunnel};
use crate::outbound::{Outbound, Refusal};
use crate::target::Target;

/// Maximum size of a response's header section in bytes.
const HEAD_BYTES: u64 = 64 * 1024;
/// Initial and maximum pause after a failed attempt. It doubles each time.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Time without an answer from the proxy after which a warning is logged.
const SILENCE: Duration = Duration::from_secs(3);
/// Time limit for the answer to a probe, after which another connection is tried.
const PROBE: Duration = Duration::from_secs(4);
/// Interval with outgoing packets after which a probe is sent. This happens even if packets
/// arrive, because they don't show that the other direction works.
const LOOK: Duration = Duration::from_secs(1);

/// A connection, or the reason why there is none.
#[derive(Clone)]
pub(super) enum State {
    Up(Box<Kept>),
    Down(String),
    /// The proxy doesn't answer on the connection. Flows fail immediately until it answers again
    /// or there is another connection.
    Silent,
}

/// A connection of QUIC, and HTTP/3 on it.
#[derive(Clone)]
pub(super) struct Quic {
    pub(super) link: ClientLink,
    pub(super) connection: Connection,
}

/// A connection that is kept.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) quic: Quic,
    /// Its number among all kept connections. Unlike an address, it is never reused.
    pub(super) id: u64,
}

impl State {
    /// Returns the reason why no connection answers.
    pub(super) fn why(&self) -> String {
        match self {
            Self::Up(_) => "the connection was lost".to_owned(),
            Self::Down(why) => why.clone(),
            Self::Silent => "the proxy does not answer".to_owned(),
        }
    }
}

/// Keeps a connection until it is dropped.
pub(super) struct Keeper {
    state: watch::Receiver<State>,
    task: JoinHandle<()>,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").finish_non_exhaustive()
    }
}

impl Keeper {
    pub(super) fn new(dialer: Dialer) -> Self {
        let down = State::Down("no connection was made yet".to_owned());
        let (tell, state) = watch::channel(down);
        let task = tokio::spawn(async move { keep(&dialer, &tell).await });
        Self { state, task }
    }

    pub(super) fn now(&self) -> State {
        self.state.borrow().clone()
    }

    /// Returns a connection other than the `lost` one, waiting up to `time` for it.
    pub(super) async fn link(&self, lost: Option<u64>, time: Duration) -> Result<Kept, Refusal> {
        let mut state = self.state.clone();
        let decided = |state: &State| match state {
            State::Up(kept) => Some(kept.id) != lost,
            State::Down(_) => false,
            State::Silent => true,
        };
        let found = tokio::time::timeout(time, state.wait_for(decided)).await;
        match found {
            Ok(Ok(found)) => match &*found {
                State::Up(kept) => Ok((**kept).clone()),
                silent => Err(Refusal::Proxy(silent.why())),
            },
            _ => Err(Refusal::Proxy(self.now().why())),
        }
    }

    /// Waits until a connection has been replaced by another.
    pub(super) fn replaced(&self, id: u64) -> impl Future<Output = ()> + Send + use<> {
        let mut state = self.state.clone();
        async move {
            let other = |state: &State| matches!(state, State::Up(kept) if kept.id != id);
            if state.wait_for(other).await.is_err() {
                // The tunnel was dropped, but its flows continue.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until a connection is no longer used for new flows.
    pub(super) async fn left(&self, id: u64) {
        let mut state = self.state.clone();
        let other = |state: &State| !matches!(state, State::Up(kept) if kept.id == id);
        // The sender is only dropped when the runtime shuts down.
        let _ = state.wait_for(other).await;
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Connects, and reconnects when the connection is lost.
async fn keep(dialer: &Dialer, tell: &watch::Sender<State>) {
    let server = dialer.server();
    let changes = Changes::new();
    let (mut pause, mut id) = (PAUSE.0, 0);
    loop {
        let begun = Instant::now();
        let why = match soon(dialer).await {
            Ok(quic) => hold(dialer, &changes, quic, &mut id, tell).await,
            Err(why) => {
                tracing::warn!(%server, why, "cannot connect");
                why
            }
        };
        tell.send_replace(State::Down(why));
        // If the connection lasted for a while, the proxy was reachable.
        if begun.elapsed() > PAUSE.1 {
            pause = PAUSE.0;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // Another network might lead to the proxy.
            () = changes.next() => tracing::info!("the network has changed"),
        }
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// Connects. If the proxy is silent, this is logged even before the attempt ends.
async fn soon(dialer: &Dialer) -> Result<Quic, String> {
    let mut beginning = pin!(begin(dialer));
    if let Ok(begun) = tokio::time::timeout(SILENCE, &mut beginning).await {
        return begun;
    }
    let server = dialer.server();
    tracing::warn!(
        %server,
        "no answer for 3 s: the network may block UDP, or no proxy runs there"
    );
    beginning.await
}

/// Logs a warning if the server doesn't offer what a proxy does.
async fn check_kind(link: &ClientLink, server: impl Display) -> Infallible {
    if let Ok(settings) = link.peer_settings().await
        && !settings.connect_protocol
    {
        tracing::warn!(
            %server,
            "the server offers no CONNECT-UDP (RFC 9298): no UDP flows, and perhaps it is no proxy"
        );
    }
    std::future::pending().await
}

/// Keeps a connection, and the one that replaces it after silence, until it is lost. Returns the
/// reason.
async fn hold(
    dialer: &Dialer,
    changes: &Changes,
    mut quic: Quic,
    id: &mut u64,
    tell: &watch::Sender<State>,
) -> String {
    let server = dialer.server();
    loop {
        let connection = quic.connection.clone();
        tracing::info!(%server, address = %connection.remote_address(), "connected");
        *id += 1;
        let kept = Kept {
            quic: quic.clone(),
            id: *id,
        };
        tell.send_replace(State::Up(Box::new(kept.clone())));
        let replaced = tokio::select! {
            never = check_kind(&kept.quic.link, server) => match never {},
            lost = connection.closed() => {
                // Closing the connection locally is not a loss.
                if lost != ConnectionError::LocallyClosed {
                    tracing::warn!(%server, %lost, "connection lost");
                }
                return lost.to_string();
            }
            replaced = replace(dialer, changes, &kept, tell) => replaced,
        };
        // Flows of the previous connection continue if it answers before its idle timeout. Its
        // own next probe could come too late for this.
        connection.ping();
        quic = replaced;
    }
}

/// Follows network changes with a connection. Returns a new connection once only that one gets
/// answers.
async fn replace(
    dialer: &Dialer,
    changes: &Changes,
    kept: &Kept,
    tell: &watch::Sender<State>,
) -> Quic {
    let quic = &kept.quic;
    let connection = &quic.connection;
    let mut from = dial::source(connection.remote_address());
    loop {
        let has_changed = tokio::select! {
            () = changes.next() => true,
            () = silence(quic) => false,
        };
        if has_changed {
            let Some(source) = dial::source(connection.remote_address()) else {
                tracing::warn!("the network has changed: no route leads to the proxy");
                continue;
            };
            if connection.local_ip() != Some(source) {
                connection.migrate(None);
            }
            let answers = answers(quic).await;
            // Most changes concern other interfaces.
            let has_other = from.replace(source) != Some(source);
            if answers {
                if has_other {
                    tracing::info!(%source, "the network has changed: the connection goes on");
                }
                continue;
            }
        }
        let after = if has_changed {
            "the network has changed: "
        } else {
            ""
        };
        tracing::warn!("{after}no answer; a new connection is tried");
        tell.send_replace(State::Silent);
        match another(dialer, quic).await {
            Some(quic) => return quic,
            None => {
                tracing::info!("the proxy answers again: the connection goes on");
                tell.send_replace(State::Up(Box::new(kept.clone())));
            }
        }
    }
}

/// Connects while a connection is silent. Returns `None` if that one gets an answer first.
async fn another(dialer: &Dialer, quic: &Quic) -> Option<Quic> {
    let answered = async { while !answers(quic).await {} };
    let mut answered = pin!(answered);
    let mut pause = PAUSE.0;
    loop {
        tokio::select! {
            () = &mut answered => return None,
            begun = begin(dialer) => match begun {
                Ok(quic) => return Some(quic),
                Err(why) => tracing::warn!(why, "cannot connect"),
            },
        }
        tokio::select! {
            () = &mut answered => return None,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(PAUSE.1),
        }
    }
}

/// Waits until the proxy no longer answers packets.
async fn silence(quic: &Quic) {
    let sent = || quic.connection.stats().packets_sent;
    let mut before = sent();
    loop {
        tokio::time::sleep(LOOK).await;
        if sent() == before {
            continue;
        }
        if !answers(quic).await {
            return;
        }
        // Acknowledgements for the rest of the probe don't elicit answers.
        tokio::time::sleep(LOOK).await;
        before = sent();
    }
}

/// Sends a probe. Returns false if it isn't answered in time.
async fn answers(Quic { link, connection }: &Quic) -> bool {
    let received = connection.stats().packets_received;
    let limit = PROBE.max(3 * connection.rtt());
    let probing = async {
        if link.probe().await? {
            return Ok(());
        }
        // If the proxy allows no further stream, it answers this ping. Any other arriving packet
        // also counts.
        connection.ping();
        while connection.stats().packets_received == received {
            tokio::time::sleep(LOOK / 10).await;
        }
        Ok::<_, LinkError>(())
    };
    match tokio::time::timeout(limit, probing).await {
        Ok(Ok(())) => true,
        // The end of the connection is reported elsewhere.
        Ok(Err(_)) => std::future::pending().await,
        Err(_) => false,
    }
}

async fn begin(dialer: &Dialer) -> Result<Quic, String> {
    let connection = dialer.dial().await?;
    let begun = ClientLink::with_tunnels(connection.clone(), HEAD_BYTES).await;
    let link = begun.map_err(|error| error.to_string())?;
    Ok(Quic { link, connection })
}

/// The tunnel for new flows. Existing flows keep theirs. Clones share the same switch.
#[derive(Clone, Debug)]
pub struct Switch(Arc<RwLock<Tunnel>>);

impl Switch {
    /// Creates a switch with its first tunnel.
    pub fn new(tunnel: Tunnel) -> Self {
        Self(Arc::new(RwLock::new(tunnel)))
    }

    /// Changes the tunnel for new flows.
    pub fn change(&self, tunnel: Tunnel) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = tunnel;
    }

    /// Returns the tunnel for new flows.
    pub fn now(&self) -> Tunnel {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Outbound for Switch {
    type Read = TunnelRecv;
    type Write = TunnelSend;
    type Datagrams = Flow;

    async fn tcp_early(
        &self,
        target: &Target,
        early: &mut (impl AsyncRead + Send + Unpin),
    ) -> Result<(TunnelRecv, TunnelSend), Refusal> {
        self.now().tcp_early(target, early).await
    }

    async fn udp(&self, target: &Target) -> Result<Flow, Refusal> {
        self.now().udp(target).await
    }
}
