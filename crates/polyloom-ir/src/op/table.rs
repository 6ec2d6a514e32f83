//! The entries of the op table. See [`crate::op`] for what the columns mean.
//!
//! This file is longer than others: the table is one list, in which an op is declared once.
//!
//! An entry reads: documentation, `Variant = "name"`, group, how Python spells it, effect, lowering, how it is
//! differentiated, overloads, if it has any, other names, which threads must execute it together, if any must
//! (`converges`), the number of the first GPU architecture that has it, if that is not the oldest (`since`; of some
//! types it may be a later one, as `verify/arch.rs` says), what its derivative is where it has none in the strict sense
//! (`kinks`), and for builtins an example: lines of a kernel, each with what `print` shows of it there. The results are
//! worked out by NumPy or by hand, those of random numbers and noise by Warp, to seven digits.

use super::Lowering::{Library, Native, Scalarised};
use super::OpEffect::{Pure, Read, ReadWrite, Region, Terminator, Write};
use super::OpSpelling::{Function, Internal, Operator};
use super::{Convergence, Derivative, ExampleLine, OpGroup, OpInfo, Signature};
use crate::arch::Arch;
use std::sync::LazyLock;

macro_rules! optional {
    () => {
        None
    };
    ($text:literal) => {
        Some($text)
    };
}

macro_rules! convergence {
    () => {
        Convergence::None
    };
    ($convergence:ident) => {
        Convergence::$convergence
    };
}

macro_rules! since {
    () => {
        Arch::OLDEST
    };
    ($arch:literal) => {
        Arch::of_number($arch).unwrap_or(Arch::OLDEST)
    };
}

macro_rules! op_table {
    ($(
        $(#[doc = $doc:literal])+
        $op:ident = $name:literal, $group:ident, $spelling:expr, $effect:ident, $lowering:ident, $derivative:ident,
        [$($signature:literal),* $(,)?] $(, aliases [$($alias:literal),*])?
        $(, converges $convergence:ident)? $(, since $arch:literal)? $(, kinks $kinks:literal)?
        $(, example [$($line:literal $(=> $shown:literal)?),+ $(,)?])?;
    )*) => {
        /// An operation of HIR. What each one is, the op table says: [`Op::info`].
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum Op {
            $($(#[doc = $doc])+ $op,)*
        }

        pub(super) static TABLE: LazyLock<Vec<OpInfo>> = LazyLock::new(|| vec![
            $(OpInfo {
                op: Op::$op,
                name: $name,
                group: OpGroup::$group,
                spelling: $spelling,
                aliases: &[$($($alias),*)?],
                example: vec![$($(ExampleLine { text: $line, shown: optional!($($shown)?) }),+)?],
                effect: $effect,
                lowering: $lowering,
                convergence: convergence!($($convergence)?),
                least_arch: since!($($arch)?),
                derivative: Derivative::$derivative,
                kinks: optional!($($kinks)?),
                doc: concat!($($doc, "\n"),+),
                signatures: vec![$(Signature::parse($signature)),*],
            },)*
        ]);
    };
}

op_table! {
    // ---- control flow: structured, types checked by the verifier -------------------------------------------------
    /// Executes one of two regions.
    If = "if", Control, Internal, Region, Native, Structure, [];
    /// Counts from a start by a step while before (step > 0) or past (step < 0) the end; a zero step runs no iteration.
    ForRange = "for_range", Control, Internal, Region, Native, Structure, [];
    /// Repeats its second region while its first yields true.
    While = "while", Control, Internal, Region, Native, Structure, [];
    /// Executes its region once; `break` leaves it early.
    Block = "block", Control, Internal, Region, Native, Structure, [];
    /// Ends a region, handing values to the instruction that owns it.
    Yield = "yield", Control, Internal, Terminator, Native, Structure, [];
    /// Leaves an enclosing loop or block with values for its results.
    Break = "break", Control, Internal, Terminator, Native, Structure, [];
    /// Starts the next iteration of an enclosing loop with values for its carried parameters.
    Continue = "continue", Control, Internal, Terminator, Native, Structure, [];
    /// Leaves the function with its results.
    Return = "return", Control, Internal, Terminator, Native, Structure, [];
    /// Ends a region whose end is never reached.
    Unreachable = "unreachable", Control, Internal, Terminator, Native, Structure, [];

    // ---- core -----------------------------------------------------------------------------------------------------
    /// A constant.
    Const = "const", Core, Internal, Pure, Native, Structure, [];
    /// Calls a function of the module.
    Call = "call", Core, Internal, ReadWrite, Native, Structure, [];
    /// Converts a number to another scalar type. Integers wrap; float to integer truncates toward zero, saturates,
    /// and gives 0 for NaN; a float rounds to nearest even; anything to `bool` is `x != 0`.
    Cast = "cast", Core, Internal, Pure, Native, Rule, ["[T: scalar, U: scalar](x: T) -> U"];
    /// Reinterprets the bits of a value as another type of the same size. Which NaN a NaN is, its bits do not say alike
    /// on every back end.
    Bitcast = "bitcast", Core, Internal, Pure, Native, None, ["[T: number, U: number](x: T) -> U"];
    /// One of two values, by a condition. Both are computed. An integer is true unless it is zero. `select` takes the
    /// value for a false condition first, as in Warp.
    Select = "where", Core, Function, Pure, Native, Rule, ["[T: scalar](cond: bool, value_if_true: T, value_if_false: T) -> T", "[T: scalar](cond: bool, value_if_true: C[T], value_if_false: C[T]) -> C[T]"], aliases ["select"],
        kinks "Of the value that is not chosen it is 0, also where what is computed for it alone is infinite or NaN.",
        example [
            "loom.where(2 > 1, 10, 20)" => "10",
            "loom.where(2.0 > 3.0, loom.vec2(1.0), loom.vec2(0.0))" => "[0.0, 0.0]",
        ];

    // ---- composites: `scalarise` defines them by their components -------------------------------------------------
    /// A composite of its components, a matrix's in row-major order.
    Construct = "construct", Core, Internal, Pure, Scalarised, Rule, [];
    /// One component of a composite.
    Component = "component", Core, Internal, Pure, Scalarised, Rule, ["[T: scalar](x: C[T]) -> T"];
    /// A composite with another value for one component.
    WithComponent = "with_component", Core, Internal, Pure, Scalarised, Rule, ["[T: scalar](x: C[T], value: T) -> C[T]"];
    /// An index of an axis of a composite or of an array in variables, counted from the start of the axis: a negative
    /// one counts from the end. If there is no such place, a number that is so far below zero that no row-major number
    /// made of it is that of a component.
    WrapIndex = "wrap_index", Core, Internal, Pure, Scalarised, Zero, ["[T: int](index: T) -> i32"];
    /// The component with this number. 0 if there is no such component.
    ComponentAt = "component_at", Core, Internal, Pure, Scalarised, Rule, ["[T: scalar](x: C[T], index: i32) -> T"];
    /// A composite with another value for the component with this number. The composite itself if there is no such
    /// component.
    WithComponentAt = "with_component_at", Core, Internal, Pure, Scalarised, Rule, ["[T: scalar](x: C[T], index: i32, value: T) -> C[T]"];

    // ---- linear algebra --------------------------------------------------------------------------------------------
    /// The sum of the products of corresponding components, from the first on.
    Dot = "dot", Vector, Function, Pure, Scalarised, Rule, ["[T: number](a: vec[T N], b: vec[T N]) -> T", "[T: float](a: quat[T], b: quat[T]) -> T"],
        example ["loom.dot(loom.vec3(1.0, 2.0, 3.0), loom.vec3(4.0, 5.0, 6.0))" => "32.0"];
    /// The sum of the products of corresponding elements of two matrices; `float32` and `float64` products are added
    /// without being rounded, as in the product of two matrices.
    Ddot = "ddot", Vector, Function, Pure, Scalarised, Rule, ["[T: number](a: mat[T R C], b: mat[T R C]) -> T"],
        example ["loom.ddot(loom.mat22(1.0, 2.0, 3.0, 4.0), loom.mat22(5.0, 6.0, 7.0, 8.0))" => "70.0"];
    /// The vector at right angles to both, as long as the parallelogram they span is large.
    Cross = "cross", Vector, Function, Pure, Scalarised, Rule, ["[T: number](a: vec[T 3], b: vec[T 3]) -> vec[T 3]"],
        example ["loom.cross(loom.vec3(1.0, 0.0, 0.0), loom.vec3(0.0, 1.0, 0.0))" => "[0.0, 0.0, 1.0]"];
    /// The square of the Euclidean length.
    LengthSq = "length_sq", Vector, Function, Pure, Scalarised, Rule, ["[T: number](x: vec[T N]) -> T", "[T: float](x: quat[T]) -> T"],
        example ["loom.length_sq(loom.vec2(3.0, 4.0))" => "25.0"];
    /// The Euclidean length.
    Length = "length", Vector, Function, Pure, Scalarised, Rule, ["[T: float](x: vec[T N]) -> T", "[T: float](x: quat[T]) -> T"], aliases ["norm_l2"],
        kinks "0 for a vector of length 0.",
        example ["loom.length(loom.vec2(3.0, 4.0))" => "5.0"];
    /// The sum of the magnitudes of the components.
    NormL1 = "norm_l1", Vector, Function, Pure, Scalarised, Definition, ["[T: float](v: vec[T N]) -> T"],
        kinks "0 for a component of 0.",
        example ["loom.norm_l1(loom.vec3(1.0, -2.0, 3.0))" => "6.0"];
    /// Half the square of the length up to the length `delta`, 1 unless given, and linear in the length from there.
    NormHuber = "norm_huber", Vector, Function, Pure, Scalarised, Rule, ["[T: float](v: vec[T N]) -> T", "[T: float](v: vec[T N], delta: T) -> T"],
        kinks "0 for a vector of length 0.",
        example ["loom.norm_huber(loom.vec2(0.3, 0.4))" => "0.125", "loom.norm_huber(loom.vec2(3.0, 4.0))" => "4.5"];
    /// `delta * sqrt(1 + length_sq(v) / (delta * delta))`, where `delta` is 1 unless given.
    NormPseudoHuber = "norm_pseudo_huber", Vector, Function, Pure, Scalarised, Rule, ["[T: float](v: vec[T N]) -> T", "[T: float](v: vec[T N], delta: T) -> T"],
        example ["loom.norm_pseudo_huber(loom.vec2(3.0, 4.0), 2.0)" => "5.385165"];
    /// The vector divided by its `norm_pseudo_huber`.
    SmoothNormalize = "smooth_normalize", Vector, Function, Pure, Scalarised, Rule, ["[T: float](v: vec[T N]) -> vec[T N]", "[T: float](v: vec[T N], delta: T) -> vec[T N]"],
        example ["loom.smooth_normalize(loom.vec2(3.0, 4.0), 2.0)" => "[0.557086, 0.7427814]"];
    /// The vector divided by its length. A vector of length 0 stays, a quaternion of length 0 becomes the identity.
    Normalize = "normalize", Vector, Function, Pure, Scalarised, Rule, ["[T: float](x: vec[T N]) -> vec[T N]", "[T: float](x: quat[T]) -> quat[T]"],
        kinks "0 for a vector of length 0.",
        example ["loom.normalize(loom.vec3(3.0, 0.0, 4.0))" => "[0.6, 0.0, 0.8]"];
    /// The products of corresponding components.
    CwMul = "cw_mul", Vector, Function, Pure, Scalarised, Rule, ["[T: number](a: C[T], b: C[T]) -> C[T]"],
        example ["loom.cw_mul(loom.vec3(1.0, 2.0, 3.0), loom.vec3(4.0, 5.0, 6.0))" => "[4.0, 10.0, 18.0]"];
    /// The quotients of corresponding components.
    CwDiv = "cw_div", Vector, Function, Pure, Scalarised, Rule, ["[T: number](a: C[T], b: C[T]) -> C[T]"],
        example ["loom.cw_div(loom.vec3(4.0, 10.0, 18.0), loom.vec3(4.0, 5.0, 6.0))" => "[1.0, 2.0, 3.0]"];
    /// The matrix of all products of a component of `a`, by row, and one of `b`, by column.
    Outer = "outer", Vector, Function, Pure, Scalarised, Rule, ["[T: number](a: vec[T R], b: vec[T C]) -> mat[T R C]"],
        example ["loom.outer(loom.vec2(1.0, 2.0), loom.vec2(3.0, 4.0))" => "[[3.0, 4.0], [6.0, 8.0]]"];
    /// The matrix with rows and columns exchanged.
    Transpose = "transpose", Vector, Function, Pure, Scalarised, Rule, ["[T: scalar](x: mat[T R C]) -> mat[T C R]"],
        example ["loom.transpose(loom.mat22(1.0, 2.0, 3.0, 4.0))" => "[[1.0, 3.0], [2.0, 4.0]]"];
    /// The sum of the diagonal.
    Trace = "trace", Vector, Function, Pure, Scalarised, Rule, ["[T: number](x: mat[T N N]) -> T"],
        example ["loom.trace(loom.mat22(1.0, 2.0, 3.0, 4.0))" => "5.0"];
    /// The determinant.
    Determinant = "determinant", Vector, Function, Pure, Scalarised, Rule, [
        "[T: float](x: mat[T 2 2]) -> T",
        "[T: float](x: mat[T 3 3]) -> T",
        "[T: float](x: mat[T 4 4]) -> T",
    ],
        example ["loom.determinant(loom.mat22(1.0, 2.0, 3.0, 4.0))" => "-2.0"];
    /// The inverse of a matrix; zeros where the determinant is 0. Of 4 × 4 elements it is computed in `float64`.
    Inverse = "inverse", Vector, Function, Pure, Scalarised, Rule, [
        "[T: float](x: mat[T 2 2]) -> mat[T 2 2]",
        "[T: float](x: mat[T 3 3]) -> mat[T 3 3]",
        "[T: float](x: mat[T 4 4]) -> mat[T 4 4]",
    ], aliases ["inverse_approx"],
        kinks "0 where the determinant is 0.",
        example ["loom.inverse(loom.mat22(1.0, 2.0, 3.0, 4.0))" => "[[-2.0, 1.0], [1.5, -0.5]]"];
    /// The singular value decomposition `U`, `sigma`, `V` of a matrix: `A = U * diag(sigma) * transpose(V)`. The
    /// columns of `U` and `V` are orthonormal and `V` is a rotation; the singular values descend and none is negative.
    Svd2 = "svd2", Vector, Function, Pure, Library, Rule, [
        "[T: float](A: mat[T 2 2]) -> (mat[T 2 2], vec[T 2], mat[T 2 2])",
        "[T: float](A: mat[T 2 2], inout U: mat[T 2 2], inout sigma: vec[T 2], inout V: mat[T 2 2])",
    ],
        kinks "Where two singular values have one magnitude, it is that of a matrix nearby, with half of the digits.",
        example [
            "U, sigma, V = loom.svd2(loom.mat22(0.0, -3.0, 1.0, 0.0))",
            "sigma" => "[3.0, 1.0]",
            "U * loom.diag(sigma) * loom.transpose(V)" => "[[0.0, -3.0], [1.0, 0.0]]",
        ];
    /// The singular value decomposition `U`, `sigma`, `V` of a matrix: `A = U * diag(sigma) * transpose(V)`. `U` and
    /// `V` are rotations; the magnitudes of the singular values descend, and the last is negative where the determinant
    /// is.
    Svd3 = "svd3", Vector, Function, Pure, Library, Rule, [
        "[T: float](A: mat[T 3 3]) -> (mat[T 3 3], vec[T 3], mat[T 3 3])",
        "[T: float](A: mat[T 3 3], inout U: mat[T 3 3], inout sigma: vec[T 3], inout V: mat[T 3 3])",
    ],
        kinks "Where two singular values have one magnitude, it is that of a matrix nearby, with half of the digits.",
        example [
            "U, sigma, V = loom.svd3(loom.mat33(0.0, 0.0, -4.0, 2.0, 0.0, 0.0, 0.0, 3.0, 0.0))",
            "sigma" => "[4.0, 3.0, -2.0]",
        ];
    /// The factors `Q` and `R` of a matrix, `A = Q * R`: `Q` is a rotation, `R` upper triangular with the first two
    /// elements of its diagonal not negative.
    Qr3 = "qr3", Vector, Function, Pure, Library, Rule, [
        "[T: float](A: mat[T 3 3]) -> (mat[T 3 3], mat[T 3 3])",
        "[T: float](A: mat[T 3 3], inout Q: mat[T 3 3], inout R: mat[T 3 3])",
    ],
        kinks "Where one of the first two elements of the diagonal is 0, it is that of a matrix nearby, with half of the digits.",
        example [
            "Q, R = loom.qr3(loom.mat33(0.0, 5.0, 1.0, 2.0, 0.0, 1.0, 0.0, 0.0, 3.0))",
            "R" => "[[2.0, 0.0, 1.0], [0.0, 5.0, 1.0], [0.0, 0.0, -3.0]]",
        ];
    /// The eigenvectors, columns of the rotation `Q`, and eigenvalues `d` of a symmetric matrix:
    /// `A = Q * diag(d) * transpose(Q)`, in no particular order. Of another matrix those of its symmetric part.
    Eig3 = "eig3", Vector, Function, Pure, Library, Rule, [
        "[T: float](A: mat[T 3 3]) -> (mat[T 3 3], vec[T 3])",
        "[T: float](A: mat[T 3 3], inout Q: mat[T 3 3], inout d: vec[T 3])",
    ],
        kinks "Where two eigenvalues are equal, it is that of a matrix nearby, with half of the digits.",
        example [
            "Q, d = loom.eig3(loom.mat33(2.0, 1.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 5.0))",
            "loom.max(d), loom.min(d)" => "5.0 1.0",
        ];
    /// The diagonal matrix with these elements.
    Diag = "diag", Vector, Function, Pure, Scalarised, Rule, ["[T: number](x: vec[T N]) -> mat[T N N]"],
        example ["loom.diag(loom.vec2(1.0, 2.0))" => "[[1.0, 0.0], [0.0, 2.0]]"];
    /// The diagonal of a square matrix.
    GetDiag = "get_diag", Vector, Function, Pure, Scalarised, Rule, ["[T: scalar](x: mat[T N N]) -> vec[T N]"],
        example ["loom.get_diag(loom.mat22(1.0, 2.0, 3.0, 4.0))" => "[1.0, 4.0]"];
    /// The antisymmetric matrix that multiplies a vector as the cross product with `x` from the left does.
    Skew = "skew", Vector, Function, Pure, Scalarised, Rule, ["[T: number](x: vec[T 3]) -> mat[T 3 3]"],
        example ["loom.skew(loom.vec3(1.0, 2.0, 3.0))" => "[[0.0, -3.0, 2.0], [3.0, 0.0, -1.0], [-2.0, 1.0, 0.0]]"];
    /// The inverse of a rotation: a quaternion with its imaginary part negated.
    QuatInverse = "quat_inverse", Vector, Function, Pure, Scalarised, Rule, ["[T: float](q: quat[T]) -> quat[T]"],
        example ["loom.quat_inverse(loom.quat(0.0, 0.0, 0.6, 0.8))" => "[0.0, 0.0, -0.6, 0.8]"];
    /// A vector rotated by a quaternion.
    QuatRotate = "quat_rotate", Vector, Function, Pure, Scalarised, Rule, ["[T: float](q: quat[T], x: vec[T 3]) -> vec[T 3]"],
        example ["loom.quat_rotate(loom.quat(0.0, 0.0, 0.6, 0.8), loom.vec3(1.0, 0.0, 0.0))" => "[0.28, 0.96, 0.0]"];
    /// A vector rotated by a quaternion's inverse.
    QuatRotateInv = "quat_rotate_inv", Vector, Function, Pure, Scalarised, Rule, ["[T: float](q: quat[T], x: vec[T 3]) -> vec[T 3]"],
        example [
            "loom.quat_rotate_inv(loom.quat(0.0, 0.0, 0.6, 0.8), loom.vec3(1.0, 0.0, 0.0))" => "[0.28, -0.96, 0.0]",
        ];
    /// The rotation by `angle`, in radians, around `axis`, a vector of length 1.
    QuatFromAxisAngle = "quat_from_axis_angle", Vector, Function, Pure, Scalarised, Rule, ["[T: float](axis: vec[T 3], angle: T) -> quat[T]"],
        example ["loom.quat_from_axis_angle(loom.vec3(0.0, 0.0, 1.0), 0.5)" => "[0.0, 0.0, 0.247404, 0.9689124]"];
    /// The axis of a rotation, of length 1, and its angle in radians, at most π; an axis of zeros without a rotation.
    QuatToAxisAngle = "quat_to_axis_angle", Vector, Function, Pure, Scalarised, Definition, ["[T: float](q: quat[T]) -> (vec[T 3], T)"],
        kinks "0 without a rotation.",
        example [
            "axis, angle = loom.quat_to_axis_angle(loom.quat(0.0, 0.0, 0.6, 0.8))",
            "axis" => "[0.0, 0.0, 1.0]",
            "angle" => "1.287002",
        ];
    /// The rotation of a matrix, of its upper left 3 × 3 elements; it is normalized.
    QuatFromMatrix = "quat_from_matrix", Vector, Function, Pure, Scalarised, Definition, [
        "[T: float](mat: mat[T 3 3]) -> quat[T]",
        "[T: float](mat: mat[T 4 4]) -> quat[T]",
    ],
        example [
            "loom.quat_from_matrix(loom.mat33(0.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0))" => "[0.0, 0.0, 0.7071068, 0.7071068]",
        ];
    /// The matrix of a rotation.
    QuatToMatrix = "quat_to_matrix", Vector, Function, Pure, Scalarised, Rule, ["[T: float](q: quat[T]) -> mat[T 3 3]"],
        example [
            "loom.quat_to_matrix(loom.quat(0.0, 0.0, 0.6, 0.8))" => "[[0.28, -0.96, 0.0], [0.96, 0.28, 0.0], [0.0, 0.0, 1.0]]",
        ];
    /// The rotation by `roll` around x, then `pitch` around y, then `yaw` around z, in radians.
    QuatRpy = "quat_rpy", Vector, Function, Pure, Scalarised, Definition, ["[T: float](roll: T, pitch: T, yaw: T) -> quat[T]"],
        example ["loom.quat_rpy(0.0, 0.0, 0.5)" => "[0.0, 0.0, 0.247404, 0.9689124]"];
    /// The rotation at `t` on the way from `a`, at 0, to `b`, at 1, turning evenly.
    QuatSlerp = "quat_slerp", Vector, Function, Pure, Scalarised, Rule, ["[T: float](a: quat[T], b: quat[T], t: T) -> quat[T]"],
        example [
            "loom.quat_slerp(loom.quat_identity(), loom.quat(0.0, 0.0, 0.6, 0.8), 0.5)" => "[0.0, 0.0, 0.3162278, 0.9486833]",
        ];
    /// The rotations by the angles of `e` along the axes `i`, `j` and `k`, numbered from 0, one after the other, in
    /// radians.
    QuatFromEuler = "quat_from_euler", Vector, Function, Pure, Scalarised, Definition, ["[T: float](e: vec[T 3], i: i32, j: i32, k: i32) -> quat[T]"],
        example ["loom.quat_from_euler(loom.vec3(0.0, 0.0, 0.5), 0, 1, 2)" => "[0.0, 0.0, 0.247404, 0.9689124]"];
    /// The angles of a rotation for the axes `i`, `j` and `k`, each in its axis' component, in radians. If `k` is `i`,
    /// the third angle is in the component that is left.
    QuatToEuler = "quat_to_euler", Vector, Function, Pure, Scalarised, Definition, ["[T: float](q: quat[T], i: i32, j: i32, k: i32) -> vec[T 3]"],
        example ["loom.quat_to_euler(loom.quat(0.0, 0.0, 0.6, 0.8), 0, 1, 2)" => "[0.0, 0.0, 1.287002]"];
    /// The roll, pitch and yaw of a rotation, as `quat_rpy` takes them. The yaw is 0 where the pitch is a right angle.
    QuatToRpy = "quat_to_rpy", Vector, Function, Pure, Scalarised, Definition, ["[T: float](q: quat[T]) -> vec[T 3]"],
        example ["loom.quat_to_rpy(loom.quat(0.0, 0.0, 0.6, 0.8))" => "[0.0, 0.0, 1.287002]"];
    /// The part of a rotation that turns around `axis`, a vector of length 1.
    QuatTwist = "quat_twist", Vector, Function, Pure, Scalarised, Definition, ["[T: float](axis: vec[T 3], q: quat[T]) -> quat[T]"],
        example [
            "loom.quat_twist(loom.vec3(0.0, 0.0, 1.0), loom.quat(0.5, 0.5, 0.5, 0.5))" => "[0.0, 0.0, 0.7071068, 0.7071068]",
        ];
    /// By how much a rotation turns around `axis`, a vector of length 1, in radians; never negative.
    QuatTwistAngle = "quat_twist_angle", Vector, Function, Pure, Scalarised, Definition, ["[T: float](axis: vec[T 3], q: quat[T]) -> T"],
        kinks "As of `abs` where there is no turn around the axis.",
        example ["loom.quat_twist_angle(loom.vec3(0.0, 0.0, 1.0), loom.quat(0.0, 0.0, -0.6, 0.8))" => "1.287002"];
    /// By how much a rotation turns around `axis`, a vector of length 1, in radians; negative for a turn to the left.
    QuatTwistAngleSigned = "quat_twist_angle_signed", Vector, Function, Pure, Scalarised, Definition, ["[T: float](axis: vec[T 3], q: quat[T]) -> T"],
        example [
            "loom.quat_twist_angle_signed(loom.vec3(0.0, 0.0, 1.0), loom.quat(0.0, 0.0, -0.6, 0.8))" => "-1.287002",
        ];
    /// The shortest rotation from the direction of `a` to that of `b`.
    QuatBetweenVectors = "quat_between_vectors", Vector, Function, Pure, Scalarised, Definition, ["[T: float](a: vec[T 3], b: vec[T 3]) -> quat[T]"],
        example [
            "loom.quat_between_vectors(loom.vec3(1.0, 0.0, 0.0), loom.vec3(0.0, 1.0, 0.0))" => "[0.0, 0.0, 0.7071068, 0.7071068]",
        ];
    /// The matrix that scales along the axes, rotates, then moves to `position`.
    TransformCompose = "transform_compose", Vector, Function, Pure, Scalarised, Rule, ["[T: float](position: vec[T 3], rotation: quat[T], scale: vec[T 3]) -> mat[T 4 4]"],
        example [
            "loom.transform_compose(loom.vec3(1.0, 2.0, 3.0), loom.quat(0.0, 0.0, 0.6, 0.8), loom.vec3(2.0))" => "[[0.56, -1.92, 0.0, 1.0], [1.92, 0.56, 0.0, 2.0], [0.0, 0.0, 2.0, 3.0], [0.0, 0.0, 0.0, 1.0]]",
        ];
    /// Position, rotation and scale of a matrix, as `transform_compose` takes them.
    TransformDecompose = "transform_decompose", Vector, Function, Pure, Scalarised, Definition, ["[T: float](m: mat[T 4 4]) -> (vec[T 3], quat[T], vec[T 3])"],
        example [
            "m = loom.mat44(0.0, -1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 2.0, 0.0, 0.0, 1.0, 3.0, 0.0, 0.0, 0.0, 1.0)",
            "p, q, s = loom.transform_decompose(m)",
            "p" => "[1.0, 2.0, 3.0]",
            "q" => "[0.0, 0.0, 0.7071068, 0.7071068]",
            "s" => "[1.0, 1.0, 1.0]",
        ];
    /// The transform of a matrix that rotates and moves.
    TransformFromMatrix = "transform_from_matrix", Vector, Function, Pure, Scalarised, Definition, ["[T: float](mat: mat[T 4 4]) -> transform[T]"],
        example [
            "loom.transform_from_matrix(loom.mat44(0.0, -1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 2.0, 0.0, 0.0, 1.0, 3.0, 0.0, 0.0, 0.0, 1.0))" => "[1.0, 2.0, 3.0, 0.0, 0.0, 0.7071068, 0.7071068]",
        ];
    /// The matrix of a transform.
    TransformToMatrix = "transform_to_matrix", Vector, Function, Pure, Scalarised, Rule, ["[T: float](xform: transform[T]) -> mat[T 4 4]"],
        example [
            "loom.transform_to_matrix(loom.transform(loom.vec3(1.0, 2.0, 3.0), loom.quat(0.0, 0.0, 0.6, 0.8)))" => "[[0.28, -0.96, 0.0, 1.0], [0.96, 0.28, 0.0, 2.0], [0.0, 0.0, 1.0, 3.0], [0.0, 0.0, 0.0, 1.0]]",
        ];
    /// A transform with another translation.
    TransformSetTranslationCopy = "transform_set_translation_copy", Vector, Function, Pure, Scalarised, Rule, ["[T: float](xform: transform[T], p: vec[T 3]) -> transform[T]"],
        example [
            "loom.transform_set_translation_copy(loom.transform_identity(), loom.vec3(1.0, 2.0, 3.0))" => "[1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0]",
        ];
    /// A transform with another rotation.
    TransformSetRotationCopy = "transform_set_rotation_copy", Vector, Function, Pure, Scalarised, Rule, ["[T: float](xform: transform[T], q: quat[T]) -> transform[T]"],
        example [
            "loom.transform_set_rotation_copy(loom.transform_identity(), loom.quat(0.0, 0.0, 0.6, 0.8))" => "[0.0, 0.0, 0.0, 0.0, 0.0, 0.6, 0.8]",
        ];
    /// A motion, angular part first, in the frame that `t` leads to.
    TransformTwist = "transform_twist", Vector, Function, Pure, Scalarised, Definition, ["[T: float](t: transform[T], x: vec[T 6]) -> vec[T 6]"],
        example [
            "loom.transform_twist(loom.transform(loom.vec3(1.0, 2.0, 3.0), loom.quat(0.0, 0.0, 0.6, 0.8)), loom.spatial_vector(1.0, 0.0, 0.0, 0.0, 0.0, 0.0))" => "[0.28, 0.96, 0.0, -2.88, 0.84, 0.4]",
        ];
    /// A force, torque first, in the frame that `t` leads to.
    TransformWrench = "transform_wrench", Vector, Function, Pure, Scalarised, Definition, ["[T: float](t: transform[T], x: vec[T 6]) -> vec[T 6]"],
        example [
            "loom.transform_wrench(loom.transform(loom.vec3(1.0, 2.0, 3.0), loom.quat(0.0, 0.0, 0.6, 0.8)), loom.spatial_vector(0.0, 0.0, 0.0, 1.0, 0.0, 0.0))" => "[-2.88, 0.84, 0.4, 0.28, 0.96, 0.0]",
        ];
    /// The velocity of the point `r` of a body whose motion is `qd`, angular part first.
    VelocityAtPoint = "velocity_at_point", Vector, Function, Pure, Scalarised, Definition, ["[T: float](qd: vec[T 6], r: vec[T 3]) -> vec[T 3]"],
        example [
            "loom.velocity_at_point(loom.spatial_vector(0.0, 0.0, 1.0, 5.0, 0.0, 0.0), loom.vec3(2.0, 0.0, 0.0))" => "[5.0, 2.0, 0.0]",
        ];
    /// A transform's translation.
    TransformGetTranslation = "transform_get_translation", Vector, Function, Pure, Scalarised, Rule, ["[T: float](xform: transform[T]) -> vec[T 3]"],
        example [
            "loom.transform_get_translation(loom.transform(loom.vec3(1.0, 2.0, 3.0), loom.quat(0.0, 0.0, 0.6, 0.8)))" => "[1.0, 2.0, 3.0]",
        ];
    /// A transform's rotation.
    TransformGetRotation = "transform_get_rotation", Vector, Function, Pure, Scalarised, Rule, ["[T: float](xform: transform[T]) -> quat[T]"],
        example [
            "loom.transform_get_rotation(loom.transform(loom.vec3(1.0, 2.0, 3.0), loom.quat(0.0, 0.0, 0.6, 0.8)))" => "[0.0, 0.0, 0.6, 0.8]",
        ];
    /// Sets a transform's translation.
    TransformSetTranslation = "transform_set_translation", Vector, Function, Pure, Scalarised, Rule, ["[T: float](inout xform: transform[T], p: vec[T 3])"],
        example [
            "t = loom.transform_identity()",
            "loom.transform_set_translation(t, loom.vec3(1.0, 2.0, 3.0))",
            "t" => "[1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0]",
        ];
    /// Sets a transform's rotation.
    TransformSetRotation = "transform_set_rotation", Vector, Function, Pure, Scalarised, Rule, ["[T: float](inout xform: transform[T], q: quat[T])"],
        example [
            "t = loom.transform_identity()",
            "loom.transform_set_rotation(t, loom.quat(0.0, 0.0, 0.6, 0.8))",
            "t" => "[0.0, 0.0, 0.0, 0.0, 0.0, 0.6, 0.8]",
        ];
    /// The transform `b`, then `a`.
    TransformMultiply = "transform_multiply", Vector, Function, Pure, Scalarised, Rule, ["[T: float](a: transform[T], b: transform[T]) -> transform[T]"],
        example [
            "loom.transform_multiply(loom.transform(loom.vec3(1.0, 2.0, 3.0), loom.quat(0.0, 0.0, 0.6, 0.8)), loom.transform(loom.vec3(1.0, 2.0, 3.0), loom.quat(0.0, 0.0, 0.6, 0.8)))" => "[-0.64, 3.52, 6.0, 0.0, 0.0, 0.96, 0.28]",
        ];
    /// The transform that undoes another.
    TransformInverse = "transform_inverse", Vector, Function, Pure, Scalarised, Definition, ["[T: float](xform: transform[T]) -> transform[T]"],
        example [
            "loom.transform_inverse(loom.transform(loom.vec3(1.0, 2.0, 3.0), loom.quat(0.0, 0.0, 0.6, 0.8)))" => "[-2.2, 0.4, -3.0, 0.0, 0.0, -0.6, 0.8]",
        ];
    /// A point moved: by a transform, or as (x, y, z, 1) by a matrix, whose last row is left out.
    TransformPoint = "transform_point", Vector, Function, Pure, Scalarised, Definition, [
        "[T: float](xform: transform[T], point: vec[T 3]) -> vec[T 3]",
        "[T: float](mat: mat[T 4 4], point: vec[T 3]) -> vec[T 3]",
    ],
        example [
            "loom.transform_point(loom.transform(loom.vec3(1.0, 2.0, 3.0), loom.quat(0.0, 0.0, 0.6, 0.8)), loom.vec3(1.0, 0.0, 0.0))" => "[1.28, 2.96, 3.0]",
        ];
    /// A direction turned: by a transform's rotation, or as (x, y, z, 0) by a matrix, whose last row is left out.
    TransformVector = "transform_vector", Vector, Function, Pure, Scalarised, Definition, [
        "[T: float](xform: transform[T], vec: vec[T 3]) -> vec[T 3]",
        "[T: float](mat: mat[T 4 4], vec: vec[T 3]) -> vec[T 3]",
    ],
        example [
            "loom.transform_vector(loom.transform(loom.vec3(1.0, 2.0, 3.0), loom.quat(0.0, 0.0, 0.6, 0.8)), loom.vec3(1.0, 0.0, 0.0))" => "[0.28, 0.96, 0.0]",
        ];
    /// The first three components of a spatial vector, the angular part.
    SpatialTop = "spatial_top", Vector, Function, Pure, Scalarised, Rule, ["[T: float](svec: vec[T 6]) -> vec[T 3]"],
        example ["loom.spatial_top(loom.spatial_vector(1.0, 2.0, 3.0, 4.0, 5.0, 6.0))" => "[1.0, 2.0, 3.0]"];
    /// The last three components of a spatial vector, the linear part.
    SpatialBottom = "spatial_bottom", Vector, Function, Pure, Scalarised, Rule, ["[T: float](svec: vec[T 6]) -> vec[T 3]"],
        example ["loom.spatial_bottom(loom.spatial_vector(1.0, 2.0, 3.0, 4.0, 5.0, 6.0))" => "[4.0, 5.0, 6.0]"];
    /// The sum of the products of corresponding components.
    SpatialDot = "spatial_dot", Vector, Function, Pure, Scalarised, Definition, ["[T: float](a: vec[T 6], b: vec[T 6]) -> T"],
        example [
            "loom.spatial_dot(loom.spatial_vector(1.0, 2.0, 3.0, 4.0, 5.0, 6.0), loom.spatial_vector(1.0, 2.0, 3.0, 4.0, 5.0, 6.0))" => "91.0",
        ];
    /// The cross product of two motions.
    SpatialCross = "spatial_cross", Vector, Function, Pure, Scalarised, Definition, ["[T: float](a: vec[T 6], b: vec[T 6]) -> vec[T 6]"],
        example [
            "loom.spatial_cross(loom.spatial_vector(1.0, 2.0, 3.0, 4.0, 5.0, 6.0), loom.spatial_vector(1.0, 0.0, 0.0, 0.0, 1.0, 0.0))" => "[0.0, 3.0, -2.0, -3.0, 6.0, -4.0]",
        ];
    /// The cross product of a motion and a force.
    SpatialCrossDual = "spatial_cross_dual", Vector, Function, Pure, Scalarised, Definition, ["[T: float](a: vec[T 6], b: vec[T 6]) -> vec[T 6]"],
        example [
            "loom.spatial_cross_dual(loom.spatial_vector(1.0, 2.0, 3.0, 4.0, 5.0, 6.0), loom.spatial_vector(1.0, 0.0, 0.0, 0.0, 1.0, 0.0))" => "[-6.0, 3.0, 2.0, -3.0, 0.0, 1.0]",
        ];
    /// The matrix that takes spatial vectors from one frame to another: `r` on the diagonal, `s` at the lower left.
    SpatialAdjoint = "spatial_adjoint", Vector, Function, Pure, Scalarised, Definition, ["[T: float](r: mat[T 3 3], s: mat[T 3 3]) -> mat[T 6 6]"],
        example [
            "m = loom.spatial_adjoint(loom.identity(n=3, dtype=float), loom.skew(loom.vec3(1.0, 2.0, 3.0)))",
            "m[3]" => "[0.0, -3.0, 2.0, 1.0, 0.0, 0.0]",
        ];

    // ---- indices --------------------------------------------------------------------------------------------------
    /// The thread's coordinate along one axis of the launch; 0 along axes the launch does not have.
    Tid = "tid", Index, Internal, Pure, Native, Zero, ["() -> i32"];
    /// The thread's index in the launch, counted in row-major order.
    TidLinear = "tid_linear", Index, Internal, Pure, Native, Zero, ["() -> i32"];
    /// The array's extent along one axis.
    Dim = "dim", Index, Internal, Pure, Native, Zero, [];

    // ---- arithmetic -----------------------------------------------------------------------------------------------
    /// Sum. Integers wrap.
    Add = "add", Arithmetic, Operator("+"), Pure, Native, Rule, ["[T: number](a: T, b: T) -> T", "[T: number](a: C[T], b: C[T]) -> C[T]"],
        example ["2 + 3" => "5", "loom.add(2, 3)" => "5"];
    /// Difference. Integers wrap.
    Sub = "sub", Arithmetic, Operator("-"), Pure, Native, Rule, ["[T: number](a: T, b: T) -> T", "[T: number](a: C[T], b: C[T]) -> C[T]"],
        example ["2 - 3" => "-1", "loom.sub(2, 3)" => "-1"];
    /// Product. Integers wrap. A composite times a scalar is scaled; a matrix times a matrix or a vector, and a vector
    /// times a matrix, are products of linear algebra; quaternions and transforms are composed: `b`, then `a`.
    Mul = "mul", Arithmetic, Operator("*"), Pure, Native, Rule, [
        "[T: number](a: T, b: T) -> T",
        "[T: number](a: C[T], b: T) -> C[T]",
        "[T: number](a: T, b: C[T]) -> C[T]",
        "[T: number](a: mat[T R C], b: vec[T C]) -> vec[T R]",
        "[T: number](a: vec[T R], b: mat[T R C]) -> vec[T C]",
        "[T: number](a: mat[T R K], b: mat[T K C]) -> mat[T R C]",
        "[T: float](a: quat[T], b: quat[T]) -> quat[T]",
        "[T: float](a: transform[T], b: transform[T]) -> transform[T]",
    ],
        example ["2 * 3" => "6", "loom.mat22(1.0, 2.0, 3.0, 4.0) * loom.vec2(1.0, 1.0)" => "[3.0, 7.0]"];
    /// Quotient. Integers truncate toward zero, as in Warp and C; division by zero gives 0 and the most negative
    /// integer divided by -1 wraps to itself.
    Div = "div", Arithmetic, Operator("/"), Pure, Native, Rule, [
        "[T: number](a: T, b: T) -> T",
        "[T: number](a: C[T], b: T) -> C[T]",
        "[T: number](a: T, b: C[T]) -> C[T]",
    ], aliases ["div_approx"],
        example ["-7 / 2" => "-3", "loom.div(-7, 2)" => "-3"];
    /// Quotient rounded toward negative infinity. Integer division by zero gives 0; floats are `floor(a / b)`.
    FloorDiv = "floordiv", Arithmetic, Operator("//"), Pure, Library, Zero, ["[T: number](a: T, b: T) -> T"],
        example ["-7 // 2" => "-4", "loom.floordiv(-7, 2)" => "-4"];
    /// Remainder of the truncated quotient: the sign is that of `a`, as in Warp and C. An integer divisor of zero
    /// gives `a`; a float divisor of zero gives NaN. Exact for floats.
    Mod = "mod", Arithmetic, Operator("%"), Pure, Library, ScalarRule, ["[T: int](a: T, b: T) -> T", "[T: float](a: T, b: T) -> T", "[T: number](a: vec[T N], b: vec[T N]) -> vec[T N]"],
        kinks "As of `a - b * trunc(a / b)`, with the quotient's jumps left out.",
        example ["-7 % 2" => "-1", "loom.mod(-7, 2)" => "-1"];
    /// The number itself.
    Pos = "pos", Arithmetic, Function, Pure, Library, Rule, ["[T: number](x: T) -> T", "[T: number](x: C[T]) -> C[T]"],
        example ["loom.pos(2.5)" => "2.5"];
    /// Negation. Integers wrap.
    Neg = "neg", Arithmetic, Operator("-"), Pure, Native, Rule, ["[T: number](x: T) -> T", "[T: number](x: C[T]) -> C[T]"],
        example ["-loom.vec2(1.0, 2.0)" => "[-1.0, -2.0]", "loom.neg(3)" => "-3"];

    // ---- comparison -----------------------------------------------------------------------------------------------
    /// Whether two values are equal. NaN is not equal to anything.
    Eq = "eq", Comparison, Operator("=="), Pure, Native, Zero, ["[T: scalar](a: T, b: T) -> bool", "[T: scalar](a: C[T], b: C[T]) -> bool"],
        example ["2 == 2" => "True", "loom.vec2(1.0, 2.0) == loom.vec2(1.0, 3.0)" => "False"];
    /// Whether two values differ. NaN differs from everything.
    Ne = "ne", Comparison, Operator("!="), Pure, Native, Zero, ["[T: scalar](a: T, b: T) -> bool", "[T: scalar](a: C[T], b: C[T]) -> bool"],
        example ["2 != 2" => "False", "loom.nan != loom.nan" => "True"];
    /// Whether `a` is less than `b`; false with a NaN.
    Lt = "lt", Comparison, Operator("<"), Pure, Native, Zero, ["[T: number](a: T, b: T) -> bool"],
        example ["2 < 3" => "True", "loom.lt(3, 2)" => "False"];
    /// Whether `a` is at most `b`; false with a NaN.
    Le = "le", Comparison, Operator("<="), Pure, Native, Zero, ["[T: number](a: T, b: T) -> bool"],
        example ["2 <= 2" => "True", "loom.le(3, 2)" => "False"];
    /// Whether `a` is greater than `b`; false with a NaN.
    Gt = "gt", Comparison, Operator(">"), Pure, Native, Zero, ["[T: number](a: T, b: T) -> bool"],
        example ["3 > 2" => "True", "loom.gt(2, 2)" => "False"];
    /// Whether `a` is at least `b`; false with a NaN.
    Ge = "ge", Comparison, Operator(">="), Pure, Native, Zero, ["[T: number](a: T, b: T) -> bool"],
        example ["2 >= 2" => "True", "loom.ge(2, 3)" => "False"];

    // ---- bits -----------------------------------------------------------------------------------------------------
    /// Bitwise and; logical and for `bool`.
    BitAnd = "bit_and", Bits, Operator("&"), Pure, Native, Zero, ["[T: bits](a: T, b: T) -> T", "[T: int](a: C[T], b: C[T]) -> C[T]"],
        example ["12 & 10" => "8"];
    /// Bitwise or; logical or for `bool`.
    BitOr = "bit_or", Bits, Operator("|"), Pure, Native, Zero, ["[T: bits](a: T, b: T) -> T", "[T: int](a: C[T], b: C[T]) -> C[T]"],
        example ["12 | 10" => "14"];
    /// Bitwise exclusive or; inequality for `bool`.
    BitXor = "bit_xor", Bits, Operator("^"), Pure, Native, Zero, ["[T: bits](a: T, b: T) -> T", "[T: int](a: C[T], b: C[T]) -> C[T]"],
        example ["12 ^ 10" => "6"];
    /// Bitwise complement.
    Invert = "invert", Bits, Operator("~"), Pure, Native, Zero, ["[T: int](x: T) -> T", "[T: int](x: C[T]) -> C[T]"],
        example ["~5" => "-6"];
    /// Logical negation.
    Not = "logical_not", Bits, Operator("not"), Pure, Native, Zero, ["(x: bool) -> bool"],
        example ["not 1 < 2" => "False"];
    /// Whether a number is zero, or a `bool` false.
    Unot = "unot", Bits, Function, Pure, Library, Zero, ["[T: bits](a: T) -> bool"],
        example ["loom.unot(0)" => "True"];
    /// How many bits of an integer are set.
    BitCount = "bit_count", Bits, Function, Pure, Library, Zero, ["[T: int](x: T) -> i32"],
        example ["loom.bit_count(255)" => "8"];
    /// Shift left. The count is read as unsigned; a count of the width or more gives 0.
    Lshift = "lshift", Bits, Operator("<<"), Pure, Native, Zero, ["[T: int](x: T, count: T) -> T", "[T: int](x: C[T], count: C[T]) -> C[T]"],
        example ["3 << 4" => "48"];
    /// Shift right, arithmetic for signed types. The count is read as unsigned; a count of the width or more gives 0,
    /// or -1 for a negative signed `x`.
    Rshift = "rshift", Bits, Operator(">>"), Pure, Native, Zero, ["[T: int](x: T, count: T) -> T", "[T: int](x: C[T], count: C[T]) -> C[T]"],
        example ["-16 >> 2" => "-4"];

    // ---- scalar mathematics: exact or correctly rounded, native everywhere ----------------------------------------
    /// Absolute value. The most negative integer stays itself.
    Abs = "abs", Math, Function, Pure, Native, ScalarRule, ["[T: number](x: T) -> T", "[T: number](x: vec[T N]) -> vec[T N]"],
        kinks "0 at 0.",
        example ["loom.abs(-2.5)" => "2.5", "loom.abs(loom.vec2(-1.0, 2.0))" => "[1.0, 2.0]"];
    /// The smaller value. With one NaN, the other operand; -0.0 is less than +0.0.
    Min = "min", Math, Function, Pure, Native, ScalarRule, ["[T: number](a: T, b: T) -> T", "[T: number](a: vec[T N], b: vec[T N]) -> vec[T N]", "[T: number](x: vec[T N]) -> T"],
        kinks "All of it to the first of equal values.",
        example ["loom.min(2, 3)" => "2", "loom.min(loom.vec3(3.0, 1.0, 2.0))" => "1.0"];
    /// The larger value. With one NaN, the other operand; -0.0 is less than +0.0.
    Max = "max", Math, Function, Pure, Native, ScalarRule, ["[T: number](a: T, b: T) -> T", "[T: number](a: vec[T N], b: vec[T N]) -> vec[T N]", "[T: number](x: vec[T N]) -> T"],
        kinks "All of it to the first of equal values.",
        example ["loom.max(2, 3)" => "3", "loom.max(loom.vec3(3.0, 1.0, 2.0))" => "3.0"];
    /// The number of the first component that is the smallest; NaN is none. 0 if all are NaN.
    Argmin = "argmin", Vector, Function, Pure, Scalarised, Zero, ["[T: number](x: vec[T N]) -> u32"],
        example ["loom.argmin(loom.vec3(3.0, 1.0, 2.0))" => "1"];
    /// The number of the first component that is the largest; NaN is none. 0 if all are NaN.
    Argmax = "argmax", Vector, Function, Pure, Scalarised, Zero, ["[T: number](x: vec[T N]) -> u32"],
        example ["loom.argmax(loom.vec3(3.0, 1.0, 2.0))" => "0"];
    /// Square root, correctly rounded; NaN below zero.
    Sqrt = "sqrt", Math, Function, Pure, Native, Rule, ["[T: float](x: T) -> T"],
        example ["loom.sqrt(2.0)" => "1.414214"];
    /// `a * b + c` with one rounding (for 16-bit floats: computed in `f64`, then rounded).
    Fma = "fma", Math, Function, Pure, Native, Rule, ["[T: float](a: T, b: T, c: T) -> T"],
        example ["loom.fma(2.0, 3.0, 4.0)" => "10.0"];
    /// Largest integer not above `x`.
    Floor = "floor", Math, Function, Pure, Native, Zero, ["[T: float](x: T) -> T"],
        example ["loom.floor(-1.5)" => "-2.0"];
    /// Smallest integer not below `x`.
    Ceil = "ceil", Math, Function, Pure, Native, Zero, ["[T: float](x: T) -> T"],
        example ["loom.ceil(-1.5)" => "-1.0"];
    /// Integer part, toward zero.
    Trunc = "trunc", Math, Function, Pure, Native, Zero, ["[T: float](x: T) -> T"],
        example ["loom.trunc(-1.5)" => "-1.0"];
    /// Nearest integer, ties to even.
    Rint = "rint", Math, Function, Pure, Native, Zero, ["[T: float](x: T) -> T"],
        example ["loom.rint(2.5)" => "2.0", "loom.rint(3.5)" => "4.0"];

    // ---- scalar mathematics: library functions --------------------------------------------------------------------
    /// The magnitude of `x` with the sign of `y`; a NaN `y` counts as positive, since the sign of a NaN is not defined.
    Copysign = "copysign", Math, Function, Pure, Library, Rule, ["[T: float](x: T, y: T) -> T"],
        kinks "0 by `y`, and at an `x` of 0 as on the side of its sign.",
        example ["loom.copysign(2.0, -1.0)" => "-2.0"];
    /// Nearest integer, ties away from zero.
    Round = "round", Math, Function, Pure, Library, Zero, ["[T: float](x: T) -> T"],
        example ["loom.round(2.5)" => "3.0", "loom.round(-2.5)" => "-3.0"];
    /// Fractional part, `x - trunc(x)`: the sign is that of `x`.
    Frac = "frac", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        kinks "1 everywhere.",
        example ["loom.frac(-1.25)" => "-0.25"];
    /// -1 for negative `x`, else 1 (also for zero, as in Warp).
    Sign = "sign", Math, Function, Pure, Library, Zero, ["[T: number](x: T) -> T", "[T: number](x: vec[T N]) -> vec[T N]"],
        example ["loom.sign(-2.5)" => "-1.0", "loom.sign(0.0)" => "1.0"];
    /// 1 for negative `x`, else 0, as in Warp.
    Step = "step", Math, Function, Pure, Library, Zero, ["[T: number](x: T) -> T"],
        example ["loom.step(-2.5)" => "1.0", "loom.step(2.5)" => "0.0"];
    /// 0 for zero, else 1.
    Nonzero = "nonzero", Math, Function, Pure, Library, Zero, ["[T: number](x: T) -> T"],
        example ["loom.nonzero(-2.5)" => "1.0"];
    /// `x` limited to `low` … `high`: `min(max(low, x), high)`.
    Clamp = "clamp", Math, Function, Pure, Library, Rule, ["[T: number](x: T, low: T, high: T) -> T"],
        kinks "At a limit, that of `x`.",
        example ["loom.clamp(1.5, 0.0, 1.0)" => "1.0"];
    /// Linear interpolation, `a * (1 - t) + b * t`.
    Lerp = "lerp", Math, Function, Pure, Library, Rule, ["[T: float](a: T, b: T, t: T) -> T", "[T: float](a: C[T], b: C[T], t: T) -> C[T]"],
        example ["loom.lerp(10.0, 20.0, 0.25)" => "12.5"];
    /// Smooth Hermite step: 0 below `a`, 1 above `b`, `t * t * (3 - 2 * t)` between.
    Smoothstep = "smoothstep", Math, Function, Pure, Library, Rule, ["[T: float](a: T, b: T, x: T) -> T"],
        kinks "0 at both ends and outside.",
        example ["loom.smoothstep(0.0, 1.0, 0.25)" => "0.15625"];
    /// Radians to degrees.
    Degrees = "degrees", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.degrees(loom.pi)" => "180.0"];
    /// Degrees to radians.
    Radians = "radians", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.radians(180.0)" => "3.141593"];
    /// Whether `x` is NaN.
    IsNan = "isnan", Math, Function, Pure, Library, Zero, ["[T: float](x: T) -> bool", "[T: float](x: C[T]) -> bool"],
        example ["loom.isnan(loom.sqrt(-1.0))" => "True"];
    /// Whether `x` is positive or negative infinity.
    IsInf = "isinf", Math, Function, Pure, Library, Zero, ["[T: float](x: T) -> bool", "[T: float](x: C[T]) -> bool"],
        example ["loom.isinf(-loom.inf)" => "True"];
    /// Whether `x` is neither infinite nor NaN.
    IsFinite = "isfinite", Math, Function, Pure, Library, Zero, ["[T: float](x: T) -> bool", "[T: float](x: C[T]) -> bool"],
        example ["loom.isfinite(loom.inf)" => "False"];
    /// Sine of an angle in radians.
    Sin = "sin", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.sin(1.0)" => "0.841471"];
    /// Cosine of an angle in radians.
    Cos = "cos", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.cos(1.0)" => "0.5403023"];
    /// Tangent of an angle in radians.
    Tan = "tan", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.tan(1.0)" => "1.557408"];
    /// A large angle less the nearest multiple of π/2: the remainder rounded, minus what rounding took from it, and the
    /// multiple's number in the low two bits. What `sin`, `cos` and `tan` do to angles past some thousand turns; of an
    /// angle that is not finite, only the remainder means anything.
    ReduceAngle = "reduce_angle", Math, Internal, Pure, Library, None, ["[T: float](x: T) -> (T, T, i32)"];
    /// Arc sine in radians; NaN outside -1 … 1.
    Asin = "asin", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.asin(0.5)" => "0.5235988"];
    /// Arc cosine in radians; NaN outside -1 … 1.
    Acos = "acos", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.acos(0.5)" => "1.047198"];
    /// Arc tangent in radians.
    Atan = "atan", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.atan(1.0)" => "0.7853982"];
    /// Angle of the point (`x`, `y`) in radians, -π … π; zeros and infinities as in C.
    Atan2 = "atan2", Math, Function, Pure, Library, Rule, ["[T: float](y: T, x: T) -> T"],
        kinks "0 at the origin.",
        example ["loom.atan2(1.0, -1.0)" => "2.356194"];
    /// Hyperbolic sine.
    Sinh = "sinh", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.sinh(1.0)" => "1.175201"];
    /// Hyperbolic cosine.
    Cosh = "cosh", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.cosh(1.0)" => "1.543081"];
    /// Hyperbolic tangent.
    Tanh = "tanh", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.tanh(1.0)" => "0.7615942"];
    /// Inverse hyperbolic sine.
    Asinh = "asinh", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.asinh(1.0)" => "0.8813736"];
    /// Inverse hyperbolic cosine; NaN below 1.
    Acosh = "acosh", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.acosh(2.0)" => "1.316958"];
    /// Inverse hyperbolic tangent; NaN outside -1 … 1.
    Atanh = "atanh", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.atanh(0.5)" => "0.5493061"];
    /// e to the power `x`.
    Exp = "exp", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.exp(1.0)" => "2.718282"];
    /// 2 to the power `x`.
    Exp2 = "exp2", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.exp2(0.5)" => "1.414214"];
    /// `exp(x) - 1`, accurate near 0.
    Expm1 = "expm1", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.expm1(0.001)" => "0.0010005"];
    /// Natural logarithm; NaN below 0.
    Log = "log", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.log(2.0)" => "0.6931472"];
    /// Base-2 logarithm; NaN below 0.
    Log2 = "log2", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.log2(10.0)" => "3.321928"];
    /// Base-10 logarithm; NaN below 0.
    Log10 = "log10", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.log10(50.0)" => "1.69897"];
    /// `log(1 + x)`, accurate near 0; NaN below -1.
    Log1p = "log1p", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.log1p(0.001)" => "0.0009995003"];
    /// `x` to the power `y`; special cases as in C.
    Pow = "pow", Math, Operator("**"), Pure, Library, Rule, ["[T: float](x: T, y: T) -> T"],
        kinks "By `y`, 0 where `x` is 0.",
        example ["2.0 ** 0.5" => "1.414214", "loom.pow(2.0, 10.0)" => "1024.0"];
    /// `1 / sqrt(x)`.
    Rsqrt = "rsqrt", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.rsqrt(4.0)" => "0.5"];
    /// Cube root, of negative numbers too.
    Cbrt = "cbrt", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.cbrt(-27.0)" => "-3.0"];
    /// `sqrt(x * x + y * y)` without overflow.
    Hypot = "hypot", Math, Function, Pure, Library, Rule, ["[T: float](x: T, y: T) -> T"],
        kinks "0 at the origin.",
        example ["loom.hypot(3.0, 4.0)" => "5.0"];
    /// Error function.
    Erf = "erf", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.erf(0.5)" => "0.5204999"];
    /// Complementary error function, `1 - erf(x)`.
    Erfc = "erfc", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.erfc(2.0)" => "0.004677735"];
    /// Inverse of the error function; NaN outside -1 … 1.
    Erfinv = "erfinv", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.erfinv(0.5)" => "0.4769363"];
    /// Inverse of the complementary error function, with all digits of results for small `x`; NaN outside 0 … 2.
    Erfcinv = "erfcinv", Math, Function, Pure, Library, Rule, ["[T: float](x: T) -> T"],
        example ["loom.erfcinv(1e-10)" => "4.572825"];

    // ---- arrays ---------------------------------------------------------------------------------------------------
    /// An element. A negative index counts from the end of its axis. Reading outside the array is an error in
    /// checked mode and undefined without.
    ArrayLoad = "array_load", Array, Internal, Read, Native, Structure, ["[T: scalar](array: array[T], index...) -> T", "[T: scalar](array: array[C], index...) -> C[T]", "[T: scalar](array: array[C:T], index...) -> T"];
    /// Writes an element; indices as for `array_load`.
    ArrayStore = "array_store", Array, Internal, Write, Native, Structure, ["[T: scalar](array: array[T], index..., value: T)", "[T: scalar](array: array[C], index..., value: C[T])", "[T: scalar](array: array[C:T], index..., value: T)"];
    /// An element of an array that nothing writes while the kernel runs, past the cache for what may change. Indices as
    /// for `a[i]`.
    LoadReadonly = "load_readonly", Array, Function, Read, Native, Structure, ["[T: scalar](array: array[T], index...) -> T", "[T: scalar](array: array[C], index...) -> C[T]", "[T: scalar](array: array[C:T], index...) -> T"],
        example ["a = [3, 1, 4]", "loom.load_readonly(a, -1)" => "4"];
    /// The first index of a sorted array whose element is not less than `value`, of the indices from `arr_begin` up to
    /// but not including `arr_end` if they are given; the last index if there is none. Limits outside the array are its
    /// ends.
    LowerBound = "lower_bound", Search, Function, Read, Library, Zero, [
        "[T: wide](arr: array1[T], value: T) -> i32",
        "[T: wide](arr: array1[T], arr_begin: i32, arr_end: i32, value: T) -> i32",
    ],
        example ["a = [1, 3, 3, 5, 9]", "loom.lower_bound(a, 3)" => "1", "loom.lower_bound(a, 4)" => "3"];

    // ---- atomics: each gives the element's old value ---------------------------------------------------------------
    /// Adds to an element and gives its old value. The order in which threads add is not fixed.
    AtomicAdd = "atomic_add", Atomic, Function, ReadWrite, Native, Structure, [
        "[T: number](array: array[T], index..., value: T) -> T",
        "[T: number](array: array[C], index..., value: C[T]) -> C[T]",
        "[T: number](array: array[C:T], index..., value: T) -> T",
    ],
        example ["a = [3, 1, 4]", "loom.atomic_add(a, 1, 10)" => "1", "a" => "[3, 11, 4]"];
    /// Subtracts from an element and gives its old value.
    AtomicSub = "atomic_sub", Atomic, Function, ReadWrite, Native, Structure, [
        "[T: number](array: array[T], index..., value: T) -> T",
        "[T: number](array: array[C], index..., value: C[T]) -> C[T]",
        "[T: number](array: array[C:T], index..., value: T) -> T",
    ],
        example ["a = [3, 1, 4]", "loom.atomic_sub(a, 1, 10)" => "1", "a" => "[3, -9, 4]"];
    /// Stores the `min` of element and value and gives the old value.
    AtomicMin = "atomic_min", Atomic, Function, ReadWrite, Native, Structure, [
        "[T: number](array: array[T], index..., value: T) -> T",
        "[T: number](array: array[C], index..., value: C[T]) -> C[T]",
        "[T: number](array: array[C:T], index..., value: T) -> T",
    ],
        kinks "All of it to one of the threads whose value is the one that is left.",
        example ["a = [3, 1, 4]", "loom.atomic_min(a, 1, -2)" => "1", "a" => "[3, -2, 4]"];
    /// Stores the `max` of element and value and gives the old value.
    AtomicMax = "atomic_max", Atomic, Function, ReadWrite, Native, Structure, [
        "[T: number](array: array[T], index..., value: T) -> T",
        "[T: number](array: array[C], index..., value: C[T]) -> C[T]",
        "[T: number](array: array[C:T], index..., value: T) -> T",
    ],
        kinks "All of it to one of the threads whose value is the one that is left.",
        example ["a = [3, 1, 4]", "loom.atomic_max(a, 1, 7)" => "1", "a" => "[3, 7, 4]"];
    /// Stores the bitwise and of element and value and gives the old value.
    AtomicAnd = "atomic_and", Atomic, Function, ReadWrite, Native, Zero, [
        "[T: int](array: array[T], index..., value: T) -> T",
        "[T: int](array: array[C], index..., value: C[T]) -> C[T]",
        "[T: int](array: array[C:T], index..., value: T) -> T",
    ],
        example ["a = [3, 12, 4]", "loom.atomic_and(a, 1, 10)" => "12", "a" => "[3, 8, 4]"];
    /// Stores the bitwise or of element and value and gives the old value.
    AtomicOr = "atomic_or", Atomic, Function, ReadWrite, Native, Zero, [
        "[T: int](array: array[T], index..., value: T) -> T",
        "[T: int](array: array[C], index..., value: C[T]) -> C[T]",
        "[T: int](array: array[C:T], index..., value: T) -> T",
    ],
        example ["a = [3, 12, 4]", "loom.atomic_or(a, 1, 10)" => "12", "a" => "[3, 14, 4]"];
    /// Stores the exclusive or of element and value and gives the old value.
    AtomicXor = "atomic_xor", Atomic, Function, ReadWrite, Native, Zero, [
        "[T: int](array: array[T], index..., value: T) -> T",
        "[T: int](array: array[C], index..., value: C[T]) -> C[T]",
        "[T: int](array: array[C:T], index..., value: T) -> T",
    ],
        example ["a = [3, 12, 4]", "loom.atomic_xor(a, 1, 10)" => "12", "a" => "[3, 6, 4]"];
    /// Stores `value` if the element's bits equal those of `compare`; gives the old value either way.
    AtomicCas = "atomic_cas", Atomic, Function, ReadWrite, Native, None, ["[T: number](array: array[T], index..., compare: T, value: T) -> T"],
        example [
            "a = [3, 1, 4]",
            "loom.atomic_cas(a, 1, 1, 7)" => "1",
            "loom.atomic_cas(a, 2, 1, 7)" => "4",
            "a" => "[3, 7, 4]",
        ];
    /// Stores `value` and gives the old value.
    AtomicExch = "atomic_exch", Atomic, Function, ReadWrite, Native, None, [
        "[T: number](array: array[T], index..., value: T) -> T",
        "[T: number](array: array[C:T], index..., value: T) -> T",
    ],
        example ["a = [3, 1, 4]", "loom.atomic_exch(a, 1, 7)" => "1", "a" => "[3, 7, 4]"];

    /// Counts an element up: stores 0 if it is at least `value`, else the element plus 1, and gives the old value.
    AtomicInc = "atomic_inc", Atomic, Function, ReadWrite, Native, Zero, [
        "[T: int](array: array[T], index..., value: T) -> T",
        "[T: int](array: array[C:T], index..., value: T) -> T",
    ],
        example [
            "a = [3, 1, 4]",
            "loom.atomic_inc(a, 1, 7)" => "1",
            "loom.atomic_inc(a, 2, 4)" => "4",
            "a" => "[3, 2, 0]",
        ];
    /// Counts an element down: stores `value` if it is 0 or more than `value`, else the element minus 1, and gives the
    /// old value.
    AtomicDec = "atomic_dec", Atomic, Function, ReadWrite, Native, Zero, [
        "[T: int](array: array[T], index..., value: T) -> T",
        "[T: int](array: array[C:T], index..., value: T) -> T",
    ],
        example [
            "a = [3, 1, 0]",
            "loom.atomic_dec(a, 1, 7)" => "1",
            "loom.atomic_dec(a, 2, 4)" => "0",
            "a" => "[3, 0, 4]",
        ];

    // ---- random numbers: a u32 state, PCG hash ---------------------------------------------------------------------
    /// A random state from a seed and, to give each thread its own sequence, an offset.
    RandInit = "rand_init", Random, Function, Pure, Library, Zero, ["(seed: i32) -> u32", "(seed: i32, offset: i32) -> u32"],
        example ["loom.rand_init(42)" => "1223963391", "loom.rand_init(42, 1)" => "2311944962"];
    /// A random integer over all of `int32`, or from `low` up to but not including `high`; `low` if there is none between.
    Randi = "randi", Random, Function, Pure, Library, Zero, ["(inout state: u32) -> i32", "(inout state: u32, low: i32, high: i32) -> i32"],
        example ["state = loom.rand_init(42)", "loom.randi(state, 1, 7)" => "2"];
    /// A random integer over all of `uint32`, or from `low` up to but not including `high`; `low` if there is none between.
    Randu = "randu", Random, Function, Pure, Library, Zero, ["(inout state: u32) -> u32", "(inout state: u32, low: u32, high: u32) -> u32"],
        example ["state = loom.rand_init(42)", "loom.randu(state)" => "2785308739"];
    /// A random float, uniform on [0, 1) in steps of 2^-24, or from `low` up to `high`.
    Randf = "randf", Random, Function, Pure, Library, Definition, ["(inout state: u32) -> f32", "(inout state: u32, low: f32, high: f32) -> f32"],
        kinks "The draw itself is a constant; the limits have derivatives.",
        example ["state = loom.rand_init(42)", "loom.randf(state)" => "0.6485052"];
    /// A random float from the standard normal distribution.
    Randn = "randn", Random, Function, Pure, Library, Zero, ["(inout state: u32) -> f32"],
        example ["state = loom.rand_init(42)", "loom.randn(state)" => "0.8478933"];
    /// A random integer from the Poisson distribution with mean `lam`.
    Poisson = "poisson", Random, Function, Pure, Library, Zero, ["(inout state: u32, lam: f32) -> u32"],
        example ["state = loom.rand_init(42)", "loom.poisson(state, 4.0)" => "5"];
    /// The first index whose entry of a cumulative distribution is not below a uniform sample.
    SampleCdf = "sample_cdf", Random, Function, Read, Library, Zero, ["(inout state: u32, cdf: array[f32]) -> i32"],
        example ["cdf = [0.25, 0.5, 1.0]", "state = loom.rand_init(42)", "loom.sample_cdf(state, cdf)" => "2"];
    /// Barycentric coordinates (u, v) of a uniform point of a triangle.
    SampleTriangle = "sample_triangle", Random, Function, Pure, Library, Zero, ["(inout state: u32) -> vec[f32 2]"],
        example ["state = loom.rand_init(42)", "loom.sample_triangle(state)" => "[0.1947018, 0.7508289]"];
    /// A uniform point of the unit circle's line, `x, y`.
    SampleUnitRing = "sample_unit_ring", Random, Function, Pure, Library, Zero, ["(inout state: u32) -> vec[f32 2]"],
        example ["state = loom.rand_init(42)", "loom.sample_unit_ring(state)" => "[-0.5953575, -0.8034609]"];
    /// A uniform point of the unit disk, `x, y`.
    SampleUnitDisk = "sample_unit_disk", Random, Function, Pure, Library, Zero, ["(inout state: u32) -> vec[f32 2]"],
        example ["state = loom.rand_init(42)", "loom.sample_unit_disk(state)" => "[0.7336624, -0.332031]"];
    /// A uniform point of the unit sphere's surface, `x, y, z`.
    SampleUnitSphereSurface = "sample_unit_sphere_surface", Random, Function, Pure, Library, Zero, ["(inout state: u32) -> vec[f32 3]"],
        example [
            "state = loom.rand_init(42)",
            "loom.sample_unit_sphere_surface(state)" => "[0.8699328, -0.3937024, -0.2970105]",
        ];
    /// A uniform point of the unit ball, `x, y, z`.
    SampleUnitSphere = "sample_unit_sphere", Random, Function, Pure, Library, Zero, ["(inout state: u32) -> vec[f32 3]"],
        example [
            "state = loom.rand_init(42)",
            "loom.sample_unit_sphere(state)" => "[0.7625344, -0.3450975, -0.2603428]",
        ];
    /// A uniform point of the upper unit hemisphere's surface (`z` at least 0), `x, y, z`.
    SampleUnitHemisphereSurface = "sample_unit_hemisphere_surface", Random, Function, Pure, Library, Zero, ["(inout state: u32) -> vec[f32 3]"],
        example [
            "state = loom.rand_init(42)",
            "loom.sample_unit_hemisphere_surface(state)" => "[0.8529105, -0.3859987, 0.3514948]",
        ];
    /// A uniform point of the upper unit half ball (`z` at least 0), `x, y, z`.
    SampleUnitHemisphere = "sample_unit_hemisphere", Random, Function, Pure, Library, Zero, ["(inout state: u32) -> vec[f32 3]"],
        example [
            "state = loom.rand_init(42)",
            "loom.sample_unit_hemisphere(state)" => "[0.7476137, -0.3383449, 0.3081007]",
        ];
    /// A uniform point of the square from -0.5 to 0.5, `x, y`.
    SampleUnitSquare = "sample_unit_square", Random, Function, Pure, Library, Zero, ["(inout state: u32) -> vec[f32 2]"],
        example ["state = loom.rand_init(42)", "loom.sample_unit_square(state)" => "[0.1485052, 0.4323613]"];
    /// A uniform point of the cube from -0.5 to 0.5, `x, y, z`.
    SampleUnitCube = "sample_unit_cube", Random, Function, Pure, Library, Zero, ["(inout state: u32) -> vec[f32 3]"],
        example ["state = loom.rand_init(42)", "loom.sample_unit_cube(state)" => "[0.1485052, 0.4323613, 0.1734746]"];

    // ---- noise ------------------------------------------------------------------------------------------------------
    /// Perlin noise: the value at a point of a smooth random field, zero at integer coordinates. The state, as of
    /// `rand_init`, says which field; it does not change.
    Noise = "noise", Random, Function, Pure, Library, Definition, [
        "(state: u32, x: f32) -> f32",
        "(state: u32, xy: vec[f32 2]) -> f32",
        "(state: u32, xyz: vec[f32 3]) -> f32",
        "(state: u32, xyzt: vec[f32 4]) -> f32",
    ],
        example ["state = loom.rand_init(42)", "loom.noise(state, loom.vec2(0.5, 0.25))" => "0.3150977"];
    /// Perlin noise that repeats: as `noise`, with an integer period along each axis.
    Pnoise = "pnoise", Random, Function, Pure, Library, Definition, [
        "(state: u32, x: f32, px: i32) -> f32",
        "(state: u32, xy: vec[f32 2], px: i32, py: i32) -> f32",
        "(state: u32, xyz: vec[f32 3], px: i32, py: i32, pz: i32) -> f32",
        "(state: u32, xyzt: vec[f32 4], px: i32, py: i32, pz: i32, pt: i32) -> f32",
    ],
        example ["state = loom.rand_init(42)", "loom.pnoise(state, loom.vec2(0.5, 0.25), 4, 4)" => "0.3150977"];
    /// The derivatives of `noise`.
    NoiseGradient = "noise_gradient", Random, Internal, Pure, Library, Definition, [
        "(state: u32, x: f32, y: f32) -> (f32, f32)",
        "(state: u32, x: f32, y: f32, z: f32) -> (f32, f32, f32)",
        "(state: u32, x: f32, y: f32, z: f32, t: f32) -> (f32, f32, f32, f32)",
    ];
    /// A random vector field without divergence, derived from `noise`. Of `octaves` fields, 1 unless given, each is
    /// `lacunarity` (2) times finer and `gain` (0.5) times weaker than the one before.
    Curlnoise = "curlnoise", Random, Function, Pure, Library, Definition, [
        "(state: u32, xy: vec[f32 2]) -> vec[f32 2]",
        "(state: u32, xy: vec[f32 2], octaves: u32) -> vec[f32 2]",
        "(state: u32, xy: vec[f32 2], octaves: u32, lacunarity: f32) -> vec[f32 2]",
        "(state: u32, xy: vec[f32 2], octaves: u32, lacunarity: f32, gain: f32) -> vec[f32 2]",
        "(state: u32, xyz: vec[f32 3]) -> vec[f32 3]",
        "(state: u32, xyz: vec[f32 3], octaves: u32) -> vec[f32 3]",
        "(state: u32, xyz: vec[f32 3], octaves: u32, lacunarity: f32) -> vec[f32 3]",
        "(state: u32, xyz: vec[f32 3], octaves: u32, lacunarity: f32, gain: f32) -> vec[f32 3]",
        "(state: u32, xyzt: vec[f32 4]) -> vec[f32 3]",
        "(state: u32, xyzt: vec[f32 4], octaves: u32) -> vec[f32 3]",
        "(state: u32, xyzt: vec[f32 4], octaves: u32, lacunarity: f32) -> vec[f32 3]",
        "(state: u32, xyzt: vec[f32 4], octaves: u32, lacunarity: f32, gain: f32) -> vec[f32 3]",
    ],
        example [
            "state = loom.rand_init(42)",
            "loom.curlnoise(state, loom.vec3(0.5, 0.25, 0.75))" => "[-0.09437898, -0.3558666, 0.6523674]",
        ];

    // ---- blocks and warps ------------------------------------------------------------------------------------------
    /// The thread's coordinate in its block along axis 0, 1 or 2.
    ThreadIdx = "thread_idx", Gpu, Function, Pure, Native, Zero, ["() -> i32"],
        example [
            "loom.thread_idx()" => "0",
            "loom.thread_idx(1)" => "0",
        ];
    /// The block's coordinate in the grid along axis 0, 1 or 2.
    BlockIdx = "block_idx", Gpu, Function, Pure, Native, Zero, ["() -> i32"],
        example ["loom.block_idx()" => "0"];
    /// The extent of a block along axis 0, 1 or 2, in threads. On the CPU, a kernel that has nothing else of blocks
    /// runs in blocks of one.
    BlockDim = "block_dim", Gpu, Function, Pure, Native, Zero, ["() -> i32"],
        example ["loom.block_dim()" => "1"];
    /// The extent of the grid along axis 0, 1 or 2, in blocks.
    GridDim = "grid_dim", Gpu, Function, Pure, Native, Zero, ["() -> i32"],
        example ["loom.grid_dim()" => "1"];
    /// The thread's number in its warp, 0 to 31. Threads of a block are counted along axis 0 first, and 32 that follow
    /// each other are a warp.
    LaneId = "lane_id", Gpu, Function, Pure, Native, Zero, ["() -> i32"],
        example ["loom.lane_id()" => "0"];
    /// The number of the thread's warp in its block.
    WarpId = "warp_id", Gpu, Function, Pure, Native, Zero, ["() -> i32"],
        example ["loom.warp_id()" => "0"];
    /// An array of constant extents that the threads of a block have in common; its elements are not set to begin with.
    /// Each place in the text is one array for each block, however often it is executed.
    SharedArray = "shared_array", Gpu, Function, Pure, Native, None, [],
        example [
            "tile = loom.shared_array(shape=(8, 4), dtype=int)",
            "tile[2, 3] = 7",
            "tile[2, 3]" => "7",
        ];
    /// A view of the shared memory that the launch asks for with `shared_bytes`, from a byte offset on. Views may
    /// overlap.
    DynamicShared = "dynamic_shared", Gpu, Function, Pure, Native, None, [],
        example [
            "part = loom.dynamic_shared(shape=0, dtype=float)",
            "part.shape[0]" => "0",
        ];
    /// Waits until all threads of the block have come here. What they wrote before, all of them read after. With `id`, 1
    /// to 15, and `count`, a multiple of 32, both constant: until `count` threads, those of whole warps, have come to a
    /// barrier of this number, while other warps go on.
    SyncThreads = "sync_threads", Gpu, Function, ReadWrite, Native, None, ["()"], converges Block,
        example [
            "tile = loom.shared_array(shape=2, dtype=float)",
            "tile[loom.thread_idx()] = 1.5",
            "loom.sync_threads()",
            "tile[0]" => "1.5",
        ];
    /// Waits until so many threads of the block, those of whole warps, have come to a barrier of this number.
    NamedBarrier = "named_barrier", Gpu, Internal, ReadWrite, Native, None, ["()"], converges Warp;
    /// As `sync_threads`; gives whether the predicate holds in all threads of the block.
    SyncThreadsAnd = "sync_threads_and", Gpu, Function, ReadWrite, Native, None, ["(predicate: bool) -> bool"], converges Block,
        example ["loom.sync_threads_and(loom.tid() == 0)" => "True"];
    /// As `sync_threads`; gives whether the predicate holds in any thread of the block.
    SyncThreadsOr = "sync_threads_or", Gpu, Function, ReadWrite, Native, None, ["(predicate: bool) -> bool"], converges Block,
        example ["loom.sync_threads_or(loom.tid() == 1)" => "False"];
    /// As `sync_threads`; gives in how many threads of the block the predicate holds.
    SyncThreadsCount = "sync_threads_count", Gpu, Function, ReadWrite, Native, None, ["(predicate: bool) -> i32"], converges Block,
        example ["loom.sync_threads_count(loom.tid() == 0)" => "1"];
    /// What the thread wrote before is seen by others of the scope no later than what it writes after: `thread` for the
    /// thread alone, `block`, `device`, which it is unless given, or `system`, with the CPU and other devices.
    ThreadFence = "thread_fence", Gpu, Function, ReadWrite, Native, Zero, ["()"],
        example [
            "a = [3, 1]",
            "a[0] = 5",
            "loom.thread_fence(scope=\"block\")",
            "a" => "[5, 1]",
        ];
    /// Waits until all threads of the warp that the mask names, one bit each, have come here; all unless it is given.
    /// What they wrote before, they all read after.
    SyncWarp = "sync_warp", Gpu, Function, ReadWrite, Native, None, ["()", "(mask: u32)"], converges Warp,
        example [
            "loom.sync_warp()",
            "loom.lane_id()" => "0",
        ];
    /// The value that another lane has: the one with this number, counted modulo `width` in the group of `width` lanes
    /// that the lane is in. Which value a lane gets whose source has exited is not defined; the interpreter gives it
    /// its own. `width` is a constant power of two, 32 unless given.
    Shuffle = "shuffle", Gpu, Function, ReadWrite, Native, None, ["[T: scalar](value: T, lane: i32) -> T", "[T: scalar](value: C[T], lane: i32) -> C[T]"], converges Warp,
        example [
            "loom.shuffle(2.5, 0)" => "2.5",
            "loom.shuffle(7, 3, width=4)" => "7",
        ];
    /// The value of the lane that is `delta`, modulo 32, before this one; its own if that is in another group of
    /// `width`. Else as `shuffle`.
    ShuffleUp = "shuffle_up", Gpu, Function, ReadWrite, Native, None, ["[T: scalar](value: T, delta: i32) -> T", "[T: scalar](value: C[T], delta: i32) -> C[T]"], converges Warp,
        example ["loom.shuffle_up(7, 1)" => "7"];
    /// The value of the lane that is `delta`, modulo 32, behind this one; its own if that is in another group of
    /// `width`. Else as `shuffle`.
    ShuffleDown = "shuffle_down", Gpu, Function, ReadWrite, Native, None, ["[T: scalar](value: T, delta: i32) -> T", "[T: scalar](value: C[T], delta: i32) -> C[T]"], converges Warp,
        example ["loom.shuffle_down(7, 1)" => "7"];
    /// The value of the lane whose number is this one's with the bits of `mask`, modulo 32, flipped; its own if that is
    /// in a later group of `width`. Else as `shuffle`.
    ShuffleXor = "shuffle_xor", Gpu, Function, ReadWrite, Native, None, ["[T: scalar](value: T, mask: i32) -> T", "[T: scalar](value: C[T], mask: i32) -> C[T]"], converges Warp,
        example ["loom.shuffle_xor(loom.vec2(1.0, 2.0), 16)" => "[1.0, 2.0]"];
    /// In which lanes of the warp the predicate holds, one bit each; 0 for those that have exited.
    Ballot = "ballot", Gpu, Function, ReadWrite, Native, Zero, ["(predicate: bool) -> u32"], converges Warp,
        example ["loom.ballot(loom.lane_id() == 0)" => "1"];
    /// Whether the predicate holds in any lane of the warp.
    WarpAny = "warp_any", Gpu, Function, ReadWrite, Native, Zero, ["(predicate: bool) -> bool"], converges Warp,
        example ["loom.warp_any(loom.lane_id() == 5)" => "False"];
    /// Whether the predicate holds in all lanes of the warp.
    WarpAll = "warp_all", Gpu, Function, ReadWrite, Native, Zero, ["(predicate: bool) -> bool"], converges Warp,
        example ["loom.warp_all(loom.lane_id() == 0)" => "True"];
    /// Which lanes of the warp have the bits of this one's value, one bit each.
    MatchAny = "match_any", Gpu, Function, ReadWrite, Native, Zero, ["[T: scalar](value: T) -> u32"], converges Warp,
        example ["loom.match_any(3)" => "1"];
    /// Which lanes of the warp there are, one bit each, if the bits of all their values are the same; else 0.
    MatchAll = "match_all", Gpu, Function, ReadWrite, Native, Zero, ["[T: scalar](value: T) -> u32"], converges Warp,
        example ["loom.match_all(3.5)" => "1"];
    /// The sum of a value over the lanes of the warp, the same in all. In the order of a tree: each lane adds the value
    /// of the lane 16 behind it, if there is one, then of that 8 behind, 4, 2 and 1; lane 0 then has the sum.
    WarpReduceAdd = "warp_reduce_add", Gpu, Function, ReadWrite, Native, None, ["[T: number](value: T) -> T", "[T: number](value: C[T]) -> C[T]"], converges Warp,
        example ["loom.warp_reduce_add(2.5)" => "2.5"];
    /// The `min` of a value over the lanes of the warp, the same in all.
    WarpReduceMin = "warp_reduce_min", Gpu, Function, ReadWrite, Native, None, ["[T: number](value: T) -> T", "[T: number](value: C[T]) -> C[T]"], converges Warp,
        example ["loom.warp_reduce_min(loom.vec2(1.0, 2.0))" => "[1.0, 2.0]"];
    /// The `max` of a value over the lanes of the warp, the same in all.
    WarpReduceMax = "warp_reduce_max", Gpu, Function, ReadWrite, Native, None, ["[T: number](value: T) -> T", "[T: number](value: C[T]) -> C[T]"], converges Warp,
        example ["loom.warp_reduce_max(3)" => "3"];
    /// The bitwise and of a value over the lanes of the warp, the same in all.
    WarpReduceAnd = "warp_reduce_and", Gpu, Function, ReadWrite, Native, Zero, ["[T: bits](value: T) -> T", "[T: int](value: C[T]) -> C[T]"], converges Warp,
        example ["loom.warp_reduce_and(12)" => "12"];
    /// The bitwise or of a value over the lanes of the warp, the same in all.
    WarpReduceOr = "warp_reduce_or", Gpu, Function, ReadWrite, Native, Zero, ["[T: bits](value: T) -> T", "[T: int](value: C[T]) -> C[T]"], converges Warp,
        example ["loom.warp_reduce_or(12)" => "12"];
    /// The exclusive or of a value over the lanes of the warp, the same in all.
    WarpReduceXor = "warp_reduce_xor", Gpu, Function, ReadWrite, Native, Zero, ["[T: bits](value: T) -> T", "[T: int](value: C[T]) -> C[T]"], converges Warp,
        example ["loom.warp_reduce_xor(12)" => "12"];
    /// The lane's part of a 16 × 16 matrix, the left factor of `mma`, that begins at this row and column: of `float16`,
    /// `bfloat16`, `float32` (`tf32`), `int8` or `uint8`. `layout="col"` reads an array that is indexed by the matrix's
    /// column first.
    MmaLoadA = "mma_load_a", Gpu, Function, Read, Scalarised, None, [], converges Warp,
        example ["m = loom.shared_array(shape=(16, 16), dtype=loom.float16)", "m[0, 1] = loom.float16(1.5)", "loom.mma_load_a(m, 0, 0)[1]" => "1.5"];
    /// The lane's part of a 16 × n matrix, the right factor of `mma`, that begins at this row and column; n is 16
    /// unless it is given as 8. Else as `mma_load_a`.
    MmaLoadB = "mma_load_b", Gpu, Function, Read, Scalarised, None, [], converges Warp,
        example ["m = loom.shared_array(shape=(16, 16), dtype=loom.float16)", "m[1, 0] = loom.float16(1.5)", "loom.mma_load_b(m, 0, 0, n=8)[1]" => "1.5"];
    /// The lane's part of a 16 × n matrix that `mma` adds to, of `float32` or `int32`. Else as `mma_load_b`.
    MmaLoadC = "mma_load_c", Gpu, Function, Read, Scalarised, None, [], converges Warp,
        example ["m = loom.shared_array(shape=(16, 16), dtype=float)", "m[0, 1] = 1.5", "loom.mma_load_c(m, 0, 0)[1]" => "1.5"];
    /// Stores the lane's part of the result of an `mma`, from this row and column on.
    MmaStore = "mma_store", Gpu, Function, Write, Scalarised, None, [], converges Warp,
        example ["m = loom.shared_array(shape=(16, 8), dtype=float)", "loom.mma_store(m, 0, 0, loom.vec4(2.5))", "m[0, 1]" => "2.5"];
    /// The product of a 16 × 16 matrix and a 16 × n one, plus a 16 × n one, by the tensor core; each lane of the warp
    /// has a part of them. Products of floats are exact and added in `float32` from the first on; the tensor core
    /// rounds otherwise, so the last bits may differ. Of `float32` factors the upper ten bits of the mantissas count
    /// (`tf32`). Before `sm_80` there are products of `float16` alone.
    Mma = "mma", Gpu, Function, ReadWrite, Native, None, [
        "(a: vec[f16 8], b: vec[f16 4], c: vec[f32 4]) -> vec[f32 4]",
        "(a: vec[f16 8], b: vec[f16 8], c: vec[f32 8]) -> vec[f32 8]",
        "(a: vec[bf16 8], b: vec[bf16 4], c: vec[f32 4]) -> vec[f32 4]",
        "(a: vec[bf16 8], b: vec[bf16 8], c: vec[f32 8]) -> vec[f32 8]",
        "(a: vec[f32 8], b: vec[f32 4], c: vec[f32 4]) -> vec[f32 4]",
        "(a: vec[f32 8], b: vec[f32 8], c: vec[f32 8]) -> vec[f32 8]",
        "(a: vec[i8 8], b: vec[i8 4], c: vec[i32 4]) -> vec[i32 4]",
        "(a: vec[i8 8], b: vec[i8 8], c: vec[i32 8]) -> vec[i32 8]",
        "(a: vec[u8 8], b: vec[u8 4], c: vec[i32 4]) -> vec[i32 4]",
        "(a: vec[u8 8], b: vec[u8 8], c: vec[i32 8]) -> vec[i32 8]",
    ], converges Warp,
        example ["a = loom.vector(length=8, dtype=loom.float16)", "b = loom.vector(length=4, dtype=loom.float16)", "loom.mma(a, b, loom.vec4(2.5))" => "[2.5, 2.5, 2.5, 2.5]"];
    /// Begins to copy elements that follow each other, `count` from `source` on, from global to shared memory; they
    /// take 4, 8 or 16 bytes. `cache` is `"default"` or `"l1"`, through all caches; `"l2"`, for 16 bytes, past the
    /// multiprocessor's own; or `"streaming"`, to be the first that makes room in them. What is copied is there
    /// after `async_wait` and, for other threads, a barrier.
    AsyncCopy = "async_copy", Gpu, Function, ReadWrite, Native, None, [], since 80,
        example ["a = [3.0, 1.0]", "m = loom.shared_array(shape=2, dtype=float)", "loom.async_copy(m[0], a[0], count=2)", "loom.async_commit()", "loom.async_wait()", "m[1]" => "1.0"];
    /// Makes a group of the copies that the thread has begun since the last one.
    AsyncCommit = "async_commit", Gpu, Function, ReadWrite, Native, None, ["()"], since 80,
        example ["loom.async_commit()", "loom.tid()" => "0"];
    /// Waits until at most `pending`, 0 unless it is given, of the groups that the thread has made are under way.
    AsyncWait = "async_wait", Gpu, Function, ReadWrite, Native, None, ["()"], since 80,
        example ["loom.async_wait(1)", "loom.tid()" => "0"];
    /// A counter that the multiprocessor increments each clock cycle; on the CPU, one that increments in some way.
    Clock = "clock", Gpu, Function, ReadWrite, Native, Zero, ["() -> u64"],
        example [
            "begin = loom.clock()",
            "loom.clock() >= begin" => "True",
        ];
    /// Suspends the thread for about so many nanoseconds, at most a million.
    Nanosleep = "nanosleep", Gpu, Function, ReadWrite, Native, Zero, ["(duration: u32)"],
        example [
            "loom.nanosleep(100)",
            "loom.tid()" => "0",
        ];

    // ---- checking and printing --------------------------------------------------------------------------------------
    /// Ends the launch with an error unless the condition holds. Only checked kernels contain it.
    Assert = "assert", Debug, Internal, ReadWrite, Native, Zero, ["(cond: bool)"];
    /// Ends the launch with an error unless the condition holds, reporting an index and an extent. The
    /// `insert_checks` pass puts these before array accesses and integer divisions.
    Check = "check", Debug, Internal, ReadWrite, Native, Zero, ["(cond: bool, index: i64, extent: i64)"];
    /// Prints both values unless they are equal.
    ExpectEq = "expect_eq", Debug, Function, ReadWrite, Library, Zero, ["[T: scalar](a: T, b: T)", "[T: scalar](a: C[T], b: C[T])"],
        example ["loom.expect_eq(1 + 1, 3)" => "Error, expect_eq() failed:\n\t Expected: 3\n\t Actual: 2"];
    /// Prints both values if they are equal.
    ExpectNeq = "expect_neq", Debug, Function, ReadWrite, Library, Zero, ["[T: scalar](a: T, b: T)", "[T: scalar](a: C[T], b: C[T])"],
        example ["loom.expect_neq(1 + 1, 2)" => "Error, expect_neq() failed:\n\t Expected: 2\n\t Actual: 2"];
    /// Prints both values if they, or any of their components, differ by more than `tolerance`, 1e-6 unless given.
    ExpectNear = "expect_near", Debug, Function, ReadWrite, Library, Zero, [
        "[T: float](a: T, b: T)",
        "[T: float](a: T, b: T, tolerance: T)",
        "[T: float](a: C[T], b: C[T])",
        "[T: float](a: C[T], b: C[T], tolerance: T)",
    ],
        example [
            "loom.expect_near(1.0, 1.25, 0.5)",
            "loom.expect_near(1.0, 2.0, 0.5)" => "Error, expect_near() failed:\n\t Expected: 2.0\n\t Actual: 1.0",
        ];
    /// Prints its operands by a C format string.
    Print = "print", Debug, Internal, ReadWrite, Native, Zero, [];
}
