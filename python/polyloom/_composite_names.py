"""The composite types that have names: `vec3`, `mat44d`, `quat`, … The list is the compiler's."""

from __future__ import annotations

from polyloom import _native
from polyloom._composites import class_of

__all__ = []

for _name, _type in _native.composite_names():
    globals()[_name] = class_of(_type)
    __all__.append(_name)
