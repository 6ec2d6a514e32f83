"""Composite types of any shape, the type variables of generic kernels and functions, and questions about types.

>>> import polyloom as loom
>>> loom.types.vector(length=5, dtype=float)
polyloom.types.vector(length=5, dtype=float32)
"""

from polyloom._composites import matrix, quaternion, transformation, vector
from polyloom._scalars import Float, Int, Scalar
from polyloom._type_queries import *  # noqa: F403
from polyloom._type_queries import __all__ as _queries

__all__ = ["Float", "Int", "Scalar", "matrix", "quaternion", "transformation", "vector", *_queries]
