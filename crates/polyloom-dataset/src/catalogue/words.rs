//! Words for what ops do, by families of ops that share them.

/// Holds what programmers call the result of an op, and what ends with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpWords {
    /// Names of variables that have its result.
    pub(crate) names: &'static [&'static str],
    /// The same where one of its operands is a number; none if it makes no difference.
    pub(crate) names_with_number: Option<&'static [&'static str]>,
    /// Verbs that begin names of kernels, before the name of an array.
    pub(crate) verbs: &'static [&'static str],
    /// Names of functions.
    pub(crate) functions: &'static [&'static str],
}

impl OpWords {
    /// Words for any computation.
    pub(crate) const NONE: OpWords = OpWords {
        names: &[],
        names_with_number: None,
        verbs: &["transform", "map", "process", "evaluate_on", "compute_from", "derive_from"],
        functions: &["respond", "transfer", "convert", "evaluate", "transform", "derive"],
    };

    const fn of(
        names: &'static [&'static str],
        verbs: &'static [&'static str],
        functions: &'static [&'static str],
    ) -> OpWords {
        OpWords { names, names_with_number: None, verbs, functions }
    }

    const fn with_number(self, names: &'static [&'static str]) -> OpWords {
        OpWords { names_with_number: Some(names), ..self }
    }
}

const MOVED: &[&str] = &["shifted", "moved", "biased"];

pub(super) const SUM: OpWords = OpWords::of(
    &["total", "combined", "joint", "both"],
    &["combine", "offset", "add_to", "shift"],
    &["combine", "join", "add_up"],
)
.with_number(MOVED);

pub(super) const DIFFERENCE: OpWords =
    OpWords::of(&["diff", "delta", "gap"], &["shift", "offset", "contrast"], &["contrast", "difference", "deviate"])
        .with_number(MOVED);

pub(super) const PRODUCT: OpWords =
    OpWords::of(&["prod", "product"], &["scale", "weigh", "modulate"], &["weigh", "modulate", "couple"])
        .with_number(&["scaled", "weighted"]);

pub(super) const QUOTIENT: OpWords =
    OpWords::of(&["ratio", "quotient", "quot"], &["divide", "rescale", "relate"], &["relate", "rescale", "proportion"]);

pub(super) const REMAINDER: OpWords =
    OpWords::of(&["wrapped", "remainder", "rem"], &["wrap", "fold", "reduce_range_of"], &["wrap", "fold", "cycle"]);

const LIMIT: &[&str] = &["bound", "limit", "clip", "cap"];

pub(super) const MINIMUM: OpWords = OpWords::of(&["lesser", "smaller", "low"], LIMIT, &["cap", "at_most", "lower_to"]);

pub(super) const MAXIMUM: OpWords =
    OpWords::of(&["greater", "larger", "high"], LIMIT, &["raise_to", "at_least", "floor_by"]);

pub(super) const CLAMP: OpWords =
    OpWords::of(&["clipped", "bounded", "limited"], LIMIT, &["limit", "confine", "saturate"]);

pub(super) const SATURATION: OpWords = OpWords::of(
    &["squashed", "eased"],
    &["saturate", "squash", "soften", "compress"],
    &["squash", "saturate", "soften"],
);

pub(super) const WAVE: OpWords =
    OpWords::of(&["wave", "osc"], &["oscillate", "wave_of"], &["ripple", "wave", "oscillate"]);

pub(super) const EXPONENTIAL: OpWords =
    OpWords::of(&["expo", "exponential"], &["exponentiate", "grow"], &["grow", "exponential"]);

pub(super) const LOGARITHM: OpWords =
    OpWords::of(&["log_value", "logged"], &["log_scale", "compress", "take_log_of"], &["log_scale", "compress"]);

pub(super) const ROOT: OpWords = OpWords::of(&["root"], &["take_root_of", "compress"], &["root_scale", "take_root"]);

pub(super) const POWER: OpWords =
    OpWords::of(&["power", "powered"], &["raise", "power_of"], &["power_law", "raise_power"]);

pub(super) const MAGNITUDE: OpWords =
    OpWords::of(&[], &["measure", "magnitude_of", "size_of"], &["magnitude", "extent_size"]);

pub(super) const BLEND: OpWords =
    OpWords::of(&["mixed", "blend"], &["blend", "interpolate", "mix"], &["blend", "interpolate"]);

pub(super) const PROJECTION: OpWords =
    OpWords::of(&["dotted", "overlap"], &["project", "correlate", "contract"], &["project", "correlate"]);

pub(super) const ROUNDING: OpWords =
    OpWords::of(&["rounded", "stepped"], &["quantize", "round", "discretize"], &["quantize", "snap"]);

pub(super) const DIRECTION: OpWords =
    OpWords::of(&["unit", "direction"], &["normalize", "direction_of"], &["direct", "orient"]);

pub(super) const ROTATION: OpWords =
    OpWords::of(&["rotated", "turned"], &["rotate", "turn", "orient"], OpWords::NONE.functions);

pub(super) const BITS: OpWords = OpWords::of(&[], &["encode", "pack", "mask"], OpWords::NONE.functions);

pub(super) const NEGATION: OpWords =
    OpWords::of(&["negated", "opposite"], &["negate", "flip"], OpWords::NONE.functions);

pub(super) const CHOICE: OpWords =
    OpWords::of(&["chosen", "picked", "selected"], OpWords::NONE.verbs, &["choose", "select"]);

/// Names for an angle.
pub(super) const ANGLE: &[&str] = &["angle", "phi"];
