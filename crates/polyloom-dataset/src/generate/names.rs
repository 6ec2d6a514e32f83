//! What a programmer would call things.

use super::program::Category;
use polyloom::{Op, Random, Type};

const SCALARS: [&str; 32] = [
    "alpha",
    "beta",
    "bias",
    "cutoff",
    "damping",
    "decay",
    "drift",
    "eps",
    "factor",
    "gain",
    "gamma",
    "kappa",
    "lam",
    "margin",
    "mu",
    "nu",
    "offset",
    "omega",
    "period",
    "rate",
    "ratio",
    "rho",
    "scale",
    "sharpness",
    "sigma",
    "slope",
    "stiffness",
    "strength",
    "tau",
    "theta",
    "threshold",
    "width",
];

const NUMBER_ARRAYS: [&str; 32] = [
    "amplitude",
    "angles",
    "charge",
    "density",
    "depth",
    "dose",
    "energy",
    "field",
    "height",
    "image",
    "intensity",
    "levels",
    "mass",
    "noise_level",
    "odds",
    "phase",
    "potential",
    "pressure",
    "radius",
    "readings",
    "samples",
    "score",
    "signal",
    "speed",
    "temperature",
    "thickness",
    "time",
    "values",
    "voltage",
    "volume",
    "weights",
    "x",
];

const VECTOR_ARRAYS: [&str; 16] = [
    "axis",
    "center",
    "color",
    "direction",
    "displacement",
    "drag",
    "force",
    "momentum",
    "normal",
    "offset",
    "points",
    "position",
    "ray",
    "tangent",
    "velocity",
    "wind",
];

const MATRIX_ARRAYS: [&str; 12] = [
    "basis",
    "covariance",
    "deformation",
    "frame",
    "inertia",
    "jacobian",
    "mixing",
    "metric",
    "mapping",
    "rotation",
    "strain",
    "stress",
];

const ROTATION_ARRAYS: [&str; 6] = ["orientation", "pose", "attitude", "heading", "joint", "twist"];

const INTEGER_ARRAYS: [&str; 14] = [
    "age", "bucket", "codes", "counts", "flags", "group", "hits", "index", "kind", "labels", "level", "marks", "rank",
    "steps",
];

const OUTPUTS: [&str; 12] =
    ["out", "result", "output", "dst", "target", "response", "estimate", "updated", "answer", "total", "found", "dest"];

const LOCALS: [&str; 44] = [
    "a", "b", "base", "blend", "c", "center", "change", "coef", "corr", "d", "delta", "diff", "e", "excess", "f",
    "falloff", "fraction", "g", "h", "inner", "level", "local", "m", "mean", "mid", "outer", "p", "part", "q", "r",
    "raw", "rest", "s", "share", "shifted", "side", "span", "t", "term", "u", "v", "w", "y", "z",
];

const FUNCTIONS: [&str; 20] = [
    "bend",
    "bump",
    "compress",
    "curve",
    "damped",
    "ease",
    "envelope",
    "falloff_of",
    "feather",
    "kernel_weight",
    "profile",
    "pulse",
    "ramp",
    "respond",
    "ripple",
    "saturate",
    "soften",
    "squash",
    "transfer",
    "window",
];

/// The names of a kernel: each once, and none that Python or the package has another meaning for.
#[derive(Clone, Default)]
pub(super) struct Names(Vec<String>);

/// What a name is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Function,
    /// A parameter that is no array.
    Scalar,
    Array(Type),
    Output,
    Local,
}

impl Names {
    /// A new name.
    pub(super) fn draw(&mut self, random: &mut Random, role: Role) -> String {
        for attempt in 0.. {
            let mut name = match role {
                Role::Function => random.pick(&FUNCTIONS).to_owned(),
                Role::Scalar => random.pick(&SCALARS).to_owned(),
                Role::Output => random.pick(&OUTPUTS).to_owned(),
                Role::Local => random.pick(&LOCALS).to_owned(),
                Role::Array(elem) => random.pick(arrays_of(elem)).to_owned(),
            };
            // All of a list may be taken.
            if attempt >= 8 {
                name = format!("{name}{}", attempt - 6);
            }
            if self.take(&name) {
                return name;
            }
        }
        unreachable!("there are numbers enough")
    }

    /// Takes this name; false if it is taken.
    pub(super) fn take(&mut self, name: &str) -> bool {
        let is_new = self.0.iter().all(|known| known != name);
        if is_new {
            self.0.push(name.to_owned());
        }
        is_new
    }
}

/// What a kernel does, by its category and the operation that its result comes from.
pub(super) fn verbs(category: Category, outer: Option<Op>) -> &'static [&'static str] {
    match category {
        Category::Reduction => &["reduce", "summarize", "aggregate", "pool", "collapse", "fold"],
        Category::Scan => &["scan", "accumulate", "track", "run_along", "sweep", "filter"],
        Category::Stencil => &["stencil", "mix_neighbours_of", "sweep", "filter", "combine_cells_of"],
        Category::Random => &["sample", "perturb", "jitter", "randomize", "simulate", "draw"],
        Category::Atomic => &["collect", "bin", "histogram", "tally", "scatter", "gather_totals_of"],
        Category::SharedMemory => &["tile", "block", "share", "stage", "exchange"],
        Category::Warp => &["shuffle", "warp_exchange", "lane_mix", "warp_combine", "vote_on"],
        Category::ControlFlow => &["classify", "choose", "switch", "gate", "select", "branch_on"],
        Category::Loop => &["iterate", "refine", "approximate", "evolve", "expand", "converge"],
        Category::TensorCore => &["multiply", "matmul", "project", "gemm", "contract"],
        _ => verbs_of(outer),
    }
}

fn verbs_of(outer: Option<Op>) -> &'static [&'static str] {
    match outer {
        Some(Op::Add) => &["combine", "offset", "add_to", "shift", "superpose"],
        Some(Op::Sub) => &["compare", "subtract_from", "contrast", "correct", "center"],
        Some(Op::Mul | Op::CwMul) => &["scale", "weigh", "modulate", "amplify", "apply_gain_to"],
        Some(Op::Div | Op::CwDiv) => &["normalize", "divide", "rescale", "relate", "attenuate"],
        Some(Op::Mod | Op::Frac) => &["wrap", "fold", "reduce_range_of"],
        Some(Op::Min | Op::Max | Op::Clamp) => &["bound", "limit", "clip", "cap"],
        Some(Op::Tanh | Op::Erf | Op::Atan | Op::Smoothstep) => &["saturate", "squash", "soften", "compress"],
        Some(Op::Sin | Op::Cos | Op::Tan) => &["oscillate", "modulate_phase_of", "wave_of", "warp"],
        Some(Op::Exp | Op::Exp2 | Op::Expm1 | Op::Cosh | Op::Sinh) => &["exponentiate", "grow", "amplify", "inflate"],
        Some(Op::Log | Op::Log2 | Op::Log10 | Op::Log1p) => &["log_scale", "compress", "take_log_of"],
        Some(Op::Sqrt | Op::Cbrt | Op::Rsqrt | Op::Pow) => &["raise", "shape", "power_of", "gamma_correct"],
        Some(Op::Abs | Op::Length | Op::LengthSq | Op::NormL1 | Op::Hypot) => &["measure", "magnitude_of", "size_of"],
        Some(Op::Lerp | Op::QuatSlerp) => &["blend", "interpolate", "mix"],
        Some(Op::Dot | Op::Cross | Op::Outer | Op::Ddot) => &["project", "correlate", "contract"],
        Some(Op::Floor | Op::Ceil | Op::Round | Op::Rint | Op::Trunc) => &["quantize", "round", "discretize"],
        Some(Op::Normalize) => &["normalize", "direction_of"],
        Some(Op::QuatRotate | Op::QuatRotateInv) => &["rotate", "turn", "orient"],
        Some(Op::BitAnd | Op::BitOr | Op::BitXor | Op::Lshift | Op::Rshift) => &["encode", "pack", "mask"],
        Some(Op::Neg | Op::Invert) => &["invert", "negate", "flip"],
        Some(Op::Transpose | Op::Inverse) => &["transform", "map", "invert"],
        _ => &["evaluate", "transform", "compute", "map", "derive"],
    }
}

fn arrays_of(elem: Type) -> &'static [&'static str] {
    use polyloom::CompositeKind::{Matrix, Quaternion, Transform, Vector};
    match elem.as_composite().map(|composite| composite.kind()) {
        Some(Vector) => &VECTOR_ARRAYS,
        Some(Matrix) => &MATRIX_ARRAYS,
        Some(Quaternion | Transform) => &ROTATION_ARRAYS,
        None if elem.is_float() => &NUMBER_ARRAYS,
        None => &INTEGER_ARRAYS,
    }
}
