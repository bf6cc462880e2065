//! Work for the crate regex-syntax: the same in every run.

use regex_syntax::hir::{Hir, HirKind};
use regex_syntax::Parser;

const PATTERNS: [&str; 12] = [
    "a+b*?c{2,5}|(?i)x[a-f0-9]",
    r"(?P<year>\d{4})-(?P<month>\d{2})",
    r"^\w+@[^.\s]+\.(com|org)$",
    r"[[:alpha:]&&[^aeiou]]+",
    r"\p{Greek}+\P{L}",
    "(a(b(c)))",
    r"(?x) a # comment
      b",
    "[z-a]",
    "a{5,2}",
    "(unclosed",
    r"\u{1F600}|\x41",
    r"(?s-u:.)\xFF",
];

fn size(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Concat(all) | HirKind::Alternation(all) => 1 + all.iter().map(size).sum::<usize>(),
        HirKind::Repetition(repeated) => 1 + size(&repeated.hir),
        HirKind::Group(group) => 1 + size(&group.hir),
        _ => 1,
    }
}

fn main() {
    for pattern in PATTERNS {
        match Parser::new().parse(pattern) {
            Ok(hir) => println!("{pattern}: {} {hir}", size(&hir)),
            Err(error) => println!("{error}"),
        }
    }
}
