//! Prose: what of pages, doc comments, help and messages people read as sentences.

use proc_macro2::{TokenStream, TokenTree};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Lit, Meta};

use super::source::{Source, is_test};
use super::words::{Kind, faults};

/// In place of code within a sentence: one word without a figure.
const CODE: &str = "`code`";
/// Shorter strings are names and labels.
const FEWEST_WORDS: usize = 3;

/// Faults of a page or a doc comment.
pub(super) fn of_page(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut block = String::new();
    let mut kind = Kind::Prose;
    let mut skipped = false;
    let mut end = |block: &mut String, kind: Kind| {
        found.extend(faults(&std::mem::take(block), kind));
    };
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::CodeBlock(_) | Tag::HtmlBlock) => skipped = true,
            Event::End(TagEnd::CodeBlock | TagEnd::HtmlBlock) => skipped = false,
            Event::Text(text) if !skipped => block.push_str(&text),
            Event::Code(_) => block.push_str(CODE),
            Event::SoftBreak | Event::HardBreak => block.push(' '),
            Event::Start(Tag::Heading { .. } | Tag::Table(_)) => {
                end(&mut block, kind);
                kind = Kind::Label;
            }
            Event::End(TagEnd::Heading(_) | TagEnd::Table) => {
                end(&mut block, kind);
                kind = Kind::Prose;
            }
            Event::Start(Tag::Paragraph | Tag::Item) | Event::End(TagEnd::TableCell) => {
                end(&mut block, kind);
            }
            Event::End(TagEnd::Paragraph | TagEnd::Item) => end(&mut block, kind),
            _ => {}
        }
    }
    end(&mut block, kind);
    found
}

/// Faults of a source file.
#[derive(Debug, Default)]
pub(super) struct OfSource {
    /// In doc comments.
    pub(super) comments: Vec<String>,
    /// In help, errors, logs and other strings.
    pub(super) messages: Vec<String>,
}

/// Faults of a file, without what only tests compile.
pub(super) fn of_source(source: &Source) -> OfSource {
    let mut reader = Reader::default();
    reader.attributes(&source.ast.attrs, false);
    reader.visit_file(&source.ast);
    reader.found
}

#[derive(Default)]
struct Reader {
    found: OfSource,
    /// Within a type that clap makes arguments of: its doc comments are help.
    help: bool,
}

impl Reader {
    fn message(&mut self, text: &str) {
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| line.split_whitespace().count() >= FEWEST_WORDS) {
            let faults = faults(&plain(line), Kind::Message);
            self.found.messages.extend(faults);
        }
    }

    /// Doc comments, and texts of other attributes such as `error` and `arg`.
    fn attributes(&mut self, attributes: &[Attribute], help: bool) {
        let mut text = String::new();
        for attribute in attributes {
            match &attribute.meta {
                Meta::NameValue(pair) if pair.path.is_ident("doc") => {
                    if let Expr::Lit(literal) = &pair.value
                        && let Lit::Str(line) = &literal.lit
                    {
                        let line = line.value();
                        text.push_str(line.strip_prefix(' ').unwrap_or(&line));
                        text.push('\n');
                    }
                }
                // Reasons of lints are comments.
                Meta::List(list)
                    if !list.path.is_ident("expect") && !list.path.is_ident("allow") =>
                {
                    self.tokens(list.tokens.clone());
                }
                _ => {}
            }
        }
        let found = of_page(&text);
        match help {
            true => self.found.messages.extend(found),
            false => self.found.comments.extend(found),
        }
    }

    /// Strings of a macro's arguments.
    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(literal) => {
                    if let Ok(Lit::Str(text)) = syn::parse_str(&literal.to_string()) {
                        self.message(&text.value());
                    }
                }
                _ => {}
            }
        }
    }
}

/// True if clap makes arguments or commands of the type.
fn is_help(attributes: &[Attribute]) -> bool {
    let known = ["Args", "Parser", "Subcommand", "ValueEnum"];
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("derive") => {
            let derived = list.tokens.to_string();
            let mut names = derived.split(|c: char| !c.is_alphanumeric());
            names.any(|name| known.contains(&name))
        }
        _ => false,
    })
}

/// A message without its places for values.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                plain.push_str(CODE);
            }
            c if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    plain
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes: &[Attribute] = match item {
            syn::Item::Const(item) => &item.attrs,
            syn::Item::Enum(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Struct(item) => &item.attrs,
            _ => &[],
        };
        if is_test(attributes) {
            return;
        }
        let outer = std::mem::replace(&mut self.help, is_help(attributes));
        visit::visit_item(self, item);
        self.help = outer;
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.attributes(&item.attrs, false);
        for field in &item.fields {
            self.attributes(&field.attrs, self.help);
        }
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.attributes(&item.attrs, false);
        for variant in &item.variants {
            self.attributes(&variant.attrs, self.help);
            for field in &variant.fields {
                self.attributes(&field.attrs, self.help);
            }
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.attributes(&item.attrs, false);
        self.visit_block(&item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.attributes(&item.attrs, false);
        self.visit_block(&item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.attributes(&item.attrs, false);
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.attributes(&item.attrs, false);
        self.visit_expr(&item.expr);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.attributes(&item.attrs, false);
        visit::visit_item_trait(self, item);
    }

    /// Attributes were read with their items.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
        self.message(&literal.value());
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn pages_have_prose_and_labels() {
        let text = "# What it is\n\nIt is anew\nhere. Who reads `what` ends.\n\n\
                    ```sh\nanew\n```\n\n| what a | b |\n|---|---|\n| who | anew |\n\n\
                    - Whatever comes, ends.\n- An item.\n";
        let found = of_page(text);
        let starts = [
            "It is anew here",
            "Who reads `code`",
            "anew",
            "Whatever comes",
        ];
        assert_eq!(found.len(), starts.len(), "{found:?}");
        for (fault, start) in found.iter().zip(starts) {
            assert!(fault.starts_with(start), "{fault}");
        }
    }

    #[test]
    fn sources_have_comments_help_and_messages() {
        let text = r#"
            //! It begins anew here.
            /// Who reads it ends.
            fn f() { bail!("nobody reads {what} here"); g("whoever reads it"); h("anew"); }
            #[derive(Debug, clap::Args)]
            struct Arguments {
                /// Of a file its name
                name: String,
            }
            #[derive(Debug, thiserror::Error)]
            enum Fault {
                /// It is told.
                #[error("beside the {0} it ends")]
                One(u8),
            }
            #[cfg(test)]
            mod tests { fn t() { g("nobody reads it"); } }
        "#;
        let found = of_source(&Source {
            path: PathBuf::new(),
            module: Vec::new(),
            ast: syn::parse_file(text).unwrap(),
        });
        let starts = |faults: &[String], starts: &[&str]| {
            assert_eq!(faults.len(), starts.len(), "{faults:?}");
            for (fault, start) in faults.iter().zip(starts) {
                assert!(fault.starts_with(start), "{fault}");
            }
        };
        starts(
            &found.comments,
            &["It begins anew", "Who reads", "It is told"],
        );
        starts(
            &found.messages,
            &[
                "nobody reads `code` here",
                "whoever reads it",
                "Of a file",
                "beside the `code` it ends",
            ],
        );
    }
}
