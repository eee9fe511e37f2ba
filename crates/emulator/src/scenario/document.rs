//! The text of a scenario, which is a file or built in, the changes made to it, and its errors.

use std::path::{Path, PathBuf};

use pathmark_link::keys::{Fault, LinkKeys, Source, nearest};
use toml::{Table, Value};

use super::schema::File;

/// The source of a scenario.
#[derive(Clone, Debug)]
pub(super) struct Document {
    /// For messages.
    path: PathBuf,
    text: String,
    /// The last changed key and its value. Without this change, the text was valid.
    changed: Option<(String, String)>,
}

impl Document {
    pub(super) fn new(path: &Path, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            changed: None,
        }
    }

    pub(super) fn load(name_or_path: &str) -> Result<Self, ScenarioError> {
        if let Some(known) = find(name_or_path) {
            return Ok(Self::new(Path::new(known.name), known.text));
        }
        let path = Path::new(name_or_path);
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Self::new(path, &text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let names = BUILT_IN.iter().map(|known| known.name);
                Err(ScenarioError::Unknown {
                    given: name_or_path.to_owned(),
                    nearest: nearest(name_or_path, names).map(str::to_owned),
                })
            }
            Err(source) => Err(ScenarioError::Unreadable {
                path: path.to_owned(),
                source,
            }),
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn id(&self) -> &str {
        let stem = self.path.file_stem().and_then(|stem| stem.to_str());
        stem.unwrap_or("scenario")
    }

    /// The text and its path, for messages.
    pub(super) fn source(&self) -> Source<'_> {
        Source {
            path: &self.path,
            text: &self.text,
        }
    }

    /// Parses the text.
    pub(super) fn file(&self) -> Result<File, toml::de::Error> {
        toml::from_str(&self.text)
    }

    /// The last changed key and its value.
    pub(super) const fn changed(&self) -> Option<&(String, String)> {
        self.changed.as_ref()
    }

    /// Returns this document with one key changed.
    pub(super) fn with(&self, key: &str, value: &str) -> Result<Self, ScenarioError> {
        let fail = |message: String| ScenarioError::Set {
            key: key.to_owned(),
            value: value.to_owned(),
            message,
        };
        let mut table: Table = toml::from_str(&self.text).map_err(|e| fail(e.to_string()))?;
        if LinkKeys::NAMES.contains(&key) {
            return Err(fail(format!("links have this key: write link.NAME.{key}")));
        }
        let parts: Vec<&str> = key.split('.').collect();
        change(&mut table, &parts, &parse_value(value)).map_err(fail)?;
        let text = toml::to_string(&table).map_err(|e| fail(e.to_string()))?;
        Ok(Self {
            path: self.path.clone(),
            text,
            changed: Some((key.to_owned(), value.to_owned())),
        })
    }
}

/// Parses a TOML value; anything else becomes a string.
fn parse_value(text: &str) -> Value {
    toml::from_str::<Table>(&format!("value = {text}"))
        .ok()
        .filter(|table| table.len() == 1)
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

fn change(table: &mut Table, key: &[&str], value: &Value) -> Result<(), String> {
    match key {
        [] | [""] => Err("a key is needed: KEY=VALUE".to_owned()),
        [list @ ("link" | "flow"), name, rest @ ..] if !rest.is_empty() => {
            let entries = table.get_mut(*list).and_then(Value::as_array_mut);
            let entries = entries.map_or(&mut [][..], Vec::as_mut_slice);
            change_named(entries, list, name, rest, value)
        }
        [list @ ("link" | "flow"), ..] => Err(format!(
            "say which {list} and which of its keys: {list}.NAME.KEY, or {list}.*.KEY for each"
        )),
        [key] => {
            table.insert((*key).to_owned(), value.clone());
            Ok(())
        }
        [key, rest @ ..] => {
            let inner = table.entry(*key).or_insert(Value::Table(Table::new()));
            let inner = inner.as_table_mut();
            let inner = inner.ok_or_else(|| format!("`{key}` is no table"))?;
            change(inner, rest, value)
        }
    }
}

fn change_named(
    entries: &mut [Value],
    list: &str,
    name: &str,
    rest: &[&str],
    value: &Value,
) -> Result<(), String> {
    let mut found = false;
    let mut names = Vec::new();
    for entry in entries {
        let Some(entry) = entry.as_table_mut() else {
            continue;
        };
        let own = entry.get("name").and_then(Value::as_str).unwrap_or("");
        names.push(own.to_owned());
        if name == "*" || name == own {
            found = true;
            change(entry, rest, value)?;
        }
    }
    if found {
        return Ok(());
    }
    let meant = nearest(name, names.iter().map(String::as_str));
    let hint = meant.map_or_else(String::new, |meant| format!(": did you mean `{meant}`?"));
    Err(format!("no {list} is called `{name}`{hint}"))
}

/// A scenario that can be run by name.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
}

/// Lists scenarios by the names of their files.
macro_rules! built_in {
    ($($name:literal)+) => {
        /// All built-in scenarios.
        pub const BUILT_IN: &[BuiltIn] = &[$(BuiltIn {
            name: $name,
            text: include_str!(concat!("../../scenarios/", $name, ".toml")),
        }),+];
    };
}

built_in! {
    "auto-start" "auto-files" "auto-mice" "auto-loss"
    "arrivals" "five-files" "plain-hop" "parking-lot"
    "vcp-ext-fig2" "vcp-ext-fig4" "vcp-ext-fig5" "vcp-ext-fig5-10g" "vcp-ext-epsilon" "vcp-ext-fig6"
    "vcp-ext-fig7"
    "vcp-linux-fig3" "vcp-linux-fig10" "vcp-linux-bursts" "vcp-linux-fig11"
    "vcp-linux-fig11-antennas"
    "vcp-beside-tcp"
    "xcp-linux-fig3" "xcp-linux-fig5" "xcp-linux-fig6" "xcp-linux-fig7" "xcp-linux-fig8-9"
    "xcp-linux-fig10" "xcp-linux-fig11" "xcp-linux-fig13" "xcp-linux-fig14" "xcp-linux-eq5"
    "xcp-cubic-fig1" "xcp-cubic-fig2" "xcp-cubic-fig3" "xcp-cubic-fig4" "xcp-cubic-fig5"
    "xcp-cubic-fig6" "xcp-cubic-fig7" "xcp-cubic-startup" "xcp-cubic-buffers"
    "xcp-i-fig2" "xcp-i-cells" "xcp-i-fig4" "xcp-i-fig6" "xcp-i-fig8" "xcp-i-fig10" "xcp-i-fig12"
    "xcp-i-fig13" "xcp-i-fig14" "xcp-i-tcp"
}

fn find(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|known| known.name == name)
}

/// A scenario that cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// Neither a built-in scenario nor an existing file.
    #[error(
        "no built-in scenario is called `{given}`, and there is no such file{}; `--list` shows all \
         names",
        hint(.nearest.as_deref())
    )]
    Unknown {
        /// The given name.
        given: String,
        /// The built-in scenario with the most similar name.
        nearest: Option<String>,
    },
    /// The file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Its contents are invalid.
    #[error("{0}")]
    Invalid(Fault),
    /// A changed key is invalid.
    #[error("{key}={value}: {message}")]
    Set {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// The error and its remedy.
        message: String,
    },
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

impl From<Fault> for ScenarioError {
    fn from(fault: Fault) -> Self {
        Self::Invalid(fault)
    }
}
