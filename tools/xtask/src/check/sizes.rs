//! Counts each crate's lines of code and files apart from tests, and all test programs, and
//! measures the largest types of a crate.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{ImplItem, Item, ItemImpl, ItemMod, ItemStruct, Type, visit};

use super::ceilings::Figures;
use super::imports::TIERS;
use super::source::{Source, is_test};

/// Sets the sections `code`, `files` and `test-programs`.
pub(super) fn measure(root: &Path, files: &[PathBuf], figures: &mut Figures) -> Result<()> {
    let mut counts = BTreeMap::new();
    let mut of_tests = BTreeSet::new();
    for path in files.iter().filter(|path| is_source(path)) {
        let text = fs::read_to_string(root.join(path))?;
        let counted = count(&text).with_context(|| path.display().to_string())?;
        for module in &counted.test_modules {
            of_tests.insert(beneath(path).join(module));
        }
        counts.insert(path, counted.code);
    }
    let mut crates: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (path, code) in counts {
        // The module's file can also be `mod.rs` in the directory with this name.
        let module = path.with_extension("");
        if !module.ancestors().any(|module| of_tests.contains(module)) {
            let (all, files) = crates.entry(crate_of(path)).or_default();
            *all += code;
            *files += 1;
        }
    }
    for (name, (code, files)) in crates {
        figures.set("code", &name, code);
        figures.set("files", &name, files);
    }
    let programs = files.iter().filter(|path| is_test_program(path));
    figures.set("test-programs", "all", programs.count());
    Ok(())
}

/// Returns true for a Rust file beneath `src`, unless its name shows that it only has tests.
fn is_source(path: &Path) -> bool {
    let is_rust = path.extension().is_some_and(|extension| extension == "rs");
    let mut names = path.iter().map(|name| name.to_string_lossy());
    is_rust
        && path.iter().any(|name| name == "src")
        && !names.any(|name| {
            let name = name.trim_end_matches(".rs");
            matches!(name, "tests" | "test" | "testing" | "examples" | "judges")
                || name.ends_with("_tests")
        })
}

/// Returns true for `tests/NAME.rs` and `tests/NAME/main.rs` of a package.
fn is_test_program(path: &Path) -> bool {
    let mut names = path.iter().map(|name| name.to_string_lossy());
    names.find(|name| name == "tests" || name == "src") == Some("tests".into())
        && match (names.next(), names.next(), names.next()) {
            (Some(file), None, None) => file.ends_with(".rs"),
            (Some(_), Some(file), None) => file == "main.rs",
            _ => false,
        }
}

fn crate_of(path: &Path) -> String {
    let mut names = path.iter().map(|name| name.to_string_lossy());
    match names.next().as_deref() {
        Some(tier) if TIERS.contains(&tier) => names.next().unwrap_or_default().into_owned(),
        Some("src") | None => "pathmark".to_owned(),
        Some(name) => name.to_owned(),
    }
}

/// Returns the directory of the modules that a file declares.
fn beneath(path: &Path) -> PathBuf {
    let module = path.with_extension("");
    let is_root = ["mod", "lib", "main"]
        .iter()
        .any(|name| module.ends_with(name));
    match module.parent() {
        Some(parent) if is_root => parent.to_owned(),
        _ => module,
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    /// Lines outside tests that have more than a comment.
    code: usize,
    /// Modules in separate files that are only compiled for tests.
    test_modules: Vec<String>,
}

fn count(text: &str) -> Result<Counted> {
    let mut tests = Tests::default();
    tests.visit_file(&syn::parse_file(text)?);
    let lines = (1..).zip(text.lines().map(str::trim));
    let code = lines.filter(|(number, line)| {
        let is_of_test = tests.lines.iter().any(|lines| lines.contains(number));
        !line.is_empty() && !line.starts_with("//") && !is_of_test
    });
    Ok(Counted {
        code: code.count(),
        test_modules: tests.modules,
    })
}

/// Items that are only compiled for tests.
#[derive(Default)]
struct Tests {
    lines: Vec<std::ops::RangeInclusive<usize>>,
    modules: Vec<String>,
}

impl<'ast> Visit<'ast> for Tests {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Const(item) => &item.attrs,
            Item::Enum(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Macro(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Static(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Trait(item) => &item.attrs,
            Item::Type(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => return,
        };
        if !is_test(attributes) {
            return visit::visit_item(self, item);
        }
        if let Item::Mod(module) = item
            && module.content.is_none()
        {
            self.modules.push(module.ident.to_string());
        }
        let span = item.span();
        self.lines.push(span.start().line..=span.end().line);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if is_test(&function.attrs) {
            let span = function.span();
            self.lines.push(span.start().line..=span.end().line);
        }
    }
}

/// A type's numbers of fields and methods, and the files with its inherent `impl` blocks.
#[derive(Default)]
struct Size<'a> {
    fields: usize,
    methods: usize,
    files: BTreeSet<&'a Path>,
}

/// Returns the maxima over all types of the crate: fields, methods, and files with inherent
/// `impl` blocks.
pub(super) fn largest(sources: &[Source]) -> [usize; 3] {
    let mut sizes = Sizes::default();
    for source in sources {
        sizes.path = Some(&source.path);
        sizes.room = source.module.first().cloned().unwrap_or_default();
        sizes.visit_file(&source.ast);
    }
    let most = |of: fn(&Size<'_>) -> usize| sizes.by_name.values().map(of).max().unwrap_or(0);
    [
        most(|size| size.fields),
        most(|size| size.methods),
        most(|size| size.files.len()),
    ]
}

#[derive(Default)]
struct Sizes<'a> {
    /// Sizes by top-level module and name. A type's `impl` blocks are all in one top-level module.
    by_name: BTreeMap<(String, String), Size<'a>>,
    path: Option<&'a Path>,
    room: String,
}

impl<'a> Sizes<'a> {
    fn of(&mut self, name: &syn::Ident) -> &mut Size<'a> {
        let key = (self.room.clone(), name.to_string());
        self.by_name.entry(key).or_default()
    }
}

impl<'ast> Visit<'ast> for Sizes<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        if !is_test(&item.attrs) {
            let fields = item.fields.len();
            let size = self.of(&item.ident);
            size.fields = size.fields.max(fields);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let Type::Path(path) = &*item.self_ty else {
            return;
        };
        let Some(last) = path.path.segments.last() else {
            return;
        };
        if is_test(&item.attrs) || item.trait_.is_some() {
            return;
        }
        let path = self.path;
        let size = self.of(&last.ident);
        let methods = item
            .items
            .iter()
            .filter(|item| matches!(item, ImplItem::Fn(_)));
        size.methods += methods.count();
        size.files.extend(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_blanks_and_tests_are_no_code() {
        let lines = [
            "//! A module.",
            "",
            "/// A type.",
            "struct A;",
            "impl A {",
            "    /// Asks.",
            "    fn a() {}",
            "    #[cfg(test)]",
            "    fn b() {}",
            "}",
            "#[cfg(test)]",
            "mod apart;",
            "#[cfg(test)]",
            "mod tests {",
            "    fn c() {}",
            "}",
        ];
        let text = &lines.join("\n");
        let counted = count(text).unwrap();
        assert_eq!(counted.code, 4, "the type, and three lines of its block");
        assert_eq!(counted.test_modules, ["apart"]);
    }

    #[test]
    fn places_tell_programs_of_tests_from_sources() {
        let program = |path: &str| is_test_program(Path::new(path));
        assert!(program("tests/it/main.rs") && program("crates/a/tests/b.rs"));
        assert!(!program("crates/a/tests/it/b.rs") && !program("crates/a/src/tests/b.rs"));
        let source = |path: &str| is_source(Path::new(path));
        assert!(source("src/lib.rs") && source("crates/a/src/b/c.rs"));
        assert!(!source("crates/a/src/b_tests.rs") && !source("crates/a/src/b/tests/c.rs"));
        assert!(!source("crates/a/benches/b.rs") && !source("crates/a/src/b/d.txt"));
        assert_eq!(beneath(Path::new("src/a/mod.rs")), Path::new("src/a"));
        assert_eq!(beneath(Path::new("src/a/b.rs")), Path::new("src/a/b"));
    }

    fn source(path: &str, module: &[&str], text: &str) -> Source {
        Source {
            path: path.into(),
            module: module.iter().map(|room| (*room).to_owned()).collect(),
            ast: syn::parse_str(text).unwrap(),
        }
    }

    #[test]
    fn sizes_are_summed_over_files() {
        let sources = [
            source(
                "a.rs",
                &[],
                "struct A { x: u8, y: u8 } impl A { fn f() {} }",
            ),
            source(
                "b.rs",
                &[],
                "impl A { fn g() {} fn h() {} } impl Clone for A { fn clone() {} }",
            ),
        ];
        assert_eq!(largest(&sources), [2, 3, 2]);
    }

    /// Types with the same name in two top-level modules are distinct, regardless of their order.
    #[test]
    fn types_of_one_name_are_kept_apart() {
        let sources = [
            source(
                "a",
                &["a"],
                "struct C { x: u8, y: u8 } impl C { fn f() {} }",
            ),
            source("b", &["b"], "struct C(u8); impl C { fn g() {} }"),
            source(
                "b",
                &["b"],
                "#[cfg(all(test, unix))] struct D { x: u8, y: u8, z: u8 }",
            ),
        ];
        assert_eq!(largest(&sources), [2, 1, 1]);
    }
}
