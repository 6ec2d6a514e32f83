"""Devices: the CPU, the simulator of a GPU, and NVIDIA's GPUs.

A device is the string of its name, so that whatever takes a name takes a device. Nothing here looks for a GPU before a
program asks for one.
"""

from __future__ import annotations

import json
import os
import platform
from types import TracebackType
from typing import Any

from polyloom import _native
from polyloom._errors import DeviceError

__all__ = [
    "Device",
    "DeviceLike",
    "ScopedDevice",
    "environment",
    "get_cuda_device",
    "get_cuda_device_count",
    "get_cuda_devices",
    "get_cuda_supported_archs",
    "get_device",
    "get_devices",
    "get_preferred_device",
    "gpu_available",
    "is_cpu_available",
    "is_cuda_available",
    "is_device_available",
    "set_device",
    "synchronize",
    "synchronize_device",
]


class Device(str):
    """A device by its name: `cpu`, `sim:0` or `cuda:0`.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.get_device()
    'cpu'
    >>> loom.get_device("sim:0").is_cpu
    False
    """

    __slots__ = ()

    @property
    def alias(self) -> str:
        """The device's name in programs."""
        return str(self)

    @property
    def name(self) -> str:
        """What the device is called by its maker."""
        if self.is_cuda:
            return str(self.properties["name"])
        if self.is_sim:
            return f"simulator of a GPU, sm_{self.arch}"
        return platform.processor() or platform.machine()

    @property
    def ordinal(self) -> int:
        """Number among CUDA devices; -1 for others."""
        return int(self.partition(":")[2]) if self.is_cuda else -1

    @property
    def arch(self) -> int:
        """Ten times the compute capability of a GPU, such as 90, or of the one that is simulated; 0 for the CPU."""
        if self.is_sim:
            return _native.architecture()[0]
        if not self.is_cuda:
            return 0
        major, minor = self.properties["capability"]
        return int(10 * major + minor)

    @property
    def limits(self) -> dict[str, Any]:
        """Limits of a GPU, or of the one that is simulated: threads, shared memory in bytes, registers of 32 bits.

        Those of its architecture: NVIDIA's tables in the CUDA C++ Programming Guide, "Compute Capabilities". Empty for
        the CPU.
        """
        if self.is_sim:
            return _native.architecture()[1]
        return _native.architecture(f"sm_{self.arch}")[1] if self.is_cuda else {}

    @property
    def max_shared_memory_per_block(self) -> int:
        """Bytes of shared memory that a block of a GPU, or of the one that is simulated, may have; 0 for the CPU."""
        return int(self.properties["opt_in_shared_bytes_per_block"] or 0) if not self.is_cpu else 0

    @property
    def sm_count(self) -> int:
        """How many multiprocessors a GPU has; 0 for others."""
        return int(self.properties["n_multiprocessors"] or 0) if self.is_cuda else 0

    @property
    def is_cpu(self) -> bool:
        """Whether this is the CPU."""
        return self == "cpu"

    @property
    def is_sim(self) -> bool:
        """Whether this is the simulator of a GPU."""
        return self.startswith("sim:")

    @property
    def is_cuda(self) -> bool:
        """Whether this is a CUDA device."""
        return self.startswith("cuda:")

    @property
    def is_primary(self) -> bool:
        """Whether this is the device itself, and not another context on it."""
        return True

    @property
    def is_uva(self) -> bool:
        """Whether no address of the device is another one of the process."""
        return not self.is_sim

    @property
    def total_memory(self) -> int:
        """Bytes of memory; for the simulator the machine's."""
        return int(self.properties["memory_bytes"] or 0) if self.is_cuda else _memory("SC_PHYS_PAGES")

    @property
    def free_memory(self) -> int:
        """Bytes of memory that nothing uses."""
        return _native.cuda_free_memory(self.ordinal) if self.is_cuda else _memory("SC_AVPHYS_PAGES")

    @property
    def stream(self) -> Any:
        """The current stream of the device in this thread."""
        from polyloom import _streams

        return _streams.get_stream(self)

    @property
    def has_stream(self) -> bool:
        """Whether it has streams: all devices have, though those of the CPU and the simulator do everything at once."""
        return True

    def set_stream(self, stream: Any, sync: bool = True) -> None:
        """Makes a stream of the device its current one in this thread; with `sync` it waits for the one before."""
        from polyloom import _streams

        _streams.set_stream(stream, self, sync)

    @property
    def properties(self) -> dict[str, Any]:
        """What the device is and has room for; None for what it does not have or say.

        Returns
        -------
        dict
            `id`, `name`, `architecture`, `capability` (major and minor), `n_multiprocessors`, `warp_size`,
            `threads_per_block`, `threads_per_multiprocessor`, `blocks_per_multiprocessor`, `shared_bytes_per_block`,
            `opt_in_shared_bytes_per_block`, `shared_bytes_per_multiprocessor`, `registers_per_block`,
            `registers_per_multiprocessor` (of 32 bits), `clock_khz`, `memory_clock_khz`, `memory_bus_bits`,
            `memory_bytes`, `l2_bytes`: of a GPU what its driver says, of the simulator what NVIDIA's tables say of its
            architecture, of the CPU its threads and cache.

        Raises
        ------
        DeviceError
            If this machine does not have it.
        """
        found: dict[str, Any] = json.loads(_native.device_properties(self))
        return found


def _memory(pages: str) -> int:
    try:
        return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # no POSIX
        return 0


DeviceLike = Device | str | None

_CPU = Device("cpu")


def get_device(ident: DeviceLike = None) -> Device:
    """The device of this name; the one that is used by default, if none is given.

    Raises
    ------
    ValueError
        If no device has such a name.
    DeviceError
        If this machine does not have it.
    """
    if ident is None:
        ident = _native.default_device()
    if ident == "cpu":
        return _CPU
    if not isinstance(ident, str):
        raise TypeError(f"a device is given by its name, such as 'cpu', not by {type(ident).__name__}")
    return Device(_native.check_device(str(ident)))


def get_devices() -> list[Device]:
    """The CPU and the CUDA devices of this machine. The simulator `sim:0`, which is there always, is not among them."""
    return [_CPU, *get_cuda_devices()]


def get_preferred_device() -> Device:
    """The fastest device: the first CUDA device if there is one, else the CPU."""
    return next(iter(get_cuda_devices()), _CPU)


def set_device(ident: DeviceLike) -> None:
    """Sets the device that launches and new arrays are on where none is named. At first it is the CPU."""
    _native.set_default_device(get_device(ident))


def is_cpu_available() -> bool:
    """Whether kernels run on the CPU: always."""
    return True


def is_cuda_available() -> bool:
    """Warp's name of `gpu_available`."""
    return gpu_available()


def gpu_available() -> bool:
    """Whether kernels run on a GPU here: whether this build has GPU code, and NVIDIA's driver sees a device. Never an
    error."""
    return _native.gpu_available()


def environment() -> dict[str, Any]:
    """This build and this machine: what a measurement has to be kept with.

    Returns
    -------
    dict
        `version` of Polyloom, `system`, `processor` (`name`, `architecture`, `n_threads`, `features` of its
        instruction set, `vector_bytes` of its widest useful register, `caches` with sizes in bytes), `n_threads` of a
        launch, the back ends `cranelift` and `llvm` with their versions, `code_cache`, `has_compute`, `assembler` and
        `nvrtc` of NVIDIA's, `gpus`, and why there is no GPU or no kernel can run, `no_gpu` and `problem`. What there
        is not is `None`.
    """
    found: dict[str, Any] = json.loads(_native.environment())
    return found


def is_device_available(device: DeviceLike) -> bool:
    """Whether kernels run on a device."""
    try:
        get_device(device)
    except (DeviceError, ValueError):
        return False
    return True


def get_cuda_supported_archs() -> list[int]:
    """The architectures that there is code for, as tens of the compute capability; none where there is no GPU."""
    return sorted({device.arch for device in get_cuda_devices()})


def get_cuda_device_count() -> int:
    """Number of CUDA devices that kernels run on."""
    return len(get_cuda_devices())


def get_cuda_devices() -> list[Device]:
    """The CUDA devices that kernels run on; none if there is no driver."""
    try:
        return [Device(name) for name in _native.cuda_devices()]
    except DeviceError:
        return []


def get_cuda_device(ordinal: int | None = None) -> Device:
    """The CUDA device of this number, the first by default.

    Raises
    ------
    DeviceError
        If this machine does not have it.
    """
    return get_device(f"cuda:{ordinal or 0}")


class ScopedDevice:
    """Sets the device that is used by default within a `with` statement.

    Examples
    --------
    >>> import polyloom as loom
    >>> with loom.ScopedDevice("sim:0"):
    ...     x = loom.zeros(3)
    >>> x.device
    'sim:0'
    """

    def __init__(self, device: DeviceLike) -> None:
        self.device = get_device(device)
        self._before: list[Device] = []

    def __enter__(self) -> Device:
        self._before.append(get_device())
        set_device(self.device)
        return self.device

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_device(self._before.pop())


def synchronize() -> None:
    """Waits until all CUDA devices in use have done what they were asked for.

    On the CPU and the simulator a launch returns when it is done.

    Raises
    ------
    DeviceError
        What went wrong in kernels that ran meanwhile.
    """
    _native.synchronize()


def synchronize_device(device: DeviceLike = None) -> None:
    """Waits until a device has done what it was asked for."""
    _native.synchronize(get_device(device))
