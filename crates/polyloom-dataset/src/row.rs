//! What a data set holds of one kernel.

use crate::generate::{ProgramExtent, ProgramInput};
use crate::proof::ProofLevel;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};

macro_rules! columns {
    ($($(#[doc = $doc:literal])+ $name:ident: $ty:ty,)+ extra $($(#[doc = $extra_doc:literal])+ $extra:ident,)+) => {
        /// The columns of a data set, in order.
        pub const COLUMNS: [&str; 14] = [$(stringify!($name)),+];

        /// Columns that a data set has if they are asked for, because they come from tools that not every machine has.
        pub const EXTRA_COLUMNS: [&str; 6] = [$(stringify!($extra)),+];

        /// A row. A column that is not asked for, or that the kernel has nothing for, is `None`.
        #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Row {
            $($(#[doc = $doc])+ pub $name: $ty,)+
            $($(#[doc = $extra_doc])+ pub $extra: Option<String>,)+
        }

        impl Serialize for SelectedColumns<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                $(if self.columns.iter().any(|column| column == stringify!($name)) {
                    map.serialize_entry(stringify!($name), &self.row.$name)?;
                })+
                $(if self.columns.iter().any(|column| column == stringify!($extra)) {
                    map.serialize_entry(stringify!($extra), &self.row.$extra)?;
                })+
                map.end()
            }
        }
    };
}

columns! {
    /// The seed and the index that the kernel was generated from; of one that was found in a file, a hash of all files
    /// in place of the seed.
    id: String,
    /// The name of the kernel in `python_source`.
    kernel_name: String,
    /// Holds what the kernel is an example of.
    category: String,
    /// The kernel and all it needs, a complete file.
    python_source: String,
    /// CUDA C++ of the kernel.
    cuda_forward: Option<String>,
    /// CUDA C++ of its backward kernel.
    cuda_backward: Option<String>,
    /// C++ of the kernel.
    cpp_forward: Option<String>,
    /// C++ of its backward kernel.
    cpp_backward: Option<String>,
    /// LLVM IR of the kernel, for a GPU, optimised.
    llvm_ir_forward: Option<String>,
    /// PTX of the kernel.
    ptx_forward: Option<String>,
    /// PTX of its backward kernel.
    ptx_backward: Option<String>,
    /// The kernel's HIR.
    hir: Option<String>,
    /// Says which devices the row has code for: `cuda`, `cpu` or `both`.
    device: String,
    /// Holds what there is to know of the row.
    metadata: Option<RowMetadata>,
    extra
    /// PTX that NVRTC makes of `cuda_forward`.
    nvrtc_ptx_forward,
    /// PTX that NVRTC makes of `cuda_backward`.
    nvrtc_ptx_backward,
    /// What `ptxas --verbose` says of `ptx_forward`: registers, memory, spills.
    ptxas_forward,
    /// The same of `ptx_backward`.
    ptxas_backward,
    /// Warp's CUDA C++ of the kernel, forward and backward.
    warp_cuda,
    /// Warp's C++ of the kernel, forward and backward.
    warp_cpp,
}

/// All columns there are, in order.
pub fn all_columns() -> impl Iterator<Item = &'static str> {
    COLUMNS.into_iter().chain(EXTRA_COLUMNS)
}

/// The column that a tool makes this one of.
pub(crate) fn made_of(column: &str) -> Option<&'static str> {
    match column {
        "nvrtc_ptx_forward" => Some("cuda_forward"),
        "nvrtc_ptx_backward" => Some("cuda_backward"),
        "ptxas_forward" => Some("ptx_forward"),
        "ptxas_backward" => Some("ptx_backward"),
        _ => None,
    }
}

/// Some columns of a row, as it is written: in the order of [`all_columns`], `null` where the row has nothing.
pub(crate) struct SelectedColumns<'a> {
    /// The row.
    pub(crate) row: &'a Row,
    /// The columns.
    pub(crate) columns: &'a [String],
}

/// Describes what there is to know of a row.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowMetadata {
    /// As the column.
    pub device: String,
    /// True if the kernel has a backward kernel.
    pub has_backward: bool,
    /// Lines of the first forward column of CUDA C++, C++ and PTX that the row has.
    pub forward_lines: usize,
    /// The same of the backward columns; 0 if there is none.
    pub backward_lines: usize,
    /// Milliseconds from seed to row, if the run was asked for them: with them no two runs write the same bytes.
    pub generation_time_ms: Option<f64>,
    /// True if no GPU has run the code, because always, the simulator does.
    pub codegen_only: bool,
    /// True if NVIDIA's driver saw a GPU when the code was made, if the run was asked how long rows took, because it is
    /// not the same on all machines.
    pub cuda_available_at_generation: Option<bool>,
    /// The compiler that took the row's CUDA C++: `nvrtc`, or without it `clang++` or `g++`, which check syntax and types.
    /// It depends on the machine.
    pub cuda_compiler: Option<String>,
    /// The highest level of verification that the row has passed.
    pub verified: ProofLevel,
    /// The architecture that PTX and LLVM IR are for.
    pub arch: String,
    /// Holds what the kernel takes, a record for each leaf of its parameters.
    pub inputs: Vec<ProgramInput>,
    /// The extents of a launch.
    pub launch: Vec<ProgramExtent>,
    /// The ops of its HIR, each once, by name.
    pub ops: Vec<String>,
    /// Says how deep its values are made of each other.
    pub depth: usize,
    /// From 0, a line or two, to 4.
    pub difficulty: u8,
    /// Holds what tells kernels from each other.
    pub hashes: KernelHashes,
    /// The place where the kernel was found: a file and the line of its definition; none of one that was generated.
    pub origin: Option<String>,
    /// The seed of the data set.
    pub seed: u64,
    /// The index of the row.
    pub index: u64,
    /// Holds what made the row.
    pub versions: ToolVersions,
    /// The licence of the row.
    pub license: String,
}

/// Hashes of a kernel, as hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelHashes {
    /// Hash of its text.
    pub exact: String,
    /// Hash of its HIR, in which names do not count.
    pub alpha: String,
    /// The same without the values of constants.
    pub structure: String,
}

/// Describes what made a row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolVersions {
    /// The compiler.
    pub polyloom: String,
    /// The generator: another number, other kernels for the same seed.
    pub generator: u32,
}

#[cfg(test)]
mod tests {
    use crate::generate::InputValues;

    #[test]
    fn numbers_are_read_as_they_were_written() {
        // The parser's quick way is off by one digit here.
        for high in [0.15 * 1.5, 0.1 + 0.2, 1e23, f64::MIN_POSITIVE] {
            let values = InputValues::Between { low: -high, high };
            let text = serde_json::to_string(&values).expect("it can be written");
            assert_eq!(serde_json::from_str::<InputValues>(&text).expect("it can be read"), values);
        }
    }
}
