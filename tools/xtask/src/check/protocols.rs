//! Finds files that depend on a protocol, either because a pattern or comparison matches one, or
//! by name.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, ExprBinary, ItemMod, Macro, Pat};

use super::source::{Source, is_test};

/// Names of protocols in lowercase without underscores, as parts of identifiers.
const NAMES: [&str; 3] = ["vcp", "xcp", "quickstart"];

/// How a file depends on a protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Knows {
    /// Whether a pattern matches one.
    pub(super) matches: bool,
    /// Whether an identifier or a text names one.
    pub(super) names: bool,
}

pub(super) fn knows(source: &Source) -> Knows {
    let mut found = Found::default();
    found.visit_file(&source.ast);
    found.0
}

fn names_one(text: &str) -> bool {
    let plain = text.to_lowercase().replace('_', "");
    // The name of the router's program is allowed.
    let plain = plain.replace("vcp-router", "").replace("vcprouter", "");
    NAMES.iter().any(|name| plain.contains(name))
}

#[derive(Default)]
struct Found(Knows);

impl Found {
    fn pattern(&mut self, path: &syn::Path) {
        // Matches a variant of another type such as `Kind::Xcp`, but not a destructured struct.
        let variant =
            path.segments.len() > 1 || path.segments.iter().any(|s| is_constant(&s.ident));
        self.0.matches |= variant
            && path
                .segments
                .last()
                .is_some_and(|segment| names_one(&segment.ident.to_string()));
    }

    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(ident) => self.0.names |= names_one(&ident.to_string()),
                TokenTree::Literal(literal) => self.0.names |= names_one(&literal.to_string()),
                TokenTree::Punct(_) => {}
            }
        }
    }
}

fn is_constant(ident: &syn::Ident) -> bool {
    let text = ident.to_string();
    text.len() > 1 && text.chars().all(|c| !c.is_lowercase())
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_pat(&mut self, pattern: &'ast Pat) {
        match pattern {
            Pat::Path(found) => self.pattern(&found.path),
            Pat::TupleStruct(found) => self.pattern(&found.path),
            Pat::Struct(found) => self.pattern(&found.path),
            _ => {}
        }
        visit::visit_pat(self, pattern);
    }

    fn visit_expr_binary(&mut self, comparison: &'ast ExprBinary) {
        if let BinOp::Eq(_) | BinOp::Ne(_) = comparison.op {
            for side in [&comparison.left, &comparison.right] {
                if let Expr::Path(found) = &**side {
                    self.pattern(&found.path);
                }
            }
        }
        visit::visit_expr_binary(self, comparison);
    }

    fn visit_ident(&mut self, ident: &'ast syn::Ident) {
        self.0.names |= names_one(&ident.to_string());
    }

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.0.names |= names_one(&text.value());
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {
        // Comments may name protocols.
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.tokens(call.tokens.clone());
        if call.path.is_ident("matches")
            && let Ok(matched) = call.parse_body_with(parse_matches)
        {
            self.visit_pat(&matched);
        }
    }
}

/// Parses the pattern in `matches!(value, pattern)`.
fn parse_matches(input: syn::parse::ParseStream<'_>) -> syn::Result<Pat> {
    input.parse::<syn::Expr>()?;
    input.parse::<syn::Token![,]>()?;
    let pattern = Pat::parse_multi_with_leading_vert(input)?;
    if input.peek(syn::Token![if]) {
        input.parse::<syn::Token![if]>()?;
        input.parse::<syn::Expr>()?;
    }
    input.parse::<Option<syn::Token![,]>>()?;
    Ok(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> (bool, bool) {
        let source = Source {
            path: std::path::PathBuf::new(),
            module: Vec::new(),
            ast: syn::parse_str(text).unwrap(),
        };
        let knows = knows(&source);
        (knows.matches, knows.names)
    }

    #[test]
    fn a_file_knows_protocols_by_pattern_or_name() {
        let both = [
            "fn f(k: Kind) { match k { Kind::Xcp(_) => {} _ => {} } }",
            "fn f(k: Kind) -> bool { k == Kind::Xcp }",
            "fn f(k: Kind) -> bool { matches!(k, Kind::VCP | Kind::Other) }",
        ];
        let name = [
            "fn f(k: u8) { if let QUICK_START = k {} }",
            "fn f() -> &'static str { \"vcp+bise\" }",
        ];
        let none = [
            "fn f() -> &'static str { \"vcp-router\" }",
            "/// Not for XCP.\nfn f() {}",
            "#[cfg(test)] mod tests { fn f(k: Kind) { if let Kind::Xcp = k {} } }",
        ];
        assert_eq!(both.map(of), [(true, true); 3]);
        assert_eq!(name.map(of), [(false, true); 2]);
        assert_eq!(none.map(of), [(false, false); 3]);
    }
}
