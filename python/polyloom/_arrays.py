"""Arrays.

`array` is both the annotation of a kernel parameter (`array(dtype=float32, ndim=2)`) and, given data or a shape, an
array in memory: a thin owner of a NumPy array. An array of vectors or matrices owns an array of their components, the
last axes of which are an element's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polyloom import _native
from polyloom._composites import Composite, CompositeClass
from polyloom._scalars import DType, DTypeLike, bool_, dtype_of, float32, int32, readable, stored

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "array",
    "array1d",
    "array2d",
    "array3d",
    "array4d",
    "clone",
    "copy",
    "empty",
    "empty_like",
    "from_numpy",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]

# What an array's elements are: a scalar type, or a class such as `vec3`.
ElementType = DType | CompositeClass
ElementTypeLike = DTypeLike | CompositeClass


def _element_type(value: ElementTypeLike) -> ElementType:
    if isinstance(value, CompositeClass) and hasattr(value, "_type"):
        return value
    return dtype_of(value)


def _scalar(dtype: ElementType) -> DType:
    """The type of what is stored."""
    return dtype._wp_scalar_type_ if isinstance(dtype, CompositeClass) else dtype


def _inner(dtype: ElementType) -> tuple[int, ...]:
    """The extents of an element's components."""
    return dtype._shape_ if isinstance(dtype, CompositeClass) else ()


def _name(dtype: ElementType) -> str:
    return dtype.__name__ if isinstance(dtype, CompositeClass) else dtype.name


def _elements(value: Any, dtype: ElementType) -> Any:
    """`value`, an element or array-like, as NumPy can store it in an array of `dtype`."""
    given = None
    if isinstance(value, array):
        value, given = value.numpy(), _scalar(value.dtype)
    elif isinstance(value, Composite):
        given = type(value)._wp_scalar_type_
        value = np.asarray(value)
    inner = _inner(dtype)
    if inner:
        value = np.asarray(value)
        if value.ndim and value.shape[-len(inner) :] != inner:
            raise ValueError(f"values of shape {value.shape} are no elements of type {_name(dtype)}")
    return stored(value, given, _scalar(dtype))


def _elementwise(storage: NDArray[Any], dtype: ElementType) -> NDArray[Any]:
    """The components of an array's elements, whose last axes are to be those of `dtype`."""
    inner = _inner(dtype)
    if not inner:
        return storage
    rank, n = len(inner), int(np.prod(inner))
    if storage.ndim > rank and storage.shape[-rank:] == inner:
        return storage
    if storage.shape == inner or storage.ndim == 1 and len(storage) % n == 0:
        return storage.reshape(-1, *inner)
    if rank > 1 and storage.shape[-1] == n:
        return storage.reshape(*storage.shape[:-1], *inner)
    message = f"data of shape {storage.shape} has no elements of type {_name(dtype)}: the last axes must be {inner}"
    raise ValueError(message)


class ArrayAnnotation:
    """The type of an array parameter: what `array(dtype=…, ndim=…)` means in a signature."""

    __slots__ = ("dtype", "ndim")

    def __init__(self, dtype: Any, ndim: int) -> None:
        self.dtype = dtype
        self.ndim = ndim

    def __repr__(self) -> str:
        name = "Any" if self.dtype is Any else _name(self.dtype)
        return f"polyloom.array(dtype={name}, ndim={self.ndim})"


class array(_native.ArrayBase):  # noqa: N801 - the kernel language's name
    """An array in memory, or the annotation of an array parameter.

    Parameters
    ----------
    data : array_like, optional
        The elements: nested sequences, a NumPy array (shared, not copied, when it has the right type and `copy` is
        false), or anything with `__array_interface__` or DLPack.
    dtype : scalar type or class such as `vec3`, optional
        Element type; that of `data` by default. With vectors or matrices the last axes of `data` are the components of
        an element, and extents and number of dimensions go without them.
    shape : int or tuple of int, optional
        Extents of an uninitialised array, or to bring `data` into.
    ndim : int, optional
        Number of dimensions, 1 to 4, of an annotation; with `data`, that it must have.
    copy : bool
        Whether to copy `data` even when it could be shared.

    Examples
    --------
    >>> import polyloom as loom
    >>> a = loom.array([1.0, 2.0, 3.0], dtype=float)
    >>> a.shape, a.dtype
    ((3,), polyloom.float32)
    >>> a[1:].numpy()
    array([2., 3.], dtype=float32)
    >>> points = loom.array([[0, 0, 1], [2, 0, 0]], dtype=loom.vec3)
    >>> points.shape, points[1], points.numpy().shape
    ((2,), vec3([2.0, 0.0, 0.0]), (2, 3))
    """

    dtype: ElementType

    def __new__(
        cls,
        data: Any = None,
        dtype: ElementTypeLike | None = None,
        shape: int | Sequence[int] | None = None,
        ndim: int | None = None,
        copy: bool = True,
        device: str | None = None,
    ) -> Any:
        _check_device(device)
        if shape is None and (data is Any or isinstance(data, (type, DType))):
            # `array(float)` and `array(float, 2)`, as annotations may be written.
            if isinstance(dtype, int):
                dtype, ndim = None, dtype
            if dtype is not None:
                raise TypeError("array() has been given two element types")
            data, dtype = None, data
        if data is None and shape is None:
            if dtype is None:
                raise TypeError("array() needs data, a shape, or, as an annotation, a dtype")
            n = 1 if ndim is None else ndim
            if not 1 <= n <= 4:
                raise ValueError(f"an array has 1 to 4 dimensions, not {n}")
            return ArrayAnnotation(Any if dtype is Any else _element_type(dtype), n)
        if data is None:
            return empty(shape, float32 if dtype is None else dtype)  # type: ignore[arg-type]
        source = data
        if not hasattr(source, "__array_interface__") and hasattr(source, "__dlpack__"):
            source = np.from_dlpack(source)
        if dtype is None and isinstance(source, array):
            dtype = source.dtype
        if dtype is None and not hasattr(source, "dtype"):
            # Python numbers mean float32 and int32, as in kernels.
            guess = np.asarray(source).dtype
            dtype = {"f": float32, "i": int32, "b": bool_}.get(guess.kind)
        wanted = None if dtype is None else _element_type(dtype)
        if wanted is not None:
            given = _scalar(source.dtype) if isinstance(source, array) else None
            source = stored(source.numpy() if isinstance(source, array) else source, given, _scalar(wanted))
        element = None if wanted is None else _scalar(wanted).numpy
        storage = np.array(source, element) if copy else np.asarray(source, element)
        inner: tuple[int, ...] = ()
        if wanted is not None:
            inner = _inner(wanted)
            storage = _elementwise(storage, wanted)
        if shape is not None:
            shaped = storage.reshape(_extents(shape) + inner)
            if not copy and storage.size and not np.may_share_memory(shaped, storage):
                raise ValueError(f"data of shape {storage.shape} cannot be seen as {shape} without a copy")
            storage = shaped
        if ndim not in (None, storage.ndim - len(inner)):
            raise ValueError(f"data of shape {storage.shape} has {storage.ndim - len(inner)} dimensions, not {ndim}")
        return cls._wrap(storage, wanted)

    def __class_getitem__(cls, key: Any) -> Any:
        """The annotation `array[float]` or `array[float, 2]`."""
        dtype, ndim = key if isinstance(key, tuple) else (key, 1)
        return cls(dtype=dtype, ndim=ndim)

    @classmethod
    def _wrap(cls, storage: NDArray[Any], dtype: ElementType | None = None) -> array:
        element = dtype._type if isinstance(dtype, CompositeClass) else None
        ndim = storage.ndim - (0 if element is None else len(element.shape))
        if not 1 <= ndim <= 4:
            raise ValueError(f"an array has 1 to 4 dimensions, not {ndim}")
        self: array = _native.ArrayBase.__new__(cls, storage, element)
        self.dtype = dtype_of(storage.dtype) if dtype is None else dtype
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self.numpy().shape[: self.ndim]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.numpy().ndim - len(_inner(self.dtype))

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance in bytes between neighbours along each axis."""
        return self.numpy().strides[: self.ndim]

    @property
    def ptr(self) -> int:
        """Address of the first element."""
        return int(self.numpy().ctypes.data)

    @property
    def device(self) -> str:
        """Where the elements are."""
        return "cpu"

    def __len__(self) -> int:
        return len(self.numpy())

    def _key(self, index: Any) -> Any:
        """An index of elements as one of components."""
        inner = _inner(self.dtype)
        if not inner:
            return index
        parts = index if isinstance(index, tuple) else (index,)
        rest = () if any(part is Ellipsis for part in parts) else (Ellipsis,)
        return (*parts, *rest, *(slice(None),) * len(inner))

    def __getitem__(self, index: Any) -> Any:
        item = self.numpy()[self._key(index)]
        if isinstance(self.dtype, CompositeClass):
            if item.ndim == len(self.dtype._shape_):
                return self.dtype(readable(item, self.dtype._wp_scalar_type_))
        elif not isinstance(item, np.ndarray) or not item.ndim:
            return readable(np.asarray(item), self.dtype)[()]
        return array._wrap(item, self.dtype)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.numpy()[self._key(index)] = _elements(value, self.dtype)

    def __repr__(self) -> str:
        return f"array({np.array2string(self.numpy(), separator=', ', prefix='array(')}, dtype={_name(self.dtype)})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.numpy(), dtype) if copy is None else np.array(self.numpy(), dtype, copy=copy)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.numpy().__array_interface__

    def __dlpack__(self, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.numpy().__dlpack_device__()

    def fill_(self, value: Any) -> array:
        """Sets every element to `value` and gives the array."""
        self.numpy()[...] = _elements(value, self.dtype)
        return self

    def zero_(self) -> array:
        """Sets every element to 0 and gives the array."""
        return self.fill_(0)

    def assign(self, source: Any) -> array:
        """Copies the elements of `source`, of the same shape, into this array and gives it."""
        self.numpy()[...] = _elements(source, self.dtype)
        return self


class _ArrayOfRank:
    """The annotation of an array of one number of dimensions: `array2d(dtype=float)` or `array2d[float]`."""

    def __init__(self, ndim: int) -> None:
        self._ndim = ndim
        self.__name__ = self.__qualname__ = f"array{ndim}d"
        self.__module__ = __name__

    def __call__(self, dtype: ElementTypeLike) -> Any:
        return array(dtype=dtype, ndim=self._ndim)

    def __getitem__(self, dtype: ElementTypeLike) -> Any:
        return array(dtype=dtype, ndim=self._ndim)

    def __repr__(self) -> str:
        return f"polyloom.{self.__name__}"


array1d = _ArrayOfRank(1)
array2d = _ArrayOfRank(2)
array3d = _ArrayOfRank(3)
array4d = _ArrayOfRank(4)


def _check_device(device: str | None) -> None:
    if device not in (None, "cpu"):
        raise ValueError(f"device {device!r} is not available: this build runs kernels on 'cpu'")


Shape = int | Sequence[int]


def _extents(shape: Shape) -> tuple[int, ...]:
    try:
        return tuple(shape)  # type: ignore[arg-type]
    except TypeError:
        return (shape,)  # type: ignore[return-value]


def empty(shape: Shape, dtype: ElementTypeLike = float32, device: str | None = None) -> array:
    """An uninitialised array.

    Parameters
    ----------
    shape : int or tuple of int
        Extents, 1 to 4 of them.
    dtype : scalar type or class such as `vec3`
        Element type.
    device : str, optional
        `"cpu"`.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.empty((2, 3)).shape
    (2, 3)
    """
    _check_device(device)
    wanted = _element_type(dtype)
    return array._wrap(np.empty(_extents(shape) + _inner(wanted), _scalar(wanted).numpy), wanted)


def zeros(shape: Shape, dtype: ElementTypeLike = float32, device: str | None = None) -> array:
    """An array of zeros; parameters as for `empty`.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.zeros(3, dtype=int).numpy()
    array([0, 0, 0], dtype=int32)
    """
    _check_device(device)
    wanted = _element_type(dtype)
    return array._wrap(np.zeros(_extents(shape) + _inner(wanted), _scalar(wanted).numpy), wanted)


def ones(shape: Shape, dtype: ElementTypeLike = float32, device: str | None = None) -> array:
    """An array of ones; parameters as for `empty`."""
    return full(shape, 1, dtype, device)


def full(shape: Shape, value: Any, dtype: ElementTypeLike | None = None, device: str | None = None) -> array:
    """An array filled with `value`; `float32`, `int32` or `vec3` by the value's type unless `dtype` says otherwise.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.full(2, 1.5).numpy()
    array([1.5, 1.5], dtype=float32)
    """
    _check_device(device)
    return empty(shape, type(value) if dtype is None else dtype).fill_(value)


def from_numpy(data: NDArray[Any], dtype: ElementTypeLike | None = None) -> array:
    """An array over a NumPy array's own memory; copied only if `dtype` asks for another element type.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> x = np.zeros(2, np.float32)
    >>> _ = loom.from_numpy(x).fill_(7)
    >>> x
    array([7., 7.], dtype=float32)
    """
    return array(data, dtype=dtype, copy=False)  # type: ignore[no-any-return]


def empty_like(like: Any) -> array:
    """An uninitialised array with the shape and type of `like`."""
    like = like if isinstance(like, array) else from_numpy(np.asarray(like))
    return empty(like.shape, like.dtype)


def zeros_like(like: Any) -> array:
    """An array of zeros with the shape and type of `like`."""
    return empty_like(like).zero_()


def ones_like(like: Any) -> array:
    """An array of ones with the shape and type of `like`."""
    return empty_like(like).fill_(1)


def full_like(like: Any, value: Any) -> array:
    """An array filled with `value` with the shape and type of `like`."""
    return empty_like(like).fill_(value)


def clone(source: Any) -> array:
    """A new array with the elements of `source`."""
    return empty_like(source).assign(source)


def copy(dest: Any, source: Any) -> None:
    """Copies the elements of `source` into `dest`, which has the same shape."""
    if isinstance(dest, array):
        dest.assign(source)
    else:
        dest[...] = _elements(source, dtype_of(dest.dtype))
