//! The file of a kernel that is written: its name, its docstring, and whether formatters would leave it is.

use super::{GeneratedParameter, KernelGenerator};
use crate::generate::docstring::{self, DocSubject, ReadParameter};
use crate::generate::program::{Category, DatasetProgram, InputValues, ProgramInput};
use crate::generate::usage::repeats;
use crate::generate::{difficulty, hoist, names, words};
use std::fmt::Write as _;

/// The line length of Python's formatters.
const LINE: usize = 88;

/// The most lines of a file.
const LONGEST: usize = 150;

impl KernelGenerator {
    /// The file, if its lines are no longer than Python's formatters leave them.
    pub(in crate::generate) fn finish(mut self, category: Category) -> Option<DatasetProgram> {
        let (kind, second) = (self.random.below(6), self.random.one_in(3));
        // What these do they do with the first array.
        let is_of_first = matches!(
            category,
            Category::Reduction | Category::Scan | Category::Stencil | Category::SharedMemory | Category::Warp
        );
        let controlling = self.controlling_arrays(category);
        let first = self.random.below(controlling.len().max(1));
        let subject = match self.arrays()[..] {
            [] => "values".to_owned(),
            _ if !controlling.is_empty() => controlling[first].clone(),
            [first, ..] if is_of_first => first.to_owned(),
            [first, other, ..] if kind == 0 => format!("{first}_and_{other}"),
            [_, other, ..] if second => other.to_owned(),
            [first, ..] => first.to_owned(),
        };
        // What the last line does with something else is not what the kernel does with the array.
        let is_of_it = self.lines.last().is_some_and(|line| line.contains(&format!("{subject}[")));
        let verbs = match category {
            // What nothing is written beside is changed itself.
            Category::Struct if self.params.iter().all(GeneratedParameter::is_given) => {
                &["update", "adjust", "advance"]
            }
            Category::ControlFlow | Category::Loop if controlling.is_empty() => {
                names::verbs_of(self.outer.filter(|_| is_of_it))
            }
            _ => names::verbs(category, self.outer.filter(|_| is_of_it)),
        };
        let verb = self.random.pick(verbs);
        let name = format!("{verb}_{subject}");
        let name = if self.names.take(&name) { name } else { format!("{name}_kernel") };
        self.finish_as(&name, category)
    }

    /// The arrays that the kernel is given, by name.
    fn arrays(&self) -> Vec<&str> {
        let is_given = |input: &ProgramInput| !matches!(input.values, InputValues::Zeros) && !input.shape.is_empty();
        let given = self.params.iter().filter(|param| param.inputs.iter().all(is_given));
        given.map(GeneratedParameter::name).collect()
    }

    /// Those of them that a kernel of branches tests, or that one of loops reads in them.
    fn controlling_arrays(&self, category: Category) -> Vec<String> {
        let inputs = self.arrays();
        let controlling = match category {
            Category::ControlFlow => docstring::read_in_tests(&self.lines, &inputs),
            Category::Loop => docstring::read_in_loops(&self.lines, &inputs),
            _ => Vec::new(),
        };
        controlling.into_iter().map(str::to_owned).collect()
    }

    /// The same under a name.
    pub(in crate::generate) fn finish_as(mut self, name: &str, category: Category) -> Option<DatasetProgram> {
        // Statements that write come last.
        let is_output =
            |param: &GeneratedParameter| param.inputs.iter().all(|input| matches!(input.values, InputValues::Zeros));
        self.params.sort_by_key(is_output);
        self.name_by_use();
        let package = self.package;
        self.reads.scan(&self.lines);
        let is_idle = self.is_idle || self.reads.finds_idle(&self.lines);
        let moved = hoist::out_of_loops(&mut self.lines);
        docstring::told_before_loops(&mut self.doc, &moved);
        let mut source = String::with_capacity(4096);
        for line in &self.imports {
            let _ = write!(source, "{line}\n\n");
        }
        source.push_str(match package {
            "wp" => "import warp as wp\n\n\n",
            _ => "import polyloom as loom\n\n\n",
        });
        for item in &self.items {
            let _ = write!(source, "{item}\n\n");
        }
        let options = self.block_dim.map(|n| format!("(block_dim={n})")).unwrap_or_default();
        let _ = writeln!(source, "@{package}.kernel{options}");
        let params: Vec<String> = self.params.iter().map(|param| param.text.clone()).collect();
        write_head(name, &params, "", &mut source);
        self.write_doc(category, &mut source);
        for line in &self.lines {
            source.push_str(line);
            source.push('\n');
        }
        // A kernel does not always become what it was meant to be.
        let bodies = self.items.iter().flat_map(|item| item.lines().filter(|line| line.starts_with(' ')));
        let difficulty = difficulty::of_lines(bodies.chain(self.lines.iter().map(String::as_str)))?;
        let fits = !is_idle
            && !repeats(&self.lines)
            && !hoist::recomputes(&self.lines)
            && source.lines().all(|line| line.len() <= LINE)
            && source.lines().count() <= LONGEST;
        let inputs = self.params.into_iter().flat_map(|param| param.inputs).collect();
        let dim = self.dim;
        let category = category.name().into();
        fits.then_some(DatasetProgram { name: name.to_owned(), category, difficulty, source, inputs, dim })
    }

    fn write_doc(&mut self, category: Category, source: &mut String) {
        let is_output =
            |param: &&GeneratedParameter| param.inputs.iter().all(|input| matches!(input.values, InputValues::Zeros));
        let (outputs, inputs): (Vec<&GeneratedParameter>, Vec<&GeneratedParameter>) =
            self.params.iter().partition(is_output);
        let outputs: Vec<&str> = outputs.into_iter().map(GeneratedParameter::name).collect();
        let inputs: Vec<ReadParameter<'_>> = inputs.into_iter().map(GeneratedParameter::given).collect();
        let elements: Vec<(&str, &str)> = match category {
            Category::Composite => Vec::new(),
            _ => self.variables.iter().filter_map(|variable| variable.element()).collect(),
        };
        for sentence in &mut self.doc {
            if sentence.text.contains('.') {
                sentence.text = words::without_package(&sentence.text);
            }
            for (name, element) in &elements {
                words::with_one_form(&mut sentence.text, name, element);
            }
        }
        let given = self.summary.take();
        let subject =
            DocSubject { category, inputs: &inputs, outputs: &outputs, indices: &self.indices, lines: &self.lines };
        let (line, rest) = docstring::body(&mut self.random, &subject, given, &self.doc);
        let line = line.unwrap_or_else(|| {
            let functions: Vec<&str> = self.items.iter().filter_map(|item| function_of(item)).collect();
            let line = docstring::summary(&mut self.random, &subject, &functions);
            match self.by_column {
                true => line.replace("each row of", "each column of").replace("the rows of", "the columns of"),
                false => line,
            }
        });
        if rest.is_empty() {
            let _ = writeln!(source, "    \"\"\"{line}\"\"\"");
            return;
        }
        let is_local = |name: &str, is_of_function: bool| {
            let lines = self.lines.iter().map(String::as_str).chain(self.items.iter().flat_map(|item| item.lines()));
            let mut assigned = lines.filter_map(|line| line.trim_start().split_once(" = "));
            (is_of_function || !self.indices.iter().any(|index| index == name))
                && assigned.any(|(names, _)| names.split(", ").any(|other| other == name))
        };
        let with_one_verb = |sentence: &String| {
            let is_local = |name: &str| is_local(name, sentence.starts_with("In `"));
            docstring::with_one_verb(sentence, self.states, is_local)
        };
        let rest: Vec<String> = rest.iter().map(with_one_verb).collect();
        let _ = writeln!(source, "    \"\"\"{line}\n");
        for line in docstring::laid_out(&rest, LINE - 4) {
            let _ = writeln!(source, "    {line}");
        }
        let _ = writeln!(source, "    \"\"\"");
    }
}

impl GeneratedParameter {
    pub(super) fn name(&self) -> &str {
        self.text.split(':').next().unwrap_or_default()
    }

    /// Returns true if it holds something before the kernel runs.
    fn is_given(&self) -> bool {
        !self.inputs.iter().any(|input| matches!(input.values, InputValues::Zeros))
    }

    fn given(&self) -> ReadParameter<'_> {
        let rank = self.inputs.first().map_or(0, |input| input.shape.len());
        ReadParameter { name: self.name(), rank, is_struct: self.inputs.iter().any(|input| input.name.contains('.')) }
    }
}

/// The name of a function that stands before the kernel.
fn function_of(item: &str) -> Option<&str> {
    let (name, _) = item.split_once("def ")?.1.split_once('(')?;
    item.contains(".func\n").then_some(name)
}

/// The first line of a function, or several if it is too long.
pub(super) fn write_head(name: &str, params: &[String], returned: &str, source: &mut String) {
    let arrow = if returned.is_empty() { String::new() } else { format!(" -> {returned}") };
    let head = format!("def {name}({}){arrow}:", params.join(", "));
    if head.len() <= LINE {
        let _ = writeln!(source, "{head}");
        return;
    }
    let _ = writeln!(source, "def {name}(");
    for param in params {
        let _ = writeln!(source, "    {param},");
    }
    let _ = writeln!(source, "){arrow}:");
}
