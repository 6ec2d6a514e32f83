"""What annotates the parameters of kernels and functions."""

from __future__ import annotations

from typing import Any, Union

from polyloom._composites import CompositeClass
from polyloom._scalars import DType


class ArrayAnnotation:
    """The type of an array parameter: what `array(dtype=…, ndim=…)` means in a signature.

    Programs may keep attributes of their own on it, such as what its extents mean to them.
    """

    def __init__(self, dtype: Any, ndim: int) -> None:
        self.dtype = dtype
        self.ndim = ndim

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArrayAnnotation):
            return NotImplemented
        return bool(self.dtype == other.dtype) and self.ndim == other.ndim

    def __hash__(self) -> int:
        return hash((ArrayAnnotation, self.dtype, self.ndim))

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
        return f"polyloom.array(dtype={name}, ndim={self.ndim})"


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
