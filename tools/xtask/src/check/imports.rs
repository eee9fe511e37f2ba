//! Finds imports between modules beneath the same parent, and their cycles. Also checks that
//! dependencies of crates only point down the tiers: `crates` is the core, `apps` and `tools` are
//! above it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use syn::visit::Visit;
use syn::{Item, ItemImpl, ItemMod, ItemUse, UseTree, visit};

use super::source::{Source, is_test};

/// Imports between the modules directly beneath one parent, where each includes everything
/// beneath it. An item that the parent re-exports counts as imported from its own module.
pub(super) struct Imports {
    modules: BTreeSet<String>,
    arrows: BTreeSet<(String, String)>,
}

/// Returns imports for the crate's root, which is first, and for each module that has submodules.
pub(super) fn of_crate(sources: &[Source]) -> Vec<Imports> {
    let paths: Vec<Vec<Vec<String>>> = sources.iter().map(paths).collect();
    let parents = sources
        .iter()
        .filter_map(|source| source.module.split_last());
    let parents: BTreeSet<&[String]> = parents.map(|(_, parent)| parent).collect();
    let parents = parents.into_iter();
    parents
        .map(|parent| Imports::beneath(parent, sources, &paths))
        .collect()
}

/// Returns all paths in a file, relative to the crate's root.
fn paths(source: &Source) -> Vec<Vec<String>> {
    let mut paths = Paths::default();
    paths.visit_file(&source.ast);
    let found = paths.found.iter();
    found
        .filter_map(|path| absolute(&source.module, path))
        .collect()
}

impl Imports {
    fn beneath(parent: &[String], sources: &[Source], paths: &[Vec<Vec<String>>]) -> Self {
        let child = |path: &[String]| path.strip_prefix(parent)?.first().cloned();
        let modules: BTreeSet<String> = (sources.iter())
            .filter_map(|source| child(&source.module))
            .collect();
        let exports = exports(parent, sources, &modules);
        let mut arrows = BTreeSet::new();
        for (source, paths) in sources.iter().zip(paths) {
            let Some(from) = child(&source.module) else {
                continue;
            };
            for first in paths.iter().filter_map(|path| child(path)) {
                let to = match modules.contains(&first) {
                    true => Some(&first),
                    false => exports.get(&first),
                };
                if let Some(to) = to.filter(|to| **to != from) {
                    arrows.insert((from.clone(), to.clone()));
                }
            }
        }
        Self { modules, arrows }
    }

    /// Returns the modules that `from` reaches by one or more imports.
    fn reached(&self, from: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(module) = open.pop() {
            let next = self.arrows.iter().filter(|(from, _)| from == module);
            for (_, to) in next {
                if reached.insert(to.as_str()) {
                    open.push(to);
                }
            }
        }
        reached
    }

    /// Returns the number of modules in the largest cycle, or 0 without cycles.
    pub(super) fn largest_cycle(&self) -> usize {
        let reached: BTreeMap<&str, BTreeSet<&str>> = (self.modules.iter())
            .map(|module| (module.as_str(), self.reached(module)))
            .collect();
        let sizes = reached.iter().map(|(module, to)| {
            to.iter()
                .filter(|other| {
                    reached
                        .get(*other)
                        .is_some_and(|back| back.contains(module))
                })
                .count()
        });
        sizes.max().unwrap_or(0)
    }

    /// Returns the number of imports that are part of a cycle.
    pub(super) fn arrows_in_cycles(&self) -> usize {
        let in_cycle = |(from, to): &&(String, String)| self.reached(to).contains(from.as_str());
        self.arrows.iter().filter(in_cycle).count()
    }
}

/// Maps names that the file of `parent` imports from modules beneath it to these modules.
fn exports(
    parent: &[String],
    sources: &[Source],
    modules: &BTreeSet<String>,
) -> BTreeMap<String, String> {
    let file = sources.iter().find(|source| source.module == parent);
    let mut exports = BTreeMap::new();
    for item in file.iter().flat_map(|file| &file.ast.items) {
        if let Item::Use(item) = item {
            let mut paths = Vec::new();
            flatten(&item.tree, &mut Vec::new(), &mut paths);
            for (mut path, name) in paths {
                // `self::module::Item` is the same as `module::Item`.
                if path.first().is_some_and(|first| first == "self") {
                    path.remove(0);
                }
                if let Some(first) = path
                    .into_iter()
                    .next()
                    .filter(|first| modules.contains(first))
                {
                    exports.insert(name, first);
                }
            }
        }
    }
    exports
}

/// Converts a path that begins with `crate`, `self` or `super` to one relative to the crate's root.
fn absolute(module: &[String], path: &[String]) -> Option<Vec<String>> {
    let mut base = match path.first()?.as_str() {
        "crate" => Vec::new(),
        "self" => module.to_vec(),
        "super" => module.get(..module.len().checked_sub(1)?)?.to_vec(),
        _ => return None,
    };
    for segment in path.iter().skip(1) {
        match segment.as_str() {
            "super" => drop(base.pop()?),
            _ => base.push(segment.clone()),
        }
    }
    Some(base)
}

/// Lists the paths of a `use` with their local names.
fn flatten(tree: &UseTree, prefix: &mut Vec<String>, paths: &mut Vec<(Vec<String>, String)>) {
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, paths);
            prefix.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, prefix, paths);
            }
        }
        UseTree::Name(name) => {
            paths.push((with(prefix, name.ident.to_string()), name.ident.to_string()));
        }
        UseTree::Rename(name) => {
            paths.push((
                with(prefix, name.ident.to_string()),
                name.rename.to_string(),
            ));
        }
        UseTree::Glob(_) => paths.push((prefix.clone(), "*".to_owned())),
    }
}

fn with(prefix: &[String], name: String) -> Vec<String> {
    let mut path = prefix.to_vec();
    path.push(name);
    path
}

/// All paths in a file outside its tests.
#[derive(Default)]
struct Paths {
    found: Vec<Vec<String>>,
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if !is_test(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !is_test(&item.attrs) {
            let mut paths = Vec::new();
            flatten(&item.tree, &mut Vec::new(), &mut paths);
            self.found.extend(paths.into_iter().map(|(path, _)| path));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter();
        self.found
            .push(segments.map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }
}

/// The folders that contain crates, the core first.
pub(super) const TIERS: [&str; 3] = ["crates", "apps", "tools"];

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
        if directory.starts_with(TIERS[0]) || directory == "." {
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
    use super::{dependencies, *};

    fn source(module: &[&str], text: &str) -> Source {
        Source {
            path: std::path::PathBuf::new(),
            module: module.iter().map(ToString::to_string).collect(),
            ast: syn::parse_str(text).unwrap(),
        }
    }

    #[test]
    fn imports_make_cycles() {
        let root = "mod a; mod b; mod c; pub use b::{B, deep::Other as Renamed};";
        let a = "use crate::B; use crate::c::C; fn f() { self::inner::g() }";
        let c = "#[cfg(test)] mod tests { use crate::a::A; } use std::fmt;";
        let sources = [
            source(&[], root),
            source(&["a"], a),
            source(&["a", "inner"], "use super::super::c; use super::f;"),
            source(&["b"], "fn f(_: crate::a::A) {}"),
            source(&["c"], c),
        ];
        let all = of_crate(&sources);
        let imports = &all[0];
        let arrows = imports.arrows.iter().map(|(a, b)| format!("{a} {b}"));
        assert_eq!(arrows.collect::<Vec<_>>(), ["a b", "a c", "b a"]);
        assert_eq!(imports.largest_cycle(), 2);
        assert_eq!(imports.arrows_in_cycles(), 2);
    }

    /// A renamed item is still an import.
    #[test]
    fn a_renamed_export_is_an_import_of_its_module() {
        for export in ["pub use b::B as Z;", "pub use self::b::Z;"] {
            let sources = [
                source(&[], export),
                source(&["a"], "use crate::Z;"),
                source(&["b"], "use crate::a::A;"),
            ];
            let all = of_crate(&sources);
            assert_eq!(all[0].largest_cycle(), 2, "{export}");
        }
    }

    #[test]
    fn dependencies_of_targets_count_and_those_of_tests_do_not() {
        let text = "[dependencies]\na = \"1\"\n[dev-dependencies]\nb = \"1\"\n\
                    [target.'cfg(unix)'.build-dependencies]\nc = \"1\"\n";
        let manifest = text.parse().unwrap();
        assert_eq!(dependencies(&manifest).collect::<Vec<_>>(), ["a", "c"]);
    }
}
