"""Compile times over a sample of Warp's own tests, kernel by kernel: `python benches/corpus_compile.py`, JSON.

The modules are drawn with a fixed seed from those that `make warp-corpus` goes through, and so are up to six of the
kernels that each has when it is imported; `make warp-corpus` measures kernels that tests make as well. Of these count
the core kernels that both compile. Each is compiled alone in its module, forward only, from its function to code that
can be launched, with nothing cached. One compiler goes through all of them before the other begins, as the kernels of
a program are compiled one after another; the first kernel of all, for which both set themselves up, is not counted.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SEED = 1
N_MODULES, N_KERNELS = 120, 6

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))


def sample() -> list[Any]:
    """Core kernels of the modules drawn, in the order of the draw."""
    import warp as wp
    import warp_corpus
    from corpus import scope

    draw = random.Random(SEED)
    names = [name for name in warp_corpus.modules() if name.startswith("warp.tests.")]
    chosen = []
    for name in draw.sample(names, min(N_MODULES, len(names))):
        # A module may need a package that is not there.
        with contextlib.suppress(BaseException), contextlib.redirect_stdout(io.StringIO()):
            importlib.import_module(name)
        if name not in sys.modules:
            continue
        kernels = [kernel for kernel in wp.get_module(name).kernels.values() if not kernel.is_generic]
        kernels = [kernel for kernel in kernels if kernel.func.__module__ == name]
        for kernel in draw.sample(kernels, min(N_KERNELS, len(kernels))):
            with contextlib.suppress(Exception):
                if scope.out_of_scope(kernel) is None and not scope.uses_gradients(kernel):
                    chosen.append(kernel)
    return chosen


def measure() -> list[dict[str, Any]]:
    import warp as wp
    from corpus import timing

    wp.config.log_level = 40
    wp.config.kernel_cache_dir = os.environ["WARP_CACHE_PATH"]
    wp.config.enable_backward = False
    wp.init()
    kernels = sample()
    theirs, ours = (seconds(kernels, compiler) for compiler in (timing.warp_seconds, timing.polyloom_seconds))
    both = [index for index in range(1, len(kernels)) if index in theirs and index in ours]
    names = {index: f"{kernels[index].module.name}.{kernels[index].key}" for index in both}
    return [{"kernel": names[index], "warp": theirs[index], "polyloom": ours[index]} for index in both]


def seconds(kernels: list[Any], compiler: Callable[[Any], float]) -> dict[int, float]:
    """How long a compiler takes for each kernel that it compiles, by the kernel's place."""
    taken = {}
    for index, kernel in enumerate(kernels):
        # Some need the rest of their module, or what one of the two does not have.
        with contextlib.suppress(Exception):
            taken[index] = compiler(kernel)
    return taken


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    started = time.perf_counter()
    rows = measure()
    json.dump({"rows": rows, "seconds": time.perf_counter() - started}, answers)
