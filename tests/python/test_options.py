"""Decorator arguments where there is no decorator text: `loom.kernel(**options)(f)`."""

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


@pytest.mark.parametrize("decorator", [loom.kernel, loom.func])
def test_wrong_options_are_refused(decorator):
    def half(x: float):
        return 0.5 * x

    function = body if decorator is loom.kernel else half
    with pytest.raises(loom.CompileError, match="did you mean `check`"):
        decorator(chek=True)(function)
    with pytest.raises(loom.CompileError, match="`max_registers` takes an integer"):
        decorator(max_registers=object())(function)
    with pytest.raises(TypeError, match="no argument 'a b'"):
        decorator(**{"a b": 1})(function)


def test_a_decorator_with_options_can_have_a_name():
    careful = loom.kernel(check=True, max_registers=32)

    @careful
    def plain(x: loom.array(dtype=float)):
        x[0] = 1.0

    assert len(plain.metadata) == 2
