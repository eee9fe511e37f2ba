//! Lines of Prometheus' text format (version 0.0.4).

use std::fmt::Write;

use super::snapshot::LinkView;

/// The HELP and TYPE lines of a metric.
pub(super) fn head(out: &mut String, name: &str, kind: &str, help: &str) -> std::fmt::Result {
    writeln!(out, "# HELP vcp_router_{name} {help}")?;
    writeln!(out, "# TYPE vcp_router_{name} {kind}")
}

/// Escapes backslash, quote and line feed in a label's value.
pub(super) fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// A metric of all ports that have a value.
pub(super) fn per_port(
    out: &mut String,
    (name, kind, help): (&str, &str, &str),
    links: &[LinkView],
    value: impl Fn(&LinkView) -> Option<f64>,
) -> std::fmt::Result {
    head(out, name, kind, help)?;
    for link in links {
        if let Some(value) = value(link) {
            let port = escaped(&link.name);
            writeln!(out, "vcp_router_{name}{{port=\"{port}\"}} {value}")?;
        }
    }
    Ok(())
}

/// Counts of a port by the value of a label, in front of which there may be others.
pub(super) fn counts<'a>(
    out: &mut String,
    (name, label): (&str, &str),
    link: &LinkView,
    counts: impl IntoIterator<Item = (&'a &'static str, &'a u64)>,
) -> std::fmt::Result {
    let port = escaped(&link.name);
    for (of, count) in counts {
        writeln!(
            out,
            "vcp_router_{name}{{port=\"{port}\",{label}=\"{of}\"}} {count}"
        )?;
    }
    Ok(())
}
