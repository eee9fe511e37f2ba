//! Checks that dependencies of crates only point down the tiers: `crates` is the core, `apps` and
//! `tools` are above it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The folders that contain crates, the core first.
pub(super) const ALL: [&str; 3] = ["crates", "apps", "tools"];

/// Returns a line for each core crate that depends on a crate of a tier above. Tests may use any
/// crate. `crates` has names and directories.
pub(super) fn upward(root: &Path, crates: &[(String, String)]) -> Result<Vec<String>> {
    let mut above = BTreeSet::new();
    let mut core = Vec::new();
    for (_, directory) in crates {
        let file = root.join(directory).join("Cargo.toml");
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let manifest: toml::Table = text.parse().with_context(|| file.display().to_string())?;
        let name = manifest["package"]["name"].as_str().unwrap_or_default();
        if directory.starts_with(ALL[0]) || directory == "." {
            core.push((name.to_owned(), manifest));
        } else {
            above.insert(name.to_owned());
        }
    }
    let wrong = |manifest| dependencies(manifest).find(|name| above.contains(*name));
    let wrong = core
        .iter()
        .filter_map(|(name, manifest)| Some(format!("{name} depends on {}", wrong(manifest)?)));
    Ok(wrong.collect())
}

/// Returns the names below `dependencies` and `build-dependencies`, for all targets.
fn dependencies(manifest: &toml::Table) -> impl Iterator<Item = &str> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let targets = targets.into_iter().flat_map(toml::Table::values);
    let targets = targets.filter_map(toml::Value::as_table);
    let tables = [manifest].into_iter().chain(targets);
    tables.flat_map(|table| {
        ["dependencies", "build-dependencies"]
            .into_iter()
            .filter_map(|kind| table.get(kind)?.as_table())
            .flat_map(|table| table.keys().map(String::as_str))
    })
}

#[cfg(test)]
mod tests {
    use super::dependencies;

    #[test]
    fn dependencies_of_targets_count_and_those_of_tests_do_not() {
        let text = "[dependencies]\na = \"1\"\n[dev-dependencies]\nb = \"1\"\n\
                    [target.'cfg(unix)'.build-dependencies]\nc = \"1\"\n";
        let manifest = text.parse().unwrap();
        assert_eq!(dependencies(&manifest).collect::<Vec<_>>(), ["a", "c"]);
    }
}
