"""Warp's own code for the kernels of data sets: ``polyloom.synth.extract_ir(emitter="warp")``.

Warp's code generator is Python and runs without a GPU; nothing is compiled. It is reached as Warp's own
ahead-of-time compilation reaches it, which is not among the names that Warp promises to keep.
"""

from __future__ import annotations

import ast
import functools
import json
import linecache
import os
import sys
import threading
import types
from typing import Any, Literal

COLUMNS = ("warp_cuda", "warp_cpp")
"""The columns of a data set that hold Warp's code."""

# Warp keeps its modules in tables of the process.
_lock = threading.Lock()

# Warp's defaults, and of what differs between machines, what is so on most: the code is the same whatever a user's
# settings are.
_MODULE_OPTIONS = {
    "default_grid_stride": True,
    "enable_backward": True,
    "lineinfo": False,
    "max_unroll": 16,
    "mode": "release",
}
_OPTIONS = {
    "enable_tiles_in_stack_memory": False,
    "enable_vector_component_overwrites": False,
    "verify_autograd_array_access": False,
    "verify_fp": False,
}

# Every version of Warp takes this.
_PLAIN = """import warp as wp

@wp.kernel
def plain(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = 2.0 * x[i]
"""


@functools.cache
def check() -> str:
    """Warp's version.

    What fails after this fails for what the kernel is.

    Raises
    ------
    ImportError
        Without Warp.
    RuntimeError
        If its code generator is not where it is looked for.
    """
    try:
        import warp
    except ImportError as error:
        raise ImportError("emitter='warp' needs Warp: pip install 'polyloom[warp]'") from error
    try:
        _text("plain", _PLAIN, "cuda")
        _text("plain", _PLAIN, "cpu")
    except Exception as error:
        version = getattr(warp, "__version__", "")
        raise RuntimeError(
            f"the code generator of Warp {version} is not as this version of Polyloom knows it "
            f"({type(error).__name__}: {error}): pip install 'polyloom[warp]' gives one that is"
        ) from error
    return str(warp.__version__)


def emit(name: str, source: str) -> tuple[str, str] | None:
    """Warp's CUDA C++ and C++ of a kernel, each forward and backward.

    Parameters
    ----------
    name : str
        The kernel.
    source : str
        A complete file.

    Returns
    -------
    tuple of str, or None
        None if the file is not Warp's, or Warp does not take it.
    """
    check()
    if not _imports_warp(source):
        return None
    try:
        return _text(name, source, "cuda"), _text(name, source, "cpu")
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        # Warp's errors have no class in common: these are what its own are derived from, and what else it raises.
        return None


def text(name: str, source: str, device: Literal["cuda", "cpu"]) -> str:
    """What Warp's code generator makes of a kernel of a file.

    Parameters
    ----------
    name, source : str
        The kernel, and a complete file that imports Warp. It is run, as Warp needs it.
    device : str
        ``cuda`` for CUDA C++, ``cpu`` for C++.

    Returns
    -------
    str
        The module's text, forward and backward, without the headers that it includes.

    Raises
    ------
    ValueError
        If the file does not import Warp.
    """
    check()
    if not _imports_warp(source):
        raise ValueError(f"kernel {name!r} is not written for Warp: its file does not import `warp`")
    return _text(name, source, device)


def _imports_warp(source: str) -> bool:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules = [node.module or ""]
        else:
            continue
        if any(module.partition(".")[0] == "warp" for module in modules):
            return True
    return False


def _text(name: str, source: str, device: Literal["cuda", "cpu"]) -> str:
    import warp as wp
    from warp._src import context

    with _lock:
        # Warp knows modules by their names, and reads the text of functions from their files, which it names in what it
        # writes. One at a time, all have the same.
        module = types.ModuleType("polyloom_synth_warp")
        filename = f"<{module.__name__}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        sys.modules[module.__name__] = module
        try:
            # A file may set these for itself.
            wp.set_module_options(_MODULE_OPTIONS | {"deterministic": wp.DeterministicMode.NOT_GUARANTEED}, module)
            exec(compile(source, filename, "exec"), module.__dict__)
            kernel = getattr(module, name)
            # Hashes in names tell versions of a kernel from each other, of which there is one.
            wp.set_module_options({"strip_hash": True}, module)
            options = kernel.module.resolve_options(wp.config, block_dim=256) | _OPTIONS
            options |= {"block_dim": 256, "output_arch": 80 if device == "cuda" else None}
            builder: Any = context.ModuleBuilder(kernel.module, options, target=device)
            written: str = builder.codegen(device)
            return written
        finally:
            del sys.modules[module.__name__], linecache.cache[filename]
            # There is none if the file failed before its first function. Modules of Warp that it uses know of it, too.
            made: Any = context.user_modules.pop(module.__name__, None)
            if made is not None:
                made._detach_references()


def main() -> int:
    """What ``polyloom dataset validate`` starts: a line of JSON for Warp, and one for each kernel on standard input.

    The first has Warp's `version`, or an `error`. The others have the `texts` that `emit` gives of a kernel's `name`
    and `source`, or an `error`.
    """
    # Warp, and what it runs, may print.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def answer(**fields: Any) -> None:
        print(json.dumps(fields), file=answers, flush=True)

    try:
        answer(version=check())
    except (ImportError, RuntimeError) as error:
        answer(error=str(error))
        return 1
    for line in sys.stdin:
        kernel = json.loads(line)
        try:
            answer(texts=emit(kernel["name"], kernel["source"]))
        except Exception as error:
            answer(error=f"{type(error).__name__}: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
