"""Annotations of arrays that say the number of dimensions in their name."""

from __future__ import annotations

from typing import Any

from polyloom._arrays import ElementTypeLike, array

__all__ = ["array1d", "array2d", "array3d", "array4d"]


class _ArrayOfRank:
    """The annotation of an array of one number of dimensions, `array2d(dtype=float)` or `array2d[float]`, or such an
    array: `array2d(data, dtype=float)`."""

    def __init__(self, ndim: int) -> None:
        self._ndim = ndim
        self.__name__ = self.__qualname__ = f"array{ndim}d"
        self.__module__ = __name__

    def __call__(self, data: Any = None, dtype: ElementTypeLike | None = None, **options: Any) -> Any:
        """The annotation; with data or a shape, an array of this number of dimensions."""
        return array(data, dtype=dtype, ndim=self._ndim, **options)

    def __getitem__(self, dtype: ElementTypeLike) -> Any:
        return array(dtype=dtype, ndim=self._ndim)

    def __repr__(self) -> str:
        return f"polyloom.{self.__name__}"


array1d = _ArrayOfRank(1)
array2d = _ArrayOfRank(2)
array3d = _ArrayOfRank(3)
array4d = _ArrayOfRank(4)
