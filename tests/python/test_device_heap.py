"""`malloc` and `free` on the device, `new` and `delete`: CUDA C++ through NVRTC, with all checks on."""

from __future__ import annotations

import numpy as np
import polyloom as loom
import pytest
from nvidia import Nvrtc, find

SOURCE = r"""
extern "C" __global__ void sums(const int* sizes, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int* squares = (int*)malloc(sizes[i] * sizeof(int));
    if (!squares) { out[i] = -1; return; }
    for (int j = 0; j < sizes[i]; ++j) squares[j] = j * j;
    int sum = 0;
    for (int j = 0; j < sizes[i]; ++j) sum += squares[j];
    out[i] = sum;
    free(squares);
}

struct Node {
    int value;
    Node* next;
    __device__ Node(int value, Node* next) : value(value), next(next) {}
};

// Lists that one launch makes and another takes apart.
extern "C" __global__ void build(Node** heads, int n) {
    Node* head = nullptr;
    for (int j = 0; j < n + (int)threadIdx.x; ++j) head = new Node(j, head);
    heads[threadIdx.x] = head;
}

extern "C" __global__ void consume(Node** heads, int* out) {
    int sum = 0;
    for (Node* node = heads[threadIdx.x]; node;) {
        sum = sum * 3 + node->value;
        Node* next = node->next;
        delete node;
        node = next;
    }
    out[threadIdx.x] = sum;
}

// A block shares what one of its threads allocates.
extern "C" __global__ void reversed(const float* x, float* out) {
    __shared__ float* copy;
    if (threadIdx.x == 0) copy = (float*)malloc(blockDim.x * sizeof(float));
    __syncthreads();
    copy[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = copy[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) free(copy);
}

extern "C" __global__ void fill(unsigned long long size, int* blocks) {
    while (malloc(size)) ++*blocks;
}

extern "C" __global__ void misuse(int what, int* out) {
    int* p = (int*)malloc(3 * sizeof(int));
    if (what == 0) p[3] = 1;
    if (what == 1) *out = p[1];
    if (what == 2) { free(p); p[0] = 1; }
    if (what == 3) { free(p); free(p); }
    if (what == 4) free(p + 1);
    if (what == 5) free(out);
    if (what == 6) {
        out[threadIdx.x] = 0;
        __shared__ int* shared;
        if (threadIdx.x == 0) shared = p;
        __syncthreads();
        shared[0] = threadIdx.x;
    }
    free(nullptr);
}
"""


@pytest.fixture(autouse=True)
def all_checks():
    loom.sim.configure(sanitize="all")
    yield
    loom.sim.configure(sanitize="default")


@pytest.fixture(scope="module")
def ptx():
    library = find("lib/libnvrtc.so*")
    if library is None:
        pytest.skip("NVRTC is not installed (PyPI: nvidia-cuda-nvrtc)")
    log, ptx = Nvrtc(library).compile(SOURCE, "compute_80")
    assert ptx, log
    return ptx


@pytest.fixture(scope="module")
def module(ptx):
    return loom.sim.Module(ptx)


def test_each_thread_has_its_own_block(module):
    sizes = np.arange(300, dtype=np.int32) % 47
    out = np.zeros(300, np.int32)
    # Again and again, since what is freed is given to others.
    for _ in range(3):
        module.kernel("sums").launch(5, 64, [sizes, out, 300])
    np.testing.assert_array_equal(out, [np.sum(np.arange(size) ** 2) for size in sizes])


def test_blocks_outlive_launches(module):
    heads = np.zeros(32, np.uint64)
    out = np.zeros(32, np.int32)
    module.kernel("build").launch(1, 32, [heads, 4])
    module.kernel("consume").launch(1, 32, [heads, out])
    expected = []
    for i in range(32):
        total = 0
        for value in reversed(range(4 + i)):
            total = (total * 3 + value) % 2**32
        expected.append(total)
    np.testing.assert_array_equal(out.view(np.uint32), expected)
    with pytest.raises(loom.SanitizerError, match=r"inside the 16-byte allocation at .* that was freed"):
        module.kernel("consume").launch(1, 32, [heads, out])


def test_a_block_shares_what_a_thread_allocates(module):
    x = np.arange(96, dtype=np.float32)
    out = np.zeros(96, np.float32)
    module.kernel("reversed").launch(1, 96, [x, out])
    np.testing.assert_array_equal(out, x[::-1])


def test_a_full_heap_gives_null(ptx):
    # Each module has a heap of 8 MiB.
    blocks = np.zeros(1, np.int32)
    module = loom.sim.Module(ptx)
    module.kernel("fill").launch(1, 1, [1 << 20, blocks])
    assert blocks[0] == 8
    out = np.zeros(1, np.int32)
    module.kernel("sums").launch(1, 1, [np.array([1 << 20], np.int32), out, 1])
    assert out[0] == -1


@pytest.mark.parametrize(
    "what, message",
    [
        (0, r"out-of-bounds access .*: 4 bytes at .* 0 bytes past the end of the 12 bytes that `malloc` gave at 0x"),
        (1, r"uninitialised memory .* nobody wrote byte 4 of the 12 bytes that `malloc` gave"),
        (2, r"out-of-bounds access .* inside the 12-byte allocation at 0x\w+ that was freed"),
        (3, r"invalid free .* is no block of `malloc`: it is inside the 12-byte allocation at 0x\w+ that was freed"),
        (4, r"invalid free .* it is 4 bytes into the 12 bytes that `malloc` gave"),
        (5, r"invalid free .* it is 0 bytes into `misuse_param_1` \(256 bytes"),
        (6, r"data race .* write of byte 0 of the 12 bytes that `malloc` gave"),
    ],
)
def test_misuse_is_found(module, what, message):
    with pytest.raises(loom.SanitizerError, match=message):
        module.kernel("misuse").launch(1, 64 if what == 6 else 1, [what, np.zeros(64, np.int32)])
