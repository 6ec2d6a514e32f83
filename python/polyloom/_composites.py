"""Vectors, matrices, quaternions and transformations: their types and their values outside kernels.

A type is a class, one for each kind, shape and type of components, however it is spelled: `vec3`, `vec3f` and
`vector(3, float)` are the same object. A value owns a NumPy array of its components, and NumPy does its arithmetic.
"""

from __future__ import annotations

import copyreg
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

import numpy as np

from polyloom import _native
from polyloom._absent import Absent
from polyloom._memory import layout
from polyloom._scalars import DType, DTypeLike, TypedConstant, bfloat16, bool_, dtype_of, readable, stored, wrapped

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Composite", "Matrix", "Quaternion", "Transformation", "Vector"]

C = TypeVar("C", bound="Composite")

_PLAIN = frozenset((float, int))
_LETTERS = frozenset("xyzw")


class CompositeClass(type):
    """The class of composite types."""

    # What the compiler knows the type by; of the types that are made, all have one.
    _type: _native.CompositeType
    _length_: int
    _shape_: tuple[int, ...]
    _wp_scalar_type_: DType
    _wp_generic_type_str_: str

    def __repr__(cls) -> str:
        module = "polyloom" if cls.__name__.isidentifier() else "polyloom.types"
        return f"{module}.{cls.__name__}"


class Composite(_native.CompositeBase, metaclass=CompositeClass):
    """A value of several numbers of one type: base class of all vectors, matrices, quaternions and transformations.

    Attributes
    ----------
    _length_ : int
        Number of components.
    _shape_ : tuple of int
        Extents of the array of its components.
    _wp_scalar_type_ : DType
        Type of its components.
    """

    __slots__ = ()
    __hash__: ClassVar[None]  # type: ignore[assignment]
    # NumPy's numbers and arrays leave operations with a composite to it.
    __array_priority__ = 100.0

    def __new__(cls: type[C], *components: Any) -> C:
        if not hasattr(cls, "_type"):
            raise TypeError(f"{cls.__name__} is no type of its own: call one, such as loom.vec3")
        if (
            len(components) == cls._length_
            and cls._wp_scalar_type_.numpy.kind == "f"
            and _PLAIN.issuperset(map(type, components))
        ):
            numbers = np.array(components)
            if numbers.dtype.kind in "fi":  # no integer too large for an array
                return cls._of(numbers.reshape(cls._shape_))
        return cls._of(_numbers(cls, components))

    @classmethod
    def from_ptr(cls: type[C], ptr: int) -> C:
        """A copy of the value at an address of the host's memory.

        Raises
        ------
        RuntimeError
            If the address is 0.
        """
        if not ptr:
            raise RuntimeError(f"NULL pointer exception: there is no {cls.__name__} at address 0")
        return cls._of(layout(ptr, cls._shape_, cls._wp_scalar_type_.numpy, None))

    @classmethod
    def _of(cls: type[C], numbers: Any) -> C:
        """The value with these components, numbers of the right type in the right shape."""
        dtype = cls._wp_scalar_type_
        if isinstance(numbers, np.ndarray) and numbers.dtype == dtype.numpy and numbers.shape == cls._shape_:
            storage = np.array(numbers, order="C")
        else:
            storage = np.empty(cls._shape_, dtype.numpy)
            with np.errstate(over="ignore"):  # beyond the type's largest number is infinity
                storage[...] = stored(numbers, None, dtype)
        value: C = _native.CompositeBase.__new__(cls, storage, cls._type)
        return value

    def _values(self) -> NDArray[Any]:
        """The components as an array that NumPy can compute with."""
        return readable(self._storage, type(self)._wp_scalar_type_)

    def __setattr__(self, name: str, value: Any) -> None:
        # Letters of components that are none here are a mistake, and no attribute of the value's own.
        if _LETTERS.issuperset(name) and not hasattr(type(self), name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return type(self)._shape_[0]

    def __getitem__(self, key: Any) -> Any:
        storage = self._storage
        if type(key) is int and storage.ndim == 1 and -len(storage) <= key < len(storage):
            if type(self)._wp_scalar_type_ is not bfloat16:
                return storage.item(key)
        found = self._values()[_key(type(self), key)]
        if not isinstance(found, np.ndarray):
            return found.item()
        make: Any = vector if found.ndim == 1 else matrix
        extents = found.shape[0] if found.ndim == 1 else found.shape
        return make(extents, type(self)._wp_scalar_type_)._of(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        cls = type(self)
        key = _key(cls, key)
        wanted = self._storage[key].shape
        if wanted and isinstance(value, (list, tuple)):
            for each in value:
                if len(wanted) == 1 and isinstance(each, Composite):
                    raise TypeError(_not_a_slice(cls, each))
        numbers, shape = _flat(value)
        if shape and shape != wanted:
            if not wanted:
                raise TypeError(_not_a_number(cls._wp_scalar_type_, value))
            raise ValueError(f"Can only assign sequence of same size: values of shape {shape} for shape {wanted}")
        converted = [_number(number, cls._wp_scalar_type_, wraps=True) for number in numbers]
        filled = np.array(converted).reshape(shape)
        with np.errstate(over="ignore"):
            self._storage[key] = stored(filled, None, cls._wp_scalar_type_)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Composite):
            if not hasattr(other, "__len__") or isinstance(other, (str, bytes)):
                return False
            try:
                other = np.asarray(other)
            except ValueError:  # nothing of one shape
                return False
            return other.shape == type(self)._shape_ and bool(np.all(self._values() == other))
        return type(self)._shape_ == type(other)._shape_ and bool(np.all(self._values() == other._values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._shown()!r})"

    def _shown(self) -> list[Any]:
        """The components with as few digits as tell them from others of their type: 0.1, not 0.10000000149011612."""
        values = self._values()
        if type(self)._wp_scalar_type_.name not in ("float16", "float32"):
            numbers: list[Any] = values.tolist()
            return numbers
        digits = [float(str(each)) for each in values.ravel()]
        shown: list[Any] = np.array(digits).reshape(values.shape).tolist()
        return shown

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        rows = self._shown() if len(type(self)._shape_) == 2 else [self._shown()]
        shown = ["[" + ", ".join(format(each, spec) for each in row) + "]" for row in rows]
        return shown[0] if len(type(self)._shape_) == 1 else "[" + ",\n ".join(shown) + "]"

    def __str__(self) -> str:
        rows = self._shown()
        return str(rows) if len(type(self)._shape_) == 1 else "[" + ",\n ".join(map(str, rows)) + "]"

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._values().tolist(),))

    def __bytes__(self) -> bytes:
        """The components as they lie in memory."""
        return self._storage.tobytes()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        shared = self._storage.view()
        return np.asarray(shared, dtype) if copy is None else np.array(shared, dtype, copy=copy)

    def _with(self: C, other: Any, op: Callable[[Any, Any], Any], numbers: bool, swapped: bool = False) -> C:
        """Component by component with a value of the same type, or, if that is to be, with one number."""
        mine = self._values()
        if isinstance(other, Composite):
            if type(other) is not type(self) or numbers:
                return NotImplemented  # type: ignore[no-any-return]
            theirs: Any = other._values()
        elif isinstance(other, np.ndarray) and other.ndim:
            return op(other, mine) if swapped else op(mine, other)  # type: ignore[no-any-return]
        elif numbers or isinstance(self, Vector):
            if not _is_number(other):
                return NotImplemented  # type: ignore[no-any-return]
            theirs = np.asarray(_number(other, type(self)._wp_scalar_type_)).astype(mine.dtype)
        else:
            return NotImplemented  # type: ignore[no-any-return]
        with np.errstate(all="ignore"):  # as in kernels: infinities and NaN
            return type(self)._of(op(theirs, mine) if swapped else op(mine, theirs))

    def _product(self, other: Any) -> Any:
        """The product with another composite, as kernels compute it."""
        try:
            return _native.call_builtin("*", (self, other))
        except TypeError:  # there is none of these types
            return NotImplemented

    def __add__(self: C, other: Any) -> C:
        return self._with(other, np.add, False)

    def __radd__(self: C, other: Any) -> C:
        return self._with(other, np.add, False, swapped=True)

    def __sub__(self: C, other: Any) -> C:
        return self._with(other, np.subtract, False)

    def __rsub__(self: C, other: Any) -> C:
        return self._with(other, np.subtract, False, swapped=True)

    @overload
    def __mul__(self: C, other: float) -> C: ...
    @overload
    def __mul__(self, other: Any) -> Any: ...
    def __mul__(self, other: Any) -> Any:
        return self._product(other) if isinstance(other, Composite) else self._with(other, np.multiply, True)

    def __rmul__(self: C, other: Any) -> C:
        return self._with(other, np.multiply, True, swapped=True)

    def __truediv__(self: C, other: Any) -> C:
        return self._with(other, _quotient, True)

    def __rtruediv__(self: C, other: Any) -> C:
        return self._with(other, _quotient, True, swapped=True)

    def __mod__(self: C, other: Any) -> C:
        return self._with(other, _remainder, False)

    def __pos__(self: C) -> C:
        return type(self)._of(self._values())

    def __neg__(self: C) -> C:
        return type(self)._of(-self._values())


class Vector(Composite):
    """Base class of the vector types. Vectors have their first components by the names x, y, z and w."""

    __slots__ = ()
    if TYPE_CHECKING:
        x: float
        y: float
        z: float
        w: float

    def __matmul__(self, other: Any) -> Any:
        return self._product(other) if isinstance(other, Matrix) else NotImplemented


class Matrix(Composite):
    """Base class of the matrix types."""

    __slots__ = ()

    def __matmul__(self, other: Any) -> Any:
        return self._product(other) if isinstance(other, Composite) else NotImplemented

    def get_row(self, index: int) -> Vector:
        """A copy of a row."""
        return self[operator.index(index)]  # type: ignore[no-any-return]

    def get_col(self, index: int) -> Vector:
        """A copy of a column."""
        return self[:, operator.index(index)]  # type: ignore[no-any-return]

    def set_row(self, index: int, values: Any) -> None:
        """Sets a row to as many numbers, or to one."""
        if not -len(self) <= operator.index(index) < len(self):
            raise IndexError(f"{type(self).__name__} has {len(self)} rows. Invalid row index")
        self[operator.index(index)] = values

    def set_col(self, index: int, values: Any) -> None:
        """Sets a column to as many numbers, or to one."""
        self[:, operator.index(index)] = values


class Quaternion(Composite):
    """Base class of the quaternion types: x, y, z and the real part w."""

    __slots__ = ()
    if TYPE_CHECKING:
        x: float
        y: float
        z: float
        w: float


class Transformation(Composite):
    """Base class of the types of rigid transformations: a translation `p`, then a rotation, the quaternion `q`."""

    __slots__ = ()

    def __new__(cls: type[C], *components: Any, p: Any = None, q: Any = None, **others: Any) -> C:
        if others:
            raise TypeError(f"got an unexpected keyword argument {next(iter(others))!r}")
        if len(components) > 2 and not (p is None and q is None):
            raise TypeError(f"multiple values for argument {'p' if q is None else 'q'!r}")
        given = (
            {"p": p, "q": q}
            if not components
            else {"p": components[0], "q": q if len(components) < 2 else components[1]}
        )
        if len(components) == 2 or not (p is None and q is None):
            for name, value in given.items():
                if value is not None and not _is_sequence(value):
                    what = type(value).__name__
                    raise TypeError(
                        f"Invalid argument {name!r} in transformation constructor: expected a sequence, got {what}"
                    )
        elif len(components) == 1 and not (_is_sequence(components[0]) or _is_number(components[0])):
            what = type(components[0]).__name__
            raise TypeError(f"Invalid argument in transformation constructor: expected a scalar value, got {what}")
        if p is None and q is None:
            if len(components) == 1 and _is_sequence(components[0]) and len(components[0]) == 3:
                # A translation alone turns nothing.
                components = (*components[0], 0, 0, 0, 1)
            return Composite.__new__(cls, *(components or (0, 0, 0, 0, 0, 0, 1)))
        if len(components) > (p is None):
            raise TypeError(f"{cls.__name__} is given more than its translation `p` and its rotation `q`")
        dtype = cls._wp_scalar_type_
        translation = vector(3, dtype)(*(components or (() if p is None else (p,))))
        rotation = quaternion(dtype)(0, 0, 0, 1) if q is None else quaternion(dtype)(q)
        return Composite.__new__(cls, translation, rotation)

    @property
    def p(self) -> Vector:
        """The translation."""
        return vector(3, type(self)._wp_scalar_type_)._of(self._values()[:3])

    @p.setter
    def p(self, value: Any) -> None:
        self[:3] = value

    @property
    def q(self) -> Quaternion:
        """The rotation."""
        return quaternion(type(self)._wp_scalar_type_)._of(self._values()[3:])

    @q.setter
    def q(self, value: Any) -> None:
        self[3:] = value


class GenericComposite:
    """The annotation of a generic parameter: composites of any of several types.

    Attributes
    ----------
    kind : str
        `vector`, `matrix`, `quaternion` or `transformation`.
    dtype : Any
        The type of the components, `Any` or a type variable.
    shape : tuple of int or None
        A vector's length, a matrix's rows and columns; `None` for any.
    """

    __slots__ = ("dtype", "kind", "shape")

    def __init__(self, kind: str, dtype: Any, shape: Sequence[Any]) -> None:
        self.kind = kind
        self.dtype = dtype if is_open(dtype) else dtype_of(dtype)
        self.shape = tuple(None if extent is Any else operator.index(extent) for extent in shape)

    def __repr__(self) -> str:
        extents = [repr(extent) if extent is not None else "Any" for extent in self.shape]
        dtype = "Any" if self.dtype is Any else repr(self.dtype)
        shown = {"vector": f"length={''.join(extents)}, ", "matrix": f"shape=({', '.join(extents)}), "}
        return f"polyloom.types.{self.kind}({shown.get(self.kind, '')}dtype={dtype})"


def is_open(dtype: Any) -> bool:
    """Whether an element type leaves open which it is: `Any` or a type variable."""
    return dtype is Any or isinstance(dtype, TypeVar)


def _composite(kind: str, dtype: Any, shape: Sequence[Any]) -> Any:
    if is_open(dtype) or any(extent is Any for extent in shape):
        return GenericComposite(kind, dtype, shape)
    extents = [operator.index(extent) for extent in shape]
    if 0 in extents and min(extents) == 0:
        # Warp's programs make such types beside others; nothing can be done with one.
        return Absent(f"types.{kind}", f"a {kind} of no components is not there: it has 1 to 1024")
    return class_of(_native.CompositeType(kind, dtype_of(dtype).name, extents))


def vector(length: int, dtype: DTypeLike) -> type[Vector]:
    """The type of vectors of this many components; with `Any` or a type variable, the annotation of several types.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.types.vector(length=3, dtype=float) is loom.vec3
    True
    >>> loom.types.vector(5, loom.float64)
    polyloom.types.vector(length=5, dtype=float64)
    """
    made: type[Vector] = _composite("vector", dtype, [length])
    return made


def matrix(shape: Sequence[int], dtype: DTypeLike) -> type[Matrix]:
    """The type of matrices of this many rows and columns.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.types.matrix(shape=(2, 3), dtype=float)([1, 2, 3], [4, 5, 6])
    matrix(shape=(2, 3), dtype=float32)([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    """
    made: type[Matrix] = _composite("matrix", dtype, list(shape))
    return made


def quaternion(dtype: DTypeLike) -> type[Quaternion]:
    """The type of quaternions of these components."""
    made: type[Quaternion] = _composite("quaternion", dtype, [])
    return made


def transformation(dtype: DTypeLike) -> type[Transformation]:
    """The type of rigid transformations of these components."""
    made: type[Transformation] = _composite("transformation", dtype, [])
    return made


_BASES: dict[str, type[Composite]] = {
    "vector": Vector,
    "matrix": Matrix,
    "quaternion": Quaternion,
    "transformation": Transformation,
}
# What Warp calls the kinds.
_GENERIC_NAMES = {"vector": "vec_t", "matrix": "mat_t", "quaternion": "quat_t", "transformation": "transform_t"}
_classes: dict[_native.CompositeType, Any] = {}


def class_of(ty: _native.CompositeType) -> Any:
    """The class of a type of the compiler."""
    known = _classes.get(ty)
    if known is None:
        members = {
            # Of other attributes than the components', as values of Warp's types have them.
            "__slots__": ("__dict__",),
            "__module__": "polyloom",
            "__doc__": f"A {ty.kind} of {int(np.prod(ty.shape))} components of type {ty.dtype}.",
            "_type": ty,
            "_type_": dtype_of(ty.dtype)._type_,  # type: ignore[attr-defined]
            "_length_": int(np.prod(ty.shape)),
            "_shape_": ty.shape,
            "_wp_scalar_type_": dtype_of(ty.dtype),
            "_wp_generic_type_str_": _GENERIC_NAMES[ty.kind],
        }
        named = "xyzw"[: ty.shape[0]] if ty.kind in ("vector", "quaternion") else ""
        members.update({name: _component(index) for index, name in enumerate(named)})
        # Of two threads that make it at once, both get the same.
        known = _classes.setdefault(ty, CompositeClass(ty.name, (_BASES[ty.kind],), members))
    return known


def _component(index: int) -> property:
    def get(self: Composite) -> Any:
        return self[index]

    def set_(self: Composite, value: Any) -> None:
        self[index] = value

    return property(get, set_)


def _reduce_class(cls: CompositeClass) -> Any:
    if not hasattr(cls, "_type"):
        return cls.__qualname__
    shape = cls._shape_ if issubclass(cls, (Vector, Matrix)) else ()
    return (_remade, (cls._type.kind, cls._type.dtype, shape))


def _remade(kind: str, dtype: str, shape: Sequence[int]) -> Any:
    return class_of(_native.CompositeType(kind, dtype, shape))


copyreg.pickle(CompositeClass, _reduce_class)


def argument(ty: _native.CompositeType, value: Any) -> Composite:
    """A launch's argument as a value of this type; what is wrong with it as the end of a sentence."""
    cls = class_of(ty)
    if isinstance(value, Composite) and not issubclass(type(value), _BASES[ty.kind]):
        raise TypeError(f"must be {ty.name}, not {type(value).__name__}")
    if not _is_sequence(value):
        raise TypeError(f"must be {ty.name} or its components, not {type(value).__name__}")
    try:
        return cls._of(_numbers(cls, (value,), wraps=False))  # type: ignore[no-any-return]
    except (TypeError, ValueError, OverflowError) as error:
        raise type(error)(f"is no {ty.name}: {error}") from None


def _numbers(cls: type[Composite], components: tuple[Any, ...], wraps: bool = True) -> NDArray[Any]:
    """The numbers that a constructor is given, in the shape of the type; integers too large for it wrap, or raise."""
    n, shape, dtype = cls._length_, cls._shape_, cls._wp_scalar_type_
    parts = [_flat(component) for component in components]
    numbers = [number for part, _ in parts for number in part]
    if not numbers:
        numbers = [0] * n
    elif len(parts) == 1 and parts[0][1] == ():
        numbers *= n
    fits = len(numbers) == n
    if len(parts) == 1:
        fits = fits and parts[0][1] in ((), shape, (n,))
    elif len(shape) == 2 and any(extents for _, extents in parts):
        fits = fits and all(extents == shape[1:] for _, extents in parts)
    rows = [extents for _, extents in parts] if len(shape) == 2 and len(parts) == shape[0] else []
    if not fits and rows and all(len(extents) == 1 for extents in rows):
        row = next(tuple(part) for part, extents in parts if extents != shape[1:])
        raise TypeError(f"Invalid argument in matrix constructor, expected row of length {shape[1]}, got {row}")
    if not fits and not any(extents for _, extents in parts):
        what = "matrix" if len(shape) == 2 else "vector" if issubclass(cls, Vector) else cls.__name__
        raise ValueError(
            f"{cls.__name__}: Invalid number of arguments in {what} constructor, expected {n} elements, got "
            f"{len(numbers)}"
        )
    if not fits:
        given = ", ".join("number" if not extents else f"{extents}" for _, extents in parts)
        given = f"{len(numbers)} given" if not any(e for _, e in parts) else f"given are shapes {given}"
        if len(parts) == 1 and parts[0][1]:
            extents = parts[0][1]
            given = f"{extents[0]} given" if len(extents) == 1 else f"not an array of shape {extents}"
        raise ValueError(f"{cls.__name__} has {n} component{'s' if n > 1 else ''}, {given}")
    converted = [_number(number, dtype, wraps) for number in numbers]
    is_exact = dtype.numpy.kind in "iub" and dtype is not bfloat16  # of which NumPy may know the bits alone
    return np.array(converted, dtype.numpy if is_exact else np.float64).reshape(shape)


def _is_sequence(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0  # the others have `__len__` as well
    return hasattr(value, "__len__") and not isinstance(value, (str, bytes, bytearray))


def _is_number(value: Any) -> bool:
    return hasattr(value, "__float__") or hasattr(value, "__index__")


def _flat(value: Any) -> tuple[list[Any], tuple[int, ...]]:
    """The numbers within a value, and their shape."""
    if isinstance(value, Composite):
        array = value._values()
        return array.ravel().tolist(), array.shape
    if not _is_sequence(value):
        return [value], ()
    if not isinstance(value, (list, tuple)):
        array = np.asarray(value)
        if array.dtype != object:
            return array.ravel().tolist(), array.shape
        value = list(value)
    parts = [_flat(item) for item in value]
    shapes = {shape for _, shape in parts}
    if len(shapes) > 1:
        raise ValueError("the rows differ in length")
    inner = shapes.pop() if shapes else ()
    return [number for part, _ in parts for number in part], (len(parts), *inner)


def _number(value: Any, dtype: DType, wraps: bool = False) -> Any:
    """A number as a component of this type; an integer too large for it wraps around, or raises."""
    if isinstance(value, TypedConstant):
        value = value.value
    kind = dtype.numpy.kind
    wrong = TypeError(_not_a_number(dtype, value))
    if isinstance(value, (str, bytes, bytearray)):
        raise wrong
    try:
        if dtype is bool_:
            if not isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
                raise wrong
            return bool(value)
        if kind not in "iu" or dtype.name == "bfloat16":
            return float(value)
        value = operator.index(value)
    except TypeError:
        raise wrong from None
    if wraps:
        return wrapped(value, dtype)
    limits = np.iinfo(dtype.numpy)
    if not limits.min <= value <= limits.max:
        shown = str(value) if -(10**40) < value < 10**40 else "a very large integer"
        raise OverflowError(f"{shown} does not fit {dtype.name}")
    return value


def _not_a_number(dtype: DType, value: Any) -> str:
    return f"Expected to assign a `{dtype.name}` value but got `{type(value).__name__}` instead"


def _not_a_slice(cls: type[Composite], value: Any) -> str:
    scalar, given = cls._wp_scalar_type_.name, type(value).__name__
    return f"Expected to assign a slice from a sequence of `{scalar}` values but got `{given}` instead"


def _key(cls: type[Composite], key: Any) -> Any:
    """An index or slice of a composite, or one for rows and one for columns, as NumPy takes them."""
    parts = key if isinstance(key, tuple) else (key,)
    shape = cls._shape_
    if not 1 <= len(parts) <= len(shape):
        expected = "one or two indices" if len(shape) == 2 else "one index"
        raise KeyError(f"{cls.__name__}: Invalid key, expected {expected}, got {len(parts)}")
    checked = []
    for part, extent in zip(parts, shape, strict=False):
        if isinstance(part, slice):
            checked.append(part)
            continue
        try:
            index = operator.index(part)
        except TypeError:
            expected = "int or pair of ints" if len(shape) == 2 else "int or slice"
            raise KeyError(f"{cls.__name__}: Invalid key {part}, expected {expected}") from None
        if not -extent <= index < extent:
            raise IndexError(
                f"{cls.__name__} has no component {index}: an index here is from {-extent} to {extent - 1}"
            )
        checked.append(index)  # type: ignore[arg-type]
    return tuple(checked)


def _quotient(a: Any, b: Any) -> Any:
    """The quotient; of integers, without its fraction."""
    if np.result_type(a, b).kind == "f":
        return np.divide(a, b)
    if not np.all(b):
        raise ZeroDivisionError("integer division by zero")
    quotient = np.floor_divide(a, b)
    return quotient + ((quotient * b != a) & ((a < 0) != (b < 0))).astype(quotient.dtype)


def _remainder(a: Any, b: Any) -> Any:
    """What is left of a division without fraction; it has the sign of `a`."""
    if np.result_type(a, b).kind != "f" and not np.all(b):
        raise ZeroDivisionError("integer division by zero")
    return np.fmod(a, b)
