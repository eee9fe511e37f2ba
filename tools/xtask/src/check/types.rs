//! Measures the largest types of a crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{ImplItem, ItemImpl, ItemMod, ItemStruct, Type};

use super::source::{Source, is_test};

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
