//! The overloads of builtins that kernels may call: those of the op table that give one value, and those that real Warp has.

use crate::catalogue::{self, DrawFrequency, WarpSupport};
use polyloom::op::{OpGroup, Signature};
use polyloom::{Composite, Op, Scalar, Type};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

/// A builtin that gives one value and does nothing else.
#[derive(Clone, Copy)]
pub(super) struct BuiltinOverload {
    pub(super) op: Op,
    pub(super) signature: &'static Signature,
}

/// Describes what of all that a kernel gives a type.
pub(super) struct TypeChoices {
    pub(super) ops: Vec<Op>,
    /// Those of them that are plain arithmetic.
    pub(super) common: Vec<Op>,
    /// The overloads, those of an op beside each other.
    pub(super) overloads: Vec<BuiltinOverload>,
}

/// All of them, as the op table has them.
pub(super) static OVERLOADS: LazyLock<Vec<BuiltinOverload>> = LazyLock::new(|| {
    use OpGroup::{Arithmetic, Bits, Comparison, Core, Math, Vector};
    let is_value = |info: &&'static polyloom::op::OpInfo| {
        let is_drawn = catalogue::facts(info.op).frequency != DrawFrequency::Never;
        let group = matches!(info.group, Arithmetic | Bits | Comparison | Math | Vector) || info.op == Op::Select;
        info.is_builtin() && info.is_pure() && (group && info.group != Core || info.op == Op::Select) && is_drawn
    };
    let of = |info: &'static polyloom::op::OpInfo| {
        let plain = |signature: &&'static Signature| {
            signature.results.len() == 1 && signature.params.iter().all(|param| !param.inout)
        };
        info.signatures.iter().filter(plain).map(|signature| BuiltinOverload { op: info.op, signature })
    };
    Op::all().filter(is_value).flat_map(of).collect()
});

/// The overloads that could give this type, by number.
pub(super) fn giving(ty: Type) -> Arc<[usize]> {
    static KNOWN: LazyLock<RwLock<HashMap<Type, Arc<[usize]>>>> = LazyLock::new(RwLock::default);
    if let Some(known) = KNOWN.read().unwrap_or_else(PoisonError::into_inner).get(&ty) {
        return Arc::clone(known);
    }
    let fits = |at: &usize| OVERLOADS[*at].signature.result_could_be(ty);
    let found: Arc<[usize]> = (0..OVERLOADS.len()).filter(fits).collect();
    KNOWN.write().unwrap_or_else(PoisonError::into_inner).insert(ty, Arc::clone(&found));
    found
}

/// Returns true if real Warp takes operands of these types.
pub(super) fn is_in_warp_of(op: Op, types: &[Type]) -> bool {
    let first = types[0].as_composite();
    let moves = || types.iter().any(|ty| matches!(ty.as_composite(), Some(Composite::Transform { .. })));
    match catalogue::facts(op).warp {
        WarpSupport::All => true,
        WarpSupport::NoTransforms => !moves(),
        WarpSupport::NoRotations => !moves() && !matches!(first, Some(Composite::Quaternion { .. })),
        WarpSupport::Float32 => first.is_none_or(|composite| composite.elem() == Scalar::F32),
        WarpSupport::None => false,
    }
}
