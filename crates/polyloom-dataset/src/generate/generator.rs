//! What a kernel is while it is being written: its names, its variables, its lines.

use super::expr::{Binding, Expr};
use super::names::{Names, Role};
use super::program::{Category, Extent, Input, Program, Values};
use super::range::Range;
use super::values::{OVERLOADS, Overload, is_in_warp};
use polyloom::{Composite, Random, Scalar, Type};
use std::fmt::Write as _;

/// The line length of Python's formatters.
const LINE: usize = 88;

/// Something an expression can read.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    /// Its name, or the element of an array.
    pub(super) text: String,
    words: String,
    pub(super) ty: Type,
    pub(super) range: Range,
    /// Whether something reads it.
    pub(super) used: bool,
    /// Whether it is in scope.
    pub(super) visible: bool,
}

/// A parameter, and the type of it or of its elements.
struct Parameter {
    input: Input,
    elem: Type,
}

impl Parameter {
    fn new(name: &str, elem: Type, shape: Vec<Extent>, values: Values) -> Parameter {
        let dtype = elem.python_name().trim_start_matches("loom.").to_owned();
        Parameter { input: Input { name: name.to_owned(), dtype, shape, values }, elem }
    }
}

/// A kernel in the making.
pub(super) struct Generator {
    pub(super) random: Random,
    pub(super) names: Names,
    /// How the text names the package.
    package: &'static str,
    pub(super) variables: Vec<Variable>,
    /// The builtins that this kernel may call.
    pub(super) overloads: Vec<Overload>,
    /// The types of its values.
    pub(super) composites: Vec<Composite>,
    pub(super) scalars: Vec<Scalar>,
    /// How often of a hundred an operation is plain arithmetic.
    pub(super) arithmetic: usize,
    /// Whether products of matrices are written with `@`.
    pub(super) at_sign: bool,
    /// Whether components of vectors are named.
    pub(super) named_components: bool,
    /// Whether no statement can stand before the one that is being written.
    pub(super) inline: bool,
    lines: Vec<String>,
    indent: usize,
    inputs: Vec<Parameter>,
    dim: Vec<Extent>,
    doc: Vec<String>,
    pub(super) indices: Vec<String>,
}

impl Generator {
    /// A kernel of these values, with some of the builtins.
    pub(super) fn new(mut random: Random, composites: Vec<Composite>, scalars: Vec<Scalar>) -> Generator {
        // A kernel that may call all of them calls each seldom: swarm testing's subsets.
        let share = random.pick(&[2, 3, 5, 8]);
        let shared = !random.one_in(6);
        let mut last = None;
        let mut keep = false;
        let mut overloads = Vec::new();
        for overload in OVERLOADS.iter() {
            if last != Some(overload.op) {
                last = Some(overload.op);
                keep = random.below(10) < share && (!shared || is_in_warp(overload.op));
            }
            if keep || is_basic(overload.op) {
                overloads.push(*overload);
            }
        }
        let arithmetic = random.pick(&[20, 40, 60, 80]);
        let (at_sign, named_components) = (random.one_in(2), random.one_in(2));
        Generator {
            random,
            names: Names::default(),
            package: if shared { "wp" } else { "loom" },
            variables: Vec::new(),
            overloads,
            composites,
            scalars,
            arithmetic,
            at_sign,
            named_components,
            inline: false,
            lines: Vec::new(),
            indent: 1,
            inputs: Vec::new(),
            dim: Vec::new(),
            doc: Vec::new(),
            indices: Vec::new(),
        }
    }

    /// A name of the package.
    pub(super) fn builtin(&self, name: &str) -> String {
        format!("{}.{name}", self.package)
    }

    /// Whether there is a variable of the type.
    pub(super) fn has(&self, ty: Type) -> bool {
        self.variables.iter().any(|variable| variable.visible && variable.ty == ty)
    }

    /// Reads a variable.
    pub(super) fn read(&mut self, index: usize) -> Expr {
        let variable = &mut self.variables[index];
        variable.used = true;
        let mut expr = Expr::atom(variable.text.clone(), variable.ty, variable.range);
        expr.words.clone_from(&variable.words);
        expr.uses.push(index);
        expr
    }

    fn declare(&mut self, text: String, words: String, ty: Type, range: Range) -> usize {
        self.variables.push(Variable { text, words, ty, range, used: false, visible: true });
        self.variables.len() - 1
    }

    /// Adds a line of the kernel.
    pub(super) fn line(&mut self, text: &str) {
        self.lines.push(format!("{}{text}", "    ".repeat(self.indent)));
    }

    /// Adds a sentence to the docstring.
    pub(super) fn say(&mut self, sentence: String) {
        self.doc.push(sentence);
    }

    /// A variable with this value.
    pub(super) fn name(&mut self, expr: Expr) -> Expr {
        let index = self.assign_new(expr);
        self.read(index)
    }

    /// The same, not read yet.
    pub(super) fn assign_new(&mut self, expr: Expr) -> usize {
        let name = self.names.draw(&mut self.random, Role::Local);
        self.line(&format!("{name} = {}", expr.text));
        self.say(format!("Let `{name}` be {}.", expr.words));
        self.declare(name.clone(), format!("`{name}`"), expr.ty, expr.range)
    }

    /// A variable that statements change: of numbers Warp wants this written out.
    pub(super) fn mutable(&mut self, expr: &Expr, range: Range) -> usize {
        let name = self.names.draw(&mut self.random, Role::Local);
        let plain = expr.binding == Binding::Atom && !expr.uses.is_empty() && !expr.text.contains(['[', '(', '.']);
        let value = match expr.ty {
            Type::F32 if expr.uses.is_empty() || plain => format!("float({})", expr.text),
            Type::I32 if expr.uses.is_empty() || plain => format!("int({})", expr.text),
            _ => expr.text.clone(),
        };
        self.line(&format!("{name} = {value}"));
        self.say(format!("`{name}` starts as {}.", expr.words));
        self.declare(name.clone(), format!("`{name}`"), expr.ty, range)
    }

    /// Statements one level deeper; what they declare is not seen after them.
    pub(super) fn nested(&mut self, body: impl FnOnce(&mut Generator)) {
        let n_before = self.variables.len();
        self.indent += 1;
        body(self);
        self.indent -= 1;
        for variable in &mut self.variables[n_before..] {
            variable.visible = false;
        }
    }

    /// A parameter that is no array.
    pub(super) fn scalar(&mut self, ty: Type, low: f64, high: f64) -> usize {
        let name = self.names.draw(&mut self.random, Role::Scalar);
        let values = Values::Between { low, high };
        self.inputs.push(Parameter::new(&name, ty, Vec::new(), values));
        self.declare(name.clone(), format!("`{name}`"), ty, Range::new(low, high))
    }

    /// An array that threads read, an element each: the element is the variable.
    pub(super) fn elements(&mut self, elem: Type, low: f64, high: f64) -> usize {
        let name = self.array(Role::Array(elem), elem, Values::Between { low, high });
        let text = format!("{name}[{}]", self.indices.join(", "));
        self.declare(text, format!("`{name}`"), elem, Range::new(low, high))
    }

    /// An array that threads write, an element each: the text of the element.
    pub(super) fn output(&mut self, elem: Type) -> (String, String) {
        let name = self.array(Role::Output, elem, Values::Zeros);
        (format!("{name}[{}]", self.indices.join(", ")), name)
    }

    fn array(&mut self, role: Role, elem: Type, values: Values) -> String {
        let name = self.names.draw(&mut self.random, role);
        self.inputs.push(Parameter::new(&name, elem, self.dim.clone(), values));
        name
    }

    /// Begins a kernel of one thread for each element of arrays of this rank.
    pub(super) fn threads(&mut self, rank: usize) {
        let names: &[&str] = match rank {
            1 => self.random.pick(&[&["i"], &["i"], &["tid"], &["idx"], &["n"], &["k"]]),
            2 => self.random.pick(&[&["i", "j"], &["i", "j"], &["row", "col"], &["y", "x"]]),
            _ => self.random.pick(&[&["i", "j", "k"], &["z", "y", "x"]]),
        };
        self.dim = (0..rank).map(|axis| Extent::Free(axis as u8)).collect();
        for name in names {
            self.names.take(name);
        }
        self.indices = names.iter().map(|&name| name.to_owned()).collect();
        self.line(&format!("{} = {}()", names.join(", "), self.builtin("tid")));
    }

    /// The number of statements so far.
    pub(super) fn n_lines(&self) -> usize {
        self.lines.len()
    }

    /// The file, if its lines are no longer than Python's formatters leave them.
    pub(super) fn finish(mut self, category: Category, difficulty: u8) -> Option<Program> {
        let name = self.names.draw(&mut self.random, Role::Kernel);
        let package = self.package;
        let mut source = match package {
            "wp" => "import warp as wp\n\n\n".to_owned(),
            _ => "import polyloom as loom\n\n\n".to_owned(),
        };
        let params: Vec<String> =
            self.inputs.iter().map(|param| format!("{}: {}", param.input.name, annotation(package, param))).collect();
        let _ = writeln!(source, "@{package}.kernel");
        let head = format!("def {name}({}):", params.join(", "));
        if head.len() <= LINE {
            let _ = writeln!(source, "{head}");
        } else {
            let _ = writeln!(source, "def {name}(");
            for param in &params {
                let _ = writeln!(source, "    {param},");
            }
            let _ = writeln!(source, "):");
        }
        self.write_doc(&name, &mut source);
        for line in &self.lines {
            let _ = writeln!(source, "{line}");
        }
        let fits = source.lines().all(|line| line.len() <= LINE);
        let inputs = self.inputs.into_iter().map(|param| param.input).collect();
        let dim = self.dim;
        fits.then_some(Program { name, category, difficulty, source, inputs, dim })
    }

    fn write_doc(&mut self, name: &str, source: &mut String) {
        let mut title = name.replace('_', " ");
        title[..1].make_ascii_uppercase();
        let sentences: Vec<String> = self.doc.iter().map(|sentence| sentence.replace("``", "`")).collect();
        match &sentences[..] {
            [one] if one.len() + 10 <= LINE => {
                let _ = writeln!(source, "    \"\"\"{one}\"\"\"");
            }
            _ => {
                let _ = writeln!(source, "    \"\"\"{title}.\n");
                for line in wrapped(&sentences.join(" "), LINE - 4) {
                    let _ = writeln!(source, "    {line}");
                }
                let _ = writeln!(source, "    \"\"\"");
            }
        }
    }
}

/// What an annotation of the parameter reads.
fn annotation(package: &str, param: &Parameter) -> String {
    let name = |ty: Type| match ty {
        Type::F32 => "float".to_owned(),
        Type::I32 => "int".to_owned(),
        Type::BOOL => "bool".to_owned(),
        other => format!("{package}.{}", other.python_name().trim_start_matches("loom.")),
    };
    match param.input.shape.len() {
        0 => name(param.elem),
        1 => format!("{package}.array(dtype={})", name(param.elem)),
        rank => format!("{package}.array{rank}d(dtype={})", name(param.elem)),
    }
}

/// Words in lines of this length, broken between words.
fn wrapped(text: &str, length: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && lines[last].len() + 1 + word.len() > length {
            lines.push(word.to_owned());
        } else {
            if !lines[last].is_empty() {
                lines[last].push(' ');
            }
            lines[last].push_str(word);
        }
    }
    lines
}

/// What no kernel is without.
fn is_basic(op: polyloom::Op) -> bool {
    use polyloom::Op::{Add, Mul, Sub};
    matches!(op, Add | Sub | Mul)
}
