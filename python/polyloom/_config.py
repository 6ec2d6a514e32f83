"""`polyloom.config`: settings of the process, and those of Warp's that programs set."""

from __future__ import annotations

import os
from typing import Any, Literal

from polyloom import _native
from polyloom._native import Config as NativeConfig

# Settings of Warp's by which no result changes: they are about CUDA devices, gradients, how Warp compiles and what it
# says while it does. They keep what they are set to.
_WITHOUT_EFFECT = (
    "cache_kernels",
    "compile_time_trace",
    "cpu_compiler_flags",
    "cuda_arch_suffix",
    "cuda_output",
    "default_grid_stride",
    "deterministic_debug",
    "deterministic_max_records",
    "enable_backward",
    "enable_cpu_blocks",
    "enable_graph_capture_module_load_by_default",
    "enable_mathdx_fft",
    "enable_mathdx_gemm",
    "enable_mathdx_solver",
    "enable_mempools_at_init",
    "enable_tiles_in_stack_memory",
    "enable_vector_component_overwrites",
    "kernel_cache_dir",
    "launch_array_access_mode",
    "legacy_scalar_return_types",
    "legacy_cpu_linker",
    "line_directives",
    "lineinfo",
    "llvm_cuda",
    "load_module_max_workers",
    "log_level",
    "max_unroll",
    "optimization_level",
    "print_launches",
    "ptx_target_arch",
    "quiet",
    "track_memory",
    "use_precompiled_headers",
    "verbose",
    "verbose_warnings",
    "verify_autograd_array_access",
    "verify_cuda",
)


class Config:
    """Settings of the process; a kernel's own decorator wins. Kernels take `float_mode` when they are defined, and are
    checked if `check` is on then or when they are launched.

    Programs written for Warp may set its names too: `mode = "debug"` is `check = True`, the others change nothing.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.config.mode = "debug"
    >>> loom.config.check
    True
    >>> loom.config.check = False
    """

    __slots__ = ("_errors", "_settings", "_tape_memory", *_WITHOUT_EFFECT)
    _errors: Literal["definition", "launch"]
    _settings: NativeConfig
    _tape_memory: int

    def __init__(self) -> None:
        object.__setattr__(self, "_settings", NativeConfig())
        self.errors = os.environ.get("POLYLOOM_ERRORS", "definition")
        object.__setattr__(self, "_tape_memory", 64 << 20)
        for name in _WITHOUT_EFFECT:
            object.__setattr__(self, name, None)

    @property
    def check(self) -> bool:
        """Whether kernels are checked while they run. `POLYLOOM_CHECK=1` makes it true at first."""
        return self._settings.check

    @check.setter
    def check(self, value: bool) -> None:
        self._settings.check = value

    @property
    def database(self) -> str | None:
        """The benchmark database that policies look into and measurements are kept in: a file of SQLite, or
        `postgres://USER@HOST/NAME`. At first it is what `POLYLOOM_DATABASE` names, or `polyloom/benchmarks.db` in the
        user's data directory. None goes back to that."""
        return _native.database_place()

    @database.setter
    def database(self, value: Any) -> None:
        _native.set_database(None if value is None else os.fspath(value))

    @property
    def deterministic(self) -> bool:
        """Whether an estimate alone decides how threads run on the CPU, whatever launches have measured. Otherwise hot
        kernels may change from one way to another, and bits may change with it in the modes `"contract"` and `"fast"`.
        `POLYLOOM_DETERMINISTIC=1` makes it true at first. Values of Warp's `DeterministicMode` may be given as well."""
        return self._settings.deterministic

    @deterministic.setter
    def deterministic(self, value: Any) -> None:
        mode = str(getattr(value, "value", value)).lower()
        self._settings.deterministic = bool(value) and mode != "not_guaranteed"

    @property
    def errors(self) -> Literal["definition", "launch"]:
        """Where it is an error that a kernel cannot be compiled: at its `"definition"`, or only at its `"launch"`,
        with a `SyntaxWarning` at the definition. `POLYLOOM_ERRORS` sets it at first."""
        return self._errors

    @errors.setter
    def errors(self, value: str) -> None:
        if value not in ("definition", "launch"):
            raise ValueError(f"errors is 'definition' or 'launch', not {value!r}")
        object.__setattr__(self, "_errors", value)

    @property
    def float_mode(self) -> Literal["strict", "contract", "fast"]:
        """How floating-point arithmetic may be compiled: `"strict"`, `"contract"` or `"fast"`."""
        return self._settings.float_mode

    @float_mode.setter
    def float_mode(self, value: Literal["strict", "contract", "fast"]) -> None:
        self._settings.float_mode = value

    @property
    def lint(self) -> bool:
        """Whether defining a kernel gives a `SyntaxWarning` for code that means something else in Python."""
        return self._settings.lint

    @lint.setter
    def lint(self, value: bool) -> None:
        self._settings.lint = value

    @property
    def num_threads(self) -> int:
        """How many threads a launch may use. `POLYLOOM_NUM_THREADS` sets it at first, else the number of cores."""
        return self._settings.num_threads

    @num_threads.setter
    def num_threads(self, value: int) -> None:
        self._settings.num_threads = value

    @property
    def tape_memory(self) -> int:
        """How many bytes the tapes of a backward launch may take, 64 MiB at first. Where not all threads have place on
        them, they are launched in parts; where hardly any have, loops keep what they carry at some iterations only.
        The tapes of one thread may take more."""
        return self._tape_memory

    @tape_memory.setter
    def tape_memory(self, value: int) -> None:
        if not isinstance(value, int) or not 0 < value < 2**64:
            raise ValueError(f"tape_memory is a number of bytes, not {value!r}")
        object.__setattr__(self, "_tape_memory", value)

    @property
    def verify_fp(self) -> bool:
        """Whether a launch looks through the arrays that it writes afterwards, and prints where one holds an infinity
        or NaN. Launches of tapes' backward kernels, plans and graphs do not."""
        return self._settings.verify_fp

    @verify_fp.setter
    def verify_fp(self, value: bool) -> None:
        self._settings.verify_fp = bool(value)

    @property
    def mode(self) -> str:
        """`"debug"` if kernels are checked, else `"release"`: Warp's name for `check`."""
        return "debug" if self.check else "release"

    @mode.setter
    def mode(self, value: str) -> None:
        if value not in ("debug", "release"):
            raise ValueError(f"mode is 'debug' or 'release', not {value!r}")
        self.check = value == "debug"

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") or not hasattr(type(self), name):
            known = ", ".join(
                (
                    "check",
                    "database",
                    "deterministic",
                    "errors",
                    "float_mode",
                    "lint",
                    "num_threads",
                    "tape_memory",
                    "verify_fp",
                    "mode",
                )
            )
            raise AttributeError(
                f"config has no setting {name!r}: there are {known}, and such of Warp's as change no result"
            )
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"Config(check={self.check}, float_mode={self.float_mode!r}, num_threads={self.num_threads})"


config = Config()
