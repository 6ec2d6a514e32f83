//! Arithmetic, conversions, and what rearranges the lanes of vectors.

use super::*;

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

impl IrEmitter<'_> {
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

    /// The value of an integer constant.
    pub(crate) fn as_int_const(&self, value: Val) -> Option<i64> {
        // SAFETY: the value is alive; what is asked of it is asked of constants alone.
        unsafe { (!LLVMIsAConstantInt(value.0).is_null()).then(|| LLVMConstIntGetSExtValue(value.0)) }
    }

    /// Says that an addition, subtraction, multiplication or truncation does not overflow as a signed operation.
    pub(crate) fn no_signed_wrap(&self, value: Val) -> Val {
        // SAFETY: the flag is set only on instructions that carry it, because folding may have left a constant or an
        // operand.
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
}
