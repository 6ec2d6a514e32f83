"""Scalar types: `float32`, `int64`, …

They serve in annotations, as `dtype=` arguments, and as casts inside kernels. Outside kernels their instances are
numbers that have a type, and compute as kernels do.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, Union

import numpy as np

from polyloom import _native

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


class DType(type):
    """The class of the scalar types.

    Calling a type converts a number and keeps the type, so that a captured `loom.float64(0.1)` is a `float64` constant
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

    _name: str
    _numpy: np.dtype[Any]

    if TYPE_CHECKING:

        @property
        def name(cls) -> str: ...
        @property
        def numpy(cls) -> np.dtype[Any]: ...
    else:
        # Of the class alone: an instance with an attribute `numpy` would pass for a tensor elsewhere.
        name = property(operator.attrgetter("_name"))
        numpy = property(operator.attrgetter("_numpy"))

    def __repr__(cls) -> str:
        return f"polyloom.{cls.__name__}"


if np.lib.NumpyVersion(np.__version__) < "2.4.0":
    # NumPy learned `__numpy_dtype__` then; before, it asks a class for this attribute.
    DType.dtype = property(operator.attrgetter("_numpy"))  # type: ignore[attr-defined]


class TypedConstant:
    """A number with a scalar type: base class of the scalar types. Captured by a kernel, it keeps its type.

    Operators take another number of the same type, or a Python number, which takes this type as in kernels. Their
    results are of this type; those of `int32` and `float32` are Python's `int` and `float`, as the values of such
    variables are.

    Attributes
    ----------
    value : int, float or bool
        The number. A float is kept as it was given, and rounded where it is used in a kernel or an operation.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.uint8(200) + loom.uint8(100)
    polyloom.uint8(44)
    >>> loom.int32(7) / loom.int32(2)
    3
    >>> loom.int32(1) == 1.0, loom.int32(2) < 2.5
    (True, True)
    """

    __slots__ = ("value",)
    value: Any
    # As classes of ctypes have them.
    _length_: ClassVar[int] = 1
    _type_: ClassVar[Any]
    __numpy_dtype__: ClassVar[np.dtype[Any]]

    def __init__(self, value: Any = 0) -> None:
        raise TypeError(f"{type(self).__name__} is no type of its own: call one, such as loom.float32")

    def __repr__(self) -> str:
        return f"{type(self)!r}({self.value!r})"

    def __str__(self) -> str:
        return str(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.value,))

    # Equal numbers have equal hashes, whatever their types, as Python's have.
    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> Any:
        return _compared(operator.eq, self, other)

    def __ne__(self, other: object) -> Any:
        return _compared(operator.ne, self, other)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        """The result for the number as NumPy has it, in operations with NumPy's numbers and arrays."""
        plain = [in_numpy(each) if isinstance(each, TypedConstant) else each for each in inputs]
        return getattr(ufunc, method)(*plain, **keywords)


def type_of(constant: TypedConstant) -> DType:
    """The scalar type of a number."""
    made: Any = type(constant)
    dtype: DType = made
    return dtype


def in_numpy(constant: TypedConstant) -> Any:
    """The number with its type, as one of NumPy's; of a `bfloat16` that NumPy has no type for, as `float32`."""
    dtype = type_of(constant)
    return np.float32(constant.value) if dtype is bfloat16 and BFLOAT16_IS_BITS else dtype.numpy.type(constant.value)


def _compared(op: Callable[[Any, Any], Any], a: TypedConstant, b: object) -> Any:
    """A comparison of numbers, as of Python's: no type rounds one."""
    if isinstance(b, TypedConstant):
        return op(a.value, b.value)
    if isinstance(b, (bool, int, float, np.bool_, np.integer, np.floating)):
        return bool(op(a.value, b.item() if isinstance(b, np.generic) else b))
    return NotImplemented


def _operand(value: Any, dtype: DType) -> Any:
    """An operand beside a number of this type."""
    if isinstance(value, (int, float)) and not isinstance(value, (bool, np.generic)):
        return value
    if isinstance(value, TypedConstant):
        return value if type(value) is dtype else None
    return value if isinstance(value, np.generic) and value.dtype == dtype.numpy else None


def _result(value: Any, dtype: DType) -> Any:
    """A result of this type."""
    return value if dtype is int32 or dtype is float32 else dtype(value)


def _operated(op: str, a: Any, b: Any, is_swapped: bool = False) -> Any:
    """The result of a kernel's operator between `a`, a number with a type, and `b`, or, if they are swapped, between
    `b` and `a`."""
    dtype = type_of(a)
    other = _operand(b, dtype)
    if other is None:
        return NotImplemented
    is_integer = isinstance(a, IntegerConstant)
    if is_integer and op in ("/", "//", "%") and not (a if is_swapped else other):
        raise ZeroDivisionError("integer division by zero")
    if isinstance(other, float) and is_integer:
        raise TypeError(f"`{op}` takes numbers of one type, not {dtype.name} and a float: convert one of them")
    return _result(_native.call_builtin(op, (other, a) if is_swapped else (a, other)), dtype)


class ArithmeticConstant(TypedConstant):
    """A number that has operators, which `bool` has not."""

    __slots__ = ()

    def __lt__(self, other: Any) -> Any:
        return _compared(operator.lt, self, other)

    def __le__(self, other: Any) -> Any:
        return _compared(operator.le, self, other)

    def __gt__(self, other: Any) -> Any:
        return _compared(operator.gt, self, other)

    def __ge__(self, other: Any) -> Any:
        return _compared(operator.ge, self, other)

    def __add__(self, other: Any) -> Any:
        return _operated("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return _operated("+", self, other, True)

    def __sub__(self, other: Any) -> Any:
        return _operated("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _operated("-", self, other, True)

    def __mul__(self, other: Any) -> Any:
        return _operated("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _operated("*", self, other, True)

    def __truediv__(self, other: Any) -> Any:
        return _operated("/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _operated("/", self, other, True)

    def __floordiv__(self, other: Any) -> Any:
        return _operated("//", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _operated("//", self, other, True)

    def __mod__(self, other: Any) -> Any:
        return _operated("%", self, other)

    def __rmod__(self, other: Any) -> Any:
        return _operated("%", self, other, True)

    def __pow__(self, other: Any) -> Any:
        return _operated("**", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _operated("**", self, other, True)

    def __pos__(self) -> Any:
        return _result(self.value, type_of(self))

    def __neg__(self) -> Any:
        return _result(type(self)(-self.value).value, type_of(self))

    def __abs__(self) -> Any:
        return type(self)(abs(self.value))

    def __round__(self, ndigits: int | None = None) -> Any:
        return type(self)(round(self.value, ndigits))


class FloatConstant(ArithmeticConstant):
    """A floating-point number with a type."""

    __slots__ = ()
    value: float

    def __init__(self, value: Any = 0.0) -> None:
        self.value = float(_number_of(value, type_of(self)))

    def __round__(self, ndigits: int | None = None) -> Any:
        return type(self)(round(self.value, ndigits))


class IntegerConstant(ArithmeticConstant):
    """An integer with a type. One that the type cannot have wraps around, as in C; a float loses its fraction."""

    __slots__ = ()
    value: int

    def __init__(self, value: Any = 0) -> None:
        dtype = type_of(self)
        number = _number_of(value, dtype)
        limits = np.iinfo(dtype.numpy)
        if isinstance(number, float):
            # As kernels cast: to the nearest number there is, NaN to 0.
            number = 0 if number != number else int(min(max(number, float(limits.min)), float(limits.max)))
            number = min(max(number, int(limits.min)), int(limits.max))
        self.value = wrapped(number, dtype)

    def __index__(self) -> int:
        return self.value

    def __and__(self, other: Any) -> Any:
        return _operated("&", self, other)

    def __rand__(self, other: Any) -> Any:
        return _operated("&", self, other, True)

    def __or__(self, other: Any) -> Any:
        return _operated("|", self, other)

    def __ror__(self, other: Any) -> Any:
        return _operated("|", self, other, True)

    def __xor__(self, other: Any) -> Any:
        return _operated("^", self, other)

    def __rxor__(self, other: Any) -> Any:
        return _operated("^", self, other, True)

    def __lshift__(self, other: Any) -> Any:
        return _operated("<<", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return _operated("<<", self, other, True)

    def __rshift__(self, other: Any) -> Any:
        return _operated(">>", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return _operated(">>", self, other, True)

    def __invert__(self) -> Any:
        return _result(type(self)(~self.value).value, type_of(self))


def _number_of(value: Any, dtype: DType) -> int | float:
    """A number that one of this type is made of, as Python has it."""
    if isinstance(value, TypedConstant):
        value = value.value
    if isinstance(value, (int, float)):
        return value
    if hasattr(value, "__index__"):
        return operator.index(value)
    if hasattr(value, "__float__"):
        return float(value)
    raise TypeError(f"{dtype.name}() takes a number, not {type(value).__name__}")


def wrapped(value: int, dtype: DType) -> int:
    """The integer of this type that has the same last bits."""
    bits = 8 * dtype.numpy.itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.numpy.kind == "i" and value >> (bits - 1) else value


def _bfloat16_storage() -> np.dtype[Any]:
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype(np.uint16)
    storage: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return storage


class bool_(TypedConstant, metaclass=DType):
    """True or false."""

    __slots__ = ()
    value: bool
    _type_ = ctypes.c_bool
    _name = "bool"
    _numpy = __numpy_dtype__ = np.dtype(np.bool_)

    def __init__(self, value: Any = False) -> None:
        self.value = bool(value)


bool_.__name__ = bool_.__qualname__ = "bool"


class int8(IntegerConstant, metaclass=DType):
    """A signed integer of 8 bits."""

    __slots__ = ()
    _type_ = ctypes.c_int8
    _name = "int8"
    _numpy = __numpy_dtype__ = np.dtype(np.int8)


class int16(IntegerConstant, metaclass=DType):
    """A signed integer of 16 bits."""

    __slots__ = ()
    _type_ = ctypes.c_int16
    _name = "int16"
    _numpy = __numpy_dtype__ = np.dtype(np.int16)


class int32(IntegerConstant, metaclass=DType):
    """A signed integer of 32 bits."""

    __slots__ = ()
    _type_ = ctypes.c_int32
    _name = "int32"
    _numpy = __numpy_dtype__ = np.dtype(np.int32)


class int64(IntegerConstant, metaclass=DType):
    """A signed integer of 64 bits."""

    __slots__ = ()
    _type_ = ctypes.c_int64
    _name = "int64"
    _numpy = __numpy_dtype__ = np.dtype(np.int64)


class uint8(IntegerConstant, metaclass=DType):
    """An unsigned integer of 8 bits."""

    __slots__ = ()
    _type_ = ctypes.c_uint8
    _name = "uint8"
    _numpy = __numpy_dtype__ = np.dtype(np.uint8)


class uint16(IntegerConstant, metaclass=DType):
    """An unsigned integer of 16 bits."""

    __slots__ = ()
    _type_ = ctypes.c_uint16
    _name = "uint16"
    _numpy = __numpy_dtype__ = np.dtype(np.uint16)


class uint32(IntegerConstant, metaclass=DType):
    """An unsigned integer of 32 bits."""

    __slots__ = ()
    _type_ = ctypes.c_uint32
    _name = "uint32"
    _numpy = __numpy_dtype__ = np.dtype(np.uint32)


class uint64(IntegerConstant, metaclass=DType):
    """An unsigned integer of 64 bits."""

    __slots__ = ()
    _type_ = ctypes.c_uint64
    _name = "uint64"
    _numpy = __numpy_dtype__ = np.dtype(np.uint64)


class float16(FloatConstant, metaclass=DType):
    """A floating-point number of 16 bits, 11 of them its precision."""

    __slots__ = ()
    _type_ = ctypes.c_uint16
    _name = "float16"
    _numpy = __numpy_dtype__ = np.dtype(np.float16)


class bfloat16(FloatConstant, metaclass=DType):
    """A floating-point number of 16 bits, the upper half of a `float32`."""

    __slots__ = ()
    _type_ = ctypes.c_uint16
    _name = "bfloat16"
    _numpy = __numpy_dtype__ = _bfloat16_storage()


class float32(FloatConstant, metaclass=DType):
    """A floating-point number of 32 bits."""

    __slots__ = ()
    _type_ = ctypes.c_float
    _name = "float32"
    _numpy = __numpy_dtype__ = np.dtype(np.float32)


class float64(FloatConstant, metaclass=DType):
    """A floating-point number of 64 bits."""

    __slots__ = ()
    _type_ = ctypes.c_double
    _name = "float64"
    _numpy = __numpy_dtype__ = np.dtype(np.float64)


_ALL = (bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64)
_BY_NAME = {d.name: d for d in _ALL}
for _class in _ALL:
    # Tracebacks and pickles show where users find them.
    _class.__module__ = "polyloom"

_FLOATS = (float16, bfloat16, float32, float64)

# Annotations of generic parameters: any floating-point type, any integer type, any of both.
Float: Any = TypeVar("Float", *_FLOATS)  # type: ignore[misc]
Int: Any = TypeVar("Int", *(d for d in _ALL if d not in (bool_, *_FLOATS)))  # type: ignore[misc]
Scalar: Any = TypeVar("Scalar", *(d for d in _ALL if d is not bool_))  # type: ignore[misc]

_BY_NUMPY = {d.numpy: d for d in _ALL if d is not bfloat16 or d.numpy != np.dtype(np.uint16)}

DTypeLike = Union[DType, type, str, "np.dtype[Any]"]


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
        # Numbers of 16 bits from elsewhere are the bits, whatever NumPy has a type for.
        is_bits = dtype is bfloat16 and given is None and getattr(value, "dtype", None) == np.uint16
        return np.asarray(value).view(bfloat16.numpy) if is_bits else value
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
