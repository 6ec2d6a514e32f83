"""A plume of smoke: two-dimensional stable fluids on a 512 x 512 grid, drawn to smoke.png.

Each step moves velocity and density along the flow (semi-Lagrangian advection), lets warm smoke rise, and projects
the velocity onto divergence-free fields with Jacobi iterations for the pressure (Stam, "Stable Fluids", SIGGRAPH
1999). The same steps in NumPy, on the same grid, give the time to compare with and check the result.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import polyloom as loom

JACOBI_ITERATIONS = 30
DT = 0.5
BUOYANCY = 0.12


@loom.func
def bilinear(field: loom.array(dtype=float, ndim=2), y: float, x: float):
    """The value between the grid points around (y, x), clamped to the grid."""
    rows = field.shape[0]
    columns = field.shape[1]
    y = loom.clamp(y, 0.0, float(rows) - 1.001)
    x = loom.clamp(x, 0.0, float(columns) - 1.001)
    i = int(y)
    j = int(x)
    fy = y - float(i)
    fx = x - float(j)
    top = field[i, j] * (1.0 - fx) + field[i, j + 1] * fx
    bottom = field[i + 1, j] * (1.0 - fx) + field[i + 1, j + 1] * fx
    return top * (1.0 - fy) + bottom * fy


@loom.kernel
def advect(
    u: loom.array(dtype=float, ndim=2),
    v: loom.array(dtype=float, ndim=2),
    source: loom.array(dtype=float, ndim=2),
    out: loom.array(dtype=float, ndim=2),
    fade: float,
):
    i, j = loom.tid()
    out[i, j] = fade * bilinear(source, float(i) - DT * v[i, j], float(j) - DT * u[i, j])


@loom.kernel
def add_forces(v: loom.array(dtype=float, ndim=2), density: loom.array(dtype=float, ndim=2)):
    i, j = loom.tid()
    v[i, j] -= DT * BUOYANCY * density[i, j]


@loom.kernel
def add_smoke(density: loom.array(dtype=float, ndim=2), u: loom.array(dtype=float, ndim=2), sway: float):
    i, j = loom.tid()
    n = density.shape[0]
    y = float(i) - 0.92 * float(n)
    x = float(j) - 0.5 * float(density.shape[1])
    if x * x + y * y < (0.04 * float(n)) ** 2:
        density[i, j] = 1.0
        u[i, j] = sway


@loom.kernel
def divergence(
    u: loom.array(dtype=float, ndim=2), v: loom.array(dtype=float, ndim=2), out: loom.array(dtype=float, ndim=2)
):
    i, j = loom.tid()
    if i > 0 and j > 0 and i < u.shape[0] - 1 and j < u.shape[1] - 1:
        out[i, j] = -0.5 * (u[i, j + 1] - u[i, j - 1] + v[i + 1, j] - v[i - 1, j])


@loom.kernel
def jacobi(
    p: loom.array(dtype=float, ndim=2), div: loom.array(dtype=float, ndim=2), out: loom.array(dtype=float, ndim=2)
):
    i, j = loom.tid()
    if i > 0 and j > 0 and i < p.shape[0] - 1 and j < p.shape[1] - 1:
        out[i, j] = 0.25 * (div[i, j] + p[i - 1, j] + p[i + 1, j] + p[i, j - 1] + p[i, j + 1])


@loom.kernel
def subtract_gradient(
    p: loom.array(dtype=float, ndim=2), u: loom.array(dtype=float, ndim=2), v: loom.array(dtype=float, ndim=2)
):
    i, j = loom.tid()
    if i > 0 and j > 0 and i < p.shape[0] - 1 and j < p.shape[1] - 1:
        u[i, j] -= 0.5 * (p[i, j + 1] - p[i, j - 1])
        v[i, j] -= 0.5 * (p[i + 1, j] - p[i - 1, j])
    else:
        u[i, j] = 0.0
        v[i, j] = 0.0


def sway(step: int) -> np.float32:
    """Sideways velocity of the source, in grid cells per unit of time."""
    return np.float32(1.5 * np.sin(0.05 * step))


class PolyloomFluid:
    def __init__(self, n: int) -> None:
        self.shape = (n, n)
        self.u, self.v, self.density, self.scratch_u, self.scratch_v, self.scratch_density, self.div, self.p, self.q = (
            np.zeros(self.shape, np.float32) for _ in range(9)
        )

    def step(self, step: int) -> None:
        shape = self.shape
        loom.launch(add_smoke, shape, [self.density, self.u, sway(step)])
        loom.launch(add_forces, shape, [self.v, self.density])
        loom.launch(divergence, shape, [self.u, self.v, self.div])
        for _ in range(JACOBI_ITERATIONS // 2):
            loom.launch(jacobi, shape, [self.p, self.div, self.q])
            loom.launch(jacobi, shape, [self.q, self.div, self.p])
        loom.launch(subtract_gradient, shape, [self.p, self.u, self.v])
        loom.launch(advect, shape, [self.u, self.v, self.u, self.scratch_u, 1.0])
        loom.launch(advect, shape, [self.u, self.v, self.v, self.scratch_v, 1.0])
        loom.launch(advect, shape, [self.u, self.v, self.density, self.scratch_density, 0.998])
        self.u, self.scratch_u = self.scratch_u, self.u
        self.v, self.scratch_v = self.scratch_v, self.v
        self.density, self.scratch_density = self.scratch_density, self.density


class NumpyFluid:
    def __init__(self, n: int) -> None:
        self.n = n
        self.u, self.v, self.density, self.p = (np.zeros((n, n), np.float32) for _ in range(4))
        self.i, self.j = np.indices((n, n), dtype=np.float32)
        y = self.i - np.float32(0.92) * np.float32(n)
        x = self.j - np.float32(0.5) * np.float32(n)
        self.source = x * x + y * y < (np.float32(0.04) * np.float32(n)) ** 2

    def bilinear(self, field: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
        one = np.float32(1)
        y = np.clip(y, np.float32(0), np.float32(self.n) - np.float32(1.001))
        x = np.clip(x, np.float32(0), np.float32(self.n) - np.float32(1.001))
        i = y.astype(np.int32)
        j = x.astype(np.int32)
        fy = y - i.astype(np.float32)
        fx = x - j.astype(np.float32)
        top = field[i, j] * (one - fx) + field[i, j + 1] * fx
        bottom = field[i + 1, j] * (one - fx) + field[i + 1, j + 1] * fx
        return top * (one - fy) + bottom * fy

    def step(self, step: int) -> None:
        half, quarter, dt = np.float32(0.5), np.float32(0.25), np.float32(DT)
        self.density[self.source] = 1
        self.u[self.source] = sway(step)
        self.v -= dt * np.float32(BUOYANCY) * self.density
        u, v, p = self.u, self.v, self.p
        div = -half * (u[1:-1, 2:] - u[1:-1, :-2] + v[2:, 1:-1] - v[:-2, 1:-1])
        for _ in range(JACOBI_ITERATIONS):
            p[1:-1, 1:-1] = quarter * (div + p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:])
        u[1:-1, 1:-1] -= half * (p[1:-1, 2:] - p[1:-1, :-2])
        v[1:-1, 1:-1] -= half * (p[2:, 1:-1] - p[:-2, 1:-1])
        for field in (u, v):
            field[0] = field[-1] = 0
            field[:, 0] = field[:, -1] = 0
        y, x = self.i - dt * v, self.j - dt * u
        new_u, new_v = self.bilinear(u, y, x), self.bilinear(v, y, x)
        self.density = np.float32(0.998) * self.bilinear(self.density, y, x)
        self.u, self.v = new_u, new_v


def picture(density: np.ndarray, path: Path) -> None:
    from PIL import Image

    d = np.clip(density, 0.0, 1.0)[..., None]
    ramp = np.array([[10, 12, 30], [70, 60, 120], [210, 120, 90], [255, 235, 200]], np.float32)
    t = np.sqrt(d) * (len(ramp) - 1)
    low = np.minimum(t.astype(int), len(ramp) - 2)
    colour = ramp[low[..., 0]] * (1 - (t - low)) + ramp[low[..., 0] + 1] * (t - low)
    Image.fromarray(colour.astype(np.uint8)).save(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=512, help="grid points along each side")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--numpy-steps", type=int, default=20, help="steps to run in NumPy for comparison")
    parser.add_argument("--out", type=Path, default=Path("smoke.png"))
    options = parser.parse_args()

    fluid, reference = PolyloomFluid(options.size), NumpyFluid(options.size)
    started = time.perf_counter()
    for step in range(options.numpy_steps):
        reference.step(step)
    numpy_step = (time.perf_counter() - started) / options.numpy_steps

    started = time.perf_counter()
    for step in range(options.numpy_steps):
        fluid.step(step)
    first = time.perf_counter() - started
    error = float(np.abs(fluid.density - reference.density).max())

    started = time.perf_counter()
    for step in range(options.numpy_steps, options.steps):
        fluid.step(step)
    rest = time.perf_counter() - started
    step_time = rest / max(1, options.steps - options.numpy_steps)

    picture(fluid.density, options.out)
    n, steps = options.size, options.steps
    print(f"smoke on a {n} x {n} grid, {steps} steps, {JACOBI_ITERATIONS} pressure sweeps each")
    print(f"  polyloom  {first + rest:7.2f} s in all, compiling included; {step_time * 1e3:7.2f} ms a step once warm")
    print(
        f"  numpy     {numpy_step * steps:7.2f} s for {steps} steps, extrapolated from {options.numpy_steps}; "
        f"{numpy_step * 1e3:7.2f} ms a step"
    )
    print(
        f"  ratio     {numpy_step / step_time:7.1f} x; largest difference after {options.numpy_steps} steps {error:.1e}"
    )
    print(f"  picture   {options.out}")


if __name__ == "__main__":
    main()
