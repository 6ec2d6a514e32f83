//! The types of HIR values.
//!
//! A [`Type`] is a small `Copy` value that means the same in every module, so functions move between modules
//! (inlining, the math library) without translation.

use smallvec::{SmallVec, smallvec};
use std::fmt;

/// A scalar type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Scalar {
    /// One byte in memory, 0 or 1.
    Bool,
    /// Signed integers, two's complement, wrapping.
    I8,
    /// 16-bit signed integer.
    I16,
    /// 32-bit signed integer.
    I32,
    /// 64-bit signed integer.
    I64,
    /// Unsigned integers, wrapping.
    U8,
    /// 16-bit unsigned integer.
    U16,
    /// 32-bit unsigned integer.
    U32,
    /// 64-bit unsigned integer.
    U64,
    /// IEEE binary16.
    F16,
    /// The upper half of an IEEE binary32.
    BF16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
}

impl Scalar {
    /// Every scalar type, in declaration order.
    pub const ALL: [Scalar; 13] = [
        Scalar::Bool,
        Scalar::I8,
        Scalar::I16,
        Scalar::I32,
        Scalar::I64,
        Scalar::U8,
        Scalar::U16,
        Scalar::U32,
        Scalar::U64,
        Scalar::F16,
        Scalar::BF16,
        Scalar::F32,
        Scalar::F64,
    ];

    /// The name in HIR text: `i32`, `bf16`, …
    pub fn name(self) -> &'static str {
        match self {
            Scalar::Bool => "bool",
            Scalar::I8 => "i8",
            Scalar::I16 => "i16",
            Scalar::I32 => "i32",
            Scalar::I64 => "i64",
            Scalar::U8 => "u8",
            Scalar::U16 => "u16",
            Scalar::U32 => "u32",
            Scalar::U64 => "u64",
            Scalar::F16 => "f16",
            Scalar::BF16 => "bf16",
            Scalar::F32 => "f32",
            Scalar::F64 => "f64",
        }
    }

    /// The name a Python user knows: `int32`, `bfloat16`, …
    pub fn python_name(self) -> &'static str {
        match self {
            Scalar::Bool => "bool",
            Scalar::I8 => "int8",
            Scalar::I16 => "int16",
            Scalar::I32 => "int32",
            Scalar::I64 => "int64",
            Scalar::U8 => "uint8",
            Scalar::U16 => "uint16",
            Scalar::U32 => "uint32",
            Scalar::U64 => "uint64",
            Scalar::F16 => "float16",
            Scalar::BF16 => "bfloat16",
            Scalar::F32 => "float32",
            Scalar::F64 => "float64",
        }
    }

    /// The scalar with this HIR name.
    pub fn from_name(name: &str) -> Option<Scalar> {
        Scalar::ALL.into_iter().find(|s| s.name() == name)
    }

    /// The scalar with this Python name.
    pub fn from_python_name(name: &str) -> Option<Scalar> {
        Scalar::ALL.into_iter().find(|s| s.python_name() == name)
    }

    /// Size in memory, in bytes; also the alignment.
    pub fn bytes(self) -> u32 {
        match self {
            Scalar::Bool | Scalar::I8 | Scalar::U8 => 1,
            Scalar::I16 | Scalar::U16 | Scalar::F16 | Scalar::BF16 => 2,
            Scalar::I32 | Scalar::U32 | Scalar::F32 => 4,
            Scalar::I64 | Scalar::U64 | Scalar::F64 => 8,
        }
    }

    /// Width of the value in bits; 1 for `bool`.
    pub fn bits(self) -> u32 {
        if self == Scalar::Bool { 1 } else { self.bytes() * 8 }
    }

    /// Returns true if this is an integer type (`bool` is not).
    pub fn is_int(self) -> bool {
        self.is_signed_int() || self.is_unsigned_int()
    }

    /// Returns true if this is a signed integer type.
    pub fn is_signed_int(self) -> bool {
        matches!(self, Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64)
    }

    /// Returns true if this is an unsigned integer type.
    pub fn is_unsigned_int(self) -> bool {
        matches!(self, Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64)
    }

    /// Returns true if this is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, Scalar::F16 | Scalar::BF16 | Scalar::F32 | Scalar::F64)
    }

    /// Returns true if arithmetic on this type is done in `f32` and rounded after every operation.
    pub fn is_half(self) -> bool {
        matches!(self, Scalar::F16 | Scalar::BF16)
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The most dimensions that a launch, or an array of a program, can have.
pub const MAX_DIMS: usize = 4;

/// The most axes of an array in HIR: those of a program's array and, of an array of matrices, the two of its elements.
pub const MAX_AXES: usize = MAX_DIMS + 2;

/// A type of several scalars of one type: what `scalarise` takes apart before back ends see it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Composite {
    /// A vector.
    Vector {
        /// Holds what each component is.
        elem: Scalar,
        /// Number of components.
        len: u16,
    },
    /// A matrix; its components are in row-major order.
    Matrix {
        /// Holds what each component is.
        elem: Scalar,
        /// Number of rows.
        rows: u8,
        /// Number of columns.
        cols: u8,
    },
    /// A quaternion: x, y, z and the real part w.
    Quaternion {
        /// Holds what each component is.
        elem: Scalar,
    },
    /// A rigid transformation: a translation's three components, then a rotation's quaternion.
    Transform {
        /// Holds what each component is.
        elem: Scalar,
    },
}

/// The most components a composite can have.
pub const MAX_COMPONENTS: usize = 1024;

/// The kinds of composites.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CompositeKind {
    /// [`Composite::Vector`].
    Vector,
    /// [`Composite::Matrix`].
    Matrix,
    /// [`Composite::Quaternion`].
    Quaternion,
    /// [`Composite::Transform`].
    Transform,
}

impl CompositeKind {
    const NAMES: [(CompositeKind, &'static str); 4] = [
        (CompositeKind::Vector, "vector"),
        (CompositeKind::Matrix, "matrix"),
        (CompositeKind::Quaternion, "quaternion"),
        (CompositeKind::Transform, "transformation"),
    ];

    /// The name of the function of Python that makes types of this kind: `vector`, `matrix`, `quaternion`,
    /// `transformation`.
    pub fn python_name(self) -> &'static str {
        CompositeKind::NAMES.into_iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// The kind with this name.
    pub fn from_python_name(name: &str) -> Option<CompositeKind> {
        CompositeKind::NAMES.into_iter().find(|(_, known)| *known == name).map(|(kind, _)| kind)
    }
}

impl Composite {
    /// The composite of this kind and element type. `shape` is a vector's length or a matrix's rows and columns, and
    /// empty for the others.
    ///
    /// # Errors
    ///
    /// Why there is no such composite.
    pub fn new(kind: CompositeKind, elem: Scalar, shape: &[i128]) -> Result<Composite, String> {
        let name = kind.python_name();
        let extent = |n: i128| u16::try_from(n).ok().filter(|&n| (1..=MAX_COMPONENTS).contains(&n.into()));
        let too_many = || format!("a {name} has 1 to {MAX_COMPONENTS} components");
        match (kind, shape) {
            (CompositeKind::Vector, &[len]) => Ok(Composite::Vector { elem, len: extent(len).ok_or_else(too_many)? }),
            (CompositeKind::Matrix, &[rows, cols]) => {
                let extents =
                    extent(rows).zip(extent(cols)).filter(|&(r, c)| usize::from(r) * usize::from(c) <= MAX_COMPONENTS);
                let extents = extents.and_then(|(rows, cols)| Some((rows.try_into().ok()?, cols.try_into().ok()?)));
                let (rows, cols) = extents.ok_or_else(|| format!("{}, at most 255 along each axis", too_many()))?;
                Ok(Composite::Matrix { elem, rows, cols })
            }
            (CompositeKind::Matrix, _) => Err("the shape of a matrix is its number of rows and of columns".to_owned()),
            (CompositeKind::Quaternion, []) if elem.is_float() => Ok(Composite::Quaternion { elem }),
            (CompositeKind::Transform, []) if elem.is_float() => Ok(Composite::Transform { elem }),
            (CompositeKind::Quaternion | CompositeKind::Transform, []) => {
                Err(format!("a {name} has components of a float type, not {}", elem.python_name()))
            }
            _ => Err(format!("there is no {name} of shape {shape:?}")),
        }
    }

    /// Returns which kind it is of.
    pub fn kind(self) -> CompositeKind {
        match self {
            Composite::Vector { .. } => CompositeKind::Vector,
            Composite::Matrix { .. } => CompositeKind::Matrix,
            Composite::Quaternion { .. } => CompositeKind::Quaternion,
            Composite::Transform { .. } => CompositeKind::Transform,
        }
    }

    /// Returns what each component is.
    pub fn elem(self) -> Scalar {
        match self {
            Composite::Vector { elem, .. }
            | Composite::Matrix { elem, .. }
            | Composite::Quaternion { elem }
            | Composite::Transform { elem } => elem,
        }
    }

    /// The same composite of other components.
    pub fn with_elem(self, elem: Scalar) -> Composite {
        match self {
            Composite::Vector { len, .. } => Composite::Vector { elem, len },
            Composite::Matrix { rows, cols, .. } => Composite::Matrix { elem, rows, cols },
            Composite::Quaternion { .. } => Composite::Quaternion { elem },
            Composite::Transform { .. } => Composite::Transform { elem },
        }
    }

    /// The extents of the array of its components: one, or rows and columns.
    pub fn shape(self) -> SmallVec<[u16; 2]> {
        match self {
            Composite::Vector { len, .. } => smallvec![len],
            Composite::Matrix { rows, cols, .. } => smallvec![rows.into(), cols.into()],
            Composite::Quaternion { .. } => smallvec![4],
            Composite::Transform { .. } => smallvec![7],
        }
    }

    /// Returns the number of components it has.
    pub fn n_components(self) -> usize {
        self.shape().iter().map(|&n| usize::from(n)).product()
    }

    /// The name a Python user knows: `vec3`, `mat22d`, `vector(length=5, dtype=float32)`.
    pub fn python_name(self) -> String {
        let elem = self.elem();
        let suffix = Composite::SUFFIXES.iter().find(|(scalar, _)| *scalar == elem).map_or("", |(_, suffix)| suffix);
        match self {
            Composite::Vector { len: len @ 2..=4, .. } if elem != Scalar::Bool => format!("vec{len}{suffix}"),
            Composite::Vector { len, .. } => format!("vector(length={len}, dtype={})", elem.python_name()),
            Composite::Matrix { rows: n @ 2..=4, cols, .. } if cols == n && elem.is_float() => {
                format!("mat{n}{n}{suffix}")
            }
            Composite::Matrix { rows, cols, .. } => {
                format!("matrix(shape=({rows}, {cols}), dtype={})", elem.python_name())
            }
            Composite::Quaternion { .. } => format!("quat{suffix}"),
            Composite::Transform { .. } => format!("transform{suffix}"),
        }
    }

    /// The letters that stand for an element type at the end of names such as `vec3d`. Those of `float32` may be
    /// left out, and are.
    pub const SUFFIXES: [(Scalar, &'static str); 12] = [
        (Scalar::F32, ""),
        (Scalar::F64, "d"),
        (Scalar::F16, "h"),
        (Scalar::BF16, "bf"),
        (Scalar::I8, "b"),
        (Scalar::U8, "ub"),
        (Scalar::I16, "s"),
        (Scalar::U16, "us"),
        (Scalar::I32, "i"),
        (Scalar::U32, "ui"),
        (Scalar::I64, "l"),
        (Scalar::U64, "ul"),
    ];

    /// The composite with this Python name: `vec2` to `vec4`, `mat22` to `mat44`, `quat`, `transform`,
    /// `spatial_vector`, `spatial_matrix`, with the letters of an element type or `f` behind.
    pub fn from_python_name(name: &str) -> Option<Composite> {
        Composite::STEMS.into_iter().find_map(|(stem, composite)| {
            let suffix = name.strip_prefix(stem)?;
            let suffix = if suffix == "f" { "" } else { suffix };
            let (elem, _) = Composite::SUFFIXES.into_iter().find(|(_, known)| *known == suffix)?;
            Composite::has_name(stem, elem).then(|| composite.with_elem(elem))
        })
    }

    /// Every name that [`Composite::from_python_name`] knows, with what it names.
    pub fn named() -> impl Iterator<Item = (String, Composite)> {
        let suffixes = || Composite::SUFFIXES.into_iter().chain([(Scalar::F32, "f")]);
        Composite::STEMS.into_iter().flat_map(move |(stem, composite)| {
            let suffixes = suffixes().filter(move |&(elem, _)| Composite::has_name(stem, elem));
            suffixes.map(move |(elem, suffix)| (format!("{stem}{suffix}"), composite.with_elem(elem)))
        })
    }

    /// Returns true if composites of this stem and element type have a name of their own.
    fn has_name(stem: &str, elem: Scalar) -> bool {
        stem.starts_with("vec") || elem.is_float()
    }

    const STEMS: [(&'static str, Composite); 10] = [
        ("vec2", Composite::Vector { elem: Scalar::F32, len: 2 }),
        ("vec3", Composite::Vector { elem: Scalar::F32, len: 3 }),
        ("vec4", Composite::Vector { elem: Scalar::F32, len: 4 }),
        ("mat22", Composite::Matrix { elem: Scalar::F32, rows: 2, cols: 2 }),
        ("mat33", Composite::Matrix { elem: Scalar::F32, rows: 3, cols: 3 }),
        ("mat44", Composite::Matrix { elem: Scalar::F32, rows: 4, cols: 4 }),
        ("quat", Composite::Quaternion { elem: Scalar::F32 }),
        ("transform", Composite::Transform { elem: Scalar::F32 }),
        ("spatial_vector", Composite::Vector { elem: Scalar::F32, len: 6 }),
        ("spatial_matrix", Composite::Matrix { elem: Scalar::F32, rows: 6, cols: 6 }),
    ];
}

impl fmt::Display for Composite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Composite::Vector { elem, len } => write!(f, "vec<{elem}, {len}>"),
            Composite::Matrix { elem, rows, cols } => write!(f, "mat<{elem}, {rows}, {cols}>"),
            Composite::Quaternion { elem } => write!(f, "quat<{elem}>"),
            Composite::Transform { elem } => write!(f, "transform<{elem}>"),
        }
    }
}

/// Says where an array's memory is. The numbers are those of PTX and LLVM.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum AddressSpace {
    /// Anywhere; found out at run time.
    Generic = 0,
    /// Memory of the device: that of a kernel's array arguments.
    #[default]
    Global = 1,
    /// Memory that the threads of a block have in common.
    Shared = 3,
    /// Memory that no kernel writes.
    Constant = 4,
    /// Memory of one thread.
    Local = 5,
}

impl AddressSpace {
    /// Every address space.
    pub const ALL: [AddressSpace; 5] = [
        AddressSpace::Generic,
        AddressSpace::Global,
        AddressSpace::Shared,
        AddressSpace::Constant,
        AddressSpace::Local,
    ];

    /// The name in HIR text: `shared`.
    pub fn name(self) -> &'static str {
        match self {
            AddressSpace::Generic => "generic",
            AddressSpace::Global => "global",
            AddressSpace::Shared => "shared",
            AddressSpace::Constant => "constant",
            AddressSpace::Local => "local",
        }
    }

    /// The space with this name.
    pub fn from_name(name: &str) -> Option<AddressSpace> {
        AddressSpace::ALL.into_iter().find(|space| space.name() == name)
    }
}

/// The type of an HIR value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Type {
    /// One scalar.
    Scalar(Scalar),
    /// Several scalars.
    Composite(Composite),
    /// A strided view of memory: base pointer, extents and byte strides.
    Array {
        /// Holds what each element is.
        elem: Scalar,
        /// Number of axes, 1 to [`MAX_AXES`].
        ndim: u8,
        /// The place where its memory is.
        space: AddressSpace,
    },
    /// An array of composites. `scalarise` makes it an array of scalars with the dimensions of [`Composite::shape`]
    /// after its own.
    CompositeArray {
        /// Holds what each element is.
        elem: Composite,
        /// Number of dimensions, without those of the elements.
        ndim: u8,
        /// The place where its memory is.
        space: AddressSpace,
    },
}

impl Type {
    /// Returns true if it is a floating-point type, a composite of such, or an array of either.
    pub fn is_float(self) -> bool {
        match self {
            Type::Scalar(elem) | Type::Array { elem, .. } => elem.is_float(),
            Type::Composite(elem) | Type::CompositeArray { elem, .. } => elem.elem().is_float(),
        }
    }

    /// `bool`
    pub const BOOL: Type = Type::Scalar(Scalar::Bool);
    /// `i32`
    pub const I32: Type = Type::Scalar(Scalar::I32);
    /// `i64`
    pub const I64: Type = Type::Scalar(Scalar::I64);
    /// `u32`
    pub const U32: Type = Type::Scalar(Scalar::U32);
    /// `u64`
    pub const U64: Type = Type::Scalar(Scalar::U64);
    /// `f32`
    pub const F32: Type = Type::Scalar(Scalar::F32);
    /// `f64`
    pub const F64: Type = Type::Scalar(Scalar::F64);

    /// The scalar, if this is a scalar type.
    pub fn as_scalar(self) -> Option<Scalar> {
        match self {
            Type::Scalar(s) => Some(s),
            _ => None,
        }
    }

    /// The composite, if this is a composite type.
    pub fn as_composite(self) -> Option<Composite> {
        match self {
            Type::Composite(composite) => Some(composite),
            _ => None,
        }
    }

    /// The types of the values that stand for one of this type: a composite's components, or itself.
    pub fn components(self) -> SmallVec<[Type; 4]> {
        match self {
            Type::Composite(composite) => SmallVec::from_elem(composite.elem().into(), composite.n_components()),
            ty => smallvec![ty],
        }
    }

    /// The scalar of all numbers in a value or an array of this type.
    pub fn scalar_within(self) -> Scalar {
        match self {
            Type::Scalar(scalar) | Type::Array { elem: scalar, .. } => scalar,
            Type::Composite(composite) | Type::CompositeArray { elem: composite, .. } => composite.elem(),
        }
    }

    /// The composite that this is, or that the elements of this array are.
    pub fn composite_within(self) -> Option<Composite> {
        match self {
            Type::Composite(composite) | Type::CompositeArray { elem: composite, .. } => Some(composite),
            Type::Scalar(_) | Type::Array { .. } => None,
        }
    }

    /// Returns what an element is and the number of dimensions, if this is an array of anything.
    pub fn as_any_array(self) -> Option<(Type, u8)> {
        match self {
            Type::Array { elem, ndim, .. } => Some((Type::Scalar(elem), ndim)),
            Type::CompositeArray { elem, ndim, .. } => Some((Type::Composite(elem), ndim)),
            Type::Scalar(_) | Type::Composite(_) => None,
        }
    }

    /// The type of arrays of these scalars in global memory.
    pub const fn array(elem: Scalar, ndim: u8) -> Type {
        Type::Array { elem, ndim, space: AddressSpace::Global }
    }

    /// The type of arrays of these composites in global memory.
    pub const fn composite_array(elem: Composite, ndim: u8) -> Type {
        Type::CompositeArray { elem, ndim, space: AddressSpace::Global }
    }

    /// The type of arrays with elements of this type in global memory. `None` for elements that no array has.
    pub fn array_of(elem: Type, ndim: u8) -> Option<Type> {
        match elem {
            Type::Scalar(elem) => Some(Type::array(elem, ndim)),
            Type::Composite(elem) => Some(Type::composite_array(elem, ndim)),
            Type::Array { .. } | Type::CompositeArray { .. } => None,
        }
    }

    /// Returns where this array's memory is, if this is an array.
    pub fn space(self) -> Option<AddressSpace> {
        match self {
            Type::Array { space, .. } | Type::CompositeArray { space, .. } => Some(space),
            Type::Scalar(_) | Type::Composite(_) => None,
        }
    }

    /// The same type of arrays elsewhere; other types as they are.
    #[must_use]
    pub fn in_space(self, space: AddressSpace) -> Type {
        match self {
            Type::Array { elem, ndim, .. } => Type::Array { elem, ndim, space },
            Type::CompositeArray { elem, ndim, .. } => Type::CompositeArray { elem, ndim, space },
            ty => ty,
        }
    }

    /// The element type and number of dimensions, if this is an array of scalars.
    pub fn as_array(self) -> Option<(Scalar, u8)> {
        match self {
            Type::Array { elem, ndim, .. } => Some((elem, ndim)),
            _ => None,
        }
    }

    /// The type as a Python user writes it: `float32`, `array(dtype=float32, ndim=2)`.
    pub fn python_name(self) -> String {
        match self {
            Type::Scalar(s) => s.python_name().to_owned(),
            Type::Composite(composite) => composite.python_name(),
            Type::CompositeArray { elem, ndim, space } => array_name(&elem.python_name(), ndim, space),
            Type::Array { elem, ndim, space } => array_name(elem.python_name(), ndim, space),
        }
    }
}

/// The type of arrays of these elements as a Python user writes it.
pub fn array_name(elem: &str, ndim: u8, space: AddressSpace) -> String {
    let ndim = if ndim == 1 { String::new() } else { format!(", ndim={ndim}") };
    let memory = if space == AddressSpace::Global { String::new() } else { format!("{} ", space.name()) };
    format!("{memory}array(dtype={elem}{ndim})")
}

impl From<Composite> for Type {
    fn from(composite: Composite) -> Type {
        Type::Composite(composite)
    }
}

impl From<Scalar> for Type {
    fn from(s: Scalar) -> Type {
        Type::Scalar(s)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Scalar(s) => s.fmt(f),
            Type::Composite(composite) => composite.fmt(f),
            Type::Array { elem, ndim, space: AddressSpace::Global } => write!(f, "array<{elem}, {ndim}>"),
            Type::CompositeArray { elem, ndim, space: AddressSpace::Global } => write!(f, "array<{elem}, {ndim}>"),
            Type::Array { elem, ndim, space } => write!(f, "array<{elem}, {ndim}, {}>", space.name()),
            Type::CompositeArray { elem, ndim, space } => write!(f, "array<{elem}, {ndim}, {}>", space.name()),
        }
    }
}
