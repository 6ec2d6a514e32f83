//! Fields, sums and series.

use super::{N0, N1};
use crate::generate::generator::KernelGenerator;
use crate::generate::program::ProgramExtent;
use crate::number_range::NumberRange;
use polyloom::Type;

/// An image or a signal with a filter from an array.
pub(super) fn convolution(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    let rank = g.random.pick(&[1, 2]);
    let names: &[&str] = if rank == 1 { &["i"] } else { &["i", "j"] };
    g.threads_over(&[N0, N1][..rank], names);
    let x = g.element_like(&["signal", "image", "samples", "x"], Type::F32, -1.0, 1.0);
    let array = g.text(x).split('[').next().unwrap_or_default().to_owned();
    let size = g.random.pick(&[3, 3, 5]);
    let shape = vec![ProgramExtent::Is(size); rank];
    let taps = g.array_like(&["kernel", "taps", "filter_weights"], Type::F32, &shape, -0.5, 1.0);
    let total = g.starting(&["total", "acc", "s"], Type::F32, "0.0", 30.0);
    let total_text = g.text(total);
    let half = size / 2;
    let (clamp, guarded) = (g.builtin("clamp"), g.random.one_in(2));
    let offsets: Vec<String> = [["dy", "a", "m"], ["dx", "b", "n"]][..rank].iter().map(|names| g.like(names)).collect();
    let places: Vec<String> =
        [["p", "source_row"], ["q", "source_col"]][..rank].iter().map(|names| g.like(names)).collect();
    fn nest(g: &mut KernelGenerator, lines: &[String], inside: &mut dyn FnMut(&mut KernelGenerator)) {
        match lines.split_first() {
            None => inside(g),
            Some((line, rest)) => {
                g.line(line);
                g.nested(|g| nest(g, rest, inside));
            }
        }
    }
    let loops: Vec<String> = offsets.iter().map(|offset| format!("for {offset} in range({size}):")).collect();
    nest(g, &loops, &mut |g| {
        for (axis, (place, offset)) in places.iter().zip(&offsets).enumerate() {
            let moved = format!("{} + {offset} - {half}", names[axis]);
            g.line(&match guarded {
                true => format!("{place} = {moved}"),
                false => format!("{place} = {clamp}({moved}, 0, {array}.shape[{axis}] - 1)"),
            });
        }
        let (at, tap) = (places.join(", "), offsets.join(", "));
        let add = format!("{total_text} += {taps}[{tap}] * {array}[{at}]");
        if guarded {
            let tests: Vec<String> = places
                .iter()
                .enumerate()
                .map(|(axis, place)| format!("{place} >= 0 and {place} < {array}.shape[{axis}]"))
                .collect();
            g.line(&format!("if {}:", tests.join(" and ")));
            g.nested(|g| g.line(&add));
        } else {
            g.line(&add);
        }
    });
    let edge = if guarded { "zeros beyond the edge" } else { "the edge repeated" };
    g.explain(format!(
        "`{total_text}` is the sum of the {size} neighbours along each axis, weighted by `{taps}`, with {edge}."
    ));
    g.must_be_read(total);
    g.written(&["out", "result"], total, difficulty);
    g.sum_up(format!("Filter `{array}` with the weights `{taps}` around each element."));
    match rank {
        1 => g.random.pick(&["convolve_signal", "filter_signal", "fir_filter"]),
        _ => g.random.pick(&["convolve_image", "filter_image", "apply_filter"]),
    }
}

/// Returns what a flow carries along.
pub(super) fn advection(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.threads_over(&[N0], &["i"]);
    let q = g.element_like(&["density", "dye", "q"], Type::F32, -1.0, 1.0);
    let speed = g.element_like(&["speed", "wind", "u"], Type::F32, -2.0, 2.0);
    let array = g.text(q).replace("[i]", "");
    let dt = g.number_like(&["dt", "h"], 0.1, 0.5);
    let (speed, dt) = (g.varied(speed, difficulty), g.text(dt));
    let speed = g.text(speed);
    let n = g.place_like(&["n", "size"], &format!("{array}.shape[0]"));
    let upwind = g.random.one_in(2);
    let value = match upwind {
        // Where it came from.
        false => {
            let (clamp, floor, min) = (g.builtin("clamp"), g.builtin("floor"), g.builtin("min"));
            let from = g.ranged_like(
                &["back", "origin", "src"],
                &format!("{clamp}(float(i) - {dt} * {speed}, 0.0, float({n} - 1))"),
                Type::F32,
                NumberRange::new(0.0, 100.0),
                "where the flow comes from, no further than the ends",
            );
            let from = g.text(from);
            let a = g.place_like(&["i0", "lo"], &format!("int({floor}({from}))"));
            let b = g.place_like(&["i1", "hi"], &format!("{min}({a} + 1, {n} - 1)"));
            let t = g.ranged_like(
                &["t", "frac"],
                &format!("{from} - float({a})"),
                Type::F32,
                NumberRange::new(0.0, 1.0),
                "",
            );
            let t = g.text(t);
            g.set_like(
                &["carried", "value", "moved"],
                &format!("(1.0 - {t}) * {array}[{a}] + {t} * {array}[{b}]"),
                Type::F32,
                2.0,
                &format!("`{array}` there, interpolated linearly"),
            )
        }
        // Upwind differences.
        true => {
            let left = g.place_like(&["il", "prev"], &format!("(i + {n} - 1) % {n}"));
            let right = g.place_like(&["ir", "next_i"], &format!("(i + 1) % {n}"));
            let slope = g.starting(&["slope", "grad", "dq"], Type::F32, &format!("{array}[{right}] - {array}[i]"), 4.0);
            let slope = g.text(slope);
            g.line(&format!("if {speed} > 0.0:"));
            g.nested(|g| g.line(&format!("{slope} = {array}[i] - {array}[{left}]")));
            g.explain(format!(
                "`{slope}` is `{array}[i] - {array}[{left}]` where `{speed}` is greater than 0.0 and `{array}[{right}] - {array}[i]` elsewhere."
            ));
            g.set_like(
                &["carried", "value", "moved"],
                &format!("{array}[i] - {dt} * {speed} * {slope}"),
                Type::F32,
                60.0,
                "the element after a step of the flow",
            )
        }
    };
    g.written(&["out", "result"], value, difficulty);
    g.sum_up(format!("Carry `{array}` along with the flow for a step of `{dt}`."));
    match upwind {
        true => g.random.pick(&["upwind_step", "advect_upwind", "transport_step"]),
        false => g.random.pick(&["semi_lagrangian", "advect", "backtrace_step"]),
    }
}

/// A step of a solver for Poisson's equation.
pub(super) fn jacobi(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.threads_over(&[N0, N1], &["i", "j"]);
    let u = g.element_like(&["u", "potential", "phi"], Type::F32, -1.0, 1.0);
    let f = g.element_like(&["source", "rhs", "charge"], Type::F32, -1.0, 1.0);
    let array = g.text(u).replace("[i, j]", "");
    let h = g.number_like(&["h", "spacing"], 0.1, 0.5);
    let f = g.varied(f, difficulty);
    let (f, h) = (g.text(f), g.text(h));
    let total = g.starting(&["total", "around", "s"], Type::F32, "0.0", 4.0);
    let total_text = g.text(total);
    for (guard, at) in [
        ("i > 0", "i - 1, j"),
        ("i + 1 < {a}.shape[0]", "i + 1, j"),
        ("j > 0", "i, j - 1"),
        ("j + 1 < {a}.shape[1]", "i, j + 1"),
    ] {
        g.line(&format!("if {}:", guard.replace("{a}", &array)));
        g.nested(|g| g.line(&format!("{total_text} += {array}[{at}]")));
    }
    g.explain(format!("`{total_text}` adds up the neighbours of the element of `{array}`, zeros beyond the edge."));
    let next = g.set_like(
        &["relaxed", "next_u", "solved"],
        &format!("0.25 * ({total_text} + {h} * {h} * {f})"),
        Type::F32,
        4.0,
        "the value that solves the equation there",
    );
    let next_text = g.text(next);
    let value = match g.random.below(3) {
        0 => {
            let w = g.number_like(&["omega", "relax"], 0.5, 1.0);
            let (w, u) = (g.text(w), g.text(u));
            g.set_like(
                &["blended", "damped"],
                &format!("(1.0 - {w}) * {u} + {w} * {next_text}"),
                Type::F32,
                4.0,
                "the old value moved towards it",
            )
        }
        1 => {
            let u = g.text(u);
            g.set_like(
                &["residual", "error"],
                &format!("{next_text} - {u}"),
                Type::F32,
                6.0,
                "how far the old value is from it",
            )
        }
        _ => next,
    };
    g.written(&["out", "result"], value, difficulty);
    g.sum_up(format!("Do a Jacobi step for Poisson's equation with the unknown `{array}`."));
    g.random.pick(&["jacobi_step", "relax_potential", "poisson_sweep", "solve_step"])
}

/// Two substances that react and spread.
pub(super) fn reaction(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.threads_over(&[N0], &["i"]);
    let (a, b) = (
        g.element_like(&["a", "u", "activator"], Type::F32, 0.1, 1.0),
        g.element_like(&["b", "v", "inhibitor"], Type::F32, 0.1, 1.0),
    );
    let (feed, kill) = (g.number_like(&["feed", "rate"], 0.02, 0.1), g.number_like(&["kill", "decay"], 0.02, 0.1));
    let arrays = [a, b].map(|index| g.text(index).replace("[i]", ""));
    let n = g.place_like(&["n", "size"], &format!("{}.shape[0]", arrays[0]));
    let (max, min) = (g.builtin("max"), g.builtin("min"));
    let places = match g.random.one_in(2) {
        true => [format!("(i + {n} - 1) % {n}"), format!("(i + 1) % {n}")],
        false => [format!("{max}(i - 1, 0)"), format!("{min}(i + 1, {n} - 1)")],
    };
    let (left, right) = (g.place_like(&["il", "prev"], &places[0]), g.place_like(&["ir", "next_i"], &places[1]));
    let [ta, tb, tf, tk] = [a, b, feed, kill].map(|index| g.text(index));
    let spread = |array: &str| format!("{array}[{left}] + {array}[{right}] - 2.0 * {array}[i]");
    let la = g.set_like(
        &["lap_a", "da"],
        &spread(&arrays[0]),
        Type::F32,
        4.0,
        &format!("the discrete Laplacian of `{}`", arrays[0]),
    );
    let lb = g.set_like(
        &["lap_b", "db"],
        &spread(&arrays[1]),
        Type::F32,
        4.0,
        &format!("the discrete Laplacian of `{}`", arrays[1]),
    );
    let kind = g.random.below(3);
    let reaction = match kind {
        0 => format!("{ta} * {tb} * {tb}"),
        1 => format!("{ta} - {ta} * {ta} * {ta} / 3.0 - {tb}"),
        _ => format!("{ta} * (1.0 - {ta}) * ({ta} - {tf})"),
    };
    let r = g.set_like(&["r", "react", "rate_now"], &reaction, Type::F32, 2.0, "the reaction");
    let r = g.varied(r, difficulty);
    let [la, lb, r] = [la, lb, r].map(|index| g.text(index));
    let na = g.set_like(
        &["next_a", "a1"],
        &format!("{ta} + 0.2 * {la} - 0.1 * {r} + {tf} * (1.0 - {ta})"),
        Type::F32,
        40.0,
        &format!("`{}` after the step", arrays[0]),
    );
    let nb = g.set_like(
        &["next_b", "b1"],
        &format!("{tb} + 0.1 * {lb} + 0.1 * {r} - ({tf} + {tk}) * {tb}"),
        Type::F32,
        40.0,
        &format!("`{}` after the step", arrays[1]),
    );
    g.written(&["out_a"], na, difficulty);
    g.kept(&["out_b", "new_b"], nb);
    g.sum_up(format!("Let `{}` and `{}` react and spread for a step.", arrays[0], arrays[1]));
    [
        g.random.pick(&["gray_scott", "reaction_diffusion"]),
        g.random.pick(&["fitzhugh_nagumo", "excitable_medium"]),
        g.random.pick(&["bistable_front", "morphogen_step"]),
    ][kind]
}

/// Prices of options.
pub(super) fn black_scholes(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.threads_over(&[N0], &["i"]);
    let s = g.element_like(&["spot", "price", "assets"], Type::F32, 0.5, 2.0);
    let k = g.element_like(&["strike", "strikes"], Type::F32, 0.5, 2.0);
    let t = g.element_like(&["expiry", "maturity", "years"], Type::F32, 0.2, 2.0);
    let (rate, vol) = (g.number_like(&["rate", "r"], 0.01, 0.1), g.number_like(&["volatility", "sigma"], 0.1, 0.5));
    let [s, k, t, rate, vol] = [s, k, t, rate, vol].map(|index| g.text(index));
    let (sqrt, log, exp) = (g.builtin("sqrt"), g.builtin("log"), g.builtin("exp"));
    let normal = g.like(&["normal_cdf", "cdf", "phi"]);
    if g.random.one_in(2) {
        let erf = g.builtin("erf");
        g.item(&normal, &[("x".to_owned(), "float".to_owned())], |g| {
            g.line(&format!("return 0.5 * (1.0 + {erf}(x * 0.70710678))"));
            "float".to_owned()
        });
    } else {
        let tanh = g.builtin("tanh");
        g.item(&normal, &[("x".to_owned(), "float".to_owned())], |g| {
            g.line(&format!("return 0.5 * (1.0 + {tanh}(0.7978846 * (x + 0.044715 * x * x * x)))"));
            String::new()
        });
    }
    let spread = g.ranged_like(
        &["spread", "vol_t", "sd"],
        &format!("{vol} * {sqrt}({t})"),
        Type::F32,
        NumberRange::new(0.04, 1.0),
        "the spread of the price at the end",
    );
    let spread_text = g.text(spread);
    let d1 = g.set_like(
        &["d1", "upper"],
        &format!("({log}({s} / {k}) + ({rate} + 0.5 * {vol} * {vol}) * {t}) / {spread_text}"),
        Type::F32,
        60.0,
        "",
    );
    let d1_text = g.text(d1);
    let d2 = g.set_like(&["d2", "lower"], &format!("{d1_text} - {spread_text}"), Type::F32, 60.0, "");
    let (d2, discount) = (
        g.text(d2),
        g.ranged_like(
            &["discount", "df"],
            &format!("{exp}(-{rate} * {t})"),
            Type::F32,
            NumberRange::new(0.8, 1.0),
            "what one later is worth now",
        ),
    );
    let discount = g.text(discount);
    let (value, what) = match g.random.below(4) {
        0 => {
            (format!("{s} * {normal}({d1_text}) - {k} * {discount} * {normal}({d2})"), "the price of the right to buy")
        }
        1 => (
            format!("{k} * {discount} * {normal}(-{d2}) - {s} * {normal}(-{d1_text})"),
            "the price of the right to sell",
        ),
        2 => (format!("{discount} * {normal}({d2})"), "the price of one if the strike is passed"),
        _ => (
            format!(
                "{s} * {sqrt}({t}) * {exp}(-0.5 * {d1_text} * {d1_text}) * 0.39894228 \
                 + {k} * {discount} * {normal}({d2})"
            ),
            "its vega and the discounted strike",
        ),
    };
    g.explain(format!("`{normal}(x)` approximates the normal distribution up to `x`."));
    let value = g.set_like(&["value", "premium", "option"], &value, Type::F32, 10.0, what);
    g.written(&["out", "result"], value, difficulty);
    g.sum_up("Value options on assets by the Black-Scholes formula.".to_owned());
    g.random.pick(&["black_scholes", "price_options", "option_premium", "value_contracts"])
}

/// Iterations of a square and a sum in the plane.
pub(super) fn escape_time(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.threads_over(&[N0, N1], &["y", "x"]);
    let (cx, cy) = (
        g.element_like(&["re", "real_part", "cr"], Type::F32, -1.5, 0.5),
        g.element_like(&["im", "imag_part", "ci"], Type::F32, -1.0, 1.0),
    );
    let julia = g.random.one_in(2);
    let [cx, cy] = [cx, cy].map(|index| g.text(index));
    let (start, add) = match julia {
        true => {
            let (kx, ky) = (g.number_like(&["seed_re", "kx"], -0.8, 0.3), g.number_like(&["seed_im", "ky"], -0.6, 0.6));
            ([cx, cy], [g.text(kx), g.text(ky)])
        }
        false => (["0.0".to_owned(), "0.0".to_owned()], [cx, cy]),
    };
    let zx = g.starting(&["zx", "a", "zr"], Type::F32, &start[0], 100.0);
    let zy = g.starting(&["zy", "b", "zi"], Type::F32, &start[1], 100.0);
    let count = g.starting(&["count", "steps", "age"], Type::I32, "0", 64.0);
    let [zx, zy, count_text] = [zx, zy, count].map(|index| g.text(index));
    let n = g.random.pick(&[8, 12, 16]);
    let limit = match g.random.one_in(2) {
        true => g.scalar_like(&["max_iter", "limit", "n_max"], Type::I32, 4.0, 12.0),
        false => n.to_string(),
    };
    let limit_words = if limit == n.to_string() { limit.clone() } else { format!("`{limit}`") };
    let kind = g.random.below(3);
    let first = format!("{zx} * {zx} - {zy} * {zy} + {}", add[0]);
    let second = match kind {
        0 => format!("2.0 * {zx} * {zy} + {}", add[1]),
        1 => format!("2.0 * {}({zx} * {zy}) + {}", g.builtin("abs"), add[1]),
        _ => format!("-2.0 * {zx} * {zy} + {}", add[1]),
    };
    let step = |g: &mut KernelGenerator| {
        let t = g.like(&["t", "nx", "tmp"]);
        g.line(&format!("{t} = {first}"));
        g.line(&format!("{zy} = {second}"));
        g.line(&format!("{zx} = {t}"));
        g.line(&format!("{count_text} += 1"));
    };
    let is_while = g.random.one_in(2);
    if is_while {
        g.line(&format!("while {count_text} < {limit} and {zx} * {zx} + {zy} * {zy} < 4.0:"));
        g.nested(step);
    } else {
        let k = g.like(&["k", "it", "_"]);
        g.line(&format!("for {k} in range({limit}):"));
        g.nested(|g| {
            g.line(&format!("if {zx} * {zx} + {zy} * {zy} > 4.0:"));
            g.nested(|g| g.line("break"));
            step(g);
        });
    }
    g.explain(format!(
        "`{zx}` and `{zy}` are the coordinates of a point: from `{}` and `{}` each iteration takes them to `{first}` and \
         `{second}`.",
        start[0], start[1]
    ));
    let least = if is_while { "at least 2" } else { "more than 2" };
    g.explain(format!(
        "`{count_text}` counts the iterations, at most {limit_words}, until the point is {least} from zero."
    ));
    let shade = g.random.below(3);
    let value = match shade {
        0 => format!("float({count_text})"),
        1 => {
            let (log, max) = (g.builtin("log"), g.builtin("max"));
            format!("float({count_text}) - {log}({max}({zx} * {zx} + {zy} * {zy}, 1.0))")
        }
        _ => format!("float({count_text}) / float({limit})"),
    };
    let what = ["that count", "the count, smoothed by the logarithm of the distance", "the share of the iterations"];
    let range = NumberRange::new(if shade == 1 { -4.0 } else { 0.0 }, if shade == 2 { 1.0 } else { 16.0 });
    let value = g.ranged_like(&["shade", "value", "level"], &value, Type::F32, range, what[shade]);
    g.written(&["out", "levels_out"], value, difficulty);
    match (julia, kind) {
        (true, 0) => g.sum_up("Count how long points of the plane stay bounded under a quadratic map.".to_owned()),
        (true, _) => g.sum_up("Count how long points of the plane stay bounded under a folded map.".to_owned()),
        _ => g.sum_up("Count the iterations until a quadratic map escapes, for each parameter.".to_owned()),
    }
    match (julia, kind) {
        (true, 0) => g.random.pick(&["julia_set", "julia_levels", "escape_time"]),
        (true, _) => g.random.pick(&["folded_julia", "fractal_levels"]),
        (false, 0) => g.random.pick(&["mandelbrot", "escape_time", "mandelbrot_levels"]),
        (false, 1) => g.random.pick(&["burning_ship", "ship_levels"]),
        _ => g.random.pick(&["tricorn", "mandelbar"]),
    }
}

/// Integrals by sums.
pub(super) fn integral(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.threads_over(&[N0], &["i"]);
    let (low, high) = (
        g.element_like(&["lower", "start", "a"], Type::F32, -1.0, 0.0),
        g.element_like(&["upper", "stop", "b"], Type::F32, 0.5, 2.0),
    );
    let [low, high] = [low, high].map(|index| g.text(index));
    let n = g.random.pick(&[4, 8, 16]);
    let f = g.like(&["integrand", "f", "curve"]);
    let param = g.like(&["x", "point_t"]);
    let told = g.item(&f, &[(param.clone(), "float".to_owned())], |g| {
        g.declare(param.clone(), format!("`{param}`"), Type::F32, NumberRange::within(2.0));
        let count = g.random.below(1 + usize::from(difficulty) / 2);
        g.statements(count, 1);
        let value = g.variable(Type::F32, 2);
        let value = g.with_unused(value);
        let value = g.constrain(value, crate::catalogue::OperandNeed::Moderate);
        g.line(&format!("return {}", value.text));
        g.say(value.words);
        String::new()
    });
    g.explain(told.sentence(&format!("{f}({param})")));
    let h = g.ranged_like(
        &["h", "width", "dx"],
        &format!("({high} - {low}) / {n}.0"),
        Type::F32,
        NumberRange::new(0.0, 1.0),
        "the width of a part",
    );
    let h_text = g.text(h);
    let total = g.starting(&["total", "area", "s"], Type::F32, "0.0", 200.0);
    let total_text = g.text(total);
    let k = g.like(&["k", "m", "part"]);
    let kind = g.random.below(3);
    let mut done = String::new();
    g.line(&format!("for {k} in range({n}):"));
    g.nested(|g| {
        let at = g.like(&["at", "left", "from_x"]);
        g.line(&format!("{at} = {low} + float({k}) * {h_text}"));
        let part = match kind {
            0 => format!("{f}({at} + 0.5 * {h_text})"),
            1 => format!("0.5 * ({f}({at}) + {f}({at} + {h_text}))"),
            _ => format!("({f}({at}) + 4.0 * {f}({at} + 0.5 * {h_text}) + {f}({at} + {h_text})) / 6.0"),
        };
        g.line(&format!("{total_text} += {part}"));
        done = format!("let `{at}` be `{low} + float({k}) * {h_text}`; `{total_text}` adds up `{part}`");
    });
    g.explain(format!("For each `{k}` below {n}: {done}."));
    let rule = ["the midpoint rule", "the trapezoidal rule", "Simpson's rule"][kind];
    let value = g.set_like(
        &["value", "integral_value", "area_found"],
        &format!("{total_text} * {h_text}"),
        Type::F32,
        100.0,
        &format!("the integral by {rule}"),
    );
    g.written(&["out", "result"], value, difficulty);
    g.sum_up(format!("Integrate `{f}` from `{}` to `{}` by {rule}.", low.replace("[i]", ""), high.replace("[i]", "")));
    ["integrate_midpoint", "integrate_trapezoid", "integrate_simpson"][kind]
}

/// Neurons that leak and fire.
pub(super) fn neuron(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.threads_over(&[N0], &["i"]);
    let v = g.element_like(&["potential", "membrane", "v"], Type::F32, 0.0, 0.8);
    let drive = g.array_like(&["current", "drive", "inputs"], Type::F32, &[N0, N1], 0.0, 1.0);
    let (leak, limit) =
        (g.number_like(&["leak", "decay"], 0.05, 0.3), g.number_like(&["threshold", "v_max"], 0.8, 1.2));
    let [v, leak, limit] = [v, leak, limit].map(|index| g.text(index));
    let now = g.starting(&["now", "u", "charge"], Type::F32, &v, 4.0);
    let spikes = g.starting(&["spikes", "fired", "n_spikes"], Type::I32, "0", 32.0);
    let [now_text, spikes_text] = [now, spikes].map(|index| g.text(index));
    let rest = g.random.one_in(2).then(|| g.starting(&["wait", "refractory"], Type::I32, "0", 4.0));
    let rest = rest.map(|index| g.text(index));
    let t = g.like(&["t", "step", "k"]);
    let clamp = g.builtin("clamp");
    let mut after = String::new();
    g.line(&format!("for {t} in range({drive}.shape[1]):"));
    let done = g.nested(|g| {
        if let Some(rest) = &rest {
            g.line(&format!("if {rest} > 0:"));
            g.nested(|g| {
                g.line(&format!("{rest} -= 1"));
                g.line("continue");
            });
        }
        let x = g.ranged_like(
            &["x", "inflow", "pulse_now"],
            &format!("{drive}[i, {t}]"),
            Type::F32,
            NumberRange::new(0.0, 1.0),
            "the input",
        );
        let x = g.text(x);
        g.explain(format!(
            "`{now_text}` becomes `{now_text} * (1.0 - {leak}) + {x}` limited to the range from -4.0 to 4.0"
        ));
        g.line(&format!("{now_text} = {clamp}({now_text} * (1.0 - {leak}) + {x}, -4.0, 4.0)"));
        g.line(&format!("if {now_text} > {limit}:"));
        g.nested(|g| {
            g.line(&format!("{spikes_text} += 1"));
            let resets = g.random.one_in(2);
            g.line(&if resets { format!("{now_text} = 0.0") } else { format!("{now_text} -= {limit}") });
            after = if resets { "becomes 0.0".to_owned() } else { format!("falls by `{limit}`") };
            if let Some(rest) = &rest {
                g.line(&format!("{rest} = 2"));
            }
        });
        g.explain(format!("where `{now_text}` is more than `{limit}`, it fires and `{now_text}` {after}"));
    });
    g.explain(format!("`{now_text}` starts as `{v}`."));
    g.explain(format!("For each `{t}`: {done}."));
    let waits = if rest.is_some() { " In the two steps after that nothing is done." } else { "" };
    g.explain(format!("`{spikes_text}` counts how often it fires.{waits}"));
    let out = g.zeros_like(&["spike_counts", "events"], Type::I32, &[N0]);
    g.line(&format!("{out}[i] = {spikes_text}"));
    g.say(format!("`{out}` is `{spikes_text}`."));
    g.must_be_read(now);
    g.written(&["out", "result"], now, difficulty);
    g.sum_up(format!("Simulate neurons that leak, take in `{drive}` and fire."));
    g.random.pick(&["integrate_and_fire", "spiking_neurons", "leaky_units", "count_spikes"])
}
