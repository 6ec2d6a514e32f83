"""Types of the extension module."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload

from numpy.typing import NDArray

from polyloom._errors import Diagnostic

__version__: str

class ArrayBase:
    def __new__(cls, storage: NDArray[Any], element: CompositeType | None = None) -> Any: ...
    def numpy(self) -> NDArray[Any]: ...

class CompositeType:
    def __init__(self, kind: str, dtype: str, shape: Sequence[int]) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...

class CompositeBase:
    def __new__(cls, storage: NDArray[Any], ty: CompositeType) -> Any: ...
    @property
    def _storage(self) -> NDArray[Any]: ...

class StructType:
    def __init__(self, name: str, fields: Sequence[tuple[str, Any]]) -> None: ...
    @staticmethod
    def indexed_array(dtype: Any, ndim: int) -> StructType: ...
    @property
    def name(self) -> str: ...
    @property
    def array_within(self) -> str | None: ...

class Config:
    check: bool
    float_mode: Literal["strict", "contract", "fast"]
    lint: bool
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
    def cpp(self, *, comments: bool = False) -> str: ...
    def cuda(self, *, comments: bool = False) -> str: ...
    def asm(self) -> str: ...
    def ptx(
        self, arch: str = "sm_80", *, ptx_version: str | None = None, dense: bool = False, grid_stride: bool = False
    ) -> str: ...
    def compile(self, ndim: int | None = None) -> None: ...
    @property
    def is_generic(self) -> bool: ...
    def overload(self, types: Sequence[Any] | Mapping[str, Any] | None) -> Kernel: ...

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

class Captures:
    def __init__(
        self,
        unit: SourceUnit,
        line: int,
        function: Callable[..., Any],
        globals: dict[str, Any],
        cells: dict[str, Any],
    ) -> None: ...
    @property
    def is_complete(self) -> bool: ...

def result_types(callee: Any, types: Sequence[Any]) -> list[tuple[str, Any]]: ...

class Launch:
    def launch(self) -> None: ...
    def set_param_at_index(self, index: int, value: Any) -> None: ...
    def set_param_by_name(self, name: str, value: Any) -> None: ...
    def set_params(self, values: Sequence[Any]) -> None: ...
    def set_param_at_index_from_ctype(self, index: int, value: Any) -> None: ...
    def set_param_by_name_from_ctype(self, name: str, value: Any) -> None: ...
    def set_params_from_ctypes(self, values: Sequence[Any]) -> None: ...
    def set_dim(self, dim: int | Sequence[int]) -> None: ...

@overload
def launch(
    kernel: Kernel,
    dim: int | Sequence[int] | None = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    device: str | None = None,
    record_cmd: Literal[False] = False,
    *,
    adj_inputs: Sequence[Any] | None = None,
    adj_outputs: Sequence[Any] | None = None,
    stream: None = None,
    adjoint: bool = False,
    record_tape: bool | None = None,
    max_blocks: int | None = None,
    block_dim: int | Sequence[int] | None = None,
    grid: int | Sequence[int] | None = None,
    block: int | Sequence[int] | None = None,
    shared_bytes: int | None = None,
) -> None: ...
@overload
def launch(
    kernel: Kernel,
    dim: int | Sequence[int] | None = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    device: str | None = None,
    *,
    record_cmd: Literal[True],
    adj_inputs: Sequence[Any] | None = None,
    adj_outputs: Sequence[Any] | None = None,
    stream: None = None,
    adjoint: bool = False,
    record_tape: bool | None = None,
    max_blocks: int | None = None,
    block_dim: int | Sequence[int] | None = None,
    grid: int | Sequence[int] | None = None,
    block: int | Sequence[int] | None = None,
    shared_bytes: int | None = None,
) -> Launch: ...
def composite_names() -> list[tuple[str, CompositeType]]: ...
def call_builtin(callee: str, args: Sequence[Any], keywords: dict[str, Any] | None = None) -> Any: ...
def builtins() -> list[tuple[str, str]]: ...
def command(arguments: list[str]) -> int: ...
