//! Rays, shapes, images.

use super::{MAT33, MAT44, N0, N1, VEC2, VEC3, VEC4};
use crate::generate::docstring::aside;
use crate::generate::generator::KernelGenerator;
use crate::generate::program::{InputValues, ProgramExtent};
use crate::number_range::NumberRange;
use polyloom::Type;

/// A ray for each thread: the names of origin and direction.
fn ray(g: &mut KernelGenerator) -> (String, String) {
    let origin = g.array_like(&["origins", "eyes", "starts"], VEC3, &[N0], -1.0, 1.0);
    let direction = g.like(&["directions", "dirs", "rays"]);
    g.param(&direction, VEC3, vec![N0], InputValues::Unit);
    (format!("{origin}[i]"), format!("{direction}[i]"))
}

/// Returns where rays meet a sphere.
pub(super) fn ray_sphere(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.with_composite(VEC3);
    g.threads_over(&[N0], &["i"]);
    let (origin, direction) = ray(g);
    let center = match g.random.one_in(2) {
        true => g.scalar_like(&["center", "middle"], VEC3, -0.5, 0.5),
        false => {
            let name = g.array_like(&["centers", "balls"], VEC3, &[N0], -0.5, 0.5);
            format!("{name}[i]")
        }
    };
    let radius = g.number_like(&["radius", "size"], 0.5, 1.5);
    let radius = g.text(radius);
    let (dot, sqrt) = (g.builtin("dot"), g.builtin("sqrt"));
    let oc = g.set_like(
        &["oc", "rel", "offset"],
        &format!("{origin} - {center}"),
        VEC3,
        2.0,
        "the origin as the center sees it",
    );
    let oc = g.text(oc);
    let b = g.set_like(&["b", "along", "proj"], &format!("{dot}({oc}, {direction})"), Type::F32, 6.0, "");
    let b_text = g.text(b);
    let c = g.set_like(&["c", "outside"], &format!("{dot}({oc}, {oc}) - {radius} * {radius}"), Type::F32, 14.0, "");
    let disc = g.set_like(
        &["disc", "h"],
        &format!("{b_text} * {b_text} - {}", g.text(c)),
        Type::F32,
        40.0,
        "the discriminant",
    );
    let disc = g.text(disc);
    let miss = g.random.pick(&["-1.0", "100.0", "0.0"]);
    let t = g.starting(&["t", "hit", "depth"], Type::F32, miss, 100.0);
    let t_text = g.text(t);
    g.line(&format!("if {disc} > 0.0:"));
    let kind = g.random.below(3);
    let values = [format!("-{b_text} - {sqrt}({disc})"), String::new(), format!("2.0 * {sqrt}({disc})")];
    g.nested(|g| match kind {
        0 => g.line(&format!("{t_text} = {}", values[0])),
        1 => {
            let near = g.like(&["near", "t0", "entry"]);
            g.line(&format!("{near} = -{b_text} - {sqrt}({disc})"));
            g.line(&format!("{t_text} = {near}"));
            g.line(&format!("if {near} < 0.0:"));
            g.nested(|g| g.line(&format!("{t_text} = -{b_text} + {sqrt}({disc})")));
        }
        _ => g.line(&format!("{t_text} = {}", values[2])),
    });
    let what = [
        "where the ray enters the sphere",
        "where the ray enters the sphere, or leaves it if it begins inside",
        "how long the ray is in the sphere",
    ][kind];
    let beside = if kind == 1 { String::new() } else { aside(&values[kind]) };
    g.explain(format!("`{t_text}` is {what}{beside} if `{disc}` is greater than 0.0, else {miss}."));
    if g.random.one_in(2) {
        let normal = g.set_like(
            &["normal", "n", "surface"],
            &format!("({oc} + {t_text} * {direction}) / {radius}"),
            VEC3,
            100.0,
            "the normal of the sphere there",
        );
        g.kept(&["normals", "out_n", "surfaces"], normal);
    }
    g.written(&["out", "result"], t, difficulty);
    let (from, along) = (origin.replace("[i]", ""), direction.replace("[i]", ""));
    g.sum_up(format!("Intersect rays from `{from}` along `{along}` with a sphere."));
    match kind {
        2 => g.random.pick(&["sphere_chord", "sphere_thickness", "chord_length"]),
        _ => g.random.pick(&["ray_sphere", "intersect_sphere", "trace_ball", "sphere_depth"]),
    }
}

/// Distances to shapes.
pub(super) fn distance_field(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.with_composite(VEC3);
    g.threads_over(&[N0], &["i"]);
    let p = g.element_like(&["points", "position", "queries"], VEC3, -2.0, 2.0);
    let points = g.text(p).replace("[i]", "");
    let p = g.varied(p, difficulty);
    let p = match g.text(p).ends_with(']') {
        true => g.set_like(&["p", "q", "at"], &g.text(p), VEC3, 4.0, ""),
        false => p,
    };
    let p_text = g.text(p);
    let (length, max, min, abs) = (g.builtin("length"), g.builtin("max"), g.builtin("min"), g.builtin("abs"));
    let (vec2, vec3) = (g.builtin("vec2"), g.builtin("vec3"));
    let n = 1 + g.random.below(2 + usize::from(difficulty) / 2);
    let mut joined: Option<usize> = None;
    for _ in 0..n {
        let radius = g.number_like(&["radius", "size", "width", "thickness"], 0.2, 1.0);
        let r = g.text(radius);
        let (text, what) = match g.random.below(5) {
            0 => (format!("{length}({p_text}) - {r}"), "the distance to a sphere"),
            1 => {
                let d = g.set_like(
                    &["d", "outside", "box_d"],
                    &format!("{vec3}({abs}({p_text}[0]) - {r}, {abs}({p_text}[1]) - {r}, {abs}({p_text}[2]) - {r})"),
                    VEC3,
                    4.0,
                    "",
                );
                let d = g.text(d);
                let o = format!("{length}({vec3}({max}({d}[0], 0.0), {max}({d}[1], 0.0), {max}({d}[2], 0.0)))");
                (o, "how far the point is outside a box")
            }
            2 => {
                let ring = g.set_like(
                    &["ring", "around"],
                    &format!("{length}({vec2}({p_text}[0], {p_text}[2])) - 0.8"),
                    Type::F32,
                    4.0,
                    "",
                );
                let ring = g.text(ring);
                (format!("{length}({vec2}({ring}, {p_text}[1])) - 0.5 * {r}"), "the distance to a torus")
            }
            3 => (format!("{p_text}[1] + {r}"), "the height over a plane"),
            _ => (format!("{length}({vec2}({p_text}[0], {p_text}[1])) - {r}"), "the distance to a cylinder"),
        };
        let shape = g.set_like(&["shape", "part", "body", "piece"], &text, Type::F32, 6.0, what);
        joined = Some(match joined {
            None => shape,
            Some(before) => {
                let (a, b) = (g.text(before), g.text(shape));
                let (text, what) = match g.random.below(4) {
                    0 => (format!("{min}({a}, {b})"), "the union of both"),
                    1 => (format!("{max}({a}, {b})"), "what both share"),
                    2 => (format!("{max}({a}, -{b})"), "the first without the second"),
                    _ => {
                        let k = g.number_like(&["blend", "k", "softness"], 0.1, 0.5);
                        let k = g.text(k);
                        let clamp = g.builtin("clamp");
                        let h = g.ranged_like(
                            &["h", "mix_h"],
                            &format!("{clamp}(0.5 + 0.5 * ({b} - {a}) / {k}, 0.0, 1.0)"),
                            Type::F32,
                            NumberRange::new(0.0, 1.0),
                            "",
                        );
                        let h = g.text(h);
                        (format!("{b} * (1.0 - {h}) + {a} * {h} - {k} * {h} * (1.0 - {h})"), "a smooth union of both")
                    }
                };
                g.set_like(&["scene", "joined", "both", "merged"], &text, Type::F32, 8.0, what)
            }
        });
    }
    g.written(&["out", "result"], joined.unwrap_or(p), difficulty);
    let shapes = if n == 1 { "a shape".to_owned() } else { format!("{n} shapes that are joined") };
    g.sum_up(format!("Evaluate the signed distance of `{points}` to {shapes}."));
    g.random.pick(&["evaluate_sdf", "scene_distance", "shape_field", "signed_distance"])
}

/// Light on surfaces.
pub(super) fn shading(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.with_composite(VEC3);
    g.threads_over(&[N0], &["i"]);
    let normals = g.like(&["normals", "surface_n", "facing"]);
    g.param(&normals, VEC3, vec![N0], InputValues::Unit);
    let light = g.like(&["light_dir", "sun", "to_light"]);
    g.param(&light, VEC3, Vec::new(), InputValues::Unit);
    let color = g.element_like(&["albedo", "colors", "base_color"], VEC3, 0.0, 1.0);
    let n = g.set_like(&["n", "normal"], &format!("{normals}[i]"), VEC3, 1.0, "");
    let n = g.text(n);
    let (dot, max, pow) = (g.builtin("dot"), g.builtin("max"), g.builtin("pow"));
    let facing = match g.random.below(3) {
        0 => format!("{max}({dot}({n}, {light}), 0.0)"),
        1 => format!("0.5 + 0.5 * {dot}({n}, {light})"),
        _ => format!("{max}({dot}({n}, {light}) + 0.2, 0.0) / 1.2"),
    };
    let diffuse = g.ranged_like(
        &["diffuse", "lit", "lambert"],
        &facing,
        Type::F32,
        NumberRange::new(0.0, 1.0),
        "how much light falls there",
    );
    let diffuse = g.varied(diffuse, difficulty);
    let (diffuse, color) = (g.text(diffuse), g.text(color));
    let mut total = g.set_like(
        &["shade", "lit_color", "reflected"],
        &format!("{color} * {diffuse}"),
        VEC3,
        4.0,
        "the light that is thrown back",
    );
    let glossy = g.random.one_in(2);
    if glossy {
        let view = g.like(&["view_dirs", "to_eye", "view"]);
        g.param(&view, VEC3, vec![N0], InputValues::Unit);
        let gloss = g.number_like(&["shininess", "gloss", "exponent"], 2.0, 16.0);
        let gloss = g.text(gloss);
        let normalize = g.builtin("normalize");
        let vec3 = g.builtin("vec3");
        let blinn = g.random.one_in(2);
        let along = match blinn {
            true => {
                let half = g.set_like(
                    &["half_dir", "bisector", "mid_dir"],
                    &format!("{normalize}({light} + {view}[i])"),
                    VEC3,
                    1.0,
                    "",
                );
                format!("{dot}({n}, {})", g.text(half))
            }
            false => {
                let mirror = g.set_like(
                    &["mirror", "bounced"],
                    &format!("2.0 * {dot}({n}, {light}) * {n} - {light}"),
                    VEC3,
                    3.0,
                    "",
                );
                format!("{dot}({}, {view}[i])", g.text(mirror))
            }
        };
        let spec = g.ranged_like(
            &["spec", "highlight"],
            &format!("{pow}({max}({along}, 0.05), {gloss})"),
            Type::F32,
            NumberRange::new(0.0, 1.0),
            "the highlight",
        );
        let (spec, before) = (g.text(spec), g.text(total));
        total = g.set_like(
            &["glossy", "lit_total"],
            &format!("{before} + {vec3}({spec}, {spec}, {spec})"),
            VEC3,
            6.0,
            "both together",
        );
    }
    g.written(&["out", "result"], total, difficulty);
    g.sum_up(format!("Light surfaces with the normals `{normals}` from the direction `{light}`."));
    match glossy {
        true => g.random.pick(&["phong_shading", "shade_glossy", "light_with_highlight"]),
        false => g.random.pick(&["lambert_shading", "shade_pixels", "light_surface"]),
    }
}

/// Points as a camera sees them.
pub(super) fn camera(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.with_composite(VEC3);
    g.threads_over(&[N0], &["i"]);
    let p = g.element_like(&["points", "vertices", "world"], VEC3, -1.0, 1.0);
    let points = g.text(p).replace("[i]", "");
    let p = g.varied(p, difficulty);
    let p_text = g.text(p);
    let seen = match g.random.below(3) {
        0 => {
            let view = g.scalar_like(&["view", "camera", "pose"], MAT44, -1.0, 1.0);
            let vec4 = g.builtin("vec4");
            let h = g.set_like(
                &["h", "homog", "hp"],
                &format!("{view} * {vec4}({p_text}[0], {p_text}[1], {p_text}[2], 1.0)"),
                VEC4,
                6.0,
                "the point in the camera's frame",
            );
            let (h, vec3) = (g.text(h), g.builtin("vec3"));
            g.set_like(&["local", "cam", "eye_p"], &format!("{vec3}({h}[0], {h}[1], {h}[2])"), VEC3, 6.0, "")
        }
        1 => {
            let rot = g.scalar_like(&["rotation", "axes", "frame"], MAT33, -1.0, 1.0);
            let eye = g.scalar_like(&["eye", "origin", "translation"], VEC3, -0.5, 0.5);
            g.set_like(
                &["local", "cam", "eye_p"],
                &format!("{rot} * ({p_text} - {eye})"),
                VEC3,
                8.0,
                "the point in the camera's frame",
            )
        }
        _ => {
            let pose = g.like(&["rotation", "attitude"]);
            g.param(&pose, super::QUAT, Vec::new(), InputValues::Unit);
            let eye = g.scalar_like(&["eye", "origin"], VEC3, -0.5, 0.5);
            let rotate = g.random.pick(&["quat_rotate", "quat_rotate_inv"]);
            let rotate = g.builtin(rotate);
            g.set_like(
                &["local", "cam", "eye_p"],
                &format!("{rotate}({pose}, {p_text} - {eye})"),
                VEC3,
                8.0,
                "the point in the camera's frame",
            )
        }
    };
    let local = g.text(seen);
    let (max, abs) = (g.builtin("max"), g.builtin("abs"));
    let z = g.ranged_like(
        &["z", "depth", "away"],
        &format!("{max}({abs}({local}[2]), 0.2)"),
        Type::F32,
        NumberRange::new(0.2, 8.0),
        "its distance from the camera's plane, at least 0.2",
    );
    let focal = g.number_like(&["focal", "zoom"], 0.5, 2.0);
    let (z_text, focal) = (g.text(z), g.text(focal));
    if g.random.one_in(2) {
        g.with_composite(VEC2);
        let vec2 = g.builtin("vec2");
        let at = g.set_like(
            &["pixel", "uv", "screen"],
            &format!("{vec2}({focal} * {local}[0] / {z_text}, {focal} * {local}[1] / {z_text})"),
            VEC2,
            80.0,
            "where it appears",
        );
        g.written(&["out", "result"], at, difficulty);
        if g.random.one_in(2) {
            g.kept(&["depths", "z_buffer"], z);
        }
        g.sum_up(format!("Project `{points}` to where a camera with the focal length `{focal}` sees them."));
    } else {
        let size = g.set_like(
            &["both_axes", "seen_sum", "image_sum"],
            &format!("{focal} * ({local}[0] + {local}[1]) / {z_text}"),
            Type::F32,
            80.0,
            "the sum of where it appears along both axes",
        );
        g.written(&["out", "result"], size, difficulty);
        g.sum_up(format!("Sum the coordinates at which a camera with `{focal}` sees `{points}`."));
    }
    g.random.pick(&["project_points", "camera_transform", "to_screen", "view_points"])
}

/// Triangles of a mesh.
pub(super) fn triangle(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.with_composite(VEC3);
    g.threads_over(&[N0], &["i"]);
    let n = 12;
    let vertices = g.array_like(&["vertices", "points", "nodes"], VEC3, &[ProgramExtent::Is(n)], -1.0, 1.0);
    let faces = g.array_like(
        &["faces", "triangles", "elements"],
        Type::I32,
        &[N0, ProgramExtent::Is(3)],
        0.0,
        f64::from(n - 1),
    );
    let corner: Vec<String> = [["a", "p0"], ["b", "p1"], ["c", "p2"]]
        .iter()
        .enumerate()
        .map(|(at, names)| {
            let index = g.set_like(names, &format!("{vertices}[{faces}[i, {at}]]"), VEC3, 1.0, "");
            g.text(index)
        })
        .collect();
    let (a, b, c) = (&corner[0], &corner[1], &corner[2]);
    let (cross, length, dot) = (g.builtin("cross"), g.builtin("length"), g.builtin("dot"));
    let normal = g.set_like(
        &["normal", "n", "area_vec"],
        &format!("{cross}({b} - {a}, {c} - {a})"),
        VEC3,
        16.0,
        "the normal, twice as long as the area",
    );
    let n_text = g.text(normal);
    let kind = g.random.below(5);
    let (text, what) = match kind {
        0 => (format!("0.5 * {length}({n_text})"), "the area"),
        1 => (format!("{dot}({n_text}, {a}) / 6.0"), "the volume of the cone to the origin"),
        2 => (format!("{length}({b} - {a}) + {length}({c} - {b}) + {length}({a} - {c})"), "the length of the edges"),
        3 => (format!("{dot}({b} - {a}, {c} - {a})"), "how far two edges go the same way"),
        _ => (format!("{dot}({n_text}, {n_text}) / ({dot}({b} - {a}, {b} - {a}) + 0.1)"), "the square of the height"),
    };
    let value = g.set_like(&["value", "measure", "amount"], &text, Type::F32, 3e3, what);
    if g.random.one_in(2) {
        let weights = g.array_like(&["heat", "scalars", "mass"], Type::F32, &[ProgramExtent::Is(n)], -1.0, 1.0);
        let mean = format!("({weights}[{faces}[i, 0]] + {weights}[{faces}[i, 1]] + {weights}[{faces}[i, 2]]) / 3.0");
        let what = format!("the mean of `{weights}` at the corners");
        let mean = g.set_like(&["mean", "at_middle"], &mean, Type::F32, 1.0, &what);
        g.kept(&["face_values", "means", "middle_values"], mean);
    }
    if g.random.one_in(3) {
        g.kept(&["normals", "out_n"], normal);
    }
    g.written(&["out", "result"], value, difficulty);
    g.sum_up(format!("Measure the triangles `{faces}` of a mesh with the vertices `{vertices}`."));
    [
        g.random.pick(&["triangle_areas", "face_areas"]),
        g.random.pick(&["cone_volumes", "mesh_volume_parts"]),
        g.random.pick(&["triangle_perimeters", "edge_lengths"]),
        g.random.pick(&["edge_products", "corner_products"]),
        g.random.pick(&["triangle_heights", "mesh_quality"]),
    ][kind]
}

/// Images between their pixels.
pub(super) fn bilinear(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.threads_over(&[N0], &["i"]);
    let (rows, cols) = (8, 6);
    let image = g.array_like(
        &["image", "texture", "grid"],
        Type::F32,
        &[ProgramExtent::Is(rows), ProgramExtent::Is(cols)],
        -1.0,
        1.0,
    );
    let (u, v) = (
        g.element_like(&["u", "xs", "s_coord"], Type::F32, 0.0, f64::from(cols - 1)),
        g.element_like(&["v", "ys", "t_coord"], Type::F32, 0.0, f64::from(rows - 1)),
    );
    let (u, v) = (g.text(u), g.text(v));
    let (clamp, floor, min) = (g.builtin("clamp"), g.builtin("floor"), g.builtin("min"));
    let (x, y) = match g.random.one_in(2) {
        true => (
            format!("{clamp}({u}, 0.0, float({image}.shape[1] - 1))"),
            format!("{clamp}({v}, 0.0, float({image}.shape[0] - 1))"),
        ),
        false => (format!("{clamp}({u}, 0.0, {}.0)", cols - 1), format!("{clamp}({v}, 0.0, {}.0)", rows - 1)),
    };
    let x = g.ranged_like(&["x", "px", "fx"], &x, Type::F32, NumberRange::new(0.0, 8.0), "");
    let y = g.ranged_like(&["y", "py", "fy"], &y, Type::F32, NumberRange::new(0.0, 8.0), "");
    let (x, y) = (g.text(x), g.text(y));
    let x0 = g.place_like(&["x0", "col0", "j0"], &format!("int({floor}({x}))"));
    let y0 = g.place_like(&["y0", "row0", "i0"], &format!("int({floor}({y}))"));
    let x1 = g.place_like(&["x1", "col1", "j1"], &format!("{min}({x0} + 1, {image}.shape[1] - 1)"));
    let y1 = g.place_like(&["y1", "row1", "i1"], &format!("{min}({y0} + 1, {image}.shape[0] - 1)"));
    let unit = NumberRange::new(0.0, 1.0);
    let tx =
        g.ranged_like(&["tx", "wx", "ax"], &format!("{x} - float({x0})"), Type::F32, unit, "the fraction along a row");
    let ty = g.ranged_like(
        &["ty", "wy", "ay"],
        &format!("{y} - float({y0})"),
        Type::F32,
        unit,
        "the fraction along a column",
    );
    let (mut tx_text, mut ty_text) = (g.text(tx), g.text(ty));
    if g.random.one_in(3) {
        let smooth = |t: &str| format!("{t} * {t} * (3.0 - 2.0 * {t})");
        let a = g.ranged_like(&["sx", "ease_x"], &smooth(&tx_text), Type::F32, unit, &format!("`{tx_text}` eased"));
        let b = g.ranged_like(&["sy", "ease_y"], &smooth(&ty_text), Type::F32, unit, &format!("`{ty_text}` eased"));
        (tx_text, ty_text) = (g.text(a), g.text(b));
    }
    let (lerp, by_builtin) = (g.builtin("lerp"), g.random.one_in(2));
    let row = |y: &str, t: &str| match by_builtin {
        true => format!("{lerp}({image}[{y}, {x0}], {image}[{y}, {x1}], {t})"),
        false => format!("(1.0 - {t}) * {image}[{y}, {x0}] + {t} * {image}[{y}, {x1}]"),
    };
    let top = g.set_like(&["top", "upper", "a"], &row(&y0, &tx_text), Type::F32, 2.0, "");
    let bottom = g.set_like(&["bottom", "lower", "b"], &row(&y1, &tx_text), Type::F32, 2.0, "");
    let (top, bottom) = (g.text(top), g.text(bottom));
    let mixed = match g.random.one_in(2) {
        true => format!("{lerp}({top}, {bottom}, {ty_text})"),
        false => format!("(1.0 - {ty_text}) * {top} + {ty_text} * {bottom}"),
    };
    let value = g.set_like(
        &["value", "sample", "found_value"],
        &mixed,
        Type::F32,
        2.0,
        &format!("`{image}` between its pixels"),
    );
    g.written(&["out", "result"], value, difficulty);
    g.sum_up(format!("Sample `{image}` between its pixels by bilinear interpolation."));
    g.random.pick(&["bilinear_sample", "sample_texture", "resample_image", "interpolate_grid"])
}

/// Colours for a screen.
pub(super) fn tone_mapping(g: &mut KernelGenerator, difficulty: u8) -> &'static str {
    g.with_composite(VEC3);
    g.threads_over(&[N0, N1], &["y", "x"]);
    let color = g.element_like(&["hdr", "image", "radiance"], VEC3, 0.0, 4.0);
    let exposure = g.number_like(&["exposure", "gain"], 0.5, 2.0);
    let (color, exposure) = (g.text(color), g.text(exposure));
    let c = g.ranged_like(
        &["c", "exposed", "scaled"],
        &format!("{color} * {exposure}"),
        VEC3,
        NumberRange::new(0.0, 8.0),
        "the colour, exposed",
    );
    let c_text = g.text(c);
    let dot = g.builtin("dot");
    let vec3 = g.builtin("vec3");
    let l = g.ranged_like(
        &["lum", "luma", "grey"],
        &format!("{dot}({c_text}, {vec3}(0.2126, 0.7152, 0.0722))"),
        Type::F32,
        NumberRange::new(0.0, 8.0),
        "its luminance",
    );
    let l_varied = g.varied(l, difficulty);
    let l_text = g.text(l_varied);
    let (abs, exp, pow, max) = (g.builtin("abs"), g.builtin("exp"), g.builtin("pow"), g.builtin("max"));
    let kind = g.random.below(4);
    let factor = match kind {
        0 => format!("1.0 / (1.0 + {abs}({l_text}))"),
        1 => {
            let white = g.number_like(&["white", "burn_out"], 1.0, 4.0);
            let white = g.text(white);
            format!("(1.0 + {l_text} / ({white} * {white})) / (1.0 + {abs}({l_text}))")
        }
        2 => format!("(1.0 - {exp}(-{abs}({l_text}))) / ({abs}({l_text}) + 0.01)"),
        _ => {
            let gamma = g.number_like(&["gamma", "power"], 0.4, 1.0);
            let gamma = g.text(gamma);
            format!("{pow}({max}({l_text}, 0.01), {gamma})")
        }
    };
    let factor = g.set_like(&["factor", "curve", "k"], &factor, Type::F32, 60.0, "the curve there");
    let factor = g.text(factor);
    let mapped = g.set_like(
        &["mapped", "toned", "ldr"],
        &format!("{c_text} * {factor}"),
        VEC3,
        500.0,
        "the colour times the curve",
    );
    if g.random.one_in(2) {
        let grey = g.text(l);
        let mix = g.number_like(&["saturation", "tint"], 0.2, 1.0);
        let (mix, m) = (g.text(mix), g.text(mapped));
        let toned = g.set_like(
            &["graded", "washed"],
            &format!("{m} * {mix} + {vec3}({grey}, {grey}, {grey}) * (1.0 - {mix})"),
            VEC3,
            600.0,
            "the same, less saturated",
        );
        g.written(&["out", "result"], toned, difficulty);
    } else {
        g.written(&["out", "result"], mapped, difficulty);
    }
    g.sum_up(format!("Map the colours `{}` to the range of a screen.", color.replace("[y, x]", "")));
    match kind {
        0 | 1 => g.random.pick(&["reinhard", "tone_map", "compress_highlights"]),
        2 => g.random.pick(&["exponential_tone_map", "filmic_exposure", "expose_image"]),
        _ => g.random.pick(&["gamma_tone_map", "grade_colors", "power_curve"]),
    }
}
