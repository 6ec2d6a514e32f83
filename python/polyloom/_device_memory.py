"""Memory of devices: figures and limits of their pools, memory that the host shares with them, and memory of other
devices."""

from __future__ import annotations

import math
import sys
from types import TracebackType
from typing import Any, TextIO

import numpy as np

from polyloom import _native
from polyloom._annotations import name_of
from polyloom._arrays import ElementTypeLike, Shape, _element_type, _extents, _inner, _numpy, array, live_arrays
from polyloom._devices import Device, DeviceLike, get_device
from polyloom._memory import layout
from polyloom._scalars import float32
from polyloom._streams import Stream, get_stream

__all__ = [
    "ScopedMempool",
    "ScopedMempoolAccess",
    "ScopedPeerAccess",
    "advise",
    "get_mempool_release_threshold",
    "get_mempool_used_mem_current",
    "get_mempool_used_mem_high",
    "is_mempool_access_enabled",
    "is_mempool_access_supported",
    "is_mempool_enabled",
    "is_mempool_supported",
    "is_peer_access_enabled",
    "is_peer_access_supported",
    "managed",
    "memory_report",
    "pin",
    "prefetch",
    "print_memory_report",
    "release_memory",
    "set_memory_limit",
    "set_mempool_access_enabled",
    "set_mempool_enabled",
    "set_mempool_release_threshold",
    "set_peer_access_enabled",
]


def memory_report() -> dict[str, Any]:
    """The bytes that pools of memory have, and how they did.

    Returns
    -------
    dict
        Of the host's pool for results and temporaries: `limit`, the most that may be idle, a quarter of the machine's
        memory; `idle`, what waits for a result; `used`, what results and temporaries have now; `peak`, the most that
        they have had; `n_allocated` and `n_reused`, how often the system gave memory, and how often idle memory
        served.

        `devices` has for each CUDA device in use: `used` and `used_high`, of live arrays now and at most; `idle`,
        what waits for an array; `reserved_high`, the most of both; `limit` and `release_threshold`, the most of both
        and of what is idle, None without; `n_allocated`, `n_reused` and `n_flushed`, how often the driver gave
        memory, how often idle memory served, and how often the driver had no more until that was given back;
        `n_live`, the number of live allocations, and `largest`, the sizes of the largest; `has_driver_pool`, whether
        the memory is of a pool of the driver's; `pinned`, of the host for the device.

    Examples
    --------
    >>> import polyloom as loom
    >>> sorted(loom.memory_report())
    ['devices', 'idle', 'limit', 'n_allocated', 'n_reused', 'peak', 'used']
    """
    figures: dict[str, Any] = dict(_native.memory_report())
    figures["devices"] = {name: _native.device_memory_report(name) for name in _native.open_cuda_devices()}
    return figures


def release_memory(device: DeviceLike = None, keep: int = 0) -> None:
    """Gives idle memory of pools back to the system: the host's, and those of the CUDA devices in use. Arrays and
    results that are alive keep theirs.

    Parameters
    ----------
    device : str, optional
        The device whose pool it is about alone.
    keep : int
        Bytes that may stay idle on each device.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.release_memory()
    >>> loom.memory_report()["idle"]
    0
    """
    if device is None or get_device(device).is_cpu:
        _native.release_memory()
    for name in _native.open_cuda_devices() if device is None else [get_device(device)]:
        _native.release_device_memory(name, keep)


def _cuda(device: DeviceLike) -> Device:
    where = get_device(device)
    if not where.is_cuda:
        raise ValueError("Memory pools are only supported on CUDA devices")
    return where


def set_memory_limit(device: DeviceLike, limit: int | None) -> None:
    """Limits the memory of a CUDA device that arrays and the pool may have together; more is an error as if there
    were no more. None takes the limit back."""
    _native.set_device_memory_limits(_cuda(device), sys.maxsize if limit is None else int(limit), None)


def set_mempool_release_threshold(device: DeviceLike, threshold: int | float) -> None:
    """Says how many bytes the pool of a CUDA device may keep idle, a quarter of the device's memory at first: a
    number of bytes or, up to 1, a part of the device's memory. What is too much goes back at once."""
    where = _cuda(device)
    if 0 < threshold <= 1:
        threshold = threshold * where.total_memory
    _native.set_device_memory_limits(where, None, max(0, int(threshold)))


def _report(device: DeviceLike) -> dict[str, Any]:
    found = _native.device_memory_report(_cuda(device))
    assert found is not None
    return found


def get_mempool_release_threshold(device: DeviceLike = None) -> int:
    """Bytes that the pool of a CUDA device may keep idle."""
    threshold = _report(device)["release_threshold"]
    return sys.maxsize if threshold is None else int(threshold)


def get_mempool_used_mem_current(device: DeviceLike = None) -> int:
    """Bytes of live arrays on a CUDA device."""
    return int(_report(device)["used"])


def get_mempool_used_mem_high(device: DeviceLike = None) -> int:
    """The most bytes that live arrays on a CUDA device have had."""
    return int(_report(device)["used_high"])


def is_mempool_supported(device: DeviceLike = None) -> bool:
    """Whether the driver of a device has memory pools. Arrays of a CUDA device have one in any case, which takes its
    memory from the driver's if there is one."""
    where = get_device(device)
    return where.is_cuda and _native.has_driver_pool(where)


# The CUDA devices whose memory is not to come from the driver's pools.
_without_pool: set[str] = set()


def is_mempool_enabled(device: DeviceLike = None) -> bool:
    """Whether memory of a device comes from a pool of the driver's."""
    where = get_device(device)
    return is_mempool_supported(where) and where not in _without_pool


def set_mempool_enabled(device: DeviceLike, enable: bool) -> None:
    """Says whether memory of a CUDA device comes from a pool of the driver's.

    Raises
    ------
    RuntimeError
        If the driver has none.
    """
    where = get_device(device)
    if not where.is_cuda:
        if enable:
            raise ValueError("Memory pools are only supported on CUDA devices")
        return
    if enable and not is_mempool_supported(where):
        raise RuntimeError(f"Device {where} does not support memory pools")
    (_without_pool.discard if enable else _without_pool.add)(where)
    _native.use_driver_pool(where, enable)


class ScopedMempool:
    """Says in the body of a `with` statement whether memory of a CUDA device comes from a pool of the driver's."""

    def __init__(self, device: DeviceLike, enable: bool) -> None:
        self.device, self.enable = get_device(device), enable

    def __enter__(self) -> None:
        self.saved_setting = is_mempool_enabled(self.device)
        set_mempool_enabled(self.device, self.enable)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_mempool_enabled(self.device, self.saved_setting)


def is_peer_access_supported(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Whether kernels of one CUDA device may use memory of another one, where that is enabled."""
    target, peer = get_device(target_device), get_device(peer_device)
    return target.is_cuda and peer.is_cuda and _native.can_access_peer(target.ordinal, peer.ordinal)


# The pairs of devices, the one with the memory first, between which access is enabled.
_peers: set[tuple[str, str]] = set()


def is_peer_access_enabled(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Whether kernels of a CUDA device use memory of another one: of itself they do."""
    target, peer = get_device(target_device), get_device(peer_device)
    return target.is_cuda and peer.is_cuda and (target == peer or (target, peer) in _peers)


def set_peer_access_enabled(target_device: DeviceLike, peer_device: DeviceLike, enable: bool) -> None:
    """Says whether kernels of the peer use memory of the target that comes from the driver without its pools.

    Raises
    ------
    ValueError
        If one is no CUDA device.
    RuntimeError
        If the peer cannot.
    """
    target, peer = get_device(target_device), get_device(peer_device)
    if not enable and (target, peer) not in _peers:
        return
    if not target.is_cuda or not peer.is_cuda:
        raise ValueError("Peer access is only supported between CUDA devices")
    if not is_peer_access_supported(target, peer):
        raise RuntimeError(f"Device {peer} cannot access device {target}")
    _native.set_peer_access(target.ordinal, peer.ordinal, enable)
    (_peers.add if enable else _peers.discard)((target, peer))


class ScopedPeerAccess:
    """Says in the body of a `with` statement whether kernels of the peer use memory of the target."""

    def __init__(self, target_device: DeviceLike, peer_device: DeviceLike, enable: bool) -> None:
        self.target_device, self.peer_device, self.enable = target_device, peer_device, enable

    def __enter__(self) -> None:
        self.saved_setting = is_peer_access_enabled(self.target_device, self.peer_device)
        set_peer_access_enabled(self.target_device, self.peer_device, self.enable)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_peer_access_enabled(self.target_device, self.peer_device, self.saved_setting)


def is_mempool_access_supported(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Whether kernels of one CUDA device reach the driver's memory pool of another: that of itself alone."""
    target = get_device(target_device)
    return target == get_device(peer_device) and is_mempool_supported(target)


def is_mempool_access_enabled(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Whether kernels of one CUDA device reach the driver's memory pool of another now: that of itself alone."""
    return is_mempool_access_supported(target_device, peer_device)


def set_mempool_access_enabled(target_device: DeviceLike, peer_device: DeviceLike, enable: bool) -> None:
    """An error for two devices: their pools are their own. `set_mempool_enabled` has memory come without, which
    `set_peer_access_enabled` is about."""
    if enable and not is_mempool_access_supported(target_device, peer_device):
        raise RuntimeError(
            f"Device {get_device(peer_device)} cannot access the memory pool of {get_device(target_device)}"
        )


class ScopedMempoolAccess:
    """Calls `set_mempool_access_enabled` for the body of a `with` statement."""

    def __init__(self, target_device: DeviceLike, peer_device: DeviceLike, enable: bool) -> None:
        self.target_device, self.peer_device, self.enable = target_device, peer_device, enable

    def __enter__(self) -> None:
        set_mempool_access_enabled(self.target_device, self.peer_device, self.enable)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


def pin(values: np.ndarray[Any, Any] | array, device: DeviceLike = None) -> array:
    """An array over the memory of a dense NumPy array, which is pinned for a GPU as long as the array lives: copies
    between it and a GPU go on while the host does something else.

    Parameters
    ----------
    values : numpy.ndarray or array
        The elements. Their memory belongs to no other array that is pinned.
    device : str, optional
        A CUDA device, by default the first.

    Raises
    ------
    DeviceError
        If there is no GPU, or the system does not pin the memory.
    """
    given = array(values, copy=False, device="cpu")
    storage = given.numpy()
    if not storage.flags.c_contiguous or not storage.size:
        raise ValueError("memory that is pinned is that of an array with elements that follow each other")
    where = get_device("cuda:0" if device is None else device)
    given._shared = _native.HostMemory.registered(where, storage)
    return given  # type: ignore[no-any-return]


def managed(shape: Shape, dtype: ElementTypeLike = float32, device: DeviceLike = None) -> array:
    """An array of a GPU in managed memory, which the host reads and writes at the same address: `array.host()` is its
    view of it, after waiting for the streams that write the array.

    Parameters
    ----------
    shape : int or tuple of int
        Extents.
    dtype : scalar type or class such as `vec3`
        Element type.
    device : str, optional
        A CUDA device; by default the one that `set_device` names.

    Returns
    -------
    array
        An array whose elements are whatever they are.
    """
    where, wanted = _cuda(device), _element_type(dtype)
    extents, scalar = _extents(shape) + _inner(wanted), _numpy(wanted)
    n_bytes = max(1, math.prod(extents) * scalar.itemsize)
    shared = _native.HostMemory.managed(where, n_bytes)
    memory = _native.DeviceMemory(where, n_bytes, shared.address, shared)
    made = array._wrap(layout(shared.address, extents, scalar, None), wanted, memory)
    made._shared = shared
    return made


def _managed(values: array) -> _native.HostMemory:
    shared = values._root()._shared
    if shared is None or values.device.is_cpu:
        raise ValueError("the array is not in managed memory: make it with polyloom.managed")
    return shared


def prefetch(values: array, device: DeviceLike = None, stream: Stream | None = None) -> None:
    """Has the contents of an array in managed memory come to its device, or to the host with `device="cpu"`, in the
    order of a stream."""
    shared = _managed(values)
    to_host = device is not None and get_device(device).is_cpu
    shared.prefetch((get_stream(values.device) if stream is None else stream)._queue, to_host)


def advise(values: array, advice: str, is_set: bool = True) -> None:
    """Tells the driver how an array in managed memory will be used.

    Parameters
    ----------
    values : array
        The array.
    advice : str
        `"read_mostly"`; `"preferred"`, that it should stay on the device; `"accessed"`, that the device uses it
        wherever it is.
    is_set : bool
        False to take the advice back.
    """
    _managed(values).advise(advice, is_set)


def print_memory_report(file: TextIO | None = None, sort: str = "size", max_items: int = 10) -> None:
    """Prints the live arrays of each device that take most memory, by shape and type, and what the pools have.

    Parameters
    ----------
    file : file, optional
        Where to; by default `sys.stdout`.
    sort : str
        `"size"` or `"count"`.
    max_items : int
        How many lines there are for a device.
    """
    if sort not in ("size", "count"):
        raise ValueError(f"a report is sorted by 'size' or 'count', not {sort!r}")
    found: dict[str, dict[str, list[int]]] = {}
    for each in live_arrays():
        if each._parent is not None:
            continue
        entry = found.setdefault(each.device, {}).setdefault(f"{name_of(each.dtype)}{list(each.shape)}", [0, 0])
        entry[0] += each._storage.nbytes
        entry[1] += 1
    for device, arrays in sorted(found.items()):
        print(
            f"{device}: {sum(n for n, _ in arrays.values())} bytes in {sum(c for _, c in arrays.values())} arrays",
            file=file,
        )
        key = 0 if sort == "size" else 1
        for text, (n_bytes, count) in sorted(arrays.items(), key=lambda item: -item[1][key])[:max_items]:
            print(f"  {n_bytes:>14} bytes  {count:>6} of  {text}", file=file)
    for device, figures in memory_report()["devices"].items():
        print(
            f"{device}: {figures['used']} bytes used, {figures['idle']} idle, {figures['used_high']} at most", file=file
        )
