"""Scalar types: `float32`, `int64`, …

They serve in annotations, as `dtype=` arguments, and as casts inside kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, Union

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "DType",
    "Float",
    "Int",
    "Scalar",
    "bfloat16",
    "bool_",
    "float16",
    "float32",
    "float64",
    "int16",
    "int32",
    "int64",
    "int8",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
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

_FLOATS = (float16, bfloat16, float32, float64)

# Annotations of generic parameters: any floating-point type, any integer type, any of both.
Float: Any = TypeVar("Float", *_FLOATS)  # type: ignore[misc]
Int: Any = TypeVar("Int", *(d for d in _ALL if d not in (bool_, *_FLOATS)))  # type: ignore[misc]
Scalar: Any = TypeVar("Scalar", *(d for d in _ALL if d is not bool_))  # type: ignore[misc]

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
BFLOAT16_IS_BITS = bfloat16.numpy == np.dtype(np.uint16)


def stored(value: Any, given: DType | None, dtype: DType) -> Any:
    """`value`, a number or array-like of elements of type `given`, as NumPy can store it in an array of `dtype`."""
    if not BFLOAT16_IS_BITS:
        return value
    if given is bfloat16:
        return value if dtype is bfloat16 else readable(value, bfloat16)
    if dtype is not bfloat16 or np.asarray(value).dtype == np.uint16:
        return value
    with np.errstate(over="ignore"):  # beyond float32 is infinity
        number = np.asarray(value, np.float32)
    bits = number.view(np.uint32)
    # To nearest, ties to even; NaN keeps its sign and stays quiet.
    rounded = (bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(number), bits >> 16 | 0x40, rounded).astype(np.uint16)


def readable(elements: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """Stored elements of type `dtype` as numbers that NumPy can compute with."""
    if dtype is not bfloat16:
        return elements
    return (elements.astype(np.uint32) << 16).view(np.float32) if BFLOAT16_IS_BITS else elements.astype(np.float32)
