//! HIR to Cranelift IR.
//!
//! HIR is structured and in SSA form already, so each HIR value becomes one Cranelift value: what regions yield, break
//! or continue with are block arguments, and no variable is ever rebuilt. The files here follow the op table's groups:
//! [`control`] for regions, [`scalar`] and [`convert`] for arithmetic, [`array`] and [`atomic`] for memory,
//! [`callback`] for what calls back, [`lanes`] for products on vectors, [`entry`] for the loop over threads that surrounds a kernel's body.
//!
//! How scalars are represented: `bool` is an `i8` of 0 or 1, 16-bit floats are their bits in an `i16`, the rest is what
//! it looks like.

mod array;
mod atomic;
mod callback;
mod control;
mod convert;
mod entry;
mod lanes;
mod scalar;

use super::unit::CallLinker;
use crate::backend::{CodeVariant, CodegenError};
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{self, AbiParam, InstBuilder, MemFlagsData, Signature, types};
use cranelift_codegen::isa::{CallConv, TargetIsa};
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::ReservedValue;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use entry::KernelFrame;
use polyloom_ir::{Function, Imm, Inst, InstData, Module, Op, Scalar, Span, Type, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Flags of loads from the argument block and the launch context, which nothing writes during a launch.
const INVARIANT: MemFlagsData = MemFlagsData::trusted().with_readonly().with_can_move();

/// The state of lowering one function.
struct CraneliftLowering<'a> {
    func: &'a Function,
    module: &'a Module,
    builder: FunctionBuilder<'a>,
    linker: &'a mut CallLinker,
    /// The Cranelift value of each HIR value defined so far; constants have none, they are made where they are used.
    values: SecondaryMap<Value, ir::Value>,
    /// Enclosing loops and blocks, outermost first.
    targets: Vec<control::JumpTarget>,
    /// The end of the block before the body and any loop over threads. What is made once goes before it.
    prologue_end: Option<ir::Inst>,
    /// Constants made there.
    constants: FxHashMap<(ir::Type, u64), ir::Value>,
    /// Addresses of array elements computed in this region or an enclosing one.
    addresses: Vec<array::ComputedAddress>,
    depth: usize,
    /// True if the machine has fused multiply-adds of vectors.
    has_vector_fma: bool,
    /// The loop over threads that is lowered for several at a time, and what differs between them.
    lanes: Option<lanes::LaneLoop>,
    lane_values: FxHashMap<Value, lanes::LaneValue>,
    /// Present when lowering a kernel, absent in a function of scalars.
    frame: Option<KernelFrame<'a>>,
}

type Lowered<T> = Result<T, CodegenError>;

/// Writes the entry of a kernel into `clif`.
pub(super) fn lower_kernel(
    module: &Module,
    kernel: &Function,
    variant: &CodeVariant,
    isa: &dyn TargetIsa,
    clif: &mut ir::Function,
    context: &mut FunctionBuilderContext,
    linker: &mut CallLinker,
) -> Lowered<()> {
    let pointer = AbiParam::new(isa.pointer_type());
    let index = AbiParam::new(types::I64);
    clif.signature = Signature::new(CallConv::triple_default(isa.triple()));
    clif.signature.params.extend([pointer, pointer, index, index]);
    let mut lowering = CraneliftLowering::new(module, kernel, clif, context, linker);
    lowering.has_vector_fma = lanes::has_vector_fma(isa);
    lowering.kernel(variant)?;
    lowering.finish(isa);
    Ok(())
}

/// Writes a function of scalars into `clif`.
pub(super) fn lower_function(
    module: &Module,
    func: &Function,
    isa: &dyn TargetIsa,
    clif: &mut ir::Function,
    context: &mut FunctionBuilderContext,
    linker: &mut CallLinker,
) -> Lowered<()> {
    clif.signature = function_signature(func)?;
    let mut lowering = CraneliftLowering::new(module, func, clif, context, linker);
    let entry = lowering.builder.create_block();
    lowering.builder.append_block_params_for_function_params(entry);
    lowering.builder.switch_to_block(entry);
    let body = lowering.builder.create_block();
    lowering.prologue_end = Some(lowering.builder.ins().jump(body, &[]));
    lowering.builder.switch_to_block(body);
    for (index, &param) in func.params().iter().enumerate() {
        let value = lowering.builder.block_params(entry)[index];
        lowering.values[param] = value;
    }
    lowering.region(func.body, control::YieldMeaning::Invalid)?;
    lowering.finish(isa);
    Ok(())
}

/// The signature of a function of scalars. The `tail` convention returns up to eight values of each kind in registers.
pub(super) fn function_signature(func: &Function) -> Lowered<Signature> {
    let mut signature = Signature::new(CallConv::Tail);
    let scalar = |ty: Type| {
        ty.as_scalar()
            .map(|s| AbiParam::new(clif_type(s)))
            .ok_or_else(|| CodegenError::at(func.span, format!("`{}` takes an array and was not inlined", func.name)))
    };
    for &param in func.params() {
        signature.params.push(scalar(func.ty(param))?);
    }
    for &result in &func.results {
        signature.returns.push(scalar(result)?);
    }
    Ok(signature)
}

/// The Cranelift type that represents a scalar.
fn clif_type(scalar: Scalar) -> ir::Type {
    match scalar {
        Scalar::Bool | Scalar::I8 | Scalar::U8 => types::I8,
        Scalar::I16 | Scalar::U16 | Scalar::F16 | Scalar::BF16 => types::I16,
        Scalar::I32 | Scalar::U32 => types::I32,
        Scalar::I64 | Scalar::U64 => types::I64,
        Scalar::F32 => types::F32,
        Scalar::F64 => types::F64,
    }
}

/// The integer type as wide as a scalar in memory.
fn bits_type(scalar: Scalar) -> ir::Type {
    match scalar.bytes() {
        1 => types::I8,
        2 => types::I16,
        4 => types::I32,
        _ => types::I64,
    }
}

impl<'a> CraneliftLowering<'a> {
    fn new(
        module: &'a Module,
        func: &'a Function,
        clif: &'a mut ir::Function,
        context: &'a mut FunctionBuilderContext,
        linker: &'a mut CallLinker,
    ) -> CraneliftLowering<'a> {
        let mut values = SecondaryMap::with_default(ir::Value::reserved_value());
        values.resize(func.values.len());
        CraneliftLowering {
            func,
            module,
            builder: FunctionBuilder::new(clif, context),
            linker,
            values,
            targets: Vec::new(),
            prologue_end: None,
            constants: FxHashMap::default(),
            addresses: Vec::new(),
            depth: 0,
            has_vector_fma: false,
            lanes: None,
            lane_values: FxHashMap::default(),
            frame: None,
        }
    }

    fn finish(mut self, isa: &dyn TargetIsa) {
        self.builder.seal_all_blocks();
        self.builder.finalize(isa.frontend_config());
    }

    fn error<T>(&self, span: Span, message: impl Into<String>) -> Lowered<T> {
        Err(CodegenError::at(span, message))
    }

    /// The scalar type of a value.
    fn scalar(&self, value: Value) -> Lowered<Scalar> {
        match self.func.ty(value) {
            Type::Scalar(scalar) => Ok(scalar),
            _ => self.error(self.func.span, "an array stands where a scalar is needed"),
        }
    }

    /// The Cranelift value of an HIR value.
    fn value(&mut self, value: Value) -> Lowered<ir::Value> {
        if let Some(bits) = self.func.as_const(value) {
            let scalar = self.scalar(value)?;
            return Ok(self.constant(scalar, bits));
        }
        let known = self.values[value];
        if !known.is_reserved_value() {
            return Ok(known);
        }
        self.param(value)
    }

    fn value_list(&mut self, values: &[Value]) -> Lowered<SmallVec<[ir::Value; 4]>> {
        values.iter().map(|&v| self.value(v)).collect()
    }

    fn block_args(&mut self, values: &[Value]) -> Lowered<SmallVec<[ir::BlockArg; 4]>> {
        values.iter().map(|&v| self.value(v).map(ir::BlockArg::Value)).collect()
    }

    /// A constant from its bits.
    fn constant(&mut self, scalar: Scalar, bits: u64) -> ir::Value {
        self.clif_constant(clif_type(scalar), bits)
    }

    /// An integer constant, cut to the type's width.
    fn int(&mut self, ty: ir::Type, bits: u64) -> ir::Value {
        self.clif_constant(ty, bits & (u64::MAX >> (64 - ty.bits())))
    }

    /// Each constant is made once, before everything else; Cranelift brings it to where it is used.
    fn clif_constant(&mut self, ty: ir::Type, bits: u64) -> ir::Value {
        if let Some(&known) = self.constants.get(&(ty, bits)) {
            return known;
        }
        let value = match self.prologue_end {
            Some(end) => make_constant(FuncCursor::new(self.builder.func).at_inst(end).ins(), ty, bits),
            None => return make_constant(self.builder.ins(), ty, bits),
        };
        self.constants.insert((ty, bits), value);
        value
    }

    fn set(&mut self, value: Value, to: ir::Value) {
        self.values[value] = to;
    }

    /// Appends a block parameter for each of these types.
    fn block_params(&mut self, block: ir::Block, types: impl IntoIterator<Item = Type>, span: Span) -> Lowered<()> {
        for ty in types {
            let Type::Scalar(scalar) = ty else { return self.error(span, "an array is carried through control flow") };
            self.builder.append_block_param(block, clif_type(scalar));
        }
        Ok(())
    }

    /// Defines HIR values as the parameters of a block.
    fn set_to_params(&mut self, values: &[Value], block: ir::Block, first: usize) {
        for (index, &value) in values.iter().enumerate() {
            self.values[value] = self.builder.func.dfg.block_params(block)[first + index];
        }
    }

    fn value_types(&self, values: &[Value]) -> SmallVec<[Type; 4]> {
        values.iter().map(|&v| self.func.ty(v)).collect()
    }

    /// Lowers one instruction that is not a terminator and owns no regions.
    fn simple_inst(&mut self, inst: Inst, data: &InstData) -> Lowered<()> {
        match data.op {
            Op::Const => Ok(()),
            Op::Call => self.call(data),
            Op::ArrayLoad => self.array_load(data),
            Op::ArrayStore => self.array_store(data),
            Op::AtomicAdd
            | Op::AtomicSub
            | Op::AtomicMin
            | Op::AtomicMax
            | Op::AtomicAnd
            | Op::AtomicOr
            | Op::AtomicXor
            | Op::AtomicCas
            | Op::AtomicExch => self.atomic(data),
            Op::Assert | Op::Check => self.check(inst, data),
            Op::Print => self.print(inst, data),
            Op::ThreadFence => {
                self.builder.ins().fence();
                Ok(())
            }
            Op::Tid | Op::TidLinear | Op::Dim => self.index_op(data),
            _ => self.scalar_op(data),
        }
    }

    /// `call`: to a function of scalars, compiled once per process.
    fn call(&mut self, data: &InstData) -> Lowered<()> {
        let Imm::Func(callee) = data.imm else { return self.error(data.span, "a call names no function") };
        let Some(func) = self.module.functions.get(callee) else {
            return self.error(data.span, "a call names a function that is not in the module");
        };
        let args = self.value_list(&data.operands)?;
        let reference = self.linker.import(self.builder.func, callee, func)?;
        let call = self.builder.ins().call(reference, &args);
        for (index, &result) in data.results.iter().enumerate() {
            self.values[result] = self.builder.inst_results(call)[index];
        }
        Ok(())
    }

    fn operand(&self, data: &InstData, index: usize) -> Lowered<Value> {
        match data.operands.get(index) {
            Some(&value) => Ok(value),
            None => self.error(data.span, format!("`{}` lacks an operand", data.op.name())),
        }
    }

    fn result(&self, data: &InstData) -> Lowered<Value> {
        match data.results.first() {
            Some(&value) => Ok(value),
            None => self.error(data.span, format!("`{}` lacks its result", data.op.name())),
        }
    }
}

fn make_constant<'f>(ins: impl InstBuilder<'f>, ty: ir::Type, bits: u64) -> ir::Value {
    match ty {
        types::F32 => ins.f32const(Ieee32::with_bits(bits as u32)),
        types::F64 => ins.f64const(Ieee64::with_bits(bits)),
        _ => ins.iconst(ty, bits as i64),
    }
}
