"""`grad(f)` of builtins, under a name, and as an argument of functions."""

from __future__ import annotations

import numpy as np
import polyloom as loom
import pytest


@loom.func
def cube(x: float):
    return x * x * x


@loom.func
def apply(f: loom.Function, x: float):
    return f(x)


@loom.kernel
def derivatives(x: loom.array(dtype=float), o: loom.array(dtype=float)):
    g = loom.grad(cube)
    o[0] = g(x[0])
    o[1] = loom.grad(loom.sin)(x[0])
    h = loom.grad(loom.atan2)
    o[2], o[3] = h(1.0, x[0])
    o[4] = loom.grad(loom.sqrt)(4.0)
    o[5] = loom.grad(loom.length)(loom.vec3(0.0, 3.0, 4.0))[2]
    o[6] = apply(g, 2.0)
    o[7] = apply(loom.grad(loom.cos), x[0])


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_derivatives_of_builtins_and_under_a_name(device):
    x = loom.array([2.0], dtype=float, device=device)
    o = loom.zeros(8, dtype=float, device=device)
    loom.launch(derivatives, 1, [x, o], device=device)
    wanted = [12.0, np.cos(2.0), 2.0 / 5.0, -1.0 / 5.0, 0.25, 0.8, 12.0, -np.sin(2.0)]
    np.testing.assert_allclose(o.numpy(), wanted, rtol=1e-6)


def test_what_has_no_derivative_is_refused():
    with pytest.raises(loom.CompileError, match="`grad` takes one function"):

        @loom.kernel
        def of_a_number(o: loom.array(dtype=float)):
            o[0] = loom.grad(3.0)(o[0])

    with pytest.raises(loom.CompileError, match=r"`loom.bit_count` gives|`grad` is of functions that give one"):

        @loom.kernel
        def of_an_integer(o: loom.array(dtype=int)):
            o[0] = loom.grad(loom.bit_count)(o[0])


def test_types_may_be_said_again():
    mat32d = loom.types.matrix(shape=(3, 2), dtype=loom.float64)

    @loom.kernel
    def again(o: loom.array(dtype=loom.float64)):
        m = mat32d(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
        o[0] = mat32d(m, shape=(3, 2))[2, 1]
        o[1] = mat32d(m, shape=(3, 2), dtype=loom.float64)[0, 1]

    out = np.zeros(2)
    loom.launch(again, 1, [out])
    assert out.tolist() == [6.0, 2.0]
    with pytest.raises(
        loom.CompileError, match=r"is the type matrix\(shape=\(3, 2\), dtype=float64\), and nothing else"
    ):

        @loom.kernel
        def other(o: loom.array(dtype=loom.float64)):
            o[0] = mat32d(1.0, shape=(2, 3))[0, 0]
