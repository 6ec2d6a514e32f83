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

from polyloom._native import SimModule as _SimModule
from polyloom._native import configure_simulator as configure
from polyloom._native import last_simulator_report as last_report

__all__ = ["Kernel", "Module", "configure", "last_report"]

_DTYPES = {
    **{f"{letter}{bits}": f"uint{bits}" for letter in "ub" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
}


class Module:
    """PTX text, loaded into a simulator of its own; by whatever compiler, or by hand.

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

    def launch(
        self, grid: int | Sequence[int], block: int | Sequence[int], args: Sequence[Any], shared_bytes: int = 0
    ) -> None:
        """Runs the kernel and returns when all its threads have run.

        Parameters
        ----------
        grid, block : int or sequence of int
            Blocks of the grid and threads of a block, along up to three axes.
        args : sequence
            A NumPy array for each pointer, which is copied to the simulator and, if it may be written, back; a number,
            or bytes, for each other parameter. `None` is the null pointer. Arrays may share memory.
        shared_bytes : int
            Dynamic shared memory of a block, in bytes.

        Raises
        ------
        polyloom.SanitizerError
            What the simulator found.
        """
        if len(args) != len(self.parameters):
            names = ", ".join(name for name, _, _ in self.parameters)
            raise TypeError(f"kernel '{self.name}' takes {len(self.parameters)} arguments ({names}), not {len(args)}")
        packed = [_packed(*parameter, value) for parameter, value in zip(self.parameters, args, strict=True)]
        self._native.launch(self.name, grid, block, packed, shared_bytes)

    def __repr__(self) -> str:
        parameters = ", ".join(f"{name}: {dtype}" for name, dtype, _ in self.parameters)
        return f"<PTX kernel {self.name}({parameters})>"


def _packed(name: str, dtype: str, size: int, value: Any) -> bytes | np.ndarray:
    """A parameter's bytes, or the array that it points to."""
    if isinstance(value, (bytes, bytearray)):
        if len(value) != size:
            raise TypeError(f"parameter '{name}' has {size} bytes, not {len(value)}")
        return bytes(value)
    if hasattr(value, "__array_interface__") and not isinstance(value, np.generic):
        array = np.asarray(value)
        if not array.flags.c_contiguous:
            raise ValueError(f"the array for parameter '{name}' is not contiguous: pass numpy.ascontiguousarray of it")
        return array
    if value is None and size == 8:
        return bytes(size)
    known = _DTYPES.get(dtype)
    if known is None or np.dtype(known).itemsize != size:
        raise TypeError(f"parameter '{name}' is .{dtype} of {size} bytes: pass its bytes")
    try:
        if np.dtype(known).kind in "iu":
            # NumPy would cut off what is behind the point.
            # Registers have no sign, and compilers write `.u32` for `int`.
            number: int = operator.index(value)
            if not -(1 << (8 * size - 1)) <= number < 1 << (8 * size):
                raise OverflowError
            return (number % (1 << (8 * size))).to_bytes(size, "little")
        return np.array(value, known).tobytes()
    except (OverflowError, TypeError, ValueError) as error:
        raise TypeError(f"parameter '{name}' is .{dtype}, not {value!r}") from error
