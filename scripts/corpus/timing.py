"""How long both compilers take for a kernel of the corpus, from its function to code that can be launched.

Both compile forward code for the CPU, with the options that are theirs by default, and find nothing in a cache.
"""

from __future__ import annotations

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


def polyloom_seconds(kernel: Any) -> float:
    """Seconds Polyloom takes for a kernel and the functions it calls, from their text to machine code."""
    import polyloom

    from corpus.translate import Translator

    polyloom.config.check = False
    translator = Translator()
    made = translator.kernel(kernel)
    start = time.perf_counter()
    made.compile()
    return translator.seconds + time.perf_counter() - start
