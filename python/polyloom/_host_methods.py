"""What arrays do on the host beside launches: comparisons, reductions, copies and conversions, computed by NumPy.

Nothing here is recorded by a tape. Results are new arrays on the array's device, or Python and NumPy values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from polyloom._annotations import name_of
from polyloom._composites import Composite, CompositeClass
from polyloom._grad import WithGradient
from polyloom._scalars import DType, DTypeLike, TypedConstant, bool_, dtype_of, readable
from polyloom._structs import Struct, StructClass

if TYPE_CHECKING:
    from polyloom._arrays import array


def restored(elements: NDArray[Any], dtype: Any, device: str, requires_grad: bool) -> array:
    """The array that a pickled one was."""
    from polyloom._arrays import array

    made = array(elements, dtype=dtype, device=device, copy=False)
    made.requires_grad = requires_grad
    return cast("array", made)


def check_unmasked(value: Any, what: str) -> None:
    """Refuses an array of NumPy's some elements of which are masked."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{what} takes no masked array: pass x.filled(value), or x.data to leave its mask out")


def _is_array_like(value: Any) -> bool:
    """Whether a value has elements that NumPy reads: those of another library, an indexed array, a range, a buffer."""
    ways = ("__array__", "__array_interface__", "__cuda_array_interface__", "__dlpack__")
    is_known = isinstance(value, (np.generic, np.ndarray, Composite, TypedConstant, type))
    return isinstance(value, (range, memoryview)) or (not is_known and any(hasattr(value, way) for way in ways))


def _comparison(compare: Callable[[Any, Any], Any], symbol: str) -> Callable[..., Any]:
    is_equality = symbol in ("==", "!=")

    def operate(self: HostMethods, other: Any) -> Any:
        here = cast("array", self)
        kinds = (bool, int, float, np.generic, np.ndarray, list, tuple, Composite, TypedConstant, Struct, HostMethods)
        if not isinstance(other, HostMethods) and _is_array_like(other):
            check_unmasked(other, f"`{symbol}` of arrays")
            other = np.asarray(other)
        if not isinstance(other, kinds) or (isinstance(other, Struct) and type(other) is not here.dtype):
            return NotImplemented
        if isinstance(here.dtype, StructClass) or (isinstance(here.dtype, CompositeClass) and not is_equality):
            raise TypeError(
                f"elements of type {name_of(here.dtype)} are not compared by `{symbol}`: compare their parts"
            )
        inner = here.dtype._shape_ if isinstance(here.dtype, CompositeClass) else ()
        check_unmasked(other, f"`{symbol}` of arrays")
        values = cast("array", other)._elements() if isinstance(other, HostMethods) else np.asarray(other)
        if inner and values.shape[-len(inner) :] != inner:
            raise TypeError(f"elements of type {name_of(here.dtype)} are compared with elements of their type")
        try:
            found: NDArray[Any] = np.asarray(compare(here._elements(), values))
        except ValueError as error:
            raise ValueError(
                f"`{symbol}` of arrays of the shapes {here.shape} and {np.shape(values)}: {error}"
            ) from None
        if inner:
            every = np.all if symbol == "==" else np.any
            found = np.asarray(every(found, axis=tuple(range(-len(inner), 0))))
        return here._new(found, bool_)

    operate.__name__ = compare.__name__
    return operate


def _reduction(name: str, doc: str) -> Callable[..., Any]:
    def reduce(
        self: HostMethods,
        axis: int | tuple[int, ...] | None = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        **other: Any,
    ) -> Any:
        here = cast("array", self)
        if dtype is not None or out is not None or other:
            given = [each for each, value in (("dtype", dtype), ("out", out)) if value is not None]
            names = ", ".join([*given, *other])
            raise TypeError(f"`{name}` of a loom.array takes axis and keepdims, not {names}: use x.numpy().{name}(…)")
        if isinstance(here.dtype, StructClass) or (isinstance(here.dtype, CompositeClass) and name in ("any", "all")):
            raise TypeError(f"elements of type {name_of(here.dtype)} have no `{name}`: take it of their parts")
        axes = tuple(range(here.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
        for each in axes:
            if not -here.ndim <= each < here.ndim:
                raise ValueError(f"an array of {here.ndim} dimensions has no axis {each}")
        axes = tuple(each % here.ndim for each in axes)
        elements = here._elements()
        if isinstance(here.dtype, DType):
            elements = readable(elements, here.dtype)
        found = getattr(np, name)(elements, axis=axes, keepdims=keepdims)
        if len(set(axes)) < here.ndim or keepdims:
            dtype = here.dtype if isinstance(here.dtype, CompositeClass) and name != "mean" else None
            return here._new(np.asarray(found), dtype)
        if isinstance(here.dtype, CompositeClass):
            return here.dtype(found)
        return found[()] if isinstance(found, np.ndarray) else found

    reduce.__name__ = name
    reduce.__doc__ = f"""{doc}, computed by NumPy and recorded by no tape.

        Parameters
        ----------
        axis : int or tuple of int, optional
            The axes to go along, which the result is without; all by default, which gives a number or an element.
        keepdims : bool
            The result has these axes, of extent 1.
        dtype, out
            None: NumPy's functions pass them on (`np.sum(x)`).
        """
    return reduce


class HostMethods(WithGradient):
    """The methods of arrays that NumPy computes."""

    # An array is one memory, whatever it holds.
    __hash__ = object.__hash__

    __eq__ = _comparison(operator.eq, "==")
    __ne__ = _comparison(operator.ne, "!=")
    __lt__ = _comparison(operator.lt, "<")
    __le__ = _comparison(operator.le, "<=")
    __gt__ = _comparison(operator.gt, ">")
    __ge__ = _comparison(operator.ge, ">=")

    sum = _reduction("sum", "The sum of the elements")
    mean = _reduction("mean", "The mean of the elements")
    min = _reduction("min", "The least of the elements")
    max = _reduction("max", "The largest of the elements")
    any = _reduction("any", "Whether an element is not zero")
    all = _reduction("all", "Whether no element is zero")

    def _new(self, elements: NDArray[Any], dtype: Any) -> array:
        """A new array on this one's device."""
        here = cast("array", self)
        made = type(here)._made(elements, dtype, None, None, copy=True)
        return cast("array", made if here.device.is_cpu else made._copied_to(here.device, False, is_recorded=False))

    def __bool__(self) -> bool:
        here = cast("array", self)
        if here.dtype is bool_:
            if here.size != 1:
                raise ValueError("the truth of an array of several bools is that of any() or of all()")
            return bool(here._elements().reshape(())[()])
        # As in Warp, whose programs ask `if x.grad:`.
        return len(here) > 0

    def __iter__(self) -> Iterator[Any]:
        here = cast("array", self)
        return (here[index] for index in range(len(here)))

    def __matmul__(self, other: Any) -> Any:
        return _product(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _product(other, self)

    def __abs__(self) -> array:
        from polyloom import _builtins
        from polyloom._map import map

        return cast("array", map(getattr(_builtins, "abs"), self))  # noqa: B009 - Python's own is meant otherwise

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return int(cast("array", self)._storage.nbytes)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        here = cast("array", self)
        storage = here._storage
        return int(storage.itemsize * np.prod(storage.shape[here.ndim :], dtype=int))

    def copy(self) -> array:
        """A new array with the same elements on the same device."""
        here = cast("array", self)
        return here._copied_to(here.device)

    def __copy__(self) -> array:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> array:
        made = self.copy()
        memo[id(self)] = made
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        here = cast("array", self)
        return restored, (np.array(here._elements()), here.dtype, str(here.device), here._requires_grad is True)

    def astype(self, dtype: DTypeLike) -> array:
        """A new array of the elements as another scalar type, converted as NumPy does.

        Examples
        --------
        >>> import polyloom as loom
        >>> loom.array([1.5, -2.5]).astype(int)
        array([ 1, -2], dtype=int32)
        """
        here = cast("array", self)
        made = type(here)(here, dtype=dtype, device=here.device)
        return cast("array", made)

    def tolist(self) -> list[Any]:
        """The elements as nested lists of Python values, an element's components innermost."""
        here = cast("array", self)
        elements = here._elements()
        if isinstance(here.dtype, StructClass):
            return elements.tolist()  # type: ignore[no-any-return]
        scalar = here.dtype._wp_scalar_type_ if isinstance(here.dtype, CompositeClass) else here.dtype
        return readable(elements, scalar).tolist()  # type: ignore[no-any-return]

    def item(self, *index: int) -> Any:
        """An element as a Python value: that of the indices, or the only one.

        Raises
        ------
        ValueError
            Without indices, if there are more or fewer than one.
        """
        here = cast("array", self)
        if index:
            found = here[index]
        elif here.size == 1:
            found = here[(0,) * here.ndim]
        else:
            raise ValueError(f"item() takes the indices of an element: an array of shape {here.shape} has {here.size}")
        return found.item() if isinstance(found, np.generic) else found


def _product(left: Any, right: Any) -> Any:
    """A product of matrices. As of other operators, its operands' types are not mixed."""
    from polyloom import ops

    types = [
        cast("array", operand).dtype if isinstance(operand, HostMethods) else dtype_of(operand.dtype)
        for operand in (left, right)
        if isinstance(operand, (HostMethods, np.ndarray))
    ]
    if len(types) == 2 and types[0] is not types[1]:
        raise TypeError(
            f"{operands_text('@', (left, right))}: the types of operands are not mixed; convert one with "
            ".astype(float), say"
        )
    return ops.matmul(left, right)


def operands_text(symbol: str, operands: Sequence[Any]) -> str:
    """An operator with its operands' types, in a user's words."""

    def text(value: Any) -> str:
        if isinstance(value, HostMethods):
            return f"an array of {name_of(cast('array', value).dtype)}"
        if isinstance(value, np.ndarray):
            return f"a NumPy array of {value.dtype}"
        return f"a value of type {getattr(type(value), '__name__', type(value))}"

    return f" {symbol} ".join(map(text, operands)) if len(operands) > 1 else f"{symbol}{text(operands[0])}"
