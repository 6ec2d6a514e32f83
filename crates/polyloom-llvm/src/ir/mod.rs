//! LLVM values and instructions, scalar or vector alike.
//!
//! The lowering emits the same operation on scalars and on vectors of lanes. LLVM's own builder does not tell them
//! apart, while a typed wrapper needs one path for each, so this is a thin layer over the C API: values, types and
//! blocks are untyped handles, and every method emits one instruction at the current position.
//!
//! Architecture invariant: handles never leave the compilation they were made in; [`IrEmitter`] borrows the context and the
//! module they live in, and only this module and `target`, `jit`, `nvptx::lines` call LLVM.

mod arithmetic;
mod control;
pub(crate) mod diagnostics;
mod memory;
mod types;

use inkwell::context::{AsContextRef, Context};
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::debuginfo::{LLVMMetadataReplaceAllUsesWith, LLVMTemporaryMDNode};
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{
    LLVMAtomicOrdering, LLVMAtomicRMWBinOp, LLVMInlineAsmDialect, LLVMIntPredicate, LLVMLinkage, LLVMRealPredicate,
    LLVMTypeKind, LLVMVisibility,
};
use inkwell::module::Module;
use polyloom_ir::Scalar;
use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::marker::PhantomData;

pub(crate) use inkwell::llvm_sys::LLVMAtomicOrdering as FenceOrder;
pub(crate) use inkwell::llvm_sys::LLVMAtomicRMWBinOp as RmwOp;
pub(crate) use inkwell::llvm_sys::LLVMIntPredicate::{
    LLVMIntEQ as EQ, LLVMIntNE as NE, LLVMIntSGE as SGE, LLVMIntSGT as SGT, LLVMIntSLE as SLE, LLVMIntSLT as SLT,
    LLVMIntUGE as UGE, LLVMIntUGT as UGT, LLVMIntULE as ULE, LLVMIntULT as ULT,
};
pub(crate) use inkwell::llvm_sys::LLVMRealPredicate::{
    LLVMRealOEQ as OEQ, LLVMRealOGE as OGE, LLVMRealOGT as OGT, LLVMRealOLE as OLE, LLVMRealOLT as OLT,
    LLVMRealUNE as UNE, LLVMRealUNO as UNO,
};

/// A value: an instruction's result, a parameter or a constant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Val(LLVMValueRef);

/// A type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ty(LLVMTypeRef);

/// A basic block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BasicBlock(LLVMBasicBlockRef);

/// A function with its type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LlvmFunction {
    value: LLVMValueRef,
    ty: LLVMTypeRef,
}

/// A line of source, or none.
#[derive(Clone, Copy)]
pub(crate) struct DebugLocation(LLVMMetadataRef);

/// A metadata node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MetadataNode(LLVMMetadataRef);

const UNNAMED: *const c_char = c"".as_ptr();

/// Emits instructions into a module.
pub(crate) struct IrEmitter<'c> {
    context: LLVMContextRef,
    module: LLVMModuleRef,
    builder: LLVMBuilderRef,
    fast_math: Cell<u32>,
    _module: PhantomData<&'c ()>,
}

impl Drop for IrEmitter<'_> {
    fn drop(&mut self) {
        // SAFETY: the builder was created in `new` and is disposed of once.
        unsafe { LLVMDisposeBuilder(self.builder) }
    }
}

mod raw {
    //! Handles as LLVM's own, for what only modules for GPUs have.

    use super::*;

    impl Val {
        pub(crate) fn raw(value: LLVMValueRef) -> Val {
            Val(value)
        }

        pub(crate) fn value(self) -> LLVMValueRef {
            self.0
        }
    }

    impl Ty {
        pub(crate) fn raw(self) -> LLVMTypeRef {
            self.0
        }
    }

    impl LlvmFunction {
        pub(crate) fn known(value: LLVMValueRef, ty: LLVMTypeRef) -> LlvmFunction {
            LlvmFunction { value, ty }
        }

        pub(crate) fn value(self) -> LLVMValueRef {
            self.value
        }
    }

    impl IrEmitter<'_> {
        pub(crate) fn context(&self) -> LLVMContextRef {
            self.context
        }

        pub(crate) fn module(&self) -> LLVMModuleRef {
            self.module
        }

        pub(crate) fn builder(&self) -> LLVMBuilderRef {
            self.builder
        }
    }
}

impl<'c> IrEmitter<'c> {
    /// A builder for `module`.
    pub(crate) fn new(context: &'c Context, module: &'c Module<'_>) -> IrEmitter<'c> {
        let context = context.as_ctx_ref();
        // SAFETY: the context outlives `self`.
        let builder = unsafe { LLVMCreateBuilderInContext(context) };
        IrEmitter { context, module: module.as_mut_ptr(), builder, fast_math: Cell::new(0), _module: PhantomData }
    }

    /// Sets the fast-math flags of the floating-point instructions to come and gives those that were set.
    pub(crate) fn set_fast_math(&self, flags: u32) -> u32 {
        self.fast_math.replace(flags)
    }

    /// Returns true if floating-point functions may be approximated.
    pub(crate) fn may_approximate(&self) -> bool {
        self.fast_math.get() & FAST_APPROXIMATE != 0
    }

    fn with_fast_math(&self, value: Val) -> Val {
        let flags = self.fast_math.get();
        if flags != 0 {
            // SAFETY: the flags are set only on an instruction that can carry them.
            unsafe {
                if LLVMCanValueUseFastMathFlags(value.0) != 0 {
                    LLVMSetFastMathFlags(value.0, flags);
                }
            }
        }
        value
    }
}

/// The place of function attributes.
pub(crate) const FUNCTION: u32 = u32::MAX;

/// Fast-math flags, as LLVM's C API numbers them.
pub(crate) const FAST_REASSOCIATE: u32 = 1 << 0;
pub(crate) const FAST_NO_SIGNED_ZEROS: u32 = 1 << 3;
pub(crate) const FAST_RECIPROCAL: u32 = 1 << 4;
pub(crate) const FAST_CONTRACT: u32 = 1 << 5;
pub(crate) const FAST_APPROXIMATE: u32 = 1 << 6;
