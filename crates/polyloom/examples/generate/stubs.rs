//! The text of the Python type stubs. A test includes this file too: it compares the stubs with the package's.

use super::functions::{FUNCTIONS, Origin};
use polyloom::graph::TensorOp;
use polyloom::tensor_op::{dtype_rule_text, parameters_of, shape_rule_text, stub_signature, summary_of};
use polyloom_ir::op::{ExampleLine, OpGroup, OpInfo, Signature, TyPattern};
use polyloom_ir::{Composite, CompositeKind, MAX_DIMS, Op, Scalar};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Every stub file: its name in the package and its text.
pub(crate) fn all() -> [(&'static str, String); 3] {
    [("_builtins.pyi", stubs()), ("_composite_names.pyi", name_stubs()), ("ops.pyi", op_stubs())]
}

/// The functions of `polyloom.ops`.
fn op_stubs() -> String {
    let mut text = String::from(
        "# Generated from the table of tensor ops by `make stubs`.\n\
         from collections.abc import Sequence\n\
         from typing import Any\n\n\
         # A NumPy array or number, a polyloom.array, a PyTorch tensor, or a Python number.\n\
         TensorLike = Any\n",
    );
    let mut names: Vec<&str> = Vec::new();
    for info in TensorOp::all() {
        let signature = stub_signature(&parameters_of(info));
        for name in std::iter::once(&info.name).chain(info.aliases) {
            let (summary, shape, dtype) =
                (summary_of(info), shape_rule_text(info.shape_rule), dtype_rule_text(info.dtype_rule));
            let _ = write!(
                text,
                "\ndef {name}{signature}:\n    \"\"\"{summary}\n\n    Shape: {shape}\n    Element type: {dtype}\n    \"\"\"\n"
            );
            names.push(name);
        }
    }
    // The one function that has two results.
    text.push_str(
        "\ndef topk(x: TensorLike, k: int, axis: int = -1, largest: bool = True) -> tuple[Any, Any]:\n    \
         \"\"\"The ``k`` largest elements along an axis, or smallest, in order, and their indices.\n\n    \
         Shape: The shape of `x` with `k` elements along `axis`.\n    Element type: That of `x`; int64 of indices.\n    \
         \"\"\"\n",
    );
    names.push("topk");
    let exported = exported(&names);
    text + &exported
}

/// The ops that kernels can name.
pub(crate) fn builtins() -> impl Iterator<Item = &'static OpInfo> {
    Op::all().filter(|info| info.is_builtin())
}

/// A doc comment's lines as one paragraph.
pub(crate) fn paragraph(doc: &str) -> String {
    doc.lines().map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned()
}

fn stubs() -> String {
    let mut text = String::from(
        "# Generated from the op table by `make stubs`.\n\
         from typing import Any, TypeVar, overload\n\n\
         from polyloom._arrays import array as _array\n\
         from polyloom._composites import Composite as _Composite\n\
         from polyloom._composites import Matrix as _Matrix\n\
         from polyloom._composites import Quaternion as _Quaternion\n\
         from polyloom._composites import Transformation as _Transformation\n\
         from polyloom._composites import Vector as _Vector\n\n\
         T = TypeVar(\"T\")\n\
         U = TypeVar(\"U\")\n\
         C = TypeVar(\"C\", bound=_Composite)\n\
         V = TypeVar(\"V\", bound=_Vector)\n\
         M = TypeVar(\"M\", bound=_Matrix)\n\
         Q = TypeVar(\"Q\", bound=_Quaternion)\n\
         X = TypeVar(\"X\", bound=_Transformation)\n",
    );
    for function in FUNCTIONS.iter().filter(|function| function.origin == Origin::Kernels) {
        let _ = write!(text, "\ndef {}{}:\n    \"\"\"{}\n\n", function.name, function.signature, function.doc);
        write_example(&mut text, function.example);
    }
    for info in builtins() {
        // Editors know the overload for scalars, if there is one, because its type variables stand for composites too.
        let only_composites = info.signatures.iter().all(Signature::has_composites);
        let known = info.signatures.iter().filter(|signature| only_composites || !signature.has_composites());
        let mut variants: Vec<String> = known.flat_map(|signature| stub_signatures(info, signature)).collect();
        variants.dedup();
        variants.extend(own_signature(info.op).map(str::to_owned));
        for name in std::iter::once(&info.name).chain(info.aliases) {
            for (index, variant) in variants.iter().enumerate() {
                let overload = if variants.len() > 1 { "@overload\n" } else { "" };
                let doc = paragraph(info.doc);
                let _ = write!(text, "\n{overload}def {name}{variant}:\n    \"\"\"{doc}");
                if index > 0 {
                    text.push_str("\"\"\"\n");
                    continue;
                }
                text.push_str("\n\n");
                write_example(&mut text, &info.example);
            }
        }
    }
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("def ")?.split('(').next()).collect();
    let exported = exported(&names);
    text + &exported
}

/// The example that ends a docstring.
fn write_example(text: &mut String, example: &[ExampleLine]) {
    for line in ExampleLine::session(example).replace('\\', "\\\\").lines() {
        let _ = writeln!(text, "    {line}");
    }
    text.push_str("    \"\"\"\n");
}

/// The names that `import *` brings, because type checkers want them written out.
fn exported(names: &[&str]) -> String {
    let mut names: Vec<String> = names.iter().map(|name| format!("    \"{name}\",\n")).collect();
    names.sort();
    names.dedup();
    format!("\n__all__ = [\n{}]\n", names.concat())
}

/// A signature as Python spells it; one per rank where it takes an index per dimension.
fn stub_signatures(info: &OpInfo, signature: &Signature) -> Vec<String> {
    let ranks = if signature.params.iter().any(|p| p.ty == TyPattern::Indices) { 1..=MAX_DIMS } else { 1..=1 };
    let one = |rank: usize| {
        let mut params = Vec::new();
        for param in &signature.params {
            if param.ty == TyPattern::Indices {
                params.extend((0..rank).map(|axis| format!("{}: int", ["i", "j", "k", "l"][axis])));
            } else {
                params.push(format!("{}: {}", param.name, stub_type(signature, param.ty)));
            }
        }
        params.extend(beyond_operands(info).iter().map(|param| (*param).to_owned()));
        let results: Vec<&str> = signature.results.iter().map(|&ty| stub_type(signature, ty)).collect();
        let result = match results[..] {
            [] => "None".to_owned(),
            [one] => one.to_owned(),
            _ => format!("tuple[{}]", results.join(", ")),
        };
        format!("({}) -> {result}", params.join(", "))
    };
    ranks.map(one).collect()
}

/// The signature of an op whose types the table does not say.
fn own_signature(op: Op) -> Option<&'static str> {
    Some(match op {
        Op::SharedArray => "(shape: Any, dtype: Any = ..., align: int = ...) -> _array",
        Op::DynamicShared => "(shape: Any, dtype: Any = ..., offset: int = ...) -> _array",
        Op::MmaLoadA => "(array: _array, row: int, col: int, *, layout: str = ...) -> _Vector",
        Op::MmaLoadB | Op::MmaLoadC => {
            "(array: _array, row: int, col: int, *, layout: str = ..., n: int = ...) -> _Vector"
        }
        Op::MmaStore => "(array: _array, row: int, col: int, value: _Vector, *, layout: str = ...) -> None",
        Op::AsyncCopy => "(target: Any, source: Any, count: int = ..., cache: str = ...) -> None",
        _ => return None,
    })
}

/// Returns what a call says that is no operand of the op.
fn beyond_operands(info: &OpInfo) -> &'static [&'static str] {
    match info.op {
        Op::SyncThreads => &["id: int = ...", "count: int = ..."],
        Op::ThreadIdx | Op::BlockIdx | Op::BlockDim | Op::GridDim => &["axis: int = ..."],
        Op::Shuffle | Op::ShuffleUp | Op::ShuffleDown | Op::ShuffleXor => &["width: int = ..."],
        Op::AsyncWait => &["pending: int = ..."],
        Op::ThreadFence => &["scope: str = ..."],
        _ if info.group == OpGroup::Atomic => &["*", "scope: str = ...", "order: str = ..."],
        _ => &[],
    }
}

fn stub_type(signature: &Signature, pattern: TyPattern) -> &'static str {
    // A composite type that recurs in a signature is one type; the type of its components shows nowhere in it.
    let types = signature.params.iter().map(|param| param.ty).chain(signature.results.iter().copied());
    let recurs = types.filter(|&ty| ty == pattern).count() > 1 && signature.params.iter().any(|p| p.ty == pattern);
    let named = |recurring, once| if recurs { recurring } else { once };
    match pattern {
        TyPattern::Var if signature.has_composites() => "float",
        // The type of an array's elements, which its own type does not say.
        TyPattern::Var if signature.params.iter().all(|param| param.ty != pattern) => "Any",
        TyPattern::Var => "T",
        TyPattern::Var2 => "U",
        TyPattern::Is(Scalar::Bool) => "bool",
        TyPattern::Is(scalar) if scalar.is_float() => "float",
        TyPattern::Is(_) | TyPattern::Indices => "int",
        TyPattern::ArrayOfVar
        | TyPattern::ListOfVar
        | TyPattern::ArrayOf(_)
        | TyPattern::ArrayOfComposite
        | TyPattern::ArrayOfComponents => "_array",
        TyPattern::Composite => named("C", "_Composite"),
        TyPattern::Vector(_) => named("V", "_Vector"),
        TyPattern::VectorOf(..) => "_Vector",
        TyPattern::Matrix(..) => named("M", "_Matrix"),
        TyPattern::Quaternion => named("Q", "_Quaternion"),
        TyPattern::Transform => named("X", "_Transformation"),
    }
}

fn name_stubs() -> String {
    let mut text = String::from(
        "# Generated from the compiler's types by `make stubs`.\n\
         from polyloom._composites import Matrix, Quaternion, Transformation, Vector\n",
    );
    let mut known: BTreeMap<Composite, String> = BTreeMap::new();
    for (name, composite) in Composite::named() {
        let class = match composite.kind() {
            CompositeKind::Vector => "Vector",
            CompositeKind::Matrix => "Matrix",
            CompositeKind::Quaternion => "Quaternion",
            CompositeKind::Transform => "Transformation",
        };
        let _ = match known.get(&composite) {
            Some(first) => writeln!(text, "\n{name} = {first}"),
            None => writeln!(text, "\nclass {name}({class}): ..."),
        };
        known.entry(composite).or_insert(name);
    }
    let names: Vec<String> = Composite::named().map(|(name, _)| name).collect();
    text + &exported(&names.iter().map(String::as_str).collect::<Vec<_>>())
}
