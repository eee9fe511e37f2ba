//! Identifies everything that was set up only by its marks, either without a configuration, or
//! with one that is no longer valid.

use std::collections::BTreeSet;
use std::path::Path;

use pathmark_link::keys::read_regular;
use serde::Deserialize;

use super::SetupError;
use super::state::State;
use super::step::MAIN;
use crate::config::{Config, DEFAULT_TABLE, PortSpec};
use crate::tun::LinkState;

/// Number of tables and priorities that belong to one configuration, from its first.
pub(super) const SPAN: u32 = 256;
const ALIAS: &str = "vcp-router:";

/// Maximum length of the path in an alias, in bytes; an alias has at most 255 (`IFALIASZ`).
const LONGEST: usize = 200;

/// The interfaces that a configuration names.
pub(super) fn named(config: &Config) -> BTreeSet<&str> {
    config.ports.iter().filter_map(PortSpec::tun).collect()
}

/// The alias that identifies an interface of the configuration `file` with this `table`.
pub(super) fn alias(table: u32, file: &str) -> String {
    format!("{ALIAS}{table}:{file}")
}

/// The path of a configuration, as written in an alias.
pub(super) fn file(path: &Path) -> String {
    let whole = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let whole = whole.to_string_lossy().replace(char::is_control, "?");
    let mut start = whole.len().saturating_sub(LONGEST);
    while !whole.is_char_boundary(start) {
        start += 1;
    }
    whole.get(start..).unwrap_or_default().to_owned()
}

/// The `table` in an alias; `None` for an alias of another program.
pub(super) fn table_of(alias: &str) -> Option<u32> {
    let rest = alias.strip_prefix(ALIAS)?;
    rest.split(':').next()?.parse().ok()
}

/// Returns the configuration that a link was created for if it is not `file`, and either still
/// exists or a program has the link open.
pub(super) fn other_file<'a>(link: &'a LinkState, file: &str) -> Option<&'a str> {
    let (_, owner) = link.alias.strip_prefix(ALIAS)?.split_once(':')?;
    (owner != file && (link.held || Path::new(owner).exists())).then_some(owner)
}

/// The `table` of each configuration that has left marks. If no interface shows it, this is the
/// lowest number in a rule or a route, which covers the others.
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

/// Returns earlier values of `table`. They are in the aliases of the `named` interfaces, but
/// excluded if an interface that is not named has the same alias, because another configuration
/// may still use them.
pub(super) fn former(state: &State, table: u32, named: &BTreeSet<&str>) -> BTreeSet<u32> {
    let (mut before, mut others) = (BTreeSet::new(), BTreeSet::new());
    for link in &state.links {
        match table_of(&link.alias) {
            Some(shown) if shown != table => {
                if named.contains(link.name.as_str()) {
                    before.insert(shown)
                } else {
                    others.insert(shown)
                }
            }
            _ => false,
        };
    }
    &before - &others
}

/// The part of a configuration that determines its marks.
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

/// The tables to remove for the configuration at `path`: its own and earlier ones. If it cannot
/// be read, these are the tables of the only configuration that has left marks.
///
/// # Errors
/// [`SetupError::Unclear`] if several configurations have left marks.
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
