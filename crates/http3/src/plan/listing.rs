//! Listings of directories, entry by entry, so that a directory of any size takes bounded memory.

use serde::Serialize;

use crate::fields::{Form, PathName, encode_bytes, encode_name};
use crate::resource::{Entry, Kind};

/// An entry in JSON. Names and targets are percent-encoded: a string of JSON has no place for
/// bytes that are no UTF-8.
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

/// The text before the first entry.
#[must_use]
pub fn begin(form: Form, path: &PathName) -> String {
    match form {
        Form::Json => "{\"entries\":[".to_owned(),
        Form::Html => {
            let names = path.names.iter().map(|name| shown(name) + "/");
            let title = escape(&format!("/{}", names.collect::<String>()));
            let up = match path.names.is_empty() {
                true => "",
                false => "<li><a href=\"../\">../</a>\n",
            };
            format!(
                "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
                 <h1>{title}</h1>\n<ul>\n{up}"
            )
        }
    }
}

/// One entry.
#[must_use]
pub fn entry(form: Form, first: bool, entry: &Entry) -> String {
    match form {
        Form::Json => {
            let separator = if first { "\n" } else { ",\n" };
            format!("{separator}{}", row(entry))
        }
        Form::Html => {
            let slash = if entry.stat.kind == Kind::Directory {
                "/"
            } else {
                ""
            };
            let href = encode_name(&entry.name);
            let name = escape(&shown(&entry.name));
            // A name with a colon is no relative reference by itself (RFC 3986 section 4.2).
            format!("<li><a href=\"./{href}{slash}\">{name}{slash}</a>\n")
        }
    }
}

/// The text after the last entry.
#[must_use]
pub const fn end(form: Form) -> &'static str {
    match form {
        Form::Json => "\n]}\n",
        Form::Html => "</ul>\n",
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

/// A name for people: control characters and bytes that are no UTF-8 become U+FFFD.
fn shown(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    let visible = |char: char| {
        if char.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            char
        }
    };
    name.chars().map(visible).collect()
}

/// Text in HTML.
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
