"""Products of fused functions: by tensor cores and by chains, with factors as they lie in memory."""

import numpy as np
import polyloom as loom
import pytest
from polyloom import ops

SHAPES = [(64, 64, 64), (131, 128, 264), (200, 192, 72), (45, 61, 83)]


@loom.fuse
def plain(a, b):
    return ops.matmul(a, b)


@loom.fuse
def of_transposed(a, b):
    return ops.relu(ops.matmul(ops.transpose(a), ops.transpose(b)))


@loom.fuse(float_mode="contract")
def contracted(a, b):
    return ops.matmul(a, b)


@loom.fuse
def in_32_bits(a, b):
    return ops.matmul(ops.cast(a, "int32"), ops.cast(b, "int32"))


def factors(shape, dtype):
    random = np.random.default_rng(3)
    n_rows, length, n_columns = shape
    extents = [(n_rows, length), (length, n_columns)]
    if np.dtype(dtype).kind in "iu":
        return [random.integers(-128, 128, each).astype(dtype) for each in extents]
    return [random.uniform(-1, 1, each).astype(dtype) for each in extents]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize("shape", SHAPES)
def test_strict_products_have_the_bits_of_the_cpu(device, shape, dtype):
    a, b = factors(shape, dtype)
    assert plain(loom.array(a), loom.array(b)).numpy().tobytes() == plain(a, b).tobytes()
    a, b = (np.ascontiguousarray(each.T) for each in (a, b))
    given = of_transposed(loom.array(a), loom.array(b)).numpy()
    assert given.tobytes() == np.ascontiguousarray(of_transposed(a, b)).tobytes()


@pytest.mark.parametrize("shape", SHAPES)
def test_products_of_bytes_are_summed_in_32_bits(device, shape):
    a, b = factors(shape, "int8")
    given = in_32_bits(loom.array(a), loom.array(b)).numpy()
    assert (given == a.astype(np.int32) @ b.astype(np.int32)).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_of_halves_round_once(device, shape, dtype):
    a, b = (loom.array(each, dtype=getattr(loom, dtype)) for each in factors(shape, np.float32))
    given = contracted(a, b).numpy().astype(np.float64)
    exact = a.numpy().astype(np.float64) @ b.numpy().astype(np.float64)
    unit = 2.0 ** -(11 if dtype == "float16" else 8)
    assert np.abs(given - exact).max() <= 2 * unit * np.abs(exact).max()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_large_products_are_right(cuda, is_simulated, dtype):
    """Products whose blocks are more than run at once, which a simulated device holds fewer of."""
    n = 256 if is_simulated(cuda) else 2048
    a, b = factors((n, n, n), dtype)
    function = contracted if dtype == "float16" else plain
    given = function(loom.array(a), loom.array(b)).numpy().astype(np.float64)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    unit = 2.0**-11 if dtype == "float16" else n * 2.0**-24
    assert np.abs(given - exact).max() <= 2 * unit * np.abs(exact).max()


LOOM_PRODUCT = """
compute product(A, B) @kernel(matmul) {
    for i in 0..M, j in 0..N {
        var sum = 0.0
        for k in 0..K { sum = fma(A[i, k], B[j, k], sum) }
        out[i, j] = sum
    }
}
"""


def test_products_of_loom_files_have_the_bits_of_the_cpu(device):
    product = loom.loom_module(LOOM_PRODUCT).product
    a, b = factors((45, 61, 83), "float32")
    b = np.ascontiguousarray(b.T)
    expected = product(a, b, device="cpu")
    assert product(loom.array(a), loom.array(b)).numpy().tobytes() == expected.tobytes()
    assert product(a, b, device=device).tobytes() == expected.tobytes()
    out = np.zeros_like(expected)
    product.launch(a, b, out, device=device)
    assert out.tobytes() == expected.tobytes()
