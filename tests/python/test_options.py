"""Decorator arguments where there is no decorator text: `loom.kernel(**options)(f)`."""

import warnings

import numpy as np
import polyloom as loom
import pytest


def body(x: loom.array(dtype=float)):
    i = loom.tid()
    x[i + 1] = 1.0


def test_every_option_counts():
    options = {"workgroup_size": (64, 2), "float_mode": "fast", "hints": {"unroll": 4}, "no_syscalls": True}
    called = loom.kernel(**options)(body)

    @loom.kernel(workgroup_size=(64, 2), float_mode="fast", hints={"unroll": 4}, no_syscalls=True)
    def decorated(x: loom.array(dtype=float)):
        x[0] = 1.0

    assert called.metadata == decorated.metadata
    assert len(called.metadata) == 4


def test_check_counts():
    x = np.zeros(1, np.float32)
    with pytest.raises(loom.LaunchError):
        loom.launch(loom.kernel(check=True)(body), 1, [x])


def half(x: float):
    return 0.5 * x


@pytest.mark.parametrize(
    ("decorator", "function", "options", "message"),
    [
        (loom.kernel, body, {"chek": True}, "did you mean `check`"),
        (loom.kernel, body, {"max_registers": object()}, "`max_registers` takes an integer"),
        (loom.func, half, {"inline_allways": True}, "did you mean `inline_always`"),
        (loom.func, half, {"inline_always": object()}, "`inline_always` takes a bool"),
        (loom.func, half, {"float_mode": "strict"}, "`float_mode` is an argument of kernels"),
    ],
)
def test_wrong_options_are_refused(decorator, function, options, message):
    with pytest.raises(loom.CompileError, match=message):
        decorator(**options)(function)


@pytest.mark.parametrize(("decorator", "function"), [(loom.kernel, body), (loom.func, half)])
def test_options_are_names(decorator, function):
    with pytest.raises(TypeError, match="no argument 'a b'"):
        decorator(**{"a b": 1})(function)


def test_values_that_the_decorators_text_does_not_tell():
    def make(limit, **options):
        @loom.kernel(max_registers=limit, **options)
        def kernel(x: loom.array(dtype=float)):
            x[0] = 1.0

        return kernel

    assert len(make(32, check=True).metadata) == 2
    with pytest.raises(loom.CompileError, match="max_registers=limit"):
        make("many")


def test_a_decorator_with_options_can_have_a_name():
    careful = loom.kernel(check=True, max_registers=32)

    @careful
    def plain(x: loom.array(dtype=float)):
        x[0] = 1.0

    assert len(plain.metadata) == 2


@pytest.mark.parametrize("n", [1, 16, 999])
def test_fast_quotients_by_cubes_of_roots_are_near(n):
    @loom.kernel(float_mode="fast")
    def force(a: float, x: loom.array(dtype=float), y: loom.array(dtype=float), z: loom.array(dtype=float)):
        i = loom.tid()
        y[i] = a / (loom.sqrt(x[i]) * x[i])
        d = loom.sqrt(x[i])
        if x[i] < 1.0:
            z[i] = a / (d * d * d)

    x = (10 ** np.random.default_rng(n).uniform(-15, 15, n)).astype(np.float32)
    y, z = np.zeros_like(x), np.zeros_like(x)
    loom.launch(force, n, [3.0, x, y, z])
    want = 3 / x.astype(np.float64) ** 1.5
    np.testing.assert_allclose(y, want, rtol=3e-7)
    np.testing.assert_allclose(z, np.where(x < 1, want, 0), rtol=3e-7)


def test_the_lint_warns_when_a_kernel_is_defined():
    def halve(x: loom.array(dtype=int)):
        i = loom.tid()
        x[i] = x[i] / 2

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loom.kernel(halve)
    loom.config.lint = True
    try:
        with pytest.warns(SyntaxWarning, match="truncated quotient"):
            loom.kernel(halve)
    finally:
        loom.config.lint = False
    with pytest.raises(TypeError, match="lint must be True or False"):
        loom.config.lint = "yes"


def test_blocks_beyond_the_launch_bounds_are_an_error():
    with pytest.raises(loom.CompileError, match="blocks of 64 threads, but `launch_bounds` allows 32"):

        @loom.kernel(block_dim=64, launch_bounds=32)
        def k(x: loom.array(dtype=float)):
            x[loom.tid()] = 1.0

        k.ptx()
