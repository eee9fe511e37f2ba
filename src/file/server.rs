//! The server's side: answers requests on the streams of its connections.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use pathmark_cc::Algorithm;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use super::incoming::{Existing, Incoming, KeepError};
use super::protocol::{self, Answer, Refusal, Request};
use super::receive::{ReceiveError, receive_file};
use super::report::SenderReport;
use super::send::{hex, send_file};
use super::source::{SendError, Source, blocking};
use super::store::{BadName, Store};
use crate::{Connection, Endpoint, RecvStream, SendStream};

/// What an operator lets clients do.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The laws that clients may choose among for what they fetch. The first is that of the
    /// endpoint, for clients that ask for none of them. If there are none, the endpoint's law
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
}

/// A connection, and the place among [`Rules::laws`] of the law that its first choice set. Later
/// choices change nothing: each change would begin at a fresh window.
#[derive(Debug)]
struct Client {
    connection: Connection,
    chosen: OnceLock<usize>,
}

impl FileServer {
    /// Serves `store` by the `rules`.
    #[must_use]
    pub const fn new(store: Store, rules: Rules) -> Self {
        Self { store, rules }
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
            transfers.spawn(async move {
                if let Err(error) = server.stream(&client, send, recv).await {
                    tracing::debug!(%error, "transfer broke off");
                }
            });
        }
        transfers.shutdown().await;
    }

    async fn stream(
        &self,
        client: &Client,
        mut send: SendStream,
        mut recv: RecvStream,
    ) -> io::Result<()> {
        let request = match protocol::read::<Request>(&mut recv).await {
            Ok(request) => request,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return refuse(&mut send, Refusal::BadRequest, error).await;
            }
            Err(error) => return Err(error),
        };
        match request {
            Request::Get { name, offset, cc } => {
                let law = self.law(client, cc.as_deref());
                self.get(&client.connection, &name, offset, law, &mut send)
                    .await
            }
            Request::Put {
                name,
                bytes,
                overwrite,
            } => {
                let existing = if overwrite {
                    Existing::Replace
                } else {
                    Existing::Keep
                };
                self.put(&name, bytes, existing, &mut send, &mut recv).await
            }
        }
    }

    /// The law by which `client` is sent what it asks for, after its wish was heard.
    fn law(&self, client: &Client, wish: Option<&str>) -> Option<&Algorithm> {
        let chosen = match wish.and_then(|wish| self.rules.choose(wish)) {
            Some(wanted) => *client.chosen.get_or_init(|| {
                if let Some(law) = self.rules.laws.get(wanted)
                    && wanted > 0
                {
                    client.connection.set_controller(crate::controller(law));
                    if let Some(signal) = crate::signal(law) {
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
            Err(Unusable(reason, message)) => return refuse(send, reason, message).await,
        };
        let size = source.bytes();
        if offset > size {
            let message = format!("`{name}` has {size} bytes, not {offset}");
            return refuse(send, Refusal::BadRequest, message).await;
        }
        let answer = Answer::File {
            bytes: size,
            tag: source.tag(),
            algorithm: law.map(ToString::to_string),
        };
        // If it is closed already, writing tells.
        let _ = send.announce(size - offset);
        protocol::write(send, &answer).await?;
        match send_file(source, offset, send, |_| ()).await {
            Ok(_) => {
                protocol::write(send, &SenderReport::of(connection)).await?;
                send.shutdown().await
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
    ) -> io::Result<()> {
        if !self.rules.allow_put {
            let message = "it stores nothing (serve runs without --allow-put)";
            return refuse(send, Refusal::ReadOnly, message).await;
        }
        let store = self.store.clone();
        let wanted = name.to_owned();
        let begun = blocking(move || begin(&store, &wanted, existing)).await;
        let incoming = match begun {
            Ok(incoming) => incoming,
            Err(Unusable(reason, message)) => return refuse(send, reason, message).await,
        };
        let file = incoming.file()?;
        let hash = match receive_file(file, 0, bytes, recv, |_| ()).await {
            Ok(hash) => hash,
            Err(ReceiveError::Stream(error)) => return Err(error),
            Err(error @ ReceiveError::WrongHash) => {
                return refuse(send, Refusal::WrongHash, error).await;
            }
            Err(error) => return refuse(send, Refusal::Storage, error).await,
        };
        let kept = tokio::task::spawn_blocking(move || incoming.keep(&hash, existing))
            .await
            .map_err(io::Error::other)?;
        match kept {
            Ok(()) => {
                let sha256 = hex(&hash);
                protocol::write(send, &Answer::Stored { sha256 }).await?;
                send.shutdown().await
            }
            Err(KeepError::Exists) => refuse(send, Refusal::Exists, exists(name)).await,
            Err(error @ KeepError::Changed) => refuse(send, Refusal::Changed, error).await,
            Err(error) => refuse(send, Refusal::Storage, error).await,
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
        Self(Refusal::Storage, error.to_string())
    }
}

fn missing(name: &str) -> Unusable {
    Unusable(Refusal::NotFound, format!("there is no file `{name}`"))
}

fn exists(name: &str) -> String {
    format!("it has a file `{name}` already; --force replaces it")
}

async fn refuse(send: &mut SendStream, reason: Refusal, message: impl ToString) -> io::Result<()> {
    let message = message.to_string();
    protocol::write(send, &Answer::Refused { reason, message }).await?;
    send.shutdown().await
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
