//! The accesses of a kernel, calls followed, with the conditions under which a thread is certain to execute each.
//!
//! An access counts as certain if nothing but conditions that a launch can compute decides whether a thread comes to
//! it. Early returns, `break` and `continue` are conditions on what follows them. That a loop ends is taken for granted.

use super::expression::{CountedLoop, ExprKind, ExpressionTable, LaunchExpr, as_integer};
use super::{ArgumentWords, UnverifiedReason};
use crate::analysis::range::accessed;
use polyloom_ir::{
    Composite, FloatMode, FuncId, Function, Imm, Inst, Module, Op, Region, Scalar, Span, Type, Value, ValueDef, eval,
};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

/// Most instructions that are looked at, those of called functions at each call.
const MAX_VISITED: usize = 20_000;
/// Says how far back a value's computation is followed.
const MAX_DEPTH: u32 = 64;
/// Says how deep calls are followed.
const MAX_CALLS: usize = 32;
/// Most ways to come to an access that are told apart, and most conditions on one of them.
const MAX_PATHS: usize = 4;
const MAX_CONDITIONS: usize = 12;
/// Most loops around an access.
pub(super) const MAX_LOOPS: usize = 4;

/// Describes what has to hold on one way to an access: for each of the conditions whether it does, and the loops
/// around.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub(super) struct AccessPath {
    pub(super) conditions: Vec<(LaunchExpr, bool)>,
    pub(super) loops: Vec<u32>,
}

/// An element of a kernel's argument that an instruction accesses.
#[derive(Debug)]
pub(super) struct KernelAccess {
    /// The array, by its number among the parameters of the scalarised kernel; none if it is in shared memory.
    pub(super) param: Option<u32>,
    pub(super) span: Span,
    pub(super) n_elements: u8,
    /// Indexed by axis; none of an index that the launch cannot compute.
    pub(super) indices: SmallVec<[Option<LaunchExpr>; 2]>,
    /// Word of the launch's arguments that holds the extent of each axis; none for an array in shared memory.
    pub(super) extents: SmallVec<[u32; 2]>,
    /// The ways to come to it, on each of which it is certain; or why they are not known.
    pub(super) paths: Result<Vec<AccessPath>, UnverifiedReason>,
}

/// Says whether control comes to the end of a region that it has entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RegionCompletion {
    Always,
    Never,
    /// Where this holds.
    When(LaunchExpr),
    Unknown,
}

/// Says where a region is left early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EarlyExit {
    Return,
    To(Inst),
}

type EarlyExits = SmallVec<[EarlyExit; 2]>;

/// One call of a function, or the kernel.
struct CallActivation<'m> {
    function: &'m Function,
    params: Vec<ParamBinding>,
}

/// Describes what a parameter is.
#[derive(Clone, Copy)]
enum ParamBinding {
    /// A parameter of the kernel; for a composite, its first component.
    Kernel(u32),
    /// An argument of a call.
    Argument(u32, Value),
}

pub(super) struct BoundsWalk<'m> {
    module: &'m Module,
    words: &'m dyn ArgumentWords,
    pub(super) expressions: ExpressionTable,
    pub(super) accesses: Vec<KernelAccess>,
    activations: Vec<CallActivation<'m>>,
    called: FxHashMap<(u32, Inst), u32>,
    translated: FxHashMap<(u32, Value), Option<LaunchExpr>>,
    counters: FxHashMap<(u32, Value), LaunchExpr>,
    n_visited: usize,
}

type Paths = Result<Vec<AccessPath>, UnverifiedReason>;

impl<'m> BoundsWalk<'m> {
    /// Looks through a kernel.
    pub(super) fn of(module: &'m Module, kernel: FuncId, words: &'m dyn ArgumentWords) -> BoundsWalk<'m> {
        let function = &module.functions[kernel];
        let mut next = 0;
        let params = function.params().iter().map(|&param| {
            let first = next;
            next += function.ty(param).as_composite().map_or(1, Composite::n_components) as u32;
            ParamBinding::Kernel(first)
        });
        let mut walk = BoundsWalk {
            module,
            words,
            expressions: ExpressionTable::default(),
            accesses: Vec::new(),
            activations: vec![CallActivation { function, params: params.collect() }],
            called: FxHashMap::default(),
            translated: FxHashMap::default(),
            counters: FxHashMap::default(),
            n_visited: 0,
        };
        walk.region(0, function.body, &Ok(vec![AccessPath::default()]), 0);
        walk
    }

    fn function(&self, activation: u32) -> &'m Function {
        self.activations[activation as usize].function
    }

    fn region(&mut self, at: u32, region: Region, entry: &Paths, depth: usize) -> (RegionCompletion, EarlyExits) {
        let function = self.function(at);
        let (mut paths, mut completion, mut exits) = (entry.clone(), RegionCompletion::Always, EarlyExits::new());
        for &inst in &function.regions[region].insts {
            let data = &function.insts[inst];
            self.n_visited += 1;
            if self.n_visited > MAX_VISITED {
                paths = Err(UnverifiedReason::TooLarge);
            }
            match (data.op, &data.imm) {
                (Op::Yield, _) => break,
                (Op::Return, _) => return (RegionCompletion::Never, with(exits, EarlyExit::Return)),
                (Op::Break | Op::Continue, &Imm::Target(target)) => {
                    return (RegionCompletion::Never, with(exits, EarlyExit::To(target)));
                }
                (Op::Unreachable, _) => return (RegionCompletion::Never, exits),
                (Op::Call, &Imm::Func(callee)) => {
                    let takes_arrays =
                        data.operands.iter().any(|&operand| function.ty(operand).as_any_array().is_some());
                    if takes_arrays && self.n_visited <= MAX_VISITED {
                        let called = self.activation(at, inst, callee);
                        match depth < MAX_CALLS {
                            true => _ = self.region(called, self.function(called).body, &paths, depth + 1),
                            false => self.n_visited = MAX_VISITED,
                        }
                    }
                    continue;
                }
                _ => {}
            }
            if data.regions.is_empty() {
                self.record(at, inst, &paths);
                continue;
            }
            let (inner, inner_exits) = match data.op {
                Op::If => self.branch(at, inst, &paths, depth),
                Op::ForRange => self.counted_loop(at, inst, &paths, depth),
                Op::While => self.conditional_loop(at, inst, &paths, depth),
                _ => self.block(at, inst, &paths, depth),
            };
            for exit in inner_exits {
                exits = with(exits, exit);
            }
            match inner {
                RegionCompletion::Always => {}
                RegionCompletion::Never => {
                    paths = Err(UnverifiedReason::Unreachable);
                    completion = RegionCompletion::Never;
                }
                RegionCompletion::When(condition) => {
                    paths = paths.and_then(|paths| self.where_holds(&paths, condition, true));
                    completion = self.both(completion, condition);
                }
                RegionCompletion::Unknown => {
                    paths = paths.and(Err(UnverifiedReason::Condition));
                    completion = RegionCompletion::Unknown;
                }
            }
        }
        (completion, exits)
    }

    /// Returns where another condition has to hold as well.
    fn both(&mut self, completion: RegionCompletion, condition: LaunchExpr) -> RegionCompletion {
        match completion {
            RegionCompletion::Always => RegionCompletion::When(condition),
            RegionCompletion::When(other) => {
                let both = self.expressions.op(Op::BitAnd, &[other, condition], Scalar::Bool);
                both.map_or(RegionCompletion::Unknown, RegionCompletion::When)
            }
            completion => completion,
        }
    }

    fn branch(&mut self, at: u32, inst: Inst, paths: &Paths, depth: usize) -> (RegionCompletion, EarlyExits) {
        let data = &self.function(at).insts[inst];
        let condition = self.translate(at, data.operands[0], MAX_DEPTH);
        let mut sides: SmallVec<[RegionCompletion; 2]> = SmallVec::new();
        let mut exits = EarlyExits::new();
        for (side, &region) in data.regions.iter().enumerate() {
            let within = match (paths, condition) {
                (Ok(paths), Some(condition)) => self.where_holds(paths, condition, side == 0),
                (Ok(_), None) => Err(UnverifiedReason::Condition),
                (Err(reason), _) => Err(*reason),
            };
            let (completion, inner) = self.region(at, region, &within, depth);
            sides.push(completion);
            exits = inner.into_iter().fold(exits, with);
        }
        let completion = match sides[..] {
            [RegionCompletion::Always, RegionCompletion::Always] => RegionCompletion::Always,
            [RegionCompletion::Never, RegionCompletion::Never] => RegionCompletion::Never,
            [RegionCompletion::Unknown, _] | [_, RegionCompletion::Unknown] => RegionCompletion::Unknown,
            [yes, no] => condition
                .and_then(|condition| self.completed_side(condition, yes, no))
                .map_or(RegionCompletion::Unknown, RegionCompletion::When),
            _ => RegionCompletion::Unknown,
        };
        (completion, exits)
    }

    /// When control comes to the end of a branch.
    fn completed_side(
        &mut self,
        condition: LaunchExpr,
        yes: RegionCompletion,
        no: RegionCompletion,
    ) -> Option<LaunchExpr> {
        let opposite = self.expressions.op(Op::Not, &[condition], Scalar::Bool)?;
        let mut side = |condition: LaunchExpr, completion: RegionCompletion| match completion {
            RegionCompletion::Always => Some(Some(condition)),
            RegionCompletion::Never => Some(None),
            RegionCompletion::When(other) => {
                Some(Some(self.expressions.op(Op::BitAnd, &[condition, other], Scalar::Bool)?))
            }
            RegionCompletion::Unknown => None,
        };
        match (side(condition, yes)?, side(opposite, no)?) {
            (Some(yes), Some(no)) => self.expressions.op(Op::BitOr, &[yes, no], Scalar::Bool),
            (one, other) => one.or(other),
        }
    }

    fn counted_loop(&mut self, at: u32, inst: Inst, paths: &Paths, depth: usize) -> (RegionCompletion, EarlyExits) {
        let function = self.function(at);
        let data = &function.insts[inst];
        let body = data.regions[0];
        let counted = self.counted(at, inst);
        let within = match (paths, counted) {
            // A loop that may end early is not verified, because the threads that come to an iteration depend on what
            // the iterations before it did.
            (Ok(_), _) if ends_early(function, body, inst) => Err(UnverifiedReason::Condition),
            (Ok(_), None) => Err(UnverifiedReason::LoopBounds),
            (Ok(paths), Some(number)) => {
                let mut paths = paths.clone();
                paths.iter_mut().for_each(|path| path.loops.push(number));
                match paths.iter().all(|path| path.loops.len() <= MAX_LOOPS) {
                    true => Ok(paths),
                    false => Err(UnverifiedReason::TooLarge),
                }
            }
            (Err(reason), _) => Err(*reason),
        };
        let (_, exits) = self.region(at, body, &within, depth);
        after_loop(exits, inst)
    }

    /// The number of a loop that runs as often in all threads.
    fn counted(&mut self, at: u32, inst: Inst) -> Option<u32> {
        let function = self.function(at);
        let data = &function.insts[inst];
        let &counter = function.regions[data.regions[0]].params.first()?;
        let ty = function.ty(counter).as_scalar()?;
        let mut bound = |operand: usize| self.translate(at, data.operands[operand], MAX_DEPTH);
        let (start, end, step) = (bound(0)?, bound(1)?, bound(2)?);
        let expressions = &mut self.expressions;
        let step = i64::try_from(as_integer(expressions.as_const(step)?, ty)).ok().filter(|&step| step != 0)?;
        if !(expressions.is_uniform(start) && expressions.is_uniform(end)) {
            return None;
        }
        let number = expressions.loops.len() as u32;
        expressions.loops.push(CountedLoop { start, end, step });
        let expr = expressions.add(ExprKind::Counter(number), ty)?;
        self.counters.insert((at, counter), expr);
        Some(number)
    }

    /// A loop with a condition, which is computed once at least.
    fn conditional_loop(&mut self, at: u32, inst: Inst, paths: &Paths, depth: usize) -> (RegionCompletion, EarlyExits) {
        let regions = &self.function(at).insts[inst].regions;
        let (_, mut exits) = self.region(at, regions[0], paths, depth);
        let unknown = paths.clone().and(Err(UnverifiedReason::Condition));
        let (_, of_body) = self.region(at, regions[1], &unknown, depth);
        exits = of_body.into_iter().fold(exits, with);
        after_loop(exits, inst)
    }

    fn block(&mut self, at: u32, inst: Inst, paths: &Paths, depth: usize) -> (RegionCompletion, EarlyExits) {
        let region = self.function(at).insts[inst].regions[0];
        let (completion, mut exits) = self.region(at, region, paths, depth);
        let n_exits = exits.len();
        exits.retain(|exit| *exit != EarlyExit::To(inst));
        let has_breaks = exits.len() < n_exits;
        let completion = match (has_breaks, exits.is_empty()) {
            (false, _) => completion,
            (true, true) => RegionCompletion::Always,
            (true, false) => RegionCompletion::Unknown,
        };
        (completion, exits)
    }

    fn record(&mut self, at: u32, inst: Inst, paths: &Paths) {
        let function = self.function(at);
        for element in accessed(function, inst) {
            let first = usize::from(element.first);
            let operands = &function.insts[inst].operands[first..first + usize::from(element.n_indices)];
            let param = match self.resolve(at, element.array) {
                Some(ParamBinding::Kernel(param)) => Some(param),
                _ => None,
            };
            let indices = match param {
                Some(_) => operands.iter().map(|&index| self.translate(at, index, MAX_DEPTH)).collect(),
                None => smallvec![None; operands.len()],
            };
            let extent = |axis| param.map(|param| self.words.extent(param, axis) as u32);
            let extents = (0..element.n_indices).filter_map(extent).collect();
            let (span, n_elements) = (function.insts[inst].span, element.count);
            self.accesses.push(KernelAccess { param, span, n_elements, indices, extents, paths: paths.clone() });
        }
    }

    /// The parameter of the kernel that a value is, through calls.
    fn resolve(&self, at: u32, value: Value) -> Option<ParamBinding> {
        let (mut at, mut value) = (at, value);
        loop {
            let activation = &self.activations[at as usize];
            match *activation.params.get(activation.function.param_index(value)?)? {
                ParamBinding::Kernel(param) => return Some(ParamBinding::Kernel(param)),
                ParamBinding::Argument(caller, argument) => (at, value) = (caller, argument),
            }
        }
    }

    fn activation(&mut self, at: u32, inst: Inst, callee: FuncId) -> u32 {
        if let Some(&known) = self.called.get(&(at, inst)) {
            return known;
        }
        let operands = &self.function(at).insts[inst].operands;
        let params = operands.iter().map(|&operand| ParamBinding::Argument(at, operand)).collect();
        let number = self.activations.len() as u32;
        self.activations.push(CallActivation { function: &self.module.functions[callee], params });
        self.called.insert((at, inst), number);
        number
    }

    /// A scalar as an expression; none of one that depends on memory, on what loops carry, or on too much.
    fn translate(&mut self, at: u32, value: Value, depth: u32) -> Option<LaunchExpr> {
        if let Some(&known) = self.translated.get(&(at, value)) {
            return known;
        }
        self.n_visited += 1;
        if depth == 0 || self.n_visited > MAX_VISITED {
            return None;
        }
        let expr = self.translate_anew(at, value, depth - 1);
        self.translated.insert((at, value), expr);
        expr
    }

    fn translate_anew(&mut self, at: u32, value: Value, depth: u32) -> Option<LaunchExpr> {
        let function = self.function(at);
        let ty = function.ty(value).as_scalar()?;
        let (inst, result) = match function.values[value].def {
            ValueDef::Result(inst, result) => (inst, result as usize),
            ValueDef::Param(..) => {
                if let Some(&counter) = self.counters.get(&(at, value)) {
                    return Some(counter);
                }
                let activation = &self.activations[at as usize];
                return match *activation.params.get(function.param_index(value)?)? {
                    ParamBinding::Kernel(param) => self.scalar(param, ty),
                    ParamBinding::Argument(caller, argument) => self.translate(caller, argument, depth),
                };
            }
        };
        let data = &function.insts[inst];
        match (data.op, &data.imm) {
            (Op::Const, &Imm::Bits(bits)) => self.expressions.add(ExprKind::Const(bits), ty),
            (Op::Tid, &Imm::Axis(axis)) => self.expressions.add(ExprKind::Coordinate(axis), ty),
            (Op::TidLinear, _) => self.expressions.linear_index(),
            (Op::Dim, &Imm::Axis(axis)) => match self.resolve(at, data.operands[0])? {
                ParamBinding::Kernel(param) => {
                    let word = self.words.extent(param, axis) as u32;
                    self.expressions.add(ExprKind::Word(word), ty)
                }
                ParamBinding::Argument(..) => None,
            },
            (Op::Component, &Imm::Component(number)) => match self.resolve(at, data.operands[0])? {
                ParamBinding::Kernel(first) => self.scalar(first + u32::from(number), ty),
                ParamBinding::Argument(..) => None,
            },
            (Op::If, _) => {
                let mut yielded = |side: usize| {
                    let last = function.terminator(data.regions[side])?;
                    let last = &function.insts[last];
                    let operand = last.operands.get(result).filter(|_| last.op == Op::Yield)?;
                    self.translate(at, *operand, depth)
                };
                let (yes, no) = (yielded(0)?, yielded(1)?);
                let condition = self.translate(at, data.operands[0], depth)?;
                self.expressions.op(Op::Select, &[condition, yes, no], ty)
            }
            (Op::Call, &Imm::Func(callee)) => self.translate_result(at, inst, callee, result, depth),
            _ => {
                let types: SmallVec<[Type; 3]> = data.operands.iter().map(|&operand| function.ty(operand)).collect();
                // Floats are computed in the strict mode alone, because in other modes they are not rounded as they are
                // here.
                let is_strict = self.activations[0].function.metadata.float_mode == FloatMode::Strict;
                let is_exact = is_strict || !types.iter().any(|ty| ty.is_float());
                if !data.op.info().is_pure() || data.operands.is_empty() || !is_exact {
                    return None;
                }
                eval::evaluator(data.op, &types, ty.into())?;
                let operands: Option<SmallVec<[LaunchExpr; 3]>> =
                    data.operands.iter().map(|&operand| self.translate(at, operand, depth)).collect();
                self.expressions.op(data.op, &operands?, ty)
            }
        }
    }

    fn scalar(&mut self, param: u32, ty: Scalar) -> Option<LaunchExpr> {
        let word = self.words.scalar(param) as u32;
        self.expressions.add(ExprKind::Word(word), ty)
    }

    /// Returns what a call of a function that returns at its end alone gives.
    fn translate_result(
        &mut self,
        at: u32,
        inst: Inst,
        callee: FuncId,
        result: usize,
        depth: u32,
    ) -> Option<LaunchExpr> {
        let function = &self.module.functions[callee];
        let last = function.terminator(function.body)?;
        let mut n_returns = 0;
        function.walk(function.body, &mut |_, data| n_returns += usize::from(data.op == Op::Return));
        if n_returns != 1 {
            return None;
        }
        let returned = *function.insts[last].operands.get(result)?;
        let called = self.activation(at, inst, callee);
        self.translate(called, returned, depth)
    }

    /// The ways on which a condition holds, or does not.
    fn where_holds(&self, paths: &[AccessPath], condition: LaunchExpr, truth: bool) -> Paths {
        let mut found = Vec::new();
        for path in paths {
            found.extend(self.ways(path, condition, truth)?);
        }
        if found.len() > MAX_PATHS {
            return Err(UnverifiedReason::TooLarge);
        }
        Ok(found)
    }

    fn ways(&self, path: &AccessPath, condition: LaunchExpr, truth: bool) -> Paths {
        let data = &self.expressions.data[condition];
        match &data.kind {
            ExprKind::Const(bits) => return Ok(if (*bits != 0) == truth { vec![path.clone()] } else { Vec::new() }),
            ExprKind::Op(Op::Not, operands) => return self.ways(path, operands[0], !truth),
            ExprKind::Op(op @ (Op::BitAnd | Op::BitOr), operands) if data.ty == Scalar::Bool => {
                let (a, b) = (operands[0], operands[1]);
                if (*op == Op::BitAnd) == truth {
                    return self.where_holds(&self.ways(path, a, truth)?, b, truth);
                }
                let mut either = self.ways(path, a, truth)?;
                either.extend(self.ways(path, b, truth)?);
                return Ok(either);
            }
            ExprKind::Op(Op::Select, operands) => {
                let (chooses, yes, no) = (operands[0], operands[1], operands[2]);
                let mut either = self.where_holds(&self.ways(path, chooses, true)?, yes, truth)?;
                either.extend(self.where_holds(&self.ways(path, chooses, false)?, no, truth)?);
                return Ok(either);
            }
            _ => {}
        }
        let mut path = path.clone();
        if path.conditions.contains(&(condition, !truth)) {
            return Ok(Vec::new());
        }
        if !path.conditions.contains(&(condition, truth)) {
            path.conditions.push((condition, truth));
        }
        if path.conditions.len() > MAX_CONDITIONS {
            return Err(UnverifiedReason::TooLarge);
        }
        Ok(vec![path])
    }
}

fn with(mut exits: EarlyExits, exit: EarlyExit) -> EarlyExits {
    if !exits.contains(&exit) {
        exits.push(exit);
    }
    exits
}

/// Returns what is known after a loop, whose iterations end early by these.
fn after_loop(mut exits: EarlyExits, inst: Inst) -> (RegionCompletion, EarlyExits) {
    exits.retain(|exit| *exit != EarlyExit::To(inst));
    (if exits.is_empty() { RegionCompletion::Always } else { RegionCompletion::Unknown }, exits)
}

/// True if a loop can be left from within its body, other than by ending an iteration.
fn ends_early(function: &Function, body: Region, inst: Inst) -> bool {
    /// `around`: the loops and blocks within the body that an exit may leave without leaving the loop.
    fn any(function: &Function, region: Region, inst: Inst, around: &mut Vec<Inst>) -> bool {
        function.regions[region].insts.iter().any(|&inner| {
            let data = &function.insts[inner];
            let leaves = match (data.op, &data.imm) {
                (Op::Return, _) => true,
                (Op::Break, &Imm::Target(target)) => !around.contains(&target),
                (Op::Continue, &Imm::Target(target)) => target != inst && !around.contains(&target),
                _ => false,
            };
            around.push(inner);
            let leaves = leaves || data.regions.iter().any(|&region| any(function, region, inst, around));
            around.pop();
            leaves
        })
    }
    any(function, body, inst, &mut Vec::new())
}
