//! `polyloom fmt`: one way to lay a `.loom` text out.
//!
//! Tokens and comments stay as they are, with their lines; what changes is the space between them. A statement is
//! indented by the blocks around it, a line that goes on with one by a level more, and at most one empty line stays. So
//! formatting what is formatted changes nothing.

use super::lexer::lex;
use super::parse::parse;
use super::syntax::LoomFile;
use super::token::{Keyword, LoomToken, TokenKind};
use super::unit::rejected;
use crate::error::CompileError;
use polyloom_ir::{SourceFile, SourceMap};
use rustc_hash::{FxHashMap, FxHashSet};

/// Columns for each block.
const INDENT: usize = 4;

/// A token or a comment.
#[derive(Clone, Copy)]
struct TextPiece {
    start: usize,
    end: usize,
    begins_line: bool,
    /// `None` for a comment.
    token: Option<LoomToken>,
}

/// Lays a text out.
///
/// # Errors
///
/// The syntax errors of the text, which is not touched then.
pub fn format_loom(file: &SourceFile) -> Result<String, CompileError> {
    let lexed = lex(&file.text);
    let (tree, errors) = parse(&file.text, &lexed);
    if !errors.is_empty() {
        let mut sources = SourceMap::new();
        let id = sources.add(file.clone());
        return Err(rejected(id, errors, sources));
    }
    let words: FxHashSet<u32> = tree.words.iter().copied().collect();
    let piece_of = |token: &LoomToken| {
        // A name that is a word of the language here is spaced as one.
        let is_word = words.contains(&token.range.start().to_u32());
        let kind = if is_word { TokenKind::Keyword(Keyword::In) } else { token.kind };
        TextPiece {
            start: token.range.start().to_usize(),
            end: token.range.end().to_usize(),
            begins_line: token.begins_line,
            token: Some(LoomToken { kind, ..*token }),
        }
    };
    let tokens = lexed.tokens.iter().filter(|token| token.kind != TokenKind::End).map(piece_of);
    let comments = lexed.comments.iter().map(|comment| TextPiece {
        start: comment.range.start().to_usize(),
        end: comment.range.end().to_usize(),
        begins_line: comment.begins_line,
        token: None,
    });
    let mut pieces: Vec<TextPiece> = tokens.chain(comments).collect();
    pieces.sort_by_key(|piece| piece.start);
    Ok(laid_out(&file.text, &tree, &pieces))
}

fn laid_out(text: &str, tree: &LoomFile, pieces: &[TextPiece]) -> String {
    let depths: FxHashMap<u32, u32> = tree.layout.iter().copied().collect();
    let angles: FxHashSet<u32> = tree.angles.iter().copied().collect();
    let mut out = String::with_capacity(text.len());
    let mut statement_depth = 0usize;
    // The brackets that are open, with the depth of the statement in which each was opened.
    let mut open: Vec<(&str, usize)> = Vec::new();
    let mut last: Option<LoomToken> = None;
    let mut last_end = 0;
    for (at, piece) in pieces.iter().enumerate() {
        let between = text.get(last_end..piece.start).unwrap_or_default();
        let is_symbol = |symbol: &str| piece.token.is_some_and(|token| token.kind.is(symbol));
        if let Some(depth) = depths.get(&(piece.start as u32)).filter(|_| piece.token.is_some()) {
            statement_depth = *depth as usize;
        }
        if piece.begins_line {
            if !out.is_empty() {
                out.push('\n');
                if between.matches('\n').count() > 1 {
                    out.push('\n');
                }
            }
            let depth = line_depth(pieces, at, &depths, &open, statement_depth);
            out.extend(std::iter::repeat_n(' ', depth * INDENT));
        } else if last.is_some() || !out.is_empty() {
            let needs_space = match (&last, &piece.token) {
                (Some(before), Some(token)) => {
                    let is_argument = open.last().is_some_and(|(bracket, _)| *bracket == "(");
                    is_spaced(before, token, &angles, is_argument, is_unary(pieces, at, 1))
                }
                _ => true,
            };
            if needs_space {
                out.push(' ');
            }
        }
        out.push_str(text.get(piece.start..piece.end).unwrap_or_default());
        last_end = piece.end;
        for bracket in ["(", "[", "{"] {
            if is_symbol(bracket) {
                open.push((bracket, statement_depth));
            }
        }
        if [")", "]", "}"].into_iter().any(is_symbol)
            && let Some((_, depth)) = open.pop()
        {
            statement_depth = depth;
        }
        if piece.token.is_some() {
            last = piece.token;
        }
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

/// The number of levels that a line is indented by.
fn line_depth(
    pieces: &[TextPiece],
    at: usize,
    depths: &FxHashMap<u32, u32>,
    open: &[(&str, usize)],
    statement_depth: usize,
) -> usize {
    let piece = &pieces[at];
    let Some(token) = piece.token else {
        // A comment is indented as what comes after it, or as the block that ends there.
        let next = pieces[at..].iter().find_map(|piece| piece.token.map(|token| (piece.start, token)));
        return match next {
            Some((_, token)) if token.kind.is("}") => open.last().map_or(0, |(_, depth)| depth + 1),
            Some((start, _)) => depths.get(&(start as u32)).map_or(statement_depth + 1, |depth| *depth as usize),
            None => 0,
        };
    };
    if let Some(depth) = depths.get(&(piece.start as u32)) {
        return *depth as usize;
    }
    match token.kind {
        TokenKind::Symbol(")" | "]" | "}") => open.last().map_or(statement_depth, |(_, depth)| *depth),
        TokenKind::Symbol("{") => statement_depth,
        _ => statement_depth + 1,
    }
}

/// Returns true if the token so many before this one is an operator before its operand.
fn is_unary(pieces: &[TextPiece], at: usize, back: usize) -> bool {
    let mut before = pieces[..at].iter().rev().filter_map(|piece| piece.token).skip(back - 1);
    let Some(operator) = before.next() else { return false };
    let is_sign = matches!(operator.kind, TokenKind::Symbol("-" | "+" | "~" | "*"));
    is_sign && before.next().is_none_or(|operand| !operand.kind.ends_operand() || operator.begins_line)
}

fn is_spaced(
    before: &LoomToken,
    token: &LoomToken,
    angles: &FxHashSet<u32>,
    is_argument: bool,
    after_unary: bool,
) -> bool {
    let is_angle = |token: &LoomToken| angles.contains(&token.range.start().to_u32());
    let (TokenKind::Symbol(left), right) = (before.kind, token.kind) else {
        return spaced_after_word(before, token, angles, is_argument);
    };
    if after_unary {
        return false;
    }
    match left {
        "(" | "[" | "." | ".." | "..=" | "@" => return false,
        "<" if is_angle(before) => return false,
        "=" if is_argument => return false,
        _ => {}
    }
    match right {
        TokenKind::Symbol(")" | "]" | "," | ";" | ":" | "." | ".." | "..=") => false,
        TokenKind::Symbol("<" | ">" | ">>") if is_angle(token) => false,
        TokenKind::Symbol("(" | "[") if before.kind.ends_operand() => false,
        TokenKind::Symbol("(") if is_angle(before) => false,
        TokenKind::Symbol("=") if is_argument => false,
        TokenKind::Symbol("}") => left != "{",
        _ => true,
    }
}

/// The same after a name, a number, a text or a keyword.
fn spaced_after_word(before: &LoomToken, token: &LoomToken, angles: &FxHashSet<u32>, is_argument: bool) -> bool {
    let is_angle = angles.contains(&token.range.start().to_u32());
    let is_operand = before.kind.ends_operand() || before.kind == TokenKind::Keyword(Keyword::Compute);
    match token.kind {
        TokenKind::Symbol(")" | "]" | "," | ";" | ":" | "." | ".." | "..=") => false,
        TokenKind::Symbol("<" | ">" | ">>") if is_angle => false,
        TokenKind::Symbol("(" | "[") => !is_operand && before.kind != TokenKind::Keyword(Keyword::Kernel),
        TokenKind::Symbol("=") => !is_argument,
        _ => true,
    }
}
