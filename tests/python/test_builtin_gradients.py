"""The derivative of every builtin: each overload of the op table, on every engine, against central differences.

Overloads are read from the table, so a new builtin is tested, or fails here until `DOMAINS` says where it may be
evaluated.
"""

import ctypes
import linecache
import re
import shutil
import subprocess
import zlib
from dataclasses import dataclass
from functools import cache

import numpy as np
import polyloom as loom
import pytest
from polyloom import _native, _scalars

N_POINTS = 6
NUMPY = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": _scalars.bfloat16.numpy}
NUMPY |= {"i32": np.int32, "u32": np.uint32, "bool": np.bool_}
# The extents that letters in signatures stand for, and what `C[T]` does: the first of these on every engine.
EXTENTS = [{"N": 3, "R": 2, "C": 3, "K": 2}, {"N": 4, "R": 3, "C": 2, "K": 4}]
COMPOSITES = [["vec[T 3]", "mat[T 2 2]", "quat[T]", "transform[T]"], ["vec[T 2]", "mat[T 3 2]"]]

# What has no gradient to check here: kernels of single threads have none of it, or it is checked below by itself.
ELSEWHERE = {"load_readonly", "atomic_add", "atomic_sub", "atomic_min", "atomic_max"}
NO_FLOATS = {"lower_bound", "sample_cdf", "poisson", "expect_eq", "expect_neq", "expect_near"}


def normal(rng, shape):
    return rng.normal(size=shape)


def between(low, high):
    return lambda rng, shape: rng.uniform(low, high, shape)


def rotations(rng, n):
    """Matrices of rotations in general position."""
    q = rng.normal(size=(n, 4))
    x, y, z, w = (q / np.linalg.norm(q, axis=1, keepdims=True)).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), 2, 0)


def near_rotation(rng, shape):
    """Rotations with what else there is in the matrix, and a little of everything."""
    m = rng.normal(size=shape) * 0.02
    m[..., :3, :3] += rotations(rng, shape[0])
    return m


cell = between(0.1, 0.4)
positive = between(0.3, 2.0)
inside = between(-0.9, 0.9)
# By builtin, where its operands are; all else is anywhere.
DOMAINS = {
    "acos": [inside],
    "acosh": [between(1.2, 3.0)],
    "asin": [inside],
    "atanh": [inside],
    "clamp": [between(-2.0, 2.0), between(-1.0, -0.5), between(0.5, 1.0)],
    "erfcinv": [between(0.1, 1.9)],
    "erfinv": [inside],
    # Within a cell of the field, and of the finer one.
    "noise": [normal, cell],
    "pnoise": [normal, cell],
    "curlnoise": [normal, cell, normal, between(1.9, 2.1), normal],
    "exp2": [between(-2.0, 2.0)],
    "log": [positive],
    "log10": [positive],
    "log1p": [between(-0.7, 2.0)],
    "log2": [positive],
    "norm_huber": [normal, between(0.5, 2.0)],
    "norm_pseudo_huber": [normal, between(0.5, 2.0)],
    "smooth_normalize": [normal, between(0.5, 2.0)],
    "pow": [positive, normal],
    "quat_from_matrix": [near_rotation],
    "transform_from_matrix": [near_rotation],
    "transform_decompose": [near_rotation],
    "rsqrt": [positive],
    "smoothstep": [between(-1.0, -0.5), between(0.5, 1.0), inside],
    "sqrt": [positive],
}
# By builtin, what integers it is given, by the parameter's name.
INTEGERS = {"i": 2, "j": 0, "k": 1, "octaves": 2, "count": 1, "state": 5, "px": 4, "py": 3, "pz": 5, "pt": 4}


@dataclass(frozen=True)
class Case:
    """An overload with types filled in."""

    name: str
    number: int
    # By parameter: its name, its type, and whether it is one more result.
    params: tuple[tuple[str, str, bool], ...]
    results: tuple[str, ...]
    precision: str
    variant: int

    @property
    def key(self):
        return f"{self.name}_{self.number}"

    @property
    def floats(self):
        """The parameters that have gradients."""
        return [index for index, (_, ty, _) in enumerate(self.params) if is_float(ty)]


def is_float(ty):
    return re.search(r"\b(f16|bf16|f32|f64)\b", ty) is not None


def shape_of(ty):
    kind, _, rest = ty.partition("[")
    extents = tuple(int(extent) for extent in re.findall(r"\b\d+\b", rest))
    return {"quat": (4,), "transform": (7,)}.get(kind, extents)


def element(ty):
    return re.search(r"\b(f64|f32|f16|bf16|i32|u32|bool)\b", ty)[0]


def numpy_type(ty):
    return NUMPY[element(ty)]


def python_type(ty):
    elem = element(ty)
    names = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}
    names |= {"i32": "int32", "u32": "uint32", "bool": "bool"}
    scalar = f"loom.{names[elem]}"
    kind = ty.partition("[")[0]
    if kind == ty:
        return scalar
    if kind in ("quat", "transform"):
        kind = {"quat": "quaternion", "transform": "transformation"}[kind]
        return f"loom.types.{kind}(dtype={scalar})"
    name, parameter = ("vector", "length") if kind == "vec" else ("matrix", "shape")
    extents = shape_of(ty)
    return f"loom.types.{name}({parameter}={extents[0] if kind == 'vec' else extents}, dtype={scalar})"


def split(text):
    """Splits at commas outside brackets."""
    return [part.strip() for part in re.split(r",(?![^\[]*\])", text) if part.strip()]


@cache
def cases(precision="f64", variant=0):
    """Every overload with a float to differentiate by."""
    found = []
    for name, derivative, overloads in _native.derivatives():
        if derivative == "None" or name in ELSEWHERE or name in NO_FLOATS or "match" in name:
            continue
        number = 0
        for overload in overloads:
            variable = re.match(r"\[T: (\w+)[^\]]*\]", overload)
            if variable and variable[1] not in ("float", "number", "scalar"):
                continue
            text = overload[variable.end() :] if variable else overload
            for composite in COMPOSITES[variant] if "C[T]" in text else [""]:
                filled = text.replace("C[T]", composite)
                filled = re.sub(r"\bT\b", precision, filled)
                filled = re.sub(r"(?<=[\[ ])([NRCK])(?=[\] ])", lambda m: str(EXTENTS[variant][m[1]]), filled)
                params, _, results = filled.partition(") ->")
                results = results.strip()
                results = split(results.strip("()")) if results else []
                typed = []
                for param in split(params.strip("() ")):
                    label, _, ty = param.partition(":")
                    is_inout = label.startswith("inout ")
                    typed.append((label.removeprefix("inout "), ty.strip(), is_inout))
                if any(is_float(ty) for _, ty, _ in typed):
                    found.append(Case(name, number, tuple(typed), tuple(results), precision, variant))
                number += 1
    return found


def source(case):
    """A kernel that calls the builtin with an element of each array, and stores what it gives."""
    params, before, given = [], [], []
    for index, (name, ty, is_inout) in enumerate(case.params):
        if not is_float(ty):
            value = "i % 2 == 0" if ty == "bool" else f"{python_type(ty)}({INTEGERS[name]})"
        else:
            params.append(f"x{index}: loom.array(dtype={python_type(ty)})")
            value = f"x{index}[i]"
        if is_inout:
            before.append(f"v{index} = {value}")
            value = f"v{index}"
        given.append(value)
    types = list(case.results)
    after = []
    for index, (_, ty, is_inout) in enumerate(case.params):
        if is_inout and is_float(ty):
            after.append(f"y{len(types)}[i] = v{index}")
            types.append(ty)
    call = f"loom.{case.name}({', '.join(given)})"
    if case.results:
        names = [f"r{index}" for index in range(len(case.results))]
        call = f"{', '.join(names)} = {call}"
        stores = [f"y{index}[i] = r{index}" for index in range(len(case.results))]
        after = stores + after
    params += [f"y{index}: loom.array(dtype={python_type(ty)})" for index, ty in enumerate(types)]
    lines = ["i = loom.tid()", *before, call, *after]
    body = "\n".join(f"    {line}" for line in lines)
    return f"@loom.kernel\ndef {case.key}({', '.join(params)}):\n{body}\n", types


@cache
def kernels(precision, variant):
    """All kernels, from one text."""
    text = "".join(source(case)[0] for case in cases(precision, variant))
    file = f"<builtin gradients of {precision}, {variant}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    namespace = {"loom": loom}
    exec(compile(text, file, "exec"), namespace)
    return namespace


def arguments(case):
    """Points, arrays for what the builtin gives, and the adjoints of that."""
    rng = np.random.default_rng(zlib.crc32(case.key.encode()))
    domains = DOMAINS.get(case.name, [])
    inputs, outputs, adjoints = [], [], []
    for index in case.floats:
        ty = case.params[index][1]
        domain = domains[index] if index < len(domains) else normal
        inputs.append(domain(rng, (N_POINTS, *shape_of(ty))).astype(numpy_type(ty)))
    for ty in source(case)[1]:
        shape = (N_POINTS, *shape_of(ty))
        outputs.append(np.zeros(shape, numpy_type(ty)))
        adjoints.append(rng.normal(size=shape).astype(numpy_type(ty)) if is_float(ty) else None)
    return inputs, outputs, adjoints


def gradients(case, device="cpu", points=None):
    """What the backward kernel adds to the adjoints of the builtin's operands."""
    inputs, outputs, adjoints = points or arguments(case)
    kernel = kernels(case.precision, case.variant)[case.key]
    found = [np.zeros_like(x) for x in inputs]
    given = [adjoint if adjoint is None else adjoint.copy() for adjoint in adjoints]
    loom.launch(kernel, N_POINTS, inputs, outputs, device=device, adjoint=True, adj_inputs=found, adj_outputs=given)
    return found


def differences(case):
    """Central differences; each thread has a point of its own, so all points move at once."""
    inputs, outputs, adjoints = arguments(case)
    kernel = kernels(case.precision, case.variant)[case.key]

    def totals(x):
        results = [y.copy() for y in outputs]
        loom.launch(kernel, N_POINTS, [*x, *results])
        return [y.astype(np.float64) for y, w in zip(results, adjoints, strict=True) if w is not None]

    weights = [w.astype(np.float64).reshape(N_POINTS, -1) for w in adjoints if w is not None]
    for number, x in enumerate(inputs):
        # Of float32, four points: the step is large, and the field smooth in its cells.
        step, factors = (1e-6, {1: 0.5}) if x.dtype == np.float64 else (1e-2, {1: 2 / 3, 2: -1 / 12})
        gradient = np.zeros(x.shape)
        for place in np.ndindex(x.shape[1:]):
            for far, factor in factors.items():
                ends = []
                for sign in (1, -1):
                    moved = x.copy()
                    moved[(slice(None), *place)] += sign * far * step
                    ends.append(totals([*inputs[:number], moved, *inputs[number + 1 :]]))
                for w, a, b in zip(weights, *ends, strict=True):
                    change = ((a - b).reshape(N_POINTS, -1) * w).sum(axis=1)
                    gradient[(slice(None), *place)] += factor * change / step
        yield gradient


def other_extents():
    """The overloads that are others with other extents."""
    first = {(case.name, case.params) for case in cases()}
    return [case for case in cases("f64", 1) if (case.name, case.params) not in first]


@pytest.mark.parametrize("case", [*cases(), *other_extents()], ids=lambda case: f"{case.key}_{case.variant}")
def test_every_overload(case):
    for found, expected in zip(gradients(case), differences(case), strict=True):
        tolerance = 1e-6 if found.dtype == np.float64 else 1e-2
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.key)
def test_forward_mode_agrees(case):
    """What the adjoints of the results say of their tangents is what the operands' say of theirs."""
    inputs, outputs, adjoints = arguments(case)
    rng = np.random.default_rng(7)
    directions = [rng.normal(size=x.shape).astype(x.dtype) for x in inputs]
    tangents = [None if w is None else np.zeros_like(y) for y, w in zip(outputs, adjoints, strict=True)]
    loom.jvp(
        kernels(case.precision, case.variant)[case.key], N_POINTS, inputs, outputs, tangents=[*directions, *tangents]
    )

    def along(adjoints, tangents):
        pairs = zip(adjoints, tangents, strict=True)
        products = [(a.astype(np.float64) * t).reshape(N_POINTS, -1).sum(axis=1) for a, t in pairs if t is not None]
        return np.sum(products, axis=0)

    tolerance = 1e-9 if case.params[case.floats[0]][1].find("f64") >= 0 else 1e-4
    expected = along(gradients(case), directions)
    np.testing.assert_allclose(along(adjoints, tangents), expected, rtol=tolerance, atol=tolerance)


def test_the_simulator_computes_the_same_bits():
    for case in cases():
        for found, expected in zip(gradients(case, device="sim:0"), gradients(case), strict=True):
            np.testing.assert_array_equal(found, expected, err_msg=case.key)


def save(file):
    """All gradients, on this process' engine."""
    np.savez(file, **{f"{case.key}_{n}": x for case in cases() for n, x in enumerate(gradients(case))})


@pytest.mark.parametrize("tier", ["interp", "0", "1"])
def test_every_engine_computes_the_same_bits(tier, on_tier, tmp_path):
    file = tmp_path / "gradients.npz"
    on_tier(tier, "import sys, test_builtin_gradients as tests; tests.save(sys.argv[1])", file)
    with np.load(file) as computed:
        assert len(computed.files) == sum(len(case.floats) for case in cases())
        for case in cases():
            for n, expected in enumerate(gradients(case)):
                np.testing.assert_array_equal(computed[f"{case.key}_{n}"], expected, err_msg=case.key)


def strided(x):
    """An array as texts take it."""
    axes = ctypes.c_int64 * x.ndim
    fields = [("data", ctypes.c_void_p), ("shape", axes), ("strides", axes)]
    return type("Array", (ctypes.Structure,), {"_fields_": fields})(x.ctypes.data, x.shape, x.strides)


class LaunchBounds(ctypes.Structure):
    _fields_ = [("shape", ctypes.c_uint64 * 4), ("report", ctypes.c_uint64)]


def test_cpp_text_computes_the_same_bits(tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    units, backwards = ["#include <cstdio>\n"], {}
    for case in cases():
        kernel = kernels(case.precision, case.variant)[case.key]
        inputs, outputs, _ = arguments(case)
        backward = kernel.backward([True] * len([*inputs, *outputs]), [4])
        if not backward.lengths:
            backwards[case] = backward
            text = kernel.cpp(backward=True).replace("#include <cstdio>\n", "")
            units.append(text.replace("namespace polyloom", f"namespace unit_{len(units)}"))
    assert len(backwards) > 230
    (tmp_path / "kernels.cpp").write_text("\n".join(units))
    flags = ["-std=c++17", "-O0", "-w", "-ffp-contract=off", "-fPIC", "-shared"]
    subprocess.run(["g++", *flags, tmp_path / "kernels.cpp", "-o", tmp_path / "kernels.so"], check=True)
    library = ctypes.CDLL(str(tmp_path / "kernels.so"))
    for case, backward in backwards.items():
        inputs, outputs, adjoints = arguments(case)
        found = [np.zeros_like(x) for x in inputs]
        everything = [*found, *[w if w is None else w.copy() for w in adjoints]]
        given = [*inputs, *outputs, *[everything[index] for index in backward.adjoints]]
        function = getattr(library, f"{case.key}_cpu_kernel_backward")
        bounds = LaunchBounds((N_POINTS, 1, 1, 1), 0)
        function(bounds, *[strided(x) for x in given], ctypes.c_uint64(0), ctypes.c_uint64(N_POINTS))
        for x, expected in zip(found, gradients(case), strict=True):
            np.testing.assert_array_equal(x, expected, err_msg=case.key)


# Ill-conditioned where points are random, or of one precision alone.
COARSE = {"tan", "svd2", "svd3", "eig3", "qr3", "inverse", "mod", "floordiv", "transform_decompose", "sign", "step"}
SPOTS = {
    "add",
    "mul",
    "div",
    "dot",
    "cross",
    "length",
    "normalize",
    "lerp",
    "outer",
    "quat_rotate",
    "sin",
    "exp",
    "pow",
}
SPOTS |= {"hypot", "log", "norm_huber", "max", "clamp", "transform_multiply", "quat_slerp", "quat_to_matrix"}


def in_precision(x, dtype):
    return x if x is None or x.dtype.kind in "biu" else x.astype(dtype)


@pytest.mark.parametrize(("precision", "tolerance"), [("f32", 1e-6), ("f16", 3e-3), ("bf16", 2.5e-2)])
def test_other_precisions(precision, tolerance):
    """Against float64 at the same points."""
    n_checked = 0
    for case, exact in zip(cases(precision), cases(), strict=True):
        assert case.key == exact.key
        if case.params == exact.params or case.name in COARSE or (precision != "f32" and case.name not in SPOTS):
            continue
        given = arguments(exact)
        points = [[in_precision(x, numpy_type(precision)) for x in part] for part in given]
        wide = [[in_precision(x, np.float64) for x in part] for part in points]
        found, expected = gradients(case, points=points), gradients(exact, points=wide)
        for a, b in zip(found, expected, strict=True):
            scale = max(1.0, np.abs(b).max())
            np.testing.assert_allclose(a.astype(np.float64) / scale, b / scale, atol=tolerance, err_msg=case.key)
        n_checked += 1
    assert n_checked >= (150 if precision == "f32" else 30)
