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
from polyloom._composites import Vector
from polyloom._native import SimModule as _SimModule
from polyloom._native import configure_simulator as configure
from polyloom._native import last_simulator_report as last_report
from polyloom._scalars import TypedConstant, stored, type_of
from polyloom._tape import overwritten
from polyloom._views import View, view_of

__all__ = ["Kernel", "Module", "aligned", "configure", "last_report"]

_DTYPES = {
    **{f"{letter}{bits}": f"uint{bits}" for letter in "ub" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
}


# What a parameter is given: bytes and what they are aligned to, an array, or a struct of these and its alignment.
_Bytes = tuple[bytes, int]
_Array = tuple[np.ndarray[Any, Any], Any]
_Packed = _Bytes | _Array | tuple[list[Any], int]


class aligned(tuple[Any, ...]):
    """A struct that is aligned to more than its members are, for `Kernel.launch`: C's `alignas`.

    Parameters
    ----------
    align : int
        Bytes, a power of two up to 128.
    *members
        What is in it, as in a tuple.

    Examples
    --------
    >>> float2 = aligned(8, np.float32(1), np.float32(2))
    >>> float2.align, len(float2)
    (8, 2)
    """

    align: int

    def __new__(cls, align: int, *members: Any) -> aligned:
        self = super().__new__(cls, members)
        self.align = align
        return self


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
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Any],
        shared_bytes: int = 0,
        *,
        cooperative: bool = False,
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
              scalars (`np.int32(3)`) or Polyloom's (`loom.int32(3)`), vectors for CUDA's vector types (`loom.vec2` for
              `float2`, at a multiple of 8 bytes), and tuples for structs and arrays in it, `aligned` ones for those
              that C++ aligns to more than their members.
            - that is a vector of CUDA's, a vector.
            - of any kind, its bytes.

            A parameter of a kernel of Polyloom's that is an array takes an array, of any strides. The one before them
            that says what is launched takes an int, or a tuple of up to four: the extents. It may be left out: they
            are then as many threads as the grid has, in one dimension.
        shared_bytes : int
            Dynamic shared memory of a block, in bytes.
        cooperative : bool
            Whether all blocks run at once and the kernel may synchronise its grid, as one may that
            `cudaLaunchCooperativeKernel` launches.

        Raises
        ------
        polyloom.SanitizerError
            What the simulator found.
        TypeError
            If an argument is none for its parameter, such as an array of Python's objects.
        ValueError
            If `shared_bytes` is out of range, an array is not contiguous, or the multiprocessors do not hold the blocks
            of a cooperative launch.

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
        most = (1 << 32) - 1
        if not 0 <= operator.index(shared_bytes) <= most:
            raise ValueError(f"shared_bytes is an integer from 0 to {most}, not {shared_bytes}")
        # What the first is given is found out from the grid if it is left out.
        parameters = self.parameters[self._takes_launch and len(args) + 1 == len(self.parameters) :]
        if len(args) != len(parameters):
            names = ", ".join(name for name, _, _ in self.parameters)
            raise TypeError(f"kernel '{self.name}' takes {len(self.parameters)} arguments ({names}), not {len(args)}")
        views: list[View] = []
        packed: list[_Packed] = []
        for parameter, value in zip(parameters, args, strict=True):
            is_launch = self._takes_launch and parameter is self.parameters[0]
            packed.append(_launched(parameter[0], value) if is_launch else _packed(*parameter, value, views))
        self._native.launch(self.name, grid, block, packed, shared_bytes, cooperative, lambda: _tell_tapes(views))

    def __repr__(self) -> str:
        parameters = ", ".join(f"{name}: {dtype}" for name, dtype, _ in self.parameters)
        return f"<PTX kernel {self.name}({parameters})>"


def _launched(name: str, value: Any) -> _Bytes:
    """What the first parameter of a kernel of Polyloom's is given for the extents of a launch."""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value), 1
    extents = value if isinstance(value, tuple) else (value,)
    try:
        if any(isinstance(extent, bool) for extent in extents):
            raise TypeError("it takes integers")
        return _native.launch_bytes([operator.index(extent) for extent in extents]), 8
    except (OverflowError, TypeError) as error:
        what = "extents are not negative" if isinstance(error, OverflowError) else error
        raise TypeError(f"parameter '{name}', which says what is launched, does not take {value!r}: {what}") from error


def _packed(name: str, dtype: str, size: int, value: Any, views: list[View]) -> _Packed:
    """What a parameter is given. Its arrays go to `views`."""
    known = _DTYPES.get(dtype)
    if known is not None and np.dtype(known).itemsize != size:
        # Bytes of a struct.
        known = None
    view = _view(name, value)
    if view is not None:
        if known is not None and (size != 8 or np.dtype(known).kind == "f"):
            raise TypeError(f"parameter '{name}' is .{dtype}, not an array: pass a number, such as array.item()")
        views.append(view)
        # Polyloom's kernels take the strides with the address.
        return _whole(name, view) if size == 8 else (view.storage, view.memory)
    if isinstance(value, tuple):
        return _struct(name, value, views, 1)
    if value is None and size == 8:
        return bytes(size), 8
    if isinstance(value, TypedConstant):
        value = _in_numpy(value)
    if known is None or isinstance(value, (bytes, bytearray, Vector)):
        of_size = _sized(value)
        if of_size is None:
            raise TypeError(f"parameter '{name}' is .{dtype} of {size} bytes: pass a tuple for a struct, or its bytes")
        return of_size
    if isinstance(value, np.generic) and value.dtype.name in ("float16", "bfloat16") and value.nbytes == size:
        # Compilers write `.u16` or `.b16` for halves.
        return value.tobytes(), size
    return packed_number(name, dtype, size, value), size


def packed_number(name: str, dtype: str, size: int, value: Any) -> bytes:
    """A number in the type that PTX says of a parameter."""
    known = np.dtype(_DTYPES.get(dtype, "V"))
    try:
        if known.itemsize != size:
            raise ValueError
        if known.kind in "iu":
            # NumPy would cut off what is behind the point.
            # Registers have no sign, and compilers write `.u32` for `int`.
            number: int = operator.index(bool(value) if isinstance(value, np.bool_) else value)
            if not -(1 << (8 * size - 1)) <= number < 1 << (8 * size):
                raise OverflowError
            return (number % (1 << (8 * size))).to_bytes(size, "little")
        return np.array(value, known).tobytes()
    except (OverflowError, TypeError, ValueError) as error:
        raise TypeError(f"parameter '{name}' is .{dtype}, not {value!r}") from error


def _in_numpy(constant: TypedConstant) -> np.generic:
    """The constant as a scalar of NumPy's."""
    scalar: np.generic = np.asarray(stored([constant.value], None, type_of(constant)), type_of(constant).numpy)[0]
    return scalar


def _sized(value: Any) -> _Bytes | None:
    """The bytes of what C knows the size of, whatever parameter it is for, and what they are aligned to."""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value), 1
    if isinstance(value, TypedConstant):
        value = _in_numpy(value)
    if isinstance(value, np.generic) and (value.dtype.kind in "biufc" or value.dtype.name == "bfloat16"):
        # Complex numbers are `float2` and `double2` to CUDA.
        return value.tobytes(), value.nbytes if value.dtype.kind == "c" else value.dtype.alignment
    if isinstance(value, Vector):
        numbers = np.asarray(value)
        # CUDA C++ Programming Guide, "Built-in Vector Types".
        align = min(numbers.nbytes, 16) if numbers.size in (2, 4) else numbers.itemsize
        return numbers.tobytes(), align
    return None


def _struct(name: str, members: tuple[Any, ...], views: list[View], level: int) -> _Packed:
    """What a struct is given."""
    if level > _native.MAX_STRUCT_LEVELS:
        raise TypeError(f"the struct for parameter '{name}' is more than {_native.MAX_STRUCT_LEVELS} deep")
    align = members.align if isinstance(members, aligned) else 1
    return [_member(name, member, views, level) for member in members], align


def _member(name: str, value: Any, views: list[View], level: int) -> _Packed:
    """What a member of a struct is given."""
    if isinstance(value, tuple):
        return _struct(name, value, views, level + 1)
    of_size = _sized(value)
    if of_size is not None:
        return of_size
    if value is None:
        return bytes(8), 8
    view = _view(name, value)
    if view is not None:
        if view.storage.ndim == 0:
            raise TypeError(
                f"the struct for parameter '{name}' has an array without dimensions in it: "
                "write array[()] for its number, or array.reshape(1) for a pointer to it"
            )
        views.append(view)
        return _whole(name, view)
    scalar = {bool: "np.bool_", float: "np.float32", int: "np.int32"}.get(type(value))
    instead = "a number of NumPy's" if scalar is None else f"{scalar}({value!r}) or another number of NumPy's"
    raise TypeError(
        f"the struct for parameter '{name}' has {value!r} in it, of no size that C knows: "
        f"write {instead}, a vector of Polyloom's, an array for a pointer, a tuple for a struct, or bytes"
    )


def _view(name: str, value: Any) -> View | None:
    """An array, of the host or the simulator; None for what is no array."""
    if isinstance(value, (Vector, TypedConstant)):
        return None
    if not isinstance(value, _native.ArrayBase) and hasattr(value, "__cuda_array_interface__"):
        device = "a CUDA device"
    else:
        view = view_of(value)
        if view is None:
            return None
        dtype = view.storage.dtype
        if dtype.hasobject:
            raise TypeError(f"the array for parameter '{name}' holds Python objects ({dtype}): kernels take numbers")
        if not dtype.isnative:
            raise TypeError(
                f"the array for parameter '{name}' has elements of type {dtype.str}, whose bytes are in another order: "
                "convert it before the launch with .astype(array.dtype.newbyteorder('='))"
            )
        if not view.device.startswith("cuda"):
            return view
        device = view.device
    raise TypeError(
        f"the array for parameter '{name}' is on {device}, whose memory the simulator cannot see: "
        "pass a copy on the host, such as array.numpy()"
    )


def _tell_tapes(views: list[View]) -> None:
    """Says that a kernel may write arrays, which no tape records."""
    for view in views if _native.recording_level() else ():
        if view.storage.flags.writeable:
            overwritten(view.device, view.lo, view.hi, "a kernel of `loom.sim.Module`")


def _whole(name: str, view: View) -> _Array:
    """An array that is given as an address alone."""
    if not view.storage.flags.c_contiguous:
        raise ValueError(f"the array for parameter '{name}' is not contiguous: pass numpy.ascontiguousarray of it")
    return view.storage, view.memory
