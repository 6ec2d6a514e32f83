"""Devices. Kernels run on the CPU, so there is one.

A device is the string of its name, so that whatever takes a name takes a device.
"""

from __future__ import annotations

import os
import platform
from types import TracebackType
from typing import Any

__all__ = [
    "Device",
    "DeviceLike",
    "ScopedDevice",
    "get_cuda_device_count",
    "get_cuda_devices",
    "get_device",
    "get_devices",
    "get_preferred_device",
    "is_cpu_available",
    "is_cuda_available",
    "is_device_available",
    "set_device",
    "synchronize",
    "synchronize_device",
]


class Device(str):
    """A device by its name, such as `cpu`.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.get_device()
    'cpu'
    >>> loom.get_device().is_cpu
    True
    """

    __slots__ = ()

    @property
    def alias(self) -> str:
        """The device's name in programs."""
        return str(self)

    @property
    def name(self) -> str:
        """What the device is called by its maker."""
        return platform.processor() or platform.machine()

    @property
    def ordinal(self) -> int:
        """Number among CUDA devices; the CPU's is -1."""
        return -1

    @property
    def is_cpu(self) -> bool:
        """Whether this is the CPU."""
        return True

    @property
    def is_cuda(self) -> bool:
        """Whether this is a CUDA device."""
        return False

    @property
    def is_primary(self) -> bool:
        """Whether this is the device itself, as the CPU is."""
        return True

    @property
    def is_uva(self) -> bool:
        """Whether addresses of the device are addresses of the process, as the CPU's are."""
        return True

    @property
    def total_memory(self) -> int:
        """Bytes of memory."""
        return _memory("SC_PHYS_PAGES")

    @property
    def free_memory(self) -> int:
        """Bytes of memory that nothing uses."""
        return _memory("SC_AVPHYS_PAGES")


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
        If there is no such device.
    """
    if ident is None or ident == "cpu":
        return _CPU
    if not isinstance(ident, str):
        raise TypeError(f"a device is given by its name, such as 'cpu', not by {type(ident).__name__}")
    raise ValueError(f"device {str(ident)!r} is not available: this build runs kernels on 'cpu'")


def get_devices() -> list[Device]:
    """All devices."""
    return [_CPU]


def get_preferred_device() -> Device:
    """The fastest device."""
    return _CPU


def set_device(ident: DeviceLike) -> None:
    """Sets the device that is used by default: of one, that it exists is all there is to check."""
    get_device(ident)


def is_cpu_available() -> bool:
    """Whether kernels run on the CPU: always."""
    return True


def is_cuda_available() -> bool:
    """Whether kernels run on CUDA devices: not in this build."""
    return False


def is_device_available(device: DeviceLike) -> bool:
    """Whether kernels run on a device."""
    return device is None or device == "cpu"


def get_cuda_device_count() -> int:
    """Number of CUDA devices that kernels run on."""
    return 0


def get_cuda_devices() -> list[Device]:
    """The CUDA devices that kernels run on."""
    return []


class ScopedDevice:
    """Sets the device that is used by default within a `with` statement.

    Examples
    --------
    >>> import polyloom as loom
    >>> with loom.ScopedDevice("cpu") as device:
    ...     x = loom.zeros(3, device=device)
    """

    def __init__(self, device: DeviceLike) -> None:
        self.device = get_device(device)

    def __enter__(self) -> Device:
        return self.device

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


def synchronize() -> None:
    """Nothing: a launch on the CPU returns when it is done."""


def synchronize_device(device: DeviceLike = None) -> None:
    """Nothing but to check that there is such a device: a launch on the CPU returns when it is done."""
    get_device(device)


def check_no_stream(stream: Any) -> None:
    """Rejects a CUDA stream, which the CPU has none of."""
    if stream is not None:
        raise ValueError("streams are of CUDA devices, and kernels run on 'cpu'")
