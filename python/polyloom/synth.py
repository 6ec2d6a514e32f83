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

import json
import linecache
import operator
import os
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from polyloom import _native, _source_units
from polyloom._devices import gpu_available
from polyloom._native import Kernel

__all__ = ["CATEGORIES", "SynthesisedKernel", "extract_ir", "generate_kernel", "merge", "produce"]

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
        module = types.ModuleType(self.name)
        try:
            exec(compile(text, filename, "exec"), module.__dict__)
        finally:
            linecache.cache.pop(filename, None)
            _source_units.forget(filename)
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
        If there is no such category, or the seed is beyond these.
    """
    seed = _checked_seed(seed)
    name, source, difficulty = _native.generate_kernel(category, seed)
    return SynthesisedKernel(name, category, source, difficulty, seed)


def extract_ir(
    kernel: Kernel | SynthesisedKernel,
    device: Device = "both",
    arch: str | None = None,
    emitter: Literal["polyloom", "warp"] = "polyloom",
) -> dict[str, Any]:
    """The code that a kernel compiles to, by the names of a data set's columns, and what there is to know of it.

    Parameters
    ----------
    kernel : Kernel or SynthesisedKernel
        Any kernel.
    device : str
        ``cuda`` for CUDA C++, LLVM IR and PTX, ``cpu`` for C++, or ``both``. Nothing is run: no GPU is needed.
    arch : str, optional
        The GPU architecture of LLVM IR and PTX, such as ``sm_90``; by default ``sm_80``.
    emitter : str
        ``warp`` for the text of Warp's own code generator (``pip install warp-lang``) in place of
        Polyloom's: ``warp_cuda`` and ``warp_cpp``, each forward and backward. The kernel's file has to
        import Warp, and is run again.

    Returns
    -------
    dict
        ``kernel_name``, ``python_source`` (the kernel with what it needs of its file), ``hir``, and
        what `device` asks for of ``cuda_forward``, ``cuda_backward``, ``llvm_ir_forward``,
        ``ptx_forward``, ``ptx_backward``, ``cpp_forward`` and ``cpp_backward``. Those of the
        backward kernel are None if the kernel has no derivative. ``metadata`` is a dictionary that always has
        ``device``, as asked for; ``cuda_available``, whether there is a GPU here; and ``codegen_only``, whether
        there is GPU code and no GPU that could run it. Of Polyloom's GPU code it has what `Kernel.gpu_metadata` gives
        besides.

    Raises
    ------
    TypeError
        If `kernel` is neither of these.
    ValueError
        If there is no such device or architecture, or Warp's code is asked for of a kernel without text.
    CompileError
        If the kernel does not compile.
    """
    if not isinstance(kernel, (Kernel, SynthesisedKernel)):
        raise TypeError(f"a kernel is wanted, not {type(kernel).__name__}")
    if device not in ("cuda", "cpu", "both"):
        raise ValueError(f"there is no device {device!r}; there are 'cuda', 'cpu' and 'both'")
    _check_choices(emitter=(emitter, ("polyloom", "warp")))
    source = kernel.source
    if emitter == "warp":
        from polyloom import _synth_warp

        if source is None:
            raise ValueError(f"nothing is known of the text of kernel {kernel.name!r}")
        warp: dict[str, Any] = {"kernel_name": kernel.name, "python_source": source, "metadata": _metadata(device)}
        if device != "cpu":
            warp["warp_cuda"] = _synth_warp.text(kernel.name, source, "cuda")
        if device != "cuda":
            warp["warp_cpp"] = _synth_warp.text(kernel.name, source, "cpu")
        return warp
    if isinstance(kernel, SynthesisedKernel):
        kernel = kernel.kernel()
    target: dict[str, Any] = {} if arch is None else {"arch": arch}

    differentiable = _native.has_backward(kernel)

    def backward(write: Callable[..., str], **options: Any) -> str | None:
        return write(backward=True, **options) if differentiable else None

    code: dict[str, Any] = {
        "kernel_name": kernel.name,
        "python_source": source,
        "hir": kernel.hir(),
        "metadata": _metadata(device),
    }
    if device != "cpu":
        code["metadata"].update(kernel.gpu_metadata(**target))
        code["cuda_forward"] = kernel.cuda()
        code["cuda_backward"] = backward(kernel.cuda)
        code["llvm_ir_forward"] = kernel.llvm_ir(arch=arch or code["metadata"]["target_archs"][0])
        code["ptx_forward"] = kernel.ptx(**target)
        code["ptx_backward"] = backward(kernel.ptx, **target)
    if device != "cuda":
        code["cpp_forward"] = kernel.cpp()
        code["cpp_backward"] = backward(kernel.cpp)
    return code


def _metadata(device: str) -> dict[str, Any]:
    is_available = gpu_available()
    return {"device": device, "codegen_only": device != "cpu" and not is_available, "cuda_available": is_available}


def produce(
    count: int | None,
    output: str | os.PathLike[str],
    *,
    source: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
    category: str = "user",
    license: str = "unknown",
    seed: int = 0,
    categories: Iterable[str] | None = None,
    verify: Literal["parse", "compile", "run", "grad", "full"] = "full",
    nvrtc: bool = True,
    dedup: Literal["exact", "alpha", "structure"] = "structure",
    columns: Iterable[str] | None = None,
    format: Literal["jsonl", "jsonl.zst", "parquet"] = "jsonl",
    device: Device = "both",
    arch: str | None = None,
    emitter: Literal["polyloom", "warp"] = "polyloom",
    timings: bool = False,
    indices_per_file: int = 10_000,
    index_range: tuple[int, int] | None = None,
    shard: tuple[int, int] | None = None,
    exclude: Iterable[str | os.PathLike[str]] = (),
    engine: Literal["local", "ray"] = "local",
    jobs: int | None = None,
    resume: bool = False,
    progress: Callable[[int, int, float], object] | None = None,
) -> dict[str, Any]:
    """Writes a data set of verified kernels, as ``polyloom dataset produce`` does.

    Parameters
    ----------
    count : int or None
        How many rows; None for all kernels of `source`, or all that `index_range` gives.
    output : path
        The folder to write to.
    source : path or iterable of path, optional
        Files and folders whose kernels are taken, instead of generating some.
    category, license : str
        What rows of kernels of `source` have as their category and their licence.
    seed : int
        The same seed, settings and version give the same bytes.
    categories : iterable of str, optional
        Some of `CATEGORIES`; by default all, as many rows of each.
    verify : str
        The level that every row must pass.
    nvrtc : bool
        Whether, at the level ``full``, the CUDA C++ of every row is compiled by NVRTC or, where that is not installed,
        checked by clang or g++; ``cuda_compiler`` in a row's metadata says by which. NVRTC takes most
        of the time then.
    dedup : str
        What tells rows from each other.
    columns : iterable of str, optional
        The columns to write; by default all but those of NVIDIA's tools and of Warp.
    format : str
        The format of the files.
    device : str
        Which code goes into the rows.
    arch : str, optional
        The GPU architecture of PTX and LLVM IR.
    emitter : str
        ``warp`` adds the columns ``warp_cuda`` and ``warp_cpp``, what Warp's own code generator makes of the
        kernel (``pip install warp-lang``); they are None where Warp does not take it. Not with `source`: Warp runs
        the files of kernels, of which Polyloom only reads those that others wrote.
    timings : bool
        Whether rows say how long they took to make, in which no two runs are alike.
    indices_per_file : int
        How many indices are finished together: a run that is interrupted loses no more than these.
    index_range : (int, int), optional
        The first index and the one after the last: the rows of these, as many as there are. `count` is None then.
    shard : (int, int), optional
        Which part of the data set to make, from 0, and how many parts there are: `merge` puts them together.
    exclude : iterable of path
        Files, ``.py``, ``.jsonl``, ``.jsonl.zst`` or ``.parquet``, of kernels that no row may be like.
    engine : str
        ``local`` for threads of this process, ``ray`` for tasks of a Ray cluster (``pip install ray``),
        one for each `indices_per_file` indices. All its machines have to see `output`.
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
    TypeError
        If one string is given for a list of names, or something else for a number.
    FileExistsError
        If the folder holds a data set and `resume` is false, or something else that is in the way, or another run
        writes to it.
    RuntimeError
        If a thousand indices in a row give no row, no kernel of `source` does, or a back end does not work here. With
        ``engine="ray"`` these are of files without a row.
    OSError
        If a file cannot be written. What was finished before is kept.
    """
    if count is None and source is None and index_range is None:
        raise ValueError("say how many rows to generate, or give the `source` that has the kernels")
    count = None if count is None else operator.index(count)
    if count is not None and not 0 < count < 2**63:
        raise ValueError(f"the count is {count}: a data set has from one to 2**63 - 1 rows")
    seed = _checked_seed(seed)
    indices_per_file = operator.index(indices_per_file)
    if indices_per_file < 1:
        raise ValueError(f"indices_per_file is {indices_per_file}: it is 1 at least")
    _check_choices(
        level=(verify, ("parse", "compile", "run", "grad", "full")),
        dedup=(dedup, ("exact", "alpha", "structure")),
        format=(format, ("jsonl", "jsonl.zst", "parquet")),
        device=(device, ("cuda", "cpu", "both")),
        emitter=(emitter, ("polyloom", "warp")),
        engine=(engine, ("local", "ray")),
    )
    jobs = None if jobs is None else operator.index(jobs)
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs is {jobs}: rows are made by one thread at least")
    for name, names in (("categories", categories), ("columns", columns), ("exclude", exclude)):
        if isinstance(names, (str, os.PathLike)):
            raise TypeError(f"{name} is a list, not one string or path")
    categories = None if categories is None else list(categories)
    columns = None if columns is None else list(columns)
    if not all(isinstance(name, str) for name in [*(categories or ()), *(columns or ())]):
        raise TypeError("categories and columns are lists of names")
    for name, switch in (("nvrtc", nvrtc), ("timings", timings), ("resume", resume)):
        if not isinstance(switch, bool):
            raise TypeError(f"{name} is True or False, not {switch!r}")
    if not isinstance(arch, str | None):
        raise TypeError(f"arch is a name such as 'sm_80', not {arch!r}")
    settings = json.loads(_native.dataset_settings(count or 0, seed))
    settings["count"] = count
    settings.update(verify=verify, nvrtc=nvrtc, dedup=dedup, device=device, format=format)
    settings.update(timings=timings, indices_per_chunk=indices_per_file)
    if categories is not None:
        settings["categories"] = categories
    if columns is not None:
        known = _native.dataset_columns()
        unknown = [name for name in columns if name not in known]
        if unknown:
            raise ValueError(f"there is no column {unknown[0]!r}; there are {', '.join(known)}")
        if not columns:
            raise ValueError("a row has one column at least")
        settings["columns"] = [name for name in known if name in columns]
    emit = None
    if emitter == "warp":
        if source is not None:
            raise ValueError(
                "emitter='warp' runs the file of a kernel, with its imports, and of a `source` nothing is run but the "
                "kernels: leave out one of the two"
            )
        from polyloom import _synth_warp

        emit = (_synth_warp.check(), _synth_warp.emit)
        settings["columns"] += [name for name in _synth_warp.COLUMNS if name not in settings["columns"]]
    if arch is not None:
        settings["arch"] = arch
    if index_range is not None:
        first, end = (operator.index(index) for index in index_range)
        if count is not None or shard is not None or not 0 <= first < end:
            raise ValueError("index_range is a first index and a greater one, with neither count nor shard")
        settings.update(first=first, end=end)
    if shard is not None:
        number, of = (operator.index(part) for part in shard)
        if not 0 <= number < of:
            raise ValueError(f"there is no shard {number} of {of}: the first is 0")
        settings = json.loads(_native.dataset_part(json.dumps(settings), number, of))
    folder = os.fspath(output)
    excluded = [os.fspath(path) for path in exclude]
    if engine == "ray":
        if source is not None or emit is not None or count is None:
            raise ValueError("engine='ray' makes generated kernels, with this compiler: for others it is 'local'")
        if shard is not None:
            raise ValueError("engine='ray' makes all shards itself")
        from polyloom import _synth_ray

        _synth_ray.produce(settings, folder, jobs=jobs or 1, resume=resume, exclude=excluded, progress=progress)
        result: dict[str, Any] = json.loads(Path(folder, "stats.json").read_text())
        return result
    n_jobs = min(jobs or len(os.sched_getaffinity(0)), 1024)
    files = [source] if isinstance(source, (str, os.PathLike)) else source
    found = None if files is None else ([os.fspath(path) for path in files], category, license)
    _native.produce_dataset(json.dumps(settings), folder, n_jobs, resume, excluded, found, emit, progress)
    statistics: dict[str, Any] = json.loads(Path(folder, "stats.json").read_text())
    return statistics


def merge(
    shards: Iterable[str | os.PathLike[str]], output: str | os.PathLike[str], count: int | None = None
) -> dict[str, Any]:
    """Puts the shards of a data set together, as ``polyloom dataset merge`` does.

    Parameters
    ----------
    shards : iterable of path
        The folders of all shards, in any order.
    output : path
        The folder to write to: what one run would have written.
    count : int, optional
        How many rows to write; by default all.

    Returns
    -------
    dict
        What ``stats.json`` holds. Its ``total_pairs`` are fewer than `count` if the shards have no more.

    Raises
    ------
    ValueError
        If these are not all shards of one data set, or one of them is not finished.
    FileExistsError
        If something is in the way in the folder.
    OSError
        If a file cannot be read or written, or is not what its manifest says.
    """
    folder = os.fspath(output)
    if isinstance(shards, (str, os.PathLike)):
        raise TypeError("shards is a list, not one string or path")
    count = None if count is None else operator.index(count)
    if count is not None and not 0 < count < 2**63:
        raise ValueError(f"the count is {count}: a data set has from one to 2**63 - 1 rows")
    _native.merge_datasets([os.fspath(shard) for shard in shards], folder, count)
    statistics: dict[str, Any] = json.loads(Path(folder, "stats.json").read_text())
    return statistics


def _checked_seed(seed: int) -> int:
    seed = operator.index(seed)
    if not 0 <= seed < 2**64:
        raise ValueError(f"the seed is {seed}: it is from 0 to 2**64 - 1")
    return seed


def _check_choices(**choices: tuple[str, tuple[str, ...]]) -> None:
    for name, (value, known) in choices.items():
        if value not in known:
            *all_but_last, last = (repr(one) for one in known)
            raise ValueError(f"there is no {name} {value!r}; there are {', '.join(all_but_last)} and {last}")
