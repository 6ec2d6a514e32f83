"""Fused functions and ops over arrays on the simulator: the bits of the CPU, under all of its checks."""

import subprocess

import numpy as np
import polyloom as loom
import pytest
from fused_functions import loaded
from nvidia import ptxas
from polyloom import _scalars, ops
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


# Products by tensor cores: an expression of `a` and `b`, their shapes, and the float mode.
MATRIX_CASES = {
    "one warp": ("ops.matmul(a, b)", [(20, 40), (40, 30)]),
    "ragged": ("ops.matmul(a, b)", [(70, 45), (45, 67)]),
    "wide": ("ops.matmul(a, b)", [(130, 33), (33, 190)]),
    "transposed": ("ops.matmul(ops.transpose(a), ops.transpose(b))", [(35, 40), (37, 35)]),
    "batches": ("ops.matmul(a, b)", [(2, 1, 20, 18), (3, 18, 25)]),
    "before and after": (
        "ops.relu(ops.add(ops.matmul(ops.add(a, a), ops.negative(b)), ops.sum(b, axis=0)))",
        [(40, 50), (50, 33)],
    ),
    "convolution": ("ops.conv2d(a, b, padding=1)", [(2, 8, 9, 20), (9, 8, 3, 3)]),
}


def matrix_function(name, float_mode, cast=None):
    expression, shapes = MATRIX_CASES[name]
    before = "".join(f"    {x} = ops.cast({x}, '{cast}')\n" for x in "ab") if cast else ""
    text = f"def f(a, b):\n{before}    return {expression}\n"
    return loom.fuse(loaded(text)["f"], float_mode=float_mode), shapes


def has_tensor_cores(function):
    return any(".mma." in line or "mma.sync" in line for group in function.groups for line in group.ptx().splitlines())


def on_simulator(function, *values):
    return function(*(loom.array(value, device="sim:0") for value in values)).numpy()


@pytest.mark.parametrize("cast", [None, "int32", "uint32"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("name", MATRIX_CASES)
def test_integers_go_through_tensor_cores_and_are_exact(name, dtype, cast):
    function, shapes = matrix_function(name, "strict", cast)
    low = 0 if dtype == np.uint8 else -128
    values = [
        np.random.default_rng(seed).integers(low, low + 256, shape).astype(dtype) for seed, shape in enumerate(shapes)
    ]
    given = on_simulator(function, *values)
    # What is computed of a factor in 32 bits does not fit in 8, and zeros around a factor are chosen after the cast.
    assert has_tensor_cores(function) == (cast is None or name not in ("before and after", "convolution"))
    assert_same_bits(given, function(*values))


@pytest.mark.parametrize("float_mode", ["contract", "fast"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", MATRIX_CASES)
def test_halves_go_through_tensor_cores_where_the_mode_lets_them(name, dtype, float_mode):
    dtype = np.dtype(_scalars.bfloat16.numpy if dtype == "bfloat16" else dtype)
    function, shapes = matrix_function(name, float_mode)
    values = [numbers(shape, np.float32, seed, -1, 1).astype(dtype) for seed, shape in enumerate(shapes)]
    given = on_simulator(function, *values)
    assert has_tensor_cores(function) and given.dtype == dtype
    exact, _ = matrix_function(name, "strict")
    wanted = exact(*(value.astype(np.float64) for value in values))
    # Sums are made in float32, and the result is rounded once, or after each further op.
    largest = np.abs(wanted).max()
    if name == "before and after":
        a, b = (value.astype(np.float64) for value in values)
        largest = np.abs(2 * a @ b).max() + np.abs(b.sum(axis=0)).max()
    unit = 2.0 ** -(11 if dtype == np.float16 else 8)
    assert np.abs(given.astype(np.float64) - wanted).max() <= 2 * unit * largest


def test_halves_summed_in_float32_go_through_tensor_cores_too():
    function, shapes = matrix_function("ragged", "contract", "float32")
    values = [numbers(shape, np.float16, seed) for seed, shape in enumerate(shapes)]
    given = on_simulator(function, *values)
    assert has_tensor_cores(function) and given.dtype == np.float32
    wanted = np.matmul(*(value.astype(np.float64) for value in values))
    bound = shapes[0][1] * 2.0**-24 * np.matmul(*(np.abs(value.astype(np.float64)) for value in values))
    assert (np.abs(given - wanted) <= bound).all()


def test_strict_halves_and_single_precision_keep_their_chain():
    function, shapes = matrix_function("ragged", "strict")
    values = [numbers(shape, np.float16, seed) for seed, shape in enumerate(shapes)]
    given = on_simulator(function, *values)
    assert not has_tensor_cores(function)
    assert_same_bits(given, function(*values))
    for float_mode in ("contract", "fast"):
        function, _ = matrix_function("ragged", float_mode)
        on_simulator(function, *(value.astype(np.float32) for value in values))
        assert not has_tensor_cores(function)


def test_architectures_and_products_without_use_of_tensor_cores_have_the_chain():
    function, shapes = matrix_function("ragged", "strict")
    values = [numbers(shape, np.int8, seed) for seed, shape in enumerate(shapes)]
    on_simulator(function, *values)
    assert has_tensor_cores(function)
    loom.sim.configure(arch="sm_75")
    given = on_simulator(function, *values)
    assert not any("mma" in group.ptx(arch="sm_75") for group in function.groups)
    assert_same_bits(given, function(*values))
    # A row or a column of results would leave most of a tensor core without work.
    function = loom.fuse(loaded("def f(a, b):\n    return ops.matmul(a, b)\n")["f"])
    loom.sim.configure(arch="sm_80")
    values = [numbers(shape, np.int8, seed) for seed, shape in enumerate([(50, 300), (300,)])]
    given = on_simulator(function, *values)
    assert not has_tensor_cores(function)
    assert_same_bits(given, function(*values))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint8"])
@pytest.mark.parametrize("name", MATRIX_CASES)
def test_ptxas_takes_products_by_tensor_cores(name, dtype, arch, tmp_path):
    assembler = ptxas()
    function, shapes = matrix_function(name, "contract")
    dtype = np.dtype(_scalars.bfloat16.numpy if dtype == "bfloat16" else dtype)
    on_simulator(function, *(numbers(shape, np.float32, seed).astype(dtype) for seed, shape in enumerate(shapes)))
    assert has_tensor_cores(function)
    for number, part in enumerate("".join(group.ptx(arch=arch) for group in function.groups).split("// kernel ")[1:]):
        path = tmp_path / f"{number}.ptx"
        path.write_text("// kernel " + part)
        done = subprocess.run(
            [assembler, "-v", f"-arch={arch}", "-o", str(tmp_path / "out"), str(path)], capture_output=True, text=True
        )
        assert done.returncode == 0 and "0 bytes spill stores" in done.stderr, done.stderr
