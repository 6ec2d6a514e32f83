//! A generated kernel and what it is launched with.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

macro_rules! categories {
    ($($(#[doc = $doc:literal])+ $category:ident = $name:literal,)+) => {
        /// Describes what a kernel is an example of.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum Category {
            $($(#[doc = $doc])+ $category,)+
        }

        impl Category {
            /// All of them, in the order in which kernels are dealt out.
            pub const ALL: &[Category] = &[$(Category::$category),+];

            /// Its name in data sets and on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Category::$category => $name,)+
                }
            }
        }
    };
}

categories! {
    /// Arithmetic on numbers, element by element.
    Arithmetic = "arithmetic",
    /// Mathematical functions, element by element.
    Math = "math",
    /// Vectors.
    Vector = "vector",
    /// Matrices and rotations.
    Matrix = "matrix",
    /// Branches and early returns.
    ControlFlow = "control_flow",
    /// Loops.
    Loop = "loop",
    /// Structs.
    Struct = "struct",
    /// Functions that the kernel calls.
    Function = "function",
    /// Neighbours on a grid.
    Stencil = "stencil",
    /// Rows to numbers.
    Reduction = "reduction",
    /// Rows to rows, each element of what came before it.
    Scan = "scan",
    /// Random numbers.
    Random = "random",
    /// Threads that write to the same elements.
    Atomic = "atomic",
    /// Memory that the threads of a block share.
    SharedMemory = "shared_memory",
    /// Lanes of a warp that exchange values.
    Warp = "warp",
    /// Matrix products by the tensor core.
    TensorCore = "tensor_core",
    /// Kernels such as programs have.
    Composite = "composite",
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no such category.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownCategory(pub String);

impl fmt::Display for UnknownCategory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<&str> = Category::ALL.iter().map(|category| category.name()).collect();
        write!(f, "there is no category `{}`; there are {}", self.0, known.join(", "))
    }
}

impl std::error::Error for UnknownCategory {}

impl FromStr for Category {
    type Err = UnknownCategory;

    fn from_str(name: &str) -> Result<Category, UnknownCategory> {
        let known = Category::ALL.iter().copied().find(|category| category.name() == name);
        known.ok_or_else(|| UnknownCategory(name.to_owned()))
    }
}

/// An extent of an array or of a launch. Its text is a number, or `n0` and the like.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum ProgramExtent {
    /// This one.
    Is(u32),
    /// Any: the same wherever the number recurs.
    Free(u8),
}

impl From<ProgramExtent> for String {
    fn from(extent: ProgramExtent) -> String {
        match extent {
            ProgramExtent::Is(extent) => extent.to_string(),
            ProgramExtent::Free(name) => format!("n{name}"),
        }
    }
}

impl TryFrom<String> for ProgramExtent {
    type Error = String;

    fn try_from(text: String) -> Result<ProgramExtent, String> {
        let extent = match text.strip_prefix('n') {
            Some(name) => name.parse().ok().map(ProgramExtent::Free),
            None => text.parse().ok().map(ProgramExtent::Is),
        };
        extent.ok_or_else(|| format!("`{text}` is no extent"))
    }
}

/// Describes what a parameter may be given.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum InputValues {
    /// Numbers from `low` to `high`, whole ones for integers.
    Between {
        /// The least.
        low: f64,
        /// The largest.
        high: f64,
    },
    /// Directions and rotations: vectors of length one.
    Unit,
    /// Zeros, because the kernel writes here.
    Zeros,
}

/// Describes what a parameter of a kernel takes, or a leaf of one that is a struct.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramInput {
    /// Its name: `p.mass` of a field.
    pub name: String,
    /// Its type, or that of its elements, as Python spells it.
    pub dtype: String,
    /// Extents of an array; empty for other parameters.
    pub shape: Vec<ProgramExtent>,
    /// Holds what it may be given.
    pub values: InputValues,
}

/// A kernel, generated or found in a file.
#[derive(Clone, PartialEq, Debug)]
pub struct DatasetProgram {
    /// The kernel's name.
    pub name: String,
    /// Holds what it is an example of: the name of a [`Category`], or what kernels of files are called.
    pub category: Cow<'static, str>,
    /// From 0, a line or two, to 4.
    pub difficulty: u8,
    /// The file: an import, functions, the kernel.
    pub source: String,
    /// The parameters of the kernel's HIR.
    pub inputs: Vec<ProgramInput>,
    /// The threads of a launch along each axis.
    pub dim: Vec<ProgramExtent>,
}
