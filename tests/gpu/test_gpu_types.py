"""Arithmetic in every type has the CPU's bits."""

import numpy as np
import polyloom as loom
import pytest

FLOATS = [loom.float16, loom.float32, loom.float64]
INTEGERS = [loom.int8, loom.uint8, loom.int16, loom.uint16, loom.int32, loom.uint32, loom.int64, loom.uint64]
N = 1000


def values(dtype, seed):
    random = np.random.default_rng(seed)
    if dtype in FLOATS:
        return random.normal(size=N).astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    return random.integers(limits.min, limits.max, N, dtype.numpy, endpoint=True)


def saxpy_of(dtype):
    @loom.kernel
    def saxpy(a: dtype, x: loom.array(dtype=dtype), y: loom.array(dtype=dtype)):
        i = loom.tid()
        y[i] = a * x[i] + y[i]

    return saxpy


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=lambda dtype: dtype.name)
def test_saxpy(same_as_cpu, dtype):
    same_as_cpu(saxpy_of(dtype), N, [3, values(dtype, 1), values(dtype, 2)])


def test_saxpy_of_bfloat16(device):
    x = loom.array(np.linspace(-2, 2, N), dtype=loom.bfloat16, device="cpu")
    y = loom.array(np.linspace(5, -5, N), dtype=loom.bfloat16, device="cpu")
    there = y.to(device)
    saxpy = saxpy_of(loom.bfloat16)
    loom.launch(saxpy, N, [3, x, y], device="cpu")
    loom.launch(saxpy, N, [3, x.to(device), there], device=device)
    assert there.list() == y.list()


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda dtype: dtype.name)
def test_division_shifts_and_bits(same_as_cpu, dtype):
    @loom.kernel
    def mixed(x: loom.array(dtype=dtype), y: loom.array(dtype=dtype), out: loom.array(dtype=dtype, ndim=2)):
        i = loom.tid()
        out[i, 0] = x[i] // y[i]
        out[i, 1] = x[i] % y[i]
        out[i, 2] = x[i] << (y[i] & dtype(7))
        out[i, 3] = x[i] >> (y[i] & dtype(7))
        out[i, 4] = (x[i] & y[i]) ^ (x[i] | ~y[i])
        out[i, 5] = loom.min(x[i], y[i]) - loom.max(x[i], y[i])

    y = values(dtype, 4)
    y[y == 0] = 1
    same_as_cpu(mixed, N, [values(dtype, 3), y, np.zeros((N, 6), dtype.numpy)])


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
def test_conversions(same_as_cpu, dtype):
    @loom.kernel
    def convert(
        x: loom.array(dtype=dtype),
        i64: loom.array(dtype=loom.int64),
        u8: loom.array(dtype=loom.uint8),
        f16: loom.array(dtype=loom.float16),
        f64: loom.array(dtype=loom.float64),
        truth: loom.array(dtype=bool),
    ):
        i = loom.tid()
        i64[i] = loom.int64(x[i])
        u8[i] = loom.uint8(x[i])
        f16[i] = loom.float16(x[i])
        f64[i] = loom.float64(x[i])
        truth[i] = x[i] > dtype(0)

    x = values(dtype, 5) * dtype.numpy.type(300)
    x[:6] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5]
    others = [np.zeros(N, each) for each in (np.int64, np.uint8, np.float16, np.float64, np.bool_)]
    same_as_cpu(convert, N, [x, *others])


def test_scalars_of_every_type_are_passed(same_as_cpu):
    @loom.kernel
    def keep(
        a: loom.int8, b: loom.uint16, c: bool, d: loom.float16, e: loom.uint64, f: loom.float64, g: loom.vec3,
        out: loom.array(dtype=loom.float64),
    ):  # fmt: skip
        out[0] = loom.float64(a)
        out[1] = loom.float64(b)
        out[2] = loom.where(c, loom.float64(1.0), loom.float64(0.0))
        out[3] = loom.float64(d)
        out[4] = loom.float64(e)
        out[5] = f
        out[6] = loom.float64(g[2])

    (out,) = same_as_cpu(keep, 1, [-5, 65535, True, 0.5, 2**64 - 1, 0.1, (1, 2, 3), np.zeros(7)])
    assert out.tolist() == [-5, 65535, 1, 0.5, 2.0**64, 0.1, 3]
