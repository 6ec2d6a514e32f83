//! The manifest of an artifact: what it has, as JSON for build systems and loaders.
//!
//! The number of the schema grows when a field changes its meaning or goes away. Fields may be added without that, so
//! readers pass over those that they do not know, and every field that is not in schema 1 has a default here.
//! `docs/guide/artifacts.md` describes each field.

use super::c_header::prototype;
use super::{Artifact, ArtifactFunction};
use polyloom_codegen::{NATIVE_ABI, NativeArgument, NativeReturn};
use polyloom_ir::{Scalar, Type};
use serde::{Deserialize, Serialize};

/// The schema that is written.
pub const MANIFEST_SCHEMA: u32 = 1;

/// Why a manifest cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It is no JSON, or not that of a manifest.
    #[error("this is no manifest of an artifact: {0}")]
    Text(#[from] serde_json::Error),
    /// Its schema is later than this version of Polyloom.
    #[error("the manifest has schema {schema}, and this version of Polyloom reads those up to {MANIFEST_SCHEMA}")]
    Schema {
        /// The schema.
        schema: u32,
    },
}

/// A manifest.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// The schema.
    pub schema: u32,
    /// The artifact's name.
    pub name: String,
    /// The version of Polyloom that made it.
    pub polyloom: String,
    /// The version of the ABI.
    pub abi: u32,
    /// Says what it is for.
    pub target: ManifestTarget,
    /// Its files, by what they are: `static_library`, `shared_library`, `header`, `rust`, `python`, `ptx` and
    /// `fatbin`.
    pub files: Vec<ManifestFile>,
    /// Its functions.
    pub entries: Vec<ManifestEntry>,
}

/// The machines that an artifact is for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ManifestTarget {
    /// LLVM's name of the platform.
    pub triple: String,
    /// The kinds of processors that there is code for, the least first. The best that a machine has is chosen when the
    /// library is loaded.
    pub cpus: Vec<String>,
}

/// A file of an artifact.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Says what it is.
    pub kind: String,
    /// Its name, in the manifest's folder.
    pub path: String,
    /// The architecture, of code for GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
}

/// A function of an artifact.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ManifestEntry {
    /// Its symbol.
    pub name: String,
    /// `kernel`, `function`, `backward`, `fused` or `gradient`.
    pub kind: String,
    /// Its declaration in C.
    pub prototype: String,
    /// The number of extents that a call begins with.
    pub launch_rank: u8,
    /// The mode of its floating-point arithmetic.
    pub float_mode: String,
    /// The C function's parameters, extents among them.
    pub parameters: Vec<ManifestParameter>,
    /// Says what it returns: `status`, or the type of its value.
    pub returns: String,
    /// The checks that a status names, from 1 on.
    #[serde(default)]
    pub checks: Vec<String>,
    /// States what callers see to.
    #[serde(default)]
    pub constraints: Vec<String>,
    /// The extent that callers of a function of tensors choose, if they choose one: arrays with it have null in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extent: Option<ManifestExtent>,
    /// What its source promises of it and its code has been held against, such as `critical_path` or
    /// `target_latency_ns = 200`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub promises: Vec<String>,
}

/// An extent that callers choose.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ManifestExtent {
    /// Its name.
    pub name: String,
    /// The least value.
    pub least: u64,
    /// The greatest value.
    pub greatest: u64,
}

/// A parameter of a function.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ManifestParameter {
    /// Its name.
    pub name: String,
    /// `extent`, `scalar`, `components`, `array`, `result` or `workspace`.
    pub kind: String,
    /// The type of its numbers, as Python spells it.
    pub dtype: String,
    /// The extents of an array, a composite or a result: a number, or null for any. Of a workspace, its bytes.
    #[serde(default)]
    pub shape: Vec<Option<u64>>,
    /// True if the function may write there.
    #[serde(default)]
    pub written: bool,
}

impl Manifest {
    /// Reads a manifest of this or an earlier schema.
    ///
    /// # Errors
    ///
    /// [`ManifestError`].
    pub fn from_json(text: &str) -> Result<Manifest, ManifestError> {
        #[derive(Deserialize)]
        struct Versioned {
            schema: u32,
        }
        let Versioned { schema } = serde_json::from_str(text)?;
        if schema > MANIFEST_SCHEMA || schema == 0 {
            return Err(ManifestError::Schema { schema });
        }
        Ok(serde_json::from_str(text)?)
    }

    /// The manifest as JSON.
    ///
    /// # Errors
    ///
    /// Never in fact: it has no keys that JSON does not take.
    pub fn to_json(&self) -> Result<String, ManifestError> {
        Ok(format!("{}\n", serde_json::to_string_pretty(self)?))
    }
}

fn dtype(scalar: Scalar) -> String {
    scalar.python_name().to_owned()
}

fn shape_of(ty: Type) -> Vec<Option<u64>> {
    ty.composite_within().map(|c| c.shape().iter().map(|&n| Some(n.into())).collect()).unwrap_or_default()
}

fn parameters(function: &ArtifactFunction) -> Vec<ManifestParameter> {
    let signature = &function.signature;
    let arguments = signature.arguments().into_iter().zip(signature.argument_names());
    let of = |(position, (argument, name)): (usize, (NativeArgument, String))| {
        let parameter = |kind: &str, elem: Scalar, shape: Vec<Option<u64>>, written: bool| ManifestParameter {
            name: name.clone(),
            kind: kind.to_owned(),
            dtype: dtype(elem),
            shape,
            written,
        };
        match argument {
            NativeArgument::Extent => parameter("extent", Scalar::I64, Vec::new(), false),
            NativeArgument::Scalar(scalar) => parameter("scalar", scalar, Vec::new(), false),
            NativeArgument::Components(composite) => {
                parameter("components", composite.elem(), shape_of(Type::Composite(composite)), false)
            }
            NativeArgument::Array { elem, ndim, is_written } => {
                let inner = shape_of(signature.params[position - usize::from(signature.launch_rank)].ty);
                let outer = usize::from(ndim) - inner.len();
                let unknown = || std::iter::repeat_n(None, outer).chain(inner).collect();
                parameter("array", elem, function.extents(position).unwrap_or_else(unknown), is_written)
            }
            NativeArgument::Workspace => {
                parameter("workspace", Scalar::U8, vec![Some(signature.workspace_bytes)], true)
            }
            NativeArgument::Result(ty) => parameter("result", ty.scalar_within(), shape_of(ty), true),
        }
    };
    arguments.enumerate().map(of).collect()
}

/// The manifest of an artifact with these files.
pub(super) fn manifest(artifact: &Artifact, files: Vec<ManifestFile>) -> Manifest {
    let entries = artifact.functions.iter().map(|function| {
        let signature = &function.signature;
        let has_arrays = signature.params.iter().any(|param| param.ty.as_any_array().is_some());
        let mut constraints = Vec::new();
        if has_arrays {
            constraints.push("extents of arrays are at most 2147483647".to_owned());
            constraints.push("elements lie at multiples of their size".to_owned());
        }
        if signature.launch_rank > 0 {
            constraints.push("the product of the extents is at most 2147483647".to_owned());
        }
        if let Some(demands) = &function.demands {
            // The checks that the function makes itself, of which it returns the number.
            constraints.extend(demands.texts(signature));
        } else if has_arrays && function.checks.is_empty() {
            constraints.push("indices are within the arrays".to_owned());
        }
        if !function.cores.is_empty() {
            let cores: Vec<String> = function.cores.iter().map(u32::to_string).collect();
            constraints.push(format!("the calling thread is confined to the cores {}", cores.join(", ")));
        }
        ManifestEntry {
            name: signature.name.to_string(),
            kind: function.kind.name().to_owned(),
            prototype: prototype(signature),
            launch_rank: signature.launch_rank,
            float_mode: function.float_mode.name().to_owned(),
            parameters: parameters(function),
            returns: match signature.returns {
                NativeReturn::Status => "status".to_owned(),
                NativeReturn::Value(scalar) => dtype(scalar),
            },
            checks: function.checks.clone(),
            constraints,
            extent: function.demands.as_ref().and_then(|demands| demands.chosen.as_ref()).map(|chosen| {
                ManifestExtent { name: chosen.name.to_string(), least: chosen.range.0, greatest: chosen.range.1 }
            }),
            promises: function.promises.clone(),
        }
    });
    Manifest {
        schema: MANIFEST_SCHEMA,
        name: artifact.name.clone(),
        polyloom: env!("CARGO_PKG_VERSION").to_owned(),
        abi: NATIVE_ABI,
        target: ManifestTarget {
            triple: artifact.triple.clone(),
            cpus: artifact.cpus.iter().map(|cpu| cpu.name().to_owned()).collect(),
        },
        files,
        entries: entries.collect(),
    }
}
