"""Composite types of any shape.

>>> import polyloom as loom
>>> loom.types.vector(length=5, dtype=float)
polyloom.types.vector(length=5, dtype=float32)
"""

from polyloom._composites import matrix, quaternion, transformation, vector

__all__ = ["matrix", "quaternion", "transformation", "vector"]
