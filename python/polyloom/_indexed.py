"""Indexed arrays: an array together with indices that choose among it, along each of its dimensions.

To the compiler one is a struct of the array and of an array of indices for each dimension; what is written here makes
these structs. A dimension without indices gets all of them.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from polyloom import _native
from polyloom._annotations import ArrayAnnotation, IndexedArrayAnnotation, name_of
from polyloom._arrays import _element_type, _elements_for, array
from polyloom._composites import GenericComposite
from polyloom._devices import Device
from polyloom._scalars import int32
from polyloom._structs import Struct, StructClass, numpy_dtype_of

__all__ = ["indexedarray", "indexedarray1d", "indexedarray2d", "indexedarray3d", "indexedarray4d"]


# Attributes of arrays that do not say where the elements are.
_OF_A_COPY = frozenset(
    ["all", "any", "astype", "copy", "flatten", "item", "max", "mean", "min", "nbytes", "reshape", "sum", "tolist"]
)


class IndexedArrayClass(StructClass):
    """The class of the types of indexed arrays, which are annotations too."""

    @property
    def dtype(cls) -> Any:
        """What the elements are."""
        return cls._fields["data"].dtype

    @property
    def ndim(cls) -> int:
        """Number of dimensions."""
        return int(cls._fields["data"].ndim)


class IndexedArray(Struct, metaclass=IndexedArrayClass):
    """Elements of an array, as `indexedarray(data, indices)` chooses them."""

    @property
    def dtype(self) -> Any:
        """What its elements are."""
        return type(self)._fields["data"].dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return int(type(self)._fields["data"].ndim)

    @property
    def indices(self) -> list[Any]:
        """For each dimension, the indices of the array that its own stand for."""
        return [getattr(self, f"indices{axis}") for axis in range(self.ndim)]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many elements there are along each dimension."""
        return tuple(len(indices) for indices in self.indices)

    @property
    def size(self) -> int:
        """How many elements there are."""
        return int(np.prod(self.shape))

    @property
    def is_contiguous(self) -> bool:
        """False: the elements are where the indices say."""
        return False

    @property
    def _data(self) -> array:
        return self.data  # type: ignore[no-any-return]

    @property
    def device(self) -> Device:
        """Where the elements are."""
        return self._data.device

    def _places(self) -> tuple[NDArray[Any], ...]:
        """The elements as NumPy indexes them."""
        return np.ix_(*(np.asarray(indices) for indices in self.indices))

    def numpy(self) -> NDArray[Any]:
        """A copy of the elements as a NumPy array."""
        chosen: NDArray[Any] = self._data._elements()[self._places()]
        return chosen

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """A copy of the elements as a NumPy array."""
        if copy is False:
            raise ValueError("the elements of an indexed array are not seen without a copy")
        return np.asarray(self.numpy(), dtype)

    def contiguous(self) -> array:
        """A new array of the elements."""
        return array(self.numpy(), dtype=self.dtype, device=self.device)  # type: ignore[no-any-return]

    def list(self) -> list[Any]:
        """The elements, row by row, as Python values."""
        return self.contiguous().list()

    def assign(self, source: Any) -> IndexedArray:  # type: ignore[override]
        """Copies the elements of `source`, of the same shape, or one element to all, into the array's elements."""
        if isinstance(source, IndexedArray):
            source = source.contiguous()
        data = self._data
        if data.device.is_cpu:
            data._set_item(self._places(), source)
        else:
            elements = data._elements()
            elements[self._places()] = _elements_for(elements, source, data.dtype)
            data.assign(elements)
        return self

    def __add__(self, other: Any) -> Any:
        return self.contiguous() + other

    def __radd__(self, other: Any) -> Any:
        return other + self.contiguous()

    def __sub__(self, other: Any) -> Any:
        return self.contiguous() - other

    def __rsub__(self, other: Any) -> Any:
        return other - self.contiguous()

    def __mul__(self, other: Any) -> Any:
        return self.contiguous() * other

    def __rmul__(self, other: Any) -> Any:
        return other * self.contiguous()

    def __truediv__(self, other: Any) -> Any:
        return self.contiguous() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.contiguous()

    def __neg__(self) -> Any:
        return -self.contiguous()

    def __abs__(self) -> Any:
        return abs(self.contiguous())

    def __pow__(self, other: Any) -> Any:
        return self.contiguous() ** other

    # It is one struct, whatever its elements are.
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Any:
        return self.contiguous() == other

    def __ne__(self, other: object) -> Any:
        return self.contiguous() != other

    def __lt__(self, other: Any) -> Any:
        return self.contiguous() < other

    def __le__(self, other: Any) -> Any:
        return self.contiguous() <= other

    def __gt__(self, other: Any) -> Any:
        return self.contiguous() > other

    def __ge__(self, other: Any) -> Any:
        return self.contiguous() >= other

    def __getattr__(self, name: str) -> Any:
        # What NumPy computes of arrays, of a copy of the elements.
        if name in _OF_A_COPY:
            return getattr(self.contiguous(), name)
        raise AttributeError(f"an indexed array has no {name!r}; x.contiguous() is an array of its elements")

    def __iadd__(self, other: Any) -> IndexedArray:
        return self.assign(self + other)

    def __isub__(self, other: Any) -> IndexedArray:
        return self.assign(self - other)

    def __imul__(self, other: Any) -> IndexedArray:
        return self.assign(self * other)

    def __itruediv__(self, other: Any) -> IndexedArray:
        return self.assign(self / other)

    def fill_(self, value: Any) -> IndexedArray:
        """Sets every element to `value` and gives the indexed array."""
        return self.assign(value)

    def zero_(self) -> IndexedArray:
        """Sets every element to 0 and gives the indexed array."""
        return self.assign(np.zeros((), self._data._storage.dtype))

    def __reduce__(self) -> tuple[Any, ...]:
        return indexedarray, (self._data, self.indices)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        """An element, or an indexed array of fewer elements."""
        parts = index if isinstance(index, tuple) else (index,)
        parts = (*parts, *(slice(None),) * (self.ndim - len(parts)))
        places = [np.asarray(indices)[part] for indices, part in zip(self.indices, parts, strict=True)]
        return self._data[tuple(int(place) if place.ndim == 0 else place for place in places)]

    def __setitem__(self, index: Any, value: Any) -> None:
        found = self[index]
        if isinstance(found, IndexedArray):
            found.assign(value)
            return
        parts = index if isinstance(index, tuple) else (index,)
        places = [np.asarray(indices)[part] for indices, part in zip(self.indices, parts, strict=True)]
        self._data[tuple(int(place) for place in places)] = value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.numpy()!r})"


_known: dict[Any, StructClass] = {}


def _annotation(dtype: Any, ndim: int) -> StructClass | IndexedArrayAnnotation:
    """What annotates a parameter: the class of the arguments, unless their element type is left to the call."""
    is_generic = dtype is Any or isinstance(dtype, (TypeVar, GenericComposite))
    return IndexedArrayAnnotation(dtype, ndim) if is_generic else _class(dtype, ndim)


def _class(dtype: Any, ndim: int) -> StructClass:
    dtype = _element_type(dtype)
    # Of structs they are there outside kernels alone: the compiler has no type for them.
    is_of_structs = isinstance(dtype, StructClass)
    ty = None if is_of_structs else _native.StructType.indexed_array(dtype, ndim)
    key = (dtype, ndim) if ty is None else ty
    if key not in _known:
        fields = {"data": ArrayAnnotation(dtype, ndim)}
        fields |= {f"indices{axis}": ArrayAnnotation(int32, 1) for axis in range(ndim)}
        members = {"_type": ty, "_fields": fields, "_dtype": numpy_dtype_of(fields)}
        name = f"indexedarray(dtype={name_of(dtype)}, ndim={ndim})" if ty is None else ty.name
        _known[key] = IndexedArrayClass(name, (IndexedArray,), members)
    return _known[key]


def class_of_type(ty: _native.StructType) -> StructClass:
    """The class of the indexed arrays that the compiler knows as this type."""
    return _known[ty]


class _IndexedArrayMaker(type):
    """The class of `indexedarray` and its like, whose instances are the structs that they make."""

    _ndim: int | None

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, IndexedArray) and cls._ndim in (None, instance.ndim)


class indexedarray(metaclass=_IndexedArrayMaker):  # noqa: N801 - the kernel language's name
    """An array of chosen elements of another, or the annotation of a parameter that is one.

    Parameters
    ----------
    data : array
        The array. Kernels read and write its elements.
    indices : list of array or None
        For each dimension the indices to choose, `None` for all; dimensions at the end may be left out.

    Examples
    --------
    >>> import polyloom as loom
    >>> @loom.kernel
    ... def negate(a: loom.indexedarray(dtype=float)):
    ...     i = loom.tid()
    ...     a[i] = -a[i]
    >>> data = loom.array([1.0, 2.0, 3.0, 4.0], dtype=float)
    >>> chosen = loom.indexedarray(data, [loom.array([3, 0], dtype=int)])
    >>> loom.launch(negate, chosen.shape, [chosen])
    >>> data
    array([-1.,  2.,  3., -4.], dtype=float32)
    """

    _ndim: ClassVar[int | None] = None

    def __new__(cls, data: Any = None, indices: Any = None, dtype: Any = None, ndim: int | None = None) -> Any:
        if data is None:
            if dtype is None:
                raise TypeError("an indexed array is made of an array and indices; its annotation takes a dtype")
            return _annotation(dtype, ndim or cls._ndim or 1)
        data = data if isinstance(data, array) else array(data, copy=False)
        if cls._ndim not in (None, data.ndim):
            raise TypeError(f"{cls.__name__} takes an array of {cls._ndim} dimensions, not {data.ndim}")
        given = list(indices or [])
        if len(given) > data.ndim:
            raise ValueError(f"the array has {data.ndim} dimensions, and {len(given)} arrays of indices are given")
        made: Any = _class(data.dtype, data.ndim)()
        made.data = data
        for axis, extent in enumerate(data.shape):
            chosen = given[axis] if axis < len(given) else None
            if chosen is None:
                chosen = np.arange(extent, dtype=np.int32)
            elif not isinstance(chosen, array):
                chosen = np.asarray(chosen, np.int32)
            if not isinstance(chosen, array) or chosen.device.is_cpu:
                _check_indices(np.asarray(chosen), axis, extent)
            if isinstance(chosen, array):
                chosen = chosen.to(data.device)
            elif not data.device.is_cpu:
                chosen = array(chosen, device=data.device)
            setattr(made, f"indices{axis}", chosen)
        return made

    def __class_getitem__(cls, of: Any) -> StructClass | IndexedArrayAnnotation:
        dtype, ndim = of if isinstance(of, tuple) else (of, None)
        # `Literal[2]`
        (ndim,) = get_args(ndim) or (ndim,)
        return _annotation(dtype, ndim or cls._ndim or 1)


def _check_indices(indices: NDArray[Any], axis: int, extent: int) -> None:
    """Raises `IndexError` for an index without an element. Indices on a device are not read for this."""
    if indices.size and not (-extent <= indices.min() and indices.max() < extent):
        outside = indices[(indices < -extent) | (indices >= extent)]
        raise IndexError(f"index {outside[0]} is out of bounds for axis {axis} with size {extent}")


class indexedarray1d(indexedarray):  # noqa: N801
    """`indexedarray` of one dimension."""

    _ndim = 1


class indexedarray2d(indexedarray):  # noqa: N801
    """`indexedarray` of two dimensions."""

    _ndim = 2


class indexedarray3d(indexedarray):  # noqa: N801
    """`indexedarray` of three dimensions."""

    _ndim = 3


class indexedarray4d(indexedarray):  # noqa: N801
    """`indexedarray` of four dimensions."""

    _ndim = 4
