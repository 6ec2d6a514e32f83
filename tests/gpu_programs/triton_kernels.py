"""Triton kernels of the kinds that its tutorials have, in their own words, with arrays that know no PyTorch."""

import sys

import numpy as np
import triton
import triton.language as tl
from device_array import DeviceArray, start, synchronize


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=inside) + tl.load(y_ptr + at, mask=inside), mask=inside)


def add():
    n = 1000
    x, y = rng.standard_normal(n).astype(np.float32), rng.standard_normal(n).astype(np.float32)
    out = DeviceArray(n)
    add_kernel[(triton.cdiv(n, 128),)](DeviceArray.of(x), DeviceArray.of(y), out, n, BLOCK=128)
    np.testing.assert_array_equal(out.numpy(), x + y)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < n_columns
    x = tl.load(x_ptr + row * n_columns + column, mask=inside, other=-float("inf"))
    powers = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n_columns + column, powers / tl.sum(powers, axis=0), mask=inside)


def softmax():
    x = rng.standard_normal((17, 100)).astype(np.float32)
    out = DeviceArray(x.shape)
    softmax_kernel[(17,)](DeviceArray.of(x), out, 100, BLOCK=128)
    powers = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out.numpy(), powers / powers.sum(1, keepdims=True), rtol=1e-5)


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a_inside = (row[:, None] < M) & (k + inner[None, :] < K)
        b_inside = (k + inner[:, None] < K) & (column[None, :] < N)
        a = tl.load(a_ptr + row[:, None] * K + k + inner[None, :], mask=a_inside, other=0.0)
        b = tl.load(b_ptr + (k + inner[:, None]) * N + column[None, :], mask=b_inside, other=0.0)
        total = tl.dot(a, b, total)
    inside = (row[:, None] < M) & (column[None, :] < N)
    tl.store(c_ptr + row[:, None] * N + column[None, :], total, mask=inside)


def matmul():
    M, N, K = 70, 50, 90
    a, b = rng.standard_normal((M, K)).astype(np.float16), rng.standard_normal((K, N)).astype(np.float16)
    c = DeviceArray((M, N))
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    matmul_kernel[grid](DeviceArray.of(a), DeviceArray.of(b), c, M, N, K, BM=32, BN=32, BK=32)
    np.testing.assert_allclose(c.numpy(), a.astype(np.float32) @ b.astype(np.float32), atol=1e-3)


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, rate, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    keeps = tl.rand(seed, at) > rate
    x = tl.load(x_ptr + at, mask=inside)
    tl.store(out_ptr + at, tl.where(keeps, x / (1 - rate), 0.0), mask=inside)


def dropout():
    n = 4000
    x = np.ones(n, np.float32)
    outs = []
    for seed in (1, 1, 2):
        out = DeviceArray(n)
        dropout_kernel[(triton.cdiv(n, 256),)](DeviceArray.of(x), out, n, 0.25, seed, BLOCK=256)
        outs.append(out.numpy())
    np.testing.assert_array_equal(outs[0], outs[1])
    assert (outs[0] != outs[2]).any() and abs((outs[0] > 0).mean() - 0.75) < 0.05
    np.testing.assert_allclose(outs[0][outs[0] > 0], 1 / 0.75, rtol=1e-6)


@triton.jit
def layer_norm_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < n
    x = tl.load(x_ptr + row * n + column, mask=inside, other=0.0)
    mean = tl.sum(x, axis=0) / n
    centred = tl.where(inside, x - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / n + eps)
    weight = tl.load(weight_ptr + column, mask=inside)
    bias = tl.load(bias_ptr + column, mask=inside)
    tl.store(out_ptr + row * n + column, centred * scale * weight + bias, mask=inside)


def layer_norm():
    x = rng.standard_normal((9, 200)).astype(np.float32)
    weight, bias = rng.standard_normal(200).astype(np.float32), rng.standard_normal(200).astype(np.float32)
    out = DeviceArray(x.shape)
    arrays = [DeviceArray.of(each) for each in (x, weight, bias)]
    layer_norm_kernel[(9,)](*arrays, out, 200, 1e-5, BLOCK=256)
    expected = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * weight + bias
    np.testing.assert_allclose(out.numpy(), expected, atol=1e-4)


@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, out_ptr, n, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + row[:, None] * D + d[None, :], mask=row[:, None] < n, other=0.0)
    most = tl.full((BM,), -float("inf"), tl.float32)
    norm = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for start_n in range(0, n, BN):
        column = start_n + tl.arange(0, BN)
        k = tl.load(k_ptr + column[None, :] * D + d[:, None], mask=column[None, :] < n, other=0.0)
        v = tl.load(v_ptr + column[:, None] * D + d[None, :], mask=column[:, None] < n, other=0.0)
        scores = tl.dot(q, k) * scale
        scores = tl.where(column[None, :] < n, scores, -float("inf"))
        new_most = tl.maximum(most, tl.max(scores, 1))
        powers = tl.exp(scores - new_most[:, None])
        fade = tl.exp(most - new_most)
        norm = norm * fade + tl.sum(powers, 1)
        total = total * fade[:, None] + tl.dot(powers.to(tl.float16), v)
        most = new_most
    tl.store(out_ptr + row[:, None] * D + d[None, :], total / norm[:, None], mask=row[:, None] < n)


def attention():
    n, d = 100, 32
    q, k, v = (rng.standard_normal((n, d)).astype(np.float16) for _ in range(3))
    out = DeviceArray((n, d))
    arrays = [DeviceArray.of(each) for each in (q, k, v)]
    attention_kernel[(triton.cdiv(n, 32),)](*arrays, out, n, d**-0.5, D=d, BM=32, BN=32)
    scores = q.astype(np.float32) @ k.astype(np.float32).T * d**-0.5
    powers = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(out.numpy(), powers / powers.sum(1, keepdims=True) @ v.astype(np.float32), atol=5e-3)


@triton.jit
def histogram_kernel(x_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.atomic_add(counts_ptr + tl.load(x_ptr + at, mask=inside, other=0), 1, mask=inside)


def histogram():
    x = rng.integers(0, 16, 1000).astype(np.int32)
    counts = DeviceArray.of(np.zeros(16, np.int32))
    histogram_kernel[(8,)](DeviceArray.of(x), counts, 1000, BLOCK=128)
    np.testing.assert_array_equal(counts.numpy(), np.bincount(x, minlength=16))


@triton.jit
def scan_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.cumsum(tl.load(x_ptr + at), axis=0))


def scan():
    x = rng.integers(-9, 9, 512).astype(np.int32)
    out = DeviceArray(512, "int32")
    scan_kernel[(1,)](DeviceArray.of(x), out, BLOCK=512)
    np.testing.assert_array_equal(out.numpy(), np.cumsum(x))


@triton.jit
def sort_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.sort(tl.load(x_ptr + at)))


def sort():
    x = rng.integers(-1000, 1000, 256).astype(np.int32)
    out = DeviceArray(256, "int32")
    sort_kernel[(1,)](DeviceArray.of(x), out, BLOCK=256)
    np.testing.assert_array_equal(out.numpy(), np.sort(x))


@triton.jit
def transpose_kernel(x_ptr, out_ptr, n_rows, n_columns, B: tl.constexpr):
    row = tl.program_id(0) * B + tl.arange(0, B)
    column = tl.program_id(1) * B + tl.arange(0, B)
    inside = (row[:, None] < n_rows) & (column[None, :] < n_columns)
    x = tl.load(x_ptr + row[:, None] * n_columns + column[None, :], mask=inside)
    tl.store(out_ptr + column[:, None] * n_rows + row[None, :], tl.trans(x), mask=tl.trans(inside))


def transpose():
    x = rng.standard_normal((45, 70)).astype(np.float32)
    out = DeviceArray((70, 45))
    transpose_kernel[(3, 5)](DeviceArray.of(x), out, 45, 70, B=16)
    np.testing.assert_array_equal(out.numpy(), x.T)


@triton.jit
def elementwise_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.sin(x) * tl.exp2(x) + tl.sqrt(tl.abs(x)) + tl.sigmoid(x), mask=at < n)


def elementwise():
    x = rng.standard_normal(300).astype(np.float32)
    out = DeviceArray(300)
    elementwise_kernel[(3,)](DeviceArray.of(x), out, 300, BLOCK=128)
    expected = np.sin(x) * np.exp2(x) + np.sqrt(np.abs(x)) + 1 / (1 + np.exp(-x))
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-4, atol=1e-5)


@triton.jit
def reduce_kernel(x_ptr, total_ptr, best_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    tl.atomic_add(total_ptr, tl.sum(x, axis=0))
    tl.atomic_max(best_ptr, tl.max(x, axis=0))


def reduction():
    x = rng.integers(0, 1000, 2000).astype(np.int32)
    total, best = DeviceArray.of(np.zeros(1, np.int32)), DeviceArray.of(np.zeros(1, np.int32))
    reduce_kernel[(8,)](DeviceArray.of(x), total, best, 2000, BLOCK=256)
    assert (total.numpy()[0], best.numpy()[0]) == (x.sum(), x.max())


PROGRAMS = [
    add,
    softmax,
    matmul,
    dropout,
    layer_norm,
    attention,
    histogram,
    scan,
    sort,
    transpose,
    elementwise,
    reduction,
]

if __name__ == "__main__":
    start()
    chosen = sys.argv[1:] or [program.__name__ for program in PROGRAMS]
    for program in PROGRAMS:
        if program.__name__ in chosen:
            rng = np.random.default_rng(7)
            program()
            synchronize()
            print(f"ok {program.__name__}", flush=True)
