"""Tensor functions, fused, against what else runs them; `make bench` writes docs/fusion.md by it.

`build(peer)` gives the workloads of a peer by name. Peers: `polyloom` (strict), `polyloom fast`, `polyloom unfused`,
which runs op by op, `numpy`, `numexpr`, `numba` (`fastmath`, `parallel`), and if installed `jax`, `torch` and
`torch.compile`. Results are allocated inside of each call, as users call them.

    python benches/fusion.py [--rounds 5] [--threads 1 2] [--only NAME …] [--peers NAME …] [--out docs/fusion.md]
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import turns

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "fuse"))

ROWS, COLUMNS = 4096, 1024
OWN = ["polyloom", "polyloom fast", "polyloom unfused"]
PEERS = ["numpy", "numexpr", "numba", "jax", "torch", "torch.compile"]
MODULES = {"torch.compile": "torch"}
Functions = dict[str, Callable[..., Any]]

# The bytes that a workload moves at least: each input is read and each result written once.
CHAIN = 3 * 4
BYTES = {
    "relu(a + b) * a, 1e3": CHAIN * 1e3,
    "relu(a + b) * a, 1e5": CHAIN * 1e5,
    "relu(a + b) * a, 1e7": CHAIN * 1e7,
    "gelu of an affine map": 8 * ROWS * COLUMNS,
    "softmax of rows": 8 * ROWS * COLUMNS,
    "layer norm": 8 * ROWS * COLUMNS,
    "sum of 1e7": 4e7,
    "chain of twelve": 12e6,
    "one element": 0,
    "variance of columns": 4 * ROWS * COLUMNS,
    "log-sum-exp of rows": 4 * ROWS * COLUMNS,
    "five-point stencil": 8 * ROWS * COLUMNS,
    "distance to a centre": 4 * 3 * 1e6,
    "product of matrices, 32": 0,
    "product of matrices, 256": 0,
    "product of matrices, 1024": 0,
    "product of matrices, 4096": 0,
    "tall product, 16384 × 256 × 64": 0,
    "transposed factors, 512": 0,
    "64 products of 64 × 64": 0,
    "attention, 8 × 512 × 64": 0,
    "convolution, 64 channels of 56 × 56": 0,
    "convolution, 256 channels of 14 × 14": 0,
    "GPT-2 block, 256 tokens": 0,
    "sort of 1e6": 0,
    "sort of 1000 rows": 0,
    "largest 8 of rows": 0,
}


def inputs() -> dict[str, tuple[Any, ...]]:
    """Returns the arrays of each workload, which all peers are given."""
    from gpt2_block import initial

    g = np.random.default_rng(7)

    def normal(*shape: int) -> Any:
        return g.standard_normal(shape, dtype=np.float32)

    a, b = normal(10**7), normal(10**7)
    x, w, c = normal(ROWS, COLUMNS), normal(COLUMNS), normal(COLUMNS)
    return {
        "relu(a + b) * a, 1e3": (a[:1000].copy(), b[:1000].copy()),
        "relu(a + b) * a, 1e5": (a[: 10**5].copy(), b[: 10**5].copy()),
        "relu(a + b) * a, 1e7": (a, b),
        "gelu of an affine map": (x, w, c),
        "softmax of rows": (x,),
        "layer norm": (x, w, c),
        "sum of 1e7": (a,),
        "chain of twelve": (normal(10**6), normal(10**6)),
        "one element": (normal(1), normal(1)),
        "variance of columns": (x,),
        "log-sum-exp of rows": (x,),
        "five-point stencil": (x,),
        "distance to a centre": (normal(10**6, 3), normal(3)),
        "product of matrices, 32": (normal(32, 32), normal(32, 32)),
        "product of matrices, 256": (normal(256, 256), normal(256, 256)),
        "product of matrices, 1024": (normal(1024, 1024), normal(1024, 1024)),
        "product of matrices, 4096": (normal(4096, 4096), normal(4096, 4096)),
        "tall product, 16384 × 256 × 64": (normal(16384, 256), normal(256, 64)),
        "transposed factors, 512": (normal(512, 512), normal(512, 512)),
        "64 products of 64 × 64": (normal(64, 64, 64), normal(64, 64, 64)),
        "attention, 8 × 512 × 64": (normal(8, 512, 64), normal(8, 512, 64), normal(8, 512, 64)),
        "convolution, 64 channels of 56 × 56": (normal(1, 64, 56, 56), normal(64, 64, 3, 3)),
        "convolution, 256 channels of 14 × 14": (normal(1, 256, 14, 14), normal(256, 256, 3, 3)),
        "GPT-2 block, 256 tokens": (normal(1, 256, 768), *initial(g).values()),
        "sort of 1e6": (normal(10**6),),
        "sort of 1000 rows": (normal(1000, 1000),),
        "largest 8 of rows": (normal(64, 50_000),),
    }


def products(matmul: Any, of_transposed: Any) -> Functions:
    names = [name for name in BYTES if "product" in name]
    return {**dict.fromkeys(names, matmul), "transposed factors, 512": of_transposed}


def convolutions(convolution: Any) -> Functions:
    return dict.fromkeys([name for name in BYTES if name.startswith("convolution")], convolution)


def blocks(block: Callable[[Any, dict[str, Any]], Any]) -> Functions:
    """Returns the block of GPT-2 as a function of its input and its parameters one by one."""
    from gpt2_block import initial

    names = list(initial(np.random.default_rng(0)))
    return {"GPT-2 block, 256 tokens": lambda x, *values: block(x, dict(zip(names, values, strict=True)))}


def sorts(sort: Any, largest: Any) -> Functions:
    return {"sort of 1e6": sort, "sort of 1000 rows": sort, "largest 8 of rows": largest}


def reference() -> Functions:
    """What each workload gives, in float64."""
    functions = array_functions(np, np.float64, np.maximum)

    def convolution(x: Any, weight: Any) -> Any:
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        return np.einsum("ncijab,ocab->noij", windows, weight, optimize=True)

    return {**functions, **convolutions(convolution)}


def by_name(
    rectified: Any, gelu: Any, softmax: Any, layer_norm: Any, total: Any, chain: Any, extra: dict[str, Any]
) -> Functions:
    chains = {name: rectified for name in BYTES if name.startswith("relu") or name == "one element"}
    return {
        **chains,
        "gelu of an affine map": gelu,
        "softmax of rows": softmax,
        "layer norm": layer_norm,
        "sum of 1e7": total,
        "chain of twelve": chain,
        **extra,
    }


def array_functions(xp: Any, number: Callable[[float], Any], maximum: Any, concatenate: Any = None) -> Functions:
    """Returns the workloads in the notation that NumPy and JAX share."""
    from gpt2_block import block_of

    half, one = number(0.5), number(1.0)

    def rectified(a: Any, b: Any) -> Any:
        return maximum(a + b, number(0.0)) * a

    def gelu(x: Any, w: Any, b: Any) -> Any:
        z = x * w + b
        return half * z * (one + xp.tanh(number(math.sqrt(2 / math.pi)) * (z + number(0.044715) * z * z * z)))

    def softmax(x: Any) -> Any:
        e = xp.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def layer_norm(x: Any, w: Any, b: Any) -> Any:
        centred = x - x.mean(axis=1, keepdims=True)
        return centred / xp.sqrt((centred * centred).mean(axis=1, keepdims=True) + number(1e-5)) * w + b

    def chain(x: Any, y: Any) -> Any:
        t = xp.tanh(x * number(1.5) + y) * x
        t = (xp.sqrt(xp.exp(t) + one) - y) * number(0.25)
        t = xp.tanh(t)
        return t * t + x

    def logsumexp(x: Any) -> Any:
        most = x.max(axis=1, keepdims=True)
        return (xp.log(xp.exp(x - most).sum(axis=1, keepdims=True)) + most)[:, 0]

    def stencil(x: Any) -> Any:
        around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
        return x[1:-1, 1:-1] * half + around * number(0.125)

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.swapaxes(1, 2) * number(1 / 8)
        e = xp.exp(scores - scores.max(axis=2, keepdims=True))
        return (e / e.sum(axis=2, keepdims=True)) @ v

    def largest(x: Any) -> Any:
        return xp.sort(xp.partition(x, -8, axis=1)[:, -8:], axis=1)[:, ::-1]

    return by_name(
        rectified,
        gelu,
        softmax,
        layer_norm,
        lambda a: a.sum(),
        chain,
        {
            **products(xp.matmul, lambda a, b: xp.matmul(a.T, b.T)),
            **sorts(xp.sort, largest),
            **blocks(lambda x, p: block_of(xp, x, p)),
            "attention, 8 × 512 × 64": attention,
            "variance of columns": lambda x: x.var(axis=0),
            "log-sum-exp of rows": logsumexp,
            "five-point stencil": stencil,
            "distance to a centre": lambda p, c: xp.sqrt(((p - c) * (p - c)).sum(axis=1)),
        },
    )


def polyloom_functions(kind: str) -> Functions:
    import gpt2_block
    import polyloom as loom
    from polyloom import ops

    if kind == "fast":
        loom.config.float_mode = "fast"

    def rectified(a, b):
        return ops.multiply(ops.relu(ops.add(a, b)), a)

    def gelu(x, w, b):
        return ops.gelu(ops.add(ops.multiply(x, w), b), approximate="tanh")

    def softmax(x):
        return ops.softmax(x, axis=1)

    def layer_norm(x, w, b):
        return ops.layer_norm(x, w, b)

    def total(a):
        return ops.sum(a)

    def chain(x, y):
        t = ops.multiply(ops.tanh(ops.add(ops.multiply(x, 1.5), y)), x)
        t = ops.multiply(ops.subtract(ops.sqrt(ops.add(ops.exp(t), 1.0)), y), 0.25)
        t = ops.tanh(t)
        return ops.add(ops.multiply(t, t), x)

    def variance(x):
        return ops.var(x, axes=0)

    def logsumexp(x):
        return ops.logsumexp(x, axes=1)

    def stencil(x):
        north, south = ops.slice(x, (0, 1), (-2, -1)), ops.slice(x, (2, 1), (None, -1))
        west, east = ops.slice(x, (1, 0), (-1, -2)), ops.slice(x, (1, 2), (-1, None))
        around = ops.add(ops.add(ops.add(north, south), west), east)
        return ops.add(ops.multiply(ops.slice(x, (1, 1), (-1, -1)), 0.5), ops.multiply(around, 0.125))

    def distance(p, c):
        return ops.norm(ops.subtract(p, c), axes=1)

    def product(a, b):
        return ops.matmul(a, b)

    def product_of_transposed(a, b):
        return ops.matmul(ops.transpose(a), ops.transpose(b))

    def attention(q, k, v):
        return ops.attention(q, k, v)

    def convolution(x, weight):
        return ops.conv2d(x, weight, padding=1)

    def sort(x):
        return ops.sort(x)

    def largest(x):
        return ops.topk(x, 8)[0]

    extra = {
        "variance of columns": variance,
        "log-sum-exp of rows": logsumexp,
        "five-point stencil": stencil,
        "distance to a centre": distance,
        **products(product, product_of_transposed),
        **convolutions(convolution),
        **sorts(sort, largest),
        "attention, 8 × 512 × 64": attention,
    }
    functions = by_name(rectified, gelu, softmax, layer_norm, total, chain, extra)
    fused = {name: loom.fuse(function, fuse=kind != "unfused") for name, function in functions.items()}
    return fused | blocks(loom.fuse(gpt2_block.block.__wrapped__, fuse=kind != "unfused"))


def numexpr_functions() -> Functions:
    import numexpr

    def evaluate(text: str, **names: Any) -> Any:
        return numexpr.evaluate(text, local_dict=names, global_dict={})

    one, half = np.float32(1), np.float32(0.5)

    def gelu(x: Any, w: Any, b: Any) -> Any:
        z = evaluate("x * w + b", x=x, w=w, b=b)
        k, c = np.float32(math.sqrt(2 / math.pi)), np.float32(0.044715)
        return evaluate("h * z * (o + tanh(k * (z + c * z * z * z)))", z=z, h=half, o=one, k=k, c=c)

    def softmax(x: Any) -> Any:
        e = evaluate("exp(x - m)", x=x, m=x.max(axis=1, keepdims=True))
        return evaluate("e / s", e=e, s=e.sum(axis=1, keepdims=True))

    def layer_norm(x: Any, w: Any, b: Any) -> Any:
        centred = evaluate("x - m", x=x, m=x.mean(axis=1, keepdims=True))
        root = np.sqrt(evaluate("c * c", c=centred).mean(axis=1, keepdims=True) + np.float32(1e-5))
        return evaluate("c / r * w + b", c=centred, r=root, w=w, b=b)

    def chain(x: Any, y: Any) -> Any:
        t = evaluate(
            "tanh((sqrt(exp(tanh(x * k + y) * x) + o) - y) * q)",
            x=x, y=y, k=np.float32(1.5), o=one, q=np.float32(0.25),
        )  # fmt: skip
        return evaluate("t * t + x", t=t, x=x)

    def rectified(a: Any, b: Any) -> Any:
        return evaluate("where(a + b > z, a + b, z) * a", a=a, b=b, z=np.float32(0))

    return by_name(rectified, gelu, softmax, layer_norm, lambda a: evaluate("sum(a)", a=a), chain, {})


def numba_functions() -> Functions:
    import numba
    from numba import prange

    jit = numba.njit(parallel=numba.get_num_threads() > 1, fastmath=True)
    f = np.float32
    zero, one, half, c15, c25 = f(0), f(1), f(0.5), f(1.5), f(0.25)
    k, cube, epsilon, eighth = f(math.sqrt(2 / math.pi)), f(0.044715), f(1e-5), f(0.125)

    @jit
    def rectified(a, b):
        out = np.empty_like(a)
        for i in prange(a.size):
            out[i] = max(a[i] + b[i], zero) * a[i]
        return out

    @jit
    def gelu(x, w, b):
        out = np.empty_like(x)
        for i in prange(x.shape[0]):
            for j in range(x.shape[1]):
                z = x[i, j] * w[j] + b[j]
                out[i, j] = half * z * (one + math.tanh(k * (z + cube * z * z * z)))
        return out

    @jit
    def softmax(x):
        out = np.empty_like(x)
        for i in prange(x.shape[0]):
            most = x[i, 0]
            for j in range(x.shape[1]):
                most = max(most, x[i, j])
            total = zero
            for j in range(x.shape[1]):
                out[i, j] = math.exp(x[i, j] - most)
                total += out[i, j]
            for j in range(x.shape[1]):
                out[i, j] /= total
        return out

    @jit
    def layer_norm(x, w, b):
        out = np.empty_like(x)
        n = f(x.shape[1])
        for i in prange(x.shape[0]):
            mean, square = zero, zero
            for j in range(x.shape[1]):
                mean += x[i, j]
            mean /= n
            for j in range(x.shape[1]):
                square += (x[i, j] - mean) * (x[i, j] - mean)
            factor = one / math.sqrt(square / n + epsilon)
            for j in range(x.shape[1]):
                out[i, j] = (x[i, j] - mean) * factor * w[j] + b[j]
        return out

    @jit
    def total(a):
        sum_of_all = zero
        for i in prange(a.size):
            sum_of_all += a[i]
        return sum_of_all

    @jit
    def chain(x, y):
        out = np.empty_like(x)
        for i in prange(x.size):
            t = math.tanh(x[i] * c15 + y[i]) * x[i]
            t = math.tanh((math.sqrt(math.exp(t) + one) - y[i]) * c25)
            out[i] = t * t + x[i]
        return out

    @jit
    def logsumexp(x):
        out = np.empty(x.shape[0], x.dtype)
        for i in prange(x.shape[0]):
            most = x[i, 0]
            for j in range(x.shape[1]):
                most = max(most, x[i, j])
            sum_of_row = zero
            for j in range(x.shape[1]):
                sum_of_row += math.exp(x[i, j] - most)
            out[i] = math.log(sum_of_row) + most
        return out

    @jit
    def stencil(x):
        out = np.empty((x.shape[0] - 2, x.shape[1] - 2), x.dtype)
        for i in prange(out.shape[0]):
            for j in range(out.shape[1]):
                around = x[i, j + 1] + x[i + 2, j + 1] + x[i + 1, j] + x[i + 1, j + 2]
                out[i, j] = x[i + 1, j + 1] * half + around * eighth
        return out

    @jit
    def distance(p, c):
        out = np.empty(p.shape[0], p.dtype)
        for i in prange(p.shape[0]):
            square = zero
            for j in range(p.shape[1]):
                square += (p[i, j] - c[j]) * (p[i, j] - c[j])
            out[i] = math.sqrt(square)
        return out

    extra = {"log-sum-exp of rows": logsumexp, "five-point stencil": stencil, "distance to a centre": distance}
    return by_name(rectified, gelu, softmax, layer_norm, total, chain, extra)


def jax_functions() -> Functions:
    import jax
    import jax.numpy as jnp

    functions = array_functions(jnp, float, jnp.maximum)
    functions["largest 8 of rows"] = lambda x: jax.lax.top_k(x, 8)[0]
    functions |= convolutions(
        lambda x, weight: jax.lax.conv_general_dilated(
            x, weight, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW")
        )
    )
    return {name: jax.jit(function) for name, function in functions.items()}


def torch_functions(compiles: bool) -> Functions:
    import torch
    from gpt2_block import torch_block
    from torch.nn import functional

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    zero = torch.zeros(())

    def softmax(x: Any) -> Any:
        return torch.softmax(x, 1)

    def layer_norm(x: Any, w: Any, b: Any) -> Any:
        return functional.layer_norm(x, x.shape[1:], w, b)

    def chain(x: Any, y: Any) -> Any:
        t = torch.tanh(x * 1.5 + y) * x
        t = torch.tanh((torch.sqrt(torch.exp(t) + 1.0) - y) * 0.25)
        return t * t + x

    def stencil(x: Any) -> Any:
        around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
        return x[1:-1, 1:-1] * 0.5 + around * 0.125

    functions = by_name(
        lambda a, b: torch.maximum(a + b, zero) * a,
        lambda x, w, b: functional.gelu(x * w + b, approximate="tanh"),
        softmax,
        layer_norm,
        lambda a: a.sum(),
        chain,
        {
            "variance of columns": lambda x: x.var(0, correction=0),
            "log-sum-exp of rows": lambda x: torch.logsumexp(x, 1),
            "five-point stencil": stencil,
            "distance to a centre": lambda p, c: torch.linalg.norm(p - c, dim=1),
            **products(torch.matmul, lambda a, b: torch.matmul(a.T, b.T)),
            **convolutions(lambda x, weight: functional.conv2d(x, weight, padding=1)),
            **sorts(lambda x: torch.sort(x)[0], lambda x: torch.topk(x, 8)[0]),
            **blocks(lambda x, p: torch_block(torch, x, p)),
            "attention, 8 × 512 × 64": functional.scaled_dot_product_attention,
        },
    )
    return {name: torch.compile(function) if compiles else function for name, function in functions.items()}


def build(peer: str) -> dict[str, tuple[Callable[[], Any], str]]:
    """The workloads of a peer: what runs each, with its arrays as the peer has them."""
    name, _, kind = peer.partition(" ")
    data = inputs()
    convert: Callable[[Any], Any] = lambda a: a  # noqa: E731
    wait: Callable[[Any], Any] = lambda result: result  # noqa: E731
    if name == "polyloom":
        functions = polyloom_functions(kind)
    elif name == "numpy":
        functions = array_functions(np, np.float32, np.maximum)
    elif name == "numexpr":
        functions = numexpr_functions()
    elif name == "numba":
        functions = numba_functions()
    elif name == "jax":
        import jax

        functions, convert, wait = jax_functions(), jax.numpy.asarray, jax.block_until_ready
    else:
        import torch

        functions, convert = torch_functions(name == "torch.compile"), torch.from_numpy

    def runner(workload: str) -> Callable[[], Any]:
        function, arrays = functions[workload], [convert(a) for a in data[workload]]
        return lambda: wait(function(*arrays))

    return {workload: (runner(workload), workload) for workload in data if workload in functions}


def serve(peer: str, only: list[str]) -> None:
    """Builds and checks a peer's workloads, prints their names, then takes a turn for every name read."""
    stream = turns.answers()
    exact = reference()
    data = inputs()
    runs = {}
    for name, (run, _) in build(peer).items():
        if only and name not in only:
            continue
        got = np.asarray(run(), np.float64)
        want = np.asarray(exact[name](*(a.astype(np.float64) for a in data[name])))
        error = np.abs(got - want).max() / max(np.abs(want).max(), 1e-30)
        assert got.shape == want.shape and error < 2e-4, f"{peer}: {name}: an error of {error}"
        turns.settle(run)
        runs[name] = run
    turns.answer(stream, list(runs))
    for line in sys.stdin:
        turns.answer(stream, turns.turn(runs[line.strip()]))


def measure(peers: list[str], threads: int, rounds: int, only: list[str]) -> dict[tuple[str, str], list[float]]:
    """The seconds of every peer's turns, by peer and workload."""
    folder = Path(tempfile.mkdtemp())
    servers = [turns.Server(p, threads, folder, Path(__file__), "--serve", p, "--only", *only) for p in peers]
    samples: dict[tuple[str, str], list[float]] = {}
    for index in range(rounds):
        for name in BYTES:
            for server in turns.in_turn(servers, index):
                if name in server.has:
                    samples.setdefault((server.peer, name), []).append(server.turn(name))
    for server in servers:
        server.close()
    return samples


def table(samples: dict[tuple[str, str], list[float]], peers: list[str], threads: int) -> list[str]:
    others = [peer for peer in peers if peer not in OWN]
    own = [peer for peer in OWN[1:] if peer in peers]
    lines = [f"## {threads} thread{'s' if threads > 1 else ''}", ""]
    lines += [f"| workload | polyloom | GB/s | {' | '.join([*own, *others])} | best peer |"]
    lines += ["|---" * (len(own) + len(others) + 4) + "|"]
    best: list[float] = []
    by_peer: dict[str, list[float]] = {peer: [] for peer in [*own, *others]}
    for name in BYTES:
        if ("polyloom", name) not in samples:
            continue

        def ratio(peer: str, name: str = name) -> float | None:
            if (peer, name) not in samples:
                return None
            pairs = zip(samples[peer, name], samples["polyloom", name], strict=True)
            return statistics.median(theirs / ours for theirs, ours in pairs)

        ratios = {peer: r for peer in by_peer if (r := ratio(peer)) is not None}
        for peer, r in ratios.items():
            by_peer[peer].append(r)
        best.append(min(r for peer, r in ratios.items() if peer in others))
        time = statistics.median(samples["polyloom", name])
        bandwidth = f"{BYTES[name] / time / 1e9:.1f}" if BYTES[name] >= 1e6 else ""
        cells = [f"{ratios[peer]:.2f}×" if peer in ratios else "" for peer in by_peer]
        lines.append(f"| {name} | {turns.pretty(time)} | {bandwidth} | {' | '.join(cells)} | {best[-1]:.2f}× |")
    means = [f"{statistics.geometric_mean(each):.2f}×" if each else "" for each in [*by_peer.values(), best]]
    lines += [f"| geometric mean | | | {' | '.join(means)} |", ""]
    return lines


def page(tables: list[str], peers: list[str], rounds: int) -> list[str]:
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if "model name" in line), "")
    named = sorted({MODULES.get(peer, peer) for peer in peers if peer not in OWN})
    return [
        "# Fused tensor functions",
        "",
        "Written by `make bench`; the workloads are in `benches/fusion.py`.",
        "",
        f"- machine: {model}, {os.cpu_count()} cores; medians of {rounds} round{'s' if rounds > 1 else ''} of turns",
        f"- peers: {', '.join(f'{name} {version(name)}' for name in named)}; Numba with `fastmath=True, parallel=True`",
        "",
        "Ratios are the peer's time over Polyloom's in `strict`: above 1, Polyloom is faster. Results are new arrays",
        "in each call. GB/s counts each input and each result once. `polyloom unfused` is `loom.fuse(f, fuse=False)`.",
        "The geometric mean of a peer is over the workloads that it has, that of the last column over the fastest",
        "peer of each row. PyTorch is there if `make bench-peers` wrote the page.",
        "",
        *tables,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--peers", nargs="*")
    parser.add_argument("--serve")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.only)
        return
    is_there = [peer for peer in PEERS if importlib.util.find_spec(MODULES.get(peer, peer))]
    peers = OWN + [peer for peer in is_there if options.peers is None or peer in options.peers]
    lines = []
    for threads in options.threads:
        samples = measure(peers, threads, options.rounds, options.only)
        lines += table(samples, peers, threads)
    print("\n".join(lines))
    if options.out:
        options.out.write_text("\n".join(page(lines, peers, options.rounds)))


if __name__ == "__main__":
    main()
