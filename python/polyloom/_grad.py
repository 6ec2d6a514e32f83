"""The gradient that an array has: `requires_grad` and `grad`."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, cast

from polyloom import _native
from polyloom._annotations import name_of
from polyloom._memory import is_float

if TYPE_CHECKING:
    from polyloom._arrays import array


# The arrays that have a gradient of their own, by identity.
_owners: weakref.WeakValueDictionary[int, WithGradient] = weakref.WeakValueDictionary()


def owners() -> list[array]:
    """The arrays that have a gradient of their own."""
    return [cast("array", each) for each in list(_owners.values()) if each._requires_grad]


class WithGradient(_native.ArrayBase):
    """What of an array has to do with its gradient."""

    # Whether it has a gradient of its own; None where that is as for the array that it is a view of.
    _requires_grad: bool | None = None
    _retain_grad: bool = False
    # Its own gradient, once somebody has asked for it.
    _grad: array | None = None
    # The array that it is a view of.
    _parent: array | None = None

    @property
    def requires_grad(self) -> bool:
        """True if the array has an array `grad`: its own or, of a view, a part of that of the array it is a view of.

        An array of integers may have one, so that code over several element types can ask for it; nothing is added to
        it, because only floating-point numbers have derivatives.
        """
        owner = self._owner()
        return owner is not None and owner._has_derivatives() == self._has_derivatives()

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._requires_grad = bool(value)
        self._retain_grad = self._retain_grad and self._requires_grad
        if value:
            # Tapes look here for what to add to, which integers are not.
            if self._has_derivatives():
                _owners[id(self)] = self
        else:
            self._grad = None
            _owners.pop(id(self), None)

    @property
    def retain_grad(self) -> bool:
        """True if `grad` is kept where the way back of a tape goes through what computed the array, and so is that of
        the last value it had. Without, it is used up there.

        Raises
        ------
        ValueError
            When it is set for an array without `requires_grad`.
        """
        return self._retain_grad

    @retain_grad.setter
    def retain_grad(self, value: bool) -> None:
        if value and not self._requires_grad:
            raise ValueError("retain_grad needs requires_grad=True, which gives the array a gradient")
        self._retain_grad = bool(value)

    def _has_derivatives(self) -> bool:
        return is_float(self._storage.dtype)

    def _owner(self) -> array | None:
        """The array whose gradient this one's is, or is a part of."""
        owner: array | None = cast("array", self)
        while owner is not None and owner._requires_grad is None:
            owner = owner._parent
        if owner is None or not owner._requires_grad:
            return None
        # Floats that are seen in the memory of integers have no gradient, because that of the integers stays zero.
        return owner if owner._has_derivatives() or not self._has_derivatives() else None

    @property
    def grad(self) -> array | None:
        """The array of its gradient, to which `Tape.backward` adds, zero at first; None without `requires_grad`.

        An array of the same shape, type and device may be assigned.

        Examples
        --------
        >>> import polyloom as loom
        >>> x = loom.zeros(3, requires_grad=True)
        >>> x.grad
        array([0., 0., 0.], dtype=float32)
        """
        if self._requires_grad and self._grad is not None:
            return self._grad
        from polyloom._views import Beside, View

        owner, here = self._owner(), cast("array", self)
        if owner is None:
            return None
        if owner._grad is None:
            whole = View(owner._storage, owner._memory)
            zeros = Beside(whole.lo, whole.hi, whole.device).place(whole)
            owner._grad = type(owner)._wrap(zeros.storage, owner.dtype, zeros.memory)
        if owner is self:
            return owner._grad
        if owner._grad.strides != owner.strides:
            raise ValueError(
                "a view has no gradient where that of its array lies in memory in another order: use a view with the "
                "array's order of axes, or array.contiguous()"
            )
        beside = Beside.over(View(owner._grad._storage, owner._grad._memory), View(owner._storage).lo)
        found = beside.place(View(here._storage, here._memory))
        return type(owner)._wrap(found.storage, here.dtype, found.memory)

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is None:
            self.requires_grad = False
            return
        from polyloom._views import View

        here = cast("array", self)
        made = value if isinstance(value, type(here)) else type(here)(value, dtype=here.dtype, copy=False)
        if (made.shape, made.dtype, made.device) != (here.shape, here.dtype, here.device):
            raise ValueError(
                f"the gradient of an array of shape {here.shape} and type {name_of(here.dtype)} on {here.device} is "
                f"one like it, not of shape {made.shape} and type {name_of(made.dtype)} on {made.device}"
            )
        if View(here._storage, here._memory).coincides and made.strides != here.strides:
            raise ValueError(
                "the gradient of an array in which several indices are one element lies in memory as the array does: "
                "set requires_grad=True, which makes one"
            )
        if View(made._storage, made._memory).overlaps(View(here._storage, here._memory)):
            raise ValueError("the gradient of an array is an array with memory of its own")
        self.requires_grad, self._grad = True, made
