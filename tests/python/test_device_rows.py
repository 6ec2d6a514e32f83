"""Rows, scans, batches and totals on the simulator, which the threads of a block share: the bits of the CPU."""

import subprocess

import numpy as np
import polyloom as loom
import pytest
from fused_functions import loaded
from nvidia import ptxas
from polyloom import _scalars
from tensor_arrays import SPECIAL, assert_same_bits, numbers

# Several passes over a row compute these. `w` is a vector that all rows share.
ROWS = {
    "softmax": "ops.softmax(a, axis=1)",
    "log_softmax": "ops.log_softmax(a, axis=1)",
    "layer norm": "ops.layer_norm(a, w, w)",
    "rms norm": "ops.rms_norm(a, w)",
    "softmax of a chain": "ops.softmax(ops.multiply(ops.tanh(a), w), axis=1)",
    "scaled by a sum": "ops.divide(ops.exp(a), ops.sum(ops.sin(ops.multiply(a, w)), axis=1, keepdims=True))",
    "place of the largest": "ops.multiply(a, ops.cast(ops.argmax(a, axis=1, keepdims=True), a.dtype))",
    "two sums": "ops.divide(ops.add(a, ops.sum(a, axis=1, keepdims=True)), ops.sum(ops.exp(a), axis=1, keepdims=True))",
}
# Rows of one warp, of several, with and without whole copies of 16 bytes, and of several blocks of 4,096.
SHAPES = [(5, 33), (6, 64), (3, 70), (9, 1024), (2, 1025), (3, 2048), (2, 4096), (2, 5003), (1, 9100)]


@pytest.fixture(autouse=True)
def all_checks():
    loom.sim.configure(sanitize="all")
    yield
    loom.sim.configure(arch="sm_80", sanitize="default", counters=False)


def element_type(name):
    return np.dtype(_scalars.bfloat16.numpy if name == "bfloat16" else name)


def fused(expression, *parameters):
    return loom.fuse(loaded(f"def f({', '.join(parameters)}):\n    return {expression}\n")["f"])


def on_simulator(function, *values):
    return function(*(loom.array(value, device="sim:0") for value in values)).numpy()


def kernel_text(function, **options):
    return "".join(group.ptx(**options) for group in function.groups)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_rows_in_shared_memory_have_the_bits_of_the_cpu(name, shape):
    function = fused(ROWS[name], "a", "w") if " w" in ROWS[name] else fused(ROWS[name], "a")
    values = [numbers(shape, np.float32, 1), numbers(shape[1:], np.float32, 2)][: 2 if " w" in ROWS[name] else 1]
    given = on_simulator(function, *values)
    text = kernel_text(function)
    assert "cp.async" in text and "shfl.sync.bfly" in text
    assert_same_bits(given, function(*values))


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("shape", [(3, 70), (2, 4100)], ids=str)
def test_element_types(dtype, shape):
    expression = (
        ROWS["two sums"] if dtype != "int32" else "ops.subtract(ops.multiply(a, 3), ops.sum(a, axis=1, keepdims=True))"
    )
    function = fused(expression, "a")
    value = numbers(shape, np.float32, 1).astype(element_type(dtype))
    given = on_simulator(function, value)
    assert "cp.async" in kernel_text(function)
    assert_same_bits(given, function(value))


@pytest.mark.parametrize("length", [70, 2100])
def test_numbers_that_are_not_finite(length):
    a = numbers((3 * len(SPECIAL), length), np.float32, 1)
    for row, special in enumerate(3 * SPECIAL):
        a[row, (row * 37) % length] = special
    for name in ("softmax", "log_softmax", "place of the largest"):
        function = fused(ROWS[name], "a")
        assert_same_bits(on_simulator(function, a), function(a))


def test_rows_may_begin_anywhere_in_memory():
    a = numbers((3, 2048), np.float32, 1)
    function = fused(ROWS["softmax"], "a")
    memory = loom.array(np.concatenate([np.zeros(1, np.float32), a.ravel()]), device="sim:0")
    flat = fused("ops.softmax(ops.reshape(a, (3, 2048)), axis=1)", "a")
    assert_same_bits(flat(memory[1:]).numpy(), function(a))
    padded = loom.array(np.pad(a, ((0, 0), (0, 3))), device="sim:0")[:, :2048]
    assert_same_bits(function(padded).numpy(), function(a))


@pytest.mark.parametrize("shape", [(40, 1), (33, 40), (70, 130), (2, 4096), (3, 9000), (2, 3, 100)], ids=str)
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin"])
def test_scans_of_rows(name, shape):
    function = fused(f"ops.{name}(ops.multiply(a, a), axis={len(shape) - 1})", "a")
    for dtype in ("float32", "float16", "int32"):
        value = numbers(shape, np.float32, 1, -1.5, 1.5).astype(dtype)
        assert_same_bits(on_simulator(function, value), function(value))
    special = numbers(shape, np.float32, 2)
    for number, each in enumerate(SPECIAL):
        special.flat[number * 37 % special.size] = each
    assert_same_bits(on_simulator(function, special), function(special))


@pytest.mark.parametrize("n", [8192, 8193, 9999, 65_536])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8"])
def test_batches_of_elements(n, dtype):
    function = fused("ops.add(ops.multiply(a, b), a)", "a", "b")
    values = [numbers((n,), dtype, seed) for seed in range(2)]
    assert_same_bits(on_simulator(function, *values), function(*values))


@pytest.mark.parametrize("shape", [(32, 32), (64, 96), (70, 65), (33, 100), (3, 40, 50)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8"])
def test_transpositions(shape, dtype):
    turned = (*shape[:-2], shape[-1], shape[-2])
    axes = (0, 2, 1) if len(shape) == 3 else (1, 0)
    values = [numbers(shape, dtype, 1), numbers(turned, dtype, 2), numbers(shape, dtype, 3)]
    function = fused(
        f"ops.add(ops.multiply(ops.permute(a, {axes}), b), ops.permute(ops.multiply(a, c), {axes}))", "a", "b", "c"
    )
    given = on_simulator(function, *values)
    assert "bar.sync" in kernel_text(function)
    assert_same_bits(given, function(*values))


@pytest.mark.parametrize("shape", [(40, 600), (20, 1024), (9, 3000)], ids=str)
def test_batches_of_rows_that_share_a_vector(shape):
    function = fused("ops.relu(ops.add(ops.multiply(a, w), w))", "a", "w")
    values = [numbers(shape, np.float32, 1), numbers(shape[1:], np.float32, 2)]
    assert_same_bits(on_simulator(function, *values), function(*values))


@pytest.mark.parametrize("n", [64 * 4096, 70 * 4096 + 5, 1100 * 4096 + 1])
def test_sums_of_everything(n):
    function = fused("ops.sum(a)", "a")
    value = numbers((n,), np.float32, 1)
    given = np.asarray(function(loom.array(value, device="sim:0")))
    assert_same_bits(given, np.asarray(function(value)))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_ptxas_takes_the_kernels_without_spills(arch, tmp_path):
    cases = [(ROWS[name], [(2, 4096), (4096,)]) for name in ROWS]
    cases += [("ops.cumsum(ops.multiply(a, w), axis=1)", [(2, 4096), (4096,)])]
    for expression, shapes in cases:
        function = fused(expression, "a", "w")
        on_simulator(function, *(numbers(shape, np.float32) for shape in shapes))
        for number, part in enumerate(kernel_text(function, arch=arch).split("// kernel ")[1:]):
            path = tmp_path / f"{number}.ptx"
            path.write_text("// kernel " + part)
            command = [ptxas(), "-v", f"-arch={arch}", "-o", str(tmp_path / "out"), str(path)]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0 and "0 bytes spill stores" in done.stderr, done.stderr
