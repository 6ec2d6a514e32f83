//! What goes through a sequence or a graph: filters, recurrent cells, sparse matrices.

use super::{N0, N1};
use crate::generate::generator::KernelGenerator;
use crate::generate::program::ProgramExtent;
use crate::number_range::NumberRange;
use polyloom::Type;

/// A filter that follows a series of measurements.
pub(super) fn tracking(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.threads_over(&[N0], &["i"]);
    let z = g.array_like(&["measurements", "series", "signal", "readings"], Type::F32, &[N0, N1], -1.0, 1.0);
    let kind = g.random.below(4);
    let x = g.starting(&["estimate", "level", "mean_now"], Type::F32, &format!("{z}[i, 0]"), 4.0);
    let x_text = g.text(x);
    let (abs, clamp) = (g.builtin("abs"), g.builtin("clamp"));
    let second_names: &[&str] =
        [&["variance", "spread"][..], &["rate", "drift"], &["trend", "tilt"], &["energy", "power"]][kind];
    let second = g.starting(second_names, Type::F32, if matches!(kind, 0 | 3) { "1.0" } else { "0.0" }, 20.0);
    let p = g.text(second);
    let numbers: [[(&[&str], f64, f64); 2]; 4] = [
        [(&["process_noise", "noise_q"], 0.01, 0.1), (&["sensor_noise", "noise_r"], 0.1, 1.0)],
        [(&["alpha", "gain_x"], 0.2, 0.8), (&["beta", "gain_v"], 0.05, 0.3)],
        [(&["smoothing", "alpha"], 0.2, 0.8), (&["trend_smoothing", "beta"], 0.05, 0.4)],
        [(&["attack", "rise"], 0.3, 0.9), (&["release", "fall"], 0.05, 0.3)],
    ];
    let [a, b] = numbers[kind].map(|(names, low, high)| g.number_like(names, low, high));
    let [a, b] = [a, b].map(|index| g.text(index));
    let gate = g.random.one_in(2).then(|| {
        let gate = g.number_like(&["gate", "outlier_limit", "max_jump"], 0.5, 1.5);
        (g.text(gate), g.random.one_in(2))
    });
    let t = g.like(&["t", "step", "k"]);
    g.line(&format!("for {t} in range(1, {z}.shape[1]):"));
    let done = g.nested(|g| {
        let ahead = match kind {
            1 | 2 => {
                g.set_like(&["ahead", "forecast"], &format!("{x_text} + {p}"), Type::F32, 24.0, "what is expected")
            }
            _ => x,
        };
        let ahead = g.text(ahead);
        let miss = g.set_like(
            &["miss", "innovation", "surprise"],
            &format!("{z}[i, {t}] - {ahead}"),
            Type::F32,
            24.0,
            &format!("the difference of the measurement and `{ahead}`"),
        );
        let mut miss = g.text(miss);
        if let Some((gate, skips)) = &gate {
            match skips {
                true => {
                    g.line(&format!("if {abs}({miss}) > {gate}:"));
                    g.nested(|g| g.line("continue"));
                    g.explain(format!("where `{abs}({miss})` is greater than `{gate}`, skip the rest of this round"));
                }
                false => {
                    let text = format!("{clamp}({miss}, -{gate}, {gate})");
                    let what = format!("the same, kept from `-{gate}` to `{gate}`");
                    let kept = g.set_like(&["bounded_miss", "accepted"], &text, Type::F32, 1.5, &what);
                    miss = g.text(kept);
                }
            }
        }
        match kind {
            0 => {
                let wide = g.ranged_like(
                    &["prior", "widened"],
                    &format!("{p} + {a}"),
                    Type::F32,
                    NumberRange::new(0.01, 3.0),
                    "",
                );
                let wide = g.text(wide);
                let gain = format!("{wide} / ({wide} + {b})");
                let what = format!("the share of `{p} + {a}` in the sum with `{b}`");
                let gain = g.ranged_like(&["gain", "kalman_gain"], &gain, Type::F32, NumberRange::new(0.0, 1.0), &what);
                let gain = g.text(gain);
                g.line(&format!("{x_text} += {gain} * {miss}"));
                g.line(&format!("{p} = (1.0 - {gain}) * {wide}"));
                g.explain(format!("`{x_text}` grows by `{gain} * {miss}`"));
                g.explain(format!("`{p}` becomes `(1.0 - {gain}) * ({p} + {a})`"));
            }
            1 | 2 => {
                g.line(&format!("{x_text} = {ahead} + {a} * {miss}"));
                g.line(&format!("{p} += {b} * {miss}"));
                g.explain(format!("`{x_text}` becomes `{ahead} + {a} * {miss}`"));
                g.explain(format!("`{p}` grows by `{b} * {miss}`"));
            }
            _ => {
                let speed = g.ranged_like(
                    &["pace", "speed_now"],
                    &format!("{a} if {miss} > 0.0 else {b}"),
                    Type::F32,
                    NumberRange::new(0.05, 0.9),
                    &format!("`{a}` where `{miss}` is greater than 0 and `{b}` elsewhere"),
                );
                let speed = g.text(speed);
                g.line(&format!("{x_text} += {speed} * {miss}"));
                g.line(&format!("{p} = 0.9 * {p} + 0.1 * {miss} * {miss}"));
                g.explain(format!("`{x_text}` grows by `{speed} * {miss}`"));
                g.explain(format!("`{p}` becomes `0.9 * {p} + 0.1 * {miss} * {miss}`"));
            }
        }
    });
    g.explain(format!("`{x_text}` starts as the first of the row of `{z}`."));
    g.explain(format!("`{p}` starts as {}.", if matches!(kind, 0 | 3) { "1.0" } else { "0.0" }));
    g.explain(format!("For each `{t}` from 1 on: {done}."));
    g.must_be_read(x);
    g.must_be_read(second);
    g.written(&["out", "result"], x, difficulty);
    // The variance does not depend on what is measured.
    if kind != 0 {
        g.kept(&["out_second", "final_spread", "second_state"], second);
    }
    let what =
        ["by a Kalman filter", "by an alpha-beta filter", "by Holt's double smoothing", "by an envelope of two rates"]
            [kind];
    g.sum_up(format!("Follow the rows of `{z}` {what}."));
    [
        g.random.pick(&["kalman_filter", "kalman_track", "filter_rows"]),
        g.random.pick(&["alpha_beta_filter", "track_targets"]),
        g.random.pick(&["holt_smoothing", "forecast_rows", "trend_smoothing"]),
        g.random.pick(&["envelope_follower", "attack_release"]),
    ][kind]
}

/// A step of a recurrent cell with gates.
pub(super) fn recurrent_cell(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.threads_over(&[N0], &["i"]);
    let gates = g.array_like(&["gates", "preact", "gate_inputs"], Type::F32, &[N0, ProgramExtent::Is(4)], -2.0, 2.0);
    let kind = g.random.below(3);
    let state = match kind {
        1 => g.element_like(&["hidden", "h_prev", "h_state"], Type::F32, -1.0, 1.0),
        _ => g.element_like(&["cell", "c_prev", "c_state"], Type::F32, -1.0, 1.0),
    };
    let state = g.text(state);
    let (exp, tanh) = (g.builtin("exp"), g.builtin("tanh"));
    let sigmoid = g.like(&["sigmoid", "logistic", "squash"]);
    let as_function = g.random.one_in(2);
    if as_function {
        let told = g.item(&sigmoid, &[("x".to_owned(), "float".to_owned())], |g| {
            g.line(&format!("return 1.0 / (1.0 + {exp}(-x))"));
            String::new()
        });
        g.explain(told.sentence(&format!("{sigmoid}(x)")));
    }
    let squashed = |text: &str| match (as_function, text.contains(" + ")) {
        (true, _) => format!("{sigmoid}({text})"),
        (false, true) => format!("1.0 / (1.0 + {exp}(-({text})))"),
        (false, false) => format!("1.0 / (1.0 + {exp}(-{text}))"),
    };
    let fraction = NumberRange::new(0.0, 1.0);
    let peephole = g.random.one_in(3).then(|| {
        let peep = g.number_like(&["peephole", "peep"], -0.5, 0.5);
        format!(" + {} * {state}", g.text(peep))
    });
    let peephole = peephole.unwrap_or_default();
    let forget_bias = g.random.one_in(2).then(|| {
        let bias = g.number_like(&["forget_bias", "gate_bias"], 0.0, 1.0);
        format!(" + {}", g.text(bias))
    });
    let forget_bias = forget_bias.unwrap_or_default();
    let first = squashed(&format!("{gates}[i, 0]{peephole}"));
    let first = g.ranged_like(&["in_gate", "input_gate", "update_gate"], &first, Type::F32, fraction, "the first gate");
    let second = squashed(&format!("{gates}[i, 1]{forget_bias}"));
    let second =
        g.ranged_like(&["keep_gate", "forget_gate", "reset_gate"], &second, Type::F32, fraction, "the second gate");
    let second = g.varied(second, difficulty);
    let [first, second] = [first, second].map(|index| g.text(index));
    let fresh = match kind {
        1 => format!("{tanh}({gates}[i, 2] + {second} * {gates}[i, 3] * {state})"),
        _ => format!("{tanh}({gates}[i, 2])"),
    };
    let fresh = g.set_like(&["fresh", "candidate", "proposal"], &fresh, Type::F32, 1.0, "the new content");
    let fresh = g.text(fresh);
    let next = match kind {
        0 => format!("{second} * {state} + {first} * {fresh}"),
        1 => format!("(1.0 - {first}) * {state} + {first} * {fresh}"),
        _ => format!("{second} * {state} + (1.0 - {second}) * {first} * {fresh}"),
    };
    let next = g.set_like(&["c_next", "next_state", "updated_cell"], &next, Type::F32, 2.0, "the state after the step");
    if kind == 1 {
        g.written(&["out", "hidden_out"], next, difficulty);
    } else {
        let text = squashed(&format!("{gates}[i, 3]"));
        let open = g.ranged_like(&["out_gate", "output_gate"], &text, Type::F32, fraction, "the last gate");
        let [open, next_text] = [open, next].map(|index| g.text(index));
        let hidden = g.set_like(
            &["h", "h_now", "shown"],
            &format!("{open} * {tanh}({next_text})"),
            Type::F32,
            1.0,
            "what it shows",
        );
        g.kept(&["cell_out", "c_out"], next);
        g.written(&["out", "hidden_out", "h_out"], hidden, difficulty);
    }
    let what = ["an LSTM cell", "a gated recurrent unit", "a recurrent cell with coupled gates"][kind];
    g.sum_up(format!("Do a step of {what} from the inputs `{gates}`."));
    [
        g.random.pick(&["lstm_cell", "lstm_step", "lstm_pointwise"]),
        g.random.pick(&["gru_cell", "gru_step", "gated_unit"]),
        g.random.pick(&["coupled_lstm", "gated_cell", "coupled_gates"]),
    ][kind]
}

/// A product with a sparse matrix of as many entries in each row.
pub(super) fn sparse_product(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.threads_over(&[N0], &["row"]);
    let n = g.random.pick(&[4, 5, 6, 8]);
    let columns =
        g.array_like(&["columns", "neighbors", "col_idx"], Type::I32, &[N0, ProgramExtent::Is(n)], 0.0, 1000.0);
    let entries =
        g.array_like(&["entries", "coefs", "edge_weights"], Type::F32, &[N0, ProgramExtent::Is(n)], -1.0, 1.0);
    let x = g.element_like(&["x", "values", "rank_now"], Type::F32, -1.0, 1.0);
    let x = g.text(x);
    let array = x.replace("[row]", "");
    let kind = g.random.below(5);
    let total = g.starting(&["total", "acc", "row_sum"], Type::F32, "0.0", 20.0);
    let total_text = g.text(total);
    let skips = g.random.one_in(2);
    let (k, abs) = (g.like(&["k", "slot_idx", "e"]), g.builtin("abs"));
    let weights = (kind == 4).then(|| g.starting(&["weight_sum", "norm", "mass"], Type::F32, "0.01", 10.0));
    let weights = weights.map(|index| g.text(index));
    if let Some(weights) = &weights {
        g.explain(format!("`{weights}` starts as 0.01."));
    }
    g.line(&format!("for {k} in range({n}):"));
    let done = g.nested(|g| {
        let at = g.like(&["at", "col", "other"]);
        g.line(&format!("{at} = {columns}[row, {k}] % {array}.shape[0]"));
        g.explain(format!("`{at}` is the remainder of `{columns}[row, {k}]` by the length of `{array}`"));
        if skips {
            g.line(&format!("if {at} == row:"));
            g.nested(|g| g.line("continue"));
            g.explain(format!("where `{at}` equals `row`, skip the rest of this round"));
        }
        let a = g.set_like(&["a", "entry", "coef"], &format!("{entries}[row, {k}]"), Type::F32, 1.0, "");
        let a = g.varied(a, difficulty);
        let a = g.text(a);
        let term = match kind {
            3 => format!("{a} * ({array}[{at}] - {x})"),
            4 => format!("{abs}({a}) * {array}[{at}]"),
            _ => format!("{a} * {array}[{at}]"),
        };
        g.line(&format!("{total_text} += {term}"));
        g.explain(format!("`{total_text}` adds up `{term}`"));
        if let Some(weights) = &weights {
            g.line(&format!("{weights} += {abs}({a})"));
            g.explain(format!("`{weights}` adds up `{abs}({a})`"));
        }
    });
    g.explain(format!("For each `{k}` below {n}: {done}."));
    g.must_be_read(total);
    let (value, what) = match kind {
        0 => (total_text.clone(), ""),
        1 => {
            let rhs = g.element_like(&["rhs", "b", "target"], Type::F32, -1.0, 1.0);
            (format!("{} - {total_text}", g.text(rhs)), "what is left of the right side")
        }
        2 => {
            let rhs = g.element_like(&["rhs", "b", "target"], Type::F32, -1.0, 1.0);
            let diagonal = g.element_like(&["diagonal", "diag"], Type::F32, 2.0, 6.0);
            (format!("({} - {total_text}) / {}", g.text(rhs), g.text(diagonal)), "the value that solves the row")
        }
        3 => {
            let dt = g.number_like(&["dt", "rate", "diffusion"], 0.05, 0.3);
            (format!("{x} + {} * {total_text}", g.text(dt)), "the value after a step of diffusion")
        }
        _ => {
            let keep = g.number_like(&["keep", "restart", "self_weight"], 0.1, 0.9);
            let keep = g.text(keep);
            let weights = weights.unwrap_or_default();
            (
                format!("{keep} * {x} + (1.0 - {keep}) * {total_text} / {weights}"),
                "the mix with the mean of the neighbours",
            )
        }
    };
    let value = match kind {
        0 => total,
        _ => g.set_like(&["solved", "updated_value", "mixed", "outcome"], &value, Type::F32, 20.0, what),
    };
    g.written(&["out", "result"], value, difficulty);
    let summary = [
        format!("Multiply the sparse matrix `{entries}` and the vector `{array}`."),
        format!("Compute the residual of a sparse system with the unknown `{array}`."),
        format!("Do a Jacobi step for a sparse system with the unknown `{array}`."),
        format!("Let `{array}` spread along the edges of a graph for a step."),
        format!("Mix `{array}` with the means of its neighbours in a graph."),
    ][kind]
        .clone();
    g.sum_up(summary);
    [
        g.random.pick(&["spmv_ell", "sparse_matvec", "ell_product"]),
        g.random.pick(&["sparse_residual", "residual_ell"]),
        g.random.pick(&["sparse_jacobi", "jacobi_ell"]),
        g.random.pick(&["graph_diffusion", "spread_on_graph"]),
        g.random.pick(&["propagate_labels", "graph_average", "message_passing"]),
    ][kind]
}
