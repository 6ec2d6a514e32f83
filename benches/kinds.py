"""Ordinary kernels of many kinds, against Numba and plain C loop nests; `make bench` writes docs/kinds.md by it.

`build(peer)` gives the workloads of a peer by name, as `workloads.py` does. Peers: `polyloom`, `polyloom fast`,
`numba`, `numba fastmath`, and `gcc`, `gcc fast`, `clang`, `clang fast`, which compile `kinds.c`; `numpy` for kernels
with barriers.

    python benches/kinds.py [--rounds 5] [--threads 1 2] [--only NAME …] [--out docs/kinds.md]
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import turns

HERE = Path(__file__).resolve().parent
STRICT = ["numba", "gcc", "clang"]
FAST = ["numba fastmath", "gcc fast", "clang fast"]
ROWS, COLUMNS = 4096, 1024
SPARSE_ROWS = 200_000
PARTICLES = 50_000
PIXELS = 1 << 24
CELLS = 2048
LINE = 1 << 22
LATTICE = 512
PRODUCT = 512
VOLUME = 192
SOFTMAX_ROWS, SOFTMAX_COLUMNS = 2048, 1024
SCANS = 1 << 22
TRANSPOSED = (2048, 1536)

Workload = tuple[Callable[[], Any], Callable[[], Any]]


def inputs() -> dict[str, Any]:
    """The arrays that all peers work on."""
    g = np.random.default_rng(11)
    f32, i32 = np.float32, np.int32

    def ragged(rows: int, most: int, columns: int) -> tuple[Any, Any]:
        starts = np.zeros(rows + 1, i32)
        starts[1:] = np.cumsum(g.integers(0, most, rows))
        return starts, g.integers(0, columns, starts[-1]).astype(i32)

    starts, columns = ragged(SPARSE_ROWS, 33, SPARSE_ROWS)
    first, neighbours = ragged(PARTICLES, 49, PARTICLES)
    # Lists of neighbours name particles that are near in memory.
    neighbours = ((np.repeat(np.arange(PARTICLES), np.diff(first)) + neighbours % 512) % PARTICLES).astype(i32)
    return {
        "x": g.standard_normal((ROWS, COLUMNS), dtype=f32),
        "y": np.zeros((ROWS, COLUMNS), f32),
        "starts": starts,
        "columns": columns,
        "values": g.standard_normal(columns.size, dtype=f32),
        "dense": g.standard_normal(SPARSE_ROWS, dtype=f32),
        "result": np.zeros(SPARSE_ROWS, f32),
        "first": first,
        "neighbours": neighbours,
        "positions": g.standard_normal((PARTICLES, 3), dtype=f32),
        "forces": np.zeros((PARTICLES, 3), f32),
        "pixels": g.integers(0, 256, PIXELS).astype(np.uint8),
        "counts": np.zeros(256, i32),
        "samples": g.standard_normal(PIXELS, dtype=f32),
        "bins": np.zeros(64, i32),
        "cells": g.integers(0, 2, (CELLS, CELLS)).astype(np.uint8),
        "cells_out": np.zeros((CELLS, CELLS), np.uint8),
        "line": g.integers(0, 2, LINE).astype(np.uint8),
        "line_out": np.zeros(LINE, np.uint8),
        "f": (1.0 + 0.1 * g.random((9, LATTICE, LATTICE), dtype=f32)).astype(f32),
        "g": np.zeros((9, LATTICE, LATTICE), f32),
        "a": g.standard_normal((PRODUCT, PRODUCT), dtype=f32),
        "b": g.standard_normal((PRODUCT, PRODUCT), dtype=f32),
        "c": np.zeros((PRODUCT, PRODUCT), f32),
        "volume": g.standard_normal((VOLUME,) * 3, dtype=f32),
        "volume_out": np.zeros((VOLUME,) * 3, f32),
        "logits": g.standard_normal((SOFTMAX_ROWS, SOFTMAX_COLUMNS), dtype=f32),
        "weights": np.zeros((SOFTMAX_ROWS, SOFTMAX_COLUMNS), f32),
        "numbers": g.integers(0, 1 << 20, PIXELS).astype(i32),
        "numbers_out": np.zeros(PIXELS, i32),
        "matrix": g.standard_normal(TRANSPOSED, dtype=f32),
        "matrix_out": np.zeros(TRANSPOSED[::-1], f32),
        "scanned": np.zeros(SCANS, f32),
    }


RESULTS = {
    "filter rows": "y",
    "running sums": "y",
    "sparse product": "result",
    "neighbour forces": "forces",
    "histogram": "counts",
    "histogram of floats": "bins",
    "life": "cells_out",
    "rule 110": "line_out",
    "lattice Boltzmann": "g",
    "matrix product": "c",
    "stencil in 3-D": "volume_out",
    "softmax": "weights",
    "tiled product": "c",
    "quotients": "numbers_out",
    "transposition by index": "matrix_out",
}


def compiled(compiler: str, flags: list[str], folder: Path) -> Any:
    library = folder / f"{compiler}{'_fast' if len(flags) > 1 else ''}.so"
    command = [compiler, "-O3", "-march=native", "-shared", "-fPIC", *flags, str(HERE / "kinds.c"), "-o", str(library)]
    # Clang may be there without its OpenMP, and is no peer of two threads then.
    for openmp in (["-fopenmp"], []) if os.environ.get("OMP_NUM_THREADS") == "1" else (["-fopenmp"],):
        if subprocess.run([*command, *openmp, "-lm"], capture_output=True).returncode == 0:
            return ctypes.CDLL(str(library))
    print(f"{compiler} does not compile kinds.c with OpenMP: install libomp-dev", file=sys.stderr)
    return None


def c_workloads(peer: str, d: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    compiler, _, fast = peer.partition(" ")
    flags = ["-ffast-math", "-fopenmp-simd"] if fast else ["-ffp-contract=off"]
    c = compiled(compiler, flags, Path(tempfile.mkdtemp()))
    if c is None:
        return {}
    f = ctypes.c_float

    def call(name: str, *arguments: Any) -> Callable[[], Any]:
        function = getattr(c, name)
        given = [ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else a for a in arguments]
        return lambda: function(*given)

    return {
        "filter rows": call("filter_rows", d["x"], d["y"], ROWS, COLUMNS, f(0.9), f(0.1)),
        "running sums": call("running_sums", d["x"], d["y"], ROWS, COLUMNS),
        "sparse product": call(
            "sparse_product", d["starts"], d["columns"], d["values"], d["dense"], d["result"], SPARSE_ROWS
        ),
        "neighbour forces": call(
            "neighbour_forces", d["first"], d["neighbours"], d["positions"], d["forces"], PARTICLES
        ),
        "histogram": call("histogram", d["pixels"], d["counts"], PIXELS),
        "histogram of floats": call("histogram_floats", d["samples"], d["bins"], PIXELS, f(-4.0), f(8.0)),
        "life": call("life", d["cells"], d["cells_out"], CELLS),
        "rule 110": call("rule", d["line"], d["line_out"], LINE, 110),
        "lattice Boltzmann": call("lattice", d["f"], d["g"], LATTICE, LATTICE, f(1.2)),
        "matrix product": call("product", d["a"], d["b"], d["c"], PRODUCT),
        "stencil in 3-D": call("stencil3", d["volume"], d["volume_out"], VOLUME),
        "softmax": call("softmax", d["logits"], d["weights"], SOFTMAX_ROWS, SOFTMAX_COLUMNS),
        "tiled product": call("product", d["a"], d["b"], d["c"], PRODUCT),
        "quotients": call("divisions", d["numbers"], d["numbers_out"], PIXELS, 37, 1000),
        "transposition by index": call(
            "transpose", d["matrix"], d["matrix_out"], d["matrix"].size, TRANSPOSED[1], TRANSPOSED[0]
        ),
    }


def numpy_workloads(d: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    def softmax() -> None:
        x, y = d["logits"], d["weights"]
        np.subtract(x, x.max(axis=1, keepdims=True), out=y)
        np.exp(y, out=y)
        np.divide(y, y.sum(axis=1, keepdims=True), out=y)

    return {"softmax": softmax, "tiled product": lambda: np.matmul(d["a"], d["b"], out=d["c"])}


def numba_workloads(d: dict[str, Any], fast: bool) -> dict[str, Callable[[], Any]]:
    import math

    import numba
    from numba import prange

    jit = numba.njit(parallel=True, fastmath=fast)
    f32 = np.float32

    @jit
    def filter_rows(x, y, a, b):
        for i in prange(x.shape[0]):
            state = f32(0)
            for j in range(x.shape[1]):
                state = a * state + b * x[i, j]
                y[i, j] = state

    @jit
    def running_sums(x, y):
        for i in prange(x.shape[0]):
            total = f32(0)
            for j in range(x.shape[1]):
                total += x[i, j]
                y[i, j] = total

    @jit
    def sparse_product(starts, columns, values, x, y):
        for i in prange(y.size):
            total = f32(0)
            for k in range(starts[i], starts[i + 1]):
                total += values[k] * x[columns[k]]
            y[i] = total

    @jit
    def neighbour_forces(first, neighbours, p, f):
        for i in prange(p.shape[0]):
            x, y, z = p[i, 0], p[i, 1], p[i, 2]
            fx, fy, fz = f32(0), f32(0), f32(0)
            for k in range(first[i], first[i + 1]):
                j = neighbours[k]
                dx, dy, dz = p[j, 0] - x, p[j, 1] - y, p[j, 2] - z
                r2 = dx * dx + dy * dy + dz * dz + f32(0.01)
                w = f32(1) / (r2 * r2)
                fx += w * dx
                fy += w * dy
                fz += w * dz
            f[i, 0], f[i, 1], f[i, 2] = fx, fy, fz

    @jit
    def histogram(x, counts):
        n_parts = numba.get_num_threads()
        parts = np.zeros((n_parts, 256), np.int32)
        size = (x.size + n_parts - 1) // n_parts
        for part in prange(n_parts):
            own = parts[part]
            for i in range(part * size, min(x.size, (part + 1) * size)):
                own[x[i]] += 1
        counts[:] = parts.sum(axis=0)

    @jit
    def histogram_floats(x, counts, low, scale):
        n_parts = numba.get_num_threads()
        parts = np.zeros((n_parts, 64), np.int32)
        size = (x.size + n_parts - 1) // n_parts
        for part in prange(n_parts):
            own = parts[part]
            for i in range(part * size, min(x.size, (part + 1) * size)):
                bin_ = int((x[i] - low) * scale)
                if bin_ >= 0 and bin_ < 64:
                    own[bin_] += 1
        counts[:] = parts.sum(axis=0)

    @jit
    def life(a, b):
        n = a.shape[0]
        for i in prange(n):
            up, down = (i + n - 1) % n, (i + 1) % n
            for j in range(n):
                left, right = (j + n - 1) % n, (j + 1) % n
                count = (
                    a[up, left] + a[up, j] + a[up, right] + a[i, left] + a[i, right] + a[down, left] + a[down, j]
                ) + a[down, right]
                b[i, j] = count == 3 or (count == 2 and a[i, j] == 1)

    @jit
    def rule(a, b, number):
        n = a.size
        for i in prange(n):
            b[i] = (number >> (4 * a[(i + n - 1) % n] + 2 * a[i] + a[(i + 1) % n])) & 1

    ex, ey = (0, 1, 0, -1, 0, 1, -1, -1, 1), (0, 0, 1, 0, -1, 1, 1, -1, -1)
    weights = tuple(f32(w) for w in (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36))

    @jit
    def lattice(f, g, omega):
        ny, nx = f.shape[1], f.shape[2]
        for y in prange(ny):
            h = np.empty(9, f32)
            for x in range(nx):
                rho, ux, uy = f32(0), f32(0), f32(0)
                for q in range(9):
                    h[q] = f[q, (y - ey[q] + ny) % ny, (x - ex[q] + nx) % nx]
                    rho += h[q]
                    ux += f32(ex[q]) * h[q]
                    uy += f32(ey[q]) * h[q]
                ux /= rho
                uy /= rho
                square = f32(1.5) * (ux * ux + uy * uy)
                for q in range(9):
                    e = f32(3) * (f32(ex[q]) * ux + f32(ey[q]) * uy)
                    equilibrium = weights[q] * rho * (f32(1) + e + f32(0.5) * e * e - square)
                    g[q, y, x] = h[q] + omega * (equilibrium - h[q])

    @jit
    def product(a, b, c):
        for i in prange(a.shape[0]):
            for j in range(b.shape[1]):
                total = f32(0)
                for k in range(a.shape[1]):
                    total += a[i, k] * b[k, j]
                c[i, j] = total

    @jit
    def stencil(a, b):
        n = a.shape[0]
        for i in prange(1, n - 1):
            for j in range(1, n - 1):
                for k in range(1, n - 1):
                    around = a[i - 1, j, k] + a[i + 1, j, k] + a[i, j - 1, k] + a[i, j + 1, k] + a[i, j, k - 1]
                    b[i, j, k] = f32(0.4) * a[i, j, k] + f32(0.1) * (around + a[i, j, k + 1])

    @jit
    def softmax(x, y):
        for i in prange(x.shape[0]):
            most = x[i, 0]
            for j in range(x.shape[1]):
                most = max(most, x[i, j])
            total = f32(0)
            for j in range(x.shape[1]):
                y[i, j] = math.exp(x[i, j] - most)
                total += y[i, j]
            for j in range(x.shape[1]):
                y[i, j] /= total

    @jit
    def divisions(x, y, width, height):
        for i in prange(x.size):
            y[i] = x[i] // width * height + x[i] % width

    @jit
    def transpose(x, y, width, height):
        for i in prange(x.size):
            y[i] = x[i % height * width + i // height]

    flat, flat_out = d["matrix"].ravel(), d["matrix_out"].ravel()
    i32 = np.int32
    return {
        "filter rows": lambda: filter_rows(d["x"], d["y"], f32(0.9), f32(0.1)),
        "running sums": lambda: running_sums(d["x"], d["y"]),
        "sparse product": lambda: sparse_product(d["starts"], d["columns"], d["values"], d["dense"], d["result"]),
        "neighbour forces": lambda: neighbour_forces(d["first"], d["neighbours"], d["positions"], d["forces"]),
        "histogram": lambda: histogram(d["pixels"], d["counts"]),
        "histogram of floats": lambda: histogram_floats(d["samples"], d["bins"], f32(-4), f32(8)),
        "life": lambda: life(d["cells"], d["cells_out"]),
        "rule 110": lambda: rule(d["line"], d["line_out"], 110),
        "lattice Boltzmann": lambda: lattice(d["f"], d["g"], f32(1.2)),
        "matrix product": lambda: product(d["a"], d["b"], d["c"]),
        "stencil in 3-D": lambda: stencil(d["volume"], d["volume_out"]),
        "softmax": lambda: softmax(d["logits"], d["weights"]),
        "tiled product": lambda: product(d["a"], d["b"], d["c"]),
        "quotients": lambda: divisions(d["numbers"], d["numbers_out"], i32(37), i32(1000)),
        "transposition by index": lambda: transpose(flat, flat_out, i32(TRANSPOSED[1]), i32(TRANSPOSED[0])),
    }


def polyloom_workloads(d: dict[str, Any], fast: bool) -> dict[str, Callable[[], Any]]:
    import polyloom as loom

    kernel = loom.kernel(float_mode="fast") if fast else loom.kernel
    f1, f2 = loom.array(dtype=float), loom.array(dtype=float, ndim=2)
    f3 = loom.array(dtype=float, ndim=3)
    i1, b1, b2 = loom.array(dtype=int), loom.array(dtype=loom.uint8), loom.array(dtype=loom.uint8, ndim=2)

    @kernel
    def filter_rows(x: f2, y: f2, a: float, b: float):
        i = loom.tid()
        state = 0.0
        for j in range(x.shape[1]):
            state = a * state + b * x[i, j]
            y[i, j] = state

    @kernel
    def running_sums(x: f2, y: f2):
        i = loom.tid()
        total = 0.0
        for j in range(x.shape[1]):
            total += x[i, j]
            y[i, j] = total

    @kernel
    def sparse_product(starts: i1, columns: i1, values: f1, x: f1, y: f1):
        i = loom.tid()
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += values[k] * x[columns[k]]
        y[i] = total

    @kernel
    def neighbour_forces(first: i1, neighbours: i1, p: loom.array(dtype=loom.vec3), f: loom.array(dtype=loom.vec3)):
        i = loom.tid()
        here = p[i]
        force = loom.vec3(0.0)
        for k in range(first[i], first[i + 1]):
            d = p[neighbours[k]] - here
            r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + 0.01
            force += 1.0 / (r2 * r2) * d
        f[i] = force

    @kernel
    def histogram(x: b1, counts: i1):
        i = loom.tid()
        loom.atomic_add(counts, int(x[i]), 1)

    @kernel
    def histogram_floats(x: f1, counts: i1, low: float, scale: float):
        i = loom.tid()
        bin = int((x[i] - low) * scale)
        if bin >= 0 and bin < 64:
            loom.atomic_add(counts, bin, 1)

    @kernel
    def life(a: b2, b: b2):
        i, j = loom.tid()
        n = a.shape[0]
        up = (i + n - 1) % n
        down = (i + 1) % n
        left = (j + n - 1) % n
        right = (j + 1) % n
        count = int(a[up, left]) + int(a[up, j]) + int(a[up, right]) + int(a[i, left]) + int(a[i, right])
        count += int(a[down, left]) + int(a[down, j]) + int(a[down, right])
        alive = count == 3 or (count == 2 and a[i, j] == loom.uint8(1))
        b[i, j] = loom.uint8(alive)

    @kernel
    def rule(a: b1, b: b1, number: int):
        i = loom.tid()
        n = a.shape[0]
        index = 4 * int(a[(i + n - 1) % n]) + 2 * int(a[i]) + int(a[(i + 1) % n])
        b[i] = loom.uint8((number >> index) & 1)

    ex, ey = (0, 1, 0, -1, 0, 1, -1, -1, 1), (0, 0, 1, 0, -1, 1, 1, -1, -1)
    weights = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)
    vec9 = loom.types.vector(length=9, dtype=float)

    @kernel
    def lattice(f: f3, g: f3, omega: float):
        y, x = loom.tid()
        ny = f.shape[1]
        nx = f.shape[2]
        h = vec9()
        rho = 0.0
        ux = 0.0
        uy = 0.0
        for q in range(9):
            sx = (x - loom.static(ex[q]) + nx) % nx
            sy = (y - loom.static(ey[q]) + ny) % ny
            h[q] = f[q, sy, sx]
            rho += h[q]
            ux += loom.static(float(ex[q])) * h[q]
            uy += loom.static(float(ey[q])) * h[q]
        ux /= rho
        uy /= rho
        square = 1.5 * (ux * ux + uy * uy)
        for q in range(9):
            e = 3.0 * (loom.static(float(ex[q])) * ux + loom.static(float(ey[q])) * uy)
            equilibrium = loom.static(weights[q]) * rho * (1.0 + e + 0.5 * e * e - square)
            g[q, y, x] = h[q] + omega * (equilibrium - h[q])

    @kernel
    def product(a: f2, b: f2, c: f2):
        i, j = loom.tid()
        total = 0.0
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total

    @kernel
    def stencil(a: f3, b: f3):
        i, j, k = loom.tid()
        n = a.shape[0]
        if i > 0 and i < n - 1 and j > 0 and j < n - 1 and k > 0 and k < n - 1:
            around = a[i - 1, j, k] + a[i + 1, j, k] + a[i, j - 1, k] + a[i, j + 1, k] + a[i, j, k - 1]
            b[i, j, k] = 0.4 * a[i, j, k] + 0.1 * (around + a[i, j, k + 1])

    blocks = {"float_mode": "fast"} if fast else {}

    @loom.kernel(block_dim=256, **blocks)
    def softmax(x: f2, y: f2):
        shared = loom.shared_array(shape=256, dtype=float)
        t = loom.thread_idx()
        row = loom.block_idx()
        n = x.shape[1]
        most = float(-loom.inf)
        for j in range(t, n, 256):
            most = loom.max(most, x[row, j])
        shared[t] = most
        loom.sync_threads()
        step = 128
        while step > 0:
            if t < step:
                shared[t] = loom.max(shared[t], shared[t + step])
            loom.sync_threads()
            step = step // 2
        most = shared[0]
        loom.sync_threads()
        total = 0.0
        for j in range(t, n, 256):
            e = loom.exp(x[row, j] - most)
            y[row, j] = e
            total += e
        shared[t] = total
        loom.sync_threads()
        step = 128
        while step > 0:
            if t < step:
                shared[t] = shared[t] + shared[t + step]
            loom.sync_threads()
            step = step // 2
        total = shared[0]
        for j in range(t, n, 256):
            y[row, j] = y[row, j] / total

    @loom.kernel(block_dim=(16, 16), **blocks)
    def tiled(a: f2, b: f2, c: f2):
        left = loom.shared_array(shape=(16, 16), dtype=float)
        right = loom.shared_array(shape=(16, 16), dtype=float)
        tx = loom.thread_idx(0)
        ty = loom.thread_idx(1)
        i = loom.block_idx(1) * 16 + ty
        j = loom.block_idx(0) * 16 + tx
        total = 0.0
        for k in range(a.shape[1] // 16):
            left[ty, tx] = a[i, k * 16 + tx]
            right[ty, tx] = b[k * 16 + ty, j]
            loom.sync_threads()
            for m in range(16):
                total += left[ty, m] * right[m, tx]
            loom.sync_threads()
        c[i, j] = total

    @kernel
    def divisions(x: i1, y: i1, width: int, height: int):
        i = loom.tid()
        y[i] = x[i] // width * height + x[i] % width

    @kernel
    def transpose(x: f1, y: f1, width: int, height: int):
        i = loom.tid()
        y[i] = x[i % height * width + i // height]

    launch = loom.launch
    flat, flat_out = d["matrix"].ravel(), d["matrix_out"].ravel()

    def counted(kernel: Any, n: int, counts: Any, *arguments: Any) -> Callable[[], Any]:
        def run() -> None:
            counts.fill(0)
            launch(kernel, n, arguments)

        return run

    return {
        "filter rows": lambda: launch(filter_rows, ROWS, [d["x"], d["y"], 0.9, 0.1]),
        "running sums": lambda: launch(running_sums, ROWS, [d["x"], d["y"]]),
        "sparse product": lambda: launch(
            sparse_product, SPARSE_ROWS, [d["starts"], d["columns"], d["values"], d["dense"], d["result"]]
        ),
        "neighbour forces": lambda: launch(
            neighbour_forces, PARTICLES, [d["first"], d["neighbours"], d["positions"], d["forces"]]
        ),
        "histogram": counted(histogram, PIXELS, d["counts"], d["pixels"], d["counts"]),
        "histogram of floats": counted(histogram_floats, PIXELS, d["bins"], d["samples"], d["bins"], -4.0, 8.0),
        "life": lambda: launch(life, (CELLS, CELLS), [d["cells"], d["cells_out"]]),
        "rule 110": lambda: launch(rule, LINE, [d["line"], d["line_out"], 110]),
        "lattice Boltzmann": lambda: launch(lattice, (LATTICE, LATTICE), [d["f"], d["g"], 1.2]),
        "matrix product": lambda: launch(product, (PRODUCT, PRODUCT), [d["a"], d["b"], d["c"]]),
        "stencil in 3-D": lambda: launch(stencil, (VOLUME,) * 3, [d["volume"], d["volume_out"]]),
        "softmax": lambda: launch(softmax, SOFTMAX_ROWS * 256, [d["logits"], d["weights"]]),
        "tiled product": lambda: launch(
            tiled, grid=(PRODUCT // 16, PRODUCT // 16), block=(16, 16), inputs=[d["a"], d["b"], d["c"]]
        ),
        "quotients": lambda: launch(divisions, PIXELS, [d["numbers"], d["numbers_out"], 37, 1000]),
        "transposition by index": lambda: launch(transpose, flat.size, [flat, flat_out, TRANSPOSED[1], TRANSPOSED[0]]),
    }


def build(peer: str) -> dict[str, Workload]:
    d = inputs()
    name, _, fast = peer.partition(" ")
    if name == "polyloom":
        runs = polyloom_workloads(d, bool(fast))
    elif name == "numba":
        runs = numba_workloads(d, bool(fast))
    elif name == "numpy":
        runs = numpy_workloads(d)
    else:
        runs = c_workloads(peer, d)
    return {name: (run, lambda name=name: d[RESULTS[name]]) for name, run in runs.items()}


def serve(peer: str, only: list[str]) -> None:
    """Builds and checks a peer's workloads, prints their names, then takes a turn for every name read."""
    stream = turns.answers()
    runs = {}
    expected = np.load(os.environ["EXPECTED"])
    for name, (run, result) in build(peer).items():
        if only and name not in only:
            continue
        result()[...] = 0
        run()
        got, want = np.asarray(result(), np.float64), expected[name]
        error = np.abs(got - want).max() / np.abs(want).max()
        assert error < 2e-3, f"{peer}: {name}: an error of {error}"
        turns.settle(run)
        runs[name] = run
    turns.answer(stream, list(runs))
    for line in sys.stdin:
        turns.answer(stream, turns.turn(runs[line.strip()]))


def measure(threads: int, rounds: int, only: list[str]) -> dict[tuple[str, str], list[float]]:
    """The seconds of every peer's turns, by peer and workload."""
    folder = Path(tempfile.mkdtemp())
    expected = folder / "expected.npz"
    results = {}
    for name, (run, result) in build("gcc").items():
        result()[...] = 0
        run()
        results[name] = np.array(result(), np.float64)
    np.savez(expected, **results)
    os.environ["EXPECTED"] = str(expected)
    # Clang's idle workers would spin through the next peer's turn.
    os.environ["KMP_BLOCKTIME"] = "5"
    peers = ["polyloom", "polyloom fast", *STRICT, *FAST, "numpy"]
    servers = [turns.Server(p, threads, folder, Path(__file__), "--serve", p, "--only", *only) for p in peers]
    samples: dict[tuple[str, str], list[float]] = {}
    for index in range(rounds):
        for name in RESULTS:
            for server in turns.in_turn(servers, index):
                if name in server.has:
                    samples.setdefault((server.peer, name), []).append(server.turn(name))
    for server in servers:
        server.close()
    return samples


def ratio(samples: dict[tuple[str, str], list[float]], peer: str, own: str, name: str) -> float | None:
    """The median over rounds of a peer's time over Polyloom's."""
    if (peer, name) not in samples:
        return None
    return statistics.median(a / b for a, b in zip(samples[peer, name], samples[own, name], strict=True))


def table(samples: dict[tuple[str, str], list[float]], threads: int) -> list[str]:
    lines = [f"## {threads} thread{'s' if threads > 1 else ''}", ""]
    for own, peers in (("polyloom", STRICT), ("polyloom fast", FAST)):
        peers = [*peers, "numpy"]
        lines += [f"| workload | {own} | {' | '.join(peers)} | best peer |", "|---" * (len(peers) + 3) + "|"]
        best = []
        for name in RESULTS:
            if (own, name) not in samples:
                continue
            ratios = [ratio(samples, peer, own, name) for peer in peers]
            best.append(min(r for r in ratios if r is not None))
            cells = ["" if r is None else f"{r:.2f}×" for r in ratios]
            time = turns.pretty(statistics.median(samples[own, name]))
            lines.append(f"| {name} | {time} | {' | '.join(cells)} | {best[-1]:.2f}× |")
        mean = statistics.geometric_mean(best)
        lines += [f"| geometric mean | | {' | ' * len(peers)}{mean:.2f}× |", ""]
    return lines


def page(tables: list[str], rounds: int) -> list[str]:
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if "model name" in line), "")
    versions = [
        subprocess.run([name, "--version"], capture_output=True, text=True).stdout.splitlines()[0]
        for name in ("gcc", "clang")
    ]
    return [
        "# Kernels of many kinds",
        "",
        "Written by `make bench`; all kernels are in `benches/kinds.py` and `benches/kinds.c`.",
        "",
        f"- machine: {model}, {os.cpu_count()} cores; medians of {rounds} round{'s' if rounds > 1 else ''} of turns",
        f"- peers: Numba {version('numba')} with `parallel=True`; {versions[0]}; {versions[1]}; C loop nests",
        "  with OpenMP, `-O3 -march=native`; `-ffp-contract=off` against `strict`, `-ffast-math` against `fast`",
        "",
        "Ratios are the peer's time over Polyloom's: above 1, Polyloom is faster. The kernels with barriers, `softmax`",
        "and `tiled product`, are compared with C loop nests that compute the same, and with NumPy (OpenBLAS).",
        "",
        *tables,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--serve")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.only)
        return
    lines = []
    for threads in options.threads:
        samples = measure(threads, options.rounds, options.only)
        lines += table(samples, threads)
    print("\n".join(lines))
    if options.out:
        options.out.write_text("\n".join(page(lines, options.rounds)))


if __name__ == "__main__":
    main()
