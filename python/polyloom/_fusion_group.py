"""Groups of a fused function, as a program looks at them: their names, keys and code."""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Callable
from types import CodeType
from typing import Any

import numpy as np

from polyloom import _scalars
from polyloom._tensor import TensorAnnotation

# The forms of code that a group has.
_FORMS = frozenset(("hir", "llvm_ir", "cpp", "cuda", "ptx", "asm"))

# The extent that a name of an annotation stands for, where code is wanted before there was a call.
_EXTENT = 1024


class RefusedGroup:
    """A group of calls that would be errors: it runs nothing, so that they run as they are written."""

    n_runs = 0
    is_planned = False

    def cache_info(self) -> tuple[int, int, int]:
        return 0, 0, 0

    def cache_clear(self) -> None:
        pass

    def __call__(self, *values: Any) -> None:
        return None

    def check(self, call: int, *values: Any) -> bool:
        return False

    def _set_policy(self, number: int) -> None:
        pass

    def _paths(self, n_paths: int = 16) -> str:
        return "[]"

    def __getattr__(self, name: str) -> Any:
        if name in _FORMS or name in ("_identity", "_explanation", "tensor_graph"):
            raise TypeError("the group has no code: an op does not take what a call of it gives")
        raise AttributeError(name)


class Group:
    """Calls that run as one kernel, or as few.

    Code is had in the forms `hir()`, `llvm_ir()`, `cpp()`, `cuda()`, `ptx(arch=…)` and `asm()`, which are those of
    `Kernel`. They are of the types and shapes of values, `ptx(x, y, arch="sm_90")`; without values, of those of the
    last call, or of those that the annotations of the function declare. Several kernels each stand under a comment.

    Attributes
    ----------
    name : str
        The function's name with a number.
    calls : list of int
        Its calls, by their number in evaluation order.
    moment : {"first", "last"}
        The call in whose place it runs.
    native : FusionGroup
        The group itself.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> from polyloom import ops
    >>> @loom.fuse
    ... def scaled(a: loom.Tensor[loom.float32, "n"], b: loom.Tensor[loom.float32, "n"]):
    ...     return ops.relu(ops.multiply(a, b))
    >>> print(scaled.groups[0].hir().partition("(")[0])
    kernel @multiply_maximum
    """

    def __init__(
        self, name: str, calls: list[int], moment: str, native: Any, declared: Callable[[], tuple[Any, ...]] | None
    ) -> None:
        self.name, self.calls, self.moment, self.native = name, calls, moment, native
        self._declared = declared

    @property
    def key(self) -> str:
        """Identifies the group in every process: a hash of its calls, and of the types and ranks of its values.

        Raises
        ------
        ValueError
            There was no call yet, and no annotations say the types.
        """
        text: str = self.native._identity(*self._values(()))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def _values(self, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """The values that code is of: those that are given, none if there was a call, or what annotations declare."""
        if given or self._declared is None or self.native.is_planned:
            return given
        return self._declared()

    def _code(self, form: Callable[..., str], *values: Any, **options: Any) -> str:
        return form(*self._values(values), **options)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.native, name)
        return functools.partial(self._code, found) if name in _FORMS else found

    def __repr__(self) -> str:
        return f"<group {self.name}: calls {self.calls}, run at the {self.moment}>"


def declared_values(
    slots: list[Any], annotations: dict[str, TensorAnnotation], node: ast.FunctionDef, code: CodeType
) -> Callable[[], tuple[Any, ...]] | None:
    """Makes the function that gives values of the types that annotations declare; None if not all of them are declared.

    Parameters
    ----------
    slots : list
        Where the values of the group come from, as the plan says.
    annotations : dict
        Those of parameters that declare tensors.
    node : ast.FunctionDef
        The function.
    code : CodeType
        Its code.
    """
    bound = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    parameters = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]) - bound
    found: list[TensorAnnotation] = []
    for slot in slots:
        name = slot.get("name") if isinstance(slot, dict) else None
        if name not in parameters or name not in annotations or annotations[name].shape is None:
            return None
        found.append(annotations[name])
    return lambda: tuple(map(_example, found))


def _example(annotation: TensorAnnotation) -> Any:
    """An array of a declared type and shape, into which nobody looks."""
    dtype = getattr(_scalars, "bool_" if annotation.dtype == "bool" else annotation.dtype).numpy
    extents = [extent if isinstance(extent, int) else _EXTENT for extent in annotation.shape or ()]
    return np.empty(extents, dtype)
