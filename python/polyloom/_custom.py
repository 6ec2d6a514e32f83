"""Derivatives of functions that the program gives itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from polyloom import _native
from polyloom._errors import CompileError
from polyloom._kernel import _make, deferral_of, warn_deferred

__all__ = ["adjoint", "func_grad", "func_replay"]

F = TypeVar("F", bound=Callable[..., Any])


def func_grad(forward_fn: Any) -> Callable[[F], F]:
    """Makes a function what carries derivatives through another.

    It takes what the other takes and, behind that, an adjoint for each value that the other gives, and adds to
    `adjoint[x]` for each parameter `x` that has a gradient. It is defined before the kernels that call the other.

    Parameters
    ----------
    forward_fn : Function
        A function under `@func`, of numbers, vectors and their like, and of arrays. To the gradient of an array `x` the
        function adds element by element: `adjoint[x][i] += a`.

    Raises
    ------
    TypeError
        If the other is no function under `@func`, or takes other types.
    CompileError
        If the function gives values, or has other mistakes; it is then forgotten.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> @loom.func
    ... def root(x: float):
    ...     return loom.sqrt(x)
    >>> @loom.func_grad(root)
    ... def adj_root(x: float, adj_ret: float):
    ...     if x > 0.0:
    ...         loom.adjoint[x] += 0.5 / loom.sqrt(x) * adj_ret
    >>> @loom.kernel
    ... def roots(x: loom.array(dtype=float), y: loom.array(dtype=float)):
    ...     i = loom.tid()
    ...     y[i] = root(x[i])
    >>> x, y, adj_x = np.array([0.0, 4.0], np.float32), np.zeros(2, np.float32), np.zeros(2, np.float32)
    >>> memory = loom.launch(roots, 2, [x], [y], adjoint=True, adj_inputs=[adj_x], adj_outputs=[np.ones(2, np.float32)])
    >>> adj_x
    array([0.  , 0.25], dtype=float32)
    """
    return _stand_in("func_grad", forward_fn)


def func_replay(forward_fn: Any) -> Callable[[F], F]:
    """Makes a function what runs in place of another when a kernel runs again on the way to its derivative.

    It takes and gives values of the same types, and writes nothing. Arrays that the kernel writes hold what the kernel
    has left in them.

    Parameters
    ----------
    forward_fn : Function
        A function under `@func`.

    Raises
    ------
    TypeError
        If the other is no function under `@func`, or takes other types.
    CompileError
        If the function writes to memory, or has other mistakes; it is then forgotten.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> ints = loom.array(dtype=int)
    >>> @loom.func
    ... def place(counter: ints, places: ints, thread: int):
    ...     places[thread] = loom.atomic_add(counter, 0, 1)
    ...     return places[thread]
    >>> @loom.func_replay(place)
    ... def same_place(counter: ints, places: ints, thread: int):
    ...     return places[thread]
    >>> @loom.kernel
    ... def kept(x: loom.array(dtype=float), counter: ints, places: ints, y: loom.array(dtype=float)):
    ...     i = loom.tid()
    ...     if x[i] > 0.0:
    ...         y[place(counter, places, i)] = x[i] * x[i]
    >>> x, y = np.array([1.0, -2.0, 3.0], np.float32), np.zeros(3, np.float32)
    >>> counter, places = np.zeros(1, np.int32), np.zeros(3, np.int32)
    >>> with loom.Tape() as tape:
    ...     loom.launch(kept, 3, [x, counter, places], [y])
    >>> tape.backward(grads=[(y, 1.0)])
    >>> tape.gradients[x]
    array([2., 0., 6.], dtype=float32)
    """
    return _stand_in("func_replay", forward_fn)


def _stand_in(decorator: str, forward_fn: Any) -> Callable[[F], F]:
    if not isinstance(forward_fn, _native.Function):
        raise TypeError(f"@{decorator} takes a function under @func, not {forward_fn!r}")

    def decorate(function: F) -> F:
        made = _make(_native.Function, function, {})
        try:
            forward_fn.set_custom(made)
        except CompileError as error:
            waits = deferral_of(error, "func", function)
            if waits is None:
                raise
            forward_fn.set_custom(made, deferred=True)
            warn_deferred(function, waits)
        return function

    return decorate


class _Adjoint:
    """`adjoint[x]` in a function under `@func_grad`: the adjoint of its parameter `x`, to which it adds."""

    def __getitem__(self, parameter: Any) -> Any:
        raise TypeError("adjoint[x] is for functions under @func_grad")

    def __setitem__(self, parameter: Any, value: Any) -> None:
        raise TypeError("adjoint[x] is for functions under @func_grad")

    def __repr__(self) -> str:
        return "polyloom.adjoint"


adjoint: Any = _Adjoint()
