//! `expand_library`: library ops become calls of the functions that define them.
//!
//! `polyloom_ir::math` builds a function each time it is asked. This pass asks once per process and overload, brings
//! the function into its final form (nested library ops expanded, small ones inlined, all simplified), and copies that
//! form into the modules that need it, with the big library functions it calls in turn.

use super::{cse, dce, early_exits, fold, if_convert, inline, licm};
use crate::pipeline::extract;
use polyloom_ir::op::Lowering;
use polyloom_ir::{
    Builder, CallEffects, FuncId, Function, Imm, Inst, Module, Op, Region, Scalar, Type, Value, ValueDef, math,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

type Types = SmallVec<[Type; 4]>;

/// Replaces the library ops of `func` by calls, adding their functions to the module where they are missing.
///
/// Operands of 16-bit float types are converted to `f32` and results back, so there are no library functions of
/// those types.
pub fn expand_library(module: &mut Module, func: FuncId) {
    let function = &module.functions[func];
    let mut found = false;
    function.walk(function.body, &mut |_, data| found |= data.op.info().lowering == Lowering::Library);
    if !found {
        return;
    }
    let mut expansion = LibraryExpansion { known: SmallVec::new() };
    let mut function = take(module, func);
    let body = function.body;
    expansion.region(module, &mut function, body);
    module.functions[func] = function;
}

/// The function that defines an op on composites for these operand types, added to the module if it is missing; `None`
/// if the op is no more than what it is on components.
pub(super) fn library_call(module: &mut Module, op: Op, types: &[Type]) -> Option<FuncId> {
    let wide = |ty: &Type| match *ty {
        Type::Composite(composite) if composite.elem().is_half() => composite.with_elem(Scalar::F32).into(),
        ty => widened(ty),
    };
    let definition = definition(op, &types.iter().map(wide).collect::<Types>())?;
    Some(add_to_module(module, &definition, FuncId::from_u32(0)))
}

/// Takes a function out of its module for the time it is changed. Its name stays taken.
pub(super) fn take(module: &mut Module, func: FuncId) -> Function {
    let Function { name, kind, .. } = &module.functions[func];
    let placeholder = Function::new(name.clone(), *kind, [], &[]);
    std::mem::replace(&mut module.functions[func], placeholder)
}

struct LibraryExpansion {
    /// The functions used so far.
    known: SmallVec<[(Op, Types, FuncId); 8]>,
}

impl LibraryExpansion {
    fn region(&mut self, module: &mut Module, func: &mut Function, region: Region) {
        let capacity = func.regions[region].insts.len() + 8;
        let insts = std::mem::replace(&mut func.regions[region].insts, Vec::with_capacity(capacity));
        for inst in insts {
            if is_library(func, inst) {
                // This is simplified first, because division by a constant that is a power of two needs no library.
                fold::simplify_in_place(func, inst, region);
            }
            if is_library(func, inst) && self.expand(module, func, region, inst) {
                continue;
            }
            func.regions[region].insts.push(inst);
            for index in 0..func.insts[inst].regions.len() {
                self.region(module, func, func.insts[inst].regions[index]);
            }
        }
    }

    /// Appends what replaces `inst` to `region`; false if no function defines it for these operand types.
    fn expand(&mut self, module: &mut Module, func: &mut Function, region: Region, inst: Inst) -> bool {
        let data = &func.insts[inst];
        let op = data.op;
        let types: Types = data.operands.iter().map(|&v| widened(func.ty(v))).collect();
        let Some(callee) = self.function(module, op, types) else { return false };
        let (operands, results, span) = (data.operands.clone(), data.results.clone(), data.span);
        let result_types: SmallVec<[Type; 4]> = results.iter().map(|&v| func.ty(v)).collect();

        let mut builder = Builder::new(func);
        builder.switch_to(region);
        builder.set_span(span);
        let operands: SmallVec<[_; 4]> = operands
            .iter()
            .map(|&v| if is_half(builder.func.ty(v)) { builder.cast(v, Scalar::F32) } else { v })
            .collect();
        if !result_types.iter().any(|&ty| is_half(ty)) {
            // The op itself becomes the call, so that its results keep their names.
            let data = &mut func.insts[inst];
            data.op = Op::Call;
            data.operands = operands;
            data.imm = Imm::Func(callee);
            func.regions[region].insts.push(inst);
            return true;
        }
        let wide_types: SmallVec<[Type; 4]> = result_types.iter().map(|&ty| widened(ty)).collect();
        let call = builder.inst(Op::Call, &operands, &wide_types, Imm::Func(callee));
        for (index, &result) in results.iter().enumerate() {
            // The op's results become those of the call, or of a cast to their 16-bit type.
            if !is_half(result_types[index]) {
                func.insts[call].results[index] = result;
                func.values[result].def = ValueDef::Result(call, index as u32);
                continue;
            }
            let wide = func.insts[call].results[index];
            let cast = func.make_inst(Op::Cast, [wide].as_slice(), &[], Imm::None, span);
            func.insts[cast].results.push(result);
            func.values[result].def = ValueDef::Result(cast, 0);
            func.regions[region].insts.push(cast);
        }
        true
    }

    fn function(&mut self, module: &mut Module, op: Op, types: Types) -> Option<FuncId> {
        if let Some((.., id)) = self.known.iter().find(|(o, t, _)| *o == op && *t == types) {
            return Some(*id);
        }
        let definition = definition(op, &types)?;
        let id = add_to_module(module, &definition, FuncId::from_u32(0));
        self.known.push((op, types, id));
        Some(id)
    }
}

/// Returns true if a library function can replace an instruction. Library functions are of scalars, because `scalarise`
/// takes composites apart first.
fn is_library(func: &Function, inst: Inst) -> bool {
    let data = &func.insts[inst];
    let is_composite = |&value: &Value| func.ty(value).as_composite().is_some();
    data.op.info().lowering == Lowering::Library && !data.operands.iter().chain(&data.results).any(is_composite)
}

fn is_half(ty: Type) -> bool {
    ty.as_scalar().is_some_and(Scalar::is_half)
}

fn widened(ty: Type) -> Type {
    if is_half(ty) { Type::F32 } else { ty }
}

/// The module's copy of function `id` of a definition, and of what it calls. A function of the user's may have its name
/// already, in which case then it gets another.
fn add_to_module(module: &mut Module, definition: &Module, id: FuncId) -> FuncId {
    let mut function = Cow::Borrowed(&definition.functions[id]);
    let copies: SmallVec<[(FuncId, FuncId); 4]> =
        function.callees().into_iter().map(|callee| (callee, add_to_module(module, definition, callee))).collect();
    if !copies.is_empty() {
        for data in function.to_mut().insts.values_mut() {
            if let Imm::Func(callee) = &mut data.imm
                && let Some((_, copy)) = copies.iter().find(|(from, _)| from == callee)
            {
                *callee = *copy;
            }
        }
    }
    let mut name = function.name.clone();
    let mut suffix = 1;
    while let Some(id) = module.find(&name) {
        if same_code(&module.functions[id], &function) {
            return id;
        }
        name = format!("{}.v{suffix}", function.name).into();
        suffix += 1;
    }
    let mut function = function.into_owned();
    function.name = name;
    module.functions.push(function)
}

/// Returns true if two functions consist of the same entities: true for copies of one definition, and never for
/// functions that differ.
fn same_code(a: &Function, b: &Function) -> bool {
    let insts = || a.insts.values().zip(b.insts.values());
    a.results == b.results
        && a.insts.len() == b.insts.len()
        && a.regions.len() == b.regions.len()
        && a.values.len() == b.values.len()
        && a.values.values().zip(b.values.values()).all(|(x, y)| x.ty == y.ty && x.def == y.def)
        && a.regions.values().zip(b.regions.values()).all(|(x, y)| x.params == y.params && x.insts == y.insts)
        && insts().all(|(x, y)| x.op == y.op && x.operands == y.operands && x.regions == y.regions && x.imm == y.imm)
}

/// The function that defines `op` for these operand types, in its final form, followed by what it calls.
pub(crate) fn definition(op: Op, types: &[Type]) -> Option<Arc<Module>> {
    type Cache = RwLock<FxHashMap<(Op, Types), Option<Arc<Module>>>>;
    static CACHE: LazyLock<Cache> = LazyLock::new(Cache::default);
    // Entries are inserted whole, so that a poisoned lock protects nothing broken.
    if let Some(entry) = CACHE.read().unwrap_or_else(PoisonError::into_inner).get(&(op, Types::from_slice(types))) {
        return entry.clone();
    }
    let built = math::library_function(op, types).map(|function| Arc::new(finished(function)));
    let mut cache = CACHE.write().unwrap_or_else(PoisonError::into_inner);
    cache.entry((op, Types::from_slice(types))).or_insert(built).clone()
}

fn finished(function: Function) -> Module {
    let mut module = Module::new();
    let id = module.functions.push(function);
    expand_library(&mut module, id);
    let inlined = inline::inline(&mut module, id, inline::KeptCalls::Nothing);
    debug_assert!(inlined.is_ok(), "library functions stay within the limits");
    let calls = CallEffects::of(&module, id);
    let func = &mut module.functions[id];
    early_exits::early_exits(func);
    fold::fold(func);
    if_convert::if_convert(func);
    cse::cse(func, &calls);
    licm::licm(func, &calls);
    dce::dce(func, &calls);
    extract(&module, id).0
}
