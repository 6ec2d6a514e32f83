"""Scalar types and arrays.

The scalar types (`float32`, `int64`, …) serve in annotations, as `dtype=` arguments, and as casts inside kernels.
`array` is both the annotation of a kernel parameter (`array(dtype=float32, ndim=2)`) and, given data or a shape, an
array in memory: a thin owner of a NumPy array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from polyloom import _native

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "DType",
    "array",
    "array1d",
    "array2d",
    "array3d",
    "array4d",
    "bfloat16",
    "bool_",
    "clone",
    "copy",
    "empty",
    "empty_like",
    "float16",
    "float32",
    "float64",
    "from_numpy",
    "full",
    "full_like",
    "int16",
    "int32",
    "int64",
    "int8",
    "ones",
    "ones_like",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "zeros",
    "zeros_like",
]


class DType:
    """A scalar type of the kernel language.

    Calling it converts a number and keeps the type, so that a captured `loom.float64(0.1)` is a `float64` constant
    inside a kernel, where a plain `0.1` takes the type of whatever it meets.

    Attributes
    ----------
    name : str
        `float32`, `int8`, …
    numpy : numpy.dtype
        How elements are stored. `bfloat16` is stored as `ml_dtypes.bfloat16` where that package is installed,
        else as its 16 bits in `uint16`; numbers stored in such an array are converted, what is `uint16` already
        counts as bits.
    """

    __slots__ = ("name", "numpy")

    def __init__(self, name: str, numpy: np.dtype[Any]) -> None:
        self.name = name
        self.numpy = numpy

    def __call__(self, value: float) -> TypedConstant:
        return TypedConstant(self, value)

    def __repr__(self) -> str:
        return f"polyloom.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_dtype_by_name, (self.name,))


class TypedConstant:
    """A number with a scalar type, made by calling a `DType`. Captured by a kernel, it keeps its type."""

    __slots__ = ("dtype", "value")

    def __init__(self, dtype: DType, value: float) -> None:
        self.dtype = dtype
        self.value = value

    def __repr__(self) -> str:
        return f"{self.dtype!r}({self.value!r})"

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __index__(self) -> int:
        if self.dtype.numpy.kind not in "iub" or self.dtype is bfloat16:
            raise TypeError(f"a {self.dtype.name} constant is no integer")
        return int(self.value)


def _bfloat16_storage() -> np.dtype[Any]:
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype(np.uint16)
    storage: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return storage


bool_ = DType("bool", np.dtype(np.bool_))
int8 = DType("int8", np.dtype(np.int8))
int16 = DType("int16", np.dtype(np.int16))
int32 = DType("int32", np.dtype(np.int32))
int64 = DType("int64", np.dtype(np.int64))
uint8 = DType("uint8", np.dtype(np.uint8))
uint16 = DType("uint16", np.dtype(np.uint16))
uint32 = DType("uint32", np.dtype(np.uint32))
uint64 = DType("uint64", np.dtype(np.uint64))
float16 = DType("float16", np.dtype(np.float16))
bfloat16 = DType("bfloat16", _bfloat16_storage())
float32 = DType("float32", np.dtype(np.float32))
float64 = DType("float64", np.dtype(np.float64))

_ALL = (bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64)
_BY_NAME = {d.name: d for d in _ALL}
_BY_NUMPY = {d.numpy: d for d in _ALL if d is not bfloat16 or d.numpy != np.dtype(np.uint16)}

DTypeLike = Union[DType, type, str, "np.dtype[Any]"]


def _dtype_by_name(name: str) -> DType:
    return _BY_NAME[name]


def dtype_of(value: DTypeLike) -> DType:
    """The scalar type that `value` names.

    `float` is `float32` and `int` is `int32`, as in kernels; NumPy types are themselves.

    Raises
    ------
    TypeError
        If `value` names no scalar type of the kernel language.
    """
    if isinstance(value, DType):
        return value
    if value is float:
        return float32
    if value is int:
        return int32
    if value is bool:
        return bool_
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    try:
        if value is None:  # which NumPy takes for float64
            raise TypeError
        return _BY_NUMPY[np.dtype(value)]
    except (KeyError, TypeError):
        known = ", ".join(_BY_NAME)
        raise TypeError(f"{value!r} is not a scalar type: use one of {known}") from None


# Without `ml_dtypes`, NumPy knows bfloat16 only as bits.
_BFLOAT16_IS_BITS = bfloat16.numpy == np.dtype(np.uint16)


def _elements(value: Any, dtype: DType) -> Any:
    """`value`, a number or array-like, as NumPy can store it in an array of `dtype`."""
    given = None
    if isinstance(value, array):
        value, given = value.numpy(), value.dtype
    if not _BFLOAT16_IS_BITS:
        return value
    if given is bfloat16:
        return value if dtype is bfloat16 else (value.astype(np.uint32) << 16).view(np.float32)
    if dtype is not bfloat16 or np.asarray(value).dtype == np.uint16:
        return value
    with np.errstate(over="ignore"):  # beyond float32 is infinity
        number = np.asarray(value, np.float32)
    bits = number.view(np.uint32)
    # To nearest, ties to even; NaN keeps its sign and stays quiet.
    rounded = (bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(number), bits >> 16 | 0x40, rounded).astype(np.uint16)


class ArrayAnnotation:
    """The type of an array parameter: what `array(dtype=…, ndim=…)` means in a signature."""

    __slots__ = ("dtype", "ndim")

    def __init__(self, dtype: DType, ndim: int) -> None:
        self.dtype = dtype
        self.ndim = ndim

    def __repr__(self) -> str:
        return f"polyloom.array(dtype={self.dtype.name}, ndim={self.ndim})"


class array(_native.ArrayBase):  # noqa: N801 - the kernel language's name
    """An array in memory, or the annotation of an array parameter.

    Parameters
    ----------
    data : array_like, optional
        The elements: nested sequences, a NumPy array (shared, not copied, when it has the right type and `copy` is
        false), or anything with `__array_interface__` or DLPack.
    dtype : scalar type, optional
        Element type; that of `data` by default.
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
    """

    dtype: DType

    def __new__(
        cls,
        data: Any = None,
        dtype: DTypeLike | None = None,
        shape: int | Sequence[int] | None = None,
        ndim: int | None = None,
        copy: bool = True,
        device: str | None = None,
    ) -> Any:
        _check_device(device)
        if data is None and shape is None:
            if dtype is None:
                raise TypeError("array() needs data, a shape, or, as an annotation, a dtype")
            n = 1 if ndim is None else ndim
            if not 1 <= n <= 4:
                raise ValueError(f"an array has 1 to 4 dimensions, not {n}")
            return ArrayAnnotation(dtype_of(dtype), n)
        if data is None:
            storage: NDArray[Any] = np.empty(shape, dtype_of(float32 if dtype is None else dtype).numpy)  # type: ignore[arg-type]
            return cls._wrap(storage, None if dtype is None else dtype_of(dtype))
        source = data
        if not hasattr(source, "__array_interface__") and hasattr(source, "__dlpack__"):
            source = np.from_dlpack(source)
        if dtype is None and isinstance(source, array):
            dtype = source.dtype
        if dtype is None and not hasattr(source, "dtype"):
            # Python numbers mean float32 and int32, as in kernels.
            guess = np.asarray(source).dtype
            dtype = {"f": float32, "i": int32, "b": bool_}.get(guess.kind)
        wanted = None if dtype is None else dtype_of(dtype)
        source = source if wanted is None else _elements(source, wanted)
        storage = np.array(source, dtype=None if wanted is None else wanted.numpy, copy=True if copy else None)
        if shape is not None:
            shaped = storage.reshape(shape)
            if not copy and storage.size and not np.may_share_memory(shaped, storage):
                raise ValueError(f"data of shape {storage.shape} cannot be seen as {shape} without a copy")
            storage = shaped
        if ndim not in (None, storage.ndim):
            raise ValueError(f"data of shape {storage.shape} has {storage.ndim} dimensions, not {ndim}")
        return cls._wrap(storage, wanted)

    @classmethod
    def _wrap(cls, storage: NDArray[Any], dtype: DType | None = None) -> array:
        if not 1 <= storage.ndim <= 4:
            raise ValueError(f"an array has 1 to 4 dimensions, not {storage.ndim}")
        self: array = _native.ArrayBase.__new__(cls, storage)
        self.dtype = dtype_of(storage.dtype) if dtype is None else dtype
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self.numpy().shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.numpy().ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.numpy().size

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance in bytes between neighbours along each axis."""
        return self.numpy().strides

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

    def __getitem__(self, index: Any) -> Any:
        item = self.numpy()[index]
        return array._wrap(item, self.dtype) if isinstance(item, np.ndarray) and item.ndim else item

    def __setitem__(self, index: Any, value: Any) -> None:
        self.numpy()[index] = _elements(value, self.dtype)

    def __repr__(self) -> str:
        return f"array({np.array2string(self.numpy(), separator=', ', prefix='array(')}, dtype={self.dtype.name})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.numpy().__array_interface__

    def __dlpack__(self, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.numpy().__dlpack_device__()

    def fill_(self, value: float) -> array:
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


def array1d(dtype: DTypeLike) -> Any:
    """The annotation of a one-dimensional array."""
    return array(dtype=dtype, ndim=1)


def array2d(dtype: DTypeLike) -> Any:
    """The annotation of a two-dimensional array."""
    return array(dtype=dtype, ndim=2)


def array3d(dtype: DTypeLike) -> Any:
    """The annotation of a three-dimensional array."""
    return array(dtype=dtype, ndim=3)


def array4d(dtype: DTypeLike) -> Any:
    """The annotation of a four-dimensional array."""
    return array(dtype=dtype, ndim=4)


def _check_device(device: str | None) -> None:
    if device not in (None, "cpu"):
        raise ValueError(f"device {device!r} is not available: this build runs kernels on 'cpu'")


Shape = int | Sequence[int]


def empty(shape: Shape, dtype: DTypeLike = float32, device: str | None = None) -> array:
    """An uninitialised array.

    Parameters
    ----------
    shape : int or tuple of int
        Extents, 1 to 4 of them.
    dtype : scalar type
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
    return array._wrap(np.empty(shape, dtype_of(dtype).numpy), dtype_of(dtype))


def zeros(shape: Shape, dtype: DTypeLike = float32, device: str | None = None) -> array:
    """An array of zeros; parameters as for `empty`.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.zeros(3, dtype=int).numpy()
    array([0, 0, 0], dtype=int32)
    """
    _check_device(device)
    return array._wrap(np.zeros(shape, dtype_of(dtype).numpy), dtype_of(dtype))


def ones(shape: Shape, dtype: DTypeLike = float32, device: str | None = None) -> array:
    """An array of ones; parameters as for `empty`."""
    return full(shape, 1, dtype, device)


def full(shape: Shape, value: float, dtype: DTypeLike | None = None, device: str | None = None) -> array:
    """An array filled with `value`; `float32` or `int32` by the value's type unless `dtype` says otherwise.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.full(2, 1.5).numpy()
    array([1.5, 1.5], dtype=float32)
    """
    _check_device(device)
    wanted = dtype_of(type(value) if dtype is None else dtype)
    return array._wrap(np.full(shape, _elements(value, wanted), wanted.numpy), wanted)


def from_numpy(data: NDArray[Any], dtype: DTypeLike | None = None) -> array:
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


def full_like(like: Any, value: float) -> array:
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
