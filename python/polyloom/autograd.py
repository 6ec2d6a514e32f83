"""Jacobians of kernels and of functions that launch kernels, and checks of derivatives by them, as `warp.autograd` has.

`polyloom.gradcheck` compares gradients alone, with a report that says more; what is here gives whole matrices.

>>> import polyloom as loom
>>> from polyloom import autograd
>>> @loom.kernel
... def square(x: loom.array(dtype=float), y: loom.array(dtype=float)):
...     i = loom.tid()
...     y[i] = x[i] * x[i]
>>> x, y = loom.array([1.0, 3.0], requires_grad=True), loom.zeros(2, requires_grad=True)
>>> autograd.jacobian(square, dim=2, inputs=[x], outputs=[y])[0, 0]
array([[2., 0.],
       [0., 6.]], dtype=float32)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyloom import _native
from polyloom._arrays import array
from polyloom._operations import Launched
from polyloom._tape import Tape

__all__ = ["FunctionMetadata", "gradcheck", "gradcheck_tape", "jacobian", "jacobian_fd", "jacobian_plot"]

Numbers = np.ndarray[Any, Any]
# The Jacobian of an output, by its number, with respect to an input, by its number.
Jacobians = dict[tuple[int, int], array]
Mask = Sequence[tuple[str | int, str | int]]


@dataclass
class FunctionMetadata:
    """The names that plots and messages give a function, its inputs and its outputs.

    Attributes
    ----------
    key : str, optional
        The function.
    input_labels, output_labels : list of str, optional
        Its inputs and outputs.
    """

    key: str | None = None
    input_labels: list[str] | None = None
    output_labels: list[str] | None = None


class _Evaluation:
    """A kernel with the arguments of a launch, or a function with its arguments, to be run again and again."""

    def __init__(
        self,
        function: _native.Kernel | Callable[..., Any],
        dim: Any,
        inputs: Sequence[Any] | None,
        outputs: Sequence[Any] | None,
        device: Any,
        block_dim: Any,
        metadata: FunctionMetadata | None = None,
    ) -> None:
        self._function, self._dim = function, dim
        self._device, self._block_dim = device, block_dim
        self.inputs, self.outputs = list(inputs or []), list(outputs or [])
        known = metadata or FunctionMetadata()
        if isinstance(function, _native.Kernel):
            if dim is None:
                raise ValueError(f"dim is missing: how many threads kernel '{function.key}' is launched over")
            names = list(function.parameter_names)
            n_inputs = len(self.inputs)
            input_names, output_names = names[:n_inputs], names[n_inputs : n_inputs + len(self.outputs)]
            self.key = str(known.key or function.key)
        else:
            if outputs is not None:
                raise ValueError("a function gives its outputs: outputs are for kernels")
            input_names, output_names = list(inspect.signature(function).parameters), []
            self.key = str(known.key or getattr(function, "__name__", "function"))
        self.input_names = known.input_labels or input_names
        self._output_names = known.output_labels or output_names

    @property
    def output_names(self) -> list[str]:
        """Those of the outputs there are; of a function they are known once it has run."""
        return self._output_names or [f"output_{number}" for number in range(len(self.outputs))]

    def run(self) -> list[array]:
        """Runs it, and gives its outputs."""
        if isinstance(self._function, _native.Kernel):
            _native.launch(
                self._function,
                self._dim,
                self.inputs,
                self.outputs,
                None if self._device is None else str(self._device),
                block_dim=self._block_dim,
            )
            return self.outputs
        given = self._function(*self.inputs)
        self.outputs = list(given) if isinstance(given, (tuple, list)) else [given]
        return self.outputs

    def pairs(self, mask: Mask | None) -> list[tuple[int, int]]:
        """The inputs and outputs to look at, by number: those that the mask names, or all that have derivatives."""
        active = [number for number, value in enumerate(self.inputs) if _has_derivative(value)]
        results = [number for number, value in enumerate(self.outputs) if _has_derivative(value)]
        if mask is None:
            return [(i, j) for i in active for j in results]

        def number(name: str | int, names: list[str], n: int, what: str) -> int:
            if isinstance(name, str):
                if name not in names:
                    raise ValueError(f"'{self.key}' has no {what} '{name}'; there are {', '.join(names) or 'none'}")
                return names.index(name)
            if not 0 <= name < n:
                raise ValueError(f"'{self.key}' has {n} {what}s, there is no {name}")
            return name

        return [
            (
                number(of, self.input_names, len(self.inputs), "input"),
                number(to, self.output_names, len(self.outputs), "output"),
            )
            for of, to in mask
        ]

    @contextmanager
    def restored(self, restore: bool) -> Iterator[list[Numbers | None]]:
        """Leaves the arrays among the inputs as they were, and gives what they held."""
        before = [value.numpy().copy() if isinstance(value, array) else None for value in self.inputs]
        try:
            yield before
        finally:
            if restore:
                self.restore(before)

    def restore(self, before: list[Numbers | None]) -> None:
        """Gives the arrays among the inputs what they held."""
        for value, numbers in zip(self.inputs, before, strict=True):
            if numbers is not None:
                value.assign(numbers)


def _has_derivative(value: Any) -> bool:
    return isinstance(value, array) and value.requires_grad and value.numpy().dtype.kind == "f"


def _is_enabled(kernel: _native.Kernel) -> bool:
    """Whether neither the kernel nor its module says that it has no derivative."""
    options = getattr(kernel, "options", {})
    if "enable_backward" in options:
        return bool(options["enable_backward"])
    module = getattr(kernel, "module", None)
    return bool(getattr(module, "options", {}).get("enable_backward", True))


def _made(numbers: Numbers, like: array) -> array:
    made: array = array(numbers, dtype=numbers.dtype.name, device=like.device)
    return made


def jacobian(
    function: _native.Kernel | Callable[..., Any],
    dim: Any = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    input_output_mask: Mask | None = None,
    device: Any = None,
    max_blocks: int = 0,
    block_dim: Any = None,
    max_outputs_per_var: int = -1,
    plot_jacobians: bool = False,
    metadata: FunctionMetadata | None = None,
    restore_inputs: bool = True,
) -> Jacobians:
    """The Jacobians of a kernel or of a function that launches kernels, by reverse mode, a row at a time.

    Parameters
    ----------
    function : Kernel or callable
        A kernel, which takes `dim` and `outputs` too; or a function of `inputs` that gives an array or several.
    dim : int or sequence of int, optional
        The threads of a kernel.
    inputs : sequence
        What is given to it. Derivatives are with respect to arrays of floats with `requires_grad`.
    outputs : sequence, optional
        The arrays that a kernel writes.
    input_output_mask : sequence of (input, output), optional
        Pairs of names or numbers; by default all.
    device : optional
        Where a kernel runs.
    max_blocks
        Taken for programs written for Warp, and without effect.
    block_dim : optional
        Threads of a block of a kernel.
    max_outputs_per_var : int
        Most rows that are computed of each; the others are NaN. Less than 0 for all.
    plot_jacobians : bool
        Whether to draw them with Matplotlib.
    metadata : FunctionMetadata, optional
        Names for plots and messages.
    restore_inputs : bool
        Whether arrays among the inputs get back what they held.

    Returns
    -------
    dict
        By numbers of input and output, an array of two dimensions: a row for each component of the output, a column for
        each of the input.

    Raises
    ------
    ValueError
        If a kernel has its derivative switched off by `enable_backward=False`, or the mask names what is not there.
    """
    evaluation = _Evaluation(function, dim, inputs, outputs, device, block_dim, metadata)
    if isinstance(function, _native.Kernel):
        _check_enabled([function])
    found: Jacobians = {}
    with evaluation.restored(restore_inputs), _own_gradients(evaluation.inputs):
        with Tape() as tape:
            results = evaluation.run()
        _check_enabled([each._kernel for each in tape.launches if isinstance(each, Launched)])
        pairs = evaluation.pairs(input_output_mask)
        for j in dict.fromkeys(j for _, j in pairs):
            of = [i for i, to in pairs if to == j]
            rows = _rows(tape, results[j], [evaluation.inputs[i] for i in of], max_outputs_per_var)
            for i, numbers in zip(of, rows, strict=True):
                found[i, j] = _made(numbers, evaluation.inputs[i])
    if plot_jacobians:
        jacobian_plot(found, _names(evaluation))
    return found


def _check_enabled(kernels: Sequence[_native.Kernel]) -> None:
    if not all(_is_enabled(kernel) for kernel in kernels):
        raise ValueError("Kernel must have backward pass enabled to compute Jacobians")


@contextmanager
def _own_gradients(inputs: Sequence[Any]) -> Iterator[None]:
    """Leaves the gradients of arrays as they were."""
    kept = [(value, value.grad.numpy().copy()) for value in inputs if _has_derivative(value)]
    try:
        yield
    finally:
        for value, numbers in kept:
            value.grad.assign(numbers)


def _rows(tape: Tape, result: array, inputs: Sequence[array], most: int) -> list[Numbers]:
    """The Jacobians of a result with respect to these inputs; rows that are not asked for are NaN."""
    seed = np.zeros(result.numpy().shape, result.numpy().dtype)
    made = [np.full((seed.size, value.numpy().size), np.nan, value.numpy().dtype) for value in inputs]
    for row in range(seed.size if most < 0 else min(most, seed.size)):
        tape.zero()
        gradients = [value.grad for value in inputs if value.grad is not None]
        for gradient in gradients:
            gradient.zero_()
        seed.reshape(-1)[row] = 1
        tape.backward(grads={result: array(seed, dtype=result.dtype, device=result.device)})
        seed.reshape(-1)[row] = 0
        for numbers, gradient in zip(made, gradients, strict=True):
            numbers[row] = gradient.numpy().reshape(-1)
    tape.zero()
    return made


def jacobian_fd(
    function: _native.Kernel | Callable[..., Any],
    dim: Any = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    input_output_mask: Mask | None = None,
    device: Any = None,
    max_blocks: int = 0,
    block_dim: Any = None,
    max_inputs_per_var: int = -1,
    eps: float = 1e-4,
    plot_jacobians: bool = False,
    metadata: FunctionMetadata | None = None,
    restore_inputs: bool = True,
) -> Jacobians:
    """The Jacobians of a kernel or function by central differences, a column at a time; parameters as of `jacobian`.

    Parameters
    ----------
    max_inputs_per_var : int
        Most columns that are computed of each; the others are NaN. Less than 0 for all.
    eps : float
        How far inputs are moved to either side.
    """
    evaluation = _Evaluation(function, dim, inputs, outputs, device, block_dim, metadata)
    found: dict[tuple[int, int], Numbers] = {}
    with evaluation.restored(restore_inputs) as before:
        first = [each.numpy() for each in evaluation.run()]
        pairs = evaluation.pairs(input_output_mask)
        for i, j in pairs:
            numbers = before[i]
            assert numbers is not None
            found[i, j] = np.full((first[j].size, numbers.size), np.nan, numbers.dtype)
        for i in dict.fromkeys(i for i, _ in pairs):
            numbers, moved = before[i], evaluation.inputs[i]
            assert numbers is not None
            for column in range(numbers.size if max_inputs_per_var < 0 else min(max_inputs_per_var, numbers.size)):
                sides = []
                for step in (eps, -eps):
                    if restore_inputs:
                        evaluation.restore(before)
                    other = moved.numpy().copy()
                    other.reshape(-1)[column] = numbers.reshape(-1)[column] + step
                    at = other.reshape(-1)[column]
                    moved.assign(other)
                    sides.append((at, [each.numpy().astype(np.float64) for each in evaluation.run()]))
                (high, above), (low, below) = sides
                for j in (j for of, j in pairs if of == i):
                    slope = (above[j] - below[j]) / (float(high) - float(low))
                    found[i, j][:, column] = slope.reshape(-1)
                if not restore_inputs:
                    back = moved.numpy().copy()
                    back.reshape(-1)[column] = numbers.reshape(-1)[column]
                    moved.assign(back)
    made = {key: _made(numbers, evaluation.inputs[key[0]]) for key, numbers in found.items()}
    if plot_jacobians:
        jacobian_plot(made, _names(evaluation))
    return made


def gradcheck(
    function: _native.Kernel | Callable[..., Any],
    dim: Any = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    *,
    eps: float = 1e-4,
    atol: float = 1e-3,
    rtol: float = 1e-2,
    raise_exception: bool = True,
    input_output_mask: Mask | None = None,
    device: Any = None,
    max_blocks: int = 0,
    block_dim: Any = None,
    max_inputs_per_var: int = -1,
    max_outputs_per_var: int = -1,
    plot_relative_error: bool = False,
    plot_absolute_error: bool = False,
    show_summary: bool = True,
    restore_inputs: bool = True,
) -> bool:
    """Whether the Jacobians by reverse mode are those by differences; parameters as of `jacobian` and `jacobian_fd`.

    Parameters
    ----------
    atol, rtol : float
        How far elements may be apart, and how far relative to the difference.
    raise_exception : bool
        Whether to raise an error if they are farther.
    plot_relative_error, plot_absolute_error : bool
        Whether to draw how far they are apart.
    show_summary : bool
        Whether to print a line for each Jacobian.

    Raises
    ------
    ValueError
        If they do not agree and `raise_exception` is true.
    """
    common: dict[str, Any] = {
        "input_output_mask": input_output_mask,
        "device": device,
        "block_dim": block_dim,
        "restore_inputs": restore_inputs,
    }
    moved = jacobian_fd(function, dim, inputs, outputs, max_inputs_per_var=max_inputs_per_var, eps=eps, **common)
    exact = jacobian(function, dim, inputs, outputs, max_outputs_per_var=max_outputs_per_var, **common)
    names = _names(_Evaluation(function, dim, inputs, outputs, device, block_dim))
    wrong = []
    errors: dict[str, Jacobians] = {"relative": {}, "absolute": {}}
    for (i, j), rows in exact.items():
        a, b = rows.numpy().astype(np.float64), moved[i, j].numpy().astype(np.float64)
        n_rows = len(a) if max_outputs_per_var < 0 else max_outputs_per_var
        n_columns = a.shape[1] if max_inputs_per_var < 0 else max_inputs_per_var
        a, b = a[:n_rows, :n_columns], b[:n_rows, :n_columns]
        error = np.abs(a - b)
        agrees = bool(np.all(error <= atol + rtol * np.abs(b)))  # not if one is NaN
        place = f"{_label(names.output_labels, j)} by {_label(names.input_labels, i)}"
        line = f"{names.key}: {place}: largest error {error.max(initial=0.0):.3g}"
        if show_summary:
            print(f"{line}, {'agrees' if agrees else 'does not agree'} with differences")
        if not agrees:
            wrong.append(line)
        errors["absolute"][i, j] = _made(error, rows)
        errors["relative"][i, j] = _made(error / np.maximum(np.abs(b), 1e-30), rows)
    for kind, is_drawn in (("relative", plot_relative_error), ("absolute", plot_absolute_error)):
        if is_drawn:
            jacobian_plot(errors[kind], names, title=f"Jacobian {kind} error")
    if wrong and raise_exception:
        raise ValueError("derivatives do not agree with differences: " + "; ".join(wrong))
    return not wrong


def gradcheck_tape(
    tape: Tape,
    *,
    eps: float = 1e-4,
    atol: float = 1e-3,
    rtol: float = 1e-2,
    raise_exception: bool = True,
    input_output_masks: dict[str, Mask] | None = None,
    blacklist_kernels: Sequence[str] | None = None,
    whitelist_kernels: Sequence[str] | None = None,
    max_inputs_per_var: int = -1,
    max_outputs_per_var: int = -1,
    plot_relative_error: bool = False,
    plot_absolute_error: bool = False,
    show_summary: bool = True,
    reverse_launches: bool = False,
    skip_to_launch_index: int = 0,
) -> bool:
    """Checks each launch that a tape has recorded as `gradcheck` does, with what its arrays hold now.

    Launches of kernels with `enable_backward=False`, of structs, and of kernels that write before they read among their
    parameters are left out.

    Parameters
    ----------
    input_output_masks : dict, optional
        By kernel, what of it is looked at.
    blacklist_kernels, whitelist_kernels : sequence of str, optional
        The kernels that are left out, or the only ones.
    reverse_launches : bool
        Whether to begin with the last.
    skip_to_launch_index : int
        How many are left out first.
    """
    launches = [each for each in tape.launches if isinstance(each, Launched)]
    launches = (launches[::-1] if reverse_launches else launches)[skip_to_launch_index:]
    passed = True
    for launch in launches:
        kernel = launch._kernel
        if launch.structs or not launch._needs.is_active or not _is_enabled(kernel):
            continue
        if kernel.key in (blacklist_kernels or ()) or (whitelist_kernels and kernel.key not in whitelist_kernels):
            continue
        given = {id(view): each for view, each in launch.arrays}
        args = [given.get(id(arg), arg) for arg in launch._args]
        writes = [is_written for _, _, _, is_written in kernel._parameters]
        n_inputs = writes.index(True)
        if not all(writes[n_inputs:]):
            continue
        kept = [(each, each.numpy().copy()) for each in args if isinstance(each, array)]
        try:
            passed &= gradcheck(
                kernel,
                launch._dim,
                args[:n_inputs],
                args[n_inputs:],
                eps=eps,
                atol=atol,
                rtol=rtol,
                raise_exception=raise_exception,
                input_output_mask=(input_output_masks or {}).get(kernel.key),
                device=launch._device,
                block_dim=launch._block,
                max_inputs_per_var=max_inputs_per_var,
                max_outputs_per_var=max_outputs_per_var,
                plot_relative_error=plot_relative_error,
                plot_absolute_error=plot_absolute_error,
                show_summary=show_summary,
            )
        finally:
            for each, numbers in kept:
                each.assign(numbers)
    return passed


def _names(evaluation: _Evaluation) -> FunctionMetadata:
    return FunctionMetadata(evaluation.key, evaluation.input_names, evaluation.output_names)


def _label(labels: list[str] | None, number: int) -> str:
    return labels[number] if labels and number < len(labels) else f"output_{number}"


def jacobian_plot(
    jacobians: Jacobians,
    metadata: FunctionMetadata | _native.Kernel,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    show_plot: bool = True,
    show_colorbar: bool = True,
    title: str = "Jacobian",
) -> Any:
    """Draws Jacobians with Matplotlib, an image for each, and gives the figure.

    Parameters
    ----------
    jacobians : dict
        By numbers of input and output.
    metadata : FunctionMetadata or Kernel
        What gives the figure and its axes names.
    inputs, outputs : sequence, optional
        Of a kernel, what it was given: says which of its parameters are inputs.
    show_plot, show_colorbar : bool
        Whether to show the figure, and a scale beside it.
    title : str
        What the figure is called after the function.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.
    """
    import matplotlib.pyplot as plt  # type: ignore[import-not-found]

    if isinstance(metadata, _native.Kernel):
        names, n_inputs = list(metadata.parameter_names), len(inputs or [])
        metadata = FunctionMetadata(metadata.key, names[:n_inputs], names[n_inputs:])
    columns, rows = sorted({i for i, _ in jacobians}), sorted({j for _, j in jacobians})
    sizes = {
        "width_ratios": [next(each.shape[1] for (i, _), each in jacobians.items() if i == at) for at in columns],
        "height_ratios": [next(each.shape[0] for (_, j), each in jacobians.items() if j == at) for at in rows],
    }
    n_rows, n_columns = max(len(rows), 1), max(len(columns), 1)
    figure, axes = plt.subplots(n_rows, n_columns, squeeze=False, gridspec_kw=sizes, layout="constrained")
    figure.suptitle(f"{metadata.key} kernel {title}")
    shown = None
    for row, j in enumerate(rows):
        for column, i in enumerate(columns):
            image = axes[row, column]
            if (i, j) not in jacobians:
                image.axis("off")
                continue
            image.set_xlabel(_label(metadata.input_labels, i))
            image.set_ylabel(_label(metadata.output_labels, j))
            shown = image.imshow(jacobians[i, j].numpy(), cmap="coolwarm", aspect="auto")
    if show_colorbar and shown is not None:
        figure.colorbar(shown, ax=axes.reshape(-1).tolist())
    if show_plot:
        plt.show()
    return figure
