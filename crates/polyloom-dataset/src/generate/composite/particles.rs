//! Particles and bodies.

use super::{N0, QUAT, VEC2, VEC3};
use crate::generate::generator::{KernelGenerator, held_together};
use crate::generate::program::InputValues;
use crate::number_range::NumberRange;
use polyloom::Type;

fn space(g: &mut KernelGenerator) -> (Type, &'static str) {
    let (ty, name) = if g.random.one_in(4) { (VEC2, "vec2") } else { (VEC3, "vec3") };
    g.with_composite(ty);
    (ty, name)
}

/// A step of independent particles.
pub(super) fn step(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    let (ty, name) = space(g);
    g.threads_over(&[N0], &["i"]);
    let x = g.element_like(&["position", "x", "points", "pos"], ty, -2.0, 2.0);
    let v = g.element_like(&["velocity", "v", "speed"], ty, -2.0, 2.0);
    let dt = g.number_like(&["dt", "h", "step_size"], 0.01, 0.1);
    let (x_text, v_text, dt_text) = (g.text(x), g.text(v), g.text(dt));
    let pull = ["0.0, -9.81, 0.0", "0.0, -9.8", "0.0, 0.0, -9.81"];
    let p = g.builtin(name);
    let pull = match name {
        "vec2" => pull[1],
        _ => pull[g.random.pick(&[0, 2])],
    };
    let a = g.set_like(&["acc", "accel", "a"], &format!("{p}({pull})"), ty, 10.0, "gravity");
    let a = match g.random.below(3) {
        0 => {
            let drag = g.number_like(&["drag", "damping", "friction"], 0.0, 0.5);
            let (a, drag) = (g.text(a), g.text(drag));
            g.set_like(
                &["slowed", "net", "total_acc"],
                &format!("{a} - {drag} * {v_text}"),
                ty,
                12.0,
                "gravity less drag",
            )
        }
        1 => {
            let mass = g.element_like(&["mass", "weights", "inertia"], Type::F32, 0.5, 2.0);
            let force = g.element_like(&["force", "push", "thrust"], ty, -1.0, 1.0);
            let (a, mass, force) = (g.text(a), g.text(mass), g.text(force));
            g.set_like(
                &["net", "acc_total"],
                &format!("{a} + {force} / {mass}"),
                ty,
                14.0,
                "gravity and the force over the mass",
            )
        }
        _ => a,
    };
    let a = g.varied(a, difficulty);
    let a_text = g.text(a);
    let new_v = g.set_like(
        &["v_next", "new_v", "v1"],
        &format!("{v_text} + {a_text} * {dt_text}"),
        ty,
        4.0,
        "the new velocity",
    );
    let scheme = g.random.below(3);
    let (moved, what) = match scheme {
        0 => (format!("{x_text} + {v_text} * {dt_text}"), "the new position by the old velocity"),
        1 => (format!("{x_text} + {} * {dt_text}", g.text(new_v)), "the new position by the new velocity"),
        _ => (
            format!("{x_text} + 0.5 * ({v_text} + {}) * {dt_text}", g.text(new_v)),
            "the new position by the mean of both velocities",
        ),
    };
    let new_x = g.set_like(&["x_next", "new_x", "x1", "moved"], &moved, ty, 4.0, what);
    if g.random.one_in(2) {
        let bounce = g.number_like(&["restitution", "bounce", "elasticity"], 0.2, 0.9);
        let floor = g.number_like(&["floor_height", "ground"], -1.0, 0.0);
        let (new_v, new_x, bounce, floor) = (g.text(new_v), g.text(new_x), g.text(bounce), g.text(floor));
        g.line(&format!("if {new_x}.y < {floor}:"));
        let axes = if name == "vec2" { "x y" } else { "x y z" };
        let part = |of: &str, y: &str| {
            axes.split(' ')
                .map(|axis| if axis == "y" { y.to_owned() } else { format!("{of}.{axis}") })
                .collect::<Vec<_>>()
                .join(", ")
        };
        let at = part(&new_x, &floor);
        let back = part(&new_v, &format!("-{bounce} * {new_v}.y"));
        g.nested(|g| {
            g.line(&format!("{new_x} = {p}({at})"));
            g.line(&format!("{new_v} = {p}({back})"));
        });
        g.explain(format!(
            "Where `{new_x}.y` is less than `{floor}`, (`{new_x}.y` becomes `{floor}`; `{new_v}.y` becomes `-{bounce} * {new_v}.y`)."
        ));
    }
    g.gap();
    if g.random.one_in(2) {
        let kept = g.changed(new_v, usize::from(difficulty > 1), false);
        g.line(&format!("{v_text} = {}", kept.text));
        g.line(&format!("{x_text} = {}", g.text(new_x)));
        g.say(format!("`{}` becomes {}.", v_text.replace("[i]", ""), kept.words));
        g.say(format!("`{}` becomes `{}`.", x_text.replace("[i]", ""), g.text(new_x)));
    } else {
        g.written(&["out", "result"], new_x, difficulty);
        g.written(&["out_v"], new_v, 0);
    }
    let (x, v) = (x_text.replace("[i]", ""), v_text.replace("[i]", ""));
    g.sum_up(format!("Move particles at `{x}` with velocities `{v}` by a step `{dt_text}`."));
    [
        g.random.pick(&["euler_step", "advance_particles", "move_particles"]),
        g.random.pick(&["symplectic_euler_step", "integrate_particles", "particle_step"]),
        g.random.pick(&["trapezoid_step", "midpoint_particles", "advance_positions"]),
    ][scheme]
}

/// The pull of all bodies on each.
pub(super) fn gravity(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    let (ty, name) = space(g);
    g.threads_over(&[N0], &["i"]);
    let x = g.element_like(&["position", "x", "bodies", "pos"], ty, -2.0, 2.0);
    let array = g.text(x).replace("[i]", "");
    let mass = g.element_like(&["mass", "weight", "charge"], Type::F32, 0.1, 1.0);
    let masses = g.text(mass).replace("[i]", "");
    let soft = g.number_like(&["softening", "eps", "soft"], 0.1, 0.5);
    let here = g.text(x);
    let own = g.set_like(&["xi", "here", "own", "p"], &here, ty, 2.0, "");
    let p = g.builtin(name);
    let total = g.starting(&["force", "acc", "total", "pull"], ty, &format!("{p}()"), 2000.0);
    let (total_text, own_text, soft_text) = (g.text(total), g.text(own), g.text(soft));
    let j = g.like(&["j", "other", "n"]);
    let (dot, length) = (g.builtin("dot"), g.builtin("length_sq"));
    let sqrt = g.builtin("sqrt");
    let (skips, law) = (g.random.one_in(2), g.random.below(4));
    g.line(&format!("for {j} in range({array}.shape[0]):"));
    let done = g.nested(|g| {
        if skips {
            g.line(&format!("if {j} == i:"));
            g.nested(|g| g.line("continue"));
        }
        let d =
            g.set_like(&["d", "offset", "delta", "r"], &format!("{array}[{j}] - {own_text}"), ty, 4.0, "the offset");
        let d_text = g.text(d);
        let square =
            if g.random.one_in(2) { format!("{dot}({d_text}, {d_text})") } else { format!("{length}({d_text})") };
        let range = NumberRange::new(0.01, 50.0);
        let d2 = g.ranged_like(
            &["d2", "dist_sq", "r2"],
            &format!("{square} + {soft_text} * {soft_text}"),
            Type::F32,
            range,
            "",
        );
        let d2_text = g.text(d2);
        let exp = g.builtin("exp");
        let (strength, what) = match law {
            0 => (format!("{masses}[{j}] / ({d2_text} * {sqrt}({d2_text}))"), "the mass over the cube of the distance"),
            1 => (format!("{masses}[{j}] / {d2_text}"), "the mass over the square of the distance"),
            2 => (format!("{masses}[{j}] / {sqrt}({d2_text})"), "the mass over the distance"),
            _ => (format!("{masses}[{j}] * {exp}(-{d2_text})"), "the mass times a Gaussian of the distance"),
        };
        let w =
            g.ranged_like(&["w", "strength", "s", "factor"], &strength, Type::F32, NumberRange::new(0.0, 20.0), what);
        let w = g.varied(w, difficulty);
        g.line(&format!("{total_text} += {} * {d_text}", g.text(w)));
        g.explain(format!("`{total_text}` adds up the offsets `{d_text}` times `{}`", g.text(w)));
    });
    let own = if skips { " but `i`" } else { "" };
    g.explain(format!("For each `{j}` of `{array}`{own}, with distances softened by `{soft_text}`: {done}."));
    g.must_be_read(total);
    g.written(&["out", "result"], total, difficulty);
    g.sum_up(format!("Add up what bodies at `{array}` of the masses `{masses}` do to each other."));
    [
        g.random.pick(&["gravity_forces", "n_body", "gravitational_pull"]),
        g.random.pick(&["planar_gravity", "inverse_distance_forces"]),
        g.random.pick(&["constant_pull", "unit_attraction"]),
        g.random.pick(&["gaussian_attraction", "short_range_pull"]),
    ][law]
}

/// Lennard-Jones forces and energies.
pub(super) fn lennard_jones(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    let (ty, name) = space(g);
    g.threads_over(&[N0], &["i"]);
    let x = g.element_like(&["atoms", "position", "sites"], ty, -2.0, 2.0);
    let array = g.text(x).replace("[i]", "");
    let (sigma, depth) = (g.number_like(&["sigma", "radius"], 0.4, 0.8), g.number_like(&["epsilon", "well"], 0.1, 1.0));
    let forces = g.random.one_in(2);
    let p = g.builtin(name);
    let total = match forces {
        true => g.starting(&["force", "total", "acc"], ty, &format!("{p}()"), 1e4),
        false => g.starting(&["energy", "potential", "total"], Type::F32, "0.0", 1e4),
    };
    let j = g.like(&["j", "k", "other"]);
    let texts = (g.text(total), g.text(sigma), g.text(depth));
    let (dot, max) = (g.builtin("dot"), g.builtin("max"));
    let cut = g.random.one_in(2).then(|| {
        let cut = g.number_like(&["cutoff", "reach"], 1.5, 3.0);
        g.text(cut)
    });
    g.line(&format!("for {j} in range({array}.shape[0]):"));
    let done = g.nested(|g| {
        g.line(&format!("if {j} != i:"));
        let pair = g.nested(|g| {
            let d = g.set_like(&["d", "delta", "gap"], &format!("{array}[i] - {array}[{j}]"), ty, 4.0, "");
            let d = g.text(d);
            // Close pairs are held apart so that powers stay finite.
            let r2 = g.ranged_like(
                &["r2", "dist_sq"],
                &format!("{max}({dot}({d}, {d}), 0.25)"),
                Type::F32,
                NumberRange::new(0.25, 50.0),
                "the squared distance, at least 0.25",
            );
            let r2_text = g.text(r2);
            let s2 = g.ranged_like(
                &["s2", "q", "ratio_sq"],
                &format!("{0} * {0} / {r2_text}", texts.1),
                Type::F32,
                NumberRange::new(0.0, 3.0),
                "",
            );
            let s2 = g.text(s2);
            let s6 = g.ranged_like(
                &["s6", "inv6"],
                &format!("{s2} * {s2} * {s2}"),
                Type::F32,
                NumberRange::new(0.0, 27.0),
                "",
            );
            let s6 = g.text(s6);
            let (value, what) = match forces {
                true => (
                    format!("24.0 * {} * (2.0 * {s6} * {s6} - {s6}) / {r2_text}", texts.2),
                    "the Lennard-Jones force over the distance",
                ),
                false => (format!("4.0 * {} * ({s6} * {s6} - {s6})", texts.2), "the Lennard-Jones energy of the pair"),
            };
            let w = g.set_like(&["w", "magnitude", "pair"], &value, Type::F32, 1e4, what);
            let w = g.varied(w, difficulty);
            let w = g.text(w);
            let added = if forces { format!("{} += {w} * {d}", texts.0) } else { format!("{} += {w}", texts.0) };
            match &cut {
                Some(cut) => {
                    g.line(&format!("if {r2_text} < {cut} * {cut}:"));
                    g.nested(|g| g.line(&added));
                }
                None => g.line(&added),
            }
            let done = if forces {
                format!("add `{w} * {d}` to `{}`", texts.0)
            } else {
                format!("add `{w}` to `{}`", texts.0)
            };
            g.explain(match &cut {
                Some(cut) => format!("where `{r2_text}` is less than `{cut} * {cut}`, {done}"),
                None => done,
            });
        });
        g.explain(pair);
    });
    g.explain(format!("For each `{j}` of `{array}` but `i`: {done}."));
    g.must_be_read(total);
    g.written(&["out", "result", "lj_out"], total, difficulty);
    let what = if forces { "forces" } else { "energies" };
    g.sum_up(format!("Compute the Lennard-Jones {what} of the atoms at `{array}`."));
    match forces {
        true => g.random.pick(&["lennard_jones_forces", "lj_forces", "van_der_waals_forces"]),
        false => g.random.pick(&["lennard_jones_energies", "lj_energies", "pair_potential"]),
    }
}

/// Springs between neighbours of a chain.
pub(super) fn chain(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    let (ty, name) = space(g);
    g.threads_over(&[N0], &["i"]);
    let x = g.element_like(&["position", "nodes", "x"], ty, -2.0, 2.0);
    let array = g.text(x).replace("[i]", "");
    let stiff = g.number_like(&["stiffness", "k_spring"], 1.0, 10.0);
    let rest = g.number_like(&["rest_length", "rest"], 0.2, 1.0);
    let p = g.builtin(name);
    let total = g.starting(&["force", "f", "total"], ty, &format!("{p}()"), 100.0);
    let texts = (g.text(total), g.text(stiff), g.text(rest));
    let length = g.builtin("length");
    let as_function = g.random.one_in(2);
    let function = g.like(&["spring_force", "pull", "tension"]);
    let vec = g.type_name(ty);
    if as_function {
        let heads = [("a", vec.clone()), ("b", vec), ("stiff", "float".to_owned()), ("length0", "float".to_owned())];
        let heads: Vec<(String, String)> = heads.into_iter().map(|(name, ty)| (name.to_owned(), ty)).collect();
        let told = g.item(&function, &heads, |g| {
            g.line("d = b - a");
            g.line(&format!("span = {length}(d) + 0.001"));
            g.line("return stiff * (span - length0) / span * d");
            String::new()
        });
        g.explain(told.sentence(&format!("{function}(a, b, stiff, length0)")));
    }
    let reach = g.random.below(3);
    let sides: &[(&str, &str)] = match reach {
        0 => &[("i > 0", "i - 1"), ("i + 1 < {n}", "i + 1")],
        1 => &[("i + 1 < {n}", "i + 1"), ("i + 2 < {n}", "i + 2")],
        _ => &[("i > 0", "i - 1"), ("i + 1 < {n}", "i + 1"), ("i > 1", "i - 2"), ("i + 2 < {n}", "i + 2")],
    };
    let first = g.like(&["here", "xi"]);
    g.line(&format!("{first} = {array}[i]"));
    let (d, span) = (g.like(&["d", "delta", "edge"]), g.like(&["span", "dist", "len_now"]));
    for (guard, at) in sides {
        let guard = guard.replace("{n}", &format!("{array}.shape[0]"));
        g.line(&format!("if {guard}:"));
        g.nested(|g| match as_function {
            true => g.line(&format!("{} += {function}({first}, {array}[{at}], {}, {})", texts.0, texts.1, texts.2)),
            false => {
                g.line(&format!("{d} = {array}[{at}] - {first}"));
                g.line(&format!("{span} = {length}({d}) + 0.001"));
                g.line(&format!("{} += {} * ({span} - {}) / {span} * {d}", texts.0, texts.1, texts.2));
            }
        });
    }
    g.explain(format!(
        "Springs of the stiffness `{}` and the length `{}` join an element with {}; `{}` is their force.",
        texts.1,
        texts.2,
        ["both neighbours", "the next two", "the next two on either side"][reach],
        texts.0
    ));
    if g.random.one_in(2) {
        let v = g.element_like(&["velocity", "v"], ty, -1.0, 1.0);
        let damp = g.number_like(&["damping", "drag"], 0.0, 1.0);
        let (damp, v) = (g.text(damp), g.text(v));
        g.line(&format!("{} -= {damp} * {v}", texts.0));
        g.explain(format!("`{damp}` times `{}` is taken from it.", v.replace("[i]", "")));
    }
    g.must_be_read(total);
    g.written(&["out", "result"], total, difficulty);
    g.sum_up(format!("Compute the forces of springs along the chain `{array}`."));
    g.random.pick(&["spring_forces", "chain_forces", "rope_forces", "bond_forces"])
}

/// Spheres that hit a plane or each other.
pub(super) fn collision(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.with_composite(VEC3);
    g.threads_over(&[N0], &["i"]);
    let x = g.element_like(&["centers", "position", "a_pos"], VEC3, -1.0, 1.0);
    let v = g.element_like(&["velocity", "v", "motion"], VEC3, -2.0, 2.0);
    let (x, v) = (g.text(x), g.text(v));
    let (dot, length) = (g.builtin("dot"), g.builtin("length"));
    let bounce = g.number_like(&["restitution", "bounce"], 0.1, 0.9);
    let bounce = g.text(bounce);
    let (normal, gap) = match g.random.one_in(2) {
        true => {
            let other = g.element_like(&["other_centers", "b_pos", "targets"], VEC3, -1.0, 1.0);
            let radius = g.number_like(&["radius", "size"], 0.3, 1.0);
            let (other, radius) = (g.text(other), g.text(radius));
            let d = g.set_like(&["d", "apart"], &format!("{x} - {other}"), VEC3, 4.0, "what lies between the centers");
            let d = g.text(d);
            let dist = g.ranged_like(
                &["dist", "span"],
                &format!("{length}({d}) + 0.0001"),
                Type::F32,
                NumberRange::new(1e-4, 8.0),
                "",
            );
            let dist = g.text(dist);
            let n = g.set_like(
                &["normal", "n", "dir"],
                &format!("{d} / {dist}"),
                VEC3,
                1.0,
                "the direction of the contact",
            );
            (g.text(n), format!("{dist} - 2.0 * {radius}"))
        }
        false => {
            let plane = g.like(&["plane_normal", "wall", "up"]);
            g.param(&plane, VEC3, Vec::new(), InputValues::Unit);
            let offset = g.number_like(&["plane_offset", "level"], -0.5, 0.5);
            let offset = g.text(offset);
            (plane.clone(), format!("{dot}({plane}, {x}) - {offset}"))
        }
    };
    let gap = g.set_like(&["gap", "depth", "separation"], &gap, Type::F32, 4.0, "the distance of the surfaces");
    let gap_text = g.text(gap);
    let closing = g.set_like(
        &["vn", "closing", "approach"],
        &format!("{dot}({v}, {normal})"),
        Type::F32,
        8.0,
        "the speed along the normal",
    );
    let vn = g.text(closing);
    let out = g.starting(&["after", "v_out", "reflected"], VEC3, &v, 20.0);
    let out_text = g.text(out);
    let condition = g.random.pick(&["{g} < 0.0 and {v} < 0.0", "{v} < 0.0", "{g} < 0.2 and {v} < 0.1"]);
    let condition = condition.replace("{g}", &gap_text).replace("{v}", &vn);
    g.explain(format!("`{out_text}` starts as `{v}`."));
    g.line(&format!("if {condition}:"));
    let friction = g.random.one_in(2).then(|| {
        let friction = g.number_like(&["friction", "mu"], 0.0, 0.5);
        g.text(friction)
    });
    let done = g.nested(|g| {
        let push =
            g.set_like(&["impulse", "kick", "change"], &format!("-(1.0 + {bounce}) * {vn}"), Type::F32, 16.0, "");
        let push = g.varied(push, difficulty);
        g.line(&format!("{out_text} = {v} + {} * {normal}", g.text(push)));
        g.explain(format!("`{out_text}` becomes `{v} + {} * {normal}`", g.text(push)));
        if let Some(friction) = friction {
            g.line(&format!("{out_text} -= {friction} * ({v} - {vn} * {normal})"));
            g.explain(format!("take `{friction} * ({v} - {vn} * {normal})` from `{out_text}`"));
        }
    });
    g.explain(format!("Where `{}`, {}.", condition.replace(" and ", "` and `"), held_together(&done)));
    g.sum_up(format!("Work out the velocities `{}` after a contact.", v.replace("[i]", "")));
    g.must_be_read(out);
    g.written(&["out", "result"], out, difficulty);
    g.random.pick(&["resolve_contact", "collision_response", "bounce_off", "contact_velocity"])
}

/// Rotations that turn on.
pub(super) fn quaternions(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.with_composite(VEC3);
    g.threads_over(&[N0], &["i"]);
    let name = g.like(&["orientation", "rotation", "attitude"]);
    g.param(&name, QUAT, vec![N0], InputValues::Unit);
    let rate = g.element_like(&["omega", "spin", "angular_velocity"], VEC3, -2.0, 2.0);
    let dt = g.number_like(&["dt", "h"], 0.01, 0.1);
    let dt = g.text(dt);
    let rate = g.varied(rate, difficulty);
    let rate = g.text(rate);
    let (quat, normalize) = (g.builtin("quat"), g.builtin("normalize"));
    let q = g.set_like(&["q", "rot", "now"], &format!("{name}[i]"), QUAT, 1.0, "");
    let q = g.text(q);
    let turned = match g.random.one_in(2) {
        true => {
            let w = g.set_like(
                &["w", "spin_q"],
                &format!("{quat}({rate}[0], {rate}[1], {rate}[2], 0.0)"),
                QUAT,
                4.0,
                "the spin as a quaternion",
            );
            let w = g.text(w);
            let order = if g.random.one_in(2) { format!("{w} * {q}") } else { format!("{q} * {w}") };
            format!("{normalize}({q} + {order} * (0.5 * {dt}))")
        }
        false => {
            let (length, from) = (g.builtin("length"), g.builtin("quat_from_axis_angle"));
            let angle = g.ranged_like(
                &["angle", "turn"],
                &format!("{length}({rate}) * {dt} + 0.0001"),
                Type::F32,
                NumberRange::new(1e-4, 1.0),
                "the angle of the step",
            );
            let angle = g.text(angle);
            format!("{from}({normalize}({rate} + {}(0.001, 0.0, 0.0)), {angle}) * {q}", g.builtin("vec3"))
        }
    };
    let next = g.set_like(&["turned", "q_next", "q1"], &turned, QUAT, 1.0, "the rotation after the step");
    let next_text = g.text(next);
    let out = g.zeros_like(&["next_orientation", "out_q", "turned_to"], QUAT, &[N0]);
    g.line(&format!("{out}[i] = {next_text}"));
    g.say(format!("`{out}` is `{name}` turned by a step of `{dt}`."));
    g.sum_up(format!("Turn the rotations `{name}` by their angular velocities over a step of `{dt}`."));
    let arm = g.element_like(&["offset", "arm", "lever"], VEC3, -1.0, 1.0);
    let arm = g.text(arm);
    let rotate = g.random.pick(&["quat_rotate", "quat_rotate_inv"]);
    let rotate = g.builtin(rotate);
    let tip = g.set_like(
        &["tip", "world", "point"],
        &format!("{rotate}({next_text}, {arm})"),
        VEC3,
        2.0,
        "the lever turned by it",
    );
    g.written(&["out", "result"], tip, difficulty);
    g.random.pick(&["integrate_rotation", "spin_bodies", "rotate_frames", "attitude_step"])
}

/// Small systems of differential equations.
pub(super) fn pendulum(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.threads_over(&[N0], &["i"]);
    let kind = g.random.below(4);
    let (firsts, seconds, kept): (&[&str], &[&str], &[&str]) = match kind {
        0 => (&["angle", "theta0"], &["rate", "omega0"], &["final_rate", "out_rate"]),
        1 => (&["prey", "prey0"], &["predators", "predators0"], &["predators_left", "final_predators"]),
        2 => (&["u0", "displacement"], &["v0", "speed"], &["final_speed", "second_state"]),
        _ => (&["u0", "x0"], &["v0", "y0"], &["second_state", "out_second"]),
    };
    let a = g.element_like(firsts, Type::F32, 0.1, 1.0);
    let b = g.element_like(seconds, Type::F32, 0.1, 1.0);
    let (ka, kb) =
        (g.number_like(&["alpha", "k1", "growth"], 0.5, 1.5), g.number_like(&["beta", "k2", "loss"], 0.1, 0.8));
    let n = g.random.pick(&[4, 8, 10]);
    let texts = [a, b, ka, kb].map(|index| g.text(index));
    let (x_names, y_names): (&[&str], &[&str]) =
        if kind == 0 { (&["theta", "phi"], &["omega", "spin"]) } else { (&["x", "p"], &["y", "q"]) };
    let x = g.starting(x_names, Type::F32, &texts[0], 8.0);
    let y = g.starting(y_names, Type::F32, &texts[1], 8.0);
    let (x_text, y_text) = (g.text(x), g.text(y));
    let step = g.like(&["step", "s", "t_idx"]);
    let dt = g.random.pick(&["0.05", "0.02", "0.1"]);
    let sin = g.builtin("sin");
    let count = match g.random.one_in(3) {
        true => g.scalar_like(&["n_steps", "steps"], Type::I32, 2.0, 8.0),
        false => n.to_string(),
    };
    g.line(&format!("for {step} in range({count}):"));
    let done = g.nested(|g| {
        let (dx, dy) = match kind {
            0 => (y_text.clone(), format!("-{} * {sin}({x_text}) - {} * {y_text}", texts[2], texts[3])),
            1 => (
                format!("{} * {x_text} - {} * {x_text} * {y_text}", texts[2], texts[3]),
                format!("0.5 * {x_text} * {y_text} - {y_text}"),
            ),
            2 => (
                y_text.clone(),
                format!("{} * (1.0 - {x_text} * {x_text}) * {y_text} - {} * {x_text}", texts[3], texts[2]),
            ),
            _ => (format!("-{} * {x_text} + {y_text}", texts[2]), format!("-{} * {x_text} - {y_text}", texts[3])),
        };
        let dx = match dx == y_text {
            true => y,
            false => g.set_like(&["dx", "fx"], &dx, Type::F32, 16.0, "the rate of the first"),
        };
        let dy = g.set_like(&["dy", "fy"], &dy, Type::F32, 16.0, "the rate of the second");
        let dy = g.varied(dy, difficulty);
        let (clamp, bounded) = (g.builtin("clamp"), g.random.one_in(2));
        g.explain(format!("`{x_text}` changes at the rate `{}` and `{y_text}` at `{}`", g.text(dx), g.text(dy)));
        if bounded {
            g.explain(format!("`{y_text}` stays within 8 of zero"));
        }
        g.line(&format!("{x_text} += {dt} * {}", g.text(dx)));
        match bounded {
            true => g.line(&format!("{y_text} = {clamp}({y_text} + {dt} * {}, -8.0, 8.0)", g.text(dy))),
            false => g.line(&format!("{y_text} += {dt} * {}", g.text(dy))),
        }
    });
    let what = ["a damped pendulum", "predators and prey", "a van der Pol oscillator", "a linear system"][kind];
    g.explain(format!("`{x_text}` and `{y_text}` follow {what} by Euler's method in steps of {dt}: {done}."));
    g.must_be_read(x);
    g.must_be_read(y);
    g.written(&["out", "result"], x, difficulty);
    g.kept(kept, y);
    g.sum_up(format!("Integrate {what} for each pair of initial values."));
    [
        g.random.pick(&["damped_pendulum", "integrate_pendulum"]),
        g.random.pick(&["lotka_volterra", "predator_prey"]),
        g.random.pick(&["van_der_pol", "relaxation_oscillator"]),
        g.random.pick(&["linear_system", "integrate_linear_ode"]),
    ][kind]
}
