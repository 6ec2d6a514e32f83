//! Constants that derivatives begin with: the zero of a type, its one, and what changes no sum.

use polyloom_ir::{Builder, Imm, Op, Scalar, Type, Value};
use smallvec::SmallVec;

/// The zero of a type.
pub(super) fn zero(builder: &mut Builder<'_>, ty: Type) -> Value {
    match ty {
        Type::Composite(composite) => {
            let nothing = builder.const_bits(composite.elem(), 0);
            let components: SmallVec<[Value; 16]> = std::iter::repeat_n(nothing, composite.n_components()).collect();
            let inst = builder.inst(Op::Construct, &components, &[ty], Imm::None);
            builder.func.insts[inst].results[0]
        }
        ty => builder.const_bits(ty.as_scalar().unwrap_or(Scalar::I32), 0),
    }
}

/// The one of a scalar type.
pub(super) fn one(builder: &mut Builder<'_>, ty: Type) -> Value {
    let one = builder.const_f64(1.0);
    builder.cast(one, ty.as_scalar().unwrap_or(Scalar::F64))
}

/// Returns -0.0, since this changes no number that it is added to; a zero without a sign would change -0.0.
pub(super) fn nothing(builder: &mut Builder<'_>, ty: Type) -> Value {
    let zero = zero(builder, ty);
    builder.op(Op::Neg, &[zero])
}
