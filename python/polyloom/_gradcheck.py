"""Checking gradients: backward kernels against differences of launches."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyloom import _native, _scalars
from polyloom._arrays import array
from polyloom._composites import Composite
from polyloom._creation import clone, zeros
from polyloom._devices import get_device
from polyloom._gradients import check_aliases, check_kernel, extents_of, launch_backward
from polyloom._leaves import leaves_of, place_for
from polyloom._tape import paused
from polyloom._views import view_of

__all__ = ["GradcheckError", "GradcheckReport", "gradcheck"]

Numbers = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ArgumentCheck:
    """What was found of one argument.

    Attributes
    ----------
    name : str
        The parameter.
    n_elements : int
        How many of its elements, or components of elements, were compared.
    max_absolute_error, max_relative_error : float
        How far gradient and difference quotient were apart, and that over the greater of the two.
    worst : tuple of int
        The element that is the farthest beyond the tolerance, or the nearest to it; its components' indices come last.
    gradient, difference : float
        What both were there.
    passed : bool
        Whether all elements are within the tolerance. Where the difference is infinite or NaN they are not, and `worst`
        is such an element if no other is wrong.
    note : str
        What there is to say of the worst element if it is not.
    """

    name: str
    n_elements: int
    max_absolute_error: float
    max_relative_error: float
    worst: tuple[int, ...]
    gradient: float
    difference: float
    passed: bool
    note: str = ""


@dataclass(frozen=True)
class GradcheckReport:
    """What `gradcheck` found. It is true if all gradients agree, and its text is a table.

    Attributes
    ----------
    kernel : str
        The kernel's name.
    arguments : tuple of ArgumentCheck
        What was found of each argument that has derivatives.
    """

    kernel: str
    arguments: tuple[ArgumentCheck, ...]

    @property
    def passed(self) -> bool:
        """Whether the gradients of all arguments agree with differences."""
        return all(argument.passed for argument in self.arguments)

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [
            ("argument", "elements", "max abs", "max rel", "worst at", "gradient", "difference", "")
        ]
        for argument in self.arguments:
            numbers = [argument.max_absolute_error, argument.max_relative_error]
            ends = [argument.gradient, argument.difference]
            rows.append(
                (
                    argument.name,
                    str(argument.n_elements),
                    *(f"{number:.1e}" for number in numbers),
                    "[" + ", ".join(map(str, argument.worst)) + "]",
                    *(f"{number:.6g}" for number in ends),
                    _verdict(argument),
                )
            )
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        failed = [argument for argument in self.arguments if not argument.passed]
        verdict = "agrees with differences"
        if failed:
            is_wrong = any(math.isfinite(argument.difference) for argument in failed)
            verdict = (
                "does not agree with differences" if is_wrong else "is not compared where differences are not finite"
            )
        return "\n".join([f"the gradient of kernel '{self.kernel}' {verdict}", *lines])


def _verdict(argument: ArgumentCheck) -> str:
    """What the table says of an argument."""
    if argument.passed:
        return "ok"
    return f"WRONG {argument.note}".rstrip() if math.isfinite(argument.difference) else "not finite here"


class GradcheckError(Exception):
    """A gradient does not agree with differences.

    Attributes
    ----------
    report : GradcheckReport
        What was found.
    """

    def __init__(self, report: GradcheckReport) -> None:
        super().__init__(str(report))
        self.report = report


def gradcheck(
    kernel: _native.Kernel,
    inputs: Sequence[Any],
    outputs: Sequence[Any] = (),
    *,
    dim: int | Sequence[int] | None = None,
    eps: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    samples: int | None = None,
    seed: int = 0,
    device: Any = None,
    block_dim: int | Sequence[int] | None = None,
    raise_on_failure: bool = True,
) -> GradcheckReport:
    """Compares the gradient of a kernel with central differences of launches.

    What the kernel leaves in its arrays is summed with random weights. The derivatives of that sum with respect to what
    the arrays held before, and to scalars and composites among the arguments, come from the backward kernel, and
    from two launches for each number. The arguments are not changed.

    Differences are as precise as the kernel: with `float64` arrays about ten digits are compared, with `float32` two or
    three. A kernel that is generic is compiled for the arguments that are given, so `float64` arrays check it best.

    Parameters
    ----------
    kernel : Kernel
        What is differentiated.
    inputs, outputs : sequence
        Its arguments, as for `launch`. The gradients are those at these values.
    dim : int or sequence of int, optional
        The extents of the launch: by default those of the first array.
    eps : float, optional
        By how much a number is moved, times the number if that is more than one. By default 6e-6 in `float64`, 5e-3 in
        `float32`, and less where the difference does not agree and is another with less.
    rtol, atol : float, optional
        How far apart gradient and difference may be, over the difference and by itself. By default 1e-6 in `float64`,
        1e-2 in `float32`.
    samples : int, optional
        Of each argument no more than so many numbers are moved, chosen at random.
    seed : int
        Of the weights and the choice.
    device : optional
        Where the kernel runs.
    block_dim : int or sequence of int, optional
        Threads of a block, as for `launch`.
    raise_on_failure : bool
        Whether a gradient that does not agree is an error.

    Returns
    -------
    GradcheckReport
        Of each argument, how far gradient and differences are apart.

    Raises
    ------
    GradcheckError
        If a gradient does not agree, unless `raise_on_failure` is false.
    CompileError
        If the kernel has no derivative.
    ValueError
        If `eps` or `samples` is not positive, a tolerance is negative or no finite number, or there is nothing to
        compare.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> @loom.kernel
    ... def square(x: loom.array(dtype=loom.float64), y: loom.array(dtype=loom.float64)):
    ...     i = loom.tid()
    ...     y[i] = x[i] * x[i]
    >>> report = loom.gradcheck(square, [np.array([1.0, 2.0, 3.0])], [np.zeros(3)])
    >>> [(argument.name, argument.passed) for argument in report.arguments]
    [('x', True), ('y', True)]
    """
    check_kernel(kernel, "gradcheck")
    for name, given in (("rtol", rtol), ("atol", atol)):
        if given is not None and not (math.isfinite(given) and given >= 0.0):
            raise ValueError(f"{name} is a finite number that is not negative, not {given}")
    if eps is not None and not (math.isfinite(eps) and eps > 0.0):
        raise ValueError(f"eps is a positive number, not {eps}")
    if samples is not None and operator.index(samples) < 1:
        raise ValueError(f"samples is a positive number of elements, or None for all, not {samples}")
    with paused():
        check = _Check(kernel, [*inputs, *outputs], dim, seed, device, block_dim)
        tolerances = [check.default(1e-2, 1e-6) if given is None else given for given in (rtol, atol)]
        step = check.default(5e-3, 6e-6) if eps is None else eps
        checks = [
            check.compare(index, gradient, step, (tolerances[0], tolerances[1]), samples, eps is None)
            for index, gradient in check.gradients().items()
            if gradient.size
        ]
    if not checks:
        raise ValueError(
            f"kernel '{kernel.key}' has nothing to compare: none of its arguments with elements has a gradient; check "
            "one that takes numbers of float32 or float64"
        )
    report = GradcheckReport(kernel.key, tuple(checks))
    if raise_on_failure and not report:
        raise GradcheckError(report)
    return report


class _Check:
    """A kernel, its arguments, and the weights of what it writes."""

    def __init__(
        self, kernel: _native.Kernel, args: list[Any], dim: Any, seed: int, device: Any, block_dim: Any
    ) -> None:
        whole = kernel.for_arguments(args)
        place = str(device) if device is not None else str(get_device())
        leaves = [leaf for of_argument in leaves_of(whole, args, place) for leaf in of_argument]
        # Fields of structs are moved one by one.
        self.kernel = whole._flat
        self.args = [
            leaf.view.read() if leaf.path and leaf.view is not None and leaf.value is not leaf.array else leaf.value
            for leaf in leaves
        ]
        self.device, self.place, self.block_dim = device, place, block_dim
        self.rng = np.random.default_rng(seed)
        self.names = self.kernel.parameter_names
        self.facts = self.kernel._parameters
        self.args = [
            arg if place_for(facts) is None else _number(arg, name, facts[2])
            for arg, name, facts in zip(self.args, self.names, self.facts, strict=True)
        ]
        self.hosts = [_host(arg) for arg in self.args]
        self.dim = self._extents(dim)
        active = [host is not None for host in self.hosts]
        backward = self.kernel.backward(active, self.dim)
        # Copies would have no elements in common.
        check_aliases(self.kernel, [leaf.view for leaf in leaves], backward.writes)
        self.left = backward.left
        self.types = {index: self.facts[index][1] for index in backward.adjoints}
        self.hosts = [host if index in self.types else None for index, host in enumerate(self.hosts)]
        # A Python number has the precision of its parameter.
        for index, host in enumerate(self.hosts):
            if host is not None and isinstance(self.args[index], float) and self.types[index] in _PRECISE:
                self.hosts[index] = host.astype(_PRECISE[self.types[index]])
        for index, host in enumerate(self.hosts):
            if host is not None and self.types[index] not in _PRECISE:
                raise ValueError(
                    f"kernel '{kernel.key}': argument '{self.names[index]}' is of {self.types[index]}, which has too "
                    "few digits for differences; check the kernel with float32 or float64"
                )
        self.is_single = any(host is not None and host.dtype.itemsize == 4 for host in self.hosts)
        self.weights: list[Numbers | None] = [
            np.asarray(self.rng.normal(size=host.shape)) if host is not None and written else None
            for host, written in zip(self.hosts, backward.writes, strict=True)
        ]

    def default(self, single: float, double: float) -> float:
        return single if self.is_single else double

    def _extents(self, dim: Any) -> tuple[int, ...]:
        if dim is not None:
            return extents_of(dim)
        for arg, (ndim, _, _, _) in zip(self.args, self.facts, strict=True):
            if ndim and hasattr(arg, "shape"):
                return tuple(arg.shape[:ndim])
        raise ValueError(f"kernel '{self.kernel.key}' takes no array, whose extents the launch could have: say dim=")

    def _given(self, moved: dict[int, Numbers]) -> list[Any]:
        """Copies of the arguments, some of which have other values."""
        return [_like(arg, moved.get(index, self.hosts[index])) for index, arg in enumerate(self.args)]

    def gradients(self) -> dict[int, Numbers]:
        """By argument, what the backward kernel says."""
        adjoints: list[Any] = [None] * len(self.args)
        for index, host in enumerate(self.hosts):
            if host is None:
                continue
            arg, weights = self.args[index], self.weights[index]
            if isinstance(arg, (np.ndarray, array)):
                begin = np.zeros_like(host) if weights is None else weights.astype(host.dtype)
                adjoints[index] = _like(arg, begin)
            else:
                dtype = type(arg) if isinstance(arg, Composite) else getattr(_scalars, self.types[index])
                adjoints[index] = zeros(1, dtype=dtype, device=self.device)
        given = self._given({})
        if any(self.left):
            # Replays read what a launch has left.
            ran = self._launched({})
            given = [end if is_left else arg for arg, end, is_left in zip(given, ran, self.left, strict=True)]
        values = [view_of(arg, self.place) if ndim else arg for arg, (ndim, *_) in zip(given, self.facts, strict=True)]
        launch_backward(
            self.kernel,
            self.dim,
            values,
            [None if adjoint is None else view_of(adjoint, self.place) for adjoint in adjoints],
            self.place,
            self.block_dim,
            has_left=True,
        )
        found = {index: _host(adjoint) for index, adjoint in enumerate(adjoints) if adjoint is not None}
        return {index: host.astype(np.float64) for index, host in found.items() if host is not None}

    def _launched(self, moved: dict[int, Numbers]) -> list[Any]:
        """The arguments as a launch leaves them."""
        given = self._given(moved)
        _native.launch(self.kernel, self.dim, given, None, self.device, record_tape=False, block_dim=self.block_dim)
        return given

    def _outputs(self, moved: dict[int, Numbers]) -> list[Numbers]:
        given = self._launched(moved)
        ends = [None if weights is None else _host(arg) for arg, weights in zip(given, self.weights, strict=True)]
        return [end.astype(np.float64) for end in ends if end is not None]

    def _change(self, ends: list[list[Numbers]]) -> float:
        """How much the weighted sum differs: differences first, sums cancel."""
        weights = [weights for weights in self.weights if weights is not None]
        return math.fsum(float((w * (a - b)).sum()) for w, a, b in zip(weights, *ends, strict=True))

    def _moved(self, index: int, place: tuple[int, ...], step: float) -> tuple[list[Numbers], float]:
        """What the kernel writes where one number is moved, and by how much that was."""
        host = self.hosts[index]
        assert host is not None
        moved = host.copy()
        moved[place] += step * max(1.0, abs(float(host[place])))
        by = float(moved[place]) - float(host[place])
        if by == 0.0:
            raise ValueError(f"eps={step} is too small to move argument '{self.names[index]}' in {host.dtype}")
        return self._outputs({index: moved}), by

    def _difference(self, index: int, place: tuple[int, ...], step: float) -> tuple[float, float]:
        """The central difference, and how far the rounding of what the kernel writes may put it off."""
        (above, up), (below, down) = (self._moved(index, place, sign * step) for sign in (1, -1))
        weights = [weights for weights in self.weights if weights is not None]
        size = math.fsum(float(abs(w * end).sum()) for w, end in zip(weights, above, strict=True))
        noise = size * float(np.finfo(np.float32 if self.is_single else np.float64).eps) / (up - down)
        return self._change([above, below]) / (up - down), noise

    def _settled(
        self, index: int, place: tuple[int, ...], step: float, first: float, tolerances: tuple[float, float]
    ) -> tuple[float, float]:
        """A difference that a smaller step does not change, and its step: near a pole or a kink the first is far off.
        Without one, the first."""
        before, finer = first, step
        for _ in range(_N_FINER):
            finer /= 4.0
            try:
                difference, noise = self._difference(index, place, finer)
            except ValueError:
                break
            allowed = tolerances[1] + tolerances[0] * abs(difference)
            if noise > allowed:
                break
            if abs(difference - before) <= allowed:
                return difference, finer
            before = difference
        return first, step

    def compare(
        self,
        index: int,
        gradient: Numbers,
        step: float,
        tolerances: tuple[float, float],
        samples: int | None,
        may_refine: bool,
    ) -> ArgumentCheck:
        host = self.hosts[index]
        assert host is not None
        gradient = gradient.reshape(host.shape)
        places = list(np.ndindex(host.shape))
        if samples is not None and samples < len(places):
            places = [places[number] for number in sorted(self.rng.choice(len(places), samples, replace=False))]
        rtol, atol = tolerances
        rank, worst = (-1, -math.inf), places[0]
        errors: list[tuple[float, float]] = []
        differences: dict[tuple[int, ...], tuple[float, float]] = {}

        def error_of(here: float, difference: float) -> tuple[float, float]:
            error = 0.0 if here == difference else abs(here - difference)
            return error, error - atol - rtol * abs(difference) if math.isfinite(error) else math.inf

        for place in places:
            here, (difference, _), used = float(gradient[place]), self._difference(index, place, step), step
            error, beyond = error_of(here, difference)
            if may_refine and beyond > 0.0:
                difference, used = self._settled(index, place, step, difference, tolerances)
                error, beyond = error_of(here, difference)
            differences[place] = difference, used
            errors.append((error, error / max(abs(here), abs(difference), 1e-300)))
            # What is wrong goes before what no difference tells.
            found = (0 if beyond <= 0.0 else 2 if math.isfinite(difference) else 1, beyond)
            if found > rank:
                rank, worst = found, place
        here, (difference, used), passed = float(gradient[worst]), differences[worst], rank[0] == 0
        return ArgumentCheck(
            name=self.names[index],
            n_elements=len(places),
            max_absolute_error=float(np.max([error for error, _ in errors])),
            max_relative_error=float(np.max([relative for _, relative in errors])),
            worst=worst,
            gradient=here,
            difference=difference,
            passed=passed,
            note="" if passed else self._kink(index, worst, used, here, tolerances),
        )

    def _kink(
        self, index: int, place: tuple[int, ...], step: float, gradient: float, tolerances: tuple[float, float]
    ) -> str:
        """Where the derivatives of both sides differ and the gradient is between them, that they do."""
        here = self._outputs({})
        sides = []
        for sign in (-1, 1):
            there, by = self._moved(index, place, sign * step)
            sides.append(self._change([there, here]) / by)
        low, high = sorted(sides)
        allowed = tolerances[1] + tolerances[0] * max(abs(low), abs(high))
        # Both are off by about half the step times the second derivative.
        if high - low > math.sqrt(step) * max(abs(low), abs(high)) and low - allowed <= gradient <= high + allowed:
            return f"(a kink: {sides[0]:.6g} from the left, {sides[1]:.6g} from the right)"
        return ""


# How often a step is made smaller.
_N_FINER = 12

# The precision of a Python number that is given for a parameter.
_PRECISE = {"float64": np.float64, "float32": np.float32}


def _number(arg: Any, name: str, inner: list[int]) -> Any:
    """A number or composite that is given for a parameter with a derivative, whatever it came as."""
    if isinstance(arg, (Composite, float, np.floating)):
        return arg
    if inner:
        raise TypeError(
            f"argument '{name}' is a vector, matrix or the like: give gradcheck one such as vec3d(…), not "
            f"{type(arg).__name__}"
        )
    return arg[()] if isinstance(arg, np.ndarray) and arg.dtype.kind == "f" else float(arg)


def _host(arg: Any) -> Numbers | None:
    """The numbers of an argument that has a gradient, as an array of their own."""
    if isinstance(arg, array):
        arg = arg._elements()
    if isinstance(arg, np.ndarray):
        return arg.copy() if arg.dtype.kind == "f" or arg.dtype.name == "bfloat16" else None
    if isinstance(arg, Composite):
        return np.array(arg)
    return np.array(arg) if isinstance(arg, (float, np.floating)) else None


def _like(arg: Any, numbers: Numbers | None) -> Any:
    """An argument like another, with these numbers."""
    if isinstance(arg, array):
        return clone(arg) if numbers is None else array(numbers, dtype=arg.dtype, device=arg.device)
    if numbers is None:
        return arg.copy() if isinstance(arg, np.ndarray) else arg
    if isinstance(arg, np.ndarray):
        return numbers.copy()
    if isinstance(arg, Composite):
        return type(arg)(*numbers.ravel().tolist())
    return numbers.dtype.type(numbers[()]) if isinstance(arg, np.floating) else float(numbers)
