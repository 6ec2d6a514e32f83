"""What programs written for Warp call at module level, where Polyloom has little to do."""

from __future__ import annotations

import cProfile
import os
import pstats
import sys
import time
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, TypeVar

from polyloom._arrays import array
from polyloom._composites import Transformation, transformation
from polyloom._devices import DeviceLike, get_device
from polyloom._scalars import float32

__all__ = [
    "Module",
    "ScopedTimer",
    "clear_kernel_cache",
    "constant",
    "fixedarray",
    "force_load",
    "get_cuda_driver_version",
    "get_cuda_toolkit_version",
    "get_module",
    "get_module_options",
    "init",
    "load_module",
    "set_module_options",
    "static",
    "transform_expand",
]

T = TypeVar("T")


def constant(value: T) -> T:
    """`value`: what a kernel captures is a constant of it anyway.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.constant(loom.vec2(1, 2))
    vec2([1.0, 2.0])
    """
    return value


def static(value: T) -> T:
    """`value`. In a kernel, Python computes the expression when the kernel is compiled.

    Any expression of names from outside the kernel, of constants and of counters of loops over constant ranges, whose
    value is a number, a bool, a vector or its like, a function to call, a type or a string to print.
    """
    return value


def transform_expand(xform: Any) -> Transformation:
    """The transformation of a sequence of seven numbers, the translation first.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.transform_expand((1, 2, 3, 0, 0, 0, 1)).p
    vec3([1.0, 2.0, 3.0])
    """
    return transformation(float32)(*xform)


def init() -> None:
    """Nothing: importing the package is enough."""


# Warp's options of modules, as they are at first.
_MODULE_OPTIONS = {
    "block_dim": 256,
    "compile_time_trace": False,
    "cpu_compiler_flags": None,
    "cuda_output": None,
    "deterministic": None,
    "deterministic_max_records": 0,
    "default_grid_stride": None,
    "enable_backward": True,
    "enable_mathdx_fft": None,
    "enable_mathdx_gemm": None,
    "enable_mathdx_solver": None,
    "fast_math": False,
    "fuse_fp": True,
    "lineinfo": False,
    "max_unroll": 16,
    "mode": None,
    "optimization_level": None,
    "strip_hash": False,
}


def fixedarray(dtype: Any = None, shape: Any = None) -> Any:
    """The annotation of an array that a kernel has to itself, made in it by `zeros(shape=…, dtype=…)`.

    Parameters
    ----------
    dtype
        The type of its elements.
    shape : int or sequence of int
        Its extents; a function is compiled for those of the array that it is given.
    """
    return array(dtype=dtype, ndim=1 if isinstance(shape, int) else len(tuple(shape)))


def get_cuda_driver_version() -> tuple[int, int] | None:
    """None: what of CUDA is there does not depend on its driver's version."""
    return None


def get_cuda_toolkit_version() -> tuple[int, int] | None:
    """None: there is no tool kit in the package."""
    return None


class Module:
    """A Python module's kernels, as far as there is anything to say of them together: their options.

    Attributes
    ----------
    name : str
        Name of the Python module.
    options : dict
        Warp's options of modules, with what `set_module_options` was given. No option changes how kernels are
        compiled; `config` and the arguments of `kernel` do.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.options: dict[str, Any] = dict(_MODULE_OPTIONS)

    def load(self, device: DeviceLike = None, block_dim: int | None = None) -> None:
        """Nothing but to check the device: kernels are compiled one by one, when they are defined."""
        get_device(device)

    def unload(self) -> None:
        """Nothing: a kernel's code goes with the kernel."""

    def __repr__(self) -> str:
        return f"<module of kernels {self.name!r}>"


_modules: dict[str, Module] = {}


def checked_module_options(function: str, options: dict[str, Any]) -> dict[str, Any]:
    """Warp's options for the module that a kernel has to itself, of the arguments of its decorator.

    Raises
    ------
    TypeError, ValueError
        If the kernel shares its module, or there is no such option.
    """
    given = options.get("module_options")
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise TypeError(f"@kernel for {function!r}: module_options must be a dict, got {type(given).__name__}")
    if options.get("module") != "unique":
        raise ValueError(
            f'@kernel for {function!r}: module_options requires module="unique"; set_module_options() is for modules '
            "of several kernels"
        )
    if unknown := sorted(set(given) - set(_MODULE_OPTIONS)):
        valid = ", ".join(sorted(_MODULE_OPTIONS))
        raise ValueError(
            f"@kernel for {function!r}: unknown module_options: {', '.join(unknown)}. Valid options: {valid}"
        )
    n_records = given.get("deterministic_max_records", 0)
    if isinstance(n_records, bool) or not isinstance(n_records, int):
        raise TypeError(f"deterministic_max_records must be an int, got {type(n_records).__name__}")
    if n_records < 0:
        raise ValueError(f"deterministic_max_records must not be negative, got {n_records}")
    return dict(given)


def module_of_kernel(kernel_module: Any, function: Any) -> Module:
    """The module of a kernel: the one its decorator names, one of its own for `"unique"`, or that of its function."""
    if isinstance(kernel_module, Module):
        return kernel_module
    if kernel_module == "unique":
        return Module(f"{function.__module__}.{function.__qualname__}")
    return get_module(function.__module__ if kernel_module is None else str(kernel_module))


def get_module(name: str) -> Module:
    """What there is to say of the kernels of the Python module of this name."""
    return _modules.setdefault(name, Module(name))


def _module_of(module: Any, depth: int) -> Module:
    if module is None:
        module = sys._getframe(depth + 1).f_globals.get("__name__", "__main__")
    if isinstance(module, Module):
        return module
    return get_module(module.__name__ if isinstance(module, ModuleType) else module)


def set_module_options(options: dict[str, Any], module: Any = None) -> None:
    """Keeps options of a module, that of the caller if none is given. They change nothing.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.set_module_options({"enable_backward": False})
    >>> loom.get_module_options()["enable_backward"]
    False
    """
    _module_of(module, 1).options.update(options)


def get_module_options(module: Any = None) -> dict[str, Any]:
    """The options of a module, that of the caller if none is given, with what `set_module_options` was given."""
    return dict(_module_of(module, 1).options)


def _check_devices(device: Any) -> None:
    for each in device if isinstance(device, (list, tuple)) else [device]:
        get_device(each)


def force_load(
    device: Any = None, modules: Any = None, block_dim: int | None = None, max_workers: int | None = None
) -> None:
    """Nothing but to check the device: kernels are compiled when they are defined, and `Kernel.compile` makes code."""
    _check_devices(device)


def load_module(
    module: Any = None,
    device: Any = None,
    recursive: bool = False,
    block_dim: int | None = None,
    max_workers: int | None = None,
) -> None:
    """Nothing but to check the device: kernels are compiled when they are defined, and `Kernel.compile` makes code."""
    _check_devices(device)


def clear_kernel_cache() -> None:
    """Deletes the compiled code that is kept on disk. Kernels that are defined keep theirs."""
    folder = os.environ.get("POLYLOOM_CACHE_DIR")
    if not folder:
        # As the cache does, which takes no relative folder from these.
        caches = os.environ.get("XDG_CACHE_HOME", "")
        base = Path(caches) if os.path.isabs(caches) else Path.home() / ".cache"
        folder = str(base / "polyloom")
    # An entry's name is its key in hexadecimal, split after the first byte: nothing else in the folder goes.
    for entry in Path(folder).glob("[0-9a-f][0-9a-f]/*"):
        if len(entry.name) == 62 and set(entry.name) <= set("0123456789abcdef"):
            entry.unlink(missing_ok=True)


class ScopedTimer:
    """Measures how long the body of a `with` statement takes, in milliseconds, and prints it.

    Parameters
    ----------
    name : str
        What is printed with the time.
    active : bool
        Whether to do anything.
    print : bool
        Whether to print the time.
    detailed : bool
        Whether to profile the body, and print what took longest.
    dict : dict of str to list of float, optional
        Gets the time appended to its list of this name.
    use_nvtx, color, synchronize, cuda_filter, report_func, skip_tape
        Of CUDA devices or gradients; without effect.

    Attributes
    ----------
    elapsed : float
        The time, when the body is done.

    Examples
    --------
    >>> import polyloom as loom
    >>> times = {}
    >>> with loom.ScopedTimer("nothing", print=False, dict=times) as timer:
    ...     pass
    >>> times["nothing"] == [timer.elapsed]
    True
    """

    _depth = 0

    def __init__(
        self,
        name: str,
        active: bool = True,
        print: bool = True,  # noqa: A002 - Warp's name
        detailed: bool = False,
        dict: dict[str, list[float]] | None = None,  # noqa: A002 - Warp's name
        use_nvtx: bool = False,
        color: int | str = "rapids",
        synchronize: bool = False,
        cuda_filter: int = 0,
        report_func: Any = None,
        skip_tape: bool = False,
    ) -> None:
        self.name = name
        self.active = active
        self.print = print
        self.detailed = detailed
        self.dict = dict
        self.elapsed = 0.0
        self.timing_results: list[Any] = []
        self._profile: cProfile.Profile | None = None

    def __enter__(self) -> ScopedTimer:
        if self.active:
            ScopedTimer._depth += 1
            if self.detailed:
                self._profile = cProfile.Profile()
                self._profile.enable()
            self._start = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.active:
            return
        self.elapsed = (time.perf_counter() - self._start) * 1000.0
        ScopedTimer._depth -= 1
        if self.dict is not None:
            self.dict.setdefault(self.name, []).append(self.elapsed)
        if self._profile is not None:
            self._profile.disable()
            pstats.Stats(self._profile).sort_stats("tottime").print_stats(20)
        if self.print:
            indent = "    " * ScopedTimer._depth
            sys.stdout.write(f"{indent}{self.name} took {self.elapsed:.2f} ms\n")
