//! The entry of a kernel on a GPU.
//!
//! Its parameters are [`polyloom_codegen::GpuLaunch`] and then the kernel's own: a scalar by value, an array as the
//! slots of [`polyloom_codegen::ArgLayout`]. A thread's index in the launch is its place in the grid, x first; those
//! past the end of the launch do nothing. Where threads of a block work together, block and grid may have three
//! dimensions, and the threads of one block follow each other; elsewhere they have one.

use super::blocks::{row_major, special};
use crate::gpu::GpuOptions;
use crate::ir::*;
use crate::lower::{BodyUnit, GroupThread, KernelArguments, LineTable, Result};
use crate::lower::{CompiledCallees, fast_math, set_attributes, used_values};
use crate::target::HostProcessor;
use cranelift_entity::SecondaryMap;
use polyloom_codegen::{ArgLayout, CodegenError, EmitRequest, GpuLaunch, GridShape, SiteTable};
use polyloom_ir::{Function, Imm, MAX_DIMS, Type};
use std::ffi::CString;

/// The limit of what launches with few threads have: multiples of a thread's number by up to 16 fit a signed 32-bit
/// integer.
const FEW_THREADS: u32 = 1 << 27;
/// The copies from which on a kernel is compiled twice.
const MANY_COPIES: usize = 8;
/// The bytes of the longest copy.
const CHUNK_BYTES: i64 = 16;

/// Lowers a kernel into the module.
pub(super) fn kernel(
    ir: &IrEmitter<'_>,
    processor: &HostProcessor,
    request: &EmitRequest<'_>,
    options: GpuOptions,
) -> Result<()> {
    let EmitRequest { module, kernel: id, variant, entry: name, sources } = *request;
    let func = &module.functions[id];
    let function = declare(ir, processor, func, name)?;
    let lines = sources.and_then(|sources| LineTable::new(ir, sources, function, name, func.span));
    ir.begin(function);
    let launch = ir.param(function, 0);
    let rank = usize::from(variant.launch_rank).clamp(1, MAX_DIMS);
    let narrow = ir.int(32);
    let extents = extents(ir, launch, rank);
    let n_threads = extents.iter().copied().reduce(|a, b| ir.mul(a, b)).unwrap_or_else(|| ir.int_const(narrow, 1));
    let in_blocks = func.needs_blocks();
    if in_blocks && options.shape == GridShape::Stride {
        let message = "threads that wait for each other run for one element each, not by strides of the grid: leave out \
                       `grid_stride`";
        return Err(CodegenError::at(func.span, message));
    }
    let block_dim = special(ir, "ntid.x");
    let first = first_index(ir, block_dim, in_blocks);

    ir.set_fast_math(fast_math(func.metadata.float_mode));
    let (params, arrays) = KernelArguments::Params { function, first: 1 }.load(ir, func, variant)?;
    // One lane needs no indices that it shares.
    let (used, indexes, sites) = (used_values(func), SecondaryMap::new(), SiteTable::of(func));
    let by_invariants = SecondaryMap::new();
    let unit = BodyUnit {
        ir,
        processor,
        module,
        func,
        lanes: 1,
        masked_lanes: 1,
        parallel: &[],
        alone: false,
        uniformity: None,
        used: &used,
        indexes: &indexes,
        by_invariants: &by_invariants,
        sites: &sites,
        arrays: &arrays,
        params: &params,
        facts: None,
        full_blocks: None,
        streams: &[],
        totals: &[],
        rank: rank as u8,
        lines: lines.as_ref(),
    };
    let mut callees = CompiledCallees::default();
    let (before, run, exit) = (ir.current(), ir.block(c"run"), ir.block(c"exit"));
    ir.cond_br(ir.icmp(ULT, first, n_threads), run, exit);
    ir.switch_to(run);
    let index = match options.shape {
        GridShape::OneThreadEach => first,
        GridShape::Stride => {
            let index = ir.phi(narrow);
            ir.add_incoming(index, first, before);
            index
        }
    };
    let thread = thread(ir, launch, &extents, index, |coordinate| {
        if options.few_threads {
            let limit = ir.int_const(narrow, FEW_THREADS.into());
            ir.intrinsic("llvm.assume", &[], &[ir.icmp(ULT, coordinate, limit)]);
        }
    });
    let copied = arrays_of_many_copies(func);
    if !copied.is_empty() {
        // The body again, for arrays that begin anywhere: beside each copy, what copies single elements would be in the way.
        let (aligned, anywhere, done) = (ir.block(c"aligned"), ir.block(c"anywhere"), ir.block(c"body_done"));
        let low_bits = |param: usize| {
            let pointer = arrays.get(param).and_then(|array| array.as_ref()).map(|array| array.pointer);
            pointer.map(|pointer| ir.and(ir.ptr_to_int(pointer, ir.int(64)), ir.i64_const(CHUNK_BYTES - 1)))
        };
        let off: Vec<Val> = copied.into_iter().filter_map(low_bits).collect();
        let zero = ir.i64_const(0);
        let all = off.iter().fold(zero, |all, &bits| ir.or(all, bits));
        ir.cond_br_unlikely(ir.icmp(NE, all, zero), anywhere, aligned);
        ir.switch_to(anywhere);
        unit.body_of_thread(&mut callees, thread)?;
        ir.br(done);
        ir.switch_to(aligned);
        for bits in off {
            ir.intrinsic("llvm.assume", &[], &[ir.icmp(EQ, bits, zero)]);
        }
        unit.body_of_thread(&mut callees, thread)?;
        ir.br(done);
        ir.switch_to(done);
    } else {
        unit.body_of_thread(&mut callees, thread)?;
    }
    match options.shape {
        GridShape::OneThreadEach => ir.br(exit),
        GridShape::Stride => {
            let next = ir.add(index, ir.mul(block_dim, special(ir, "nctaid.x")));
            ir.add_incoming(index, next, ir.current());
            ir.cond_br(ir.icmp(ULT, next, n_threads), run, exit);
        }
    }
    ir.switch_to(exit);
    ir.ret_void();
    ir.set_fast_math(0);
    if let Some(lines) = lines {
        lines.finish(ir);
    }
    Ok(())
}

/// Returns the parameters that copies in step are from, if a kernel has so many copies that it is compiled twice: for arrays
/// that begin at multiples of what is copied, and for others.
fn arrays_of_many_copies(func: &Function) -> Vec<usize> {
    let mut copied = Vec::new();
    let mut n_copies = 0;
    func.walk(func.body, &mut |_, data| {
        let Imm::Copy(copy) = data.imm else { return };
        let n_to = 1 + func.ty(data.operands[0]).as_array().map_or(0, |(_, n_axes)| usize::from(n_axes));
        let from = data.operands.get(n_to).and_then(|from| func.params().iter().position(|param| param == from));
        if let (true, Some(param)) = (copy.is_in_step && copy.count > 1, from) {
            n_copies += 1;
            if !copied.contains(&param) {
                copied.push(param);
            }
        }
    });
    if n_copies >= MANY_COPIES { copied } else { Vec::new() }
}

/// The launch's extents along its axes. A launch has fewer than 2^31 threads.
fn extents(ir: &IrEmitter<'_>, launch: Val, rank: usize) -> Vec<Val> {
    let extent = |axis| {
        let offset = ir.i64_const(GpuLaunch::shape_offset(axis).into());
        ir.int_cast(ir.load(ir.int(64), ir.offset(ir.int(8), launch, offset), 8), ir.int(32))
    };
    (0..rank).map(extent).collect()
}

/// The index that a thread begins with: its place in the grid, which has one dimension unless threads work together.
fn first_index(ir: &IrEmitter<'_>, block_dim: Val, in_blocks: bool) -> Val {
    if !in_blocks {
        return ir.add(ir.mul(special(ir, "ctaid.x"), block_dim), special(ir, "tid.x"));
    }
    let size = ir.mul(ir.mul(block_dim, special(ir, "ntid.y")), special(ir, "ntid.z"));
    ir.add(ir.mul(row_major(ir, "ctaid", "nctaid"), size), row_major(ir, "tid", "ntid"))
}

/// Adds the entry to the module, without a body.
fn declare(ir: &IrEmitter<'_>, processor: &HostProcessor, func: &Function, name: &str) -> Result<LlvmFunction> {
    let params: Vec<Type> = func.params().iter().map(|&param| func.ty(param)).collect();
    let ty = |ty: &Type| match *ty {
        Type::Scalar(polyloom_ir::Scalar::Bool) => Ok(ir.int(8)),
        Type::Scalar(scalar) => Ok(ir.scalar(scalar)),
        Type::Array { .. } => Ok(ir.ptr()),
        other => Err(CodegenError::new(format!("a parameter is {other}: scalarise the kernel first"))),
    };
    let mut types = vec![ir.ptr()];
    types.extend(params.iter().map(ty).collect::<Result<Vec<_>>>()?);
    let name = CString::new(name).map_err(|e| CodegenError::new(e.to_string()))?;
    let function = ir.add_function(&name, &types, ir.void(), false);
    ir.set_gpu_kernel(function);
    set_attributes(ir, processor, function);
    let words = |n_bytes: u32| ir.array(ir.int(64), n_bytes / 8);
    ir.by_value(function, 0, words(GpuLaunch::BYTES));
    for (index, param) in params.iter().enumerate() {
        if matches!(param, Type::Array { .. }) {
            ir.by_value(function, index as u32 + 1, words(ArgLayout::new([*param]).size));
        }
    }
    let metadata = &func.metadata;
    if let Some(size) = metadata.workgroup_size {
        let size = if func.needs_blocks() { size } else { [size.iter().product(), 1, 1] };
        let extents: Vec<String> = size.iter().map(u32::to_string).collect();
        ir.string_attribute(function, "nvvm.reqntid", &extents.join(","));
    }
    if let Some((most_threads, least_blocks)) = metadata.launch_bounds {
        if metadata.workgroup_size.is_none() {
            ir.string_attribute(function, "nvvm.maxntid", &most_threads.to_string());
        }
        if let Some(blocks) = least_blocks {
            ir.string_attribute(function, "nvvm.minctasm", &blocks.to_string());
        }
    }
    if let Some(registers) = metadata.max_registers {
        ir.string_attribute(function, "nvvm.maxnreg", &registers.to_string());
    }
    Ok(function)
}

/// The thread with this index in the launch, its coordinates found by dividing by the inner extents. `note` is given
/// each of its numbers.
fn thread(ir: &IrEmitter<'_>, launch: Val, extents: &[Val], index: Val, note: impl Fn(Val)) -> GroupThread {
    let wide = |value| ir.zext(value, ir.int(64));
    let mut outer = [None; MAX_DIMS];
    note(index);
    let mut rest = index;
    let mut column = index;
    for axis in (1..extents.len()).rev() {
        let above = ir.udiv(rest, extents[axis]);
        let coordinate = ir.sub(rest, ir.mul(above, extents[axis]));
        note(coordinate);
        note(above);
        match axis + 1 == extents.len() {
            true => column = coordinate,
            false => outer[axis] = Some(wide(coordinate)),
        }
        rest = above;
    }
    if extents.len() > 1 {
        outer[0] = Some(wide(rest));
    }
    GroupThread { rank: extents.len() as u8, outer, column: wide(column), linear: wide(index), context: launch }
}
