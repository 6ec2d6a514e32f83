"""The PTX simulator, device ``sim:0``: its settings, its reports, and PTX from elsewhere.

>>> import numpy as np, polyloom as loom
>>> @loom.kernel
... def double(x: loom.array(dtype=float)):
...     i = loom.tid()
...     x[i] = 2.0 * x[i]
>>> x = np.arange(4, dtype=np.float32)
>>> loom.launch(double, 4, [x], device="sim:0")
>>> x
array([0., 2., 4., 6.], dtype=float32)
>>> loom.sim.last_report()["thread_instructions"] > 0
True
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from polyloom import _native
from polyloom._native import SimModule as _SimModule
from polyloom._native import configure_simulator as configure
from polyloom._native import last_simulator_report as last_report
from polyloom._tape import overwritten
from polyloom._views import View, view_of

__all__ = ["Kernel", "Module", "configure", "last_report"]

_DTYPES = {
    **{f"{letter}{bits}": f"uint{bits}" for letter in "ub" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
}


# What a parameter is given: bytes and what they are aligned to, an array, or a struct of these.
_Bytes = tuple[bytes, int]
_Array = tuple[np.ndarray[Any, Any], Any]
_Packed = _Bytes | _Array | list[Any]


class Module:
    """PTX text, loaded into `sim:0`; by whatever compiler, or by hand. A forked process, whose `sim:0` is another,
    has it there anew.

    Parameters
    ----------
    ptx_text : str
        The module.

    Raises
    ------
    ValueError
        With line and column of all that is wrong with the text.

    Examples
    --------
    >>> module = Module('''
    ... .version 8.0
    ... .target sm_80
    ... .visible .entry answer(.param .u64 out) {
    ...     .reg .b64 %rd<2>;
    ...     ld.param.u64 %rd1, [out];
    ...     st.global.u32 [%rd1], 42;
    ...     ret;
    ... }''')
    >>> out = np.zeros(1, np.uint32)
    >>> module.kernel("answer").launch(1, 1, [out])
    >>> out
    array([42], dtype=uint32)
    """

    def __init__(self, ptx_text: str) -> None:
        self._native = _SimModule(ptx_text)

    @property
    def kernels(self) -> list[str]:
        """The names of the module's kernels."""
        return self._native.kernels

    def kernel(self, name: str) -> Kernel:
        """The kernel of this name.

        Raises
        ------
        ValueError
            If there is none, or it has something in it that the simulator cannot run.
        """
        return Kernel(self._native, name)

    def __str__(self) -> str:
        return str(self._native)

    def __repr__(self) -> str:
        return repr(self._native)


class Kernel:
    """A kernel of a `Module`."""

    def __init__(self, native: _SimModule, name: str) -> None:
        self._native = native
        self.name = name
        self.parameters: list[tuple[str, str, int]] = native.parameters(name)
        self._takes_launch: bool = native.takes_launch(name)

    def launch(
        self, grid: int | Sequence[int], block: int | Sequence[int], args: Sequence[Any], shared_bytes: int = 0
    ) -> None:
        """Runs the kernel and returns when all its threads have run.

        Parameters
        ----------
        grid, block : int or sequence of int
            Blocks of the grid and threads of a block, along up to three axes.
        args : sequence
            For each parameter

            - that is a pointer, an array: a NumPy array, or any that a launch takes. It is copied to the simulator
              and, if it may be written, back; an array on `sim:0` is used where it is. Arrays may share memory. `None`
              is the null pointer.
            - that is a number, a number.
            - that is a struct, a tuple of its members, which is laid out as C does it: arrays for pointers, NumPy's
              scalars (`np.int32(3)`), and tuples for structs and arrays in it.
            - of any kind, its bytes.

            A parameter of a kernel of Polyloom's that is an array takes an array, of any strides. The one before them
            that says what is launched takes an int, or a tuple of up to four: the extents. It may be left out: they
            are then as many threads as the grid has, in one dimension.
        shared_bytes : int
            Dynamic shared memory of a block, in bytes.

        Raises
        ------
        polyloom.SanitizerError
            What the simulator found.

        Examples
        --------
        >>> import polyloom as loom
        >>> @loom.kernel
        ... def scale(a: float, x: loom.array2d(dtype=float)):
        ...     i, j = loom.tid()
        ...     x[i, j] = a * x[i, j]
        >>> kernel = Module(scale.ptx()).kernel("scale_cuda_kernel_forward")
        >>> x = np.ones((2, 3), np.float32)
        >>> kernel.launch(1, 32, [(3, 2), 2.0, x.T])
        >>> x
        array([[2., 2., 2.],
               [2., 2., 2.]], dtype=float32)
        """
        # What the first is given is found out from the grid if it is left out.
        parameters = self.parameters[self._takes_launch and len(args) + 1 == len(self.parameters) :]
        if len(args) != len(parameters):
            names = ", ".join(name for name, _, _ in self.parameters)
            raise TypeError(f"kernel '{self.name}' takes {len(self.parameters)} arguments ({names}), not {len(args)}")
        packed: list[_Packed] = []
        for parameter, value in zip(parameters, args, strict=True):
            launched = _launched(parameter, value) if parameter is self.parameters[0] else None
            packed.append(launched or _packed(*parameter, value))
        self._native.launch(self.name, grid, block, packed, shared_bytes)

    def __repr__(self) -> str:
        parameters = ", ".join(f"{name}: {dtype}" for name, dtype, _ in self.parameters)
        return f"<PTX kernel {self.name}({parameters})>"


def _launched(parameter: tuple[str, str, int], value: Any) -> _Bytes | None:
    """What the first parameter of a kernel of Polyloom's is given if the value is the extents of a launch."""
    name, dtype, size = parameter
    extents = value if isinstance(value, tuple) else (value,)
    if dtype != "b8" or not all(isinstance(extent, int) for extent in extents):
        return None
    if not all(0 <= extent < 1 << 31 for extent in extents):
        raise TypeError(f"parameter '{name}' does not take {value!r}: a launch has fewer than 2^31 threads")
    launch = _native.launch_bytes(extents)
    return (launch, 8) if len(launch) == size else None


def _packed(name: str, dtype: str, size: int, value: Any) -> _Packed:
    """What a parameter is given."""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value), 1
    array = _array(name, value)
    if array is not None:
        # Polyloom's kernels take the strides with the address.
        return _whole(name, array) if size == 8 else array
    if isinstance(value, tuple):
        return [_member(name, member) for member in value]
    if value is None and size == 8:
        return bytes(size), 8
    if isinstance(value, np.generic) and value.dtype.name in ("float16", "bfloat16") and value.nbytes == size:
        # Compilers write `.u16`, `.b16` or two bytes for halves.
        return value.tobytes(), size
    known = _DTYPES.get(dtype)
    if known is None or np.dtype(known).itemsize != size:
        raise TypeError(f"parameter '{name}' is .{dtype} of {size} bytes: pass a tuple for a struct, or its bytes")
    try:
        if np.dtype(known).kind in "iu":
            # NumPy would cut off what is behind the point.
            # Registers have no sign, and compilers write `.u32` for `int`.
            number: int = operator.index(value)
            if not -(1 << (8 * size - 1)) <= number < 1 << (8 * size):
                raise OverflowError
            return (number % (1 << (8 * size))).to_bytes(size, "little"), size
        return np.array(value, known).tobytes(), size
    except (OverflowError, TypeError, ValueError) as error:
        raise TypeError(f"parameter '{name}' is .{dtype}, not {value!r}") from error


def _member(name: str, value: Any) -> _Packed:
    """What a member of a struct is given."""
    if isinstance(value, tuple):
        return [_member(name, member) for member in value]
    if isinstance(value, (bytes, bytearray)):
        return bytes(value), 1
    if isinstance(value, np.generic):
        return value.tobytes(), value.dtype.alignment
    if value is None:
        return bytes(8), 8
    array = _array(name, value)
    if array is not None:
        return _whole(name, array)
    scalar = {bool: "np.bool_", float: "np.float32"}.get(type(value), "np.int32")
    raise TypeError(
        f"the struct for parameter '{name}' has {value!r} in it, of no size that C knows: "
        f"write {scalar}({value!r}) or another of NumPy's scalars, an array for a pointer, or bytes"
    )


def _array(name: str, value: Any) -> _Array | None:
    """An array and the memory of the simulator that it is in, unless it is in the host's; None for what is no array."""
    if not isinstance(value, _native.ArrayBase) and hasattr(value, "__cuda_array_interface__"):
        device = "a CUDA device"
    else:
        view = view_of(value)
        if view is None:
            return None
        device = view.device
        if not device.startswith("cuda"):
            _tell_tapes(view)
            return view.storage, view.memory
    raise TypeError(
        f"the array for parameter '{name}' is on {device}, whose memory the simulator cannot see: "
        "pass a copy on the host, such as array.numpy()"
    )


def _tell_tapes(view: View) -> None:
    """Says that the kernel may write an array, which no tape records."""
    if _native.recording_level() and view.storage.flags.writeable:
        overwritten(view.device, view.lo, view.hi, "a kernel of `loom.sim.Module`")


def _whole(name: str, array: _Array) -> _Array:
    """An array that is given as an address alone."""
    if not array[0].flags.c_contiguous:
        raise ValueError(f"the array for parameter '{name}' is not contiguous: pass numpy.ascontiguousarray of it")
    return array
