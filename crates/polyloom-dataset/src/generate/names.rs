//! What a programmer would call things.

use polyloom::{Random, Type};
use std::collections::HashSet;

const VERBS: [&str; 40] = [
    "accumulate",
    "adjust",
    "advance",
    "apply",
    "attenuate",
    "balance",
    "blend",
    "combine",
    "compute",
    "damp",
    "diffuse",
    "encode",
    "estimate",
    "evaluate",
    "filter",
    "fold",
    "integrate",
    "interpolate",
    "limit",
    "map",
    "measure",
    "mix",
    "modulate",
    "normalize",
    "perturb",
    "project",
    "propagate",
    "rate",
    "refine",
    "relax",
    "remap",
    "resample",
    "rescale",
    "score",
    "shape",
    "shift",
    "smooth",
    "track",
    "transform",
    "update",
];

const SUBJECTS: [&str; 40] = [
    "activation",
    "albedo",
    "amplitude",
    "brightness",
    "charge",
    "concentration",
    "contrast",
    "current",
    "density",
    "depth",
    "displacement",
    "divergence",
    "elevation",
    "energy",
    "error",
    "exposure",
    "field",
    "flux",
    "friction",
    "gain",
    "gradient",
    "heat",
    "humidity",
    "intensity",
    "latency",
    "load",
    "luminance",
    "moisture",
    "phase",
    "potential",
    "power",
    "pressure",
    "response",
    "roughness",
    "salinity",
    "signal",
    "strain",
    "temperature",
    "tension",
    "velocity",
];

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
pub(super) struct Names(HashSet<String>);

/// What a name is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Kernel,
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
                Role::Kernel => format!("{}_{}", random.pick(&VERBS), random.pick(&SUBJECTS)),
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
        self.0.insert(name.to_owned())
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
