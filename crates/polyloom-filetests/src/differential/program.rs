//! A random kernel as text, and what it takes.

use polyloom_ir::{Composite, CompositeKind, Scalar, Type};
use std::fmt::Write as _;

/// An array parameter of a generated kernel.
#[derive(Clone, Debug)]
pub struct ArrayParam {
    /// Element type, a scalar or a composite.
    pub elem: Type,
    /// Number of dimensions.
    pub ndim: usize,
    /// Holds what the kernel does with it.
    pub access: ArrayUse,
    /// True if its shape is that of the array before, since both are leaves of the same array of structs, or of the
    /// launch's shape.
    pub same_shape: bool,
}

/// Describes how a generated kernel uses an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArrayUse {
    /// Loads from anywhere.
    Read,
    /// Loads from and stores to the thread's own element, or its own row where the launch has fewer axes.
    Own,
    /// Commutative atomics anywhere.
    Shared,
}

/// A generated kernel: its text and what it takes.
#[derive(Clone, Debug)]
pub struct RandomProgram {
    /// The source; the kernel is called `kernel`.
    pub text: String,
    /// Scalar parameters, then the components of composite ones; they come first.
    pub scalars: Vec<Scalar>,
    /// Array parameters.
    pub arrays: Vec<ArrayParam>,
    /// Rank of the launch.
    pub rank: usize,
}

impl RandomProgram {
    /// Returns true if the kernel is compiled with checks.
    pub(super) fn is_checked(&self) -> bool {
        self.text.contains("(check=True)")
    }

    /// Returns true if its threads work together in blocks.
    pub(super) fn is_in_blocks(&self) -> bool {
        self.text.contains("(block_dim=")
    }

    /// Returns true if it may be launched over whole warps alone.
    pub(super) fn needs_whole_warps(&self) -> bool {
        self.text.contains("loom.lane_id()")
    }

    /// The comment line that says what the program takes, for a file that [`RandomProgram::from_text`] reads back.
    pub fn header(&self) -> String {
        let scalars: Vec<&str> = self.scalars.iter().map(|s| s.name()).collect();
        let array = |a: &ArrayParam| {
            let same = if a.same_shape { "+" } else { "" };
            format!("{}:{}:{}{same}", element_name(a.elem), a.ndim, a.access.name())
        };
        let arrays: Vec<String> = self.arrays.iter().map(array).collect();
        format!("# rank {} | {} | {}", self.rank, scalars.join(" "), arrays.join(" "))
    }

    /// A program kept in a file, with a line that [`RandomProgram::header`] made.
    ///
    /// # Errors
    ///
    /// What is wrong with that line.
    pub fn from_text(text: String) -> Result<RandomProgram, String> {
        let header =
            text.lines().find_map(|line| line.strip_prefix("# rank ")).ok_or("no line starts with `# rank`")?;
        let scalar = |name: &str| Scalar::from_name(name).ok_or_else(|| format!("`{name}` is no scalar type"));
        let [rank, scalars, arrays] = header.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            return Err(format!("`{header}` has not three parts"));
        };
        let rank = rank.parse().map_err(|_| format!("`{rank}` is no rank"))?;
        let scalars = scalars.split_whitespace().map(scalar).collect::<Result<_, _>>()?;
        let array = |text: &str| {
            let [elem, ndim, access] = text.split(':').collect::<Vec<_>>()[..] else {
                return Err(format!("`{text}` is no array"));
            };
            let ndim = ndim.parse().map_err(|_| format!("`{ndim}` is no rank"))?;
            let same_shape = access.ends_with('+');
            let access = access.trim_end_matches('+');
            let access = ArrayUse::ALL.into_iter().find(|a| a.name() == access);
            Ok(ArrayParam { elem: element_from_name(elem)?, ndim, access: access.ok_or("no such access")?, same_shape })
        };
        let arrays = arrays.split_whitespace().map(array).collect::<Result<_, _>>()?;
        Ok(RandomProgram { text, scalars, arrays, rank })
    }
}

/// A type of elements in a header: `f32`, `vector/f32/3`, `quaternion/f64`.
fn element_name(ty: Type) -> String {
    let Some(composite) = ty.as_composite() else { return ty.to_string() };
    let mut name = format!("{}/{}", composite.kind().python_name(), composite.elem());
    if matches!(composite, Composite::Vector { .. } | Composite::Matrix { .. }) {
        for extent in composite.shape() {
            let _ = write!(name, "/{extent}");
        }
    }
    name
}

fn element_from_name(name: &str) -> Result<Type, String> {
    let unknown = || format!("`{name}` is no type of elements");
    let mut parts = name.split('/');
    let kind = parts.next().unwrap_or_default();
    let Some(elem) = parts.next() else {
        return Scalar::from_name(kind).map(Type::Scalar).ok_or_else(unknown);
    };
    let shape: Vec<i128> = parts.map(|n| n.parse().map_err(|_| unknown())).collect::<Result<_, _>>()?;
    let kind = CompositeKind::from_python_name(kind).ok_or_else(unknown)?;
    let elem = Scalar::from_name(elem).ok_or_else(unknown)?;
    Composite::new(kind, elem, &shape).map(Type::Composite)
}

impl ArrayUse {
    const ALL: [ArrayUse; 3] = [ArrayUse::Read, ArrayUse::Own, ArrayUse::Shared];

    fn name(self) -> &'static str {
        match self {
            ArrayUse::Read => "read",
            ArrayUse::Own => "own",
            ArrayUse::Shared => "shared",
        }
    }
}

/// A name for a part of an array, or for an array of the thread's own.
#[derive(Clone)]
pub(super) struct NamedPart {
    pub(super) name: String,
    pub(super) elem: Type,
    pub(super) ndim: usize,
    /// Says how many of the thread's coordinates chose the part, if the array is one of which a thread has one element.
    pub(super) n_chosen: Option<usize>,
    pub(super) is_writable: bool,
    /// True if it is an array of the thread's own.
    pub(super) is_local: bool,
}

impl NamedPart {
    /// Returns true if this thread may read all of it.
    pub(super) fn is_free(&self) -> bool {
        self.n_chosen.is_none()
    }
}

/// Describes what a kernel has for its threads to work together.
#[derive(Clone, Default)]
pub(super) struct BlockNeeds {
    /// Threads of a block.
    pub(super) size: usize,
    /// True if it has warp operations.
    pub(super) warps: bool,
    /// Shared arrays: names and types of elements.
    pub(super) shared: Vec<(String, Type)>,
}

/// A function that the text defines.
pub(super) struct UserFunction {
    pub(super) name: String,
    pub(super) params: Vec<Type>,
    pub(super) results: Vec<Type>,
}
