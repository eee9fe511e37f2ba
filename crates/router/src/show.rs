//! The human-readable output of `show`.

use std::fmt::Write as _;

use pathmark_link::keys::{ByteCount, RateValue};
use serde_json::Value;

/// Whether packets are steered into every port as configured.
pub(crate) fn is_steered(state: &Value) -> bool {
    links(state).all(|link| link.pointer("/steering/ok") != Some(&Value::Bool(false)))
}

/// A row of a table: a name, and cells that are aligned to the right.
fn row<T: AsRef<str>>(name: &str, columns: &[(&str, usize)], cells: &[T]) -> String {
    let mut out = format!("{name:<10}");
    for ((_, width), cell) in columns.iter().zip(cells) {
        // Writing to a string cannot fail, here and below.
        let _ = write!(out, " {:>width$}", cell.as_ref());
    }
    out + "\n"
}

/// The row with the columns' titles.
fn head(name: &str, columns: &[(&str, usize)]) -> String {
    let titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
    row(name, columns, &titles)
}

/// Formats tables of links, interfaces and counters.
pub(crate) fn table(state: &Value) -> String {
    let mut columns = vec![
        ("RATE", 10),
        ("SENT 1s", 10),
        ("UTIL", 5),
        ("QUEUE ms", 9),
        ("DROPS/s", 8),
        ("LOAD", 5),
        ("CODE", 5),
    ];
    // Only while a capacity is reported.
    let reported = |link: &Value| rate(link.get("reported_capacity_bps").unwrap_or(&Value::Null));
    let has_reports = links(state).any(|link| reported(link) != "-");
    if has_reports {
        columns.insert(1, ("REPORTED", 10));
    }
    let mut out = head("LINK", &columns);
    for link in links(state) {
        let field = |pointer: &str| link.pointer(pointer).unwrap_or(&Value::Null);
        let mut cells = vec![
            rate(field("/rate_bps")),
            rate(field("/rates/1s/sent_bps")),
            percent(field("/rates/1s/utilization")),
            format!("{:.2}", number(field("/queue_ms/now"))),
            format!("{:.1}", number(field("/rates/1s/drops_pps"))),
            percent(field("/controller/load")),
            field("/controller/code").as_str().unwrap_or("-").to_owned(),
        ];
        if has_reports {
            cells.insert(1, reported(link));
        }
        out += &row(name(link), &columns, &cells);
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

fn name(link: &Value) -> &str {
    link.get("name").and_then(Value::as_str).unwrap_or("?")
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
    const COLUMNS: [(&str, usize); 5] = [
        ("INTERFACE", 15),
        ("STATE", 7),
        ("STEERING", 8),
        ("IN DROPS", 8),
        ("MEMORY", 9),
    ];
    let mut out = head("LINK", &COLUMNS);
    for link in links(state) {
        let text = |key: &str| {
            link.get(key)
                .and_then(Value::as_str)
                .unwrap_or("?")
                .to_owned()
        };
        let count = |key: &str| link.get(key).and_then(Value::as_u64);
        let steering = match link.pointer("/steering/ok").and_then(Value::as_bool) {
            Some(true) => "ok",
            Some(false) => "missing",
            None => "-",
        };
        let drops =
            count("interface_drops").map_or_else(|| "-".to_owned(), |count| count.to_string());
        let cells = [
            text("interface"),
            text("interface_state"),
            steering.to_owned(),
            drops,
            ByteCount(count("memory_bytes").unwrap_or(0)).to_string(),
        ];
        out += &row(name(link), &COLUMNS, &cells);
    }
    for link in links(state) {
        let causes = link.get("drops_by_cause").and_then(Value::as_object);
        for (cause, count) in causes.into_iter().flatten() {
            if count.as_u64() != Some(0) {
                let _ = writeln!(out, "{:<10} drops, {cause}: {count}", name(link));
            }
        }
    }
    for link in links(state) {
        if let Some(reason) = link.pointer("/steering/reason").and_then(Value::as_str) {
            let _ = writeln!(out, "steering of {} is missing: {reason}", name(link));
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
    const COLUMNS: [(&str, usize); 7] = [
        ("MEAN RTT", 8),
        ("CAPACITY", 10),
        ("SPARE", 10),
        ("FEEDBACK", 10),
        ("QUEUE", 8),
        ("STAMPED", 9),
        ("POLICED", 8),
    ];
    let mut out = String::new();
    for link in links(state) {
        let number = |key: &str| link.pointer(&format!("/controller/{key}"))?.as_f64();
        let Some(mean_rtt) = number("mean_rtt_ms") else {
            continue;
        };
        let rate = |key: &str| {
            let bits = number(key).unwrap_or(0.0);
            let sign = if bits < 0.0 { "-" } else { "" };
            sign.to_owned() + &self::rate(&bits.abs().into())
        };
        let count = |key: &str| number(key).unwrap_or(0.0).to_string();
        if out.is_empty() {
            out = head("XCP", &COLUMNS);
        }
        let cells = [
            format!("{mean_rtt:.0}ms"),
            rate("capacity_bps"),
            rate("spare_bps"),
            rate("feedback_bps"),
            format!("{:.0}B", number("persistent_queue_bytes").unwrap_or(0.0)),
            count("stamped"),
            count("policed"),
        ];
        out += &row(name(link), &COLUMNS, &cells);
    }
    out
}
