//! Renders directory listings entry by entry, so that any size of directory only takes bounded
//! memory.

use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::http_date;
use crate::fields::{Form, PathName, encode_bytes, encode_name, is_obeyed, text_of};
use crate::resource::{Entry, Kind};

/// The style of pages, which follows the browser's light or dark mode.
const STYLE: &str = "\
:root{color-scheme:light dark;font-family:system-ui,sans-serif}\
body{margin:2rem auto;max-width:60rem;padding:0 1rem}\
h1{font-size:1.3rem;overflow-wrap:anywhere}\
table{border-collapse:collapse;width:100%}\
th,td{padding:.3rem .6rem;text-align:left;vertical-align:top;border-bottom:1px solid #8886}\
td:first-child{width:100%;overflow-wrap:anywhere}\
:is(th,td)+:is(th,td){text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}";

/// The Content-Security-Policy of pages. They can't load or run anything, and their only style
/// is [`STYLE`].
pub(super) static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = BASE64_STANDARD.encode(Sha256::digest(STYLE));
    format!("default-src 'none'; style-src 'sha256-{hash}'")
});

/// An entry in JSON. Names and targets are percent-encoded, because JSON strings can't contain
/// bytes that aren't UTF-8.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    kind: &'a str,
    size: u64,
    mode: &'a str,
    time: i64,
    nanoseconds: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a str>,
}

/// Returns the text before the first entry.
pub fn begin(form: Form, path: &PathName) -> String {
    match form {
        Form::Json => "{\"entries\":[".to_owned(),
        Form::Html => {
            let names = path.names.iter().map(|name| shown(name) + "/");
            let title = escape(&format!("/{}", names.collect::<String>()));
            let up = if path.names.is_empty() {
                ""
            } else {
                "<tr><td><a href=\"../\">../</a><td><td>\n"
            };
            format!(
                "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
                 <meta name=\"viewport\" content=\"width=device-width\">\n\
                 <title>{title}</title>\n<style>{STYLE}</style>\n<h1>{title}</h1>\n<table>\n\
                 <thead><tr><th>Name<th>Size<th>Last change\n<tbody>\n{up}"
            )
        }
    }
}

/// Returns the text of one entry.
pub fn entry(form: Form, first: bool, entry: &Entry) -> String {
    match form {
        Form::Json => {
            let separator = if first { "\n" } else { ",\n" };
            format!("{separator}{}", row(entry))
        }
        Form::Html => {
            let Entry { name, stat, target } = entry;
            let (slash, size) = match stat.kind {
                Kind::Directory => ("/", String::new()),
                Kind::File => ("", size(stat.size)),
                Kind::Symlink | Kind::Special => ("", String::new()),
            };
            let text = escape(&shown(name));
            // Devices can't be requested. A name with a colon must not begin a relative
            // reference (RFC 3986 section 4.2).
            let link = match stat.kind {
                Kind::Special => text,
                _ => format!(
                    "<a href=\"./{}{slash}\">{text}{slash}</a>",
                    encode_name(name)
                ),
            };
            let target = target.as_ref().map(|target| escape(&shown(target)));
            let target = target.map_or_else(String::new, |target| format!(" → {target}"));
            let time = http_date(stat.modified.to_system()).unwrap_or_default();
            format!("<tr><td>{link}{target}<td>{size}<td>{time}\n")
        }
    }
}

/// Returns the text after the last entry.
pub const fn end(form: Form) -> &'static str {
    match form {
        Form::Json => "\n]}\n",
        Form::Html => "</table>\n",
    }
}

fn row(entry: &Entry) -> String {
    let Entry { name, stat, target } = entry;
    let target = target.as_ref().map(|target| encode_bytes(target));
    let row = Row {
        name: &encode_name(name),
        kind: match stat.kind {
            Kind::File => "file",
            Kind::Directory => "directory",
            Kind::Symlink => "symlink",
            Kind::Special => "special",
        },
        size: stat.size,
        mode: &format!("{:04o}", stat.mode & 0o7777),
        time: stat.modified.seconds,
        nanoseconds: stat.modified.nanoseconds,
        target: target.as_deref(),
    };
    serde_json::to_string(&row).unwrap_or_default()
}

/// Formats a number of bytes in a unit, rounded down to a tenth of this unit.
fn size(bytes: u64) -> String {
    let scales = [
        ("EB", 18),
        ("PB", 15),
        ("TB", 12),
        ("GB", 9),
        ("MB", 6),
        ("kB", 3),
    ];
    let scale = scales.iter().find(|(_, power)| bytes >= 10_u64.pow(*power));
    scale.map_or_else(
        || format!("{bytes} B"),
        |(unit, power)| {
            let tenths = bytes / 10_u64.pow(*power - 1);
            format!("{}.{} {unit}", tenths / 10, tenths % 10)
        },
    )
}

/// Formats a name as readable text, using escapes (`\u{1b}`, `\xff`).
fn shown(name: &[u8]) -> String {
    let mut shown = String::with_capacity(name.len());
    for char in text_of(name).chars() {
        if is_obeyed(char) {
            shown.extend(char.escape_default());
        } else {
            shown.push(char);
        }
    }
    shown
}

/// Escapes text for HTML.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            char => escaped.push(char),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_down_to_a_tenth_of_their_unit() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (1099, "1.0 kB"),
            (999_999, "999.9 kB"),
            (3_000_000, "3.0 MB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn no_name_hides_its_end() {
        assert_eq!(shown(b"a\xe2\x80\xaegpj.exe"), "a\\u{202e}gpj.exe");
        assert_eq!(shown(b"\x1b<\xff"), "\\u{1b}<\\xff");
    }

    #[test]
    fn the_policy_allows_the_style_of_the_page() {
        let page = begin(Form::Html, &PathName::default());
        let style = page.split_once("<style>").unwrap().1;
        let style = style.split_once("</style>").unwrap().0;
        let hash = BASE64_STANDARD.encode(Sha256::digest(style));
        let has_hash = POLICY.contains(&format!("style-src 'sha256-{hash}'"));
        assert!(has_hash, "{}", *POLICY);
    }
}
