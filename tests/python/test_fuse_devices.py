"""Fused functions and ops over arrays on the simulator: the bits of the CPU, under all of its checks."""

import numpy as np
import polyloom as loom
import pytest
from fused_functions import loaded
from polyloom import ops
from tensor_arrays import assert_same_bits, numbers

CASES = {
    "chain": ("ops.multiply(ops.relu(ops.add(a, b)), 2.5)", [(130,), (130,)]),
    "functions": ("ops.tanh(ops.exp(ops.divide(ops.sin(a), ops.sqrt(ops.absolute(b)))))", [(70,), (70,)]),
    "broadcasting": ("ops.add(ops.multiply(a, b), ops.reshape(a, (5, 9, 1)))", [(5, 9, 1), (9, 7)]),
    "sum of rows": ("ops.sum(ops.multiply(a, b), axis=1)", [(6, 150), (150,)]),
    "sum of columns": ("ops.sum(ops.multiply(a, b), axis=0)", [(150, 6), (6,)]),
    "short rows": ("ops.max(ops.add(a, b), axis=1)", [(40, 5), (5,)]),
    "long rows": ("ops.sum(ops.relu(a), axis=1)", [(2, 17_000)]),
    "softmax": ("ops.softmax(ops.add(a, b), axis=1)", [(5, 70), (70,)]),
    "layer norm": ("ops.relu(ops.layer_norm(a, b, b))", [(5, 130), (130,)]),
    "argmax": ("ops.argmax(ops.add(a, b), axis=1)", [(5, 130), (130,)]),
    "cumsum": ("ops.cumsum(ops.multiply(a, b), axis=1)", [(7, 33), (33,)]),
    "views": ("ops.transpose(ops.add(ops.flip(a), ops.reshape(b, (4, 6))))", [(4, 6), (24,)]),
    "concat": ("ops.concat([ops.tanh(a), ops.negative(b)], axis=0)", [(3, 5), (2, 5)]),
    "matmul": ("ops.relu(ops.matmul(a, b))", [(5, 9), (9, 6)]),
    "tiles of a product": ("ops.relu(ops.matmul(ops.exp(a), b))", [(2, 30, 40), (40, 70)]),
    "convolution": ("ops.relu(ops.conv2d(a, b, stride=(1, 2), padding=1))", [(1, 4, 9, 36), (5, 4, 3, 3)]),
    "attention": ("ops.relu(ops.attention(a, b, ops.multiply(b, 0.5), causal=True))", [(2, 9, 8), (2, 70, 8)]),
    "pooling": ("ops.add(ops.max_pool2d(a, 2), b)", [(2, 6, 8), (4,)]),
    "gather": ("ops.multiply(ops.take(a, ops.cast(b, 'int32'), axis=0), 2.0)", [(9, 40), (7,)]),
    "scatter": ("ops.scatter_add(a, ops.cast(a, 'int32'), b, axis=0)", [(9, 40), (9, 40)]),
    "sort": ("ops.multiply(ops.sort(ops.add(a, b), axis=1), 2.0)", [(3, 150), (150,)]),
    "sort of columns": ("ops.add(ops.argsort(a, axis=0, descending=True), 1)", [(40, 3)]),
    "sort across chunks": ("ops.sort(ops.negative(a))", [(4500,)]),
}


@pytest.fixture(autouse=True)
def all_checks():
    loom.sim.configure(sanitize="all")
    yield
    loom.sim.configure(arch="sm_80", sanitize="default", counters=False)


def function_of(name):
    expression, shapes = CASES[name]
    parameters = ", ".join("ab"[: len(shapes)])
    function = loom.fuse(loaded(f"def f({parameters}):\n    return {expression}\n")["f"])
    return function, [numbers(shape, np.float32, seed) for seed, shape in enumerate(shapes)]


@pytest.mark.parametrize("name", CASES)
def test_groups_on_the_simulator_have_the_bits_of_the_cpu(name):
    function, values = function_of(name)
    given = function(*(loom.array(value, device="sim:0") for value in values))
    assert isinstance(given, loom.array) and given.device == "sim:0"
    assert_same_bits(given.numpy(), function(*values))
    assert sum(group.n_runs for group in function.groups) == 2 * len(function.groups) > 0


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32, np.uint8])
def test_element_types(dtype):
    a, b = numbers((3, 40), dtype, 1), numbers((40,), dtype, 2)
    f = loom.fuse(loaded("def f(a, b):\n    return ops.sum(ops.multiply(ops.add(a, b), b), axis=1)\n")["f"])
    given = f(loom.array(a, device="sim:0"), loom.array(b, device="sim:0"))
    assert_same_bits(given.numpy(), f(a, b))


def test_ops_run_one_by_one_there_too():
    a = numbers((4, 50), np.float32)
    there = loom.array(a, device="sim:0")
    given = ops.softmax(there, axis=1)
    assert given.device == "sim:0"
    assert_same_bits(given.numpy(), ops.softmax(a, axis=1))
    # A result without axes is a NumPy array, as on the CPU, and goes back with the arrays of the device.
    total = ops.sum(there)
    assert isinstance(total, np.ndarray) and total.shape == ()
    assert_same_bits(ops.divide(there, total).numpy(), ops.divide(a, ops.sum(a)))
    assert_same_bits(ops.multiply(there, np.float32(3)).numpy(), 3 * a)


def test_views_share_the_memory_of_the_device():
    there = loom.array(numbers((4, 6), np.float32), device="sim:0")
    view = ops.transpose(there)
    assert view.device == "sim:0" and view.shape == (6, 4)
    view[1, 2] = 77.0
    assert there[2, 1] == 77.0
    copy = ops.cast(there, np.float32)
    copy[0, 0] = -5.0
    assert there[0, 0] != -5.0
    assert ops.reshape(there[:1, :1], ()).shape == ()
    part = there[1:, ::2]
    assert_same_bits(ops.exp(part).numpy(), ops.exp(part.numpy()))


def test_several_results_and_no_elements():
    f = loom.fuse(loaded("def f(a):\n    b = ops.exp(a)\n    return b, ops.sum(b, axis=0), ops.transpose(b)\n")["f"])
    a = numbers((5, 4), np.float32)
    for given, wanted in zip(f(loom.array(a, device="sim:0")), f(a), strict=True):
        assert given.device == "sim:0"
        assert_same_bits(given.numpy(), wanted)
    empty = loom.zeros((0, 4), dtype=float, device="sim:0")
    assert ops.exp(empty).shape == (0, 4)
    assert_same_bits(ops.sum(empty, axis=0).numpy(), np.zeros(4, np.float32))


def test_arrays_on_several_devices_are_refused_by_name():
    a = loom.array(numbers((5,), np.float32))
    there = loom.array(numbers((5,), np.float32), device="sim:0")
    message = r"`add`: `b` is on device 'sim:0', and `a` of `add` on 'cpu': bring both to one, by \.to\('cpu'\)"
    with pytest.raises(ValueError, match=message):
        ops.add(a, there)
    with pytest.raises(ValueError, match="`multiply`: `b` is on device 'cpu', and `a` of `multiply` on 'sim:0'"):
        ops.multiply(there, a.numpy())
    f = loom.fuse(loaded("def f(a, b, c):\n    return ops.multiply(ops.add(a, b), c)\n")["f"])
    with pytest.raises(ValueError, match="`multiply`: `b` is on device 'cpu'"):
        f(there, there, a)
    with pytest.raises(TypeError, match="a result has 5 axes, and arrays on 'sim:0' have 1 to 4"):
        ops.reshape(there, (1, 1, 1, 1, 5))
    with pytest.raises(TypeError, match="is an array of vectors or matrices"):
        ops.add(loom.zeros(3, dtype=loom.vec3, device="sim:0"), 1.0)


def test_kernels_of_the_program_run_there():
    @loom.op(shape="x")
    @loom.kernel
    def halved(x: loom.array(dtype=float), y: loom.array(dtype=float)):
        i = loom.tid()
        y[i] = 0.5 * x[i]

    f = loom.fuse(loaded("def f(a):\n    return ops.relu(halved(ops.negative(a)))\n", halved=halved)["f"])
    a = numbers((50,), np.float32)
    given = f(loom.array(a, device="sim:0"))
    assert given.device == "sim:0"
    assert_same_bits(given.numpy(), f(a))


def test_the_simulator_reports_what_a_group_did():
    loom.sim.configure(counters=True)
    function, values = function_of("softmax")
    function(*(loom.array(value, device="sim:0") for value in values))
    report = loom.sim.last_report()
    assert report["global_stores"] > 0 and report["thread_instructions"] > 1000
    used = loom.memory_report()["used"]
    given = function(*(loom.array(value, device="sim:0") for value in values))
    assert loom.memory_report()["used"] == used and given.device == "sim:0"


def test_a_group_puts_no_array_elsewhere_than_its_ops_do():
    def positions(a):
        return ops.add(ops.exp(a), ops.iota((8,)))

    def pair(a):
        return ops.exp(a), ops.negative(ops.iota((8,)))

    x = np.ones((2, 8), np.float32)
    for device in ("cpu", "sim:0"):
        a = loom.array(x, device=device)
        for function in (positions, pair):
            found = []
            for call in (function, loom.fuse(function)):
                try:
                    found.append([type(each) for each in call(a)])
                except ValueError as error:
                    found.append(str(error))
            assert found[0] == found[1]
