//! A generated kernel and what it is launched with.

use polyloom::Type;
use std::fmt;
use std::str::FromStr;

macro_rules! categories {
    ($($(#[doc = $doc:literal])+ $category:ident = $name:literal,)+) => {
        /// What a kernel is an example of.
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

/// An extent of an array or of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Extent {
    /// This one.
    Is(u32),
    /// Any: the same wherever the number recurs.
    Free(u8),
}

/// What a parameter may be given.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Values {
    /// Numbers from `low` to `high`, whole ones for integers.
    Between {
        /// The least.
        low: f64,
        /// The largest.
        high: f64,
    },
    /// Zeros: the kernel writes here.
    Zeros,
}

/// A parameter of a generated kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Of an array, the type of its elements.
    pub elem: Type,
    /// Of an array, its extents; empty for what is no array.
    pub shape: Vec<Extent>,
    /// What it may be given.
    pub values: Values,
}

/// A generated kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// The kernel's name.
    pub name: String,
    /// What it is an example of.
    pub category: Category,
    /// From 0, a line or two, to 4.
    pub difficulty: u8,
    /// The file: an import, functions, the kernel.
    pub source: String,
    /// The kernel's parameters.
    pub inputs: Vec<Input>,
    /// The threads of a launch along each axis.
    pub dim: Vec<Extent>,
}
