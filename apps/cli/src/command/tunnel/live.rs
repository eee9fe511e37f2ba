//! A tunnel's listeners, which a reload can change.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use pathmark_proxy::ingress::spec::{Bind, Forward, Protocol};
use pathmark_proxy::ingress::{Ingress, Service, listen, transparent};
use pathmark_proxy::tunnel::Switch;
use serde::Serialize;
use tokio::task::JoinHandle;

use super::super::{Failure, output};
use super::config::Listeners;

/// A listener as shown to users.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Listening {
    kind: &'static str,
    address: SocketAddr,
    /// The target of a forward.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

/// The line that a tunnel prints once its listeners accept.
#[derive(Debug, Serialize)]
struct Started {
    listeners: Vec<Listening>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<SocketAddr>,
}

/// The configuration of one or two sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Forward(Forward),
    Socks(Bind),
    Http(Bind),
    Transparent(u16),
}

/// An entry whose sockets accept.
struct Open {
    entry: Entry,
    sockets: Vec<(Listening, JoinHandle<()>)>,
}

/// The active listeners.
pub(super) struct Live {
    ingress: Ingress<Switch>,
    open: Vec<Open>,
    shown: Arc<Mutex<Vec<Listening>>>,
}

impl Live {
    pub(super) fn new(ingress: Ingress<Switch>) -> Self {
        Self {
            ingress,
            open: Vec::new(),
            shown: Arc::default(),
        }
    }

    /// Closes listeners that are no longer wanted, and opens new listeners. Other listeners and
    /// existing flows continue, except that UDP flows of a closed listener end.
    pub(super) async fn apply(&mut self, wanted: &Listeners) -> Result<(), Failure> {
        let entries = entries(wanted);
        let (kept, closed): (Vec<_>, Vec<_>) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|open| entries.contains(&open.entry));
        self.open = kept;
        for (_, serving) in closed.into_iter().flat_map(|open| open.sockets) {
            serving.abort();
            // Wait so that the port is free.
            let _ = serving.await;
        }
        let mut applied = Ok(());
        for entry in entries {
            if self.open.iter().all(|open| open.entry != entry) {
                match begin(&self.ingress, &entry) {
                    Ok(sockets) => self.open.push(Open { entry, sockets }),
                    Err(failure) => applied = Err(failure),
                }
            }
        }
        let sockets = self.open.iter().flat_map(|open| &open.sockets);
        let listening = sockets.map(|(listening, _)| listening.clone()).collect();
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = listening;
        applied
    }

    /// Returns the current listeners, which are kept up to date.
    pub(super) fn shown(&self) -> Arc<Mutex<Vec<Listening>>> {
        Arc::clone(&self.shown)
    }

    /// Waits for a listener to end, which doesn't normally happen.
    pub(super) async fn ended(&mut self) -> &'static str {
        poll_fn(|cx| {
            let sockets = self.open.iter_mut().flat_map(|open| &mut open.sockets);
            for (listening, serving) in sockets {
                if Pin::new(serving).poll(cx).is_ready() {
                    return Poll::Ready(listening.kind);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Prints the listeners' addresses.
    pub(super) fn announce(&self, json: bool, metrics: Option<SocketAddr>) -> Result<(), Failure> {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let listeners = shown.clone();
        drop(shown);
        if json {
            return Ok(output::json(&Started { listeners, metrics })?);
        }
        for listening in &listeners {
            output::line(format_args!("{}", listening.line()))?;
        }
        if let Some(metrics) = metrics {
            output::line(format_args!("metrics on http://{metrics}/metrics"))?;
        }
        Ok(())
    }
}

impl Listening {
    fn line(&self) -> String {
        let target = self.target.as_ref().map(|target| format!(" to {target}"));
        format!(
            "{} on {}{}",
            self.kind,
            self.address,
            target.unwrap_or_default()
        )
    }
}

/// Returns the configured listeners in order.
fn entries(listeners: &Listeners) -> Vec<Entry> {
    let forwards = listeners.forward.iter().cloned().map(Entry::Forward);
    let socks = listeners.socks.iter().copied().map(Entry::Socks);
    let http = listeners.http.iter().copied().map(Entry::Http);
    let tproxy = listeners.tproxy.iter();
    let tproxy = tproxy.map(|tproxy| Entry::Transparent(tproxy.port));
    forwards.chain(socks).chain(http).chain(tproxy).collect()
}

/// Binds an entry's sockets and starts accepting.
fn begin(
    ingress: &Ingress<Switch>,
    entry: &Entry,
) -> Result<Vec<(Listening, JoinHandle<()>)>, Failure> {
    let mut begun = Vec::new();
    let mut add = |kind, target: Option<String>, address: std::io::Result<SocketAddr>, serving| {
        let listening = Listening {
            kind,
            address: address?,
            target,
        };
        begun.push((listening, serving));
        Ok::<(), Failure>(())
    };
    let (kind, bind, service) = match entry {
        Entry::Forward(forward) if forward.protocol == Protocol::Udp => {
            for socket in listen::udp(&forward.bind)? {
                let (address, target) = (socket.local_addr(), forward.target.clone());
                let (ingress, text) = (ingress.clone(), target.to_string());
                let serving = tokio::spawn(async move { ingress.serve_udp(socket, target).await });
                add("udp forward", Some(text), address, serving)?;
            }
            return Ok(begun);
        }
        Entry::Transparent(port) => {
            for socket in transparent::tcp(*port)? {
                let (address, ingress) = (socket.local_addr(), ingress.clone());
                let serving = async move { ingress.serve(socket, Service::Transparent).await };
                add("tproxy", None, address, tokio::spawn(serving))?;
            }
            for socket in transparent::udp(*port)? {
                let (address, ingress) = (socket.local_addr(), ingress.clone());
                let serving = async move { ingress.serve_transparent_udp(socket).await };
                add("udp tproxy", None, address, tokio::spawn(serving))?;
            }
            return Ok(begun);
        }
        Entry::Forward(forward) => {
            let service = Service::Forward(forward.target.clone());
            ("forward", &forward.bind, service)
        }
        Entry::Socks(bind) => ("socks", bind, Service::Socks),
        Entry::Http(bind) => ("http", bind, Service::Http),
    };
    let target = match &service {
        Service::Forward(target) => Some(target.to_string()),
        _ => None,
    };
    for socket in listen::tcp(bind)? {
        let (address, ingress) = (socket.local_addr(), ingress.clone());
        let service = service.clone();
        let serving = tokio::spawn(async move { ingress.serve(socket, service).await });
        add(kind, target.clone(), address, serving)?;
    }
    Ok(begun)
}
