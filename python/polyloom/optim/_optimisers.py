"""The optimisers, over structures of arrays and over lists of arrays that change in place."""

from __future__ import annotations

import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

import polyloom as loom
from polyloom import _native
from polyloom._array_trees import check_like, flattened, leaves_of, rebuilt
from polyloom._arrays import array
from polyloom.optim._kernels import adam_step, descent_step, sgd_step


class Optimiser(ABC):
    """The base of optimisers.

    Attributes
    ----------
    params : list of array or None
        The arrays that `step` changes.
    lr : float
        The rate. It may be changed between steps.
    t : int
        The number of steps.
    """

    # The names of the moments, arrays like the parameters.
    _MOMENTS: tuple[str, ...] = ()

    def __init__(self, params: Sequence[Any] | None, lr: float) -> None:
        if isinstance(params, (int, float)):
            name = type(self).__name__
            raise TypeError(
                f"{name} takes the arrays that a tape changes first, and the rate by name: {name}(lr={params})"
            )
        self.lr = float(lr)
        self.t = 0
        self._flats: dict[Any, FlatMoments] = {}
        self._first: tuple[Any, list[Any]] | None = None
        self._facts: tuple[Any, list[Any]] | None = None
        self._launches: tuple[Any, Any, list[Any]] | None = None
        for name in self._MOMENTS:
            setattr(self, name, [])
        self.params: list[Any] | None = None
        self.set_params(params)

    def set_params(self, params: Sequence[Any] | None) -> None:
        """Sets the arrays that `step` changes, and makes moments of zeros for those of other shapes or types than
        before.

        Parameters
        ----------
        params : sequence of array, or None
            Contiguous arrays of floating-point numbers, vectors or the like, of the package or of NumPy.

        Raises
        ------
        TypeError
            Of an array of other elements.
        ValueError
            Of one that is not contiguous.
        """
        self.params = None if params is None else list(params)
        self._launches = None
        flats = [_flat(each, f"parameter {index}") for index, each in enumerate(self.params or ())]
        for name in self._MOMENTS:
            known = getattr(self, name)
            setattr(
                self,
                name,
                [
                    known[index]
                    if index < len(known) and _is_like(known[index], flat)
                    else loom.zeros(flat.shape, _moment_type(flat), device=flat.device)
                    for index, flat in enumerate(flats)
                ],
            )

    def reset_internal_state(self) -> None:
        """Sets the moments to zero, and begins to count steps anew."""
        for name in self._MOMENTS:
            for moment in getattr(self, name):
                moment.zero_()
        self._flats, self._first, self._facts, self.t = {}, None, None, 0

    def step(self, grad: Sequence[Any] | None = None) -> None:
        """Changes the parameters in place.

        The launches for all parameters are one plan, which is kept as long as the gradients are the same arrays.

        Parameters
        ----------
        grad : sequence of array, optional
            The gradients, one for each parameter; their `grad` by default, which a tape's `backward` adds to.

        Raises
        ------
        RuntimeError
            Without parameters.
        TypeError, ValueError
            If gradients are not like the parameters, or there are none.

        Examples
        --------
        >>> import polyloom as loom
        >>> x = loom.array([1.0, 2.0], dtype=float, requires_grad=True)
        >>> x.grad.fill_(1.0)
        array([1., 1.], dtype=float32)
        >>> loom.optim.SGD([x], lr=0.5).step()
        >>> x
        array([0.5, 1.5], dtype=float32)
        """
        if self.params is None:
            raise RuntimeError(f"{type(self).__name__} parameters must be set before calling step(), got None")
        given = [getattr(each, "grad", None) for each in self.params] if grad is None else list(grad)
        if len(given) != len(self.params):
            raise ValueError(f"gradients are one for each parameter: {len(self.params)}, not {len(given)}")
        known = self._launches
        if known is None or any(own is not other for own, other in zip(known[2], given, strict=True)):
            known = self._launches = self._recorded(self.params, given)
        plan, all_rates, _ = known
        for rates in all_rates:
            rates.assign(np.array(self._rates()))
        plan.launch()
        self.t += 1

    def update(self, params: Any, grads: Any) -> Any:
        """Gives parameters after a step. Those that are given stay as they are.

        Arrays of one element type lie in one memory, and one launch makes the step for all of them, apart from those of
        65,536 elements and more, which have one each, so that their gradients are not copied. The results are
        views of what it writes.

        Parameters
        ----------
        params : Any
            Floating-point arrays of NumPy, PyTorch or the package, or numbers, which become arrays without axes, in
            dictionaries, lists, tuples, named tuples and dataclasses. At each step it has the structure and the shapes
            of the first.
        grads : Any
            The gradients, in the same structure.

        Returns
        -------
        Any
            New parameters in that structure.

        Raises
        ------
        TypeError
            Of arrays that are not of floating-point numbers, or gradients of other types.
        ValueError
            Of gradients of other shapes or structure, and of parameters of others than at the first step.

        Examples
        --------
        >>> import numpy as np, polyloom as loom
        >>> sgd = loom.optim.SGD(lr=0.5)
        >>> sgd.update({"w": np.array([1.0, 2.0])}, {"w": np.array([1.0, -1.0])})
        {'w': array([0.5, 2.5])}
        """
        leaves: list[Any] = []
        given: list[Any] = []
        forms = flattened(params, leaves), flattened(grads, given)
        leaves, given = [_array_of(each) for each in leaves], [_array_of(each) for each in given]
        if forms[0] != forms[1]:
            check_like(params, grads, "the structure of the gradients")
        # All checks depend on these facts alone.
        arrays = [each for each in (*leaves, *given) if hasattr(each, "dtype")]
        facts = forms[0], [(type(each), each.dtype, each.shape, getattr(each, "device", None)) for each in arrays]
        if facts != self._facts:
            self._check(params, forms[0], leaves, given)
            self._facts = facts
        results: list[Any] = [None] * len(leaves)
        for flat in self._flats.values():
            made = flat.step(self, [leaves[index] for index in flat.indices], [given[index] for index in flat.indices])
            for index, value in zip(flat.indices, made, strict=True):
                results[index] = value
        self.t += 1
        return rebuilt(params, iter(results))

    def _check(self, params: Any, form: Any, leaves: list[Any], given: list[Any]) -> None:
        """Raises what `update` raises of parameters and gradients; at the first step makes the moments."""
        places = [path for path, _ in leaves_of(params)]
        kinds = [_kind(leaf, f"params{place}") for place, leaf in zip(places, leaves, strict=True)]
        for place, kind, leaf, grad in zip(places, kinds, leaves, given, strict=True):
            if _kind(grad, f"grads{place}")[1:] != kind[1:]:
                raise TypeError(f"grads{place} is of type {grad.dtype}, and the parameter of type {leaf.dtype}")
            if tuple(grad.shape) != tuple(leaf.shape):
                raise ValueError(
                    f"grads{place} has the shape {tuple(grad.shape)}, and the parameter {tuple(leaf.shape)}"
                )
        shapes = [(kind, tuple(leaf.shape)) for kind, leaf in zip(kinds, leaves, strict=True)]
        if self._first is None:
            self._first = form, shapes
            members: dict[Any, list[int]] = {}
            for index, kind in enumerate(kinds):
                members.setdefault(kind, []).append(index)
            self._flats = {
                kind: FlatMoments(kind, indices, [leaves[index] for index in indices], len(self._MOMENTS))
                for kind, indices in members.items()
            }
        elif (form, shapes) != self._first:
            what = "another structure" if form != self._first[0] else "other shapes, types or devices"
            raise ValueError(
                f"the parameters have {what} than at the first step: make an optimiser of their own for them"
            )

    def _recorded(self, params: list[Any], grads: list[Any]) -> tuple[Any, list[array], list[Any]]:
        """The plan of a step in place, and the rates that it reads."""
        all_rates: dict[Any, array] = {}
        launches = []
        for index, (param, grad) in enumerate(zip(params, grads, strict=True)):
            if grad is None:
                raise ValueError(
                    f"parameter {index} has no gradient: set requires_grad=True, or call step([…]) with gradients"
                )
            p, g = _flat(param, f"parameter {index}"), _flat(grad, f"gradient {index}")
            if p.dtype != g.dtype:
                raise TypeError(f"gradient {index} is of type {grad.dtype}, and the parameter of type {param.dtype}")
            if tuple(param.shape) != tuple(grad.shape):
                raise ValueError(
                    f"gradient {index} has the shape {tuple(grad.shape)}, and the parameter {tuple(param.shape)}"
                )
            moments = [getattr(self, name)[index] for name in self._MOMENTS]
            key = (p.device, _moment_type(p))
            if key not in all_rates:
                all_rates[key] = loom.zeros(len(self._rates()), key[1], device=p.device)
            args = [p, g, *moments, all_rates[key], p]
            launches.append(
                loom.launch(self._kernel(), p.size, args, device=p.device, record_cmd=True, record_tape=False)
            )
        return loom.Plan(launches), list(all_rates.values()), grads

    @abstractmethod
    def _kernel(self) -> Any:
        """Return the kernel that steps one array."""

    @abstractmethod
    def _rates(self) -> list[float]:
        """Return the numbers that the kernel reads of this step."""


class SGD(Optimiser):
    """Stochastic gradient descent, with momentum and weight decay as PyTorch and Warp have them.

    Parameters
    ----------
    params : sequence of array, optional
        Arrays that `step` changes in place. `update` needs none.
    lr : float
        The rate.
    momentum : float
        How much of the last step the next one keeps.
    dampening : float
        How much less of the gradient a step takes with momentum.
    weight_decay : float
        The parameter's share that is added to its gradient.
    nesterov : bool
        Use Nesterov's momentum.

    Raises
    ------
    ValueError
        Of a number out of range, and of `nesterov` without momentum or with dampening.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> from polyloom import ops
    >>> sgd, x = loom.optim.SGD(lr=0.1, momentum=0.9), np.array([1.0, -2.0])
    >>> for _ in range(200):
    ...     x = sgd.update(x, loom.grad(lambda x: ops.sum(ops.square(x)))(x))
    >>> bool(np.abs(x).max() < 1e-3)
    True
    """

    def __init__(
        self,
        params: Sequence[Any] | None = None,
        lr: float = 0.001,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        _check_range(momentum=momentum, weight_decay=weight_decay, lr=lr)
        if nesterov and (momentum <= 0.0 or dampening != 0.0):
            raise ValueError("nesterov=True needs a momentum above 0, and a dampening of 0")
        self.momentum, self.dampening = float(momentum), float(dampening)
        self.weight_decay, self.nesterov = float(weight_decay), bool(nesterov)
        self._MOMENTS = ("b",) if momentum else ()
        super().__init__(params, lr)

    def _kernel(self) -> Any:
        return sgd_step if self._MOMENTS else descent_step

    def _rates(self) -> list[float]:
        fresh = 1.0 if self.t == 0 else 1.0 - self.dampening
        return [self.lr, self.momentum, fresh, self.weight_decay, float(self.nesterov)]


class Adam(Optimiser):
    """Adam (Kingma and Ba, 2015): steps scaled by running means of the gradient and of its square.

    Parameters
    ----------
    params : sequence of array, optional
        Arrays that `step` changes in place. `update` needs none.
    lr : float
        The rate.
    betas : pair of float
        How much of the means of the gradient and of its square a step keeps.
    eps : float
        Added to the root of the mean square.
    weight_decay : float
        The parameter's share that is added to its gradient.

    Raises
    ------
    ValueError
        Of a number out of range.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> adam = loom.optim.Adam(lr=0.1)
    >>> adam.update([np.zeros(2)], [np.array([3.0, -0.5])])[0].round(3)
    array([-0.1,  0.1])
    """

    _MOMENTS = ("m", "v")

    def __init__(
        self,
        params: Sequence[Any] | None = None,
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        _check_range(lr=lr, eps=eps, weight_decay=weight_decay)
        if not all(0.0 <= beta < 1.0 for beta in betas):
            raise ValueError(f"betas are from 0 on and below 1, not {betas}")
        self.beta1, self.beta2 = map(float, betas)
        self.eps, self.weight_decay = float(eps), float(weight_decay)
        super().__init__(params, lr)

    def _kernel(self) -> Any:
        return adam_step

    def _decay(self) -> tuple[float, float]:
        """Gives the share of the parameter that is added to the gradient, and the share that a step leaves of it."""
        return self.weight_decay, 1.0

    def _rates(self) -> list[float]:
        decay, shrink = self._decay()
        scales = [
            1.0 / -math.expm1((self.t + 1) * math.log(beta)) if beta else 1.0 for beta in (self.beta1, self.beta2)
        ]
        fresh = [1.0 - self.beta1, 1.0 - self.beta2]
        return [self.lr, self.beta1, fresh[0], self.beta2, fresh[1], self.eps, decay, shrink, *scales]


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters themselves (Loshchilov and Hutter, 2019).

    Parameters
    ----------
    params, lr, betas, eps
        As for `Adam`.
    weight_decay : float
        A step multiplies the parameters by `1 - lr * weight_decay`.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> adam = loom.optim.AdamW(lr=0.1, weight_decay=0.5)
    >>> adam.update(np.array([1.0]), np.zeros(1))
    array([0.95])
    """

    def __init__(
        self,
        params: Sequence[Any] | None = None,
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)

    def _decay(self) -> tuple[float, float]:
        return 0.0, 1.0 - self.lr * self.weight_decay


# Arrays of as many elements have a launch of their own, which costs less than to bring them into one memory.
LEAST_ALONE = 1 << 16


class FlatMoments:
    """The parameters of one package, type and device, in one memory, with their moments.

    The small ones lie at its beginning, where one launch steps through all of them; each large one has a launch of its
    own.
    """

    def __init__(self, kind: tuple[str, str, Any], indices: list[int], leaves: list[Any], n_moments: int) -> None:
        self._package, self._device, self._dtype = kind
        sized = sorted(zip(indices, leaves, strict=True), key=lambda each: _size(each[1]) >= LEAST_ALONE)
        self.indices = [index for index, _ in sized]
        sizes = [_size(leaf) for _, leaf in sized]
        # Shapes with the axes of vectors and matrices, as NumPy has them.
        self._extents = [_storage(leaf).shape if self._device == "cpu" else tuple(leaf.shape) for _, leaf in sized]
        self._ends = np.cumsum(sizes).tolist()
        self._begins = [end - size for end, size in zip(self._ends, sizes, strict=True)]
        self._n = self._ends[-1]
        n_small = sum(size < LEAST_ALONE for size in sizes)
        # Of each launch the leaves from one number to another.
        self._ranges = [(0, n_small)] if n_small else []
        self._ranges += [(number, number + 1) for number in range(n_small, len(sizes))]
        moments = [self._new(self._n, _wide(self._dtype)) for _ in range(n_moments)]
        for moment in moments:
            moment.zero_()
        self._moments = [[self._range(moment, span) for moment in moments] for span in self._ranges]
        self._rates: array | None = None
        # The memory that gradients of small arrays are brought to.
        self._gathered: dict[int, array] = {}
        # The parameters that the last step gave, and the memory that they are views of.
        self._given: list[Any] = []
        self._whole: array | None = None

    def step(self, optimiser: Optimiser, params: list[Any], grads: list[Any]) -> list[Any]:
        """The parameters after a step."""
        if not self._n:
            return params
        is_known = self._whole is not None and all(own is other for own, other in zip(self._given, params, strict=True))
        rates = optimiser._rates()
        if self._rates is None:
            self._rates = loom.zeros(len(rates), _wide(self._dtype), device=self._device)
        self._rates.assign(np.array(rates))
        made = self._new(self._n, self._dtype)
        kernel = optimiser._kernel()
        for span, moments in zip(self._ranges, self._moments, strict=True):
            here = slice(*span)
            old = self._range(self._whole, span) if is_known else self._joined(params[here], None)
            new, slopes = self._range(made, span), self._joined(grads[here], span[0])
            n = self._ends[span[1] - 1] - self._begins[span[0]]
            args = [old, slopes, *moments, self._rates, new]
            loom.launch(kernel, n, args, device=self._device, record_tape=False)
        self._whole = made
        self._given = self._parts(made, params)
        return list(self._given)

    def _new(self, n: int, dtype: Any) -> array:
        if self._device == "cpu":
            return array._wrap(_native.new_result((n,), dtype.numpy), dtype)
        return loom.empty(n, dtype, device=self._device)

    def _range(self, whole: Any, span: tuple[int, int]) -> array:
        """The part of a memory that some of the leaves take."""
        begin, end = self._begins[span[0]], self._ends[span[1] - 1]
        if begin == 0 and end == self._n:
            return whole  # type: ignore[no-any-return]
        if self._device == "cpu":
            return array._wrap(whole._storage[begin:end], whole.dtype)
        return whole[begin:end]  # type: ignore[no-any-return]

    def _joined(self, leaves: list[Any], kept: int | None) -> array:
        """Arrays after each other in one memory: that of a single array, or what is kept by this number for several."""
        if len(leaves) == 1:
            if self._device != "cpu":
                flat: array = leaves[0].contiguous().flatten()
                return flat
            return array._wrap(_storage(leaves[0]).reshape(-1), self._dtype)
        whole = None if kept is None else self._gathered.get(kept)
        if whole is None:
            whole = self._new(sum(map(_size, leaves)), self._dtype)
            if kept is not None:
                self._gathered[kept] = whole
        if self._device == "cpu":
            _native.run_recorded_tasks()
            storages = leaves if self._package == "numpy" else map(_storage, leaves)
            np.concatenate([storage.reshape(-1) for storage in storages], out=whole._storage)
            return whole
        begin = 0
        for leaf in leaves:
            loom.copy(whole, leaf.contiguous().flatten(), dest_offset=begin)
            begin += _size(leaf)
        return whole

    def _parts(self, whole: array, like: list[Any]) -> list[Any]:
        """The parameters that lie in a memory, in arrays of their package."""
        places = zip(self._begins, self._ends, self._extents, strict=True)
        if self._device != "cpu":
            return [whole[begin:end].reshape(shape) for begin, end, shape in places]
        storage = whole._storage
        parts = [storage[begin:end].reshape(shape) for begin, end, shape in places]
        if self._package == "polyloom":
            return [array._wrap(part, leaf.dtype) for part, leaf in zip(parts, like, strict=True)]
        if self._package == "torch":
            return list(map(importlib.import_module("torch").from_numpy, parts))
        return parts


def _kind(leaf: Any, what: str) -> tuple[str, str, Any]:
    """The package, the device, and the type of the numbers of an array."""
    if isinstance(leaf, array):
        scalar = getattr(leaf.dtype, "_wp_scalar_type_", leaf.dtype)
        package, device, dtype = "polyloom", str(leaf.device), scalar
    elif isinstance(leaf, np.ndarray):
        is_float = leaf.dtype.kind == "f" or leaf.dtype.name == "bfloat16"
        package, device, dtype = "numpy", "cpu", loom.dtype_from_numpy(leaf.dtype) if is_float else None
    elif type(leaf).__module__.partition(".")[0] == "torch":
        package, device = "torch", str(leaf.device)
        dtype = loom.dtype_from_torch(leaf.dtype) if leaf.is_floating_point() else None
        if device != "cpu":
            raise TypeError(f"{what} is on device '{device}': update takes PyTorch's tensors on the CPU")
    else:
        raise TypeError(f"{what} is {type(leaf).__name__}, not an array")
    if dtype not in (loom.float16, loom.bfloat16, loom.float32, loom.float64):
        raise TypeError(f"{what} is of type {leaf.dtype}, and optimisers change floating-point numbers")
    return package, device, dtype


def _storage(leaf: Any) -> Any:
    """The numbers of an array on the CPU as NumPy's."""
    if isinstance(leaf, array):
        return leaf._storage
    return leaf if isinstance(leaf, np.ndarray) else leaf.detach().numpy()


def _size(leaf: Any) -> int:
    return int(math.prod(_storage(leaf).shape))


def _flat(value: Any, what: str) -> array:
    """The numbers of an array along one axis, in its memory."""
    _, device, dtype = _kind(value, what)
    if not isinstance(value, array):
        value = array._wrap(_storage(value), dtype)
    if not value.is_contiguous:
        raise ValueError(f"{what} is not contiguous in memory: pass array.contiguous()")
    if device == "cpu":
        return array._wrap(value._storage.reshape(-1), dtype)
    flat: array = value.view(dtype).flatten() if value.dtype is not dtype else value.flatten()
    return flat


def _wide(dtype: Any) -> Any:
    """The type of moments: 16-bit numbers have moments of 32."""
    return loom.float64 if dtype is loom.float64 else loom.float32


def _moment_type(flat: array) -> Any:
    return _wide(flat.dtype)


def _is_like(moment: array, flat: array) -> bool:
    return (moment.shape, moment.dtype, moment.device) == (flat.shape, _moment_type(flat), flat.device)


def _check_range(**numbers: float) -> None:
    for name, number in numbers.items():
        if not number >= 0.0:
            raise ValueError(f"{name} is not below 0, and is {number}")


def _array_of(leaf: Any) -> Any:
    """A parameter or gradient as an array: NumPy's arithmetic on arrays without axes gives numbers."""
    return np.asarray(leaf) if isinstance(leaf, (float, np.floating)) else leaf
