//! The human-readable output of `show`.

use std::fmt::Write as _;

use pathmark_link::keys::{ByteCount, RateValue};
use serde_json::Value;

/// Whether packets are steered into every port as configured.
pub(crate) fn is_steered(state: &Value) -> bool {
    links(state).all(|link| link.pointer("/steering/ok") != Some(&Value::Bool(false)))
}

/// Formats tables of links, interfaces and counters.
pub(crate) fn table(state: &Value) -> String {
    let mut out = String::new();
    // Only while a capacity is reported.
    let reported = |link: &Value| rate(link.get("reported_capacity_bps").unwrap_or(&Value::Null));
    let has_reports = links(state).any(|link| reported(link) != "-");
    let column = |text: &str| match has_reports {
        true => format!(" {text:>10}"),
        false => String::new(),
    };
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        out,
        "{:<16} {:>10}{} {:>10} {:>10} {:>6} {:>6} {:>9} {:>9} {:>9} {:>8} {:>6} {:>7} {:<5}",
        "LINK",
        "RATE",
        column("REPORTED"),
        "SENT 1s",
        "SENT 10s",
        "UTIL",
        "10s",
        "QUEUE ms",
        "DROPS/s",
        "10s",
        "LOST",
        "LOAD",
        "T_RHO",
        "CODE"
    );
    for link in links(state) {
        let field = |pointer: &str| link.pointer(pointer).unwrap_or(&Value::Null);
        let sent = |over: &str| rate(field(&format!("/rates/{over}/sent_bps")));
        let utilization = |over: &str| percent(field(&format!("/rates/{over}/utilization")));
        let drops = |over: &str| number(field(&format!("/rates/{over}/drops_pps")));
        let interval = field("/controller/interval_ms")
            .as_f64()
            .map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0}ms"));
        let _ = writeln!(
            out,
            "{:<16} {:>10}{} {:>10} {:>10} {:>6} {:>6} {:>9.2} {:>9.1} {:>9.1} {:>8} {:>6} {:>7} \
             {:<5}",
            field("/name").as_str().unwrap_or(""),
            rate(field("/rate_bps")),
            column(&reported(link)),
            sent("1s"),
            sent("10s"),
            utilization("1s"),
            utilization("10s"),
            number(field("/queue_ms/now")),
            drops("1s"),
            drops("10s"),
            number(field("/random_losses")),
            percent(field("/controller/load")),
            interval,
            field("/controller/code").as_str().unwrap_or("-"),
        );
    }
    out.push_str(&xcp_table(state));
    out.push_str(&interfaces(state));
    let counters = state.get("counters").and_then(Value::as_object);
    for (name, value) in counters.into_iter().flatten() {
        if value.as_u64() != Some(0) {
            let _ = writeln!(out, "{name:<16} {value}");
        }
    }
    out.push_str(&program(state));
    out
}

fn links(state: &Value) -> impl Iterator<Item = &Value> {
    let links = state.get("links").and_then(Value::as_array);
    links.into_iter().flatten()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn percent(value: &Value) -> String {
    let percent = |share: f64| format!("{:.0}%", share * 100.0);
    value.as_f64().map_or_else(|| "-".to_owned(), percent)
}

/// Formats a rate with four significant digits.
fn rate(value: &Value) -> String {
    let text = |bits: f64| {
        let digits = (bits.max(1.0).log10() as i32 - 3).max(0);
        let unit = 10f64.powi(digits);
        let bits = ((bits / unit).round() * unit) as u64;
        RateValue { bits }.to_string()
    };
    value.as_f64().map_or_else(|| "-".to_owned(), text)
}

/// Formats the interfaces, and the drops of their ports by cause.
fn interfaces(state: &Value) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:<16} {:<16} {:<8} {:<8} {:>6} {:>10} {:>9} DROPS BY CAUSE",
        "LINK", "INTERFACE", "STATE", "STEERING", "MTU", "IN DROPS", "MEMORY"
    );
    for link in links(state) {
        let text = |key: &str| link.get(key).and_then(Value::as_str).unwrap_or("?");
        let count = |key: &str| {
            let count = link.get(key).and_then(Value::as_u64);
            count.map_or_else(|| "-".to_owned(), |count| count.to_string())
        };
        let memory = link.get("memory_bytes").and_then(Value::as_u64);
        let _ = write!(
            out,
            "{:<16} {:<16} {:<8} {:<8} {:>6} {:>10} {:>9}",
            text("name"),
            text("interface"),
            text("interface_state"),
            match link.pointer("/steering/ok").and_then(Value::as_bool) {
                Some(true) => "ok",
                Some(false) => "missing",
                None => "-",
            },
            count("interface_mtu"),
            count("interface_drops"),
            ByteCount(memory.unwrap_or(0)).to_string(),
        );
        let causes = link.get("drops_by_cause").and_then(Value::as_object);
        for (cause, count) in causes.into_iter().flatten() {
            if count.as_u64() != Some(0) {
                let _ = write!(out, " {cause}={count}");
            }
        }
        out.push('\n');
    }
    for link in links(state) {
        if let Some(reason) = link.pointer("/steering/reason").and_then(Value::as_str) {
            let name = link.get("name").and_then(Value::as_str).unwrap_or("?");
            let _ = writeln!(out, "steering of {name} is missing: {reason}");
        }
    }
    out
}

/// Formats the program and its configuration.
fn program(state: &Value) -> String {
    let field = |pointer: &str| state.pointer(pointer).unwrap_or(&Value::Null);
    let (uptime, at) = (number(field("/uptime_s")), number(field("/reload/at_s")));
    let generation = number(field("/reload/generation"));
    let reload = match field("/reload/error").as_str() {
        Some(error) => format!("the last reload, {:.0} s ago, failed: {error}", uptime - at),
        None => format!("in force for {:.0} s", uptime - at),
    };
    let metrics = field("/metrics").as_str();
    let metrics = metrics.map_or_else(String::new, |address| {
        format!("metrics at http://{address}/metrics\n")
    });
    format!(
        "{metrics}version {}, up {uptime:.0} s, configuration {generation} {reload}\n",
        field("/build/version").as_str().unwrap_or("?"),
    )
}

/// Formats the extra values of XCP ports, or nothing if there are none.
fn xcp_table(state: &Value) -> String {
    let mut out = String::new();
    for link in links(state) {
        let field = |key: &str| link.pointer(&format!("/controller/{key}"));
        let number = |key: &str| field(key).and_then(Value::as_f64);
        let Some(mean_rtt) = number("mean_rtt_ms") else {
            continue;
        };
        let rate = |key: &str| {
            let bits = number(key).unwrap_or(0.0);
            let sign = if bits < 0.0 { "-" } else { "" };
            let bits = bits.abs() as u64;
            format!("{sign}{}", RateValue { bits })
        };
        if out.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "{:<16} {:>9} {:>9} {:>11} {:>11} {:>9} {:>11} {:>11} {:>11} {:>9} {:>7}",
                "XCP",
                "INTERVAL",
                "MEAN RTT",
                "CAPACITY",
                "SPARE",
                "QUEUE",
                "FEEDBACK",
                "GIVEN",
                "TAKEN",
                "STAMPED",
                "POLICED"
            );
        }
        let _ = writeln!(
            out,
            "{:<16} {:>7.0}ms {:>7.0}ms {:>11} {:>11} {:>8.0}B {:>11} {:>11} {:>11} {:>9} {:>7}",
            link.get("name").and_then(Value::as_str).unwrap_or(""),
            number("interval_ms").unwrap_or(0.0),
            mean_rtt,
            rate("capacity_bps"),
            rate("spare_bps"),
            number("persistent_queue_bytes").unwrap_or(0.0),
            rate("feedback_bps"),
            rate("given_bps"),
            rate("taken_bps"),
            number("stamped").unwrap_or(0.0),
            number("policed").unwrap_or(0.0),
        );
    }
    out
}
