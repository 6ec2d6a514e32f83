"""Vectors, matrices, quaternions and transformations in kernels of a Python program."""

from typing import Any

import numpy as np
import polyloom as loom
import pytest

GRAVITY = loom.vec3(0.0, -10.0, 0.0)


@loom.kernel
def step(x: loom.array(dtype=loom.vec3), v: loom.array(dtype=loom.vec3), force: loom.vec3, dt: float):
    i = loom.tid()
    v[i] = v[i] + (force + GRAVITY) * dt
    x[i] = x[i] + v[i] * dt


@loom.kernel
def apply(m: loom.mat22, k: float, x: loom.array(dtype=loom.vec2), y: loom.array(dtype=float)):
    i = loom.tid()
    x[i] = m * x[i]
    y[i] = k * x[i].x


X = np.float32([[0, 0, 0], [1, 2, 3]])


@pytest.mark.parametrize("force", [loom.vec3(10, 10, 0), (10, 10, 0), [10.0, 10, 0], np.array([10, 10, 0])])
def test_numpy_arrays_and_arguments_of_vectors(force):
    x, v = X.copy(), np.zeros((2, 3), np.float32)
    loom.launch(step, 2, [x, v, force, 0.5])
    assert np.array_equal(v, np.float32([[5, 0, 0], [5, 0, 0]]))
    assert np.array_equal(x, X + np.float32([2.5, 0, 0]))


def test_arrays_of_vectors():
    x, v = loom.array(X, dtype=loom.vec3), loom.zeros(2, dtype=loom.vec3)
    loom.launch(step, 2, [x, v, (10, 10, 0), 0.5])
    assert x[1] == loom.vec3(3.5, 2, 3)
    assert v[0] == (5, 0, 0)


def test_views_of_arrays_of_vectors_are_passed_without_a_copy():
    x, v = loom.array(np.repeat(X, 2, axis=0), dtype=loom.vec3), np.zeros((3, 2), np.float32)
    loom.launch(step, 2, [x[::2], v.T, (10, 10, 0), 0.5])
    assert np.array_equal(x.numpy(), np.float32([[2.5, 0, 0], [0, 0, 0], [3.5, 2, 3], [1, 2, 3]]))
    assert v.tolist() == [[5, 5], [0, 0], [0, 0]]


def test_parameters_after_a_matrix_are_the_right_ones():
    x, y = np.float32([[1, 2], [3, 4]]), np.zeros(2, np.float32)
    loom.launch(apply, 2, [loom.mat22(1, 1, 0, 2), 10.0], [x, y])
    assert x.tolist() == [[3, 4], [7, 8]]
    assert y.tolist() == [30, 70]
    with pytest.raises(ValueError, match="argument 'x' of kernel 'apply' is written by the kernel but read-only"):
        x.flags.writeable = False
        loom.launch(apply, 2, [loom.mat22(), 1.0, x, y])
    with pytest.raises(ValueError, match="argument 'y' of kernel 'apply' overlaps argument 'x'"):
        z = np.zeros((2, 2), np.float32)
        loom.launch(apply, 2, [loom.mat22(), 1.0, z, z[0]])


def test_recorded_launches_take_vectors():
    x, v = X.copy(), np.zeros((2, 3), np.float32)
    recorded = loom.launch(step, 2, [x, v, (0, 10, 0), 1.0], record_cmd=True)
    recorded.set_param_at_index(2, loom.vec3(1, 10, 0))
    recorded.set_param_by_name("dt", 2.0)
    recorded.launch()
    assert v.tolist() == [[2, 0, 0], [2, 0, 0]]
    with pytest.raises(
        ValueError, match="argument 'force' of kernel 'step' is no vec3: vec3 has 3 components, 2 given"
    ):
        recorded.set_param_at_index(2, (1, 2))
    with pytest.raises(IndexError, match="4 arguments, there is no 4"):
        recorded.set_param_at_index(4, 1.0)
    with pytest.raises(TypeError, match=r"argument 'x' of kernel 'step' must have the shape \(n, 3\)"):
        recorded.set_param_at_index(0, np.zeros(3, np.float32))


@pytest.mark.parametrize(
    ("force", "error", "message"),
    [
        (1.0, TypeError, "must be vec3 or its components, not float"),
        ("abc", TypeError, "must be vec3 or its components, not str"),
        (loom.vec2(1, 2), ValueError, "is no vec3: vec3 has 3 components, 2 given"),
        (loom.quat(), TypeError, "must be vec3, not quat"),
        ((1, 2, "3"), TypeError, "is no vec3: Expected to assign a `float32` value but got `str` instead"),
        (np.zeros((3, 1)), ValueError, r"is no vec3: vec3 has 3 components, not an array of shape \(3, 1\)"),
    ],
)
def test_wrong_vector_arguments_are_named(force, error, message):
    with pytest.raises(error, match=f"argument 'force' of kernel 'step' {message}"):
        loom.launch(step, 2, [X.copy(), X.copy(), force, 0.5])


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (
            np.zeros((2, 4), np.float32),
            TypeError,
            r"'x' .* must have the shape \(n, 3\) for elements of type vec3, not \(2, 4\)",
        ),
        (
            np.zeros(3, np.float32),
            TypeError,
            r"'x' .* must have the shape \(n, 3\) for elements of type vec3, not \(3,\)",
        ),
        (
            np.zeros((2, 3)),
            TypeError,
            r"'x' .* components of type float32, those of a vec3, not float64: .* \.astype\(np\.float32\)",
        ),
        (
            loom.zeros(2, dtype=loom.vec3i),
            TypeError,
            "'x' .* elements of type vec3, not vec3i: make it with dtype=loom.vec3",
        ),
        (loom.zeros((2, 3), dtype=loom.vec3), TypeError, r"'x' .* the shape \(n, 3\) for .*, not \(2, 3, 3\)"),
    ],
)
def test_wrong_arrays_of_vectors_are_named(x, error, message):
    with pytest.raises(error, match=message):
        loom.launch(step, 2, [x, X.copy(), (1, 2, 3), 0.5])


def test_arrays_of_vectors_are_no_arrays_of_their_components():
    with pytest.raises(TypeError, match="'y' .* must have elements of type float32, not vec2"):
        loom.launch(apply, 1, [loom.mat22(), 1.0, np.zeros((1, 2), np.float32), loom.zeros(1, dtype=loom.vec2)])


def test_closures_defaults_and_generic_functions():
    def make(scale):
        offset = loom.vec3(scale)
        turn = loom.mat33(0, 1, 0, -1, 0, 0, 0, 0, scale)

        class Settings:
            shift = loom.vec3(1, 0, 0)

        @loom.func
        def moved(a: Any, b: loom.vec3 = loom.vec3(1.0, 2.0, 3.0)):  # noqa: B008 - read by the compiler
            return a + b

        @loom.kernel
        def move(x: loom.array(dtype=loom.vec3)):
            i = loom.tid()
            x[i] = turn * moved(x[i]) + offset + Settings.shift * offset.y

        offset[1] = 100  # after it was captured
        return move

    for scale in (1.0, 2.0):
        x = loom.ones(2, dtype=loom.vec3)
        loom.launch(make(scale), 2, [x])
        assert x[1] == (3 + 2 * scale, -2 + scale, 5 * scale)


def test_annotations_may_name_types_of_the_function_around_them():
    def build(length, decorate):
        vector = loom.types.vector(length, loom.float64)
        Rows = loom.array(dtype=vector)  # noqa: N806 - a type

        def double(x: loom.array(dtype=vector), y: Rows):
            i = loom.tid()
            y[i] = x[i] + x[i]

        return decorate(double)

    for length in (2, 5):
        for decorate in (loom.kernel, lambda function: loom.kernel(check=True)(function)):
            x, y = np.ones((3, length)), np.zeros((3, length))
            loom.launch(build(length, decorate), 3, [x, y])
            assert (y == 2).all()


def test_signature():
    assert step.signature == "step(x: array(dtype=vec3), v: array(dtype=vec3), force: vec3, dt: float32)"
    assert apply.signature == "apply(m: mat22, k: float32, x: array(dtype=vec2), y: array(dtype=float32))"


def test_vectors_and_matrices_are_printed_as_lists(define, capfd):
    k = define("""
        @loom.kernel
        def k(p: loom.array(dtype=loom.vec3), m: loom.mat22):
            print("x =", 0.5, p[0], m, sep=" ")
    """)["k"]
    loom.launch(k, 1, [np.array([[1, 2, 3]], np.float32), loom.mat22(1, 2, 3, 4)])
    assert capfd.readouterr().out == "x = 0.5 [1.0, 2.0, 3.0] [[1.0, 2.0], [3.0, 4.0]]\n"
