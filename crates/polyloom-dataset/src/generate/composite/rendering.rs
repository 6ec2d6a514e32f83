//! Pictures: surfaces that are found by steps, what they reflect, and filters that keep edges.

use super::{N0, N1, VEC3};
use crate::generate::generator::KernelGenerator;
use crate::generate::program::InputValues;
use crate::number_range::NumberRange;
use polyloom::Type;

/// A mean over the neighbours of a pixel, or what is made of it, with weights by distance and by likeness.
pub(super) fn bilateral(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.threads_over(&[N0, N1], &["y", "x"]);
    let image = g.element_like(&["image", "depth_map", "pixels"], Type::F32, 0.0, 1.0);
    let image = g.text(image);
    let array = image.replace("[y, x]", "");
    let radius = g.random.pick(&[1, 2]);
    let (edge, kernel, kind) = (g.random.below(3), g.random.below(3), g.random.below(4));
    let [near, alike] = [
        g.number_like(&["spatial_decay", "space_rate"], 0.1, 0.5),
        g.number_like(&["range_decay", "tone_rate"], 1.0, 6.0),
    ]
    .map(|index| g.text(index));
    let guide = g.random.one_in(3).then(|| {
        let guide = g.element_like(&["guide", "reference_image", "luma"], Type::F32, 0.0, 1.0);
        g.text(guide).replace("[y, x]", "")
    });
    let guide = guide.unwrap_or_else(|| array.clone());
    let (clamp, exp, max, abs) = (g.builtin("clamp"), g.builtin("exp"), g.builtin("max"), g.builtin("abs"));
    let total = g.starting(&["total", "acc", "blurred"], Type::F32, "0.0", 25.0);
    let norm = g.starting(&["norm", "weight_sum", "mass"], Type::F32, "0.001", 25.0);
    let [total_text, norm_text] = [total, norm].map(|index| g.text(index));
    let [dy, dx, ny, nx] = ["dy", "dx", "yy", "xx"].map(|name| g.like(&[name]));
    g.line(&format!("for {dy} in range(-{radius}, {}):", radius + 1));
    let mut kernel_words = "";
    g.nested(|g| {
        g.line(&format!("for {dx} in range(-{radius}, {}):", radius + 1));
        g.nested(|g| {
            for (axis, (name, index, offset)) in [(&ny, "y", &dy), (&nx, "x", &dx)].into_iter().enumerate() {
                let extent = format!("{array}.shape[{axis}]");
                g.line(&match edge {
                    0 => format!("{name} = {clamp}({index} + {offset}, 0, {extent} - 1)"),
                    1 => format!("{name} = ({index} + {offset} + {radius} * {extent}) % {extent}"),
                    _ => format!("{name} = {index} + {offset}"),
                });
            }
            if edge == 2 {
                g.line(&format!("if {ny} < 0 or {ny} >= {array}.shape[0]:"));
                g.nested(|g| g.line("continue"));
                g.line(&format!("if {nx} < 0 or {nx} >= {array}.shape[1]:"));
                g.nested(|g| g.line("continue"));
            }
            let diff = format!("{guide}[{ny}, {nx}] - {guide}[y, x]");
            let diff = g.set_like(&["diff", "contrast_now", "step_up"], &diff, Type::F32, 1.0, "");
            let diff = g.text(diff);
            let squares = format!("float({dy} * {dy} + {dx} * {dx})");
            let (weight, what) = [
                (
                    format!("{exp}(-{near} * {squares} - {alike} * {diff} * {diff})"),
                    "falls with the squares of the distance and of the difference",
                ),
                (
                    format!("{exp}(-{near} * {squares}) / (1.0 + {alike} * {diff} * {diff})"),
                    "falls with the square of the distance, and as a Lorentz curve with the difference",
                ),
                (
                    format!("{exp}(-{near} * {squares}) * {max}(1.0 - {alike} * {abs}({diff}), 0.0)"),
                    "falls with the square of the distance, and to zero with the difference",
                ),
            ][kernel]
                .clone();
            let w = g.ranged_like(&["w", "weight"], &weight, Type::F32, NumberRange::new(0.0, 1.0), "");
            let w = g.varied(w, difficulty);
            let w = g.text(w);
            g.line(&format!("{total_text} += {w} * {array}[{ny}, {nx}]"));
            g.line(&format!("{norm_text} += {w}"));
            kernel_words = what;
        });
    });
    let side = 2 * radius + 1;
    g.explain(format!(
        "`{total_text}` is the sum of the {side} by {side} pixels of `{array}` around, each with a weight that {kernel_words}."
    ));
    g.explain(format!("`{norm_text}` is the sum of the weights."));
    g.must_be_read(total);
    g.must_be_read(norm);
    let mean = format!("{total_text} / {norm_text}");
    let mean = g.set_like(&["smooth", "mean", "base_layer"], &mean, Type::F32, 25.0, "the weighted mean");
    let mean_text = g.text(mean);
    let value = match kind {
        0 => mean,
        1 => {
            let amount = g.number_like(&["amount", "sharpen", "boost_by"], 0.2, 2.0);
            let text = format!("{image} + {} * ({image} - {mean_text})", g.text(amount));
            g.set_like(&["sharp", "crisp"], &text, Type::F32, 80.0, "the pixel with its details made stronger")
        }
        2 => g.set_like(&["detail", "texture"], &format!("{image} - {mean_text}"), Type::F32, 26.0, "the detail"),
        _ => {
            let strength = g.number_like(&["mix", "strength", "opacity"], 0.2, 0.9);
            let strength = g.text(strength);
            let text = format!("(1.0 - {strength}) * {image} + {strength} * {mean_text}");
            g.set_like(&["softened", "mixed"], &text, Type::F32, 26.0, "the pixel mixed with the mean")
        }
    };
    g.written(&["out", "result"], value, difficulty);
    let edge = ["the edge repeated", "round a torus", "without what is beyond the edge"][edge];
    g.sum_up(format!("Filter `{array}` bilaterally, {edge}."));
    [
        g.random.pick(&["bilateral_filter", "denoise_image", "smooth_depth"]),
        g.random.pick(&["sharpen_image", "unsharp_bilateral"]),
        g.random.pick(&["detail_layer", "extract_detail"]),
        g.random.pick(&["soft_filter", "partial_denoise"]),
    ][kind]
}

/// Rays that go forward by the distance of the nearest surface.
pub(super) fn sphere_tracing(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.with_composite(VEC3);
    g.threads_over(&[N0], &["i"]);
    let origin = g.array_like(&["origins", "eyes"], VEC3, &[N0], -2.0, 2.0);
    let direction = g.like(&["directions", "rays"]);
    g.param(&direction, VEC3, vec![N0], InputValues::Unit);
    let size = g.number_like(&["radius", "size", "half_width"], 0.3, 0.9);
    let size = g.text(size);
    let (length, vec, make) = (g.builtin("length"), g.type_name(VEC3), g.builtin("vec3"));
    let (min, max, abs) = (g.builtin("min"), g.builtin("max"), g.builtin("abs"));
    let function = g.like(&["scene", "surface_distance", "sdf"]);
    let shapes: Vec<usize> = (0..1 + g.random.below(3)).map(|_| g.random.below(5)).collect();
    let (join, bumpy) = (g.random.below(3), g.random.one_in(3));
    let sin = g.builtin("sin");
    let heads = [("p", vec.as_str()), ("r", "float")].map(|(name, ty)| (name.to_owned(), ty.to_owned()));
    let told = g.item(&function, &heads, |g| {
        for (at, shape) in shapes.iter().enumerate() {
            let name = if at == 0 { "d" } else { "other" };
            let q = if at == 0 { "p".to_owned() } else { format!("q{at}") };
            if at > 0 {
                let shift = ["0.8, 0.0, 0.2", "-0.5, 0.6, 0.0"][at - 1];
                g.line(&format!("{q} = p - {make}({shift})"));
            }
            let text = match shape {
                0 => format!("{length}({q}) - r"),
                1 => format!("{max}({max}({abs}({q}[0]), {abs}({q}[1])), {abs}({q}[2])) - r"),
                2 => format!("{abs}({q}[1] + 1.0) - 0.3 * r"),
                3 => format!("{length}({make}({q}[0], 0.0, {q}[2])) - 0.5 * r"),
                _ => format!("{abs}({q}[0]) + {abs}({q}[1]) + {abs}({q}[2]) - r"),
            };
            g.line(&format!("{name} = {text}"));
            if at > 0 {
                g.line(&match join {
                    0 => format!("d = {min}(d, {name})"),
                    1 => format!("d = {max}(d, -{name})"),
                    _ => format!("d = 0.5 * (d + {name}) - 0.5 * {abs}(d - {name})"),
                });
            }
        }
        if bumpy {
            g.line(&format!("d += 0.05 * {sin}(4.0 * p[0]) * {sin}(4.0 * p[1])"));
        }
        g.line("return d");
        String::new()
    });
    g.explain(told.sentence(&format!("{function}(p, r)")));
    let t = g.starting(&["t", "travelled", "depth"], Type::F32, "0.0", 60.0);
    let count = g.starting(&["n_used", "used_steps"], Type::I32, "0", 32.0);
    let [t_text, count_text] = [t, count].map(|index| g.text(index));
    let n = g.random.pick(&[8, 12, 16, 24]);
    let (near, far) = (g.random.pick(&["0.01", "0.001", "0.005"]), g.random.pick(&["10.0", "20.0", "8.0"]));
    let step = g.like(&["step", "march_idx", "s"]);
    let careful = g.random.one_in(2);
    g.line(&format!("for {step} in range({n}):"));
    g.nested(|g| {
        let at = format!("{origin}[i] + {t_text} * {direction}[i]");
        let gap =
            g.set_like(&["gap", "reach_now", "clearance"], &format!("{function}({at}, {size})"), Type::F32, 60.0, "");
        let gap = g.text(gap);
        g.line(&format!("if {gap} < {near} or {t_text} > {far}:"));
        g.nested(|g| g.line("break"));
        g.line(&match careful {
            true => format!("{t_text} += 0.8 * {gap}"),
            false => format!("{t_text} += {gap}"),
        });
        g.line(&format!("{count_text} += 1"));
    });
    let at = format!("{origin}[i] + {t_text} * {direction}[i]");
    let share = if careful { "0.8 of " } else { "" };
    g.explain(format!(
        "`{t_text}` is how far the ray gets in at most {n} steps, each by {share}the distance `{function}({at}, {size})`, \
         until that falls below {near} or `{t_text}` exceeds {far}."
    ));
    g.explain(format!("`{count_text}` is how many of the steps it makes."));
    g.must_be_read(t);
    g.must_be_read(count);
    let kind = g.random.below(3);
    let value = match kind {
        0 => t,
        1 => {
            let here = format!("{origin}[i] + {t_text} * {direction}[i]");
            let here = g.set_like(&["here", "hit_point", "at_surface"], &here, VEC3, 60.0, "where it gets to");
            let here = g.text(here);
            let axes = ["0.01, 0.0, 0.0", "0.0, 0.01, 0.0", "0.0, 0.0, 0.01"];
            let base = g.set_like(
                &["base", "d0"],
                &format!("{function}({here}, {size})"),
                Type::F32,
                60.0,
                "the distance left",
            );
            let base = g.text(base);
            let parts: Vec<String> = axes
                .iter()
                .zip(["gx", "gy", "gz"])
                .map(|(axis, name)| {
                    let text = format!("{function}({here} + {make}({axis}), {size}) - {base}");
                    let part = g.set_like(&[name], &text, Type::F32, 0.1, "");
                    g.text(part)
                })
                .collect();
            let normal = format!("{}({make}({}))", g.builtin("normalize"), parts.join(", "));
            let normal =
                g.set_like(&["normal", "n_dir"], &normal, VEC3, 1.0, "the direction in which the distance grows");
            let normal = g.text(normal);
            let light = g.like(&["light", "sun", "light_dir"]);
            g.param(&light, VEC3, Vec::new(), InputValues::Unit);
            let text = format!("{max}({}({normal}, {light}), 0.0)", g.builtin("dot"));
            g.ranged_like(
                &["lit", "lambert"],
                &text,
                Type::F32,
                NumberRange::new(0.0, 1.0),
                "how much light falls there",
            )
        }
        _ => {
            let fog = g.number_like(&["fog", "absorption", "density"], 0.05, 0.5);
            let text = format!("{}(-{} * {t_text})", g.builtin("exp"), g.text(fog));
            g.ranged_like(
                &["clear", "transmittance"],
                &text,
                Type::F32,
                NumberRange::new(0.0, 1.0),
                "the light that gets through",
            )
        }
    };
    g.written(&["out", "result"], value, difficulty);
    if g.random.one_in(2) {
        g.kept(&["step_counts", "iterations"], count);
    }
    let rays = format!("rays from `{origin}` along `{direction}`");
    g.sum_up(match kind {
        0 => format!("Find how far {rays} reach by sphere tracing."),
        1 => format!("Light what {rays} meet by sphere tracing."),
        _ => format!("Find the light that is left of {rays}."),
    });
    g.random.pick(&["sphere_tracing", "march_rays", "raymarch_scene", "trace_distance_field"])
}

/// Returns what a rough surface reflects.
pub(super) fn microfacet(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.with_composite(VEC3);
    g.threads_over(&[N0], &["i"]);
    let [normal, view, light] =
        [&["normals", "surface_n"][..], &["views", "to_eye"], &["lights", "to_light"]].map(|names| {
            let name = g.like(names);
            g.param(&name, VEC3, vec![N0], InputValues::Unit);
            name
        });
    let rough = g.element_like(&["roughness", "gloss_width"], Type::F32, 0.2, 0.9);
    let rough = g.text(rough);
    let (dot, abs, normalize) = (g.builtin("dot"), g.builtin("abs"), g.builtin("normalize"));
    let facing = NumberRange::new(0.02, 1.02);
    let half = format!("{normalize}({view}[i] + {light}[i] + 0.01 * {normal}[i])");
    let half = g.set_like(&["half_dir", "h", "between"], &half, VEC3, 1.0, "the direction between view and light");
    let half = g.text(half);
    let mut cosine = |names: &[&str], a: &str, b: &str, what: &str| {
        let text = format!("{abs}({dot}({a}, {b})) + 0.02");
        let index = g.ranged_like(names, &text, Type::F32, facing, what);
        g.text(index)
    };
    let [n, v, l] = [&normal, &view, &light].map(|name| format!("{name}[i]"));
    let nl = cosine(&["n_l", "cos_light"], &n, &l, "the cosine of the light, from either side and never zero");
    let nv = cosine(&["n_v", "cos_view"], &n, &v, "that of the view");
    let nh = cosine(&["n_h", "cos_half"], &n, &half, "that of the direction between them");
    let vh = cosine(&["v_h", "cos_diff"], &v, &half, "that of the view from there");
    let alpha = g.ranged_like(
        &["alpha", "a2_root"],
        &format!("{rough} * {rough}"),
        Type::F32,
        NumberRange::new(0.04, 0.9),
        "the squared roughness",
    );
    let alpha = g.text(alpha);
    let distribution = g.random.below(3);
    let text = match distribution {
        0 => {
            let d = format!("{nh} * {nh} * ({alpha} * {alpha} - 1.0) + 1.0");
            let d = g.ranged_like(&["denom", "spread_now"], &d, Type::F32, NumberRange::new(0.0016, 1.0), "");
            let d = g.text(d);
            format!("{alpha} * {alpha} / (3.14159 * {d} * {d} + 0.0001)")
        }
        1 => {
            let tan = format!("(1.05 - {nh} * {nh}) / ({nh} * {nh})");
            let tan = g.ranged_like(
                &["tan_sq", "tilt_sq"],
                &tan,
                Type::F32,
                NumberRange::new(0.0, 2500.0),
                "the squared tangent of the tilt",
            );
            let text = format!("{}(-{} / ({alpha} * {alpha}))", g.builtin("exp"), g.text(tan));
            let e = g.ranged_like(&["lobe", "gauss"], &text, Type::F32, NumberRange::new(0.0, 1.0), "");
            format!("{} / (3.14159 * {alpha} * {alpha} * {nh} * {nh} * {nh} * {nh} + 0.0001)", g.text(e))
        }
        _ => format!("({}({nh}, 2.0 / ({alpha} * {alpha}) - 2.0) + 0.01) / (3.14159 * {alpha})", g.builtin("pow")),
    };
    let what = ["by Trowbridge and Reitz", "by Beckmann", "by Blinn and Phong"][distribution];
    let what = format!("the distribution of the facets {what}");
    let d = g.ranged_like(&["facets", "ndf", "d_term"], &text, Type::F32, NumberRange::new(0.0, 1e4), &what);
    let shadowing = g.random.below(3);
    let text = match shadowing {
        0 => {
            let k = g.ranged_like(
                &["k", "shadow_k"],
                &format!("0.5 * {alpha}"),
                Type::F32,
                NumberRange::new(0.01, 0.5),
                "",
            );
            let k = g.text(k);
            format!("{nl} / ({nl} * (1.0 - {k}) + {k}) * {nv} / ({nv} * (1.0 - {k}) + {k})")
        }
        1 => {
            let min = g.builtin("min");
            let common = g.ranged_like(
                &["common", "twice"],
                &format!("2.0 * {nh} / {vh}"),
                Type::F32,
                NumberRange::new(0.0, 100.0),
                "",
            );
            let common = g.text(common);
            format!("{min}(1.0, {min}({common} * {nv}, {common} * {nl}))")
        }
        _ => format!("{nl} * {nv}"),
    };
    let shadow = g.ranged_like(
        &["shadow", "g_term"],
        &text,
        Type::F32,
        NumberRange::new(0.0, 1.0),
        "what facets do not hide of each other",
    );
    let base = g.number_like(&["f0", "reflectance", "specular"], 0.02, 0.9);
    let base = g.text(base);
    let text = format!("{base} + (1.0 - {base}) * {}(1.02 - {vh}, 5.0)", g.builtin("pow"));
    let fresnel = g.ranged_like(
        &["fresnel", "f_term"],
        &text,
        Type::F32,
        NumberRange::new(0.0, 1.0),
        "Schlick's share that is thrown back",
    );
    let [d, shadow, fresnel] = [d, shadow, fresnel].map(|index| g.text(index));
    let text = format!("{d} * {shadow} * {fresnel} / (4.0 * {nl} * {nv})");
    let mut value = g.ranged_like(
        &["spec", "glossy", "highlight"],
        &text,
        Type::F32,
        NumberRange::new(0.0, 1e4),
        "the glossy part",
    );
    if g.random.one_in(2) {
        let albedo = g.element_like(&["albedo", "diffuse_color", "matte"], Type::F32, 0.1, 0.9);
        let text = format!("(1.0 - {fresnel}) * {} / 3.14159 + {}", g.text(albedo), g.text(value));
        value = g.ranged_like(
            &["brdf", "both"],
            &text,
            Type::F32,
            NumberRange::new(0.0, 1e4),
            "the matte part and the glossy part",
        );
    }
    let power = g.number_like(&["light_power", "intensity", "irradiance"], 2.0, 6.0);
    let text = format!("{} * {nl} * {}", g.text(value), g.text(power));
    let value =
        g.ranged_like(&["radiance", "reflected"], &text, Type::F32, NumberRange::new(0.0, 1e4), "what is thrown back");
    g.written(&["out", "result"], value, difficulty);
    g.sum_up(format!("Shade rough surfaces with the normals `{normal}` by microfacets."));
    g.random.pick(&["microfacet_brdf", "cook_torrance", "glossy_reflection", "ggx_shading"])
}
