//! Reads a crate's source files by following its module tree, except for those that are only
//! compiled for tests.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use syn::{Attribute, Item};

/// A file of a crate.
pub(super) struct Source {
    /// The path relative to the repository.
    pub(super) path: PathBuf,
    /// The module path without the crate.
    pub(super) module: Vec<String>,
    pub(super) ast: syn::File,
}

/// Returns true for `#[test]`, `#[cfg(test)]` and `#[cfg(all(test, …))]`.
pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        path.is_ident("test")
            || path.is_ident("cfg")
                && attribute.meta.require_list().is_ok_and(|list| {
                    let tokens = list.tokens.to_string();
                    let words: Vec<&str> = tokens
                        .split(|c: char| !c.is_alphanumeric() && c != '_')
                        .filter(|word| !word.is_empty())
                        .collect();
                    matches!(words.as_slice(), ["test"])
                        || words.first() == Some(&"all") && words.contains(&"test")
                })
    })
}

/// Returns the files of the crate in `directory`, whose root is `src/lib.rs` or else `src/main.rs`.
pub(super) fn of_crate(root: &Path, directory: &str) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    let src = root.join(directory).join("src");
    let file = [src.join("lib.rs"), src.join("main.rs")]
        .into_iter()
        .find(|file| file.exists())
        .with_context(|| format!("{directory} has no src/lib.rs and no src/main.rs"))?;
    read(root, &file, &src, Vec::new(), &mut sources)?;
    Ok(sources)
}

/// Reads `file`, whose modules are in `beneath`, and all modules that it declares.
fn read(
    root: &Path,
    file: &Path,
    beneath: &Path,
    module: Vec<String>,
    sources: &mut Vec<Source>,
) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let ast = syn::parse_file(&text).with_context(|| file.display().to_string())?;
    for item in &ast.items {
        if let Item::Mod(declared) = item
            && declared.content.is_none()
            && !is_test(&declared.attrs)
        {
            let name = declared.ident.to_string();
            let inner = beneath.join(&name);
            let flat = beneath.join(format!("{name}.rs"));
            let nested = inner.join("mod.rs");
            let file = match (flat.exists(), nested.exists()) {
                (true, _) => flat,
                (false, true) => nested,
                (false, false) => bail!("{}: no file of `mod {name}`", file.display()),
            };
            let mut module = module.clone();
            module.push(name);
            read(root, &file, &inner, module, sources)?;
        }
    }
    sources.push(Source {
        path: file.strip_prefix(root).unwrap_or(file).to_owned(),
        module,
        ast,
    });
    Ok(())
}
