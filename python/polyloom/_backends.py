"""Backends: what can compute a tensor graph, and the functions that run one op by op."""

from __future__ import annotations

import enum
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyloom import _native, _numpy_kernels, _torch_kernels


class Backend(enum.Enum):
    """A library and a device that compute tensor ops.

    A backend whose library or device is missing is absent: `Backend.available()` leaves it out, and no path uses it.
    """

    CPU_NUMPY = "numpy on the CPU"
    CPU_TORCH = "torch on the CPU"
    GPU_TORCH = "torch on a GPU"
    CPU_NATIVE = "Polyloom's code for the CPU"
    GPU_CUDA = "Polyloom's code for GPUs"
    SIM = "Polyloom's code for GPUs on the simulator"

    @staticmethod
    def available() -> list[Backend]:
        """The backends that this process has, the simulator last: it is never chosen for speed.

        Examples
        --------
        >>> from polyloom import Backend
        >>> Backend.CPU_NATIVE in Backend.available() and Backend.CPU_NUMPY in Backend.available()
        True
        """
        found = [Backend.CPU_NATIVE, Backend.CPU_NUMPY]
        if importlib.util.find_spec("torch") is not None:
            found.append(Backend.CPU_TORCH)
            if _has_torch_gpu():
                found.append(Backend.GPU_TORCH)
        if _native.gpu_available():
            found.append(Backend.GPU_CUDA)
        return [*found, Backend.SIM]


class _Library:
    """How a library computes: its kernels, and how it makes what they are given and ends what they give."""

    def __init__(self, name: str, kernels: dict[str, Callable[..., Any]]) -> None:
        self.name, self.kernels = name, kernels

    def constant(self, value: Any) -> Any:
        """A value without axes, from NumPy's."""
        return value

    def checked(self, dtype: Any) -> Any:
        """The library's element type for NumPy's."""
        return dtype

    def ended(self, value: Any, dtype: Any) -> Any:
        """A result of a kernel in the element type that the graph says."""
        return value if getattr(value, "dtype", None) == dtype else np.asarray(value).astype(dtype)


class _Torch(_Library):
    def __init__(self, device: str) -> None:
        super().__init__("PyTorch", _torch_kernels.kernels())
        self.device = device

    def constant(self, value: Any) -> Any:
        import torch

        return torch.tensor(value, dtype=_torch_kernels.dtype_of(value.dtype), device=self.device)

    def checked(self, dtype: Any) -> Any:
        return _torch_kernels.dtype_of(dtype)

    def ended(self, value: Any, dtype: Any) -> Any:
        return value.to(dtype)


def numpy_runner(graph: _native.TensorGraph) -> Callable[..., list[Any]]:
    """A function that computes a graph by NumPy, op by op, from arrays and then the numbers of a run.

    Raises
    ------
    NotImplementedError
        NumPy has no kernel for an op of the graph.
    """
    run = _runner(graph, _Library("NumPy", _numpy_kernels.KERNELS))

    def quiet(*arguments: Any) -> list[Any]:
        with np.errstate(all="ignore"):
            return [np.asarray(each) for each in run(*arguments)]

    return quiet


def torch_runner(graph: _native.TensorGraph, device: str = "cpu") -> Callable[..., list[Any]]:
    """A function that computes a graph by PyTorch, op by op, from tensors on a device and then the numbers of a run.

    Raises
    ------
    NotImplementedError
        PyTorch has no kernel for an op of the graph, or does not compute in one of its element types.
    """
    return _runner(graph, _Torch(device))


def _runner(graph: _native.TensorGraph, library: _Library) -> Callable[..., list[Any]]:
    steps: list[tuple[int, Callable[..., Any], Sequence[int | None], tuple[Any, ...], Any]] = []
    inputs: list[int] = []
    numbers: list[tuple[int, int, Any]] = []
    constants: list[tuple[int, Any]] = []
    last_use: dict[int, int] = {}
    values = graph.values
    for place, (kind, operands, attributes, dtype, _) in enumerate(values):
        own_dtype = library.checked(dtype)
        if kind == "input":
            inputs.append(place)
        elif kind == "number":
            numbers.append((place, attributes[0], dtype))
        elif kind == "constant":
            bits = np.array([attributes[0]], np.uint64).view(np.uint8)
            constants.append((place, library.constant(bits[: np.dtype(dtype).itemsize].view(dtype)[0])))
        elif kind in library.kernels:
            steps.append((place, library.kernels[kind], operands, attributes, own_dtype))
            last_use.update((operand, place) for operand in operands if operand is not None)
        else:
            raise NotImplementedError(f"{library.name} has no kernel for `{kind}`")
    outputs = graph.outputs
    # A value is dropped after its last use, so that memory goes round as it does in a program.
    dropped: dict[int, list[int]] = {}
    for value, place in last_use.items():
        if value not in outputs:
            dropped.setdefault(place, []).append(value)

    def run(*arguments: Any) -> list[Any]:
        held: list[Any] = [None] * len(values)
        for place, array in zip(inputs, arguments, strict=False):
            held[place] = array
        for place, which, dtype in numbers:
            held[place] = library.constant(np.dtype(dtype).type(arguments[len(inputs) + which]))
        for place, value in constants:
            held[place] = value
        for place, kernel, operands, attributes, dtype in steps:
            found = kernel(*[None if each is None else held[each] for each in operands], *attributes)
            held[place] = library.ended(found, dtype)
            for value in dropped.get(place, ()):
                held[value] = None
        return [held[place] for place in outputs]

    return run


# Kernels that programs have registered, by backend, name and op.
registered: dict[tuple[str, str, str], Callable[..., Any]] = {}

# Paths call what follows by the names of backends, kernels and ops.


def at_hand(names: list[str] | None) -> list[str]:
    """The backends that paths may use: those that are named and there, or those of the CPU that need no import.

    PyTorch takes seconds to import, so that it takes part where the program uses it, or where it is named. Code for
    GPUs, Polyloom's and PyTorch's, takes part where it is named.
    """
    has_torch = importlib.util.find_spec("torch") is not None
    if names is None:
        return ["CPU_NATIVE", "CPU_NUMPY", *["CPU_TORCH"] * (has_torch and "torch" in sys.modules)]
    is_there = {
        "CPU_NATIVE": True,
        "CPU_NUMPY": True,
        "CPU_TORCH": has_torch,
        "GPU_CUDA": "GPU_CUDA" in names and _native.gpu_available(),
        "GPU_TORCH": "GPU_TORCH" in names and has_torch and _has_torch_gpu(),
    }
    return [name for name, is_one in is_there.items() if is_one and name in names]


# PyTorch's tensors on a GPU are here.
GPU = "cuda"


def _has_torch_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_available())


@functools.cache
def versions() -> dict[str, str]:
    """The versions of the libraries that paths call, as far as they are installed."""
    found = {"numpy": np.__version__}
    torch = _version_of("torch")
    return found if torch is None else {**found, "torch": torch}


def _version_of(name: str) -> str | None:
    """The version of a package by the name of its folder of metadata, because reading those takes milliseconds."""
    for place in sys.path:
        try:
            entries = os.listdir(place or ".")
        except OSError:
            continue
        for entry in entries:
            if entry.startswith(f"{name}-") and entry.endswith(".dist-info"):
                return entry[len(name) + 1 : -len(".dist-info")]
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _library_kernels(backend: str) -> dict[str, Callable[..., Any]]:
    return _numpy_kernels.KERNELS if backend == "CPU_NUMPY" else _torch_kernels.kernels()


def kernel_of(backend: str, name: str, op: str) -> Callable[..., Any]:
    """The function that a path calls for a node.

    Raises
    ------
    NotImplementedError
        The library has none.
    """
    own = registered.get((backend, name, op))
    if own is not None:
        return own
    if op not in _library_kernels(backend):
        raise NotImplementedError(f"{backend} has no kernel for `{op}`")
    return _library_kernels(backend)[op]


def code_of(backend: str, name: str, op: str) -> str:
    """Identifies the code of a registered kernel; empty for those of libraries, which have versions."""
    own = registered.get((backend, name, op))
    if own is None:
        return ""
    code = getattr(own, "__code__", None)
    text = repr([getattr(own, each, None) for each in ("__qualname__", "__module__", "version")])
    if code is not None:
        constants = [each for each in code.co_consts if not hasattr(each, "co_code")]
        text += repr((code.co_code, constants, code.co_names))
    return hashlib.sha256(text.encode()).hexdigest()


def dtype_of(backend: str, dtype: Any) -> Any:
    """A library's element type for NumPy's."""
    return np.dtype(dtype) if backend == "CPU_NUMPY" else _torch_kernels.dtype_of(dtype)


def scalar_of(backend: str, bits: int, dtype: Any) -> Any:
    """A constant as a library's value without axes, by its bits."""
    value = np.array([bits], np.uint64).view(np.uint8)[: np.dtype(dtype).itemsize].view(dtype)[0]
    return value if backend == "CPU_NUMPY" else _Torch(_device_of(backend)).constant(value)


def _device_of(backend: str) -> str:
    return GPU if backend == "GPU_TORCH" else "cpu"


def on_gpu(tensor: Any) -> Any:
    """A copy of a tensor on the GPU."""
    return tensor.to(GPU, copy=True)


def on_host(tensor: Any) -> Any:
    """A copy of a tensor on the CPU. It waits for what computes the tensor."""
    return tensor.to("cpu", copy=True)


def number_of(backend: str, value: Any, dtype: Any) -> Any:
    """A number of a run as a library's value without axes."""
    value = np.dtype(dtype).type(value)
    return value if backend == "CPU_NUMPY" else _Torch(_device_of(backend)).constant(value)


def numpy_array_of(value: Any, dtype: Any) -> Any:
    """A result of a kernel of NumPy as an array of an element type."""
    return np.asarray(value).astype(dtype, copy=False)


def for_torch(array: Any) -> Any:
    """An array of NumPy that PyTorch takes: without negative strides, and one that may be written."""
    return array.copy() if any(stride < 0 for stride in array.strides) or not array.flags.writeable else array


def numpy_of_torch(tensor: Any, dtype: Any) -> Any:
    """A tensor on the CPU as an array of NumPy over its memory."""
    import torch

    tensor = tensor.detach()
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(dtype)
    return tensor.numpy()


def quiet_errors() -> Any:
    """NumPy's context in which floating-point errors give no warnings, as kernels of Polyloom give none."""
    return np.errstate(all="ignore")
