"""`grad(f)(x)` within kernels. Derivatives are worked out by hand, or by differences."""

import numpy as np
import polyloom as loom
import pytest
from polyloom import grad

f64 = loom.float64
D = loom.array(dtype=f64)
V = loom.array(dtype=loom.vec3d)


@loom.func
def wave(x: f64, y: f64):
    return loom.sin(x) * y * y


@loom.func
def cube(x: f64, n: int):
    return x * x * x * f64(n)


@loom.func
def sphere(p: loom.vec3d, center: loom.vec3d, radius: f64):
    return loom.length(p - center) - radius


@loom.func
def looked_up(table: D, i: int, x: f64):
    return table[i] * x * x


@loom.func
def with_branches(x: f64):
    if x < f64(0.0):
        return -x
    s = f64(1.0)
    for _k in range(3):
        s += x
    if x > f64(4.0):
        return loom.sqrt(x) * f64(2.0)
    return s


@loom.func
def with_loops(x: f64, n: int):
    s = x
    for j in range(6, 0, -2):
        for k in range(3):
            if k != n:
                s = s * x + f64(j)
    for k in range(n):
        s += f64(k) * x
    return s


@loom.func
def root(x: f64):
    return loom.sqrt(x)


@loom.func_grad(root)
def adj_root(x: f64, adj_ret: f64):
    loom.adjoint[x] += f64(7.0) * adj_ret


@loom.func
def of_root(x: f64):
    return root(x) * x


@loom.func
def power(x: loom.Float, n: int):
    return x ** type(x)(n)


@loom.func
def slope_of_cube(x: f64):
    return grad(cube)(x, 2) + x


@loom.kernel
def slopes(x: D, table: D, out: loom.array(dtype=f64, ndim=2)):
    i = loom.tid()
    a, b = loom.grad(wave)(x[i], f64(3.0))
    out[0, i] = a
    out[1, i] = b
    out[2, i] = loom.grad(cube)(x[i], 2)
    out[3, i] = grad(looked_up)(table, i, x[i])
    out[4, i] = loom.grad(with_branches)(x[i])
    out[5, i] = loom.grad(root)(x[i])
    out[6, i] = loom.grad(of_root)(x[i])
    out[7, i] = loom.grad(power)(x[i], n=3)
    out[9, i] = loom.grad(with_loops)(x[i], 2)
    # A derivative of a function of a derivative.
    out[8, i] = loom.grad(slope_of_cube)(x[i])


X = np.array([0.5, 2.0, 9.0, -1.5])
T = np.array([1.0, 2.0, 3.0, 4.0])


def expected():
    with np.errstate(invalid="ignore"):
        return [
            np.cos(X) * 9.0,
            np.sin(X) * 6.0,
            6.0 * X**2,
            2.0 * T * X,
            np.where(X < 0.0, -1.0, np.where(X > 4.0, 1.0 / np.sqrt(X), 3.0)),
            np.full(4, 7.0),
            7.0 * X + np.sqrt(X),
            3.0 * X**2,
            12.0 * X + 1.0,
            # s = x⁷ + 6 x⁵ + 6 x⁴ + 4 x³ + 4 x² + 2 x + 2, and x
            7.0 * X**6 + 30.0 * X**4 + 24.0 * X**3 + 12.0 * X**2 + 8.0 * X + 2.0 + 1.0,
        ]


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_derivatives_of_functions(device):
    out = np.zeros((10, 4))
    loom.launch(slopes, 4, [X, T, out], device=device)
    for row, values in zip(out, expected(), strict=True):
        np.testing.assert_allclose(row, values, rtol=1e-12)


@loom.kernel
def normals(p: V, out: V, of_radius: D):
    i = loom.tid()
    of_p, of_center, of_r = loom.grad(sphere)(p[i], loom.vec3d(f64(1.0), f64(0.0), f64(0.0)), f64(2.0))
    out[i] = of_p - of_center
    of_radius[i] = of_r


def test_with_respect_to_vectors():
    p = np.array([[4.0, 4.0, 0.0], [1.0, 0.0, 2.0]])
    out, of_radius = np.zeros((2, 3)), np.zeros(2)
    loom.launch(normals, 2, [p, out, of_radius])
    np.testing.assert_allclose(out, 2.0 * np.array([[0.6, 0.8, 0.0], [0.0, 0.0, 1.0]]))
    np.testing.assert_allclose(of_radius, -1.0)


@loom.kernel
def curvature(x: D, y: D):
    i = loom.tid()
    a, b = loom.grad(wave)(x[i], x[i])
    y[i] = a * b + loom.grad(of_root)(x[i])


def test_kernels_with_derivatives_are_differentiated():
    x = np.array([0.5, 2.0])
    loom.gradcheck(normals, [np.array([[4.0, 4.0, 0.0]]), np.zeros((1, 3)), np.zeros(1)])
    adjoint = np.zeros(2)
    loom.launch(curvature, 2, [x, np.zeros(2)], adjoint=True, adj_inputs=[adjoint, np.ones(2)])
    # y = cos x x² · 2 sin x x + 7 x + √x: what the program says of the derivative is taken as it stands.
    s, c = np.sin(x), np.cos(x)
    product = 2.0 * (c * c - s * s) * x**3 + 6.0 * s * c * x**2
    np.testing.assert_allclose(adjoint, product + 7.0 + 7.0)
    dot = np.zeros(2)
    loom.jvp(curvature, 2, [x], [np.zeros(2)], tangents=[np.ones(2), dot])
    np.testing.assert_allclose(dot, product + 7.0 + 0.5 / np.sqrt(x))


def test_texts_have_the_derivative_as_a_function():
    assert "func @grad_wave(" in slopes.hir()
    assert "grad_wave(" in slopes.cuda() and "grad_wave(" in slopes.cpp()


@pytest.mark.parametrize(
    ("function", "call", "message"),
    [
        (
            "def f(x: float, y: loom.array(dtype=float)):\n    y[0] = x\n    return x",
            "grad(f)(x[0], x)",
            "writes to memory",
        ),
        ("def f(n: int):\n    return float(n)", "grad(f)(3)", "no parameter of `f` is a floating-point number"),
        ("def f(x: float):\n    return x, x", "grad(f)(x[0])", "gives `float32`, `float32`; `grad` is of functions"),
        ("def f(x: float):\n    return loom.vec3(x)", "grad(f)(x[0])", "gives `vec3`; `grad` is of functions"),
        ("def f(x: float):\n    return x", "grad(f, f)(x[0])", "`grad` takes one function"),
        ("def f(x: float):\n    return x", "x[0] + grad(f)", "is a function, which is no value"),
        ("def f(x: float):\n    return x", "grad(f)(x)", "f"),
        (
            "def f(x: float):\n    s = x\n    for _k in range(int(x)):\n        s *= s\n    return s",
            "grad(f)(x[0])",
            "needs what its loops have carried",
        ),
        (
            "def f(x: float):\n    for _ in range(4):\n        x *= x\n        if x > 4.0:\n"
            "            break\n    return x",
            "grad(f)(x[0])",
            "needs what its loops have carried",
        ),
        (
            "def f(x: float):\n    s = x\n    for _k in range(100000):\n        s = s * x + 1.0\n    return s",
            "grad(f)(x[0])",
            "needs what its loops have carried",
        ),
        (
            "def f(x: loom.ref[float]):\n    x *= 2.0\n    return x",
            "grad(f)(x[0])",
            "`grad` is of functions that give one floating-point number",
        ),
    ],
)
def test_what_has_no_derivative_is_refused(define, function, call, message):
    text = (
        f"from polyloom import grad\n@loom.func\n{function}\n"
        f"@loom.kernel\ndef k(x: loom.array(dtype=float)):\n    y = loom.{call}\n"
    )
    with pytest.raises(loom.CompileError) as caught:
        define(text.replace("loom.x[0]", "x[0]"))
    assert message in str(caught.value)
    assert all(each.help for each in caught.value.diagnostics)


def test_a_derivative_is_called_in_kernels_alone():
    with pytest.raises(TypeError, match="grad"):
        loom.grad(wave)
