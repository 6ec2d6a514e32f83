//! `polyloom fuse explain`: which calls of a tensor function run as one kernel, and why the others do not.

use crate::{CommandFailure, Outcome, print, print_json};
use polyloom::diagnostic::render;
use polyloom::frontend::capture::{
    CapturedFunction, FileCaptureEnvironment, NumpyCapture, OpCatalogue, TensorOpFacts, capture, capture_numpy,
};
use polyloom::graph::TensorOp;
use polyloom::graph::op::TensorKernelKind;
use polyloom::{SourceFile, SourceUnit};
use std::fmt::Write as _;
use std::io::IsTerminal;

#[derive(clap::Subcommand)]
pub(crate) enum FuseCommand {
    /// Say which `ops.*` calls of a function run as one kernel, and which statements end the chains
    Explain(FuseExplainArguments),
}

#[derive(clap::Args)]
pub(crate) struct FuseExplainArguments {
    /// A .py file and the name of a function in it
    #[arg(value_name = "FILE:FUNCTION")]
    function: String,
    /// Capture NumPy's functions, operators and methods, too, as is done where the decorator says `@loom.fuse(numpy=True)`
    #[arg(long)]
    numpy: bool,
    /// Print calls, groups and breaks as JSON
    #[arg(long)]
    json: bool,
}

/// The ops of `polyloom.ops`, with the facts that the op table has of them.
pub struct TensorOpCatalogue;

impl OpCatalogue for TensorOpCatalogue {
    fn op(&self, path: &str) -> Option<TensorOpFacts> {
        // A kernel of the program as an op, which a program that runs has under a path of this form.
        if path.starts_with("<kernel>.") {
            return Some(TensorOpFacts::PURE);
        }
        let name = path.strip_prefix("polyloom.ops.").or_else(|| path.strip_prefix("warp.ops."))?;
        let op = TensorOp::from_name(name).ok()?;
        // No other op gives its argument, or a part of it: a result that would be one is copied.
        Some(if op.info().kind == TensorKernelKind::View { TensorOpFacts::VIEW } else { TensorOpFacts::PURE })
    }
}

pub(crate) fn run(command: &FuseCommand) -> Outcome {
    let FuseCommand::Explain(arguments) = command;
    let Some((path, name)) =
        arguments.function.rsplit_once(':').filter(|(path, name)| !path.is_empty() && !name.is_empty())
    else {
        let message = format!("`{}` is no FILE:FUNCTION, such as `model.py:forward`", arguments.function);
        return Err(CommandFailure::Usage(message));
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| CommandFailure::Failed(format!("cannot read {path}: {error}")))?;
    let unit = SourceUnit::parse(SourceFile::new(path, text, 1))?;
    // `Class.method` names a method by its last part.
    let name = name.rsplit('.').next().unwrap_or(name);
    // As at the end of the file: the last of the module's own functions, then the last of those inside of others.
    let last = |inner: bool| {
        unit.functions().iter().rposition(|each| &*each.name == name && (inner || each.enclosing.is_empty()))
    };
    let found = last(false).or_else(|| last(true));
    let captured = found.and_then(|index| {
        let environment = FileCaptureEnvironment::new(&unit, index);
        match arguments.numpy || NumpyCapture::is_asked_for(&unit, index) {
            true => capture_numpy(&unit, index, environment, &TensorOpCatalogue, &NumpyCapture::of_text(&unit, index)),
            false => capture(&unit, index, environment, &TensorOpCatalogue),
        }
    });
    let Some(captured) = captured else {
        let names: Vec<&str> = unit.functions().iter().map(|function| &*function.name).collect();
        let near = polyloom::diagnostic::near_names(name, names.iter().copied());
        let help = match (near.first(), names.is_empty()) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, false) => format!("it has {}", names.join(", ")),
            (None, true) => "it has none".to_owned(),
        };
        return Err(CommandFailure::Failed(format!("{path} has no function `{name}`: {help}")));
    };
    if arguments.json {
        return print_json(&captured.report());
    }
    print(explanation(&captured, std::io::stdout().is_terminal()).as_bytes())
}

/// Writes the groups, and each break with its statement.
pub fn explanation(captured: &CapturedFunction, color: bool) -> String {
    let report = captured.report();
    let mut text = String::new();
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let (n_calls, n_groups) = (report.calls.len(), report.groups.len());
    let _ = writeln!(text, "{}: {}, {}", report.function, count(n_calls, "call"), count(n_groups, "group"));
    if report.incomplete {
        text.push_str("  the function is too large to analyse, and runs as it is: split it\n");
    }
    for (index, (group, moments)) in report.groups.iter().zip(&report.exec_at).enumerate() {
        let calls: Vec<String> =
            group.iter().map(|&call| format!("{} (line {})", report.labels[call], report.lines[call])).collect();
        let _ = write!(text, "  group {index}: {}", calls.join(", "));
        match moments.as_deref() {
            Some(["first"]) => text.push_str("; runs at its first call\n"),
            Some(["last"]) => text.push_str("; runs at its last call\n"),
            Some(_) => text.push_str("; runs at its first or its last call\n"),
            None => text.push('\n'),
        }
    }
    if n_calls == 0 && !report.incomplete && !captured.has_numpy {
        text.push_str(
            "  it calls no `ops.*`: NumPy's own functions and operators are captured by `@loom.fuse(numpy=True)`\n",
        );
    }
    for each in &report.left_calls {
        let _ = writeln!(text, "  {} (line {}) stays Python, {}", each.label, each.line, each.reason);
    }
    for each in &captured.breaks {
        text.push('\n');
        text.push_str(&render(&each.diagnostic(), &captured.sources, color));
    }
    text
}
