"""`gradcheck`: right gradients pass, wrong ones are named with their place."""

from typing import Any

import numpy as np
import polyloom as loom
import pytest

f64 = loom.float64
D = loom.array(dtype=f64)
F = loom.array(dtype=float)


@loom.kernel
def scaled(a: f64, v: loom.vec3d, p: loom.array(dtype=loom.vec3d), y: D, n: int):
    i = loom.tid()
    y[i] = a * loom.dot(p[i], v) + y[i] * y[i] + f64(n)


@loom.kernel
def wrong_at_kinks(x: D, y: D):
    i = loom.tid()
    y[i] = loom.max(x[i], f64(0.0))


@loom.kernel
def image(x: loom.array(dtype=f64, ndim=2), y: loom.array(dtype=f64, ndim=2)):
    i, j = loom.tid()
    y[i, j] = loom.sin(x[i, j]) * x[j, i]


@loom.kernel
def generic(x: loom.array(dtype=Any), y: loom.array(dtype=Any)):
    i = loom.tid()
    y[i] = loom.exp(x[i]) * x[i]


def test_scalars_composites_and_arrays():
    rng = np.random.default_rng(0)
    p, y = rng.normal(size=(4, 3)), rng.normal(size=4)
    before = p.copy(), y.copy()
    report = loom.gradcheck(scaled, [1.5, loom.vec3d(1.0, 2.0, 3.0), p], [y, 2])
    assert report and report.passed
    assert [(argument.name, argument.n_elements) for argument in report.arguments] == [
        ("a", 1),
        ("v", 3),
        ("p", 12),
        ("y", 4),
    ]
    assert all(argument.max_absolute_error < 1e-7 for argument in report.arguments)
    assert (p == before[0]).all() and (y == before[1]).all()


def test_the_launch_has_the_extents_of_the_first_array():
    x = np.random.default_rng(1).normal(size=(3, 3))
    assert [argument.n_elements for argument in loom.gradcheck(image, [x, x.copy()]).arguments] == [9, 9]
    report = loom.gradcheck(image, [x, x.copy()], dim=(2, 3), samples=4)
    assert [argument.n_elements for argument in report.arguments] == [4, 4]


def test_generic_kernels_and_arrays_of_the_package():
    x = np.linspace(-1.0, 1.0, 5)
    assert loom.gradcheck(generic, [x, np.zeros(5)])
    assert loom.gradcheck(generic, [loom.array(x, dtype=f64), loom.zeros(5, dtype=f64)])
    single = loom.gradcheck(generic, [x.astype(np.float32), np.zeros(5, np.float32)])
    assert single.arguments[0].max_absolute_error < 1e-3
    with pytest.raises(ValueError, match="'x' is of float16, which has too few digits"):
        loom.gradcheck(generic, [x.astype(np.float16), np.zeros(5, np.float16)])


@loom.kernel
def gathered(x: D, places: loom.array(dtype=int), y: D):
    i = loom.tid()
    y[i] = x[places[i]] * x[i]


def test_integers_are_left_alone():
    places = loom.array([2, 0, 1], dtype=int)
    report = loom.gradcheck(gathered, [np.array([1.0, 2.0, 3.0]), places], [loom.zeros(3, dtype=f64)])
    assert [argument.name for argument in report.arguments] == ["x", "y"]


def test_a_gradient_that_does_not_agree_is_named():
    x = np.array([1.0, 0.0, -1.0])
    with pytest.raises(loom.GradcheckError) as caught:
        loom.gradcheck(wrong_at_kinks, [x], [np.zeros(3)])
    found = caught.value.report.arguments[0]
    assert not caught.value.report and found.worst == (1,) and not found.passed
    text = str(caught.value)
    assert text.startswith("the gradient of kernel 'wrong_at_kinks' does not agree with differences\nargument")
    assert "WRONG (a kink: " in text and text.splitlines()[-1].endswith("ok")
    report = loom.gradcheck(wrong_at_kinks, [x], [np.zeros(3)], raise_on_failure=False)
    assert report == caught.value.report
    beside = np.array([1.0, 2e-6, -1.0])
    assert not loom.gradcheck(wrong_at_kinks, [beside], [np.zeros(3)], eps=6e-6, raise_on_failure=False)
    assert loom.gradcheck(wrong_at_kinks, [beside], [np.zeros(3)], eps=1e-7)
    assert loom.gradcheck(wrong_at_kinks, [x], [np.zeros(3)], atol=2.0)


def test_launches_are_not_recorded():
    x, y = np.ones(3), np.zeros(3)
    with loom.Tape() as tape:
        loom.gradcheck(generic, [x, y])
        loom.launch(generic, 3, [x, y])
    tape.backward(grads=[(y, np.ones(3))])
    np.testing.assert_allclose(tape.gradients[x], 2 * np.e * np.ones(3))


def test_what_cannot_be_checked_says_so():
    @loom.kernel
    def without_arrays(a: float):
        print(a)

    with pytest.raises(ValueError, match="say dim="):
        loom.gradcheck(without_arrays, [1.0])


@loom.func
def twice(x: f64):
    return f64(2.0) * x


@loom.func_grad(twice)
def adj_twice(x: f64, adj_ret: f64):
    loom.adjoint[x] += adj_ret


@loom.kernel
def twice_a_number(s: f64, x: D, y: D):
    i = loom.tid()
    y[i] = twice(s) * x[i]


def test_numbers_are_checked_whatever_they_come_as():
    for s in (3.0, 3, np.int64(3), np.float64(3.0), np.array(3.0), f64(3.0)):
        report = loom.gradcheck(twice_a_number, [s, np.ones(2)], [np.zeros(2)], raise_on_failure=False)
        assert [(each.name, each.passed) for each in report.arguments] == [("s", False), ("x", True), ("y", True)]
    with pytest.raises(TypeError, match="argument 'v' is a vector"):
        loom.gradcheck(scaled, [1.0, (1.0, 2.0, 3.0), np.ones((2, 3)), np.zeros(2), 2])


def test_options_that_would_let_anything_pass():
    x = np.ones(2)
    for options in ({"rtol": np.nan}, {"atol": np.inf}, {"rtol": -1.0}, {"eps": 0.0}, {"eps": np.nan}, {"samples": 0}):
        (name,) = options
        with pytest.raises(ValueError, match=f"{name} is a"):
            loom.gradcheck(twice_a_number, [1.0, x], [np.zeros(2)], **options)
    with pytest.raises(TypeError, match=r"gradcheck\(\) needs a kernel"):
        loom.gradcheck(len, [x])
    with pytest.raises(ValueError, match="dim must not be negative, and is -1"):
        loom.gradcheck(roots, [x], [x], dim=-1)
    with pytest.raises(TypeError, match="dim must be an integer or a tuple of integers, not 'x'"):
        loom.gradcheck(roots, [x], [x], dim="x")
    with pytest.raises(ValueError, match="block_dim is one to three positive integers, not x"):
        loom.gradcheck(roots, [x], [np.zeros(2)], block_dim="x")
    with pytest.raises(ValueError, match="samples is a positive"):
        loom.gradcheck(twice_a_number, [1.0, x], [np.zeros(2)], samples=-1)
    with pytest.raises(ValueError, match="eps=1e-30 is too small to move argument 's'"):
        loom.gradcheck(twice_a_number, [1.0, x], [np.zeros(2)], eps=1e-30)


@loom.kernel
def grows_beyond_numbers(x: D, y: D):
    i = loom.tid()
    y[i] = loom.exp(x[i])


@loom.kernel
def roots(x: D, y: D):
    i = loom.tid()
    y[i] = loom.sqrt(x[i])


@loom.kernel
def wrong_roots(x: D, y: D):
    i = loom.tid()
    y[i] = twice(x[i]) + loom.sqrt(x[i])


@loom.kernel
def inverse(x: D, y: D):
    i = loom.tid()
    y[i] = 1.0 / x[i]


@loom.kernel
def nearly_inverse(x: D, y: D):
    i = loom.tid()
    y[i] = 1.0 / x[i] + twice(x[i]) * 1e9


@loom.kernel
def away_from_zero(x: D, y: D):
    i = loom.tid()
    y[i] = loom.abs(x[i])


def test_steps_are_small_beside_what_changes():
    x = np.array([1e-3, -1e-4, 1e-5, 2.0])
    assert loom.gradcheck(inverse, [x], [np.zeros(4)])
    assert loom.gradcheck(roots, [np.array([1e-6, 1e-9])], [np.zeros(2)])
    assert loom.gradcheck(away_from_zero, [np.array([1e-6, -2e-6])], [np.zeros(2)])
    # What is wrong stays so.
    report = loom.gradcheck(nearly_inverse, [x], [np.zeros(4)], raise_on_failure=False)
    assert not report and str(report).splitlines()[2].endswith("WRONG")


def test_arguments_that_overlap_are_refused_as_by_launch():
    a = np.array([0.5, 0.6, 0.7, 0.8])
    for x, y in ((a[:3], a[1:]), (a, a)):
        with pytest.raises(ValueError, match="'y', which has elements in common with argument 'x'"):
            loom.gradcheck(inverse, [x], [y])


def test_where_no_difference_is_finite_nothing_is_wrong():
    for x in (0.0, -1.0):
        with pytest.raises(loom.GradcheckError) as caught:
            loom.gradcheck(roots, [np.array([x])], [np.zeros(1)])
        text = str(caught.value).splitlines()
        assert text[0] == "the gradient of kernel 'roots' is not compared where differences are not finite"
        assert text[2].startswith("x ") and text[2].endswith("not finite here")


def test_what_is_wrong_goes_before_what_is_not_finite():
    report = loom.gradcheck(wrong_roots, [np.array([0.0, 4.0, 0.0])], [np.zeros(3)], raise_on_failure=False)
    assert report.arguments[0].worst == (1,) and not report
    text = str(report).splitlines()
    assert text[0] == "the gradient of kernel 'wrong_roots' does not agree with differences"
    assert text[2].endswith("WRONG")


def test_nothing_to_compare_does_not_agree():
    @loom.kernel
    def copied(x: loom.array(dtype=int), y: loom.array(dtype=int)):
        i = loom.tid()
        y[i] = x[i]

    for kernel, args in ((copied, [np.ones(3, np.int32), np.zeros(3, np.int32)]), (roots, [np.zeros(0), np.zeros(0)])):
        with pytest.raises(ValueError, match=f"kernel '{kernel.key}' has nothing to compare"):
            loom.gradcheck(kernel, args)


def test_a_difference_that_is_no_number_does_not_agree():
    # The greater of the two exponentials is infinite, and the gradient is not.
    x = np.array([709.782712893384])
    report = loom.gradcheck(grows_beyond_numbers, [x], [np.zeros(1)], raise_on_failure=False)
    assert not report
