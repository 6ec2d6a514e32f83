"""Tensors without values, which stand for arrays while a function is traced, for its gradient or to be built."""

from __future__ import annotations

import linecache
import operator
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from polyloom import _native, ops

_OPS: dict[str, Callable[..., Any]] = vars(ops)
_PACKAGE = os.path.dirname(__file__)


def users_line() -> str:
    """The innermost line that is not of the package, as messages name it."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    file, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, line, frame.f_globals).strip()
    return f"{file}:{line}: {text}" if text else f"{file}:{line}"


def _without_value(what: str, instead: str) -> NoReturn:
    raise TypeError(f"{what} of a tensor is not known while a function is traced: {instead}\n  {users_line()}")


class TracedTensor(_native.TracedBase):
    """A tensor of a function that is traced: its type and shape are known, its elements are not.

    It takes NumPy's operators and methods, and may be given to `ops`, and to those functions of NumPy that are ops.
    Views share no memory, and nothing is assigned in place.

    Attributes
    ----------
    shape : tuple of int
        The extents.
    dtype : numpy.dtype
        The element type.
    """

    __slots__ = ()
    __hash__ = object.__hash__
    # NumPy's numbers and the package's arrays leave operations with it to it.
    __array_priority__ = 1000.0

    def __repr__(self) -> str:
        return f"<traced tensor {self._dtype_name}[{', '.join(map(str, self.shape))}]>"

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        size = 1
        for extent in self.shape:
            size *= extent
        return size

    # These need the elements.

    def __bool__(self) -> bool:
        _without_value(
            "the truth",
            "write ops.where(condition, a, b) in place of `if`, `and`, `or` and `while`, or decide by .shape or by "
            "arguments that it is not differentiated by",
        )

    def __float__(self) -> float:
        _without_value("the number", "leave out float(…), a tensor without axes goes with any operator and op")

    def __int__(self) -> int:
        _without_value("the integer", "write .astype(np.int64), or take the integer from an argument beside")

    def __index__(self) -> int:
        _without_value("the index", "take it from an argument that the function is not differentiated by")

    def __complex__(self) -> complex:
        _without_value("the number", "ops have no complex numbers")

    def item(self) -> Any:
        """Raises `TypeError`: the elements are not known."""
        _without_value("the number", "leave out .item(), a tensor without axes goes with any operator and op")

    def numpy(self) -> Any:
        """Raises `TypeError`: the elements are not known."""
        _without_value("the array", "return the tensor beside the loss, with has_aux=True, and look at it there")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        _without_value(
            "the array",
            "call ops.… in place of this function; to look at it, return it beside the loss, with has_aux=True",
        )

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(
            "a tensor is not assigned to while a function is traced: write ops.where(condition, "
            f"value, x) or ops.concat([…])\n  {users_line()}"
        )

    # NumPy's functions.

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, out: Any = None, **named: Any) -> Any:
        name = _UFUNC_NAMES.get(function.__name__, function.__name__)
        if method == "__call__" and name in ops.__all__ and not named and out is None:
            return _OPS[name](*inputs)
        if out is not None:
            raise TypeError(
                "an array is not assigned a tensor while a function is traced: write `a = a + b` in "
                f"place of `a += b`\n  {users_line()}"
            )
        called = f"np.{function.__name__}" + ("" if method == "__call__" else f".{method}")
        raise TypeError(
            f"{called} with these arguments is no op, and has no gradient: `polyloom.ops` has those that do\n"
            f"  {users_line()}"
        )

    def __array_function__(self, function: Any, types: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        found = _FUNCTIONS.get(function)
        if found is None:
            called = f"{function.__module__}.{function.__name__}".replace("numpy", "np", 1)
            reason = "is no op, and has no gradient: `polyloom.ops` has those that do"
            if function.__name__ in ops.__all__:
                reason = f"is not traced: write ops.{function.__name__}"
            raise TypeError(f"{called} {reason}\n  {users_line()}")
        return found(*args, **named)

    # Operators.

    def __add__(self, other: Any) -> Any:
        return ops.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return ops.add(other, self)

    def __sub__(self, other: Any) -> Any:
        return ops.subtract(self, other)

    def __rsub__(self, other: Any) -> Any:
        return ops.subtract(other, self)

    def __mul__(self, other: Any) -> Any:
        return ops.multiply(self, other)

    def __rmul__(self, other: Any) -> Any:
        return ops.multiply(other, self)

    def __truediv__(self, other: Any) -> Any:
        return ops.divide(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return ops.divide(other, self)

    def __floordiv__(self, other: Any) -> Any:
        return ops.floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return ops.floor_divide(other, self)

    def __mod__(self, other: Any) -> Any:
        return ops.remainder(self, other)

    def __rmod__(self, other: Any) -> Any:
        return ops.remainder(other, self)

    def __pow__(self, other: Any) -> Any:
        return ops.power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return ops.power(other, self)

    def __matmul__(self, other: Any) -> Any:
        return ops.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return ops.matmul(other, self)

    def __and__(self, other: Any) -> Any:
        return ops.bitwise_and(self, other)

    def __rand__(self, other: Any) -> Any:
        return ops.bitwise_and(other, self)

    def __or__(self, other: Any) -> Any:
        return ops.bitwise_or(self, other)

    def __ror__(self, other: Any) -> Any:
        return ops.bitwise_or(other, self)

    def __xor__(self, other: Any) -> Any:
        return ops.bitwise_xor(self, other)

    def __rxor__(self, other: Any) -> Any:
        return ops.bitwise_xor(other, self)

    def __neg__(self) -> Any:
        return ops.negative(self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return ops.absolute(self)

    def __invert__(self) -> Any:
        return ops.invert(self)

    def __eq__(self, other: object) -> Any:
        return ops.equal(self, other)

    def __ne__(self, other: object) -> Any:
        return ops.not_equal(self, other)

    def __lt__(self, other: Any) -> Any:
        return ops.less(self, other)

    def __le__(self, other: Any) -> Any:
        return ops.less_equal(self, other)

    def __gt__(self, other: Any) -> Any:
        return ops.greater(self, other)

    def __ge__(self, other: Any) -> Any:
        return ops.greater_equal(self, other)

    # Parts and views.

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without axes has no length")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        items = list(key) if isinstance(key, tuple) else [key]
        n_taken = sum(item is not None and item is not Ellipsis for item in items)
        n_axes = len(self.shape)
        if n_taken > n_axes:
            raise IndexError(f"{n_taken} indices of a tensor of {n_axes} axes")
        if sum(item is Ellipsis for item in items) > 1:
            raise IndexError("an index has one `...` at most")
        if not any(item is Ellipsis for item in items):
            items.append(Ellipsis)
        starts: list[int | None] = []
        stops: list[int | None] = []
        steps: list[int] = []
        # Of each axis of the result the axis of the slice, or None for a new one.
        axes: list[int | None] = []
        for item in items:
            if item is None:
                axes.append(None)
            elif item is Ellipsis:
                for _ in range(n_axes - n_taken):
                    axes.append(len(starts))
                    starts.append(None)
                    stops.append(None)
                    steps.append(1)
            elif isinstance(item, slice):
                axes.append(len(starts))
                starts.append(_limit(item.start))
                stops.append(_limit(item.stop))
                steps.append(1 if item.step is None else operator.index(item.step))
            else:
                extent = self.shape[len(starts)]
                at = _index(item)
                if not -extent <= at < extent:
                    raise IndexError(f"index {at} is out of bounds for axis {len(starts)} of {extent} elements")
                starts.append(at % extent)
                stops.append(at % extent + 1)
                steps.append(1)
        is_whole = all(start is None and stop is None for start, stop in zip(starts, stops, strict=True))
        taken = self if is_whole and set(steps) <= {1} else ops.slice(self, starts, stops, steps)
        shape = tuple(1 if axis is None else taken.shape[axis] for axis in axes)
        return taken if shape == tuple(taken.shape) else ops.reshape(taken, shape)

    @property
    def T(self) -> Any:
        """The tensor with its axes in reverse order."""
        return self.transpose()

    @property
    def mT(self) -> Any:
        """The tensor with its last two axes exchanged."""
        return ops.transpose(self)

    def reshape(self, *shape: Any) -> Any:
        """The elements in another shape, in the order of rows."""
        return ops.reshape(self, shape[0] if len(shape) == 1 else shape)

    def ravel(self) -> Any:
        """The elements along one axis."""
        return ops.reshape(self, -1)

    flatten = ravel

    def transpose(self, *axes: Any) -> Any:
        """The tensor with its axes in this order, or in reverse order."""
        if len(axes) == 1 and not isinstance(axes[0], int):
            axes = tuple(axes[0]) if axes[0] is not None else ()
        return ops.permute(self, axes or tuple(range(len(self.shape)))[::-1]) if len(self.shape) > 1 else self

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """The tensor with two axes exchanged."""
        return ops.transpose(self, axis1, axis2)

    def squeeze(self, axis: int | Sequence[int] | None = None) -> Any:
        """The tensor without axes of one element: these, or all."""
        n_axes = len(self.shape)
        given = range(n_axes) if axis is None else [axis] if isinstance(axis, int) else axis
        dropped = {_axis(each, n_axes) for each in given if axis is not None or self.shape[each] == 1}
        if any(self.shape[each] != 1 for each in dropped):
            raise ValueError(f"an axis of other than one element is not left out, and the shape is {self.shape}")
        return ops.reshape(self, tuple(extent for each, extent in enumerate(self.shape) if each not in dropped))

    def astype(self, dtype: Any) -> Any:
        """The elements converted to another type."""
        return ops.cast(self, dtype)

    def copy(self) -> Any:
        """The tensor itself, because nothing is assigned to it."""
        return self

    # Reductions and scans.

    def sum(self, axis: Any = None, keepdims: bool = False) -> Any:
        """The sum along axes, or of all elements."""
        return ops.sum(self, axis, keepdims)

    def prod(self, axis: Any = None, keepdims: bool = False) -> Any:
        """The product along axes, or of all elements."""
        return ops.prod(self, axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Any:
        """The mean along axes, or of all elements."""
        return ops.mean(self, axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Any:
        """The largest along axes, or of all elements."""
        return ops.max(self, axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Any:
        """The smallest along axes, or of all elements."""
        return ops.min(self, axis, keepdims)

    def var(self, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
        """The variance along axes, or of all elements."""
        return ops.var(self, axis, keepdims, ddof)

    def std(self, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
        """The standard deviation along axes, or of all elements."""
        return ops.std(self, axis, keepdims, ddof)

    def all(self, axis: Any = None, keepdims: bool = False) -> Any:
        """True if all along axes are not zero."""
        return ops.all(self, axis, keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Any:
        """True if any along axes is not zero."""
        return ops.any(self, axis, keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Any:
        """The index of the first of the largest."""
        return ops.argmax(self, axis, keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Any:
        """The index of the first of the smallest."""
        return ops.argmin(self, axis, keepdims)

    def cumsum(self, axis: int | None = None) -> Any:
        """The sums of the elements up to each along an axis."""
        return ops.cumsum(self.ravel(), 0) if axis is None else ops.cumsum(self, axis)

    def cumprod(self, axis: int | None = None) -> Any:
        """The products of the elements up to each along an axis."""
        return ops.cumprod(self.ravel(), 0) if axis is None else ops.cumprod(self, axis)

    def clip(self, min: Any = None, max: Any = None) -> Any:
        """The elements, or the nearer of two limits."""
        return ops.clip(self, min, max)

    def dot(self, other: Any) -> Any:
        """The product of matrices or vectors, or with a number."""
        return _dot(self, other)


def _index(item: Any) -> int:
    if isinstance(item, (bool, np.bool_)) or not hasattr(item, "__index__") or getattr(item, "shape", ()) != ():
        raise TypeError(
            f"an index is an integer, a slice, None or `...`, not {type(item).__name__}: to choose elements by an "
            "array of indices write ops.take(x, indices, axis), by truth values ops.where(condition, x, 0.0)\n"
            f"  {users_line()}"
        )
    return operator.index(item)


def _dot(a: Any, b: Any) -> Any:
    ranks = [len(getattr(each, "shape", ())) for each in (a, b)]
    if 0 in ranks:
        return ops.multiply(a, b)
    if max(ranks) > 2:
        raise TypeError(
            f"np.dot of tensors of {ranks[0]} and {ranks[1]} axes is not traced: write ops.matmul, which has batches, "
            f"or ops.einsum\n  {users_line()}"
        )
    return ops.matmul(a, b)


def _limit(value: Any) -> int | None:
    return None if value is None else operator.index(value)


def _axis(axis: int, n_axes: int) -> int:
    if not -n_axes <= axis < n_axes:
        raise ValueError(f"there is no axis {axis}: a tensor of {n_axes} axes has those from {-n_axes} to {n_axes - 1}")
    return axis % n_axes


def _expanded(x: Any, axis: int) -> Any:
    axis = _axis(axis, x.ndim + 1)
    return ops.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))


def _taken(x: Any, indices: Any, axis: int | None = None) -> Any:
    return ops.take(ops.reshape(x, -1), indices, 0) if axis is None else ops.take(x, indices, axis)


def _sorted(x: Any, axis: int | None = -1) -> Any:
    return ops.sort(ops.reshape(x, -1)) if axis is None else ops.sort(x, axis)


def _argsorted(x: Any, axis: int | None = -1) -> Any:
    return ops.argsort(ops.reshape(x, -1)) if axis is None else ops.argsort(x, axis)


def _padded(x: Any, pad_width: Any, mode: str = "constant", *, constant_values: float = 0) -> Any:
    if mode != "constant":
        raise TypeError(f"np.pad of mode {mode!r} is not traced: ops.pad has constants\n  {users_line()}")
    widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2))
    return ops.pad(x, [int(width) for width in widths.ravel()], constant_values)


def _norm(x: Any, ord: float | None = None, axis: Any = None, keepdims: bool = False) -> Any:
    if ord is not None:
        raise TypeError(
            f"np.linalg.norm with ord={ord!r} is not traced: ops.norm has the root of the sum of "
            f"squares\n  {users_line()}"
        )
    return ops.norm(x, axis, keepdims)


# NumPy's names of ops that have another one here.
_UFUNC_NAMES = {"rint": "round"}

_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.sum: TracedTensor.sum,
    np.prod: TracedTensor.prod,
    np.mean: TracedTensor.mean,
    np.max: TracedTensor.max,
    np.amax: TracedTensor.max,
    np.min: TracedTensor.min,
    np.amin: TracedTensor.min,
    np.var: TracedTensor.var,
    np.std: TracedTensor.std,
    np.all: TracedTensor.all,
    np.any: TracedTensor.any,
    np.argmax: TracedTensor.argmax,
    np.argmin: TracedTensor.argmin,
    np.cumsum: TracedTensor.cumsum,
    np.cumprod: TracedTensor.cumprod,
    np.reshape: TracedTensor.reshape,
    np.ravel: TracedTensor.ravel,
    np.transpose: TracedTensor.transpose,
    np.swapaxes: TracedTensor.swapaxes,
    np.squeeze: TracedTensor.squeeze,
    np.expand_dims: _expanded,
    np.where: ops.where,
    np.clip: ops.clip,
    np.dot: _dot,
    np.flip: ops.flip,
    np.tile: ops.tile,
    np.broadcast_to: ops.broadcast_to,
    np.take: _taken,
    np.take_along_axis: ops.take_along_axis,
    np.sort: _sorted,
    np.argsort: _argsorted,
    np.einsum: ops.einsum,
    np.pad: _padded,
    np.linalg.norm: _norm,
    np.concatenate: ops.concat,
    np.stack: ops.stack,
    np.shape: lambda x: x.shape,
    np.ndim: lambda x: x.ndim,
    np.size: lambda x: x.size,
    np.zeros_like: lambda x: np.zeros(x.shape, x.dtype),
    np.ones_like: lambda x: np.ones(x.shape, x.dtype),
}
