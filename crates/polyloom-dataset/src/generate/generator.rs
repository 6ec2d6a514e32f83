//! What a kernel is while it is being written: its names, its variables, its lines.

mod finish;
mod parameters;

use super::bounded_value::BoundedValue;
use super::condition_tests::{KnownTest, Roots};
use super::docstring::{self, DocSentence, FunctionSummary};
use super::expr::{BindingStrength, GeneratedExpr};
use super::generated_function::GeneratedFunction;
use super::names::{KernelNames, NameRole};
use super::overloads::{OVERLOADS, TypeChoices};
use super::program::{ProgramExtent, ProgramInput};
use super::sum_parts::SumParts;
use super::usage::{self, NameUsage, repeats};
use super::{hoist, words};
use crate::catalogue::{DrawFrequency, WarpSupport, facts};
use crate::number_range::NumberRange;
use polyloom::{Composite, Op, Random, Scalar, Type};
use smallvec::smallvec;
use std::fmt::Write as _;
use std::rc::Rc;

/// Something an expression can read.
#[derive(Clone, Debug)]
pub(super) struct GeneratedVariable {
    /// Its name, or the element of an array.
    pub(super) text: String,
    words: String,
    pub(super) ty: Type,
    pub(super) range: NumberRange,
    /// True if something reads it.
    pub(super) used: bool,
    /// The line from which on it has to be read.
    since: usize,
    /// The same, once something has been found to read it since.
    found_since: Option<usize>,
    /// True if threads see different values.
    pub(super) varies: bool,
    /// Holds what it begins with, of a variable that statements change.
    pub(super) start: NumberRange,
    /// True if nothing need read it.
    pub(super) is_free: bool,
    /// True if it is in scope.
    pub(super) visible: bool,
    /// Holds what is known of the value that it was given.
    pub(super) head: Option<Op>,
    pub(super) parts: SumParts,
    /// The text of the value that it was given, if there is one.
    pub(super) value: String,
    /// True if it has another value in each round of a loop around.
    pub(super) moves: bool,
    /// True if a loop counts it.
    pub(super) counts: bool,
    /// True if nothing but numbers is in it.
    pub(super) is_of_numbers: bool,
    /// Holds what its value comes from.
    pub(super) roots: Roots,
    /// True if statements change it from here on.
    pub(super) changes: bool,
    /// Holds what they have made of it.
    pub(super) becomes: Option<NumberRange>,
}

impl GeneratedVariable {
    /// Returns true if it is a vector or the like that the kernel computes, because of one component alone that would
    /// do.
    pub(super) fn is_made_whole(&self) -> bool {
        self.ty.as_composite().is_some() && !self.text.contains(['[', '.'])
    }

    /// Returns both names of an element that sentences call by its array.
    fn element(&self) -> Option<(&str, &str)> {
        let name = self.words.strip_prefix('`')?.strip_suffix('`')?;
        // One that is stored as another type is converted where it is read.
        let converted = self.text.split_once('(').and_then(|(_, element)| element.strip_suffix(')'));
        let element = converted.unwrap_or(&self.text);
        let index = element.strip_prefix(name)?;
        (index.starts_with('[') && index.ends_with(']') && !index[1..].contains('[')).then_some((name, element))
    }
}

/// A parameter as it is written, and what is passed for it: of a struct a record for each leaf.
struct GeneratedParameter {
    text: String,
    inputs: Vec<ProgramInput>,
}

/// A kernel in the making.
pub(super) struct KernelGenerator {
    pub(super) random: Random,
    pub(super) names: KernelNames,
    /// Says how the text names the package.
    package: &'static str,
    pub(super) variables: Vec<GeneratedVariable>,
    /// Says which of [`OVERLOADS`] this kernel may call.
    pub(super) kept: Vec<bool>,
    /// Holds what gives the types that have been asked for.
    pub(super) choices: Vec<(Type, Rc<TypeChoices>)>,
    /// The types of its values.
    pub(super) composites: Vec<Composite>,
    pub(super) scalars: Vec<Scalar>,
    /// The type of its fractions: of one kernel only one.
    pub(super) real: Type,
    /// The type of its whole numbers.
    pub(super) whole: Type,
    /// The functions that its expressions may call.
    pub(super) functions: Vec<GeneratedFunction>,
    /// Number of times of a hundred an operation is plain arithmetic.
    pub(super) arithmetic: usize,
    /// True if products of matrices are written with `@`.
    pub(super) at_sign: bool,
    /// True if powers are written as calls.
    pub(super) powers_called: bool,
    /// True if components of vectors are named.
    pub(super) named_components: bool,
    /// True if no statement can stand before the one that is being written.
    pub(super) inline: bool,
    /// True if computations have comments now and then in place of sentences in the docstring.
    pub(super) comments: bool,
    /// True if the docstring says `` `x` is `` rather than `` let `x` be ``.
    states: bool,
    /// The first line of the docstring, if something says it better than the category.
    summary: Option<String>,
    /// True if threads go along columns.
    pub(super) by_column: bool,
    /// Holds what the last result comes from.
    pub(super) outer: Option<Op>,
    /// Holds what has been brought to a size.
    pub(super) tamed: Vec<BoundedValue>,
    /// The outcomes of tests that are known.
    pub(super) known: Vec<KnownTest>,
    lines: Vec<String>,
    reads: NameUsage,
    indent: usize,
    params: Vec<GeneratedParameter>,
    dim: Vec<ProgramExtent>,
    doc: Vec<DocSentence>,
    pub(super) indices: Vec<String>,
    /// Holds what stands before the kernel: structs and functions.
    items: Vec<String>,
    /// Holds what is imported before the package.
    imports: Vec<&'static str>,
    block_dim: Option<u32>,
    /// True if a function has a line for nothing.
    is_idle: bool,
    /// The parameters that have a name for any number.
    pub(super) numbers: Vec<String>,
}

impl KernelGenerator {
    /// A kernel of these values, with some of the builtins.
    pub(super) fn new(mut random: Random, composites: Vec<Composite>, scalars: Vec<Scalar>) -> KernelGenerator {
        // A kernel that may call all of them calls each seldom: swarm testing's subsets.
        let share = random.pick(&[2, 3, 5, 8]);
        let shared = !random.one_in(6);
        let mut last = None;
        let mut keep = false;
        let mut kept = Vec::with_capacity(OVERLOADS.len());
        for overload in OVERLOADS.iter() {
            if last != Some(overload.op) {
                last = Some(overload.op);
                keep = random.below(10) < share && (!shared || facts(overload.op).warp != WarpSupport::None);
            }
            kept.push(keep || facts(overload.op).frequency == DrawFrequency::Basic);
        }
        let arithmetic = random.pick(&[20, 40, 60, 80]);
        let (at_sign, powers_called, named_components) = (random.one_in(2), random.one_in(2), random.one_in(2));
        let (comments, states) = (random.one_in(5), random.one_in(2));
        let of = |fits: fn(Scalar) -> bool, other| scalars.iter().copied().find(|&s| fits(s)).unwrap_or(other).into();
        let (real, whole) = (of(Scalar::is_float, Scalar::F32), of(Scalar::is_int, Scalar::I32));
        KernelGenerator {
            random,
            names: KernelNames::default(),
            package: if shared { "wp" } else { "loom" },
            variables: Vec::new(),
            kept,
            choices: Vec::new(),
            composites,
            scalars,
            real,
            whole,
            functions: Vec::new(),
            arithmetic,
            at_sign,
            powers_called,
            named_components,
            inline: false,
            comments,
            states,
            summary: None,
            outer: None,
            by_column: false,
            tamed: Vec::new(),
            known: Vec::new(),
            lines: Vec::new(),
            reads: NameUsage::default(),
            indent: 1,
            params: Vec::new(),
            dim: Vec::new(),
            doc: Vec::new(),
            indices: Vec::new(),
            items: Vec::new(),
            imports: Vec::new(),
            block_dim: None,
            is_idle: false,
            numbers: Vec::new(),
        }
    }

    /// A name of the package.
    pub(super) fn builtin(&self, name: &str) -> String {
        format!("{}.{name}", self.package)
    }

    /// Returns true if there is a variable of the type.
    pub(super) fn has(&self, ty: Type) -> bool {
        self.variables.iter().any(|variable| variable.visible && variable.ty == ty)
    }

    /// Reads a variable.
    pub(super) fn read(&mut self, index: usize) -> GeneratedExpr {
        let variable = &mut self.variables[index];
        variable.used = true;
        let mut expr = GeneratedExpr::atom(variable.text.clone(), variable.ty, variable.range);
        expr.words.clone_from(&variable.words);
        expr.uses.push(index);
        expr.head = variable.head;
        expr.parts.terms.extend(variable.parts.terms.iter().copied());
        expr.parts.factors.extend(variable.parts.factors.iter().copied());
        (expr.parts.is_moved, expr.parts.is_scaled) = (variable.parts.is_moved, variable.parts.is_scaled);
        expr.parts.multiple_of = variable.parts.multiple_of.or(expr.parts.multiple_of);
        expr
    }

    /// Something that expressions may read from here on.
    pub(super) fn declare(&mut self, text: String, words: String, ty: Type, range: NumberRange) -> usize {
        self.variables.push(GeneratedVariable {
            text,
            words,
            ty,
            range,
            used: false,
            since: 0,
            found_since: None,
            varies: true,
            start: range,
            is_free: false,
            visible: true,
            head: None,
            parts: SumParts::default(),
            value: String::new(),
            moves: false,
            counts: false,
            is_of_numbers: false,
            roots: smallvec![self.variables.len() as i64],
            changes: false,
            becomes: None,
        });
        self.variables.len() - 1
    }

    /// The same under a name, which need not be read: a loop's index.
    pub(super) fn declare_index(&mut self, name: &str, ty: Type, range: NumberRange) -> usize {
        let index = self.declare(name.to_owned(), format!("`{name}`"), ty, range);
        self.variables[index].is_free = true;
        self.variables[index].used = true;
        self.variables[index].moves = true;
        self.variables[index].counts = true;
        index
    }

    /// A number of the type of fractions.
    pub(super) fn number(&self, number: f64) -> GeneratedExpr {
        self.number_of(self.real, number)
    }

    /// A number of this type of fractions.
    pub(super) fn number_of(&self, ty: Type, number: f64) -> GeneratedExpr {
        let plain = GeneratedExpr::float(number);
        if ty == Type::F32 {
            return plain;
        }
        let words = plain.words.clone();
        let mut typed = GeneratedExpr::call(&self.cast_name(ty), &[&plain], ty, plain.range);
        typed.words = words;
        typed
    }

    /// Its text.
    pub(super) fn real(&self, number: f64) -> String {
        self.number(number).text
    }

    /// A whole number.
    pub(super) fn int(&self, number: i32) -> GeneratedExpr {
        let plain = GeneratedExpr::int(number);
        if self.whole == Type::I32 {
            return plain;
        }
        let words = plain.words.clone();
        let mut typed = GeneratedExpr::call(&self.cast_name(self.whole), &[&plain], self.whole, plain.range);
        typed.words = words;
        typed
    }

    /// The function that converts to a type of numbers.
    pub(super) fn cast_name(&self, ty: Type) -> String {
        match ty {
            Type::F32 => "float".to_owned(),
            Type::I32 => "int".to_owned(),
            _ => self.type_name(ty),
        }
    }

    /// Returns what the type is called in the program.
    pub(super) fn type_name(&self, ty: Type) -> String {
        match ty {
            Type::F32 => "float".to_owned(),
            Type::I32 => "int".to_owned(),
            Type::BOOL => "bool".to_owned(),
            other => format!("{}.{}", self.package, name_of(other)),
        }
    }

    /// The number of lines so far.
    pub(super) fn n_lines(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Gives a parameter another name.
    pub(super) fn rename(&mut self, name: &str, fresh: &str) {
        let renamed = |text: &str| words::renamed(text, name, fresh);
        let in_prose = |text: &str| words::renamed_in_prose(text, name, fresh);
        self.lines.iter_mut().for_each(|line| *line = if is_comment(line) { in_prose(line) } else { renamed(line) });
        self.doc.iter_mut().for_each(|sentence| sentence.text = in_prose(&sentence.text));
        self.summary = self.summary.take().map(|summary| in_prose(&summary));
        for param in self.params.iter_mut().filter(|param| param.name() == name) {
            param.text = renamed(&param.text);
            param.inputs.iter_mut().for_each(|input| input.name = renamed(&input.name));
        }
    }

    /// Gives the function that was written last another name.
    pub(super) fn rename_item(&mut self, name: &str, fresh: &str) {
        let Some(item) = self.items.last_mut() else { return };
        let Some((before, rest)) = item.split_once(&format!("def {name}(")) else { return };
        let Some((head, body)) = rest.split_once(":\n") else { return };
        let Some((params, arrow)) = head.rsplit_once(')') else { return };
        let params: Vec<String> =
            params.split(',').map(|param| param.trim().to_owned()).filter(|param| !param.is_empty()).collect();
        let mut text = before.to_owned();
        // A line that the other name left room for may be too long with this one.
        finish::write_head(fresh, &params, arrow.trim().trim_start_matches("-> "), &mut text);
        text.push_str(body);
        *item = text;
    }

    /// Returns true if the function that was written last has the name inside.
    pub(super) fn item_has(&self, name: &str) -> bool {
        self.items.last().is_some_and(|item| words::places(item, name).next().is_some())
    }

    /// Puts another text in place of a line, at the indent that it has.
    pub(super) fn rewrite_line(&mut self, at: usize, text: &str) {
        let indent = self.lines[at].len() - self.lines[at].trim_start().len();
        self.lines[at].replace_range(indent.., text);
    }

    /// Takes lines away, which nothing has to do with what is read.
    pub(super) fn remove_lines(&mut self, lines: std::ops::Range<usize>) {
        self.lines.drain(lines);
        self.reads = NameUsage::default();
    }

    /// Returns true if a line from this one on reads the name.
    pub(super) fn is_read_from(&self, at: usize, name: &str) -> bool {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        self.lines[at..].iter().any(|line| line.split(|c| !is_part(c)).any(|word| word == name))
    }

    /// Returns true if a line from this one on reads the name for a value or a test.
    pub(super) fn is_read_in_values(&self, at: usize, name: &str) -> bool {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        self.lines[at..].iter().any(|line| {
            let plain = line.split_once(" = ").map_or(line.as_str(), |(_, value)| value);
            plain.split(|c| !is_part(c)).any(|word| word == name)
        })
    }

    /// The name under which a line around has this value.
    pub(super) fn named(&self, value: &str) -> Option<String> {
        let mut level = 4 * self.indent;
        self.lines.iter().rev().filter(|line| !line.is_empty()).find_map(|line| {
            let text = line.trim_start();
            let indent = line.len() - text.len();
            if indent > level {
                return None;
            }
            level = indent;
            text.strip_suffix(value)?.strip_suffix(" = ").map(str::to_owned)
        })
    }

    /// Adds a line of the kernel.
    pub(super) fn line(&mut self, text: &str) {
        let mut line = String::with_capacity(4 * self.indent + text.len());
        for _ in 0..self.indent {
            line.push_str("    ");
        }
        line.push_str(text);
        self.lines.push(line);
    }

    /// Finds out what is read, because expressions that were given up have read nothing.
    pub(super) fn review(&mut self) {
        self.reads.scan(&self.lines);
        for variable in &mut self.variables {
            // Lines are not taken back.
            if variable.found_since == Some(variable.since) {
                variable.used = true;
                continue;
            }
            let text = &variable.text;
            // A field of an element is its own variable, any element of an array the array.
            if text.contains("].") {
                variable.used = self.lines.iter().any(|line| line.contains(text.as_str()));
            } else {
                let name = text.split('[').next().unwrap_or(text);
                let name = name.rsplit('(').next().unwrap_or(name);
                variable.used = self.reads.last_of(name).is_some_and(|at| at >= variable.since)
                    && (!variable.is_made_whole()
                        || usage::reads_whole(self.lines.get(variable.since..).unwrap_or_default(), name));
            }
            variable.found_since = variable.used.then_some(variable.since);
        }
    }

    /// From here on it has to be read, because what has changed it does not count.
    pub(super) fn must_be_read(&mut self, index: usize) {
        self.variables[index].since = self.lines.len();
        self.variables[index].is_free = false;
        self.variables[index].changes = false;
        self.variables[index].moves = false;
        self.variables[index].is_of_numbers = false;
        self.variables[index].roots = smallvec![index as i64];
        self.variables[index].varies = true;
        self.variables[index].used = false;
    }

    /// Returns true if something branches, chooses or repeats.
    pub(super) fn has_control_flow(&self) -> bool {
        let words = ["if ", "while ", "for ", " if ", " and ", " or ", "where("];
        self.lines.iter().map(|line| line.trim_start()).any(|line| {
            words.iter().any(|word| {
                if word.starts_with(' ') || *word == "where(" { line.contains(word) } else { line.starts_with(word) }
            })
        })
    }

    /// Adds a blank line now and then.
    pub(super) fn gap(&mut self) {
        let begins = self.lines.last().is_none_or(|line| line.is_empty() || line.ends_with(':'));
        if !begins && self.random.one_in(4) {
            self.lines.push(String::new());
        }
    }

    /// Adds a sentence to the docstring.
    pub(super) fn say(&mut self, text: impl Into<String>) {
        self.doc.push(DocSentence { text: text.into(), is_detail: false, is_comment: false });
    }

    /// Takes back the sentence about what has been declared last, because another says what it is in the end.
    pub(super) fn take_back_sentence(&mut self) {
        self.doc.pop();
    }

    /// Adds one before what has been said since there were so many.
    pub(super) fn say_at(&mut self, at: usize, text: String) {
        self.doc.insert(at, DocSentence { text, is_detail: false, is_comment: false });
    }

    /// Returns true if a line has one of these texts.
    pub(super) fn has_line_with(&self, texts: &[&str]) -> bool {
        self.lines.iter().any(|line| texts.iter().any(|text| line.contains(text)))
    }

    /// Adds one that says how something is computed.
    pub(super) fn explain(&mut self, text: String) {
        self.doc.push(DocSentence { text, is_detail: true, is_comment: false });
    }

    /// Adds one that a comment says, too.
    pub(super) fn explain_comment(&mut self, text: String) {
        self.doc.push(DocSentence { text, is_detail: true, is_comment: true });
    }

    /// Puts a comment before the last line.
    pub(super) fn comment_last(&mut self, text: &str) {
        let at = self.lines.len().saturating_sub(1);
        let text = words::without_package(text);
        self.lines.insert(at, format!("{}# {}.", "    ".repeat(self.indent), capitalised(&text)));
    }

    /// A variable with this value.
    pub(super) fn name(&mut self, expr: GeneratedExpr) -> GeneratedExpr {
        let index = self.assign_new(expr);
        self.read(index)
    }

    /// The same under one of these names.
    pub(super) fn assign_like(&mut self, names: &[&str], expr: GeneratedExpr) -> usize {
        let name = self.like(names);
        self.assign_as(name, expr)
    }

    /// The same, not read yet.
    pub(super) fn assign_new(&mut self, expr: GeneratedExpr) -> usize {
        // Another name for a variable says nothing.
        let is_name = expr.text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_name && expr.is_bare() {
            return expr.uses[0];
        }
        // A value with a name needs no other.
        let is_pure = expr.head.is_some_and(|op| op.info().is_pure());
        if is_pure && !expr.uses.iter().any(|&index| self.variables[index].changes) {
            let has_it =
                |variable: &GeneratedVariable| variable.visible && !variable.changes && variable.value == expr.text;
            if let Some(index) = self.variables.iter().position(has_it) {
                return index;
            }
        }
        let name = self.names.draw_of(&mut self.random, expr.head, &expr.parts);
        self.assign_as(name, expr)
    }

    fn assign_as(&mut self, name: String, expr: GeneratedExpr) -> usize {
        let is_pure = expr.head.is_some_and(|op| op.info().is_pure());
        let words = if expr.ty == Type::BOOL { format!("whether {}", expr.words) } else { expr.words.clone() };
        match self.states {
            true => self.explain(format!("`{name}` is {words}.")),
            false => self.explain(format!("Let `{name}` be {words}.")),
        }
        self.line(&format!("{name} = {}", expr.text));
        let index = self.declare(name.clone(), format!("`{name}`"), expr.ty, expr.range);
        self.variables[index].varies = self.differs(&expr);
        self.variables[index].roots = self.roots_of_new(&expr, index);
        self.variables[index].is_of_numbers = expr.uses.is_empty();
        if is_pure && !expr.uses.is_empty() {
            self.variables[index].value.clone_from(&expr.text);
        }
        self.variables[index].moves = expr.uses.iter().any(|&index| self.variables[index].moves);
        self.variables[index].head = expr.head;
        self.variables[index].parts = expr.parts;
        index
    }

    fn roots_of_new(&self, expr: &GeneratedExpr, index: usize) -> Roots {
        let roots = self.roots(expr);
        if roots.is_empty() { smallvec![index as i64] } else { roots }
    }

    /// Takes back what has been written since: so many lines, variables and sentences.
    pub(super) fn undo(&mut self, (n_lines, n_variables, n_sentences): (usize, usize, usize)) {
        self.lines.truncate(n_lines);
        self.variables.truncate(n_variables);
        self.doc.truncate(n_sentences);
    }

    /// Returns how much has been written.
    pub(super) fn so_far(&self) -> (usize, usize, usize) {
        (self.lines.len(), self.variables.len(), self.doc.len())
    }

    /// Returns true if the value is not the same for all threads.
    pub(super) fn differs(&self, expr: &GeneratedExpr) -> bool {
        expr.uses.iter().any(|&index| self.variables[index].varies)
    }

    /// A variable that statements change and that stays in a range, because Warp wants this of numbers written out.
    pub(super) fn mutable(&mut self, expr: &GeneratedExpr, range: NumberRange) -> usize {
        let name = self.names.draw(&mut self.random, NameRole::Changing);
        self.mutable_as(name, expr, range)
    }

    /// The same under one of these names.
    pub(super) fn mutable_like(&mut self, names: &[&str], expr: &GeneratedExpr, range: NumberRange) -> usize {
        let name = self.like(names);
        self.mutable_as(name, expr, range)
    }

    fn mutable_as(&mut self, name: String, expr: &GeneratedExpr, range: NumberRange) -> usize {
        let plain =
            expr.binding == BindingStrength::Atom && !expr.text.contains(['[', '(', '.']) || expr.uses.is_empty();
        let value = match expr.ty {
            Type::F32 | Type::I32 if plain => format!("{}({})", self.cast_name(expr.ty), expr.text),
            ty if ty.as_composite().is_none() && !expr.text.ends_with(')') => {
                format!("{}({})", self.cast_name(ty), expr.text)
            }
            _ => expr.text.clone(),
        };
        self.line(&format!("{name} = {value}"));
        self.explain(format!("`{name}` starts as {}.", expr.words));
        let index = self.declare(name.clone(), format!("`{name}`"), expr.ty, range);
        self.variables[index].varies = self.differs(expr);
        self.variables[index].start = expr.range;
        self.variables[index].roots = self.roots_of_new(expr, index);
        self.variables[index].is_of_numbers = expr.uses.is_empty();
        self.variables[index].changes = true;
        index
    }

    /// Statements one level deeper; what they declare is not seen after them. What they do, in words.
    pub(super) fn nested(&mut self, body: impl FnOnce(&mut KernelGenerator)) -> String {
        self.collected(|g| g.indented(body))
    }

    /// Returns what is said meanwhile, in one sentence.
    pub(super) fn collected(&mut self, body: impl FnOnce(&mut KernelGenerator)) -> String {
        let n_sentences = self.doc.len();
        body(self);
        let clauses: Vec<String> = self.doc.drain(n_sentences..).map(|sentence| as_clause(&sentence.text)).collect();
        joined(&clauses)
    }

    /// The same, of which the docstring speaks as of others.
    pub(super) fn indented(&mut self, body: impl FnOnce(&mut KernelGenerator)) {
        let n_variables = self.variables.len();
        self.indent += 1;
        body(self);
        self.indent -= 1;
        for variable in &mut self.variables[n_variables..] {
            variable.visible = false;
        }
    }

    /// Expressions inside read these variables alone.
    pub(super) fn only<T>(&mut self, seen: &[usize], body: impl FnOnce(&mut KernelGenerator) -> T) -> T {
        let before: Vec<bool> = self.variables.iter().map(|variable| variable.visible).collect();
        for (index, variable) in self.variables.iter_mut().enumerate() {
            variable.visible = seen.contains(&index);
        }
        let done = body(self);
        for (variable, was) in self.variables.iter_mut().zip(before) {
            variable.visible = was;
        }
        done
    }

    /// A function before the kernel: what it is called, its parameters with their types, and what its body gives.
    pub(super) fn item(
        &mut self,
        name: &str,
        params: &[(String, String)],
        body: impl FnOnce(&mut KernelGenerator) -> String,
    ) -> FunctionSummary {
        let names = self.names.clone();
        let (states, comments) = (self.states, self.comments);
        (self.states, self.comments) = (true, false);
        let n_variables = self.variables.len();
        let hidden: Vec<bool> =
            self.variables.iter_mut().map(|variable| std::mem::replace(&mut variable.visible, false)).collect();
        let lines = std::mem::take(&mut self.lines);
        let reads = std::mem::take(&mut self.reads);
        let doc = std::mem::take(&mut self.doc);
        let indent = std::mem::replace(&mut self.indent, 1);
        let returned = self.learning(body);
        self.indent = indent;
        let mut lines = std::mem::replace(&mut self.lines, lines);
        self.reads.scan(&lines);
        self.is_idle |= self.reads.finds_idle(&lines) || repeats(&lines);
        self.reads = reads;
        let moved = hoist::out_of_loops(&mut lines);
        self.is_idle |= hoist::recomputes(&lines);
        let mut sentences = std::mem::replace(&mut self.doc, doc);
        docstring::told_before_loops(&mut sentences, &moved);
        let spelled = sentences.is_empty().then(|| FunctionSummary::of_lines(&lines));
        for variable in &mut self.variables[n_variables..] {
            variable.visible = false;
        }
        for (variable, was) in self.variables.iter_mut().zip(hidden) {
            variable.visible = was;
        }
        self.names = names;
        (self.states, self.comments) = (states, comments);
        let params: Vec<String> = params.iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
        let mut text = format!("@{}.func\n", self.package);
        finish::write_head(name, &params, &returned, &mut text);
        for line in lines {
            let _ = writeln!(text, "{line}");
        }
        self.items.push(text);
        if let Some(spelled) = spelled {
            return spelled;
        }
        let (steps, results): (Vec<DocSentence>, Vec<DocSentence>) =
            sentences.into_iter().partition(|sentence| sentence.is_detail);
        FunctionSummary {
            steps: steps.iter().map(|sentence| as_clause(&sentence.text)).collect(),
            results: results.into_iter().map(|sentence| sentence.text).collect(),
        }
    }

    /// Something else before the kernel.
    pub(super) fn item_text(&mut self, text: String) {
        self.items.push(text);
    }

    /// An import before that of the package.
    pub(super) fn import(&mut self, line: &'static str) {
        if !self.imports.contains(&line) {
            self.imports.push(line);
        }
    }

    /// Threads work together in blocks of this many.
    pub(super) fn in_blocks(&mut self, block_dim: u32, n_threads: u32) {
        self.package = "loom";
        self.block_dim = Some(block_dim);
        self.dim = vec![ProgramExtent::Is(n_threads)];
    }

    /// Kernels that real Warp does not take.
    pub(super) fn of_polyloom(&mut self) {
        self.package = "loom";
    }

    /// Returns true if real Warp is to take the kernel.
    pub(super) fn is_shared(&self) -> bool {
        self.package == "wp"
    }

    /// Says what the kernel does in one line.
    pub(super) fn sum_up(&mut self, summary: String) {
        self.summary = Some(summary);
    }
}

/// Returns what is done in a case, or in a round: in brackets if it is more than one thing, or if what is behind it
/// would seem to be of a loop in it.
pub(super) fn held_together(done: &str) -> String {
    match docstring::has_parts(done) || done.contains(": ") {
        true => format!("({done})"),
        false => done.to_owned(),
    }
}

/// Clauses one after the other; such as have parts of their own stand in parentheses.
fn joined(clauses: &[String]) -> String {
    match clauses {
        [one] => one.clone(),
        _ => clauses.iter().map(|clause| held_together(clause)).collect::<Vec<_>>().join("; "),
    }
}

/// Returns what the package calls a type.
pub(super) fn name_of(ty: Type) -> String {
    let spatial = |elem: Scalar, stem: &str| {
        let suffix = Composite::SUFFIXES.iter().find(|(scalar, _)| *scalar == elem).map_or("", |(_, suffix)| suffix);
        format!("{stem}{suffix}")
    };
    match ty.as_composite() {
        Some(Composite::Vector { elem, len: 6 }) => spatial(elem, "spatial_vector"),
        Some(Composite::Matrix { elem, rows: 6, cols: 6 }) => spatial(elem, "spatial_matrix"),
        _ => ty.python_name().trim_start_matches("loom.").to_owned(),
    }
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// A sentence as a part of another.
fn as_clause(sentence: &str) -> String {
    let clause = sentence.trim_end_matches('.');
    let mut chars = clause.chars();
    match chars.next() {
        Some(first) if first.is_ascii_uppercase() => format!("{}{}", first.to_ascii_lowercase(), chars.as_str()),
        _ => clause.to_owned(),
    }
}

/// The text with a capital letter.
pub(super) fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| format!("{}{}", first.to_ascii_uppercase(), chars.as_str())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_end_where_their_brackets_do() {
        let check = |clauses: &[&str], expected: &str| {
            let clauses: Vec<String> = clauses.iter().map(|clause| (*clause).to_owned()).collect();
            assert_eq!(joined(&clauses), expected);
        };
        check(&["for each `k`: add `a` to `s`"], "for each `k`: add `a` to `s`");
        check(&["for each `k`: add `a` to `s`", "add 1 to `s`"], "(for each `k`: add `a` to `s`); add 1 to `s`");
        check(&["let `a` be 1", "where `b`, (`c` is 1; `d` is 2)"], "let `a` be 1; where `b`, (`c` is 1; `d` is 2)");
    }
}
