"""Polyloom: numerical Python kernels compiled to fast code, for CPUs and GPUs, and differentiated.

Kernels are compiled from the text of their functions, so they are written in files or notebook cells::

    import numpy as np
    import polyloom as loom

    @loom.kernel
    def saxpy(a: float, x: loom.array(dtype=float), y: loom.array(dtype=float)):
        i = loom.tid()
        y[i] = a * x[i] + y[i]

    x, y = np.ones(4, np.float32), np.arange(4, dtype=np.float32)
    loom.launch(saxpy, 4, [2.0, x, y])
    print(y)  # [2. 3. 4. 5.]

Functions of whole arrays are fused, and differentiated::

    from polyloom import ops

    @loom.fuse
    def distance(x, y):
        return ops.sqrt(ops.sum(ops.square(ops.subtract(x, y))))

    print(distance(x, y), loom.grad(distance)(x, y))
"""

import math as _math
import typing as _typing

try:
    from polyloom import (
        _accesses,
        _arrays,
        _builtins,
        _compatibility,
        _composite_names,
        _creation,
        _custom,
        _device_memory,
        _devices,
        _gpu_module,
        _gradcheck,
        _graphs,
        _indexed,
        _interop,
        _kernel_op,
        _loggers,
        _planner,
        _ranks,
        _scalars,
        _streams,
        _structs,
        _tangents,
        _tape,
        _tasks,
        _tensor_gradients,
        ops,
        sim,
        types,
        utils,
    )
except (AttributeError, ImportError) as _error:
    raise ImportError(
        f"the compiled part of polyloom is missing or older than its Python part ({_error}): rebuild it, with "
        "`make develop` in a checkout"
    ) from _error
from polyloom._accesses import *  # noqa: F403
from polyloom._arrays import *  # noqa: F403
from polyloom._builtins import *  # noqa: F403
from polyloom._compatibility import *  # noqa: F403
from polyloom._composite_names import *  # noqa: F403
from polyloom._config import config
from polyloom._creation import *  # noqa: F403
from polyloom._custom import *  # noqa: F403
from polyloom._device_memory import *  # noqa: F403
from polyloom._devices import *  # noqa: F403
from polyloom._errors import (
    ArgumentError,
    CompileError,
    DeviceError,
    Diagnostic,
    Finding,
    InternalError,
    LaunchError,
    SanitizerError,
    StreamWarning,
    WarpCodegenAttributeError,
    WarpCodegenError,
    WarpCodegenIndexError,
    WarpCodegenKeyError,
    WarpCodegenTypeError,
    WarpCodegenValueError,
)
from polyloom._fuse import fuse, stats
from polyloom._gpu_module import *  # noqa: F403
from polyloom._gradcheck import *  # noqa: F403
from polyloom._graphs import *  # noqa: F403
from polyloom._indexed import *  # noqa: F403
from polyloom._interop import *  # noqa: F403
from polyloom._kernel import func, kernel
from polyloom._kernel import specialise as overload
from polyloom._kernel_op import *  # noqa: F403
from polyloom._loggers import *  # noqa: F403
from polyloom._loom_module import import_module, loom_module
from polyloom._map import map
from polyloom._native import Function, Plan, __version__, launch
from polyloom._planner import *  # noqa: F403
from polyloom._ranks import *  # noqa: F403
from polyloom._scalars import *  # noqa: F403
from polyloom._scalars import bool_ as bool  # noqa: A004
from polyloom._streams import *  # noqa: F403
from polyloom._structs import *  # noqa: F403
from polyloom._tangents import *  # noqa: F403
from polyloom._tape import *  # noqa: F403
from polyloom._tasks import *  # noqa: F403
from polyloom._tensor import Tensor
from polyloom._tensor_gradients import *  # noqa: F403

if _typing.TYPE_CHECKING:
    from polyloom import optim
    from polyloom._native import Kernel, Launch
else:
    from polyloom._kernel import Kernel
    from polyloom._launches import Launch

    # Out of sight of type checkers: to them it would make every name one of the package.
    def __getattr__(name):
        if name == "optim":
            # Its kernels are defined when somebody optimises.
            import importlib

            return importlib.import_module("polyloom.optim")
        from polyloom._absent import absent

        return absent(name)


# Warp's name for what stands for an object elsewhere.
handle = _scalars.uint64

pi = PI = _math.pi
tau = TAU = _math.tau
half_pi = HALF_PI = _math.pi / 2
e = E = _math.e
ln2 = LN2 = _math.log(2.0)
ln10 = LN10 = _math.log(10.0)
log2e = LOG2E = 1.0 / _math.log(2.0)
log10e = LOG10E = 1.0 / _math.log(10.0)
phi = PHI = (1.0 + 5.0**0.5) / 2.0
inf = INF = _math.inf
nan = NAN = _math.nan

__all__ = [
    "Tensor",
    "ArgumentError",
    "CompileError",
    "DeviceError",
    "Diagnostic",
    "Finding",
    "Function",
    "InternalError",
    "Kernel",
    "Launch",
    "LaunchError",
    "Plan",
    "SanitizerError",
    "StreamWarning",
    "WarpCodegenAttributeError",
    "WarpCodegenError",
    "WarpCodegenIndexError",
    "WarpCodegenKeyError",
    "WarpCodegenTypeError",
    "WarpCodegenValueError",
    "__version__",
    "bool",
    "config",
    "func",
    "fuse",
    "handle",
    "import_module",
    "kernel",
    "loom_module",
    "launch",
    "map",
    "ops",
    "optim",
    "overload",
    "sim",
    "stats",
    "types",
    "utils",
    *_accesses.__all__,
    *_arrays.__all__,
    *_builtins.__all__,
    *_compatibility.__all__,
    *_composite_names.__all__,
    *_creation.__all__,
    *_custom.__all__,
    *_indexed.__all__,
    *_device_memory.__all__,
    *_devices.__all__,
    *_gpu_module.__all__,
    *_gradcheck.__all__,
    *_graphs.__all__,
    *_interop.__all__,
    *_kernel_op.__all__,
    *_loggers.__all__,
    *_planner.__all__,
    *_ranks.__all__,
    *_scalars.__all__,
    *_streams.__all__,
    *_structs.__all__,
    *_tangents.__all__,
    *_tape.__all__,
    *_tasks.__all__,
    *_tensor_gradients.__all__,
]
