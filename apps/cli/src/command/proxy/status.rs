//! The state of a running proxy.

use std::fmt::Write;
use std::net::SocketAddr;

use pathmark::Connection;
use pathmark_proxy::flows::FlowView;
use pathmark_proxy::server::{Counts, Proxy, UserCounts, UserView};
use serde::Serialize;
use serde_json::Value;

use super::super::control::{Exposition, Shown, flow_lines, path_line, values};
use super::super::session;
use crate::report::SenderReport;

/// A proxy and its address.
#[derive(Clone)]
pub(super) struct ProxyStatus {
    began: std::time::Instant,
    listening: SocketAddr,
    proxy: Proxy,
}

impl ProxyStatus {
    pub(super) fn new(listening: SocketAddr, proxy: Proxy) -> Self {
        Self {
            began: session::now(),
            listening,
            proxy,
        }
    }
}

/// The state as JSON.
#[derive(Debug, Serialize)]
struct State {
    version: &'static str,
    pid: u32,
    uptime_s: f64,
    listening: SocketAddr,
    connections: Vec<Client>,
    counts: Counts,
    users: Vec<UserView>,
    flows: Vec<FlowView>,
}

/// A user's total in a metric.
type Of = fn(&UserCounts) -> u64;

/// A client's connection.
#[derive(Debug, Serialize)]
struct Client {
    client: SocketAddr,
    path_report: SenderReport,
}

impl Shown for ProxyStatus {
    fn json(&self) -> String {
        let client = |connection: &Connection| Client {
            client: connection.remote_address(),
            path_report: SenderReport::of(connection),
        };
        let state = State {
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            uptime_s: self.began.elapsed().as_secs_f64(),
            listening: self.listening,
            connections: self.proxy.connections().iter().map(client).collect(),
            counts: self.proxy.counts(),
            users: self.proxy.users(),
            flows: self.proxy.open_flows().view(),
        };
        serde_json::to_string(&state).unwrap_or_default()
    }

    fn metrics(&self) -> String {
        let mut out = Exposition::new("pathmark_proxy");
        let uptime = self.began.elapsed().as_secs_f64();
        out.value("uptime_seconds", "Time since the start.", uptime);
        let connections = self.proxy.connections().len();
        out.value("connections", "Connections of clients.", connections);
        let (tcp, udp) = self.proxy.open_flows().count();
        let flows = [("{kind=\"tcp\"}", tcp), ("{kind=\"udp\"}", udp)];
        out.metric("flows", "Flows that are open.", flows);
        let counts = self.proxy.counts();
        values! { out;
            "connections_total" "Connections of clients so far." = counts.connections;
            "requests_total" "Requests whose head arrived." = counts.requests;
            "malformed_total" "Requests that are no CONNECT of a target." = counts.malformed;
            "unauthorized_total" "Requests without a user's token." = counts.unauthorized;
            "busy_total" "Requests above a limit of flows." = counts.busy;
            "denied_total" "Requests for targets that are not allowed." = counts.denied;
            "unresolved_total" "Requests whose name has no address." = counts.unresolved;
            "unreached_total" "Requests whose target did not answer." = counts.unreached;
            "tcp_flows_total" "TCP flows." = counts.tcp_flows;
            "tcp_resets_total" "TCP flows that a reset ended." = counts.tcp_resets;
            "udp_flows_total" "UDP flows." = counts.udp_flows;
            "udp_idle_total" "UDP flows that ended by silence." = counts.udp_idle;
            "udp_evicted_total" "UDP flows that ended for others at a limit." = counts.udp_evicted;
            "revoked_total" "Flows that ended with their user." = counts.revoked;
            "up_bytes_total" "Bytes from clients to targets." = counts.bytes_up;
            "down_bytes_total" "Bytes from targets to clients." = counts.bytes_down;
            "datagrams_up_total" "Datagrams to targets." = counts.datagrams_up;
            "datagrams_down_total" "Datagrams from targets." = counts.datagrams_down;
            "capsules_down_total" "Datagrams that went as a capsule." = counts.capsules_down;
            "datagrams_dropped_total" "Datagrams dropped." = counts.datagrams_dropped;
            "marks_refused_total"
                "Marks of the path for datagrams without ECN." = counts.marks_refused;
        }
        out.queues(&self.proxy.open_flows().queues());
        let users = self.proxy.users();
        let of_users: [(&str, &str, Of); 5] = [
            ("user_tcp_flows_total", "TCP flows by user.", |counts| {
                counts.tcp_flows
            }),
            ("user_udp_flows_total", "UDP flows by user.", |counts| {
                counts.udp_flows
            }),
            (
                "user_refused_total",
                "Refused requests by user.",
                |counts| counts.refused,
            ),
            (
                "user_up_bytes_total",
                "Bytes to targets by user.",
                |counts| counts.bytes_up,
            ),
            (
                "user_down_bytes_total",
                "Bytes from targets by user.",
                |counts| counts.bytes_down,
            ),
        ];
        let label = |view: &UserView| format!("{{user=\"{}\"}}", view.user);
        for (name, help, of) in of_users {
            let values = users.iter().map(|view| (label(view), of(&view.counts)));
            out.metric(name, help, values);
        }
        let open = users.iter().map(|view| (label(view), view.tcp + view.udp));
        out.metric("user_flows", "Open flows by user.", open);
        out.into_text()
    }

    fn line(&self) -> String {
        let connections = self.proxy.connections().len();
        format!("{connections} connections, {} flows", self.proxy.flows())
    }
}

/// Formats the state as human-readable text.
pub(in super::super) fn table(state: &Value) -> String {
    let mut out = String::new();
    let listening = state["listening"].as_str().unwrap_or_default();
    // Writing to a string never fails.
    let _ = writeln!(out, "proxy      on {listening}");
    for client in state["connections"].as_array().into_iter().flatten() {
        let address = client["client"].as_str().unwrap_or_default();
        let _ = writeln!(
            out,
            "client     {address}: {}",
            path_line(&client["path_report"])
        );
    }
    let counts = &state["counts"];
    let _ = writeln!(
        out,
        "so far     {} TCP flows, {} UDP flows, {} denied, {} unreached, {} above a limit, {} UDP \
         flows ended by a limit, {} datagrams dropped",
        counts["tcp_flows"],
        counts["udp_flows"],
        counts["denied"],
        counts["unreached"],
        counts["busy"],
        counts["udp_evicted"],
        counts["datagrams_dropped"]
    );
    for user in state["users"].as_array().into_iter().flatten() {
        let _ = writeln!(
            out,
            "user       {}: {} TCP and {} UDP flows open, {} and {} so far, {} refused, {} bytes \
             up, {} down",
            user["user"].as_str().unwrap_or_default(),
            user["tcp"],
            user["udp"],
            user["tcp_flows"],
            user["udp_flows"],
            user["refused"],
            user["bytes_up"],
            user["bytes_down"]
        );
    }
    flow_lines(&mut out, state);
    out
}
