//! Kernels that run a block of threads at a time, in C++: HIR that was split into loops over the threads of a block.
//!
//! What the launch of compiled code makes for such a kernel, its text declares: shared memory and what threads keep
//! from one loop to the next are local arrays, and the shape of the launch is read off `dim` and `blocks`.

use super::body::FunctionWriter;
use super::expression::{Precedence, axis};
use super::prelude::Helper;
use polyloom_ir::arch::MAX_BLOCK_SIZE;
use polyloom_ir::block_plan::{BlockParam, BlockPlan, TextPhrase};
use polyloom_ir::{Function, Imm, InstData, Op, Scalar, Type, Value};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use std::fmt::Write as _;

/// Describes how a parameter of the plan is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum PlanLocal {
    /// By the name of its variable, which is an expression.
    Expression(&'static str),
    /// As a variable: memory of one element.
    Variable,
    /// As an array of arrays.
    Array(SmallVec<[u32; 4]>),
    /// As dynamic shared memory, with an element at each byte or at the multiples of its size.
    Dynamic { by_byte: bool },
}

/// Describes what the memory of a block is for.
struct BlockMemory {
    array: Value,
    /// True if every block begins with zeros in it.
    is_cleared: bool,
    is_read: bool,
}

/// Returns how each parameter of the plan is written.
pub(super) fn locals(func: &Function, plan: &BlockPlan) -> FxHashMap<Value, PlanLocal> {
    let block = plan.block.map(|block| block.iter().product()).unwrap_or(MAX_BLOCK_SIZE);
    let first = plan.n_arguments(func.params().len());
    let local = |(&param, of): (&Value, &BlockParam)| {
        let local = match of {
            BlockParam::Fixed(extents) if extents[..] == [1] && is_cell(func, param) => PlanLocal::Variable,
            BlockParam::FailedThread => PlanLocal::Variable,
            BlockParam::Fixed(extents) => PlanLocal::Array(extents.clone()),
            BlockParam::PerThread => PlanLocal::Array(smallvec![block]),
            BlockParam::Dynamic { by_byte, .. } => PlanLocal::Dynamic { by_byte: *by_byte },
            BlockParam::Threads => PlanLocal::Expression("dim.size()"),
            BlockParam::SharedBytes => PlanLocal::Expression("blocks.shared_bytes"),
            // Operands of phrases, which do not write them.
            _ => PlanLocal::Expression("0"),
        };
        (param, local)
    };
    func.params()[first..].iter().zip(&plan.params).map(local).collect()
}

/// Returns true if nothing but the first element of an array is accessed.
fn is_cell(func: &Function, array: Value) -> bool {
    let mut is_cell = true;
    func.walk(func.body, &mut |_, data| {
        if data.operands.first() == Some(&array) {
            is_cell &= data.operands.get(1).is_some_and(|&index| func.as_const(index) == Some(0));
        }
    });
    is_cell
}

/// The parameter that says how a launch is divided into blocks.
pub(super) const BLOCKS: &str = "launch_blocks blocks";

impl FunctionWriter<'_, '_> {
    /// The rest of a kernel's text, behind the user's parameters.
    pub(super) fn kernel_of_blocks(mut self, plan: &BlockPlan) -> String {
        self.unit.need(Helper::LaunchBlocks);
        self.out.push_str(") {\n    for (uint64 block = begin; block < end; ++block) {\n");
        self.indent = 2;
        let returns = self.jumps.returns;
        if returns {
            self.open("{");
        }
        let begin = self.out.len();
        self.declare_memory(plan);
        self.region(self.func.body);
        if returns {
            self.close("}");
            self.indent -= 1;
            self.line("next_block:;");
            self.indent += 1;
        }
        self.out.push_str("    }\n}\n");
        if !self.out[begin..].contains("blocks.")
            && let Some(at) = self.out.find(BLOCKS)
        {
            self.out.insert_str(at, "[[maybe_unused]] ");
        }
        let threads = match plan.block {
            Some([x, 1, 1]) => format!("{x} threads each"),
            Some([x, y, z]) => format!("{x} x {y} x {z} threads each"),
            None => format!("up to {MAX_BLOCK_SIZE} threads each"),
        };
        self.out.insert_str(0, &format!("// Blocks of {threads}: those from `begin` on, up to `end`.\n"));
        self.out
    }

    /// The memory of a block.
    fn declare_memory(&mut self, plan: &BlockPlan) {
        let func = self.func;
        let first = plan.n_arguments(func.params().len());
        let mut dynamic = false;
        for (&array, param) in func.params()[first..].iter().zip(&plan.params) {
            if !self.plan.is_used(array) || func.ty(array).as_array().is_none() {
                continue;
            }
            let mut is_read = false;
            func.walk(func.body, &mut |_, data| {
                is_read |= data.op == Op::ArrayLoad && data.operands.first() == Some(&array);
            });
            if matches!(param, BlockParam::Dynamic { .. }) {
                if !std::mem::replace(&mut dynamic, true) {
                    self.unit.need(Helper::DynamicMemory);
                    self.line("dynamic_memory dynamic(blocks.shared_bytes);");
                }
                continue;
            }
            // Kept values are stored before they are loaded, which compilers see of arrays.
            let name = func.param_index(array).and_then(|at| func.param_names.get(at));
            let is_cleared = self.locals.get(&array) == Some(&PlanLocal::Variable)
                || name.is_some_and(|name| name.starts_with("shared") || name.starts_with("away"));
            self.declare_local(&BlockMemory { array, is_cleared, is_read });
        }
    }

    fn declare_local(&mut self, memory: &BlockMemory) {
        let (Some(variable), Some(local)) = (self.variables.of(memory.array), self.locals.get(&memory.array)) else {
            return;
        };
        let (Some((elem, _)), local) = (self.func.ty(memory.array).as_array(), local.clone()) else { return };
        let ty = self.unit.type_name(elem.into());
        let unused = if memory.is_read { "" } else { "[[maybe_unused]] " };
        let name = &self.variables.all[variable].name;
        let extents = match &local {
            PlanLocal::Array(extents) => extents.iter().map(|extent| format!("[{extent}]")).collect(),
            _ => String::new(),
        };
        let zeros = if memory.is_cleared { " = {}" } else { "" };
        let text = format!("{unused}{ty} {name}{extents}{zeros};");
        self.line(&text);
    }

    /// An element of memory of the block's that has a place to be read and stored at. False for other arrays.
    pub(super) fn local_element(&mut self, array: Value, indices: &[Value]) -> bool {
        match self.locals.get(&array) {
            Some(PlanLocal::Variable) => self.raw(array),
            Some(PlanLocal::Array(_)) => {
                self.raw(array);
                for &index in indices {
                    self.out.push('[');
                    self.value(index, Precedence::Any);
                    self.out.push(']');
                }
            }
            _ => return false,
        }
        true
    }

    /// Returns true if an array is dynamic shared memory.
    pub(super) fn is_dynamic(&self, array: Value) -> bool {
        matches!(self.locals.get(&array), Some(PlanLocal::Dynamic { .. }))
    }

    /// A load from dynamic shared memory or, with `value`, a store to it. False for other arrays.
    pub(super) fn dynamic_element(&mut self, array: Value, index: Value, value: Option<Value>) -> bool {
        let Some(&PlanLocal::Dynamic { by_byte }) = self.locals.get(&array) else { return false };
        let Some((elem, _)) = self.func.ty(array).as_array() else { return false };
        if elem == Scalar::Bool {
            self.unit.need(Helper::Bool8);
        }
        let verb = if value.is_some() { "store" } else { "load" };
        let place = if by_byte { "_at" } else { "" };
        let ty = if elem == Scalar::Bool { "bool8".to_owned() } else { self.unit.type_name(elem.into()) };
        let _ = write!(self.out, "dynamic.{verb}{place}<{ty}>(");
        self.value(self.before_cast(index), Precedence::Any);
        if let Some(value) = value {
            self.out.push_str(", ");
            if elem == Scalar::Bool {
                self.out.push_str("bool8{");
            }
            self.value(value, Precedence::Any);
            if elem == Scalar::Bool {
                self.out.push('}');
            }
        }
        self.out.push(')');
        true
    }

    /// A call of a function of the user's, or what text has a phrase for.
    pub(super) fn user_call(&mut self, data: &InstData) {
        let Imm::Func(callee) = data.imm else { return };
        if self.phrase(data) {
            return;
        }
        let name = self.unit.function(self.callees, callee);
        self.out.push_str(&name);
        self.out.push('(');
        for (index, &operand) in data.operands.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            // Parameters have types, and convert what is unsigned in the text.
            if self.shape(operand).is_modular {
                self.bits(operand, Precedence::Any);
            } else {
                self.value(operand, Precedence::Any);
            }
        }
        self.out.push(')');
    }

    /// A call that text has a phrase for. False for other calls.
    fn phrase(&mut self, data: &InstData) -> bool {
        let Imm::Func(callee) = data.imm else { return false };
        let Some(phrase) = self.unit.phrase(self.callees, callee) else { return false };
        match phrase {
            TextPhrase::ThreadIndex(axis) => {
                self.out.push_str("dim.index(");
                match self.folded_inst(data.operands[0]).map(|inst| &self.func.insts[inst]) {
                    Some(sum) if sum.op == Op::Add => {
                        self.value(sum.operands[0], Precedence::Sum);
                        self.out.push_str(" + ");
                        self.value(self.before_cast(sum.operands[1]), Precedence::Product);
                    }
                    _ => self.value(data.operands[0], Precedence::Any),
                }
                let _ = write!(self.out, ", {axis})");
            }
            TextPhrase::BlockIndex(axis) => {
                let _ = write!(self.out, "blocks.index(block, {axis})");
            }
            TextPhrase::Wrap => {
                let extent = self.before_cast(data.operands[1]);
                let index = self.before_cast(data.operands[0]);
                let is_constant = self.written_constant(index).is_some();
                let index = self.intervals.of(index);
                let is_plain = is_constant && index.low < 0;
                if let Some(extent) = self.func.as_const(extent).filter(|_| is_plain) {
                    let _ = write!(self.out, "{}", i128::from(extent) + index.low);
                    return true;
                }
                let close = if is_plain { format!(" - {}", -index.low) } else { ")".to_owned() };
                if !is_plain {
                    self.unit.need(Helper::Wrap);
                    self.out.push_str("wrap(");
                    self.value(self.before_cast(data.operands[0]), Precedence::Any);
                    self.out.push_str(", ");
                }
                if let Some(extent) = self.func.as_const(extent) {
                    let _ = write!(self.out, "{extent}{close}");
                    return true;
                }
                match self.folded_inst(extent).map(|inst| &self.func.insts[inst]) {
                    Some(dim) if dim.op == Op::Dim => {
                        self.raw(dim.operands[0]);
                        let _ = write!(self.out, ".shape[{}]{close}", axis(dim));
                    }
                    _ => {
                        self.value(extent, Precedence::Sum);
                        self.out.push_str(&close);
                    }
                }
            }
        }
        true
    }

    /// Returns what a conversion of an integer within an expression converts, where C++ does by itself.
    fn before_cast(&self, value: Value) -> Value {
        let data = self.folded_inst(value).map(|inst| &self.func.insts[inst]).filter(|data| data.op == Op::Cast);
        let operand = data.map(|data| data.operands[0]);
        operand.filter(|&v| self.scalar_of(v).is_some_and(Scalar::is_int)).unwrap_or(value)
    }

    /// The number in the launch of the thread whose check is looked at.
    pub(super) fn checked_thread(&self) -> String {
        let Some(plan) = self.unit.blocks.filter(|_| !self.locals.is_empty()) else { return "thread".to_owned() };
        let running = self.func.params()[plan.n_arguments(self.func.params().len())..]
            .iter()
            .zip(&plan.params)
            .find(|(_, of)| **of == BlockParam::FailedThread)
            .and_then(|(&param, _)| self.variables.of(param))
            .map_or("0", |variable| &self.variables.all[variable].name);
        match plan.block {
            Some(block) => format!("block * {} + {running}", block.iter().product::<u32>()),
            None => format!("block * blocks.size() + {running}"),
        }
    }

    /// Returns true if a value is the number of the block that runs.
    pub(super) fn is_block_number(&self, value: Value) -> bool {
        !self.locals.is_empty()
            && self.folded_inst(value).is_some_and(|inst| self.func.insts[inst].op == Op::Tid)
            && self.func.ty(value) == Type::I32
    }
}
