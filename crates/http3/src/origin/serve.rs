//! Connections of an origin, and the requests on them.

use std::sync::{Arc, Mutex};

use http::StatusCode;
use http::header::RETRY_AFTER;
use pathmark_transport::driver;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::counters::{Counters, Counts, count};
use super::digests::Digests;
use super::read::read;
use super::send::{Broken, Exchange};
use super::shared::{Limits, Shared, now};
use super::write::write;
use crate::plan::{Ask, Method, Rules, problem};
use crate::root::Root;
use crate::wire::{Incoming, LinkError, ServerLink};

/// Serves the files of a directory.
#[derive(Clone, Debug)]
pub struct Origin(Arc<Shared>);

impl Origin {
    /// Serves `root` by the `rules`.
    #[must_use]
    pub fn new(root: Root, rules: Rules, limits: Limits) -> Self {
        let digests = Digests::new(limits.hashes.max(1));
        let places = limits.transfers.clamp(1, Semaphore::MAX_PERMITS);
        Self(Arc::new(Shared {
            root,
            rules,
            limits,
            digests,
            places: Semaphore::new(places),
            commits: Mutex::new(()),
            counters: Counters::default(),
        }))
    }

    /// Requests so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.0.counters.counts()
    }

    /// Responds to the requests of a connection whose handshake is complete, until the client
    /// closes it. Dropped, the future ends all of them. The caller bounds the number of connections
    /// (`ServerConfig::max_connections`).
    ///
    /// # Errors
    /// [`LinkError`] for a connection that ends with an error.
    pub async fn serve(&self, connection: driver::Connection) -> Result<(), LinkError> {
        let limits = &self.0.limits;
        let most = limits.requests.max(1);
        connection.set_max_concurrent_bi_streams(most);
        let mut link = ServerLink::new(connection, limits.head_bytes).await?;
        let mut requests = JoinSet::new();
        loop {
            // A client that resets a request opens the next one before this side has ended it.
            if requests.len() >= usize::try_from(most).unwrap_or(usize::MAX) {
                requests.join_next().await;
                continue;
            }
            let incoming = tokio::select! {
                incoming = link.next() => incoming?,
                Some(_) = requests.join_next() => continue,
            };
            let Some(incoming) = incoming else {
                return Ok(());
            };
            let shared = Arc::clone(&self.0);
            requests.spawn(async move { respond_to(shared, incoming).await });
        }
    }
}

/// Responds to one request, and counts its end.
async fn respond_to(shared: Arc<Shared>, incoming: Incoming) {
    count(&shared.counters.requests);
    let ended = match incoming.head(shared.limits.head_time).await {
        Err(error) => Err(error.into()),
        Ok((request, link)) => {
            let head_only = request.method() == http::Method::HEAD;
            let mut exchange = Exchange::new(link, shared.limits.stall, head_only);
            let ended = match respond(&shared, &request, &mut exchange).await {
                Err(error) => explain(error, &mut exchange).await,
                ended => ended,
            };
            let status = exchange.status();
            if status >= 400 {
                count(&shared.counters.refused);
            }
            tracing::debug!(
                method = %request.method(),
                path = request.uri().path(),
                status,
                "request"
            );
            ended
        }
    };
    match ended {
        Ok(()) => {}
        Err(Broken::Link(LinkError::TimedOut)) => count(&shared.counters.timed_out),
        Err(error) => {
            tracing::debug!(%error, "request broke off");
            count(&shared.counters.broken_off);
        }
    }
}

async fn respond(
    shared: &Arc<Shared>,
    request: &http::Request<()>,
    exchange: &mut Exchange,
) -> Result<(), Broken> {
    let ask = match Ask::read(request, &shared.rules) {
        Ok(ask) => ask,
        Err(reply) => return Ok(exchange.reply(&reply, now()).await?),
    };
    let place = tokio::time::timeout(shared.limits.stall, shared.places.acquire()).await;
    let Ok(Ok(_place)) = place else {
        let detail = "the server responds to as many requests as its limit allows; try again later";
        let reply = problem(StatusCode::SERVICE_UNAVAILABLE, detail).with(RETRY_AFTER, "5");
        return Ok(exchange.reply(&reply, now()).await?);
    };
    match ask.method {
        Method::Get | Method::Head => read(shared, exchange, &ask).await,
        Method::Put => write(shared, exchange, ask).await,
    }
}

/// Explains a failure of the server that came before its response; a later one resets the stream.
async fn explain(error: Broken, exchange: &mut Exchange) -> Result<(), Broken> {
    let (status, detail) = match &error {
        Broken::Link(_) => return Err(error),
        _ if exchange.status() >= 200 => return Err(error),
        Broken::Changed => (
            StatusCode::SERVICE_UNAVAILABLE,
            "another program writes to the file; try again when it is done".to_owned(),
        ),
        Broken::Read(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the server could not read the file: {error}"),
        ),
    };
    exchange.reply(&problem(status, &detail), now()).await?;
    Ok(())
}
