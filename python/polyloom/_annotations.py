"""What annotates the parameters of kernels and functions."""

from __future__ import annotations

from typing import Any, Union

from polyloom._composites import CompositeClass
from polyloom._scalars import DType


class ArrayAnnotation:
    """The type of an array parameter: what `array(dtype=…, ndim=…)` means in a signature.

    Programs may keep attributes of their own on it, such as what its extents mean to them.
    """

    # Whether arguments are indexed arrays.
    is_indexed = False

    def __init__(self, dtype: Any, ndim: int) -> None:
        self.dtype = dtype
        self.ndim = ndim

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArrayAnnotation):
            return NotImplemented
        same = self.ndim == other.ndim and self.is_indexed == other.is_indexed
        return same and bool(self.dtype == other.dtype)

    def __hash__(self) -> int:
        return hash((type(self), self.dtype, self.ndim))

    def __or__(self, other: Any) -> Any:
        return Union[self, other]  # noqa: UP007 - which would come back here

    def __ror__(self, other: Any) -> Any:
        return Union[other, self]  # noqa: UP007 - which would come back here

    # Without which `typing` takes it for no type.
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        raise TypeError(f"{self!r} is the type of a parameter, and makes no array: write polyloom.array(data)")

    def __repr__(self) -> str:
        is_one = isinstance(self.dtype, (DType, CompositeClass))
        name = "Any" if self.dtype is Any else name_of(self.dtype) if is_one else repr(self.dtype)
        return f"polyloom.{'indexed' * self.is_indexed}array(dtype={name}, ndim={self.ndim})"


class IndexedArrayAnnotation(ArrayAnnotation):
    """The type of an indexed array whose element type is left to the call: `indexedarray(dtype=Any)` in a signature."""

    is_indexed = True


class ReferenceAnnotation:
    """The type of a parameter by reference: what `ref[float]` means in a signature."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    @property
    def value_type(self) -> Any:
        """The type of what is referred to."""
        return self.dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReferenceAnnotation) and bool(self.dtype == other.dtype)

    def __hash__(self) -> int:
        return hash((ReferenceAnnotation, self.dtype))

    def __repr__(self) -> str:
        return f"polyloom.ref[{getattr(self.dtype, '__name__', self.dtype)}]"


def name_of(dtype: Any) -> str:
    """What the type of an array's elements is called."""
    return str(dtype.name if isinstance(dtype, DType) else dtype.__name__)
