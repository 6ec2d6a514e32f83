"""Which values of static expressions a kernel cannot have, in Warp's words."""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from polyloom._arrays import array
from polyloom._structs import Struct

_ARRAY = "a Warp array cannot be created inside Warp kernels"


def why_unsupported(value: Any) -> str | None:
    """What is wrong with a value; None of what the compiler has more to say about: functions, types, NumPy's arrays."""
    if value is None:
        problem = "None is returned"
    elif isinstance(value, array):
        problem = _ARRAY
    elif isinstance(value, Struct):
        path = _path_of_array(value, type(value).__qualname__)
        if path is None:
            return None
        problem = (
            "the returned Warp struct contains a data type that cannot be constructed inside Warp kernels: "
            f"{_ARRAY} at {path}"
        )
    elif isinstance(value, (type, FunctionType, BuiltinFunctionType, MethodType, ModuleType, np.ndarray)):
        return None
    else:
        problem = f"value of type {type(value).__module__}.{type(value).__qualname__}"
    return f"Static expression returns an unsupported value: {problem}"


def _path_of_array(value: Struct, path: str) -> str | None:
    """Where a struct holds an array, as far as the struct that has it as a field."""
    for name in type(value)._fields:
        field = getattr(value, name)
        if isinstance(field, Struct):
            if (found := _path_of_array(field, f"{path}.{name}")) is not None:
                return found
        elif isinstance(field, array):
            return path
    return None
