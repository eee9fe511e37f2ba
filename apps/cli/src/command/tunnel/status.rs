//! The state of a running tunnel.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use pathmark_proxy::flows::FlowView;
use pathmark_proxy::ingress::{Counts, Ingress};
use pathmark_proxy::tunnel::Switch;
use serde::Serialize;
use serde_json::Value;

use super::super::control::{Exposition, Shown, flow_lines, path_line, values};
use super::super::session;
use super::live::{Listening, Live};
use crate::report::SenderReport;

/// A tunnel and its components.
#[derive(Clone)]
pub(super) struct TunnelStatus {
    began: Instant,
    switch: Switch,
    ingress: Ingress<Switch>,
    listeners: Arc<Mutex<Vec<Listening>>>,
}

/// The state as JSON.
#[derive(Debug, Serialize)]
struct State {
    version: &'static str,
    pid: u32,
    uptime_s: f64,
    /// The proxy as named in the URI.
    server: String,
    connected: bool,
    /// The address of the proxy and the local address.
    address: Option<SocketAddr>,
    local: Option<IpAddr>,
    /// The reason why there is no connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    listeners: Vec<Listening>,
    counts: Counts,
    flows: Vec<FlowView>,
    path_report: Option<SenderReport>,
}

impl TunnelStatus {
    pub(super) fn new(switch: Switch, ingress: Ingress<Switch>, listeners: &Live) -> Self {
        Self {
            began: session::now(),
            switch,
            ingress,
            listeners: listeners.shown(),
        }
    }
}

impl Shown for TunnelStatus {
    fn json(&self) -> String {
        let tunnel = self.switch.now();
        let connection = tunnel.connection();
        let shown = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let listeners = shown.clone();
        drop(shown);
        let up = connection.as_ref().ok();
        let state = State {
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            uptime_s: self.began.elapsed().as_secs_f64(),
            server: tunnel.server().to_owned(),
            connected: up.is_some(),
            address: up.map(|connection| connection.remote_address()),
            local: up.and_then(|connection| connection.local_ip()),
            path_report: up.map(SenderReport::of),
            why: connection.err(),
            listeners,
            counts: self.ingress.counts(),
            flows: self.ingress.flows().view(),
        };
        serde_json::to_string(&state).unwrap_or_default()
    }

    fn metrics(&self) -> String {
        let mut out = Exposition::new("pathmark_tunnel");
        let connection = self.switch.now().connection().ok();
        let uptime = self.began.elapsed().as_secs_f64();
        out.value("uptime_seconds", "Time since the start.", uptime);
        let connected = u8::from(connection.is_some());
        out.value(
            "connected",
            "1 while there is a connection to the proxy.",
            connected,
        );
        let (tcp, udp) = self.ingress.flows().count();
        let flows = [("{kind=\"tcp\"}", tcp), ("{kind=\"udp\"}", udp)];
        out.metric("flows", "Flows under way.", flows);
        let counts = self.ingress.counts();
        values! { out;
            "accepted_total" "TCP connections that were accepted." = counts.accepted;
            "ended_total" "TCP flows that have ended." = counts.ended;
            "refused_total" "Flows that were not opened." = counts.refused;
            "unauthorized_total"
                "Flows of a token or certificate that the proxy does not know."
                    = counts.unauthorized;
            "reset_total" "TCP flows that a reset ended." = counts.reset;
            "bad_requests_total" "Clients whose request was wrong or late." = counts.bad_requests;
            "accept_failures_total" "Failures of accept or receive." = counts.accept_failures;
            "udp_flows_total" "UDP flows that were begun." = counts.udp_flows;
            "dropped_total" "Datagrams that were dropped." = counts.dropped;
            "marks_refused_total"
                "Marks of the path for datagrams without ECN." = counts.marks_refused;
            "up_bytes_total" "Bytes of ended TCP flows toward targets." = counts.up;
            "down_bytes_total" "Bytes of ended TCP flows from targets." = counts.down;
        }
        out.queues(&self.ingress.flows().queues());
        if let Some(connection) = connection {
            out.path(&connection);
        }
        out.into_text()
    }

    fn line(&self) -> String {
        let tunnel = self.switch.now();
        match tunnel.connection() {
            Ok(connection) => format!("connected to {}", connection.remote_address()),
            Err(why) => format!("no connection to {}: {why}", tunnel.server()),
        }
    }
}

/// Formats the state as human-readable text.
pub(in super::super) fn table(state: &Value) -> String {
    let mut out = String::new();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let server = text(&state["server"]);
    // Writing to a string never fails.
    let _ = match state["connected"].as_bool() {
        Some(true) => writeln!(
            out,
            "proxy      {server}, connected to {} from {}",
            text(&state["address"]),
            text(&state["local"])
        ),
        _ => writeln!(
            out,
            "proxy      {server}, no connection: {}",
            text(&state["why"])
        ),
    };
    if state["path_report"].is_object() {
        let _ = writeln!(out, "path       {}", path_line(&state["path_report"]));
    }
    for listening in state["listeners"].as_array().into_iter().flatten() {
        let target = match listening["target"].as_str() {
            Some(target) => format!(" to {target}"),
            None => String::new(),
        };
        let (kind, address) = (text(&listening["kind"]), text(&listening["address"]));
        let _ = writeln!(out, "listener   {kind} on {address}{target}");
    }
    let counts = &state["counts"];
    let _ = writeln!(
        out,
        "so far     {} connections, {} UDP flows, {} refused, {} datagrams dropped",
        counts["accepted"], counts["udp_flows"], counts["refused"], counts["dropped"]
    );
    flow_lines(&mut out, state);
    out
}
