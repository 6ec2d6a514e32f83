"""Structs: classes of fields that kernels take, compute with, and store in arrays.

`@struct` makes of a class with annotated fields one whose instances hold a value of the right type in each of them. A
launch is given one object for each leaf, a field that is no struct itself; of an array of structs a leaf is a view of
its NumPy array.
"""

from __future__ import annotations

import difflib
import inspect
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, Union

import numpy as np

from polyloom import _native
from polyloom._absent import Absent, RefusedStruct
from polyloom._composites import CompositeClass, argument, class_of
from polyloom._composites import _number as _converted
from polyloom._devices import get_device
from polyloom._errors import StructError
from polyloom._scalars import DType, TypedConstant, bfloat16, bool_, dtype_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["struct"]

T = TypeVar("T")


class StructClass(type):
    """The class of struct types."""

    # What the compiler knows the type by; of the types that are made, all have one.
    _type: _native.StructType
    # By name, a `DType`, a class of composites or of structs, or an array annotation.
    _fields: dict[str, Any]
    _dtype: np.dtype[Any] | None

    @property
    def cls(cls) -> type:
        """The class of instances, which is this one: Warp's structs have another."""
        return cls

    # As of annotations of arrays, because such a class annotates too.
    def __or__(cls, other: Any) -> Any:
        return Union[cls, other]  # noqa: UP007 - which would come back here

    def __ror__(cls, other: Any) -> Any:
        return Union[other, cls]  # noqa: UP007 - which would come back here

    def numpy_dtype(cls) -> np.dtype[Any]:
        """The type of the elements of NumPy arrays of this struct: fields in order, laid out as C does.

        A field that is an array is a record of where it is: the addresses of its elements and of its gradient's,
        extents, strides and number of dimensions. Kernels do not take arrays of such structs.

        Raises
        ------
        TypeError
            If there is no field.
        """
        if not cls._fields or cls._dtype is None:
            raise TypeError(f"an array of {cls.__name__} is not supported: it has no fields")
        return cls._dtype


class Struct(metaclass=StructClass):
    """Base class of the structs that `@struct` makes."""

    __hash__: ClassVar[Any] = object.__hash__

    def __init__(self, *values: Any, **named: Any) -> None:
        cls = type(self)
        fields = cls._fields
        for name, ty in fields.items():
            object.__setattr__(self, name, _zero(ty))
        if not values and not named:
            return
        given = dict(zip(fields, values, strict=False)) | named
        if len(values) > len(fields) or len(given) != len(values) + len(named) or given.keys() != fields.keys():
            listed = ", ".join(fields)
            raise TypeError(f"{cls.__name__} is made with no values, or with one for each of its fields: {listed}")
        for name, value in given.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        cls = type(self)
        ty = cls._fields.get(name)
        if ty is None:
            near = difflib.get_close_matches(name, cls._fields, 1)
            help_ = f"did you mean {near[0]!r}?" if near else f"its fields are {', '.join(cls._fields)}"
            raise AttributeError(f"{cls.__name__} has no field {name!r}: {help_}")
        try:
            value = _field_value(ty, value)
        except (TypeError, ValueError, OverflowError) as error:
            told = str(error)
            where = f"Struct field {name!r}" if told.startswith("expects") else f"the field {name!r} of {cls.__name__}"
            raise type(error)(f"{where} {told}") from None
        object.__setattr__(self, name, value)

    def assign(self, value: Any) -> None:
        """Gives every field the value that it has in another instance."""
        if not isinstance(value, Struct) or type(value)._type != type(self)._type:
            raise TypeError(f"{type(self).__name__} is assigned another, not {type(value).__name__}")
        for name in type(self)._fields:
            setattr(self, name, getattr(value, name))

    def to(self, device: Any) -> Any:
        """A copy, with the same arrays: there is one device."""
        get_device(device)
        return copy_of(self)

    def __ctype__(self) -> Any:
        """A copy, as `set_param_at_index_from_ctype` of a recorded launch takes it."""
        return copy_of(self)

    def numpy_value(self) -> tuple[Any, ...]:
        """The values of the fields as NumPy takes an element of `numpy_dtype`."""
        type(self).numpy_dtype()
        return record(self)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={plain(getattr(self, name))!r}" for name in type(self)._fields)
        return f"{type(self).__name__}({fields})"


def struct(cls: type[T]) -> type[T]:
    """Makes a class with annotated fields a type of kernels.

    A field is a scalar, a vector or the like, an array, or another struct. An instance begins with zeros; fields are
    read and assigned by name, inside kernels and outside. Assigning a struct, to a variable or to an element of an
    array, copies it; its arrays are shared.

    Examples
    --------
    >>> import polyloom as loom
    >>> @loom.struct
    ... class Body:
    ...     mass: float
    ...     position: loom.vec3
    >>> body = Body()
    >>> body.mass, body.position = 2.0, (0, 0, 1)
    >>> body
    Body(mass=2.0, position=vec3([0.0, 0.0, 1.0]))
    >>> bodies = loom.array([body, Body()], dtype=Body)
    >>> @loom.kernel
    ... def drop(bodies: loom.array(dtype=Body), by: float):
    ...     i = loom.tid()
    ...     bodies[i].position.z -= by * bodies[i].mass
    >>> loom.launch(drop, 2, [bodies, 0.25])
    >>> bodies[0].position, bodies.numpy()["mass"]
    (vec3([0.0, 0.0, 0.5]), array([2., 0.], dtype=float32))
    """
    if isinstance(cls, StructClass) and "_type" not in vars(cls):
        raise _has_base(cls)
    if isinstance(cls, StructClass):
        raise TypeError(f"{cls.__name__} is a struct already: decorate it once")
    if not isinstance(cls, type):
        raise TypeError(f"@struct takes a class, not {cls!r}")
    if cls.__bases__ != (object,):
        raise _has_base(cls)
    scope = sys._getframe(1).f_locals
    annotations = inspect.get_annotations(cls, locals=dict(scope) | vars(cls), eval_str=True)
    for name, annotation in annotations.items():
        if isinstance(annotation, Absent):
            sentence = f"the struct {cls.__name__} cannot be used: its field {name!r} is of what {annotation.__doc__}"
            warnings.warn(sentence, SyntaxWarning, stacklevel=2)
            return RefusedStruct(cls.__name__, sentence)  # type: ignore[return-value]
    fields = {name: _field_type(cls, name, annotation) for name, annotation in annotations.items()}
    for name in fields:
        if hasattr(cls, name):
            message = f"the field {name!r} of {cls.__name__} has a default, which is not used: a new one is all zeros"
            warnings.warn(message, stacklevel=2)
    try:
        ty = _native.StructType(cls.__name__, list(fields.items()))
    except (TypeError, ValueError) as error:
        raise type(error)(f"@struct: {error}") from None
    left_out = ("__dict__", "__weakref__")
    members = {name: value for name, value in vars(cls).items() if name not in left_out}
    members.update(_type=ty, _fields=fields, _dtype=numpy_dtype_of(fields))
    made: Any = StructClass(cls.__name__, (Struct,), members)
    # Definitions that are equal are one type of the compiler; the arrays of any of them are arrays of all.
    _classes.setdefault(ty, made)
    return made  # type: ignore[no-any-return]


def _has_base(cls: type) -> StructError:
    return StructError(
        f"the struct {cls.__name__} has a base class: declare all fields in the struct itself. Warp structs must be "
        "defined as base classes"
    )


_classes: dict[_native.StructType, StructClass] = {}

# Of an array in a struct in an array, as Warp has it.
_ARRAY_FIELD = np.dtype(
    [("data", "u8"), ("grad", "u8"), ("shape", "i4", 4), ("strides", "i4", 4), ("ndim", "i4")], align=True
)


def numpy_dtype_of(fields: Mapping[str, Any]) -> np.dtype[Any] | None:
    """The type of NumPy's elements with these fields; None without any."""
    return np.dtype([(name, *_numpy_field(ty)) for name, ty in fields.items()], align=True) if fields else None


def class_of_struct(ty: _native.StructType) -> Any:
    """The class of a struct that the compiler knows as this type; None of structs with arrays, which arrays do not
    hold, and of indexed arrays."""
    found = _classes.get(ty)
    return None if found is None or ty.array_within else found


def struct_of(dtype: np.dtype[Any]) -> _native.StructType | None:
    """The struct whose arrays have elements of this type, if it is just one."""
    found = [ty for ty, cls in _classes.items() if cls._fields and cls._dtype == dtype and not ty.array_within]
    return found[0] if len(found) == 1 else None


def _field_type(cls: type, name: str, annotation: Any) -> Any:
    if isinstance(annotation, (CompositeClass, StructClass)) and hasattr(annotation, "_type"):
        return annotation
    if hasattr(annotation, "ndim") and hasattr(annotation, "dtype") and not isinstance(annotation, type):
        return annotation
    try:
        return dtype_of(annotation)
    except TypeError:
        message = f"the field {name!r} of {cls.__name__} is annotated with {annotation!r}, which is no type of kernels"
        raise TypeError(message) from None


def _numpy_field(ty: Any) -> tuple[Any, ...]:
    if isinstance(ty, StructClass):
        return (ty.numpy_dtype() if ty._fields else np.dtype([]),)
    if isinstance(ty, CompositeClass):
        return (ty._wp_scalar_type_.numpy, ty._shape_)
    return (ty.numpy,) if isinstance(ty, DType) else (_ARRAY_FIELD,)


def _zero(ty: Any) -> Any:
    if isinstance(ty, StructClass):
        return ty()
    if isinstance(ty, CompositeClass):
        return ty(*(0,) * ty._length_)
    if isinstance(ty, DType):
        # As in Warp: it says its type until it is assigned a number that has none.
        return False if ty is bool_ else ty()
    return None


def _field_value(ty: Any, value: Any) -> Any:
    """A value as a field of this type holds it; what is wrong with it as the end of a sentence."""
    if isinstance(ty, StructClass):
        is_indexed = hasattr(ty, "dtype")
        if is_indexed and hasattr(type(value), "_fields") and hasattr(value, "indices"):
            _check_elements(ty, value.dtype, value.ndim)
        elif is_indexed and not isinstance(value, Struct):
            raise TypeError(f"expects a Warp indexed array, got {type(value).__name__}")
        if not isinstance(value, Struct) or type(value)._type != ty._type:
            raise TypeError(f"must be {ty.__name__}, not {type(value).__name__}")
        return copy_of(value)
    if isinstance(ty, CompositeClass):
        return argument(ty._type, value) if type(value) is not ty else ty._of(value._values())
    if isinstance(ty, DType):
        return _scalar_value(ty, value)
    return _array_value(ty, value)


def _scalar_value(ty: DType, value: Any) -> Any:
    try:
        number = _converted(value.item() if isinstance(value, np.generic) else value, ty)
    except TypeError:
        raise TypeError(f"must be {ty.name}, not {type(value).__name__}") from None
    except OverflowError as error:
        raise OverflowError(f"is {error}") from None
    if type(value) is ty and ty is not bool_:
        return value
    if ty is bool_ or ty is bfloat16:
        return number
    with np.errstate(over="ignore"):  # beyond the type's largest number is infinity
        return ty.numpy.type(number).item()


def plain(value: Any) -> Any:
    """A number without its type."""
    return value.value if isinstance(value, TypedConstant) else value


def _array_value(ty: Any, value: Any) -> Any:
    from polyloom._arrays import array  # noqa: PLC0415 - which needs this module

    if value is None:
        return None
    if isinstance(value, array):
        _check_elements(ty, value.dtype, value.ndim)
    elif not any(hasattr(value, name) for name in ("__array_interface__", "__dlpack__")):
        raise TypeError(f"expects a Warp array, got {type(value).__name__}: make one of it with loom.array(…)")
    return value


def _check_elements(ty: Any, dtype: Any, ndim: int) -> None:
    """Refuses an array of another type for a field."""
    if _name(dtype) != _name(ty.dtype):
        raise TypeError(f"expects dtype {_name(ty.dtype)}, got {_name(dtype)}")
    if ndim != ty.ndim:
        raise TypeError(f"expects an array with {ty.ndim} dimension(s), got {ndim} dimension(s)")


def _name(dtype: Any) -> str:
    return str(dtype.__name__ if isinstance(dtype, type) else dtype.name)


def copy_of(value: Any) -> Any:
    """A struct with the same values in its fields, and the same arrays."""
    made: Any = object.__new__(type(value))
    for name, ty in type(value)._fields.items():
        field = getattr(value, name)
        if isinstance(ty, StructClass):
            field = copy_of(field)
        elif isinstance(ty, CompositeClass):
            field = class_of(ty._type)._of(field._values())
        object.__setattr__(made, name, field)
    return made


def record(value: Any) -> tuple[Any, ...]:
    """A struct as NumPy takes an element of its `numpy_dtype`."""
    fields = []
    for name, ty in type(value)._fields.items():
        field = getattr(value, name)
        if isinstance(ty, StructClass):
            field = record(field)
        elif isinstance(ty, CompositeClass):
            field = field._storage.tolist() if ty._wp_scalar_type_ is not bfloat16 else field._storage
        elif isinstance(ty, DType):
            field = plain(field)
        else:
            field = _place_of(field)
        fields.append(field)
    return tuple(fields)


def _place_of(value: Any) -> tuple[Any, ...]:
    """Where an array is, as `_ARRAY_FIELD` has it; zeros of one that is not set."""
    if value is None:
        return (0, 0, (0,) * 4, (0,) * 4, 0)
    storage = getattr(value, "_storage", None)
    ndim = getattr(value, "ndim", 0)
    storage = np.asarray(value) if storage is None else storage
    grad = value.grad if getattr(value, "requires_grad", False) else None
    extents, strides = storage.shape[:ndim], storage.strides[:ndim]
    unused = (0,) * (4 - ndim)
    address = int(storage.ctypes.data) if storage.size else 0
    return (address, 0 if grad is None else grad.ptr or 0, (*extents, *unused), (*strides, *unused), ndim)


def arrays_of(value: Any) -> Iterator[tuple[Any, Any]]:
    """The arrays that structs hold, each with what `of_record` finds it by."""
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from arrays_of(each)
    elif isinstance(value, Struct):
        for name, ty in type(value)._fields.items():
            field = getattr(value, name)
            if isinstance(ty, StructClass):
                yield from arrays_of(field)
            elif field is not None and not isinstance(ty, (CompositeClass, DType)):
                yield _key_of(_place_of(field)), field


def _key_of(place: Any) -> Any:
    address, _, extents, strides, ndim = place
    return int(address), tuple(map(int, extents)), tuple(map(int, strides)), int(ndim)


def records(value: Any, cls: StructClass) -> NDArray[Any]:
    """Structs, nested lists of them or a NumPy array, as an array of the struct's `numpy_dtype`."""
    dtype = cls.numpy_dtype()
    if hasattr(value, "__array__") and not isinstance(value, np.ndarray):
        value = np.asarray(value)
    if isinstance(value, np.ndarray) and value.dtype != object:
        if value.dtype == dtype:
            return value
        if value.dtype.names != dtype.names:
            raise TypeError(f"elements of type {value.dtype} are no structs {cls.__name__}")
        return value.astype(dtype)
    return np.array(_nested(value, cls), dtype)


def _nested(value: Any, cls: StructClass) -> Any:
    if isinstance(value, Struct):
        if type(value)._type != cls._type:
            raise TypeError(f"an element is {cls.__name__}, not {type(value).__name__}")
        return record(value)
    if isinstance(value, np.void):
        return value
    if isinstance(value, (list, np.ndarray)) or (isinstance(value, Sequence) and not isinstance(value, (str, bytes))):
        return [_nested(item, cls) for item in value]
    raise TypeError(f"an element is {cls.__name__}, not {type(value).__name__}")


def of_record(cls: Any, element: Any, held: Mapping[Any, Any]) -> Any:
    """The struct that an element of an array of its `numpy_dtype` is; its arrays are among those that the array has
    been given."""
    made: Any = object.__new__(cls)
    for name, ty in cls._fields.items():
        field = element[name]
        if isinstance(ty, StructClass):
            field = of_record(ty, field, held)
        elif isinstance(ty, CompositeClass):
            field = class_of(ty._type)._of(np.array(field, ty._wp_scalar_type_.numpy))
        elif isinstance(ty, DType):
            field = field.item()
        else:
            field = held.get(_key_of(field.item()))
        object.__setattr__(made, name, field)
    return made


def leaves(ty: _native.StructType, value: Any) -> list[Any]:
    """A launch's argument of this type, leaf by leaf."""
    if value is None and ty.name.startswith("indexedarray("):
        from polyloom._indexed import class_of_type  # noqa: PLC0415 - which needs this module

        value = class_of_type(ty)()
    if not isinstance(value, Struct) or type(value)._type != ty:
        given = type(value).__name__
        other = " of other fields" if given == ty.name else ""
        if value is None:
            raise TypeError(f"expects {ty.name} but got None: make one with {ty.name}()")
        raise TypeError(f"must be {ty.name}, not {given}{other}: make one with {ty.name}()")
    found: list[Any] = []
    _collect(value, found, "")
    return found


def _collect(value: Any, found: list[Any], path: str) -> None:
    for name, ty in type(value)._fields.items():
        field = getattr(value, name)
        if isinstance(ty, StructClass):
            _collect(field, found, f"{path}{name}.")
        elif isinstance(ty, (CompositeClass, DType)):
            found.append(field)
        elif isinstance(ty.dtype, StructClass):
            try:
                found.extend(array_leaves(ty.dtype._type, ty.ndim, _empty(ty) if field is None else field))
            except (TypeError, ValueError) as error:
                raise type(error)(f"has a field '{path}{name}' that {error}") from None
        else:
            found.append(_empty(ty) if field is None else field)


def _empty(ty: Any) -> NDArray[Any]:
    """What kernels see of an array that is not set: none of its elements."""
    dtype, *inner = (ty.dtype.numpy_dtype(),) if isinstance(ty.dtype, StructClass) else _numpy_field(ty.dtype)
    return np.zeros((0,) * ty.ndim + (inner[0] if inner else ()), dtype)


def array_leaves(ty: _native.StructType, ndim: int, value: Any) -> list[Any]:
    """A launch's argument that is an array of structs, leaf by leaf: views of its fields."""
    from polyloom._arrays import array  # noqa: PLC0415 - which needs this module

    cls = _classes[ty]
    if isinstance(value, array):
        known = value._leaves
        if known is not None and isinstance(value.dtype, StructClass) and value.dtype._type == ty:
            if value.ndim == ndim:
                return known
        storage = value._storage
    elif isinstance(value, np.ndarray):
        storage = value
    elif hasattr(value, "__array_interface__"):
        storage = np.asarray(value)
    else:
        help_ = f"make one of it before the launch with loom.array(…, dtype={ty.name})"
        raise TypeError(f"must be an array of {ty.name}, not {type(value).__name__}: {help_}")
    if storage.dtype != cls.numpy_dtype():
        given = _name(value.dtype) if isinstance(value, array) else storage.dtype
        raise TypeError(f"must have elements of type {ty.name}, not {given}: make it with dtype={ty.name}")
    if storage.ndim != ndim:
        raise TypeError(f"must have {ndim} dimension{'s' if ndim > 1 else ''}, not {storage.ndim}")
    found: list[Any] = []
    _views(storage, cls, found)
    if isinstance(value, array):
        if value._memory is not None:
            found = [_native.ArrayBase(field, None, value._memory) for field in found]
        value._leaves = found
    return found


def _views(storage: NDArray[Any], cls: StructClass, found: list[Any]) -> None:
    for name, ty in cls._fields.items():
        if isinstance(ty, StructClass):
            _views(storage[name], ty, found)
        else:
            found.append(storage[name])
