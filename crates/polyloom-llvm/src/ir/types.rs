//! Types and constants.

use super::*;

impl IrEmitter<'_> {
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

    /// The number of the address space that a pointer points into.
    pub(crate) fn space_of(&self, pointer: Val) -> u32 {
        // SAFETY: `pointer` is a pointer.
        unsafe { LLVMGetPointerAddressSpace(LLVMTypeOf(pointer.0)) }
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

    /// Returns how values of a scalar type are held: `i1` for `bool`, bits in `i16` for the 16-bit floats.
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

    pub(super) fn splat_const(&self, lane: Val, lanes: u32) -> Val {
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
}
