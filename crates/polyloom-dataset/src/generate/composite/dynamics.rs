//! What changes with time: differential equations, fluids, waves.

use super::{N0, N1, VEC2, VEC3};
use crate::generate::generator::KernelGenerator;
use crate::generate::program::ProgramExtent;
use crate::number_range::NumberRange;
use polyloom::Type;

/// Steps of a Runge-Kutta method for a system of three equations.
pub(super) fn runge_kutta(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.with_composite(VEC3);
    g.threads_over(&[N0], &["i"]);
    let start = g.element_like(&["state", "initial", "start"], VEC3, 0.1, 1.0);
    let (a, b) =
        (g.number_like(&["alpha", "growth", "rate_a"], 0.5, 1.5), g.number_like(&["beta", "loss", "rate_b"], 0.1, 0.8));
    let dt = g.number_like(&["dt", "h", "step_size"], 0.01, 0.05);
    let [start, a, b, dt] = [start, a, b, dt].map(|index| g.text(index));
    let (kind, method) = (g.random.below(4), g.random.below(4));
    let rates = [
        ["p * (s[1] - s[0])", "s[0] * (q - s[2]) - s[1]", "s[0] * s[1] - 2.0 * s[2]"],
        ["-p * s[0] * s[1]", "p * s[0] * s[1] - q * s[1]", "q * s[1]"],
        ["-s[1] - s[2]", "s[0] + p * s[1]", "q + s[2] * (s[0] - 5.0)"],
        ["s[0] * (1.0 - s[0]) - p * s[0] * s[1]", "p * s[1] * (s[0] - s[2]) - q * s[1]", "p * s[1] * s[2] - q * s[2]"],
    ][kind];
    let function = g.like(&["rates", "derivative", "slopes"]);
    let (vec, make) = (g.type_name(VEC3), g.builtin("vec3"));
    let heads =
        [("s", vec.as_str()), ("p", "float"), ("q", "float")].map(|(name, ty)| (name.to_owned(), ty.to_owned()));
    let named = g.random.one_in(2);
    let told = g.item(&function, &heads, |g| {
        for (at, rate) in rates.iter().enumerate() {
            let rate = match named {
                true => rate.replace("s[0]", "s.x").replace("s[1]", "s.y").replace("s[2]", "s.z"),
                false => (*rate).to_owned(),
            };
            g.line(&format!("d{at} = {rate}"));
        }
        g.line(&format!("return {make}(d0, d1, d2)"));
        String::new()
    });
    g.explain(told.sentence(&format!("{function}(s, p, q)")));
    let s = g.starting(&["now", "y", "point"], VEC3, &start, 4.0);
    let s_text = g.text(s);
    let count = match g.random.one_in(3) {
        true => g.scalar_like(&["n_steps", "steps"], Type::I32, 2.0, 6.0),
        false => g.random.pick(&["2", "4", "6", "8"]).to_owned(),
    };
    let step = g.like(&["step", "round_idx", "t_idx"]);
    g.line(&format!("for {step} in range({count}):"));
    g.nested(|g| {
        let at = |point: &str| format!("{function}({point}, {a}, {b})");
        let k = ["k1", "k2", "k3", "k4"].map(|name| g.like(&[name]));
        g.line(&format!("{} = {}", k[0], at(&s_text)));
        match method {
            0 => {
                g.line(&format!("{} = {}", k[1], at(&format!("{s_text} + {dt} * {}", k[0]))));
                g.line(&format!("{s_text} += 0.5 * {dt} * ({} + {})", k[0], k[1]));
            }
            1 => {
                g.line(&format!("{} = {}", k[1], at(&format!("{s_text} + 0.5 * {dt} * {}", k[0]))));
                g.line(&format!("{s_text} += {dt} * {}", k[1]));
            }
            2 => {
                g.line(&format!("{} = {}", k[1], at(&format!("{s_text} + 0.5 * {dt} * {}", k[0]))));
                g.line(&format!("{} = {}", k[2], at(&format!("{s_text} + 0.75 * {dt} * {}", k[1]))));
                g.line(&format!("{s_text} += {dt} / 9.0 * (2.0 * {} + 3.0 * {} + 4.0 * {})", k[0], k[1], k[2]));
            }
            _ => {
                g.line(&format!("{} = {}", k[1], at(&format!("{s_text} + 0.5 * {dt} * {}", k[0]))));
                g.line(&format!("{} = {}", k[2], at(&format!("{s_text} + 0.5 * {dt} * {}", k[1]))));
                g.line(&format!("{} = {}", k[3], at(&format!("{s_text} + {dt} * {}", k[2]))));
                let [k1, k2, k3, k4] = &k;
                g.line(&format!("{s_text} += {dt} / 6.0 * ({k1} + 2.0 * {k2} + 2.0 * {k3} + {k4})"));
            }
        }
    });
    let count = if count.starts_with(|c: char| c.is_ascii_digit()) { count } else { format!("`{count}`") };
    let what = ["the Lorenz system", "an epidemic", "the Roessler system", "a food chain"][kind];
    let method =
        ["Heun's method", "the midpoint method", "Ralston's method", "the classical Runge-Kutta method"][method];
    g.explain(format!(
        "`{s_text}` is what `{start}` comes to in {count} steps of `{dt}` with the rates `{function}({s_text}, {a}, {b})`."
    ));
    g.must_be_read(s);
    g.written(&["out", "result"], s, difficulty);
    g.sum_up(format!("Integrate {what} by {method}."));
    [
        g.random.pick(&["integrate_lorenz", "lorenz_steps", "lorenz_orbit"]),
        g.random.pick(&["epidemic_model", "sir_steps", "integrate_epidemic"]),
        g.random.pick(&["integrate_roessler", "roessler_orbit"]),
        g.random.pick(&["food_chain", "integrate_populations"]),
    ][kind]
}

/// Sums over the particles of a fluid, weighted by a kernel of their distance.
pub(super) fn smoothed_particles(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    let (ty, vec) = if g.random.one_in(3) { (VEC2, "vec2") } else { (VEC3, "vec3") };
    g.with_composite(ty);
    g.threads_over(&[N0], &["i"]);
    let x = g.element_like(&["position", "x", "particles"], ty, -1.0, 1.0);
    let mass = g.element_like(&["mass", "volume", "particle_mass"], Type::F32, 0.5, 1.5);
    let reach = g.number_like(&["smoothing_length", "support", "h"], 0.8, 2.0);
    let [x, mass, reach] = [x, mass, reach].map(|index| g.text(index));
    let [array, masses] = [&x, &mass].map(|text| text.replace("[i]", ""));
    let (kind, kernel) = (g.random.below(4), g.random.below(4));
    let (length, max) = (g.builtin("length"), g.builtin("max"));
    let sum_ty = if kind == 0 { Type::F32 } else { ty };
    let zero = if kind == 0 { "0.0".to_owned() } else { format!("{}()", g.builtin(vec)) };
    let other = match kind {
        1 => Some(g.element_like(&["velocity", "v", "flow"], ty, -1.0, 1.0)),
        2 => Some(g.element_like(&["pressure", "press"], Type::F32, 0.1, 1.0)),
        3 => Some(g.element_like(&["color", "phase_field", "temperature"], Type::F32, -1.0, 1.0)),
        _ => None,
    };
    let other = other.map(|index| g.text(index).replace("[i]", "")).unwrap_or_default();
    let total = g.starting(&["total", "acc", "summed"], sum_ty, &zero, 200.0);
    let total_text = g.text(total);
    let j = g.like(&["j", "other_idx", "n"]);
    g.line(&format!("for {j} in range({array}.shape[0]):"));
    let skips = kind != 0 || g.random.one_in(2);
    let done = g.nested(|g| {
        if skips {
            g.line(&format!("if {j} == i:"));
            g.nested(|g| g.line("continue"));
        }
        let d = g.set_like(&["d", "offset", "apart"], &format!("{array}[{j}] - {x}"), ty, 2.0, "the offset");
        let d = g.text(d);
        let q = g.ranged_like(
            &["q", "ratio", "reduced"],
            &format!("({length}({d}) + 0.001) / {reach}"),
            Type::F32,
            NumberRange::new(0.0005, 5.0),
            "the distance as a share of the reach",
        );
        let q = g.text(q);
        let (value, what) = [
            (format!("{max}(1.0 - {q} * {q}, 0.0) ** 3.0"), "the weight of the cube of one minus its square"),
            (format!("{max}(1.0 - {q}, 0.0) ** 3.0"), "the weight of the cube of one minus it"),
            (format!("{max}(1.0 - {q}, 0.0) ** 4.0 * (4.0 * {q} + 1.0)"), "the weight by Wendland's kernel"),
            (format!("{}(-4.0 * {q} * {q})", g.builtin("exp")), "the weight by a Gaussian"),
        ][kernel]
            .clone();
        let w = g.ranged_like(&["w", "weight", "kernel_w"], &value, Type::F32, NumberRange::new(0.0, 1.0), what);
        let w = g.varied(w, difficulty);
        let w = g.text(w);
        let term = match kind {
            0 => format!("{masses}[{j}] * {w}"),
            1 => format!("{masses}[{j}] * {w} * ({other}[{j}] - {other}[i])"),
            2 => format!("-0.5 * {masses}[{j}] * ({other}[i] + {other}[{j}]) * {w} * {d}"),
            _ => format!("{masses}[{j}] * ({other}[{j}] - {other}[i]) * {w} * {d}"),
        };
        g.line(&format!("{total_text} += {term}"));
        g.explain(format!("`{total_text}` adds up `{term}`."));
    });
    let own = if skips { " but `i`" } else { "" };
    g.explain(format!("For each `{j}` of `{array}`{own}: {done}."));
    g.must_be_read(total);
    g.written(&["out", "result"], total, difficulty);
    let what = ["density", "viscous drag", "force of pressure", "gradient of the field"][kind];
    g.sum_up(format!("Compute the {what} at the particles `{array}` of a fluid."));
    [
        g.random.pick(&["sph_density", "particle_density", "kernel_density"]),
        g.random.pick(&["sph_viscosity", "viscous_forces", "smooth_velocities"]),
        g.random.pick(&["sph_pressure", "pressure_forces"]),
        g.random.pick(&["sph_gradient", "surface_normals_sph"]),
    ][kind]
}

/// A step of the wave equation on a grid.
pub(super) fn wave(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.threads_over(&[N0, N1], &["i", "j"]);
    let u = g.element_like(&["u", "height", "displacement"], Type::F32, -1.0, 1.0);
    let old = g.element_like(&["u_before", "height_before", "last_u"], Type::F32, -1.0, 1.0);
    let courant = g.number_like(&["courant", "speed_sq", "c2"], 0.05, 0.4);
    let [u, old] = [u, old].map(|index| g.text(index));
    let array = u.replace("[i, j]", "");
    let edge = g.random.below(3);
    let (max, min) = (g.builtin("max"), g.builtin("min"));
    let n = g.place_like(&["nx"], &format!("{array}.shape[0]"));
    let m = g.place_like(&["ny"], &format!("{array}.shape[1]"));
    let mut names = Vec::new();
    for (at, name) in ["im", "ip", "jm", "jp"].into_iter().enumerate() {
        let (index, extent) = [("i", &n), ("j", &m)][at / 2];
        let text = match (edge, at % 2 == 0) {
            (0, true) => format!("{max}({index} - 1, 0)"),
            (0, false) => format!("{min}({index} + 1, {extent} - 1)"),
            (1, true) => format!("({index} + {extent} - 1) % {extent}"),
            (1, false) => format!("({index} + 1) % {extent}"),
            (_, true) => format!("{index} - 1 if {index} > 0 else 1 % {extent}"),
            (_, false) => format!("{index} + 1 if {index} + 1 < {extent} else {max}({extent} - 2, 0)"),
        };
        names.push(g.place_like(&[name], &text));
    }
    let [im, ip, jm, jp] = &names[..] else { unreachable!("there are four") };
    let around = format!("{array}[{im}, j] + {array}[{ip}, j] + {array}[i, {jm}] + {array}[i, {jp}]");
    let ring = g.set_like(&["ring", "around", "cross_sum"], &around, Type::F32, 4.0, "the sum of the four neighbours");
    let ring = g.text(ring);
    let lap = match g.random.one_in(2) {
        true => g.set_like(&["lap", "laplacian"], &format!("{ring} - 4.0 * {u}"), Type::F32, 8.0, "the Laplacian"),
        false => {
            let corners =
                format!("{array}[{im}, {jm}] + {array}[{im}, {jp}] + {array}[{ip}, {jm}] + {array}[{ip}, {jp}]");
            let corners = g.set_like(&["corners", "diagonal_sum"], &corners, Type::F32, 4.0, "the sum of the corners");
            let text = format!("0.5 * {ring} + 0.25 * {} - 3.0 * {u}", g.text(corners));
            g.set_like(&["lap", "laplacian"], &text, Type::F32, 6.0, "the Laplacian of nine points")
        }
    };
    let lap = g.varied(lap, difficulty);
    let (lap, courant) = (g.text(lap), g.text(courant));
    let next = format!("2.0 * {u} - {old} + {courant} * {lap}");
    let mut next = g.set_like(&["ahead", "next_u", "u_new"], &next, Type::F32, 8.0, "the value after the step");
    if g.random.one_in(2) {
        let damping = g.number_like(&["damping", "friction"], 0.0, 0.3);
        let text = format!("{} - {} * ({u} - {old})", g.text(next), g.text(damping));
        next = g.set_like(&["damped", "slowed"], &text, Type::F32, 9.0, "the value after the step, damped");
    }
    if g.random.one_in(2) {
        let source = g.element_like(&["source", "forcing", "drive"], Type::F32, -0.5, 0.5);
        let text = format!("{} + {}", g.text(next), g.text(source));
        next =
            g.set_like(&["driven", "forced"], &text, Type::F32, 10.0, "the value after the step with what drives it");
    }
    g.written(&["out", "result"], next, difficulty);
    let edge = ["with the edge repeated", "on a torus", "with mirrored edges"][edge];
    g.sum_up(format!("Do a step of the wave equation for `{array}`, {edge}."));
    g.random.pick(&["wave_step", "leapfrog_wave", "ripple_step", "propagate_wave"])
}

/// The collision of particles on a lattice of nine directions.
pub(super) fn lattice_boltzmann(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.threads_over(&[N0], &["i"]);
    let f = g.array_like(&["f", "populations", "distribution"], Type::F32, &[N0, ProgramExtent::Is(9)], 0.05, 0.2);
    let omega = g.number_like(&["omega", "relaxation"], 0.5, 1.5);
    let [rho, mx, my] = [("rho", 2.0), ("mx", 1.0), ("my", 1.0)].map(|(name, bound)| {
        let index = g.starting(&[name], Type::F32, "0.0", bound);
        g.taken(&[index]);
        index
    });
    let texts = [rho, mx, my].map(|index| g.text(index));
    let (q, k) = (g.like(&["q", "dir_idx"]), g.like(&["k", "q2", "out_idx"]));
    g.line(&format!("for {q} in range(9):"));
    g.nested(|g| {
        g.line(&format!("{} += {f}[i, {q}]", texts[0]));
        g.line(&format!("{} += float({q} % 3 - 1) * {f}[i, {q}]", texts[1]));
        g.line(&format!("{} += float({q} // 3 - 1) * {f}[i, {q}]", texts[2]));
    });
    g.explain(format!(
        "For each `{q}` below 9: `{}` adds up `{f}[i, {q}]`; `{}` adds up `float({q} % 3 - 1) * {f}[i, {q}]`; `{}` adds up \
         `float({q} // 3 - 1) * {f}[i, {q}]`.",
        texts[0], texts[1], texts[2]
    ));
    let forced = g.random.one_in(2).then(|| {
        let force = g.element_like(&["force", "gravity_x", "push"], Type::F32, -0.1, 0.1);
        format!(" + 0.5 * {}", g.text(force))
    });
    let momentum = match forced {
        Some(forced) => format!("({}{forced})", texts[1]),
        None => texts[1].clone(),
    };
    let u = format!("{momentum} / {}", texts[0]);
    let u = g.set_like(&["ux", "vel_x"], &u, Type::F32, 1.0, "the velocity along the first axis");
    let v =
        g.set_like(&["uy", "vel_y"], &format!("{} / {}", texts[2], texts[0]), Type::F32, 1.0, "that along the second");
    let u = g.varied(u, difficulty);
    let [u, v, omega] = [u, v, omega].map(|index| g.text(index));
    let square =
        g.set_like(&["usq", "speed_sq"], &format!("{u} * {u} + {v} * {v}"), Type::F32, 3.0, "the squared speed");
    let square = g.text(square);
    let out = g.zeros_like(&["f_out", "collided", "next_f"], Type::F32, &[N0, ProgramExtent::Is(9)]);
    g.line(&format!("for {k} in range(9):"));
    let abs = g.builtin("abs");
    let done = g.nested(|g| {
        let [cx, cy] = [("cx", "%"), ("cy", "//")].map(|(name, operator)| {
            let name = g.like(&[name]);
            g.line(&format!("{name} = {k} {operator} 3 - 1"));
            g.explain(format!("`{name}` is `{k} {operator} 3 - 1`."));
            name
        });
        let steps = format!("{abs}({cx}) + {abs}({cy})");
        let weight = format!("4.0 / 9.0 * 0.25 ** float({steps})");
        let w = g.ranged_like(
            &["w", "weight"],
            &weight,
            Type::F32,
            NumberRange::new(0.02, 0.5),
            "the weight of the direction",
        );
        let along = format!("float({cx}) * {u} + float({cy}) * {v}");
        let cu = g.set_like(&["cu", "along"], &along, Type::F32, 2.0, "the velocity along it");
        let [w, cu] = [w, cu].map(|index| g.text(index));
        let eq = format!("{w} * {} * (1.0 + 3.0 * {cu} + 4.5 * {cu} * {cu} - 1.5 * {square})", texts[0]);
        let eq = g.set_like(&["eq", "feq", "balance"], &eq, Type::F32, 60.0, "the equilibrium");
        let eq = g.text(eq);
        g.line(&format!("{out}[i, {k}] = {f}[i, {k}] + {omega} * ({eq} - {f}[i, {k}])"));
        g.explain(format!("`{out}` there is `{f}` moved towards `{eq}` by the share `{omega}`."));
    });
    g.say(format!("For each `{k}` below 9: {done}."));
    let swing = format!("{} - 1.0", texts[0]);
    let swing = g.set_like(&["swing", "rho_shift"], &swing, Type::F32, 1.0, "how far the density is from one");
    g.written(&["density_out", "rho_out"], swing, difficulty);
    g.sum_up(format!("Collide the populations `{f}` of a lattice-Boltzmann fluid."));
    g.random.pick(&["lbm_collide", "bgk_collision", "lattice_boltzmann", "relax_populations"])
}
