//! Functions that kernels can call without defining them.

use polyloom_ir::{CompositeKind, Op};

/// A function a kernel can call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BuiltinFunction {
    /// An operation of the op table.
    Op(Op),
    /// `tid()`: the first coordinate, or as many as it is unpacked to.
    Tid,
    /// `range(…)`, in `for` only.
    Range,
    /// `len(a)`: the extent along the first axis.
    Len,
    /// `print(…)`.
    Print,
    /// `printf("…", …)`.
    Printf,
    /// `min(…)` or `max(…)` of two or more values.
    Fold(Op),
    /// `cast(x, dtype)`: the same bits as another type.
    Cast,
    /// `static(x)`, `constant(x)`: `x`, which must be a constant.
    Constant,
    /// `grad(f)`: a function that gives the derivatives of what `f` gives.
    Grad,
    /// Constructs vectors and the like, and is no type.
    Construct(CompositeConstructor),
}

/// A function that makes vectors, matrices, quaternions or transforms.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CompositeConstructor {
    /// `vector(…, length=, dtype=)`.
    Vector,
    /// `matrix(…, shape=, dtype=)`.
    Matrix,
    /// `matrix_from_rows(…)`.
    Rows,
    /// `matrix_from_cols(…)`.
    Columns,
    /// `identity(n, dtype=)`.
    Identity,
    /// `quat_identity(dtype=)`.
    QuatIdentity,
    /// `transform_identity(dtype=)`.
    TransformIdentity,
    /// `quaternion(x, y, z, w, dtype=)`.
    Quaternion,
    /// `transformation(p, q, dtype=)`.
    Transformation,
}

impl CompositeConstructor {
    /// Returns what a call of a type's constructor makes in a kernel.
    pub(crate) fn of(kind: CompositeKind) -> CompositeConstructor {
        match kind {
            CompositeKind::Vector => CompositeConstructor::Vector,
            CompositeKind::Matrix => CompositeConstructor::Matrix,
            CompositeKind::Quaternion => CompositeConstructor::Quaternion,
            CompositeKind::Transform => CompositeConstructor::Transformation,
        }
    }

    /// Returns true if a type among its arguments is that of the elements, since the others are of numbers.
    pub(crate) fn has_dtype(self) -> bool {
        matches!(
            self,
            CompositeConstructor::Identity
                | CompositeConstructor::QuatIdentity
                | CompositeConstructor::TransformIdentity
        )
    }
}
