//! LLVM values and instructions, scalar or vector alike.
//!
//! The lowering emits the same operation on scalars and on vectors of lanes. LLVM's own builder does not tell them
//! apart, while a typed wrapper needs one path for each, so this is a thin layer over the C API: values, types and
//! blocks are untyped handles, and every method emits one instruction at the current position.
//!
//! Architecture invariant: handles never leave the compilation they were made in; [`Ir`] borrows the context and the
//! module they live in, and only this file and `target`, `jit`, `nvptx::lines` call LLVM.

use inkwell::context::{AsContextRef, Context};
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{
    LLVMAtomicOrdering, LLVMAtomicRMWBinOp, LLVMInlineAsmDialect, LLVMIntPredicate, LLVMLinkage, LLVMRealPredicate,
    LLVMTypeKind,
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
pub(crate) struct Block(LLVMBasicBlockRef);

/// A function with its type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fun {
    value: LLVMValueRef,
    ty: LLVMTypeRef,
}

/// A line of source, or none.
#[derive(Clone, Copy)]
pub(crate) struct Location(LLVMMetadataRef);

/// A metadata node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Meta(LLVMMetadataRef);

const UNNAMED: *const c_char = c"".as_ptr();

/// Emits instructions into a module.
pub(crate) struct Ir<'c> {
    context: LLVMContextRef,
    module: LLVMModuleRef,
    builder: LLVMBuilderRef,
    fast_math: Cell<u32>,
    _module: PhantomData<&'c ()>,
}

impl Drop for Ir<'_> {
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

    impl Fun {
        pub(crate) fn known(value: LLVMValueRef, ty: LLVMTypeRef) -> Fun {
            Fun { value, ty }
        }

        pub(crate) fn value(self) -> LLVMValueRef {
            self.value
        }
    }

    impl Ir<'_> {
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

macro_rules! binary {
    ($($name:ident = $build:ident;)*) => {$(
        pub(crate) fn $name(&self, a: Val, b: Val) -> Val {
            // SAFETY: both operands live in this module and have one type.
            Val(unsafe { $build(self.builder, a.0, b.0, UNNAMED) })
        }
    )*};
}

macro_rules! binary_float {
    ($($name:ident = $build:ident;)*) => {$(
        pub(crate) fn $name(&self, a: Val, b: Val) -> Val {
            // SAFETY: both operands live in this module and have one floating-point type.
            self.with_fast_math(Val(unsafe { $build(self.builder, a.0, b.0, UNNAMED) }))
        }
    )*};
}

macro_rules! conversion {
    ($($name:ident = $build:ident;)*) => {$(
        pub(crate) fn $name(&self, value: Val, to: Ty) -> Val {
            // SAFETY: the caller asks for a conversion LLVM has between these types.
            Val(unsafe { $build(self.builder, value.0, to.0, UNNAMED) })
        }
    )*};
}

impl<'c> Ir<'c> {
    /// A builder for `module`.
    pub(crate) fn new(context: &'c Context, module: &'c Module<'_>) -> Ir<'c> {
        let context = context.as_ctx_ref();
        // SAFETY: the context outlives `self`.
        let builder = unsafe { LLVMCreateBuilderInContext(context) };
        Ir { context, module: module.as_mut_ptr(), builder, fast_math: Cell::new(0), _module: PhantomData }
    }

    /// Sets the fast-math flags of the floating-point instructions to come and gives those that were set.
    pub(crate) fn set_fast_math(&self, flags: u32) -> u32 {
        self.fast_math.replace(flags)
    }

    /// Whether floating-point functions may be approximated.
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

    // ---- types ----------------------------------------------------------------------------------------------------

    pub(crate) fn int(&self, bits: u32) -> Ty {
        // SAFETY: the context is alive; here and in the other type constructors.
        Ty(unsafe { LLVMIntTypeInContext(self.context, bits) })
    }

    pub(crate) fn f32(&self) -> Ty {
        // SAFETY: as in `int`.
        Ty(unsafe { LLVMFloatTypeInContext(self.context) })
    }

    pub(crate) fn f64(&self) -> Ty {
        // SAFETY: as in `int`.
        Ty(unsafe { LLVMDoubleTypeInContext(self.context) })
    }

    pub(crate) fn half(&self) -> Ty {
        // SAFETY: as in `int`.
        Ty(unsafe { LLVMHalfTypeInContext(self.context) })
    }

    pub(crate) fn ptr(&self) -> Ty {
        // SAFETY: as in `int`.
        Ty(unsafe { LLVMPointerTypeInContext(self.context, 0) })
    }

    /// A pointer to a GPU's global memory.
    pub(crate) fn global_ptr(&self) -> Ty {
        // SAFETY: as in `int`.
        Ty(unsafe { LLVMPointerTypeInContext(self.context, 1) })
    }

    pub(crate) fn void(&self) -> Ty {
        // SAFETY: as in `int`.
        Ty(unsafe { LLVMVoidTypeInContext(self.context) })
    }

    /// `elem` itself for one lane, else a vector.
    pub(crate) fn lanes(&self, elem: Ty, lanes: u32) -> Ty {
        if lanes == 1 {
            return elem;
        }
        // SAFETY: as in `int`; `elem` is a scalar type.
        Ty(unsafe { LLVMVectorType(elem.0, lanes) })
    }

    pub(crate) fn array(&self, elem: Ty, n: u32) -> Ty {
        // SAFETY: as in `int`.
        Ty(unsafe { LLVMArrayType2(elem.0, n.into()) })
    }

    pub(crate) fn structure(&self, fields: &[Ty]) -> Ty {
        let mut fields: Vec<LLVMTypeRef> = fields.iter().map(|t| t.0).collect();
        // SAFETY: as in `int`.
        Ty(unsafe { LLVMStructTypeInContext(self.context, fields.as_mut_ptr(), fields.len() as u32, 0) })
    }

    /// How values of a scalar type are held: `i1` for `bool`, bits in `i16` for the 16-bit floats.
    pub(crate) fn scalar(&self, scalar: Scalar) -> Ty {
        match scalar {
            Scalar::F32 => self.f32(),
            Scalar::F64 => self.f64(),
            _ => self.int(scalar.bits()),
        }
    }

    /// The bits of an integer type.
    pub(crate) fn int_width(&self, ty: Ty) -> u32 {
        // SAFETY: `ty` is an integer type.
        unsafe { LLVMGetIntTypeWidth(ty.0) }
    }

    pub(crate) fn type_of(&self, value: Val) -> Ty {
        // SAFETY: the value is alive.
        Ty(unsafe { LLVMTypeOf(value.0) })
    }

    /// Lanes of a value: 1 for scalars.
    pub(crate) fn n_lanes(&self, value: Val) -> u32 {
        let ty = self.type_of(value).0;
        // SAFETY: the vector query is made of vector types only.
        unsafe {
            match LLVMGetTypeKind(ty) {
                LLVMTypeKind::LLVMVectorTypeKind => LLVMGetVectorSize(ty),
                _ => 1,
            }
        }
    }

    // ---- constants ------------------------------------------------------------------------------------------------

    /// An integer constant, in every lane of a vector type.
    pub(crate) fn int_const(&self, ty: Ty, value: u64) -> Val {
        // SAFETY: `ty` is an integer type or a vector of one.
        unsafe {
            if LLVMGetTypeKind(ty.0) != LLVMTypeKind::LLVMVectorTypeKind {
                return Val(LLVMConstInt(ty.0, value, 0));
            }
            let lane = LLVMConstInt(LLVMGetElementType(ty.0), value, 0);
            self.splat_const(Val(lane), LLVMGetVectorSize(ty.0))
        }
    }

    /// A floating-point constant, in every lane of a vector type.
    pub(crate) fn float_const(&self, ty: Ty, value: f64) -> Val {
        // SAFETY: `ty` is a floating-point type or a vector of one.
        unsafe {
            if LLVMGetTypeKind(ty.0) != LLVMTypeKind::LLVMVectorTypeKind {
                return Val(LLVMConstReal(ty.0, value));
            }
            let lane = LLVMConstReal(LLVMGetElementType(ty.0), value);
            self.splat_const(Val(lane), LLVMGetVectorSize(ty.0))
        }
    }

    fn splat_const(&self, lane: Val, lanes: u32) -> Val {
        let mut elements = vec![lane.0; lanes as usize];
        // SAFETY: all elements are the same constant.
        Val(unsafe { LLVMConstVector(elements.as_mut_ptr(), lanes) })
    }

    pub(crate) fn zero(&self, ty: Ty) -> Val {
        // SAFETY: every first-class type has a null value.
        Val(unsafe { LLVMConstNull(ty.0) })
    }

    pub(crate) fn ones(&self, ty: Ty) -> Val {
        // SAFETY: `ty` is an integer type or a vector of one.
        Val(unsafe { LLVMConstAllOnes(ty.0) })
    }

    pub(crate) fn poison(&self, ty: Ty) -> Val {
        // SAFETY: every first-class type has a poison value.
        Val(unsafe { LLVMGetPoison(ty.0) })
    }

    pub(crate) fn bool_const(&self, value: bool) -> Val {
        self.int_const(self.int(1), value.into())
    }

    pub(crate) fn i64_const(&self, value: i64) -> Val {
        self.int_const(self.int(64), value as u64)
    }

    /// The constant vector 0, `step`, 2 `step`, ….
    pub(crate) fn iota(&self, elem: Ty, lanes: u32, step: i64) -> Val {
        // SAFETY: `elem` is an integer type; the elements are constants of it.
        unsafe {
            let mut elements: Vec<LLVMValueRef> = (0..i64::from(lanes))
                .map(|lane| LLVMConstIntOfArbitraryPrecision(elem.0, 1, [lane.wrapping_mul(step) as u64].as_ptr()))
                .collect();
            Val(LLVMConstVector(elements.as_mut_ptr(), lanes))
        }
    }

    pub(crate) fn is_const(&self, value: Val) -> bool {
        // SAFETY: the value is alive.
        unsafe { LLVMIsConstant(value.0) != 0 }
    }

    // ---- arithmetic -----------------------------------------------------------------------------------------------

    binary! {
        add = LLVMBuildAdd;
        add_nsw = LLVMBuildNSWAdd;
        sub = LLVMBuildSub;
        mul = LLVMBuildMul;
        udiv = LLVMBuildUDiv;
        sdiv = LLVMBuildSDiv;
        shl = LLVMBuildShl;
        lshr = LLVMBuildLShr;
        ashr = LLVMBuildAShr;
        and = LLVMBuildAnd;
        or = LLVMBuildOr;
        xor = LLVMBuildXor;
    }

    binary_float! {
        fadd = LLVMBuildFAdd;
        fsub = LLVMBuildFSub;
        fmul = LLVMBuildFMul;
        fdiv = LLVMBuildFDiv;
    }

    pub(crate) fn neg(&self, a: Val) -> Val {
        // SAFETY: `a` is of an integer type.
        Val(unsafe { LLVMBuildNeg(self.builder, a.0, UNNAMED) })
    }

    pub(crate) fn not(&self, a: Val) -> Val {
        // SAFETY: `a` is of an integer type.
        Val(unsafe { LLVMBuildNot(self.builder, a.0, UNNAMED) })
    }

    pub(crate) fn fneg(&self, a: Val) -> Val {
        // SAFETY: `a` is of a floating-point type.
        Val(unsafe { LLVMBuildFNeg(self.builder, a.0, UNNAMED) })
    }

    pub(crate) fn icmp(&self, predicate: LLVMIntPredicate, a: Val, b: Val) -> Val {
        // SAFETY: both operands have one integer type.
        Val(unsafe { LLVMBuildICmp(self.builder, predicate, a.0, b.0, UNNAMED) })
    }

    pub(crate) fn fcmp(&self, predicate: LLVMRealPredicate, a: Val, b: Val) -> Val {
        // SAFETY: both operands have one floating-point type.
        Val(unsafe { LLVMBuildFCmp(self.builder, predicate, a.0, b.0, UNNAMED) })
    }

    pub(crate) fn select(&self, cond: Val, a: Val, b: Val) -> Val {
        // SAFETY: the condition is `i1` or a mask of as many lanes; both values have one type.
        Val(unsafe { LLVMBuildSelect(self.builder, cond.0, a.0, b.0, UNNAMED) })
    }

    conversion! {
        trunc = LLVMBuildTrunc;
        zext = LLVMBuildZExt;
        sext = LLVMBuildSExt;
        fptrunc = LLVMBuildFPTrunc;
        fpext = LLVMBuildFPExt;
        sitofp = LLVMBuildSIToFP;
        uitofp = LLVMBuildUIToFP;
        fptosi = LLVMBuildFPToSI;
        fptoui = LLVMBuildFPToUI;
        bitcast = LLVMBuildBitCast;
        ptr_to_int = LLVMBuildPtrToInt;
        int_to_ptr = LLVMBuildIntToPtr;
    }

    /// An integer scalar cut or zero-extended to another integer type.
    pub(crate) fn int_cast(&self, value: Val, to: Ty) -> Val {
        // SAFETY: both types are integers.
        let (from_bits, to_bits) = unsafe { (LLVMGetIntTypeWidth(LLVMTypeOf(value.0)), LLVMGetIntTypeWidth(to.0)) };
        match to_bits.cmp(&from_bits) {
            std::cmp::Ordering::Less => self.trunc(value, to),
            std::cmp::Ordering::Equal => value,
            std::cmp::Ordering::Greater => self.zext(value, to),
        }
    }

    /// Says that an addition, subtraction, multiplication or truncation does not overflow as a signed operation.
    pub(crate) fn no_signed_wrap(&self, value: Val) -> Val {
        // SAFETY: the flag is set only on instructions that carry it: folding may have left a constant or an operand.
        unsafe {
            if !LLVMIsAInstruction(value.0).is_null() {
                use inkwell::llvm_sys::LLVMOpcode::*;
                if matches!(LLVMGetInstructionOpcode(value.0), LLVMAdd | LLVMSub | LLVMMul | LLVMTrunc) {
                    LLVMSetNSW(value.0, 1);
                }
            }
        }
        value
    }

    // ---- lanes ----------------------------------------------------------------------------------------------------

    /// A scalar in every lane; the scalar itself for one lane.
    pub(crate) fn splat(&self, value: Val, lanes: u32) -> Val {
        if lanes == 1 {
            return value;
        }
        if self.is_const(value) {
            return self.splat_const(value, lanes);
        }
        let ty = self.lanes(self.type_of(value), lanes);
        let poison = self.poison(ty);
        let first = self.insert(poison, value, self.i64_const(0));
        let zeros = self.zero(self.lanes(self.int(32), lanes));
        // SAFETY: two vectors of one type and a constant index vector of `lanes` elements.
        Val(unsafe { LLVMBuildShuffleVector(self.builder, first.0, poison.0, zeros.0, UNNAMED) })
    }

    /// Lanes of two vectors of one type by number; the second vector's come after the first's.
    pub(crate) fn shuffle(&self, a: Val, b: Val, lanes: impl Iterator<Item = u32>) -> Val {
        // SAFETY: two vectors of one type and constant indices into them.
        unsafe {
            let index = |lane: u32| LLVMConstInt(self.int(32).0, lane.into(), 0);
            let mut indices: Vec<LLVMValueRef> = lanes.map(index).collect();
            let indices = LLVMConstVector(indices.as_mut_ptr(), indices.len() as u32);
            Val(LLVMBuildShuffleVector(self.builder, a.0, b.0, indices, UNNAMED))
        }
    }

    /// Every lane takes the value of the lane `distance` before it, the first ones zero.
    pub(crate) fn shift_lanes(&self, vector: Val, distance: u32) -> Val {
        let lanes = self.n_lanes(vector);
        let zero = self.zero(self.type_of(vector));
        // Indices past the first vector's lanes mean the second's.
        let index = |lane: u32| if lane < distance { lanes } else { lane - distance };
        // SAFETY: two vectors of one type and constant indices into them.
        unsafe {
            let int = self.int(32).0;
            let mut indices: Vec<LLVMValueRef> =
                (0..lanes).map(|lane| LLVMConstInt(int, index(lane).into(), 0)).collect();
            let indices = LLVMConstVector(indices.as_mut_ptr(), lanes);
            Val(LLVMBuildShuffleVector(self.builder, vector.0, zero.0, indices, UNNAMED))
        }
    }

    /// The lanes in reverse order.
    pub(crate) fn reverse(&self, vector: Val) -> Val {
        self.unary_intrinsic("llvm.vector.reverse", vector)
    }

    /// An integer scalar of at most 64 bits, sign-extended.
    pub(crate) fn sext_to_64(&self, value: Val) -> Val {
        let wide = self.int(64);
        if self.type_of(value) == wide { value } else { self.sext(value, wide) }
    }

    pub(crate) fn insert(&self, vector: Val, value: Val, lane: Val) -> Val {
        // SAFETY: `value` has the vector's element type.
        Val(unsafe { LLVMBuildInsertElement(self.builder, vector.0, value.0, lane.0, UNNAMED) })
    }

    pub(crate) fn extract(&self, vector: Val, lane: Val) -> Val {
        // SAFETY: `vector` is of a vector type, `lane` an integer within it.
        Val(unsafe { LLVMBuildExtractElement(self.builder, vector.0, lane.0, UNNAMED) })
    }

    pub(crate) fn extract_field(&self, aggregate: Val, index: u32) -> Val {
        // SAFETY: the aggregate has this field.
        Val(unsafe { LLVMBuildExtractValue(self.builder, aggregate.0, index, UNNAMED) })
    }

    pub(crate) fn insert_field(&self, aggregate: Val, value: Val, index: u32) -> Val {
        // SAFETY: the aggregate has this field and the value its type.
        Val(unsafe { LLVMBuildInsertValue(self.builder, aggregate.0, value.0, index, UNNAMED) })
    }

    // ---- memory ---------------------------------------------------------------------------------------------------

    /// A stack slot of the current function, allocated in its entry block.
    pub(crate) fn alloca(&self, ty: Ty) -> Val {
        let here = self.current();
        // SAFETY: the current block belongs to a function; the builder returns to where it was.
        unsafe {
            let entry = LLVMGetEntryBasicBlock(LLVMGetBasicBlockParent(here.0));
            let first = LLVMGetFirstInstruction(entry);
            match first.is_null() {
                true => LLVMPositionBuilderAtEnd(self.builder, entry),
                false => LLVMPositionBuilderBefore(self.builder, first),
            }
            let slot = LLVMBuildAlloca(self.builder, ty.0, UNNAMED);
            LLVMPositionBuilderAtEnd(self.builder, here.0);
            Val(slot)
        }
    }

    pub(crate) fn load(&self, ty: Ty, pointer: Val, align: u32) -> Val {
        // SAFETY: `pointer` is a pointer; that memory is there when the code runs is the caller's business.
        unsafe {
            let load = LLVMBuildLoad2(self.builder, ty.0, pointer.0, UNNAMED);
            LLVMSetAlignment(load, align);
            Val(load)
        }
    }

    pub(crate) fn store(&self, value: Val, pointer: Val, align: u32) -> Val {
        // SAFETY: as in `load`.
        unsafe {
            let store = LLVMBuildStore(self.builder, value.0, pointer.0);
            LLVMSetAlignment(store, align);
            Val(store)
        }
    }

    /// Reads a stack slot.
    pub(crate) fn get(&self, ty: Ty, slot: Val) -> Val {
        // SAFETY: a slot of this type.
        Val(unsafe { LLVMBuildLoad2(self.builder, ty.0, slot.0, UNNAMED) })
    }

    /// Writes a stack slot.
    pub(crate) fn set(&self, slot: Val, value: Val) {
        // SAFETY: a slot of the value's type.
        unsafe { LLVMBuildStore(self.builder, value.0, slot.0) };
    }

    /// `pointer + index * size_of(elem)`; a vector of pointers if the index is a vector.
    pub(crate) fn offset(&self, elem: Ty, pointer: Val, index: Val) -> Val {
        let mut indices = [index.0];
        // SAFETY: `pointer` is a pointer or a vector of as many as there are indices.
        Val(unsafe { LLVMBuildGEP2(self.builder, elem.0, pointer.0, indices.as_mut_ptr(), 1, UNNAMED) })
    }

    /// An atomic update without ordering, atomic to the threads of `scope`. Gives the old value.
    pub(crate) fn atomic_rmw(&self, op: LLVMAtomicRMWBinOp, pointer: Val, value: Val, scope: &str) -> Val {
        let order = LLVMAtomicOrdering::LLVMAtomicOrderingMonotonic;
        // SAFETY: `pointer` is a pointer and the value of a type the operation takes.
        Val(unsafe { LLVMBuildAtomicRMWSyncScope(self.builder, op, pointer.0, value.0, order, self.sync_scope(scope)) })
    }

    /// Compares and exchanges integers: the old value and whether it was the expected one.
    pub(crate) fn cmpxchg(&self, pointer: Val, expected: Val, new: Val, scope: &str) -> (Val, Val) {
        let order = LLVMAtomicOrdering::LLVMAtomicOrderingMonotonic;
        // SAFETY: `pointer` is a pointer and the values are integers of one type.
        let pair = Val(unsafe {
            LLVMBuildAtomicCmpXchgSyncScope(
                self.builder,
                pointer.0,
                expected.0,
                new.0,
                order,
                order,
                self.sync_scope(scope),
            )
        });
        (self.extract_field(pair, 0), self.extract_field(pair, 1))
    }

    /// Orders accesses of memory for the threads of `scope`.
    pub(crate) fn fence(&self, order: FenceOrder, scope: &str) {
        // SAFETY: the builder stands in a function; fences have no operands.
        unsafe { LLVMBuildFenceSyncScope(self.builder, order, self.sync_scope(scope), UNNAMED) };
    }

    fn sync_scope(&self, name: &str) -> u32 {
        // SAFETY: the context is alive.
        unsafe { LLVMGetSyncScopeID(self.context, name.as_ptr().cast(), name.len()) }
    }

    /// Makes a load or store atomic to the threads of `scope`, without ordering.
    pub(crate) fn set_atomic(&self, access: Val, scope: &str) {
        // SAFETY: `access` is a load or store.
        unsafe {
            LLVMSetOrdering(access.0, LLVMAtomicOrdering::LLVMAtomicOrderingMonotonic);
            LLVMSetAtomicSyncScopeID(access.0, self.sync_scope(scope));
        }
    }

    // ---- metadata -------------------------------------------------------------------------------------------------

    pub(crate) fn meta_string(&self, text: &str) -> Meta {
        // SAFETY: the context copies the text.
        Meta(unsafe { LLVMMDStringInContext2(self.context, text.as_ptr().cast(), text.len()) })
    }

    pub(crate) fn meta_i64(&self, value: u64) -> Meta {
        // SAFETY: the constant lives in this context.
        Meta(unsafe { LLVMValueAsMetadata(LLVMConstInt(self.int(64).0, value, 0)) })
    }

    pub(crate) fn meta_node(&self, operands: &[Meta]) -> Meta {
        let mut operands: Vec<LLVMMetadataRef> = operands.iter().map(|m| m.0).collect();
        // SAFETY: the operands live in this context.
        Meta(unsafe { LLVMMDNodeInContext2(self.context, operands.as_mut_ptr(), operands.len()) })
    }

    /// Attaches metadata of the given kind to an instruction.
    pub(crate) fn attach(&self, instruction: Val, kind: &str, node: Meta) {
        // SAFETY: constants, which folding may have made of an instruction, are left alone.
        unsafe {
            if LLVMIsAInstruction(instruction.0).is_null() {
                return;
            }
            let kind = LLVMGetMDKindIDInContext(self.context, kind.as_ptr().cast(), kind.len() as u32);
            LLVMSetMetadata(instruction.0, kind, LLVMMetadataAsValue(self.context, node.0));
        }
    }

    // ---- control flow ---------------------------------------------------------------------------------------------

    /// A new block at the end of the current function.
    pub(crate) fn block(&self, name: &CStr) -> Block {
        // SAFETY: the current block belongs to a function.
        unsafe {
            let function = LLVMGetBasicBlockParent(self.current().0);
            Block(LLVMAppendBasicBlockInContext(self.context, function, name.as_ptr()))
        }
    }

    pub(crate) fn current(&self) -> Block {
        // SAFETY: the builder is always positioned in a block while a function is lowered.
        Block(unsafe { LLVMGetInsertBlock(self.builder) })
    }

    pub(crate) fn switch_to(&self, block: Block) {
        // SAFETY: the block is alive.
        unsafe { LLVMPositionBuilderAtEnd(self.builder, block.0) }
    }

    pub(crate) fn br(&self, target: Block) {
        // SAFETY: the block is of the current function.
        unsafe { LLVMBuildBr(self.builder, target.0) };
    }

    pub(crate) fn cond_br(&self, cond: Val, then: Block, otherwise: Block) {
        // SAFETY: the condition is an `i1`, the blocks are of the current function.
        unsafe { LLVMBuildCondBr(self.builder, cond.0, then.0, otherwise.0) };
    }

    /// As [`Ir::cond_br`], telling LLVM that the condition hardly ever holds.
    pub(crate) fn cond_br_unlikely(&self, cond: Val, rare: Block, usual: Block) {
        // SAFETY: as in `cond_br`; the weights are two integers after the node's name.
        unsafe {
            let branch = LLVMBuildCondBr(self.builder, cond.0, rare.0, usual.0);
            let weight = |n| Meta(LLVMValueAsMetadata(LLVMConstInt(self.int(32).0, n, 0)));
            let node = self.meta_node(&[self.meta_string("branch_weights"), weight(1), weight(2000)]);
            self.attach(Val(branch), "prof", node);
        }
    }

    pub(crate) fn ret_void(&self) {
        // SAFETY: the current function returns nothing.
        unsafe { LLVMBuildRetVoid(self.builder) };
    }

    pub(crate) fn ret(&self, value: Val) {
        // SAFETY: the value has the current function's result type.
        unsafe { LLVMBuildRet(self.builder, value.0) };
    }

    pub(crate) fn unreachable(&self) {
        // SAFETY: the block has no terminator yet.
        unsafe { LLVMBuildUnreachable(self.builder) };
    }

    /// A phi; its edges follow with [`Ir::add_incoming`].
    pub(crate) fn phi(&self, ty: Ty) -> Val {
        // SAFETY: phis are emitted before other instructions of a block.
        Val(unsafe { LLVMBuildPhi(self.builder, ty.0, UNNAMED) })
    }

    pub(crate) fn add_incoming(&self, phi: Val, value: Val, from: Block) {
        let (mut values, mut blocks) = ([value.0], [from.0]);
        // SAFETY: `phi` is a phi of the value's type.
        unsafe { LLVMAddIncoming(phi.0, values.as_mut_ptr(), blocks.as_mut_ptr(), 1) }
    }

    // ---- functions ------------------------------------------------------------------------------------------------

    pub(crate) fn add_function(&self, name: &CStr, params: &[Ty], result: Ty, internal: bool) -> Fun {
        let mut params: Vec<LLVMTypeRef> = params.iter().map(|t| t.0).collect();
        // SAFETY: the module is alive and copies the name.
        unsafe {
            let ty = LLVMFunctionType(result.0, params.as_mut_ptr(), params.len() as u32, 0);
            let value = LLVMAddFunction(self.module, name.as_ptr(), ty);
            if internal {
                LLVMSetLinkage(value, LLVMLinkage::LLVMInternalLinkage);
            }
            Fun { value, ty }
        }
    }

    /// Starts the function's body: appends its entry block and goes there.
    pub(crate) fn begin(&self, function: Fun) -> Block {
        // SAFETY: the function has no body yet.
        let entry = Block(unsafe { LLVMAppendBasicBlockInContext(self.context, function.value, c"entry".as_ptr()) });
        self.switch_to(entry);
        entry
    }

    pub(crate) fn param(&self, function: Fun, index: u32) -> Val {
        // SAFETY: the function has this parameter.
        Val(unsafe { LLVMGetParam(function.value, index) })
    }

    /// Sets an attribute of LLVM's own on the function (`place` 0xffff_ffff) or on parameter `place - 1`.
    pub(crate) fn enum_attribute(&self, function: Fun, place: u32, name: &str) {
        // SAFETY: the name is known to LLVM; kind 0 means that it is not, and is passed over.
        unsafe {
            let kind = LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len());
            if kind != 0 {
                let attribute = LLVMCreateEnumAttribute(self.context, kind, 0);
                LLVMAddAttributeAtIndex(function.value, place, attribute);
            }
        }
    }

    /// Sets a target-dependent attribute on the function.
    pub(crate) fn string_attribute(&self, function: Fun, name: &str, value: &str) {
        // SAFETY: the context copies both strings.
        unsafe {
            let attribute = LLVMCreateStringAttribute(
                self.context,
                name.as_ptr().cast(),
                name.len() as u32,
                value.as_ptr().cast(),
                value.len() as u32,
            );
            LLVMAddAttributeAtIndex(function.value, FUNCTION, attribute);
        }
    }

    pub(crate) fn call(&self, function: Fun, args: &[Val]) -> Val {
        let mut args: Vec<LLVMValueRef> = args.iter().map(|v| v.0).collect();
        // SAFETY: the arguments have the parameters' types.
        unsafe {
            let call = LLVMBuildCall2(
                self.builder,
                function.ty,
                function.value,
                args.as_mut_ptr(),
                args.len() as u32,
                UNNAMED,
            );
            LLVMSetInstructionCallConv(call, LLVMGetFunctionCallConv(function.value));
            Val(call)
        }
    }

    /// Assembly text with effects, of the arguments and with one result.
    pub(crate) fn inline_asm(&self, result: Ty, text: &str, constraints: &str, args: &[Val]) -> Val {
        // SAFETY: the constraints are those of the arguments' types and the result's.
        unsafe {
            let mut params: Vec<LLVMTypeRef> = args.iter().map(|v| LLVMTypeOf(v.0)).collect();
            let mut args: Vec<LLVMValueRef> = args.iter().map(|v| v.0).collect();
            let ty = LLVMFunctionType(result.0, params.as_mut_ptr(), params.len() as u32, 0);
            let (text, text_len) = (text.as_ptr().cast(), text.len());
            let (constraints, constraints_len) = (constraints.as_ptr().cast(), constraints.len());
            let dialect = LLVMInlineAsmDialect::LLVMInlineAsmDialectATT;
            let code = LLVMGetInlineAsm(ty, text, text_len, constraints, constraints_len, 1, 0, dialect, 0);
            Val(LLVMBuildCall2(self.builder, ty, code, args.as_mut_ptr(), args.len() as u32, UNNAMED))
        }
    }

    /// Calls a C function through a pointer.
    pub(crate) fn call_pointer(&self, pointer: Val, params: &[Ty], args: &[Val]) {
        let mut params: Vec<LLVMTypeRef> = params.iter().map(|t| t.0).collect();
        let mut args: Vec<LLVMValueRef> = args.iter().map(|v| v.0).collect();
        // SAFETY: the arguments have the parameters' types.
        unsafe {
            let ty = LLVMFunctionType(self.void().0, params.as_mut_ptr(), params.len() as u32, 0);
            LLVMBuildCall2(self.builder, ty, pointer.0, args.as_mut_ptr(), args.len() as u32, UNNAMED);
        }
    }

    /// Uses LLVM's internal calling convention, which passes vectors in registers.
    pub(crate) fn set_fast_call(&self, function: Fun) {
        // SAFETY: calls read the convention back from the function. 8 is `fastcc`.
        unsafe { LLVMSetFunctionCallConv(function.value, 8) }
    }

    /// Takes away the line of source that instructions are for, and gives it.
    pub(crate) fn take_location(&self) -> Location {
        // SAFETY: the builder is alive.
        unsafe {
            let location = LLVMGetCurrentDebugLocation2(self.builder);
            LLVMSetCurrentDebugLocation2(self.builder, std::ptr::null_mut());
            Location(location)
        }
    }

    /// Gives back what [`Ir::take_location`] took.
    pub(crate) fn set_location(&self, location: Location) {
        // SAFETY: the location is of this context, or none.
        unsafe { LLVMSetCurrentDebugLocation2(self.builder, location.0) }
    }

    /// Calls an intrinsic that is overloaded on `types`.
    pub(crate) fn intrinsic(&self, name: &str, types: &[Ty], args: &[Val]) -> Val {
        let mut types: Vec<LLVMTypeRef> = types.iter().map(|t| t.0).collect();
        let mut args: Vec<LLVMValueRef> = args.iter().map(|v| v.0).collect();
        // SAFETY: the name is one of LLVM 22's intrinsics (an unknown one has id 0 and fails the assertion), the types
        // are those it is overloaded on and the arguments fit.
        unsafe {
            let id = LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len());
            assert!(id != 0, "LLVM has no intrinsic {name}");
            let function = LLVMGetIntrinsicDeclaration(self.module, id, types.as_mut_ptr(), types.len());
            let ty = LLVMGlobalGetValueType(function);
            Val(LLVMBuildCall2(self.builder, ty, function, args.as_mut_ptr(), args.len() as u32, UNNAMED))
        }
    }

    /// Square root.
    pub(crate) fn sqrt(&self, a: Val) -> Val {
        self.with_fast_math(self.unary_intrinsic("llvm.sqrt", a))
    }

    /// Says that a call's pointer argument is a multiple of `align`.
    pub(crate) fn set_argument_align(&self, call: Val, index: u32, align: u32) {
        // SAFETY: `call` is a call with that many arguments; attribute places count them from 1.
        unsafe {
            let kind = LLVMGetEnumAttributeKindForName(c"align".as_ptr(), 5);
            let attribute = LLVMCreateEnumAttribute(self.context, kind, align.into());
            LLVMAddCallSiteAttribute(call.0, index + 1, attribute);
        }
    }

    /// A one-operand intrinsic overloaded on its operand's type.
    pub(crate) fn unary_intrinsic(&self, name: &str, a: Val) -> Val {
        self.intrinsic(name, &[self.type_of(a)], &[a])
    }

    /// A two-operand intrinsic overloaded on its operands' type.
    pub(crate) fn binary_intrinsic(&self, name: &str, a: Val, b: Val) -> Val {
        self.intrinsic(name, &[self.type_of(a)], &[a, b])
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
