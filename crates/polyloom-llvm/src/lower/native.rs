//! Native functions: C functions around the lowered body of a kernel.
//!
//! The body is lowered as for launches, once for dense arrays and once for any, as internal functions that are inlined.
//! The C function puts its arguments into a block and a context on its stack, where the optimiser finds them again in
//! registers; so one lowering serves launches and native functions. ABI: [`polyloom_codegen::native`].

use super::calls::{self, CompiledCallees};
use super::line_table::{LineTable, SpanNumbers};
use super::{Result, entry};
use crate::ir::*;
use crate::target::{HostProcessor, OptimizerMode};
use polyloom_codegen::{
    ArgFacts, ArgLayout, CodeVariant, CodegenError, LaunchContext, NativeArgument, NativeBlockParam, NativeBlocks,
    NativeParam, NativeRequest, NativeReturn, WORKSPACE_ALIGN, with_private_updates,
};
use polyloom_ir::block_plan::BlockParam;
use polyloom_ir::{MAX_DIMS, Scalar, Type};
use smallvec::SmallVec;
use std::ffi::CString;

/// Bytes of a launch context and, after it, the status.
const STATUS_OFFSET: i64 = size_of::<LaunchContext>() as i64;

/// Arrays whose overlaps are looked for at each call; functions of more run the code for any arrays.
const MAX_COMPARED_ARRAYS: usize = 24;

/// Lowers a native function into the module and gives how hard LLVM is to try. Where `places` is given, instructions name
/// places by their numbers there.
pub(crate) fn lower_native(
    ir: &IrEmitter<'_>,
    processor: &HostProcessor,
    request: &NativeRequest<'_>,
    places: Option<&SpanNumbers>,
) -> Result<OptimizerMode> {
    let (signature, layout) = (request.signature, request.layout());
    let kernel = &request.module.functions[request.kernel];
    let n_arrays = signature.params.iter().filter(|param| param.ty.as_any_array().is_some()).count();
    let mut bodies = NativeBodies { ir, processor, request, places, callees: CompiledCallees::of(kernel), mode: None };
    let dense = match n_arrays {
        1..=MAX_COMPARED_ARRAYS => Some(bodies.lower("dense", request.dense)?),
        _ => None,
    };
    let general = bodies.lower("general", request.general)?;
    let mode = bodies.mode.unwrap_or_default();
    let native =
        NativeLowering { ir, processor, request, layout, places, status: status_function(ir, processor, request)? };
    let function = native.function(dense, general)?;
    if request.has_block_entry {
        native.block_entry(function)?;
    }
    Ok(mode)
}

/// The bodies of one native function, with what they share.
struct NativeBodies<'a, 'c> {
    ir: &'a IrEmitter<'c>,
    processor: &'a HostProcessor,
    request: &'a NativeRequest<'a>,
    places: Option<&'a SpanNumbers>,
    callees: CompiledCallees,
    mode: Option<OptimizerMode>,
}

impl NativeBodies<'_, '_> {
    fn lower(&mut self, suffix: &str, facts: &ArgFacts) -> Result<LlvmFunction> {
        let NativeRequest { module, kernel, signature, .. } = *self.request;
        let (ir, wide) = (self.ir, self.ir.int(64));
        let function = internal(ir, &format!("{}.{suffix}", signature.name), &[ir.ptr(), ir.ptr(), wide, wide])?;
        ir.enum_attribute(function, FUNCTION, "alwaysinline");
        // One thread fills no group, and would run under its mask.
        let lanes = (signature.launch_rank == 0).then_some(1);
        // Blocks are in a row.
        let rank = if self.request.blocks.is_some() { 1 } else { signature.launch_rank.max(1) };
        let variant = CodeVariant::new(rank, facts.clone()).with_lanes(lanes);
        let module = &*with_private_updates(module, kernel, &variant);
        let callees = &mut self.callees;
        let mode =
            entry::lower_kernel_as(ir, self.processor, module, kernel, &variant, function, callees, self.places)?;
        self.mode = Some(match self.mode {
            None => mode,
            Some(other) => OptimizerMode {
                leaves_vectors: mode.leaves_vectors || other.leaves_vectors,
                interleaves: mode.interleaves && other.interleaves,
                has_groups: mode.has_groups || other.has_groups,
                level: other.level,
            },
        });
        Ok(function)
    }
}

fn name_of(name: &str) -> Result<CString> {
    CString::new(name).map_err(|e| CodegenError::new(e.to_string()))
}

fn internal(ir: &IrEmitter<'_>, name: &str, params: &[Ty]) -> Result<LlvmFunction> {
    Ok(ir.add_function(&name_of(name)?, params, ir.void(), true))
}

/// The function that notes which check failed first, of the type [`polyloom_codegen::abi::TrapFn`].
fn status_function(ir: &IrEmitter<'_>, processor: &HostProcessor, request: &NativeRequest<'_>) -> Result<LlvmFunction> {
    let (narrow, wide) = (ir.int(32), ir.int(64));
    let name = format!("{}.status", request.signature.name);
    let function = internal(ir, &name, &[ir.ptr(), narrow, wide, wide, wide])?;
    calls::set_attributes(ir, processor, function);
    ir.enum_attribute(function, FUNCTION, "alwaysinline");
    ir.begin(function);
    let slot = ir.offset(ir.int(8), ir.param(function, 0), ir.i64_const(STATUS_OFFSET));
    let site = ir.add(ir.param(function, 1), ir.int_const(narrow, 1));
    ir.store(site, slot, 4);
    ir.ret_void();
    Ok(function)
}

/// The lowering of the functions that others call.
struct NativeLowering<'a, 'c> {
    ir: &'a IrEmitter<'c>,
    processor: &'a HostProcessor,
    request: &'a NativeRequest<'a>,
    layout: ArgLayout,
    places: Option<&'a SpanNumbers>,
    status: LlvmFunction,
}

impl NativeLowering<'_, '_> {
    fn ty(&self, argument: NativeArgument) -> Ty {
        match argument {
            NativeArgument::Extent => self.ir.int(64),
            NativeArgument::Scalar(scalar) => self.ir.scalar(scalar),
            NativeArgument::Components(_)
            | NativeArgument::Array { .. }
            | NativeArgument::Result(_)
            | NativeArgument::Workspace => self.ir.ptr(),
        }
    }

    /// The address `offset` bytes after another.
    fn at(&self, base: Val, offset: i64) -> Val {
        self.ir.offset(self.ir.int(8), base, self.ir.i64_const(offset))
    }

    /// Returns where the word of a parameter of the scalarised kernel is.
    fn word(&self, block: Val, slot: usize, offset: u32) -> Val {
        self.at(block, i64::from(self.layout.offsets[slot] + offset))
    }

    /// A scalar's bits, zero-extended.
    fn bits(&self, value: Val, scalar: Scalar) -> Val {
        let ir = self.ir;
        let bits = match scalar {
            Scalar::F32 | Scalar::F64 => ir.bitcast(value, ir.int(scalar.bits())),
            _ => value,
        };
        if ir.int_width(ir.type_of(bits)) == 64 { bits } else { ir.zext(bits, ir.int(64)) }
    }

    /// A scalar of bits that may be more than it has.
    fn of_bits(&self, bits: Val, scalar: Scalar) -> Val {
        let ir = self.ir;
        let bits = if scalar.bits() == 64 { bits } else { ir.int_cast(bits, ir.int(scalar.bits())) };
        match scalar {
            Scalar::F32 | Scalar::F64 => ir.bitcast(bits, ir.scalar(scalar)),
            _ => bits,
        }
    }

    /// Reads a scalar as memory has it: `bool` is a byte there.
    fn load_scalar(&self, address: Val, scalar: Scalar) -> Val {
        let ir = self.ir;
        match scalar {
            Scalar::Bool => ir.icmp(NE, ir.load(ir.int(8), address, 1), ir.int_const(ir.int(8), 0)),
            _ => ir.load(ir.scalar(scalar), address, scalar.bytes()),
        }
    }

    fn store_scalar(&self, value: Val, address: Val, scalar: Scalar) {
        let ir = self.ir;
        match scalar {
            Scalar::Bool => ir.store(ir.zext(value, ir.int(8)), address, 1),
            _ => ir.store(value, address, scalar.bytes()),
        };
    }

    /// The C function.
    fn function(&self, dense: Option<LlvmFunction>, general: LlvmFunction) -> Result<LlvmFunction> {
        let (ir, signature) = (self.ir, self.request.signature);
        let kernel = &self.request.module.functions[self.request.kernel];
        let arguments = signature.arguments();
        let types: Vec<Ty> = arguments.iter().map(|&argument| self.ty(argument)).collect();
        let result = match signature.returns {
            NativeReturn::Status => ir.int(32),
            NativeReturn::Value(scalar) => ir.scalar(scalar),
        };
        let function = ir.add_function(&name_of(self.request.symbol)?, &types, result, false);
        if self.request.is_hidden() {
            ir.hide(function);
        }
        calls::set_attributes(ir, self.processor, function);
        entry::set_level(ir, self.processor, function, kernel.opt_level());
        if let NativeReturn::Value(scalar) = signature.returns
            && scalar.bits() < 32
        {
            // Callers of C rely on it.
            let extension = if scalar.is_signed_int() { "signext" } else { "zeroext" };
            ir.enum_attribute(function, 0, extension);
        }
        // An inlined body keeps its places if the call that it stands for has one: that of the kernel.
        let lines = self.places.map(|places| LineTable::of_numbers(ir, places, function, &signature.name));
        ir.begin(function);
        if let Some(lines) = &lines {
            lines.at(ir, kernel.span);
        }
        let value = |index: usize| ir.param(function, index as u32);
        let rank = usize::from(signature.launch_rank);
        let extents: SmallVec<[Val; 4]> = (0..rank).map(value).collect();
        let n_threads = extents.iter().fold(ir.i64_const(1), |n, &extent| ir.mul(n, extent));
        // A kernel of blocks has these for its threads.
        let n_run = match self.request.blocks {
            None => n_threads,
            Some(NativeBlocks { grid, .. }) => {
                let size = grid.block_size().max(1) as i64;
                ir.udiv(ir.add(n_threads, ir.i64_const(size - 1)), ir.i64_const(size))
            }
        };
        let of_context = if self.request.blocks.is_some() { &[n_run][..] } else { &extents[..] };
        let (context, block) =
            (self.context(of_context), ir.alloca(ir.array(ir.int(64), self.layout.size.div_ceil(8))));
        let params: SmallVec<[Val; 16]> = (0..signature.params.len()).map(|index| value(rank + index)).collect();
        for (index, param) in signature.params.iter().enumerate() {
            self.fill(block, signature.first_slot(index), param, params[index]);
        }
        let results: SmallVec<[Val; 2]> = (0..signature.results.len())
            .map(|index| {
                let given = rank + params.len() + index;
                let memory = match signature.returns {
                    NativeReturn::Status => value(given),
                    NativeReturn::Value(_) => ir.alloca(ir.int(64)),
                };
                self.fill_result(block, index, memory);
                memory
            })
            .collect();
        if let Some(blocks) = self.request.blocks {
            let workspace = (signature.workspace_bytes > 0).then(|| value(types.len() - 1));
            self.fill_blocks(block, blocks, &extents, (n_threads, n_run), workspace);
        }
        let (run, done) = (ir.block(c"run"), ir.block(c"done"));
        match rank {
            0 => ir.br(run),
            // Without threads there is nothing to do, and the extents are divided by.
            _ => {
                let is_positive = |&extent: &Val| ir.icmp(SGT, extent, ir.i64_const(0));
                let has_threads = extents.iter().map(is_positive).reduce(|a, b| ir.and(a, b));
                ir.cond_br(has_threads.unwrap_or_else(|| ir.bool_const(true)), run, done);
            }
        }
        ir.switch_to(run);
        let call = |body: LlvmFunction| {
            ir.call(body, &[block, context, ir.i64_const(0), n_run]);
            ir.br(done);
        };
        match dense {
            None => call(general),
            Some(dense) => {
                let (if_dense, otherwise) = (ir.block(c"dense"), ir.block(c"general"));
                ir.cond_br(self.is_dense(block), if_dense, otherwise);
                ir.switch_to(if_dense);
                call(dense);
                ir.switch_to(otherwise);
                call(general);
            }
        }
        ir.switch_to(done);
        let returned = match signature.returns {
            NativeReturn::Status => ir.load(ir.int(32), self.at(context, STATUS_OFFSET), 4),
            NativeReturn::Value(scalar) => self.load_scalar(results[0], scalar),
        };
        ir.ret(returned);
        if let Some(lines) = lines {
            lines.finish(ir);
        }
        Ok(function)
    }

    /// A launch context on the stack, and after it the status, 0.
    fn context(&self, extents: &[Val]) -> Val {
        let ir = self.ir;
        let context = ir.alloca(ir.array(ir.int(64), STATUS_OFFSET as u32 / 8 + 1));
        for axis in 0..MAX_DIMS {
            let extent = extents.get(axis).copied().unwrap_or_else(|| ir.i64_const(1));
            ir.store(extent, self.at(context, LaunchContext::shape_offset(axis).into()), 8);
        }
        ir.store(Val::raw(self.status.value()), self.at(context, LaunchContext::TRAP_OFFSET.into()), 8);
        ir.store(ir.int_const(ir.int(32), 0), self.at(context, STATUS_OFFSET), 4);
        context
    }

    /// Puts an argument into the block.
    fn fill(&self, block: Val, slot: usize, param: &NativeParam, value: Val) {
        let (ir, wide) = (self.ir, self.ir.int(64));
        match param.ty {
            Type::Scalar(scalar) => _ = ir.store(self.bits(value, scalar), self.word(block, slot, 0), 8),
            Type::Composite(composite) => {
                let elem = composite.elem();
                for n in 0..composite.n_components() {
                    let component = self.load_scalar(self.at(value, n as i64 * i64::from(elem.bytes())), elem);
                    ir.store(self.bits(component, elem), self.word(block, slot + n, 0), 8);
                }
            }
            Type::Array { .. } | Type::CompositeArray { .. } => {
                let ndim = rank_of(param.ty);
                for n in 0..1 + 2 * u32::from(ndim) {
                    let ty = if n == 0 { ir.ptr() } else { wide };
                    let word = ir.load(ty, self.at(value, i64::from(8 * n)), 8);
                    ir.store(word, self.word(block, slot, 8 * n), 8);
                }
            }
        }
    }

    /// Puts what the kernel's last parameters are into the block: numbers that follow from the call's extents, its threads and
    /// blocks, and arrays in the workspace.
    fn fill_blocks(
        &self,
        block: Val,
        blocks: &NativeBlocks,
        extents: &[Val],
        (n_threads, n_blocks): (Val, Val),
        workspace: Option<Val>,
    ) {
        let ir = self.ir;
        let signature = self.request.signature;
        let extent = |axis: u8| extents.get(usize::from(axis)).copied().unwrap_or_else(|| ir.i64_const(1));
        let size = |axis: u8| i64::from(blocks.grid.block.get(usize::from(axis)).copied().unwrap_or(1));
        let memory = workspace.map(|workspace| {
            let address = ir.ptr_to_int(workspace, ir.int(64));
            ir.offset(ir.int(8), workspace, ir.and(ir.neg(address), ir.i64_const(WORKSPACE_ALIGN as i64 - 1)))
        });
        for (index, param) in blocks.params.iter().enumerate() {
            let slot = signature.first_slot(signature.params.len()) + index;
            let number = match param {
                NativeBlockParam::Memory { offset, memory: array } => {
                    let Some(memory) = memory else { continue };
                    let ndim = array.extents.len() as u8;
                    ir.store(self.at(memory, *offset as i64), self.word(block, slot, 0), 8);
                    for (axis, (&extent, &stride)) in (0..ndim).zip(array.extents.iter().zip(&array.strides)) {
                        let at = [ArgLayout::extent(axis), ArgLayout::stride(ndim, axis)];
                        ir.store(ir.i64_const(extent as i64), self.word(block, slot, at[0]), 8);
                        ir.store(ir.i64_const(stride), self.word(block, slot, at[1]), 8);
                    }
                    continue;
                }
                NativeBlockParam::Number(number) => number,
            };
            let value = match *number {
                BlockParam::Threads => n_threads,
                BlockParam::GridExtent(0) => n_blocks,
                BlockParam::BlockExtent(axis) => ir.i64_const(size(axis)),
                BlockParam::LaunchExtent(axis) => extent(axis),
                BlockParam::InnerThreads(axis) => {
                    extents.iter().skip(usize::from(axis) + 1).fold(ir.i64_const(1), |n, &extent| ir.mul(n, extent))
                }
                BlockParam::SharedBytes => ir.i64_const(blocks.grid.shared_bytes.into()),
                // The grid is a row of blocks.
                _ => ir.i64_const(1),
            };
            ir.store(value, self.word(block, slot, 0), 8);
        }
    }

    /// Puts an array of one result into the block.
    fn fill_result(&self, block: Val, index: usize, memory: Val) {
        let (ir, ty) = (self.ir, self.request.signature.results[index]);
        let slot = self.request.signature.result_slot(index);
        let (elem, shape) = elements_of(ty);
        let extents: SmallVec<[i64; 3]> = std::iter::once(1).chain(shape.iter().map(|&n| n.into())).collect();
        ir.store(memory, self.word(block, slot, 0), 8);
        let mut stride = i64::from(elem.bytes());
        for (axis, &extent) in extents.iter().enumerate().rev() {
            let (axis, ndim) = (axis as u8, extents.len() as u8);
            ir.store(ir.i64_const(extent), self.word(block, slot, ArgLayout::extent(axis)), 8);
            ir.store(ir.i64_const(stride), self.word(block, slot, ArgLayout::stride(ndim, axis)), 8);
            stride *= extent;
        }
    }

    /// True if all arrays are dense, none overlaps one that is written, and `int32` holds the offsets in each.
    fn is_dense(&self, block: Val) -> Val {
        let (ir, signature, wide) = (self.ir, self.request.signature, self.ir.int(64));
        let mut holds = ir.bool_const(true);
        // Where each array begins and ends, and if it is written.
        let mut spans: Vec<(Val, Val, bool)> = Vec::new();
        for (index, param) in signature.params.iter().enumerate() {
            let Some((elem, ndim)) = param.ty.as_any_array().map(|(elem, _)| (elements_of(elem).0, rank_of(param.ty)))
            else {
                continue;
            };
            let slot = signature.first_slot(index);
            let mut bytes = ir.i64_const(elem.bytes().into());
            for axis in (0..ndim).rev() {
                let extent = ir.load(wide, self.word(block, slot, ArgLayout::extent(axis)), 8);
                let stride = ir.load(wide, self.word(block, slot, ArgLayout::stride(ndim, axis)), 8);
                let is_single = ir.icmp(ULE, extent, ir.i64_const(1));
                holds = ir.and(holds, ir.or(ir.icmp(EQ, stride, bytes), is_single));
                bytes = ir.mul(bytes, extent);
            }
            holds = ir.and(holds, ir.icmp(ULE, bytes, ir.i64_const(i32::MAX.into())));
            let begin = ir.load(wide, self.word(block, slot, 0), 8);
            spans.push((begin, ir.add(begin, bytes), param.is_written));
        }
        for (index, &(begin, end, is_written)) in spans.iter().enumerate() {
            for &(other_begin, other_end, other_is_written) in &spans[..index] {
                if is_written || other_is_written {
                    let is_apart = ir.or(ir.icmp(ULE, end, other_begin), ir.icmp(ULE, other_end, begin));
                    holds = ir.and(holds, is_apart);
                }
            }
        }
        holds
    }

    /// The entry that takes a block of arguments: [`polyloom_codegen::NativeBlockEntry`].
    fn block_entry(&self, function: LlvmFunction) -> Result<()> {
        let (ir, signature) = (self.ir, self.request.signature);
        let name = name_of(&signature.block_entry())?;
        let entry = ir.add_function(&name, &[ir.ptr(), ir.ptr()], ir.int(32), false);
        calls::set_attributes(ir, self.processor, entry);
        ir.begin(entry);
        let [block, extents] = [0, 1].map(|index| ir.param(entry, index));
        let mut args: Vec<Val> = (0..signature.launch_rank)
            .map(|axis| ir.load(ir.int(64), self.at(extents, 8 * i64::from(axis)), 8))
            .collect();
        for (index, param) in signature.params.iter().enumerate() {
            let slot = signature.first_slot(index);
            args.push(match param.ty {
                Type::Scalar(scalar) => self.of_bits(ir.load(ir.int(64), self.word(block, slot, 0), 8), scalar),
                Type::Composite(composite) => {
                    let elem = composite.elem();
                    let bytes = elem.bytes() * composite.n_components() as u32;
                    let memory = ir.alloca(ir.array(ir.int(64), bytes.div_ceil(8)));
                    for n in 0..composite.n_components() {
                        let bits = ir.load(ir.int(64), self.word(block, slot + n, 0), 8);
                        let address = self.at(memory, n as i64 * i64::from(elem.bytes()));
                        self.store_scalar(self.of_bits(bits, elem), address, elem);
                    }
                    memory
                }
                Type::Array { .. } | Type::CompositeArray { .. } => self.word(block, slot, 0),
            });
        }
        if signature.workspace_bytes > 0 {
            args.push(ir.load(ir.ptr(), self.word(block, signature.first_slot(signature.params.len()), 0), 8));
        }
        let memory_of = |result: usize| ir.load(ir.ptr(), self.word(block, signature.result_slot(result), 0), 8);
        match signature.returns {
            NativeReturn::Status => {
                args.extend((0..signature.results.len()).map(memory_of));
                ir.ret(ir.call(function, &args));
            }
            NativeReturn::Value(scalar) => {
                let value = ir.call(function, &args);
                self.store_scalar(value, memory_of(0), scalar);
                ir.ret(ir.int_const(ir.int(32), 0));
            }
        }
        Ok(())
    }
}

/// The scalars that an element is made of, and the extents of a composite.
fn elements_of(ty: Type) -> (Scalar, SmallVec<[u16; 2]>) {
    match ty {
        Type::Scalar(scalar) | Type::Array { elem: scalar, .. } => (scalar, SmallVec::new()),
        Type::Composite(composite) | Type::CompositeArray { elem: composite, .. } => {
            (composite.elem(), composite.shape())
        }
    }
}

/// The number of an array's axes once composites are taken apart.
fn rank_of(ty: Type) -> u8 {
    match ty {
        Type::Array { ndim, .. } => ndim,
        Type::CompositeArray { elem, ndim, .. } => ndim + elem.shape().len() as u8,
        Type::Scalar(_) | Type::Composite(_) => 0,
    }
}
