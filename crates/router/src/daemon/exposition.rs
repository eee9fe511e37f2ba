//! Lines of Prometheus' text format (version 0.0.4).

use std::fmt::Write;

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
