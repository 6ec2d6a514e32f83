"""Composite types of any shape, and the type variables of generic kernels and functions.

>>> import polyloom as loom
>>> loom.types.vector(length=5, dtype=float)
polyloom.types.vector(length=5, dtype=float32)
"""

from polyloom._composites import matrix, quaternion, transformation, vector
from polyloom._scalars import Float, Int, Scalar

__all__ = ["Float", "Int", "Scalar", "matrix", "quaternion", "transformation", "vector"]
