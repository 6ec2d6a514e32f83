"""Questions about types and values: which kind one is of, its size, its name. Programs that generate kernels ask them.

A value is an instance of a type; the functions that begin with `type_` take types, those that begin with `is_` values.
"""

from __future__ import annotations

import ctypes
import typing
from typing import Any

import numpy as np

from polyloom._annotations import ArrayAnnotation
from polyloom._arrays import array
from polyloom._composites import Composite, CompositeClass, Matrix, Quaternion, Transformation, Vector
from polyloom._indexed import IndexedArray, indexedarray
from polyloom._scalars import DType, FloatConstant, IntegerConstant, TypedConstant, bool_, dtype_of
from polyloom._structs import Struct

__all__ = [
    "is_array",
    "is_composite",
    "is_float",
    "is_int",
    "is_matrix",
    "is_quaternion",
    "is_scalar",
    "is_struct",
    "is_tile",
    "is_transformation",
    "is_value",
    "is_vector",
    "type_ctype",
    "type_is_array",
    "type_is_composite",
    "type_is_float",
    "type_is_int",
    "type_is_matrix",
    "type_is_quaternion",
    "type_is_scalar",
    "type_is_struct",
    "type_is_tile",
    "type_is_transformation",
    "type_is_value",
    "type_is_vector",
    "type_repr",
    "type_size",
    "type_size_in_bytes",
    "types_equal",
]


def _is_class_of(t: Any, base: type) -> bool:
    return isinstance(t, type) and issubclass(t, base) and t is not base


def type_is_int(t: Any) -> bool:
    """True if this is an integer type: Python's `int`, `int8` to `uint64`."""
    return t is int or _is_class_of(t, IntegerConstant)


def type_is_float(t: Any) -> bool:
    """True if this is a floating-point type: Python's `float`, `float16` to `float64`, `bfloat16`."""
    return t is float or _is_class_of(t, FloatConstant)


def type_is_scalar(t: Any) -> bool:
    """True if this is an integer or floating-point type."""
    return type_is_int(t) or type_is_float(t)


def type_is_vector(t: Any) -> bool:
    """True if this is a type of vectors."""
    return _is_class_of(t, Vector)


def type_is_matrix(t: Any) -> bool:
    """True if this is a type of matrices."""
    return _is_class_of(t, Matrix)


def type_is_quaternion(t: Any) -> bool:
    """True if this is a type of quaternions."""
    return _is_class_of(t, Quaternion)


def type_is_transformation(t: Any) -> bool:
    """True if this is a type of rigid transformations."""
    return _is_class_of(t, Transformation)


def type_is_composite(t: Any) -> bool:
    """True if this is a type of vectors, matrices, quaternions or transformations."""
    return isinstance(t, CompositeClass) and hasattr(t, "_type")


def type_is_value(t: Any) -> bool:
    """True if this is a scalar type, `bool` or a composite type."""
    return type_is_scalar(t) or t is bool or t is bool_ or type_is_composite(t)


def type_is_struct(t: Any) -> bool:
    """True if this is a class that `struct` made."""
    return _is_class_of(t, Struct) and not issubclass(t, IndexedArray)


def type_is_array(t: Any) -> bool:
    """True if this is `array` or `indexedarray`."""
    return t is array or t is indexedarray


def type_is_tile(t: Any) -> bool:
    """False: there are no tiles."""
    return False


def is_int(x: Any) -> bool:
    """True if this is a value of an integer type."""
    return type_is_int(type(x))


def is_float(x: Any) -> bool:
    """True if this is a value of a floating-point type."""
    return type_is_float(type(x))


def is_scalar(x: Any) -> bool:
    """True if this is a value of an integer or floating-point type."""
    return type_is_scalar(type(x))


def is_vector(x: Any) -> bool:
    """True if this is a vector."""
    return isinstance(x, Vector)


def is_matrix(x: Any) -> bool:
    """True if this is a matrix."""
    return isinstance(x, Matrix)


def is_quaternion(x: Any) -> bool:
    """True if this is a quaternion."""
    return isinstance(x, Quaternion)


def is_transformation(x: Any) -> bool:
    """True if this is a rigid transformation."""
    return isinstance(x, Transformation)


def is_composite(x: Any) -> bool:
    """True if this is a vector, matrix, quaternion or transformation."""
    return isinstance(x, Composite)


def is_value(x: Any) -> bool:
    """True if this is a number, a bool or a composite."""
    return isinstance(x, (bool, int, float, TypedConstant, Composite))


def is_struct(x: Any) -> bool:
    """True if this is an instance of a class that `struct` made."""
    return isinstance(x, Struct) and not isinstance(x, IndexedArray)


def is_array(x: Any) -> bool:
    """True if this is an array, or an annotation of one."""
    return isinstance(x, (array, ArrayAnnotation, IndexedArray))


def is_tile(x: Any) -> bool:
    """False: there are no tiles."""
    return False


def type_size(dtype: Any) -> int:
    """The number of components of a type, 1 of scalars and structs.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.types.type_size(loom.mat33), loom.types.type_size(float)
    (9, 1)
    """
    if type_is_composite(dtype):
        return int(dtype._length_)
    if not type_is_struct(dtype):
        dtype_of(dtype)
    return 1


def type_size_in_bytes(dtype: Any) -> int:
    """The number of bytes that an element of this type takes in an array.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.types.type_size_in_bytes(loom.vec3)
    12
    """
    if type_is_composite(dtype):
        return int(dtype._length_) * int(dtype._wp_scalar_type_.numpy.itemsize)
    if type_is_struct(dtype):
        return int(dtype.numpy_dtype().itemsize)
    return int(dtype_of(dtype).numpy.itemsize)


def type_ctype(dtype: Any) -> Any:
    """The type of ctypes with the bytes of a scalar type, or, for a composite type, of an array of its components."""
    if type_is_composite(dtype):
        return dtype._wp_scalar_type_._type_ * dtype._length_
    return ctypes.c_bool if dtype is bool else dtype_of(dtype)._type_  # type: ignore[attr-defined]


def type_repr(t: Any) -> str:
    """The name of a type, as messages have it.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.types.type_repr(loom.array(dtype=float, ndim=2))
    'array(ndim=2, dtype=float32)'
    >>> loom.types.type_repr(loom.types.vector(5, loom.float64))
    'vector(length=5, dtype=float64)'
    """
    if t is Any:
        return "Any"
    if isinstance(t, ArrayAnnotation):
        return f"array(ndim={t.ndim}, dtype={type_repr(t.dtype)})"
    if is_array(t):
        return f"{type(t).__name__}(shape={t.shape}, dtype={type_repr(t.dtype)})"
    if typing.get_origin(t) is tuple:
        return f"tuple({', '.join(type_repr(each) for each in typing.get_args(t))})"
    if isinstance(t, (DType, CompositeClass)) or t in (bool, int, float):
        return str(t.__name__)
    name = getattr(t, "__qualname__", getattr(t, "__name__", None))
    return repr(t) if name is None else f"{t.__module__}.{name}"


def types_equal(a: Any, b: Any) -> bool:
    """True if both are the same type, where Python's `int`, `float` and `bool` are those of kernels.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.types.types_equal(float, loom.float32)
    True
    """
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(types_equal, a, b))
    if isinstance(a, (ArrayAnnotation, array)) and isinstance(b, (ArrayAnnotation, array)):
        return a.ndim == b.ndim and types_equal(a.dtype, b.dtype)
    return _in_kernels(a) is _in_kernels(b) or (isinstance(a, np.dtype) and bool(a == b))


def _in_kernels(t: Any) -> Any:
    return dtype_of(t) if t in (bool, int, float) else t
