"""Real Warp as the oracle: the same source, with only its import changed, gives the same results.

Most kernels come from tables, one for each builtin and choice of types: `out[i] = wp.BUILTIN(a[i], b[i])`. Results of
IEEE arithmetic are compared bit for bit, but for the sign of zeros; those of functions that Warp takes from the C
library to within a few units in the last place of 1 or of the result, whichever is greater. Where Polyloom differs from
Warp on purpose there is no row; the guide lists those places.
"""

import importlib.util
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polyloom
import pytest

pytest.importorskip("warp", reason="Warp is the oracle of these tests: pip install warp-lang==1.19.0")

N = 64
FLOATS = {"": np.float32, "d": np.float64}
NUMBERS = FLOATS | {"i": np.int32, "l": np.int64}
SCALARS = {"": "float", "d": "wp.float64", "i": "int", "l": "wp.int64"}


class Row(NamedTuple):
    """A kernel that writes an expression of its arguments `a`, `b` and `c`."""

    expression: str
    inputs: tuple[str, ...]
    output: str
    ulps: int = 0
    setup: str = ""

    def name(self) -> str:
        return f"k{zlib.crc32(repr(self).encode()):08x}"

    def source(self) -> str:
        params = [f"{n}_in: wp.array(dtype={annotation(t)})" for n, t in zip("abc", self.inputs, strict=False)]
        lines = [
            "@wp.kernel",
            f"def {self.name()}({', '.join(params)}, out: wp.array(dtype={annotation(self.output)})):",
            "    i = wp.tid()",
            *[f"    {n} = {n}_in[i]" for n, _ in zip("abc", self.inputs, strict=False)],
            *[f"    {line}" for line in self.setup.split("; ") if line],
            f"    out[i] = {self.expression}",
            "",
        ]
        return "\n".join(lines)


def annotation(type_name: str) -> str:
    return SCALARS.get(type_name.removeprefix("scalar"), f"wp.{type_name}")


def suffix(type_name: str) -> str:
    """The element's suffix: `d` of `vec3d`, nothing of `vec3`."""
    return type_name[-1] if type_name[-1] in "dil" else ""


def vectors() -> list[Row]:
    rows = []
    for s in NUMBERS:
        k = f"scalar{s}"
        for n in (2, 3, 4):
            v = f"vec{n}{s}"
            for operator in ("a + b", "a - b", "wp.cw_mul(a, b)", "wp.min(a, b)", "wp.max(a, b)"):
                rows.append(Row(operator, (v, v), v))
            rows += [Row("a * b", (v, k), v), Row("b * a", (v, k), v), Row("-a", (v,), v), Row("wp.abs(a)", (v,), v)]
            rows += [Row("wp.dot(a, b)", (v, v), k), Row("wp.length_sq(a)", (v,), k), Row("wp.min(a)", (v,), k)]
            rows += [Row("wp.max(a)", (v,), k), Row("wp.sign(a)", (v,), v), Row("a[1] + a[-1]", (v,), k)]
            rows += [Row("int(a == b)", (v, v), "scalari")]
            rows += [Row("int(wp.argmin(a)) + 10 * int(wp.argmax(a))", (v,), "scalari")]
        v = f"vec3{s}"
        rows += [Row("wp.cross(a, b)", (v, v), v), Row("wp.outer(a, b)", (v, v), f"mat33{s}")] if s in FLOATS else []
    for s in FLOATS:
        k = f"scalar{s}"
        for n in (2, 3, 4):
            v = f"vec{n}{s}"
            rows += [Row("a / b", (v, k), v), Row("wp.cw_div(a, b)", (v, v), v), Row("wp.length(a)", (v,), k)]
            rows += [Row("wp.normalize(a)", (v,), v), Row("wp.lerp(a, b, c)", (v, v, k), v)]
        rows += [Row("wp.skew(a)", (f"vec3{s}",), f"mat33{s}")]
    return rows


def matrices() -> list[Row]:
    rows = []
    for s in FLOATS:
        k = f"scalar{s}"
        for n in (2, 3, 4):
            m, v = f"mat{n}{n}{s}", f"vec{n}{s}"
            for expression in ("a + b", "a - b", "a * b", "a @ b", "wp.cw_mul(a, b)", "wp.cw_div(a, b)"):
                rows.append(Row(expression, (m, m), m))
            rows += [Row("a * b", (m, v), v), Row("a * b", (v, m), v), Row("a * b", (m, k), m), Row("-a", (m,), m)]
            rows += [Row("a / b", (m, k), m), Row("wp.transpose(a)", (m,), m), Row("wp.trace(a)", (m,), k)]
            rows += [Row("wp.diag(a)", (v,), m), Row("wp.get_diag(a)", (m,), v), Row("wp.ddot(a, b)", (m, m), k)]
            rows += [Row("a[1, 0] + a[0][1]", (m,), k), Row("a[1]", (m,), v)]
            rows += [Row(f"wp.matrix_from_rows({', '.join(['a', 'b', 'a', 'b'][:n])})", (v, v), m)]
            rows += [Row(f"wp.matrix_from_cols({', '.join(['a', 'b', 'a', 'b'][:n])})", (v, v), m)]
        rows += [Row("wp.determinant(a)", (f"mat{n}{n}{s}",), k) for n in (2, 3)]
        rows += [Row("wp.inverse(a)", (f"mat{n}{n}{s}",), f"mat{n}{n}{s}") for n in (2, 3)]
        rows += [Row("wp.transform_point(a, b)", (f"mat44{s}", f"vec3{s}"), f"vec3{s}")]
        rows += [Row("wp.transform_vector(a, b)", (f"mat44{s}", f"vec3{s}"), f"vec3{s}")]
    return rows


def rotations() -> list[Row]:
    rows = []
    for s in FLOATS:
        k, v, q, t, w, m = f"scalar{s}", f"vec3{s}", f"quat{s}", f"transform{s}", f"spatial_vector{s}", f"mat33{s}"
        rows += [Row(e, (q, q), q) for e in ("a + b", "a - b", "a * b")]
        rows += [Row("a * b", (q, k), q), Row("wp.normalize(a)", (q,), q), Row("wp.length(a)", (q,), k)]
        rows += [Row("wp.dot(a, b)", (q, q), k), Row("wp.quat_inverse(a)", (q,), q)]
        rows += [Row("wp.quat_rotate(a, b)", (q, v), v), Row("wp.quat_rotate_inv(a, b)", (q, v), v)]
        rows += [Row("wp.quat_to_matrix(a)", (q,), m), Row("wp.quat_from_matrix(a)", (m,), q)]
        rows += [Row("wp.quat_from_axis_angle(a, b)", (v, k), q, 4), Row("wp.quat_rpy(a, b, c)", (k, k, k), q, 16)]
        rows += [Row("wp.transform_multiply(a, b)", (t, t), t), Row("a * b", (t, t), t)]
        rows += [Row("wp.transform_inverse(a)", (t,), t), Row("wp.transform_point(a, b)", (t, v), v)]
        rows += [Row("wp.transform_vector(a, b)", (t, v), v), Row("wp.transform_get_translation(a)", (t,), v)]
        rows += [Row("wp.transform_get_rotation(a)", (t,), q), Row(f"wp.transform{s}(a, b)", (v, q), t)]
        rows += [Row("wp.spatial_cross(a, b)", (w, w), w), Row("wp.spatial_cross_dual(a, b)", (w, w), w)]
        rows += [Row("wp.spatial_dot(a, b)", (w, w), k), Row("wp.spatial_top(a)", (w,), v)]
        rows += [Row("wp.spatial_bottom(a)", (w,), v)]
        rows += [Row("wp.transform_to_matrix(a)", (t,), f"mat44{s}"), Row("-a", (q,), q), Row("wp.pos(a)", (q,), q)]
        rows += [Row("wp.transform_from_matrix(a)", (f"mat44{s}",), t, 4)]
        rows += [Row("wp.transform_compose(a, b, c)", (v, q, v), f"mat44{s}")]
        setup = "p, q, k = wp.transform_decompose(wp.transform_compose(a, wp.normalize(b), wp.abs(c)))"
        rows += [Row("p", (v, q, v), v, 0, setup), Row("k", (v, q, v), v, 16, setup)]
        rows += [Row("wp.cw_mul(k, wp.quat_rotate(q, a))", (v, q, v), v, 2048, setup)]
    # Functions that Warp has for float32 only.
    v, q, t, w, unit = "vec3", "quat", "transform", "spatial_vector", "b = wp.normalize(b)"
    turn = "q = wp.quat_from_axis_angle(wp.vec3(0.6, 0.64, 0.48), 1.0 + 0.5 * wp.sin(a))"
    for axes in ("0, 1, 2", "2, 0, 1", "1, 0, 2", "0, 1, 0", "2, 1, 2", "1, 2, 0"):
        rows += [Row(f"wp.quat_from_euler(a, {axes})", (v,), q, 64)]
        # Where an angle's cosine is near 1, Warp's conversions are not exact.
        rows += [Row(f"wp.quat_to_euler(q, {axes})", ("scalar",), v, 256, turn)]
    rows += [Row("wp.quat_to_rpy(q)", ("scalar",), v, 64, turn), Row("wp.quat_twist(b, a)", (q, v), q, 4, unit)]
    rows += [Row("wp.quat_twist_angle(b, a)", (q, v), "scalar", 4, unit)]
    rows += [Row("wp.quat_twist_angle_signed(b, a)", (q, v), "scalar", 4, unit)]
    rows += [Row("wp.transform_twist(a, b)", (t, w), w), Row("wp.transform_wrench(a, b)", (t, w), w)]
    rows += [Row("wp.velocity_at_point(a, b)", (w, v), v)]
    rows += [Row("wp.quaternion(a[0], a[1], a[2], 1.0)", (v,), q), Row("wp.transformation(a, b)", (v, q), t)]
    rows += [Row("wp.quaternion(a, 2.0)", (v,), q)]
    rows += [Row("wp.spatial_vector(a, b)", ("vec3", "vec3"), "spatial_vector")]
    return rows


def decompositions() -> list[Row]:
    """What decompositions of matrices of norm 1 determine: factors are unique up to signs, eigenvalues up to order."""
    rows = []
    for s in FLOATS:
        k, v, m = f"scalar{s}", f"vec3{s}", f"mat33{s}"
        # Warp's smallest singular values are not exact, and its factors of a rotation's multiple are none.
        setup = "a = a / wp.sqrt(wp.ddot(a, a)); u, sigma, v = wp.svd2(a)"
        rows += [Row("sigma[0]", (f"mat22{s}",), k, 64, setup)]
        setup = "a = a / wp.sqrt(wp.ddot(a, a)); u, sigma, v = wp.svd3(a)"
        rows += [Row("u * wp.diag(sigma) * wp.transpose(v)", (m,), m, 4096, setup)]
        rows += [Row("wp.abs(sigma)", (m,), v, 4096, setup)]
        rows += [Row(f"wp.determinant({x})", (m,), k, 64, setup) for x in "uv"]
        setup = "a = a / wp.sqrt(wp.ddot(a, a)); q, r = wp.qr3(a)"
        rows += [Row("q * r", (m,), m, 64, setup), Row("wp.get_diag(r)", (m,), v, 64, setup)]
        rows += [Row("wp.determinant(q)", (m,), k, 64, setup)]
        setup = "a = a / wp.sqrt(wp.ddot(a, a)); q, d = wp.eig3(a + wp.transpose(a))"
        rows += [Row("q * wp.diag(d) * wp.transpose(q)", (m,), m, 256, setup)]
        rows += [Row(f"wp.vec3{s}(wp.min(d), d[0] + d[1] + d[2], wp.max(d))", (m,), v, 256, setup)]
        rows += [Row("wp.determinant(q)", (m,), k, 64, setup)]
    return rows


def utilities() -> list[Row]:
    rows = []
    for s in FLOATS:
        k = f"scalar{s}"
        rows += [
            Row(
                "wp.erfcinv(wp.min(wp.abs(a), c) * b)",
                (k, k, k),
                k,
                64,
                f"b = wp.{np.dtype(FLOATS[s])}(1.9); c = wp.{np.dtype(FLOATS[s])}(1.0)",
            )
        ]
        rows += [Row("wp.div_approx(a, b)", (k, k), k), Row("wp.inverse_approx(a)", (f"mat33{s}",), f"mat33{s}")]
    for n in (2, 3, 4):
        v = f"vec{n}"
        rows += [Row(f"wp.norm_{name}(a)", (v,), "scalar") for name in ("l1", "l2", "huber", "pseudo_huber")]
        rows += [Row(f"wp.norm_{name}(a, 0.7)", (v,), "scalar", 2) for name in ("huber", "pseudo_huber")]
        rows += [Row("wp.smooth_normalize(a)", (v,), v), Row("wp.smooth_normalize(a, 2.5)", (v,), v, 2)]
    for s in NUMBERS:
        k, v = f"scalar{s}", f"vec3{s}"
        rows += [Row("wp.nonzero(a)", (k,), k), Row("wp.pos(a)", (k,), k), Row("wp.pos(a)", (v,), v)]
    for s in ("i", "l"):
        k, v = f"scalar{s}", f"vec3{s}"
        rows += [Row("wp.bit_count(a)", (k,), "scalari"), Row("int(wp.unot(a))", (k,), "scalari")]
        rows += [Row(f"a {operator} b", (v, v), v) for operator in "&|^"] + [Row("~a", (v,), v)]
        rows += [Row(f"wp.{name}(a, wp.abs(b))", (v, v), v) for name in ("lshift", "rshift")]
    rows += [Row("wp.mod(a, b)", ("vec3", "vec3"), "vec3"), Row("wp.where(a, 2.0, b)", ("scalari", "scalar"), "scalar")]
    return rows


def random_fields() -> list[Row]:
    state = "wp.rand_init(42, i % 5)"
    axes = ["scalar", "vec2", "vec3", "vec4"]
    rows = [Row(f"wp.noise({state}, a)", (t,), "scalar") for t in axes]
    rows += [
        Row(f"wp.pnoise({state}, wp.abs(a), {', '.join('3475'[: n + 1])})", (t,), "scalar") for n, t in enumerate(axes)
    ]
    for t, result in zip(axes[1:], ["vec2", "vec3", "vec3"], strict=True):
        rows += [Row(f"wp.curlnoise({state}, a)", (t,), result)]
        rows += [Row(f"wp.curlnoise({state}, a, wp.uint32(3), 1.9, 0.6)", (t,), result)]
    # Warp's cosine of an arc cosine loses digits on spheres.
    for name, size, ulps in [
        ("triangle", 2, 0),
        ("unit_ring", 2, 2),
        ("unit_disk", 2, 2),
        ("unit_square", 2, 0),
        ("unit_cube", 3, 0),
        ("unit_sphere", 3, 8),
        ("unit_sphere_surface", 3, 8),
        ("unit_hemisphere", 3, 8),
        ("unit_hemisphere_surface", 3, 8),
    ]:
        rows += [Row(f"wp.sample_{name}(s)", ("scalar",), f"vec{size}", ulps, "s = wp.rand_init(7, i)")]
    return rows


ROWS = {
    "utilities": utilities(),
    "random_fields": random_fields(),
    "decompositions": decompositions(),
    "vectors": vectors(),
    "matrices": matrices(),
    "rotations": rotations(),
}


def load(path: Path, text: str) -> Any:
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    """By table, the module of its kernels, for Warp and for Polyloom."""
    import warp

    warp.config.quiet = True
    folder = tmp_path_factory.mktemp("oracle")
    warp.config.kernel_cache_dir = str(folder / "cache")
    warp.init()
    # Without optimisation it compiles in seconds instead of minutes; the arithmetic is the same.
    warp.config.mode = "debug"
    loaded = {}
    for table, rows in ROWS.items():
        for package in ("warp", "polyloom"):
            text = f"import {package} as wp\n\n" + "\n\n".join({row.name(): row.source() for row in rows}.values())
            loaded[table, package] = load(folder / f"{table}_{package}.py", text)
    return loaded


def element(type_name: str) -> tuple[tuple[int, ...], Any]:
    """Shape and element type of a type's values."""
    scalar = NUMBERS[suffix(type_name)]
    if type_name.startswith("scalar"):
        return (), scalar
    return np.asarray(getattr(polyloom, type_name)()).shape, scalar


def values(type_name: str, seed: int) -> np.ndarray:
    """Random values, small integers as often as not, so that some are equal, zero or negative."""
    shape, scalar = element(type_name)
    random = np.random.default_rng(seed)
    integers = random.integers(-4, 5, (N, *shape))
    if scalar in (np.int32, np.int64):
        return integers.astype(scalar)
    reals = random.normal(size=(N, *shape)) * 10.0 ** random.integers(-3, 4, (N, *shape))
    whole = random.random((N, *[1] * len(shape))) < 0.5
    return np.where(whole, integers, reals).astype(scalar)


def run(wp: Any, module: Any, row: Row) -> np.ndarray:
    def array(type_name: str, data: np.ndarray) -> Any:
        dtype = getattr(wp, np.dtype(NUMBERS[suffix(type_name)]).name if type_name.startswith("scalar") else type_name)
        return wp.array(data, dtype=dtype, device="cpu")

    inputs = [array(t, values(t, seed)) for seed, t in enumerate(row.inputs)]
    shape, scalar = element(row.output)
    out = array(row.output, np.zeros((N, *shape), scalar))
    wp.launch(getattr(module, row.name()), dim=N, inputs=inputs, outputs=[out], device="cpu")
    return out.numpy()


@pytest.mark.parametrize(("table", "row"), [(table, row) for table, rows in ROWS.items() for row in rows])
def test_agrees_with_warp(modules, table, row):
    import warp

    want = run(warp, modules[table, "warp"], row)
    got = run(polyloom, modules[table, "polyloom"], row)
    assert got.shape == want.shape
    if row.ulps:
        tolerance = row.ulps * np.finfo(got.dtype).eps
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    else:
        assert np.array_equal(got, want, equal_nan=got.dtype.kind == "f")
