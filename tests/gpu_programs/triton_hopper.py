"""Triton kernels that use what GPUs have since sm_90: products of warp groups, and copies of tiles by tensor maps."""

import numpy as np
import triton
import triton.language as tl
from device_array import DeviceArray, start, synchronize
from triton.tools.tensor_descriptor import TensorDescriptor


class ElementType(str):
    """A type as Triton reads it of a tensor, by its name and its size."""

    itemsize = 2


class Tensor:
    """An array of 16-bit floats as tensor descriptors want one."""

    dtype = ElementType("fp16")

    def __init__(self, array):
        self.array = array

    def __getattr__(self, name):
        return getattr(self.array, name)


def descriptor(array, tile):
    return TensorDescriptor(Tensor(array), list(array.shape), [array.shape[1], 1], tile)


@triton.jit
def pointer_product(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + row[:, None] * K + k + inner[None, :])
        b = tl.load(b_ptr + (k + inner[:, None]) * N + column[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + row[:, None] * N + column[None, :], total)


def product_of_pointers(dtype, depth, limit):
    m, n, k = 128, 128, 128
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    c = DeviceArray((m, n))
    kernel = pointer_product[(m // 64, n // 64)](
        DeviceArray.of(a), DeviceArray.of(b), c, n, k, BM=64, BN=64, BK=depth, num_warps=4
    )
    assert "wgmma.mma_async" in kernel.asm["ptx"]
    np.testing.assert_allclose(c.numpy(), a.astype(np.float64) @ b.astype(np.float64), atol=limit)


def product_of_halves():
    product_of_pointers(np.float16, 64, 1e-4)


def product_of_floats():
    product_of_pointers(np.float32, 32, 0.2)


@triton.jit
def tile_product(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    c.store([row, column], total.to(tl.float16))


def product_of_tiles():
    # Tiles reach past the ends of all three matrices.
    m, n, k = 100, 96, 136
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    c = DeviceArray((m, n), np.float16)
    kernel = tile_product[(triton.cdiv(m, 64), triton.cdiv(n, 64))](
        descriptor(DeviceArray.of(a), [64, 64]),
        descriptor(DeviceArray.of(b), [64, 64]),
        descriptor(c, [64, 64]),
        k,
        BM=64,
        BN=64,
        BK=64,
        num_warps=4,
    )
    assert "cp.async.bulk.tensor" in kernel.asm["ptx"] and "wgmma.mma_async" in kernel.asm["ptx"]
    np.testing.assert_allclose(c.numpy(), (a.astype(np.float64) @ b.astype(np.float64)), atol=0.03)


@triton.jit
def transposing_copy(x, out, B: tl.constexpr):
    row, column = tl.program_id(0) * B, tl.program_id(1) * B
    out.store([column, row], x.load([row, column]).T)


def transposition_of_tiles():
    m, n = 72, 200
    x = rng.standard_normal((m, n)).astype(np.float16)
    out = DeviceArray((n, m), np.float16)
    grid = (triton.cdiv(m, 32), triton.cdiv(n, 32))
    transposing_copy[grid](descriptor(DeviceArray.of(x), [32, 32]), descriptor(out, [32, 32]), B=32)
    np.testing.assert_array_equal(out.numpy(), x.T)


if __name__ == "__main__":
    start()
    for program in (product_of_halves, product_of_floats, product_of_tiles, transposition_of_tiles):
        rng = np.random.default_rng(7)
        program()
        synchronize()
        print(f"ok {program.__name__}", flush=True)
