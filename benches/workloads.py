"""The workloads of the benchmark, once per peer.

`build(peer)` gives, by workload name, a function without arguments that runs the workload once on prepared arrays,
and a function that gives its result for checking. All peers use float32 and preallocated outputs; random numbers come
from the same generator, except in NumPy, which uses its own.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import vector_workloads

SAXPY_N = 10_000_000
NBODY_N = 4096
STENCIL_N = 2048
MANDELBROT_N = 1024
MANDELBROT_LIMIT = 256
MONTE_CARLO_THREADS = 1_000_000
MONTE_CARLO_SAMPLES = 16
SOFTENING = 1e-3

Workload = tuple[Callable[[], Any], Callable[[], Any]]


def inputs() -> dict[str, Any]:
    g = np.random.default_rng(7)
    f32 = np.float32
    return {
        "x": g.standard_normal(SAXPY_N, dtype=f32),
        "y": g.standard_normal(SAXPY_N, dtype=f32),
        "position": [g.standard_normal(NBODY_N, dtype=f32) for _ in range(3)],
        "mass": g.random(NBODY_N, dtype=f32),
        "force": [np.zeros(NBODY_N, f32) for _ in range(3)],
        "grid": g.standard_normal((STENCIL_N, STENCIL_N), dtype=f32),
        "grid_out": np.zeros((STENCIL_N, STENCIL_N), f32),
        "image": np.zeros((MANDELBROT_N, MANDELBROT_N), np.int32),
        "hits": np.zeros(1, np.int32),
    }


def numpy_workloads(d: dict[str, Any]) -> dict[str, Workload]:
    x, y, (px, py, pz), m = d["x"], d["y"], d["position"], d["mass"]
    scratch = np.empty_like(x)
    a = np.float32(0.5)

    def saxpy() -> None:
        np.multiply(x, a, out=scratch)
        np.add(scratch, y, out=y)

    def nbody() -> None:
        dx = px[None, :] - px[:, None]
        dy = py[None, :] - py[:, None]
        dz = pz[None, :] - pz[:, None]
        r2 = dx * dx + dy * dy + dz * dz + np.float32(SOFTENING)
        w = m / (r2 * np.sqrt(r2))
        d["force"][0][:] = (dx * w).sum(1)
        d["force"][1][:] = (dy * w).sum(1)
        d["force"][2][:] = (dz * w).sum(1)

    def stencil() -> None:
        g, out = d["grid"], d["grid_out"]
        inner = out[1:-1, 1:-1]
        np.add(g[:-2, 1:-1], g[2:, 1:-1], out=inner)
        np.add(inner, g[1:-1, :-2], out=inner)
        np.add(inner, g[1:-1, 2:], out=inner)
        np.multiply(inner, np.float32(0.25), out=inner)

    def mandelbrot() -> None:
        n = MANDELBROT_N
        c = (
            np.linspace(-2, 0.5, n, dtype=np.float32)[None, :]
            + 1j * np.linspace(-1.25, 1.25, n, dtype=np.float32)[:, None]
        ).ravel()
        z = np.zeros_like(c)
        live = np.arange(c.size)
        count = np.zeros(c.size, np.int32)
        for _ in range(MANDELBROT_LIMIT):
            z = z * z + c[live]
            keep = z.real * z.real + z.imag * z.imag <= 4
            live, z = live[keep], z[keep]
            count[live] += 1
        d["image"][:] = count.reshape(n, n)

    generator = np.random.default_rng(1)

    def monte_carlo() -> None:
        hits = 0
        for _ in range(MONTE_CARLO_SAMPLES):
            u = generator.random(MONTE_CARLO_THREADS, dtype=np.float32)
            v = generator.random(MONTE_CARLO_THREADS, dtype=np.float32)
            hits += int(np.count_nonzero(u * u + v * v < 1))
        d["hits"][0] = hits

    return with_results(d, saxpy, nbody, stencil, mandelbrot, monte_carlo)


def with_results(
    d: dict[str, Any], saxpy: Any, nbody: Any, stencil: Any, mandelbrot: Any, monte_carlo: Any
) -> dict[str, Workload]:
    return {
        "saxpy": (saxpy, lambda: d["y"][:1000]),
        "nbody": (nbody, lambda: np.stack(d["force"])),
        "stencil": (stencil, lambda: d["grid_out"][1:-1, 1:-1]),
        "mandelbrot": (mandelbrot, lambda: d["image"]),
        "monte_carlo": (monte_carlo, lambda: d["hits"][0] * 4 / (MONTE_CARLO_THREADS * MONTE_CARLO_SAMPLES)),
    }


def numba_workloads(d: dict[str, Any], fastmath: bool) -> dict[str, Workload]:
    import numba
    from numba import njit, prange

    f32, u32 = numba.float32, numba.uint32
    jit = njit(parallel=True, fastmath=fastmath)
    zero, half, quarter, softening = np.float32(0), np.float32(0.5), np.float32(0.25), np.float32(SOFTENING)

    @jit
    def saxpy(a: Any, x: Any, y: Any) -> None:
        for i in prange(x.size):
            y[i] = a * x[i] + y[i]

    @jit
    def nbody(px: Any, py: Any, pz: Any, m: Any, fx: Any, fy: Any, fz: Any) -> None:
        for i in prange(px.size):
            ax, ay, az = zero, zero, zero
            for j in range(px.size):
                dx = px[j] - px[i]
                dy = py[j] - py[i]
                dz = pz[j] - pz[i]
                r2 = dx * dx + dy * dy + dz * dz + softening
                w = m[j] / (r2 * np.sqrt(r2))
                ax += dx * w
                ay += dy * w
                az += dz * w
            fx[i] = ax
            fy[i] = ay
            fz[i] = az

    @jit
    def stencil(g: Any, out: Any) -> None:
        for i in prange(1, g.shape[0] - 1):
            for j in range(1, g.shape[1] - 1):
                out[i, j] = quarter * (g[i - 1, j] + g[i + 1, j] + g[i, j - 1] + g[i, j + 1])

    sx, sy = np.float32(2.5 / (MANDELBROT_N - 1)), np.float32(2.5 / (MANDELBROT_N - 1))
    ox, oy, four = np.float32(-2), np.float32(-1.25), np.float32(4)

    @jit
    def mandelbrot(image: Any) -> None:
        for i in prange(image.shape[0]):
            for j in range(image.shape[1]):
                cx = ox + f32(j) * sx
                cy = oy + f32(i) * sy
                zx, zy = zero, zero
                count = 0
                while count < MANDELBROT_LIMIT:
                    t = zx * zx - zy * zy + cx
                    zy = zx * zy + zx * zy + cy
                    zx = t
                    if zx * zx + zy * zy > four:
                        break
                    count += 1
                image[i, j] = count

    @njit(inline="always")
    def pcg(state: Any) -> Any:
        b = u32(u32(state * u32(747796405)) + u32(2891336453))
        c = u32(u32((b >> u32((b >> u32(28)) + u32(4))) ^ b) * u32(277803737))
        return u32((c >> u32(22)) ^ c)

    one, scale = np.float32(1), np.float32(1 / 16777216)

    @jit
    def monte_carlo(seed: Any, threads: int, samples: int) -> int:
        hits = 0
        for i in prange(threads):
            state = pcg(u32(u32(seed) + pcg(u32(i))))
            count = 0
            for _ in range(samples):
                state = pcg(state)
                u = f32(state >> u32(8)) * scale
                state = pcg(state)
                v = f32(state >> u32(8)) * scale
                if u * u + v * v < one:
                    count += 1
            hits += count
        return hits

    def run_monte_carlo() -> None:
        d["hits"][0] = monte_carlo(7, MONTE_CARLO_THREADS, MONTE_CARLO_SAMPLES)

    p, f = d["position"], d["force"]
    return with_results(
        d,
        lambda: saxpy(half, d["x"], d["y"]),
        lambda: nbody(*p, d["mass"], *f),
        lambda: stencil(d["grid"], d["grid_out"]),
        lambda: mandelbrot(d["image"]),
        run_monte_carlo,
    )


def kernel_workloads(d: dict[str, Any], wp: Any, share: Callable[[Any], Any]) -> dict[str, Workload]:
    """The same kernels for Warp and Polyloom: only the import differs."""
    sx = sy = 2.5 / (MANDELBROT_N - 1)
    limit, samples, softening = MANDELBROT_LIMIT, MONTE_CARLO_SAMPLES, SOFTENING

    @wp.kernel
    def saxpy(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = a * x[i] + y[i]

    @wp.kernel
    def nbody(
        px: wp.array(dtype=float),
        py: wp.array(dtype=float),
        pz: wp.array(dtype=float),
        m: wp.array(dtype=float),
        fx: wp.array(dtype=float),
        fy: wp.array(dtype=float),
        fz: wp.array(dtype=float),
    ):
        i = wp.tid()
        ax = float(0.0)
        ay = float(0.0)
        az = float(0.0)
        for j in range(px.shape[0]):
            dx = px[j] - px[i]
            dy = py[j] - py[i]
            dz = pz[j] - pz[i]
            r2 = dx * dx + dy * dy + dz * dz + softening
            w = m[j] / (r2 * wp.sqrt(r2))
            ax += dx * w
            ay += dy * w
            az += dz * w
        fx[i] = ax
        fy[i] = ay
        fz[i] = az

    @wp.kernel
    def stencil(g: wp.array(dtype=float, ndim=2), out: wp.array(dtype=float, ndim=2)):
        i, j = wp.tid()
        if i > 0 and j > 0 and i < g.shape[0] - 1 and j < g.shape[1] - 1:
            out[i, j] = 0.25 * (g[i - 1, j] + g[i + 1, j] + g[i, j - 1] + g[i, j + 1])

    @wp.kernel
    def mandelbrot(image: wp.array(dtype=int, ndim=2)):
        i, j = wp.tid()
        cx = -2.0 + float(j) * sx
        cy = -1.25 + float(i) * sy
        zx = float(0.0)
        zy = float(0.0)
        count = int(0)
        while count < limit:
            t = zx * zx - zy * zy + cx
            zy = zx * zy + zx * zy + cy
            zx = t
            if zx * zx + zy * zy > 4.0:
                break
            count += 1
        image[i, j] = count

    @wp.kernel
    def monte_carlo(seed: int, hits: wp.array(dtype=int)):
        i = wp.tid()
        state = wp.rand_init(seed, i)
        count = int(0)
        for _s in range(samples):
            u = wp.randf(state)
            v = wp.randf(state)
            if u * u + v * v < 1.0:
                count += 1
        wp.atomic_add(hits, 0, count)

    x, y, m, g, out, image, hits = (share(d[k]) for k in ("x", "y", "mass", "grid", "grid_out", "image", "hits"))
    p, f = [share(a) for a in d["position"]], [share(a) for a in d["force"]]
    plane = (STENCIL_N, STENCIL_N)

    def run_monte_carlo() -> None:
        d["hits"][0] = 0
        wp.launch(monte_carlo, MONTE_CARLO_THREADS, inputs=[7, hits], device="cpu")

    return with_results(
        d,
        lambda: wp.launch(saxpy, SAXPY_N, inputs=[0.5, x, y], device="cpu"),
        lambda: wp.launch(nbody, NBODY_N, inputs=[*p, m, *f], device="cpu"),
        lambda: wp.launch(stencil, plane, inputs=[g, out], device="cpu"),
        lambda: wp.launch(mandelbrot, (MANDELBROT_N, MANDELBROT_N), inputs=[image], device="cpu"),
        run_monte_carlo,
    )


def c_workloads(d: dict[str, Any]) -> dict[str, Workload]:
    """The workloads that the memory bounds, as plain C loops over the same arrays."""
    import ctypes

    library = ctypes.CDLL(os.environ["C_LOOPS"])
    pointers = {k: ctypes.c_void_p(d[k].ctypes.data) for k in ("x", "y", "grid", "grid_out")}
    n, side = ctypes.c_long(SAXPY_N), ctypes.c_long(STENCIL_N)

    def saxpy() -> None:
        library.saxpy(n, ctypes.c_float(0.5), pointers["x"], pointers["y"])

    def stencil() -> None:
        library.stencil(side, pointers["grid"], pointers["grid_out"])

    return {
        "saxpy": (saxpy, lambda: d["y"][:1000]),
        "stencil": (stencil, lambda: d["grid_out"][1:-1, 1:-1]),
    }


def build(peer: str) -> dict[str, Workload]:
    d = inputs()
    if peer == "c loop":
        return c_workloads(d)
    if peer == "numpy":
        return numpy_workloads(d)
    if peer in ("numba", "numba fastmath"):
        fastmath = peer != "numba"
        return numba_workloads(d, fastmath) | vector_workloads.numba_workloads(fastmath)
    if peer == "warp":
        import warp

        warp.config.quiet = True
        warp.init()
        scalars = kernel_workloads(d, warp, lambda a: warp.array(a, device="cpu", copy=False))
        share = lambda a, dtype: warp.array(a, dtype=dtype, device="cpu", copy=False)  # noqa: E731
        return scalars | vector_workloads.kernel_workloads(warp, share)
    import polyloom

    polyloom.config.float_mode = "fast" if peer == "polyloom fast" else "strict"
    return kernel_workloads(d, polyloom, lambda a: a) | vector_workloads.kernel_workloads(polyloom, lambda a, _: a)


def expected() -> dict[str, Any]:
    """Results from float64 NumPy, after one run."""
    d = inputs()
    saxpy = 0.5 * d["x"][:1000].astype(np.float64) + d["y"][:1000]
    n = MANDELBROT_N
    c = (-2 + 2.5 / (n - 1) * np.arange(n))[None, :] + 1j * (-1.25 + 2.5 / (n - 1) * np.arange(n))[:, None]
    z, count = np.zeros_like(c), np.zeros(c.shape, np.int32)
    inside = np.ones(c.shape, bool)
    for _ in range(MANDELBROT_LIMIT):
        z[inside] = z[inside] ** 2 + c[inside]
        inside &= z.real**2 + z.imag**2 <= 4
        count += inside
    p = [a.astype(np.float64) for a in d["position"]]
    force = np.zeros((3, NBODY_N))
    for i in range(NBODY_N):
        delta = [a - a[i] for a in p]
        r2 = sum(a * a for a in delta) + SOFTENING
        w = d["mass"] / (r2 * np.sqrt(r2))
        force[:, i] = [(a * w).sum() for a in delta]
    g = d["grid"].astype(np.float64)
    inner = 0.25 * (g[:-2, 1:-1] + g[2:, 1:-1] + g[1:-1, :-2] + g[1:-1, 2:])
    scalars = {"saxpy": saxpy, "nbody": force, "stencil": inner, "mandelbrot": count, "monte_carlo": math.pi}
    return scalars | vector_workloads.expected()
