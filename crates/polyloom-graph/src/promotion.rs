//! The element type that operands of several types are converted to: NumPy 2's rules.
//!
//! Two types promote to the smallest type that holds the values of both; signed and unsigned 64-bit integers, which
//! have none, to `float64`. A Python number is weak: it takes the type of the tensors beside it, unless its kind (bool,
//! integer, float) is above theirs, which makes it `int64` or `float64`.
//!
//! NumPy has no `bfloat16`. With ml_dtypes, the extension that adds it, it keeps `bfloat16` beside `bool` and 8-bit
//! integers, and refuses other integers and `float16`. Here it is treated as `float16` is beside integers, and the two
//! 16-bit floats promote to `float32`.

use polyloom_ir::Scalar;

/// The element type of an operand, or the kind of a Python number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OperandDtype {
    /// The type of a tensor. A Python `bool` is one of `bool`, because that is below all others in any case.
    Strong(Scalar),
    /// A Python `int`.
    WeakInt,
    /// A Python `float`.
    WeakFloat,
}

/// Returns the type that two tensor types promote to.
///
/// ```
/// use polyloom_graph::promotion::promote;
/// use polyloom_ir::Scalar;
/// assert_eq!(promote(Scalar::I8, Scalar::U8), Scalar::I16);
/// assert_eq!(promote(Scalar::I64, Scalar::F32), Scalar::F64);
/// ```
pub fn promote(a: Scalar, b: Scalar) -> Scalar {
    match (a, b) {
        _ if a == b => a,
        (Scalar::Bool, other) | (other, Scalar::Bool) => other,
        _ if a.is_float() && b.is_float() => match (a.is_half() && b.is_half(), a.bytes() >= b.bytes()) {
            (true, _) => Scalar::F32,
            (false, true) => a,
            (false, false) => b,
        },
        _ if a.is_float() => promote_float(a, b),
        _ if b.is_float() => promote_float(b, a),
        _ if a.is_signed_int() == b.is_signed_int() => {
            if a.bytes() >= b.bytes() {
                a
            } else {
                b
            }
        }
        _ if a.is_signed_int() => promote_signed(a, b),
        _ => promote_signed(b, a),
    }
}

/// A float holds all integers of half its size; a larger integer asks for the float of twice its size.
fn promote_float(float: Scalar, integer: Scalar) -> Scalar {
    let least = match integer.bytes() {
        1 => float,
        2 => Scalar::F32,
        _ => Scalar::F64,
    };
    if least.bytes() > float.bytes() { least } else { float }
}

fn promote_signed(signed: Scalar, unsigned: Scalar) -> Scalar {
    if signed.bytes() > unsigned.bytes() {
        return signed;
    }
    match unsigned.bytes() {
        1 => Scalar::I16,
        2 => Scalar::I32,
        4 => Scalar::I64,
        _ => Scalar::F64,
    }
}

/// Returns the type that operands promote to, Python numbers among them; `None` if there are no operands.
pub fn promote_all(operands: &[OperandDtype]) -> Option<Scalar> {
    let strong = operands.iter().filter_map(|operand| match operand {
        OperandDtype::Strong(dtype) => Some(*dtype),
        _ => None,
    });
    let strong = strong.reduce(promote);
    let has = |kind: OperandDtype| operands.contains(&kind);
    if has(OperandDtype::WeakFloat) {
        return Some(strong.filter(|dtype| dtype.is_float()).unwrap_or(Scalar::F64));
    }
    if has(OperandDtype::WeakInt) {
        return Some(strong.filter(|&dtype| dtype != Scalar::Bool).unwrap_or(Scalar::I64));
    }
    strong
}

/// Returns the type in which a mathematical function of a number is computed: the smallest float that holds it.
pub fn float_of(dtype: Scalar) -> Scalar {
    match dtype.bytes() {
        _ if dtype.is_float() => dtype,
        1 => Scalar::F16,
        2 => Scalar::F32,
        _ => Scalar::F64,
    }
}

/// Returns the type of a sum: small integers are added in 64 bits.
pub fn sum_of(dtype: Scalar) -> Scalar {
    match dtype {
        _ if dtype.is_float() => dtype,
        _ if dtype.is_unsigned_int() => Scalar::U64,
        _ => Scalar::I64,
    }
}

/// Returns the type of a quotient or mean: `float64` for integers.
pub fn quotient_of(dtype: Scalar) -> Scalar {
    if dtype.is_float() { dtype } else { Scalar::F64 }
}
