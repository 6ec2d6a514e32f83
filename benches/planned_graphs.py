"""Thirty-seven tensor functions at small and large extents, in Polyloom, NumPy, JAX and PyTorch, for `planner.py`.

`cases()` names each function at each of its extents, `own()` has them in `ops`, and `arrays(xp)` in what NumPy and JAX
share; `torch_arrays()` is PyTorch in the same notation, and `torch_own()` has PyTorch's own functions where it has one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Functions = dict[str, Callable[..., Any]]
Shape = tuple[int, ...]

# For each function the shapes of its inputs, small and large.
SHAPES: dict[str, list[list[Shape]]] = {
    # Elementwise chains.
    "rectified sum": [[(1000,)] * 2, [(100_000,)] * 2, [(4_000_000,)] * 2],
    "gelu of an affine map": [[(64, 64), (64,), (64,)], [(2048, 1024), (1024,), (1024,)]],
    "chain of twelve": [[(10_000,)] * 2, [(1_000_000,)] * 2],
    "polynomial": [[(1000,)], [(1_000_000,)]],
    "gates": [[(32, 128)] * 4, [(512, 2048)] * 4],
    "choice": [[(10_000,)], [(2_000_000,)]],
    "squared differences": [[(200,), (200,)], [(2000,), (2000,)]],
    "Black-Scholes": [[(1000,)] * 3, [(500_000,)] * 3],
    # Reductions.
    "sum": [[(1000,)], [(10_000_000,)]],
    "mean square": [[(10_000,)], [(4_000_000,)]],
    "variance of columns": [[(256, 64)], [(4096, 1024)]],
    "largest of rows": [[(64, 1000)], [(4096, 1024)]],
    "log-sum-exp of rows": [[(64, 100)], [(4096, 1024)]],
    "length of rows": [[(1000, 3)], [(1_000_000, 3)]],
    "weighted mean": [[(1000,)] * 2, [(2_000_000,)] * 2],
    "running sums": [[(64, 256)], [(1000, 4000)]],
    # Operations on rows.
    "softmax": [[(32, 64)], [(4096, 1024)]],
    "layer norm": [[(32, 64), (64,), (64,)], [(4096, 1024), (1024,), (1024,)]],
    "root mean square norm": [[(32, 64), (64,)], [(2048, 1024), (1024,)]],
    "rows of unit length": [[(100, 16)], [(100_000, 64)]],
    # Products.
    "product": [[(32, 32), (32, 32)], [(256, 256), (256, 256)], [(1024, 1024), (1024, 1024)]],
    "affine layer": [[(64, 48), (48, 32), (32,)], [(1024, 512), (512, 256), (256,)]],
    "two layers": [[(32, 64), (64, 64), (64,), (64, 10)], [(512, 784), (784, 256), (256,), (256, 10)]],
    "matrix by vector": [[(256, 256), (256,)], [(4096, 4096), (4096,)]],
    "product of batches": [[(16, 16, 16), (16, 16, 16)], [(64, 64, 64), (64, 64, 64)]],
    "Gram matrix": [[(1000, 8)], [(16_384, 64)]],
    "transposed factors": [[(64, 64), (64, 64)], [(512, 512), (512, 512)]],
    # Attention and networks.
    "attention": [[(2, 32, 16)] * 3, [(8, 512, 64)] * 3],
    "feed-forward block": [
        [(16, 32), (32,), (32,), (128, 32), (32, 128)],
        [(128, 256), (256,), (256,), (1024, 256), (256, 1024)],
    ],
    # Convolutions.
    "convolution": [[(1, 8, 16, 16), (8, 8, 3, 3)], [(1, 64, 56, 56), (64, 64, 3, 3)]],
    "convolution and pooling": [[(1, 3, 32, 32), (16, 3, 3, 3)], [(8, 16, 64, 64), (32, 16, 3, 3)]],
    # Sorts.
    "sort": [[(1000,)], [(1_000_000,)]],
    "sort of rows": [[(50, 100)], [(1000, 1000)]],
    "largest 8 of rows": [[(16, 500)], [(64, 50_000)]],
    # Steps of simulations.
    "five-point stencil": [[(64, 64)], [(2048, 1024)]],
    "wave step": [[(64, 64), (64, 64)], [(512, 512), (512, 512)]],
    "forces of bodies": [[(64, 3)], [(512, 3)]],
}


def cases() -> dict[str, tuple[str, list[Shape]]]:
    """The function and the shapes of its inputs, by the name of the case."""
    named = {}
    for function, by_size in SHAPES.items():
        for shapes in by_size:
            sizes = " · ".join("×".join(map(str, shape)) for shape in dict.fromkeys(shapes))
            named[f"{function}, {sizes}"] = (function, shapes)
    return named


def inputs(function: str, shapes: list[Shape]) -> tuple[Any, ...]:
    g = np.random.default_rng(7)
    if function == "Black-Scholes":
        return tuple(g.uniform(0.5, 2.0, shape).astype(np.float32) for shape in shapes)
    normal = [g.standard_normal(shape, dtype=np.float32) for shape in shapes]
    if function == "weighted mean":
        normal[0] = np.abs(normal[0]) + np.float32(0.1)
    if function in ("feed-forward block", "two layers"):
        normal = [each * np.float32(each.shape[-1] ** -0.5) if each.ndim > 1 else each for each in normal]
    return tuple(normal)


def own() -> Functions:
    from polyloom import ops

    def rectified(a, b):
        return ops.multiply(ops.relu(ops.add(a, b)), a)

    def gelu(x, w, b):
        return ops.gelu(ops.add(ops.multiply(x, w), b), approximate="tanh")

    def chain(x, y):
        t = ops.multiply(ops.tanh(ops.add(ops.multiply(x, 1.5), y)), x)
        t = ops.multiply(ops.subtract(ops.sqrt(ops.add(ops.exp(t), 1.0)), y), 0.25)
        t = ops.tanh(t)
        return ops.add(ops.multiply(t, t), x)

    def polynomial(x):
        t = ops.add(ops.multiply(x, 0.1), -0.2)
        t = ops.add(ops.multiply(t, x), 0.3)
        t = ops.add(ops.multiply(t, x), -0.4)
        return ops.add(ops.multiply(t, x), 0.5)

    def gates(i, f, g, c):
        return ops.add(ops.multiply(ops.sigmoid(f), c), ops.multiply(ops.sigmoid(i), ops.tanh(g)))

    def choice(x):
        return ops.where(ops.greater(x, 0.0), ops.exp(ops.negative(x)), ops.multiply(x, x))

    def differences(x, y):
        d = ops.subtract(ops.reshape(x, (-1, 1)), ops.reshape(y, (1, -1)))
        return ops.multiply(d, d)

    def black_scholes(price, strike, years):
        root = ops.multiply(ops.sqrt(years), 0.3)
        d1 = ops.divide(ops.add(ops.log(ops.divide(price, strike)), ops.multiply(years, 0.095)), root)
        d2 = ops.subtract(d1, root)
        n1 = ops.multiply(ops.add(ops.erf(ops.multiply(d1, 0.70710678)), 1.0), 0.5)
        n2 = ops.multiply(ops.add(ops.erf(ops.multiply(d2, 0.70710678)), 1.0), 0.5)
        discounted = ops.multiply(strike, ops.exp(ops.multiply(years, -0.05)))
        return ops.subtract(ops.multiply(price, n1), ops.multiply(discounted, n2))

    def total(x):
        return ops.sum(x)

    def mean_square(x):
        return ops.mean(ops.multiply(x, x))

    def variance(x):
        return ops.var(x, axes=0)

    def largest(x):
        return ops.max(x, axes=1)

    def logsumexp(x):
        return ops.logsumexp(x, axes=1)

    def length(x):
        return ops.norm(x, axes=1)

    def weighted(w, x):
        return ops.divide(ops.sum(ops.multiply(w, x)), ops.sum(w))

    def running(x):
        return ops.cumsum(x, 1)

    def softmax(x):
        return ops.softmax(x, axis=1)

    def layer_norm(x, w, b):
        return ops.layer_norm(x, w, b)

    def rms_norm(x, w):
        square = ops.mean(ops.multiply(x, x), axes=1, keepdims=True)
        return ops.multiply(ops.multiply(x, ops.rsqrt(ops.add(square, 1e-6))), w)

    def unit(x):
        return ops.divide(x, ops.add(ops.norm(x, axes=1, keepdims=True), 1e-6))

    def product(a, b):
        return ops.matmul(a, b)

    def affine(x, w, b):
        return ops.relu(ops.add(ops.matmul(x, w), b))

    def two_layers(x, w, b, v):
        return ops.matmul(ops.relu(ops.add(ops.matmul(x, w), b)), v)

    def gram(x):
        return ops.matmul(ops.transpose(x), x)

    def transposed(a, b):
        return ops.matmul(ops.transpose(a), ops.transpose(b))

    def attention(q, k, v):
        return ops.attention(q, k, v)

    def block(x, w, b, up, down):
        h = ops.gelu(ops.linear(ops.layer_norm(x, w, b), up), "tanh")
        return ops.add(x, ops.linear(h, down))

    def convolution(x, w):
        return ops.conv2d(x, w, padding=1)

    def pooled(x, w):
        return ops.max_pool2d(ops.relu(ops.conv2d(x, w, padding=1)), 2)

    def sort(x):
        return ops.sort(x)

    def top(x):
        return ops.gather(x, ops.topk_indices(x, 8), -1)

    def stencil(x):
        north, south = ops.slice(x, (0, 1), (-2, -1)), ops.slice(x, (2, 1), (None, -1))
        west, east = ops.slice(x, (1, 0), (-1, -2)), ops.slice(x, (1, 2), (-1, None))
        around = ops.add(ops.add(ops.add(north, south), west), east)
        return ops.add(ops.multiply(ops.slice(x, (1, 1), (-1, -1)), 0.5), ops.multiply(around, 0.125))

    def wave(u, v):
        north, south = ops.concat([u[-1:], u[:-1]]), ops.concat([u[1:], u[:1]])
        west, east = ops.concat([u[:, -1:], u[:, :-1]], axis=1), ops.concat([u[:, 1:], u[:, :1]], axis=1)
        spread = ops.subtract(ops.add(ops.add(north, south), ops.add(west, east)), ops.multiply(u, 4.0))
        return ops.add(v, ops.multiply(spread, 0.03))

    def forces(p):
        d = ops.subtract(ops.reshape(p, (1, -1, 3)), ops.reshape(p, (-1, 1, 3)))
        square = ops.add(ops.sum(ops.multiply(d, d), axes=2, keepdims=True), 0.01)
        return ops.sum(ops.divide(d, ops.multiply(square, ops.sqrt(square))), axes=1)

    return by_name(
        rectified, gelu, chain, polynomial, gates, choice, differences, black_scholes, total, mean_square, variance,
        largest, logsumexp, length, weighted, running, softmax, layer_norm, rms_norm, unit, product, affine,
        two_layers, gram, transposed, attention, block, convolution, pooled, sort, top, stencil, wave, forces,
    )  # fmt: skip


def by_name(
    rectified: Any, gelu: Any, chain: Any, polynomial: Any, gates: Any, choice: Any, differences: Any,
    black_scholes: Any, total: Any, mean_square: Any, variance: Any, largest: Any, logsumexp: Any, length: Any,
    weighted: Any, running: Any, softmax: Any, layer_norm: Any, rms_norm: Any, unit: Any, product: Any, affine: Any,
    two_layers: Any, gram: Any, transposed: Any, attention: Any, block: Any, convolution: Any, pooled: Any, sort: Any,
    top: Any, stencil: Any, wave: Any, forces: Any,
) -> Functions:  # fmt: skip
    return {
        "rectified sum": rectified,
        "gelu of an affine map": gelu,
        "chain of twelve": chain,
        "polynomial": polynomial,
        "gates": gates,
        "choice": choice,
        "squared differences": differences,
        "Black-Scholes": black_scholes,
        "sum": total,
        "mean square": mean_square,
        "variance of columns": variance,
        "largest of rows": largest,
        "log-sum-exp of rows": logsumexp,
        "length of rows": length,
        "weighted mean": weighted,
        "running sums": running,
        "softmax": softmax,
        "layer norm": layer_norm,
        "root mean square norm": rms_norm,
        "rows of unit length": unit,
        "product": product,
        "affine layer": affine,
        "two layers": two_layers,
        "matrix by vector": product,
        "product of batches": product,
        "Gram matrix": gram,
        "transposed factors": transposed,
        "attention": attention,
        "feed-forward block": block,
        "convolution": convolution,
        "convolution and pooling": pooled,
        "sort": sort,
        "sort of rows": sort,
        "largest 8 of rows": top,
        "five-point stencil": stencil,
        "wave step": wave,
        "forces of bodies": forces,
    }


def arrays(xp: Any, erf: Any, convolve: Any, pool: Any, root: Any) -> Functions:
    """The functions over a namespace like NumPy's, with what it lacks given beside it."""

    def gelu(z):
        return 0.5 * z * (1.0 + xp.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z * z * z)))

    def softmax(x):
        e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
        return e / xp.sum(e, axis=-1, keepdims=True)

    def layer_norm(x, w, b):
        centred = x - xp.mean(x, axis=1, keepdims=True)
        return centred / xp.sqrt(xp.mean(centred * centred, axis=1, keepdims=True) + 1e-5) * w + b

    def chain(x, y):
        t = xp.tanh(x * 1.5 + y) * x
        t = xp.tanh((xp.sqrt(xp.exp(t) + 1.0) - y) * 0.25)
        return t * t + x

    def gates(i, f, g, c):
        return c / (1.0 + xp.exp(-f)) + xp.tanh(g) / (1.0 + xp.exp(-i))

    def differences(x, y):
        d = x[:, None] - y[None, :]
        return d * d

    def black_scholes(price, strike, years):
        spread = xp.sqrt(years) * 0.3
        d1 = (xp.log(price / strike) + years * 0.095) / spread
        n1, n2 = (erf(d1 * 0.70710678) + 1.0) * 0.5, (erf((d1 - spread) * 0.70710678) + 1.0) * 0.5
        return price * n1 - strike * xp.exp(years * -0.05) * n2

    def logsumexp(x):
        most = xp.max(x, axis=1, keepdims=True)
        return (xp.log(xp.sum(xp.exp(x - most), axis=1, keepdims=True)) + most)[:, 0]

    def attention(q, k, v):
        return softmax(xp.matmul(q, xp.swapaxes(k, 1, 2)) * q.shape[-1] ** -0.5) @ v

    def stencil(x):
        around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
        return x[1:-1, 1:-1] * 0.5 + around * 0.125

    def wave(u, v):
        around = xp.roll(u, 1, 0) + xp.roll(u, -1, 0) + (xp.roll(u, 1, 1) + xp.roll(u, -1, 1))
        return v + (around - u * 4.0) * 0.03

    def forces(p):
        d = p[None, :, :] - p[:, None, :]
        square = xp.sum(d * d, axis=2, keepdims=True) + 0.01
        return xp.sum(d / (square * xp.sqrt(square)), axis=1)

    def top(x):
        return xp.flip(xp.sort(x)[:, -8:], (1,))

    def rms_norm(x, w):
        return x / xp.sqrt(xp.mean(x * x, axis=1, keepdims=True) + 1e-6) * w

    def block(x, w, b, up, down):
        return x + gelu(layer_norm(x, w, b) @ up.T) @ down.T

    zero = root(0.0)
    return by_name(
        lambda a, b: xp.maximum(a + b, zero) * a,
        lambda x, w, b: gelu(x * w + b),
        chain,
        lambda x: (((0.1 * x - 0.2) * x + 0.3) * x - 0.4) * x + 0.5,
        gates,
        lambda x: xp.where(x > 0, xp.exp(-x), x * x),
        differences,
        black_scholes,
        lambda x: xp.sum(x),
        lambda x: xp.mean(x * x),
        lambda x: xp.mean((x - xp.mean(x, axis=0)) ** 2, axis=0),
        lambda x: xp.max(x, axis=1),
        logsumexp,
        lambda x: xp.sqrt(xp.sum(x * x, axis=1)),
        lambda w, x: xp.sum(w * x) / xp.sum(w),
        lambda x: xp.cumsum(x, 1),
        softmax,
        layer_norm,
        rms_norm,
        lambda x: x / (xp.sqrt(xp.sum(x * x, axis=1, keepdims=True)) + 1e-6),
        lambda a, b: a @ b,
        lambda x, w, b: xp.maximum(x @ w + b, zero),
        lambda x, w, b, v: xp.maximum(x @ w + b, zero) @ v,
        lambda x: x.T @ x,
        lambda a, b: a.T @ b.T,
        attention,
        block,
        convolve,
        lambda x, w: pool(xp.maximum(convolve(x, w), zero)),
        lambda x: xp.sort(x),
        top,
        stencil,
        wave,
        forces,
    )


def numpy_functions(number: Any = np.float32) -> Functions:
    """The functions in NumPy, which has no `erf`, convolution or pooling: those are by what is near at hand."""

    def erf(x: Any) -> Any:
        # Abramowitz and Stegun, 7.1.26, to 1.5e-7.
        t = 1 / (1 + 0.3275911 * np.abs(x))
        p = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
        return np.copysign(1 - p * np.exp(-x * x), x)

    def convolve(x: Any, w: Any) -> Any:
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        return np.einsum("ncijab,ocab->noij", windows, w, optimize=True)

    def pool(x: Any) -> Any:
        n, c, h, w = x.shape
        return x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))

    functions = arrays(np, erf, convolve, pool, number)

    def largest_of_rows(x: Any) -> Any:
        return np.sort(np.partition(x, -8, axis=1)[:, -8:], axis=1)[:, ::-1]

    return {**functions, "largest 8 of rows": largest_of_rows, "variance of columns": lambda x: x.var(axis=0)}


def jax_functions() -> Functions:
    import jax
    import jax.numpy as jnp

    def convolve(x: Any, w: Any) -> Any:
        order = ("NCHW", "OIHW", "NCHW")
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=order)

    def pool(x: Any) -> Any:
        window = (1, 1, 2, 2)
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")

    functions = arrays(jnp, jax.scipy.special.erf, convolve, pool, float)
    functions["largest 8 of rows"] = lambda x: jax.lax.top_k(x, 8)[0]
    return {name: jax.jit(function) for name, function in functions.items()}


def torch_functions(compiles: bool) -> Functions:
    import torch
    from torch.nn import functional

    class TorchArrays:
        """PyTorch in NumPy's notation."""

        max, min, sort = torch.amax, torch.amin, staticmethod(lambda x: torch.sort(x)[0])

        def __getattr__(self, name: str) -> Any:
            return getattr(torch, name)

    def convolve(x: Any, w: Any) -> Any:
        return functional.conv2d(x, w, padding=1)

    functions = arrays(TorchArrays(), torch.erf, convolve, lambda x: functional.max_pool2d(x, 2), torch.tensor)

    def block(x: Any, w: Any, b: Any, up: Any, down: Any) -> Any:
        h = functional.gelu(functional.linear(functional.layer_norm(x, x.shape[1:], w, b), up), approximate="tanh")
        return x + functional.linear(h, down)

    functions |= {
        "gelu of an affine map": lambda x, w, b: functional.gelu(x * w + b, approximate="tanh"),
        "gates": lambda i, f, g, c: torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g),
        "variance of columns": lambda x: x.var(0, correction=0),
        "log-sum-exp of rows": lambda x: torch.logsumexp(x, 1),
        "length of rows": lambda x: torch.linalg.norm(x, dim=1),
        "softmax": lambda x: torch.softmax(x, 1),
        "layer norm": lambda x, w, b: functional.layer_norm(x, x.shape[1:], w, b),
        "rows of unit length": lambda x: x / (torch.linalg.norm(x, dim=1, keepdim=True) + 1e-6),
        "attention": functional.scaled_dot_product_attention,
        "feed-forward block": block,
        "largest 8 of rows": lambda x: torch.topk(x, 8)[0],
    }
    return {name: torch.compile(function) if compiles else function for name, function in functions.items()}
