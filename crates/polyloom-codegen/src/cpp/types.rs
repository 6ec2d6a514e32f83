//! How types and constants are written.

use polyloom_ir::eval::{bf16_to_f32, f16_to_f32};
use polyloom_ir::{Composite, Scalar, Type};

/// The name of a scalar type.
pub(super) fn scalar(ty: Scalar) -> &'static str {
    match ty {
        Scalar::Bool => "bool",
        Scalar::I8 => "int8",
        Scalar::I16 => "int16",
        Scalar::I32 => "int",
        Scalar::I64 => "int64",
        Scalar::U8 => "uint8",
        Scalar::U16 => "uint16",
        Scalar::U32 => "uint32",
        Scalar::U64 => "uint64",
        Scalar::F16 => "float16",
        Scalar::BF16 => "bfloat16",
        Scalar::F32 => "float",
        Scalar::F64 => "double",
    }
}

/// Returns what `int8` and its like stand for; none for what needs no other name.
pub(super) fn fundamental(ty: Scalar) -> Option<&'static str> {
    Some(match ty {
        Scalar::I8 => "signed char",
        Scalar::I16 => "short",
        Scalar::I64 => "long long",
        Scalar::U8 => "unsigned char",
        Scalar::U16 => "unsigned short",
        Scalar::U32 => "unsigned int",
        Scalar::U64 => "unsigned long long",
        _ => return None,
    })
}

/// The unsigned type of the same width as an integer type.
pub(super) fn unsigned(ty: Scalar) -> Scalar {
    match ty {
        Scalar::I8 => Scalar::U8,
        Scalar::I16 => Scalar::U16,
        Scalar::I32 => Scalar::U32,
        Scalar::I64 => Scalar::U64,
        other => other,
    }
}

/// The name of a composite type: its Python name where that is an identifier.
pub(super) fn composite(ty: Composite) -> String {
    let name = ty.python_name();
    if !name.contains('(') { name } else { template(ty) }
}

/// The template that a composite type is an instance of.
pub(super) fn template(ty: Composite) -> String {
    match ty {
        Composite::Vector { elem, len } => format!("vec<{}, {len}>", scalar(elem)),
        Composite::Matrix { elem, rows, cols } => format!("mat<{}, {rows}, {cols}>", scalar(elem)),
        Composite::Quaternion { elem } => format!("quat_<{}>", scalar(elem)),
        Composite::Transform { elem } => format!("transform_<{}>", scalar(elem)),
    }
}

/// The name of a type.
pub(super) fn name(ty: Type) -> String {
    match ty {
        Type::Scalar(ty) => scalar(ty).to_owned(),
        Type::Composite(ty) => composite(ty),
        // Truth values in memory have their own type, because C++'s does not promise that any byte but 0 is true.
        Type::Array { elem: Scalar::Bool, ndim, .. } => format!("array<bool8, {ndim}>"),
        Type::Array { elem, ndim, .. } => format!("array<{}, {ndim}>", scalar(elem)),
        Type::CompositeArray { elem, ndim, .. } => format!("array<{}, {ndim}>", composite(elem)),
    }
}

/// A constant.
pub(super) fn constant(ty: Scalar, bits: u64) -> String {
    let unused = 64 - ty.bits();
    let signed = (bits << unused) as i64 >> unused;
    match ty {
        Scalar::Bool => if bits == 0 { "false" } else { "true" }.to_owned(),
        Scalar::I32 if signed == i32::MIN.into() => "(-2147483647 - 1)".to_owned(),
        Scalar::I32 => signed.to_string(),
        Scalar::I64 if signed == i64::MIN => "(-9223372036854775807ll - 1)".to_owned(),
        Scalar::I64 => format!("{signed}ll"),
        Scalar::U32 => format!("{bits}u"),
        Scalar::U64 => format!("{bits}ull"),
        Scalar::I8 | Scalar::I16 => format!("{}({signed})", scalar(ty)),
        Scalar::U8 | Scalar::U16 => format!("{}({bits})", scalar(ty)),
        Scalar::F32 => {
            float(f32::from_bits(bits as u32).into(), &format!("{:?}f", f32::from_bits(bits as u32)), "float")
        }
        Scalar::F64 => float(f64::from_bits(bits), &format!("{:?}", f64::from_bits(bits)), "double"),
        Scalar::F16 => format!("float16({})", constant(Scalar::F32, f16_to_f32(bits as u16).to_bits().into())),
        Scalar::BF16 => format!("bfloat16({})", constant(Scalar::F32, bf16_to_f32(bits as u16).to_bits().into())),
    }
}

/// Returns true if a constant is written with a sign before it.
pub(super) fn is_negative(ty: Scalar, bits: u64) -> bool {
    let sign = bits >> (ty.bits() - 1) & 1 == 1;
    match ty {
        Scalar::I32 | Scalar::I64 | Scalar::F32 | Scalar::F64 => sign,
        _ => false,
    }
}

fn float(value: f64, digits: &str, ty: &str) -> String {
    match value {
        _ if value.is_nan() => format!("nan<{ty}>()"),
        f64::INFINITY => format!("inf<{ty}>()"),
        f64::NEG_INFINITY => format!("-inf<{ty}>()"),
        _ => digits.to_owned(),
    }
}
