//! What is wrong with a program, for people and for tools.
//!
//! Every rejected program yields a list of [`Diagnostic`]s: a stable code with a page under `docs/errors/`, a phrase in
//! the user's terms, the span it is about, and a help line that says what to type instead. Layers collect all of them
//! and never print: [`render`] makes the text with the caret line.

use crate::span::{Position, SourceMap, Span};
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use std::fmt;

/// Describes how bad it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Severity {
    /// The program is accepted.
    Warning,
    /// The program is rejected.
    Error,
}

impl Severity {
    /// `error` or `warning`.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $code:literal, $title:literal;)*) => {
        /// A kind of diagnostic. Codes are stable, so that `docs/errors/CODE.md` explains each.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        pub enum Code {
            $($(#[doc = $doc])+ $variant,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$variant),*];

            /// The code as printed: `PL0101`.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $code,)* }
            }

            /// The title of its page.
            pub fn title(self) -> &'static str {
                match self { $(Code::$variant => $title,)* }
            }
        }
    };
}

codes! {
    /// The text is no program of its language.
    Syntax = "PL0001", "syntax error";
    /// A statement or expression outside the kernel language.
    Unsupported = "PL0002", "unsupported construct";
    /// A decorator argument that does not exist or has a wrong value.
    BadDecorator = "PL0003", "bad decorator argument";
    /// No kernel, or not the kernel asked for, in a file.
    NoKernel = "PL0004", "no such kernel";
    /// A kernel does what its decorator rules out, or cannot be of the kind that it names.
    BrokenPromise = "PL0005", "broken promise";
    /// Stands for what the language that a program was written for has, and the kernel language does not have yet.
    NotSupportedYet = "PL0006", "not supported yet";
    /// A value of one type where another is needed.
    TypeMismatch = "PL0101", "type mismatch";
    /// A variable assigned a value of another type.
    Retyped = "PL0102", "retyped variable";
    /// A parameter or result without a type.
    MissingAnnotation = "PL0103", "missing annotation";
    /// An annotation that names no type.
    BadAnnotation = "PL0104", "bad annotation";
    /// An array indexed with too few or too many indices.
    BadRank = "PL0105", "bad index rank";
    /// A constant that does not fit the type it must have.
    ConstantRange = "PL0106", "constant out of range";
    /// Returns of one function that differ in number or type.
    ReturnMismatch = "PL0107", "return mismatch";
    /// A name that is not defined.
    UnknownName = "PL0201", "unknown name";
    /// A member of the package that does not exist.
    UnknownBuiltin = "PL0202", "unknown builtin";
    /// A call whose arguments fit no overload.
    NoOverload = "PL0203", "no matching overload";
    /// A variable that is not set on every path to its use.
    MaybeUnset = "PL0204", "variable set on only some paths";
    /// An assignment to a value captured from outside the kernel.
    CapturedMutation = "PL0205", "mutation of a captured constant";
    /// A captured value that is no constant the compiler knows.
    BadCapture = "PL0206", "unsupported captured value";
    /// A function that calls itself.
    Recursion = "PL0207", "recursion";
    /// An assignment to a parameter or value that cannot be assigned.
    BadAssignment = "PL0208", "bad assignment target";
    /// A call that fits several overloads.
    AmbiguousCall = "PL0209", "ambiguous call";
    /// Code that can never run.
    UnreachableCode = "PL0301", "unreachable code";
    /// Code that means something else in Python.
    DiffersFromPython = "PL0302", "different from Python";
    /// A decorator argument that is recorded and changes nothing.
    Unenforced = "PL0303", "promise that is not enforced";
    /// A statement of a fused function that keeps calls of ops out of one kernel.
    ChainBreak = "PL0304", "fusion ends here";
    /// HIR text that cannot be read.
    HirSyntax = "PL0401", "malformed HIR text";
    /// HIR that breaks an invariant of the verifier.
    HirInvalid = "PL0402", "invalid HIR";
    /// A barrier or a warp operation that not all its threads reach together.
    Divergent = "PL0601", "barrier in divergent control flow";
    /// Two iterations of a parallel loop access one element that either writes.
    Collision = "PL0603", "iterations that meet";
    /// What a GPU architecture does not have.
    Arch = "PL0602", "beyond the architecture";
    /// A kernel that is to be differentiated does something that has no derivative.
    NotDifferentiable = "PL0701", "no derivative";
    /// A kernel or function that cannot be a C function by itself.
    NotNative = "PL0702", "no native function";
    /// A limit of the compiler was reached.
    Limit = "PL0501", "program too large";
    /// A back end or feature that is not in this build, or cannot do what was asked.
    Backend = "PL0502", "back end failure";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Says which kind.
    pub code: Code,
    /// Says how bad.
    pub severity: Severity,
    /// One phrase, in the user's terms, without a full stop.
    pub message: String,
    /// Holds what it is about.
    pub span: Span,
    /// Other places that matter, each with a phrase.
    pub labels: Vec<(Span, String)>,
    /// Holds what to do instead.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error.
    pub fn error(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { code, severity: Severity::Error, message: message.into(), span, labels: Vec::new(), help: None }
    }

    /// A warning.
    pub fn warning(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// Adds the help line.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Adds another place.
    #[must_use]
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.labels.push((span, text.into()));
        self
    }
}

/// Renders a diagnostic with its source lines, carets and help, ending in a newline.
pub fn render(diagnostic: &Diagnostic, sources: &SourceMap, color: bool) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(&diagnostic.message).id(diagnostic.code.as_str());
    let mut group = Group::with_title(title);
    let clamp =
        |span: Span, len: usize| (span.start as usize).min(len)..(span.end as usize).max(span.start as usize).min(len);
    if let Some(file) = sources.get(diagnostic.span.file) {
        let len = file.text.len();
        let mut snippet = Snippet::source(&*file.text)
            .path(&*file.name)
            .line_start(file.first_line as usize)
            .annotation(AnnotationKind::Primary.span(clamp(diagnostic.span, len)));
        for (span, text) in diagnostic.labels.iter().filter(|(span, _)| span.file == diagnostic.span.file) {
            snippet = snippet.annotation(AnnotationKind::Context.span(clamp(*span, len)).label(text));
        }
        group = group.element(snippet);
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(help));
    }
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let mut text = renderer.render(&[group]);
    text.push('\n');
    text
}

/// A diagnostic with its place looked up, for tools: what `--json` prints and Python's `Diagnostic` holds.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct DiagnosticReport {
    /// The code, `PL0101`.
    pub code: &'static str,
    /// `error` or `warning`.
    pub severity: &'static str,
    /// Holds what is wrong.
    pub message: String,
    /// Holds what to write instead.
    pub help: Option<String>,
    /// The source file; empty if the diagnostic is about none.
    pub file: String,
    /// First line, from 1.
    pub line: u32,
    /// First column, from 1, in characters.
    pub column: u32,
    /// Last line.
    pub end_line: u32,
    /// One past the last column.
    pub end_column: u32,
}

impl DiagnosticReport {
    /// The report of a diagnostic whose spans point into `sources`.
    pub fn of(diagnostic: &Diagnostic, sources: &SourceMap) -> DiagnosticReport {
        let span = diagnostic.span;
        let file = sources.get(span.file);
        let nowhere = Position { line: 1, column: 1 };
        let (start, end) = file.map_or((nowhere, nowhere), |f| (f.position(span.start), f.position(span.end)));
        DiagnosticReport {
            code: diagnostic.code.as_str(),
            severity: diagnostic.severity.name(),
            message: diagnostic.message.clone(),
            help: diagnostic.help.clone(),
            file: file.map_or_else(String::new, |f| f.name.to_string()),
            line: start.line,
            column: start.column,
            end_line: end.line,
            end_column: end.column,
        }
    }
}

/// Names longer than this, in bytes, are not compared, because nobody mistypes them, and comparing takes time quadratic
/// in it.
const LONGEST_NAME: usize = 64;

/// The names of `candidates` nearest to `name`, best first: at most three, none farther than a third of its length.
/// There are none for a name of more than 64 bytes.
pub fn near_names<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    if name.len() > LONGEST_NAME {
        return Vec::new();
    }
    let lower = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<Vec<char>>();
    let letters = lower(name);
    let limit = (name.chars().count() / 3).max(1);
    let mut found: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter(|c| *c != name && c.len() <= LONGEST_NAME)
        .filter_map(|c| {
            let candidate = lower(c);
            let near = letters.len().abs_diff(candidate.len()) <= limit;
            near.then(|| (edit_distance(&letters, &candidate), c))
        })
        .filter(|(distance, _)| *distance <= limit)
        .collect();
    found.sort();
    found.dedup();
    found.truncate(3);
    found.into_iter().map(|(_, c)| c).collect()
}

/// Edit distance in which swapping neighbours is one edit (optimal string alignment).
fn edit_distance(a: &[char], b: &[char]) -> usize {
    // The rows of the beginnings of `a` that are two, one and no letter shorter than the current.
    let (mut older, mut old, mut row) = (vec![0; b.len() + 1], vec![0; b.len() + 1], (0..=b.len()).collect::<Vec<_>>());
    for i in 1..=a.len() {
        std::mem::swap(&mut older, &mut old);
        std::mem::swap(&mut old, &mut row);
        row[0] = i;
        for j in 1..=b.len() {
            let substitution = old[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = substitution.min(old[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(older[j - 2] + 1);
            }
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::{edit_distance, near_names};

    fn distance(a: &str, b: &str) -> usize {
        let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
        assert_eq!(edit_distance(&a, &b), edit_distance(&b, &a));
        edit_distance(&a, &b)
    }

    #[test]
    fn swaps_insertions_and_replacements_are_one_edit_each() {
        assert_eq!(distance("", ""), 0);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("sqrt", "sqrt"), 0);
        assert_eq!(distance("sqrt", "sqtr"), 1);
        assert_eq!(distance("sqrt", "srqtt"), 2);
        assert_eq!(distance("kitten", "sitting"), 3);
        // A letter once swapped is not edited again.
        assert_eq!(distance("ca", "abc"), 3);
    }

    #[test]
    fn near_names_are_sorted_and_few() {
        assert_eq!(near_names("sqtr", ["sin", "sqrt", "SQRT", "str"]), ["SQRT", "sqrt", "str"]);
        assert_eq!(near_names("x", ["x", "yy"]), Vec::<&str>::new());
    }

    #[test]
    fn very_long_names_are_near_to_nothing() {
        let (long, other) = ("a".repeat(1 << 20), "b".repeat(1 << 20));
        assert!(near_names(&long, [other.as_str()]).is_empty());
        assert!(near_names("short", [other.as_str()]).is_empty());
    }
}
