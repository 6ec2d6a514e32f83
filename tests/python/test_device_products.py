"""Products on the simulator whose factors are copied to shared memory slice by slice, under all of its checks."""

import subprocess

import numpy as np
import polyloom as loom
import pytest
from fused_functions import loaded
from nvidia import ptxas
from polyloom import _scalars
from tensor_arrays import assert_same_bits, numbers

# An expression of `a` and `b`, and their shapes. Chains of 64 have whole slices of every type; 64 rows and columns are
# a tile, or a part of one of 128.
CASES = {
    "whole": ("ops.matmul(a, b)", [(64, 64), (64, 64)]),
    "one slice": ("ops.matmul(a, b)", [(128, 64), (64, 72)]),
    "many slices": ("ops.matmul(a, b)", [(65, 448), (448, 96)]),
    "ragged": ("ops.matmul(a, b)", [(131, 128), (128, 264)]),
    "left transposed": ("ops.matmul(ops.transpose(a), b)", [(128, 80), (128, 96)]),
    "right transposed": ("ops.matmul(a, ops.transpose(b))", [(67, 128), (97, 128)]),
    "both transposed": ("ops.matmul(ops.transpose(a), ops.transpose(b))", [(64, 144), (101, 64)]),
    "batches": ("ops.matmul(a, b)", [(2, 1, 64, 64), (3, 64, 80)]),
    "part of a matrix": ("ops.matmul(a[16:, :64], b[:, 16:112])", [(90, 128), (64, 128)]),
    "prologue": ("ops.matmul(ops.add(a, a), ops.negative(b))", [(260, 64), (64, 264)]),
    "epilogue": ("ops.relu(ops.add(ops.matmul(a, b), ops.sum(b, axis=0)))", [(70, 64), (64, 136)]),
}
# Products of which a factor is neither copied as it lies nor worth a copy of its own.
OTHERS = {
    "odd chain": ("ops.matmul(a, b)", [(64, 63), (63, 64)]),
    "odd columns": ("ops.matmul(a, b)", [(64, 64), (64, 67)]),
    "other rows": ("ops.matmul(a[:, ::2], b)", [(64, 128), (64, 64)]),
}


@pytest.fixture(autouse=True)
def all_checks():
    loom.sim.configure(sanitize="all")
    yield
    loom.sim.configure(arch="sm_80", sanitize="default", counters=False)


def product(expression, float_mode="strict"):
    return loom.fuse(loaded(f"def f(a, b):\n    return {expression}\n")["f"], float_mode=float_mode)


def element_type(name):
    return np.dtype(_scalars.bfloat16.numpy if name == "bfloat16" else name)


def values_of(shapes, dtype):
    """Random factors; integers have all of their bits."""
    if dtype.kind in "iu":
        least = np.iinfo(dtype).min
        random = [np.random.default_rng(seed) for seed in range(2)]
        return [
            each.integers(least, least + 256, shape).astype(dtype) for each, shape in zip(random, shapes, strict=True)
        ]
    return [numbers(shape, np.float32, seed, -1, 1).astype(dtype) for seed, shape in enumerate(shapes)]


def on_simulator(function, *values):
    return function(*(loom.array(value, device="sim:0") for value in values)).numpy()


def kernel_text(function, **options):
    return "".join(group.ptx(**options) for group in function.groups)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_strict_products_of_floats_have_the_bits_of_the_cpu(name, dtype):
    expression, shapes = CASES[name]
    function = product(expression)
    values = values_of(shapes, np.dtype(dtype))
    given = on_simulator(function, *values)
    text = kernel_text(function)
    assert "cp.async" in text and "mma.sync" not in text
    assert_same_bits(given, function(*values))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", CASES)
def test_products_of_bytes_are_exact(name, dtype):
    expression, shapes = CASES[name]
    function = product(expression)
    values = values_of(shapes, np.dtype(dtype))
    given = on_simulator(function, *values)
    assert "mma.sync" in kernel_text(function)
    assert_same_bits(given, function(*values))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_products_of_bytes_summed_in_32_bits_take_32_of_the_chain_at_once(dtype):
    function = loom.fuse(
        loaded("def f(a, b):\n    return ops.matmul(ops.cast(a, 'int32'), ops.cast(ops.transpose(b), 'int32'))\n")["f"]
    )
    values = values_of([(70, 192), (90, 192)], np.dtype(dtype))
    given = on_simulator(function, *values)
    text = kernel_text(function)
    assert "m16n8k32" in text and "m16n8k16" not in text and "ldmatrix" in text
    assert_same_bits(given, values[0].astype(np.int32) @ values[1].astype(np.int32).T)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_products_of_halves_round_once(name, dtype):
    expression, shapes = CASES[name]
    function = product(expression, "contract")
    dtype = element_type(dtype)
    values = values_of(shapes, dtype)
    given = on_simulator(function, *values)
    text = kernel_text(function)
    assert all(part in text for part in ("cp.async", "ldmatrix", "mma.sync"))
    exact = product(expression)(*(value.astype(np.float64) for value in values))
    # Sums are made in float32, and a result is rounded after the product and after each op that follows.
    unit = 2.0 ** -(11 if dtype == np.float16 else 8)
    largest = np.abs(exact).max() + (
        np.abs(values[1].astype(np.float64)).sum(axis=0).max() if name == "epilogue" else 0
    )
    assert given.dtype == dtype
    assert np.abs(given.astype(np.float64) - exact).max() <= 2 * unit * largest


@pytest.mark.parametrize("name", OTHERS)
def test_other_products_are_right_too(name):
    expression, shapes = OTHERS[name]
    for dtype in ("float32", "int8"):
        function = product(expression)
        values = values_of(shapes, np.dtype(dtype))
        given = on_simulator(function, *values)
        assert "cp.async" not in kernel_text(function)
        assert_same_bits(given, function(*values))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_factors_may_begin_anywhere_in_memory(dtype):
    """A factor that is not aligned to 16 bytes is copied element by element."""
    function = loom.fuse(
        loaded("def f(a, b):\n    return ops.matmul(ops.reshape(a, (64, 64)), ops.reshape(b, (64, 64)))\n")["f"],
        float_mode="contract",
    )
    values = values_of([4096, 4096], np.dtype(dtype))
    there = []
    for value, first in zip(values, (1, 3), strict=True):
        memory = loom.array(np.concatenate([np.zeros(first, dtype), value]), device="sim:0")
        there.append(memory[first:])
    given = function(*there).numpy()
    assert "cp.async" in kernel_text(function)
    assert_same_bits(given, on_simulator(function, *values))


@pytest.mark.parametrize("edge", [0, 1, 31])
def test_products_of_few_rows_or_columns_are_right(edge):
    for shapes in ([(edge, 64), (64, 64)], [(64, 64), (64, edge)]):
        for dtype in ("float32", "int8"):
            function = product("ops.matmul(a, b)")
            values = values_of(shapes, np.dtype(dtype))
            assert_same_bits(on_simulator(function, *values), function(*values))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "float32", "float64"])
@pytest.mark.parametrize("name", ["whole", "ragged", "left transposed", "right transposed", "epilogue"])
def test_ptxas_takes_the_kernels(name, dtype, arch, tmp_path):
    expression, shapes = CASES[name]
    function = product(expression, "contract")
    on_simulator(function, *values_of(shapes, element_type(dtype)))
    for number, part in enumerate(kernel_text(function, arch=arch).split("// kernel ")[1:]):
        path = tmp_path / f"{number}.ptx"
        path.write_text("// kernel " + part)
        command = [ptxas(), "-v", f"-arch={arch}", "-o", str(tmp_path / "out"), str(path)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0 and "0 bytes spill stores" in done.stderr, done.stderr
