//! The server's side: answers requests on the streams of its connections.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pathmark_cc::Algorithm;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use super::incoming::{Existing, Incoming, KeepError};
use super::protocol::{self, Answer, Refusal, Request};
use super::receive::{ReceiveError, receive_file};
use super::report::SenderReport;
use super::send::{hex, send_file};
use super::source::{SendError, Source, blocking, with_cause};
use super::store::{BadName, Store};
use pathmark::{Connection, ConnectionError, Endpoint, RecvStream, SendStream};

/// What an operator lets clients do.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The laws that clients may choose among for what they fetch. The first is that of the
    /// endpoint, for clients that request none of them. If the list is empty, the endpoint's law
    /// serves all.
    pub laws: Vec<Algorithm>,
    /// Clients may store files, and replace those that are there.
    pub allow_put: bool,
}

impl Rules {
    /// Which of the laws a client means: the one that it wrote, or else the one of this name with
    /// the operator's options.
    fn choose(&self, wish: &str) -> Option<usize> {
        let law = Algorithm::parse(wish).ok()?;
        let exactly = self.laws.iter().position(|listed| *listed == law);
        let bare = wish == law.name();
        exactly.or_else(|| {
            self.laws
                .iter()
                .position(|listed| bare && listed.name() == law.name())
        })
    }
}

/// Serves the files of a [`Store`].
#[derive(Debug)]
pub struct FileServer {
    store: Store,
    rules: Rules,
    /// The connections on which files were fetched, by the names of these.
    watched: Option<Mutex<BTreeMap<String, Connection>>>,
}

/// A connection, and the place among [`Rules::laws`] of the law that its first choice set. Later
/// choices change nothing: each change would begin at a fresh window.
#[derive(Debug)]
struct Client {
    connection: Connection,
    chosen: OnceLock<usize>,
}

/// What a request is about, and how far it has come.
#[derive(Debug, Default)]
struct Progress {
    name: String,
    bytes: u64,
    step: Step,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Step {
    /// The request is read, or done.
    #[default]
    Begun,
    /// All of a file is handed to the transport; the client has not acknowledged all of it.
    Queued,
    /// The client has all of a file.
    Sent,
    /// A file is in its place.
    Stored,
    /// For this reason it is not done.
    Refused(String),
}

impl FileServer {
    /// Serves `store` by the `rules`.
    #[must_use]
    pub const fn new(store: Store, rules: Rules) -> Self {
        Self {
            store,
            rules,
            watched: None,
        }
    }

    /// The same, and keeps what [`sender`](Self::sender) needs: a connection for each name that was
    /// fetched, as long as this lives.
    #[must_use]
    pub const fn watched(store: Store, rules: Rules) -> Self {
        Self {
            store,
            rules,
            watched: Some(Mutex::new(BTreeMap::new())),
        }
    }

    /// What the connection that `name` was fetched on last knows now.
    #[must_use]
    pub fn sender(&self, name: &str) -> Option<SenderReport> {
        let watched = self.watched.as_ref()?.lock();
        let watched = watched.unwrap_or_else(PoisonError::into_inner);
        watched.get(name).map(SenderReport::of)
    }

    /// Accepts connections until the endpoint closes, and returns when what it did for them is
    /// ended: unfinished files that clients were to store are removed then.
    pub async fn run(self: Arc<Self>, endpoint: &Endpoint) {
        let mut connections = JoinSet::new();
        loop {
            let incoming = tokio::select! {
                incoming = endpoint.accept() => incoming,
                Some(_) = connections.join_next() => continue,
            };
            let Some(incoming) = incoming else {
                break;
            };
            let server = Arc::clone(&self);
            connections.spawn(async move {
                let connection = match incoming.accept() {
                    Ok(connecting) => connecting.await,
                    Err(error) => return tracing::debug!(%error, "connection not accepted"),
                };
                match connection {
                    Ok(connection) => server.connection(connection).await,
                    Err(error) => tracing::debug!(%error, "handshake failed"),
                }
            });
        }
        while connections.join_next().await.is_some() {}
    }

    /// Answers requests until the connection is over, which ends all that it was about at once.
    async fn connection(self: Arc<Self>, connection: Connection) {
        let client = Arc::new(Client {
            connection,
            chosen: OnceLock::new(),
        });
        let mut transfers = JoinSet::new();
        loop {
            let (send, recv) = tokio::select! {
                accepted = client.connection.accept_bi() => match accepted {
                    Ok(streams) => streams,
                    Err(_) => break,
                },
                Some(_) = transfers.join_next() => continue,
            };
            let server = Arc::clone(&self);
            let client = Arc::clone(&client);
            transfers.spawn(async move { server.stream(&client, send, recv).await });
        }
        // Each ends with the connection.
        while transfers.join_next().await.is_some() {}
    }

    /// Answers one request, and logs what became of it.
    async fn stream(&self, client: &Client, mut send: SendStream, mut recv: RecvStream) {
        let (mut progress, connection) = (Progress::default(), &client.connection);
        let ended = tokio::select! {
            biased;
            ended = self.answer(client, &mut send, &mut recv, &mut progress) => ended,
            reason = connection.closed() => Err(io::Error::other(reason)),
        };
        let Progress { name, bytes, step } = progress;
        let address = connection.remote_address();
        // A client that has all of a file closes the connection; that may come before its ACK.
        let has_left = matches!(
            connection.close_reason(),
            Some(ConnectionError::PeerApplication { code: 0, .. })
        );
        match (&step, ended) {
            (Step::Stored, _) => tracing::info!(client = %address, name, bytes, "stored"),
            (Step::Refused(reason), _) => {
                return tracing::info!(client = %address, name, reason, "refused");
            }
            (Step::Sent, _) => tracing::info!(client = %address, name, bytes, "sent"),
            (Step::Queued, Err(_)) if has_left => {
                tracing::info!(client = %address, name, bytes, "sent");
            }
            (_, Err(error)) => {
                return tracing::info!(client = %address, name, %error, "broke off");
            }
            (Step::Begun | Step::Queued, Ok(())) => {}
        }
        // A stream that is dropped before its end was read is stopped, and the client takes that
        // for a failure of what it sends. An error is that of a connection that is over.
        let _ = recv.read_chunk().await;
    }

    async fn answer(
        &self,
        client: &Client,
        send: &mut SendStream,
        recv: &mut RecvStream,
        progress: &mut Progress,
    ) -> io::Result<()> {
        let request = match protocol::read::<Request>(recv).await {
            Ok(request) => request,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return progress.refuse(send, Refusal::BadRequest, error).await;
            }
            Err(error) => return Err(error),
        };
        match request {
            Request::Get { name, offset, cc } => {
                progress.name.clone_from(&name);
                let law = self.law(client, cc.as_deref());
                let connection = &client.connection;
                self.get(connection, &name, offset, law, send, progress)
                    .await?;
                if progress.step == Step::Queued {
                    match send.stopped().await? {
                        None => {}
                        Some(code) if code == u64::from(protocol::HAS_ALL) => {}
                        Some(_) => return Err(io::Error::other("the client stopped it")),
                    }
                    progress.step = Step::Sent;
                }
            }
            Request::Put {
                name,
                bytes,
                overwrite,
            } => {
                progress.name.clone_from(&name);
                let existing = if overwrite {
                    Existing::Replace
                } else {
                    Existing::Keep
                };
                self.put(&name, bytes, existing, send, recv, progress)
                    .await?;
            }
        }
        Ok(())
    }

    /// The law that sends to `client`, after its `wish` took effect.
    fn law(&self, client: &Client, wish: Option<&str>) -> Option<&Algorithm> {
        let chosen = match wish.and_then(|wish| self.rules.choose(wish)) {
            Some(wanted) => *client.chosen.get_or_init(|| {
                if let Some(law) = self.rules.laws.get(wanted)
                    && wanted > 0
                {
                    client.connection.set_controller(pathmark::controller(law));
                    if let Some(signal) = pathmark::signal(law) {
                        // A client without this signal gets the law's fallback.
                        let _ = client.connection.set_signal(signal);
                    }
                }
                wanted
            }),
            None => client.chosen.get().copied().unwrap_or(0),
        };
        self.rules.laws.get(chosen)
    }

    async fn get(
        &self,
        connection: &Connection,
        name: &str,
        offset: u64,
        law: Option<&Algorithm>,
        send: &mut SendStream,
        progress: &mut Progress,
    ) -> io::Result<()> {
        let store = self.store.clone();
        let wanted = name.to_owned();
        let opened = blocking(move || {
            let path = store
                .path(&wanted)
                .map_err(|bad| Unusable::refusing(&bad))?;
            let source = Source::open(&path);
            source.map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => missing(&wanted),
                // A directory, a pipe: nothing that can be had.
                io::ErrorKind::InvalidInput if !path.is_file() => missing(&wanted),
                _ => error.into(),
            })
        });
        let source = match opened.await {
            Ok(opened) => opened,
            Err(Unusable(reason, message)) => return progress.refuse(send, reason, message).await,
        };
        let size = source.bytes();
        if offset > size {
            let message = format!("`{name}` has {size} bytes, not {offset}");
            return progress.refuse(send, Refusal::BadRequest, message).await;
        }
        let answer = Answer::File {
            bytes: size,
            tag: source.tag(),
            algorithm: law.map(ToString::to_string),
        };
        progress.bytes = size - offset;
        if let Some(watched) = &self.watched {
            let mut watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
            watched.insert(name.to_owned(), connection.clone());
        }
        // If the stream is closed already, the write below fails.
        let _ = send.announce(size - offset);
        protocol::write(send, &answer).await?;
        match send_file(source, offset, send, |_| ()).await {
            Ok(_) => {
                protocol::write(send, &SenderReport::of(connection)).await?;
                send.shutdown().await?;
                progress.step = Step::Queued;
                Ok(())
            }
            Err(error) => {
                // Without its hash the client keeps what it has as a part, never as the file.
                let _ = send.reset(error.code());
                match error {
                    SendError::Stream(error) | SendError::Read(error) => Err(error),
                    other => Err(io::Error::other(other)),
                }
            }
        }
    }

    async fn put(
        &self,
        name: &str,
        bytes: u64,
        existing: Existing,
        send: &mut SendStream,
        recv: &mut RecvStream,
        progress: &mut Progress,
    ) -> io::Result<()> {
        if !self.rules.allow_put {
            let message = "it stores nothing (serve runs without --allow-put)";
            return progress.refuse(send, Refusal::ReadOnly, message).await;
        }
        let store = self.store.clone();
        let wanted = name.to_owned();
        let begun = blocking(move || begin(&store, &wanted, existing)).await;
        let incoming = match begun {
            Ok(incoming) => incoming,
            Err(Unusable(reason, message)) => return progress.refuse(send, reason, message).await,
        };
        let file = match incoming.file() {
            Ok(file) => file,
            Err(error) => {
                let Unusable(reason, message) = error.into();
                return progress.refuse(send, reason, message).await;
            }
        };
        let hash = match receive_file(file, 0, bytes, recv, |_| ()).await {
            Ok(hash) => hash,
            Err(ReceiveError::Stream(error)) => return Err(error),
            Err(error @ ReceiveError::WrongHash) => {
                return progress.refuse(send, Refusal::WrongHash, error).await;
            }
            Err(error) => return progress.refuse(send, Refusal::Storage, error).await,
        };
        let kept = tokio::task::spawn_blocking(move || incoming.keep(&hash, existing))
            .await
            .map_err(io::Error::other)?;
        match kept {
            Ok(()) => {
                (progress.bytes, progress.step) = (bytes, Step::Stored);
                let sha256 = hex(&hash);
                protocol::write(send, &Answer::Stored { sha256 }).await?;
                send.shutdown().await
            }
            Err(KeepError::Exists) => progress.refuse(send, Refusal::Exists, exists(name)).await,
            Err(error @ KeepError::Changed) => progress.refuse(send, Refusal::Changed, error).await,
            Err(KeepError::Storage(error)) => {
                let error = with_cause(error);
                progress.refuse(send, Refusal::Storage, error).await
            }
        }
    }
}

/// Begins a file that a client is to store, unless it is plain by now that it cannot be: that
/// spares the transfer. What decides is the last moment.
fn begin(store: &Store, name: &str, existing: Existing) -> Result<Incoming, Unusable> {
    let path: PathBuf = store.path(name).map_err(|bad| Unusable::refusing(&bad))?;
    match fs::symlink_metadata(&path) {
        Ok(there) if there.is_dir() => {
            let message = format!("`{name}` is a directory; `{name}/` stores in it");
            return Err(Unusable(Refusal::BadName, message));
        }
        Ok(_) if existing == Existing::Keep => {
            return Err(Unusable(Refusal::Exists, exists(name)));
        }
        _ => {}
    }
    Ok(store.create(name)?)
}

/// What a client asks for cannot be done: why, and more for people.
struct Unusable(Refusal, String);

impl Unusable {
    fn refusing(bad: &BadName) -> Self {
        Self(Refusal::BadName, bad.to_string())
    }
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Self {
        Self(Refusal::Storage, with_cause(error).to_string())
    }
}

fn missing(name: &str) -> Unusable {
    Unusable(Refusal::NotFound, format!("there is no file `{name}`"))
}

fn exists(name: &str) -> String {
    format!("it has a file `{name}` already; --force replaces it")
}

impl Progress {
    async fn refuse(
        &mut self,
        send: &mut SendStream,
        reason: Refusal,
        message: impl ToString,
    ) -> io::Result<()> {
        let message = message.to_string();
        self.step = Step::Refused(message.clone());
        protocol::write(send, &Answer::Refused { reason, message }).await?;
        send.shutdown().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_choose_among_what_is_listed() {
        let laws = ["vcp+bise+wlte", "xcp", "xcp[form=compact]", "cubic[iw=20]"];
        let rules = Rules {
            laws: laws.iter().map(|law| law.parse().unwrap()).collect(),
            allow_put: false,
        };
        for (wish, chosen) in [
            ("vcp+bise+wlte", Some(0)),
            ("xcp", Some(1)),
            ("xcp[form=compact]", Some(2)),
            // By the name alone: with the operator's options.
            ("cubic", Some(3)),
            ("cubic[iw=20]", Some(3)),
            ("cubic[iw=10000]", None),
            ("xcp[loss=ignore]", None),
            ("vcp", None),
            ("vcp+bise+wlte[alpha=10]", None),
            ("no such law", None),
            ("", None),
        ] {
            assert_eq!(rules.choose(wish), chosen, "{wish}");
        }
        assert_eq!(Rules::default().choose("cubic"), None);
    }
}
