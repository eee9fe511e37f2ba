//! What was set up, by its marks alone: without a configuration, or with one that does not hold
//! together any more.

use std::collections::BTreeSet;
use std::path::Path;

use pathmark_link::keys::read_regular;
use serde::Deserialize;

use super::SetupError;
use super::state::{Link, MAIN, State};
use crate::config::DEFAULT_TABLE;

/// Tables and priorities that belong to one configuration, from its first on.
pub(super) const SPAN: u32 = 256;
const ALIAS: &str = "vcp-router:";

/// Longest part of a path in an alias, in bytes; an alias has at most 255 (`IFALIASZ`).
const LONGEST: usize = 200;

/// The alias by which an interface of the configuration `file` with this `table` is known again.
pub(super) fn alias(table: u32, file: &str) -> String {
    format!("{ALIAS}{table}:{file}")
}

/// The path of a configuration as an alias has it.
pub(super) fn file(path: &Path) -> String {
    let whole = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let whole = whole.to_string_lossy().replace(char::is_control, "?");
    let mut start = whole.len().saturating_sub(LONGEST);
    while !whole.is_char_boundary(start) {
        start += 1;
    }
    whole.get(start..).unwrap_or_default().to_owned()
}

/// The `table` in an alias; `None` for an alias of another program's.
pub(super) fn table_of(alias: &str) -> Option<u32> {
    let rest = alias.strip_prefix(ALIAS)?;
    rest.split(':').next()?.parse().ok()
}

/// The configuration that a link was made for, if it is another one than `file` and is still there,
/// or a program has the link open.
pub(super) fn other_file<'a>(link: &'a Link, file: &str) -> Option<&'a str> {
    let (_, owner) = link.alias.strip_prefix(ALIAS)?.split_once(':')?;
    (owner != file && (link.held || Path::new(owner).exists())).then_some(owner)
}

/// The `table` of each configuration that has left marks. Where no interface tells it any more it
/// is the lowest number that a rule or a route shows, which covers the rest of them.
pub(super) fn tables(state: &State) -> BTreeSet<u32> {
    let aliases = state.links.iter().filter_map(|link| table_of(&link.alias));
    let mut tables: BTreeSet<u32> = aliases.collect();
    let rules = state.rules.iter().filter(|rule| rule.ours);
    let routes = state.routes.iter().map(|route| route.table);
    let shown = rules.map(|rule| rule.table).chain(routes);
    let shown = shown.chain(state.closed.keys().copied());
    // In order, so that the lowest comes first.
    for table in shown
        .filter(|table| *table != MAIN)
        .collect::<BTreeSet<_>>()
    {
        let covers = |first: &u32| (*first..first.saturating_add(SPAN)).contains(&table);
        if !tables.iter().any(covers) {
            tables.insert(table);
        }
    }
    tables
}

/// Other values that `table` had before: those in the alias of an interface that is `named`, unless
/// another configuration may have them still, for some interface with that alias is not.
pub(super) fn former(state: &State, table: u32, named: &BTreeSet<&str>) -> BTreeSet<u32> {
    let (mut before, mut others) = (BTreeSet::new(), BTreeSet::new());
    for link in &state.links {
        match table_of(&link.alias) {
            Some(shown) if shown != table => match named.contains(link.name.as_str()) {
                true => before.insert(shown),
                false => others.insert(shown),
            },
            _ => false,
        };
    }
    &before - &others
}

/// As much of a configuration as tells its marks.
#[derive(Debug, Deserialize)]
struct Marks {
    #[serde(default = "default_table")]
    table: u32,
    #[serde(default, rename = "port")]
    ports: Vec<Named>,
}

#[derive(Debug, Deserialize)]
struct Named {
    tun: Option<String>,
}

fn default_table() -> u32 {
    DEFAULT_TABLE
}

/// The tables to take away for the configuration at `path`, as far as it can be read: its own, and
/// those that it had before. Where it cannot, those of the only configuration that has left marks.
///
/// # Errors
/// [`SetupError::Unclear`] if that could be several.
pub(super) fn tables_for(path: &Path, state: &State) -> Result<BTreeSet<u32>, SetupError> {
    let text = read_regular(path).map_err(|error| error.to_string());
    let marks = text.and_then(|text| {
        toml::from_str::<Marks>(&text).map_err(|error| error.message().to_owned())
    });
    match marks {
        Ok(marks) => {
            let named = marks.ports.iter().filter_map(|port| port.tun.as_deref());
            let mut tables = former(state, marks.table, &named.collect());
            tables.insert(marks.table);
            Ok(tables)
        }
        Err(message) => {
            let tables = tables(state);
            match tables.len() {
                0 | 1 => Ok(tables),
                _ => Err(SetupError::Unclear {
                    path: path.to_owned(),
                    message,
                    tables: tables
                        .iter()
                        .map(u32::to_string)
                        .collect::<Vec<_>>()
                        .join(", "),
                }),
            }
        }
    }
}
