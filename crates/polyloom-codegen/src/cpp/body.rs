//! Statements: one function of HIR as the body of a function of the text.

use super::blocks::{BLOCKS, PlanLocal, locals};
use super::expression::Precedence;
use super::layout::TextLayout;
use super::names::ScopeNames;
use super::plan::{ValuePlan, draws};
use super::prelude::Helper;
use super::range::ValueIntervals;
use super::target::TextTarget;
use super::unit::{InstCallees, TextUnit};
use super::variables::{CppVariable, CppVariables};
use cranelift_entity::{EntitySet, SecondaryMap};
use polyloom_ir::{CallEffects, Function, FunctionKind, Imm, Inst, InstData, Op, Region, Scalar, Span, Type, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::fmt::Write as _;

/// A function being written.
pub(super) struct FunctionWriter<'a, 'u> {
    pub unit: &'a mut TextUnit<'u>,
    pub callees: InstCallees<'a>,
    pub func: &'a Function,
    pub plan: ValuePlan,
    pub(super) intervals: ValueIntervals<'a>,
    pub variables: CppVariables,
    /// The names taken but for the variables' that are not parameters.
    names: ScopeNames,
    /// Indices of arrays that may count from the end.
    pub negative: FxHashSet<(Inst, u8)>,
    /// Instructions that use a value, for those that look at them.
    pub users: SecondaryMap<Value, SmallVec<[Inst; 2]>>,
    /// True if arithmetic is that of the float mode `strict`.
    pub is_strict: bool,
    pub out: String,
    pub(super) layout: TextLayout,
    pub(super) calls: &'a CallEffects,
    pub(super) declared: EntitySet<CppVariable>,
    pub(super) declarations: FxHashMap<Inst, SmallVec<[CppVariable; 2]>>,
    pub(super) jumps: JumpLabels,
    /// Loops and blocks around the current place, from the outermost on.
    pub(super) around: Vec<Inst>,
    pub(super) indent: usize,
    /// True if the first parameter is a random state that the function changes.
    pub(super) changes_state: bool,
    /// Holds what the launch makes for a kernel that runs a block at a time.
    pub(super) locals: FxHashMap<Value, PlanLocal>,
    /// Says which results are computed as unsigned, as far as it was asked.
    pub(super) unsigned: RefCell<SecondaryMap<Value, Option<bool>>>,
    sites: FxHashMap<Inst, u32>,
    /// The line of the source that the last comment shows.
    line: Option<u32>,
}

/// Jumps that C++ has no statement for.
#[derive(Default)]
pub(super) struct JumpLabels {
    /// Holds what is left from within an inner loop.
    pub(super) left: FxHashSet<Inst>,
    /// Holds what is continued from within an inner loop.
    pub(super) continued: FxHashSet<Inst>,
    /// True if a kernel returns from within a loop.
    pub(super) returns: bool,
}

impl JumpLabels {
    fn find(&mut self, func: &Function, region: Region, around: &mut Vec<Inst>) {
        for &inst in &func.regions[region].insts {
            let data = &func.insts[inst];
            match (data.op, &data.imm) {
                (Op::Return, _) => self.returns |= !around.is_empty(),
                (Op::Break, Imm::Target(target)) if around.last() != Some(target) => {
                    self.left.insert(*target);
                }
                (Op::Continue, Imm::Target(target)) if around.last() != Some(target) => {
                    self.continued.insert(*target);
                }
                _ => {}
            }
            let is_target = matches!(data.op, Op::ForRange | Op::While | Op::Block);
            if is_target {
                around.push(inst);
            }
            for &inner in &data.regions {
                self.find(func, inner, around);
            }
            if is_target {
                around.pop();
            }
        }
    }
}

impl<'a, 'u> FunctionWriter<'a, 'u> {
    pub(super) fn new(
        unit: &'a mut TextUnit<'u>,
        callees: InstCallees<'a>,
        func: &'a Function,
        calls: &'a CallEffects,
        is_strict: bool,
        mut names: ScopeNames,
    ) -> FunctionWriter<'a, 'u> {
        let layout = TextLayout::new(func);
        let intervals = ValueIntervals::new(func);
        let plan = ValuePlan::new(func, &layout, &intervals, calls);
        unit.reserve_callees(func, callees, &mut names);
        let blocks = unit.blocks.filter(|_| func.kind == FunctionKind::Kernel);
        if blocks.is_some() {
            ["block", "blocks", "dynamic"].iter().for_each(|name| names.reserve(name));
        }
        let mut variables = CppVariables::new(func, &layout, &plan, &mut names);
        let locals = blocks.map_or_else(FxHashMap::default, |blocks| locals(func, blocks));
        for (&param, local) in &locals {
            if let (PlanLocal::Expression(text), Some(variable)) = (local, variables.of(param)) {
                variables.all[variable].name = (*text).to_owned();
            }
        }
        let mut declarations: FxHashMap<Inst, SmallVec<[CppVariable; 2]>> = FxHashMap::default();
        for (variable, data) in &variables.all {
            if let Some(inst) = data.declared_before.expand() {
                declarations.entry(inst).or_default().push(variable);
            }
        }
        let mut jumps = JumpLabels::default();
        jumps.find(func, func.body, &mut Vec::new());
        let mut users: SecondaryMap<Value, SmallVec<[Inst; 2]>> = SecondaryMap::new();
        if unit.target() == TextTarget::Cuda {
            users.resize(func.values.len());
            func.walk(func.body, &mut |inst, data| {
                for &operand in &data.operands {
                    users[operand].push(inst);
                }
            });
        }
        let negative = unit.negative_indices(func);
        let sites = unit.sites(func);
        FunctionWriter {
            unit,
            callees,
            func,
            plan,
            intervals,
            variables,
            names,
            negative,
            users,
            is_strict,
            out: String::with_capacity(1024),
            layout,
            calls,
            declared: EntitySet::new(),
            declarations,
            jumps,
            around: Vec::new(),
            indent: 0,
            changes_state: false,
            locals,
            unsigned: RefCell::new(SecondaryMap::with_capacity(func.values.len())),
            sites,
            line: None,
        }
    }

    /// Returns true if an array is written and never read here or by what is called.
    pub(super) fn is_only_written(&self, array: Value) -> bool {
        self.func.kind == FunctionKind::Kernel
            && self.users[array].iter().all(|&user| matches!(self.func.insts[user].op, Op::ArrayStore | Op::Dim))
    }

    // ---- functions -------------------------------------------------------------------------------------------------

    /// The whole text of a function that kernels call.
    /// `changes_state`: whether its first parameter is a random state that the second result is the next of.
    pub(super) fn device_function(mut self, name: &str, result: &str, changes_state: bool) -> String {
        let qualifier = match self.unit.target() {
            TextTarget::Cuda if self.func.constraints.inline_never => "__device__ __noinline__",
            target => target.function(),
        };
        let _ = write!(self.out, "{qualifier} {result} {name}(");
        self.changes_state = changes_state;
        self.parameters(false);
        self.out.push_str(") {\n");
        self.indent = 1;
        self.region(self.func.body);
        self.out.push_str("}\n");
        self.out
    }

    /// The whole text of a kernel.
    pub(super) fn kernel(mut self, name: &str) -> String {
        let target = self.unit.target();
        let blocks = self.unit.blocks;
        let dim_is_used =
            target == TextTarget::Cuda || blocks.is_some() || !self.sites.is_empty() || self.uses_thread();
        let begin = match target {
            TextTarget::Cuda => "extern \"C\" __global__ void",
            TextTarget::Cpp => "extern \"C\" void",
        };
        let unused = if dim_is_used { "" } else { "[[maybe_unused]] " };
        let bounds = if target == TextTarget::Cuda { launch_bounds(self.func) } else { String::new() };
        let _ = write!(self.out, "{begin} {bounds}{name}(");
        let first = self.out.len();
        let _ = write!(self.out, "{unused}launch_bounds dim");
        self.unit.need_scalar(Scalar::U64);
        if blocks.is_some() {
            let _ = write!(self.out, ", {BLOCKS}");
        }
        if !self.func.params().is_empty() {
            self.out.push_str(", ");
            self.parameters(true);
        }
        if target == TextTarget::Cpp {
            self.out.push_str(", uint64 begin, uint64 end");
        }
        if self.out.len() > MAX_SIGNATURE {
            let parameters = self.out.split_off(first);
            let mut depth = 0;
            self.out.push_str("\n    ");
            for c in parameters.chars() {
                // A space after a comma between parameters, not one in `array<float, 1>`.
                depth += match c {
                    '<' => 1,
                    '>' => -1,
                    _ => 0,
                };
                match c {
                    ' ' if depth == 0 && self.out.ends_with(',') => self.out.push_str("\n    "),
                    c => self.out.push(c),
                }
            }
        }
        if let Some(plan) = blocks {
            return self.kernel_of_blocks(plan);
        }
        if self.unit.in_blocks && target == TextTarget::Cuda {
            // Threads of a block work together, so that each has one place in the launch.
            self.unit.need(Helper::ThreadNumber);
            self.out.push_str(
                ") {\n    const uint64 thread = thread_number();\n    if (thread >= dim.size()) {\n        return;\n    }\n",
            );
            self.indent = 1;
            self.composite_parameters();
            self.region(self.func.body);
            self.out.push_str("}\n");
            return self.out;
        }
        match target {
            TextTarget::Cuda => self.out.push_str(
                ") {\n    const uint64 stride = uint64(gridDim.x) * blockDim.x;\n    \
                 for (uint64 thread = uint64(blockIdx.x) * blockDim.x + threadIdx.x; thread < dim.size(); \
                 thread += stride) {\n",
            ),
            TextTarget::Cpp => self.out.push_str(") {\n    for (uint64 thread = begin; thread < end; ++thread) {\n"),
        }
        self.indent = 2;
        if self.jumps.returns {
            self.open("{");
        }
        self.composite_parameters();
        self.region(self.func.body);
        if self.jumps.returns {
            self.close("}");
            self.indent -= 1;
            self.line("next_thread:;");
            self.indent += 1;
        }
        self.out.push_str("    }\n}\n");
        self.out
    }

    fn uses_thread(&self) -> bool {
        let mut uses = false;
        self.func.walk(self.func.body, &mut |_, data| {
            uses |= data.op == Op::Tid && data.results.iter().any(|&result| self.plan.live.contains(result));
        });
        uses
    }

    fn parameters(&mut self, is_kernel: bool) {
        let func = self.func;
        let mut first = true;
        let n_own = self.unit.blocks.filter(|_| is_kernel).map_or(0, |plan| plan.params.len());
        for (index, &param) in func.params().iter().enumerate() {
            if index + n_own >= func.params().len() {
                self.declared.extend(self.variables.of(param));
                continue;
            }
            let Some(variable) = self.variables.of(param) else { continue };
            self.declared.insert(variable);
            let ty = func.ty(param);
            let name = self.variables.all[variable].name.clone();
            let unused = if self.plan.is_used(param) { "" } else { "[[maybe_unused]] " };
            let types: SmallVec<[Type; 4]> = if is_kernel { ty.components() } else { SmallVec::from_elem(ty, 1) };
            // A composite comes as its components, as it does to every back end.
            let parts = &self.variables.all[variable].parts;
            let names = if parts.is_empty() { vec![name] } else { parts.clone() };
            for (name, part) in names.into_iter().zip(types) {
                let separator = if first { "" } else { ", " };
                first = false;
                let ty = self.unit.type_name(part);
                let reference = if self.changes_state && index == 0 { "&" } else { "" };
                let _ = write!(self.out, "{separator}{unused}{ty} {reference}{name}");
            }
        }
    }

    fn composite_parameters(&mut self) {
        for &param in self.func.params() {
            let (Some(composite), Some(variable)) = (self.func.ty(param).as_composite(), self.variables.of(param))
            else {
                continue;
            };
            if !self.plan.is_used(param) {
                continue;
            }
            let ty = self.unit.type_name(composite.into());
            let data = &self.variables.all[variable];
            let text = format!("const {ty} {} = {{{}}};", data.name, data.parts.join(", "));
            self.line(&text);
        }
    }

    // ---- lines -----------------------------------------------------------------------------------------------------

    pub(super) fn start(&mut self) {
        for _ in 0..self.indent {
            self.out.push_str("    ");
        }
    }

    pub(super) fn end(&mut self) {
        self.out.push_str(";\n");
    }

    pub(super) fn line(&mut self, text: &str) {
        self.start();
        self.out.push_str(text);
        self.out.push('\n');
    }

    pub(super) fn open(&mut self, text: &str) {
        self.line(text);
        self.indent += 1;
    }

    pub(super) fn close(&mut self, text: &str) {
        self.indent -= 1;
        self.line(text);
    }

    fn comment(&mut self, span: Span) {
        if let Some(text) = self.note(span) {
            self.start();
            let _ = writeln!(self.out, "// {text}");
        }
    }

    /// The line of the source that a comment is to show, unless the last comment did.
    pub(super) fn note(&mut self, span: Span) -> Option<String> {
        let (line, text) = self.unit.source_line(span).filter(|(line, _)| self.line != Some(*line))?;
        self.line = Some(line);
        Some(text)
    }

    // ---- statements ------------------------------------------------------------------------------------------------

    pub(super) fn region(&mut self, region: Region) {
        let func = self.func;
        for &inst in &func.regions[region].insts {
            let data = &func.insts[inst];
            if self.plan.is_statement(inst, data, self.calls) {
                self.statement(inst, data, region);
            }
        }
    }

    pub(super) fn statement(&mut self, inst: Inst, data: &InstData, region: Region) {
        if !data.op.info().is_terminator() {
            self.comment(data.span);
        }
        if let Some(variables) = self.declarations.remove(&inst) {
            for variable in variables {
                if self.declared.insert(variable) {
                    let ty = self.unit.type_name(self.variables.all[variable].ty);
                    let text = format!("{ty} {};", self.variables.all[variable].name);
                    self.line(&text);
                }
            }
        }
        self.atomic_fence(data, true);
        match data.op {
            Op::If => {
                self.start();
                self.if_(data, "");
            }
            Op::ForRange => self.for_range(inst, data),
            Op::While => self.while_(inst, data),
            Op::Block => {
                self.open("do {");
                self.around.push(inst);
                self.region(data.regions[0]);
                self.around.pop();
                self.close("} while (false);");
                self.left_label(inst);
            }
            Op::Yield => {
                if let Some(owner) = self.layout.owner(region) {
                    self.hand(&data.operands, owner);
                }
            }
            Op::Break | Op::Continue => self.jump(data),
            Op::Return => self.return_(data, region),
            Op::Unreachable => {}
            Op::ArrayStore if self.is_dynamic(data.operands[0]) => {
                self.start();
                self.dynamic_element(data.operands[0], data.operands[1], data.operands.last().copied());
                self.end();
            }
            Op::ArrayStore => {
                self.start();
                let (indices, value) = data.operands[1..].split_at(data.operands.len() - 2);
                self.element(inst, data.operands[0], indices);
                self.out.push_str(" = ");
                self.stored(value[0]);
                self.end();
            }
            Op::Check | Op::Assert => self.check(inst, data),
            Op::SharedArray => self.declare_shared(inst, data),
            Op::Print => {
                self.start();
                self.print_call(data);
                self.end();
            }
            Op::WithComponent | Op::WithComponentAt => self.with_component(data),
            _ if data.results.len() == 2 && draws(data.op) => self.draw(inst, data),
            _ if data.results.len() > 1 => self.several_results(inst, data),
            _ => match data.results.first() {
                Some(&result) if self.plan.live.contains(result) => self.assign_operation(inst, data, result),
                Some(&result) => {
                    self.start();
                    self.operation(inst, result);
                    self.end();
                }
                None => {
                    self.start();
                    self.call_statement(inst, data);
                    self.end();
                }
            },
        }
        self.atomic_fence(data, false);
    }

    /// A value that is stored. An element of truth values may be any byte, of which one of two is stored.
    fn stored(&mut self, value: Value) {
        if self.scalar_of(value) == Some(Scalar::Bool) && self.is_element(value) {
            self.out.push_str("bool(");
            self.bits(value, Precedence::Any);
            self.out.push(')');
        } else {
            self.bits(value, Precedence::Any);
        }
    }

    /// Returns true if a value is written as an element of an array, or as a choice of two.
    fn is_element(&self, value: Value) -> bool {
        let Some(data) = self.folded_inst(value).map(|inst| &self.func.insts[inst]) else { return false };
        match data.op {
            Op::ArrayLoad | Op::LoadReadonly => true,
            Op::Select => self.is_element(data.operands[1]) && self.is_element(data.operands[2]),
            Op::If => self.choices(data).is_some_and(|choices| choices.iter().all(|&choice| self.is_element(choice))),
            _ => false,
        }
    }

    /// A call without a result.
    pub(super) fn call_statement(&mut self, inst: Inst, data: &InstData) {
        match data.imm {
            Imm::Func(_) if data.op == Op::Call => self.user_call(data),
            _ if self.gpu(inst, data) => {}
            _ => self.library_statement(data),
        }
    }

    /// Assigns what an instruction computes; as `x += y` what changes a variable so.
    fn assign_operation(&mut self, inst: Inst, data: &InstData, result: Value) {
        let variable = self.variables.of(result);
        let changes_itself = data.operands.len() == 2
            && variable.is_some_and(|variable| self.declared.contains(variable))
            && self.variables.of(data.operands[0]) == variable;
        let sign = if changes_itself { self.compound_operator(data, result) } else { None };
        match sign {
            Some(sign) => {
                self.start();
                self.raw(data.operands[0]);
                let _ = write!(self.out, " {sign}= ");
                self.changed_by(data, result);
                self.end();
            }
            None => match variable {
                // The type stands in the declaration.
                Some(variable) if data.op == Op::Construct && !self.declared.contains(variable) => {
                    self.assign_variable(variable, |body| body.components(data));
                }
                _ => self.assign(result, |body| body.operation(inst, result)),
            },
        }
    }

    /// Assigns to a value's variable what `write` writes, and declares it if this is the first assignment.
    fn assign(&mut self, result: Value, write: impl FnOnce(&mut Self)) {
        if let Some(variable) = self.variables.of(result) {
            self.assign_variable(variable, write);
        }
    }

    pub(super) fn assign_variable(&mut self, variable: CppVariable, write: impl FnOnce(&mut Self)) {
        self.start();
        let is_new = self.declared.insert(variable);
        let data = &self.variables.all[variable];
        if is_new {
            let ty = self.unit.type_name(data.ty);
            let constant = if data.is_constant { "const " } else { "" };
            let _ = write!(self.out, "{constant}{ty} ");
        }
        let _ = write!(self.out, "{} = ", self.variables.all[variable].name);
        write(self);
        self.end();
    }

    /// Hands values to the results of an instruction, or to what a loop carries.
    pub(super) fn hand(&mut self, values: &[Value], to: Inst) {
        let func = self.func;
        let copies: SmallVec<[(CppVariable, Value); 4]> = func.insts[to]
            .results
            .iter()
            .zip(values)
            .filter_map(|(&result, &value)| Some((self.variables.of(result)?, value)))
            .collect();
        self.copy(copies);
    }

    /// A name like this one that no variable has.
    pub(super) fn unused_name(&self, wanted: &str) -> String {
        self.names.local_unless(wanted, |name| self.variables.all.values().any(|variable| variable.name == name))
    }

    /// Assigns as if all at once.
    fn copy(&mut self, mut copies: SmallVec<[(CppVariable, Value); 4]>) {
        copies.retain(|(to, from)| self.variables.of(*from) != Some(*to));
        while !copies.is_empty() {
            let reads: Vec<FxHashSet<CppVariable>> = copies.iter().map(|&(_, from)| self.reads(from)).collect();
            let free = (0..copies.len()).find(|&at| {
                reads.iter().enumerate().all(|(other, reads)| other == at || !reads.contains(&copies[at].0))
            });
            if let Some(at) = free {
                let (to, from) = copies.remove(at);
                self.assign_variable(to, |body| body.bits(from, Precedence::Any));
                continue;
            }
            // Everything left is in a circle, so that the first is remembered while the others are assigned.
            let (to, from) = copies.remove(0);
            let ty = self.unit.type_name(self.variables.all[to].ty);
            let name = self.unused_name(&format!("next_{}", self.variables.all[to].name));
            self.open("{");
            self.start();
            let _ = write!(self.out, "const {ty} {name} = ");
            self.bits(from, Precedence::Any);
            self.end();
            self.copy(std::mem::take(&mut copies));
            let text = format!("{} = {name};", self.variables.all[to].name);
            self.line(&text);
            self.close("}");
        }
    }

    /// The variables that an expression reads.
    pub(super) fn reads(&self, value: Value) -> FxHashSet<CppVariable> {
        let mut found = FxHashSet::default();
        self.add_reads(value, &mut found);
        found
    }

    fn add_reads(&self, value: Value, found: &mut FxHashSet<CppVariable>) {
        if let Some(variable) = self.variables.of(value) {
            found.insert(variable);
            return;
        }
        let polyloom_ir::ValueDef::Result(inst, _) = self.func.values[value].def else { return };
        let mut within = |data: &InstData| {
            for &operand in &data.operands {
                self.add_reads(operand, found);
            }
        };
        let data = &self.func.insts[inst];
        within(data);
        for &region in &data.regions {
            self.func.walk(region, &mut |_, data| within(data));
        }
    }

    // ---- other effects ---------------------------------------------------------------------------------------------

    fn check(&mut self, inst: Inst, data: &InstData) {
        let site = self.sites.get(&inst).copied().unwrap_or(0);
        self.unit.need(Helper::Fail);
        self.start();
        self.out.push_str("if (");
        self.negated(data.operands[0]);
        self.out.push_str(") {\n");
        self.indent += 1;
        self.start();
        let _ = write!(self.out, "fail(dim, {site}, ");
        match data.operands[..] {
            [_, index, extent] => self.list(&[index, extent]),
            _ => self.out.push_str("0, 0"),
        }
        let thread = self.checked_thread();
        let _ = writeln!(self.out, ", {thread});");
        self.line("return;");
        self.close("}");
    }
}

pub(super) fn number(inst: Inst) -> u32 {
    inst.as_u32()
}

/// The length from which a signature has a line for each parameter.
const MAX_SIGNATURE: usize = 110;

/// Returns what a kernel promises of its blocks.
fn launch_bounds(func: &Function) -> String {
    let metadata = &func.metadata;
    match (metadata.launch_bounds, metadata.workgroup_size) {
        (Some((threads, Some(blocks))), _) => format!("__launch_bounds__({threads}, {blocks}) "),
        (Some((threads, None)), _) => format!("__launch_bounds__({threads}) "),
        (None, Some([x, y, z])) => format!("__launch_bounds__({}) ", x * y * z),
        // The limit of registers stands alone, because CUDA does not take it beside the bounds of a launch.
        _ => metadata.max_registers.map_or(String::new(), |n| format!("__maxnreg__({n}) ")),
    }
}
