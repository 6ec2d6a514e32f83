"""A launch that would make a thread access an array outside its extents raises before anything runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polyloom as loom
import pytest
from sources import define

DEVICES = ["cpu", "sim:0"]


@loom.kernel
def scale(x: loom.array(dtype=float), y: loom.array(dtype=float), k: float):
    i = loom.tid()
    y[i] = k * x[i]


def floats(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def refused(kernel, dim, args, device="cpu", **options):
    """The exception of a launch that is refused, after which every array is as before."""
    before = [np.array(arg) for arg in args if isinstance(arg, np.ndarray)]
    with pytest.raises(loom.LaunchError) as caught:
        loom.launch(kernel, dim, args, device=device, **options)
    after = [arg for arg in args if isinstance(arg, np.ndarray)]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    return caught.value


@pytest.mark.parametrize("device", DEVICES)
def test_the_message_names_array_axis_extent_and_the_first_thread(device):
    error = refused(scale, 50_000_000, [floats(10), floats(12), 2.0], device)
    first, help_line = str(error).split("\n")
    line = Path(__file__).read_text().splitlines()[error.line - 1]
    assert first.startswith(
        "launch of `scale` with dim=50000000: thread 10 would access `x[10]`, but axis 0 of `x` has 10 elements ("
    )
    assert "if i < x.shape[0]:" in help_line and "unchecked=True" in help_line
    assert (error.kernel, error.index, error.extent, error.thread) == ("scale", 10, 10, (10,))
    assert line == "    y[i] = k * x[i]" and f"{__file__}:{error.line}:{line.index('x[') + 1})" in first


@pytest.mark.parametrize("device", DEVICES)
def test_what_fits_runs(device):
    x, y = floats(10), np.zeros(10, np.float32)
    for dim in (0, 1, 10):
        loom.launch(scale, dim, [x, y, 3.0], device=device)
    assert y.tolist() == (3.0 * x).tolist()


def test_a_wrong_dim_does_not_crash_the_process():
    code = """
import numpy as np, polyloom as loom
from test_launch_extents import scale
x = np.zeros(10, np.float32)
try:
    loom.launch(scale, 50_000_000, [x, x.copy(), 1.0])
except loom.LaunchError:
    print("refused")
"""
    folders = {"PYTHONPATH": os.pathsep.join(map(str, [Path(__file__).parent, Path(__file__).parents[1]]))}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **folders}, check=False)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr


def test_unchecked_launches_go_ahead():
    x, y = floats(16), np.zeros(16, np.float32)
    # Within the memory of the whole, outside the views.
    loom.launch(scale, 12, [x[:10], y[:10], 1.0], unchecked=True)
    assert y.tolist() == [*range(12), 0, 0, 0, 0]


@pytest.mark.parametrize("device", DEVICES)
def test_recorded_launches_look_whenever_they_run(device):
    x, y = floats(10), np.zeros(10, np.float32)
    step = loom.launch(scale, 10, [x, y, 1.0], record_cmd=True, device=device)
    step.launch()
    step.set_dim(11)
    with pytest.raises(loom.LaunchError, match="thread 10 would access `x"):
        step.launch()
    step.set_params([floats(20), np.zeros(20, np.float32), 1.0])
    step.launch()
    step.set_param_by_name("y", np.zeros(5, np.float32))
    with pytest.raises(loom.LaunchError, match=r"thread 5 would access `y\[5\]`, but axis 0 of `y` has 5 elements"):
        step.launch()


def test_a_recorded_launch_may_be_unchecked():
    x, y = floats(16), np.zeros(16, np.float32)
    step = loom.launch(scale, 12, [x[:10], y[:10], 1.0], record_cmd=True, unchecked=True)
    step.launch()
    assert y[:12].tolist() == list(range(12))


@loom.kernel
def by_rows(a: loom.array(dtype=float, ndim=2), n: int):
    i, j = loom.tid()
    if i >= n or j >= a.shape[1]:
        return
    a[i, j] = 1.0


@loom.kernel
def flat(a: loom.array(dtype=float), width: int):
    i, j = loom.tid()
    a[i * width + j] = 1.0


@loom.kernel
def neighbours(x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    n = x.shape[0]
    if 0 < i and i < n - 1:
        y[i] = x[i - 1] + x[i + 1]
    elif i < n:
        y[i] = x[i]


@loom.kernel
def row_sums(a: loom.array(dtype=float, ndim=2), n: int, out: loom.array(dtype=float)):
    i = loom.tid()
    total = 0.0
    for k in range(n):
        total += a[i, k]
    out[i] = total


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("kernel", "dim", "args", "found"),
    [
        (by_rows, (8, 8), [(5, 6), 5], None),
        (by_rows, (8, 8), [(5, 6), 7], ((5, 0), 0, 5)),
        (by_rows, (8, 8), [(5, 6), 0], None),
        (by_rows, 8, [(8, 1), 8], None),
        (flat, (4, 5), [(20,), 5], None),
        (flat, (4, 5), [(20,), 6], ((3, 2), 0, 20)),
        # The fifth element from the end, and so on: all of them are inside.
        (flat, (4, 5), [(20,), -5], None),
        (flat, (4, 5), [(20,), -7], ((3, 0), 0, 20)),
        (neighbours, 64, [(10,), (10,)], None),
        (neighbours, 64, [(10,), (9,)], ((9,), 0, 9)),
        (neighbours, 64, [(10,), (4,)], ((4,), 0, 4)),
        (row_sums, 3, [(3, 7), 7, (3,)], None),
        (row_sums, 3, [(3, 7), 8, (3,)], ((0,), 1, 7)),
        (row_sums, 3, [(3, 7), -1, (3,)], None),
        (row_sums, 3, [(3, 7), -1, (2,)], ((2,), 0, 2)),
    ],
)
def test_guards_rows_and_loops(kernel, dim, args, found, device):
    args = [floats(*arg) if isinstance(arg, tuple) else arg for arg in args]
    if found is None:
        loom.launch(kernel, dim, args, device=device)
        return
    thread, axis, extent = found
    error = refused(kernel, dim, args, device)
    assert (error.thread, error.extent) == (thread, extent)
    assert f"but axis {axis} of" in str(error)


@pytest.mark.parametrize("device", DEVICES)
def test_none_is_an_array_without_elements(device):
    @loom.kernel
    def maybe(x: loom.array(dtype=float), y: loom.array(dtype=float)):
        i = loom.tid()
        if x:
            y[i] = x[i]
        else:
            y[i] = -1.0

    y = floats(3)
    loom.launch(maybe, 3, [None, y], device=device)
    assert y.tolist() == [-1.0] * 3
    assert "axis 0 of `x` has 0 elements" in str(refused(scale, 3, [None, y, 1.0], device))


@loom.struct
class Particle:
    mass: float
    at: loom.vec3


@pytest.mark.parametrize("device", DEVICES)
def test_extents_are_those_of_elements(device):
    @loom.kernel
    def push(p: loom.array(dtype=Particle), v: loom.array(dtype=loom.vec3), shift: loom.vec3):
        i = loom.tid()
        p[i].at = p[i].at + v[i] + shift

    p = loom.zeros(4, dtype=Particle, device=device)
    v = loom.zeros(3, dtype=loom.vec3, device=device)
    loom.launch(push, 3, [p, v, loom.vec3(1.0)], device=device)
    with pytest.raises(loom.LaunchError, match="thread 3 would access `v.3.`, but axis 0 of `v` has 3 elements"):
        loom.launch(push, 4, [p, v, loom.vec3(1.0)], device=device)
    with pytest.raises(loom.LaunchError, match="thread 4 would access `p.at.4.`, but axis 0 of `p.at` has 4 elements"):
        loom.launch(push, 5, [p, loom.zeros(9, dtype=loom.vec3, device=device), loom.vec3(1.0)], device=device)


@pytest.mark.parametrize("device", DEVICES)
def test_atomics_rows_and_functions(device):
    @loom.func
    def add(row: loom.array(dtype=float), k: int, x: float):
        if k < 0:
            return
        loom.atomic_add(row, k, x)

    @loom.kernel
    def accumulate(a: loom.array(dtype=float, ndim=2)):
        i, j = loom.tid()
        add(a[i], j, 1.0)

    assert refused(accumulate, (4, 5), [floats(4, 4)], device).thread == (0, 4)
    assert refused(accumulate, (5, 4), [floats(4, 4)], device).thread == (4, 0)
    a = np.zeros((4, 4), np.float32)
    loom.launch(accumulate, (4, 4), [a], device=device)
    assert (a == 1.0).all()


@loom.kernel
def careful(x: loom.array(dtype=float), flags: loom.array(dtype=int), n: int):
    i = loom.tid()
    if flags[i] == 1:
        x[i] = 1.0
    if i * i < n:
        x[i] += 2.0
    for j in range(20):
        if j >= x.shape[0]:
            break
        x[j] = x[j]
    at = i
    if i >= 4:
        at = 0
    x[at] = x[at]
    x[loom.min(i, 3)] = x[i % 4]
    small = loom.int8(i)
    if small < 0:
        x[small - small] = x[i // 256]


@loom.kernel
def wrapping(x: loom.array(dtype=float)):
    i = loom.tid()
    # Each is `i` in arithmetic modulo 2**32.
    x[(i + 2147483647) - 2147483647] += 1.0
    x[i * 3 * (-1431655765)] += 1.0
    x[(i * 65536) * 65536 + i] += 1.0


@pytest.mark.parametrize("device", DEVICES)
def test_no_launch_is_refused_for_what_its_threads_do_not_do(device):
    x, flags = np.zeros(4, np.float32), np.array([1, 0, 0, 1] + [0] * 196, np.int32)
    loom.launch(careful, 200, [x, flags, 4], device=device)
    undecided = [access.text for access in careful.accesses if access.checked is None]
    assert {access.text for access in careful.accesses} - set(undecided) == {"flags[i]"}
    loom.launch(wrapping, 4, [x], device=device)


def test_a_kernel_says_what_its_launches_verify():
    @loom.kernel
    def gather(x: loom.array(dtype=float), order: loom.array(dtype=int), y: loom.array(dtype=float)):
        i = loom.tid()
        y[i] = x[order[i]]

    found = [(access.array, access.axis, access.text, access.checked) for access in gather.accesses]
    assert found == [
        ("order", 0, "order[i]", "launch"),
        ("x", 0, "x[order[i]]", None),
        ("y", 0, "y[i]", "launch"),
    ]
    lines = [str(access) for access in gather.accesses]
    assert re.fullmatch(r"line \d+: axis 0 of order\[i\]: verified by every launch", lines[0])
    assert "unchecked: the index is not a sum" in lines[1]


def test_checked_and_unchecked_kernels_say_so():
    source = """
        @loom.kernel({})
        def k(x: loom.array(dtype=float)):
            x[loom.tid()] = 1.0
    """
    checked, unchecked = define(source.format("check=True"))["k"], define(source.format("unchecked=True"))["k"]
    assert [access.checked for access in checked.accesses] == ["run"]
    assert [access.checked for access in unchecked.accesses] == [None]
    # A checked kernel finds it as it runs.
    with pytest.raises(loom.LaunchError, match="index 3 is out of bounds for axis 0 of `x` with extent 3"):
        loom.launch(checked, 4, [floats(3)])
    x = floats(8)
    loom.launch(unchecked, 5, [x[:4]])
    assert x.tolist() == [1.0] * 5 + [5.0, 6.0, 7.0]


def test_gradients_and_maps_are_launched_as_before():
    x, y, dx, dy = floats(4), np.zeros(4, np.float32), np.zeros(4, np.float32), np.ones(4, np.float32)
    loom.launch(scale, 4, [x, y, 3.0], adjoint=True, adj_inputs=[dx, dy, None])
    assert dx.tolist() == [3.0] * 4
    a, b = loom.array([1.0, 2.0], dtype=float, requires_grad=True), loom.zeros(2, dtype=float, requires_grad=True)
    with pytest.raises(loom.LaunchError, match="thread 2 would access `x"), loom.Tape():
        loom.launch(scale, 3, [a, b, 2.0])
    tape = loom.Tape()
    with tape:
        loom.launch(scale, 2, [a, b, 2.0])
    tape.backward(grads={b: loom.array([1.0, 1.0], dtype=float)})
    assert a.grad.numpy().tolist() == [2.0, 2.0]
    assert loom.map(lambda v: v + 1.0, loom.array([1.0, 2.0])).numpy().tolist() == [2.0, 3.0]
