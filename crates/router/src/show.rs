//! The human-readable output of `show`.

use std::fmt::Write as _;

use pathmark_link::keys::{ByteCount, RateValue};
use serde_json::Value;

/// Whether packets are steered into every port as configured.
pub(crate) fn is_steered(state: &Value) -> bool {
    links(state).all(|link| link.pointer("/steering/ok") != Some(&Value::Bool(false)))
}

/// A column of a table: its title, its width, and the cell of a link. Cells are aligned to the
/// right.
type Column = (&'static str, usize, fn(&Value) -> String);

const LINKS: [Column; 7] = [
    ("RATE", 10, |link| rate(field(link, "/rate_bps"))),
    ("SENT 1s", 10, |link| {
        rate(field(link, "/rates/1s/sent_bps"))
    }),
    ("UTIL", 5, |link| {
        percent(field(link, "/rates/1s/utilization"))
    }),
    ("QUEUE ms", 9, |link| {
        format!("{:.2}", number(field(link, "/queue_ms/now")))
    }),
    ("DROPS/s", 8, |link| {
        format!("{:.1}", number(field(link, "/rates/1s/drops_pps")))
    }),
    ("LOAD", 5, |link| percent(field(link, "/controller/load"))),
    ("CODE", 5, |link| text(field(link, "/controller/code"), "-")),
];
const REPORTED: Column = ("REPORTED", 10, |link| {
    rate(field(link, "/reported_capacity_bps"))
});
const BEHIND: Column = ("BEHIND ms", 9, |link| {
    let delay = field(link, "/delay_behind_ms").as_f64();
    delay.map_or_else(|| "-".to_owned(), |delay| format!("{delay:.1}"))
});
const INTERFACES: [Column; 5] = [
    ("INTERFACE", 15, |link| text(field(link, "/interface"), "?")),
    ("STATE", 7, |link| {
        text(field(link, "/interface_state"), "?")
    }),
    ("STEERING", 8, |link| steering(field(link, "/steering/ok"))),
    ("IN DROPS", 8, |link| {
        let drops = field(link, "/interface_drops").as_u64();
        drops.map_or_else(|| "-".to_owned(), |drops| drops.to_string())
    }),
    ("MEMORY", 9, |link| {
        let bytes = field(link, "/memory_bytes").as_u64();
        ByteCount(bytes.unwrap_or(0)).to_string()
    }),
];
/// The extra values of XCP ports.
const XCP: [Column; 7] = [
    ("MEAN RTT", 8, |link| {
        format!("{:.0}ms", number(field(link, "/controller/mean_rtt_ms")))
    }),
    ("CAPACITY", 10, |link| {
        signed_rate(field(link, "/controller/capacity_bps"))
    }),
    ("SPARE", 10, |link| {
        signed_rate(field(link, "/controller/spare_bps"))
    }),
    ("FEEDBACK", 10, |link| {
        signed_rate(field(link, "/controller/feedback_bps"))
    }),
    ("QUEUE", 8, |link| {
        let bytes = number(field(link, "/controller/persistent_queue_bytes"));
        format!("{bytes:.0}B")
    }),
    ("STAMPED", 9, |link| {
        number(field(link, "/controller/stamped")).to_string()
    }),
    ("POLICED", 8, |link| {
        number(field(link, "/controller/policed")).to_string()
    }),
];

/// Formats a table with a row for each of these links.
fn table_of<'a>(title: &str, columns: &[Column], links: impl Iterator<Item = &'a Value>) -> String {
    let row = |name: &str, cell: &dyn Fn(&Column) -> String| {
        let cells = columns
            .iter()
            .map(|column| format!(" {:>1$}", cell(column), column.1));
        format!("{name:<10}{}\n", cells.collect::<String>())
    };
    let head = row(title, &|column| column.0.to_owned());
    let rows = links.map(|link| row(name(link), &|column| column.2(link)));
    head + &rows.collect::<String>()
}

/// Formats tables of links, interfaces and counters.
pub(crate) fn table(state: &Value) -> String {
    let mut columns = LINKS.to_vec();
    // Only while a capacity is reported, and where a probe measures.
    for column in [BEHIND, REPORTED] {
        if links(state).any(|link| column.2(link) != "-") {
            columns.insert(1, column);
        }
    }
    let mut out = table_of("LINK", &columns, links(state));
    let is_xcp = |link: &&Value| field(link, "/controller/mean_rtt_ms").is_number();
    if links(state).any(|link| is_xcp(&link)) {
        out += &table_of("XCP", &XCP, links(state).filter(is_xcp));
    }
    out += &table_of("LINK", &INTERFACES, links(state));
    out.push_str(&troubles(state));
    let counters = state.get("counters").and_then(Value::as_object);
    for (name, value) in counters.into_iter().flatten() {
        if value.as_u64() != Some(0) {
            // Writing to a string cannot fail, here and below.
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

fn field<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

fn text(value: &Value, unknown: &str) -> String {
    value.as_str().unwrap_or(unknown).to_owned()
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

/// Formats a rate that may be negative; an unknown one is 0.
fn signed_rate(value: &Value) -> String {
    let bits = number(value);
    let sign = if bits < 0.0 { "-" } else { "" };
    sign.to_owned() + &rate(&bits.abs().into())
}

fn steering(ok: &Value) -> String {
    let text = match ok.as_bool() {
        Some(true) => "ok",
        Some(false) => "missing",
        None => "-",
    };
    text.to_owned()
}

/// Formats drops by cause, and why packets are not steered.
fn troubles(state: &Value) -> String {
    let mut out = String::new();
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
    let field = |pointer: &str| field(state, pointer);
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
