"""Products and memory-bound groups of fused functions on an NVIDIA GPU, beside cuBLAS and a copy within the device.

Products are squares of float16, bfloat16 (`contract`), float32 (`strict`) and int8 (summed in int32, the right factor
transposed, as cuBLAS has it), beside `torch.matmul` and `torch._int_mm` where PyTorch is installed. Times
are medians of runs that queue some calls and wait for all; those of one library and the other take turns. A row that
fails prints its error, and the rows after it run in a new process, because a fault ends all use of a GPU in the one it
occurs in.

    python benches/gpu_products.py [--size N]... [--only WORD]...
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import polyloom as loom
from polyloom import ops

DEVICE = "cuda:0"
TYPES = ("float16", "bfloat16", "float32", "int8")
SIZES = (1024, 4096, 8192)
N_ROWS, WIDTH = 16384, 4096
# How long a run of queued calls takes, about, and how many of them there are of each library.
RUN_SECONDS = 0.03
N_RUNS = 5


@loom.fuse
def strict_product(a, b):
    return ops.matmul(a, b)


@loom.fuse(float_mode="contract")
def contracted_product(a, b):
    return ops.matmul(a, b)


@loom.fuse
def byte_product(a, b):
    return ops.matmul(ops.cast(a, "int32"), ops.cast(ops.transpose(b), "int32"))


@loom.fuse
def chain(a, b):
    return ops.add(ops.multiply(ops.relu(ops.subtract(a, b)), 2.5), ops.multiply(a, b))


@loom.fuse
def softmax(a):
    return ops.softmax(a, axis=1)


@loom.fuse
def layer_norm(a, b):
    return ops.layer_norm(a, b, b)


@loom.fuse
def gelu(a):
    return ops.gelu(a)


@loom.fuse
def row_sums(a):
    return ops.sum(a, axis=1)


@loom.fuse
def running_sums(a):
    return ops.cumsum(a, axis=1)


@loom.fuse
def whole_sum(a):
    return ops.sum(a)


def torch_with_cuda() -> Any:
    """PyTorch, if it is there and sees the GPU."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def timed(calls: list[Callable[[], object]], wait: Callable[[], None]) -> list[float]:
    """The median seconds of a call of each, the calls of a run queued after each other."""
    counts = []
    for call in calls:
        for _ in range(3):
            call()
        wait()
        started = time.perf_counter()
        for _ in range(3):
            call()
        wait()
        once = (time.perf_counter() - started) / 3
        counts.append(max(3, min(2000, int(RUN_SECONDS / once))))
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(N_RUNS):
        for index, (call, count) in enumerate(zip(calls, counts, strict=True)):
            wait()
            started = time.perf_counter()
            for _ in range(count):
                call()
            wait()
            times[index].append((time.perf_counter() - started) / count)
    return [statistics.median(each) for each in times]


def waiter(torch: Any) -> Callable[[], None]:
    def wait() -> None:
        loom.synchronize()
        if torch is not None:
            torch.cuda.synchronize()

    return wait


def factors(torch: Any, dtype: str, n: int) -> tuple[Any, Any]:
    """Two squares of random numbers: tensors of PyTorch where it is there, so that both have the same."""
    if torch is not None:
        generator = torch.Generator(device="cuda").manual_seed(n)
        if dtype == "int8":
            return tuple(
                torch.randint(-128, 128, (n, n), dtype=torch.int8, device="cuda", generator=generator) for _ in range(2)
            )
        return tuple(
            torch.rand((n, n), device="cuda", generator=generator).sub_(0.5).to(getattr(torch, dtype)) for _ in range(2)
        )
    random = np.random.default_rng(n)
    if dtype == "int8":
        return tuple(loom.array(random.integers(-128, 128, (n, n)).astype(np.int8), device=DEVICE) for _ in range(2))
    pair = (random.random((n, n), np.float32) - np.float32(0.5) for _ in range(2))
    return tuple(loom.array(each, dtype=getattr(loom, dtype), device=DEVICE) for each in pair)


def error_of(torch: Any, dtype: str, ours: Any, a: Any, b: Any) -> str:
    """The largest difference from float64 in some rows, as a part of the largest result; of integers, how many."""
    given = loom.to_torch(ours)[:64]
    if dtype == "int8":
        exact = a[:64].double() @ b.double().T
        return f"{int((given.double() != exact).sum().item())} differ"
    exact = a[:64].double() @ b.double()
    return f"{((given.double() - exact).abs().max() / exact.abs().max()).item():.1e}"


def product_row(torch: Any, dtype: str, n: int) -> str:
    a, b = factors(torch, dtype, n)
    function = {"float32": strict_product, "int8": byte_product}.get(dtype, contracted_product)
    x, y = (a, b) if torch is None else (loom.from_torch(a), loom.from_torch(b))
    calls: list[Callable[[], object]] = [lambda: function(x, y)]
    if torch is not None:
        if dtype == "int8":
            calls.append(lambda: torch._int_mm(a, b.t()))
        else:
            calls.append(lambda: torch.matmul(a, b))
    took = timed(calls, waiter(torch))
    rates = [f"{2 * n**3 / each / 1e12:7.1f} TFLOP/s" for each in took]
    error = "" if torch is None else error_of(torch, dtype, function(x, y), a, b)
    share = f"{took[1] / took[0]:6.0%}" if torch is not None else ""
    return f"{dtype:<12}{n:>8}   {rates[0]}    {rates[1] if len(rates) > 1 else '':<15}    {share}   {error}"


# The groups that memory bounds: a function, the inputs that it has of the matrix, its mirror image, and a row, and how
# many times a matrix is moved.
GROUPS: dict[str, tuple[Callable[..., object], str, int]] = {
    "chain of five": (chain, "ab", 3),
    "gelu": (gelu, "a", 2),
    "softmax of rows": (softmax, "a", 2),
    "layer norm": (layer_norm, "aw", 2),
    "sums of rows": (row_sums, "a", 1),
    "running sums": (running_sums, "a", 2),
    "sum of all": (whole_sum, "a", 1),
}


def memory_row(torch: Any, name: str) -> str:
    function, inputs, n_moves = GROUPS[name]
    host = np.random.default_rng(1).random((N_ROWS, WIDTH), np.float32)
    arrays = {"a": host, "b": host[::-1].copy(), "w": host[0].copy()}
    given = [loom.array(arrays[each], device=DEVICE) for each in inputs]
    other = loom.empty(host.shape, device=DEVICE)
    took, copied = timed([lambda: function(*given), lambda: loom.copy(other, given[0])], waiter(torch))
    rate, copy_rate = n_moves * host.nbytes / took / 1e12, 2 * host.nbytes / copied / 1e12
    return f"{name:<18}{rate:6.2f} TB/s {copy_rate:6.2f} TB/s   {rate / copy_rate:6.0%}"


def run_rows(rows: list[tuple[str, Callable[[], str]]], first: int) -> int:
    """Prints rows from one on, and returns the number of the one that failed; that of all if none did."""
    for number, (name, row) in list(enumerate(rows))[first:]:
        try:
            print(row(), flush=True)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
            return number
    return len(rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, action="append")
    parser.add_argument("--only", action="append", help="rows whose names have a word")
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not loom.is_cuda_available():
        print("there is no GPU", file=sys.stderr)
        return
    torch = torch_with_cuda()
    rows: list[tuple[str, Callable[[], str]]] = [
        (f"{dtype} {n}", partial(product_row, torch, dtype, n))
        for dtype in TYPES
        for n in tuple(arguments.size or SIZES)
    ]
    rows += [(name, partial(memory_row, torch, name)) for name in GROUPS]
    rows = [row for row in rows if not arguments.only or any(word in row[0] for word in arguments.only)]
    if arguments.first == 0:
        device = loom.get_device(DEVICE)
        print(f"{device.name}, sm_{device.arch}, PyTorch {torch.__version__ if torch else 'is not there'}")
        print("product            n      polyloom           cuBLAS             share   error")
        print("group                polyloom    copy        share", flush=True)
    failed = run_rows(rows, arguments.first)
    if failed + 1 < len(rows):
        again = [each for each in sys.argv[1:] if not each.startswith("--first")]
        subprocess.run([sys.executable, __file__, *again, f"--first={failed + 1}"], check=False)


if __name__ == "__main__":
    main()
