//! Fusion of kernels: several launches over the same threads become one launch of one kernel.
//!
//! Thread `t` of the fused kernel does what thread `t` of each part does, one part after the other, so that it saves the
//! launches between them, and loads of what it has just stored. That is the same if what one part writes and another
//! accesses is, element by element, the business of one thread: [`ownership`] decides it. What a launch knows and HIR
//! does not, which arrays are one memory and how many threads there are, comes from the caller.
//!
//! Design: `docs/design/plans.md`.

mod ownership;
mod part;
mod registers;

pub use ownership::{ArrayUse, AxisIndex, array_uses};
pub use part::LaunchPart;

use crate::pipeline::extract;
use crate::transform::inline;
use polyloom_ir::op::OpGroup;
use polyloom_ir::{Builder, FileId, FuncId, Function, FunctionKind, Imm, Module, Op, SourceMap, Span, Type};
use registers::max_live_words;
use smallvec::SmallVec;
use std::collections::HashSet;
use std::sync::Arc;

/// Most 32-bit words that a thread of a fused kernel may hold at a time. A GPU has 255 registers for a thread, and with
/// half of them still runs half as many threads as it can.
const MAX_LIVE_WORDS: u32 = 128;
/// Most instructions of a fused kernel: beyond that it is optimised late or never.
const MAX_INSTS: usize = 2_000;

/// A kernel to be fused with others.
#[derive(Clone, Copy, Debug)]
pub struct FusedPart<'a> {
    /// Its module.
    pub module: &'a Module,
    /// The kernel.
    pub kernel: FuncId,
    /// The files that spans of the module point into.
    pub sources: &'a SourceMap,
    /// For each of its parameters, which parameter of the fused kernel it is.
    pub params: &'a [usize],
}

/// The facts that decide about a kernel, whatever its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FusionFacts {
    /// The reason for which it is launched by itself.
    pub refusal: Option<&'static str>,
    /// Its accesses of its parameters; empty if it is launched by itself.
    pub uses: Vec<ArrayUse>,
}

impl FusionFacts {
    /// Finds them out.
    pub fn of(module: &Module, kernel: FuncId) -> FusionFacts {
        let refusal = refusal(module, kernel);
        let uses = if refusal.is_none() { array_uses(module, kernel) } else { Vec::new() };
        FusionFacts { refusal, uses }
    }
}

/// Returns why a kernel is launched by itself, whatever stands beside it; nothing if it need not be.
pub fn refusal(module: &Module, kernel: FuncId) -> Option<&'static str> {
    let function = &module.functions[kernel];
    if function.metadata.check {
        return Some("it is compiled with checks, and a failed one ends the launch");
    }
    let needs_blocks = module.reachable(kernel).into_iter().any(|id| module.functions[id].needs_blocks());
    match (prints(module, kernel), needs_blocks || function.metadata.by_block) {
        (_, true) => Some("its threads run in blocks"),
        (true, _) => Some("it prints, in the order of its threads"),
        _ => None,
    }
}

/// Returns true if a kernel, or what it calls, prints.
pub fn prints(module: &Module, kernel: FuncId) -> bool {
    // Asserts are no output, and no code in a kernel without checks.
    let is_output = |op: Op| op.info().group == OpGroup::Debug && !matches!(op, Op::Assert | Op::Check);
    module.reachable(kernel).into_iter().any(|id| {
        let function = &module.functions[id];
        let mut prints = false;
        function.walk(function.body, &mut |_, data| prints |= is_output(data.op));
        prints
    })
}

/// Returns why two kernels cannot be compiled as one; nothing if they can.
pub fn conflict(first: &Function, second: &Function) -> Option<&'static str> {
    let (a, b) = (&first.metadata, &second.metadata);
    if a.float_mode != b.float_mode {
        return Some("their arithmetic modes differ");
    }
    let limits = |function: &Function| {
        let metadata = &function.metadata;
        (metadata.launch_bounds, metadata.max_registers, metadata.workgroup_size, metadata.backward)
    };
    if limits(first) != limits(second) || first.constraints != second.constraints {
        return Some("what their decorators ask for differs");
    }
    None
}

/// A kernel that does, in each thread, what the kernels of several parts do, in order, and the files that its spans point
/// into, so that what is found in it is said of the part's source; nothing if it would be too large: in instructions, or
/// in what a thread holds at a time.
///
/// # Panics
///
/// If a part maps no parameter to one of the fused kernel's, or two of different types to the same.
pub fn fuse(name: &str, parts: &[FusedPart<'_>]) -> Option<(Module, FuncId, SourceMap)> {
    let n_params = parts.iter().flat_map(|part| part.params).max().map_or(0, |&last| last + 1);
    let mut params: Vec<Option<(Arc<str>, Type)>> = vec![None; n_params];
    let mut names = HashSet::new();
    for part in parts {
        let function = &part.module.functions[part.kernel];
        for ((&value, name), &to) in function.params().iter().zip(&function.param_names).zip(part.params) {
            let ty = function.ty(value);
            match &params[to] {
                Some((_, known)) => assert_eq!(*known, ty, "one array has one type"),
                None => params[to] = Some((unused_name(&mut names, name), ty)),
            }
        }
    }
    let params: Vec<(Arc<str>, Type)> =
        params.into_iter().map(|param| param.expect("each parameter is one of a part's")).collect();

    let mut module = Module::new();
    let mut sources = SourceMap::new();
    let mut functions = HashSet::from([Arc::from(name)]);
    let mut append_part = |part: &FusedPart<'_>| {
        let files = sources.merge(part.sources);
        append(&mut module, part.module, part.kernel, &files, &mut functions)
    };
    let callees: SmallVec<[FuncId; 4]> = parts.iter().map(&mut append_part).collect();
    let typed = params.iter().map(|(name, ty)| (&**name, *ty));
    let mut fused = Function::new(name, FunctionKind::Kernel, typed, &[]);
    if let Some(first) = parts.first() {
        let first = &first.module.functions[first.kernel];
        fused.metadata = first.metadata.clone();
        fused.metadata.kind = Default::default();
        fused.constraints = first.constraints.clone();
    }
    // Code for GPUs has a table of lines if the kernel itself is in some source.
    fused.span = callees.first().map_or(Span::NONE, |&first| module.functions[first].span);
    let values: Vec<_> = fused.params().to_vec();
    let mut builder = Builder::new(&mut fused);
    for (part, &callee) in parts.iter().zip(&callees) {
        let operands: Vec<_> = part.params.iter().map(|&to| values[to]).collect();
        builder.inst(Op::Call, &operands, &[], Imm::Func(callee));
    }
    builder.inst(Op::Return, &[], &[], Imm::None);
    let kernel = module.functions.push(fused);
    is_small(&module, kernel).then_some((module, kernel, sources))
}

/// Appends a kernel, as a function, with all that it calls. `files` are the files of its spans as those of `into` have
/// them.
fn append(into: &mut Module, from: &Module, kernel: FuncId, files: &[FileId], names: &mut HashSet<Arc<str>>) -> FuncId {
    let located = |span: Span| match files.get(span.file.as_u32() as usize) {
        Some(&file) => Span { file, ..span },
        None => Span::NONE,
    };
    let (from, kernel) = extract(from, kernel);
    let first = into.functions.len() as u32;
    let moved = |id: FuncId| FuncId::from_u32(first + id.as_u32());
    for (id, function) in &from.functions {
        let mut function = function.clone();
        // The library's functions are added by their names, later.
        function.name = unused_name(names, &function.name);
        if id == kernel {
            function.kind = FunctionKind::Func;
        }
        function.span = located(function.span);
        function.gradient = function.gradient.map(moved);
        function.replay = function.replay.map(moved);
        for data in function.insts.values_mut() {
            data.span = located(data.span);
            if let Imm::Func(callee) = &mut data.imm {
                *callee = moved(*callee);
            }
        }
        into.functions.push(function);
    }
    moved(kernel)
}

fn unused_name(names: &mut HashSet<Arc<str>>, name: &Arc<str>) -> Arc<str> {
    let numbered = (2..).map(|number| Arc::from(format!("{name}_{number}")));
    let unused = std::iter::once(name.clone()).chain(numbered).find(|name| !names.contains(name));
    let unused = unused.unwrap_or_else(|| name.clone());
    names.insert(unused.clone());
    unused
}

/// Tells whether a fused kernel is small enough in instructions and in what a thread holds at a time.
fn is_small(module: &Module, kernel: FuncId) -> bool {
    let (mut copy, id) = extract(module, kernel);
    if inline::inline(&mut copy, id, inline::KeptCalls::NoCalls).is_err() {
        return false;
    }
    let function = &copy.functions[id];
    let mut n_insts = 0;
    function.walk(function.body, &mut |_, _| n_insts += 1);
    n_insts <= MAX_INSTS && max_live_words(function) <= MAX_LIVE_WORDS
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyloom_ir::{SourceFile, parse_module, verify_module};

    fn parsed(text: &str) -> (Module, FuncId) {
        let module = parse_module(text, FileId::from_u32(0)).expect("the text is HIR");
        let kernel = module.find("k").expect("it has a kernel `k`");
        (module, kernel)
    }

    fn sources(name: &str, text: &str) -> SourceMap {
        let mut sources = SourceMap::new();
        sources.add(SourceFile::new(name, text, 1));
        sources
    }

    #[test]
    fn parts_become_calls_in_order_with_names_of_their_own() {
        let (first, k1) = parsed(
            "func @f(%0 v: f32) -> (f32) {
              %1: f32 = add %0, %0
              return %1
            }
            kernel @k(%0 x: array<f32, 1>, %1 y: array<f32, 1>) {
              %2: i32 = tid 0
              %3: f32 = array_load %0, %2
              %4: f32 = call @f %3
              array_store %1, %2, %4
              return
            }",
        );
        let none = SourceMap::new();
        let parts = [
            FusedPart { module: &first, kernel: k1, sources: &none, params: &[0, 1] },
            FusedPart { module: &first, kernel: k1, sources: &none, params: &[1, 2] },
        ];
        let (module, kernel, _) = fuse("k+k", &parts).expect("they are small");
        verify_module(&module).expect("the fused kernel is valid");
        let names: Vec<&str> = module.functions.values().map(|function| &*function.name).collect();
        assert_eq!(names, ["k", "f", "k_2", "f_2", "k+k"]);
        let fused = &module.functions[kernel];
        let params: Vec<&str> = fused.param_names.iter().map(|name| &**name).collect();
        assert_eq!(params, ["x", "y", "y_2"]);
    }

    #[test]
    fn spans_are_those_of_the_parts_in_their_files() {
        let text = |name: &str| {
            format!(
                "kernel @k(%0 {name}: array<f32, 1>) {{\n%1: i32 = tid 0\n%2: f32 = array_load %0, %1\narray_store %0, %1, %2\nreturn\n}}"
            )
        };
        let (first, second) = (text("x"), text("y"));
        let ((a, k), (b, l)) = (parsed(&first), parsed(&second));
        let (of_a, of_b) = (sources("a.hir", &first), sources("b.hir", &second));
        let parts = [
            FusedPart { module: &a, kernel: k, sources: &of_a, params: &[0] },
            FusedPart { module: &b, kernel: l, sources: &of_b, params: &[1] },
            FusedPart { module: &a, kernel: k, sources: &of_a, params: &[2] },
        ];
        let (module, _, sources) = fuse("k+k+k", &parts).expect("they are small");
        let mut stores = Vec::new();
        for function in module.functions.values() {
            function.walk(function.body, &mut |_, data| {
                if data.op == Op::ArrayStore {
                    let (file, position) = sources.locate(data.span).expect("it has a place");
                    stores.push(format!("{file}:{}", position.line));
                }
            });
        }
        assert_eq!(stores, ["a.hir:4", "b.hir:4", "a.hir:4"]);
    }

    #[test]
    fn kernels_that_print_or_run_in_blocks_stay_by_themselves() {
        let (module, kernel) = parsed("kernel @k(%0 n: i32) {\nprint \"%d\" %0\nreturn\n}");
        assert_eq!(refusal(&module, kernel), Some("it prints, in the order of its threads"));
        let (module, kernel) = parsed("kernel @k(%0 n: i32) {\nsync_threads\nreturn\n}");
        assert_eq!(refusal(&module, kernel), Some("its threads run in blocks"));
        let (module, kernel) = parsed("kernel @k(%0 n: i32) {\nreturn\n}");
        assert_eq!(refusal(&module, kernel), None);
    }
}
