//! What networks are made of.

use super::{N0, N1, VEC2, VEC3, VEC4};
use crate::generate::generator::KernelGenerator;
use crate::generate::program::ProgramExtent;
use crate::number_range::NumberRange;
use polyloom::Type;

/// A matrix with a row for each thread: its name, and the element of a row.
fn matrix(g: &mut KernelGenerator, names: &[&str], low: f64, high: f64) -> String {
    g.array_like(names, Type::F32, &[N0, N1], low, high)
}

/// Writes rows: the body gives the base of each element's value.
fn write_rows(
    g: &mut KernelGenerator,
    names: &[&str],
    n: &str,
    difficulty: u8,
    body: impl FnOnce(&mut KernelGenerator, &str) -> usize,
) {
    let out = g.zeros_like(names, Type::F32, &[N0, N1]);
    let k = g.like(&["k", "c", "col", "m"]);
    g.line(&format!("for {k} in range({n}):"));
    let done = g.nested(|g| {
        let base = body(g, &k);
        let count = [0, 1, 1, 2, 4][usize::from(difficulty.min(4))] + g.random.below(2);
        let value = g.changed(base, count, true);
        let value = g.constrain(value, crate::catalogue::OperandNeed::Finite);
        g.line(&format!("{out}[i, {k}] = {}", value.text));
        g.say(format!("`{out}` there is {}", value.words));
    });
    g.say(format!("For each `{k}`: {done}."));
}

/// The exponentials of a row, as shares of one.
pub(super) fn softmax(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.threads_over(&[N0], &["i"]);
    let x = matrix(g, &["logits", "scores", "x"], -2.0, 2.0);
    let heat = g.number_like(&["temperature", "tau", "sharpness"], 0.5, 2.0);
    let heat = g.text(heat);
    let n = g.place_like(&["n", "n_cols", "width"], &format!("{x}.shape[1]"));
    let (max, exp) = (g.builtin("max"), g.builtin("exp"));
    let best = g.starting(&["best", "peak", "top"], Type::F32, &format!("{x}[i, 0]"), 2.0);
    let best = g.text(best);
    let j = g.like(&["j", "s", "a"]);
    g.line(&format!("for {j} in range(1, {n}):"));
    g.nested(|g| g.line(&format!("{best} = {max}({best}, {x}[i, {j}])")));
    let total = g.starting(&["total", "norm", "denominator"], Type::F32, "0.0", 40.0);
    let total = g.text(total);
    let j = g.like(&["j", "s", "b", "e"]);
    let part = format!("{exp}(({x}[i, {{}}] - {best}) * {heat})");
    g.line(&format!("for {j} in range({n}):"));
    g.nested(|g| g.line(&format!("{total} += {}", part.replace("{}", &j))));
    g.explain(format!(
        "`{best}` is the largest of the row of `{x}`. `{total}` is the sum of the exponentials of its elements less \
         `{best}`, each of these differences times `{heat}`."
    ));
    if g.random.one_in(2) {
        let log = g.builtin("log");
        write_rows(g, &["out", "log_probs", "result"], &n, difficulty, |g, k| {
            let value = format!("({x}[i, {k}] - {best}) * {heat} - {log}({total})");
            g.set_like(&["y", "lp"], &value, Type::F32, 20.0, "the logarithm of the share")
        });
        g.sum_up(format!("Compute the log-softmax of the rows of `{x}`, scaled by `{heat}`."));
        g.random.pick(&["log_softmax", "log_softmax_rows", "row_log_probs"])
    } else {
        write_rows(g, &["out", "probs", "weights"], &n, difficulty, |g, k| {
            let share = format!("{} / {total}", part.replace("{}", k));
            g.ranged_like(&["p", "share", "y"], &share, Type::F32, NumberRange::new(0.0, 1.0), "the share of the sum")
        });
        g.sum_up(format!("Compute the softmax of the rows of `{x}`, scaled by `{heat}`."));
        g.random.pick(&["softmax_rows", "softmax", "normalize_scores", "soft_assign"])
    }
}

/// Rows with mean zero and spread one.
pub(super) fn layer_norm(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.threads_over(&[N0], &["i"]);
    let x = matrix(g, &["x", "hidden", "features"], -2.0, 2.0);
    let scale = g.array_like(&["gamma", "weight", "gain"], Type::F32, &[N1], 0.5, 1.5);
    let n = g.place_like(&["n", "dim", "width"], &format!("{x}.shape[1]"));
    let rms = g.random.one_in(2);
    let mean = (!rms).then(|| {
        let mean = g.starting(&["mean", "mu", "avg"], Type::F32, "0.0", 2.0);
        let mean = g.text(mean);
        let j = g.like(&["j", "a", "s"]);
        g.line(&format!("for {j} in range({n}):"));
        g.nested(|g| g.line(&format!("{mean} += {x}[i, {j}]")));
        g.line(&format!("{mean} = {mean} / float({n})"));
        g.explain(format!("`{mean}` is the mean of the row of `{x}`."));
        mean
    });
    let spread = g.starting(&["sq_sum", "squares", "sum_sq"], Type::F32, "0.0", 64.0);
    let spread = g.text(spread);
    let j = g.like(&["j", "b", "s", "e"]);
    let d = g.like(&["d", "dev", "diff"]);
    g.line(&format!("for {j} in range({n}):"));
    g.nested(|g| {
        match &mean {
            Some(mean) => g.line(&format!("{d} = {x}[i, {j}] - {mean}")),
            None => g.line(&format!("{d} = {x}[i, {j}]")),
        }
        g.line(&format!("{spread} += {d} * {d}"));
    });
    g.explain(match &mean {
        Some(mean) => format!("`{spread}` is the sum of the squares of the differences of its elements and `{mean}`."),
        None => format!("`{spread}` is the sum of the squares of the elements of the row of `{x}`."),
    });
    let sqrt = g.builtin("sqrt");
    let inv = g.ranged_like(
        &["inv", "rstd", "scale_by"],
        &format!("1.0 / {sqrt}({spread} / float({n}) + 0.001)"),
        Type::F32,
        NumberRange::new(0.0, 40.0),
        if rms { "one over the root mean square" } else { "one over the spread" },
    );
    let inv = g.text(inv);
    let bias = g.random.one_in(2).then(|| g.array_like(&["beta", "bias", "shift"], Type::F32, &[N1], -0.5, 0.5));
    write_rows(g, &["out", "normed", "y"], &n, difficulty, |g, k| {
        let from = mean.as_ref().map_or(format!("{x}[i, {k}]"), |mean| format!("({x}[i, {k}] - {mean})"));
        let text = format!("{from} * {inv} * {scale}[{k}]");
        let text = bias.as_ref().map_or(text.clone(), |bias| format!("{text} + {bias}[{k}]"));
        g.set_like(&["value", "z", "normed_x"], &text, Type::F32, 200.0, "the element, normalised and scaled")
    });
    if rms {
        g.sum_up(format!("Divide the rows of `{x}` by their root mean square, scaled by `{scale}`."));
        return g.random.pick(&["rms_norm", "rms_normalize"]);
    }
    g.sum_up(format!("Normalise the rows of `{x}` to mean zero and spread one, scaled by `{scale}`."));
    g.random.pick(&["layer_norm", "normalize_rows"])
}

/// A matrix product with what follows it.
pub(super) fn matmul(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.threads_over(&[N0, N1], &["i", "j"]);
    let inner = ProgramExtent::Free(2);
    let (ta, tb) = (g.random.one_in(4), g.random.one_in(4));
    let a = g.array_like(
        &["a", "left", "lhs", "inputs"],
        Type::F32,
        &if ta { [inner, N0] } else { [N0, inner] },
        -1.0,
        1.0,
    );
    let b = g.array_like(
        &["b", "right", "rhs", "weights"],
        Type::F32,
        &if tb { [N1, inner] } else { [inner, N1] },
        -1.0,
        1.0,
    );
    let total = g.starting(&["total", "acc", "s"], Type::F32, "0.0", 32.0);
    let total_text = g.text(total);
    let k = g.like(&["k", "m", "p"]);
    g.line(&format!("for {k} in range({a}.shape[{}]):", usize::from(!ta)));
    let done = g.nested(|g| {
        let (left, right) = (
            if ta { format!("{a}[{k}, i]") } else { format!("{a}[i, {k}]") },
            if tb { format!("{b}[j, {k}]") } else { format!("{b}[{k}, j]") },
        );
        let x = g.declare(left.clone(), format!("`{left}`"), Type::F32, NumberRange::within(1.0));
        g.taken(&[x]);
        let x = g.varied(x, difficulty);
        let x = g.text(x);
        g.line(&format!("{total_text} += {x} * {right}"));
        let (line, column) = (if ta { "column" } else { "row" }, if tb { "row" } else { "column" });
        g.explain(match x == left {
            true => format!("`{total_text}` is the dot product of {line} `i` of `{a}` and {column} `j` of `{b}`"),
            false => format!("`{total_text}` adds up `{x} * {right}`"),
        });
    });
    match done.contains("; ") {
        true => g.explain(format!("For each `{k}`: {done}.")),
        false => g.explain(format!("{done}.")),
    }
    g.must_be_read(total);
    let biased = g.random.one_in(2);
    let mut sum = total;
    if biased {
        let bias = g.array_like(&["bias", "offset_j", "shift"], Type::F32, &[N1], -1.0, 1.0);
        let with_bias = format!("{total_text} + {bias}[j]");
        let what = format!("the sum with the bias `{bias}` of the column");
        sum = g.set_like(&["with_bias", "affine", "pre"], &with_bias, Type::F32, 33.0, &what);
    }
    g.written(&["out", "result"], sum, difficulty);
    let turned = |is_turned: bool| if is_turned { "the transpose of " } else { "" };
    let (of_a, of_b) = (turned(ta), turned(tb));
    g.sum_up(match ta || tb {
        true => format!("Multiply {of_a}`{a}` and {of_b}`{b}`."),
        false => format!("Multiply the matrices `{a}` and `{b}`, an element a thread."),
    });
    match biased {
        true => g.random.pick(&["dense_layer", "linear_forward", "affine_layer"]),
        false => g.random.pick(&["matmul", "gemm", "matrix_product"]),
    }
}

/// A nonlinearity, and its derivative perhaps.
pub(super) fn activation(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    match g.random.one_in(2) {
        true => g.threads_over(&[N0, N1], &["i", "j"]),
        false => g.threads_over(&[N0], &["i"]),
    }
    let x = g.element_like(&["x", "pre", "inputs", "z_in"], Type::F32, -3.0, 3.0);
    let input = g.text(x).split('[').next().unwrap_or_default().to_owned();
    let x = g.varied(x, difficulty);
    let x = g.constrained_name(x);
    let x_text = g.text(x);
    let call = |name: &str, g: &KernelGenerator| g.builtin(name);
    let (exp, tanh, log) = (call("exp", g), call("tanh", g), call("log", g));
    let wh = call("where", g);
    let slope = g.number_like(&["slope", "alpha", "leak"], 0.01, 0.9);
    let s = g.text(slope);
    let abs = call("abs", g);
    let spelled = |x: &str, at: usize| match at {
        0 => (format!("{x} / (1.0 + {exp}(-{s} * {x}))"), "swish"),
        1 => (format!("0.5 * {x} * (1.0 + {tanh}(0.7979 * ({x} + {s} * {x} * {x} * {x})))"), "gelu"),
        2 => (format!("{log}(1.0 + {exp}({s} * {x})) / {s}"), "softplus"),
        3 => (format!("{wh}({x} > 0.0, {x}, {s} * ({exp}({x}) - 1.0))"), "elu"),
        4 => (format!("{wh}({x} > 0.0, {x}, {s} * {x})"), "leaky relu"),
        5 => (format!("{x} * {tanh}({log}(1.0 + {exp}({s} * {x})))"), "mish"),
        6 => (format!("{x} / (1.0 + {s} * {abs}({x}))"), "softsign"),
        _ => (format!("{tanh}({s} * {x})"), "scaled tanh"),
    };
    let at = g.random.below(8);
    let (text, name) = spelled(&x_text, at);
    let shown = x_text.split('[').next().unwrap_or_default().to_owned();
    let what = format!("the {name} of `{shown}` with the parameter `{s}`");
    let y = g.set_like(&["y", "act", "f"], &text, Type::F32, 60.0, &what);
    if g.random.one_in(2) {
        let (y_text, h) = (g.text(y), "0.01");
        let near = g.like(&["near", "ahead", "x_h"]);
        g.line(&format!("{near} = {x_text} + {h}"));
        g.explain(format!("`{near}` is `{x_text} + {h}`."));
        let (other, _) = spelled(&near, at);
        let other = g.set_like(&["y_h", "f_near", "other"], &other, Type::F32, 60.0, &format!("the same at `{near}`"));
        let other = g.text(other);
        let slope = g.set_like(
            &["dy", "derivative", "grad"],
            &format!("({other} - {y_text}) / {h}"),
            Type::F32,
            60.0,
            "the difference quotient, for the slope",
        );
        g.kept(&["slopes", "derivatives", "grads"], slope);
    }
    g.written(&["out", "layer_out", "result"], y, difficulty);
    g.sum_up(format!("Apply the {name} activation to `{input}`, element by element."));
    [
        "swish_layer",
        "gelu_layer",
        "softplus_layer",
        "elu_layer",
        "leaky_relu_layer",
        "mish_layer",
        "softsign_layer",
        "tanh_layer",
    ][at]
}

/// A step of an optimiser.
pub(super) fn optimizer(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.threads_over(&[N0], &["i"]);
    let w = g.element_like(&["weights", "theta", "params"], Type::F32, -1.0, 1.0);
    let d = g.element_like(&["grads", "gradient", "dw"], Type::F32, -1.0, 1.0);
    let m = g.element_like(&["momentum", "m_state", "velocity"], Type::F32, -0.5, 0.5);
    let rate = g.number_like(&["lr", "learning_rate", "rate"], 0.01, 0.1);
    let keep = g.number_like(&["beta1", "mu", "keep"], 0.5, 0.95);
    let texts = [w, d, m, rate, keep].map(|index| g.text(index));
    let mut grad = g.set_like(&["gw", "slope", "g_now"], &texts[1], Type::F32, 1.0, "");
    if g.random.one_in(2) {
        let decay = g.number_like(&["weight_decay", "l2"], 0.0, 0.1);
        let (now, decay) = (g.text(grad), g.text(decay));
        grad = g.set_like(
            &["regular", "g_reg"],
            &format!("{now} + {decay} * {}", texts[0]),
            Type::F32,
            1.2,
            "the gradient with weight decay",
        );
    }
    let grad = g.varied(grad, difficulty);
    let grad = g.text(grad);
    let next = g.set_like(
        &["m_next", "avg", "m1"],
        &format!("{0} * {1} + (1.0 - {0}) * {grad}", texts[4], texts[2]),
        Type::F32,
        4.0,
        &format!("the running mean of `{grad}`"),
    );
    let m1 = g.text(next);
    let kind = g.random.below(3);
    let change = match kind {
        0 => {
            let v = g.element_like(&["second", "v_state", "squares"], Type::F32, 0.01, 0.5);
            let keep = g.number_like(&["beta2", "keep_sq"], 0.8, 0.99);
            let (v, keep) = (g.text(v), g.text(keep));
            let v1 = g.ranged_like(
                &["v_next", "v1"],
                &format!("{keep} * {v} + (1.0 - {keep}) * {grad} * {grad}"),
                Type::F32,
                NumberRange::new(0.0, 4.0),
                &format!("the running mean of the square of `{grad}`"),
            );
            let (v1, sqrt) = (g.text(v1), g.builtin("sqrt"));
            g.line(&format!("{v} = {v1}"));
            g.say(format!("`{}` becomes `{v1}`.", bare(&v)));
            format!("{} * {m1} / ({sqrt}({v1}) + 0.01)", texts[3])
        }
        1 => format!("{} * ({} * {m1} + {grad})", texts[3], texts[4]),
        _ => {
            let sign = g.builtin("tanh");
            format!("{} * {sign}(5.0 * {m1})", texts[3])
        }
    };
    let change = g.set_like(&["change", "delta", "update"], &change, Type::F32, 40.0, "the step");
    let change = g.varied(change, difficulty);
    let change_text = g.text(change);
    g.line(&format!("{} = {m1}", texts[2]));
    g.line(&format!("{} = {} - {change_text}", texts[0], texts[0]));
    g.say(format!("`{}` becomes `{m1}`.", bare(&texts[2])));
    g.say(format!("`{0}` becomes `{0}` less `{change_text}`.", bare(&texts[0])));
    if g.random.one_in(3) || difficulty > 2 {
        g.written(&["out", "result"], change, difficulty);
    }
    let (how, name) = [
        ("an Adam-like step", g.random.pick(&["adam_step", "adaptive_step", "adam_update"])),
        ("Nesterov's momentum", g.random.pick(&["nesterov_step", "momentum_step", "momentum_update"])),
        ("a step of bounded size", g.random.pick(&["soft_sign_step", "bounded_step", "clipped_momentum_step"])),
    ][kind];
    g.sum_up(format!("Update `{}` from the gradients `{}` by {how}.", bare(&texts[0]), bare(&texts[1])));
    name
}

/// The loss of a classifier.
pub(super) fn cross_entropy(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.threads_over(&[N0], &["i"]);
    let classes = g.random.pick(&[4, 5, 8, 10]);
    let x =
        g.array_like(&["logits", "scores", "class_scores"], Type::F32, &[N0, ProgramExtent::Is(classes)], -2.0, 2.0);
    let label = g.array_like(&["labels", "targets", "classes"], Type::I32, &[N0], 0.0, f64::from(classes - 1));
    let exp = g.builtin("exp");
    let total = g.starting(&["total", "norm", "z"], Type::F32, "0.0", 80.0);
    let total_text = g.text(total);
    let j = g.like(&["j", "c", "k"]);
    let n = if g.random.one_in(2) { classes.to_string() } else { format!("{x}.shape[1]") };
    g.line(&format!("for {j} in range({n}):"));
    g.nested(|g| g.line(&format!("{total_text} += {exp}({x}[i, {j}])")));
    g.explain(format!("`{total_text}` is the sum of the exponentials of the row of `{x}`."));
    let log = g.builtin("log");
    let kind = g.random.below(3);
    let loss = match kind {
        0 => format!("{log}({total_text}) - {x}[i, {label}[i]]"),
        1 => {
            let p = g.ranged_like(
                &["p", "share", "confidence"],
                &format!("{exp}({x}[i, {label}[i]]) / {total_text}"),
                Type::F32,
                NumberRange::new(0.001, 1.0),
                "the share of the right class",
            );
            let p = g.text(p);
            let focus = g.random.pick(&["(1.0 - {p})", "(1.0 - {p}) * (1.0 - {p})"]).replace("{p}", &p);
            format!("-{focus} * {log}({p})")
        }
        _ => {
            let smooth = g.number_like(&["smoothing", "label_smooth"], 0.0, 0.2);
            let smooth = g.text(smooth);
            format!("{log}({total_text}) - (1.0 - {smooth}) * {x}[i, {label}[i]]")
        }
    };
    let what = [
        "the negative logarithm of the share of the right class",
        "the focal loss",
        "the cross entropy with the logit of the right class damped by the smoothing",
    ][kind];
    let range = NumberRange::new(if kind == 2 { -2.0 } else { 0.0 }, 10.0);
    let loss = g.ranged_like(&["loss", "nll", "cost"], &loss, Type::F32, range, what);
    g.written(&["out", "result"], loss, difficulty);
    g.sum_up(format!("Compute the loss of a classifier from `{x}` for the classes `{label}`."));
    [
        g.random.pick(&["cross_entropy", "nll_loss", "classifier_loss"]),
        g.random.pick(&["focal_loss", "focal_cross_entropy"]),
        g.random.pick(&["smoothed_cross_entropy", "soft_label_loss"]),
    ][kind]
}

/// One query over all keys.
pub(super) fn attention(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    let ty = g.random.pick(&[VEC2, VEC3, VEC4]);
    g.with_composite(ty);
    g.threads_over(&[N0], &["i"]);
    let q = g.element_like(&["queries", "q", "asks"], ty, -1.0, 1.0);
    let keys = g.array_like(&["keys", "k", "memory"], ty, &[N1], -1.0, 1.0);
    let values = g.array_like(&["values", "v", "content"], ty, &[N1], -1.0, 1.0);
    let scale = g.number_like(&["scale", "inv_temp"], 0.3, 1.0);
    let (q, scale) = (g.text(q), g.text(scale));
    let (dot, exp, zero) = (g.builtin("dot"), g.builtin("exp"), g.type_name(ty));
    let total = g.starting(&["total", "norm"], Type::F32, "0.0", 600.0);
    let sum = g.starting(&["mixed", "acc", "blend_sum"], ty, &format!("{zero}()"), 600.0);
    let (total, sum_text) = (g.text(total), g.text(sum));
    let j = g.like(&["j", "n", "m"]);
    g.line(&format!("for {j} in range({keys}.shape[0]):"));
    let causal = g.random.one_in(3);
    let done = g.nested(|g| {
        if causal {
            g.line(&format!("if {j} > i:"));
            g.nested(|g| g.line("break"));
        }
        let score = g.set_like(
            &["score", "match_now", "logit"],
            &format!("{scale} * {dot}({q}, {keys}[{j}])"),
            Type::F32,
            4.0,
            "how the key matches the query",
        );
        let score = g.varied(score, difficulty);
        let score = g.constrained_name(score);
        let w = g.ranged_like(
            &["w", "weight_j"],
            &format!("{exp}({})", g.text(score)),
            Type::F32,
            NumberRange::new(0.0, 3e3),
            &format!("the exponential of `{}`", g.text(score)),
        );
        let w = g.text(w);
        g.line(&format!("{total} += {w}"));
        g.line(&format!("{sum_text} += {w} * {values}[{j}]"));
        g.explain(format!("`{total}` adds up `{w}`."));
        g.explain(format!("`{sum_text}` adds up `{w} * {values}[{j}]`."));
    });
    let which = if causal { " up to the query's own place" } else { "" };
    g.explain(format!("For each `{j}` of `{keys}`{which}: {done}."));
    g.must_be_read(sum);
    let mean = g.set_like(
        &["answer", "context", "attended"],
        &format!("{sum_text} / {total}"),
        ty,
        1.0,
        &format!("the weighted mean of `{values}`{which}"),
    );
    g.written(&["out", "result"], mean, difficulty);
    g.sum_up(format!("Attend from each query of `{}` to `{keys}` and mix `{values}`.", bare(&q)));
    match causal {
        true => g.random.pick(&["causal_attention", "masked_attention", "attend_to_past"]),
        false => g.random.pick(&["attention_row", "soft_lookup", "attend", "weighted_recall"]),
    }
}

/// The nearest of several centers.
pub(super) fn nearest_centroid(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    let ty = g.random.pick(&[VEC2, VEC3, VEC4]);
    g.with_composite(ty);
    g.threads_over(&[N0], &["i"]);
    let x = g.element_like(&["points", "samples", "features"], ty, -2.0, 2.0);
    let n = g.random.pick(&[4, 6, 8]);
    let centers = g.array_like(&["centroids", "centers", "means"], ty, &[ProgramExtent::Is(n)], -2.0, 2.0);
    let x = g.text(x);
    let best = g.starting(&["best", "nearest", "closest"], Type::F32, "1000.0", 100.0);
    let label = g.starting(&["label", "winner", "which"], Type::I32, "0", 8.0);
    let (best_text, label_text) = (g.text(best), g.text(label));
    let j = g.like(&["j", "c", "k"]);
    let (length, norm, dot) = (g.builtin("length"), g.builtin("norm_l1"), g.builtin("dot"));
    let weighted = g.random.one_in(3);
    g.line(&format!("for {j} in range({centers}.shape[0]):"));
    let done = g.nested(|g| {
        let d = g.set_like(&["delta", "diff"], &format!("{x} - {centers}[{j}]"), ty, 4.0, "");
        let d = g.text(d);
        let (text, what) = match g.random.below(3) {
            0 => (format!("{dot}({d}, {d})"), "the squared distance from the center"),
            1 => (format!("{length}({d})"), "the distance from the center"),
            _ => (format!("{norm}({d})"), "the distance from the center along the axes"),
        };
        let dist = g.ranged_like(&["dist", "d2", "gap"], &text, Type::F32, NumberRange::new(0.0, 70.0), what);
        let mut dist = g.text(dist);
        if weighted {
            let weights =
                g.array_like(&["priors", "penalty", "center_weights"], Type::F32, &[ProgramExtent::Is(n)], 0.5, 1.5);
            let what = format!("that distance weighted by `{weights}`");
            let value = format!("{dist} * {weights}[{j}]");
            let index = g.ranged_like(
                &["cost_j", "penalized", "effective"],
                &value,
                Type::F32,
                NumberRange::new(0.0, 105.0),
                &what,
            );
            dist = g.text(index);
        }
        g.line(&format!("if {dist} < {best_text}:"));
        g.nested(|g| {
            g.line(&format!("{best_text} = {dist}"));
            g.line(&format!("{label_text} = {j}"));
        });
        g.explain(format!("`{best_text}` is the least `{dist}` so far"));
        g.explain(format!("`{label_text}` is its place"));
    });
    g.explain(format!("For each `{j}` of `{centers}`: {done}."));
    let out = g.zeros_like(&["labels", "assigned", "cluster"], Type::I32, &[N0]);
    g.line(&format!("{out}[i] = {label_text}"));
    g.say(format!("`{out}` is `{label_text}`."));
    g.must_be_read(best);
    g.written(&["out", "result"], best, difficulty);
    g.sum_up(format!("Find for each of `{}` the center in `{centers}` that it belongs to.", bare(&x)));
    g.random.pick(&["assign_clusters", "nearest_centroid", "kmeans_assign", "quantize_points"])
}

/// The array of an element.
fn bare(element: &str) -> &str {
    element.split('[').next().unwrap_or(element)
}

impl KernelGenerator {
    /// The variable, or one made of it that is of moderate size.
    pub(super) fn constrained_name(&mut self, index: usize) -> usize {
        let value = self.read(index);
        let value = self.constrain(value, crate::catalogue::OperandNeed::Moderate);
        if value.text == self.text(index) {
            return index;
        }
        let index = self.assign_new(value);
        self.taken(&[index]);
        index
    }
}
