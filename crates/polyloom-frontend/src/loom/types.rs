//! The names of types in `.loom`.

use polyloom_ir::Scalar;

/// The scalars as `.loom` spells them.
pub(crate) const SCALARS: [(&str, Scalar); 13] = [
    ("bool", Scalar::Bool),
    ("i8", Scalar::I8),
    ("i16", Scalar::I16),
    ("i32", Scalar::I32),
    ("i64", Scalar::I64),
    ("u8", Scalar::U8),
    ("u16", Scalar::U16),
    ("u32", Scalar::U32),
    ("u64", Scalar::U64),
    ("f16", Scalar::F16),
    ("bf16", Scalar::BF16),
    ("f32", Scalar::F32),
    ("f64", Scalar::F64),
];

/// The scalar of a name.
pub(crate) fn scalar(name: &str) -> Option<Scalar> {
    SCALARS.iter().find(|(known, _)| *known == name).map(|(_, scalar)| *scalar)
}

/// The name of a scalar.
pub(crate) fn scalar_name(scalar: Scalar) -> &'static str {
    SCALARS.iter().find(|(_, known)| *known == scalar).map_or("bool", |(name, _)| name)
}
