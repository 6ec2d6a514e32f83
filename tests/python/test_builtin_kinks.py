"""Derivatives of builtins where there is none in the strict sense, or none at all: values that the reference and the
guide name."""

import re

import numpy as np
import polyloom as loom
import pytest
from polyloom import _native
from sources import define

inf = np.inf

SHAPES = {"f": (), "v2": (2,), "v3": (3,), "q": (4,), "m2": (2, 2), "m3": (3, 3), "m4": (4, 4), "t": (7,)}
TYPES = {
    "f": "loom.float64",
    "v2": "loom.vec2d",
    "v3": "loom.vec3d",
    "q": "loom.quatd",
    "m2": "loom.mat22d",
    "m3": "loom.mat33d",
    "m4": "loom.mat44d",
    "t": "loom.transformd",
}


def slopes(expression, kinds, *values, gives="f", before="", weight=1.0):
    """The gradients of an expression of `a`, `b` and so on at one point; of a composite, of its weighted components."""
    names = "abcd"[: len(values)]
    params = [f"{name}_: loom.array(dtype={TYPES[kind]})" for name, kind in zip(names, kinds, strict=True)]
    loads = [f"    {name} = {name}_[0]" for name in names]
    lines = [f"    {line}" for line in before.splitlines()]
    text = "\n".join(
        [
            f"@loom.kernel\ndef k({', '.join(params)}, y: loom.array(dtype={TYPES[gives]})):",
            *loads,
            *lines,
            f"    y[0] = {expression}\n",
        ]
    )
    inputs = [np.array([value], np.float64) for value in values]
    for kind, x in zip(kinds, inputs, strict=True):
        assert x.shape[1:] == SHAPES[kind]
    output = np.zeros((1, *SHAPES[gives]))
    found = [np.zeros_like(x) for x in inputs]
    adjoint = np.broadcast_to(weight, output.shape).astype(np.float64)
    loom.launch(define(text)["k"], 1, inputs, [output], adjoint=True, adj_inputs=found, adj_outputs=[adjoint.copy()])
    return [gradient[0] for gradient in found]


ZERO2, ZERO3 = [0.0, 0.0], [0.0, 0.0, 0.0]
NONE = [0.0, 0.0, 0.0, 1.0]
EYE = np.eye(3)

# An expression, the kinds of its variables, their values, and the derivatives.
SCALARS = [
    ("loom.abs(a)", [0.0], [0.0]),
    ("loom.abs(a)", [-0.0], [0.0]),
    ("loom.abs(a)", [-2.0], [-1.0]),
    ("loom.min(a, b)", [1.0, 1.0], [1.0, 0.0]),
    ("loom.max(a, b)", [1.0, 1.0], [1.0, 0.0]),
    ("loom.min(a, b)", [0.0, -0.0], [1.0, 0.0]),
    ("loom.min(a, b)", [np.nan, 2.0], [0.0, 1.0]),
    ("loom.max(a, b)", [2.0, np.nan], [1.0, 0.0]),
    ("loom.clamp(a, b, c)", [1.0, 1.0, 2.0], [1.0, 0.0, 0.0]),
    ("loom.clamp(a, b, c)", [2.0, 1.0, 2.0], [1.0, 0.0, 0.0]),
    ("loom.clamp(a, b, c)", [0.0, 1.0, 2.0], [0.0, 1.0, 0.0]),
    ("loom.clamp(a, b, c)", [3.0, 1.0, 2.0], [0.0, 0.0, 1.0]),
    ("loom.clamp(a, b, c)", [1.0, 1.0, 1.0], [1.0, 0.0, 0.0]),
    # Limits that have crossed leave the high one.
    ("loom.clamp(a, b, c)", [0.0, 0.3, 0.0], [0.0, 0.0, 1.0]),
    ("loom.clamp(a, b, c)", [0.3, 0.3, 0.0], [0.0, 0.0, 1.0]),
    ("loom.clamp(a, b, c)", [-1.0, 0.3, 0.0], [0.0, 0.0, 1.0]),
    ("loom.clamp(a, b, c)", [1.0, 0.3, 0.0], [0.0, 0.0, 1.0]),
    ("loom.smoothstep(b, c, a)", [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]),
    ("loom.smoothstep(b, c, a)", [1.0, 0.0, 1.0], [0.0, 0.0, 0.0]),
    ("loom.smoothstep(b, c, a)", [1.0, 0.5, 0.5], [0.0, 0.0, 0.0]),
    ("loom.floor(a) + loom.ceil(a) + loom.trunc(a) + loom.rint(a) + loom.round(a)", [1.0], [0.0]),
    ("loom.round(a) + loom.rint(a)", [0.5], [0.0]),
    ("loom.sign(a) + loom.step(a) + loom.nonzero(a)", [0.0], [0.0]),
    ("loom.frac(a)", [2.0], [1.0]),
    ("a % b", [6.0, 3.0], [1.0, -2.0]),
    ("a % b", [-7.0, 3.0], [1.0, 2.0]),
    # 5.9999999999999991 over 2 rounds to 3, and the quotient is 2.
    ("a % b", [np.nextafter(6.0, 0.0), 2.0], [1.0, -2.0]),
    ("a // b", [6.0, 3.0], [0.0, 0.0]),
    ("loom.copysign(a, b)", [0.0, -1.0], [-1.0, 0.0]),
    ("loom.copysign(a, b)", [-2.0, 3.0], [-1.0, 0.0]),
    ("loom.hypot(a, b)", [0.0, 0.0], [0.0, 0.0]),
    ("loom.hypot(a, b)", [3e300, 4e300], [0.6, 0.8]),
    ("loom.atan2(a, b)", [0.0, 0.0], [0.0, 0.0]),
    ("loom.atan2(a, b)", [0.0, -2.0], [-0.5, 0.0]),
    ("loom.atan2(a, b)", [1e200, 1e200], [0.5e-200, -0.5e-200]),
    ("a ** b", [0.0, 2.0], [0.0, 0.0]),
    ("a ** b", [0.0, 1.0], [1.0, 0.0]),
    ("a ** b", [0.0, 0.0], [0.0, 0.0]),
    ("a ** b", [0.0, 0.5], [inf, 0.0]),
    ("a ** 3.0", [-2.0], [12.0]),
    ("loom.sqrt(a)", [0.0], [inf]),
    ("loom.cbrt(a)", [0.0], [inf]),
    ("loom.rsqrt(a)", [0.0], [-inf]),
    ("loom.log(a)", [0.0], [inf]),
    ("loom.asin(a)", [1.0], [inf]),
    ("loom.acos(a)", [-1.0], [-inf]),
    ("loom.acosh(a)", [1.0], [inf]),
    ("loom.atanh(a)", [1.0], [inf]),
    ("loom.erfinv(a)", [1.0], [inf]),
    ("loom.tanh(a)", [400.0], [0.0]),
    ("loom.erf(a) + loom.erfc(a)", [0.5], [0.0]),
    ("loom.asinh(a)", [1e200], [1e-200]),
    ("a / b", [1.0, 0.0], [inf, -inf]),
    # What is not chosen has no influence, whatever it is.
    ("loom.where(a > loom.float64(0.0), loom.sqrt(a), loom.float64(0.0))", [0.0], [0.0]),
    ("loom.where(a > loom.float64(0.0), loom.sqrt(a), loom.float64(0.0))", [-1.0], [0.0]),
    ("loom.where(a != loom.float64(0.0), a * (b / a), b)", [0.0, 3.0], [0.0, 1.0]),
    ("loom.where(a < loom.float64(9.0), a, loom.exp(a * a) * b)", [1.0, inf], [1.0, 0.0]),
    ("loom.where(a > loom.float64(0.0), loom.where(b > a, loom.log(a) / b, b / a), b)", [0.0, 0.0], [0.0, 1.0]),
    ("loom.sqrt(a) if a > loom.float64(0.0) else b", [0.0, 1.0], [0.0, 1.0]),
]


@pytest.mark.parametrize(("expression", "values", "expected"), SCALARS, ids=lambda value: str(value))
def test_scalars(expression, values, expected):
    if "3.0" in expression and len(values) == 1:
        expression = expression.replace("3.0", "loom.float64(3.0)")
    np.testing.assert_allclose(slopes(expression, ["f"] * len(values), *values), expected, rtol=1e-14, atol=1e-16)


ROTATION = [[0.6, -0.8, 0.0], [0.8, 0.6, 0.0], [0.0, 0.0, 1.0]]
COMPOSITES = [
    ("loom.length(a)", ["v3"], [ZERO3], [ZERO3]),
    ("loom.length(a)", ["q"], [[0.0] * 4], [[0.0] * 4]),
    ("loom.length_sq(a)", ["v3"], [ZERO3], [ZERO3]),
    ("loom.length(loom.normalize(a))", ["v3"], [ZERO3], [ZERO3]),
    ("loom.normalize(a)[3]", ["q"], [[0.0] * 4], [[0.0] * 4]),
    ("loom.norm_l1(a)", ["v3"], [[0.0, -2.0, 3.0]], [[0.0, -1.0, 1.0]]),
    ("loom.norm_huber(a)", ["v3"], [ZERO3], [ZERO3]),
    ("loom.norm_huber(a, b)", ["v2", "f"], [[3.0, 4.0], 5.0], [[3.0, 4.0], 0.0]),
    ("loom.norm_huber(a, b)", ["v2", "f"], [[6.0, 8.0], 5.0], [[3.0, 4.0], 5.0]),
    ("loom.norm_pseudo_huber(a, b)", ["v3", "f"], [ZERO3, 2.0], [ZERO3, 1.0]),
    ("loom.smooth_normalize(a, b)[0]", ["v3", "f"], [ZERO3, 2.0], [[0.5, 0.0, 0.0], 0.0]),
    ("loom.min(a)", ["v3"], [[1.0, 1.0, 2.0]], [[1.0, 0.0, 0.0]]),
    ("loom.max(a)", ["v3"], [[1.0, 2.0, 2.0]], [[0.0, 1.0, 0.0]]),
    ("loom.min(a, b)[0]", ["v2", "v2"], [[1.0, 3.0], [1.0, 2.0]], [[1.0, 0.0], [0.0, 0.0]]),
    ("loom.abs(a)[0] + loom.abs(a)[1]", ["v2"], [[0.0, -3.0]], [[0.0, -1.0]]),
    ("loom.determinant(a)", ["m2"], [[[1.0, 2.0], [2.0, 4.0]]], [[[4.0, -2.0], [-2.0, 1.0]]]),
    ("loom.determinant(a)", ["m3"], [np.diag([2.0, 3.0, 0.0])], [np.diag([0.0, 0.0, 6.0])]),
    ("loom.determinant(a)", ["m4"], [np.diag([2.0, 0.0, 3.0, 5.0])], [np.diag([0.0, 30.0, 0.0, 0.0])]),
    ("loom.inverse(a)[0, 0]", ["m2"], [[[1.0, 2.0], [2.0, 4.0]]], [np.zeros((2, 2))]),
    ("loom.inverse(a)[0, 0]", ["m4"], [np.diag([1.0, 1.0, 1.0, 0.0])], [np.zeros((4, 4))]),
    ("loom.trace(loom.inverse(a))", ["m3"], [np.diag([1.0, 2.0, 4.0])], [np.diag([-1.0, -0.25, -0.0625])]),
    ("loom.quat_twist_angle(b, a)", ["q", "v3"], [NONE, [0.0, 0.0, 1.0]], [[0.0] * 4, ZERO3]),
    ("loom.quat_twist_angle_signed(b, a)", ["q", "v3"], [NONE, [0.0, 0.0, 1.0]], [[0.0, 0.0, 2.0, 0.0], ZERO3]),
    ("loom.quat_to_rpy(a)[2]", ["q"], [NONE], [[0.0, 0.0, 2.0, 0.0]]),
    ("loom.quat_to_euler(a, 0, 1, 2)[2]", ["q"], [NONE], [[0.0, 0.0, 2.0, 0.0]]),
    ("loom.quat_from_matrix(a)[2]", ["m3"], [EYE], [[[0.0, -0.25, 0.0], [0.25, 0.0, 0.0], [0.0, 0.0, 0.0]]]),
    # Half a turn around x: three of the four ways to find the quaternion take roots of what is not positive.
    ("loom.quat_from_matrix(a)[1]", ["m3"], [np.diag([1.0, -1.0, -1.0])], [[[0, 0.25, 0], [0.25, 0, 0], [0, 0, 0]]]),
    ("loom.quat_from_axis_angle(a, b)[0]", ["v3", "f"], [[1.0, 0.0, 0.0], 0.0], [ZERO3, 0.5]),
]


@pytest.mark.parametrize(("expression", "kinds", "values", "expected"), COMPOSITES, ids=lambda value: str(value)[:40])
def test_composites(expression, kinds, values, expected):
    for found, slope in zip(slopes(expression, kinds, *values), expected, strict=True):
        np.testing.assert_allclose(found, slope, rtol=1e-14, atol=1e-15)


def test_rotations_without_an_axis():
    """The axis and the angle of no rotation have none; halfway between equal rotations has one."""
    assert not np.any(slopes("axis[0] + angle", ["q"], NONE, before="axis, angle = loom.quat_to_axis_angle(a)"))
    for other in (NONE, [1e-12, 0.0, 0.0, 1.0], [0.0, 1e-6, 0.0, 1.0], [0.0, 0.0, 0.0, -1.0]):
        by_a, by_b, by_t = slopes("loom.quat_slerp(a, b, c)[1]", ["q", "q", "f"], NONE, other, 0.25)
        sign = np.sign(other[3])
        np.testing.assert_allclose([by_a[1], by_b[1], by_t], [0.75, sign * 0.25, other[1]], atol=1e-6)
    # Between quaternions of which one is zero there is no rotation.
    half = [0.6, 0.0, 0.0, 0.8]
    for a, b, value in ((half, [0.0] * 4, 0.75), ([0.0] * 4, half, 0.75), ([0.0] * 4, [0.0] * 4, 0.75)):
        by_a, by_b, by_t = slopes("loom.quat_slerp(a, b, c)[1]", ["q", "q", "f"], a, b, value)
        np.testing.assert_array_equal(by_a, [0.0, 1.0, 0.0, 0.0])
        assert not np.any(by_b) and by_t == 0
    by_a, by_b = slopes("loom.quat_between_vectors(a, b)[2]", ["v3", "v3"], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0])
    np.testing.assert_allclose([by_a, by_b], [[0.0, -0.5, 0.0], [0.0, 0.5, 0.0]])


def polar(matrix, weight):
    return slopes("u * loom.transpose(v)", ["m3"], matrix, gives="m3", before="u, s, v = loom.svd3(a)", weight=weight)[
        0
    ]


def test_singular_values_that_are_equal():
    """The nearest rotation and the sum of the singular values have derivatives where the vectors have none."""
    weight = np.random.default_rng(0).normal(size=(3, 3))
    turning = (weight - weight.T) / 2
    for gap in (0.0, 1e-15, 1e-12, 1e-7):
        np.testing.assert_allclose(polar(np.diag([1.0 + gap, 1.0, 1.0]), weight), turning, rtol=1e-6, atol=1e-6)
    # Between axes with the values s and t the rotation turns by the antisymmetric part over their mean.
    scaled = turning / np.array([[2.0, 2.0, 1.5], [2.0, 2.0, 1.5], [1.5, 1.5, 1.0]])
    np.testing.assert_allclose(polar(np.diag([2.0, 2.0, 1.0]), weight), scaled, rtol=1e-7)
    before = "u, s, v = loom.svd3(a)"
    total = slopes("s[0] + s[1] + s[2]", ["m3"], ROTATION, before=before)[0]
    np.testing.assert_allclose(total, ROTATION, atol=1e-12)
    assert np.isfinite(polar(np.zeros((3, 3)), weight)).all()
    assert np.isfinite(polar(np.diag([1.0, 1.0, -1.0]), weight)).all()
    total = slopes("s[0] + s[1]", ["m2"], [[0.0, -1.0], [1.0, 0.0]], before="u, s, v = loom.svd2(a)")[0]
    np.testing.assert_allclose(total, [[0.0, -1.0], [1.0, 0.0]], atol=1e-12)


def test_functions_of_matrices_with_equal_singular_values():
    """`U S³ V'` is `A A' A`; how fast singular values change the vectors they have is a limit there."""
    weight = np.random.default_rng(4).normal(size=(3, 3))
    for a in (EYE, np.diag([2.0, 2.0, 1.0]), np.array(ROTATION) * 0.5, np.diag([1.0, 0.0, 0.0]), np.zeros((3, 3))):
        found = slopes(
            "u * loom.diag(loom.cw_mul(s, loom.cw_mul(s, s))) * loom.transpose(v)",
            ["m3"],
            a,
            gives="m3",
            before="u, s, v = loom.svd3(a)",
            weight=weight,
        )[0]
        expected = weight @ a.T @ a + a @ weight.T @ a + a @ a.T @ weight
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_products_of_triangular_factors_of_equal_columns():
    """`R' R` is `A' A`, whatever `Q` is."""
    weight = np.random.default_rng(5).normal(size=(3, 3))
    columns = np.random.default_rng(6).normal(size=(3, 3))
    no_first, same = columns * [0.0, 1.0, 1.0], columns[:, [0, 0, 2]]
    for a in (columns, no_first, same, np.zeros((3, 3))):
        found = slopes("loom.transpose(r) * r", ["m3"], a, gives="m3", before="q, r = loom.qr3(a)", weight=weight)[0]
        np.testing.assert_allclose(found, a @ (weight + weight.T), rtol=1e-6, atol=1e-6)


def test_eigenvalues_that_are_equal():
    """A function of a symmetric matrix, here its square, has a derivative where the vectors have none."""
    for matrix in (EYE, np.diag([2.0, 2.0, 1.0]), np.array([[2.0, 1e-9, 0.0], [1e-9, 2.0, 0.5], [0.0, 0.5, 1.0]])):
        weight = np.random.default_rng(1).normal(size=(3, 3))
        found = slopes(
            "q * loom.diag(loom.cw_mul(d, d)) * loom.transpose(q)",
            ["m3"],
            matrix,
            gives="m3",
            before="q, d = loom.eig3(a)",
            weight=weight,
        )[0]
        # The op sees the symmetric part of a matrix alone.
        whole = weight @ matrix + matrix @ weight
        expected = (whole + whole.T) / 2
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_triangular_factors_of_rank_two():
    """The third column of `Q` follows from the others: that the last element of `R` is 0 does not matter."""
    rng = np.random.default_rng(2)
    matrix = rng.normal(size=(3, 2)) @ rng.normal(size=(2, 3))
    before = "q, r = loom.qr3(a)"
    for expression in ("q", "r"):
        weight = rng.normal(size=(3, 3))
        found = slopes(expression, ["m3"], matrix, gives="m3", before=before, weight=weight)[0]
        for place in np.ndindex(3, 3):
            ends = []
            for step in (1e-6, -1e-6):
                moved = matrix.copy()
                moved[place] += step
                output = np.zeros((1, 3, 3))
                text = "@loom.kernel\ndef k(x: loom.array(dtype=loom.mat33d), y: loom.array(dtype=loom.mat33d)):\n"
                text += f"    q, r = loom.qr3(x[0])\n    y[0] = {expression}\n"
                loom.launch(define(text)["k"], 1, [moved[None]], [output])
                ends.append((weight * output[0]).sum())
            np.testing.assert_allclose(found[place], (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-7)
    assert np.isfinite(slopes("r[0, 1]", ["m3"], np.zeros((3, 3)), before=before)[0]).all()


def test_a_value_that_two_choices_share_has_its_derivative_from_both():
    text = "loom.where(a > b, s, b) + loom.where(a > b, b, loom.float64(2.0) * s)"
    assert slopes(text, ["f", "f"], 4.0, 1.0, before="s = loom.sqrt(a)") == [0.25, 1.0]
    assert slopes(text, ["f", "f"], 4.0, 9.0, before="s = loom.sqrt(a)") == [0.5, 1.0]


def test_forward_mode_has_no_tangents_of_vectors_of_equal_values():
    text = (
        "@loom.kernel\ndef k(x: loom.array(dtype=loom.mat33d), y: loom.array(dtype=loom.mat33d), z: loom.array(dtype="
    )
    text += "loom.vec3d)):\n    u, s, v = loom.svd3(x[0])\n    y[0] = u\n    z[0] = s\n"
    moved, turned, stretched = np.diag([1.0, 2.0, 3.0])[None], np.zeros((1, 3, 3)), np.zeros((1, 3))
    given = [EYE[None].copy(), np.zeros((1, 3, 3)), np.zeros((1, 3))]
    loom.jvp(define(text)["k"], 1, given, tangents=[moved, turned, stretched])
    assert np.isnan(turned).any()
    np.testing.assert_allclose(np.sort(stretched[0]), [1.0, 2.0, 3.0])

    # Two eigenvalues of such a matrix differ by rounding errors, and so would the tangents of their vectors.
    text = "@loom.kernel\ndef k(x: loom.array(dtype=loom.mat33d), y: loom.array(dtype=loom.mat33d)):\n"
    text += "    q, d = loom.eig3(x[0])\n    y[0] = q\n"
    turned = np.zeros((1, 3, 3))
    given = [np.full((1, 3, 3), 0.3), np.zeros((1, 3, 3))]
    loom.jvp(define(text)["k"], 1, given, tangents=[np.ones((1, 3, 3)), turned])
    assert not np.isfinite(turned).all()


@loom.kernel
def prepared_before_a_branch(a: loom.array(dtype=loom.float64), y: loom.array(dtype=loom.float64)):
    i = loom.tid()
    x = a[i]
    inverse = loom.float64(1.0) / x
    root = loom.sqrt(x) * inverse
    if x > loom.float64(0.0):
        for _k in range(2):
            y[i] += root * inverse
    else:
        y[i] = loom.float64(2.0) * x


def test_what_is_computed_for_one_side_alone_has_no_influence_on_the_other():
    x, adjoint = np.array([4.0, 0.0, -1.0]), np.zeros(3)
    loom.launch(prepared_before_a_branch, 3, [x, np.zeros(3)], adjoint=True, adj_inputs=[adjoint, np.ones(3)])
    np.testing.assert_allclose(adjoint, [2 * -1.5 * 4.0**-2.5, 2.0, 2.0])


f64 = loom.float64
D = loom.array(dtype=f64)


@loom.kernel
def shared_by_choices(a: D, y: D):
    i = loom.tid()
    s = loom.sqrt(a[i])
    y[i] = loom.where(a[i] > f64(0.0), s, f64(0.0)) + loom.where(a[i] > f64(1.0), s * s, f64(0.0))


@loom.kernel
def chosen_by_what_was_chosen(a: D, y: D):
    i = loom.tid()
    s = loom.sqrt(a[i])
    t = loom.where(a[i] > f64(0.0), s, a[i])
    y[i] = t + loom.where(t > f64(1.0), loom.log(s), f64(0.0))


@loom.kernel
def shared_by_branches(a: D, y: D):
    i = loom.tid()
    s = loom.sqrt(a[i])
    r = f64(0.0)
    if a[i] > f64(0.0):
        r += s
    if a[i] > f64(1.0):
        r += s * s
    y[i] = r


@loom.kernel
def computed_by_a_loop(a: D, y: D):
    i = loom.tid()
    s = f64(0.0)
    for _k in range(3):
        s += loom.sqrt(a[i])
    y[i] = loom.where(a[i] > f64(0.0), s, f64(0.0))


@loom.kernel
def computed_by_a_branch(a: D, y: D):
    i = loom.tid()
    s = f64(1.0)
    if a[i] < f64(4.0):
        s = loom.sqrt(a[i])
    else:
        s = loom.log(a[i])
    y[i] = loom.where(a[i] > f64(0.0), s, f64(0.0)) + loom.where(a[i] > f64(1.0), s, f64(0.0))


@loom.kernel
def computed_by_a_while(a: D, y: D):
    i = loom.tid()
    s = loom.sqrt(a[i])
    p = f64(1.0)
    k = f64(0.0)
    while k < a[i]:
        p = p * s
        k += f64(1.0)
    y[i] = loom.where(a[i] > f64(0.0), p, f64(0.0)) + loom.where(a[i] > f64(1.0), p * s, f64(0.0))


@loom.kernel
def used_by_a_loop_that_does_not_run(a: D, y: D):
    i = loom.tid()
    s = loom.sqrt(a[i])
    for _k in range(i):
        y[i] += s


@loom.kernel
def used_within_a_loop(a: D, y: D):
    i = loom.tid()
    s = loom.sqrt(a[i])
    r = f64(0.0)
    for k in range(3):
        if a[i] > f64(k):
            r += s
    for k in range(2):
        if a[i] > f64(k):
            r += s * s
    y[i] = r


@loom.func
def root(x: f64):
    return loom.sqrt(x)


@loom.func_grad(root)
def adj_root(x: f64, adj_ret: f64):
    loom.adjoint[x] += f64(0.5) / loom.sqrt(x) * adj_ret


@loom.kernel
def shared_value_of_a_custom_gradient(a: D, y: D):
    i = loom.tid()
    s = root(a[i])
    y[i] = loom.where(a[i] > f64(0.0), s, f64(0.0)) + loom.where(a[i] > f64(1.0), s * s, f64(0.0))


@loom.kernel
def vectors_shared_by_choices(a: D, y: D):
    i = loom.tid()
    v = loom.vec2d(loom.sqrt(a[i]), f64(1.0) / a[i])
    w = loom.where(a[i] > f64(0.0), v, loom.vec2d()) + loom.where(a[i] > f64(1.0), f64(2.0) * v, loom.vec2d())
    y[i] = w[0] + w[1]


# By kernel, its derivatives at 0, 1/4 and 4, or those that there are.
UNASKED = [
    (shared_by_choices, [0.0, 1.0, 1.25]),
    (chosen_by_what_was_chosen, [1.0, 1.0, 0.25 + 0.125]),
    (shared_by_branches, [0.0, 1.0, 1.25]),
    (computed_by_a_loop, [0.0, 3.0, 0.75]),
    (computed_by_a_branch, [0.0, 1.0, 0.5]),
    # √a where a is 1/4, and a² + a² √a where it is 4
    (computed_by_a_while, [0.0, 1.0, 8.0 + 20.0]),
    (used_by_a_loop_that_does_not_run, [0.0, 1.0, 0.5]),
    (used_within_a_loop, [0.0, 2.0, 0.75 + 2.0]),
    (shared_value_of_a_custom_gradient, [0.0, 1.0, 1.25]),
    (vectors_shared_by_choices, [0.0, 1.0 - 16.0, 3 * (0.25 - 1 / 16)]),
]


@pytest.mark.parametrize(("kernel", "expected"), UNASKED, ids=lambda value: getattr(value, "key", ""))
@pytest.mark.parametrize("has_checkpoints", [False, True])
def test_what_nothing_asks_for_has_no_influence(kernel, expected, has_checkpoints, monkeypatch):
    if has_checkpoints:
        monkeypatch.setattr(loom.config, "tape_memory", 1)
    x, adjoint = np.array([0.0, 0.25, 4.0]), np.zeros(3)
    loom.launch(kernel, 3, [x, np.zeros(3)], adjoint=True, adj_inputs=[adjoint, np.ones(3)])
    np.testing.assert_allclose(adjoint, expected)


def test_what_is_asked_for_is_told_though_it_is_infinite():
    @loom.kernel
    def squared(a: D, y: D):
        i = loom.tid()
        s = loom.sqrt(a[i])
        y[i] = loom.where(a[i] >= f64(0.0), s * s, f64(0.0)) + loom.where(a[i] > f64(1.0), s, f64(0.0))

    # The derivative is 1, which a product of 0 and an infinite one does not say; it does not pretend to be 0.
    x, adjoint = np.array([0.0, 0.25]), np.zeros(2)
    loom.launch(squared, 2, [x, np.zeros(2)], adjoint=True, adj_inputs=[adjoint, np.ones(2)])
    assert np.isnan(adjoint[0]) and adjoint[1] == 1.0


# By builtin without a derivative, a kernel's lines that need one, of the arrays x and y.
REFUSED = {
    "atomic_cas": "loom.atomic_cas(y, 0, x[i], x[0])",
    "atomic_exch": "loom.atomic_exch(y, 0, x[i])",
    "shared_array": "t = loom.shared_array(shape=4, dtype=float)\nt[0] = x[i]\ny[i] = t[0]",
    "dynamic_shared": "t = loom.dynamic_shared(shape=4, dtype=float)\nt[0] = x[i]\ny[i] = t[0]",
    "sync_threads": "loom.sync_threads()",
    "sync_threads_and": "n[0] = loom.int32(loom.sync_threads_and(x[i] > 0.0))",
    "sync_threads_or": "n[0] = loom.int32(loom.sync_threads_or(x[i] > 0.0))",
    "sync_threads_count": "n[0] = loom.sync_threads_count(x[i] > 0.0)",
    "sync_warp": "loom.sync_warp()",
    "shuffle": "y[i] = loom.shuffle(x[i], 0)",
    "shuffle_up": "y[i] = loom.shuffle_up(x[i], 1)",
    "shuffle_down": "y[i] = loom.shuffle_down(x[i], 1)",
    "shuffle_xor": "y[i] = loom.shuffle_xor(x[i], 1)",
    "warp_reduce_add": "y[i] = loom.warp_reduce_add(x[i])",
    "warp_reduce_min": "y[i] = loom.warp_reduce_min(x[i])",
    "warp_reduce_max": "y[i] = loom.warp_reduce_max(x[i])",
    "mma_load_a": "a = loom.mma_load_a(m, 0, 0)\ny[i] = a[0]",
    "mma_load_b": "a = loom.mma_load_b(m, 0, 0)\ny[i] = a[0]",
    "mma_load_c": "a = loom.mma_load_c(m, 0, 0)\ny[i] = a[0]",
    "mma_store": "loom.mma_store(m, 0, 0, loom.vec4(x[i]))",
    "mma": "a = loom.mma_load_a(m, 0, 0)\nb = loom.mma_load_b(m, 0, 0)\nc = loom.mma_load_c(m, 0, 0)\n"
    "y[i] = loom.mma(a, b, c)[0]",
    "async_copy": "t = loom.shared_array(shape=4, dtype=float)\nloom.async_copy(t[0], x[0], count=1)",
    "async_commit": "loom.async_commit()\ny[i] = x[i]",
    "async_wait": "loom.async_wait()\ny[i] = x[i]",
}


def test_every_builtin_without_a_derivative_is_refused():
    without = {name for name, derivative, _ in _native.derivatives() if derivative == "None"}
    assert set(REFUSED) == without
    params = "x: loom.array(dtype=float), y: loom.array(dtype=float), m: loom.array(dtype=float, ndim=2)"
    for name, lines in REFUSED.items():
        body = "\n".join(f"    {line}" for line in ["i = loom.tid()", *lines.splitlines()])
        kernel = define(f"@loom.kernel\ndef k({params}, n: loom.array(dtype=int)):\n{body}\n")["k"]
        with pytest.raises(loom.CompileError) as caught:
            kernel.hir(backward=True)
        assert {found.code for found in caught.value.diagnostics} == {"PL0701"}, name


def test_a_refusal_says_what_to_write_instead():
    @loom.kernel
    def block_sum(x: loom.array(dtype=float), y: loom.array(dtype=float)):
        i = loom.tid()
        t = loom.shared_array(shape=64, dtype=float)
        t[i % 64] = x[i]
        loom.sync_threads()
        y[i] = t[63 - i % 64]

    x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)

    def recorded():
        with loom.Tape():
            loom.launch(block_sum, 64, [x, y], block_dim=64)

    ways = [
        recorded,
        lambda: loom.launch(block_sum, 64, [x, y], adjoint=True),
        lambda: loom.jvp(block_sum, 64, [x, y], tangents=[x, y]),
        lambda: block_sum.cuda(backward=True),
        lambda: block_sum.cpp(backward=True),
        lambda: block_sum.ptx(backward=True),
    ]
    for way in ways:
        with pytest.raises(loom.CompileError) as caught:
            way()
        found = [each.message.split(":")[0] for each in caught.value.diagnostics]
        assert found == ["`shared_array` has no derivative", "`sync_threads` has no derivative"]
        for each in caught.value.diagnostics:
            assert "add up with `atomic_add`" in each.help and "`Tape.record_func`" in each.help
    loom.launch(block_sum, 64, [x, y], block_dim=64, record_tape=False)


@pytest.mark.parametrize("tier", ["interp", "0", "1"])
def test_every_engine_has_the_same_kinks(tier, passed_on_tier):
    # Seven tests are of equal values, of an axis or of a rank.
    chosen = "test_scalars or test_composites or equal or axis or rank"
    assert passed_on_tier(tier, __file__, chosen) == len(SCALARS) + len(COMPOSITES) + 7


def slopes_together(cases):
    """The gradients of many expressions, each with kinds and values of its variables, from one kernel."""
    held = {kind: [] for kind in TYPES}
    lines, places = [], []
    for number, (expression, kinds, values) in enumerate(cases):
        of_case = []
        for name, kind, value in zip("abcd", kinds, values, strict=False):
            lines.append(f"    {name}{number} = {kind}_[{len(held[kind])}]")
            of_case.append((kind, len(held[kind])))
            held[kind].append(value)
        lines.append(f"    y[{number}] = " + re.sub(r"\b([abcd])\b", rf"\g<1>{number}", expression))
        places.append(of_case)
    params = ", ".join(f"{kind}_: loom.array(dtype={name})" for kind, name in TYPES.items())
    kernel = define("\n".join([f"@loom.kernel\ndef k({params}, y: loom.array(dtype=loom.float64)):", *lines, ""]))["k"]
    inputs = [np.array(values, np.float64).reshape(-1, *SHAPES[kind]) for kind, values in held.items()]
    found = dict(zip(held, (np.zeros_like(x) for x in inputs), strict=True))
    y, adjoints = np.zeros(len(cases)), [*found.values(), np.ones(len(cases))]
    loom.launch(kernel, 1, [*inputs, y], adjoint=True, adj_inputs=adjoints)
    return [[found[kind][place] for kind, place in of_case] for of_case in places]


def test_the_simulator_has_the_same_kinks():
    scalars = [
        (text.replace("** 3.0", "** loom.float64(3.0)"), "f" * len(values), values) for text, values, _ in SCALARS
    ]
    composites = [(expression, kinds, values) for expression, kinds, values, _ in COMPOSITES]
    expected = [slopes for *_, slopes in [*SCALARS, *COMPOSITES]]
    with loom.ScopedDevice("sim:0"):
        found = [*slopes_together(scalars), *slopes_together(composites)]
        for (expression, *_), case, slope in zip([*scalars, *composites], found, expected, strict=True):
            for one, wanted in zip(case, slope, strict=True):
                np.testing.assert_allclose(one, wanted, rtol=1e-14, atol=1e-15, err_msg=expression)
        test_rotations_without_an_axis()
        test_singular_values_that_are_equal()
        test_functions_of_matrices_with_equal_singular_values()
        test_products_of_triangular_factors_of_equal_columns()
        test_eigenvalues_that_are_equal()
        test_triangular_factors_of_rank_two()
        test_forward_mode_has_no_tangents_of_vectors_of_equal_values()
    assert loom.sim.last_report()["thread_instructions"] > 0
