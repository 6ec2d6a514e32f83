"""Constructs of programs written for Warp: operators of structs, comparisons of bools, bitwise atomics of vectors."""

import warnings

import numpy as np
import polyloom as wp
import pytest
from sources import define


@wp.struct
class Complex:
    re: float
    im: float


@wp.func
def add(a: Complex, b: Complex) -> Complex:
    return Complex(a.re + b.re, a.im + b.im)


@wp.func
def mul(a: Complex, b: Complex) -> Complex:
    return Complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


@wp.func
def mul(s: float, b: Complex) -> Complex:  # noqa: F811
    return Complex(s * b.re, s * b.im)


@wp.kernel
def operators(x: wp.array(dtype=Complex), o: wp.array(dtype=Complex)):
    i = wp.tid()
    a = x[i]
    c = a + a * a
    c += 2.0 * a
    o[i] = c
    o[i] += a


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_operators_of_structs_are_the_programs_functions(device):
    values = [1.0 + 2.0j, -0.5 + 0.25j]
    x = wp.zeros(2, dtype=Complex, device=device)
    given = []
    for value in values:
        element = Complex()
        element.re, element.im = value.real, value.imag
        given.append(element)
    x = wp.array(given, dtype=Complex, device=device)
    o = wp.zeros(2, dtype=Complex, device=device)
    wp.launch(operators, 2, [x, o], device=device)
    for found, value in zip(o.numpy(), values, strict=True):
        expected = value + value * value + 2.0 * value + value
        assert (found["re"], found["im"]) == (expected.real, expected.imag)


def test_an_operator_that_nobody_defined_says_how_to_define_it():
    text = "@wp.kernel\ndef k(o: wp.array(dtype=Complex)):\n    a = Complex(1.0, 2.0)\n    o[0] = a - a\n"
    with pytest.raises(wp.CompileError, match="`-` is not defined for Complex") as error:
        define(text, wp=wp, Complex=Complex)
    assert "def sub(a: Complex, b: Complex)" in str(error.value)


@wp.kernel
def compared(a: wp.array(dtype=bool), b: wp.array(dtype=bool), o: wp.array(dtype=int)):
    i = wp.tid()
    o[i] = int(a[i] < b[i]) + 2 * int(a[i] <= b[i]) + 4 * int(a[i] > b[i]) + 8 * int(a[i] >= b[i])


def test_false_comes_before_true():
    a, b = [np.array(each) for each in ([False, False, True, True], [False, True, False, True])]
    o = np.zeros(4, np.int32)
    wp.launch(compared, 4, [a, b, o])
    assert o.tolist() == [
        int(x < y) + 2 * int(x <= y) + 4 * int(x > y) + 8 * int(x >= y) for x, y in zip(a, b, strict=True)
    ]


@wp.kernel
def bits(o: wp.array(dtype=wp.vec3i), m: wp.array(dtype=wp.types.matrix((2, 2), wp.uint8))):
    wp.atomic_and(o, 0, wp.vec3i(13, 2, 3))
    wp.atomic_or(o, 0, wp.vec3i(8, 8, 8))
    wp.atomic_xor(o, 0, wp.vec3i(1, 1, 1))
    o[0] &= wp.vec3i(15, 15, 15)
    o[0] |= wp.vec3i(16, 16, 16)
    o[0] ^= wp.vec3i(1, 2, 4)


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_bitwise_atomics_take_vectors(device):
    o = np.array([[7, 6, 5]], np.int32)
    wp.launch(bits, 1, [o, np.zeros((1, 2, 2), np.uint8)], device=device)
    first = (((np.array([7, 6, 5]) & [13, 2, 3]) | 8) ^ 1) & 15
    assert o[0].tolist() == ((first | 16) ^ [1, 2, 4]).tolist()


def test_a_random_state_in_an_element_is_a_copy_and_a_warning_says_so():
    text = """
        @wp.kernel
        def k(s: wp.array(dtype=wp.uint32), o: wp.array(dtype=float)):
            i = wp.tid()
            s[i] = wp.rand_init(3, i)
            o[i] = wp.randf(s[i])
            state = s[i]
            o[i] -= wp.randf(state)
    """
    with pytest.warns(SyntaxWarning, match="updates a copy of this element"):
        kernel = define(text, wp=wp)["k"]
    o = np.ones(2, np.float32)
    wp.launch(kernel, 2, [np.zeros(2, np.uint32), o])
    assert o.tolist() == [0.0, 0.0]


def test_what_is_no_element_gives_no_warning():
    text = "@wp.kernel\ndef k(o: wp.array(dtype=float)):\n    s = wp.rand_init(3, 1)\n    o[0] = wp.randf(s)\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        define(text, wp=wp)


@wp.kernel
def eigenvalues(a: wp.array(dtype=wp.mat33), e: wp.array(dtype=float)):
    i = wp.tid()
    q, d = wp.eig3(a[i])
    e[i] = wp.dot(d, d)


def test_the_gradient_of_eigenvalues_is_symmetric():
    matrix = np.array([[2.0, -0.5, 0.25], [-0.5, 1.0, 0.75], [0.25, 0.75, -1.0]], np.float32)
    a = wp.array([matrix], dtype=wp.mat33, requires_grad=True)
    e = wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(eigenvalues, 1, [a, e])
    tape.backward(grads={e: wp.ones(1)})
    # The sum of squares of the eigenvalues is that of the elements.
    np.testing.assert_allclose(a.grad.numpy()[0], 2 * matrix, rtol=1e-5, atol=1e-6)


def test_eigenvalues_are_those_of_the_symmetric_part():
    matrix = np.array([[2.0, 1.0, 0.0], [3.0, 1.0, 0.5], [1.0, 0.0, -1.0]], np.float32)
    a = wp.array([matrix, (matrix + matrix.T) / 2], dtype=wp.mat33)
    e = wp.zeros(2)
    wp.launch(eigenvalues, 2, [a, e])
    assert e.numpy()[0] == e.numpy()[1]
