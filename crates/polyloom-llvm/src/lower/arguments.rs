//! The arguments of a kernel: scalars and array descriptors.

use super::memory::ArrayArg;
use super::{Result, ValueRep};
use crate::ir::*;
use polyloom_codegen::{ArgLayout, ArrayFacts, CodeVariant, CodegenError};
use polyloom_ir::{Function, Scalar, Type};
use smallvec::SmallVec;

/// The alignment in bytes of an aligned array's base address: [`ArrayFacts::aligned`].
const ALIGNMENT: u64 = 64;

/// Says where a kernel's arguments are.
pub(crate) enum KernelArguments {
    /// On the host: in a block in memory, laid out as [`ArgLayout`] says.
    Block { args: Val, layout: ArgLayout },
    /// On a GPU: each is a parameter of the entry, after `first` others. A scalar is passed by value; of an array, the
    /// parameter is a pointer to what [`ArgLayout`] says.
    Params { function: LlvmFunction, first: u32 },
}

/// The alias scope of an array.
pub(crate) fn alias_scope(ir: &IrEmitter<'_>, name: &str) -> MetadataNode {
    let domain = ir.meta_node(&[ir.meta_string("polyloom")]);
    ir.meta_node(&[ir.meta_string(name), domain])
}

impl KernelArguments {
    /// 8 bytes of the argument with this index, `offset` bytes from where it begins.
    fn word(&self, ir: &IrEmitter<'_>, index: usize, offset: u32, ty: Ty) -> Val {
        let (base, offset) = match self {
            KernelArguments::Block { args, layout } => (*args, layout.offsets[index] + offset),
            KernelArguments::Params { function, first } => (ir.param(*function, first + index as u32), offset),
        };
        ir.load(ty, ir.offset(ir.int(8), base, ir.i64_const(offset.into())), 8)
    }

    fn scalar(&self, ir: &IrEmitter<'_>, index: usize, scalar: Scalar) -> Val {
        let ty = ir.scalar(scalar);
        match self {
            KernelArguments::Block { .. } => {
                let bits = self.word(ir, index, 0, ir.int(64));
                match scalar.is_float() && !scalar.is_half() {
                    true => ir.bitcast(ir.int_cast(bits, ir.int(scalar.bits())), ty),
                    false => ir.int_cast(bits, ty),
                }
            }
            KernelArguments::Params { function, first } => {
                let value = ir.param(*function, first + index as u32);
                if scalar == Scalar::Bool { ir.icmp(NE, value, ir.zero(ir.type_of(value))) } else { value }
            }
        }
    }

    /// The base address of an array. On a GPU it is one in global memory.
    fn pointer(&self, ir: &IrEmitter<'_>, index: usize, facts: ArrayFacts) -> Val {
        match self {
            KernelArguments::Block { .. } => self.word(ir, index, 0, ir.ptr()),
            KernelArguments::Params { .. } => {
                let pointer = self.word(ir, index, 0, ir.global_ptr());
                if facts.aligned {
                    ir.attach(pointer, "align", ir.meta_node(&[ir.meta_i64(ALIGNMENT)]));
                }
                pointer
            }
        }
    }

    /// Loads scalars and array descriptors.
    pub(crate) fn load(
        &self,
        ir: &IrEmitter<'_>,
        func: &Function,
        variant: &CodeVariant,
    ) -> Result<(Vec<ValueRep>, Vec<Option<ArrayArg>>)> {
        let wide = ir.int(64);
        let written = func.written_arrays();
        let scopes: Vec<MetadataNode> =
            (0..func.params().len()).map(|index| alias_scope(ir, &format!("array {index}"))).collect();
        let (mut reps, mut arrays) = (Vec::new(), Vec::new());
        for (index, &param) in func.params().iter().enumerate() {
            let (elem, ndim) = match func.ty(param) {
                Type::Scalar(scalar) => {
                    let known = variant.facts.scalar(index).map(|value| ir.int_const(ir.scalar(scalar), value.into()));
                    reps.push(ValueRep::Uniform(known.unwrap_or_else(|| self.scalar(ir, index, scalar))));
                    arrays.push(None);
                    continue;
                }
                Type::Array { elem, ndim, .. } => (elem, ndim),
                other => return Err(CodegenError::new(format!("a parameter is {other}: scalarise the kernel first"))),
            };
            let facts = variant.facts.array(index);
            let pointer = self.pointer(ir, index, facts);
            let extents: SmallVec<[Val; 4]> = (0..ndim)
                .map(|axis| match facts.extents[axis as usize] {
                    Some(extent) => ir.i64_const(extent.into()),
                    None => self.word(ir, index, ArgLayout::extent(axis), wide),
                })
                .collect();
            let known_strides: SmallVec<[Option<i64>; 4]> = (0..ndim)
                .map(|axis| {
                    let inner = &facts.extents[axis as usize + 1..ndim as usize];
                    let bytes = inner.iter().try_fold(i64::from(elem.bytes()), |bytes, extent| {
                        extent.and_then(|extent| bytes.checked_mul(extent.into()))
                    });
                    // Arrays of one axis are dense alone where all their elements follow each other.
                    bytes.filter(|_| facts.contiguous || (func.metadata.dense_arrays && ndim == 1))
                })
                .collect();
            let strides: SmallVec<[Val; 4]> = (0..ndim)
                .map(|axis| match known_strides[axis as usize] {
                    Some(bytes) => ir.i64_const(bytes),
                    None => self.word(ir, index, ArgLayout::stride(ndim, axis), wide),
                })
                .collect();
            let apart = |other: usize| {
                let either_written = written[index] || written[other];
                other != index && either_written && (facts.disjoint || variant.facts.array(other).disjoint)
            };
            let others: Vec<MetadataNode> = (0..func.params().len()).filter(|&o| apart(o)).map(|o| scopes[o]).collect();
            reps.push(ValueRep::Array(index));
            arrays.push(Some(ArrayArg {
                elem,
                pointer,
                extents,
                strides,
                known_strides,
                facts,
                copies: None,
                scope: ir.meta_node(&[scopes[index]]),
                no_alias: (!others.is_empty()).then(|| ir.meta_node(&others)),
            }));
        }
        Ok((reps, arrays))
    }
}
