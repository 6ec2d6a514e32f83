//! The names Python code knows without defining them: Python's builtins, the package's members, and `math`'s.
//!
//! Operations come from the op table; what is listed here is what the table has no entry for.

use crate::builtin_function::BuiltinFunction;
use crate::environment::CapturedMeaning;
use crate::package_names::{CONSTANTS, CONSTRUCTORS};
use crate::param_type::{ParamType, ScalarSet, TypePattern};
use polyloom_ir::{Composite, CompositeKind, Op, Scalar, op};

/// Functions of Python's `math` whose meaning is the package's own. `floor`, `ceil` and `trunc` are not among them,
/// because Python's give integers.
const MATH_FUNCTIONS: [&str; 32] = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "copysign", "cos", "cosh", "degrees", "erf",
    "erfc", "exp", "exp2", "expm1", "fma", "hypot", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2",
    "pow", "radians", "sin", "sinh", "sqrt", "tan",
];

/// Returns what one of Python's own builtins means in a kernel.
pub fn python_builtin(name: &str) -> Option<CapturedMeaning> {
    Some(match name {
        "bool" => CapturedMeaning::Type(Scalar::Bool),
        "int" => CapturedMeaning::Type(Scalar::I32),
        "float" => CapturedMeaning::Type(Scalar::F32),
        "range" => CapturedMeaning::Builtin(BuiltinFunction::Range),
        "len" => CapturedMeaning::Builtin(BuiltinFunction::Len),
        "print" => CapturedMeaning::Builtin(BuiltinFunction::Print),
        "min" => CapturedMeaning::Builtin(BuiltinFunction::Fold(Op::Min)),
        "max" => CapturedMeaning::Builtin(BuiltinFunction::Fold(Op::Max)),
        "abs" => CapturedMeaning::Builtin(BuiltinFunction::Op(Op::Abs)),
        "round" => CapturedMeaning::Builtin(BuiltinFunction::Op(Op::Round)),
        "pow" => CapturedMeaning::Builtin(BuiltinFunction::Op(Op::Pow)),
        _ => return None,
    })
}

/// The names [`python_builtin`] knows.
pub(crate) const PYTHON_BUILTINS: [&str; 11] =
    ["abs", "bool", "float", "int", "len", "max", "min", "pow", "print", "range", "round"];

/// Returns what a member of the package, `loom.NAME`, means in a kernel.
pub fn package_member(name: &str) -> Option<CapturedMeaning> {
    if let Some(scalar) = Scalar::from_python_name(name) {
        return Some(CapturedMeaning::Type(scalar));
    }
    if let Some(composite) = Composite::from_python_name(name) {
        return Some(CapturedMeaning::Composite(composite));
    }
    let builtin = match name {
        // Warp's name for what stands for an object elsewhere.
        "handle" => return Some(CapturedMeaning::Type(Scalar::U64)),
        "tid" => BuiltinFunction::Tid,
        "min" => BuiltinFunction::Fold(Op::Min),
        "max" => BuiltinFunction::Fold(Op::Max),
        "cast" => BuiltinFunction::Cast,
        "static" | "constant" => BuiltinFunction::Constant,
        "printf" => BuiltinFunction::Printf,
        "grad" => BuiltinFunction::Grad,
        "float" | "int" | "len" | "print" | "range" => return python_builtin(name),
        "types" => return Some(CapturedMeaning::Module("polyloom.types".into())),
        "Float" | "Int" | "Scalar" => return type_variable(name),
        "Function" => return Some(CapturedMeaning::Annotation(ParamType::Function)),
        "array" => return Some(CapturedMeaning::ArrayConstructor(None)),
        "ref" => return Some(CapturedMeaning::ReferenceConstructor),
        "indexedarray" => return Some(CapturedMeaning::IndexedArrayConstructor(None)),
        _ => {
            if let Some((_, constructor)) = CONSTRUCTORS.iter().find(|(known, _)| *known == name) {
                return Some(CapturedMeaning::Builtin(BuiltinFunction::Construct(*constructor)));
            }
            if let Some(ndim) = name.strip_prefix("indexedarray").and_then(|n| n.strip_suffix('d'))
                && let Ok(ndim @ 1..=4) = ndim.parse::<u8>()
            {
                return Some(CapturedMeaning::IndexedArrayConstructor(Some(ndim)));
            }
            if let Some(ndim) = name.strip_prefix("array").and_then(|n| n.strip_suffix('d'))
                && let Ok(ndim @ 1..=4) = ndim.parse::<u8>()
            {
                return Some(CapturedMeaning::ArrayConstructor(Some(ndim)));
            }
            if let Some(op) = Op::from_builtin_name(name) {
                return Some(CapturedMeaning::Builtin(BuiltinFunction::Op(op)));
            }
            return constant(name).map(CapturedMeaning::Float);
        }
    };
    Some(CapturedMeaning::Builtin(builtin))
}

/// Returns what a member of the package's module `types` means.
pub fn types_member(name: &str) -> Option<CapturedMeaning> {
    CompositeKind::from_python_name(name).map(CapturedMeaning::TypeConstructor).or_else(|| type_variable(name))
}

/// The package's own type variables.
fn type_variable(name: &str) -> Option<CapturedMeaning> {
    let set = match name {
        "Float" => ScalarSet::floats(),
        "Int" => ScalarSet::integers(),
        "Scalar" => ScalarSet::numbers(),
        _ => return None,
    };
    Some(CapturedMeaning::Annotation(ParamType::Generic(TypePattern::Scalar(set))))
}

/// Returns what a member of Python's `math` or of `numpy` means in a kernel.
pub fn library_member(module: &str, name: &str) -> Option<CapturedMeaning> {
    match (module, name) {
        ("math" | "numpy", "pi" | "e" | "inf" | "nan") | ("math", "tau") => constant(name).map(CapturedMeaning::Float),
        ("numpy", "bool_") => Some(CapturedMeaning::Type(Scalar::Bool)),
        ("numpy", _) => Scalar::from_python_name(name).map(CapturedMeaning::Type),
        ("math", "fabs") => Some(CapturedMeaning::Builtin(BuiltinFunction::Op(Op::Abs))),
        ("math", _) if MATH_FUNCTIONS.contains(&name) => {
            Op::from_builtin_name(name).map(|op| CapturedMeaning::Builtin(BuiltinFunction::Op(op)))
        }
        ("typing", "Any") => Some(CapturedMeaning::Any),
        ("typing", "TypeVar") => Some(CapturedMeaning::TypeVariable),
        ("typing" | "collections.abc", "Callable") => Some(CapturedMeaning::Annotation(ParamType::Function)),
        _ => None,
    }
}

/// Returns what the package calls what NumPy, Python, CUDA or mathematics call `name`, where spelling alone would not
/// tell.
pub(crate) fn other_name(name: &str) -> Option<&'static str> {
    Some(match name {
        "norm" | "magnitude" => "length",
        "inv" => "inverse",
        "det" => "determinant",
        "arccos" => "acos",
        "arcsin" => "asin",
        "arctan" => "atan",
        "arctan2" => "atan2",
        "absolute" | "fabs" => "abs",
        "power" => "pow",
        "maximum" | "fmax" => "max",
        "minimum" | "fmin" => "min",
        "clip" => "clamp",
        "rad2deg" => "degrees",
        "deg2rad" => "radians",
        "__syncthreads" => "sync_threads",
        "__syncwarp" => "sync_warp",
        "__threadfence" | "__threadfence_block" | "__threadfence_system" => "thread_fence",
        "__shfl_sync" => "shuffle",
        "__shfl_up_sync" => "shuffle_up",
        "__shfl_down_sync" => "shuffle_down",
        "__shfl_xor_sync" => "shuffle_xor",
        "__ballot_sync" => "ballot",
        "__any_sync" => "warp_any",
        "__all_sync" => "warp_all",
        "__match_any_sync" => "match_any",
        "__match_all_sync" => "match_all",
        "__ldg" => "load_readonly",
        _ => return None,
    })
    .filter(|known| package_member(known).is_some())
}

/// Returns what a builtin of Warp's is about that has no counterpart here.
pub(crate) fn left_out(name: &str) -> Option<&'static str> {
    let groups = [
        ("tile_", "tiles"),
        ("mesh_", "meshes"),
        ("bvh_", "bounding volume hierarchies"),
        ("hash_grid_", "hash grids"),
        ("volume_", "volumes"),
        ("texture_", "textures"),
    ];
    groups.into_iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, what)| what)
}

/// Functions of the package and of NumPy that make arrays, which kernels cannot.
pub(crate) fn makes_arrays(name: &str) -> bool {
    matches!(
        name.strip_suffix("_like").unwrap_or(name),
        "array" | "zeros" | "ones" | "empty" | "full" | "clone" | "copy" | "from_numpy" | "arange" | "linspace" | "eye"
    )
}

/// Returns what to write for one of Python's own functions that kernels do not have; `None` for another name.
pub(crate) fn instead_of_python(name: &str, package: &str) -> Option<String> {
    Some(match name {
        "sum" => {
            format!("write a loop: `for j in range(len(a)): s += a[j]`; threads add up with `{package}.atomic_add(…)`")
        }
        "any" | "all" | "sorted" | "reversed" | "map" | "filter" | "next" | "iter" => {
            "write a loop over `range(…)`".to_owned()
        }
        "enumerate" | "zip" => "write `for i in range(len(a)):` and use `a[i]`".to_owned(),
        "divmod" => "write `a // b` and `a % b`".to_owned(),
        "list" | "tuple" | "dict" | "set" => "use an array parameter, or one variable for each value".to_owned(),
        "str" | "repr" | "format" => "strings can only be printed: `print(\"text\", x)`".to_owned(),
        "isinstance" | "type" => "types are known when a kernel is compiled: remove it".to_owned(),
        "input" | "open" | "exec" | "eval" => "do it outside the kernel, and pass the value".to_owned(),
        _ => return None,
    })
}

fn constant(name: &str) -> Option<f64> {
    let upper = !name.chars().any(|c| c.is_ascii_lowercase());
    let lower = name.to_ascii_lowercase();
    CONSTANTS.iter().find(|(n, _)| if upper { *n == lower } else { *n == name }).map(|(_, value)| *value)
}

/// The op an operator's name in the table stands for, as messages spell it: `+` for `add`.
pub(crate) fn operator_text(op: Op) -> &'static str {
    match op.info().spelling {
        op::OpSpelling::Operator(text) => text,
        _ => op.name(),
    }
}
