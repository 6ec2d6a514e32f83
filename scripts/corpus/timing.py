"""How long both compilers take for a kernel of the corpus, from its function to code that can be launched.

Both compile forward code for the CPU, with the options that are theirs by default, and find nothing in a cache.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import warp as wp
from warp._src import context

_DEFAULTS = {"optimization_level": None, "cpu_compiler_flags": wp.config.cpu_compiler_flags, "cache_kernels": False}
_n_modules = 0


def warp_seconds(kernel: Any) -> float:
    """Seconds Warp takes for a kernel alone in a module."""
    global _n_modules
    before = {name: getattr(wp.config, name) for name in _DEFAULTS}
    for name, value in _DEFAULTS.items():
        setattr(wp.config, name, value)
    try:
        _n_modules += 1
        start = time.perf_counter()
        module = context.Module(f"corpus_{_n_modules}", None)
        made = context.Kernel(kernel.func, key=kernel.key, module=module)
        if kernel.generic_parent is not None:
            made.add_overload(list(kernel.adj.arg_types.values()))
        module.load(wp.get_device("cpu"), 1)
        return time.perf_counter() - start
    finally:
        for name, value in before.items():
            setattr(wp.config, name, value)


def compile_times(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The kernels that were measured: where each is, and both times in seconds."""
    return [unit | {"ratio": unit["warp_seconds"] / unit["seconds"]} for r in results for unit in r.get("times", [])]


def summary(results: list[dict[str, Any]]) -> str:
    """What the measured kernels have in common, as a sentence."""
    measured = compile_times(results)
    if not measured:
        return "Compile times were not measured."
    ratios = sorted(unit["ratio"] for unit in measured)
    ours = statistics.median(unit["seconds"] for unit in measured) * 1e3
    theirs = statistics.median(unit["warp_seconds"] for unit in measured) * 1e3
    low, high = ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]
    return (
        f"{len(measured)} of these kernels, compiled alone and forward only, take Warp {theirs:.0f} ms and Polyloom "
        f"{ours:.2f} ms (medians); kernel by kernel Warp takes {statistics.median(ratios):.0f} times as long (median; "
        f"between the first and the last tenth, {low:.0f} to {high:.0f} times)."
    )
