"""Checked mode: failures raise, name their place, and touch nothing else."""

import os
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import polyloom as loom
import pytest


@loom.kernel(check=True)
def shift(x: loom.array(dtype=float), y: loom.array(dtype=float), by: int):
    i = loom.tid()
    y[i] = x[i + by]


@loom.kernel(check=True)
def store_far(y: loom.array(dtype=float, ndim=2), j: int):
    i = loom.tid()
    y[i, j] = 1.0


@loom.kernel(check=True)
def divide(a: loom.array(dtype=int), b: loom.array(dtype=int)):
    i = loom.tid()
    a[i] = a[i] // b[i]


@loom.kernel(check=True)
def insist(x: loom.array(dtype=float)):
    i = loom.tid()
    assert x[i] >= 0.0, "must not be negative"
    x[i] = loom.sqrt(x[i])


def shift_line():
    """Where `shift` reads `x`, found in this file's text."""
    with open(__file__) as file:
        return next(n for n, line in enumerate(file, 1) if "x[i + by]" in line)


def test_index_past_the_end():
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    with pytest.raises(loom.LaunchError) as caught:
        loom.launch(shift, 100, [x, y, 1])
    error = caught.value
    assert (error.kernel, error.index, error.extent, error.thread) == ("shift", 100, 100, (99,))
    assert error.file == __file__
    assert error.line == shift_line()
    for word in ("shift", "`x`", "100", os.path.basename(__file__)):
        assert word in str(error)


@loom.kernel(check=True)
def fetch(x: loom.array(dtype=float), at: loom.uint64):
    x[at] = 1.0


@pytest.mark.parametrize("tier", ["auto", "interp"])
def test_an_unsigned_index_is_never_shown_as_negative(tier, on_tier):
    code = """
    import numpy as np, polyloom as loom, test_checked
    try:
        loom.launch(test_checked.fetch, 1, [np.ones(4, np.float32), 2**64 - 2])
    except loom.LaunchError as error:
        assert error.index == 2**64 - 2 and str(2**64 - 2) in str(error), error
        print("raised")
    """
    assert on_tier(tier, code) == "raised\n"


def test_negative_indices_count_from_the_end_and_no_further():
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    loom.launch(shift, 4, [x, y, -4])
    np.testing.assert_array_equal(y, x)
    with pytest.raises(loom.LaunchError) as caught:
        loom.launch(shift, 4, [x, y, -5])
    assert caught.value.index == -5


@pytest.mark.parametrize("column", [3, -4])
def test_stores_outside_touch_nothing(column):
    around = np.zeros((6, 9), np.float32)
    with pytest.raises(loom.LaunchError, match="axis 1"):
        loom.launch(store_far, 4, [around[1:5, 3:6], column])
    assert not around.any()


def test_division_by_zero():
    a, b = np.array([6, 6], np.int32), np.array([3, 0], np.int32)
    with pytest.raises(loom.LaunchError, match="division by zero") as caught:
        loom.launch(divide, 2, [a, b])
    assert caught.value.thread == (1,)
    assert caught.value.index is None


def test_assert():
    x = np.array([4.0, -1.0], np.float32)
    with pytest.raises(loom.LaunchError, match="must not be negative"):
        loom.launch(insist, 2, [x])


def test_unchecked_division_by_zero_has_one_result(define):
    kernels = define("""
        @loom.kernel
        def divide(a: loom.array(dtype=int), b: loom.array(dtype=int)):
            i = loom.tid()
            b[0] = a[i] // b[i]
            b[1] = a[i] % b[2]
            b[2] = a[i] << 40
    """)
    b = np.zeros(3, np.int32)
    loom.launch(kernels["divide"], 1, [np.array([-7], np.int32), b])
    assert b.tolist() == [0, -7, 0]


def test_environment_variable_checks_every_kernel(tmp_path):
    script = tmp_path / "k.py"
    script.write_text(
        textwrap.dedent("""
        import numpy as np, polyloom as loom

        @loom.kernel
        def k(x: loom.array(dtype=float)):
            x[loom.tid() + 1] = 1.0

        loom.launch(k, 4, [np.zeros(4, np.float32)])
        """)
    )
    out = subprocess.run(
        [sys.executable, str(script)], env={**os.environ, "POLYLOOM_CHECK": "1"}, capture_output=True, text=True
    )
    assert "LaunchError" in out.stderr and "index 4" in out.stderr


def test_the_text_of_an_assertion_is_quoted(define):
    k = define("""
        @loom.kernel(check=True)
        def k(x: loom.array(dtype=float)):
            assert x[0] > 0.0, "must be positive"
    """)["k"]
    with pytest.raises(loom.LaunchError, match='assertion failed: "must be positive" in kernel `k`'):
        loom.launch(k, 1, [np.zeros(1, np.float32)])


@loom.kernel(check=True)
def component(v: loom.vec3, i: loom.int64, out: loom.array(dtype=float)):
    out[0] = v[i]


@loom.kernel(check=True)
def entry(m: loom.mat22, i: int, j: int, out: loom.array(dtype=float)):
    m[i, j] = 7.0
    out[0] = m[1, 1]


@loom.kernel(check=True)
def last_row(m: loom.mat22, i: int, out: loom.array(dtype=float)):
    row = m[i]
    out[0] = row[1]


@loom.kernel(check=True)
def own(i: int, j: loom.uint8, out: loom.array(dtype=float)):
    a = loom.zeros(shape=(2, 3), dtype=float)
    a[i, j] = 4.0
    out[0] = a[-1, -1]


V, M = loom.vec3(1.0, 2.0, 3.0), loom.mat22(1.0, 2.0, 3.0, 4.0)


@pytest.mark.parametrize(
    "kernel, inputs, name, index, axis, extent",
    [
        (component, (V, 3), "v", 3, 0, 3),
        (component, (V, -4), "v", -4, 0, 3),
        (component, (V, 1 << 32), "v", 1 << 32, 0, 3),
        (entry, (M, 2, 0), "m", 2, 0, 2),
        (entry, (M, 0, 2), "m", 2, 1, 2),
        (entry, (M, 1, -3), "m", -3, 1, 2),
        (last_row, (M, 2), "m", 2, 0, 2),
        (own, (2, 0), "a", 2, 0, 2),
        (own, (1, 255), "a", 255, 1, 3),
    ],
)
def test_indices_of_components(kernel, inputs, name, index, axis, extent):
    out = np.zeros(1, np.float32)
    with pytest.raises(loom.LaunchError, match=f"axis {axis} of `{name}` with extent {extent}") as caught:
        loom.launch(kernel, 1, [*inputs, out])
    assert (caught.value.index, caught.value.extent, out[0]) == (index, extent, 0.0)


def test_components_that_there_are():
    out = np.zeros(1, np.float32)
    for kernel, inputs, expected in [
        (component, (V, -3), 1.0),
        (component, (V, 2), 3.0),
        (entry, (M, -1, -1), 7.0),
        (entry, (M, 0, 1), 4.0),
        (last_row, (M, -1), 4.0),
        (own, (-1, 2), 4.0),
        (own, (-2, 2), 0.0),
    ]:
        loom.launch(kernel, 1, [*inputs, out])
        assert out[0] == expected, (kernel, inputs)


@loom.kernel
def unchecked_entry(m: loom.mat22, i: int, j: int, out: loom.array(dtype=float)):
    out[0] = m[i, j]
    m[i, j] = 9.0
    out[1] = m[0, 0] + m[0, 1] + m[1, 0] + m[1, 1]


@pytest.mark.parametrize("i, j", [(0, 2), (2, 0), (1, -3), (-3, 1), (1 << 30, 0), (0, -(1 << 31))])
def test_a_component_that_there_is_not_is_zero_and_not_written_without_checks(i, j):
    out = np.full(2, -1.0, np.float32)
    loom.launch(unchecked_entry, 1, [M, i, j, out])
    assert out.tolist() == [0.0, 10.0]


@pytest.mark.parametrize("setting", [("check", True, False), ("mode", "debug", "release")])
@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_checks_turned_on_after_a_kernel_was_defined_hold_at_its_next_launch(setting, device):
    @loom.kernel
    def late(x: loom.array(dtype=float), y: loom.array(dtype=float)):
        i = loom.tid()
        assert x[i] > 0.0
        y[i] = x[i]

    @loom.kernel(check=False)
    def never(x: loom.array(dtype=float), y: loom.array(dtype=float)):
        i = loom.tid()
        assert x[i] > 0.0
        y[i] = x[i]

    @loom.kernel
    def generic(x: loom.array(dtype=Any), y: loom.array(dtype=Any)):
        i = loom.tid()
        assert x[i] > x.dtype(0)
        y[i] = x[i]

    x, y = np.array([1.0, -1.0], np.float32), np.zeros(2, np.float32)
    name, on, off = setting
    for kernel in (late, generic, never):
        loom.launch(kernel, 2, [x, y], device=device)
    command = loom.launch(late, 2, [x, y], device=device, record_cmd=True)
    setattr(loom.config, name, on)
    try:
        for kernel in (late, generic):
            with pytest.raises(loom.LaunchError, match="assert"):
                loom.launch(kernel, 2, [x, y], device=device)
        with pytest.raises(loom.LaunchError, match="assert"):
            command.launch()
        loom.launch(never, 2, [x, y], device=device)
    finally:
        setattr(loom.config, name, off)
    for kernel in (late, generic, never):
        loom.launch(kernel, 2, [x, y], device=device)
    command.launch()
