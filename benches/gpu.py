"""Speed on an NVIDIA GPU: launches, copies, saxpy, and a matrix product against PyTorch's, which is cuBLAS's.

`make bench` puts its rows into the scoreboard where there is a GPU; where there is none it says why it skips. Times are
medians. `python benches/gpu.py launches modules` measures parts of it, `polyloom gpu run -- python benches/gpu.py
modules` over the simulated driver, whose times are the host's.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import polyloom as loom

DEVICE = "cuda:0"
TILE = 32


@loom.kernel
def nothing(x: loom.array(dtype=float)):
    i = loom.tid()
    if i < 0:
        x[0] = 1.0


@loom.kernel
def saxpy(a: float, x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = a * x[i] + y[i]


@loom.kernel(block_dim=(TILE, TILE), float_mode="contract")
def matmul(a: loom.array(dtype=float, ndim=2), b: loom.array(dtype=float, ndim=2), c: loom.array(dtype=float, ndim=2)):
    tile_a = loom.shared_array(shape=(TILE, TILE), dtype=float)
    tile_b = loom.shared_array(shape=(TILE, TILE), dtype=float)
    x, y = loom.thread_idx(0), loom.thread_idx(1)
    row, column = loom.block_idx(1) * TILE + y, loom.block_idx(0) * TILE + x
    total = loom.float32(0.0)
    for k in range(a.shape[1] // TILE):
        tile_a[y, x] = a[row, k * TILE + x]
        tile_b[y, x] = b[k * TILE + y, column]
        loom.sync_threads()
        for i in range(TILE):
            total += tile_a[y, i] * tile_b[i, x]
        loom.sync_threads()
    c[row, column] = total


def seconds(run: Callable[[], object], repeat: int = 20, at_once: int = 1) -> float:
    """The median time of a run, of which so many are waited for at once."""
    run()
    loom.synchronize()
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        for _ in range(at_once):
            run()
        loom.synchronize()
        times.append((time.perf_counter() - started) / at_once)
    return statistics.median(times)


# What was measured, and the number with its unit.
Rows = list[tuple[str, str]]


def launches() -> Rows:
    x = loom.zeros(1, device=DEVICE)
    recorded = loom.launch(nothing, 1, [x], device=DEVICE, record_cmd=True)
    plain = seconds(lambda: loom.launch(nothing, 1, [x], device=DEVICE), 10, 1000)
    return [
        ("launch and wait", f"{seconds(recorded.launch, 200) * 1e6:.2f} µs"),
        ("launch, 1000 at once", f"{seconds(recorded.launch, 10, 1000) * 1e6:.2f} µs"),
        ("launch that is not recorded, 1000 at once", f"{plain * 1e6:.2f} µs"),
    ]


def copies() -> Rows:
    host = np.ones((64 << 10, 1 << 10), np.float32)
    there, other = loom.array(host, device=DEVICE), loom.empty(host.shape, device=DEVICE)
    vectors = loom.empty(16 << 20, dtype=loom.vec3, device=DEVICE)
    column = host[:, 0].copy()
    runs: list[tuple[str, Callable[[], object], int]] = [
        ("copy to the device", lambda: there.assign(host), host.nbytes),
        ("copy from the device", there.numpy, host.nbytes),
        ("copy within the device", lambda: loom.copy(other, there), 2 * host.nbytes),
        ("copy within the device, every other row", lambda: other[::2].assign(there[1::2]), host.nbytes),
        ("fill on the device", lambda: there.fill_(1.5), host.nbytes),
        ("fill of vec3 on the device", lambda: vectors.fill_((1.0, 2.0, 3.0)), vectors.size * 12),
        ("copy of a column to the device", lambda: there[:, 0].assign(column), column.nbytes),
    ]
    return [(name, f"{moved / seconds(run) / 1e9:.3g} GB/s") for name, run, moved in runs]


def streams_and_graphs() -> Rows:
    n_nodes = 100
    x, y = loom.zeros(1, device=DEVICE), loom.zeros(1, device=DEVICE)
    first, second = loom.Stream(DEVICE), loom.Stream(DEVICE)
    recorded = loom.launch(nothing, 1, [x], device=DEVICE, record_cmd=True)
    other = loom.launch(nothing, 1, [y], device=DEVICE, record_cmd=True)
    timed = [loom.Event(DEVICE, enable_timing=True) for _ in range(2)]

    def in_turn() -> None:
        recorded.launch(stream=first)
        recorded.launch(stream=second)

    def by_event() -> None:
        recorded.launch(stream=first)
        second.wait_stream(first)
        other.launch(stream=second)

    def round_trip() -> None:
        recorded.launch(stream=first)
        first.synchronize()

    def captured() -> loom.Graph:
        with loom.ScopedCapture(DEVICE) as capture:
            for _ in range(n_nodes):
                recorded.launch()
        return capture.graph

    graph = captured()
    first.record_event(timed[0])
    loom.capture_launch(graph, stream=first)
    first.record_event(timed[1])
    on_device = timed[0].elapsed_time(timed[1])
    fresh = captured()
    return [
        (
            "launch in a stream of its own, 1000 at once",
            f"{seconds(lambda: recorded.launch(stream=first), 10, 1000) * 1e6:.2f} µs",
        ),
        ("launch in a stream, and wait for it", f"{seconds(round_trip, 200) * 1e6:.2f} µs"),
        ("two launches in two streams, in order by their array", f"{seconds(in_turn, 10, 500) * 1e6:.2f} µs"),
        ("two launches in two streams, in order by an event", f"{seconds(by_event, 10, 500) * 1e6:.2f} µs"),
        (f"graph of {n_nodes} launches: capture", f"{seconds(captured, 20) * 1e6:.0f} µs"),
        ("the same: launch and wait", f"{seconds(lambda: loom.capture_launch(graph), 50) * 1e6:.1f} µs"),
        ("the same: time between events", f"{on_device * 1e3:.1f} µs"),
        ("the same: update of its arguments", f"{seconds(lambda: graph.update(fresh), 20) * 1e6:.1f} µs"),
    ]


def memory() -> Rows:
    loom.empty(1 << 20, device=DEVICE)
    n_bytes = 1 << 28
    there, other = (loom.empty(n_bytes, dtype=loom.uint8, device=DEVICE) for _ in range(2))
    host, back = (loom.zeros(n_bytes, dtype=loom.uint8, device="cpu", pinned=True) for _ in range(2))
    managed = loom.managed(n_bytes, loom.uint8, DEVICE)
    first, second = loom.Stream(DEVICE), loom.Stream(DEVICE)

    def from_driver() -> None:
        loom.empty(n_bytes, dtype=loom.uint8, device=DEVICE)
        loom.release_memory(DEVICE)

    def both_ways() -> None:
        loom.copy(there, host, stream=first)
        loom.copy(back, other, stream=second)

    rows = [
        (
            "array of 1 MiB from the pool, and back",
            f"{seconds(lambda: loom.empty(1 << 18, device=DEVICE), 10, 1000) * 1e6:.2f} µs",
        )
    ]
    rows.append((f"array of {n_bytes >> 20} MiB from the driver, and back", f"{seconds(from_driver) * 1e6:.0f} µs"))
    runs: list[tuple[str, Callable[[], object], int]] = [
        ("copy to the device, from pinned memory", lambda: loom.copy(there, host), n_bytes),
        ("copy from the device, to pinned memory", lambda: loom.copy(back, there), n_bytes),
        ("copies both ways at once, in two streams", both_ways, 2 * n_bytes),
    ]
    rows += [(name, f"{moved / seconds(run) / 1e9:.3g} GB/s") for name, run, moved in runs]

    def round_of_managed() -> None:
        loom.prefetch(managed, "cpu")
        loom.prefetch(managed)

    rows.append(
        (
            "managed memory to the host and back, by prefetch",
            f"{2 * n_bytes / seconds(round_of_managed) / 1e9:.3g} GB/s",
        )
    )
    return rows


BARRIERS = """
.version 7.0
.target sm_75
.address_size 64
.visible .entry meet(.param .u64 counter, .param .u32 n)
{
    .reg .pred %p<3>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd0, [counter];
    ld.param.u32 %r0, [n];
    cvta.to.global.u64 %rd1, %rd0;
    mov.u32 %r1, %nctaid.x;
    mov.u32 %r5, %tid.x;
    mov.u32 %r2, 0;
    mov.u32 %r6, 0;
next:
    bar.sync 0;
    add.u32 %r6, %r6, %r1;
    setp.ne.u32 %p1, %r5, 0;
    @%p1 bra met;
    atom.global.add.u32 %r3, [%rd1], 1;
wait:
    ld.volatile.global.u32 %r4, [%rd1];
    setp.lt.u32 %p0, %r4, %r6;
    @%p0 bra wait;
met:
    bar.sync 0;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p2, %r2, %r0;
    @%p2 bra next;
    ret;
}
"""


def modules() -> Rows:
    n_loads, n_barriers = 10_000, 100
    module = loom.GpuModule(BARRIERS, DEVICE)
    times = []
    for _ in range(20):
        started = time.perf_counter()
        for _ in range(n_loads):
            loom.GpuModule(BARRIERS, DEVICE)
        times.append((time.perf_counter() - started) / n_loads)
    load = statistics.median(times)
    kernel = module.kernel("meet")
    n_blocks = loom.get_device(DEVICE).sm_count
    counter = loom.zeros(1, dtype=loom.uint32, device=DEVICE)

    def meet(n: int) -> Callable[[], None]:
        def run() -> None:
            counter.zero_()
            kernel.launch(n_blocks, 256, [counter, n], cooperative=True)

        return run

    each = (seconds(meet(n_barriers)) - seconds(meet(1))) / (n_barriers - 1)
    return [
        ("loading an image that is loaded already", f"{load * 1e6:.2f} µs"),
        (f"barrier of a grid of {n_blocks} blocks", f"{each * 1e6:.2f} µs"),
    ]


def saxpys() -> Rows:
    n = 64 << 20
    x, y = loom.ones(n, device=DEVICE), loom.zeros(n, device=DEVICE)
    took = seconds(lambda: loom.launch(saxpy, n, [2.0, x, y], device=DEVICE), 20, 10)
    return [(f"saxpy of {n >> 20} Mi elements", f"{3 * 4 * n / took / 1e9:.0f} GB/s")]


def matmuls() -> Rows:
    n = 2048
    random = np.random.default_rng(1)
    host = [random.random((n, n), np.float32) for _ in range(2)]
    a, b = (loom.array(each, device=DEVICE) for each in host)
    c = loom.zeros((n, n), device=DEVICE)
    grid = (n // TILE, n // TILE)
    ours = seconds(lambda: loom.launch(matmul, grid=grid, inputs=[a, b, c], device=DEVICE))
    rows = [(f"float32 matmul of {n}, 32 x 32 tiles", f"{2 * n**3 / ours / 1e12:.2f} TFLOP/s")]
    cublas = "the same by cuBLAS, through PyTorch"
    try:
        import torch
    except ImportError:
        return [*rows, (cublas, "PyTorch is not installed")]
    if not torch.cuda.is_available():
        return [*rows, (cublas, "this PyTorch knows no CUDA")]
    left, right = (torch.from_numpy(each).cuda() for each in host)
    out = torch.empty_like(left)
    error = (loom.to_torch(c) - torch.matmul(left.double(), right.double())).abs().max().item()
    theirs = seconds(lambda: torch.matmul(left, right, out=out))
    rows.append((cublas, f"{2 * n**3 / theirs / 1e12:.2f} TFLOP/s"))
    rows.append(("largest difference from float64", f"{error:.1e}"))
    return rows


PARTS = {
    measure.__name__: measure for measure in (launches, streams_and_graphs, modules, memory, copies, saxpys, matmuls)
}


def section(parts: Sequence[str] = tuple(PARTS)) -> list[str]:
    """The rows for the scoreboard; without a GPU none, and a line on standard error that says why."""
    if not loom.is_cuda_available():
        try:
            loom.get_device(DEVICE)
        except loom.DeviceError as error:
            print(f"GPU: skipped: {error}", file=sys.stderr)
        return []
    device = loom.get_device(DEVICE)
    lines = [
        "",
        "## On a GPU",
        "",
        f"{device.name}, sm_{device.arch}, {device.sm_count} multiprocessors (`benches/gpu.py`).",
        "",
        "| | |",
        "|---|---|",
    ]
    for part in parts:
        lines += [f"| {what} | {value} |" for what, value in PARTS[part]()]
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measures Polyloom on an NVIDIA GPU.")
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="PART", help=", ".join(PARTS))
    print("\n".join(section(parser.parse_args().parts or tuple(PARTS))).strip())
