//! The Python module of an artifact: a loader over `ctypes` and NumPy, with a function for each of the library's.

use super::c_header::prototype;
use super::{Artifact, ArtifactFunction};
use polyloom_codegen::{NATIVE_ABI, NativeArgument, NativeReturn};
use polyloom_ir::{Scalar, Type};
use std::fmt::Write as _;

/// The `ctypes` type of a scalar.
fn ctypes_type(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "_ctypes.c_bool",
        Scalar::I8 => "_ctypes.c_int8",
        Scalar::I16 => "_ctypes.c_int16",
        Scalar::I32 => "_ctypes.c_int32",
        Scalar::I64 => "_ctypes.c_int64",
        Scalar::U8 => "_ctypes.c_uint8",
        Scalar::U16 | Scalar::F16 | Scalar::BF16 => "_ctypes.c_uint16",
        Scalar::U32 => "_ctypes.c_uint32",
        Scalar::U64 => "_ctypes.c_uint64",
        Scalar::F32 => "_ctypes.c_float",
        Scalar::F64 => "_ctypes.c_double",
    }
}

/// NumPy's name of an element type; of `bfloat16`, which it has not, that of its bits.
fn numpy_type(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::BF16 => "uint16",
        other => other.python_name(),
    }
}

/// The annotation of a number.
fn number(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "bool",
        Scalar::F32 | Scalar::F64 => "float",
        _ => "int",
    }
}

/// The names of the loader that functions of a library might have.
pub(super) const OWN_NAMES: [&str; 7] =
    ["CheckError", "cpu", "_array", "_check", "_components", "_library", "_workspace"];

/// What comes before the functions. `@NAME@`, `@VERSION@` and `@ABI@` are filled in.
const LOADER: &str = r#"# @NAME@: made by Polyloom @VERSION@, polyloom ABI @ABI@. Nothing of Polyloom is needed to use it.
"""Functions of the library `lib@NAME@.so`, which lies beside this file."""

import ctypes as _ctypes
import pathlib as _pathlib
from typing import Any as _Any

import numpy as _np

_library = _ctypes.CDLL(str(_pathlib.Path(__file__).resolve().parent / "lib@NAME@.so"))
_library.@NAME@_abi.restype = _ctypes.c_int32
if _library.@NAME@_abi() != @ABI@:
    raise ImportError(f"lib@NAME@.so has polyloom ABI {_library.@NAME@_abi()}, and this file is for @ABI@")
_library.@NAME@_cpu.restype = _ctypes.c_char_p


class CheckError(RuntimeError):
    """A check of a function has failed. Some of its threads have run."""


def _array(name: str, array: _Any, dtype: str, shape: tuple[int | None, ...], written: bool) -> _Any:
    if not isinstance(array, _np.ndarray) or array.dtype != dtype:
        raise TypeError(f"{name} must be a NumPy array of {dtype}, not {getattr(array, 'dtype', type(array).__name__)}")
    if max(array.size, *array.shape, 0) > 2147483647:
        raise ValueError(f"{name} has more than 2147483647 elements")
    if array.ndim != len(shape) or any(n is not None and n != m for n, m in zip(shape, array.shape)):
        raise TypeError(f"{name} must have the shape {shape}, where None is any extent, not {array.shape}")
    if written and not array.flags.writeable:
        raise ValueError(f"{name} is written and read-only: pass a copy")
    if not array.flags.aligned:
        raise ValueError(f"{name} has elements that are not aligned: pass a copy")
    rank = array.ndim
    return (_ctypes.c_int64 * (1 + 2 * rank))(array.ctypes.data, *array.shape, *array.strides)


def _components(name: str, value: _Any, dtype: str, n: int) -> _Any:
    array = _np.ascontiguousarray(value, dtype).ravel()
    if array.size != n:
        raise TypeError(f"{name} must have {n} components, not {array.size}")
    return array


def _workspace(memory: _Any, size: int) -> _Any:
    memory = _np.empty(size, "uint8") if memory is None else memory
    is_bytes = memory.flags.c_contiguous and memory.flags.writeable and not memory.dtype.hasobject
    if memory.nbytes < size or not is_bytes:
        raise ValueError(f"the workspace must be a dense array of {size} bytes that may be written")
    return memory


def _check(status: int, site: _Any) -> None:
    if status:
        raise CheckError(site(status).decode())


def cpu() -> str:
    """Returns the kind of processor whose code runs."""
    return _library.@NAME@_cpu().decode()
"#;

fn function(artifact: &ArtifactFunction) -> String {
    let signature = &artifact.signature;
    let name = &signature.name;
    let (mut params, mut types, mut given, mut before) = (Vec::new(), Vec::new(), Vec::new(), String::new());
    let mut results: Vec<String> = Vec::new();
    for ((position, argument), arg) in signature.arguments().into_iter().enumerate().zip(signature.argument_names()) {
        match argument {
            NativeArgument::Extent => {
                params.push(format!("{arg}: int"));
                types.push("_ctypes.c_int64".to_owned());
                given.push(arg);
            }
            NativeArgument::Scalar(scalar) => {
                params.push(format!("{arg}: {}", number(scalar)));
                types.push(ctypes_type(scalar).to_owned());
                given.push(arg);
            }
            NativeArgument::Components(composite) => {
                params.push(format!("{arg}: _Any"));
                types.push("_ctypes.c_void_p".to_owned());
                let (dtype, n) = (numpy_type(composite.elem()), composite.n_components());
                let _ = writeln!(before, "    {arg} = _components({arg:?}, {arg}, {dtype:?}, {n})");
                given.push(format!("{arg}.ctypes.data"));
            }
            NativeArgument::Array { elem, is_written, ndim } => {
                params.push(format!("{arg}: _np.ndarray"));
                types.push("_ctypes.c_void_p".to_owned());
                let param = &signature.params[position - usize::from(signature.launch_rank)];
                let inner = param.ty.composite_within().map(|composite| composite.shape()).unwrap_or_default();
                let outer = usize::from(ndim) - inner.len();
                let unknown = || {
                    let inner = inner.iter().map(|&extent| Some(u64::from(extent)));
                    std::iter::repeat_n(None, outer).chain(inner).collect()
                };
                let shape: Vec<Option<u64>> = artifact.extents(position).unwrap_or_else(unknown);
                let shape: String = shape
                    .iter()
                    .map(|extent| extent.map_or_else(|| "None, ".to_owned(), |extent| format!("{extent}, ")))
                    .collect();
                let is_written = if is_written { "True" } else { "False" };
                let dtype = numpy_type(elem);
                let _ = writeln!(
                    before,
                    "    _view{position} = _array({arg:?}, {arg}, {dtype:?}, ({}), {is_written})",
                    shape.trim_end_matches(' ')
                );
                given.push(format!("_ctypes.addressof(_view{position})"));
            }
            NativeArgument::Workspace => {
                params.push(format!("{arg}: _np.ndarray | None = None"));
                types.push("_ctypes.c_void_p".to_owned());
                let _ = writeln!(before, "    {arg} = _workspace({arg}, {})", signature.workspace_bytes);
                given.push(format!("{arg}.ctypes.data"));
            }
            NativeArgument::Result(ty) => {
                types.push("_ctypes.c_void_p".to_owned());
                let shape: Vec<String> =
                    ty.as_composite().map(|c| c.shape().iter().map(u16::to_string).collect()).unwrap_or_default();
                let comma = if shape.len() == 1 { "," } else { "" };
                let dtype = numpy_type(ty.scalar_within());
                let _ = writeln!(before, "    {arg} = _np.zeros(({}{comma}), {dtype:?})", shape.join(", "));
                given.push(format!("{arg}.ctypes.data"));
                results.push(match ty {
                    Type::Scalar(_) => format!("{arg}.item()"),
                    _ => arg,
                });
            }
        }
    }
    let (restype, annotation) = match signature.returns {
        NativeReturn::Status => ("_ctypes.c_int32", if results.is_empty() { "None" } else { "_Any" }),
        NativeReturn::Value(scalar) => (ctypes_type(scalar), number(scalar)),
    };
    let mut text =
        format!("\n\n_library.{name}.argtypes = [{}]\n_library.{name}.restype = {restype}\n", types.join(", "));
    let has_sites = !artifact.checks.is_empty();
    if has_sites {
        let _ = writeln!(
            text,
            "_library.{name}_site.argtypes = [_ctypes.c_int32]\n_library.{name}_site.restype = _ctypes.c_char_p"
        );
    }
    let call = format!("_library.{name}({})", given.join(", "));
    let doc = artifact.source_signature.replace('\\', "\\\\").replace('"', "\\\"");
    let _ = write!(
        text,
        "\n\ndef {name}({}) -> {annotation}:\n    \"\"\"{doc}\n\n    C: {}\n    \"\"\"\n{before}",
        params.join(", "),
        prototype(signature)
    );
    match signature.returns {
        NativeReturn::Value(_) => _ = writeln!(text, "    return {call}"),
        NativeReturn::Status if has_sites => _ = writeln!(text, "    _check({call}, _library.{name}_site)"),
        NativeReturn::Status => _ = writeln!(text, "    {call}"),
    }
    if !results.is_empty() {
        let _ = writeln!(text, "    return {}", results.join(", "));
    }
    text
}

/// The module.
pub(super) fn module(artifact: &Artifact) -> String {
    let mut text = LOADER
        .replace("@NAME@", &artifact.name)
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
        .replace("@ABI@", &NATIVE_ABI.to_string());
    for of_artifact in &artifact.functions {
        text.push_str(&function(of_artifact));
    }
    text
}
