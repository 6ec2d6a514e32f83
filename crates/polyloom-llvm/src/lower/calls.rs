//! Calls of pure functions of scalars: the library functions of the module, and on GPUs those of the user that stay
//! functions.
//!
//! A function is compiled for all lanes at once, and for one if the arguments are uniform. It needs no mask, having no
//! effects: idle lanes are given zeros, which take no slow path. The library relies on exact rounding, so its
//! functions are strict whatever the kernel's float mode.

use super::arith::ArithContext;
use super::control_frame::ReturnTarget;
use super::reciprocals::find_divisions_by_invariants;
use super::{ExecMask, FunctionLowering, Reps, Result, ValueRep};
use crate::ir::*;
use crate::target::HostProcessor;
use cranelift_entity::SecondaryMap;
use polyloom_codegen::{CodegenError, function_name};
use polyloom_ir::analysis::uniformity::{Uniformity, UniformityContext, ValueShape};
use polyloom_ir::{FuncId, Function, Inst, Op, OptLevel, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::ffi::CString;

/// The functions compiled so far, by number of lanes.
#[derive(Default)]
pub(crate) struct CompiledCallees {
    functions: FxHashMap<(FuncId, u32), LlvmFunction>,
    level: Option<OptLevel>,
    /// True if the kernel promises that nothing in it is called.
    inlines_all: bool,
}

impl CompiledCallees {
    /// No functions yet, of this kernel.
    pub(crate) fn of(kernel: &Function) -> CompiledCallees {
        let inlines_all = kernel.constraints.inline_always || kernel.opt_level() == Some(OptLevel::Olatency);
        CompiledCallees { level: kernel.opt_level(), inlines_all, ..CompiledCallees::default() }
    }

    /// True if calls of a function of so many instructions are to be replaced by its code.
    fn inlines(&self, n_insts: usize) -> bool {
        match self.level {
            _ if self.inlines_all => true,
            Some(OptLevel::O0 | OptLevel::Os) => false,
            _ => n_insts <= INLINE_LIMIT,
        }
    }
}

/// Adds the attributes that every function of a module has: the host's instructions, in its widest registers.
pub(crate) fn set_attributes(ir: &IrEmitter<'_>, processor: &HostProcessor, function: LlvmFunction) {
    ir.string_attribute(function, "target-cpu", &processor.cpu);
    ir.string_attribute(function, "target-features", &processor.features);
    if !processor.is_gpu {
        let bits = (processor.vector_bytes * 8).to_string();
        ir.string_attribute(function, "prefer-vector-width", &bits);
        ir.string_attribute(function, "min-legal-vector-width", &bits);
    }
    ir.string_attribute(function, "no-trapping-math", "true");
    ir.enum_attribute(function, FUNCTION, "nounwind");
}

/// The values that some instruction uses.
pub(crate) fn used_values(func: &Function) -> SecondaryMap<Value, bool> {
    let mut used = SecondaryMap::new();
    func.walk(func.body, &mut |_, data| {
        for &operand in &data.operands {
            used[operand] = true;
        }
    });
    used
}

impl FunctionLowering<'_, '_> {
    pub(crate) fn call(&mut self, inst: Inst, callee: FuncId) -> Result<Reps> {
        let func = self.func;
        let data = &func.insts[inst];
        let ir = self.ir;
        let reps = self.reps(&data.operands)?;
        let uniform = reps.iter().all(|rep| matches!(rep, ValueRep::Uniform(_)));
        let lanes = if uniform { 1 } else { self.lanes };
        let function = self.callee(callee, lanes).map_err(|mut error| {
            if error.span == polyloom_ir::Span::NONE {
                error.span = data.span;
            }
            error
        })?;
        let mask = if uniform { None } else { self.mask() };
        let branches = self.module.functions.get(callee).is_some_and(has_regions);
        let mut args: SmallVec<[Val; 4]> = SmallVec::new();
        for &rep in &reps {
            let arg = if uniform { self.base(rep)? } else { self.vector(rep)? };
            args.push(match mask {
                Some(mask) if branches => ir.select(mask, arg, ir.zero(ir.type_of(arg))),
                _ => arg,
            });
        }
        let value = ir.call(function, &args);
        let rep = |value| if uniform { ValueRep::Uniform(value) } else { ValueRep::Vector(value) };
        Ok(match data.results.len() {
            0 => Reps::new(),
            1 => [rep(value)].into_iter().collect(),
            n => (0..n as u32).map(|i| rep(ir.extract_field(value, i))).collect(),
        })
    }

    fn callee(&mut self, id: FuncId, lanes: u32) -> Result<LlvmFunction> {
        if let Some(&function) = self.callees.functions.get(&(id, lanes)) {
            return Ok(function);
        }
        let ir = self.ir;
        let no_function = || CodegenError::new("internal error: a call to a function that is not in the module");
        let func = self.module.functions.get(id).ok_or_else(no_function)?;
        let ty = |ty: polyloom_ir::Type| match ty.as_scalar() {
            Some(scalar) => Ok(ir.lanes(ir.scalar(scalar), lanes)),
            None => Err(CodegenError::new(format!("`{}` takes an array and cannot stay a call", func.name))),
        };
        let params = func.params().iter().map(|&p| ty(func.ty(p))).collect::<Result<Vec<_>>>()?;
        let results = func.results.iter().map(|&r| ty(r)).collect::<Result<SmallVec<[Ty; 2]>>>()?;
        let result = match results[..] {
            [] => ir.void(),
            [one] => one,
            _ => ir.structure(&results),
        };
        let name = match func.constraints.inline_never {
            true => function_name(func),
            false => format!("{}.x{lanes}", func.name).replace('\0', "_"),
        };
        let name = CString::new(name);
        let name = name.map_err(|e| CodegenError::new(e.to_string()))?;
        let function = ir.add_function(&name, &params, result, true);
        set_attributes(ir, self.arith.processor, function);
        ir.set_fast_call(function);
        if func.constraints.inline_never {
            ir.enum_attribute(function, FUNCTION, "noinline");
        } else if self.callees.inlines(func.insts.len()) {
            ir.enum_attribute(function, FUNCTION, "alwaysinline");
        }
        self.callees.functions.insert((id, lanes), function);
        let here = ir.current();
        let flags = ir.set_fast_math(0);
        let location = ir.take_location();
        ir.begin(function);
        self.callee_body(func, function, lanes, &results)?;
        ir.set_fast_math(flags);
        ir.set_location(location);
        ir.switch_to(here);
        Ok(function)
    }

    fn callee_body(&mut self, func: &Function, function: LlvmFunction, lanes: u32, results: &[Ty]) -> Result<()> {
        let ir = self.ir;
        let shapes = vec![ValueShape::Varying; func.params().len()];
        let context = UniformityContext { params: &shapes, ..UniformityContext::new(self.module, 1) };
        let uniformity = (lanes > 1).then(|| Uniformity::of(func, &context));
        let (used, indexes) = (used_values(func), SecondaryMap::new());
        let by_invariants = find_divisions_by_invariants(func, false);
        let mut values = SecondaryMap::new();
        for (index, &param) in func.params().iter().enumerate() {
            let value = ir.param(function, index as u32);
            values[param] = Some(if lanes == 1 { ValueRep::Uniform(value) } else { ValueRep::Vector(value) });
        }
        let mut lower = FunctionLowering {
            ir,
            arith: ArithContext { ..self.arith },
            callees: &mut *self.callees,
            module: self.module,
            func,
            lanes,
            parallel: &[],
            totals: &[],
            alone: self.alone,
            uniformity: uniformity.as_ref(),
            used: &used,
            indexes: &indexes,
            by_invariants: &by_invariants,
            sites: None,
            arrays: &[],
            own_arrays: Vec::new(),
            thread: None,
            values,
            in_step: SmallVec::new(),
            not_negative: SmallVec::new(),
            tile_accesses: FxHashMap::default(),
            facts: None,
            wide: FxHashMap::default(),
            stored_rows: super::stored_rows::StoredRows::default(),
            exec: ExecMask::Full,
            exec_slot: None,
            maybe_none: false,
            frames: Vec::new(),
            returns: ReturnTarget::default(),
            bail_out: None,
            full_blocks: None,
            has_effects: false,
            choices: super::choice_tables::ChoiceTables::default(),
            lines: None,
        };
        let mut one_by_one = false;
        func.walk(func.body, &mut |inst, data| one_by_one |= data.op == Op::Return && lower.is_divergent(inst));
        if one_by_one {
            lower.returns.slots = Some(results.iter().map(|&ty| lower.slot(ty)).collect());
        }
        let values = lower.lower_function_body()?;
        let values: SmallVec<[Val; 2]> = match (&lower.returns.slots, values) {
            (_, None) => {
                ir.unreachable();
                return Ok(());
            }
            (Some(slots), _) => slots.iter().zip(results).map(|(&slot, &ty)| ir.get(ty, slot)).collect(),
            (None, Some(values)) => values.into_iter().map(|rep| lower.vector(rep)).collect::<Result<_>>()?,
        };
        match values[..] {
            [] if results.is_empty() => ir.ret_void(),
            // A function no lane of which returns, so that its end is never reached.
            [] => ir.unreachable(),
            [one] => ir.ret(one),
            _ => {
                let mut all = ir.poison(ir.structure(results));
                for (index, &value) in values.iter().enumerate() {
                    all = ir.insert_field(all, value, index as u32);
                }
                ir.ret(all);
            }
        }
        Ok(())
    }
}

/// Instructions up to which a library function always goes inline, because calls spill every vector register.
const INLINE_LIMIT: usize = 80;

fn has_regions(func: &Function) -> bool {
    func.insts.values().any(|data| !data.regions.is_empty())
}
