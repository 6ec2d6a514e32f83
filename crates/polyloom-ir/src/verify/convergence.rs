//! Invariant 26: barriers and warp operations are reached by all their threads together.

use crate::analysis::effects::ArrayWrites;
use crate::analysis::uniformity::{ThreadScope, Uniformity, UniformityContext, ValueShape};
use crate::diagnostic::{Code, Diagnostic};
use crate::entity::{FuncId, Inst, Region};
use crate::function::{Function, FunctionKind, Imm, Module, ValueDef};
use crate::op::{Convergence, Op, OpGroup};
use crate::span::Span;
use crate::types::Type;
use cranelift_entity::SecondaryMap;

/// Returns what is wrong with where a valid module has barriers and warp operations.
pub fn check_convergence(module: &Module) -> Vec<Diagnostic> {
    let is_gpu = |function: &Function| function.insts.values().any(|data| data.op.info().group == OpGroup::Gpu);
    if !module.functions.values().any(is_gpu) {
        return Vec::new();
    }
    let mut errors = Vec::new();
    let mut needs = SecondaryMap::new();
    for id in module.functions.keys() {
        convergence_of(module, id, &mut needs);
    }
    let writes = ArrayWrites::of_module(module);
    for (id, function) in &module.functions {
        if function.kind != FunctionKind::Kernel {
            continue;
        }
        let order = callers_first(module, id);
        for threads in [ThreadScope::Block, ThreadScope::Warp] {
            let mut check = ConvergenceCheck { module, writes: &writes, needs: &needs, threads, errors: &mut errors };
            check.kernel(&order, function.metadata.workgroup_size);
        }
    }
    errors.sort_by_key(|error| (error.span.file.as_u32(), error.span.start));
    errors.dedup();
    errors
}

/// Returns what executing a function takes, calls included; known at the end for all that it calls.
fn convergence_of(module: &Module, id: FuncId, known: &mut SecondaryMap<FuncId, Option<Convergence>>) -> Convergence {
    if let Some(convergence) = known[id] {
        return convergence;
    }
    let mut most = Convergence::None;
    let mut callees = Vec::new();
    let function = &module.functions[id];
    function.walk(function.body, &mut |_, data| {
        most = most.max(data.op.info().convergence);
        if let Imm::Func(callee) = data.imm {
            callees.push(callee);
        }
    });
    for callee in callees {
        most = most.max(convergence_of(module, callee, known));
    }
    known[id] = Some(most);
    most
}

/// The kernel and what it calls, each behind all its callers.
fn callers_first(module: &Module, kernel: FuncId) -> Vec<FuncId> {
    fn visit(module: &Module, id: FuncId, visited: &mut SecondaryMap<FuncId, bool>, order: &mut Vec<FuncId>) {
        if std::mem::replace(&mut visited[id], true) {
            return;
        }
        let function = &module.functions[id];
        function.walk(function.body, &mut |_, data| {
            if let Imm::Func(callee) = data.imm {
                visit(module, callee, visited, order);
            }
        });
        order.push(id);
    }
    let mut order = Vec::new();
    visit(module, kernel, &mut SecondaryMap::new(), &mut order);
    order.reverse();
    order
}

/// Describes what is known of a function's parameters, from all calls of it.
#[derive(Clone, Default)]
struct ParamShapes {
    shapes: Vec<ValueShape>,
    /// Arrays that nothing writes while the kernel runs.
    constant: Vec<bool>,
}

impl ParamShapes {
    fn join(&mut self, shapes: Vec<ValueShape>, constant: Vec<bool>) {
        if self.shapes.is_empty() {
            *self = ParamShapes { shapes, constant };
            return;
        }
        for (known, shape) in self.shapes.iter_mut().zip(shapes) {
            if *known != shape {
                *known = ValueShape::Varying;
            }
        }
        self.constant.iter_mut().zip(constant).for_each(|(known, constant)| *known &= constant);
    }
}

/// One kernel, for the threads of its blocks or of its warps.
struct ConvergenceCheck<'a> {
    module: &'a Module,
    writes: &'a ArrayWrites,
    needs: &'a SecondaryMap<FuncId, Option<Convergence>>,
    threads: ThreadScope,
    errors: &'a mut Vec<Diagnostic>,
}

impl ConvergenceCheck<'_> {
    fn kernel(&mut self, order: &[FuncId], block: Option<[u32; 3]>) {
        let mut params: SecondaryMap<FuncId, ParamShapes> = SecondaryMap::new();
        for (index, &id) in order.iter().enumerate() {
            let function = &self.module.functions[id];
            let written = function.written_arrays();
            let mut known = std::mem::take(&mut params[id]);
            if index == 0 {
                known.constant = vec![true; written.len()];
            }
            let constant = |param: usize| known.constant.get(param).copied().unwrap_or(false);
            let uniformity = Uniformity::of(
                function,
                &UniformityContext {
                    params: &known.shapes,
                    // Arrays that overlap what is written are no reason to reject a kernel, so that the user is told to
                    // say so where vectorising needs to know.
                    disjoint: &constant,
                    threads: self.threads,
                    block,
                    ..UniformityContext::new(self.module, 1)
                },
            );
            self.function(function, &uniformity);
            function.walk(function.body, &mut |_, data| {
                let Imm::Func(callee) = data.imm else { return };
                let shapes = data.operands.iter().map(|&value| match function.ty(value) {
                    Type::Array { .. } | Type::CompositeArray { .. } => ValueShape::Uniform,
                    _ => uniformity.shape(value),
                });
                // An array counts as written by a function that it is passed to, so that look at what the others do.
                let is_constant = |&value: &_| {
                    let param = function.param_index(value);
                    param.is_some_and(|param| constant(param) && !self.writes.of_function(id)[param])
                };
                params[callee].join(shapes.collect(), data.operands.iter().map(is_constant).collect());
            });
        }
    }

    fn function(&mut self, function: &Function, uniformity: &Uniformity) {
        self.region(function, uniformity, function.body, &mut Vec::new());
    }

    fn region(&mut self, function: &Function, uniformity: &Uniformity, region: Region, enclosing: &mut Vec<Inst>) {
        for &inst in &function.regions[region].insts {
            let data = &function.insts[inst];
            let needs = match data.imm {
                Imm::Func(callee) => self.needs[callee].unwrap_or_default(),
                _ => data.op.info().convergence,
            };
            let concerned = match self.threads {
                ThreadScope::Block => needs == Convergence::Block,
                _ => needs == Convergence::Warp,
            };
            if concerned && uniformity.is_divergent(inst) {
                self.report(function, uniformity, inst, enclosing);
            }
            enclosing.push(inst);
            for &inner in &data.regions {
                self.region(function, uniformity, inner, enclosing);
            }
            enclosing.pop();
        }
    }

    fn report(&mut self, function: &Function, uniformity: &Uniformity, inst: Inst, enclosing: &[Inst]) {
        let data = &function.insts[inst];
        let what = match data.imm {
            Imm::Func(callee) => {
                format!("`{}`, which has a barrier or warp operation,", self.module.functions[callee].name)
            }
            _ => format!("`{}`", data.op.name()),
        };
        let (threads, alike) = match self.threads {
            ThreadScope::Block => ("block", "`sync_threads_or(…)` or `sync_threads_and(…)`"),
            _ => ("warp", "`warp_any(…)`, `warp_all(…)` or `warp_id()`"),
        };
        let message = format!("{what} is not reached by all threads of a {threads} together");
        let mut error = Diagnostic::error(Code::Divergent, data.span, message);
        let mut around = enclosing.iter().rev().filter(|&&inst| !uniformity.cond_is_uniform(inst));
        let parts = around.find_map(|&inst| condition(function, uniformity, inst));
        let lost = if parts.is_none() { loss(function, uniformity, inst, enclosing) } else { None };
        let differs = parts.or_else(|| lost.and_then(|inst| condition(function, uniformity, inst)));
        if let Some(span) = differs {
            error = error.label(span, "this differs between the threads");
        }
        let same = format!("a condition on {alike} is the same in all threads of a {threads}");
        let help = match lost.and_then(|inst| way_out(function, inst)) {
            None => format!("move it out of the `if` or loop; {same}"),
            Some((span, way)) => {
                error = error.label(span, "some threads leave here");
                match way {
                    Op::Break => format!("stay in the loop until no thread has anything left to do: {same}"),
                    _ => {
                        let name = if way == Op::Continue { "continue" } else { "return" };
                        format!(
                            "in place of the `{name}`, put what those threads skip under an `if` that ends before this"
                        )
                    }
                }
            }
        };
        self.errors.push(error.help(help));
    }
}

/// Returns what threads part ways by at an instruction with regions.
fn condition(function: &Function, uniformity: &Uniformity, inst: Inst) -> Option<Span> {
    let data = &function.insts[inst];
    let conditions = match data.op {
        Op::If => data.operands.get(..1)?,
        Op::ForRange => data.operands.get(..3)?,
        Op::While => &function.insts[function.terminator(data.regions[0])?].operands[..],
        _ => return None,
    };
    let differing = conditions.iter().copied().find(|&value| !uniformity.shape(value).is_uniform())?;
    match function.values[differing].def {
        ValueDef::Result(inst, _) => Some(function.insts[inst].span),
        ValueDef::Param(..) => None,
    }
}

/// An instruction that only some threads complete, so that those that do are alone at `inst`: before it, or behind it
/// in a loop that both are in.
fn loss(function: &Function, uniformity: &Uniformity, inst: Inst, enclosing: &[Inst]) -> Option<Inst> {
    let mut region = function.body;
    let mut behind = None;
    for &next in enclosing.iter().chain([&inst]) {
        let insts = &function.regions[region].insts;
        let at = insts.iter().position(|&each| each == next)?;
        let mut lossy =
            insts.iter().enumerate().filter(|&(index, &each)| index != at && uniformity.loses_threads(each));
        match lossy.next() {
            Some((index, &found)) if index < at => return Some(found),
            other => behind = behind.or(other.map(|(_, &found)| found)),
        }
        let has_more = |&&region: &&Region| {
            let insts = &function.regions[region].insts;
            enclosing.iter().chain([&inst]).any(|each| insts.contains(each))
        };
        match function.insts[next].regions.iter().find(has_more) {
            Some(&inner) => region = inner,
            None => break,
        }
    }
    behind
}

/// Returns where threads leave an instruction for what is around it, and how; a function's own block is left by
/// `return`.
fn way_out(function: &Function, inst: Inst) -> Option<(Span, Op)> {
    let mut found = None;
    let mut inside = vec![inst];
    for &region in &function.insts[inst].regions {
        function.walk(region, &mut |inst, data| {
            inside.push(inst);
            let way = match (data.op, &data.imm) {
                (Op::Break | Op::Continue, Imm::Target(target)) if inside.contains(target) => return,
                (Op::Break, &Imm::Target(target)) if function.insts[target].op == Op::Block => Op::Return,
                (Op::Return | Op::Break | Op::Continue, _) => data.op,
                _ => return,
            };
            found = found.or(Some((data.span, way)));
        });
    }
    found
}
