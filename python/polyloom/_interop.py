"""Arrays and types of NumPy, PyTorch and JAX. Memory of the host is shared through DLPack, that of CUDA devices through
the CUDA Array Interface; none of these packages is needed."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyloom import _native
from polyloom._arrays import (
    ElementTypeLike,
    _element_type,
    _numpy,
    _scalar,
    array,
    check_sign,
    from_cuda_dlpack,
    from_cuda_interface,
    is_bfloat16,
    shared,
)
from polyloom._composites import CompositeClass
from polyloom._devices import Device, DeviceLike, get_device
from polyloom._scalars import DType, DTypeLike, bfloat16, dtype_of
from polyloom._streams import Stream, get_stream
from polyloom._structs import StructClass

__all__ = [
    "device_from_jax",
    "device_from_torch",
    "device_to_jax",
    "device_to_torch",
    "dtype_from_jax",
    "dtype_from_numpy",
    "dtype_from_torch",
    "dtype_to_jax",
    "dtype_to_numpy",
    "dtype_to_torch",
    "from_dlpack",
    "from_jax",
    "from_torch",
    "stream_from_torch",
    "stream_to_torch",
    "to_dlpack",
    "to_jax",
    "to_torch",
]


def dtype_from_numpy(numpy_dtype: Any) -> DType:
    """The scalar type of a NumPy type.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> loom.dtype_from_numpy(np.dtype(np.int16))
    polyloom.int16
    """
    return dtype_of(np.dtype(numpy_dtype))


def dtype_to_numpy(warp_dtype: DTypeLike) -> Any:
    """The NumPy type of a scalar type.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.dtype_to_numpy(loom.float64)
    <class 'numpy.float64'>
    """
    return _scalar_type(warp_dtype).numpy.type


def _scalar_type(dtype: Any) -> DType:
    if isinstance(dtype, CompositeClass):
        raise TypeError(f"{dtype.__name__} is no scalar type: its components are of type {dtype._wp_scalar_type_.name}")
    return dtype_of(dtype)


def _named(package: str, dtype: DType) -> Any:
    name = "bool_" if package == "jax.numpy" and dtype.name == "bool" else dtype.name
    found = getattr(importlib.import_module(package), name, None)
    if found is None:
        raise TypeError(f"{package} has no type {dtype.name}")
    return found


def dtype_from_torch(torch_dtype: Any) -> DType:
    """The scalar type of a type of PyTorch."""
    return dtype_of(str(torch_dtype).removeprefix("torch."))


def dtype_to_torch(warp_dtype: DTypeLike) -> Any:
    """The PyTorch type of a scalar type."""
    return _named("torch", _scalar_type(warp_dtype))


def dtype_from_jax(jax_dtype: Any) -> DType:
    """The scalar type of a type of JAX."""
    name = np.dtype(jax_dtype).name
    return bfloat16 if name == "bfloat16" else dtype_of(name)


def dtype_to_jax(warp_dtype: DTypeLike) -> Any:
    """The JAX type of a scalar type."""
    return _named("jax.numpy", _scalar_type(warp_dtype))


def device_from_torch(torch_device: Any) -> Device:
    """The device of a device of PyTorch."""
    return get_device(str(torch_device))


def device_to_torch(warp_device: DeviceLike) -> str:
    """What PyTorch calls a device."""
    return str(get_device(warp_device))


def device_from_jax(jax_device: Any) -> Device:
    """The device of a device of JAX."""
    if jax_device.platform in ("gpu", "cuda"):
        return get_device(f"cuda:{jax_device.id}")
    return get_device(jax_device.platform)


def device_to_jax(warp_device: DeviceLike) -> Any:
    """The JAX device of a device."""
    device = get_device(warp_device)
    return importlib.import_module("jax").devices(device.partition(":")[0])[max(device.ordinal, 0)]


class _Capsule:
    """A DLPack capsule as an array that gives it away, once."""

    def __init__(self, capsule: Any) -> None:
        if "used_dltensor" in repr(capsule):
            raise ValueError("this DLPack capsule has been used: each stands for one array, once")
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        # `kDLCPU`: NumPy looks at the capsule itself, too.
        return (1, 0)


# `kDLCPU`, `kDLCUDA`, `kDLCUDAHost` and `kDLCUDAManaged`.
_DEVICE_TYPES = (1, 2, 3, 13)


def _check_source(source: Any) -> None:
    """Refuses memory of devices that kernels cannot read, before anything is exported."""
    if not hasattr(source, "__dlpack_device__"):
        return
    kind, number = source.__dlpack_device__()
    if int(kind) not in _DEVICE_TYPES:
        raise TypeError(f"Unsupported source device for DLPack: device_type={int(kind)}, device_id={number}")


def _checked(capsule: Any) -> Any:
    if type(capsule).__name__ != "PyCapsule":
        raise TypeError(f"Expected a valid DLPack capsule, got {type(capsule).__name__}")
    return capsule


class _Exported:
    """Another package's array, whose capsule is looked at before NumPy takes it."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self.dtype = getattr(source, "dtype", None)

    def __dlpack__(self, **options: Any) -> Any:
        return _checked(self._source.__dlpack__(**options))

    def __dlpack_device__(self) -> Any:
        return self._source.__dlpack_device__()


def _seen_as(storage: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """The memory with elements of the scalar type of `dtype`, which has the same bits: whole numbers and bools are
    seen as each other, with and without sign."""
    wanted = _element_type(dtype)
    if isinstance(wanted, StructClass) or _numpy(wanted) == storage.dtype:
        return storage
    scalar = _scalar(wanted)
    is_same_size = scalar.numpy.itemsize == storage.dtype.itemsize
    if is_same_size and scalar is bfloat16 and storage.dtype == np.uint16:
        return storage.view(scalar.numpy)
    if not is_same_size or scalar.numpy.kind not in "biu" or storage.dtype.kind not in "biu":
        given = f"{dtype_of(storage.dtype).name.rstrip('0123456789')}{8 * storage.dtype.itemsize}"
        raise RuntimeError(f"Incompatible data types: DLPack {given} and Warp {scalar.name}")
    return storage.view(scalar.numpy)


class _Writable:
    """Memory that NumPy takes for read-only because a capsule without a version does not say."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage
        address, _ = storage.__array_interface__["data"]
        self.__array_interface__ = storage.__array_interface__ | {"data": (address, False)}


def from_dlpack(source: Any, dtype: ElementTypeLike | None = None, hint: Any = None) -> array:
    """An array over the memory of an array of another package, through DLPack.

    Parameters
    ----------
    source : object
        An array on the CPU with `__dlpack__`: of NumPy, PyTorch, JAX …; one on a CUDA device, of PyTorch, CuPy …; or a
        capsule that `__dlpack__` or `to_dlpack` has given, of an array on the CPU, which is used up.
    dtype : scalar type or class such as `vec3`, optional
        Element type; that of `source` by default. With vectors or matrices its last axes are the components. Whole
        numbers and bools of one size are seen as each other; nothing is converted.
    hint
        Without effect.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> x = np.zeros((2, 3), np.float32)
    >>> loom.from_dlpack(x, dtype=loom.vec3)[1] = (1, 2, 3)
    >>> x[1]
    array([1., 2., 3.], dtype=float32)
    """
    if isinstance(source, array) and not source.device.is_cpu:
        return source if dtype is None else source._elements_as(dtype)
    if hasattr(source, "__cuda_array_interface__"):
        made = from_cuda_interface(source)
        return made if dtype is None else made._elements_as(dtype)
    if hasattr(source, "__dlpack_device__") and int(source.__dlpack_device__()[0]) in (2, 13):
        made = from_cuda_dlpack(source)
        return made if dtype is None else made._elements_as(dtype)
    if type(source).__name__ == "PyCapsule":
        capsule = _Capsule(source)
        is_bits = _native.dlpack_bfloat16_as_bits(source)
        storage = np.asarray(_Writable(np.from_dlpack(capsule)))
        if is_bits:
            storage, dtype = storage.view(bfloat16.numpy), bfloat16 if dtype is None else dtype
    else:
        if isinstance(source, array) and source.device.is_cpu:
            made = array(source, copy=False)
            return made if dtype is None else made._elements_as(dtype)  # type: ignore[no-any-return]
        if dtype is None and is_bfloat16(source):
            dtype = bfloat16
        if not isinstance(source, np.ndarray):
            _check_source(source)
            check_sign(source)
            storage = shared(_Exported(source))
        else:
            storage = source
    if dtype is not None:
        storage = _seen_as(storage, dtype)
    return array(storage, dtype=dtype, copy=False, device="cpu")  # type: ignore[no-any-return]


def to_dlpack(wp_array: array) -> Any:
    """The array's memory as a DLPack capsule. Packages that take arrays with `__dlpack__` need no capsule."""
    return wp_array.__dlpack__()


def from_torch(
    t: Any, dtype: ElementTypeLike | None = None, requires_grad: bool | None = None, grad: Any = None
) -> array:
    """An array over the memory of a PyTorch tensor on the CPU or a CUDA device.

    Parameters
    ----------
    t : torch.Tensor
        The elements.
    dtype : scalar type or class such as `vec3`, optional
        Element type; that of the tensor by default.
    requires_grad : bool, optional
        Whether the array has a gradient; if the tensor has one by default.
    grad : torch.Tensor or array, optional
        The gradient; by default that of the tensor, which is made if there is none.
    """
    made = from_dlpack(t.detach(), dtype)
    needs_grad = t.requires_grad or grad is not None if requires_grad is None else requires_grad
    if needs_grad and grad is None and t.is_leaf and t.requires_grad:
        if t.grad is None:
            t.grad = importlib.import_module("torch").zeros_like(t)
        grad = t.grad
    if needs_grad:
        made.requires_grad = True
        if grad is not None:
            made.grad = grad if isinstance(grad, array) else from_dlpack(grad.detach(), made.dtype)
    return made


def to_torch(a: array, requires_grad: bool | None = None) -> Any:
    """A PyTorch tensor over the memory of an array; components of vectors and matrices are further axes.

    If the array has a gradient, or `requires_grad` says so, the tensor has one over the same memory.
    """
    torch = importlib.import_module("torch")
    tensor = torch.as_tensor(a, device=str(a.device)) if a.device.is_cuda else torch.from_dlpack(a)
    if a.requires_grad if requires_grad is None else requires_grad:
        tensor.requires_grad_(True)
        if a.grad is not None:
            tensor.grad = to_torch(a.grad, requires_grad=False)
    return tensor


def stream_from_torch(stream_or_device: Any = None) -> Stream:
    """A stream of PyTorch's, or its current one on a device, as a `Stream`. PyTorch's streams are in no order with
    the default stream of a device."""
    torch = importlib.import_module("torch")
    is_stream = isinstance(stream_or_device, torch.cuda.Stream)
    return Stream.of(stream_or_device if is_stream else torch.cuda.current_stream(stream_or_device))


def stream_to_torch(stream_or_device: Any = None) -> Any:
    """A `Stream`, or the current one of a device, as a stream of PyTorch's, to be used while the other one lives."""
    stream = stream_or_device if isinstance(stream_or_device, Stream) else get_stream(stream_or_device)
    torch = importlib.import_module("torch")
    made = torch.cuda.ExternalStream(stream.cuda_stream, device=str(stream.device))
    # PyTorch keeps the handle alone.
    made._polyloom_stream = stream
    return made


def from_jax(jax_array: Any, dtype: ElementTypeLike | None = None) -> array:
    """An array over the memory of a JAX array on the CPU, which kernels may read but not write."""
    return from_dlpack(jax_array, dtype)


def to_jax(warp_array: array) -> Any:
    """A JAX array over the memory of an array; components of vectors and matrices are further axes."""
    return importlib.import_module("jax.dlpack").from_dlpack(warp_array)
