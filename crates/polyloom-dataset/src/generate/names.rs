//! What a programmer would call things.

use super::program::Category;
use super::sum_parts::SumParts;
use crate::catalogue::{self, OpWords};
use polyloom::{Op, Random, Type};

const SCALARS: [&str; 31] = [
    "alpha",
    "beta",
    "bias",
    "cutoff",
    "damping",
    "decay",
    "drift",
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

const WHOLE_SCALARS: [&str; 13] =
    ["alpha", "beta", "bias", "cutoff", "factor", "kappa", "lam", "mu", "nu", "offset", "period", "threshold", "width"];

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

const VECTOR_ARRAYS: [&str; 15] = [
    "axis",
    "center",
    "color",
    "direction",
    "displacement",
    "drag",
    "force",
    "momentum",
    "normal",
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

/// Pairs of words of which a kernel has one alone.
const OUTPUTS: [&[&str]; 8] = [
    &["out", "output", "outputs"],
    &["result", "results"],
    &["dst", "dest"],
    &["target"],
    &["response"],
    &["updated"],
    &["answer"],
    &["computed"],
];

/// Holds what says nothing of a value.
const LOCALS: [&str; 21] =
    ["a", "b", "c", "d", "e", "f", "g", "h", "m", "p", "q", "r", "s", "t", "term", "u", "v", "val", "w", "y", "z"];

/// Holds what statements change.
const CHANGING: [&str; 12] = ["acc", "cur", "val", "res", "value", "state_val", "r", "s", "v", "w", "y", "z"];

/// The names of a kernel: each once, and none that Python or the package has another meaning for.
#[derive(Clone, Default)]
pub(super) struct KernelNames(Vec<String>);

/// Describes what a name is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NameRole {
    /// A parameter that is no array.
    Scalar,
    /// The same of whole numbers.
    Whole,
    Array(Type),
    Output,
    Local,
    /// A local of which statements make another value.
    Changing,
}

impl KernelNames {
    /// A new name.
    pub(super) fn draw(&mut self, random: &mut Random, role: NameRole) -> String {
        for attempt in 0.. {
            let mut name = match role {
                NameRole::Scalar => random.pick(&SCALARS).to_owned(),
                NameRole::Whole => random.pick(&WHOLE_SCALARS).to_owned(),
                NameRole::Output => {
                    let is_free = |words: &&&[&str]| !words.iter().any(|word| self.0.iter().any(|known| known == word));
                    let free: Vec<&[&str]> = OUTPUTS.iter().filter(is_free).copied().collect();
                    let words = random.pick(if free.is_empty() { &OUTPUTS } else { &free });
                    random.pick(words).to_owned()
                }
                NameRole::Local => random.pick(&LOCALS).to_owned(),
                NameRole::Changing => random.pick(&CHANGING).to_owned(),
                NameRole::Array(elem) => random.pick(arrays_of(elem)).to_owned(),
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

    /// A name for what this operation gives, or one that says nothing.
    pub(super) fn draw_of(&mut self, random: &mut Random, op: Option<Op>, parts: &SumParts) -> String {
        let fits = op.map_or(&[][..], |op| names_of(op, parts));
        // Two words for one thing beside each other make a reader ask what tells them apart.
        let is_used = fits.iter().any(|name| self.0.iter().any(|known| known == name));
        if !fits.is_empty() && !is_used && random.below(10) < 8 {
            let first = random.below(fits.len());
            for at in 0..fits.len() {
                let name = fits[(first + at) % fits.len()];
                if self.take(name) {
                    return name.to_owned();
                }
            }
        }
        self.draw(random, NameRole::Local)
    }

    /// Takes this name; false if it is taken, or if Python has another meaning for it.
    pub(super) fn take(&mut self, name: &str) -> bool {
        let is_new = !is_builtin(name) && self.0.iter().all(|known| known != name);
        if is_new {
            self.0.push(name.to_owned());
        }
        is_new
    }
}

/// Functions and types that Python has without an import, and words of its own.
const BUILTINS: [&str; 46] = [
    "abs", "all", "any", "bin", "bool", "bytes", "chr", "complex", "del", "dict", "dir", "eval", "exec", "filter",
    "float", "format", "hash", "hex", "id", "in", "input", "int", "is", "iter", "lambda", "len", "list", "map", "max",
    "min", "next", "object", "oct", "open", "ord", "pow", "print", "range", "round", "set", "slice", "sorted", "str",
    "sum", "type", "zip",
];

/// Returns true if Python has the name for something of its own.
pub(super) fn is_builtin(name: &str) -> bool {
    BUILTINS.binary_search(&name).is_ok()
}

/// Returns what a value that comes from this operation is called.
fn names_of(op: Op, parts: &SumParts) -> &'static [&'static str] {
    let words = &catalogue::facts(op).words;
    words.names_with_number.filter(|_| parts.has_number).unwrap_or(words.names)
}

/// Returns what a kernel does, by its category and, where its result is computed of the array itself, the operation
/// that the result comes from.
pub(super) fn verbs(category: Category, outer: Option<Op>) -> &'static [&'static str] {
    match category {
        Category::Reduction => &["reduce", "summarize", "aggregate", "pool", "collapse", "fold"],
        Category::Scan => &["scan", "accumulate", "track", "run_along", "carry_along"],
        Category::Stencil => &["stencil", "mix_neighbours_of", "gather_around", "sweep", "combine_cells_of"],
        Category::Random => &["sample_with", "draw_with", "draw_for", "randomize_with", "mix_noise_with"],
        Category::Atomic => &["collect_from", "pool_from", "scatter_from", "merge_from"],
        Category::SharedMemory => &["tile", "block", "share", "stage", "exchange"],
        Category::Warp => &["warp_exchange", "lane_mix", "warp_combine", "combine_lanes_of", "warp_map"],
        Category::ControlFlow => &["choose_by", "switch_on", "branch_on", "select_by", "decide_on"],
        Category::Loop => &["iterate_with", "iterate_from", "accumulate_with", "loop_with", "repeat_with"],
        Category::TensorCore => &["multiply", "matmul", "project", "gemm", "contract"],
        _ => verbs_of(outer),
    }
}

/// Returns what a function may be called by what its result comes from.
pub(super) fn functions(outer: Option<Op>) -> &'static [&'static str] {
    words_of(outer).functions
}

pub(super) fn verbs_of(outer: Option<Op>) -> &'static [&'static str] {
    words_of(outer).verbs
}

fn words_of(outer: Option<Op>) -> OpWords {
    outer.map_or(OpWords::NONE, |op| catalogue::facts(op).words)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_a_builtin_of_python() {
        assert!(BUILTINS.is_sorted());
        let mut names = KernelNames::default();
        assert!(!names.take("round") && !names.take("bin") && names.take("rounded") && !names.take("rounded"));
    }
}
