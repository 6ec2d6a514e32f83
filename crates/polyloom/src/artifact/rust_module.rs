//! The Rust module of an artifact: declarations, and arrays of slices.

use super::c_header::{described, param_names, prototype};
use super::{Artifact, ArtifactFunction};
use polyloom_codegen::{NATIVE_ABI, NativeArgument, NativeReturn, NativeSignature};
use polyloom_ir::Scalar;
use std::fmt::Write as _;

/// The Rust type of a scalar; of the 16-bit floats, that of their bits.
fn rust_type(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "bool",
        Scalar::F16 | Scalar::BF16 => "u16",
        other => other.name(),
    }
}

fn declaration(function: &ArtifactFunction) -> String {
    let signature = &function.signature;
    let params: Vec<String> = signature
        .arguments()
        .into_iter()
        .zip(signature.argument_names())
        .map(|(argument, name)| {
            let ty = match argument {
                NativeArgument::Extent => "i64".to_owned(),
                NativeArgument::Scalar(scalar) => rust_type(scalar).to_owned(),
                NativeArgument::Components(composite) => {
                    format!("*const [{}; {}]", rust_type(composite.elem()), composite.n_components())
                }
                NativeArgument::Array { elem, ndim, .. } => format!("*const Array<{}, {ndim}>", rust_type(elem)),
                NativeArgument::Workspace => "*mut core::ffi::c_void".to_owned(),
                NativeArgument::Result(ty) => match ty.as_composite() {
                    Some(composite) => format!("*mut [{}; {}]", rust_type(composite.elem()), composite.n_components()),
                    None => format!("*mut {}", rust_type(ty.scalar_within())),
                },
            };
            format!("{name}: {ty}")
        })
        .collect();
    let result = match signature.returns {
        NativeReturn::Status => "i32",
        NativeReturn::Value(scalar) => rust_type(scalar),
    };
    let arrays: String = signature
        .params
        .iter()
        .zip(param_names(signature))
        .enumerate()
        .filter(|(_, (param, _))| param.ty.as_any_array().is_some())
        .map(|(n, (_, name))| {
            let described = described(function, n);
            let (ty, access) = described.rsplit_once(", ").unwrap_or((&described, ""));
            format!("    ///\n    /// `{name}`: `{ty}`, {access}.\n")
        })
        .collect();
    let mut text = format!(
        "    /// `{}`\n{arrays}    pub fn {}({}) -> {result};\n",
        function.source_signature,
        signature.name,
        params.join(", ")
    );
    if !function.checks.is_empty() {
        let _ = write!(
            text,
            "    /// The check that a status of `{0}` names, as text that ends with 0.\n    pub fn {0}_site(status: i32) -> *const core::ffi::c_char;\n",
            signature.name
        );
    }
    text
}

/// The module.
pub(super) fn module(artifact: &Artifact) -> String {
    let name = &artifact.name;
    let mut text = format!(
        "// `{name}`: made by Polyloom {}, polyloom ABI {NATIVE_ABI}. Nothing of Polyloom is needed to use it.\n\
         //\n// Have `rustc` link it: `cargo:rustc-link-search=FOLDER` and `cargo:rustc-link-lib=static={name}` in `build.rs`.\n\n",
        env!("CARGO_PKG_VERSION")
    );
    text.push_str(
        "/// An array argument: the element whose indices are all 0, the extents, and the bytes between neighbours along each\n\
         /// axis.\n#[repr(C)]\n#[derive(Clone, Copy, Debug)]\npub struct Array<T, const N: usize> {\n    \
         pub data: *mut T,\n    pub shape: [i64; N],\n    pub strides: [i64; N],\n}\n\n\
         impl<T: Copy, const N: usize> Array<T, N> {\n    \
         /// An array over a slice, dense and row-major; `None` if the shape has another number of elements.\n    \
         pub fn new(elements: &mut [T], shape: [i64; N]) -> Option<Array<T, N>> {\n        \
         let mut strides = [core::mem::size_of::<T>() as i64; N];\n        \
         for axis in (1..N).rev() {\n            strides[axis - 1] = strides[axis].checked_mul(shape[axis])?;\n        }\n        \
         let n = shape.iter().try_fold(1i64, |n, &extent| n.checked_mul(extent))?;\n        \
         (n == elements.len() as i64).then(|| Array { data: elements.as_mut_ptr(), shape, strides })\n    }\n}\n\n\
         unsafe extern \"C\" {\n",
    );
    for function in &artifact.functions {
        let _ = writeln!(text, "    // {}", prototype(&function.signature));
        text.push_str(&declaration(function));
    }
    let _ = write!(
        text,
        "    /// The version of the ABI, {NATIVE_ABI}.\n    pub fn {name}_abi() -> i32;\n    \
         /// The kind of processor whose code runs, as text that ends with 0.\n    \
         pub fn {name}_cpu() -> *const core::ffi::c_char;\n}}\n"
    );
    for function in &artifact.functions {
        let NativeSignature { name, workspace_bytes, .. } = &function.signature;
        if *workspace_bytes > 0 {
            let _ = write!(
                text,
                "\n/// The bytes of the workspace of `{name}`.\npub const {}_WORKSPACE_SIZE: usize = {workspace_bytes};\n",
                name.to_uppercase()
            );
        }
    }
    text
}
