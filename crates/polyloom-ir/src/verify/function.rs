//! Invariants 5 to 10, 12 and 19 to 25: what holds of a function whose regions are known to form a tree.

use super::{Call, invalid, op_types};
use crate::diagnostic::Diagnostic;
use crate::entity::{Inst, Region, Value};
use crate::function::{Function, FunctionKind, Imm, InstData, Module};
use crate::op::Op;
use crate::text::{HirPrinter, PrintOptions};
use crate::types::{AddressSpace, MAX_AXES, MAX_COMPONENTS, Scalar, Type};
use rustc_hash::FxHashSet;
use std::cell::OnceCell;

pub(super) fn check(func: &Function, module: Option<&Module>, errors: &mut Vec<Diagnostic>) -> Vec<Call> {
    let (in_scope, enclosing, calls) = (FxHashSet::default(), Vec::new(), Vec::new());
    let mut checker = FunctionVerifier { func, module, errors, printer: OnceCell::new(), in_scope, enclosing, calls };
    checker.signature();
    checker.stand_ins();
    checker.region(func.body, None);
    checker.calls
}

pub(super) struct FunctionVerifier<'a> {
    pub(super) func: &'a Function,
    pub(super) module: Option<&'a Module>,
    errors: &'a mut Vec<Diagnostic>,
    /// Made when there is something to report, because numbering a function's values costs as much as checking them.
    printer: OnceCell<HirPrinter<'a>>,
    in_scope: FxHashSet<Value>,
    /// Instructions whose regions are being checked, outermost first.
    enclosing: Vec<Inst>,
    calls: Vec<Call>,
}

impl<'a> FunctionVerifier<'a> {
    fn printer(&self) -> &HirPrinter<'a> {
        self.printer.get_or_init(|| HirPrinter::new(self.func, self.module, PrintOptions::default()))
    }

    pub(super) fn error(&mut self, inst: Inst, message: impl Into<String>) {
        let mut text = format!("in @{}: ", self.func.name);
        // Writing to a string does not fail.
        let _ = self.printer().header(&mut text, inst);
        self.errors.push(invalid(self.func.insts[inst].span, message).help(text));
    }

    pub(super) fn types(&self, values: &[Value]) -> Vec<Type> {
        values.iter().map(|&value| self.func.ty(value)).collect()
    }

    fn signature(&mut self) {
        let func = self.func;
        let mut report = |message: String| {
            self.errors.push(invalid(func.span, message).help(format!("in @{}", func.name)));
        };
        if func.name.is_empty() {
            report("a function has an empty name".to_owned());
        }
        let (n_params, n_names) = (func.params().len(), func.param_names.len());
        if n_params != n_names {
            report(format!("the function has {n_params} parameters and {n_names} parameter names"));
        }
        for &param in func.params() {
            let Some((elem, ndim)) = func.ty(param).as_any_array() else { continue };
            match func.ty(param).space() {
                Some(AddressSpace::Shared) if func.kind == FunctionKind::Kernel => {
                    report("a kernel takes a shared array; shared memory is the kernel's own".to_owned());
                }
                Some(space @ (AddressSpace::Generic | AddressSpace::Constant | AddressSpace::Local)) => {
                    report(format!("a parameter is an array in {} memory; no op accesses such arrays", space.name()));
                }
                _ => {}
            }
            let inner = elem.as_composite().map_or(0, |composite| composite.shape().len());
            if ndim == 0 || usize::from(ndim) + inner > MAX_AXES {
                report(match inner {
                    0 => format!("a parameter is an array of {ndim} dimensions; arrays have 1 to {MAX_AXES}"),
                    _ => format!(
                        "a parameter is an array of {ndim} dimensions of {elem}; such arrays have 1 to {}",
                        MAX_AXES - inner
                    ),
                });
            }
        }
        if func.results.iter().any(|ty| ty.as_any_array().is_some()) {
            report("the function returns an array".to_owned());
        }
        if func.kind == FunctionKind::Kernel && !func.results.is_empty() {
            report(format!("the kernel has results {}; kernels have none", list(&func.results)));
        }
    }

    /// Checks the function that stands in for this one or its derivative.
    fn stand_ins(&mut self) {
        let func = self.func;
        for (word, stand_in) in [("gradient", func.gradient), ("replay", func.replay)] {
            let (Some(id), Some(module)) = (stand_in, self.module) else { continue };
            let fits = module.functions.get(id).is_some_and(|function| {
                let types: Vec<Type> = function.params().iter().map(|&param| function.ty(param)).collect();
                let is_of =
                    |(params, results): (Vec<Type>, Vec<Type>)| types == params && function.results[..] == results;
                let fits = match word {
                    "gradient" => [false, true].into_iter().any(|arrays| is_of(func.gradient_signature(arrays))),
                    _ => is_of((self.types(func.params()), func.results.to_vec())),
                };
                fits && function.kind == FunctionKind::Func && func.kind == FunctionKind::Func
            });
            if !fits {
                let message = format!("the function's `{word}` is no function of the types that belong to its own");
                self.errors.push(invalid(func.span, message).help(format!("in @{}", func.name)));
            }
        }
    }

    /// Checks a region, which `owner` owns unless it is the body.
    fn region(&mut self, region: Region, owner: Option<Inst>) {
        let func = self.func;
        let data = &func.regions[region];
        self.in_scope.extend(data.params.iter().copied());
        for (index, &inst) in data.insts.iter().enumerate() {
            let op = func.insts[inst].op;
            let is_last = index + 1 == data.insts.len();
            if op.info().is_terminator() && !is_last {
                self.error(inst, format!("`{}` stands before the end of its region", op.name()));
            }
            if !op.info().is_terminator() && is_last {
                self.error(inst, format!("a region ends in `{}`, which is no terminator", op.name()));
            }
            if index > 0 && op != Op::Unreachable && self.is_dead_end(data.insts[index - 1]) {
                self.error(inst, "no region of the `if` before this yields, so only `unreachable` may follow");
            }
            self.inst(inst, region, owner);
        }
        match (data.insts.is_empty(), owner) {
            (true, Some(owner)) => {
                self.error(owner, format!("`{}` has an empty region", func.insts[owner].op.name()));
            }
            (true, None) => {
                let error = invalid(func.span, "the function's body is empty");
                self.errors.push(error.help(format!("in @{}", func.name)));
            }
            (false, _) => {}
        }
        let results = data.insts.iter().flat_map(|&inst| &func.insts[inst].results);
        for composite in data.params.iter().chain(results).filter_map(|&v| func.ty(v).composite_within()) {
            if !(1..=MAX_COMPONENTS).contains(&composite.n_components()) {
                let message = format!("{composite} has {} components", composite.n_components());
                self.errors.push(invalid(func.span, message).help(format!("a composite has 1 to {MAX_COMPONENTS}")));
            }
        }
        let results = data.insts.iter().flat_map(|&inst| &func.insts[inst].results);
        for value in data.params.iter().chain(results) {
            self.in_scope.remove(value);
        }
    }

    /// Returns true if this is an `if` that never completes.
    fn is_dead_end(&self, inst: Inst) -> bool {
        let data = &self.func.insts[inst];
        let yields = |&region: &Region| {
            let last = self.func.regions[region].insts.last();
            last.is_none_or(|&last| self.func.insts[last].op == Op::Yield)
        };
        data.op == Op::If && !data.regions.is_empty() && !data.regions.iter().any(yields)
    }

    fn inst(&mut self, inst: Inst, region: Region, owner: Option<Inst>) {
        let func = self.func;
        let data = &func.insts[inst];
        for &operand in &data.operands {
            if !self.in_scope.contains(&operand) {
                let message = format!("{} is not defined at this point", self.printer().value(operand));
                self.error(inst, message);
            }
        }
        for &result in &data.results {
            if func.ty(result).as_any_array().is_some() && !matches!(data.op, Op::SharedArray | Op::DynamicShared) {
                let message = format!("`{}` gives an array; arrays are parameters or shared memory", data.op.name());
                self.error(inst, message);
            }
        }
        let takes_array =
            |&region: &Region| func.regions[region].params.iter().any(|&param| func.ty(param).as_any_array().is_some());
        if data.regions.iter().any(takes_array) {
            let message =
                format!("a region of `{}` takes an array; arrays are parameters or shared memory", data.op.name());
            self.error(inst, message);
        }
        if let Imm::Func(callee) = data.imm {
            self.calls.push((callee, data.span));
        }
        let n_regions = match data.op {
            Op::If | Op::While => 2,
            Op::ForRange | Op::Block => 1,
            _ => 0,
        };
        if data.regions.len() != n_regions {
            let message = format!("`{}` owns {} regions instead of {n_regions}", data.op.name(), data.regions.len());
            self.error(inst, message);
        } else if !op_types::immediate_fits(data) {
            self.error(inst, format!("`{}` carries an immediate of another kind", data.op.name()));
        } else {
            self.semantics(inst, data, region, owner);
        }
        self.enclosing.push(inst);
        for &inner in &data.regions {
            self.region(inner, Some(inst));
        }
        self.enclosing.pop();
        self.in_scope.extend(data.results.iter().copied());
    }

    /// Checks the rules particular to the op; the number of regions and the kind of immediate are right.
    fn semantics(&mut self, inst: Inst, data: &InstData, region: Region, owner: Option<Inst>) {
        match data.op {
            Op::If => {
                self.takes(inst, &[Type::BOOL]);
                self.region_takes(inst, 0, &[]);
                self.region_takes(inst, 1, &[]);
            }
            Op::ForRange => self.for_range(inst, data),
            Op::While => {
                let carried = self.types(&data.operands);
                self.gives(inst, &carried);
                self.region_takes(inst, 0, &carried);
                self.region_takes(inst, 1, &carried);
                let last = self.func.regions[data.regions[0]].insts.last();
                let last = last.map(|&last| self.func.insts[last].op);
                if last.is_some_and(|op| op.info().is_terminator() && !matches!(op, Op::Yield | Op::Unreachable)) {
                    self.error(inst, "the condition of `while` does not end in `yield`");
                }
            }
            Op::Block => {
                self.takes(inst, &[]);
                self.region_takes(inst, 0, &[]);
            }
            Op::Yield => self.yield_(inst, region, owner),
            Op::Break | Op::Continue => self.jump(inst, data),
            Op::Return => {
                self.takes(inst, &self.func.results);
                self.gives(inst, &[]);
            }
            Op::Unreachable => {
                self.takes(inst, &[]);
                self.gives(inst, &[]);
            }
            _ => op_types::check(self, inst, data),
        }
    }

    fn for_range(&mut self, inst: Inst, data: &InstData) {
        let types = self.types(&data.operands);
        let Some((&[start, end, step], carried)) = types.split_first_chunk::<3>() else {
            return self.error(inst, "`for_range` takes a start, an end and a step");
        };
        if !start.as_scalar().is_some_and(Scalar::is_int) || end != start || step != start {
            let range = list(&[start, end, step]);
            self.error(inst, format!("`for_range` takes a start, end and step of one integer type, not {range}"));
        }
        if data.imm == Imm::Parallel {
            self.parallel(inst, data, carried.is_empty());
        }
        self.gives(inst, carried);
        let params: Vec<Type> = [start].into_iter().chain(carried.iter().copied()).collect();
        self.region_takes(inst, 0, &params);
    }

    fn parallel(&mut self, inst: Inst, data: &InstData, carries_nothing: bool) {
        if !carries_nothing {
            self.error(inst, "a parallel `for_range` carries no values from iteration to iteration");
        }
        if self.func.as_const(data.operands[2]) != Some(1) {
            self.error(inst, "a parallel `for_range` counts by one");
        }
        let (mut inside, mut targets, mut returns) = (Vec::new(), Vec::new(), false);
        for &region in &data.regions {
            self.func.walk(region, &mut |inner, data| {
                inside.push(inner);
                returns |= data.op == Op::Return;
                if let Imm::Target(target) = data.imm {
                    targets.push(target);
                }
            });
        }
        if returns || targets.iter().any(|target| !inside.contains(target)) {
            self.error(inst, "a parallel `for_range` is left at its end alone");
        }
    }

    fn yield_(&mut self, inst: Inst, region: Region, owner: Option<Inst>) {
        self.gives(inst, &[]);
        let Some(owner) = owner else {
            return self.error(inst, "`yield` ends the function's body, which ends in `return` or `unreachable`");
        };
        let owner = &self.func.insts[owner];
        let is_condition = owner.op == Op::While && owner.regions.first() == Some(&region);
        let expected = if is_condition { vec![Type::BOOL] } else { self.types(&owner.results) };
        let given = self.types(&self.func.insts[inst].operands);
        if given != expected {
            let what = match is_condition {
                true => "the condition of `while`".to_owned(),
                false => format!("a region of `{}`", owner.op.name()),
            };
            self.error(inst, format!("{what} yields {}, not {}", list(&expected), list(&given)));
        }
    }

    fn jump(&mut self, inst: Inst, data: &InstData) {
        self.gives(inst, &[]);
        let Imm::Target(target) = data.imm else { return };
        let name = data.op.name();
        if !self.enclosing.contains(&target) {
            return self.error(inst, format!("the target of `{name}` does not enclose it"));
        }
        let target = &self.func.insts[target];
        let is_loop = matches!(target.op, Op::ForRange | Op::While);
        if !is_loop && (data.op == Op::Continue || target.op != Op::Block) {
            return self.error(inst, format!("`{name}` cannot name `{}`", target.op.name()));
        }
        let (expected, given) = (self.types(&target.results), self.types(&data.operands));
        if given != expected {
            let message = format!("`{name}` of `{}` gives {}, not {}", target.op.name(), list(&expected), list(&given));
            self.error(inst, message);
        }
    }

    fn takes(&mut self, inst: Inst, expected: &[Type]) {
        let data = &self.func.insts[inst];
        let given = self.types(&data.operands);
        if given != expected {
            self.error(inst, format!("`{}` takes {}, not {}", data.op.name(), list(expected), list(&given)));
        }
    }

    pub(super) fn gives(&mut self, inst: Inst, expected: &[Type]) {
        let data = &self.func.insts[inst];
        let given = self.types(&data.results);
        if given != expected {
            self.error(inst, format!("`{}` gives {}, not {}", data.op.name(), list(expected), list(&given)));
        }
    }

    fn region_takes(&mut self, inst: Inst, index: usize, expected: &[Type]) {
        let data = &self.func.insts[inst];
        let given = self.types(&self.func.regions[data.regions[index]].params);
        if given != expected {
            let message =
                format!("region {index} of `{}` takes {}, not {}", data.op.name(), list(expected), list(&given));
            self.error(inst, message);
        }
    }
}

/// Types as a phrase: `(f32, i32)`, or `nothing`.
pub(super) fn list(types: &[Type]) -> String {
    if types.is_empty() {
        return "nothing".to_owned();
    }
    let names: Vec<String> = types.iter().map(Type::to_string).collect();
    format!("({})", names.join(", "))
}
