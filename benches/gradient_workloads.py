"""The workloads of `gradients.py`, once per peer, in float32.

`BUILDERS[peer](scale)` gives, by workload name, what computes the result alone, what computes the result and its
gradient with respect to all arrays, what sets the gradient of the result before each of those (which is not timed), and
what gives the gradients for checking. The gradient of the result is the same random numbers for every peer.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

STEPS, DT, SOFTENING = 1000, 0.01, 1e-2
# Of the time loop with `jax.checkpoint`: this many steps of the outer loop, about the square root of all.
OUTER_STEPS = 25
# A limit of the tapes' memory: so little that loops go by checkpoints.
LIMITS = {"time loop, 128 KiB of tapes": 128 << 10}
CHECKPOINTED = "time loop, jax.checkpoint"


class Workload(NamedTuple):
    forward: Callable[[], Any]
    gradient: Callable[[], Any]
    prepare: Callable[[], Any]
    gradients: Callable[[], list[Any]]
    outputs: list[Any] | None = None
    # The bytes that the gradient takes for what it keeps of the forward pass, where that is known.
    memory: int | None = None


class Inputs(NamedTuple):
    arrays: list[Any]
    output_gradients: list[Any]


def inputs(scale: float) -> dict[str, Inputs]:
    """By workload, the arrays that it reads and the gradients of what it computes."""
    g = np.random.default_rng(11)

    def normal(*shape: int) -> Any:
        return g.standard_normal(shape, dtype=np.float32)

    saxpy, bodies = int(10_000_000 * scale), int(2048 * scale**0.5)
    side, pendulums = int(2048 * scale**0.5), int(16384 * scale)
    starts = [normal(pendulums), normal(pendulums), 1.0 + g.random(pendulums, dtype=np.float32)]
    return {
        "saxpy": Inputs([normal(saxpy), normal(saxpy)], [normal(saxpy)]),
        "nbody": Inputs([*normal(3, bodies), g.random(bodies, dtype=np.float32)], [*normal(3, bodies)]),
        "stencil": Inputs([normal(side, side)], [normal(side, side)]),
        "time loop": Inputs(starts, [normal(pendulums)]),
    }


def kernel_workloads(
    wp: Any, share: Callable[[Any], Any], no_gradient: Any, accumulates: bool, scale: float
) -> dict[str, Workload]:
    """The same kernels for Warp and Polyloom: only the import differs, and whether gradients have to be zero first."""
    softening, dt = SOFTENING, DT

    @wp.kernel
    def saxpy(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = a * x[i] + y[i]

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
    def pendulum(
        angle: wp.array(dtype=float),
        speed: wp.array(dtype=float),
        length: wp.array(dtype=float),
        steps: int,
        out: wp.array(dtype=float),
    ):
        i = wp.tid()
        theta = angle[i]
        omega = speed[i]
        pull = dt * 9.81 / length[i]
        for _k in range(steps):
            omega = omega - pull * wp.sin(theta)
            theta = theta + dt * omega
        out[i] = theta

    def workload(kernel: Any, data: Inputs, numbers: dict[int, Any]) -> Workload:
        """`numbers` are the arguments that are no arrays, by their place among the inputs."""
        outputs = [np.zeros_like(each) for each in data.output_gradients]
        gradients = [np.zeros_like(each) for each in data.arrays]
        seeds = [each.copy() for each in data.output_gradients]
        zeroed = [share(each) for each in gradients]
        args, adjoints = [share(each) for each in data.arrays], list(zeroed)
        for place, value in numbers.items():
            args.insert(place, value)
            adjoints.insert(place, no_gradient(value))
        given, given_adjoints = [share(each) for each in outputs], [share(each) for each in seeds]
        dim = outputs[0].shape

        def forward() -> None:
            wp.launch(kernel, dim, inputs=args, outputs=given, device="cpu")

        def gradient() -> None:
            forward()
            for each in zeroed if accumulates else ():
                each.zero_()
            wp.launch(
                kernel,
                dim,
                inputs=args,
                outputs=given,
                adjoint=True,
                adj_inputs=adjoints,
                adj_outputs=given_adjoints,
                device="cpu",
                **({} if accumulates else {"accumulate": False}),
            )

        def prepare() -> None:
            for seed, value in zip(seeds, data.output_gradients, strict=True):
                np.copyto(seed, value)

        return Workload(forward, gradient, prepare, lambda: gradients, outputs)

    d = inputs(scale)
    return {
        "saxpy": workload(saxpy, d["saxpy"], {0: 0.5}),
        "nbody": workload(nbody, d["nbody"], {}),
        "stencil": workload(stencil, d["stencil"], {}),
        "time loop": workload(pendulum, d["time loop"], {3: STEPS}),
    }


def warp_workloads(scale: float) -> dict[str, Workload]:
    import warp

    warp.config.quiet = True
    warp.init()
    return kernel_workloads(warp, lambda a: warp.array(a, device="cpu", copy=False), lambda value: value, True, scale)


def polyloom_workloads(scale: float) -> dict[str, Workload]:
    import polyloom

    found = kernel_workloads(polyloom, lambda a: polyloom.array(a, copy=False), lambda value: None, False, scale)
    loop, seeds = found["time loop"], inputs(scale)["time loop"].output_gradients

    def within(limit: int, run: Callable[[], Any]) -> Any:
        before, polyloom.config.tape_memory = polyloom.config.tape_memory, limit
        try:
            return run()
        finally:
            polyloom.config.tape_memory = before

    def memory() -> int:
        with polyloom.Tape() as tape:
            loop.forward()
        tape.backward(grads=zip(loop.outputs, seeds, strict=True))
        return tape.memory.loops

    for name, limit in {"time loop": polyloom.config.tape_memory, **LIMITS}.items():
        gradient = functools.partial(within, limit, loop.gradient)
        found[name] = loop._replace(gradient=gradient, memory=within(limit, memory))
    return found


Functions = dict[str, Callable[..., Any]]


def array_functions(xp: Any, sine: Any, inner_stencil: Any, time_loop: Any) -> Functions:
    """What PyTorch and JAX compute, with whole arrays."""

    def nbody(px: Any, py: Any, pz: Any, m: Any) -> Any:
        dx, dy, dz = (p[None, :] - p[:, None] for p in (px, py, pz))
        r2 = dx * dx + dy * dy + dz * dz + SOFTENING
        w = m[None, :] / (r2 * xp.sqrt(r2))
        return (dx * w).sum(1), (dy * w).sum(1), (dz * w).sum(1)

    def stencil(g: Any) -> Any:
        return inner_stencil(g, 0.25 * (g[:-2, 1:-1] + g[2:, 1:-1] + g[1:-1, :-2] + g[1:-1, 2:]))

    def pendulum(angle: Any, speed: Any, length: Any) -> Any:
        pull = DT * 9.81 / length

        def step(theta: Any, omega: Any) -> tuple[Any, Any]:
            omega = omega - pull * sine(theta)
            return theta + DT * omega, omega

        return time_loop(step, angle, speed)

    return {"saxpy": lambda x, y: 0.5 * x + y, "nbody": nbody, "stencil": stencil, "time loop": pendulum}


def torch_workloads(scale: float) -> dict[str, Workload]:
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

    def time_loop(step: Any, theta: Any, omega: Any) -> Any:
        for _ in range(STEPS):
            theta, omega = step(theta, omega)
        return theta

    def inner_stencil(g: Any, inside: Any) -> Any:
        return torch.nn.functional.pad(inside, (1, 1, 1, 1))

    def workload(function: Callable[..., Any], data: Inputs) -> Workload:
        leaves = [torch.from_numpy(each.copy()).requires_grad_() for each in data.arrays]
        seeds = [torch.from_numpy(each) for each in data.output_gradients]
        found: list[Any] = []

        def forward() -> None:
            with torch.no_grad():
                function(*leaves)

        def gradient() -> None:
            results = function(*leaves)
            results = results if isinstance(results, tuple) else (results,)
            found[:] = torch.autograd.grad(results, leaves, seeds)

        return Workload(forward, gradient, lambda: None, lambda: [each.numpy() for each in found])

    data = inputs(scale)
    functions = array_functions(torch, torch.sin, inner_stencil, time_loop)
    return {name: workload(function, data[name]) for name, function in functions.items()}


def jax_workloads(scale: float) -> dict[str, Workload]:
    import jax
    import jax.numpy as jnp

    def loop(step: Any, carry: Any, length: int) -> Any:
        return jax.lax.scan(lambda carry, _: (step(carry), None), carry, None, length=length)[0]

    def time_loop(step: Any, theta: Any, omega: Any) -> Any:
        return loop(lambda carry: step(*carry), (theta, omega), STEPS)[0]

    def checkpointed(step: Any, theta: Any, omega: Any) -> Any:
        @jax.checkpoint
        def some_steps(carry: Any) -> Any:
            return loop(lambda carry: step(*carry), carry, STEPS // OUTER_STEPS)

        return loop(some_steps, (theta, omega), OUTER_STEPS)[0]

    def inner_stencil(g: Any, inside: Any) -> Any:
        return jnp.pad(inside, 1)

    def workload(name: str, function: Callable[..., Any], data: Inputs) -> Workload:
        arrays = [jnp.asarray(each) for each in data.arrays]
        seeds = [jnp.asarray(each) for each in data.output_gradients]

        def both(arrays: Any, seeds: Any) -> Any:
            results, back = jax.vjp(function, *arrays)
            return results, back(tuple(seeds) if isinstance(results, tuple) else seeds[0])

        compiled_forward = jax.jit(function).lower(*arrays).compile()
        compiled = jax.jit(both).lower(arrays, seeds).compile()
        found: list[Any] = []

        def gradient() -> None:
            found[:] = jax.block_until_ready(compiled(arrays, seeds)[1])

        return Workload(
            lambda: jax.block_until_ready(compiled_forward(*arrays)),
            gradient,
            lambda: None,
            lambda: [np.asarray(each) for each in found],
            memory=compiled.memory_analysis().temp_size_in_bytes if "loop" in name else None,
        )

    functions = array_functions(jnp, jnp.sin, inner_stencil, time_loop)
    functions[CHECKPOINTED] = array_functions(jnp, jnp.sin, inner_stencil, checkpointed)["time loop"]
    data = inputs(scale)
    return {name: workload(name, function, data[name.split(",")[0]]) for name, function in functions.items()}


BUILDERS = {"polyloom": polyloom_workloads, "warp": warp_workloads, "jax": jax_workloads, "torch": torch_workloads}
