"""Types of the extension module."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from numpy.typing import NDArray

from polyloom._errors import Diagnostic

__version__: str

class ArrayBase:
    def __new__(cls, storage: NDArray[Any]) -> Any: ...
    def numpy(self) -> NDArray[Any]: ...

class Config:
    check: bool
    float_mode: Literal["strict", "contract", "fast"]
    num_threads: int
    def __init__(self) -> None: ...

class SourceUnit:
    def __init__(self, file: str, text: str) -> None: ...

class Kernel:
    def __init__(
        self,
        unit: SourceUnit,
        line: int,
        function: Callable[..., Any],
        globals: dict[str, Any],
        cells: dict[str, Any],
        options: str | None,
    ) -> None: ...
    __name__: str
    @property
    def name(self) -> str: ...
    @property
    def signature(self) -> str: ...
    @property
    def warnings(self) -> list[Diagnostic]: ...
    @property
    def metadata(self) -> list[str]: ...
    def hir(self, *, prepared: bool = False) -> str: ...
    def ast(self) -> str: ...
    def llvm_ir(self, *, optimized: bool = True) -> str: ...
    def asm(self) -> str: ...
    def compile(self, ndim: int | None = None) -> None: ...

class Function:
    def __init__(
        self,
        unit: SourceUnit,
        line: int,
        function: Callable[..., Any],
        globals: dict[str, Any],
        cells: dict[str, Any],
        options: str | None,
    ) -> None: ...
    __name__: str
    def add_overloads_of(self, before: Function) -> None: ...

class Launch:
    def launch(self) -> None: ...
    def set_param_at_index(self, index: int, value: Any) -> None: ...
    def set_param_by_name(self, name: str, value: Any) -> None: ...
    def set_params(self, values: Sequence[Any]) -> None: ...
    def set_dim(self, dim: int | Sequence[int]) -> None: ...

@overload
def launch(
    kernel: Kernel,
    dim: int | Sequence[int],
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    device: str | None = None,
    record_cmd: Literal[False] = False,
) -> None: ...
@overload
def launch(
    kernel: Kernel,
    dim: int | Sequence[int],
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    device: str | None = None,
    *,
    record_cmd: Literal[True],
) -> Launch: ...
def builtins() -> list[tuple[str, str]]: ...
def command(arguments: list[str]) -> int: ...
