//! `inline`: calls become the bodies of what they call.
//!
//! Kernels end up without calls but for big library functions, which back ends compile once. A callee that returns
//! early becomes a `block`, its returns `break`s out of it; `early_exits` then takes most of those blocks apart.

use super::expand_library::take;
use crate::edit::ValueReplacements;
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use polyloom_ir::function::Operands;
use polyloom_ir::interp::MAX_CALL_DEPTH;
use polyloom_ir::op::{Lowering, OpEffect, OpGroup};
use polyloom_ir::{
    CallEffects, Code, Diagnostic, FloatMode, FuncId, Function, Imm, Inst, MAX_REGION_DEPTH, Module, Op, Region,
    RegionData, Scalar, Span, Value,
};
use smallvec::SmallVec;

/// A library function with more instructions stays a call.
const MAX_LIBRARY_INSTS: usize = 24;
/// Like [`MAX_LIBRARY_INSTS`], of functions of floats in a kernel whose float mode is not strict and in the functions it
/// calls, because library functions are strict whatever the kernel is, and only those too small to depend on it may take
/// on its mode.
const MAX_RELAXED_LIBRARY_INSTS: usize = 8;
/// The most instructions a function may come to have by inlining.
const MAX_INSTS: usize = 50_000;
/// The deepest chain of calls; the interpreter's limit too.
const MAX_DEPTH: usize = MAX_CALL_DEPTH;
/// Says how deep regions may nest by inlining. `early_exits` may add more.
const MAX_NESTING: usize = MAX_REGION_DEPTH - 64;

/// Says which functions of the user's stay calls, if they can: pure functions of scalars that do not ask which thread
/// they are in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeptCalls {
    /// None, and none of the library's either, however big.
    NoCalls,
    /// Those for whose derivative other functions stand in, and no others.
    Custom,
    /// None.
    Nothing,
    /// Those that are not to be inlined.
    Marked,
    /// All of them.
    Everything,
}

/// Inlines all calls of `func` but those of big library functions and of what `keep` says.
///
/// In code for the CPU functions of the user's do not stay, because lanes of a group that do not execute a call take
/// part in it with zeros, for which a user's function need not even end.
///
/// The functions it calls, directly or not, are inlined into each other on the way.
///
/// # Errors
///
/// [`Code::Limit`] when the result would be too large, [`Code::Recursion`] when a function calls itself.
pub fn inline(module: &mut Module, func: FuncId, keep: KeptCalls) -> Result<(), Vec<Diagnostic>> {
    let relaxed = module.functions[func].metadata.float_mode != FloatMode::Strict;
    Inliner { relaxed, keep, states: SecondaryMap::new(), kept: SecondaryMap::new() }
        .function(module, func, 0)
        .map_err(|error| vec![*error])
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum InlineState {
    #[default]
    Untouched,
    InProgress,
    Done,
}

struct Inliner {
    /// True if the float mode of what all this becomes part of is not strict.
    relaxed: bool,
    /// Says which of the user's functions stay calls.
    keep: KeptCalls,
    states: SecondaryMap<FuncId, InlineState>,
    /// True if calls of a function stay, and the number of instructions that decided it.
    kept: SecondaryMap<FuncId, Option<CodeSize>>,
}

#[derive(Clone, Copy)]
struct CodeSize {
    n_insts: usize,
    nesting: usize,
    library: bool,
    /// True if it computes with floats, which may be done otherwise in code whose float mode is not strict.
    has_floats: bool,
    /// True if it is a user's function that stays whatever its size.
    own: bool,
}

/// A call to inline or to keep.
struct CallSite {
    callee: FuncId,
    span: Span,
    /// Number of regions it stands in.
    nesting: usize,
}

/// Counts the instructions under `region` and finds the calls; gives how deep regions nest.
fn survey(
    function: &Function,
    region: Region,
    nesting: usize,
    n_insts: &mut usize,
    calls: &mut Vec<CallSite>,
) -> usize {
    let mut deepest = nesting;
    for &inst in &function.regions[region].insts {
        let data = &function.insts[inst];
        *n_insts += 1;
        if let Imm::Func(callee) = data.imm {
            calls.push(CallSite { callee, span: data.span, nesting });
        }
        for &inner in &data.regions {
            deepest = deepest.max(survey(function, inner, nesting + 1, n_insts, calls));
        }
    }
    deepest
}

impl Inliner {
    fn function(&mut self, module: &mut Module, id: FuncId, depth: usize) -> Result<(), Box<Diagnostic>> {
        let function = &module.functions[id];
        let (mut n_insts, mut calls) = (0, Vec::new());
        survey(function, function.body, 1, &mut n_insts, &mut calls);
        if calls.is_empty() {
            self.states[id] = InlineState::Done;
            return Ok(());
        }
        self.states[id] = InlineState::InProgress;
        let relaxed = self.relaxed && !is_library_name(&function.name);
        for &CallSite { callee, span, nesting } in &calls {
            let limit = |message: String, help: &str| {
                let diagnostic = Diagnostic::error(Code::Limit, span, message).help(help);
                Err(Box::new(diagnostic))
            };
            match self.states[callee] {
                InlineState::Done => {}
                InlineState::InProgress => {
                    let message = format!("function `{}` calls itself", module.functions[callee].name);
                    return Err(Box::new(Diagnostic::error(Code::Recursion, span, message).help("use a loop")));
                }
                InlineState::Untouched if depth >= MAX_DEPTH => {
                    let name = &module.functions[callee].name;
                    let message = format!("calls are nested more than {MAX_DEPTH} deep at `{name}`");
                    return limit(message, "let fewer functions call each other");
                }
                InlineState::Untouched => self.function(module, callee, depth + 1)?,
            }
            let size = self.size(module, callee);
            if self.keeps(size, relaxed) {
                continue;
            }
            n_insts = n_insts.saturating_add(size.n_insts);
            let (caller, name) = (&module.functions[id].name, &module.functions[callee].name);
            if n_insts > MAX_INSTS {
                let message = format!("`{caller}` grows beyond {MAX_INSTS} instructions by inlining `{name}`");
                return limit(message, "call it from fewer places, or from a loop");
            }
            if nesting + size.nesting > MAX_NESTING {
                let message =
                    format!("branches and loops nest more than {MAX_NESTING} deep where `{caller}` calls `{name}`");
                return limit(message, "call it from outside some of the branches and loops");
            }
        }
        let mut function = take(module, id);
        let mut rewrite = InlineRewrite { inliner: self, module, relaxed, replaced: ValueReplacements::default() };
        let body = function.body;
        rewrite.region(&mut function, body);
        module.functions[id] = function;
        self.states[id] = InlineState::Done;
        Ok(())
    }

    fn size(&mut self, module: &Module, id: FuncId) -> CodeSize {
        if let Some(size) = self.kept[id] {
            return size;
        }
        let function = &module.functions[id];
        let mut n_insts = 0;
        let nesting = survey(function, function.body, 1, &mut n_insts, &mut Vec::new());
        let can_stay = || {
            function.params().iter().all(|&p| function.ty(p).as_scalar().is_some())
                && CallEffects::of_function(module, id) == OpEffect::Pure
        };
        let is_custom = self.keep == KeptCalls::Custom && (function.gradient.is_some() || function.replay.is_some());
        let library = !matches!(self.keep, KeptCalls::NoCalls | KeptCalls::Custom)
            && n_insts > MAX_RELAXED_LIBRARY_INSTS
            && !function.constraints.inline_always
            && is_library_name(&function.name)
            && can_stay();
        let is_kept = match self.keep {
            KeptCalls::NoCalls | KeptCalls::Custom | KeptCalls::Nothing => false,
            KeptCalls::Marked => function.constraints.inline_never,
            KeptCalls::Everything => true,
        };
        let own = is_custom || is_kept && can_stay() && !asks_for_thread(module, id);
        let mut has_floats = false;
        function.walk(function.body, &mut |_, data| {
            let mut values = data.operands.iter().chain(&data.results);
            has_floats |= values.any(|&value| function.ty(value).as_scalar().is_some_and(Scalar::is_float));
        });
        *self.kept[id].insert(CodeSize { n_insts, nesting, library, has_floats, own })
    }

    fn keeps(&self, size: CodeSize, relaxed: bool) -> bool {
        let limit = if relaxed && size.has_floats { MAX_RELAXED_LIBRARY_INSTS } else { MAX_LIBRARY_INSTS };
        size.own || size.library && size.n_insts > limit
    }
}

/// Returns true if what a function computes depends on the thread.
fn asks_for_thread(module: &Module, id: FuncId) -> bool {
    let function = &module.functions[id];
    let mut asks = false;
    function.walk(function.body, &mut |_, data| {
        asks = asks
            || matches!(data.op.info().group, OpGroup::Index | OpGroup::Gpu)
            || matches!(data.imm, Imm::Func(callee) if asks_for_thread(module, callee));
    });
    asks
}

/// Returns true if a function may be a library function, `sin.f32`, but for one that prints. A user's function could
/// have such a name too; it is then treated as one, which is right for every pure function of scalars.
pub(crate) fn is_library_name(name: &str) -> bool {
    let op = name.split_once('.').and_then(|(op, _)| Op::from_name(op));
    op.is_some_and(|op| op.info().lowering == Lowering::Library && op.info().effect != OpEffect::ReadWrite)
}

struct InlineRewrite<'a> {
    inliner: &'a mut Inliner,
    module: &'a Module,
    relaxed: bool,
    replaced: ValueReplacements,
}

impl InlineRewrite<'_> {
    fn region(&mut self, func: &mut Function, region: Region) {
        let capacity = func.regions[region].insts.len();
        let insts = std::mem::replace(&mut func.regions[region].insts, Vec::with_capacity(capacity));
        for inst in insts {
            self.replaced.apply(&mut func.insts[inst].operands);
            if let Imm::Func(callee) = func.insts[inst].imm {
                let size = self.inliner.size(self.module, callee);
                if !self.inliner.keeps(size, self.relaxed) {
                    let callee = &self.module.functions[callee];
                    splice(func, region, inst, callee, &mut self.replaced);
                    continue;
                }
            }
            func.regions[region].insts.push(inst);
            for index in 0..func.insts[inst].regions.len() {
                self.region(func, func.insts[inst].regions[index]);
            }
        }
    }
}

/// Appends the body of `callee`, called by `call`, to `region`.
fn splice(func: &mut Function, region: Region, call: Inst, callee: &Function, replaced: &mut ValueReplacements) {
    let mut copy = BodyCopy {
        callee,
        func,
        call,
        values: vec![PackedOption::default(); callee.values.len()],
        insts: vec![PackedOption::default(); callee.insts.len()],
    };
    let arguments = std::mem::take(&mut copy.func.insts[call].operands);
    for (&param, &argument) in callee.params().iter().zip(&arguments) {
        copy.values[param.as_u32() as usize] = argument.into();
    }
    let mut n_returns = 0;
    callee.walk(callee.body, &mut |_, data| n_returns += usize::from(data.op == Op::Return));
    let returns_last = callee.terminator(callee.body).is_some_and(|inst| callee.insts[inst].op == Op::Return);
    if returns_last && n_returns == 1 {
        let (_, body) = split_terminator(callee);
        for &inst in body {
            copy.inst(inst, region);
        }
        let results = copy.returned();
        for (index, value) in results.into_iter().enumerate() {
            replaced.set(func.insts[call].results[index], value);
        }
        return;
    }
    // The call becomes the block, so that its results stay the values they are.
    let body = copy.func.regions.push(RegionData::default());
    copy.region(callee.body, body);
    if returns_last && let Some(&last) = copy.func.regions[body].insts.last() {
        // The outermost return is the block's own end.
        copy.func.insts[last].op = Op::Yield;
        copy.func.insts[last].imm = Imm::None;
    }
    let data = &mut func.insts[call];
    data.op = Op::Block;
    data.imm = Imm::None;
    data.regions.push(body);
    func.regions[region].insts.push(call);
}

/// The terminator of a function's body and what stands before it.
fn split_terminator(function: &Function) -> (Option<Inst>, &[Inst]) {
    match function.regions[function.body].insts.split_last() {
        Some((&last, rest)) => (Some(last), rest),
        None => (None, &[]),
    }
}

struct BodyCopy<'a> {
    callee: &'a Function,
    func: &'a mut Function,
    /// The block that returns leave.
    call: Inst,
    values: Vec<PackedOption<Value>>,
    insts: Vec<PackedOption<Inst>>,
}

impl BodyCopy<'_> {
    fn value(&self, value: Value) -> Value {
        // Every operand of verified HIR is defined, and hence copied, before its use.
        self.values[value.as_u32() as usize].unwrap()
    }

    fn returned(&self) -> Operands {
        let Some(last) = split_terminator(self.callee).0 else { return Operands::new() };
        self.callee.insts[last].operands.iter().map(|&v| self.value(v)).collect()
    }

    fn region(&mut self, from: Region, to: Region) {
        let callee = self.callee;
        self.func.regions[to].insts.reserve(callee.regions[from].insts.len());
        for &inst in &callee.regions[from].insts {
            self.inst(inst, to);
        }
    }

    fn inst(&mut self, inst: Inst, to: Region) {
        let callee = self.callee;
        let data = &callee.insts[inst];
        let operands: Operands = data.operands.iter().map(|&v| self.value(v)).collect();
        let (op, imm) = match (data.op, &data.imm) {
            (Op::Return, _) => (Op::Break, Imm::Target(self.call)),
            (op, Imm::Target(target)) => (op, Imm::Target(self.insts[target.as_u32() as usize].unwrap())),
            (op, imm) => (op, imm.clone()),
        };
        let types: SmallVec<[_; 4]> = data.results.iter().map(|&v| callee.ty(v)).collect();
        let new = self.func.make_inst(op, operands, &types, imm, data.span);
        self.insts[inst.as_u32() as usize] = new.into();
        for index in 0..data.results.len() {
            let copied = self.func.insts[new].results[index];
            self.map(data.results[index], copied);
        }
        self.func.regions[to].insts.push(new);
        for &region in &data.regions {
            let copied = self.func.regions.push(RegionData::default());
            self.func.insts[new].regions.push(copied);
            for &param in &callee.regions[region].params {
                let value = self.func.add_region_param(copied, callee.ty(param));
                self.map(param, value);
            }
            self.region(region, copied);
        }
    }

    fn map(&mut self, from: Value, to: Value) {
        self.values[from.as_u32() as usize] = to.into();
        if let Some(name) = &self.callee.value_names[from] {
            self.func.value_names[to] = Some(name.clone());
        }
    }
}
