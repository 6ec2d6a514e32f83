"""Data sets of kernels to train code models on: the pieces of ``polyloom dataset``.

>>> import polyloom as loom
>>> from polyloom import synth
>>> made = synth.generate_kernel("arithmetic", seed=7)
>>> made.name in made.source
True
>>> code = synth.extract_ir(made.kernel(), device="cuda")
>>> f"{made.name}_cuda_kernel_forward" in code["cuda_forward"]
True
"""

from __future__ import annotations

import importlib.util
import json
import linecache
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from polyloom import _native
from polyloom._errors import CompileError
from polyloom._native import Kernel

__all__ = ["CATEGORIES", "SynthesisedKernel", "extract_ir", "generate_kernel", "produce"]

CATEGORIES: tuple[str, ...] = tuple(_native.kernel_categories())
"""What generated kernels may be examples of."""

Device = Literal["cuda", "cpu", "both"]


@dataclass(frozen=True)
class SynthesisedKernel:
    """A generated kernel.

    Attributes
    ----------
    name : str
        The kernel's name in `source`.
    category : str
        What it is an example of.
    source : str
        A complete file: an import, functions, the kernel.
    difficulty : int
        From 0, a line or two, to 4.
    seed : int
        What it was generated from.
    """

    name: str
    category: str
    source: str
    difficulty: int
    seed: int

    def kernel(self) -> Kernel:
        """The kernel, ready to launch. The file's ``import warp as wp`` is answered by Polyloom.

        Returns
        -------
        Kernel
            What the decorator in `source` gives.
        """
        # Kernels read their own text, which is in no file.
        filename = f"<{self.category} kernel {self.seed}>"
        text = self.source.replace("import warp as wp", "import polyloom as wp", 1)
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        spec = importlib.util.spec_from_loader(self.name, loader=None)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(self.name, module)
        exec(compile(text, filename, "exec"), module.__dict__)
        kernel = module.__dict__[self.name]
        assert isinstance(kernel, Kernel)
        return kernel


def generate_kernel(category: str, seed: int) -> SynthesisedKernel:
    """Generates a kernel: the same one for the same category, seed and version, on every machine.

    It compiles, but nobody has run it: `produce` writes kernels that are proved right.

    Parameters
    ----------
    category : str
        One of `CATEGORIES`.
    seed : int
        From 0 to 2**64 - 1.

    Returns
    -------
    SynthesisedKernel

    Raises
    ------
    ValueError
        If there is no such category.
    """
    name, source, difficulty = _native.generate_kernel(category, seed)
    return SynthesisedKernel(name, category, source, difficulty, seed)


def extract_ir(kernel: Kernel, device: Device = "both", arch: str | None = None) -> dict[str, str | None]:
    """The code that a kernel compiles to, by the names of a data set's columns.

    Parameters
    ----------
    kernel : Kernel
        Any kernel.
    device : str
        ``cuda`` for CUDA C++ and PTX, ``cpu`` for C++, or ``both``. Nothing is run: no GPU is needed.
    arch : str, optional
        The GPU architecture of PTX, such as ``sm_90``; by default ``sm_80``.

    Returns
    -------
    dict
        ``kernel_name``, ``hir``, and what `device` asks for of ``cuda_forward``, ``cuda_backward``,
        ``ptx_forward``, ``ptx_backward``, ``cpp_forward`` and ``cpp_backward``. Those of the
        backward kernel are None if the kernel has no derivative.
    """
    if device not in ("cuda", "cpu", "both"):
        raise ValueError(f"there is no device {device!r}; there are 'cuda', 'cpu' and 'both'")
    target: dict[str, Any] = {} if arch is None else {"arch": arch}

    def backward(write: Callable[..., str], **options: Any) -> str | None:
        try:
            return write(backward=True, **options)
        except CompileError as error:
            if all(diagnostic.code == "PL0701" for diagnostic in error.diagnostics):
                return None
            raise

    code: dict[str, str | None] = {
        "kernel_name": kernel.name,
        "hir": kernel.hir(),
    }
    if device != "cpu":
        code["cuda_forward"] = kernel.cuda()
        code["cuda_backward"] = backward(kernel.cuda)
        code["ptx_forward"] = kernel.ptx(**target)
        code["ptx_backward"] = backward(kernel.ptx, **target)
    if device != "cuda":
        code["cpp_forward"] = kernel.cpp()
        code["cpp_backward"] = backward(kernel.cpp)
    return code


def produce(
    count: int,
    output: str | os.PathLike[str],
    *,
    seed: int = 0,
    categories: Iterable[str] | None = None,
    verify: Literal["parse", "compile", "run", "grad", "full"] = "full",
    dedup: Literal["exact", "alpha", "structure"] = "structure",
    columns: Iterable[str] | None = None,
    format: Literal["jsonl", "jsonl.zst", "parquet"] = "jsonl",
    device: Device = "both",
    arch: str | None = None,
    exclude: Iterable[str | os.PathLike[str]] = (),
    jobs: int | None = None,
    resume: bool = False,
    progress: Callable[[int, int, float], object] | None = None,
) -> dict[str, Any]:
    """Writes a data set of verified kernels, as ``polyloom dataset produce`` does.

    Parameters
    ----------
    count : int
        How many rows.
    output : path
        The folder to write to.
    seed : int
        The same seed, settings and version give the same bytes.
    categories : iterable of str, optional
        Some of `CATEGORIES`; by default all, as many rows of each.
    verify : str
        The level that every row must pass.
    dedup : str
        What tells rows from each other.
    columns : iterable of str, optional
        The columns to write; by default all.
    format : str
        The format of the files.
    device : str
        Which code goes into the rows.
    arch : str, optional
        The GPU architecture of PTX and LLVM IR.
    exclude : iterable of path
        Files, ``.py`` or ``.jsonl``, of kernels that no row may be like.
    jobs : int, optional
        How many threads make rows; by default one for each core.
    resume : bool
        Whether to go on with what the folder holds.
    progress : callable, optional
        Called about ten times a second with the rows there are, the kernels rejected and the seconds since the
        beginning. What it raises ends the run, which `resume` goes on with.

    Returns
    -------
    dict
        What ``stats.json`` holds.

    Raises
    ------
    ValueError
        If a setting is not one that there is, or not that of the data set to go on with.
    FileExistsError
        If the folder holds a data set and `resume` is false.
    OSError
        If a file cannot be written. What was finished before is kept.
    """
    settings = json.loads(_native.dataset_settings(count, seed))
    settings.update(verify=verify, dedup=dedup, device=device, format=format)
    if categories is not None:
        settings["categories"] = list(categories)
    if columns is not None:
        wanted = list(columns)
        unknown = [name for name in wanted if name not in settings["columns"]]
        if unknown:
            raise ValueError(f"there is no column {unknown[0]!r}; there are {', '.join(settings['columns'])}")
        settings["columns"] = [name for name in settings["columns"] if name in wanted]
    if arch is not None:
        settings["arch"] = arch
    n_jobs = jobs or len(os.sched_getaffinity(0))
    folder = os.fspath(output)
    excluded = [os.fspath(path) for path in exclude]
    _native.produce_dataset(json.dumps(settings), folder, n_jobs, resume, excluded, progress)
    statistics: dict[str, Any] = json.loads(Path(folder, "stats.json").read_text())
    return statistics
