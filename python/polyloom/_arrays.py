"""Arrays.

`array` is both the annotation of a kernel parameter (`array(dtype=float32, ndim=2)`) and, given data or a shape, an
array in memory: a thin owner of a NumPy array. An array of vectors or matrices owns an array of their components, the
last axes of which are an element's.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import numpy as np

from polyloom import _native
from polyloom._composites import Composite, CompositeClass, GenericComposite, is_open, matrix, vector
from polyloom._devices import Device, DeviceLike, check_no_stream, get_device
from polyloom._scalars import DType, DTypeLike, TypedConstant, bool_, dtype_of, float32, int32, readable, stored
from polyloom._structs import StructClass, of_record, records

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
    "from_ptr",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "ref",
    "zeros",
    "zeros_like",
]

# What an array's elements are: a scalar type, a class such as `vec3`, or a struct.
ElementType = DType | CompositeClass | StructClass
ElementTypeLike = DTypeLike | CompositeClass | StructClass


def _element_type(value: ElementTypeLike) -> ElementType:
    if isinstance(value, (CompositeClass, StructClass)) and hasattr(value, "_type"):
        return value
    return dtype_of(value)


def _scalar(dtype: ElementType) -> DType:
    """The type of what is stored, of an array that is not of structs."""
    if isinstance(dtype, StructClass):
        raise TypeError(f"{dtype.__name__} is a struct, which has no components")
    return dtype._wp_scalar_type_ if isinstance(dtype, CompositeClass) else dtype


def _numpy(dtype: ElementType) -> np.dtype[Any]:
    """NumPy's type of what is stored."""
    return dtype.numpy_dtype() if isinstance(dtype, StructClass) else _scalar(dtype).numpy


def _inner(dtype: ElementType) -> tuple[int, ...]:
    """The extents of an element's components."""
    return dtype._shape_ if isinstance(dtype, CompositeClass) else ()


def _name(dtype: ElementType) -> str:
    return dtype.name if isinstance(dtype, DType) else dtype.__name__


def _elements(value: Any, dtype: ElementType) -> Any:
    """`value`, an element or array-like, as NumPy can store it in an array of `dtype`."""
    if isinstance(dtype, StructClass):
        return records(value.numpy() if isinstance(value, array) else value, dtype)
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
        is_one = isinstance(self.dtype, (DType, CompositeClass))
        name = "Any" if self.dtype is Any else _name(self.dtype) if is_one else repr(self.dtype)
        return f"polyloom.array(dtype={name}, ndim={self.ndim})"


class ReferenceAnnotation:
    """The type of a parameter by reference: what `ref[float]` means in a signature."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"polyloom.ref[{getattr(self.dtype, '__name__', self.dtype)}]"


class ref:  # noqa: N801 - the kernel language's name
    """`ref[T]` annotates a parameter of a function that changes the caller's variable.

    Examples
    --------
    >>> import polyloom as loom
    >>> @loom.func
    ... def double(x: loom.ref[float]):
    ...     x *= 2.0
    >>> @loom.kernel
    ... def double_all(a: loom.array(dtype=float)):
    ...     double(a[loom.tid()])
    >>> a = loom.array([1.0, 2.0], dtype=float)
    >>> loom.launch(double_all, a.shape, [a])
    >>> a
    array([2., 4.], dtype=float32)
    """

    def __class_getitem__(cls, dtype: Any) -> ReferenceAnnotation:
        return ReferenceAnnotation(dtype)


def _operator(builtin: str, swapped: bool = False, in_place: bool = False) -> Callable[..., Any]:
    """An operator of arrays: the builtin of this name for each element, as kernels compute it."""

    def operate(self: array, *others: Any) -> Any:
        from polyloom import _builtins
        from polyloom._map import map

        if not all(
            isinstance(each, (int, float, np.generic, array, np.ndarray, Composite, TypedConstant)) for each in others
        ):
            return NotImplemented
        if _scalar(self.dtype).numpy.kind == "f":
            others = tuple(float(each) if type(each) is int else each for each in others)
        operands = (*others, self) if swapped else (self, *others)
        return map(getattr(_builtins, builtin), *operands, out=self if in_place else None)

    return operate


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
    device : str, optional
        `"cpu"`.
    requires_grad : bool
        Kept as an attribute; nothing computes gradients yet.
    pinned : bool
        Without effect, as on every device that is the CPU.
    ptr : int, optional
        Address of the first element of memory to see as an array of `shape`; the memory must outlive the array.
    strides : int or tuple of int, optional
        With `ptr`, distances in bytes between neighbours along each axis.

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
    requires_grad: bool = False
    pinned: bool = False
    grad: None = None
    # Of an array of structs, the views of their fields that launches are given, once one has made them.
    _leaves: list[Any] | None

    def __new__(
        cls,
        data: Any = None,
        dtype: ElementTypeLike | None = None,
        shape: int | Sequence[int] | None = None,
        ndim: int | None = None,
        copy: bool = True,
        device: DeviceLike = None,
        requires_grad: bool = False,
        pinned: bool = False,
        ptr: int | None = None,
        strides: int | Sequence[int] | None = None,
    ) -> Any:
        get_device(device)
        if ptr is not None:
            if data is not None or shape is None:
                raise TypeError("array() over memory at an address takes a shape and no data")
            return _at(ptr, _extents(shape), _element_type(float32 if dtype is None else dtype), strides)
        if strides is not None:
            raise TypeError("array() takes strides of memory at an address, ptr, alone")
        made = cls._made(data, dtype, shape, ndim, copy)
        if requires_grad and isinstance(made, array):
            made.requires_grad = True
        return made

    @classmethod
    def _made(
        cls,
        data: Any,
        dtype: ElementTypeLike | None,
        shape: int | Sequence[int] | None,
        ndim: int | None,
        copy: bool,
    ) -> Any:
        if shape is None and (is_open(data) or isinstance(data, (type, DType, GenericComposite))):
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
            if not is_open(dtype) and not isinstance(dtype, GenericComposite):
                dtype = _element_type(dtype)
            return ArrayAnnotation(dtype, n)
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
        if isinstance(wanted, StructClass):
            source = records(source.numpy() if isinstance(source, array) else source, wanted)
        elif wanted is not None:
            given = _scalar(source.dtype) if isinstance(source, array) else None
            source = stored(source.numpy() if isinstance(source, array) else source, given, _scalar(wanted))
        element = None if wanted is None else _numpy(wanted)
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
        if get_origin(ndim) is Literal:  # type: ignore[comparison-overlap]
            (ndim,) = get_args(ndim)
        return cls(dtype=dtype, ndim=ndim)

    @classmethod
    def _wrap(cls, storage: NDArray[Any], dtype: ElementType | None = None) -> array:
        element = dtype._type if isinstance(dtype, CompositeClass) else None
        ndim = storage.ndim - (0 if element is None else len(element.shape))
        if not 1 <= ndim <= 4:
            raise ValueError(f"an array has 1 to 4 dimensions, not {ndim}")
        self: array = _native.ArrayBase.__new__(cls, storage, element)
        self._leaves = None
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
    def capacity(self) -> int:
        """Bytes from the first element to the end of the last."""
        storage = self.numpy()
        reach = [step * (extent - 1) for step, extent in zip(storage.strides, storage.shape, strict=True) if step > 0]
        return sum(reach) + storage.itemsize if storage.size else 0

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements follow each other in memory."""
        return bool(self.numpy().flags.c_contiguous)

    @property
    def device(self) -> Device:
        """Where the elements are."""
        return get_device()

    @property
    def T(self) -> array:  # noqa: N802 - NumPy's name
        """The array with its axes in reverse order, over the same memory."""
        return self.transpose()

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
        if isinstance(self.dtype, StructClass):
            return array._wrap(item, self.dtype) if isinstance(item, np.ndarray) else of_record(self.dtype, item)
        if isinstance(self.dtype, CompositeClass):
            if item.ndim == len(self.dtype._shape_):
                return self.dtype(readable(item, self.dtype._wp_scalar_type_))
        elif not isinstance(item, np.ndarray) or not item.ndim:
            return readable(np.asarray(item), self.dtype)[()]
        return array._wrap(item, self.dtype)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.numpy()[self._key(index)] = _elements(value, self.dtype)

    def __str__(self) -> str:
        return str(self.numpy())

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

    __add__ = _operator("add")
    __sub__ = _operator("sub")
    __mul__ = _operator("mul")
    __truediv__ = _operator("div")
    __floordiv__ = _operator("floordiv")
    __mod__ = _operator("mod")
    __pow__ = _operator("pow")
    __radd__ = _operator("add", swapped=True)
    __rsub__ = _operator("sub", swapped=True)
    __rmul__ = _operator("mul", swapped=True)
    __rtruediv__ = _operator("div", swapped=True)
    __rfloordiv__ = _operator("floordiv", swapped=True)
    __rmod__ = _operator("mod", swapped=True)
    __rpow__ = _operator("pow", swapped=True)
    __iadd__ = _operator("add", in_place=True)
    __isub__ = _operator("sub", in_place=True)
    __imul__ = _operator("mul", in_place=True)
    __itruediv__ = _operator("div", in_place=True)
    __ifloordiv__ = _operator("floordiv", in_place=True)
    __imod__ = _operator("mod", in_place=True)
    __ipow__ = _operator("pow", in_place=True)
    __neg__ = _operator("neg")

    def fill_(self, value: Any) -> array:
        """Sets every element to `value` and gives the array."""
        self.numpy()[...] = _elements(value, self.dtype)
        return self

    def zero_(self) -> array:
        """Sets every element to 0 and gives the array."""
        if isinstance(self.dtype, StructClass):
            self.numpy()[...] = np.zeros((), self.dtype.numpy_dtype())
            return self
        return self.fill_(0)

    def assign(self, source: Any) -> array:
        """Copies the elements of `source`, of the same shape, into this array and gives it."""
        self.numpy()[...] = _elements(source, self.dtype)
        return self

    def reshape(self, shape: int | Sequence[int]) -> array:
        """The same elements, over the same memory, with these extents, of which one may be -1.

        Examples
        --------
        >>> import polyloom as loom
        >>> loom.zeros((2, 6), dtype=loom.vec3).reshape((3, -1)).shape
        (3, 4)
        """
        inner = _inner(self.dtype)
        extents = _extents(shape)
        known = math.prod(extent for extent in extents if extent >= 0)
        if extents.count(-1) == 1 and known and self.size % known == 0:
            extents = tuple(self.size // known if extent == -1 else extent for extent in extents)
        if min(extents, default=-1) < 0 or math.prod(extents) != self.size:
            raise ValueError(f"an array of shape {self.shape} cannot have the shape {_extents(shape)}")
        if not self.is_contiguous:
            raise ValueError("the elements do not follow each other in memory: reshape array.contiguous()")
        return array._wrap(self.numpy().reshape(extents + inner), self.dtype)

    def flatten(self) -> array:
        """The same elements, over the same memory, along one axis."""
        return self.reshape(self.size)

    def view(self, dtype: ElementTypeLike) -> array:
        """The same memory as elements of another type of the same size.

        Examples
        --------
        >>> import polyloom as loom
        >>> loom.ones(1, dtype=float).view(loom.uint32).numpy()
        array([1065353216], dtype=uint32)
        """
        wanted = _element_type(dtype)
        sizes = [_numpy(each).itemsize * math.prod(_inner(each)) for each in (self.dtype, wanted)]
        if sizes[0] != sizes[1]:
            raise ValueError(
                f"{_name(self.dtype)} has {sizes[0]} bytes and {_name(wanted)} has {sizes[1]}: "
                "elements are seen as others of the same size"
            )
        if not self.is_contiguous:
            raise ValueError("the elements do not follow each other in memory: view array.contiguous()")
        bits = self.numpy().reshape(-1).view(_numpy(wanted))
        return array._wrap(bits.reshape(self.shape + _inner(wanted)), wanted)

    def contiguous(self) -> array:
        """This array if its elements follow each other in memory, else a copy whose elements do."""
        return self if self.is_contiguous else clone(self)

    def transpose(self, axes: Sequence[int] | None = None) -> array:
        """The array with its axes in another order, by default reversed, over the same memory."""
        n = self.ndim
        order = tuple(range(n))[::-1] if axes is None else tuple(axes)
        if sorted(order) != list(range(n)):
            raise ValueError(f"the axes of an array of {n} dimensions are 0 to {n - 1}, each once, not {order}")
        storage = self.numpy()
        return array._wrap(storage.transpose(*order, *range(n, storage.ndim)), self.dtype)

    def list(self) -> list[Any]:
        """The elements, row by row, as Python values."""
        storage = self.numpy()
        flat = storage.reshape((self.size, *storage.shape[self.ndim :]))
        if isinstance(self.dtype, StructClass):
            return [of_record(self.dtype, element) for element in flat]
        if isinstance(self.dtype, CompositeClass):
            made: Any = self.dtype
            return [made._of(element) for element in flat]
        return readable(flat, self.dtype).tolist()  # type: ignore[no-any-return]

    def to(self, device: DeviceLike, requires_grad: bool | None = None) -> array:
        """This array: there is one device."""
        get_device(device)
        return self


def _at(ptr: int, extents: tuple[int, ...], dtype: ElementType, strides: int | Sequence[int] | None) -> array:
    """The array of these extents at an address."""
    scalar, inner = _numpy(dtype), _inner(dtype)
    within = tuple(scalar.itemsize * math.prod(inner[axis + 1 :]) for axis in range(len(inner)))
    size = scalar.itemsize * math.prod(inner)
    if strides is None:
        steps = tuple(size * math.prod(extents[axis + 1 :]) for axis in range(len(extents)))
    else:
        steps = _extents(strides)
        if len(steps) != len(extents):
            raise ValueError(f"{len(steps)} strides for {len(extents)} dimensions")
        if min(steps, default=0) < 0:
            raise ValueError("strides of memory at an address are not negative")
    reach = size + sum(step * (extent - 1) for step, extent in zip(steps, extents, strict=True))
    if not math.prod(extents):
        return array._wrap(np.empty(extents + inner, scalar), dtype)
    if not ptr:
        raise ValueError("there is no array at address 0")
    memory: Any = (ctypes.c_byte * reach).from_address(ptr)
    return array._wrap(np.ndarray(extents + inner, scalar, memory, 0, steps + within), dtype)


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


Shape = int | Sequence[int]


def _extents(shape: Shape) -> tuple[int, ...]:
    try:
        return tuple(shape)  # type: ignore[arg-type]
    except TypeError:
        return (shape,)  # type: ignore[return-value]


def empty(
    shape: Shape,
    dtype: ElementTypeLike = float32,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pinned: bool = False,
) -> array:
    """An uninitialised array.

    Parameters
    ----------
    shape : int or tuple of int
        Extents, 1 to 4 of them.
    dtype : scalar type or class such as `vec3`
        Element type.
    device : str, optional
        `"cpu"`.
    requires_grad : bool
        Kept as an attribute; nothing computes gradients yet.
    pinned : bool
        Without effect.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.empty((2, 3)).shape
    (2, 3)
    """
    return _allocated(np.empty, shape, dtype, device, requires_grad)


def zeros(
    shape: Shape,
    dtype: ElementTypeLike = float32,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pinned: bool = False,
) -> array:
    """An array of zeros; parameters as for `empty`.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.zeros(3, dtype=int).numpy()
    array([0, 0, 0], dtype=int32)
    """
    return _allocated(np.zeros, shape, dtype, device, requires_grad)


def _allocated(
    make: Callable[..., NDArray[Any]], shape: Shape, dtype: ElementTypeLike, device: DeviceLike, requires_grad: bool
) -> array:
    get_device(device)
    wanted = _element_type(dtype)
    made = array._wrap(make(_extents(shape) + _inner(wanted), _numpy(wanted)), wanted)
    if requires_grad:
        made.requires_grad = True
    return made


def ones(
    shape: Shape,
    dtype: ElementTypeLike = float32,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pinned: bool = False,
) -> array:
    """An array of ones; parameters as for `empty`."""
    return full(shape, 1, dtype, device, requires_grad)


def full(
    shape: Shape,
    value: Any = 0,
    dtype: ElementTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pinned: bool = False,
) -> array:
    """An array filled with `value`; `float32`, `int32` or `vec3` by the value's type unless `dtype` says otherwise.

    Examples
    --------
    >>> import polyloom as loom
    >>> loom.full(2, 1.5).numpy()
    array([1.5, 1.5], dtype=float32)
    """
    return empty(shape, type(value) if dtype is None else dtype, device, requires_grad).fill_(value)


def from_numpy(
    arr: NDArray[Any],
    dtype: ElementTypeLike | None = None,
    shape: Shape | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> array:
    """An array over a NumPy array's own memory; copied only if `dtype` asks for another element type.

    Parameters
    ----------
    arr : numpy.ndarray
        The elements.
    dtype : scalar type or class such as `vec3`, optional
        Element type; that of `arr` by default. If it is not given but `shape` is, the axes of `arr` that `shape` leaves
        over are an element's: one makes vectors, two make matrices.
    shape : int or tuple of int, optional
        Extents.
    device, requires_grad
        As for `empty`.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> x = np.zeros(2, np.float32)
    >>> _ = loom.from_numpy(x).fill_(7)
    >>> x
    array([7., 7.], dtype=float32)
    """
    if dtype is None and shape is not None:
        inner = np.shape(arr)[len(_extents(shape)) :]
        if len(inner) in (1, 2) and np.shape(arr) == _extents(shape) + inner:
            scalar = dtype_of(arr.dtype)
            dtype = vector(inner[0], scalar) if len(inner) == 1 else matrix(inner, scalar)
    return array(  # type: ignore[no-any-return]
        arr, dtype=dtype, shape=shape, copy=False, device=device, requires_grad=requires_grad
    )


def from_ptr(
    ptr: int,
    length: int,
    dtype: ElementTypeLike | None = None,
    shape: Shape | None = None,
    device: DeviceLike = None,
) -> array:
    """An array over memory at an address, which must outlive it.

    Parameters
    ----------
    ptr : int
        Address of the first element.
    length : int
        Number of elements, unless `shape` is given.
    dtype : scalar type or class such as `vec3`, optional
        Element type; `float32` by default.
    shape : int or tuple of int, optional
        Extents.
    device : str, optional
        `"cpu"`.
    """
    wanted = length if shape is None else shape
    return array(ptr=ptr, dtype=dtype, shape=wanted, device=device)  # type: ignore[no-any-return]


def empty_like(
    src: Any, device: DeviceLike = None, requires_grad: bool | None = None, pinned: bool | None = None
) -> array:
    """An uninitialised array with the shape and type of `src`."""
    src = src if isinstance(src, array) else from_numpy(np.asarray(src))
    needs_grad = src.requires_grad if requires_grad is None else requires_grad
    return empty(src.shape, src.dtype, device, needs_grad)


def zeros_like(
    src: Any, device: DeviceLike = None, requires_grad: bool | None = None, pinned: bool | None = None
) -> array:
    """An array of zeros with the shape and type of `src`."""
    return empty_like(src, device, requires_grad).zero_()


def ones_like(
    src: Any, device: DeviceLike = None, requires_grad: bool | None = None, pinned: bool | None = None
) -> array:
    """An array of ones with the shape and type of `src`."""
    return empty_like(src, device, requires_grad).fill_(1)


def full_like(
    src: Any, value: Any, device: DeviceLike = None, requires_grad: bool | None = None, pinned: bool | None = None
) -> array:
    """An array filled with `value` with the shape and type of `src`."""
    return empty_like(src, device, requires_grad).fill_(value)


def clone(src: Any, device: DeviceLike = None, requires_grad: bool | None = None, pinned: bool | None = None) -> array:
    """A new array with the elements of `src`."""
    return empty_like(src, device, requires_grad).assign(src)


def copy(dest: Any, src: Any, dest_offset: int = 0, src_offset: int = 0, count: int = 0, stream: Any = None) -> None:
    """Copies elements of `src` into `dest`.

    Arrays of the same shape are copied whole. Otherwise, and with offsets or a count, elements are counted row by row,
    and both arrays must have theirs one after the other in memory.

    Parameters
    ----------
    dest, src : array or numpy.ndarray
        Where to, and where from.
    dest_offset, src_offset : int
        Elements to skip.
    count : int
        Number of elements; all of `src` that follow its offset if it is 0.

    Examples
    --------
    >>> import polyloom as loom
    >>> x = loom.zeros(4)
    >>> loom.copy(x, loom.array([1.0, 2.0, 3.0]), dest_offset=1, src_offset=1)
    >>> x.numpy()
    array([0., 2., 3., 0.], dtype=float32)
    """
    check_no_stream(stream)
    dest = dest if isinstance(dest, array) else from_numpy(dest)
    src = src if isinstance(src, array) else from_numpy(np.asarray(src))
    if not (dest_offset or src_offset or count) and dest.shape == src.shape:
        dest.assign(src)
        return
    if min(dest_offset, src_offset, count) < 0:
        raise ValueError("offsets and count are not negative")
    n = count or src.size - src_offset
    for name, each, offset in (("source", src, src_offset), ("destination", dest, dest_offset)):
        if offset + n > each.size or n < 0:
            raise ValueError(f"{n} elements from number {offset} are more than the {name} has, {each.size}")
    if n:
        dest.flatten()[dest_offset : dest_offset + n] = src.flatten()[src_offset : src_offset + n]
