//! The names of the package and of its members.

use crate::builtin_function::CompositeConstructor;
use polyloom_ir::{Op, Scalar};
use std::f64::consts;

/// The names under which the package is imported.
pub(crate) const PACKAGES: [&str; 2] = ["polyloom", "warp"];

/// Mathematical constants of the package. Warp spells each in lower and in upper case.
pub(crate) const CONSTANTS: [(&str, f64); 11] = [
    ("pi", consts::PI),
    ("tau", consts::TAU),
    ("half_pi", consts::FRAC_PI_2),
    ("e", consts::E),
    ("ln2", consts::LN_2),
    ("ln10", consts::LN_10),
    ("log2e", consts::LOG2_E),
    ("log10e", consts::LOG10_E),
    ("phi", 1.618_033_988_749_895),
    ("inf", f64::INFINITY),
    ("nan", f64::NAN),
];

/// Members of the package that are neither operations nor scalar types nor constants.
const OTHERS: [&str; 26] = [
    "handle",
    "Float",
    "Function",
    "Int",
    "Scalar",
    "array",
    "array1d",
    "array2d",
    "array3d",
    "array4d",
    "bool",
    "cast",
    "constant",
    "grad",
    "len",
    "print",
    "printf",
    "range",
    "ref",
    "indexedarray",
    "indexedarray1d",
    "indexedarray2d",
    "indexedarray3d",
    "indexedarray4d",
    "static",
    "types",
];

/// Holds what makes vectors and the like and is no type.
pub(crate) const CONSTRUCTORS: [(&str, CompositeConstructor); 9] = [
    ("vector", CompositeConstructor::Vector),
    ("matrix", CompositeConstructor::Matrix),
    ("matrix_from_rows", CompositeConstructor::Rows),
    ("matrix_from_cols", CompositeConstructor::Columns),
    ("identity", CompositeConstructor::Identity),
    ("quat_identity", CompositeConstructor::QuatIdentity),
    ("transform_identity", CompositeConstructor::TransformIdentity),
    ("quaternion", CompositeConstructor::Quaternion),
    ("transformation", CompositeConstructor::Transformation),
];

/// Every name [`crate::package_member`] knows.
pub fn package_members() -> Vec<&'static str> {
    let ops = Op::all().filter(|info| info.is_builtin());
    let mut names: Vec<&str> = ops.flat_map(|info| info.aliases.iter().copied().chain([info.name])).collect();
    names.extend(["tid"].into_iter().chain(OTHERS));
    names.extend(CONSTRUCTORS.iter().map(|(name, _)| *name));
    names.extend(Scalar::ALL.iter().map(|s| s.python_name()));
    names.extend(CONSTANTS.iter().map(|(name, _)| *name));
    names.sort_unstable();
    names.dedup();
    names
}
