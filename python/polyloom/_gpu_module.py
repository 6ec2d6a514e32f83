"""Code by whatever compiler on a GPU: PTX, cubins and fat binaries, and what the driver says of kernels."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from polyloom import _native
from polyloom._arrays import array, from_cuda_interface
from polyloom._composites import Composite
from polyloom._devices import Device, DeviceLike, get_device
from polyloom._scalars import TypedConstant, in_numpy
from polyloom._streams import Stream, get_stream
from polyloom.sim import packed_number

__all__ = ["GpuModule", "get_cuda_kernel_properties", "get_suggested_block_size"]


# Images that are loaded, by device and contents, as long as something uses them. Text is a key too, because Python
# keeps the hash of the very object, so that a program that loads it again does not read it again.
_loaded: weakref.WeakValueDictionary[tuple[str, str | bytes], GpuModule] = weakref.WeakValueDictionary()


def _cuda(device: DeviceLike) -> Device:
    where = get_device(device)
    if not where.is_cuda:
        raise ValueError(f"device '{where}' runs no machine code of a GPU: 'sim:0' takes PTX by polyloom.sim.Module")
    return where


class GpuModule:
    """Code that another compiler has made, loaded into a GPU: `kernel(name)` is a kernel of it.

    The same image is loaded once as long as its module, or a kernel of it, lives.

    Parameters
    ----------
    image : str or bytes
        PTX, a cubin or a fat binary, such as `kernel.fatbin(archs)` gives.
    device : str, optional
        A CUDA device; by default the one that `set_device` names.

    Raises
    ------
    DeviceError
        If the driver does not take the image; the message has what its compiler says.
    """

    device: Device
    _image: _native.DeviceImage
    _code: bytes
    _kernels: weakref.WeakValueDictionary[str, GpuKernel]

    def __new__(cls, image: str | bytes, device: DeviceLike = None) -> GpuModule:
        if not isinstance(image, (str, bytes)):
            image = bytes(image)
        known = _loaded.get((_native.default_device() if device is None else device, image))
        if known is None:
            where = _cuda(device)
            code = image.encode() if isinstance(image, str) else image
            known = _loaded.get((where, code)) or _loaded.setdefault((where, code), cls._load(where, code))
            _loaded[where, image] = known
        return known

    @classmethod
    def _load(cls, device: Device, code: bytes) -> GpuModule:
        made = super().__new__(cls)
        made.device, made._kernels = device, weakref.WeakValueDictionary()
        made._image, made._code = _native.DeviceImage(device, code), code
        return made

    def _parameters(self, name: str) -> list[tuple[str, str, int]]:
        """Name, type and size of a kernel's parameters, as PTX says them; empty for images that do not."""
        try:
            return _native.SimModule(self._code.decode().rstrip("\0")).parameters(name)
        except ValueError:
            return []

    def kernel(self, name: str) -> GpuKernel:
        """The kernel of a name, as it is in the image.

        Raises
        ------
        DeviceError
            If the image has none.
        """
        known = self._kernels.get(name)
        return self._kernels.setdefault(name, GpuKernel(self, name)) if known is None else known

    def __repr__(self) -> str:
        return f"<module of code on {self.device}>"


class GpuKernel:
    """A kernel of a `GpuModule`.

    Attributes
    ----------
    attributes : dict
        `registers` of a thread, `local_bytes` of a thread, `shared_bytes` of a block and `constant_bytes`;
        `threads_per_block`, the most by registers and launch bounds; `dynamic_shared_bytes`, the most that a launch
        may ask for.
    """

    def __init__(self, module: GpuModule, name: str) -> None:
        # The module is kept, so that the image is not loaded again while one of its kernels lives.
        self.name, self.device, self._module = name, module.device, module
        self._native = module._image.kernel(name)
        self.attributes: dict[str, int] = self._native.attributes
        self._sizes = self._native.parameter_sizes
        # Names, types and sizes by PTX, empty where the image is none; read when the first number needs them.
        self._parameters: list[tuple[str, str, int]] | None = None

    def occupancy(self, block: int, shared_bytes: int = 0) -> int:
        """How many blocks of so many threads a multiprocessor runs at once."""
        return self._native.occupancy(block, shared_bytes)

    def suggested_block(self, shared_bytes: int = 0) -> tuple[int, int]:
        """How many threads of a block have most threads run at once, and the fewest such blocks that fill the
        device."""
        return self._native.suggested_block(shared_bytes)

    def launch(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Any] = (),
        *,
        shared_bytes: int = 0,
        cooperative: bool = False,
        stream: Stream | None = None,
    ) -> None:
        """Runs the kernel.

        Parameters
        ----------
        grid, block : int or sequence of int
            Blocks of the grid and threads of a block, along up to three axes.
        args : sequence
            For each parameter a dense array on the device, which is its address, None for no address, a number of
            NumPy's or Polyloom's, a vector, or bytes. Python's own numbers become the type of the parameter, which
            PTX says; cubins and fat binaries do not, so that kernels of these take numbers with a type.
        shared_bytes : int
            Dynamic shared memory of a block.
        cooperative : bool
            Whether all blocks run at once, so that the kernel may synchronise its grid.
        stream : Stream, optional
            The stream; by default the current one of the device.

        Raises
        ------
        TypeError, ValueError
            If an argument does not fit, or a block has more threads or shared memory than the kernel's code allows.
        """
        if self._sizes is not None and len(args) != len(self._sizes):
            raise TypeError(f"kernel '{self.name}' takes {len(self._sizes)} arguments, not {len(args)}")
        n_threads = block if isinstance(block, int) else math.prod(block)
        most = self.attributes["threads_per_block"]
        if n_threads > most:
            message = f"kernel '{self.name}' runs in blocks of up to {most} threads"
            raise ValueError(f"{message}, and {block} are {n_threads}")
        most = self.attributes["dynamic_shared_bytes"]
        if shared_bytes > most:
            raise ValueError(f"kernel '{self.name}' may ask for {most} bytes of shared memory, not {shared_bytes}")
        uses: list[tuple[int, bool]] = []
        params = [self._packed(number, value, uses) for number, value in enumerate(args)]
        if stream is not None and stream.device != self.device:
            raise ValueError(f"the stream is one of device '{stream.device}', and the launch is on '{self.device}'")
        queue = (get_stream(self.device) if stream is None else stream)._queue
        self._native.launch(queue, grid, block, shared_bytes, params, uses, cooperative)

    def _packed(self, number: int, value: Any, uses: list[tuple[int, bool]]) -> bytes:
        """The bytes of an argument."""
        size = None if self._sizes is None else self._sizes[number]
        if not isinstance(value, array) and hasattr(value, "__cuda_array_interface__"):
            value = from_cuda_interface(value)
        if isinstance(value, array):
            if value.device != self.device:
                where = f"is on device '{value.device}', and the launch is on '{self.device}'"
                raise ValueError(f"argument {number} {where}")
            address = value.ptr or 0
            if address:
                # What the code does with it is not known.
                uses.append((address, True))
            if not value.is_contiguous:
                what = f"argument {number} of kernel '{self.name}' is an array with strides {value.strides}"
                raise ValueError(
                    f"{what}, of which the kernel would get the first address alone: pass .contiguous(), or "
                    "np.uint64(array.ptr)"
                )
            found = address.to_bytes(8, "little")
        elif value is None:
            found = bytes(8)
        elif isinstance(value, (bytes, bytearray)):
            found = bytes(value)
        elif isinstance(value, (TypedConstant, np.generic)):
            found = np.asarray(in_numpy(value) if isinstance(value, TypedConstant) else value).tobytes()
        elif isinstance(value, Composite):
            found = np.asarray(value).tobytes()
        elif isinstance(value, (bool, int, float)):
            found = self._of_python(number, value)
        else:
            raise TypeError(f"argument {number} of kernel '{self.name}' is no array of a GPU and no number: {value!r}")
        if size is not None and len(found) != size:
            given = f"takes {size} bytes, and {value!r} has {len(found)}"
            raise TypeError(f"argument {number} of kernel '{self.name}' {given}")
        return found

    def _of_python(self, number: int, value: float) -> bytes:
        """The bytes of a number of Python's own, as the parameter has them."""
        if self._parameters is None:
            self._parameters = self._module._parameters(self.name)
        what = f"argument {number} of kernel '{self.name}'"
        if number >= len(self._parameters):
            message = f"{what} is {value!r}, and the image does not say what type the parameter has"
            raise TypeError(f"{message}: pass a number with a type, such as np.int32(1) or np.float32(1)")
        name, dtype, size = self._parameters[number]
        try:
            return packed_number(name, dtype, size, value)
        except TypeError as error:
            raise TypeError(f"{what}: {error}") from None

    def __repr__(self) -> str:
        return f"<kernel {self.name} on {self.device}>"


def _properties(
    kernel: Any, device: DeviceLike, n_threads: int, shared_bytes: int
) -> tuple[dict[str, int], int, tuple[int, int]]:
    if not isinstance(kernel, _native.Kernel):
        raise TypeError(f"a kernel is wanted, not {type(kernel).__name__}")
    found = _native.kernel_properties(kernel, get_device(device), 1, n_threads, shared_bytes)
    if found is None:
        raise RuntimeError(f"device '{get_device(device)}' is no CUDA device")
    return found


def get_suggested_block_size(kernel: Any, device: DeviceLike = None) -> tuple[int, int]:
    """How many threads of a block have most threads of a kernel run at once on a GPU, and the fewest such blocks that
    fill it; `(1, 1)` on other devices.

    Parameters
    ----------
    kernel : Kernel
        A kernel that is not generic, of launches over one axis.
    device : str, optional
        The device; by default the one that `set_device` names.
    """
    where = get_device(device)
    return _properties(kernel, where, 256, 0)[2] if where.is_cuda else (1, 1)


def get_cuda_kernel_properties(kernel: Any, device: DeviceLike = None, block_dim: int | None = None) -> dict[str, int]:
    """What the driver says of a kernel's code on a GPU.

    Returns
    -------
    dict
        `register_count` and `local_memory_size` of a thread, as Warp has them; `shared_memory_size` of a block,
        `max_threads_per_block`, `max_dynamic_shared_memory`, and `blocks_per_multiprocessor`, how many blocks of
        `block_dim` threads, 256 by default, a multiprocessor runs at once.

    Raises
    ------
    RuntimeError
        If the device is no GPU.
    """
    attributes, n_blocks, _ = _properties(kernel, device, 256 if block_dim is None else block_dim, 0)
    return {
        "register_count": attributes["registers"],
        "local_memory_size": attributes["local_bytes"],
        "shared_memory_size": attributes["shared_bytes"],
        "max_threads_per_block": attributes["threads_per_block"],
        "max_dynamic_shared_memory": attributes["dynamic_shared_bytes"],
        "blocks_per_multiprocessor": n_blocks,
    }
