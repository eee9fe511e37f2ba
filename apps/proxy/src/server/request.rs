//! Handles one request, from its header section to the end of its flow. Relays datagrams of UDP
//! flows (RFC 9298) between a tunnel and a UDP socket.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pathmark_http3::http::header::{HeaderName, HeaderValue, PROXY_AUTHENTICATE, WWW_AUTHENTICATE};
use pathmark_http3::http::{Method, Request, Response, StatusCode};
use pathmark_http3::plan::problem;
use pathmark_http3::wire::capsule::{self, Capsules};
use pathmark_http3::wire::{
    DatagramFlow, DatagramRefused, LinkError, Protocol, ServerExchange, TunnelRecv, TunnelSend,
    codes,
};
use pathmark_transport::Ecn;
use tokio::time::Instant;

use super::reach::Ways;
use super::usage::{Recording, Tally};
use super::users::{Place, Rules};
use super::{Record, Session, Shared, reach};
use crate::count;
use crate::flows::idle::UdpFlow;
use crate::flows::{Kind, Listed};
use crate::outbound::{self, Refusal};
use crate::payload::{self, Contexts, MOST, Marking, leaving};
use crate::target::{Target, TargetError};
use crate::uri::{self, TokenHash};

/// The stream may carry capsules (RFC 9297 section 3.4).
const CAPSULE_PROTOCOL: HeaderName = HeaderName::from_static("capsule-protocol");
/// Time before the response to an unknown token, which slows down guesses.
const GUESS: Duration = Duration::from_secs(1);
const PROXY_STATUS: HeaderName = HeaderName::from_static(outbound::PROXY_STATUS);

/// The flow that a request opens.
#[derive(Debug, PartialEq, Eq)]
struct Ask {
    kind: Kind,
    target: Target,
}

/// Responds to a request, and relays the flow that it opens until it ends.
pub(super) async fn respond(session: &Session, request: &Request<()>, exchange: ServerExchange) {
    let (shared, began) = (&session.shared, Instant::now());
    count(&shared.counters.requests);
    let mut recording = Recording::new(session.client);
    if let Err(error) = take(session, request, exchange, &mut recording).await {
        tracing::debug!(client = %session.client, %error, "flow ended");
        let text = || error.to_string();
        recording.record.error.get_or_insert_with(text);
    }
    if let Some(take) = shared.record.get() {
        take(&recording.end(began.elapsed()));
    }
}

async fn take(
    session: &Session,
    request: &Request<()>,
    mut exchange: ServerExchange,
    recording: &mut Recording,
) -> Result<(), LinkError> {
    let record = &mut recording.record;
    let shared = &session.shared;
    let Some(asked) = ask(request) else {
        count(&shared.counters.malformed);
        record.error = Some("it does not follow HTTP/3".to_owned());
        exchange.reset(codes::MESSAGE_ERROR);
        return Ok(());
    };
    record.flow = asked
        .as_ref()
        .ok()
        .map(|asked| (asked.kind, asked.target.to_string()));
    let rules = shared.gate.rules();
    let hash = TokenHash::in_request(request.headers());
    let Some(member) = rules.member(hash.as_ref(), session.shown) else {
        count(&shared.counters.unauthorized);
        if shared.unknown.is_due() {
            let (client, all) = (session.client, shared.counters.counts().unauthorized);
            tracing::warn!(%client, all, "a request without token or certificate of a user");
        }
        if hash.is_some() {
            tokio::time::sleep(GUESS).await;
        }
        record.error = Some(Refusal::Unauthorized.to_string());
        record.status = StatusCode::UNAUTHORIZED.as_u16();
        let (status, field) = match asked.map(|asked| asked.kind) {
            Ok(Kind::Tcp) => {
                let status = StatusCode::PROXY_AUTHENTICATION_REQUIRED;
                record.status = status.as_u16();
                (status, PROXY_AUTHENTICATE)
            }
            Ok(Kind::Udp) => (StatusCode::UNAUTHORIZED, WWW_AUTHENTICATE),
            Err(_) => return no_files(exchange, request.method()).await,
        };
        let field = (field, HeaderValue::from_static("Bearer"));
        return finish(exchange, status, [field]).await;
    };
    session.is_of(member.name());
    record.user = Some(member.name().to_owned());
    let Ask { kind, target } = match asked {
        Ok(asked) => asked,
        Err(status) => {
            count(&shared.counters.malformed);
            record.status = status.as_u16();
            record.error = Some("it names no target".to_owned());
            return finish(exchange, status, []).await;
        }
    };
    let Some(place) = shared.gate.place(&rules, member, kind) else {
        count(&member.account.counters.refused);
        return refuse(shared, exchange, &Refusal::Busy, record).await;
    };
    if place.has_evicted {
        count(&shared.counters.udp_evicted);
    }
    let flow = Flow {
        session,
        place: &place,
        rules: &rules,
    };
    let relaying = async {
        match kind {
            Kind::Tcp => flow.tcp(exchange, &target, recording).await,
            Kind::Udp => {
                let contexts = request.headers().get(&payload::FIELD);
                let contexts = contexts.and_then(Contexts::read);
                flow.udp(exchange, &target, contexts, recording).await
            }
        }
    };
    // Dropping the first future resets the flow.
    let why = tokio::select! {
        ended = relaying => return ended,
        () = place.revoked() => {
            count(&shared.counters.revoked);
            "the user was removed"
        }
        () = place.evicted() => "another UDP flow took its place",
        () = place.account().spent() => "the user's volume of a day is used up",
    };
    recording.record.error = Some(why.to_owned());
    Ok(())
}

/// Parses the flow that a request opens. If it opens none, returns the status of the response, or
/// `None` if it violates HTTP/3.
fn ask(request: &Request<()>) -> Option<Result<Ask, StatusCode>> {
    let uri = request.uri();
    let protocol = request.extensions().get::<Protocol>();
    let to = |kind, target: Result<Target, TargetError>| {
        let asked = target.map(|target| Ask { kind, target });
        asked.map_err(|_| StatusCode::BAD_REQUEST)
    };
    Some(match (request.method(), protocol) {
        (&Method::CONNECT, None) => {
            if uri.scheme().is_some() || uri.path_and_query().is_some() {
                return None;
            }
            to(Kind::Tcp, uri.authority()?.as_str().parse())
        }
        (&Method::CONNECT, Some(protocol)) if protocol.0 == "connect-udp" => {
            // The template has no query, and no path with one matches it.
            let path = uri.path_and_query().map_or("", |path| path.as_str());
            to(Kind::Udp, uri::target(path))
        }
        (&Method::CONNECT, Some(_)) => Err(StatusCode::NOT_IMPLEMENTED),
        _ => Err(StatusCode::NOT_FOUND),
    })
}

/// A flow that was given a place.
struct Flow<'a> {
    session: &'a Session,
    place: &'a Place,
    rules: &'a Arc<Rules>,
}

impl Flow<'_> {
    async fn tcp(
        &self,
        exchange: ServerExchange,
        target: &Target,
        recording: &mut Recording,
    ) -> Result<(), LinkError> {
        let (session, rules) = (self.session, self.rules);
        let shared = &session.shared;
        let reached = reach::tcp(target, &rules.access.policy, shared.times.connect).await;
        let stream = match reached {
            Ok(stream) => stream,
            Err(refusal) => return self.refused(exchange, target, &refusal, recording).await,
        };
        recording.record.status = StatusCode::OK.as_u16();
        let Some((send, recv)) = accept(exchange, []).await? else {
            return Ok(());
        };
        let (counters, account) = (&shared.counters, self.place.account());
        count(&counters.tcp_flows);
        count(&account.counters.tcp_flows);
        let listed = self.list(Kind::Tcp, target);
        recording.carried = Some(listed.carried());
        listed.set_stall(send.stall());
        send.start_flow();
        send.set_weight(rules.treatment(target).weight);
        let client = &session.connection;
        let tally = Tally {
            all: counters,
            account,
            flow: &listed,
        };
        if let Err(error) = reach::relay(stream, client, send, recv, &tally).await {
            count(&counters.tcp_resets);
            recording.record.error = Some(error.to_string());
            let (user, client) = (self.place.user(), session.client);
            tracing::debug!(%client, user, %target, %error, "reset");
        }
        Ok(())
    }

    async fn udp(
        &self,
        exchange: ServerExchange,
        target: &Target,
        contexts: Option<Contexts>,
        recording: &mut Recording,
    ) -> Result<(), LinkError> {
        let (shared, rules) = (&self.session.shared, self.rules);
        // Clients can send before they receive the response.
        let datagrams = exchange.datagrams();
        let reached = reach::udp(target, &rules.access.policy, shared.times.connect).await;
        let ways = match reached {
            Ok(ways) => ways,
            Err(refusal) => return self.refused(exchange, target, &refusal, recording).await,
        };
        recording.record.status = StatusCode::OK.as_u16();
        let capsules = (CAPSULE_PROTOCOL, HeaderValue::from_static("?1"));
        let marking = Marking::new(Contexts::PROXY, contexts);
        let own = contexts.and_then(|_| Contexts::PROXY.value());
        let fields = own.map(|own| (payload::FIELD, own));
        let accepted = accept(exchange, [capsules].into_iter().chain(fields)).await?;
        if let (Some((send, recv)), Some(datagrams), Some(place)) =
            (accepted, datagrams, &self.place.udp)
        {
            let account = self.place.account();
            count(&shared.counters.udp_flows);
            count(&account.counters.udp_flows);
            let listed = self.list(Kind::Udp, target);
            recording.carried = Some(listed.carried());
            let treatment = rules.treatment(target);
            datagrams.set_weight(treatment.weight);
            let idle = treatment.udp_idle.unwrap_or(shared.times.udp_idle);
            let out = Out {
                ways: &ways,
                marking,
                shared,
                tally: Tally {
                    all: &shared.counters,
                    account,
                    flow: &listed,
                },
                place,
            };
            out.relay(send, recv, &datagrams, idle).await;
        }
        Ok(())
    }

    fn list(&self, kind: Kind, target: &Target) -> Listed {
        let (flows, user) = (&self.session.shared.flows, self.place.user());
        flows.add(kind, user, Some(self.session.client), target)
    }

    async fn refused(
        &self,
        exchange: ServerExchange,
        target: &Target,
        refusal: &Refusal,
        recording: &mut Recording,
    ) -> Result<(), LinkError> {
        count(&self.place.account().counters.refused);
        let (user, client) = (self.place.user(), self.session.client);
        tracing::debug!(%client, user, %target, %refusal, "refused");
        if *refusal == Refusal::Denied && self.session.shared.denied.is_new(target) {
            tracing::warn!(user, %target, "denied: --allow with its address opens it to clients");
        }
        let record = &mut recording.record;
        refuse(&self.session.shared, exchange, refusal, record).await
    }
}

/// Responds that the flow is open, and returns the tunnel for its content.
async fn accept(
    mut exchange: ServerExchange,
    fields: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
) -> Result<Option<(TunnelSend, TunnelRecv)>, LinkError> {
    let mut response = Response::new(());
    response.headers_mut().extend(fields);
    exchange.respond(response).await?;
    Ok(exchange.into_tunnel())
}

async fn refuse(
    shared: &super::Shared,
    exchange: ServerExchange,
    refusal: &Refusal,
    record: &mut Record,
) -> Result<(), LinkError> {
    shared.counters.refused(refusal);
    let (status, value) = outbound::status_of(refusal);
    (record.status, record.error) = (status, Some(refusal.to_string()));
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let value = HeaderValue::from_str(&value).ok();
    finish(exchange, status, value.map(|value| (PROXY_STATUS, value))).await
}

/// Responds without opening a flow.
async fn finish(
    mut exchange: ServerExchange,
    status: StatusCode,
    fields: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
) -> Result<(), LinkError> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    response.headers_mut().extend(fields);
    exchange.respond(response).await?;
    exchange.finish(None).await
}

/// Responds to a client that takes the proxy for a server of files.
async fn no_files(mut exchange: ServerExchange, method: &Method) -> Result<(), LinkError> {
    let detail = "a proxy answers here, which serves no files: use pathmark tunnel with its URI";
    let reply = problem(StatusCode::UNAUTHORIZED, detail).with(WWW_AUTHENTICATE, "Bearer");
    let mut head = Response::new(());
    *head.status_mut() = reply.status;
    *head.headers_mut() = reply.headers;
    exchange.respond(head).await?;
    if *method != Method::HEAD {
        exchange.send(reply.body).await?;
    }
    exchange.finish(None).await
}

/// A UDP flow to its target.
struct Out<'a> {
    ways: &'a Ways,
    marking: Marking,
    shared: &'a Shared,
    tally: Tally<'a>,
    place: &'a UdpFlow,
}

impl Out<'_> {
    /// Relays until the client ends the flow or the idle timeout expires.
    async fn relay(
        &self,
        mut send: TunnelSend,
        mut recv: TunnelRecv,
        datagrams: &DatagramFlow,
        idle: Duration,
    ) {
        self.tally.flow.set_queue(Arc::clone(datagrams.queue()));
        tokio::select! {
            () = async { while let Ok((datagram, mark)) = datagrams.receive().await {
                self.to_target(&datagram, mark).await;
            } } => {}
            // The end of the stream ends the flow.
            ended = self.capsules(&mut recv) => if ended.is_err() {
                send.reset();
            },
            () = self.to_client(&mut send, datagrams) => {}
            () = self.place.idle(|| idle) => count(&self.shared.counters.udp_idle),
        }
        // Ignore errors, because the client may be gone.
        let _ = send.finish().await;
    }

    /// Sends the payload of an HTTP datagram to the target. `mark` is the ECN field of its packet.
    async fn to_target(&self, datagram: &[u8], mark: Ecn) {
        let counters = &self.shared.counters;
        let sent = match self.marking.udp(datagram) {
            Some((ecn, payload)) => {
                let ecn = leaving(ecn, mark, &counters.marks_refused);
                self.tally.account.pass(payload.len()).await;
                self.ways.send(payload, ecn).await
            }
            None => Err(io::ErrorKind::InvalidData.into()),
        };
        match sent {
            Ok(bytes) => {
                self.place.sent();
                count(&counters.datagrams_up);
                self.tally.up(bytes);
            }
            // Either an ICMP message about an earlier datagram, or this one is too large for the
            // path.
            Err(_) => count(&counters.datagrams_dropped),
        }
    }

    async fn capsules(&self, recv: &mut TunnelRecv) -> io::Result<()> {
        let mut capsules = Capsules::new(payload::MOST_DATAGRAM);
        let mut datagrams = VecDeque::new();
        while let Some(chunk) = recv.chunk().await? {
            let fed = capsules.feed(chunk, &mut datagrams);
            fed.map_err(io::Error::other)?;
            while let Some(datagram) = datagrams.pop_front() {
                // Stream data doesn't belong to a single packet.
                self.to_target(&datagram, Ecn::NotEct).await;
            }
        }
        Ok(())
    }

    /// Sends datagrams from the target to the client.
    async fn to_client(&self, send: &mut TunnelSend, datagrams: &DatagramFlow) {
        let counters = &self.shared.counters;
        let mut buffer = vec![0; MOST];
        loop {
            let received = match self.ways.receive(&mut buffer).await {
                Ok(received) => received,
                // An ICMP message about a datagram doesn't end the flow.
                Err(error) if error.raw_os_error().is_some() => continue,
                Err(_) => return,
            };
            let (length, ecn) = (received.length, received.ecn);
            let (context, ce) = self.marking.contexts(ecn);
            let payload = buffer.get(..length).unwrap_or_default();
            self.tally.account.pass(length).await;
            let sent = match datagrams.send(context, ce, ecn, payload) {
                Err(DatagramRefused::TooLong) => {
                    count(&counters.capsules_down);
                    let capsule: Bytes = capsule::datagram([&[context], payload]);
                    send.send(capsule).await.is_ok()
                }
                sent => sent.is_ok(),
            };
            if !sent {
                return;
            }
            self.place.answered();
            count(&counters.datagrams_down);
            self.tally.down(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, uri: &str, protocol: Option<&str>) -> Request<()> {
        let mut request = Request::builder().method(method).uri(uri).body(()).unwrap();
        if let Some(protocol) = protocol {
            let protocol = Protocol(protocol.to_owned());
            request.extensions_mut().insert(protocol);
        }
        request
    }

    #[test]
    fn what_requests_ask_for() {
        let udp = "https://p/.well-known/masque/udp/a/53/";
        let with_query = format!("{udp}?x");
        let flow = |kind, text: &str| {
            let target = text.parse().unwrap();
            Some(Ok(Ask { kind, target }))
        };
        let bad = || Some(Err(StatusCode::BAD_REQUEST));
        let unknown = Some(Err(StatusCode::NOT_IMPLEMENTED));
        let none = Some(Err(StatusCode::NOT_FOUND));
        for (method, uri, protocol, expected) in [
            ("CONNECT", "a:80", None, flow(Kind::Tcp, "a:80")),
            ("CONNECT", "[::1]:80", None, flow(Kind::Tcp, "[::1]:80")),
            ("CONNECT", "a", None, bad()),
            ("CONNECT", "https://a:80/", None, None),
            ("CONNECT", udp, Some("connect-udp"), flow(Kind::Udp, "a:53")),
            ("CONNECT", &with_query, Some("connect-udp"), bad()),
            ("CONNECT", udp, Some("websocket"), unknown),
            ("GET", "https://p/", None, none),
        ] {
            let asked = ask(&request(method, uri, protocol));
            assert_eq!(asked, expected, "{method} {uri}");
        }
    }
}
