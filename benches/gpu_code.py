"""How fast GPU code is made and simulated, against Warp and NVRTC: `python benches/gpu_code.py` prints the tables.

Three questions: how long it takes from the text of a small kernel in Python to PTX; how many kernels a second become
CUDA C++; and how many instructions of threads a second the simulator runs. Everything is on one core, forward only,
and with nothing cached. Peers are processes of their own, one after the other.
"""

from __future__ import annotations

import json
import linecache
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import turns

HERE = Path(__file__).resolve().parent
CHUNKS = ["@wp.kernel" + part for part in (HERE / "small_kernels.py").read_text().split("@wp.kernel")[1:]]
ARCH = 80
ROUNDS = 5
# How many rounds of kernels become text in a row: they do so fast that one round is too short to measure.
TEXT_ROUNDS = 100


def polyloom_kernels() -> Iterator[Callable[[], Any]]:
    """Functions that define one of the kernels, each in a file of its own and new every time."""
    import polyloom as wp

    for index, chunk in enumerate(CHUNKS):
        file = f"<small kernel {index} at {time.perf_counter_ns()}>"
        linecache.cache[file] = (len(chunk), None, chunk.splitlines(True), file)
        compiled = compile(chunk, file, "exec")

        def define(code: Any = compiled) -> Any:
            namespace = {"wp": wp, "__name__": "small"}
            exec(code, namespace)
            return next(value for value in namespace.values() if isinstance(value, wp.Kernel))

        yield define


def measure_polyloom() -> dict[str, Any]:
    def ptx(define: Callable[[], Any]) -> float:
        before = time.perf_counter()
        define().ptx(f"sm_{ARCH}")
        return time.perf_counter() - before

    def text_rate() -> float:
        kernels = [define for _ in range(TEXT_ROUNDS) for define in polyloom_kernels()]
        before = time.perf_counter()
        for define in kernels:
            define().cuda()
        return len(kernels) / (time.perf_counter() - before)

    # The first code that is made sets up the compiler.
    for define in polyloom_kernels():
        ptx(define)
        define().cuda()
    return {
        "ptx": [ptx(define) for _ in range(ROUNDS) for define in polyloom_kernels()],
        "text_rate": [text_rate() for _ in range(ROUNDS)],
    }


def measure_nvrtc() -> dict[str, Any]:
    """NVIDIA's compiler on the CUDA C++ text of the kernels: what a generator of text has to add to its own time."""
    sys.path.insert(0, str(HERE.parent / "tests" / "python"))
    from nvidia import Nvrtc, find

    path = find("lib/libnvrtc.so.13")
    if path is None:
        return {}
    nvrtc = Nvrtc(path)
    sources = [define().cuda() for define in polyloom_kernels()]
    samples = []
    for index in range(ROUNDS + 1):
        for source in sources:
            before = time.perf_counter()
            log, ptx = nvrtc.compile(source, f"sm_{ARCH}")
            samples.append(time.perf_counter() - before)
            assert ptx, log
        if index == 0:
            samples.clear()
    return {"ptx": samples}


def measure_warp() -> dict[str, Any]:
    import importlib.util

    import warp as wp
    from warp._src import context

    wp.config.quiet = True
    wp.config.enable_backward = False
    wp.config.cache_kernels = False
    wp.config.kernel_cache_dir = os.environ["WARP_CACHE_PATH"]
    wp.init()
    folder = Path(tempfile.mkdtemp(dir=os.environ["WARP_CACHE_PATH"]))
    count = 0

    def definitions() -> Iterator[Callable[[], Any]]:
        nonlocal count
        for chunk in CHUNKS:
            count += 1
            path = folder / f"small_{count}.py"
            path.write_text("import warp as wp\n" + chunk)
            spec = importlib.util.spec_from_file_location(path.stem, path)
            module = importlib.util.module_from_spec(spec)
            sys.modules[path.stem] = module
            # As for Polyloom, Python's own compiler is no part of what is measured.
            code = spec.loader.get_code(path.stem)

            def define(code: Any = code, module: Any = module) -> Any:
                exec(code, vars(module))
                return wp.get_module(module.__name__)

            yield define

    def text(module: Any) -> str:
        options = module.resolve_options(wp.config, block_dim=256) | {"output_arch": ARCH, "block_dim": 256}
        return context.ModuleBuilder(module, options, target="cuda").codegen("cuda")

    def ptx(module: Any) -> None:
        wp.compile_aot_module(module, arch=ARCH, module_dir=folder / module.name, use_ptx=True)

    def ptx_seconds(define: Callable[[], Any]) -> float:
        before = time.perf_counter()
        ptx(define())
        return time.perf_counter() - before

    def text_rate() -> float:
        defines = list(definitions())
        before = time.perf_counter()
        for define in defines:
            text(define())
        return len(defines) / (time.perf_counter() - before)

    for define in definitions():
        text(define())
        ptx(define())
    return {
        "ptx": [ptx_seconds(define) for define in definitions()],
        "text_rate": [text_rate() for _ in range(ROUNDS)],
    }


def measure_simulator() -> dict[str, Any]:
    """Millions of instructions of threads a second on one host thread, checks off and on, by kernel."""
    import numpy as np
    import polyloom as loom

    sys.path.insert(0, str(HERE.parent / "examples" / "gpu"))
    import flash_attention
    import matmul
    import reduction
    import softmax
    import tensor_matmul

    @loom.kernel
    def polynomial_in_half(x: loom.array(dtype=loom.float16), y: loom.array(dtype=loom.float16)):
        i = loom.tid()
        s = x[i]
        for _n in range(8):
            s = s * x[i] + loom.float16(0.5)
        y[i] = s

    namespace = {}
    for define in polyloom_kernels():
        kernel = define()
        namespace[kernel.key] = kernel
    random = np.random.default_rng(0)
    x, y = random.random((2, 1 << 17)).astype(np.float32)
    x16, y16 = x.astype(np.float16), y.astype(np.float16)
    a, b = random.random((2, 128, 128)).astype(np.float32)
    a16, b16 = a.astype(np.float16), b.astype(np.float16)
    q, k, v = random.normal(size=(3, 2, 256, flash_attention.DIM)).astype(np.float32)
    sums = np.zeros(16, np.float32)
    starts, steps = np.arange(1, 8193, dtype=np.int32), np.zeros(8192, np.int32)
    runs: dict[str, Callable[[], Any]] = {
        "polynomial": lambda: loom.launch(namespace["polynomial"], x.size, [x, y], device="sim:0"),
        "polynomial, float16": lambda: loom.launch(polynomial_in_half, x.size, [x16, y16], device="sim:0"),
        "logistic": lambda: loom.launch(namespace["logistic"], x.size, [x, y, 1.0], device="sim:0"),
        "collatz, divergent": lambda: loom.launch(namespace["collatz"], starts.size, [starts, steps], device="sim:0"),
        "matmul, shared memory": lambda: matmul.product(a, b, "sim:0"),
        "matmul, tensor cores": lambda: tensor_matmul.product(a16, b16, "sim:0"),
        "reduction, shuffles": lambda: loom.launch(
            reduction.sum_blocks, grid=sums.size, inputs=[x], outputs=[sums], device="sim:0"
        ),
        "softmax": lambda: softmax.softmax(x.reshape(256, -1), "sim:0"),
        "flash attention": lambda: flash_attention.attention(q, k, v, True, "sim:0"),
    }
    found = {}
    for name, run in runs.items():
        speeds = []
        for checks, rounds in (("none", 5), ("all", 2)):
            loom.sim.configure(sanitize=checks)
            best = 0.0
            for _ in range(rounds):
                run()
                report = loom.sim.last_report()
                best = max(best, report["thread_instructions"] / report["seconds"] / 1e6)
            speeds.append(best)
        found[name] = speeds
    return found


CHILDREN = {
    "polyloom": measure_polyloom,
    "nvrtc": measure_nvrtc,
    "warp": measure_warp,
    "simulator": measure_simulator,
}


def collect() -> dict[str, dict[str, Any]]:
    """What every child measured."""
    with tempfile.TemporaryDirectory() as cache:
        env = turns.environment(1, Path(cache))
        found: dict[str, dict[str, Any]] = {}
        for name in CHILDREN:
            print(f"GPU code: {name}", file=sys.stderr, flush=True)
            command = [*turns.pinned(1), sys.executable, str(Path(__file__).resolve()), "--child", name]
            done = subprocess.run(command, env=env, capture_output=True, text=True)
            if done.returncode:
                print(f"{name} is left out:\n{done.stderr}", file=sys.stderr)
                continue
            found[name] = json.loads(done.stdout.splitlines()[-1])
        return found


def section() -> list[str]:
    """The rows for the scoreboard."""
    found = collect()
    own = found["polyloom"]
    ptx = statistics.median(own["ptx"])
    rate = statistics.median(own["text_rate"])
    lines = [
        "",
        "## GPU code",
        "",
        "Small kernels in Python, forward only, one core, nothing cached (`benches/gpu_code.py`). Time begins where",
        "Python runs the decorator, with its own compiling of the file done. NVRTC's time is that for Polyloom's CUDA",
        "C++ text, and has no Python in it.",
        "",
        "| | polyloom | warp (ratio) | NVRTC (ratio) |",
        "|---|---|---|---|",
    ]
    cells = []
    for peer in ("warp", "nvrtc"):
        times = found.get(peer, {}).get("ptx")
        cells.append(
            f"{statistics.median(times) * 1e3:.1f} ms ({statistics.median(times) / ptx:.1f}×)" if times else ""
        )
    lines.append(f"| Python to PTX, median | {ptx * 1e3:.2f} ms | " + " | ".join(cells) + " |")
    rates = found.get("warp", {}).get("text_rate")
    warp = statistics.median(rates) if rates else 0.0
    cell = f"{warp:.0f} ({rate / warp:.0f}×)" if warp else ""
    lines.append(f"| Python to CUDA C++, kernels a second | {rate:.0f} | {cell} | |")
    lines += ["", "Millions of instructions of threads that the simulator runs a second:", ""]
    lines += ["| kernel | checks off | all checks |", "|---|---|---|"]
    lines += [f"| {name} | {off:.0f} | {on:.1f} |" for name, (off, on) in found["simulator"].items()]
    return lines


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        stream = turns.answers()
        turns.answer(stream, CHILDREN[sys.argv[2]]())
    else:
        print("\n".join(section()))
