//! One source file as the rules see it: the paths that its shipping code names, its functions, its `unsafe`.
//!
//! Code behind `#[cfg(test)]` is left out. Names are followed through the file's `use` lines, renamed ones too; what stands in
//! the arguments of a macro is read as tokens.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

/// One file.
#[derive(Debug, Default)]
pub struct Source {
    /// Path below the root of the repository.
    pub path: PathBuf,
    /// Every path that the code names, as `std::fs::read`, with its line.
    pub names: Vec<(String, usize)>,
    /// Functions: name, line, and how many lines they have.
    pub functions: Vec<Function>,
    /// Lines with `unsafe`.
    pub unsafe_lines: Vec<usize>,
    /// Names that `use` lines give to paths of the same crate, as `Name` for `super::shared::Name`.
    pub own: HashMap<String, String>,
    modules: Vec<String>,
    aliases: HashMap<String, String>,
}

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, behind that of its type if it is a method.
    pub name: String,
    /// Where it begins.
    pub line: usize,
    /// From its `fn` to its last brace.
    pub lines: usize,
}

/// Modules of a file that stand in files of their own and ship.
pub fn modules(source: &Source) -> Vec<String> {
    source.modules.clone()
}

impl Source {
    /// Reads a file.
    ///
    /// # Errors
    /// It is no Rust.
    pub fn parse(path: &Path, text: &str) -> syn::Result<Source> {
        let file = syn::parse_file(text)?;
        let mut source = Source { path: path.to_owned(), ..Source::default() };
        // Names first: a `use` counts for the whole file, wherever it stands.
        let mut names = Uses::default();
        names.visit_file(&file);
        (source.aliases, source.own) = (names.outside, names.own);
        let mut reader = Reader { source, owner: None };
        reader.visit_file(&file);
        let Source { modules, aliases, own, .. } = &mut reader.source;
        let of_a_module =
            |path: &str| path.split_once("::").is_some_and(|(first, _)| modules.iter().any(|name| name == first));
        own.extend(
            aliases.iter().filter(|(_, path)| of_a_module(path)).map(|(name, path)| (name.clone(), path.clone())),
        );
        Ok(reader.source)
    }

    fn name(&mut self, path: String, line: usize) {
        let path = path.trim_start_matches("::");
        let (first, rest) = path.split_once("::").map_or((path, None), |(first, rest)| (first, Some(rest)));
        let full = match (self.aliases.get(first), rest) {
            (Some(full), Some(rest)) => format!("{full}::{rest}"),
            (Some(full), None) => full.clone(),
            (None, _) => path.to_owned(),
        };
        self.names.push((full, line));
    }

    /// Paths in tokens, which a macro may make anything of.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut line, mut colons) = (String::new(), 0, 0);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if colons == 2 => {
                    path.push_str("::");
                    path.push_str(&ident.to_string());
                    colons = 0;
                }
                TokenTree::Ident(ident) => {
                    self.end_path(&mut path, line);
                    (path, line, colons) = (ident.to_string(), ident.span().start().line, 0);
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.end_path(&mut path, line);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.end_path(&mut path, line);
    }

    fn end_path(&mut self, path: &mut String, line: usize) {
        if !path.is_empty() {
            self.name(std::mem::take(path), line);
        }
    }
}

/// Whether attributes keep an item out of what ships.
fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"))
    })
}

fn attributes_of(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The paths of a `use`, each with the name that it gives.
fn uses(tree: &syn::UseTree, before: &str, found: &mut Vec<(String, String)>) {
    let join = |name: &str| if before.is_empty() { name.to_owned() } else { format!("{before}::{name}") };
    match tree {
        syn::UseTree::Path(path) => uses(&path.tree, &join(&path.ident.to_string()), found),
        syn::UseTree::Name(name) if name.ident == "self" => {
            let last = before.rsplit("::").next().unwrap_or_default().to_owned();
            found.push((before.to_owned(), last));
        }
        syn::UseTree::Name(name) => found.push((join(&name.ident.to_string()), name.ident.to_string())),
        syn::UseTree::Rename(rename) => {
            let name = rename.ident.to_string();
            let path = if name == "self" { before.to_owned() } else { join(&name) };
            found.push((path, rename.rename.to_string()));
        }
        syn::UseTree::Glob(_) => found.push((join("*"), "*".to_owned())),
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| uses(tree, before, found)),
    }
}

/// Reads what `use` lines call what: paths of other crates, and of this one.
#[derive(Default)]
struct Uses {
    outside: HashMap<String, String>,
    own: HashMap<String, String>,
}

impl Visit<'_> for Uses {
    fn visit_item(&mut self, item: &syn::Item) {
        if !is_for_tests(attributes_of(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        let mut found = Vec::new();
        uses(&item.tree, "", &mut found);
        for (path, name) in found {
            let is_own = ["crate", "self", "super"].contains(&path.split("::").next().unwrap_or_default());
            let names = if is_own { &mut self.own } else { &mut self.outside };
            names.insert(name, path);
        }
    }
}

/// Reads everything else.
struct Reader {
    source: Source,
    /// The type whose methods are read.
    owner: Option<String>,
}

impl Reader {
    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let (first, last) = (signature.span().start().line, block.span().end().line);
        let name = signature.ident.to_string();
        let name = self.owner.as_ref().map_or(name.clone(), |owner| format!("{owner}::{name}"));
        self.source.functions.push(Function { name, line: first, lines: last + 1 - first });
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_for_tests(attributes_of(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        match &item.content {
            Some(_) => visit::visit_item_mod(self, item),
            None => self.source.modules.push(item.ident.to_string()),
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let mut found = Vec::new();
        uses(&item.tree, "", &mut found);
        let line = item.span().start().line;
        self.source.names.extend(found.into_iter().map(|(path, _)| (path, line)));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let owner = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
            _ => None,
        };
        let before = std::mem::replace(&mut self.owner, owner);
        if item.unsafety.is_some() {
            self.source.unsafe_lines.push(item.span().start().line);
        }
        visit::visit_item_impl(self, item);
        self.owner = before;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            self.function(&item.sig, &item.block);
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let before = self.owner.replace(item.ident.to_string());
        if item.unsafety.is_some() {
            self.source.unsafe_lines.push(item.span().start().line);
        }
        visit::visit_item_trait(self, item);
        self.owner = before;
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        if matches!(signature.safety, syn::Safety::Unsafe(_)) {
            self.source.unsafe_lines.push(signature.span().start().line);
        }
        visit::visit_signature(self, signature);
    }

    fn visit_expr_unsafe(&mut self, expression: &'ast syn::ExprUnsafe) {
        self.source.unsafe_lines.push(expression.span().start().line);
        visit::visit_expr_unsafe(self, expression);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.source.name(names.join("::"), path.span().start().line);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.source.tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        Source::parse(Path::new("x.rs"), text).unwrap().names.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn names_are_followed_through_use() {
        let found = names(
            "use std::{fs as files, time::{self, Instant}};\nfn f() { files::read(\"a\"); Instant::now(); time::SystemTime::now(); }",
        );
        for name in ["std::fs::read", "std::time::Instant::now", "std::time::SystemTime::now"] {
            assert!(found.contains(&name.to_owned()), "{name}: {found:?}");
        }
    }

    #[test]
    fn arguments_of_macros_are_read() {
        assert!(
            names("use std::time::Instant;\nfn f() { println!(\"{:?}\", (1, Instant::now())); }")
                .contains(&"std::time::Instant::now".into())
        );
    }

    #[test]
    fn tests_do_not_ship() {
        let text = "mod a;\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod inner { fn f() { std::fs::read(\"a\"); } }\n#[test]\nfn g() { std::env::args(); }";
        let source = Source::parse(Path::new("x.rs"), text).unwrap();
        assert_eq!(modules(&source), ["a"]);
        assert!(
            source.names.iter().all(|(name, _)| !name.starts_with("std::fs") && !name.starts_with("std::env")),
            "{source:?}"
        );
    }

    #[test]
    fn functions_are_measured_and_unsafe_is_found() {
        let text = "impl A {\n    fn long(\n        &self,\n    ) {\n        unsafe { f() }\n    }\n}\n\
                    unsafe trait B {\n    fn given(&self) {\n    }\n    fn asked(&self);\n}\n";
        let source = Source::parse(Path::new("x.rs"), text).unwrap();
        let long = Function { name: "A::long".into(), line: 2, lines: 5 };
        assert_eq!(source.functions, [long, Function { name: "B::given".into(), line: 9, lines: 2 }]);
        assert_eq!(source.unsafe_lines, [5, 8]);
    }
}
