"""CUDA C++ as people write it: NVRTC makes PTX of it, and the simulator runs that with all its checks on."""

from __future__ import annotations

import numpy as np
import polyloom as loom
import pytest
from nvidia import Nvrtc, find

SOURCE = r"""
__device__ float warp_sum(float x) {
    for (int distance = 16; distance > 0; distance /= 2) x += __shfl_down_sync(0xffffffffu, x, distance);
    return x;
}

// The dot product; out is zero before.
extern "C" __global__ void dot(const float* x, const float* y, float* out, int n) {
    __shared__ float partial[32];
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i] * y[i];
    sum = warp_sum(sum);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 0) partial[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = warp_sum(lane < blockDim.x / 32 ? partial[lane] : 0.0f);
        if (lane == 0) atomicAdd(out, sum);
    }
}

// A convolution of every row with weights in constant memory; the row's ends are repeated.
__constant__ float weights[5] = {0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f};

extern "C" __global__ void blur_rows(const float* image, float* out, int width) {
    extern __shared__ float row[];
    const float* source = image + blockIdx.x * width;
    for (int x = threadIdx.x; x < width + 4; x += blockDim.x) row[x] = source[min(max(x - 2, 0), width - 1)];
    __syncthreads();
    for (int x = threadIdx.x; x < width; x += blockDim.x) {
        float sum = 0.0f;
#pragma unroll
        for (int k = 0; k < 5; ++k) sum += weights[k] * row[x + k];
        out[blockIdx.x * width + x] = sum;
    }
}

// Points of the plane that stay near zero under z -> z*z + c: a struct by value, a template, divergent loops.
struct Window { double left, top, step; int width; };

template <typename Number>
__device__ int iterations(Number re, Number im, int limit) {
    Number x = 0, y = 0;
    int n = 0;
    for (; n < limit && x * x + y * y < Number(4); ++n) {
        Number next = x * x - y * y + re;
        y = 2 * x * y + im;
        x = next;
    }
    return n;
}

extern "C" __global__ void escape_times(Window window, int limit, int* out) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (column >= window.width) return;
    double re = window.left + column * window.step, im = window.top - row * window.step;
    out[row * window.width + column] = iterations<double>(re, im, limit);
}

// The primes below n by Eratosthenes' sieve, one block; a bit a number.
extern "C" __global__ void sieve(unsigned* composite, int n, unsigned* count) {
    for (int p = 2; p * p < n; ++p) {
        if (composite[p / 32] >> p % 32 & 1) continue;
        __syncthreads();
        for (int m = p * p + threadIdx.x * p; m < n; m += blockDim.x * p) atomicOr(&composite[m / 32], 1u << m % 32);
        __syncthreads();
    }
    __syncthreads();
    unsigned primes = 0;
    for (int w = threadIdx.x; w < (n + 31) / 32; w += blockDim.x) {
        unsigned below = n - w * 32 >= 32 ? 0xffffffffu : (1u << n % 32) - 1;
        primes += __popc(~composite[w] & below);
    }
    atomicAdd(count, primes);
}

// Keys' ranks by their number of smaller ones, which sorts them; four at a time.
extern "C" __global__ void rank_sort(const uint4* keys, unsigned* sorted, int quarter) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= 4 * quarter) return;
    unsigned key = reinterpret_cast<const unsigned*>(keys)[i], rank = 0;
    for (int j = 0; j < quarter; ++j) {
        uint4 four = keys[j];
        unsigned others[4] = {four.x, four.y, four.z, four.w};
        for (int k = 0; k < 4; ++k) rank += others[k] < key || (others[k] == key && 4 * j + k < i);
    }
    sorted[rank] = key;
}

// A wrong one: the barrier between writing and reading is missing.
extern "C" __global__ void rotate(int* x) {
    __shared__ int tile[64];
    tile[threadIdx.x] = x[threadIdx.x];  // BUG
    x[threadIdx.x] = tile[(threadIdx.x + 1) % 64];  // BUG
}
"""


@pytest.fixture(scope="module", params=["sm_80", "sm_90"])
def module(request):
    path = find("lib/libnvrtc.so.13")
    if path is None:
        pytest.skip("nvidia-cuda-nvrtc is not installed")
    log, ptx = Nvrtc(path).compile(SOURCE, request.param, "-lineinfo")
    assert log.strip("\n \0") == ""
    loom.sim.configure(arch=request.param, sanitize="all")
    yield loom.sim.Module(ptx)
    loom.sim.configure(arch="sm_80", sanitize="default")


@pytest.mark.parametrize("n", [1, 1000, 4096])
def test_dot_product(module, n):
    x, y = np.random.default_rng(n).normal(size=(2, n)).astype(np.float32)
    out = np.zeros(1, np.float32)
    module.kernel("dot").launch(3, 96, [x, y, out, n])
    np.testing.assert_allclose(out[0], x.astype(np.float64) @ y, atol=1e-4)


@pytest.mark.parametrize("shape", [(3, 1), (5, 77), (2, 200)])
def test_convolution(module, shape):
    image = np.random.default_rng(1).random(shape).astype(np.float32)
    out = np.zeros_like(image)
    module.kernel("blur_rows").launch(shape[0], 64, [image, out, shape[1]], shared_bytes=4 * (shape[1] + 4))
    weights = np.array([1, 4, 6, 4, 1]) / 16
    wide = np.pad(image.astype(np.float64), ((0, 0), (2, 2)), mode="edge")
    expected = [np.convolve(row, weights, mode="valid") for row in wide]
    np.testing.assert_allclose(out, expected, atol=1e-6)


def test_escape_times(module):
    width, height, limit = 70, 20, 50
    window = np.array([(-2.0, 1.0, 0.05, width)], dtype=np.dtype("f8,f8,f8,i4", align=True))
    out = np.zeros((height, width), np.int32)
    module.kernel("escape_times").launch((3, height), 32, [window.tobytes(), limit, out])
    # A product and a sum may be rounded once or twice: points near the border may take more steps or fewer.
    z = np.zeros((height, width), complex)
    c = (-2.0 + 0.05 * np.arange(width)) + 1j * (1.0 - 0.05 * np.arange(height))[:, None]
    expected = np.zeros((height, width), np.int32)
    for _ in range(limit):
        near = z.real**2 + z.imag**2 < 4
        expected += near
        z[near] = z[near] ** 2 + c[near]
    assert (out == expected).mean() > 0.99 and out.min() >= 1 and out.max() == limit


def test_sieve(module):
    n = 1000
    composite, count = np.zeros(-(-n // 32), np.uint32), np.zeros(1, np.uint32)
    composite[0] = 0b11
    module.kernel("sieve").launch(1, 64, [composite, n, count])
    assert count[0] == 168


def test_ranks_sort(module):
    keys = np.random.default_rng(2).integers(0, 50, 200).astype(np.uint32)
    out = np.zeros_like(keys)
    module.kernel("rank_sort").launch(4, 64, [keys, out, keys.size // 4])
    np.testing.assert_array_equal(out, np.sort(keys))


def test_a_missing_barrier_is_found_at_its_lines(module):
    with pytest.raises(loom.SanitizerError) as caught:
        module.kernel("rotate").launch(1, 64, [np.arange(64, dtype=np.int32)])
    lines = {number for number, text in enumerate(SOURCE.splitlines(), 1) if text.endswith("// BUG")}
    assert "data race" in {found.kind for found in caught.value.findings}
    for found in caught.value.findings:
        assert found.file.endswith("kernel.cu") and found.line in lines
        # A thread that reads too early reads what nobody has written.
        assert found.kind == "read of uninitialised memory" or found.other is not None and found.other[1] in lines


CLUSTERS = r"""
extern "C" __global__ void __cluster_dims__(1, 1, 1) reversed(const int* x, int* out, unsigned* info) {
    __shared__ int part[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = x[i];
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
    int* other = (int*)__cluster_map_shared_rank(part, __clusterRelativeBlockRank());
    int value = other[63 - threadIdx.x];
    __cluster_barrier_arrive_relaxed();
    __cluster_barrier_wait();
    out[i] = value;
    asm volatile("fence.acq_rel.cluster;");
    if (i == 64) {
        unsigned found[] = {__clusterSizeInBlocks(),    __clusterRelativeBlockRank(),
                            __clusterDim().x,           __cluster_query_shared_rank(part),
                            __clusterDimIsSpecified(),  __clusterGridDimInClusters().x,
                            __clusterIdx().x};
        for (int j = 0; j < 7; ++j) info[j] = found[j];
    }
}
"""


@pytest.mark.parametrize("n_blocks", [1, 2])
def test_blocks_of_a_cluster_read_each_others_shared_memory(n_blocks):
    path = find("lib/libnvrtc.so.13")
    if path is None:
        pytest.skip("nvidia-cuda-nvrtc is not installed")
    source = CLUSTERS.replace("__cluster_dims__(1", f"__cluster_dims__({n_blocks}")
    source = source.replace(
        "(part, __clusterRelativeBlockRank())", f"(part, {n_blocks - 1} - __clusterRelativeBlockRank())"
    )
    log, ptx = Nvrtc(path).compile(source, "sm_90")
    assert ptx, log
    x, out, info = np.arange(128, dtype=np.int32), np.zeros(128, np.int32), np.zeros(7, np.uint32)
    loom.sim.configure(arch="sm_90", sanitize="all")
    try:
        loom.sim.Module(ptx).kernel("reversed").launch(2, 64, [x, out, info])
    finally:
        loom.sim.configure(arch="sm_80", sanitize="default")
    clusters = x.reshape(2 // n_blocks, n_blocks, 64)
    np.testing.assert_array_equal(out, clusters[:, ::-1, ::-1].ravel())
    # The second block writes what it knows of its cluster.
    assert info.tolist() == ([1, 0, 1, 0, 1, 2, 1] if n_blocks == 1 else [2, 1, 2, 1, 1, 1, 0])


PACKED = """
extern "C" __global__ void packed(const unsigned* x, const unsigned* y, unsigned* out, int n) {
    int i = threadIdx.x;
    unsigned a = x[i], b = y[i];
    unsigned found[] = {__vabsdiffu4(a, b), __vabsdiffs4(a, b), __vsadu4(a, b), __vsads4(a, b),
                        __vsadu2(a, b),     __vsads2(a, b),     __vabs4(a),     __vabsss4(a)};
    for (int j = 0; j < 8; ++j) out[j * n + i] = found[j];
}
"""


def test_differences_of_packed_integers():
    path = find("lib/libnvrtc.so.13")
    if path is None:
        pytest.skip("nvidia-cuda-nvrtc is not installed")
    log, ptx = Nvrtc(path).compile(PACKED, "sm_80")
    assert "vabsdiff4" in ptx and "vabsdiff2" in ptx, log
    x, y = np.random.default_rng(3).integers(0, 2**32, (2, 256), np.uint32)
    x[:2], y[:2] = 0x80808080, 0x7F7F7F7F
    out = np.zeros((8, 256), np.uint32)
    loom.sim.Module(ptx).kernel("packed").launch(1, 256, [x, y, out, 256])

    def lanes(word, dtype):
        return word.view(dtype).reshape(256, -1).astype(np.int64)

    def difference(dtype):
        return np.abs(lanes(x, dtype) - lanes(y, dtype))

    def bytes_of(values):
        return np.ascontiguousarray(values.astype(np.uint8)).view(np.uint32).ravel()

    expected = [
        bytes_of(difference(np.uint8)),
        bytes_of(difference(np.int8)),
        difference(np.uint8).sum(1),
        difference(np.int8).sum(1),
        difference(np.uint16).sum(1),
        difference(np.int16).sum(1),
        bytes_of(np.abs(lanes(x, np.int8))),
        bytes_of(np.minimum(np.abs(lanes(x, np.int8)), 127)),
    ]
    np.testing.assert_array_equal(out, np.array(expected, np.uint32))
