//! The C header of an artifact, which C++ takes too.

use super::{Artifact, ArtifactFunction};
use polyloom_codegen::{NATIVE_ABI, NativeArgument, NativeParam, NativeReturn, NativeSignature};
use polyloom_ir::{Scalar, Type};
use std::fmt::Write as _;

/// The C type of a scalar. The 16-bit floats are their bits, because C has no type for them everywhere.
pub(super) fn c_type(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "bool",
        Scalar::I8 => "int8_t",
        Scalar::I16 => "int16_t",
        Scalar::I32 => "int32_t",
        Scalar::I64 => "int64_t",
        Scalar::U8 => "uint8_t",
        Scalar::U16 | Scalar::F16 | Scalar::BF16 => "uint16_t",
        Scalar::U32 => "uint32_t",
        Scalar::U64 => "uint64_t",
        Scalar::F32 => "float",
        Scalar::F64 => "double",
    }
}

/// The declaration of a native function in C, without the semicolon.
pub fn prototype(signature: &NativeSignature) -> String {
    let params: Vec<String> = signature
        .arguments()
        .into_iter()
        .zip(signature.argument_names())
        .map(|(argument, name)| match argument {
            NativeArgument::Extent => format!("int64_t {name}"),
            NativeArgument::Scalar(scalar) => format!("{} {name}", c_type(scalar)),
            NativeArgument::Components(composite) => {
                format!("const {} {name}[{}]", c_type(composite.elem()), composite.n_components())
            }
            NativeArgument::Array { ndim, .. } => format!("const struct polyloom_array{ndim} *{name}"),
            NativeArgument::Result(Type::Composite(composite)) => {
                format!("{} {name}[{}]", c_type(composite.elem()), composite.n_components())
            }
            NativeArgument::Result(ty) => format!("{} *{name}", c_type(ty.scalar_within())),
            NativeArgument::Workspace => format!("void *{name}"),
        })
        .collect();
    let result = match signature.returns {
        NativeReturn::Status => "int32_t",
        NativeReturn::Value(scalar) => c_type(scalar),
    };
    let params = if params.is_empty() { "void".to_owned() } else { params.join(", ") };
    format!("{result} {}({params})", signature.name)
}

/// Returns what the header says of one function.
fn comment(function: &ArtifactFunction) -> String {
    let mut text = format!("/* {}", function.source_signature.replace("*/", "* /"));
    for (n, (param, name)) in function.signature.params.iter().zip(param_names(&function.signature)).enumerate() {
        if param.ty.as_any_array().is_some() {
            let _ = write!(text, "\n * {name}: {}", described(function, n));
        }
    }
    if function.demands.is_some() {
        text.push_str("\n * The arrays have no gaps, and what is written shares no memory with other arguments.");
    }
    if function.signature.workspace_bytes > 0 {
        text.push_str("\n * workspace: memory of the caller's, which one call at a time uses.");
    }
    if let NativeReturn::Status = function.signature.returns {
        text.push_str(match function.checks.is_empty() {
            true => "\n * Returns 0.",
            false => "\n * Returns 0, or the number that its _site function takes if a check has failed.",
        });
    }
    text.push_str(" */\n");
    text
}

/// Describes an array among the parameters: its type, its shape if that is given, and what is done with it.
pub(super) fn described(function: &ArtifactFunction, param: usize) -> String {
    let NativeParam { ty, is_written, .. } = &function.signature.params[param];
    match (function.shape_in_words(param), is_written) {
        (Some(shape), true) => format!("{}[{shape}], written", ty.scalar_within().python_name()),
        (Some(shape), false) => format!("{}[{shape}], read", ty.scalar_within().python_name()),
        (None, true) => format!("{}, read and written", ty.python_name()),
        (None, false) => format!("{}, read", ty.python_name()),
    }
}

/// The names of the C parameters that are parameters of the source.
pub(super) fn param_names(signature: &NativeSignature) -> Vec<String> {
    let first = usize::from(signature.launch_rank);
    signature.argument_names().into_iter().skip(first).take(signature.params.len()).collect()
}

/// The ranks of the arrays that functions take.
pub(super) fn array_ranks(artifact: &Artifact) -> Vec<u8> {
    let mut ranks: Vec<u8> = artifact
        .functions
        .iter()
        .flat_map(|function| function.signature.arguments())
        .filter_map(|argument| match argument {
            NativeArgument::Array { ndim, .. } => Some(ndim),
            _ => None,
        })
        .collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

/// The header.
pub(super) fn header(artifact: &Artifact) -> String {
    let name = &artifact.name;
    let guard = format!("POLYLOOM_ARTIFACT_{}_H", name.to_uppercase());
    let mut text = format!(
        "/* {name}: made by Polyloom {}, polyloom ABI {NATIVE_ABI}. Nothing of Polyloom is needed to use it. */\n\
         #ifndef {guard}\n#define {guard}\n\n#include <stdbool.h>\n#include <stdint.h>\n\n\
         #ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n",
        env!("CARGO_PKG_VERSION")
    );
    let ranks = array_ranks(artifact);
    if !ranks.is_empty() {
        text.push_str(
            "/* Arrays: the element whose indices are all 0, the extents, and the bytes between neighbours along each\n \
             * axis. Extents are at most 2147483647. */\n",
        );
    }
    for rank in ranks {
        let _ = write!(
            text,
            "#ifndef POLYLOOM_ARRAY{rank}\n#define POLYLOOM_ARRAY{rank}\nstruct polyloom_array{rank} {{\n    void *data;\n    \
             int64_t shape[{rank}];\n    int64_t strides[{rank}];\n}};\n#endif\n\n"
        );
    }
    for function in &artifact.functions {
        let _ = writeln!(text, "{}{};", comment(function), prototype(&function.signature));
        let NativeSignature { name, workspace_bytes, .. } = &function.signature;
        if *workspace_bytes > 0 {
            let _ =
                writeln!(text, "/* The bytes of its workspace. */\n#define {name}_workspace_size {workspace_bytes}");
        }
        if !function.checks.is_empty() {
            let _ = writeln!(text, "const char *{}_site(int32_t status);", function.signature.name);
        }
        text.push('\n');
    }
    let _ = write!(
        text,
        "/* The version of the ABI, {NATIVE_ABI}, and the kind of processor whose code runs. */\n\
         int32_t {name}_abi(void);\nconst char *{name}_cpu(void);\n\n\
         #ifdef __cplusplus\n}}\n#endif\n\n#endif\n"
    );
    text
}
