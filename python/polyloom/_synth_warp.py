"""Warp's own code for the kernels of data sets: ``polyloom.synth.extract_ir(emitter="warp")``.

Warp's code generator is Python and runs without a GPU; nothing is compiled. It is reached as Warp's own
ahead-of-time compilation reaches it, which is not among the names that Warp promises to keep.
"""

from __future__ import annotations

import linecache
import sys
import threading
import types
from typing import Any, Literal

COLUMNS = ("warp_cuda", "warp_cpp")
"""The columns of a data set that hold Warp's code."""

# Warp keeps its modules in tables of the process.
_lock = threading.Lock()
_n_modules = 0


def _warp() -> Any:
    try:
        import warp
    except ImportError as error:
        raise ImportError("emitter='warp' needs Warp: pip install 'polyloom[warp]'") from error
    return warp


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
    _warp()
    try:
        return text(name, source, "cuda"), text(name, source, "cpu")
    except Exception:
        # Warp has no one class of errors: whatever it raises, it has no code for the kernel.
        return None


def text(name: str, source: str, device: Literal["cuda", "cpu"]) -> str:
    """What Warp's code generator makes of a kernel of a file.

    Parameters
    ----------
    name, source : str
        The kernel, and a complete file that imports Warp.
    device : str
        ``cuda`` for CUDA C++, ``cpu`` for C++.

    Returns
    -------
    str
        The module's text, forward and backward, without the headers that it includes.
    """
    global _n_modules
    wp = _warp()
    from warp._src import context

    if "import warp as" not in source:
        raise ValueError(f"kernel {name!r} is not written for Warp: its file has no `import warp`")
    with _lock:
        _n_modules += 1
        # Warp knows modules by their names, and reads the text of functions from their files.
        module = types.ModuleType(f"polyloom_synth_warp_{_n_modules}")
        filename = f"<{module.__name__}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        sys.modules[module.__name__] = module
        try:
            exec(compile(source, filename, "exec"), module.__dict__)
            kernel = getattr(module, name)
            # Hashes in names tell versions of a kernel from each other, of which there is one.
            wp.set_module_options({"strip_hash": True}, module)
            options = kernel.module.resolve_options(wp.config, block_dim=256)
            options |= {"block_dim": 256, "output_arch": 80 if device == "cuda" else None}
            builder: Any = context.ModuleBuilder(kernel.module, options, target=device)
            written: str = builder.codegen(device)
            return written
        finally:
            del sys.modules[module.__name__], linecache.cache[filename]
