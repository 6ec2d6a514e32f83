//! Lowering: the typed AST to structured SSA.
//!
//! A checked program lowers without errors. Variables become values: where control flow joins, the variables the
//! checker listed (`merged`, `carried`) become results of the `if` or loop, those that nothing reads afterwards left
//! out. Early exits become `return`, `break` and `continue` terminators; a loop with `else` stands in a `block` that
//! its `break`s leave.

mod expression;
mod statement;

use crate::structure::ValueType;
use crate::typed_ast::{FunctionId, LocalId, TypedFunction, TypedProgram};
use polyloom_ir::{Builder, FuncId, Function as HirFunction, Imm, Inst, Module, Op, Span, Type, Value};
use smallvec::SmallVec;
use std::sync::Arc;

/// The HIR function of a function instance.
pub(crate) fn func_id(id: FunctionId) -> FuncId {
    FuncId::from_u32(id.0)
}

/// Lowers every function of a program.
pub(crate) fn lower(program: &TypedProgram) -> Module {
    let mut module = Module::new();
    for function in &program.functions {
        module.functions.push(lower_function(program, function));
    }
    module
}

fn lower_function(program: &TypedProgram, function: &TypedFunction) -> HirFunction {
    let n_params = function.params.iter().map(|param| param.ty.n_leaves()).sum();
    let params = function.locals.iter().take(n_params).map(|p| (&*p.name, p.ty));
    let mut hir = HirFunction::new(function.name.clone(), function.kind, params, &handed_back(function));
    hir.metadata = function.metadata.clone();
    hir.constraints = function.constraints.clone();
    hir.span = function.span;
    hir.gradient = function.custom.gradient.map(func_id);
    hir.replay = function.custom.replay.map(func_id);
    let values: Vec<Value> = hir.params().to_vec();
    let mut vars: Vec<Option<Value>> = vec![None; function.locals.len()];
    for (var, value) in vars.iter_mut().zip(values) {
        *var = Some(value);
    }
    let mut lowering = AstLowering {
        program,
        function,
        builder: Builder::new(&mut hir),
        vars,
        changes: Vec::new(),
        loops: Vec::new(),
    };
    if lowering.block(&function.body) {
        lowering.builder.set_span(function.span);
        if function.results.is_empty() {
            let updated = lowering.locals(&function.updated);
            lowering.builder.return_(&updated);
        } else {
            lowering.builder.inst(Op::Unreachable, &[], &[], Imm::None);
        }
    }
    hir
}

/// The types of what a function hands back: its results, then the parameters it changes.
fn handed_back(function: &TypedFunction) -> SmallVec<[Type; 4]> {
    let mut types = leaf_types(&function.results);
    types.retain(|ty| ty.as_any_array().is_none());
    types.extend(function.updated.iter().map(|local| function.locals[local.0 as usize].ty));
    types
}

/// The types of the leaves of values of these types.
fn leaf_types(types: &[ValueType]) -> SmallVec<[Type; 4]> {
    types.iter().flat_map(|ty| ty.leaf_types()).collect()
}

/// Variables that a construct gives values, in the order of its results.
type Merged = SmallVec<[LocalId; 4]>;

/// A loop being lowered.
struct LoopFrame {
    /// Holds what `continue` names.
    loop_inst: Inst,
    carried: Merged,
    /// Holds what `break` names, if not the loop: the block around a loop with `else`.
    block: Option<(Inst, Merged)>,
}

struct AstLowering<'p, 'b> {
    program: &'p TypedProgram,
    function: &'p TypedFunction,
    builder: Builder<'b>,
    /// The value of every variable at this point.
    vars: Vec<Option<Value>>,
    /// Every change of a variable with what it had before, so that leaving a region takes back its own changes only.
    changes: Vec<(LocalId, Option<Value>)>,
    loops: Vec<LoopFrame>,
}

impl AstLowering<'_, '_> {
    fn ty(&self, local: LocalId) -> Type {
        self.function.locals[local.0 as usize].ty
    }

    fn name(&self, local: LocalId) -> &str {
        &self.function.locals[local.0 as usize].name
    }

    /// The value of a variable. Where it has none, as before a loop that sets it first, nothing reads what is given.
    fn local(&mut self, local: LocalId) -> Value {
        match self.vars[local.0 as usize] {
            Some(value) => value,
            None => self.zero(self.ty(local)),
        }
    }

    fn locals(&mut self, locals: &[LocalId]) -> SmallVec<[Value; 4]> {
        locals.iter().map(|l| self.local(*l)).collect()
    }

    fn zero(&mut self, ty: Type) -> Value {
        match ty {
            Type::Scalar(scalar) => self.builder.const_bits(scalar, 0),
            Type::Composite(composite) => {
                let zero = self.builder.const_bits(composite.elem(), 0);
                let components: SmallVec<[Value; 4]> = SmallVec::from_elem(zero, composite.n_components());
                let inst = self.builder.inst(Op::Construct, &components, &[ty], polyloom_ir::Imm::None);
                self.builder.func.insts[inst].results[0]
            }
            // Arrays are never assigned, so they always have their value.
            Type::Array { .. } | Type::CompositeArray { .. } => self.builder.func.params()[0],
        }
    }

    fn set(&mut self, local: LocalId, value: Value) {
        let before = self.vars[local.0 as usize].replace(value);
        self.changes.push((local, before));
        let name = &self.function.locals[local.0 as usize].name;
        let known = &mut self.builder.func.value_names[value];
        if known.is_none() && !name.is_empty() {
            *known = Some(Arc::clone(name));
        }
    }

    /// Gives variables back the values they had when there were only so many changes.
    fn restore(&mut self, n_changes: usize) {
        for (local, before) in self.changes.drain(n_changes..).rev() {
            self.vars[local.0 as usize] = before;
        }
    }

    fn set_all(&mut self, locals: &[LocalId], values: &[Value]) {
        for (local, value) in locals.iter().zip(values) {
            self.set(*local, *value);
        }
    }

    fn types(&self, locals: &[LocalId]) -> SmallVec<[Type; 4]> {
        locals.iter().map(|l| self.ty(*l)).collect()
    }

    /// Returns true if a variable may be read after the construct of this span: later in the text or, in the next
    /// iteration of a loop around it, anywhere.
    fn is_read_after(&self, local: LocalId, span: Span) -> bool {
        let last_read = self.function.locals[local.0 as usize].last_read;
        last_read >= span.end || (!self.loops.is_empty() && last_read > 0)
    }

    /// Returns true if the counter of a loop may be read outside its body, which begins at `body`, because the body's
    /// own reads are of the value each iteration starts with.
    fn is_counter_read_outside(&self, counter: LocalId, body: u32, end: u32) -> bool {
        let local = &self.function.locals[counter.0 as usize];
        local.last_read >= end || (!self.loops.is_empty() && local.first_read < body)
    }
}
