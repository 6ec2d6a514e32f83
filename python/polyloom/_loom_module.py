"""`.loom` files as modules: kernels that are launched, and computations that are functions on arrays."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyloom import _native
from polyloom._arrays import array
from polyloom._devices import DeviceLike, get_device, is_device_available
from polyloom._scalars import bfloat16, float16, float32, float64
from polyloom._structs import struct

_FLOATS = (float16, bfloat16, float32, float64)

#: The kernels of a program by the index of their function, the types of the elements of results and of scratch arrays,
#: and for each parameter whether a kernel writes it.
_CompiledStages = tuple[dict[int, _native.Kernel], list[Any], list[Any], list[bool]]

#: The programs that have said that the CPU runs them in place of the device that they prefer.
_warned: set[tuple[str, str]] = set()


class LoomProgram:
    """A `kernel` or a `compute` of a `.loom` file.

    Called with its parameters it allocates its results and returns them; `launch` also takes the arrays for these.

    Attributes
    ----------
    parameters, results : list of str
        Their names.
    """

    def __init__(self, module: LoomModule, index: int, name: str, doc: str) -> None:
        self._module = module
        self._index = index
        self.__name__ = name
        self.__doc__ = doc or None
        self.parameters, self.results = module._native.signature(index)
        self._device = module._native.device(index)
        self._product = module._native.product(index)
        self._compiled: dict[tuple[str, ...], _CompiledStages] = {}

    def __repr__(self) -> str:
        return f"<loom program {self.__name__}({', '.join(self.parameters)}) of {self._module.__name__!r}>"

    def kernels(self, *args: Any) -> list[_native.Kernel]:
        """The kernels that it launches, compiled for arguments of these types."""
        return list(self._specialised(args)[0].values())

    def __call__(self, *args: Any, device: DeviceLike = None, dim: Any = None) -> Any:
        """Runs it, and returns its results: one, several as a tuple, or nothing."""
        results = self._run(args, None, device, dim)
        if not results:
            return None
        return results[0] if len(results) == 1 else tuple(results)

    def launch(self, *args: Any, device: DeviceLike = None, dim: Any = None) -> None:
        """Runs it on parameters and, after these, the arrays that it is to write its results to."""
        n = len(self.parameters)
        if len(args) != n + len(self.results):
            names = ", ".join(self.parameters + self.results)
            raise TypeError(f"{self.__name__} is launched on {names}, and {len(args)} arguments are given")
        self._run(args[:n], list(args[n:]), device, dim)

    def _specialised(self, args: Sequence[Any]) -> _CompiledStages:
        types = tuple(_type_name(value) for value in args)
        known = self._compiled.get(types)
        if known is None:
            kernels, elements, scratch, written = self._module._native.compiled(self._index, list(types))
            known = self._compiled[types] = (dict(kernels), elements, scratch, written)
        return known

    def _chosen_device(self, args: Sequence[Any], named: DeviceLike) -> Any:
        if named is not None:
            return get_device(named)
        on = [value.device for value in args if isinstance(value, array)]
        if on:
            return on[0]
        if self._device is None:
            return get_device("cpu") if any(isinstance(value, np.ndarray) for value in args) else get_device()
        name, is_required = self._device
        if is_device_available(name):
            return get_device(name)
        if is_required:
            raise RuntimeError(f"{self.__name__} requires {name}, which is not there")
        if (self.__name__, name) not in _warned:
            _warned.add((self.__name__, name))
            warnings.warn(f"{self.__name__} prefers {name}, which is not there: the CPU runs it", stacklevel=4)
        return get_device("cpu")

    def _run(self, args: Sequence[Any], results: list[Any] | None, named: DeviceLike, dim: Any) -> list[Any]:
        import polyloom

        if len(args) != len(self.parameters):
            names = ", ".join(self.parameters)
            raise TypeError(f"{self.__name__} takes {names}, and {len(args)} arguments are given")
        device = self._chosen_device(args, named)
        is_here = str(device) == "cpu"
        given_shapes = [_shape(value) for value in args]
        shapes, scratch_shapes, launches = self._module._native.bound(self._index, given_shapes, is_here)
        kernels, elements, scratch_elements, written = self._specialised(args)
        given_arrays = [value for value in args if isinstance(value, (array, np.ndarray))]
        in_numpy = bool(given_arrays) and all(isinstance(value, np.ndarray) for value in given_arrays)

        def on_device(value: Any) -> Any:
            # Memory of the process is not memory of another device.
            if isinstance(value, np.ndarray) and not is_here:
                return polyloom.from_numpy(value, device=device)
            return value

        inputs = [on_device(value) for value in args]
        is_taken = results is None or _is_array(results[0], elements[0], shapes[0])
        product = self._engine_product(inputs, device, kernels, elements) if is_taken else None
        if product is not None:
            computed = product.numpy() if isinstance(product, array) and (in_numpy or results) else product
            if results is None:
                return [computed]
            results[0][...] = computed
            return results
        if results is None:
            outputs = [
                np.zeros(shape, np.dtype(str(dtype.__name__)))
                if in_numpy and is_here and _is_scalar(dtype)
                else polyloom.zeros(tuple(shape), dtype=dtype, device=device)
                for shape, dtype in zip(shapes, elements, strict=True)
            ]
        else:
            for value, shape, name in zip(results, shapes, self.results, strict=True):
                if tuple(value.shape)[: len(shape)] != tuple(shape):
                    raise ValueError(f"the result {name} has the shape {tuple(shape)}, not {tuple(value.shape)}")
            outputs = [on_device(value) for value in results]
        is_recorded = _native.recording_level() == 2
        scratch = [
            None
            if dtype is None
            else polyloom.zeros(
                tuple(shape), dtype=dtype, device=device, requires_grad=is_recorded and dtype in _FLOATS
            )
            for shape, dtype in zip(scratch_shapes, scratch_elements, strict=True)
        ]
        for index, extents, stored, taken, counters in launches:
            if extents is None and dim is None:
                raise TypeError(f"{self.__name__} asks for its thread: say how many run by dim")
            grid = dim if extents is None else tuple(extents)
            own = [*(outputs[number] for number in stored), *(scratch[number] for number in taken)]
            polyloom.launch(kernels[index], dim=grid, inputs=[*inputs, *own, *counters], device=device)
        if not is_here:
            pairs = [
                pair for pair, is_written in zip(zip(args, inputs, strict=True), written, strict=True) if is_written
            ]
            if results is not None:
                pairs += list(zip(results, outputs, strict=True))
            for source, value in pairs:
                if isinstance(source, np.ndarray):
                    source[...] = value.numpy()
        if results is None and in_numpy:
            return [value.numpy() if isinstance(value, array) else value for value in outputs]
        return outputs

    def _engine_product(
        self, inputs: Sequence[Any], device: Any, kernels: dict[int, _native.Kernel], elements: Sequence[Any]
    ) -> Any:
        """The product that the program is, by the tensor engine; None if the loops run.

        The simulator runs the loops, because it is there to check them.
        """
        if self._product is None or str(device) == "sim:0" or _native.recording_level() != 0:
            return None
        factors = [inputs[number] for number, _ in self._product]
        # The loops report arguments of other types, and convert what they store.
        if not _has_types(kernels, (*(number for number, _ in self._product), len(inputs)), factors[0], elements[0]):
            return None
        left, right = factors
        return _product(left, right, [is_transposed for _, is_transposed in self._product])


class LoomModule:
    """The kernels, computations and structs of a `.loom` file, as attributes."""

    def __init__(self, path: str, text: str) -> None:
        self.__name__ = Path(path).stem
        self.__file__ = path
        self._native = _native.LoomModule(path, text)
        self._structs: dict[str, Any] = {}
        self._native.structs(self._add_struct)
        self._programs = {
            name: LoomProgram(self, index, name, doc) for index, (name, doc, _) in enumerate(self._native.programs())
        }

    def _add_struct(self, name: str, fields: list[tuple[str, Any]]) -> None:
        members = {"__annotations__": dict(fields), "__module__": self.__name__}
        self._structs[name] = struct(type(name, (), members))

    def __getattr__(self, name: str) -> Any:
        known = {**self.__dict__.get("_structs", {}), **self.__dict__.get("_programs", {})}
        if name not in known:
            raise AttributeError(f"{self.__dict__.get('__name__')} has no {name!r}; it has {', '.join(known)}")
        return known[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._structs, *self._programs]

    def __iter__(self) -> Iterator[LoomProgram]:
        return iter(self._programs.values())

    def __repr__(self) -> str:
        return f"<loom module {Path(self.__file__).stem!r} from {self.__file__!r}>"


def import_module(path: str | os.PathLike[str]) -> LoomModule:
    """Reads a `.loom` file, and the files that it imports.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    LoomModule
        Its kernels and computations as attributes, which are called with arrays and numbers, and its structs.

    Raises
    ------
    CompileError
        With all that is wrong with the file.
    """
    path = os.fspath(path)
    return LoomModule(path, Path(path).read_text(encoding="utf-8"))


def loom_module(text: str, name: str = "<text>") -> LoomModule:
    """Reads the text of a `.loom` file.

    Examples
    --------
    >>> import numpy as np, polyloom as loom
    >>> module = loom.loom_module('''
    ... kernel scale(x: array<f32, n>, a: f32) -> y: array<f32, n> {
    ...     for i in 0..n { y[i] = a * x[i] }
    ... }
    ... ''')
    >>> module.scale(np.arange(3, dtype=np.float32), 2.0)
    array([0., 2., 4.], dtype=float32)
    """
    return LoomModule(name, text)


def _product(left: Any, right: Any, transposed: Sequence[bool]) -> Any:
    """The product of two matrices by the tensor engine, if it has the bits of loops: `float32` and `float64` have."""
    from polyloom import ops

    is_numpy = isinstance(left, np.ndarray) and isinstance(right, np.ndarray)
    if not is_numpy and not (isinstance(left, array) and isinstance(right, array)):
        return None
    if left.dtype != right.dtype or _name_of(left.dtype) not in ("float32", "float64") or 0 in left.shape + right.shape:
        return None
    left, right = (value.T if turned else value for value, turned in zip((left, right), transposed, strict=True))
    return ops.matmul(left, right)


def _has_types(kernels: dict[int, _native.Kernel], numbers: Sequence[int], factor: Any, element: Any) -> bool:
    """True if these parameters of the kernel and its result have elements of the type of the factor."""
    name = _name_of(getattr(factor, "dtype", None))
    # One that stages tiles and one that does not take the same.
    facts = next(iter(kernels.values()))._parameters
    return _name_of(element) == name and all(facts[number][1:3] == (name, []) for number in numbers)


def _is_array(result: Any, element: Any, shape: Sequence[int]) -> bool:
    """True of an array of NumPy of this shape and of elements of this type."""
    return isinstance(result, np.ndarray) and result.dtype == _name_of(element) and list(result.shape) == list(shape)


def _shape(value: Any) -> Any:
    if isinstance(value, (bool, np.bool_, float, np.floating)):
        return None
    if isinstance(value, (int, np.integer)):
        return int(value)
    shape = getattr(value, "shape", None)
    return None if shape is None or np.isscalar(value) else [int(extent) for extent in shape]


def _type_name(value: Any) -> str:
    if isinstance(value, array):
        return f"array(dtype={_name_of(value.dtype)}, ndim={value.ndim})"
    if isinstance(value, np.ndarray):
        return f"array(dtype={_name_of(value.dtype)}, ndim={value.ndim})"
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    if isinstance(value, np.generic):
        return str(value.dtype)
    if isinstance(value, int):
        return "int32"
    if isinstance(value, float):
        return "float32"
    return type(value).__name__


def _name_of(dtype: Any) -> str:
    return str(getattr(dtype, "__name__", dtype))


def _is_scalar(dtype: Any) -> bool:
    try:
        np.dtype(_name_of(dtype))
    except TypeError:
        return False
    return True
