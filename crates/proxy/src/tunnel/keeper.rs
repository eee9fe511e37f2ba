//! The connection of a tunnel, which is made again when it is lost.

use std::time::Duration;

use pathmark_http3::wire::ClientLink;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::dial::Dialer;
use crate::outbound::Refusal;

/// Bytes of a response's header section.
const HEAD_BYTES: u64 = 64 * 1024;
/// The pause before an attempt that follows a failure: at first, and at most. It doubles.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// A connection, or why there is none.
#[derive(Clone)]
enum State {
    Up(ClientLink),
    Down(String),
}

/// Keeps a connection as long as it exists.
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

    /// A connection, but not the one that was `lost`, which is waited for up to `time`.
    pub(super) async fn link(
        &self,
        lost: Option<usize>,
        time: Duration,
    ) -> Result<ClientLink, Refusal> {
        let mut state = self.state.clone();
        let other = |state: &State| match state {
            State::Up(link) => Some(link.connection().stable_id()) != lost,
            State::Down(_) => false,
        };
        let found = tokio::time::timeout(time, state.wait_for(other)).await;
        if let Ok(Ok(found)) = found
            && let State::Up(link) = &*found
        {
            return Ok(link.clone());
        }
        let why = match &*self.state.borrow() {
            State::Down(why) => why.clone(),
            State::Up(_) => "the connection was lost".to_owned(),
        };
        Err(Refusal::Proxy(why))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Connects, and connects again when the connection is lost.
async fn keep(dialer: &Dialer, tell: &watch::Sender<State>) {
    let server = dialer.server();
    let mut pause = PAUSE.0;
    loop {
        let begun = Instant::now();
        let why = match begin(dialer).await {
            Ok(link) => {
                let connection = link.connection().clone();
                tracing::info!(%server, address = %connection.remote_address(), "connected");
                tell.send_replace(State::Up(link));
                let lost = connection.closed().await;
                tracing::warn!(%server, %lost, "connection lost");
                lost.to_string()
            }
            Err(why) => {
                tracing::warn!(%server, why, "cannot connect");
                why
            }
        };
        tell.send_replace(State::Down(why));
        // A connection that held for a while says that the proxy was there.
        if begun.elapsed() > PAUSE.1 {
            pause = PAUSE.0;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

async fn begin(dialer: &Dialer) -> Result<ClientLink, String> {
    let connection = dialer.dial().await?;
    let begun = ClientLink::with_tunnels(connection, HEAD_BYTES).await;
    begun.map_err(|error| error.to_string())
}
