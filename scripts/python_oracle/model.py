"""Stand-ins by which CPython runs a kernel's text: typed scalars, vectors, matrices, structs, arrays, decorators.

Each models a documented rule of the kernel language: numbers have the width of their type, literals take the type of
what they meet, `/` and `%` of integers are C's, composites are values. Everything else is left to CPython: the order
of evaluation, control flow, scopes, unpacking, slices.
"""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Raw = Any  # an int for integers, a NumPy scalar for floats


class ScalarType:
    """A scalar type of kernels. Calling it converts as a cast in a kernel does."""

    def __init__(self, name: str, kind: str, bits: int) -> None:
        self.name, self.kind, self.bits = name, kind, bits
        self.numpy = np.dtype(name)

    def __call__(self, value: Any = 0) -> Scalar:
        return Scalar(self, self.converted(value))

    @property
    def lowest(self) -> int:
        return -(1 << (self.bits - 1)) if self.kind == "i" else 0

    @property
    def highest(self) -> int:
        return (1 << (self.bits - (self.kind == "i"))) - 1

    def wrapped(self, value: int) -> int:
        """The integer modulo 2**bits, in the range of the type."""
        value &= (1 << self.bits) - 1
        return value - (1 << self.bits) if value > self.highest else value

    def converted(self, value: Any) -> Raw:
        """`value`, a scalar or a number of Python's, as this type: op `cast` of the op table."""
        if isinstance(value, Scalar):
            value = value.raw
        if self.kind == "f":
            return self._rounded(value)
        if isinstance(value, (float, np.floating)):
            if math.isnan(value):
                return 0
            if math.isinf(value):
                return self.highest if value > 0 else self.lowest
            return min(max(math.trunc(float(value)), self.lowest), self.highest)
        return self.wrapped(int(value))

    def _rounded(self, value: Any) -> Raw:
        if isinstance(value, int) and value.bit_length() > 52:
            # A conversion through float64 would round twice. 40 leading bits, the last of them set if anything below
            # is, decide the one rounding to 24 bits or fewer as the integer itself does.
            if self.bits == 64:
                return np.float64(value)
            magnitude, drop = abs(value), value.bit_length() - 40
            leading = magnitude >> drop | (magnitude & ((1 << drop) - 1) != 0)
            value = math.copysign(math.ldexp(leading, drop), value)
        with np.errstate(all="ignore"):
            return self.numpy.type(value)

    def __repr__(self) -> str:
        return f"loom.{self.name}"


SCALAR_TYPES = {
    name: ScalarType(name, kind, bits)
    for name, kind, bits in [
        *((f"int{bits}", "i", bits) for bits in (8, 16, 32, 64)),
        *((f"uint{bits}", "u", bits) for bits in (8, 16, 32, 64)),
        *((f"float{bits}", "f", bits) for bits in (16, 32, 64)),
    ]
}
INT32, FLOAT32 = SCALAR_TYPES["int32"], SCALAR_TYPES["float32"]


class Scalar:
    """A number of a scalar type. Numbers of Python's beside it take its type, as literals in kernels do."""

    __slots__ = ("raw", "type")

    def __init__(self, scalar_type: ScalarType, raw: Raw) -> None:
        self.type, self.raw = scalar_type, raw

    def __bool__(self) -> bool:
        return bool(self.raw != 0)

    def __index__(self) -> int:
        if self.type.kind == "f":
            raise TypeError("a float is no index")
        return int(self.raw)

    def __float__(self) -> float:
        return float(self.raw)

    def __repr__(self) -> str:
        return f"{self.type!r}({self.raw!r})"

    def __hash__(self) -> int:
        return hash(self.raw)

    def __eq__(self, other: object) -> bool:
        return bool(self.raw == self._other(other))

    def __lt__(self, other: Any) -> bool:
        return bool(self.raw < self._other(other))

    def __le__(self, other: Any) -> bool:
        return bool(self.raw <= self._other(other))

    def __gt__(self, other: Any) -> bool:
        return bool(self.raw > self._other(other))

    def __ge__(self, other: Any) -> bool:
        return bool(self.raw >= self._other(other))

    def _other(self, other: Any) -> Raw:
        if isinstance(other, Scalar) and other.type is not self.type:
            raise TypeError(f"{self.type} and {other.type} are mixed")
        if isinstance(other, bool) or not isinstance(other, (Scalar, int, float)):
            raise TypeError(f"{self.type} and {type(other).__name__} are mixed")
        return self.type.converted(other)

    def _binary(self, operator: str, other: Any, reflected: bool = False) -> Any:
        if isinstance(other, Composite):
            return NotImplemented
        left, right = self.raw, self._other(other)
        if reflected:
            left, right = right, left
        return Scalar(self.type, compute(operator, self.type, left, right))

    def __neg__(self) -> Scalar:
        return Scalar(self.type, -self.raw if self.type.kind == "f" else self.type.wrapped(-self.raw))

    def __pos__(self) -> Scalar:
        return self

    def __invert__(self) -> Scalar:
        return Scalar(self.type, self.type.wrapped(~self.raw))


def compute(operator: str, scalar_type: ScalarType, a: Raw, b: Raw) -> Raw:
    """A binary operation on two numbers of one type, as the op table defines it."""
    if scalar_type.kind == "f":
        with np.errstate(all="ignore"):
            match operator:
                case "add":
                    return a + b
                case "sub":
                    return a - b
                case "mul":
                    return a * b
                case "truediv":
                    return a / b
                case "floordiv":
                    return np.floor(a / b)
                case "mod":
                    return np.fmod(a, b)
        raise TypeError(operator)
    bits, negative = scalar_type.bits, scalar_type.kind == "i" and a < 0
    count = b & ((1 << bits) - 1)
    match operator:
        case "add":
            result = a + b
        case "sub":
            result = a - b
        case "mul":
            result = a * b
        case "truediv":
            result = 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        case "floordiv":
            result = 0 if b == 0 else a // b
        case "mod":
            result = a if b == 0 else abs(a) % abs(b) * (-1 if a < 0 else 1)
        case "and":
            result = a & b
        case "or":
            result = a | b
        case "xor":
            result = a ^ b
        case "lshift":
            result = 0 if count >= bits else a << count
        case "rshift":
            result = (-1 if negative else 0) if count >= bits else a >> count
        case _:
            raise TypeError(operator)
    return scalar_type.wrapped(result)


_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift")


def _add_operators(cls: type, operators: tuple[str, ...]) -> None:
    for operator in operators:
        setattr(cls, f"__{operator}__", lambda self, other, o=operator: self._binary(o, other))
        setattr(cls, f"__r{operator}__", lambda self, other, o=operator: self._binary(o, other, True))


_add_operators(Scalar, _OPERATORS)


class CompositeType:
    """A vector type (`shape` of one extent) or matrix type (of two)."""

    def __init__(self, name: str, scalar: ScalarType, shape: tuple[int, ...]) -> None:
        self.name, self.scalar, self.shape = name, scalar, shape
        self.size = math.prod(shape)

    def __call__(self, *values: Any) -> Composite:
        if len(values) <= 1:
            values = (values[0] if values else 0,) * self.size
        return Composite(
            self, np.array([self.scalar.converted(v) for v in values], self.scalar.numpy).reshape(self.shape)
        )


class Composite:
    """A vector or matrix, which kernels treat as a value. Reading a part of one gives a copy."""

    __slots__ = ("data", "type")

    def __init__(self, composite_type: CompositeType, data: np.ndarray[Any, Any]) -> None:
        object.__setattr__(self, "type", composite_type)
        object.__setattr__(self, "data", data)

    def __getitem__(self, index: Any) -> Any:
        return _value_of(self.data[_plain_index(index)], self.type.scalar)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.data[_plain_index(index)] = _raw_of(value, self.type.scalar)

    def __getattr__(self, name: str) -> Any:
        if name in ("x", "y", "z", "w"):
            return self["xyzw".index(name)]
        raise AttributeError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in ("x", "y", "z", "w"):
            raise AttributeError(name)
        self["xyzw".index(name)] = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Composite) and bool((self.data == other.data).all())

    __hash__ = None  # type: ignore[assignment]

    def __neg__(self) -> Composite:
        return self._map(lambda a: (-Scalar(self.type.scalar, a)).raw)

    def _map(self, function: Callable[..., Raw], *others: np.ndarray[Any, Any]) -> Composite:
        pairs = zip(self._raws(self.data), *(self._raws(other) for other in others), strict=True)
        data = [function(*pair) for pair in pairs]
        return Composite(self.type, np.array(data, self.type.scalar.numpy).reshape(self.type.shape))

    def _raws(self, data: np.ndarray[Any, Any]) -> list[Raw]:
        flat = data.reshape(-1)
        return list(flat) if self.type.scalar.kind == "f" else [int(x) for x in flat]

    def _binary(self, operator: str, other: Any, reflected: bool = False) -> Composite:
        if isinstance(other, Composite):
            if other.type is not self.type or operator not in ("add", "sub"):
                raise TypeError(operator)
            data = other.data
        else:
            if operator not in ("mul", "truediv") or (operator == "truediv" and reflected):
                raise TypeError(operator)
            data = np.full(self.type.shape, _raw_of(other, self.type.scalar), self.type.scalar.numpy)
        scalar = self.type.scalar
        if reflected:
            return self._map(lambda a, b: compute(operator, scalar, b, a), data)
        return self._map(lambda a, b: compute(operator, scalar, a, b), data)


_add_operators(Composite, ("add", "sub", "mul", "truediv"))

COMPOSITE_TYPES = {
    name: CompositeType(name, SCALAR_TYPES[scalar], shape)
    for name, scalar, shape in [
        ("vec2", "float32", (2,)),
        ("vec3", "float32", (3,)),
        ("vec4", "float32", (4,)),
        ("vec3i", "int32", (3,)),
        ("vec4i", "int32", (4,)),
        ("vec2d", "float64", (2,)),
        ("vec4ub", "uint8", (4,)),
        ("mat22", "float32", (2, 2)),
        ("mat33", "float32", (3, 3)),
        ("mat22d", "float64", (2, 2)),
    ]
}
_COMPOSITE_OF = {(t.scalar.name, t.shape): t for t in COMPOSITE_TYPES.values()}


def _plain_index(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(_plain_index(i) for i in index)
    if isinstance(index, slice):
        bounds = (None if b is None else int(b) for b in (index.start, index.stop, index.step))
        return slice(*bounds)
    return int(index)


def _value_of(data: Any, scalar: ScalarType) -> Any:
    if isinstance(data, np.ndarray):
        composite = _COMPOSITE_OF.get((scalar.name, data.shape)) or CompositeType("part", scalar, data.shape)
        return Composite(composite, data.copy())
    return Scalar(scalar, data if scalar.kind == "f" else int(data))


def _raw_of(value: Any, scalar: ScalarType) -> Any:
    if isinstance(value, Composite):
        return value.data.copy()
    if isinstance(value, Scalar) and value.type is not scalar:
        raise TypeError(f"{scalar} is given {value.type}")
    return scalar.converted(value)


class StructType:
    """A class under `struct`. Values hold their fields as attributes; assigning one converts and copies."""

    def __init__(self, cls: type) -> None:
        self.__name__ = cls.__name__
        self.fields: dict[str, Any] = dict(cls.__annotations__)

    def __call__(self, *values: Any, **named: Any) -> Struct:
        given = dict(zip(self.fields, values, strict=False)) | named
        result = Struct(self)
        for name, field in self.fields.items():
            setattr(result, name, given[name] if name in given else zero_of(field))
        return result


class Struct:
    """A struct's value."""

    def __init__(self, struct_type: StructType) -> None:
        self.__dict__["type"] = struct_type

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = as_type(value, self.type.fields[name])


def zero_of(annotation: Any) -> Any:
    """The value that a field has before it is given one."""
    return False if annotation is bool else as_type(0, annotation) if is_scalar(annotation) else annotation()


def is_scalar(annotation: Any) -> bool:
    return annotation in (int, float, bool) or isinstance(annotation, ScalarType)


def as_type(value: Any, annotation: Any) -> Any:
    """`value` as a parameter or field of this annotation takes it: converted if it is a number, else copied."""
    if annotation is bool:
        return bool(value)
    if is_scalar(annotation):
        scalar = {int: INT32, float: FLOAT32}.get(annotation, annotation)
        return Scalar(scalar, _raw_of(value, scalar))
    return bound(value)


def bound(value: Any) -> Any:
    """What a variable is when it is assigned `value`: numbers without a type get theirs, composites are copied."""
    if isinstance(value, tuple):
        return tuple(bound(v) for v in value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return INT32(value)
    if isinstance(value, float):
        return FLOAT32(value)
    return copied(value)


def copied(value: Any) -> Any:
    """`value`, or a copy of it that shares nothing with it if it can be changed in place."""
    if isinstance(value, Composite):
        return Composite(value.type, value.data.copy())
    if isinstance(value, Struct):
        result = Struct(value.type)
        result.__dict__.update((name, copied(value.__dict__[name])) for name in value.type.fields)
        return result
    return value


class Array:
    """An array; slices and rows of it are views. Elements are scalars, composites or structs."""

    def __init__(self, dtype: Any, data: np.ndarray[Any, Any]) -> None:
        self.dtype, self.data = dtype, data

    @property
    def shape(self) -> tuple[Scalar, ...]:
        return tuple(INT32(n) for n in self.data.shape[: self.data.ndim - self._component_axes])

    @property
    def _component_axes(self) -> int:
        return len(self.dtype.shape) if isinstance(self.dtype, CompositeType) else 0

    def __getitem__(self, index: Any) -> Any:
        data = self.data[_plain_index(index)]
        if isinstance(data, np.ndarray) and data.ndim > self._component_axes:
            return Array(self.dtype, data)
        if isinstance(self.dtype, StructType):
            return data
        if isinstance(self.dtype, CompositeType):
            # What is assigned to a part of an element, `a[i].x = 1`, is assigned in the array.
            return Composite(self.dtype, data)
        return _value_of(data, self.dtype)

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(self.dtype, StructType):
            self.data[_plain_index(index)] = bound(value)
        else:
            self.data[_plain_index(index)] = _raw_of(value, self.dtype.scalar if self._component_axes else self.dtype)


def augment(target: Any, index: Any, operator: str, value: Callable[[], Any]) -> None:
    """`target[index] op= value()`. Sums and the like of array elements are atomic: the element is read when the value
    is known. All others read it first, as Python does."""
    apply = lambda a, b: getattr(a, f"__{operator}__")(b)  # noqa: E731
    if isinstance(target, Array) and operator in ("add", "sub", "and", "or", "xor"):
        given = value()
        target[index] = apply(target[index], given)
    else:
        target[index] = apply(target[index], value())


def typed_range(*bounds: Any) -> Iterator[Scalar]:
    """`range` of a kernel: its counter has the type of the bounds, `int32` if none has one."""
    counter = next((b.type for b in bounds if isinstance(b, Scalar)), INT32)
    return (Scalar(counter, i) for i in range(*(int(b) for b in bounds)))


class _Captured(dict[str, Any]):
    """The globals of a function as they were when it was defined; what was missing then is looked up live."""

    def __init__(self, live: dict[str, Any]) -> None:
        super().__init__(live)
        self.live = live

    def __missing__(self, name: str) -> Any:
        return self.live[name]


def captured(function: types.FunctionType) -> types.FunctionType:
    """The function with the values that its free names have now."""
    cells = tuple(types.CellType(cell.cell_contents) for cell in function.__closure__ or ())
    return types.FunctionType(
        function.__code__, _Captured(function.__globals__), function.__name__, function.__defaults__, cells
    )


def func(function: types.FunctionType) -> Callable[..., Any]:
    """The decorator `loom.func`: arguments are converted and copied, results too."""
    signature = inspect.signature(function)
    inner = captured(function)

    def call(*args: Any, **named: Any) -> Any:
        given = signature.bind(*args, **named)
        given.apply_defaults()
        values = {
            name: as_type(value, signature.parameters[name].annotation) for name, value in given.arguments.items()
        }
        return bound(inner(**values))

    return call


def _smallest(a: Any, b: Any) -> Any:
    a, b = _alike(a, b)
    if a.raw != a.raw:
        return b
    if b.raw != b.raw:
        return a
    return a if (a.raw, not np.signbit(a.raw)) <= (b.raw, not np.signbit(b.raw)) else b


def _largest(a: Any, b: Any) -> Any:
    a, b = _alike(a, b)
    if a.raw != a.raw:
        return b
    if b.raw != b.raw:
        return a
    return a if (a.raw, not np.signbit(a.raw)) >= (b.raw, not np.signbit(b.raw)) else b


def _alike(a: Any, b: Any) -> tuple[Scalar, Scalar]:
    scalar = a.type if isinstance(a, Scalar) else b.type
    return scalar(a), scalar(b)


def _absolute(x: Scalar) -> Scalar:
    return -x if x.raw < 0 else Scalar(x.type, np.abs(x.raw)) if x.type.kind == "f" else x


def _clamp(x: Any, low: Any, high: Any) -> Any:
    return _smallest(_largest(low, x), high)


def package() -> types.SimpleNamespace:
    """What the name `loom` stands for."""
    return types.SimpleNamespace(
        **SCALAR_TYPES,
        **COMPOSITE_TYPES,
        array=lambda dtype, ndim=1: None,
        array2d=lambda dtype: None,
        kernel=captured,
        func=func,
        struct=StructType,
        static=lambda value: value,
        where=lambda condition, a, b: a if condition else b,
        min=_smallest,
        max=_largest,
        abs=_absolute,
        clamp=_clamp,
        sqrt=lambda x: Scalar(x.type, np.sqrt(x.raw)),
        floor=lambda x: Scalar(x.type, np.floor(x.raw)),
    )


# Names of Python's own that mean something else in kernels.
BUILTINS = {
    "int": INT32,
    "float": FLOAT32,
    "range": typed_range,
    "len": lambda x: INT32(len(x) if isinstance(x, tuple) else x.shape[0]),
    "min": _smallest,
    "max": _largest,
    "abs": _absolute,
}
