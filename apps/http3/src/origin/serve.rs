//! Serves the connections of an origin and their requests.

use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::header::{AUTHORIZATION, RETRY_AFTER};
use http::{Request, StatusCode};
use pathmark_driver as driver;
use tokio::task::JoinSet;

use super::grant::{End, Grant, Idle, Record, Steward};
use super::intake::remove;
use super::read::read;
use super::send::{Broken, Digests, Exchange, Terms};
use super::shared::{Counters, Counts, Limits, Shared, count};
use super::upload::upload;
use super::uploads::Uploads;
use super::write::write;
use crate::pace::{instant, now};
use crate::places::{Held, Places, Share};
use crate::plan::{self, Ask, Method, Rules, problem};
use crate::root::Root;
use crate::sink::blocking;
use crate::wire::{Incoming, LinkError, ServerExchange, ServerLink, TcpConnection, codes, within};

/// Maximum interval between checks of the uploads' age.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Time before the response to an unknown token, which slows down guesses.
const GUESS: Duration = Duration::from_secs(1);
/// Concurrent requests of a connection over TCP.
const TCP_STREAMS: u32 = 32;
/// Minimum interval, if uploads are only kept briefly.
const LEAST_PAUSE: Duration = Duration::from_millis(50);

/// Serves the files of a directory.
#[derive(Clone, Debug)]
pub struct Origin(Arc<Shared>);

impl Origin {
    /// Creates an origin that serves `root` according to the `rules`.
    pub fn new(root: Root, rules: Rules, limits: Limits) -> Self {
        let digests = Digests::new(limits.hashes.max(1));
        let places = Places::displacing(limits.transfers);
        let heads = Places::displacing(limits.heads);
        let connections = Places::new(usize::MAX, limits.connections);
        Self(Arc::new(Shared {
            root,
            grant: Arc::new(Grant::of(rules)),
            space: Arc::default(),
            uploads: Arc::new(Uploads::new(limits.uploads)),
            limits,
            digests,
            places,
            heads,
            connections,
            commits: Mutex::new(()),
            counters: Counters::default(),
        }))
    }

    /// Returns the request counts so far.
    pub fn counts(&self) -> Counts {
        self.0.counters.counts()
    }

    /// Removes expired uploads, including those left by an earlier process. `grant_of` returns
    /// the grant of the client with a name, if it exists. This future never completes.
    pub async fn tend(&self, grant_of: impl Fn(&str) -> Option<Arc<Grant>>) {
        let shared = &self.0;
        let (looks, age) = (Arc::clone(shared), shared.uploads.limits.age);
        let found = blocking(move || looks.uploads.adopt(looks.root.uploads()));
        if let Err(error) = found.await {
            tracing::warn!(%error, "unfinished uploads of an earlier run stay");
        }
        let pause = (age / 8).clamp(LEAST_PAUSE, LONGEST_PAUSE);
        loop {
            let over = shared.uploads.expired(now(), &grant_of);
            let shared = Arc::clone(shared);
            if let Err(error) = blocking(move || remove(&shared, &over)).await {
                tracing::warn!(%error, "unfinished uploads stay");
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Serves a connection like [`serve_with`](Self::serve_with), but without a steward.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn serve(&self, connection: driver::Connection) -> Result<(), LinkError> {
        self.serve_with(connection, Arc::new(Idle)).await
    }

    /// Responds to the requests of a connection whose handshake is complete, until the client
    /// closes it. Dropping the future ends all requests. The caller should limit the total
    /// number of connections (`ServerConfig::max_connections`).
    ///
    /// # Errors
    /// [`LinkError`], if the connection ends with an error.
    pub async fn serve_with(
        &self,
        connection: driver::Connection,
        steward: Arc<dyn Steward>,
    ) -> Result<(), LinkError> {
        let limits = &self.0.limits;
        let tunnels = u32::try_from(steward.tunnels()).unwrap_or(u32::MAX);
        let most = limits.requests.max(1).saturating_add(tunnels);
        let host = connection.remote_address().ip();
        let Some(place) = self.0.connections.of(host).take_now() else {
            let code = u32::try_from(codes::EXCESSIVE_LOAD).unwrap_or(u32::MAX);
            connection.close(
                code.into(),
                b"the host has as many connections as one may have",
            );
            return Err(LinkError::Displaced);
        };
        let streams = Some(Streams::new(connection.clone(), most));
        // Sending the settings requires a stream that the client must allow, so limit the wait.
        let begun = async {
            match tunnels {
                0 => ServerLink::new(connection, limits.head_bytes).await,
                _ => ServerLink::with_tunnels(connection, limits.head_bytes).await,
            }
        };
        let link = within(limits.stall, begun).await?;
        self.answer(link, host, place, streams, most, steward).await
    }

    /// Responds to the requests of a connection over TCP, for which the same limits apply.
    ///
    /// # Errors
    /// [`LinkError`], if the connection ends with an error.
    pub async fn serve_tcp(
        &self,
        connection: TcpConnection,
        steward: Arc<dyn Steward>,
    ) -> Result<(), LinkError> {
        let limits = &self.0.limits;
        let host = connection.remote_address().ip();
        let Some(place) = self.0.connections.of(host).take_now() else {
            return Err(LinkError::Displaced);
        };
        let most = limits.requests.clamp(1, TCP_STREAMS);
        let begun = ServerLink::over_tcp(connection, limits.head_bytes, most);
        let link = within(limits.head_time, begun).await?;
        self.answer(link, host, place, None, most, steward).await
    }

    /// Responds to a connection's requests, at most `most` at a time.
    async fn answer(
        &self,
        mut link: ServerLink,
        host: IpAddr,
        _place: Held,
        streams: Option<Streams>,
        most: u32,
        steward: Arc<dyn Steward>,
    ) -> Result<(), LinkError> {
        let client = Arc::new(ClientShare {
            host,
            requests: self.0.places.of(host),
            heads: self.0.heads.of(host),
            streams,
        });
        let mut requests = JoinSet::new();
        loop {
            // A client that resets a request can open the next request before this side has ended
            // the first.
            if requests.len() >= usize::try_from(most).unwrap_or(usize::MAX) {
                requests.join_next().await;
                continue;
            }
            let incoming = tokio::select! {
                incoming = link.next() => incoming,
                Some(_) = requests.join_next() => continue,
            };
            let incoming = match incoming {
                Ok(Some(incoming)) => incoming,
                ended => {
                    // Each request ends with the connection and is recorded.
                    while requests.join_next().await.is_some() {}
                    return ended.map(drop);
                }
            };
            let (shared, client) = (Arc::clone(&self.0), Arc::clone(&client));
            let (steward, head) = (Arc::clone(&steward), client.heads.take_now());
            requests.spawn(async move {
                let arrived = arrive(&shared, head, incoming).await;
                match arrived {
                    Ok((request, link)) => {
                        if let Some(streams) = &client.streams {
                            streams.request_arrived();
                        }
                        // Boxed so that a request that has only begun needs no memory for its
                        // response.
                        Box::pin(respond_to(&shared, &client, steward, request, link)).await;
                    }
                    Err(error) => {
                        count(&shared.counters.requests);
                        ended(&shared, &Err(error.into()));
                    }
                }
            });
        }
    }
}

/// A connection's part of its host's share.
struct ClientShare {
    host: IpAddr,
    requests: Share,
    heads: Share,
    /// The limit of QUIC. That of TCP does not change.
    streams: Option<Streams>,
}

/// Limits a client's concurrent streams. The limit is low until enough requests have arrived.
struct Streams {
    connection: driver::Connection,
    most: u32,
    arrived: AtomicU32,
}

/// Initial limit of concurrent streams.
const FIRST_STREAMS: u32 = 128;

impl Streams {
    fn new(connection: driver::Connection, most: u32) -> Self {
        connection.set_max_concurrent_bi_streams(most.min(FIRST_STREAMS).into());
        Self {
            connection,
            most,
            arrived: AtomicU32::new(0),
        }
    }

    /// Counts a complete header section. Once as many requests as the limit have arrived, the
    /// limit doubles.
    fn request_arrived(&self) {
        let arrived = self
            .arrived
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1);
        let before = arrived / FIRST_STREAMS * FIRST_STREAMS;
        if before == arrived && (arrived / FIRST_STREAMS).is_power_of_two() && arrived <= self.most
        {
            let most = self.most.min(arrived.saturating_mul(2));
            self.connection.set_max_concurrent_bi_streams(most.into());
        }
    }
}

/// Reads the header section of a request.
async fn arrive(
    shared: &Shared,
    place: Option<Held>,
    incoming: Incoming,
) -> Result<(Request<()>, ServerExchange), LinkError> {
    let displaced = async {
        if let Some(place) = &place {
            place.displaced().await;
        }
    };
    incoming
        .head_unless(shared.limits.head_time, displaced)
        .await
}

/// Responds to one request, then counts and records its end.
async fn respond_to(
    shared: &Arc<Shared>,
    client: &ClientShare,
    steward: Arc<dyn Steward>,
    request: Request<()>,
    link: ServerExchange,
) {
    if request.method() == http::Method::CONNECT && steward.tunnels() > 0 {
        return steward.connect(request, link).await;
    }
    count(&shared.counters.requests);
    let terms = Terms {
        stall: shared.limits.stall,
        grant: Arc::clone(&shared.grant),
    };
    let began = instant();
    let mut exchange = Exchange::new(link, request, Arc::clone(&steward), terms, client.host);
    let mut end = match respond(shared, &client.requests, &mut exchange).await {
        Err(error) => explain(error, &mut exchange).await,
        ended => ended,
    };
    let status = exchange.status;
    if end.is_ok() && status < 300 && exchange.request.method() == http::Method::GET {
        // Meanwhile another request can use the place of this one.
        end = exchange.link.acknowledged().await.map_err(Broken::from);
    }
    ended(shared, &end);
    if status >= 400 {
        count(&shared.counters.refused);
    }
    let failure = end.err().map(|error| error.to_string());
    let status_text = StatusCode::from_u16(status).ok();
    let phrase = status_text.and_then(|status| status.canonical_reason());
    let end = match (&failure, exchange.refusal.as_str()) {
        (Some(failure), _) => End::BrokenOff(failure),
        (None, "") if status >= 400 => End::Refused(phrase.unwrap_or_default()),
        (None, "") if exchange.is_part => End::Part,
        (None, "") => End::Done,
        (None, refusal) => End::Refused(refusal),
    };
    steward.ended(&Record {
        request: &exchange.request,
        path: match &exchange.upload {
            Some(path) => path,
            None => exchange.request.uri().path(),
        },
        status,
        bytes: exchange.bytes,
        took: began.elapsed(),
        end,
    });
}

/// Counts the end of a request.
fn ended(shared: &Shared, end: &Result<(), Broken>) {
    match end {
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
    share: &Share,
    exchange: &mut Exchange,
) -> Result<(), Broken> {
    let admitted = exchange.steward.admit(&exchange.request);
    let ask = admitted.and_then(|grant| {
        if let Some(grant) = grant {
            exchange.terms.grant = grant;
        }
        Ask::read(&exchange.request, &exchange.terms.grant.rules)
    });
    let ask = match ask {
        Ok(ask) => ask,
        Err(reply) => {
            let has_token = exchange.request.headers().contains_key(AUTHORIZATION);
            if reply.status == StatusCode::UNAUTHORIZED && has_token {
                tokio::time::sleep(GUESS).await;
            }
            return Ok(exchange.reply(&reply, now()).await?);
        }
    };
    let place = tokio::time::timeout(shared.limits.stall, share.take()).await;
    let Ok(Some(place)) = place else {
        let detail = "the server responds to as many requests as its limit allows; try again later";
        let reply = problem(StatusCode::SERVICE_UNAVAILABLE, detail).with(RETRY_AFTER, "5");
        return Ok(exchange.reply(&reply, now()).await?);
    };
    exchange.place = Some(place);
    match (ask.method, ask.token.clone()) {
        (Method::Head | Method::Patch | Method::Delete, Some(token)) => {
            upload(shared, exchange, &ask, &token).await
        }
        (Method::Put, _) => write(shared, exchange, ask).await,
        (Method::Options, _) => {
            let (rules, age) = (&exchange.terms.grant.rules, shared.uploads.limits.age);
            let reply = plan::options(&ask, rules, age);
            Ok(exchange.reply(&reply, now()).await?)
        }
        // Without a token, only GET and HEAD remain.
        _ => read(shared, exchange, &ask).await,
    }
}

/// Explains a server failure if no response has begun. Otherwise the stream is reset.
async fn explain(error: Broken, exchange: &mut Exchange) -> Result<(), Broken> {
    let (status, detail) = match &error {
        _ if exchange.status >= 200 => return Err(error),
        Broken::Link(LinkError::Displaced) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the server has too few places, and gave this one to another host; try again later"
                .to_owned(),
        ),
        Broken::Link(_) => return Err(error),
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
