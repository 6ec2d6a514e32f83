//! What programs do to a result before they keep it: scaling, limits, masks, activations, blending, calibration.
//!
//! Each change has a name that says what it is, brings the inputs that it needs, and describes itself by its
//! expression, so that a docstring stays true however they are combined.

use super::{N0, N1};
use crate::generate::expr::GeneratedExpr;
use crate::generate::generator::KernelGenerator;
use crate::generate::program::ProgramExtent;
use crate::number_range::NumberRange;
use polyloom::{Op, Type};

/// A change of a value, if it suits it, and names for the outcome.
type Change = fn(&mut KernelGenerator, &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])>;

/// Changes that suit numbers and vectors, wherever they occur.
const ANYWHERE: [Change; 8] = [scaled, weighted, limited, divided, masked, decayed, blended, modulated];

/// Changes of what is about to be kept.
const OF_RESULTS: [Change; 22] = [
    scaled,
    weighted,
    limited,
    divided,
    masked,
    decayed,
    blended,
    modulated,
    shifted,
    corrected,
    activated,
    thresholded,
    shaped,
    squared,
    deviating,
    quantized,
    capped,
    calibrated,
    tabulated,
    compressed,
    eased,
    with_residual,
];

/// The same, without the least.
const LONG: [Change; 14] = [
    tabulated,
    calibrated,
    compressed,
    eased,
    thresholded,
    masked,
    decayed,
    blended,
    limited,
    activated,
    shaped,
    quantized,
    capped,
    corrected,
];

/// Says how many of those are several lines.
const N_LONGEST: usize = 5;

impl KernelGenerator {
    /// The value after so many changes.
    pub(super) fn changed(&mut self, base: usize, count: usize, is_result: bool) -> GeneratedExpr {
        let mut value = self.read(base);
        let mut done: Vec<usize> = Vec::new();
        let list: &[Change] = match count {
            _ if !is_result => &ANYWHERE,
            5.. => &LONG,
            _ => &OF_RESULTS,
        };
        for step in 0..count {
            for _ in 0..4 {
                let among = if count >= 5 && step < 4 { N_LONGEST } else { list.len() };
                let at = self.random.below(among);
                if done.contains(&at) {
                    continue;
                }
                if let Some((next, names)) = list[at](self, &value) {
                    done.push(at);
                    let is_last = step + 1 == count;
                    let is_short = next.text.len() < if is_last { 56 } else { 24 };
                    // What is still short is part of what comes next, or of the assignment.
                    value = match next.is_bare() || is_short && self.random.below(3) < 1 + usize::from(is_last) {
                        true => next,
                        false => self.named_like(names, next),
                    };
                    break;
                }
            }
        }
        value
    }

    /// A new variable under one of these names.
    pub(super) fn named_like(&mut self, names: &[&str], value: GeneratedExpr) -> GeneratedExpr {
        let index = self.unsaid_like(names, &value.text, value.ty, value.range);
        let name = self.text(index);
        self.explain(format!("`{name}` is {}.", value.words));
        self.read(index)
    }

    fn own_element(&mut self, names: &[&str], ty: Type, low: f64, high: f64) -> GeneratedExpr {
        let index = self.element_like(names, ty, low, high);
        self.read(index)
    }

    fn own_number(&mut self, names: &[&str], low: f64, high: f64) -> GeneratedExpr {
        let index = self.number_like(names, low, high);
        self.read(index)
    }
}

fn is_number(x: &GeneratedExpr) -> bool {
    x.ty == Type::F32
}

fn product(g: &mut KernelGenerator, x: &GeneratedExpr, factor: &GeneratedExpr) -> GeneratedExpr {
    let range = x.range * factor.range;
    match g.random.one_in(2) {
        true => GeneratedExpr::binary("*", x, factor, x.ty, range),
        false => GeneratedExpr::binary("*", factor, x, x.ty, range),
    }
}

fn scaled(g: &mut KernelGenerator, x: &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])> {
    let factor = match g.random.below(4) {
        0 => g.pick_number(&[0.5, 2.0, 0.25, 0.1, 1.5, 4.0, 10.0]),
        _ => g.own_number(&["gain", "scale", "strength", "factor", "amplitude", "multiplier"], 0.25, 2.0),
    };
    Some((product(g, x, &factor), &["scaled", "amplified", "boosted"]))
}

fn weighted(g: &mut KernelGenerator, x: &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])> {
    let names = &["weights", "importance", "coverage", "confidence", "density", "mass_fraction", "visibility", "share"];
    let weight = g.own_element(names, Type::F32, 0.1, 1.0);
    Some((product(g, x, &weight), &["weighted", "scaled_by_weight"]))
}

fn limited(g: &mut KernelGenerator, x: &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])> {
    if !is_number(x) {
        // The length is limited, and not the components.
        let most = g.own_number(&["max_length", "max_norm", "limit"], 0.5, 2.0);
        let (tiny, one) = (g.number(0.0001), g.number(1.0));
        let elem = Type::F32;
        let length = GeneratedExpr::call(&g.builtin("length"), &[x], elem, NumberRange::new(0.0, 1e4)).by(Op::Length);
        let length = GeneratedExpr::binary("+", &length, &tiny, elem, NumberRange::new(1e-4, 1e4));
        let length = g.named_like(&["norm_now", "size_now", "reach_now"], length);
        let ratio = GeneratedExpr::binary("/", &most, &length, elem, NumberRange::new(0.0, 1e4));
        let factor = g.applied(Op::Min, &[&one, &ratio]);
        let range = NumberRange::within(2.0);
        return Some((GeneratedExpr::binary("*", x, &factor, x.ty, range), &["limited", "clipped"]));
    }
    if x.range.size() < 0.5 || x.head == Some(Op::Clamp) {
        return None;
    }
    let signed = x.range.low < 0.0;
    let zero = g.number(0.0);
    match g.random.below(3) {
        0 => {
            let bound = match x.range.high > 3.0 {
                true => g.random.pick(&[2.0, 3.0, 4.0, 5.0]),
                false => (g.random.pick(&[0.5, 0.6, 0.75]) * x.range.high * 20.0).round() / 20.0,
            };
            let (low, high) = (g.number(if signed { -bound } else { 0.0 }), g.number(bound));
            let range = NumberRange::new(low.range.low, bound);
            (bound > 0.2).then(|| (g.applied_within(Op::Clamp, &[x, &low, &high], range), &["clipped", "limited"][..]))
        }
        _ => {
            // Much of a wide range is never reached.
            let high = x.range.size().min(1.5);
            let limit = g.own_number(&["limit", "max_value", "bound", "ceiling"], 0.15 * high, 0.5 * high);
            let high = limit.range.high;
            let low = if signed { GeneratedExpr::unary("-", &limit, Type::F32, -limit.range) } else { zero };
            let range = NumberRange::new(if signed { -high } else { 0.0 }, high);
            Some((g.applied_within(Op::Clamp, &[x, &low, &limit], range), &["clipped", "limited", "bounded"]))
        }
    }
}

fn divided(g: &mut KernelGenerator, x: &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])> {
    let names = &["normalizer", "reference", "unit", "full_scale", "baseline_scale"];
    let divisor = match g.random.one_in(3) {
        true => g.own_element(&["reference", "capacity", "calibration", "expected"], Type::F32, 0.5, 2.0),
        false => g.own_number(names, 0.5, 4.0),
    };
    let range = x.range / divisor.range;
    Some((GeneratedExpr::binary("/", x, &divisor, x.ty, range), &["relative", "normalized", "ratio"]))
}

fn masked(g: &mut KernelGenerator, x: &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])> {
    let mask = g.own_element(&["mask", "active", "valid", "enabled", "inside"], Type::I32, 0.0, 1.0);
    let (none, one) = (GeneratedExpr::int(0), GeneratedExpr::int(1));
    let truth = NumberRange::new(0.0, 1.0);
    let test = match g.random.below(3) {
        0 => GeneratedExpr::binary(">", &mask, &none, Type::BOOL, truth),
        1 => GeneratedExpr::binary("==", &mask, &one, Type::BOOL, truth),
        _ => GeneratedExpr::binary("!=", &mask, &none, Type::BOOL, truth),
    };
    let zero = match is_number(x) {
        true => g.pick_number(&[0.0, 0.0, -1.0, 1.0]),
        false => g.zero(x.ty),
    };
    let range = x.range.or(zero.range);
    match g.random.below(3) {
        0 => Some((product(g, x, &GeneratedExpr::call("float", &[&mask], Type::F32, truth)), &["masked", "kept"])),
        1 => Some((GeneratedExpr::conditional(&test, x, &zero, range), &["masked", "kept", "gated"])),
        _ => {
            let mut chosen = GeneratedExpr::call(&g.builtin("where"), &[&test, x, &zero], x.ty, range);
            chosen.words = format!("`{}` where {} and {} elsewhere", x.text, test.words, zero.words);
            Some((chosen, &["masked", "kept", "selected"]))
        }
    }
}

fn decayed(g: &mut KernelGenerator, x: &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])> {
    let rate = g.own_number(&["decay_rate", "absorption", "extinction", "loss_rate"], 0.1, 1.0);
    let along = g.own_element(&["age", "elapsed", "path_length", "optical_depth", "distance"], Type::F32, 0.0, 2.0);
    let minus = GeneratedExpr::unary("-", &rate, Type::F32, -rate.range);
    let power = GeneratedExpr::binary("*", &minus, &along, Type::F32, minus.range * along.range);
    let factor = g.applied_within(Op::Exp, &[&power], NumberRange::new(0.1, 1.0));
    Some((product(g, x, &factor), &["decayed", "attenuated", "faded"]))
}

fn blended(g: &mut KernelGenerator, x: &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])> {
    let old = g.own_element(&["previous", "history", "old_value", "last_result"], x.ty, -1.0, 1.0);
    let share = g.own_number(&["blend", "momentum", "smoothing", "inertia"], 0.1, 0.9);
    let range = x.range.or(old.range);
    if g.random.one_in(2) {
        let mixed = g.applied_within(Op::Lerp, &[x, &old, &share], range);
        return Some((mixed, &["blended", "smoothed", "averaged"]));
    }
    let one = g.number(1.0);
    let other = GeneratedExpr::binary("-", &one, &share, Type::F32, one.range - share.range);
    let (a, b) = (
        GeneratedExpr::binary("*", &share, &old, x.ty, share.range * old.range),
        GeneratedExpr::binary("*", &other, x, x.ty, other.range * x.range),
    );
    Some((GeneratedExpr::binary("+", &a, &b, x.ty, range), &["blended", "smoothed", "averaged"]))
}

fn modulated(g: &mut KernelGenerator, x: &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])> {
    let phase = g.own_element(&["phase", "carrier_angle", "carrier_phase"], Type::F32, -1.2, 1.2);
    let op = g.random.pick(&[Op::Cos, Op::Cos, Op::Sin]);
    let wave = g.applied_within(op, &[&phase], NumberRange::within(1.0));
    Some((product(g, x, &wave), &["modulated", "projected", "in_phase"]))
}

fn shifted(g: &mut KernelGenerator, x: &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])> {
    let bias = match is_number(x) {
        true => g.own_number(&["bias", "offset", "baseline", "pedestal"], -1.0, 1.0),
        false => {
            let name = g.scalar_like(&["bias", "offset", "drift", "translation"], x.ty, -1.0, 1.0);
            GeneratedExpr::atom(name, x.ty, NumberRange::within(1.0))
        }
    };
    Some((GeneratedExpr::binary("+", x, &bias, x.ty, x.range + bias.range), &["shifted", "biased", "offset_by"]))
}

fn corrected(g: &mut KernelGenerator, x: &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])> {
    let dark = g.own_element(&["background", "dark_level", "correction", "drift_field"], x.ty, -1.0, 1.0);
    Some((GeneratedExpr::binary("-", x, &dark, x.ty, x.range - dark.range), &["corrected", "net"]))
}

fn with_residual(g: &mut KernelGenerator, x: &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])> {
    let skip = g.own_element(&["residual", "skip", "carry_over", "base_value"], x.ty, -1.0, 1.0);
    Some((GeneratedExpr::binary("+", x, &skip, x.ty, x.range + skip.range), &["combined", "summed", "with_skip"]))
}

fn activated(g: &mut KernelGenerator, x: &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])> {
    let tame = is_number(x) && x.range.size() <= 40.0;
    if !tame || x.range.low >= 0.0 {
        return None;
    }
    let (zero, one) = (g.number(0.0), g.number(1.0));
    let names: &[&str] = &["activated", "response", "squashed"];
    let minus = GeneratedExpr::unary("-", x, x.ty, -x.range);
    Some(match g.random.below(5) {
        0 => (g.applied(Op::Max, &[x, &zero]), &["rectified", "positive_part"]),
        1 => (g.applied_within(Op::Tanh, &[x], NumberRange::within(1.0)), names),
        2 => {
            let power = g.applied_within(Op::Exp, &[&minus], NumberRange::new(0.0, 1e18));
            let more = GeneratedExpr::binary("+", &one, &power, x.ty, NumberRange::new(1.0, 1e18));
            (
                GeneratedExpr::binary("/", &one, &more, x.ty, NumberRange::new(0.0, 1.0)),
                &["probability", "activated", "gate"],
            )
        }
        3 => {
            let power = g.applied_within(Op::Exp, &[x], NumberRange::new(0.0, 1e18));
            let more = GeneratedExpr::binary("+", &one, &power, x.ty, NumberRange::new(1.0, 1e18));
            (g.applied_within(Op::Log, &[&more], NumberRange::new(0.0, 41.0)), &["softened", "activated"])
        }
        _ => {
            let leak = g.pick_number(&[0.01, 0.1, 0.2]);
            let leaked = GeneratedExpr::binary("*", &leak, x, x.ty, leak.range * x.range);
            (g.applied_within(Op::Max, &[x, &leaked], x.range), &["rectified", "activated"])
        }
    })
}

fn thresholded(g: &mut KernelGenerator, x: &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])> {
    if !is_number(x) {
        return None;
    }
    let zero = g.number(0.0);
    let cut = g.own_number(&["threshold", "noise_floor", "dead_zone", "tolerance"], 0.05, 0.4);
    let size = if x.range.low >= 0.0 { x.clone() } else { g.applied(Op::Abs, &[x]) };
    let test = GeneratedExpr::binary("<", &size, &cut, Type::BOOL, NumberRange::new(0.0, 1.0));
    let range = x.range.or(NumberRange::of(0.0));
    if g.random.one_in(2) {
        return Some((GeneratedExpr::conditional(&test, &zero, x, range), &["thresholded", "denoised"]));
    }
    let names = &["denoised", "thresholded", "significant"];
    let at = g.unsaid_like(names, &format!("float({})", x.text), Type::F32, range);
    let name = g.text(at);
    g.line(&format!("if {}:", test.text));
    g.nested(|g| g.line(&format!("{name} = 0.0")));
    g.explain(format!("`{name}` is `{}`, or zero where {}.", x.text, test.words));
    Some((g.read(at), names))
}

fn shaped(g: &mut KernelGenerator, x: &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])> {
    if !is_number(x) || x.range.high < 0.2 || x.range.size() > 1e3 {
        return None;
    }
    let gamma = g.own_number(&["gamma", "exponent", "hardness", "contrast"], 0.5, 2.0);
    let least = g.number(0.01);
    let base = g.applied_within(Op::Max, &[x, &least], NumberRange::new(0.01, x.range.high));
    let high = x.range.high.max(1.0).powi(2);
    Some((
        g.applied_within(Op::Pow, &[&base, &gamma], NumberRange::new(0.0, high)),
        &["shaped", "gamma_corrected", "curved"],
    ))
}

fn squared(g: &mut KernelGenerator, x: &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])> {
    if x.range.size() > 100.0 {
        return None;
    }
    let elem = Type::F32;
    match is_number(x) {
        true if x.range.low < 0.0 && g.random.one_in(2) => {
            Some((g.applied(Op::Abs, &[x]), &["magnitude", "absolute_value"]))
        }
        true if x.is_bare() => {
            Some((GeneratedExpr::binary("*", x, x, elem, x.range.squared()), &["squared", "energy", "power"]))
        }
        true => None,
        false => {
            let op = g.random.pick(&[Op::Length, Op::LengthSq]);
            let range = NumberRange::new(0.0, 4.0 * x.range.size().powi(2) + 4.0);
            let length = GeneratedExpr::call(&g.builtin(op.name()), &[x], elem, range).by(op);
            Some((length, &["magnitude", "norm", "intensity"]))
        }
    }
}

fn deviating(g: &mut KernelGenerator, x: &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])> {
    let wanted = g.own_element(&["target", "expected_value", "desired", "measured", "setpoint"], x.ty, -1.0, 1.0);
    let (a, b) = if g.random.one_in(2) { (x, &wanted) } else { (&wanted, x) };
    Some((GeneratedExpr::binary("-", a, b, x.ty, a.range - b.range), &["error", "deviation", "mismatch"]))
}

fn quantized(g: &mut KernelGenerator, x: &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])> {
    if !is_number(x) || x.range.size() > 1e4 {
        return None;
    }
    let step = g.own_number(&["quantum", "bin_width", "resolution"], 0.01, 0.1);
    let steps = GeneratedExpr::binary("/", x, &step, Type::F32, x.range / step.range);
    let op = g.random.pick(&[Op::Floor, Op::Round, Op::Rint]);
    let whole = g.applied_within(op, &[&steps], steps.range);
    Some((GeneratedExpr::binary("*", &whole, &step, Type::F32, x.range), &["quantized", "snapped", "rounded"]))
}

fn capped(g: &mut KernelGenerator, x: &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])> {
    if !is_number(x) || x.range.size() < 0.5 {
        return None;
    }
    let (op, names, low, called): (Op, &[&str], f64, &[&str]) = match g.random.one_in(2) && x.range.low < 0.5 {
        true => (Op::Max, &["lower_bound", "floor_level", "minimum"], -1.0, &["bounded", "raised", "admissible"]),
        false => {
            let names = &["capacity_limit", "upper_bound", "saturation_level"];
            (Op::Min, names, 0.0, &["bounded", "capped", "admissible"])
        }
    };
    let bound = g.own_element(names, Type::F32, low, 1.0);
    Some((g.applied(op, &[x, &bound]), called))
}

fn calibrated(g: &mut KernelGenerator, x: &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])> {
    if !is_number(x) || x.range.size() > 8.0 {
        return None;
    }
    let n = g.random.pick(&[3, 4, 5]);
    let coefs = g.array_like(&["coefs", "calibration_coefs", "poly"], Type::F32, &[ProgramExtent::Is(n)], -1.0, 1.0);
    let names = &["calibrated", "poly_value", "fitted"];
    let bound = (0..n).map(|power| x.range.size().max(1.0).powi(power as i32)).sum::<f64>();
    let at = g.unsaid_like(names, "float(0.0)", Type::F32, NumberRange::within(bound));
    let (name, k) = (g.text(at), g.like(&["order", "term_idx", "power_idx"]));
    g.line(&format!("for {k} in range({n}):"));
    let inner = x.within_product();
    g.nested(|g| g.line(&format!("{name} = {name} * {inner} + {coefs}[{k}]")));
    g.explain(format!(
        "`{name}` is the polynomial in `{}` with the {n} coefficients `{coefs}`, that of the highest power first.",
        x.text
    ));
    Some((g.read(at), names))
}

fn tabulated(g: &mut KernelGenerator, x: &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])> {
    if !is_number(x) || x.range.size() > 1e4 {
        return None;
    }
    let n = g.random.pick(&[8, 16, 32]);
    let table =
        g.array_like(&["table", "lut", "response_curve", "transfer"], Type::F32, &[ProgramExtent::Is(n)], -1.0, 1.0);
    let (clamp, min) = (g.builtin("clamp"), g.builtin("min"));
    let room = f64::from(n) / 2.0;
    let fits = [4.0, 2.0, 1.5, 0.5].into_iter().find(|step| step * x.range.size() <= room);
    let step = g.real(fits.unwrap_or(0.25));
    let middle = if x.range.low < 0.0 { format!(" + {}.0", n / 2) } else { String::new() };
    let inner = x.within_product();
    let place = g.like(&["place", "slot", "table_place"]);
    g.line(&format!("{place} = {clamp}({step} * {inner}{middle}, 0.0, {}.0)", n - 1));
    let (low, high) = (g.like(&["below", "lower_idx", "k0"]), g.like(&["above", "upper_idx", "k1"]));
    g.line(&format!("{low} = int({place})"));
    g.line(&format!("{high} = {min}({low} + 1, {})", n - 1));
    let share = g.like(&["weight_up", "part_up", "share_above"]);
    g.line(&format!("{share} = {place} - float({low})"));
    let (lerp, names) = (g.builtin("lerp"), &["looked_up", "from_table", "mapped_value"]);
    let value = match g.random.one_in(2) {
        true => format!("{lerp}({table}[{low}], {table}[{high}], {share})"),
        false => format!("(1.0 - {share}) * {table}[{low}] + {share} * {table}[{high}]"),
    };
    let what = format!(
        "looked up in the {n} entries of `{table}` at the place `{step} * {inner}{middle}`, no further than either end, \
         by interpolation"
    );
    let at = g.ranged_like(names, &value, Type::F32, NumberRange::within(1.0), &what);
    Some((g.read(at), names))
}

fn compressed(g: &mut KernelGenerator, x: &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])> {
    if !is_number(x) || x.range.high < 0.5 {
        return None;
    }
    let knee = g.own_number(&["knee", "soft_limit", "onset"], 0.2, 0.5);
    let slope = g.own_number(&["compression", "residual_slope", "roll_off"], 0.1, 0.6);
    let names = &["compressed", "rolled_off", "limited_softly"];
    let at = g.unsaid_like(names, &format!("float({})", x.text), Type::F32, x.range.or(NumberRange::of(0.0)));
    let (name, knee, slope) = (g.text(at), knee.text, slope.text);
    g.line(&format!("if {name} > {knee}:"));
    g.nested(|g| g.line(&format!("{name} = {knee} + {slope} * ({name} - {knee})")));
    if x.range.low < -0.5 && g.random.one_in(2) {
        g.line(&format!("elif {name} < -{knee}:"));
        g.nested(|g| g.line(&format!("{name} = -{knee} + {slope} * ({name} + {knee})")));
        g.explain(format!("`{name}` is `{}`, beyond plus and minus `{knee}` with the slope `{slope}`.", x.text));
    } else {
        g.explain(format!("`{name}` is `{}`, above `{knee}` with the slope `{slope}`.", x.text));
    }
    Some((g.read(at), names))
}

fn eased(g: &mut KernelGenerator, x: &GeneratedExpr) -> Option<(GeneratedExpr, &'static [&'static str])> {
    let start = g.own_element(&["state", "filter_state", "memory", "level_before"], x.ty, -1.0, 1.0);
    let rate = g.own_number(&["ease", "follow_rate", "adaptation"], 0.1, 0.9);
    let rounds = g.random.pick(&["2", "3", "4"]);
    let names = &["eased", "followed", "settled"];
    let target = if x.is_bare() { x.clone() } else { g.named_like(&["goal", "aim"], x.clone()) };
    let value = if is_number(x) { format!("float({})", start.text) } else { start.text.clone() };
    let at = g.unsaid_like(names, &value, x.ty, x.range.or(start.range));
    let (name, k) = (g.text(at), g.like(&["round_idx", "sweep", "relax_it"]));
    g.line(&format!("for {k} in range({rounds}):"));
    g.nested(|g| g.line(&format!("{name} += {} * ({} - {name})", rate.text, target.text)));
    g.explain(format!(
        "`{name}` is what {} comes to in {rounds} steps towards `{}` at the rate `{}`.",
        start.words, target.text, rate.text
    ));
    Some((g.read(at), names))
}

/// The extents of arrays with an element for each thread.
pub(super) fn of_threads(n: usize) -> &'static [ProgramExtent] {
    const DIM: [ProgramExtent; 3] = [N0, N1, ProgramExtent::Free(2)];
    &DIM[..n]
}
